"""How far a verifier's word can be trusted: with labels, with few of them, and where it errs as the generator does.

With labels: the share of right and of wrong items that it passes, T and F, beside how many are right at all, π. The
acceptance α = πT + (1 − π)F alone cannot tell a better generator from a laxer verifier, so the four go together.
With few labels and many verdicts: a rate that the verdicts narrow and do not bias (PPI++). Blind spots: whether wrong
items of some generators pass more easily than those of others. The task is the unit of sampling throughout.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from draftverify.errors import ConfigError
from draftverify.stats.intervals import (
    TAIL,
    Estimate,
    bootstrap,
    log_jackknife,
    numbered,
    over,
    rate,
    t_quantile,
    within,
)


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifier's word is worth on items of some generator, each figure with a 95 % interval that knows of tasks.

    Args:
        true_pass: T, the share of right items that it passes.
        false_pass: F, the share of wrong items that it passes.
        base: π, the share of items that are right.
        acceptance: α = πT + (1 − π)F, the share that it passes.
        precision: πT/α, the share of passed items that is right. It is the ceiling too: who drafts again until
            something passes gets answers of this precision and no better, where tasks are alike.
        missed: π(1 − T)/(1 − α), the share of items that it does not pass that is right.
        informedness: T − F; 0 of a verifier that knows nothing, whatever its T.
        resampled: what drafting again until something passes comes to on these very tasks: the first that passes of
            each task's items in random order, over the tasks of which some item passed. Tasks of which right items are
            rare count as much as others here, so it is mostly below `precision`.
        cost_per_right: (c_d + c_v)/(πT), what one right answer that passes costs; None where no cost was given.
        unpassed: of how many tasks nothing passed.
    """

    true_pass: Estimate
    false_pass: Estimate
    base: Estimate
    acceptance: Estimate
    precision: Estimate
    missed: Estimate
    informedness: Estimate
    resampled: Estimate
    cost_per_right: Estimate | None
    unpassed: int


def trust(
    passed: Sequence[bool],
    right: Sequence[bool],
    tasks: Sequence[Hashable],
    costs: float | Sequence[float] | None = None,
) -> Trust:
    """T, F, π and α of a verifier together, its precision, which is the ceiling of resampling, and a right one's cost.

    Args:
        passed: [n], whether it passed each item. Items without a verdict (errors, abstentions) are left out before.
        right: [n], whether each is right, by a label.
        tasks: [n], whose item each is.
        costs: of drafting and judging an item, c_d + c_v, in any unit: one number, or [n].

    Returns:
        T is NaN where no item is right, F where none is wrong, `precision` and `resampled` where none passed, `missed`
        where all did, with an interval of (0, 1).

    Raises:
        ConfigError: there is no item, the lengths differ, a verdict or label is neither 0 nor 1, or a cost is not
            a finite number of 0 or more.
    """
    verdicts, expected, place, size = _marked(tasks, passed=passed, right=right)
    both = np.bincount(place, verdicts * expected, size)
    hits, passes = np.bincount(place, expected, size), np.bincount(place, verdicts, size)
    items = np.bincount(place, minlength=size).astype(float)
    wrong, lax = items - hits, passes - both

    def informed(weights: Any) -> float:
        good, bad = weights @ hits, weights @ wrong
        return float(weights @ both / good - weights @ lax / bad) if good > 0 and bad > 0 else math.nan

    some = passes > 0
    return Trust(
        true_pass=rate(both, hits),
        false_pass=rate(lax, wrong),
        base=rate(hits, items),
        acceptance=rate(passes, items),
        precision=rate(both, passes),
        missed=rate(hits - both, items - passes),
        informedness=within(bootstrap(informed, range(size)), -1.0, 1.0),
        resampled=rate(both[some] / passes[some], np.ones(int(some.sum()))),
        cost_per_right=None if costs is None else _cost_per_right(costs, place, both),
        unpassed=int((~some).sum()),
    )


class Assisted(msgspec.Struct, frozen=True):
    """A rate by few labels and many verdicts.

    Args:
        rate: by both together; `trials` counts labels and verdicts, `clusters` tasks.
        alone: by the labels alone.
        weight: λ, how much the verdicts count: 0 is not at all.
    """

    rate: Estimate
    alone: Estimate
    weight: float


