"""A monitor of a pipeline: how often it is wrong, which part it names, and what of a task it is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from draftverify import PASS, REJECT, Check, Decision, Outcome, Refusal, Round, TaskRecord
from draftverify.bench.monitors import Alarm, Monitor, Shares, part_of, shares_of
from draftverify.bench.monitors.monitor import OnAlarm, Rate
from draftverify.errors import ConfigError
from draftverify.stats import tally

KNOWN = {"acceptance": 0.695, "right": 0.7, "true_pass": 0.95, "false_pass": 0.1}


def metric(task: object, outcome: object) -> None:
    """Labels are given here."""


def shares(
    draw: np.random.Generator, right: float = 0.7, true: float = 0.95, false: float = 0.1
) -> Iterator[Shares]:
    """What tasks of four drafts say, every fifth with labels."""
    place = 0
    while True:
        good = draw.random(4) < right
        passed = draw.random(4) < np.where(good, true, false)
        said = Shares(acceptance=float(passed.mean()))
        if place % 5 == 0:
            said = Shares(
                acceptance=said.acceptance,
                right=float(good.mean()),
                true_pass=float(passed[good].mean()) if good.any() else None,
                false_pass=float(passed[~good].mean()) if not good.all() else None,
            )
        yield said
        place += 1


def alarms(monitor: Monitor, told: Iterator[Shares], tasks: int) -> tuple[Alarm, ...]:
    """What a monitor says of so many tasks."""
    for task, each in zip(range(tasks), told, strict=False):
        monitor.observe(str(task), each)
    return monitor.alarms


def test_four_rates_share_one_level() -> None:
    """When nothing has changed, at most 5 % of 80 runs have any alarm, on acceptance or on the labelled rates.

    A true probability of .05 gives more than 11 of them with probability .001. Each rate has a quarter of the level.
    """
    thresholds = [each.threshold for each in Monitor(KNOWN, metric=metric).report()]
    assert thresholds == pytest.approx([np.log(4 / 0.05)] * 4)
    draw = np.random.default_rng(1)
    wrong = sum(bool(alarms(Monitor(KNOWN, metric=metric), shares(draw), 150)) for _ in range(80))
    assert wrong <= 11


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"right": 0.35}, "generator"),
        ({"true": 0.6}, "verifier"),
        ({"false": 0.7}, "verifier"),
    ],
)
def test_the_part_that_changed_is_named(change: dict[str, float], part: str) -> None:
    """By labels of every fifth task, in 9 of 10 runs of 300 tasks at least; without labels nothing can be told.

    At a true chance of .98 it is fewer with probability .016 (149 of 150 runs of 250 tasks named it).
    """
    draw = np.random.default_rng(2)
    named = 0
    for _ in range(10):
        labelled = Monitor(KNOWN, metric=metric)
        alarms(labelled, shares(draw, **change), 300)
        named += labelled.part == part
    assert named >= 9
    alone = Monitor(KNOWN)
    assert {alarm.rate for alarm in alarms(alone, shares(draw, **change), 300)} == {"acceptance"}
    assert alone.part == "cannot tell"


def test_an_alarm_says_what_was_seen() -> None:
    """The task, how many tasks had a say, their mean, what it was, and the evidence that was enough."""
    monitor = Monitor(0.8, level=0.01)
    found = [alarm for task in "abcdefgh" for alarm in monitor.observe(task, Shares(acceptance=0.0))]
    assert len(found) == 1  # and no second one of the same rate
    assert (found[0].task, found[0].observed) == ("e", 5)
    assert (found[0].share, found[0].reference, found[0].part) == (0.0, 0.8, "cannot tell")
    assert found[0].evidence >= monitor.report()[0].threshold == pytest.approx(np.log(100))
    assert (
        str(found[0])
        == "alarm at task 'e': acceptance 0.00 over 5 tasks, 0.80 before; what changed: cannot tell"
    )


def test_tasks_that_say_nothing_are_no_observations() -> None:
    """A task without a judged draft counts for no rate."""
    monitor = Monitor(0.8)
    for task in range(100):
        assert not monitor.observe(str(task), Shares())
    assert monitor.report()[0].observed == 0
    assert monitor.report()[0].share is None


@pytest.mark.parametrize(
    ("on_alarm", "rate", "rose", "acts"),
    [
        ("stop", "acceptance", True, False),
        ("stop", "acceptance", False, True),
        ("stop", "right", True, False),
        ("stop", "true_pass", False, True),
        ("stop", "false_pass", True, True),
        ("stop", "false_pass", False, False),
        ("escalate", "acceptance", True, True),
        ("escalate", "right", True, False),
        ("tighten", "acceptance", True, True),
        ("tighten", "true_pass", True, False),
    ],
)
def test_an_alarm_is_acted_on_where_trust_is_lost(
    on_alarm: OnAlarm, rate: Rate, rose: bool, acts: bool
) -> None:
    """What becomes better is recorded; more acceptance may be a lax verifier's, so that is no reason to trust."""
    threshold = 0.9 if on_alarm == "tighten" else None
    monitor = Monitor({rate: 0.5}, metric=metric, on_alarm=on_alarm, threshold=threshold)
    for task in range(20):
        monitor.observe(str(task), Shares(**{rate: float(rose)}))  # type: ignore[arg-type]
    (alarm,) = monitor.alarms
    assert alarm.then == (on_alarm if acts else "record")
    assert monitor.acts == acts


