"""Metrics of questions answered from passages, by what a task expects: answers, rankings, and whether to answer at all.

The truth has `answers`, the right ones ([] or null where the question has none), and, for rankings, where they stand:
`passages` (ids of passages, or id → grade), or `document` (the id of the document), of which only pieces that hold one
of `spans` ([start, end] in the document) are relevant where it has spans too.

An outcome's value may be a text, a reading, a passage, or a tuple of them, the best first. A task without expectation
is in no figure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from draftverify import ConfigError, ContractError, Outcome, Task
from draftverify_llm import check_least, need
from draftverify_retrieval.answers import answer_of, exact_match, f1, holds_answer, values_of
from draftverify_retrieval.passages import passage_of

Relevance: TypeAlias = Literal["place", "answer"]
"""When a passage is relevant: it stands where the truth says, or it holds one of the answers."""


class _Metric(ABC):
    """A metric that reads the truth of a task that has one."""

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without expectation, before any of them is paid for.

        Raises:
            ConfigError: no task has an expectation, or one's lacks what the metric reads.
        """
        if tasks and not any(task.expected for task in tasks):
            raise ConfigError("no task has a truth to compare with; say in `tasks` where its `answers` stand")
        for task in tasks:
            if task.expected:
                self.check_task(task)

    def check_task(self, task: Task) -> None:
        """Refuse a truth that the metric cannot read."""
        _answers(task)

    def __call__(self, task: Task, outcome: Outcome) -> float | None:
        """The figure, 0 to 1; None for a task without expectation, and where the metric has no say.

        Raises:
            ConfigError: the truth lacks what the metric reads.
            ContractError: the outcome's value cannot be read.
        """
        return self.figure(task, outcome) if task.expected else None

    @abstractmethod
    def figure(self, task: Task, outcome: Outcome) -> float | None:
        """The figure of a task that has a truth."""


class ExactMatch(_Metric):
    """Whether the answer is one of the right ones, both normalised as by SQuAD's script.

    Where there is none, the outcome that abstained is right, and every other is wrong.

    Args:
        top: of an outcome with several values, how many count: the best among the first so many.
    """

    score = staticmethod(exact_match)

    def __init__(self, top: int = 1) -> None:
        check_least(1, top=top)
        self.top = top

    def figure(self, task: Task, outcome: Outcome) -> float:
        """The best figure of the first `top` values."""
        answers = _answers(task)
        if not answers:
            return self.score(None, []) if outcome.status == "abstained" else 0.0
        values = values_of(outcome)[: self.top]
        return max((self.score(answer_of(value), answers) for value in values), default=0.0)


class HoldsAnswer(ExactMatch):
    """Whether one of the right answers stands in the answer, as whole words: for readers that answer in sentences.

    Where there is none, the outcome that abstained is right, and every other is wrong.

    Args:
        top: of an outcome with several values, how many count: the best among the first so many.
    """

    @staticmethod
    def score(answer: str | None, answers: Sequence[str]) -> float:
        """1 or 0."""
        return float(answer is None if not answers else answer is not None and holds_answer(answer, answers))


class F1(ExactMatch):
    """The F1 of the answer's words against those of the right answer that it fits best, as by SQuAD's script.

    Where there is none, the outcome that abstained has 1, and every other 0.

    Args:
        top: of an outcome with several values, how many count: the best among the first so many.
    """

    score = staticmethod(f1)


class AnsweredUnanswerable(_Metric):
    """Whether a question that has no answer was answered; it has no say of others. Lower is better."""

    def figure(self, task: Task, outcome: Outcome) -> float | None:
        """1 for an accepted outcome."""
        return None if _answers(task) else float(bool(values_of(outcome)))


class UnansweredAnswerable(_Metric):
    """Whether a question that has an answer got none; it has no say of others. Lower is better."""

    def figure(self, task: Task, outcome: Outcome) -> float | None:
        """1 for an outcome that was not accepted."""
        return float(not values_of(outcome)) if _answers(task) else None


class _Ranking(_Metric):
    """A metric of accepted passages in their order, by ir-measures.

    Attributes:
        measure: the measure's name there.
    """

    measure: ClassVar[str]

    def __init__(self, k: int | None = None, relevant: Relevance = "place") -> None:
        check_least(1, k=k)
        self.k = k
        self.relevant = relevant

    def check_task(self, task: Task) -> None:
        """Refuse a truth that does not say what is relevant."""
        if not _has_none(task):
            _RelevanceJudge(task, self.relevant)

    def figure(self, task: Task, outcome: Outcome) -> float | None:
        """The figure of a question that has something relevant; None of others."""
        if _has_none(task):
            return None
        judge = _RelevanceJudge(task, self.relevant)
        if not any(grade > 0 for grade in judge.grades.values()):
            return None
        need("ir_measures", doing="metrics of rankings", extra="retrieval")
        import ir_measures

        measure = ir_measures.parse_measure(self.measure if self.k is None else f"{self.measure}@{self.k}")
        names = dict.fromkeys(judge.names(values_of(outcome)))
        run = {name: -float(rank) for rank, name in enumerate(names)}
        return float(ir_measures.calc_aggregate([measure], {"": judge.grades}, {"": run})[measure])


