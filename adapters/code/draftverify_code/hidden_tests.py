"""The metric of this adapter: whether a program passes tests that no part of its pipeline has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from draftverify import ContractError, Outcome, Proposal, Task
from draftverify.kit import make_context
from draftverify.traits import Traits
from draftverify_code.program import in_python, program_of
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.cases import Cases
from draftverify_code.stages.language import LanguageTests
from draftverify_code.stages.running import Sandboxed
from draftverify_code.stages.tests import Tests


@dataclass(eq=False)
class HiddenTests(Sandboxed):
    """Whether the accepted program passes the tests of what the task expects: its `test`, `test_list` or `cases`.

    They run as those of `code.tests`, `code.cases` and, in other languages than Python, `code.language` do. A program
    that runs out of time or memory has failed them; where the check itself breaks or the machine took the time, the
    metric has failed and says nothing of the program.

    Args:
        sandbox: where programs run; a shared one with the strongest isolation of this machine when None.
        timeout: seconds for all tests of one program together, or for one case; a task's own `timeout` goes before it.
        memory: MiB of one program.
        integrity: where the assertions run, as in `code.tests`.
    """

    sandbox: Sandbox | None = None
    timeout: float = 10.0
    memory: int = 1024
    integrity: Literal["auto", "separate-process", "shared-process"] = "auto"

    traits = Traits(reads=frozenset())  # type: ignore[assignment]

    def __post_init__(self) -> None:
        sandbox, timeout, memory = self.sandbox, self.timeout, self.memory
        self._tests = Tests(sandbox, timeout, memory, self.integrity)
        self._cases = Cases(sandbox, timeout=timeout, memory=memory)
        self._language = LanguageTests(timeout=timeout, memory=memory, sandbox=sandbox)

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        """Raises: ContractError: the truth's tests cannot be read, or running them broke."""
        if not task.expected:
            return None
        if outcome.status != "accepted":
            return False
        value = outcome.value
        if isinstance(value, (list, tuple)) and len(value) == 1:
            (value,) = value  # a chain of one is its item
        try:
            program_of(value)
        except ContractError:  # an answer that is no program has solved nothing
            return False
        tests = Task(id=task.id, input={**task.input, **task.expected})
        other = self._tests if in_python(tests.input) else self._language
        stage = self._cases if "cases" in task.expected else other
        (check,) = stage.verify(make_context(tests), Proposal.alternatives([value])).checks
        if check.verdict not in ("pass", "reject"):
            raise ContractError(f"the hidden tests came to nothing ({check.reason}): {check.feedback}")
        return check.verdict == "pass"