def test_the_generator_is_named_after_tighten() -> None:
    """What is drafted first is as it was, so its labels go on; the other rates are the action's doing."""
    monitor = Monitor(KNOWN, metric=metric, on_alarm="tighten", threshold=0.9)
    for task in range(60):
        monitor.observe(str(task), Shares(acceptance=0.0, right=0.0 if task > 20 else 0.7, false_pass=0.1))
    assert [alarm.rate for alarm in monitor.alarms] == ["acceptance", "right"]
    assert monitor.part == "generator"
    observed = {each.rate: each.observed for each in monitor.report()}
    assert observed["false_pass"] == observed["acceptance"]


def test_threads_take_turns() -> None:
    """Of what four threads tell at once nothing is lost."""
    monitor = Monitor(0.5)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda task: monitor.observe(str(task), Shares(acceptance=task % 2.0)), range(400)))
    finally:
        sys.setswitchinterval(before)
    assert (monitor.tasks, monitor.report()[0].observed, monitor.report()[0].share) == (400, 400, 0.5)


def test_nothing_is_taken_after_an_alarm_that_is_acted_on() -> None:
    """What comes then is the action's doing, and would be evidence against whom it may."""
    monitor = Monitor(KNOWN, metric=metric, on_alarm="escalate")
    for task in range(100):
        monitor.observe(str(task), Shares(acceptance=0.0, right=0.0 if task > 50 else 0.7))
    assert {alarm.rate for alarm in monitor.alarms} == {"acceptance"}
    assert monitor.tasks == 100


def test_the_reference_may_be_what_earlier_tasks_said() -> None:
    """Rates of which they said nothing are not watched."""
    monitor = Monitor([Shares(acceptance=0.5), Shares(acceptance=1.0, right=0.5), Shares()], metric=metric)
    assert [(each.rate, each.reference) for each in monitor.report()] == [
        ("acceptance", 0.75),
        ("right", 0.5),
    ]
    assert monitor.against([]).report() == ()


