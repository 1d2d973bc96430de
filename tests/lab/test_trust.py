"""Trust: the figures are their formulas, the intervals hold, and PPI++ is what its authors' package computes."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import ppi
from benchmarks.best_of_n import best_of_n
from draftverify import ConfigError
from draftverify.stats.judgement import assisted_rate, blind_spots, error_correlation, labels_needed, trust

PASSED = [1, 1, 0, 0, 1, 1, 0, 0, 1, 1]
RIGHT = [1, 1, 1, 0, 0, 1, 0, 0, 1, 0]
TASKS = [*"aaabbbcccc"]


def marked(least: int = 1):
    """Items of a few tasks: (task, passed, right) each."""
    return st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=least, max_size=40)


def test_the_figures_of_ten_items():
    """T, F, π, α, precision and the cost of a right one, counted by hand."""
    found = trust(PASSED, RIGHT, TASKS, costs=2.0)
    assert found.true_pass.value == pytest.approx(4 / 5)
    assert found.false_pass.value == pytest.approx(2 / 5)
    assert (found.base.value, found.acceptance.value) == (pytest.approx(0.5), pytest.approx(0.6))
    assert found.precision.value == pytest.approx(4 / 6)
    assert found.informedness.value == pytest.approx(0.4)
    assert found.resampled.value == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert found.cost_per_right is not None
    assert found.cost_per_right.value == pytest.approx(2 * 10 / 4)
    assert found.unpassed == 0


@settings(max_examples=15)
@given(marked())
def test_the_identities_hold(items):
    """α = πT + (1 − π)F, precision = πT/α, cost = c/(πT), and every interval holds its figure."""
    tasks, passed, right = zip(*items, strict=True)
    found = trust(passed, right, tasks, costs=3.0)
    t, f, base = found.true_pass.value, found.false_pass.value, found.base.value
    hit, lax = (0.0 if math.isnan(of) else share * of for share, of in ((base, t), (1 - base, f)))
    assert found.acceptance.value == pytest.approx(hit + lax)
    if hit + lax > 0:
        assert found.precision.value == pytest.approx(hit / (hit + lax))
    if hit > 0:
        assert found.cost_per_right.value == pytest.approx(3.0 / hit)
    named = (
        found.true_pass,
        found.false_pass,
        found.base,
        found.acceptance,
        found.precision,
        found.resampled,
    )
    assert all(math.isnan(each.value) or each.low <= each.value <= each.high for each in named)


@settings(max_examples=15)
@given(marked())
def test_resampling_is_the_best_of_all_by_the_verdict(items):
    """The first that passes, in random order, is the best of the whole pool where passing is the score."""
    pools: dict[int, list[tuple[bool, bool]]] = {}
    for task, passed, right in items:
        pools.setdefault(task, []).append((passed, right))
    tasks, said, expected = zip(*items, strict=True)
    some = [pool for pool in pools.values() if any(passed for passed, _ in pool)]
    found = trust(said, expected, tasks)
    assert found.unpassed == len(pools) - len(some)
    if not some:
        assert math.isnan(found.resampled.value)
        return
    of_each = [
        best_of_n([[float(p) for p, _ in pool]], [[float(r) for _, r in pool]]).accuracy[-1].value
        for pool in some
    ]
    assert found.resampled.value == pytest.approx(np.mean(of_each))


def test_resampling_does_not_pass_the_ceiling_of_tasks_that_are_alike():
    """Drawing until something passes, simulated: the precision of the answers is πT/α, however often is drawn."""
    rng = np.random.default_rng(5)
    base, t, f = 0.3, 0.9, 0.2
    right = rng.random((4000, 40)) < base
    passed = rng.random(right.shape) < np.where(right, t, f)
    first = passed.argmax(1)
    answers = right[np.arange(len(right)), first][passed.any(1)]
    ceiling = base * t / (base * t + (1 - base) * f)
    assert answers.mean() == pytest.approx(ceiling, abs=4 * math.sqrt(ceiling * (1 - ceiling) / 4000))
    tasks = np.repeat(np.arange(50), 40)
    found = trust(passed[:50].ravel(), right[:50].ravel(), tasks)
    assert found.precision.low <= ceiling <= found.precision.high


def test_the_intervals_know_of_tasks():
    """Twenty copies of a task's item tell no more than one."""
    single = trust(PASSED, RIGHT, range(10))
    copied = trust(np.repeat(PASSED, 20), np.repeat(RIGHT, 20), np.repeat(range(10), 20))
    assert copied.precision.high - copied.precision.low >= 0.9 * (
        single.precision.high - single.precision.low
    )
    width = [each.informedness.high - each.informedness.low for each in (single, copied)]
    assert width[1] == pytest.approx(width[0], rel=1e-6)


