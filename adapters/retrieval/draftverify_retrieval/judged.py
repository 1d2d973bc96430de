"""What a judge says of an answer and its passages: faithfulness and relevance, as metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from draftverify import Outcome, Task
from draftverify.checks.metrics import Score
from draftverify_llm import JudgedAnswer, TextModel, question_text
from draftverify_retrieval.answers import answer_of, values_of
from draftverify_retrieval.passages import passage_of

_FAITHFUL = (
    "Every statement of the answer must be said by the passages, or follow from them. What the passages do not say is "
    "wrong here, even where it is true. Judge nothing else."
)
_RELEVANT = (
    "The answer must answer this question, wholly and without anything that was not asked for. Whether it is true does "
    "not matter here."
)


class Faithfulness(JudgedAnswer):
    """Whether the passages say what the answer says, by a text model's word: 1 or 0.

    The passages are those that were accepted, as readings are, and those of the task's input (`passages`); it has no
    say of an outcome that was not accepted, or has none. Like every judge's word it is a model's opinion: audit it.

    Args:
        model: a text model, best of another family than the one that answers.
        max_tokens: of its reply.

    References:
        Es et al., RAGAs, EACL 2024, arXiv:2309.15217, which asks so about single statements.
    """

    rubric = _FAITHFUL

    def __init__(self, model: TextModel, max_tokens: int = 64) -> None:
        super().__init__(model, rubric=self.rubric, max_tokens=max_tokens)

    def __call__(self, task: Task, outcome: Outcome) -> Score:
        """The verdict, with what the model was asked; none, and why, where there is none."""
        values = values_of(outcome)
        shown = task.input.get("passages", ())
        shown = list(shown.values()) if isinstance(shown, Mapping) else list(shown)
        shown += [value for value in values if isinstance(value, Mapping) and "text" in value]
        if not values or not shown:
            return Score(None, "there is no answer" if not values else "there are no passages")
        passages = "\n\n".join(dict.fromkeys(passage_of(item)["text"] for item in shown))
        return self._judged(f"{question_text(task)}\n\nPassages:\n{passages}", task, values)

    def _judged(self, question: str, task: Task, values: Sequence[object]) -> Score:
        answer = "\n".join(map(answer_of, values))
        asked = Task(id=task.id, input={"question": question})
        return super().__call__(asked, Outcome(status="accepted", value=answer))


class AnswerRelevance(Faithfulness):
    """Whether the answer answers the question, true or not, by a text model's word: 1 or 0.

    It has no say of an outcome that was not accepted.

    Args:
        model, max_tokens: as of `Faithfulness`.
    """

    rubric = _RELEVANT

    def __call__(self, task: Task, outcome: Outcome) -> Score:
        """The verdict, with what the model was asked; none, and why, where there is none."""
        values = values_of(outcome)
        if not values:
            return Score(None, "there is no answer")
        return self._judged(question_text(task), task, values)
