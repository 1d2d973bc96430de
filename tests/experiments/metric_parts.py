"""Parts that answer with a number, right or not, and metrics that are counted or broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftverify import PASS, Check, Context, Cost, Explanation, Outcome, Proposal, Task, Verification


class Answers:
    """Proposes the answer that the input says.

    Args:
        field: of the input.
        seconds: that it says it took.
    """

    def __init__(self, field: str, seconds: float = 1.0) -> None:
        self.field = field
        self.seconds = seconds

    def propose(self, context: Context, n: int) -> Proposal:
        assert not context.task.expected
        answer = str(context.task.input[self.field])
        return Proposal.alternatives([answer], cost=Cost(seconds=self.seconds, amount=1.0))


class Believes:
    """Passes all that does not begin with "?"."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        assert not context.task.expected
        checks = tuple(Check("reject" if item.startswith("?") else "pass") for item in proposal.items)
        return Verification(checks=checks, cost=Cost(seconds=0.0))


class Counted:
    """Whether the answer is right; writes down that it was asked."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __call__(self, task: Task, outcome: Outcome) -> bool:
        with self.log.open("a") as file:
            file.write(f"{task.id}\n")
        return outcome.status == "accepted" and outcome.value == task.expected["answer"]


class Broken:
    """Fails at odd tasks, and has no say at task 0."""

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        if int(task.id) % 2:
            raise ValueError("odd\x1b[31m")
        return None if task.id == "0" else True


class Shared:
    """A model that cannot be used once it is closed."""

    closed = False

    def close(self) -> None:
        self.closed = True

    def use(self) -> None:
        assert not self.closed, "the model is closed"


class Uses:
    """Passes all, and explains what differs, with a model."""

    def __init__(self, model: Shared) -> None:
        self.model = model

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        self.model.use()
        return Verification(checks=(PASS,) * len(proposal.items), cost=Cost(seconds=0.0))

    def explain(self, task: Task, expected: Any, got: Any, settings: Any) -> Explanation:
        self.model.use()
        return Explanation("rounding", f"what is expected is {dict(task.expected)}")

    def close(self) -> None:
        self.model.close()


class Asks:
    """Whether the answer is right, by the same model; it must be opened first."""

    def __init__(self, model: Shared) -> None:
        self.model = model
        self.ready = False

    def open(self) -> None:
        self.ready = True

    def __call__(self, task: Task, outcome: Outcome) -> bool:
        assert self.ready
        self.model.use()
        return bool(outcome.value == task.expected["answer"])

    def close(self) -> None:
        self.model.close()


class ComplexTruths:
    """Tasks whose truth JSON does not hold."""

    def load(self) -> list[Task]:
        return [
            Task(id=str(i), input={"slow": "a", "quick": "b"}, expected={"answer": 1 + 2j}) for i in range(2)
        ]


class Flaky:
    """Fails while a file is there."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, task: Task, outcome: Outcome) -> bool:
        if self.file.exists():
            raise ConnectionError("service down")
        return True


def agrees(task: Task, outcome: Outcome) -> bool:
    """Whether the answer is what is expected."""
    return bool(outcome.value == task.expected["answer"])


class Faster:
    """A measure: how much faster than a thousand seconds, of tasks that were accepted."""

    unit = "×"
    mean = "geometric"

    def __call__(self, task: Task, outcome: Outcome) -> float | None:
        return 1000 / outcome.seconds if outcome.status == "accepted" else None
