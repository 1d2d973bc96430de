"""What drafting is said to have won or lost: against which plain steps, and when nothing is said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from draftverify.bench.tables.figures import drafting_words
from draftverify.stats import DraftingAccount, drafting
from draftverify.values import Decision, Outcome, Refusal, Round, TaskRecord, Timing
from tests.lab.test_hostile import rounds_of


def record(rounds: Sequence[tuple[int, float, int, int]], task: str = "t") -> TaskRecord:
    """A task of rounds that asked for so many items, took so long, brought so many values, in a batch of so many."""
    return TaskRecord(
        task=task,
        outcome=Outcome(status="accepted", rounds=len(rounds)),
        rounds=tuple(
            Round(
                index=index,
                items=(0,) * asked,
                parents=tuple(range(-1, asked - 1)),
                asked=asked,
                decision=Decision(
                    kept=tuple(range(min(asked, values))),
                    refused=(Refusal(0),) if asked and not values else (),
                    spliced=(0,) * max(0, values - asked),
                    emitted=(0,) * values,
                ),
                timing=Timing(verify=seconds, busy=seconds, passes=1, batch=batch),
            )
            for index, (asked, seconds, values, batch) in enumerate(rounds)
        ),
    )


def account(records: Sequence[TaskRecord]) -> DraftingAccount:
    found = drafting(records)
    assert found is not None
    return found


def test_drafts_are_held_against_their_own_tasks_plain_steps():
    """Tasks become dearer while drafts become rarer: a drafter that loses a tenth each time is not said to win."""
    rng = np.random.default_rng(1)
    records = []
    for number in range(30):
        unit = float(rng.uniform(1.0, 1.2)) * (1.0 + 0.2 * number)
        drafts = [(2, 1.1 * unit, 1, 1)] * (6 if number < 10 else 1)
        records.append(record([(0, unit, 1, 1), *drafts, *[(0, unit, 1, 1)] * 4], f"t{number}"))
    found = account(records)
    drafted = [each.timing.busy for each in (round for one in records for round in one.rounds if round.asked)]
    assert found.reads == "loss"
    assert found.lost == pytest.approx(sum(drafted) / 11)
    assert found.low is not None
    assert 0.0 < found.low < found.lost


def test_first_tasks_without_plain_steps_of_their_own_say_neither_won_nor_lost():
    """Two cheap tasks were drafted for, twenty dearer ones were not: the mean plain step is no match for the two."""
    cheap = [record([(0, 1.0, 1, 1), *[(2, 1.1, 1, 1)] * 10], f"a{number}") for number in range(2)]
    units = np.random.default_rng(2).uniform(1.0, 4.0, 20).tolist()
    dear = [record([(0, unit, 1, 1)] * 11, f"b{number}") for number, unit in enumerate(units)]
    found = account([*cheap, *dear])
    assert found.lost < 0.0  # by the mean step it has won
    assert found.reads != "loss"
    found = account([*cheap, record([(0, 1.0, 1, 1), *[(2, 2.1, 1, 1)] * 10], "c"), *dear])
    assert found.reads == "unclear"
    assert "no difference from plain steps was seen: by estimate it " in drafting_words(found)


def test_one_task_has_no_interval():
    """However clear it looks; the summary can hold it as plain data."""
    found = account([record([(0, 1.0, 1, 1)] * 4 + [(2, 3.0, 1, 1)] * 4)])
    assert (found.reads, found.low, found.high) == ("unclear", None, None)
    assert found.lost == pytest.approx(8.0)
    assert drafting_words(found).endswith("; what it has won or lost against plain steps is not known yet")


def test_the_interval_holds_the_loss():
    """Of 300 runs with a true loss at most 5 % and three standard errors of them (.088) miss it."""
    rng = np.random.default_rng(3)
    missed = wrong = 0
    for _ in range(300):
        records, expected = [], 0.0
        for number in range(12):
            unit = float(rng.lognormal(0.0, 0.5))
            drafts = (rng.gamma(8.0, 1.15 * unit / 8.0, 5 if number < 6 else 2)).tolist()
            plain = (rng.gamma(8.0, unit / 8.0, 0 if number < 2 else 8)).tolist()
            expected += 0.15 * unit * len(drafts)
            rounds = [(0, unit, 1, 1), *((2, each, 1, 1) for each in drafts)]
            records.append(record([*rounds, *((0, each, 1, 1) for each in plain)], f"t{number}"))
        found = account(records)
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= expected <= found.high
        wrong += found.reads == "gain"
    assert missed / 300 <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    assert wrong / 300 <= 0.025 + 3 * (0.025 * 0.975 / 300) ** 0.5


def test_a_plain_step_is_one_of_that_batch_size():
    """A session's share of a pass of sixteen is small: against steps taken alone it would look like a gain."""
    records = [
        record(
            [(0, 0.1, 1, 16), *[(0, 0.1, 1, 16)] * 4, *[(2, 0.2, 1, 15)] * 4, (2, 0.2, 1, 6)], f"a{number}"
        )
        for number in range(8)
    ]
    records += [record([(0, 1.0, 1, 1)] * 9, f"b{number}") for number in range(8)]
    for one in (records, records[::-1]):
        found = account(one)
        assert found.lost == pytest.approx(8 * (4 * 0.1 + 0.1))
        assert found.reads == "loss"


