"""Parts whose values no record can hold, and parts that mean to leave the process, each for its own task."""

from __future__ import annotations

import asyncio

from draftverify import Check, Context, Proposal, Task, Verification

ODD = {
    "bytes": b"bytes",
    "surrogate": "\ud800",
    "huge": 10**400,
    "set": {1, 2},
    "reason": "reason",
    "asked": b"asked",
    "fine": "fine",
    "said": "said",
}


class OddTasks:
    """A task of each kind."""

    def load(self) -> list[Task]:
        """All of them."""
        return [Task(id=name) for name in ODD]


class Odd:
    """Proposes the task's value."""

    def propose(self, context: Context, n: int) -> Proposal:
        """One item."""
        return Proposal.alternatives((ODD[context.task.id],))


class OddJudge:
    """Passes all items but one, which a person is asked about; its reasons are not always text that can be written."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check."""
        odd = context.task.id in ("reason", "asked")
        verdict = "reject" if context.task.id == "asked" else "pass"
        return Verification(checks=(Check(verdict, reason="\ud800" if odd else ""),))

    def describe(self, values: list[object]) -> list[str]:
        """Words, of which one cannot be written."""
        if "mute" in values:
            raise SystemExit(3)
        return ["\ud800" if value == "said" else repr(value) for value in values]


class Panic(BaseException):
    """What a library in another language raises, say."""


QUITS = {"exit": SystemExit(3), "panic": Panic("gone"), "generator": GeneratorExit()}


class QuitTasks:
    """A task for each way to leave, one whose words cannot be made, and one that is well."""

    def load(self) -> list[Task]:
        """All of them."""
        return [Task(id=name) for name in (*QUITS, "checking", "choosing", "mute", "fine")]


class Quit:
    """Raises what ends a process."""

    def propose(self, context: Context, n: int) -> Proposal:
        """The task's name."""
        if context.task.id in QUITS:
            raise QUITS[context.task.id]
        return Proposal.alternatives((context.task.id,))


class QuitLater:
    """The same, in a coroutine's own task."""

    async def propose(self, context: Context, n: int) -> Proposal:
        """The task's name."""

        async def proposed() -> Proposal:
            return Quit().propose(context, n)

        return await asyncio.create_task(proposed())


class QuitJudge(OddJudge):
    """Raises it too."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Pass."""
        if context.task.id == "checking":
            raise SystemExit(3)
        return super().verify(context, proposal)


class QuitSize:
    """And so does a block size."""

    def size(self, context: Context) -> int:
        """One."""
        if context.task.id == "choosing":
            raise SystemExit(3)
        return 1

    def observe(self, context: Context, round: object) -> None:
        """Nothing is learnt."""
