"""The drift meter of laws that are not exact: how far from the target's distribution each emitted value's lies."""

from __future__ import annotations

from collections.abc import Callable

from array_api_compat import device

from draftverify.arrays import on_host, positive
from draftverify.randomness import array_namespace
from draftverify.rules.chains import Blocks
from draftverify.values import Array


def drift_of(batch: Blocks, lengths: Array, emitted: Callable[..., Array]) -> Array:
    """[batch, n + 1], TV(π, p) at each position that was judged.

    Judged are the kept items and the refused one, which the splice stands for; a bonus is a sample of p and has 0, and
    so has what was not judged. π is what the law emits there over all drafts and draws, of q as it was declared, or of
    all mass on a given item.

    Args:
        batch: the blocks.
        lengths: [batch], how many items each keeps.
        emitted: π from what the law reads, see `Blocks.rows`.
    """
    xp, p, (size, n) = array_namespace(batch.p), batch.p, batch.items.shape
    blocks, places = batch.places
    judged = (places <= lengths[:, None]) & (places < batch.ends[:, None])
    drift = xp.zeros((size, n + 1), dtype=xp.float64, device=device(p))
    if on_host(p):
        b, i = xp.nonzero(judged)
    else:  # which ones were judged is not known before the transfer, so all are measured
        b, i = (xp.reshape(xp.broadcast_to(x, judged.shape), (-1,)) for x in (blocks, places))
    p_rows, *law_input = batch.rows(b, i)
    tv = xp.sum(positive(p_rows - emitted(p_rows, *law_input)), axis=-1, dtype=xp.float64)
    drift[b, i] = xp.where(judged[b, i], tv, xp.zeros_like(tv))
    return drift