def test_what_cannot_be_counted_is_said():
    """No wrong item, no passed item: NaN with an open interval; bad input names the place."""
    found = trust([0, 0], [1, 1], ["a", "b"], costs=[1.0, 2.0])
    assert math.isnan(found.false_pass.value)
    assert math.isnan(found.precision.value)
    assert math.isnan(found.informedness.value)
    assert (found.precision.low, found.precision.high, found.unpassed) == (0.0, 1.0, 2)
    for bad, said in (
        (([], [], []), "nothing to count"),
        (([1], [0, 1], ["a"]), "passed has 1 items and right 2"),
        (([1, 0], [0, 0.5], ["a", "b"]), r"right\[1\] is 0.5"),
        (([1, 0], [0, 1], ["a"]), "1 tasks are named for 2 items"),
        (([1, 0], [0, 1], ["a", "b"], [1.0]), "one for each of the 2 items"),
        (([1, 0], [0, 1], ["a", "b"], -1.0), "0 or more"),
    ):
        with pytest.raises(ConfigError, match=said):
            trust(*bad)


def biased(rng, size, right=0.6, judged=0.85):
    """Labels, and a judge that takes the wrong ones that it does not know for right."""
    expected = (rng.random(size) < right).astype(float)
    return expected, np.where(rng.random(size) < judged, expected, 1.0)


def test_the_assisted_rate_covers_and_is_narrower_than_the_labels_alone():
    """Of 400 samples at most 5 % and three standard errors miss the expected, though the judge is biased."""
    rng = np.random.default_rng(3)
    missed, narrower = 0, []
    for _ in range(400):
        expected, judge = biased(rng, 560)
        found = assisted_rate(expected[:80], judge[:80], judge[80:])
        missed += not found.rate.low <= 0.6 <= found.rate.high
        narrower.append(
            (found.rate.high - found.rate.low) / (found.alone.high - found.alone.low),
        )
    assert missed / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert np.mean(narrower) < 0.9


def test_the_assisted_rate_covers_where_items_share_tasks():
    """Items of a task alike, some with a label and some without: the interval still holds, and is a third wider."""
    rng = np.random.default_rng(4)
    missed, wider = 0, []
    tasks = np.concatenate([np.repeat(np.arange(40), 4), np.repeat(np.arange(160), 4)])
    for _ in range(300):
        level = rng.beta(0.9, 0.6, 160)
        expected = (rng.random(len(tasks)) < level[tasks]).astype(float)
        judge = np.where(rng.random(len(tasks)) < 0.8, expected, 1.0)
        found = assisted_rate(expected[:160], judge[:160], judge[160:], tasks.tolist()).rate
        plain = assisted_rate(expected[:160], judge[:160], judge[160:]).rate
        missed += not found.low <= 0.6 <= found.high
        wider.append((found.high - found.low) / (plain.high - plain.low))
    assert missed / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert np.mean(wider) > 1.3


