"""The functions that are compiled for a layer: attention that is split over its length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from draftverify_tokens.layer import attend

CLOSE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 4 * 2**-8}
"""For outputs below 4; four units of bfloat16, whose scores are rounded too."""
CHAIN = torch.tensor([(2 << i) - 1 for i in range(62)])


def given(
    rows: int, n: int, heads: tuple[int, int], capacity: int, dtype: Any = torch.float32
) -> tuple[Any, ...]:
    """Queries, keys and values, and buffers in which large numbers lie after the rows' ends; and the rows' starts."""
    torch.manual_seed(rows + n + capacity)
    key_heads, group = heads
    q = torch.randn(rows, n, key_heads * group, 16, dtype=dtype)
    k, v = torch.randn(2, rows, n, key_heads, 16, dtype=dtype)
    keys, values = torch.randn(2, rows + 1, key_heads, capacity, 16, dtype=dtype)[:, 1:]
    starts = torch.randint(0, capacity - n, (rows, 1))
    for row, start in enumerate(starts.flatten().tolist()):
        keys[row, :, start:] *= 1e4
        values[row, :, start:] *= 1e4
    return q, k, v, keys, values, starts


def expected(q: Any, k: Any, v: Any, keys: Any, values: Any, places: Any, sees: Any) -> tuple[Any, Any, Any]:
    """SDPA in float64 after writing row by row; sees [rows, n, capacity]."""
    keys, values = keys.clone(), values.clone()
    for row, own in enumerate(places):
        keys[row, :, own], values[row, :, own] = k[row].transpose(0, 1), v[row].transpose(0, 1)
    group = q.shape[2] // k.shape[2]
    seen = (buffer.double().repeat_interleave(group, 1) for buffer in (keys, values))
    found = functional.scaled_dot_product_attention(
        q.transpose(1, 2).double(), *seen, attn_mask=sees[:, None], scale=0.25
    )
    return found.transpose(1, 2).flatten(2), keys, values


@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_split_attention_is_attention(dtype, rows):
    """Over lengths, tokens and head groups, whatever numbers lie beyond a row's end; the new entries are in place."""
    for n in (1, 3, 8):
        for heads in ((2, 1), (1, 4), (8, 4)):
            for capacity in (16, 256, 320):
                q, k, v, keys, values, starts = given(rows, n, heads, capacity, dtype)
                places = starts + torch.arange(n)
                sees = torch.arange(capacity) <= places[:, :, None]
                want, *written = expected(q, k, v, keys, values, places, sees)
                paths = CHAIN[:n].expand(rows, n)
                found = attend(q, k, v, keys, values, places, paths, 0.25)
                torch.testing.assert_close(found.double(), want, atol=CLOSE[dtype], rtol=0)
                assert torch.equal(keys, written[0])
                assert torch.equal(values, written[1])


def test_a_tree_sees_its_paths():
    """A token sees what stands before its row, and of its row what its bits say, the sixty-fourth included."""
    q, k, v, keys, values, _ = given(2, 64, (2, 2), 256)
    starts = torch.tensor([[0], [150]])
    places = starts + torch.arange(64)
    torch.manual_seed(0)
    own = torch.tril(torch.rand(2, 64, 64) < 0.3) | torch.eye(64, dtype=torch.bool)
    sees = (torch.arange(256) < starts[:, :, None]).expand(2, 64, 256).clone()
    for row in range(2):
        sees[row, :, places[row]] = own[row]
    bits = [[sum(1 << i for i, bit in enumerate(line) if bit) for line in row] for row in own.tolist()]
    paths = torch.tensor([[b - (1 << 64) if b >> 63 else b for b in row] for row in bits])
    want, *_ = expected(q, k, v, keys, values, places, sees)
    torch.testing.assert_close(
        attend(q, k, v, keys, values, places, paths, 0.25).double(), want, atol=1e-5, rtol=0
    )
