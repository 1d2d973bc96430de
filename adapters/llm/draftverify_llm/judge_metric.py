"""A model's grade as a metric, beside the answer that is expected: `llm.judge` among the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from draftverify import ContractError, Outcome, Task
from draftverify.checks.metrics import Score
from draftverify.exchanges import noted
from draftverify.kit.audit import PresentedAnswer
from draftverify.traits import Traits
from draftverify_llm.judge import Judge
from draftverify_llm.judging import answer_text, question_text, shown_text
from draftverify_llm.text import TextModel, as_text, model_traits


class JudgedAnswer:
    """Asks a text model how right an accepted answer is: 1 or 0, or the grade between its worst (0) and best (1).

    An answer that is no text is shown as JSON. One that was not accepted is not right, and nobody is asked. Like every
    judge's word it is a model's opinion, and where the model is of the pipeline's own family it likes its kind.

    Args:
        model: a text model.
        expected: the field of what the task expects, which the judge is shown as a right answer; None: none is.
        asks, highest, rubric, reasons, prompt, max_tokens: as of the verifier `llm.judge`.
    """

    def __init__(
        self,
        model: TextModel,
        expected: str | None = None,
        asks: Literal["yes_no", "grade"] = "yes_no",
        highest: int = 5,
        rubric: str | None = None,
        reasons: bool = False,
        prompt: Path | None = None,
        max_tokens: int = 64,
    ) -> None:
        self.expected = expected
        self.judge = Judge(
            model, asks, highest=highest, rubric=rubric, reference=expected, reasons=reasons, prompt=prompt,
            max_tokens=max_tokens,
        )  # fmt: skip

    @cached_property
    def traits(self) -> Traits:
        """How many may be asked at once: as many as the model takes."""
        model = model_traits(self.judge.model)
        return Traits(concurrent=model.concurrent, deterministic=model.deterministic, remote=model.remote)

    def open(self) -> None:
        """Check the arguments and load the model.

        Raises:
            ConfigError, ResourceError: as of the judge.
        """
        self.judge.open()

    def close(self) -> None:
        """Close the model."""
        self.judge.close()

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a question or the expected field, before any of them is paid for.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            question_text(task)
            self._right(task)

    def __call__(self, task: Task, outcome: Outcome) -> Score:
        """The grade, from 0 to 1, with what the model was asked; none, and why, where it gave no verdict."""
        if outcome.status != "accepted":
            return Score(0.0)
        asked = PresentedAnswer(question_text(task), _shown(outcome.value), reference=self._right(task))
        (grade,) = self.judge.grade([asked])
        notes = noted([grade.exchange]) if grade.exchange is not None else {}
        if grade.score is None:
            why = f"the judge gave no verdict ({grade.why}): {grade.words}"
            return Score(None, why, cost=grade.cost, notes=notes)
        if self.judge.asks == "yes_no":
            value = float(grade.score > 0)
        else:
            value = (grade.score - 1) / (self.judge.highest - 1)
        return Score(value, cost=grade.cost, notes=notes)

    def _right(self, task: Task) -> str | None:
        return (
            None
            if self.expected is None
            else shown_text(task.expected, self.expected, f"what task {task.id} expects")
        )


def _shown(value: Any) -> str:
    """A text as it is, steps a line each, anything else as JSON."""
    if isinstance(value, Mapping):
        return as_text(value)
    try:
        return answer_text(value)
    except ContractError:
        return as_text(value)
