"""Scripted parts for pipelines inside pipelines, and parts with coroutine methods; the same every time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from draftverify import Check, Context, Cost, Proposal, Task, Verification
from draftverify.traits import GeneratorTraits, VerifierTraits


class Shared:
    """A model that says in a file when it is opened.

    Args:
        log: the file.
    """

    def __init__(self, log: Path | None = None) -> None:
        self.log = log

    def open(self) -> None:
        """A line for each time."""
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write("opened\n")


class Sampler(Shared):
    """Draws whole numbers below the setting `spread`."""

    traits = GeneratorTraits(reads={"spread"})

    def propose(self, context: Context, n: int) -> Proposal:
        """Alternatives."""
        spread = context.settings["spread"]
        items = [int(u * spread) for u in context.draws.uniforms(range(n))]
        return Proposal.alternatives(items, cost=Cost(0.001, amount=float(n)))


class Told(Sampler):
    """The same, and counts up from what was refused."""

    def propose(self, context: Context, n: int) -> Proposal:
        """One number after each refused one, if there are any."""
        if context.refused:
            return Proposal.alternatives([item + 1 for item in context.refused])
        return super().propose(context, n)


class Even(Shared):
    """Passes even numbers."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        checks = [Check("pass") if item % 2 == 0 else Check("reject") for item in proposal.items]
        return Verification(checks=tuple(checks), cost=Cost(0.001, amount=1.0))


class Worth:
    """Passes everything; a larger number is worth more."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """The number is the score."""
        return Verification(checks=tuple(Check("pass", float(item)) for item in proposal.items))


class SlowSampler(Sampler):
    """The same, as a coroutine."""

    async def propose(self, context: Context, n: int) -> Proposal:  # type: ignore[override]
        """Alternatives, after a while."""
        await asyncio.sleep(0.001)
        return super().propose(context, n)


class SlowEven(Even):
    """The same, as a coroutine."""

    async def verify(self, context: Context, proposal: Proposal) -> Verification:  # type: ignore[override]
        """One check per item, after a while."""
        await asyncio.sleep(0.001)
        return super().verify(context, proposal)


class Numbered:
    """So many tasks.

    Args:
        count: how many.
    """

    def __init__(self, count: int = 4) -> None:
        self.count = count

    def load(self) -> list[Task]:
        """t0, t1, …"""
        found: Any = [Task(id=f"t{i}", input={"n": i}) for i in range(self.count)]
        return list(found)
