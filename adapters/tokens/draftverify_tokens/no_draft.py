"""Plain decoding as a pipeline: nothing is drafted, so each round is one step of the target."""

from __future__ import annotations

from draftverify import Context, Proposal
from draftverify.traits import GeneratorTraits


class NoDraft:
    """Proposes the empty chain: plain decoding, the baseline of every comparison."""

    traits = GeneratorTraits(shape="chain", laws={"given"}, reads=frozenset())

    def default_block(self) -> int:
        """0, so that nobody is asked for nothing."""
        return 0

    def propose(self, context: Context, n: int) -> Proposal:
        """Nothing."""
        return Proposal.chain(())
