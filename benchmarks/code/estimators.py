"""The figures as pure functions of recorded verdicts: pass@k, best of n, agreement, and ratios of times.

Expectations over random draws are computed, not sampled: over subsets of the recorded samples, and over ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from draftverify import Check
from draftverify.rules import consensus_sets
from draftverify.rules.agreement import Support
from draftverify.stats import Estimate, pass_at_k
from draftverify.stats.intervals import log_interval, rate

Verdicts = Sequence[bool]
"""Whether each of a task's samples is correct."""


def said_of(check: Check) -> str:
    """A check's verdict, and "timeout" of what ran out of its time, as plain Python's harnesses say it."""
    return "timeout" if check.reason in ("wall", "cpu") else check.verdict


def over_tasks(values: Sequence[float]) -> Estimate:
    """The mean of a figure between 0 and 1 over tasks, with a 95 % interval for tasks like these."""
    return rate(values, [1.0] * len(values))


def pass_at(correct: Mapping[str, Verdicts], k: int) -> Estimate:
    """pass@k: the chance that one of k samples of a task is correct, unbiased, averaged over tasks."""
    return over_tasks([pass_at_k(len(each), sum(each), k) for each in correct.values()])


def best_of(scores: Sequence[float], correct: Verdicts, n: int) -> float:
    """The chance that the best-scored of n samples is correct, the n drawn without replacement, ties broken by lot.

    The best of n lies in the group of samples that score s with probability (C(L, n) − C(B, n)) / C(N, n), where L
    samples score s or less and B less, and is then any of that group with equal probability.

    Args:
        scores: of all N recorded samples; NaN is below every number.
        correct: of the same.
        n: how many are drawn, 1 <= n <= N.
    """
    values = np.asarray([-math.inf if math.isnan(score) else score for score in scores])
    right = np.asarray(correct, dtype=float)
    total, chance = math.comb(len(values), n), 0.0
    for score in np.unique(values):
        here = values == score
        up_to, below = int((values <= score).sum()), int((values < score).sum())
        chance += (math.comb(up_to, n) - math.comb(below, n)) / total * float(right[here].mean())
    return chance


def agreement(cross: Any, correct: Verdicts, support: Support) -> float | None:
    """The chance that a sample is correct that is drawn from the best consensus sets; None when there is no set.

    Sets of the same score are one lot, as in the program published with CodeT.

    Args:
        cross: [samples, generated tests].
        correct: of the same samples.
        support: what the number of samples in a set counts for.
    """
    sets = consensus_sets(cross, support=support)
    if not sets:
        return None
    lot = [item for one in sets if math.isclose(one.score, sets[0].score, rel_tol=1e-9) for item in one.items]
    return sum(correct[item] for item in lot) / len(lot)


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """The ratio of two times, one pair per interleaved block: its geometric mean and a 95 % t interval of the logs."""
    logs = np.log(np.asarray(numerators, dtype=float)) - np.log(np.asarray(denominators, dtype=float))
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    mean = float(logs.mean())
    return Estimate(math.exp(mean), *log_interval(mean, error, len(logs) - 1), len(logs), len(logs))


def differences(
    names: Sequence[str], ours: Sequence[tuple[bool, str]], theirs: Sequence[tuple[bool, str]]
) -> list[dict[str, Any]]:
    """Where two harnesses disagree: (passed, reason) of the same programs, those whose `passed` differs."""
    return [
        {"program": name, "ours": mine, "theirs": other}
        for name, mine, other in zip(names, ours, theirs, strict=True)
        if mine[0] != other[0]
    ]


EXPLAINED = ("refused", "needs shared-process")
"""Reasons of errors that say why there is no verdict: a package that the sandbox does not show, an argument that the
tests could not be asked about in a process of their own."""


def failed(checks: Iterable[Check]) -> int:
    """How many checks failed and do not say why."""
    return sum(check.verdict == "error" and check.reason not in EXPLAINED for check in checks)


class Targets:
    """Figures that must lie somewhere, each with what was found."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def near(self, what: str, value: float, target: float, tolerance: float) -> None:
        """`value` must lie within `tolerance` of `target`."""
        # Both are given in decimals: a hair of binary rounding is no miss.
        self._add(what, value, f"{target:g} ± {tolerance:g}", abs(value - target) <= tolerance + 1e-9)

    def at_most(self, what: str, value: float, bound: float) -> None:
        """`value` must not exceed `bound`."""
        self._add(what, value, f"<= {bound:g}", value <= bound)

    def at_least(self, what: str, value: float, bound: float) -> None:
        """`value` must reach `bound`."""
        self._add(what, value, f">= {bound:g}", value >= bound)

    def holds(self, what: str, found: Any, wanted: str, ok: bool) -> None:
        """Something that is no number must be so."""
        self._add(what, found, wanted, ok)

    def _add(self, what: str, value: Any, wanted: str, ok: bool) -> None:
        self.rows.append({"what": what, "value": value, "wanted": wanted, "ok": bool(ok)})

    @property
    def missed(self) -> list[dict[str, Any]]:
        """What is not as it should be; NaN never is."""
        return [row for row in self.rows if not row["ok"]]
