"""The block size that token drafters bring to a pipeline that is given none."""

from __future__ import annotations

from draftverify import BlockSize
from draftverify.stats.block import Measured

MOST = 16
"""Of a chain the longest block that the controller may choose; of a tree the nodes."""


def default_block(shape: str | None) -> BlockSize | int:
    """A controller of the pipeline's own, which drafts no longer than it pays and nothing where it does not; for trees,
    which it cannot judge, a number.

    Args:
        shape: of what is drafted.
    """
    return Measured(at_most=MOST) if shape == "chain" else MOST