def test_neighbours_that_are_alike_are_warned_of() -> None:
    """Where they correlate by more than chance in the reference, each rate's figure says so; where not, nothing is."""
    blocks = Monitor([Shares(acceptance=float(task // 5 % 2)) for task in range(60)])
    (figure,) = blocks.report()
    assert figure.alike == pytest.approx(0.6, abs=0.05)
    assert "neighbours correlate by 0.6" in str(figure)
    draw = np.random.default_rng(1)
    for reference in (0.8, draw.integers(0, 2, 60), [1.0] * 60, [0.0] + [1.0] * 9, [0.5]):
        shares = (
            reference if isinstance(reference, float) else [Shares(acceptance=float(y)) for y in reference]
        )
        (figure,) = Monitor(shares).report()
        assert figure.alike is None
        assert "neighbours" not in str(figure)


@pytest.mark.parametrize(
    ("rates", "part"),
    [
        (["acceptance"], "cannot tell"),
        (["right", "acceptance"], "generator"),
        (["false_pass"], "verifier"),
        (["right", "true_pass"], "generator and verifier"),
    ],
)
def test_rates_tell_parts(rates: list[str], part: str) -> None:
    """π is the generator's, T and F are the verifier's."""
    assert part_of(rates) == part


def a_round(
    index: int,
    verdicts: str,
    source: str = "generator",
    tries: int = 0,
    chain: bool = False,
    refused: int = -1,
) -> Round:
    """A round over items 0, 1, 2, … with verdicts p, r and u (unchecked); the rule refuses one that passed."""
    kinds = {"p": PASS, "r": REJECT, "u": Check("unchecked")}
    checks = tuple([kinds[each] for each in verdicts])
    decision = Decision(refused=(Refusal(refused, ""),) if refused >= 0 else ())
    parents = tuple(range(-1, len(checks) - 1)) if chain else (-1,) * len(checks)
    return Round(
        index=index,
        tries=tries,
        source=source,
        items=tuple(range(len(checks))),
        parents=parents,
        checks=checks,
        decision=decision,
        tally=tally(len(checks), checks, decision),
    )


def record(*rounds: Round) -> TaskRecord:
    """A task of these rounds."""
    return TaskRecord(task="t", outcome=Outcome(status="accepted"), rounds=rounds)


def test_a_task_says_what_its_first_tries_say() -> None:
    """Retries, fallbacks, unchecked items and all that comes after a person's word are left out."""
    task = record(
        a_round(0, "pru"),
        a_round(1, "rrr", tries=1),
        a_round(2, "rrr", source="other"),
        a_round(3, "pp", refused=1),
        a_round(4, "p", source="person"),
        a_round(5, "rrrr"),
    )
    even = shares_of(task, lambda item: item % 2 == 0)
    assert even == Shares(acceptance=2 / 4, right=2 / 4, true_pass=1.0, false_pass=0.0)
    assert shares_of(task) == Shares(acceptance=2 / 4)
    assert shares_of(task, lambda item: None) == Shares(acceptance=2 / 4)
    assert shares_of(record()) == Shares()


def test_labels_do_not_depend_on_verdicts() -> None:
    """They are the first round's; and the first item's where checking may stop at a pass."""
    task = record(a_round(0, "rpu"), a_round(1, "p"))
    assert shares_of(task, lambda item: item == 0) == Shares(2 / 3, right=0.5, true_pass=0.0, false_pass=1.0)
    assert shares_of(task, lambda item: item == 0, checks_all=False) == Shares(
        2 / 3, right=1.0, true_pass=0.0
    )


def test_an_item_that_passed_and_that_the_rule_refused_was_not_accepted() -> None:
    """By the labels as by the tally."""
    task = record(a_round(0, "pp", refused=1))
    assert shares_of(task, lambda item: True) == Shares(1 / 2, right=1.0, true_pass=0.5)


def test_items_of_a_chain_have_no_labels() -> None:
    """None of them is a whole answer."""
    task = record(a_round(0, "ppr", chain=True))
    assert shares_of(task, lambda item: True) == Shares(acceptance=2 / 3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"level": 0.0}, "a level"),
        ({"every": 0}, "every"),
        ({"on_alarm": "shout"}, "no answer to an alarm"),
        ({"reference": {"recall": 0.5}}, "no rate"),
        ({"reference": 1.0}, "strictly between"),
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, object], said: str) -> None:
    """With what would do."""
    with pytest.raises(ConfigError, match=said):
        Monitor(**{"reference": 0.5, **wrong})  # type: ignore[arg-type]
