"""Small parts for the engine's own tests; users' tests have draftverify.kit."""

from __future__ import annotations

from typing import Any

from draftverify import Check, Context, Decision, Draws, Proposal, Refusal, Verification
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits


class Blocks:
    """Proposes the given blocks, one a round, then is exhausted."""

    traits = GeneratorTraits()

    def __init__(self, *blocks: Any) -> None:
        self.blocks = blocks

    def propose(self, context: Context, n: int) -> Proposal:
        if context.round >= len(self.blocks):
            return Proposal.alternatives((), exhausted=True)
        block = self.blocks[context.round]
        if isinstance(block, Exception):
            raise block
        if isinstance(block, Proposal):
            return block
        return Proposal.alternatives(tuple(block)[:n])


class Judge:
    """Gives each item the verdict that a function of (context, item) names."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        checks = []
        for item in proposal.items:
            found = self.fn(context, item)
            checks.append(found if isinstance(found, Check) else Check(found))
        return Verification(checks=tuple(checks))


class TakeFirst:
    """Keeps the lowest passed alternative and is done; refuses the rejected ones."""

    traits = RuleTraits(shapes={"alternatives"})

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        checks = verification.checks
        refused = tuple(Refusal(i, "rejected") for i, c in enumerate(checks) if c.verdict == "reject")
        for index, check in enumerate(checks):
            if check.verdict == "pass":
                return Decision(kept=(index,), refused=refused, done=True)
        return Decision(refused=refused)

    def finish(self, context: Context) -> Any:
        return context.accepted[-1] if len(context.accepted) else None


class Prefix:
    """Keeps the passed prefix of a chain and splices the verifier's correction."""

    traits = RuleTraits(shapes={"chain"})

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        kept = []
        for index, check in enumerate(verification.checks):
            if check.verdict != "pass":
                refused = (Refusal(index, "rejected"),) if check.verdict == "reject" else ()
                return Decision(kept=tuple(kept), refused=refused, spliced=verification.correction)
            kept.append(index)
        return Decision(kept=tuple(kept), spliced=verification.correction)


class Ballots:
    """Holds every passed item; the value is the commonest."""

    traits = RuleTraits(shapes={"alternatives"})

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        return Decision(held=tuple(i for i, c in enumerate(verification.checks) if c.verdict == "pass"))

    def finish(self, context: Context) -> Any:
        values = [entry.value for entry in context.held]
        return max(values, key=values.count) if values else None
