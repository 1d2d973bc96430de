"""Parts whose values no record can hold, each for its own task."""

from __future__ import annotations

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
        return ["\ud800" if value == "said" else repr(value) for value in values]
