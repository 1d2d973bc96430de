"""A part in all roles that says something wrong of some tasks, and a value of each field to be wrong, by chance."""

from __future__ import annotations

from typing import Any

from draftverify import Outcome, Task
from tests.engine.guilty import Guilty, beside_fine_ones, cases
from tests.engine.odd_values import WRONG


class GuiltyTasks:
    """A task for each, beside one that is fine."""

    def load(self) -> list[Task]:
        """All of them."""
        return beside_fine_ones(cases(1))


class GuiltyPart(Guilty):
    """The part, to be named in a config; as a block size too."""


class GuiltyRule(GuiltyPart):
    """The same, that leaves the end to the verifier."""

    done: Any = None


class GuiltyMetric:
    """Says of the same tasks what their part said."""

    def __call__(self, task: Task, outcome: Outcome) -> Any:
        """Right, of the fine ones."""
        return 1.0 if task.id.startswith("fine ") else WRONG[task.id.rpartition("|")[2]]()
