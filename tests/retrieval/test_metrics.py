"""Metrics of answers, rankings, and whether to answer at all."""

from __future__ import annotations

from typing import Any

import pytest

from draftverify import ConfigError, ContractError, Outcome, Task
from draftverify.checks.metrics import check_metrics, score
from draftverify_retrieval import metrics as m

ANSWERS = ["Paris", "the city of Paris"]
ABSTAINED = Outcome(status="abstained")


def accepted(value: Any) -> Outcome:
    return Outcome(status="accepted", value=value)


def task(**expected: Any) -> Task:
    return Task(id="1", expected=expected)


def reading(id: str, answer: str = "", **place: Any) -> dict[str, Any]:
    return {"id": id, "text": f"It says {answer or 'nothing'} there.", "answer": answer, **place}


@pytest.mark.parametrize(
    ("value", "exact", "f1"),
    [
        ("paris.", 1, 1),
        ("City Paris", 0, 0.8),
        (reading("1", "Paris"), 1, 1),
        ({"id": "1", "text": "It is Paris."}, 0, 0.5),
        ((reading("1", "Lyon"), reading("2", "Paris")), 0, 0),
        (("Paris", "Lyon"), 1, 1),
        ((), 0, 0),
    ],
)
def test_an_answer_against_the_right_ones(value: Any, exact: float, f1: float) -> None:
    """Of texts, readings, passages, and of several the first."""
    assert m.ExactMatch()(task(answers=ANSWERS), accepted(value)) == exact
    assert m.F1()(task(answers=ANSWERS), accepted(value)) == pytest.approx(f1)


def test_the_best_of_the_first_few_may_count() -> None:
    """`top` values, and no more."""
    values = tuple(reading(str(i), answer) for i, answer in enumerate(["Lyon", "Nice", "Paris"]))
    assert [m.ExactMatch(top)(task(answers=ANSWERS), accepted(values)) for top in (1, 2, 3)] == [0, 0, 1]


def test_an_answer_in_a_sentence() -> None:
    """It holds a right one as whole words; where there is none, to abstain alone is right."""
    values = ["It is Paris, they say.", "comparison", "Lyon", reading("1", "In the city of Paris")]
    assert [m.HoldsAnswer()(task(answers=["Paris"]), accepted(value)) for value in values] == [1, 0, 0, 1]
    assert m.HoldsAnswer()(task(answers=["Paris"]), ABSTAINED) == 0
    assert [m.HoldsAnswer()(task(answers=[]), each) for each in (ABSTAINED, accepted("Paris"))] == [1, 0]


@pytest.mark.parametrize("answers", [[], None])
def test_a_question_without_answer(answers: Any) -> None:
    """Right is to abstain: as by SQuAD 2.0's script, 1 for that alone; giving up is no abstention."""
    outcomes = [ABSTAINED, Outcome(status="refused"), accepted("Paris"), accepted("")]
    for metric in (m.ExactMatch(), m.F1()):
        assert [metric(task(answers=answers), each) for each in outcomes] == [1, 0, 0, 0]
    assert [m.AnsweredUnanswerable()(task(answers=answers), each) for each in outcomes] == [0, 0, 1, 1]
    assert m.UnansweredAnswerable()(task(answers=answers), ABSTAINED) is None
    assert m.PassageRecall()(task(answers=answers), accepted((reading("a"),))) is None
    assert m.Precision()(task(answers=answers), accepted((reading("a"),))) == 0
    assert m.Precision()(task(answers=answers), ABSTAINED) is None


def test_a_question_with_an_answer_that_got_none() -> None:
    """Every outcome that was not accepted, whatever it was left with."""
    outcomes = [ABSTAINED, Outcome(status="refused", value="Paris"), accepted("Lyon")]
    assert [m.UnansweredAnswerable()(task(answers=ANSWERS), each) for each in outcomes] == [1, 1, 0]
    assert [m.ExactMatch()(task(answers=ANSWERS), each) for each in outcomes] == [0, 0, 0]
    assert m.AnsweredUnanswerable()(task(answers=ANSWERS), outcomes[2]) is None


