"""What came of it, apart from what the verifiers said: other inputs than theirs, and how much shorter a program is."""

from __future__ import annotations

from draftverify import Outcome, Task
from draftverify_proofs.programs import parse
from draftverify_proofs.verifiers import differing

__all__ = ["Agrees", "StepsSaved"]


class Agrees:
    """Whether an accepted program is right in states that no verifier tried.

    Args:
        inputs: how many.
        seed: of the states; another than the verifier's.
    """

    def __init__(self, inputs: int = 65_536, seed: int = 1) -> None:
        self.inputs = inputs
        self.seed = seed

    def __call__(self, task: Task, outcome: Outcome) -> bool:
        """A task without an accepted program is not solved."""
        if outcome.status != "accepted":
            return False
        program = parse(outcome.value, task.input["variables"])
        return not differing(task.input, [program], self.inputs, self.seed)[0]


class StepsSaved:
    """How many steps an accepted rewrite has less than the program as written; it has no say of a loop."""

    unit = "steps"

    def __call__(self, task: Task, outcome: Outcome) -> int | None:
        """Also None where nothing was accepted."""
        if "program" not in task.input or outcome.status != "accepted":
            return None
        written, short = (
            parse(text, task.input["variables"]) for text in (task.input["program"], outcome.value)
        )
        return len(written.steps) - len(short.steps)
