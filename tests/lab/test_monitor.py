"""A monitor of a rate: how often it is wrong, and how soon it is right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from draftverify.bench.monitors import RateMonitor
from draftverify.bench.monitors.rates import Earlier, Wealth
from draftverify.errors import ConfigError

LENGTH = 120


def shares(draw: np.random.Generator, shape: tuple[int, int], rate: float, alike: float) -> Any:
    """Shares of hits in batches of 8 whose items have correlation `alike` (batches themselves are independent)."""
    own = draw.beta(rate * (1 - alike) / alike, (1 - rate) * (1 - alike) / alike, shape) if alike else rate
    return draw.binomial(8, own, shape) / 8


def estimated(before: Any) -> Wealth:
    """The gamblers against rates that references, [runs, batches], tell."""
    return Wealth((before[..., None] == np.arange(9) / 8).sum(axis=1))


def alarms(wealth: Wealth, observed: Any) -> list[int]:
    """After how many observations each run alarms; 9,999 for never."""
    over = np.stack([wealth.observe(each).copy() for each in observed.T])
    return np.where(over.any(axis=0), over.argmax(axis=0) + 1, 9_999).tolist()


def alarm(monitor: RateMonitor, observed: list[float]) -> int | None:
    """After how many observations it alarms; None for never."""
    return next((t for t, y in enumerate(observed, 1) if monitor.observe(y)), None)


def beta_mixture(hits: Sequence[bool], rate: float) -> float:
    """log of ½ ∫ ∏ l(y; r) dr / p below the rate p, and as much above it."""
    k, t = sum(hits), len(hits)
    below = special.betainc(k + 1, t - k + 1, rate)
    sides = np.log([below / rate, (1 - below) / (1 - rate)]) + special.betaln(k + 1, t - k + 1)
    won = special.logsumexp(sides) - math.log(2)
    return float(won - k * math.log(rate) - (t - k) * math.log(1 - rate))


def around(hits: Sequence[bool], rate: float) -> float:
    """log ∫ ∏ l(y; q) dπ(q), π Cauchy's around the rate's angle, by 4,000 points."""
    if not hits:
        return 0.0
    cauchy = np.tan(math.pi * ((np.arange(4000) + 0.5) / 4000 - 0.5))
    angles = math.asin(math.sqrt(rate)) + 1.5 * cauchy / (2 * math.sqrt(len(hits)))
    q = np.sin(np.clip(angles, 0.001, math.pi / 2 - 0.001)) ** 2
    k, t = sum(hits), len(hits)
    won = k * np.log(q / rate) + (t - k) * np.log((1 - q) / (1 - rate))
    return float(special.logsumexp(won) - math.log(4000))


@given(st.lists(st.booleans(), min_size=1, max_size=190), st.floats(0.1, 0.9))
@settings(max_examples=25)
def test_single_items_give_beta_mixtures(hits: list[bool], rate: float) -> None:
    """Of a known rate: since each beginning one, and they are added up in their shares."""
    monitor = RateMonitor(rate)
    for hit in hits:
        monitor.observe(float(hit))
    begun = [s for s in (0, 8, 32, 72, 128) if s <= len(hits)]
    found = [beta_mixture(hits[s:], rate) - math.log((j + 1) * (j + 2)) for j, s in enumerate(begun)]
    assert monitor.evidence == pytest.approx(special.logsumexp(found), abs=0.05)
    assert (monitor.count, monitor.total) == (len(hits), sum(hits))


def test_an_estimated_rate_gives_the_formula() -> None:
    """Of each rate in the reference's interval the sum over gamblers; and the least of them on a fine grid."""
    before, after = [1.0] * 16 + [0.0] * 4, [False] * 6 + [True] * 6
    monitor = RateMonitor(before)
    for hit in after:
        monitor.observe(float(hit))
    interval = stats.binomtest(16, 20).proportion_ci(0.975, "exact")
    against = []
    for p in np.linspace(interval.low, interval.high, 302)[1:-1]:
        tails = min(stats.binom.cdf(16, 20, p), stats.binom.sf(15, 20, p))
        gamblers = [
            around(after[:s], p) + beta_mixture(after[s:], p) - math.log((j + 1) * (j + 2))
            for j, s in enumerate((0, 8))
        ]
        against.append(special.logsumexp(gamblers) - math.log(min(1, 2 * tails) * math.log(40)))
    assert monitor.evidence == pytest.approx(min(against), abs=0.05)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60), st.floats(0.001, 0.2))
