"""The ROC curve's area, over all items and within clusters, and what whole clusters drawn anew say of a figure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from draftverify import ConfigError
from draftverify.stats import bootstrap
from draftverify.stats.judgement import auroc, auroc_within

SCORED = st.lists(
    st.tuples(st.sampled_from([-math.inf, 0.0, 0.1, 0.5, 2.0]), st.booleans()), min_size=1, max_size=6
)


@settings(max_examples=40)
@given(SCORED)
def test_auroc_is_the_chance_to_rank_a_pair_rightly(items: list[tuple[float, bool]]) -> None:
    """Over all pairs of a right and a wrong one, equals counting half; NaN without a pair."""
    pairs = [(a > b) + (a == b) / 2 for a, good in items for b, bad in items if good and not bad]
    found = auroc(*zip(*items, strict=True))
    assert found.value == pytest.approx(np.mean(pairs) if pairs else math.nan, nan_ok=True)
    assert 0 <= found.low <= found.high <= 1
    if pairs:
        scores = np.array([max(score, -9) for score, _ in items])
        right = np.array([good for _, good in items])
        u = stats.mannwhitneyu(scores[right], scores[~right]).statistic
        assert found.value == pytest.approx(u / len(pairs))


@settings(max_examples=40)
@given(SCORED, st.data())
def test_auroc_within_compares_a_cluster_s_own_items(
    items: list[tuple[float, bool]], data: st.DataObject
) -> None:
    """Over the pairs of each cluster, equals counting half; NaN where no cluster has one."""
    of = [data.draw(st.integers(0, 2)) for _ in items]
    pairs = [
        (a > b) + (a == b) / 2
        for (a, good), one in zip(items, of, strict=True)
        for (b, bad), other in zip(items, of, strict=True)
        if good and not bad and one == other
    ]
    found = auroc_within(*zip(*items, strict=True), of)
    assert found.value == pytest.approx(np.mean(pairs) if pairs else math.nan, nan_ok=True)
    assert 0 <= found.low <= found.high <= 1


def test_telling_easy_tasks_from_hard_ones_is_not_telling_candidates_apart() -> None:
    """A score that says how easy the task is is worth nothing within it, and the interval is of drawn tasks."""
    rng = np.random.default_rng(0)
    easy = np.repeat(rng.normal(0, 2, 200), 8)
    right = rng.random(1600) < 1 / (1 + np.exp(-easy))
    of = np.repeat(np.arange(200), 8)
    noisy = easy + rng.normal(0, 0.1, 1600)
    within = auroc_within(noisy, right, of)
    assert auroc(noisy, right, of).low > 0.75
    assert within.low < 0.5 < within.high
    assert within.high - within.low < 0.1
    assert auroc_within(easy, right, of).value == 0.5
    assert auroc_within([2, 1, 1, 2], [1, 0, 1, 0], "aabb").value == 0.5
    # Three tasks of which all pairs are right say no more than three coins.
    assert auroc_within([2, 1] * 3, [1, 0] * 3, "aabbcc").low == pytest.approx(0.025 ** (1 / 3))


def clustered(rng: Any, clusters: int, gap: float) -> tuple[Any, Any, Any]:
    """Items whose scores share their cluster's shift, so that they resemble each other."""
    sizes = rng.integers(2, 9, clusters)
    of = np.repeat(np.arange(clusters), sizes)
    right = rng.random(len(of)) < 0.5
    scores = rng.normal(0, 1, len(of)) + gap * right + rng.normal(0, 1, clusters)[of]
    return scores, right, of


@pytest.mark.parametrize(
    ("clusters", "floor"), [(6, 0.88), (20, 0.9), pytest.param(60, 0.92, marks=pytest.mark.exhaustive)]
)
def test_intervals_of_clustered_items_cover(clusters: int, floor: float) -> None:
    """The AUROC's 95 % interval holds the truth nearly as often as it says, for few clusters and more.

    150 samples; the seed is fixed.
    """
    rng = np.random.default_rng(5)
    expected = float(
        stats.norm.cdf(1.5 / 2.0)
    )  # the difference of two items of different clusters has variance 4
    inside = 0
    for _ in range(150):
        scores, right, of = clustered(rng, clusters, 1.5)
        found = bootstrap(lambda w: auroc_of(w, scores, right), of, redraws=300)  # noqa: B023
        inside += found.low <= expected <= found.high
    assert inside / 150 >= floor


def auroc_of(weights: Any, scores: Any, right: Any) -> float:
    """The weighted area by its definition, apart from the library's."""
    order = np.argsort(scores)
    good, bad = (weights * right)[order], (weights * ~right)[order]
    pairs = good.sum() * bad.sum()
    return float((good * (bad.cumsum() - bad)).sum() / pairs) if pairs else math.nan


def test_the_librarys_intervals_know_of_the_clusters() -> None:
    """They are those of the redraws, and wider than as if each item stood alone."""
    rng = np.random.default_rng(3)
    scores, right, of = clustered(rng, 40, 1.5)
    whole, alone = auroc(scores, right, of), auroc(scores, right)
    assert whole.value == alone.value
    assert (whole.clusters, alone.clusters, whole.trials) == (40, len(of), len(of))
    assert whole.low == pytest.approx(bootstrap(lambda w: auroc_of(w, scores, right), of).low, abs=1e-12)
    every = np.repeat(rng.random(30) < 0.5, 6)
    same = np.repeat(rng.normal(0, 1, 30), 6) + 0.8 * every
    groups = np.repeat(np.arange(30), 6)
    narrow, wide = auroc(same, every), auroc(same, every, groups)
    assert wide.high - wide.low > 1.8 * (narrow.high - narrow.low)


def test_a_spotless_score_is_not_certain() -> None:
    """Where right and wrong are apart, the rarer kind's clusters bound how sure that is."""
    found = auroc([3, 3, 2, 2, 1, 0], [1, 1, 1, 1, 0, 0], ["a", "a", "b", "b", "c", "d"])
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.025 ** (1 / 2))
    assert auroc([0, 1], [1, 0]).high == pytest.approx(1 - 0.025)


def test_a_difference_of_two_scores_is_paired() -> None:
    """Drawn together, a score and the same with a little noise differ by little; apart they would not seem to."""
    rng = np.random.default_rng(2)
    scores, right, of = clustered(rng, 40, 1.0)
    better = scores + 0.4 * right
    found = bootstrap(lambda w: auroc_of(w, better, right) - auroc_of(w, scores, right), of)
    assert 0 < found.low < found.value < found.high
    assert auroc(scores, right, of).high > auroc(better, right, of).low


@pytest.mark.parametrize(
    ("scores", "right", "what"),
    [
        ([], [], "no item"),
        ([1.0], [1, 0], "as many"),
        ([math.nan], [1], "NaN"),
        ([1.0], [2], "nothing between"),
        ([1.0], [math.nan], "nothing between"),
    ],
)
def test_what_cannot_be_judged_is_refused(scores: Any, right: Any, what: str) -> None:
    """No items, lengths that differ, and numbers that are none."""
    with pytest.raises(ConfigError, match=what):
        auroc(scores, right)
    with pytest.raises(ConfigError, match=what):
        auroc_within(scores, right, scores)
    with pytest.raises(ConfigError, match="nothing between"):
        auroc([1, 2], [0.5, 1])


def test_one_cluster_says_nothing() -> None:
    """The interval is open."""
    found = auroc([1, 2, 3], [0, 1, 0], ["a"] * 3)
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
