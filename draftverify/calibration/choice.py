"""Which of several candidates to take: the one whose solved task costs least, and what that choice gains on new tasks.

What wins on some tasks is flattered by having won on them. So the gain is predicted by cross-fitting: of each tenth of
the tasks counts the candidate that wins on the other tenths. That is the gain of choosing so, not of the winner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from draftverify.calibration.prediction import Prediction
from draftverify.calibration.solved import Scored, predict_solved, seconds
from draftverify.errors import ConfigError

__all__ = ["Choice", "choose"]

FOLDS = 10


class Choice(msgspec.Struct, frozen=True):
    """The candidate that was chosen.

    Args:
        name: its name.
        cost: of a solved task, in seconds.
        base: the same of what it is compared with; infinite where that solved none.
        tasks: on how many tasks all candidates were compared.
        agreeing: the share of those tasks without whose tenth it would have been chosen too.
        predicted: the gain over what it is compared with, on new tasks.
    """

    name: str
    cost: float
    base: float
    tasks: int
    agreeing: float
    predicted: Prediction


def choose(tried: Mapping[str, Scored], against: Mapping[str, Scored], new: int) -> Choice:
    """Choose the candidate with the least cost per solved task, and predict its gain.

    Args:
        tried: of each candidate the records, each with what the metric said; of two that cost the same the first wins.
        against: of each candidate those of what it is compared with.
        new: on how many new tasks the gain will be measured.

    Raises:
        ConfigError: the candidates have no task in common, or solved none.

    References:
        Varma and Simon, Bias in error estimation when using cross-validation for model selection (2006), on why the
        winner's own figure is too good.
    """
    names = list(tried)
    sides = [*({record.task for record, _ in side} for side in (*tried.values(), *against.values()))]
    shared = set.intersection(*sides) if sides else set()
    tasks = [record.task for record, _ in tried[names[0]] if record.task in shared] if names else []
    if not tasks:
        raise ConfigError("no task ended, and was judged, at every block size and with the baseline")
    own = {name: {record.task: (record, said) for record, said in tried[name]} for name in names}
    base = {name: {record.task: (record, said) for record, said in against[name]} for name in names}
    cost = np.array([[seconds(own[name][task][0]) for name in names] for task in tasks])
    solved = np.array([[own[name][task][1] for name in names] for task in tasks])

    def best(use: Any) -> int | None:
        spent, gained = cost[use].sum(axis=0), solved[use].sum(axis=0)
        each = np.where(gained > 0.0, spent / np.maximum(gained, 1e-300), math.inf)
        return int(each.argmin()) if np.isfinite(each).any() else None

    winner = best(slice(None))
    if winner is None:
        raise ConfigError("no task was solved at any block size, so none is better than another")
    name = names[winner]
    place = np.arange(len(tasks)) % min(FOLDS, len(tasks))
    without = {fold: best(place != fold) for fold in set(place.tolist())}
    taken = [names[winner if (k := without[fold]) is None else k] for fold in place.tolist()]
    mine = [own[each][task] for each, task in zip(taken, tasks, strict=True)]
    theirs = [base[each][task] for each, task in zip(taken, tasks, strict=True)]
    unknown = Prediction(math.nan, 0.0, math.inf, "the baseline solved no task")
    predicted = predict_solved(mine, theirs, {"": new}).get("", unknown)
    plain = [base[name][task] for task in tasks]
    gained = sum(said for _, said in plain)
    return Choice(
        name=name,
        cost=float(cost[:, winner].sum() / solved[:, winner].sum()),
        base=sum(seconds(record) for record, _ in plain) / gained if gained > 0.0 else math.inf,
        tasks=len(tasks),
        agreeing=taken.count(name) / len(taken),
        predicted=predicted,
    )