def test_rankings_by_the_ids_of_passages() -> None:
    """Grades count for nDCG; a passage that comes twice counts once, but for precision, which counts what was taken."""
    expected = {"answers": ANSWERS, "passages": {"a": 2, "b": 1, "never": 0}}
    found = accepted((reading("x"), reading("b"), reading("b"), reading("a")))
    assert m.PassageRecall(2)(task(**expected), found) == 0.5
    assert m.PassageRecall(3)(task(**expected), found) == 1.0
    assert m.MRR()(task(**expected), found) == 0.5
    assert m.MRR(1)(task(**expected), found) == 0.0
    assert m.NDCG(3)(task(**expected), found) == pytest.approx((1 / 1.5849625 + 2 / 2) / (2 + 1 / 1.5849625))
    assert m.MAP()(task(**expected), found) == pytest.approx(
        (1 / 2 + 2 / 3) / 2
    )  # the second b is no rank of its own
    assert m.MAP(2)(task(**expected), found) == 0.25
    assert m.Precision()(task(**expected), found) == 0.75
    assert m.PassageRecall()(task(**expected), ABSTAINED) == 0.0


def test_a_truth_in_which_nothing_is_relevant_has_no_figure() -> None:
    """Grades of 0 alone, or no passage at all."""
    for passages in ({"a": 0}, []):
        assert m.NDCG()(task(passages=passages), accepted((reading("a"),))) is None


@pytest.mark.parametrize(
    "expected", [{"passages": [3]}, {"passages": {3: 1}}, {"passages": "3"}, {"document": 3}]
)
def test_ids_may_be_numbers_in_the_truth(expected: dict[str, Any]) -> None:
    """A corpus makes texts of them; a single id needs no list."""
    found = accepted((reading("3"),))
    assert m.PassageRecall(1)(task(**expected), found) == m.Precision()(task(**expected), found) == 1


def test_rankings_by_a_place_in_a_document() -> None:
    """A piece of the document counts where it holds the answer's span, and all such pieces as one passage."""
    expected = {"answers": ANSWERS, "document": "d", "spans": [[10, 15]]}
    before, on, also = (reading(f"d#{i}", document="d", start=i, end=i + 12) for i in (0, 8, 5))
    other = reading("e#0", document="e", start=8, end=20)
    assert m.MRR()(task(**expected), accepted((before, other, on, also))) == pytest.approx(1 / 3)
    assert m.PassageRecall(4)(task(**expected), accepted((before, other, on, also))) == 1.0
    assert m.PassageRecall(4)(task(**expected), accepted((before, other))) == 0.0
    assert m.Precision()(task(**expected), accepted((before, other, on, also))) == 0.5
    assert m.MRR()(task(**expected), accepted(reading("d"))) == 1.0  # the paragraph is the passage


def test_rankings_by_answers_that_stand_in_the_text() -> None:
    """Where nobody knows the passages, one is relevant that holds an answer as words."""
    found = accepted((reading("x", "parisian"), {"text": "Paris is."}, "the city of Paris"))
    assert m.PassageRecall(1, "answer")(task(answers=ANSWERS), found) == 0.0
    assert m.PassageRecall(2, "answer")(task(answers=ANSWERS), found) == 1.0
    assert m.MRR(relevant="answer")(task(answers=ANSWERS), found) == 0.5
    assert m.Precision("answer")(task(answers=ANSWERS), found) == pytest.approx(2 / 3)


def test_tasks_that_cannot_be_judged_are_refused_at_once() -> None:
    """Without any expected, without what the metric reads; a task without expectation beside others has no figure."""
    for metric in (
        m.ExactMatch(),
        m.F1(),
        m.AnsweredUnanswerable(),
        m.UnansweredAnswerable(),
        m.PassageRecall(),
    ):
        with pytest.raises(ConfigError, match="no task has a truth"):
            check_metrics({"metric": metric}, [task()])
        assert metric(task(), accepted("Paris")) is None
    with pytest.raises(ConfigError, match="has no 'answers'; there is solution"):
        check_metrics({"metric": m.F1()}, [task(solution="x")])
    with pytest.raises(ConfigError, match="relevant: answer"):
        check_metrics({"metric": m.Precision()}, [task(answers=ANSWERS)])
    check_metrics({"metric": m.Precision()}, [task(), task(answers=[]), task(passages=["a"])])
    check_metrics({"metric": m.Precision("answer")}, [task(answers="Paris")])
    for refused in (lambda: m.PassageRecall(0), lambda: m.MRR(0), lambda: m.F1(0)):
        with pytest.raises(ConfigError, match="at least 1"):
            refused()


def test_what_is_no_answer_is_no_wrong_answer() -> None:
    """A value that cannot be read is the metric's failure, with its reason."""
    with pytest.raises(ContractError, match="no id"):
        m.PassageRecall()(task(passages=["a"]), accepted(("a text",)))
    assert "an answer is a text" in score(m.F1(), task(answers=ANSWERS), accepted({"id": "1"})).problem