class PassageRecall(_Ranking):
    """The share of the relevant passages that are among the first k accepted ones.

    Several pieces of the truth's document are one relevant passage, found with the first of them; so are several
    passages that hold an answer.

    Args:
        k: how many count.
        relevant: "place": what the truth's `passages` or `document` say; "answer": what holds one of the answers.
    """

    measure = "R"

    def __init__(self, k: int = 10, relevant: Relevance = "place") -> None:
        super().__init__(k, relevant)


class NDCG(_Ranking):
    """nDCG of the first k accepted passages, with the grades of the truth's `passages` (1 where it has none).

    Args:
        k: how many count.
        relevant: as for `PassageRecall`.

    References:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20 (2002).
    """

    measure = "nDCG"

    def __init__(self, k: int = 10, relevant: Relevance = "place") -> None:
        super().__init__(k, relevant)


class MRR(_Ranking):
    """1 / rank of the first relevant passage among the accepted ones; 0 without one.

    Args:
        k: the last rank that counts; all when absent.
        relevant: as for `PassageRecall`.
    """

    measure = "RR"


class MAP(_Ranking):
    """Average precision of the accepted passages, whose mean over questions is MAP.

    Args:
        k: the last rank that counts; all when absent.
        relevant: as for `PassageRecall`.
    """

    measure = "AP"


@dataclass(eq=False)
class Precision(_Ranking):
    """The share of the accepted passages that are relevant; it has no say where none was accepted.

    Where a question has no answer no passage is relevant. A passage that comes twice counts twice.

    Args:
        relevant: as for `PassageRecall`.
    """

    relevant: Relevance = "place"

    def figure(self, task: Task, outcome: Outcome) -> float | None:
        """The share."""
        values = values_of(outcome)
        if not values:
            return None
        if _has_none(task):
            return 0.0
        judge = _RelevanceJudge(task, self.relevant)
        return sum(judge.grades.get(name, 0) > 0 for name in judge.names(values)) / len(values)


class _RelevanceJudge:
    """Names passages so that the relevant ones have a grade: by their ids, or one name for all that will do.

    Raises:
        ConfigError: the truth does not say which passages are relevant.
    """

    def __init__(self, task: Task, relevant: Relevance) -> None:
        self.expected, self.relevant = task.expected, relevant
        passages = task.expected.get("passages")
        self.grades: Mapping[str, int] = {"right": 1}
        if relevant == "answer":
            self.answers = _answers(task)
        elif passages is not None:
            self.grades = _grades_of(passages)
        elif "document" not in task.expected:
            raise ConfigError(
                f"what is expected of task {task.id!r} says in no `passages` and no `document` where its answers "
                "stand; with `relevant: answer` a passage is relevant that holds one",
                path="expected",
            )

    def names(self, values: Sequence[Any]) -> list[str]:
        """A name for each passage; what is relevant for the same reason has the same."""
        return [self._name(passage_of(value), place) for place, value in enumerate(values)]

    def _name(self, passage: Mapping[str, Any], place: int) -> str:
        if self.relevant == "answer":
            good = holds_answer(passage["text"], self.answers)
        else:
            if "id" not in passage:
                raise ContractError(
                    "an accepted passage has no id to be found by; `relevant: answer` needs none"
                )
            if "passages" in self.expected:
                return str(passage["id"])
            good = self._is_there(passage)
        return "right" if good else f"{place} is not relevant"

    def _is_there(self, passage: Mapping[str, Any]) -> bool:
        if str(self.expected["document"]) not in (str(passage["id"]), str(passage.get("document"))):
            return False
        spans = self.expected.get("spans")
        if not spans or "start" not in passage or "end" not in passage:
            return True
        return any(passage["start"] <= start and end <= passage["end"] for start, end in spans)


def _answers(task: Task) -> list[str]:
    if "answers" not in task.expected:
        fields = ", ".join(map(str, task.expected))
        raise ConfigError(
            f"what is expected of task {task.id!r} has no 'answers'; there is {fields}", path="expected"
        )
    answers = task.expected["answers"]
    answers = [] if answers is None else [answers] if isinstance(answers, str) else list(answers)
    if not all(isinstance(answer, str) for answer in answers):
        raise ConfigError(f"the answers of task {task.id!r} are no texts: {answers!r:.80}", path="expected")
    return answers


def _grades_of(passages: Any) -> dict[str, int]:
    """A truth's `passages` as grades by id: ids (or one), of grade 1, or id → grade. Ids that are numbers become texts,
    as those of a corpus do.
    """
    if isinstance(passages, Mapping):
        return {str(id): grade for id, grade in passages.items()}
    return dict.fromkeys(map(str, [passages] if isinstance(passages, (str, int)) else passages), 1)


def _has_none(task: Task) -> bool:
    """Whether the truth says that the question has no answer; one with passages alone does not say so."""
    return "answers" in task.expected and not _answers(task)