def test_the_interval_of_hits_and_misses_is_clopper_and_pearsons(shares: list[float], level: float) -> None:
    """As SciPy has it."""
    ci = stats.binomtest(int(sum(shares)), len(shares)).proportion_ci(1 - level, "exact")
    earlier = Earlier(np.array([sum(shares)]), np.array([len(shares)]))
    assert earlier.ends(level)[:, 0] == pytest.approx((ci.low, ci.high))


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.25, 1.0)])
def test_the_wealth_is_fair(is_known: bool, values: tuple[float, ...]) -> None:
    """Over all sequences of 8 or more its mean under the rate is what the gamblers began with.

    Exactly for hits and misses. A share between two values that are counted (.25 among 0 and 1) makes it less.
    """
    size, rate = (11 if len(values) == 2 else 8), 0.3
    sequences = np.array(list(itertools.product(values, repeat=size)))
    share = {0.0: 0.6, 0.25: 0.4 / 3, 1.0: 0.8 / 3} if len(values) == 3 else {0.0: 0.7, 1.0: 0.3}
    assert sum(value * chance for value, chance in share.items()) == pytest.approx(rate)
    chances = np.array([math.prod(share[y] for y in sequence) for sequence in sequences])
    reference = np.repeat([[0, 0] if is_known else [4, 2]], len(sequences), axis=0)
    wealth = Wealth(reference, known_rate=rate if is_known else None)
    for step in range(size):
        wealth.observe(sequences[:, step])
    angles = np.full(len(sequences), math.asin(math.sqrt(rate)))
    mean = chances @ np.exp(wealth.against(angles, np.arange(len(sequences))))
    p_value = 1 if is_known else min(1, 2 * stats.binom.sf(1, 6, rate))
    begun = (1 / 2 + 1 / 6) / (1 if is_known else p_value * math.log(40))
    assert mean == pytest.approx(begun) if len(values) == 2 else mean < begun


def test_how_finely_shares_are_counted_changes_little() -> None:
    """Hits and misses are the same in any grid; sevenths, which are not counted exactly, nearly."""
    draw = np.random.default_rng(5)
    for items, off in ((1, 1e-9), (7, 0.05)):
        before, after = draw.binomial(items, 0.7, (2, 60)) / items
        monitor = RateMonitor(before.tolist())
        exact = Wealth((before[:, None] == np.arange(items + 1) / items).sum(axis=0)[None])
        for y in after:
            monitor.observe(y)
            exact.observe(np.array([y]))
        assert exact.least(0) - off <= monitor.evidence <= exact.least(0) + 1e-9


@pytest.mark.parametrize(
    ("rate", "alike"), [(0.5, 0.0), (0.9, 0.0), (0.8, 0.5), (0.95, 0.3)], ids=lambda value: str(value)
)
def test_a_known_rate_is_seldom_alarmed_at(rate: float, alike: float) -> None:
    """Looked at after each of 120 batches, dependent items or not, at most 5 % of 400 runs ever alarm.

    A true probability of .05 gives more than 35 alarms in 400 runs (.0875) with probability .0006.
    """
    draw = np.random.default_rng(1)
    found = alarms(Wealth(np.zeros((400, 9)), known_rate=rate), shares(draw, (400, LENGTH), rate, alike))
    assert sum(t <= LENGTH for t in found) <= 35


@pytest.mark.parametrize(("rate", "alike", "reference"), [(0.8, 0.5, 8), (0.97, 0.3, 8), (0.5, 0.0, 30)])
def test_an_estimated_rate_is_no_known_one(rate: float, alike: float, reference: int) -> None:
    """With the rate from a few batches at most 5 % of runs alarm, where taking the estimate for the truth would not do.

    A true probability of .05 gives more than 12 alarms in 100 runs with probability .0015. The monitor that takes the
    estimate for the truth alarms in a fifth of 30 longer runs at least.
    """
    draw = np.random.default_rng(2)
    before, after = (
        shares(draw, (100, reference), rate, alike),
        shares(draw, (100, LENGTH * 4), rate, alike),
    )
    assert sum(t <= LENGTH for t in alarms(estimated(before), after[:, :LENGTH])) <= 12
    plugged_in = 0
    for own, observed in zip(before[:30], after, strict=False):
        estimate = min(max(own.mean(), 0.001), 0.999)
        plugged_in += alarms(Wealth(np.zeros((1, 9)), known_rate=estimate), observed[None])[0] <= 4 * LENGTH
    assert plugged_in >= 6


def test_a_large_change_is_seen_after_a_short_reference() -> None:
    """From .8 to .5 after 30 tasks, within 600: in half of 60 runs at least (.68 of them; .33 of the bet alone)."""
    draw = np.random.default_rng(9)
    hits = draw.binomial(30, 0.8, 60)
    found = alarms(Wealth(np.stack([30 - hits, hits], axis=1)), (draw.random((60, 600)) < 0.5).astype(float))
    assert sum(t <= 600 for t in found) >= 30


