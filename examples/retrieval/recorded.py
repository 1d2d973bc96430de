"""A generator for answers that were recorded: each task has its own, under `drafts`."""

from __future__ import annotations

from draftverify import Context, GeneratorTraits, Proposal

__all__ = ["Drafts"]


class Drafts:
    """Proposes a task's recorded answers, in their order."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n of them."""
        drafts, end = context.task.input["drafts"], context.drafted + n
        return Proposal.alternatives(tuple(drafts[context.drafted : end]), exhausted=end >= len(drafts))
