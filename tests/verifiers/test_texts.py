"""`regex` and `exact`: what passes, what is said of the rest, and what is an error instead of a rejection."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, ConfigError, Pipeline, Proposal, Task, generator
from draftverify.checks.verifiers import Exact, Regex
from draftverify.kit import Subject, make_context, parametrize_with_checks
from draftverify.rules import First

CONTEXT = make_context("any")


def checks(verifier: Any, *items: Any, context: Any = CONTEXT) -> tuple[Check, ...]:
    """The checks of a block of alternatives."""
    return verifier.verify(context, Proposal.alternatives(items)).checks


def verdicts(verifier: Any, *items: Any, context: Any = CONTEXT) -> list[str]:
    """Their verdicts."""
    return [check.verdict for check in checks(verifier, *items, context=context)]


def test_a_pattern_is_for_the_whole_text_or_for_a_part_of_it() -> None:
    """A line break at the end is not ignored."""
    assert verdicts(Regex(r"\d+"), "12", "12 ", "12\n", "") == ["pass", "reject", "reject", "reject"]
    assert verdicts(Regex(r"\d+", whole=False), "no 12!", "none") == ["pass", "reject"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2024-05-01, I think", '"2024-05-01" does, but there is ", I think" after it'),
        ("It is 2024-05-01.", '"2024-05-01" does, but there is "It is " before it and "." after it'),
        ("tomorrow", 'nothing in "tomorrow" does'),
        ("x" * 500, 'nothing in "xxx'),
    ],
)
def test_feedback_tells_what_does_not_match(text: str, said: str) -> None:
    """What matches, and what is too much; long texts are cut."""
    (check,) = checks(Regex(r"\d{4}-\d\d-\d\d"), text)
    assert (check.verdict, check.reason) == ("reject", "no match")
    assert check.feedback.startswith(r"the whole text must match the regular expression \d{4}-\d\d-\d\d; ")
    assert said in check.feedback
    assert len(check.feedback) < 300


@pytest.mark.parametrize("item", [7, None, ["a"], b"a", "\ud800"])
def test_what_is_no_text_is_an_error(item: Any) -> None:
    """The expression has not refused it; other items of the block are judged all the same."""
    found = checks(Regex("a"), item, "a")
    assert [check.verdict for check in found] == ["error", "pass"]
    assert "regex checks texts" in found[0].feedback


def test_a_text_that_makes_the_pattern_backtrack_without_end_is_a_timeout() -> None:
    """A model may have written it: the item is not refused, and the others are judged."""
    found = checks(Regex("(a|aa)+", timeout=0.05), "a" * 60 + "c", "aa")
    assert [(check.verdict, check.reason) for check in found] == [("timeout", "timeout"), ("pass", "")]


def test_a_pattern_that_is_none_is_refused_when_opened() -> None:
    """With its place in the pipeline."""
    pipeline = Pipeline(generator(lambda c, n: ["a"]), Regex("a(b"), First())
    with pytest.raises(ConfigError, match=r"verifier\.pattern: 'a\(b' is no regular expression: missing \)"):
        pipeline.open()


def task(**input: Any) -> Any:
    """A context of a task with these fields."""
    return make_context(Task(id="t7", input=input))


def test_texts_are_equal_but_for_space_around_them() -> None:
    """And for nothing else."""
    context = task(answer="42 km\n")
    assert verdicts(Exact("answer"), "42 km", " 42 km ", "42  km", "42 KM", 42, context=context) == [
        "pass", "pass", "reject", "reject", "reject",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "item", "places"),
    [
        ({"a": 1, "b": [2, {"c": "x"}]}, {"b": [2.0, {"c": " x"}], "a": 1}, ""),
        ({"a": 1}, '{"a": 1}', ""),
        ({"a": 1, "b": 2}, '{"a": 3, "c": 4}', "$.a, $.b, $.c"),
        ([1, 2], [1], "$[1]"),
        ([1], (1, 2), "$[1]"),
        ({"a": {"b": [True]}}, {"a": {"b": [1]}}, "$.a.b[0]"),
        (0, "false", "$"),
        (7, " 7.0 ", ""),
        (None, "null", ""),
    ],
)
def test_values_are_compared_place_by_place(expected: Any, item: Any, places: str) -> None:
    """JSON's equality: 1 is 1.0 and not true; feedback names places, and never what was expected there."""
    (check,) = checks(Exact("answer"), item, context=task(answer=expected))
    assert check.verdict == ("reject" if places else "pass")
    assert check.feedback == (f"not what was expected: {places}" if places else "")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def same(left: Any, right: Any) -> bool:
    """JSON's equality, written another way."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right and isinstance(left, bool) == isinstance(right, bool)


@given(values, values)
def test_it_passes_what_is_equal_and_nothing_else(expected: Any, item: Any) -> None:
    """Over small nested values."""
    if isinstance(item, str) and not isinstance(expected, str):
        return  # would be read as JSON
    (word,) = verdicts(Exact("answer"), item, context=task(answer=expected))
    assert (word == "pass") == same(expected, item)


def test_a_task_without_the_field_is_an_error_that_names_both() -> None:
    """No item is rejected for it."""
    pipeline = Pipeline(generator(lambda c, n: ["a"]), Exact("anwser"), First())
    record = pipeline.record(Task(id="t7", input={"answer": "a"}))
    assert record.outcome.status == "failed"
    assert "task t7 has no field 'anwser' to compare with; there are answer" in record.outcome.reason
    assert record.rounds[0].tally.trials == 0


def test_no_json_where_a_value_is_expected() -> None:
    """It is rejected and told so, and so is what no reader takes: too long, too deep, beyond a float."""
    found = checks(Exact("answer"), "four", "NaN", "1" * 5000, "[" * 2000, "1e999", context=task(answer=4))
    assert [(check.verdict, check.reason) for check in found] == [("reject", "json")] * 5


TEXTS = [
    Proposal.alternatives(["12", "a", "", "12"]),
    Proposal.chain(["12", "a"]),
    Proposal.tree(["a", "12", "12"], [-1, -1, 1]),
]


@parametrize_with_checks(
    [
        Subject(Regex(r"\d+"), proposals=TEXTS),
        Subject(Regex(r"\d", whole=False), proposals=TEXTS),
        Subject(Exact("answer"), tasks=[{"answer": "12"}, {"answer": 12}], proposals=TEXTS),
    ]
)
def test_conformance(component: Any, check: Any) -> None:
    """They keep the contract."""
    check(component)
