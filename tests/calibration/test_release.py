"""Releasing by a pool of failures: the rank among the highest scores, its promise, and what breaks without it."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.calibration import (
    PartIdentity,
    ReleaseArtifact,
    failures_needed,
    read_artifact,
    release_pool,
    write_artifact,
)

SCORES = st.lists(st.one_of(st.none(), st.integers(-3, 3).map(float)), min_size=1, max_size=5)


def test_the_rank_of_the_highest_score_counts_ties_against_it() -> None:
    """Among maxima 1, 2, 3: below all, as high as the second, above all."""
    pool = release_pool([[1.0, 0.0], [None, 2.0], [3.0]])
    assert (pool.maxima, pool.tries) == ((1.0, 2.0, 3.0), 2)
    assert [pool.p_value([score]) for score in (0.5, 2.0, 9.0)] == [1.0, 0.75, 0.25]
    assert pool.p_value([]) == pool.p_value([None, None]) == 1.0


def test_tries_after_the_pools_last_are_not_looked_at() -> None:
    """How high they come by luck was not seen."""
    pool = release_pool([[1.0, 0.0], [0.0, 1.0]])
    assert pool.p_value([0.0, 0.0, 9.0]) == 1.0


def test_a_task_without_scores_is_below_all_others() -> None:
    """Such a failure can never be released."""
    pool = release_pool([[None], [None], [1.0]])
    assert pool.maxima == (None, None, 1.0)
    assert pool.p_value([0.0]) == 0.5


@given(st.lists(SCORES, min_size=1, max_size=6), SCORES, st.sampled_from([0.05, 0.25, 0.5, 0.75]))
def test_the_threshold_says_what_the_rank_says(
    failures: list[list[float | None]], scores: list[float | None], alpha: float
) -> None:
    """Above it p ≤ α, and nowhere else; p never rises with another try."""
    pool = release_pool(failures)
    above = pool.threshold(alpha)
    released = above is not None and any(
        score is not None and score > above for score in scores[: pool.tries]
    )
    assert released == (pool.p_value(scores) <= alpha)
    path = [pool.p_value(scores[:t]) for t in range(len(scores) + 1)]
    assert path == sorted(path, reverse=True)
    path = [pool.p_value(scores[:t], "product") for t in range(len(scores) + 1)]
    assert path == sorted(path, reverse=True)
    assert all(0 < each <= 1 for each in path)


def test_scores_that_are_often_high_add_up() -> None:
    """As high as the pool's highest each time, where the pool's tasks were so once: only the product tells."""
    pool = release_pool([[1.0 if t == i % 8 else 0.0 for t in range(8)] for i in range(40)])
    scores = [1.0] * 8
    assert pool.p_value(scores) == 1.0
    assert pool.p_value(scores, "product") == 1 / 41


@pytest.mark.parametrize("rows", [[[1, 5], [2, 2], [3, 0], [0, 4]], [[1, 1], [1, 0], [0, 1], [1, 1]]])
@pytest.mark.parametrize("evidence", ["highest", "product"])
def test_over_all_orders_of_the_tasks_the_promise_holds_exactly(
    rows: list[list[float]], evidence: Literal["highest", "product"]
) -> None:
    """Whichever of four tasks is the new one, ties or none: ever released in at most α of all orders."""
    for alpha in (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)):
        ever = [
            any(release_pool(order[1:]).p_value(order[0][:t], evidence) <= alpha for t in (1, 2))
            for order in permutations(rows)
        ]
        assert Fraction(sum(ever), len(ever)) <= alpha


def test_failures_of_very_different_tasks_are_released_in_alpha_of_runs() -> None:
    """2,000 runs of tasks with a level and a spread of their own. Above the bound by luck once in 10,000 runs."""
    rng = np.random.default_rng(2026)
    runs, n, tries, alpha = 2000, 19, 10, 0.05
    level = rng.standard_t(3, (runs, n + 1, 1))
    scores = level + rng.gamma(1.0, 1.0, (runs, n + 1, 1)) * rng.standard_normal((runs, n + 1, tries))
    pools = [(release_pool(run[1:]), run[0]) for run in scores.tolist()]
    for ever in (
        np.mean([pool.p_value(own) <= alpha for pool, own in pools]),
        np.mean([pool.p_value(own, "product") <= alpha for pool, own in pools]),
    ):
        assert ever <= alpha + 3.72 * np.sqrt(alpha * (1 - alpha) / runs)


def test_so_few_failures_are_needed() -> None:
    """⌈1/α⌉ − 1; one fewer releases nothing, however high."""
    assert [failures_needed(alpha) for alpha in (0.5, 0.1, 0.05, 0.01, 0.3)] == [1, 9, 19, 99, 3]
    for alpha in (0.1, 0.05, 0.3):
        n = failures_needed(alpha)
        assert release_pool([[0.0]] * n).threshold(alpha) == 0.0
        assert release_pool([[0.0]] * n).p_value([1.0]) <= alpha
    assert release_pool([[0.0]] * 18).threshold(0.05) is None


def test_a_pool_of_nothing_is_refused() -> None:
    """And so are scores that cannot be compared, and an α that promises nothing."""
    with pytest.raises(ConfigError, match="at least one failed task"):
        release_pool([])
    with pytest.raises(ConfigError, match="at least one failed task"):
        release_pool([[]])
    with pytest.raises(ConfigError, match="score nan"):
        release_pool([[1.0, float("nan")]])
    for alpha in (0.0, 1.0):
        with pytest.raises(ConfigError, match=r"alpha is [01]\.0"):
            release_pool([[1.0]]).threshold(alpha)


def test_a_pool_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Failures without a score too; a file of another kind is refused."""
    made = ReleaseArtifact(
        pool=release_pool([[1.5, None], [None, None]]),
        generator=PartIdentity("Guesses", "b" * 16),
        verifier=PartIdentity("Judge", "a" * 16),
        settings={"temperature": 0.7},
        metric="right",
        tasks=5,
    )
    write_artifact(tmp_path / "pool.json", made)
    assert read_artifact(tmp_path / "pool.json", ReleaseArtifact) == made
    (tmp_path / "other.json").write_text('{"kind": "draftverify.scores", "version": 1}')
    with pytest.raises(ConfigError, match="this is no release pool"):
        read_artifact(tmp_path / "other.json", ReleaseArtifact)
