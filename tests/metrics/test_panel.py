"""Panels of metrics: a vote and a mean; a member that fails has not said that the outcome is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from draftverify import ConfigError, EndpointError, Outcome, Task
from draftverify.checks.metrics import EqualAnswer, MetricMean, MetricVote, Score, check_metrics, score
from draftverify.checks.verifiers import MostOf, Regex
from draftverify.exchanges import Exchange, Turn, exchanges_of_metric, noted

OUTCOME = Outcome(status="accepted", value="4")
TASK = Task(id="t", expected={"answer": "4"})


class Member:
    """Says what it is given, or raises it."""

    def __init__(self, says: Any) -> None:
        self.says = says
        self.asked = self.opened = 0

    def open(self) -> None:
        """Count."""
        self.opened += 1

    def close(self) -> None:
        """Count."""
        self.opened -= 1

    def __call__(self, task: Task, outcome: Outcome) -> Any:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


DOWN = EndpointError("the judge is down")


@pytest.mark.parametrize(
    ("votes", "at_least", "value", "asked"),
    [
        ([1], None, 1.0, 1),
        ([0], None, 0.0, 1),
        ([DOWN], None, "down", 1),
        ([None], None, None, 1),
        ([1, 0], None, 0.0, 2),  # a tie is not more than half, as of the verifier
        ([1, 0], 1, 1.0, 1),
        ([1, DOWN], None, "down", 2),
        ([0, DOWN], None, 0.0, 1),
        ([1, 1, DOWN], None, 1.0, 2),
        ([1, DOWN, 0], None, "down", 3),
        ([1, None, 0], None, None, 3),
        ([None, DOWN, None], None, "down", 3),
        ([DOWN, DOWN, DOWN], None, "down", 3),
        ([True, False, True], None, 1.0, 3),
        ([0.5, 1, 0], None, "no vote", 3),
    ],
)
def test_a_vote_is_held_while_it_can_decide(votes: Any, at_least: Any, value: Any, asked: int) -> None:
    """More than half say so, or so many as are asked for; where too few do, since some failed, it is no 0."""
    members = [Member(vote) for vote in votes]
    found = score(MetricVote(members, at_least), TASK, OUTCOME)
    if isinstance(value, str):
        assert value in found.problem
        assert found.value is None
    else:
        assert found == Score(value)
    assert sum(member.asked for member in members) == asked


@pytest.mark.parametrize(
    ("grades", "value"),
    [([0.5], 0.5), ([0.25, 0.75, 1], 2 / 3), ([0.5, None], None), ([0.5, DOWN], "Member 2: EndpointError: the judge"),
     ([DOWN, DOWN], "Member: EndpointError: the judge is down; Member 2:")],
)  # fmt: skip
def test_a_mean_needs_the_word_of_every_member(grades: Any, value: Any) -> None:
    """A mean of some would be another figure."""
    found = score(MetricMean([Member(grade) for grade in grades]), TASK, OUTCOME)
    if isinstance(value, str):
        assert value in found.problem
    else:
        assert found.value == (None if value is None else pytest.approx(value))
        assert not found.problem


@pytest.mark.parametrize("panel", [MetricVote, MetricMean])
def test_a_panel_sums_the_cost_and_keeps_what_each_member_asked(panel: Callable[..., Any]) -> None:
    """By the members' names."""
    notes = noted([Exchange(asked=(Turn("user", "right?"),))])
    members = [
        Member(Score(1.0, cost=0.25, notes=notes)),
        Member(1.0),
        Member(Score(1.0, cost=0.5, notes=notes)),
    ]
    found = score(panel(members, at_least=3) if panel is MetricVote else panel(members), TASK, OUTCOME)
    assert (found.value, found.cost) == (1.0, 0.75)
    asked = [who for who, _ in exchanges_of_metric("right", found.notes)]
    assert asked == ["metric right, Member", "metric right, Member 3"]


def test_a_panel_opens_and_checks_its_members() -> None:
    """One that stands there twice once; a member that cannot judge the tasks is named by its place."""
    member = Member(1)
    panel = MetricVote([member, EqualAnswer(), member])
    panel.open()
    assert member.opened == 1
    panel.close()
    assert member.opened == 0
    with pytest.raises(ConfigError, match=r"metrics\.right\.stages\.1: no task expects anything"):
        check_metrics({"right": panel}, [Task(id="u")])
    member.unit = "s"  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"stages\.0: it has a unit"):
        check_metrics({"right": panel}, [TASK])


def test_the_two_panels_refuse_the_same_numbers() -> None:
    """The verifier's and the metric's `at_least` are one rule."""
    for make in (lambda n: MetricVote([Member(1)] * 2, n), lambda n: MostOf([Regex("a"), Regex("b")], n)):
        for wrong in (0, 3):
            with pytest.raises(ConfigError, match=f"at_least is {wrong}; there are 2 stages"):
                make(wrong)
    with pytest.raises(ConfigError, match="there are no stages"):
        MetricMean([])