def test_tasks_that_were_drafted_for_in_vain_have_lost_just_that():
    """No plain task need be guessed for it; three of forty are enough to say so, and seconds are written out."""
    outcome = Outcome(status="accepted", rounds=2)
    records = [
        TaskRecord(
            task=f"t{number}",
            outcome=outcome,
            rounds=tuple(
                rounds_of(drafted=number < 3, right=False, draft=411.5, plain=5000.0 + 37.0 * number)
            ),
        )
        for number in range(40)
    ]
    found = account(records)
    assert (found.of, found.reads, found.stopped) == ("tasks", "loss", 3)
    assert found.lost == found.low == found.high == pytest.approx(1234.5)
    assert (
        "drafting stopped after 3 tasks; it lost 20.6 min (0.54% [0.54%, 0.54%] of the run) beyond"
        in drafting_words(found)
    )


def test_a_task_that_waits_for_a_person_has_lost_what_one_has_that_gave_up():
    """It was drafted for as well, and no draft has come into an answer."""

    def told(status):
        waits = rounds_of(drafted=True, right=False, draft=3.0)[:1]
        others = [
            TaskRecord(
                task=f"t{number}",
                outcome=Outcome(status="accepted", rounds=2),
                rounds=tuple(rounds_of(drafted=False, right=False, draft=0.0, plain=2.0)),
            )
            for number in range(20)
        ]
        asked = [
            TaskRecord(task=f"w{number}", outcome=Outcome(status=status, rounds=1), rounds=tuple(waits))
            for number in range(10)
        ]
        return account([*asked, *others])

    assert told("waiting") == told("refused")
    assert told("waiting").lost == pytest.approx(30.0)


def test_a_task_that_drafts_solved_is_held_against_the_mean_fallback():
    """Which is known by a sample of tasks alone: the gain has an interval."""
    outcome = Outcome(status="accepted", rounds=2)
    plain = np.random.default_rng(5).uniform(0.5, 1.5, 60).tolist()
    records = [
        TaskRecord(
            task=f"t{number}",
            outcome=outcome,
            rounds=tuple(rounds_of(drafted=number % 2 > 0, right=True, draft=0.2, plain=plain[number])),
        )
        for number in range(60)
    ]
    found = account(records)
    assert found.reads == "gain"
    assert found.low is not None
    assert found.high is not None
    assert found.low < -30 * 0.8 < found.high < 0.0
    assert "it won " in drafting_words(found)
    assert "over the fallback alone" in drafting_words(found)


def test_a_probe_at_the_end_is_not_yet_a_return():
    """Drafting is back once four drafts were made without a rest of four rounds between them."""
    start = [(2, 2.0, 1, 1)] * 4 + [(0, 1.0, 1, 1)] * 8
    for drafts, back in ((1, False), (3, False), (4, True)):
        found = account([record(start + [(2, 2.0, 1, 1)] * drafts)])
        assert (found.stopped, found.again, found.back) == (4, 1, back)
        assert drafting_words(found).endswith("back since") == back