def assisted_rate(
    labels: Sequence[float],
    judged: Sequence[float],
    unlabelled: Sequence[float],
    tasks: Sequence[Hashable] | None = None,
) -> Assisted:
    """A rate by few labels and many verdicts of a judge, without the judge's bias (PPI++), with its 95 % interval.

    θ = λ · mean_U(j) + mean_L(y − λ j), with L the n labelled items, U the N others, and λ = Cov_L(y, j) / (Var(j)
    (1 + n / N)), within 0 to 1: 0 is the labels alone, and that is what a judge who knows nothing leads to.

    The interval is Student's t with one degree of freedom less than tasks that have a label. Its variance leaves out
    one task at a time (jackknife), apart for the tasks that have a label and for the others, and fits λ anew each
    time: with few tasks a λ that was fitted on them makes the interval too narrow. Where y − λ j is the same of every
    label they say nothing of its variance: then the interval reaches as far as a difference may lie that so many tasks
    do not show (Clopper–Pearson, each one trial).

    Args:
        labels: [n], what the labels say of each labelled item, from 0 to 1, such as 1 for a win and ½ for a tie.
        judged: [n], what the judge says of the same items, on the labels' scale: a verdict, or a probability.
        unlabelled: [N], what the judge says of the others; none leave the labels' own mean.
        tasks: [n + N], whose item each is, the labelled ones first; each is its own when None.

    Raises:
        ConfigError: there is no label, the lengths differ, a label is not from 0 to 1, or a verdict is not finite.

    References:
        Angelopoulos, Duchi and Zrnic, PPI++: efficient prediction-powered inference, arXiv 2311.01453.
    """
    y, j, u = (np.asarray(values, dtype=float) for values in (labels, judged, unlabelled))
    if not len(y) or len(y) != len(j):
        raise ConfigError(
            f"there are {len(y)} labels and {len(j)} verdicts on them; as many, and some, are needed"
        )
    if not ((y >= 0.0) & (y <= 1.0)).all():
        raise ConfigError("a label is not from 0 to 1; a rate is the mean of such labels", path="labels")
    if not (np.isfinite(j).all() and np.isfinite(u).all()):
        raise ConfigError("a verdict is not a finite number; items that were not judged are left out")
    place, _ = _places(range(len(y) + len(u)) if tasks is None else tasks, len(y) + len(u))
    both, weight = _assisted(y, j, u, place)
    by_labels, _ = _assisted(y, j, u[:0], place[: len(y)])
    return Assisted(both, by_labels, weight)


def labels_needed(width: float, variance: float, *, correlation: float = 0.0, unlabelled: int = 0) -> int:
    """How many labels give a mean a 95 % interval of this width, by the normal approximation.

    The smallest n with 2 z sqrt(v / n · (1 − ρ² N / (n + N))) ≤ width; the last factor is what `assisted_rate` gains
    from a judge. For units that are independent: of several to a question more are needed.

    Args:
        width: of the whole interval, from its lower to its upper end.
        variance: of one unit: p (1 − p) for a share, at most ¼; p_o (1 − p_o) / (1 − p_e)² for Cohen's κ.
        correlation: ρ of a label and the judge's verdict on the same unit.
        unlabelled: N, how many units the judge judges besides.

    Raises:
        ConfigError: the width is not above 0.
    """
    if not width > 0:
        raise ConfigError(f"a width of {width} cannot be reached; it is above 0", path="width")
    z = NormalDist().inv_cdf(TAIL)

    def wide(n: int) -> bool:
        share = unlabelled / (n + unlabelled)
        return 2.0 * z * math.sqrt(variance / n * (1.0 - correlation**2 * share)) > width * (1.0 + 1e-12)

    alone = math.ceil(variance * (2.0 * z / width) ** 2)  # without a judge
    return 1 + bisect_left(range(1, alone + 1), True, key=lambda n: not wide(n))


class BlindSpots(msgspec.Struct, frozen=True):
    """Whether a verifier overlooks what generators like itself do wrong.

    Args:
        related: F on wrong items of the generators that are related to it.
        others: F on wrong items of all others.
        ratio: the first over the second, within strata (Mantel–Haenszel); 1 is no shared blind spot. Its `trials` are
            the wrong items of strata that have both, which alone count; NaN and (0, ∞) where there are none.
    """

    related: Estimate
    others: Estimate
    ratio: Estimate