@pytest.mark.parametrize(("rate", "tasks"), [(0.8, 5), (0.95, 20), (0.5, 30)])
def test_the_reference_and_the_bet_share_the_level(rate: float, tasks: int) -> None:
    """At a level of .2, after each of 150 tasks, at most a fifth of 100 runs alarm though nothing has changed.

    A true probability of .2 gives more than 32 with probability .0016.
    """
    draw = np.random.default_rng(10)
    hits = draw.binomial(tasks, rate, 100)
    wealth = Wealth(np.stack([tasks - hits, hits], axis=1), level=0.2)
    assert sum(t <= 150 for t in alarms(wealth, (draw.random((100, 150)) < rate).astype(float))) <= 32


def test_a_change_is_noticed() -> None:
    """A rate that falls by a quarter after 64 batches is noticed within 150 more, nearly always; a collapse within 25.

    Of 20 runs at most 2 may be later: at a true chance of .98 that fails with probability .007.
    """
    draw = np.random.default_rng(3)
    for rate, after, within in ((0.9, 0.65, 150), (0.9, 0.1, 25)):
        observed = [shares(draw, (20, 64), rate, 0.3), shares(draw, (20, within), after, 0.3)]
        found = alarms(estimated(shares(draw, (20, 16), rate, 0.3)), np.concatenate(observed, axis=1))
        assert sum(t > 64 + within for t in found) <= 2


def test_a_long_reference_tells_a_change_at_once() -> None:
    """A rate that falls by a quarter right after a reference of 64 batches: half of 20 runs see it within 20 more.

    The median over 200 runs is 10; that the reference's own evidence counts is what makes it so.
    """
    draw = np.random.default_rng(3)
    found = alarms(estimated(shares(draw, (20, 64), 0.9, 0.3)), shares(draw, (20, 200), 0.65, 0.3))
    assert sorted(found)[9] <= 20


@pytest.mark.parametrize(("tasks", "within"), [(1_000, 320), (100_000, 280)])
def test_a_fall_of_a_tenth_is_seen_soon_after_a_long_reference(tasks: int, within: int) -> None:
    """From .8 to .7 in items: half of 100 runs see it in time (the median is near 300 and 250; 150 of a known rate).

    Alternatives that do not come nearer as the reference grows lose evidence on it (46 nats of 100,000 tasks).
    """
    draw = np.random.default_rng(6)
    hits = draw.binomial(tasks, 0.8, 100)
    wealth = Wealth(np.stack([tasks - hits, hits], axis=1))
    found = alarms(wealth, (draw.random((100, within)) < 0.7).astype(float))
    assert sorted(found)[49] <= within


@pytest.mark.parametrize("is_known", [True, False])
def test_a_long_run_does_not_blind(is_known: bool) -> None:
    """After 2,500 unchanged items a fall from .8 to .6 is seen within 450 in each of 4 runs, and nothing before it.

    The seed is one without a false alarm, whose probability is .05 a run at most.
    """
    draw = np.random.default_rng(8)
    wealth = Wealth(np.array([[0, 0] if is_known else [40, 160]] * 4), known_rate=0.8 if is_known else None)
    chance = np.repeat([0.8, 0.6], [2_500, 450])
    found = alarms(wealth, (draw.random((4, 2_950)) < chance).astype(float))
    assert all(2_500 < t <= 2_950 for t in found)


def test_a_known_rate_is_watched_more_closely_than_an_estimate() -> None:
    """The same change is seen sooner against a known rate than against one estimated from ten batches."""
    draw = np.random.default_rng(4)
    gone = shares(draw, (1, 500), 0.6, 0.0)[0].tolist()
    sure = alarm(RateMonitor(0.8), gone)
    estimate = alarm(RateMonitor([0.8, 0.75, 0.875, 0.75, 0.875, 0.75, 0.75, 0.875, 0.875, 0.75]), gone)
    assert sure is not None
    assert sure < 60
    assert estimate is None or estimate > sure


def test_an_alarm_stays() -> None:
    """Once it alarmed it goes on saying so, whatever comes after."""
    monitor = RateMonitor(0.9)
    assert alarm(monitor, [0.0] * 10) is not None
    assert monitor.observe(1.0)
    assert monitor.alarmed


def test_extreme_references_are_no_trouble() -> None:
    """A stage that passed everything (or nothing) is not alarmed at by more of the same, and is by the contrary."""
    for all_of_it in (1.0, 0.0):
        monitor = RateMonitor([all_of_it] * 12)
        assert alarm(monitor, [all_of_it] * 100) is None
        assert alarm(monitor, [1.0 - all_of_it] * 30) is not None
        assert math.isfinite(monitor.evidence)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_bad_arguments_are_refused(bad: float) -> None:
    """Shares outside [0, 1], known rates at its ends, an empty reference and a level that is none."""
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
