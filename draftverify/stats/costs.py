"""What a block costs by its size: seconds of draft and of verify fitted from the timings of rounds.

The fit is the mean per size, winsorised so that a stall of the machine does not count, made monotone in the size
(weighted pool-adjacent-violators); sizes between two that were seen are interpolated, sizes outside are refused.
A task's first round is kept apart where later ones of its size exist: it carries the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from draftverify.errors import ConfigError
from draftverify.stats.intervals import Estimate, log_jackknife
from draftverify.values import TaskRecord


class Curve(msgspec.Struct, frozen=True):
    """Seconds by block size.

    Args:
        sizes: the sizes seen, ascending.
        seconds: fitted, one per size, never falling.
        errors: standard errors of the means, tasks as clusters; NaN where one task is all there is.
        counts: rounds per size.
    """

    sizes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    def at(self, n: int) -> float:
        """Seconds of a block of `n`, interpolated between sizes that were seen.

        Raises:
            ConfigError: when `n` is outside the sizes seen; nothing is extrapolated.
        """
        if not self.sizes or not self.sizes[0] <= n <= self.sizes[-1]:
            timed = f"{self.sizes[0]} to {self.sizes[-1]}" if self.sizes else "none"
            raise ConfigError(
                f"no cost is known for blocks of {n} (sizes timed: {timed}); time some and fit again"
            )
        return float(np.interp(n, self.sizes, self.seconds))


class CostModel(msgspec.Struct, frozen=True):
    """Fitted costs of one pipeline's rounds, in seconds.

    Args:
        draft: by the number of items that came back, when any were asked for.
        verify: by the number of items in the block; size 0 is a plain step.
        rest: the rule and whatever else a round takes, per round.
        first_draft, first_verify: what a task's first round takes beyond a later one of its size.
    """

    draft: Curve
    verify: Curve
    rest: float
    first_draft: float = 0.0
    first_verify: float = 0.0


class Timings:
    """The rounds of some records as columns, ready to be fitted again and again with tasks left out.

    Rounds with a failed call, of a fallback or a person, or with more than one verifier pass are no use here.
    Records of one task (a plain and a speculative run of it) share its number.
    """

    def __init__(self, records: Iterable[TaskRecord]) -> None:
        self.tasks: dict[str, int] = {}
        rows = [
            (
                self.tasks.setdefault(record.task, len(self.tasks)),
                len(entry.items),
                entry.asked,
                entry.index,
                entry.timing.draft,
                entry.timing.verify,
                entry.timing.decide,
            )
            for record in records
            for entry in record.rounds
            if entry.failure is None and entry.source == "generator" and entry.timing.passes == 1
        ]
        table = np.array(rows, dtype=float).reshape(-1, 7)
        self.task, self.size, self.asked, index = table[:, :4].astype(int).T
        later = index > 0
        self.apart = bool(later.sum() >= (~later).sum())
        # Of a size that no later round has (all of a task's items in one block) the first rounds are what is known.
        compared = np.isin(self.size, self.size[later])
        self.first = ~later & compared if self.apart else np.zeros(len(table), dtype=bool)
        self.draft, self.verify, self.rest = table[:, 4:].T
        used = ~self.first
        for size in np.unique(self.size):
            rounds = used & (self.size == size)
            self.verify[rounds] = _winsorised(self.verify[rounds])
            looked = rounds & (self.asked > 0)
            self.draft[looked] = _winsorised(self.draft[looked])
        self.rest[used] = _winsorised(self.rest[used])

    def fit(self, use: Any = None) -> CostModel:
        """The costs over the tasks that `use` (boolean, by task number) names; over all for None.

        Raises:
            ConfigError: when no timed round is left.
        """
        chosen = np.ones(len(self.task), dtype=bool) if use is None else np.asarray(use)[self.task]
        later = chosen & ~self.first
        if not later.any():
            raise ConfigError("no timed round to fit costs from; record a run of at least two rounds first")
        verify = _curve(self.size[later], self.verify[later], self.task[later])
        looked = later & (self.asked > 0)
        draft = _curve(self.size[looked], self.draft[looked], self.task[looked])
        first_rounds = chosen & self.first
        first_looked = first_rounds & (self.asked > 0)
        return CostModel(
            draft=draft,
            verify=verify,
            rest=float(self.rest[later].mean()),
            first_draft=_surcharge(draft, self.size[first_looked], self.draft[first_looked]),
            first_verify=_surcharge(verify, self.size[first_rounds], self.verify[first_rounds]),
        )


def fit_costs(records: Iterable[TaskRecord], *, plain: Sequence[TaskRecord] = ()) -> CostModel:
    """Fit the costs of block size.

    Args:
        records: one pipeline's.
        plain: records of plain decoding by the same verifier, for the cost of an empty block.
    """
    return Timings([*records, *plain]).fit()


def known_costs(records: Iterable[TaskRecord]) -> CostModel | None:
    """As `fit_costs`; None where no round was timed."""
    try:
        return fit_costs(records)
    except ConfigError:
        return None


def parallel_pass(records: Iterable[TaskRecord]) -> tuple[int, Estimate]:
    """Whether a verifier checks a block in one pass: seconds of one block of n over those of n blocks of one.

    1/n says that a block costs no more than an item, 1 that it costs as much as its items one by one. Blocks whose
    checks leave an item unchecked are left out: what a verifier saves by stopping early is no parallel pass.

    Args:
        records: rounds of blocks of one and of larger ones, timed.

    Returns:
        n, the largest that several tasks had, and the ratio, with a jackknife interval over tasks on the log scale.

    Raises:
        ConfigError: no block of one, or none larger, was timed that was looked at whole.
    """
    timings = Timings(
        replace(
            record,
            rounds=tuple(entry for entry in record.rounds if not entry.checks or not entry.tally.unchecked),
        )
        for record in records
    )
    curve = timings.fit().verify
    pairs = zip(curve.sizes, curve.errors, strict=True)
    sizes = [size for size, error in pairs if size > 1 and not math.isnan(error)]
    if 1 not in curve.sizes or not sizes:
        raise ConfigError(
            "no block of one, or none that is larger, was timed; run with blocks of 1 and of more"
        )
    n = sizes[-1]

    def statistic(use: Any) -> float:
        try:
            verify = timings.fit(use).verify
            single = verify.at(1)
            return verify.at(n) / (n * single) if single > 0.0 else math.nan
        except ConfigError:  # the tasks that are left had no such block
            return math.nan

    tasks = len(timings.tasks)
    return n, Estimate(*log_jackknife(tasks, statistic), len(timings.size), tasks)


def _winsorised(values: Any) -> Any:
    """Values beyond Tukey's far-out fences (three interquartile ranges) pulled back to them."""
    if len(values) < 4:
        return values
    low, high = np.quantile(values, (0.25, 0.75))
    reach = 3.0 * (high - low)
    return values if reach == 0.0 else np.clip(values, low - reach, high + reach)


def _curve(size: Any, seconds: Any, task: Any) -> Curve:
    from scipy.optimize import isotonic_regression

    if not len(size):
        return Curve()
    sizes, place = np.unique(size, return_inverse=True)
    counts = np.bincount(place)
    means = np.bincount(place, seconds) / counts
    errors = []
    for column, mean in enumerate(means):
        rounds = place == column
        sums = np.bincount(task[rounds], seconds[rounds] - mean)
        clusters = len(np.unique(task[rounds]))
        spread = math.sqrt(clusters / (clusters - 1) * float((sums**2).sum())) if clusters > 1 else math.nan
        errors.append(spread / int(counts[column]))
    monotone = isotonic_regression(means, weights=counts).x
    return Curve(tuple(sizes.tolist()), tuple(monotone.tolist()), tuple(errors), tuple(counts.tolist()))


def _surcharge(curve: Curve, size: Any, seconds: Any) -> float:
    if not len(size) or not curve.sizes:
        return 0.0
    return float(np.median(seconds - np.interp(size, curve.sizes, curve.seconds)))
