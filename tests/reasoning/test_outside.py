"""Checkers that rest on no model's word: no answer is a reject, a check that breaks an error, and the metrics agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from draftverify import Check, ConfigError, ContractError, Outcome, Pipeline, Proposal, Task, generator
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import Majority, Rounds
from draftverify_reasoning import (
    Answered,
    AnswerMatches,
    Gym,
    GymScorer,
    GymSolved,
    KnownAnswer,
    RecordedScore,
    UntilAnswered,
    solution,
)


def check(verifier: Any, task: Task, *items: Any) -> list[Check]:
    return list(verifier.verify(make_context(task), Proposal.alternatives(items)).checks)


@pytest.fixture(scope="module")
def sum_of_two() -> Task:
    config = {"chain_sum": {"min_terms": 2, "max_terms": 2}}
    return Gym("chain_sum", size=1, seed=3, config=config).load()[0]


def test_the_scorer_of_the_dataset_judges_texts_solutions_and_steps(sum_of_two: Task) -> None:
    """A text, a solution and a sequence of steps with the right answer pass with score 1, a wrong one is rejected."""
    right = sum_of_two.expected["answer"]
    items = [
        f"<answer>{right}</answer>",
        solution(f"It is {right}."),
        ("first", f"The answer is {right}"),
        "It is 1.",
    ]
    checks = check(GymScorer(), sum_of_two, *items)
    assert [each.verdict for each in checks] == ["pass", "pass", "pass", "reject"]
    assert [each.score for each in checks] == [1.0, 1.0, 1.0, 0.0]
    assert (checks[3].reason, right in checks[3].feedback) == ("wrong answer", False)


def test_an_answer_reaches_the_scorer_as_it_was_spelled() -> None:
    """Scorers that compare texts see the case that the model wrote, not the normal form."""
    (task,) = Gym("caesar_cipher", size=1).load()
    right = task.expected["answer"]
    assert right != right.casefold()
    (passed,) = check(GymScorer(form="tag"), task, solution(f"<answer>{right}</answer>", "tag"))
    assert passed.verdict == "pass"


def test_the_threshold_is_the_scorer_s() -> None:
    """A scorer that gives something to a nearly right answer passes it under a lower threshold."""
    (task,) = Gym("caesar_cipher", size=1).load()
    nearly = f"<answer>{task.expected['answer']} I THINK</answer>"
    (strict,) = check(GymScorer(), task, nearly)
    (lenient,) = check(GymScorer(threshold=0.5), task, nearly)
    assert (strict.verdict, lenient.verdict) == ("reject", "pass")
    assert strict.score == lenient.score


def test_no_answer_an_unreadable_one_and_a_broken_check_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No answer and an answer that the scorer cannot read are rejects with their reasons; the rest are errors."""
    (task,) = Gym("prime_factorization", size=1).load()
    unreadable, none, missing, broken = check(
        GymScorer(), task, "<answer>two times three</answer>", "?", {"text": "#### 2", "answer": None}, 7
    )
    assert (unreadable.verdict, unreadable.reason, unreadable.score) == ("reject", "unreadable answer", 0.0)
    assert "ValueError" in unreadable.feedback
    assert (
        (none.verdict, none.reason, none.score)
        == (missing.verdict, missing.reason, 0.0)
        == ("reject", "no answer", 0.0)
    )
    assert (broken.verdict, broken.reason, broken.score) == ("error", "ContractError", None)
    with pytest.raises(ContractError, match="none of reasoning-gym's"):
        check(GymScorer(), Task(id="t", input={"question": "?"}), "7")


def test_a_known_answer_in_the_input() -> None:
    """Equal by value passes; the feedback of a wrong one does not tell the right one."""
    task = Task(id="t", input={"question": "?", "total": 1000})
    right, wrong, none = check(KnownAnswer("total"), task, "#### $1,000.00", solution("so 1001"), "no idea")
    assert [right.verdict, wrong.verdict, none.verdict] == ["pass", "reject", "reject"]
    assert (wrong.reason, none.reason) == ("wrong answer", "no answer")
    assert "1000" not in wrong.feedback
    with pytest.raises(ConfigError, match="no field 'sum'; there are question, total"):
        check(KnownAnswer("sum"), task, "7")
    with pytest.raises(ConfigError, match="should be an answer, not None"):
        check(KnownAnswer("x"), Task(id="t", input={"x": None}), "7")


def test_a_solution_without_an_answer_is_rejected() -> None:
    """Answered says whether there is one in the form, nothing of whether it is right."""
    verdicts = [
        each.verdict
        for each in check(Answered("boxed"), Task(id="t"), r"\boxed{7}", "it is 7", ["a", "b"], 7)
    ]
    assert verdicts == ["pass", "reject", "reject", "error"]
    assert check(Answered(), Task(id="t"), "it is 7")[0].verdict == "pass"


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (("3 + 4 = 7", "The answer is 7.", "more"), 2),
        (("#### 7",), 1),
        (("3 + 4 = 7", "then 8"), None),
        ((), None),
    ],
)
def test_a_chain_ends_with_the_step_that_has_the_answer(steps: tuple[str, ...], kept: int | None) -> None:
    """A number alone does not end it; what follows the answer is not kept."""
    assert UntilAnswered()(make_context("q", accepted=steps), steps) == kept


