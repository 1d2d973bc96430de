"""What a verifier's score means: the probability that an item is right.

It is learned from items that were judged and whose rightness is known. A task's items resemble each other, so whole
tasks are left out when the probabilities are tried on data that they were not fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any, ClassVar

import msgspec
import numpy as np

from draftverify.bench.artifact import ArtifactFile
from draftverify.errors import ConfigError
from draftverify.stats.intervals import Estimate, numbered, pooled_rate

FOLDS = 10
BINS = 10


class LabelledScore(msgspec.Struct, frozen=True):
    """An item that was judged, and what it turned out to be.

    Args:
        task: whose item it is.
        score: the verifier's; higher is better.
        right: whether it was right.
    """

    task: str
    score: float
    right: bool


class Reliability(msgspec.Struct, frozen=True):
    """The promised and the observed share of right items; each probability was fitted on other tasks.

    Args:
        promised: their mean probability.
        right: the share that was right, with its interval.
    """

    promised: float
    right: Estimate


class ScoreFit(msgspec.Struct, frozen=True, kw_only=True):
    """What a score means: P(right | score) = 1 / (1 + exp(−(slope · score + intercept))).

    Args:
        slope, intercept: of the log odds.
        reliability: by score, in up to ten parts of equal size.
        error: the expected calibration error over these parts, Σ share · |promised − right|.
        tasks, items, right: how many it was fitted on.
    """

    slope: float
    intercept: float
    reliability: tuple[Reliability, ...]
    error: float
    tasks: int
    items: int
    right: int

    def probability(self, score: float) -> float:
        """The probability that an item with this score is right."""
        return float(_logistic(np.asarray([score]), self.slope, self.intercept)[0])


def fit_scores(judged: Iterable[LabelledScore]) -> ScoreFit:
    """Learn what a score means.

    The probability is Platt's: logistic in the score, towards (n + 1) / (n + 2) and 1 / (m + 2) in place of 1 and 0 for
    n right and m wrong items, so that few labels promise no certainty.

    Args:
        judged: the items; of one task as many as there are.

    Raises:
        ConfigError: no item is there, a score is not finite, or all items are of one task.

    References:
        Platt, Probabilistic outputs for support vector machines (1999); Lin, Lin and Weng, A note on Platt's
        probabilistic outputs, Machine Learning 68 (2007).
    """
    items = list(judged)
    scores, right, groups = _columns(items)
    slope, intercept = platt(scores, right)
    promised = _out_of_fold(scores, right, groups)
    parts = reliability(promised, right, groups)
    error = sum(part.right.trials * abs(part.promised - part.right.value) for part in parts) / len(items)
    return ScoreFit(
        slope=slope,
        intercept=intercept,
        reliability=parts,
        error=error,
        tasks=int(groups.max()) + 1,
        items=len(items),
        right=int(right.sum()),
    )


def reliability(
    promised: Sequence[float], right: Sequence[bool], tasks: Sequence[Hashable]
) -> tuple[Reliability, ...]:
    """The promised and the observed shares, by probability in up to ten parts of equal size.

    Args:
        promised: [n], the probability of being right that each item was given by what was not fitted on it.
        right: [n], whether it was.
        tasks: [n], whose item it is.
    """
    probabilities, is_right = np.asarray(promised, dtype=float), np.asarray(right, dtype=float)
    of_item, _ = numbered(tasks)
    order = np.argsort(probabilities, kind="stable")
    parts = np.array_split(order, min(BINS, max(len(order) // 20, 1)))
    return tuple(
        Reliability(
            float(probabilities[at].mean()),
            pooled_rate(zip(of_item[at].tolist(), is_right[at].tolist(), repeat(1.0))),
        )
        for at in parts
    )


def platt(scores: Any, right: Any) -> tuple[float, float]:
    """Slope and intercept of the log odds, by scipy's BFGS on standardised scores."""
    from scipy.optimize import minimize

    n, m = right.sum(), len(right) - right.sum()
    aims = np.where(right > 0, (n + 1) / (n + 2), 1 / (m + 2))
    mean, spread = float(scores.mean()), float(scores.std()) or 1.0
    x = np.stack([(scores - mean) / spread, np.ones_like(scores)], axis=1)

    def loss(w: Any) -> tuple[float, Any]:
        """With its gradient."""
        z = x @ w
        return float((np.logaddexp(0.0, z) - aims * z).sum()), x.T @ (_logistic(z, 1.0, 0.0) - aims)

    start = np.array([0.0, math.log((n + 1) / (m + 1))])
    slope, intercept = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x.tolist()
    return slope / spread, intercept - slope * mean / spread


def _columns(judged: Sequence[LabelledScore]) -> tuple[Any, Any, Any]:
    """Scores, rightness and the number of the task of each item, [n] each.

    Raises:
        ConfigError: there is no item, a score is not finite, or all items are of one task.
    """
    if not judged:
        raise ConfigError("no judged item is there: nothing says what a score means")
    scores = np.array([item.score for item in judged], dtype=float)
    if not np.isfinite(scores).all():
        bad = judged[int(np.argmin(np.isfinite(scores)))]
        raise ConfigError(f"an item of task {bad.task} has the score {bad.score}; scores are finite numbers")
    groups, tasks = numbered(item.task for item in judged)
    if tasks < 2:
        raise ConfigError("all judged items are of one task; what holds for others needs two at least")
    return scores, np.array([item.right for item in judged], dtype=float), groups


def _logistic(scores: Any, slope: float, intercept: float) -> Any:
    z = slope * scores + intercept
    return np.exp(-np.logaddexp(0.0, -z))


def _out_of_fold(scores: Any, right: Any, groups: Any) -> Any:
    """Each item's probability, fitted on the tasks of other folds."""
    fold = groups % min(FOLDS, int(groups.max()) + 1)
    promised = np.empty_like(scores)
    for number in range(int(fold.max()) + 1):
        out = fold == number
        promised[out] = _logistic(scores[out], *platt(scores[~out], right[~out]))
    return promised


class ScoreArtifact(
    ArtifactFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="draftverify.scores"
):
    """The file of what a verifier's scores mean.

    Args:
        fit: the meaning.
    """

    title: ClassVar[str] = "score fit"
    made_by: ClassVar[str] = "draftverify fit scores RUN"

    fit: ScoreFit