def blind_spots(
    passed: Sequence[bool],
    related: Sequence[bool],
    tasks: Sequence[Hashable],
    strata: Sequence[Hashable] | None = None,
) -> BlindSpots:
    """How much more often wrong items of related generators pass than those of others, with cluster intervals.

    Ratio = Σ_s a_s·n_s/N_s / Σ_s b_s·m_s/N_s, with a of m related and b of n other wrong items passed in stratum s, and
    N = m + n. The intervals draw whole tasks anew. Two generators that err on the same hard tasks share no blind spot
    by that: with the task in the stratum wrong items are compared on the same task alone.

    Args:
        passed: [n], whether the verifier passed each of some wrong items.
        related: [n], whether the item's generator is related to the verifier: of one family, trained on one text, or
            the generator that is suspected.
        tasks: [n], whose item each is.
        strata: [n], within which items are compared, such as (verifier, task); all together when None.

    Raises:
        ConfigError: there is no item, the lengths differ, or a mark is neither 0 nor 1.

    References:
        Mantel and Haenszel, Statistical aspects of the analysis of data from retrospective studies of disease, JNCI 22
        (1959).
    """
    verdicts, is_related, place, size = _marked(tasks, passed=passed, related=related)
    stratum, _ = _places([0] * len(verdicts) if strata is None else strata, len(verdicts))
    # One cell per task and stratum; a stratum may reach over tasks.
    _, cell = np.unique(np.stack([place, stratum]), axis=1, return_inverse=True)
    cell = cell.reshape(-1)
    cells = int(cell.max()) + 1
    task_of, stratum_of = np.zeros((2, cells), dtype=int)
    task_of[cell], stratum_of[cell] = place, stratum
    a, m = (np.bincount(cell, marks, cells) for marks in (verdicts * is_related, is_related))
    b, n = (np.bincount(cell, marks, cells) for marks in (verdicts * (1.0 - is_related), 1.0 - is_related))

    def ratio(weights: Any) -> float:
        sums = [np.bincount(stratum_of, weights[task_of] * counts) for counts in (a, m, b, n)]
        total = sums[1] + sums[3]
        share = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return over((sums[0] * sums[3] * share).sum(), (sums[2] * sums[1] * share).sum())

    both = (np.bincount(stratum, is_related) > 0) & (np.bincount(stratum, 1.0 - is_related) > 0)
    compared = int(both[stratum].sum())
    redrawn = within(bootstrap(ratio, range(size)), 0.0, math.inf)
    return BlindSpots(
        related=rate(np.bincount(task_of, a), np.bincount(task_of, m)),
        others=rate(np.bincount(task_of, b), np.bincount(task_of, n)),
        ratio=replace(redrawn, trials=compared),
    )


def error_correlation(
    errors_a: Sequence[bool], errors_b: Sequence[bool], tasks: Sequence[Hashable] | None = None
) -> Estimate:
    """φ of two systems' errors on the same items, with a 95 % interval that draws whole tasks anew.

    φ = (p_11 p_00 − p_10 p_01) / sqrt(p_1· p_0· p_·1 p_·0), the correlation of two marks. 0 of a generator and a
    verifier whose errors are independent; that is what "two of them agree, so it is right" rests on.

    Args:
        errors_a, errors_b: [n], whether each is wrong on each item.
        tasks: [n], whose item each is; each is its own when None.

    Returns:
        NaN, and an interval of (−1, 1), where one is always wrong, or never.

    Raises:
        ConfigError: there is no item, the lengths differ, or a mark is neither 0 nor 1.
    """
    tasks = range(len(errors_a)) if tasks is None else tasks
    x, y, place, size = _marked(tasks, errors_a=errors_a, errors_b=errors_b)
    sums = np.stack([np.bincount(place, marks, size) for marks in (np.ones(len(x)), x, y, x * y)])

    def correlation(weights: Any) -> float:
        count, errors_of_a, errors_of_b, joint = sums @ weights
        spread = errors_of_a * (count - errors_of_a) * errors_of_b * (count - errors_of_b)
        covariance = joint * count - errors_of_a * errors_of_b
        return float(covariance / math.sqrt(spread)) if spread > 0 else math.nan

    return within(bootstrap(correlation, range(size)), -1.0, 1.0)