ORACLE = {
    (11, 60, 300, 0.6, 0.85): (0.6660342345291912, 0.5961331496996839, 0.7359353193586985),
    (12, 40, 300, 0.6, 0.85): (0.5122720867208672, 0.4118287613035697, 0.6127154121381647),
    (13, 200, 300, 0.6, 0.85): (0.6109582806573958, 0.5612909958481659, 0.6606255654666257),
    (14, 25, 2000, 0.7, 0.8): (0.6729101017034741, 0.5662257728633071, 0.7795944305436411),
    (15, 100, 1000, 0.5, 0.3): (0.5241264050901379, 0.4327249833582539, 0.6155278268220219),
    (16, 80, 80, 0.2, 0.99): (0.1735576923076923, 0.115914180785131, 0.2312012038302536),
    (17, 400, 100, 0.6, 0.7): (0.6274874835454147, 0.5829298898937036, 0.6720450771971258),
}
"""Seed, labels, others, share that is right, share that the judge knows; and of that sample what ppi-python 0.2.3 says:
ppi_mean_pointestimate(y, j, u) and ppi_mean_ci(y, j, u, alpha=.05). The package itself brings numba and a dozen others,
too much for a test of ten numbers."""
ORACLE_OF_TASKS = 0.56561496057243
"""Its point on `items_of_tasks(4)`; it takes items as independent, so its interval is not ours."""
ORACLE_OF_GSM8K = {
    "one": (0.3834509267184315, 0.3237335388761558, 0.4431683145607072),
    "four": (0.3887172313317767, 0.33258727138794797, 0.44484719127560546),
}
"""On recorded answers: of one system, the first 150 problems labelled; and of four, the first 37."""


@pytest.mark.parametrize("sample", ORACLE, ids=str)
def test_the_assisted_rate_is_the_packages(sample):
    """The point is ppi-python's, and its interval is ours or a little narrower.

    Ours has Student's t and n − 1, and does not take the fitted λ for given: that adds where the judge passes another
    share of the labelled items than of the others."""
    seed, labels, others, right, judged = sample
    expected, judge = biased(np.random.default_rng(seed), labels + others, right, judged)
    check(ORACLE[sample], assisted_rate(expected[:labels], judge[:labels], judge[labels:]))


def test_tasks_change_the_interval_and_not_the_point():
    """Whole tasks are left out for the one; the other is the package's."""
    given, tasks = items_of_tasks(4)
    assert assisted_rate(*given, tasks).rate.value == pytest.approx(ORACLE_OF_TASKS, abs=1e-9)


