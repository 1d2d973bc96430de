"""Counts against probabilities: a G test whose limit is a theorem, not an approximation.

For n draws over k cells with probabilities p, G/2 = n·KL(observed ‖ p), and for every t > k − 1

    P(n·KL ≥ t) ≤ e^(−t)·(e·t/(k − 1))^(k−1)        (Agrawal, arXiv:1904.02291, theorem 1.2),

at every n and p, so a limit for an error of 10⁻⁸ holds where the χ² approximation's tail would be a guess. A
distribution at distance TV = δ is seen with probability .9 once δ ≥ √(t/2n) + √(ln 10/2n): the set A where it exceeds p
by δ has at most √(ln 10/2n) less than its share of the counts (Hoeffding), and KL ≥ 2·TV² (Pinsker).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

LEAST = 5.0
"""A cell's least expected count."""

DEPTHS = 9
"""So many places of a block or a sequence are counted."""

BINS = 10
THIRDS = 3

CELLS = 10
"""The most cells of a test, an impossible one aside; more cells see less of any one deviation."""


class CellCounts(NamedTuple):
    """Observed counts of the cells of one test, and their probabilities.

    Args:
        name: what was counted, for the message.
        observed: [cells] whole numbers.
        expected: [cells] probabilities, sum 1. One of exactly 0 is impossible: a single count in it fails the test.
    """

    name: str
    observed: Any
    expected: Any

    @property
    def n(self) -> int:
        """The number of draws."""
        return int(np.sum(self.observed))

    @property
    def statistic(self) -> float:
        """n·KL(observed ‖ expected), in nats."""
        nonzero = self.observed > 0
        if np.any(self.expected[nonzero] <= 0):
            return math.inf
        observed, expected = self.observed[nonzero], self.expected[nonzero] * self.n
        return max(0.0, float(np.sum(observed * np.log(observed / expected))))

    @property
    def distance(self) -> float:
        """TV between the observed frequencies and the probabilities."""
        return 0.5 * float(np.abs(self.observed / max(self.n, 1) - self.expected).sum())

    @property
    def degrees(self) -> int:
        """Possible cells less one."""
        return int(np.sum(self.expected > 0)) - 1


def limit(degrees: int, error: float) -> float:
    """The t that n·KL over `degrees` + 1 possible cells reaches with probability `error` at most."""
    if degrees < 1:
        return math.inf  # one possible cell: only the impossible one can be wrong

    def bound(t: float) -> float:
        return -t + degrees * (1.0 + math.log(t / degrees))

    low = high = float(degrees)
    while bound(high) > math.log(error):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) > math.log(error) else (low, middle)
    return high


def detectable(n: int, degrees: int, error: float) -> float:
    """The TV, over a test's cells, from which on a deviation is seen with probability .9 or more."""
    if degrees < 1:  # what is impossible is seen when it happens once
        return 1.0 - float(0.1 ** (1.0 / n))
    return min(1.0, math.sqrt(limit(degrees, error) / (2 * n)) + math.sqrt(math.log(10) / (2 * n)))


def strays(total: float, variance: float, error: float) -> bool:
    """Whether a sum of terms in [-1, 1], each of mean 0 given those before it, is too far from 0 to be chance.

    Args:
        total: the sum.
        variance: the sum of the terms' variances, each given the terms before it; it may depend on what was drawn.
        error: the probability of a sound sum that it is, at most: exp(λS − (e^λ − 1 − λ)V) has a mean of at most 1
            for each λ (Freedman, 1975), and ten of them are looked at.
    """
    scales = 2.0 ** -np.arange(10)
    weight = math.log(2 * len(scales) / error)
    return bool(np.max(scales * abs(total) - (np.expm1(scales) - scales) * variance) >= weight)


def pooled(p: Any, n: int, side: Any = None) -> Any:
    """Cells for n draws from p: the likeliest items alone, what is left in two halves, the impossible in one.

    Args:
        p: [V] probabilities.
        n: how many draws are expected.
        side: [V] booleans that tell the halves apart, chosen without the draws: where p exceeds q, for an acceptance
            rule, since most mistakes move mass from one side to the other. None: one half.

    Returns:
        [V] the cell of each item, from 0; each cell but the impossible one, which is the last, expects `LEAST` counts.
    """
    p = np.asarray(p, dtype=np.float64)
    side = np.zeros(len(p), dtype=bool) if side is None else np.asarray(side)
    order = np.argsort(-p, kind="stable")
    single = [int(v) for v in order[: CELLS - 2] if p[v] * n >= LEAST]
    cells = np.full(len(p), -1)
    cells[single] = np.arange(len(single))
    used = len(single)
    for half in (side, ~side):
        remaining = (cells == -1) & (p > 0) & half
        if p[remaining].sum() * n >= LEAST:
            cells[remaining] = used
            used += 1
    if used == 0:
        cells[p > 0], used = 0, 1
    cells[(cells == -1) & (p > 0)] = used - 1
    cells[cells == -1] = used
    return cells


def count(name: str, values: Any, p: Any, cells: Any) -> CellCounts:
    """Count the drawn values [n] in cells [V] of items with probabilities p [V]."""
    size = int(cells.max()) + 1
    p = np.asarray(p, dtype=np.float64)
    observed = np.bincount(cells[np.asarray(values)], minlength=size)
    expected = np.bincount(cells, weights=p / p.sum(), minlength=size)
    return CellCounts(name, observed, expected)


def even(name: str, ranks: Any, bins: int = BINS) -> CellCounts:
    """The counts of ranks [n], uniform on [0, 1); or of several in each row [n, d], which are so and independent."""
    places = np.clip((np.asarray(ranks).reshape(len(ranks), -1) * bins).astype(np.int64), 0, bins - 1)
    cells = bins ** places.shape[1]
    values = places @ bins ** np.arange(places.shape[1])[::-1]
    return count(name, values, np.full(cells, 1 / cells), np.arange(cells))


def verdicts(counts: list[CellCounts], error: float) -> list[str]:
    """A message for each test that fails.

    Args:
        counts: the tests.
        error: the probability that one of them fails although all is well, at most; shared out evenly.
    """
    messages: list[str] = []
    for counted in counts:
        if counted.statistic >= limit(counted.degrees, error / len(counts)):
            deviation = (
                "an impossible value came" if math.isinf(counted.statistic) else f"TV {counted.distance:.3f}"
            )
            messages.append(f"{counted.name}: {deviation}, in {counted.n} draws")
    return messages