def _assisted(y: Any, j: Any, u: Any, place: Any) -> tuple[Estimate, float]:
    """θ and λ of items whose tasks are `place`, the labelled ones first; the interval within 0 and 1."""
    n, size = len(y), int(place.max()) + 1
    middle = np.concatenate([j, u]).mean()
    j, u = j - middle, u - middle  # so that no square of a large number is taken
    labelled_place, unlabelled_place = place[:n], place[n:]
    sums = np.stack(
        [np.bincount(labelled_place, column, size) for column in (np.ones(n), y, j, y * j, j * j)]
        + [np.bincount(unlabelled_place, column, size) for column in (np.ones(len(u)), u, u * u)]
    )
    totals = sums.sum(axis=1, keepdims=True)
    (value,), (weight,) = (figure.tolist() for figure in _rectified(totals))
    labelled = sums[0] > 0
    tasks = int(labelled.sum())
    reach = math.inf
    if tasks > 1:
        without, _ = _rectified(totals - sums)
        variance = _jackknife(without[labelled]) + _jackknife(without[~labelled & (sums[5] > 0)])
        reach = t_quantile(TAIL, tasks - 1) * math.sqrt(variance)
    if np.ptp(y - weight * j) <= 1e-12:
        reach = max(reach, 1.0 - (1.0 - TAIL) ** (1.0 / tasks))
    clusters = int((sums[[0, 5]].sum(axis=0) > 0).sum())
    return Estimate(value, max(value - reach, 0.0), min(value + reach, 1.0), n + len(u), clusters), weight


def _rectified(sums: Any) -> tuple[Any, Any]:
    """θ and λ, [k] each, of [8, k] sums: n, Σy, Σj, Σyj and Σj² over L, N, Σu and Σu² over U."""
    n, y, j, yj, jj, unlabelled, u, uu = sums
    pooled = n + unlabelled
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (jj + uu - (j + u) ** 2 / pooled) / (pooled - 1.0)
        raw = (yj - y * j / n) / n / (spread * (1.0 + n / unlabelled))
        weight = np.where((unlabelled > 0) & (spread > 1e-12), np.clip(raw, 0.0, 1.0), 0.0)
        mean_u = np.where(unlabelled > 0, u / np.maximum(unlabelled, 1.0), 0.0)
        return y / n + weight * (mean_u - j / n), weight


def _jackknife(without: Any) -> float:
    """The variance of a figure, of what it is without each of some tasks."""
    count = len(without)
    return float(((without - without.mean()) ** 2).sum()) * (count - 1) / count if count > 1 else 0.0


def _cost_per_right(costs: float | Sequence[float], place: Any, both: Any) -> Estimate:
    paid = np.asarray(costs, dtype=float)
    paid = np.full(place.shape, paid) if paid.ndim == 0 else paid
    if paid.shape != place.shape or not (np.isfinite(paid) & (paid >= 0.0)).all():
        raise ConfigError(
            f"costs are one finite number of 0 or more, or one for each of the {len(place)} items",
            path="costs",
        )
    spent = np.bincount(place, paid, len(both))
    figure = log_jackknife(len(both), lambda use: over(spent[use].sum(), both[use].sum()))
    return Estimate(*figure, len(place), len(both))


def _marked(tasks: Sequence[Hashable], **marks: Sequence[Any]) -> tuple[Any, Any, Any, int]:
    """Two columns of marks by their names, the number of each one's task, and how many tasks there are."""
    (one, of_one), (other, of_other) = ((name, _bits(name, values)) for name, values in marks.items())
    if len(of_one) != len(of_other):
        raise ConfigError(
            f"{one} has {len(of_one)} items and {other} {len(of_other)}; as many are needed", path=other
        )
    return of_one, of_other, *_places(tasks, len(of_one))


def _bits(name: str, values: Sequence[Any]) -> Any:
    bits = np.asarray(values, dtype=float)
    if bits.ndim != 1 or not len(bits):
        raise ConfigError(f"{name} has no item: there is nothing to count", path=name)
    if not np.isin(bits, (0.0, 1.0)).all():
        bad = int(np.argmin(np.isin(bits, (0.0, 1.0))))
        raise ConfigError(
            f"{name}[{bad}] is {bits[bad]:g}; it is True or False, and nothing between", path=name
        )
    return bits


def _places(keys: Sequence[Hashable], expected: int) -> tuple[Any, int]:
    """[n]: the number of each item's task, in order of their first item; and how many there are."""
    if len(keys) != expected:
        raise ConfigError(
            f"{len(keys)} tasks are named for {expected} items; each item has one", path="tasks"
        )
    return numbered(keys)
