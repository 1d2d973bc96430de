"""Parts whose costs and acceptance are known, on a clock of their own, for tests of fits."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from msgspec.structs import replace

from draftverify import Check, Context, Cost, Outcome, Proposal, Task, Verification
from draftverify.rules import LongestPrefix
from draftverify.traits import GeneratorTraits, VerifierTraits


class Tasks:
    """So many tasks of two groups.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def load(self) -> list[Task]:
        """t0, t1, …"""
        return [
            Task(id=f"t{i}", input={"n": i}, group="ab"[i % 2], expected={"right": i})
            for i in range(self.count)
        ]


class Chain:
    """Drafts items that are right with a chance of their own.

    Args:
        chance: that an item is right.
        seconds: an item takes.
    """

    traits = GeneratorTraits(shape="chain", reads=frozenset[str]())

    def __init__(self, chance: float, seconds: float = 0.1) -> None:
        self.chance = chance
        self.seconds = seconds

    def propose(self, context: Context, n: int) -> Proposal:
        """n items."""
        items = [bool(u < self.chance) for u in context.draws.uniforms(range(n))]
        return Proposal.chain(items, cost=Cost(self.seconds * n))


class Faulty(Chain):
    """The same, and it breaks on one task of seven."""

    def propose(self, context: Context, n: int) -> Proposal:
        """n items, or an error."""
        if context.task.input["n"] % 7 == 3:
            raise RuntimeError("broken")
        return super().propose(context, n)


class OnePass:
    """Passes right items up to the first wrong one, in one pass, and goes on by itself from there.

    Args:
        fixed: seconds of a pass.
        each: seconds that an item adds.
    """

    traits = VerifierTraits(reads=frozenset[str](), plain_steps=True)

    def __init__(self, fixed: float = 1.0, each: float = 0.02) -> None:
        self.fixed = fixed
        self.each = each

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """A check an item, and a value of its own."""
        kept = next((i for i, item in enumerate(proposal.items) if not item), len(proposal.items))
        checks = [
            Check("pass" if i < kept else "reject" if i == kept else "unchecked")
            for i in range(len(proposal.items))
        ]
        cost = Cost(self.fixed + self.each * len(proposal.items))
        return Verification(checks=tuple(checks), correction=(True,), cost=cost)


class Prefix(LongestPrefix):
    """The same rule under another name."""


class Guesses(Chain):
    """The same as alternatives, each with a score; a right one scores 1, a wrong one sometimes .6."""

    traits = dataclasses.replace(Chain.traits, shape="alternatives")

    def propose(self, context: Context, n: int) -> Proposal:
        """n alternatives."""
        scores = [
            1.0 if u < self.chance else 0.6 if u > 0.6 else 0.1 for u in context.draws.uniforms(range(n))
        ]
        return Proposal.alternatives(scores, cost=Cost(self.seconds))


class Branches:
    """Drafts trees: two guesses for each of the next values, of which the second is right, down to a depth of two.

    An item takes .1 s. A block of n holds the right path as far as n / 2 deep.
    """

    traits = GeneratorTraits(shape="tree", reads=frozenset[str]())

    def propose(self, context: Context, n: int) -> Proposal:
        """n items; a pair stands on the second item of the pair before it."""
        items = [bool(place % 2) and place < 4 for place in range(n)]
        parents = [-1 if place < 2 else place - 1 - place % 2 for place in range(n)]
        return Proposal.tree(items, parents, cost=Cost(0.1 * n))


class Every(OnePass):
    """The same, and it judges every item, and has the right value in the place of a wrong one."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """A check an item; a value of its own where there is none."""
        checks = tuple(Check("pass") if item else Check("reject", correction=True) for item in proposal.items)
        own = () if proposal.items else (True,)
        return replace(super().verify(context, proposal), checks=checks, correction=own)


class Scorer:
    """Passes what it is shown, with its score.

    Args:
        seconds: of a pass.
        least: the score from which an item passes.
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset[str]())

    def __init__(self, seconds: float = 1.0, least: float = 0.5) -> None:
        self.seconds = seconds
        self.least = least

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """A score an item, one pass."""
        checks = [Check("pass" if item >= self.least else "reject", score=item) for item in proposal.items]
        return Verification(checks=tuple(checks), cost=Cost(self.seconds))


class Lottery(Scorer):
    """The same, and what a pass takes is chance: of a block of any size the same on the average."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """A score an item."""
        seconds = random.Random(f"{context.task.id} {len(proposal.items)}").lognormvariate(0.0, 0.8)
        return replace(super().verify(context, proposal), cost=Cost(seconds))


def right(task: Task, outcome: Outcome) -> float:
    """Whether the best-scored item was taken."""
    return float(outcome.value == 1.0)


def whole(task: Task, outcome: Any) -> float:
    """Whether an answer came to its end."""
    return float(outcome.status == "accepted")
