"""A monitor of a rate: how often it is wrong, and how soon it is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from draftverify.calibration import RateMonitor
from draftverify.errors import ConfigError

LENGTH = 120


def shares(draw: np.random.Generator, n: int, rate: float, alike: float) -> list[float]:
    """Shares of hits in batches of 8 whose items have correlation `alike` (batches themselves are independent)."""
    own = draw.beta(rate * (1 - alike) / alike, (1 - rate) * (1 - alike) / alike, n) if alike else rate
    return (draw.binomial(8, own, n) / 8).tolist()


def alarms(monitor: RateMonitor, observations: list[float]) -> int | None:
    """After how many observations it alarms; None for never."""
    return next((t for t, y in enumerate(observations, 1) if monitor.observe(y)), None)


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.floats(0.1, 0.9))
def test_single_items_give_the_beta_mixture(hits: list[bool], rate: float) -> None:
    """The evidence against a known rate is betaln(k + 1, t − k + 1) − k·log p − (t − k)·log(1 − p)."""
    monitor = RateMonitor(rate)
    for hit in hits:
        monitor.observe(float(hit))
    k, t = sum(hits), len(hits)
    formula = special.betaln(k + 1, t - k + 1) - k * math.log(rate) - (t - k) * math.log(1 - rate)
    assert monitor.evidence == pytest.approx(formula, abs=0.02)
    assert (monitor.count, monitor.total) == (t, k)


@pytest.mark.parametrize(
    ("rate", "alike"), [(0.5, 0.0), (0.9, 0.0), (0.8, 0.5), (0.95, 0.3)], ids=lambda value: str(value)
)
def test_a_known_rate_is_seldom_alarmed_at(rate: float, alike: float) -> None:
    """Looked at after each of 120 batches, dependent items or not, at most 5 % of 400 runs ever alarm.

    A true probability of .05 gives more than 35 alarms in 400 runs (.0875) with probability .0006.
    """
    draw = np.random.default_rng(1)
    wrong = sum(alarms(RateMonitor(rate), shares(draw, LENGTH, rate, alike)) is not None for _ in range(400))
    assert wrong <= 35


@pytest.mark.parametrize(("rate", "alike", "calibration"), [(0.8, 0.5, 8), (0.97, 0.3, 8), (0.5, 0.0, 30)])
def test_an_estimated_rate_is_no_known_one(rate: float, alike: float, calibration: int) -> None:
    """With the rate from a few batches at most 5 % of runs alarm, where taking the estimate for the truth would not do.

    A true probability of .05 gives more than 12 alarms in 100 runs with probability .0015. The monitor that takes the
    estimate for the truth alarms in a fifth of 30 longer runs at least.
    """
    draw = np.random.default_rng(2)
    wrong = plugged_in = 0
    for run in range(100):
        before, after = shares(draw, calibration, rate, alike), shares(draw, LENGTH * 4, rate, alike)
        wrong += alarms(RateMonitor(before), after[:LENGTH]) is not None
        if run < 30:
            estimate = min(max(sum(before) / calibration, 0.001), 0.999)
            plugged_in += alarms(RateMonitor(estimate), after) is not None
    assert wrong <= 12
    assert plugged_in >= 6


def test_a_change_is_noticed() -> None:
    """A rate that falls by a quarter after 64 batches is noticed within 150 more, nearly always; a collapse within 25.

    Of 20 runs at most 2 may be later: at a true chance of .98 that fails with probability .007.
    """
    draw = np.random.default_rng(3)
    for rate, after, within in ((0.9, 0.65, 150), (0.9, 0.1, 25)):
        late = 0
        for _ in range(20):
            monitor = RateMonitor(shares(draw, 16, rate, 0.3))
            stable = alarms(monitor, shares(draw, 64, rate, 0.3))
            late += stable is None and alarms(monitor, shares(draw, within, after, 0.3)) is None
        assert late <= 2


def test_a_long_calibration_tells_a_change_at_once() -> None:
    """A rate that falls by a quarter right after a calibration on 64 batches: half of 20 runs see it within 40 more.

    The median over many runs is 25; that the calibration's own evidence counts is what makes it so (else it is 100).
    """
    draw = np.random.default_rng(3)
    found = [
        alarms(RateMonitor(shares(draw, 64, 0.9, 0.3)), shares(draw, 200, 0.65, 0.3)) or 999
        for _ in range(20)
    ]
    assert sorted(found)[9] <= 40


def test_a_known_rate_is_watched_more_closely_than_an_estimate() -> None:
    """The same change is seen sooner against a known rate than against one estimated from ten batches."""
    draw = np.random.default_rng(4)
    gone = shares(draw, 2000, 0.6, 0.0)
    known = alarms(RateMonitor(0.8), gone)
    estimated = alarms(RateMonitor([0.8, 0.75, 0.875, 0.75, 0.875, 0.75, 0.75, 0.875, 0.875, 0.75]), gone)
    assert known is not None
    assert known < 60
    assert estimated is None or estimated > known


def test_an_alarm_stays() -> None:
    """Once it alarmed it goes on saying so, whatever comes after."""
    monitor = RateMonitor(0.9)
    assert alarms(monitor, [0.0] * 10) is not None
    assert monitor.observe(1.0)
    assert monitor.alarmed


def test_extreme_calibrations_are_no_trouble() -> None:
    """A stage that passed everything (or nothing) is not alarmed at by more of the same, and is by the contrary."""
    for all_of_it in (1.0, 0.0):
        monitor = RateMonitor([all_of_it] * 12)
        assert alarms(monitor, [all_of_it] * 100) is None
        assert alarms(monitor, [1.0 - all_of_it] * 30) is not None
        assert math.isfinite(monitor.evidence)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_bad_arguments_are_refused(bad: float) -> None:
    """Shares outside [0, 1], known rates at its ends, an empty calibration and a level that is none."""
    with pytest.raises(ConfigError, match=r"in \[0, 1\]"):
        RateMonitor(0.5).observe(bad)
    with pytest.raises(ConfigError, match=r"in \[0, 1\]"):
        RateMonitor([0.5, bad])
    with pytest.raises(ConfigError, match="strictly between"):
        RateMonitor(bad)
    with pytest.raises(ConfigError, match="without observations"):
        RateMonitor([])
    with pytest.raises(ConfigError, match="a level"):
        RateMonitor(0.5, level=bad)