def test_a_named_form_ends_a_chain() -> None:
    """Asked for the last number, every step with a number ends it."""
    assert UntilAnswered("last_number")(make_context("q"), ("so", "3 + 4 = 7", "8")) == 2
    assert UntilAnswered("boxed")(make_context("q"), ("The answer is 7.",)) is None


def test_the_metric_of_answers() -> None:
    """By value; abstaining is right where there is no answer; no expected, no say; a tuple of steps is read as one."""
    task, metric = Task(id="t", expected={"answer": "1/2"}), AnswerMatches()
    for value in ("so 0.5", solution(r"\boxed{\frac12}"), ("a", "#### .5"), (solution("0.5"),)):
        assert metric(task, Outcome(status="accepted", value=value)) is True
    assert metric(task, Outcome(status="accepted", value="so 0.4")) is False
    assert metric(task, Outcome(status="accepted", value="so")) is False
    assert metric(task, Outcome(status="exhausted", value="0.5")) is False
    unanswerable = Task(id="t", expected={"answer": None})
    assert metric(unanswerable, Outcome(status="abstained")) is True
    assert metric(unanswerable, Outcome(status="accepted", value="0.5")) is False
    assert metric(Task(id="t"), Outcome(status="accepted", value="0.5")) is None
    with pytest.raises(ConfigError, match="no task has a truth"):
        metric.check_tasks([Task(id="t")])
    with pytest.raises(ConfigError, match="no field 'gold'; there are answer"):
        AnswerMatches("gold").check_tasks([task])


def test_the_metric_of_reasoning_gym(sum_of_two: Task) -> None:
    """The dataset's scorer says what is solved; nothing accepted, no answer and an unreadable one are not."""
    metric, right = GymSolved(), sum_of_two.expected["answer"]
    assert metric(sum_of_two, Outcome(status="accepted", value=f"The answer is {right}.")) is True
    assert metric(sum_of_two, Outcome(status="accepted", value="no")) is False
    assert metric(sum_of_two, Outcome(status="exhausted", value=right)) is False
    (factors,) = Gym("prime_factorization", size=1).load()
    assert metric(factors, Outcome(status="accepted", value="<answer>x</answer>")) is False
    with pytest.raises(ConfigError, match="none of reasoning-gym's"):
        metric.check_tasks([sum_of_two, Task(id="t")])


def test_a_recorded_score_is_passed_on_and_a_missing_one_is_an_error() -> None:
    """No score, a NaN and a text are errors, never a silent zero."""
    items = [
        {"text": "a", "score": -1},
        {"text": "a"},
        {"text": "a", "score": float("nan")},
        {"text": "a", "score": "1"},
        "a",
    ]
    checks = check(RecordedScore(), Task(id="t"), *items)
    assert (checks[0].verdict, checks[0].score) == ("pass", -1.0)
    assert [each.verdict for each in checks[1:]] == ["error"] * 4


VERIFIERS: dict[str, Callable[[], Any]] = {
    "answered": lambda: Answered(),
    "answer": lambda: KnownAnswer("answer"),
    "recorded_score": lambda: RecordedScore(),
}


@pytest.mark.parametrize("name", VERIFIERS)
def test_the_verifier_conforms(name: str) -> None:
    """One check per item, reproducible, one batch as many calls, a poisoned item its own error."""
    items = [solution(f"3 + {i} = 7\n#### {3 + i}", score=float(i)) for i in range(4)]
    tasks = [Task(id="t", input={"question": "3 + 4?", "answer": "7"})]
    blocks = [Proposal.alternatives(items), Proposal.alternatives(())]
    check_component(Subject(VERIFIERS[name](), tasks=tasks, proposals=blocks))


def test_the_scorer_conforms(sum_of_two: Task) -> None:
    """As the other verifiers."""
    check_component(
        Subject(
            GymScorer(), tasks=[sum_of_two], proposals=[Proposal.alternatives(("#### 1", solution("#### 2")))]
        )
    )


def test_votes_of_plain_texts_are_by_their_answers() -> None:
    """`reasoning.answered` makes the solution of a text that it is."""
    texts = ["So 40 + 2 = 42. The answer is 42.", "I get \\boxed{42}.", "#### 41"]
    sampled = generator(lambda context, n: texts[:n], shape="alternatives")
    outcome = Pipeline(sampled, Answered(), Majority(), block=3, done=Rounds(1)).run({"question": "?"})
    assert outcome.value == {"text": texts[0], "answer": "42"}
    assert outcome.support == pytest.approx(2 / 3)


def test_at_another_threshold_the_scorer_says_what_it_would_have_said() -> None:
    """From the checks of one threshold; no answer is rejected at any."""
    (task,) = Gym("caesar_cipher", size=1).load()
    right = task.expected["answer"]
    block = Proposal.alternatives([f"<answer>{right}</answer>", f"<answer>{right} I THINK</answer>", "?"])
    context = make_context(task)
    for threshold in (0.0, 0.5, 1.0):
        one = GymScorer(threshold=threshold)
        for other in (GymScorer(), GymScorer(threshold=0.5)):
            first = other.verify(context, block).checks
            assert one.rejudged(context, block, first) == one.verify(context, block).checks