def items_of_tasks(seed):
    """Four items of each of 160 tasks, alike within one; those of forty have labels."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(160), 4)
    level = rng.beta(0.9, 0.6, 160)
    expected = (rng.random(640) < level[tasks]).astype(float)
    judge = np.where(rng.random(640) < 0.8, expected, 1.0)
    return (expected[:160], judge[:160], judge[160:]), tasks.tolist()


@pytest.mark.parametrize("systems", ORACLE_OF_GSM8K)
def test_the_assisted_rate_of_recorded_answers_is_the_packages(systems):
    """Of the answers that benchmarks.ppi reads."""
    if not (data := os.environ.get("DRAFTVERIFY_DATA")):
        pytest.skip("the recorded data is not here (DRAFTVERIFY_DATA names its folder)")
    right, answers = ppi.answered(Path(data))
    if systems == "one":
        own, judge = ppi.SYSTEMS.index(ppi.JUDGED), ppi.SYSTEMS.index(ppi.JUDGE)
        said = ((answers[:, own] == answers[:, judge]) & (answers[:, own] >= 0)).astype(float)
        given = right[:150, own], said[:150], said[150:]
    else:
        said = np.array([[float(a >= 0 and (row == a).sum() > 1) for a in row] for row in answers])
        given = right[:37].ravel(), said[:37].ravel(), said[37:].ravel()
    check(ORACLE_OF_GSM8K[systems], assisted_rate(*given))


def check(theirs, ours):
    point, low, high = theirs
    assert ours.rate.value == pytest.approx(point, abs=1e-9)
    assert 1.0 <= (ours.rate.high - ours.rate.low) / (high - low) < 1.16


def test_a_judge_that_knows_nothing_leaves_the_labels():
    """A constant judge has no spread to learn from; without other items there is nothing to add."""
    found = assisted_rate([1, 0, 1, 1], [1, 1, 1, 1], [1] * 50)
    assert (found.rate.value, found.weight) == (pytest.approx(0.75), 0.0)
    assert assisted_rate([1, 0, 1], [1, 0, 1], []).weight == 0.0


def test_labels_that_all_say_the_same_do_not_make_it_certain():
    """Ten right of ten: the interval reaches as far as ten trials cannot exclude."""
    found = assisted_rate([1] * 10, [1] * 10, [1] * 90)
    assert found.rate.low == pytest.approx(0.025 ** (1 / 10))
    assert found.rate.high == 1.0
    for bad, said in (
        (([], [], []), "0 labels"),
        (([1.5], [1], []), "from 0 to 1"),
        (([1.0], [math.nan], []), "not a finite number"),
    ):
        with pytest.raises(ConfigError, match=said):
            assisted_rate(*bad)


def test_labels_that_a_width_needs():
    """The worst case of a share is z²/w²; a judge that says the same as the labels saves nearly all of them."""
    assert labels_needed(0.1, 0.25) == math.ceil(1.959963984540054**2 / 0.01)
    assert labels_needed(0.1, 0.25, correlation=0.9, unlabelled=100_000) < 85
    assert labels_needed(0.1, 0.25, correlation=0.9, unlabelled=0) == labels_needed(0.1, 0.25)
    with pytest.raises(ConfigError, match="above 0"):
        labels_needed(0.0, 0.25)


def test_hard_tasks_are_no_blind_spot():
    """Wrong items of related generators stand on tasks that fool everyone: 1 within tasks, more without strata."""
    rng = np.random.default_rng(106)
    tasks = np.repeat(np.arange(150), 8)
    hard = rng.random(150) < 0.5
    related = rng.random(len(tasks)) < np.where(hard[tasks], 0.7, 0.2)
    passed = rng.random(len(tasks)) < np.where(hard[tasks], 0.6, 0.1)
    crude, within = (blind_spots(passed, related, tasks, strata) for strata in (None, tasks))
    assert crude.ratio.low > 1.2
    assert within.ratio.low <= 1.0 <= within.ratio.high
    assert within.ratio.trials < crude.ratio.trials == len(tasks)


def test_a_shared_blind_spot_is_found():
    """A verifier that passes its own family's wrong answers twice as often; without others there is no ratio."""
    rng = np.random.default_rng(7)
    tasks = np.repeat(np.arange(200), 6)
    related = np.arange(len(tasks)) % 2 == 0
    passed = rng.random(len(tasks)) < np.where(related, 0.4, 0.2)
    found = blind_spots(passed, related, tasks, tasks)
    assert found.ratio.low > 1.0
    assert found.ratio.low <= 2.0 <= found.ratio.high
    assert found.related.value > found.others.value
    alone = blind_spots(passed, np.ones(len(tasks)), tasks)
    assert math.isnan(alone.ratio.value)
    assert (alone.ratio.low, alone.ratio.high) == (0.0, math.inf)


@settings(max_examples=15)
@given(marked())
def test_the_correlation_of_errors_is_pearsons(items):
    """φ is the correlation of the two marks; of a system with itself it is 1."""
    tasks, one, other = zip(*items, strict=True)
    found = error_correlation(one, other, tasks)
    if len(set(one)) < 2 or len(set(other)) < 2:
        assert math.isnan(found.value)
        return
    assert found.value == pytest.approx(np.corrcoef(one, other)[0, 1])
    assert -1.0 <= found.low <= found.high <= 1.0
    assert error_correlation(one, one).value == pytest.approx(1.0)
