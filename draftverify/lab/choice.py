"""Which of several candidates to take: the one whose solved task costs least, and what that choice gains on new tasks.

What wins on some tasks is flattered by having won on them. So the gain is predicted from resamples of the tasks: on
each task counts what wins on resamples without it. That is the gain of choosing so, not of the winner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import BLOCKS, TAIL, t_quantile
from draftverify.stats.prediction import SpeedupPrediction
from draftverify.stats.solved import Scored, seconds

__all__ = ["BlockChoice", "choose"]

RESAMPLES = 1000


class BlockChoice(msgspec.Struct, frozen=True):
    """The candidate that was chosen.

    Args:
        name: its name.
        cost: of a solved task.
        base: the same of what it is compared with; infinite where that solved none.
        tasks: on how many tasks all candidates were compared.
        agreeing: the share of resamples of those tasks on which it would have been chosen too.
        predicted: the gain over what it is compared with, on new tasks.
    """

    name: str
    cost: float
    base: float
    tasks: int
    agreeing: float
    predicted: SpeedupPrediction


def choose(tried: Mapping[str, Scored], against: Mapping[str, Scored], new: int) -> BlockChoice:
    """Choose the candidate with the least cost per solved task, and predict its gain.

    The predicted gain is that of choosing on resamples (tasks drawn with replacement) and counting on the tasks that a
    resample left out. Its interval is Student's t on the log scale. The spread is that of M − P over resamples, where P
    is the winner's gain on the resample and M the same candidate's on `new` tasks drawn apart from it; and, in squares,
    how far the winner's gain on all tasks lies from the predicted one: what is known of the flattery is a guess as
    large as itself.

    Args:
        tried: of each candidate the records, each with what the metric said; of two that cost the same the first wins.
        against: of each candidate those of what it is compared with.
        new: on how many new tasks the gain will be measured.

    Raises:
        ConfigError: the candidates have no task in common, or solved none.

    References:
        Efron and Tibshirani, Improvements on cross-validation: the .632+ bootstrap method (1997), on counting what a
        resample left out.
        Varma and Simon, Bias in error estimation when using cross-validation for model selection (2006), on why the
        winner's own figure is too good.
    """
    names = list(tried)
    sides = [*({record.task for record, _ in side} for side in (*tried.values(), *against.values()))]
    shared = set.intersection(*sides) if sides else set()
    tasks = [record.task for record, _ in tried[names[0]] if record.task in shared] if names else []
    if not tasks:
        raise ConfigError("no task ended, and was judged, at every block size and with the baseline")
    chosen = {name: {record.task: (record, value) for record, value in tried[name]} for name in names}
    base = {name: {record.task: (record, value) for record, value in against[name]} for name in names}
    cost, plain = (
        np.array([[seconds(side[name][task][0]) for name in names] for task in tasks])
        for side in (chosen, base)
    )
    solved, solved_plain = (
        np.array([[side[name][task][1] for name in names] for task in tasks]) for side in (chosen, base)
    )
    costs = _per_solved(cost.sum(axis=0), solved.sum(axis=0))
    winner = int(costs.argmin())
    if not math.isfinite(costs[winner]):
        raise ConfigError("no task was solved at any block size, so none is better than another")
    predicted, agreeing = _predicted(np.stack([cost, solved, plain, solved_plain]), winner, new)
    return BlockChoice(
        name=names[winner],
        cost=float(costs[winner]),
        base=float(_per_solved(plain.sum(axis=0), solved_plain.sum(axis=0))[winner]),
        tasks=len(tasks),
        agreeing=agreeing,
        predicted=predicted,
    )


def _predicted(sides: Any, winner: int, new: int) -> tuple[SpeedupPrediction, float]:
    """The gain on `new` other tasks of choosing on these, and how often resamples choose the same.

    Args:
        sides: [4, tasks, candidates]: seconds and solved of each candidate, and of what it is compared with.
        winner: on all tasks.
        new: how many others.
    """
    tasks, candidates = sides.shape[1:]
    draws, equal = np.random.default_rng(0), np.full(tasks, 1.0 / tasks)
    drawn, apart = (draws.multinomial(n, equal, RESAMPLES).astype(float) for n in (tasks, max(new, 1)))
    costs = _per_solved(drawn @ sides[0], drawn @ sides[1])
    chosen, decides = costs.argmin(axis=1), np.isfinite(costs).any(axis=1)
    # Of each task the candidates' shares of the resamples without it.
    votes = (drawn == 0.0).T @ (np.eye(candidates)[chosen] * decides[:, None])
    without = votes.sum(axis=1, keepdims=True)
    shares = np.where(without > 0.0, votes / np.maximum(without, 1.0), np.eye(candidates)[winner])
    value = float(_log_gain((sides * shares).sum(axis=(1, 2))))
    agreeing = float((chosen == winner)[decides].mean()) if decides.any() else 1.0
    if not math.isfinite(value):
        reason = "the baseline solved no task"
        if sides[3, :, winner].sum() > 0.0:
            reason = "no size solved a task that it was not chosen by"
        return SpeedupPrediction(math.nan, 0.0, math.inf, reason), agreeing
    place = np.arange(RESAMPLES)
    with np.errstate(invalid="ignore"):
        missed = _log_gain((apart @ sides)[:, place, chosen]) - _log_gain((drawn @ sides)[:, place, chosen])
    flattered = float(_log_gain(sides[:, :, winner].sum(axis=1)))
    spread = math.nan
    if tasks > 1 and np.isfinite(missed).all():
        spread = math.sqrt(missed.var() * tasks / (tasks - 1) + (flattered - value) ** 2)
    low, high = 0.0, math.inf
    if math.isfinite(spread):
        reach = t_quantile(TAIL, min(tasks, BLOCKS) - 1) * spread
        low, high = math.exp(value - min(reach, 700.0)), math.exp(min(value + reach, 700.0))
    return SpeedupPrediction(math.exp(value), low, high, f"{tasks} tasks, cost per solved task"), agreeing


def _per_solved(cost: Any, solved: Any) -> Any:
    """Cost per solved task; infinite where none is solved."""
    return np.where(solved > 0.0, cost / np.maximum(solved, 1e-300), math.inf)


def _log_gain(sums: Any) -> Any:
    """The log of the baseline's cost per solved task over the candidate's, of `sums` [4, …]; not finite for none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(sums[2] / sums[3]) - np.log(sums[0] / sums[1])
