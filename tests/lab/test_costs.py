"""Costs fitted from the timings of rounds."""

from __future__ import annotations

import math

import pytest

from draftverify import Fixed
from draftverify.errors import ConfigError
from draftverify.stats.costs import Curve, fit_costs
from draftverify.values import Decision, Outcome, Round, TaskRecord, Timing
from tests.lab.simulated import PLAIN, Machine


def timed(*rounds: tuple[int, float], task: str = "a", first: float = 0.0) -> TaskRecord:
    """Rounds of (items, seconds of the verifier); the first one takes `first` seconds more."""
    made = tuple(
        Round(
            index=index,
            items=(0,) * n,
            parents=tuple(range(-1, n - 1)),
            asked=n,
            decision=Decision(spliced=(0,), emitted=(0,)),
            timing=Timing(verify=seconds + (0.0 if index else first), passes=1),
        )
        for index, (n, seconds) in enumerate(rounds)
    )
    return TaskRecord(task=task, outcome=Outcome(status="accepted", seconds=1.0), rounds=made)


def test_known_costs_are_recovered() -> None:
    """With 5 % noise and one stall in twenty, each size's fitted seconds come within 5 % of the truth."""
    machine = Machine(lambda task, round: 0.6, draft=lambda n: 0.1 * n, stalls=0.05, seed=3)
    records = [machine.task(task, Fixed(task % 5), 150) for task in range(20)]
    costs = fit_costs(records)
    assert costs.verify.sizes == (0, 1, 2, 3, 4)
    for n in range(5):
        assert costs.verify.at(n) == pytest.approx(PLAIN * (1 + 0.04 * n), rel=0.05)
        drafting = costs.draft.at(n) if n else 0.0
        assert drafting + costs.verify.at(n) + costs.rest == pytest.approx(PLAIN * (1 + 0.14 * n), rel=0.05)
    assert costs.first_verify == pytest.approx(5 * PLAIN, rel=0.1)


def test_errors_are_of_the_right_size() -> None:
    """Over 60 fits the stated standard errors match the spread of the fitted means within a factor of 1.5."""
    fits = []
    for seed in range(60):
        machine = Machine(lambda task, round: 0.6, noise=0.1, seed=seed)
        fits.append(fit_costs([machine.task(task, Fixed(3), 60) for task in range(8)]).verify)
    means = [fit.seconds[0] for fit in fits]
    centre = sum(means) / 60
    spread = math.sqrt(sum((mean - centre) ** 2 for mean in means) / 59)
    stated = math.sqrt(sum(fit.errors[0] ** 2 for fit in fits) / 60)
    assert 1 / 1.5 < stated / spread < 1.5


def test_costs_never_fall_with_the_size() -> None:
    """A larger block that happened to be timed cheaper is pooled with the smaller one, by its weight."""
    costs = fit_costs([timed((0, 1.0), (0, 1.0), (2, 1.5), (2, 1.5), (4, 1.2), (8, 2.0))])
    assert costs.verify.seconds == pytest.approx((1.0, 1.4, 1.4, 2.0))


def test_sizes_between_are_interpolated_and_sizes_outside_refused() -> None:
    """Costs between two timed sizes lie on the line between them; beyond the ends there is none."""
    costs = fit_costs([timed((0, 1.0), (0, 1.0), (4, 2.0), (0, 1.0))])
    assert costs.verify.at(1) == pytest.approx(1.25)
    with pytest.raises(ConfigError, match=r"blocks of 5.*0 to 4"):
        costs.verify.at(5)
    with pytest.raises(ConfigError, match="none"):
        Curve().at(0)


def test_the_first_round_is_apart_where_there_are_later_ones() -> None:
    """The prompt's cost is not a block's; tasks of a single round have nothing else, and are used."""
    long = fit_costs([timed((0, 1.0), (0, 1.0), (0, 1.0), first=9.0)])
    assert long.verify.at(0) == pytest.approx(1.0)
    assert long.first_verify == pytest.approx(9.0)
    short = fit_costs([timed((8, 3.0), task=str(task)) for task in range(4)])
    assert short.verify.at(8) == pytest.approx(3.0)
    assert short.first_verify == 0.0


def test_a_size_that_only_first_rounds_have_is_known_from_them() -> None:
    """A block of all eight items is always a task's first; the surcharge is of sizes that later rounds have too."""
    records = [timed((2, 1.0), (2, 1.0), (2, 1.0), task=task, first=0.5) for task in "ab"]
    costs = fit_costs([*records, timed((8, 3.0), task="c")])
    assert (costs.verify.at(2), costs.verify.at(8)) == (1.0, 3.0)
    assert costs.first_verify == pytest.approx(0.5)


def test_plain_records_bring_the_cost_of_an_empty_block() -> None:
    """Plain decoding recorded beside the pipeline gives size 0, of the same tasks."""
    costs = fit_costs([timed((4, 2.0), (4, 2.0))], plain=[timed((0, 1.0), (0, 1.0))])
    assert costs.verify.sizes == (0, 4)


def test_nothing_timed_is_an_error() -> None:
    """Without a single timed round the error says what to do."""
    with pytest.raises(ConfigError, match="record a run"):
        fit_costs([])
