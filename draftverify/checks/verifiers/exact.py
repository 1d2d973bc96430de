"""A known answer: `exact`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftverify.checks.equality import differences
from draftverify.checks.verifiers.text import NotJson, json_of
from draftverify.engine.failures import failed
from draftverify.engine.functions import each_item
from draftverify.errors import ConfigError
from draftverify.traits import VerifierTraits
from draftverify.values import PASS, Check, Context, Failure, Proposal, Task, Verification


class Exact:
    """Passes items that equal a field of the task: a checksum, a total that is known, a query's result.

    Texts are equal but for space around them. Where the field holds no text, an item that is text is read as JSON;
    mappings are equal in any order, 1 and 1.0 are one number, and true is none. Feedback names the places that differ
    and never what was expected there: a generator would only have to repeat it.

    Args:
        field: of the task's input.
    """

    traits = VerifierTraits(reads=frozenset(), free=True)

    def __init__(self, field: str) -> None:
        self.field = field

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without the field, before anything is drafted.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            self._expected(task)

    def _expected(self, task: Task) -> Any:
        if self.field not in task.input:
            fields = ", ".join(map(str, task.input)) or "none"
            raise ConfigError(
                f"task {task.id} has no field {self.field!r} to compare with; there are {fields}",
                path="field",
            )
        return task.input[self.field]

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item.

        Raises:
            ConfigError: the task has no such field.
        """
        expected = self._expected(context.task)
        return each_item(context, proposal, lambda item: _check(item, expected))


def _check(item: Any, expected: Any) -> Check:
    try:
        value = json_of(item) if type(item) is str and not isinstance(expected, str) else item
        places = list(differences(expected, value))
    except NotJson as error:
        return Check("reject", reason="json", feedback=f"the answer must be one JSON document: {error}")
    except Exception as error:
        return failed(Failure.of(error))
    if not places:
        return PASS
    return Check("reject", reason="differs", feedback=f"not what was expected: {', '.join(places[:10])}")
