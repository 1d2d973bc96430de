"""The forecast: tried on tasks that it was not made from, of several spreads, groups and pipelines."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftverify.stats import Spent, remaining


@pytest.mark.parametrize("spread", [0.3, 1.0])
@pytest.mark.parametrize("done", [6, 12])
def test_the_interval_holds_what_the_rest_took(spread: float, done: int) -> None:
    """Lognormal tasks of four groups in two pipelines; the first are looked at, and the other sixty are what is to be
    told. In 200 worlds 95 % intervals hold it at least 88 times in a hundred, and few are wider than 5 : 1."""
    rng = np.random.default_rng(int(10 * spread) + done)
    held = wide = 0
    for _ in range(200):
        groups = rng.lognormal(0.0, 0.5, 4)
        size = rng.lognormal(0.0, spread, done + 60)
        rows = [
            Spent(
                f"t{i}", name, f"g{i % 4}", float(groups[i % 4] * size[i] * factor * rng.lognormal(0.0, 0.1))
            )
            for i in range(done + 60)
            for name, factor in (("plain", 1.0), ("spec", 0.6))
        ]
        first, rest = rows[: 2 * done], rows[2 * done :]
        left: dict[tuple[str, str], int] = {}
        for row in rest:
            left[row.pipeline, row.group] = left.get((row.pipeline, row.group), 0) + 1
        found = remaining(first, left)
        held += found.low <= sum(row.cost for row in rest) <= found.high
        wide += found.high > 5.0 * found.value
    assert held / 200 >= 0.88
    assert wide / 200 <= (0.2 if spread < 1.0 or done > 6 else 0.35)


def test_each_group_and_pipeline_has_its_own_mean() -> None:
    """By hand: 3 × mean(2, 4) and 2 × 10; a group without tasks takes its pipeline's mean, a pipeline that of all."""
    done = [Spent("a", "p", "g", 2.0), Spent("b", "p", "g", 4.0), Spent("c", "p", "h", 10.0)]
    assert remaining(done, {("p", "g"): 3, ("p", "h"): 2}).value == pytest.approx(29.0)
    assert remaining(done, {("p", "new"): 3}).value == pytest.approx(16.0)
    assert remaining([*done, Spent("a", "q", "g", 0.0)], {("r", "g"): 4}).value == pytest.approx(16.0)


def test_a_long_task_is_long_in_every_pipeline() -> None:
    """The task is the unit of sampling: the same tasks in more pipelines say no more of the tasks to come."""
    costs = [1.0, 2.0, 4.0, 8.0, 3.0, 5.0]
    one = remaining([Spent(f"t{i}", "p", "", cost) for i, cost in enumerate(costs)], {("p", ""): 30})
    both = [Spent(f"t{i}", name, "", cost) for i, cost in enumerate(costs) for name in "pq"]
    two = remaining(both, {("p", ""): 30, ("q", ""): 30})
    assert two.value == pytest.approx(2.0 * one.value)
    assert two.high / two.value == pytest.approx(one.high / one.value)
    assert (two.trials, two.clusters) == (12, 6)


def test_what_cannot_be_said_is_not() -> None:
    """Nothing done, one task, nothing left, nothing spent."""
    assert math.isnan(remaining([], {("p", ""): 1}).value)
    single = remaining([Spent("a", "p", "", 2.0)], {("p", ""): 5})
    assert (single.value, single.low, single.high) == (10.0, 0.0, math.inf)
    assert remaining([Spent("a", "p", "", 2.0)], {("p", ""): 0}).high == 0.0
    assert remaining([Spent("a", "p", "", 0.0), Spent("b", "p", "", 0.0)], {("p", ""): 5}).value == 0.0
