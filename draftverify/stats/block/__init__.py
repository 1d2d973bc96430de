"""The block size that learns: what a pass costs, what drafts bring, and the size that pays."""

from draftverify.stats.block.controller import Measured

__all__ = ["Measured"]
