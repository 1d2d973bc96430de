"""What a record keeps of a drafted token, in place of two whole distributions: some figures and the likeliest tokens.

A block's summaries are bytes: one that says the form, then for each token, little-endian, seven float32 (p(x), q(x),
TV(p, q), the largest p, the largest q, the entropy of p in nats, the tail), a byte k, k token ids of four bytes each
and their k probabilities in half precision: at most 221 bytes a token, 296 as the text that a store keeps.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from draftverify.errors import StoreError

TOP = 32
"""The likeliest tokens of p that a summary names."""

FIGURES = ("p", "q", "tv", "p_max", "q_max", "entropy", "tail")

_FORM = b"\x01"
_FLOATS, _IDS, _SHARES = np.dtype("<f4"), np.dtype("<u4"), np.dtype("<f2")


class TokenSummary(msgspec.Struct, frozen=True):
    """What is kept of one drafted token x, where the target says p and x was drawn from q.

    Args:
        p, q: p(x) and q(x); q(x) is 1 of a token that was given.
        tv: the total variation distance ½ Σ |p − q|: the share of drafts of this place that an exact rule refuses.
        p_max, q_max: the largest probability of each, at temperature 1 where the parts say it, else as it was judged.
        entropy: of p, −Σ p log p, in nats.
        tail: what p gives to all tokens outside `top`.
        top: (token, p) of the likeliest tokens that p gives anything, at most 32, the likeliest first. Probabilities
            are in half precision: 2⁻¹¹ of their size away at most, or 3·10⁻⁸ where they are below 6·10⁻⁵.
    """

    p: float
    q: float
    tv: float
    p_max: float
    q_max: float
    entropy: float
    tail: float
    top: tuple[tuple[int, float], ...]


def pack_summaries(figures: Any, ids: Any, shares: Any) -> bytes:
    """The summaries of a block's n tokens as bytes.

    Args:
        figures: [n, 7], as `FIGURES` names them.
        ids: [n, k], of the likeliest tokens, the likeliest first; k is at most 32.
        shares: [n, k], their probabilities; those of nothing are left out.
    """
    floats, names, halves = np.asarray(figures, _FLOATS), np.asarray(ids, _IDS), np.asarray(shares, _SHARES)
    parts = [_FORM]
    for row, count in enumerate(np.sum(np.asarray(shares) > 0, axis=-1).tolist()):
        parts += [floats[row].tobytes(), bytes([count])]
        parts += [names[row, :count].tobytes(), halves[row, :count].tobytes()]
    return b"".join(parts)


def read_summaries(packed: bytes) -> tuple[TokenSummary, ...]:
    """The summaries of a round's drafted tokens, `Round.tokens`; () where none were kept.

    Raises:
        StoreError: the bytes are no summaries.
    """
    if not packed:
        return ()
    summaries, at = [], 1
    try:
        if packed[:1] != _FORM:
            raise ValueError(f"they begin with {packed[:1]!r}")
        while at < len(packed):
            figures = np.frombuffer(packed, _FLOATS, len(FIGURES), at).tolist()
            at += _FLOATS.itemsize * len(FIGURES)
            count = packed[at]
            ids = np.frombuffer(packed, _IDS, count, at + 1).tolist()
            shares = np.frombuffer(packed, _SHARES, count, at + 1 + _IDS.itemsize * count).tolist()
            at += 1 + (_IDS.itemsize + _SHARES.itemsize) * count
            named = dict(zip(FIGURES, figures, strict=True))
            summaries.append(TokenSummary(**named, top=tuple(zip(ids, shares, strict=True))))
    except (ValueError, IndexError) as error:
        raise StoreError(
            f"the summaries of a round's tokens cannot be read ({error}); another version wrote them, or the record is "
            "damaged"
        ) from error
    return tuple(summaries)
