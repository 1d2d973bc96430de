"""What the measured controller knows of costs: per batch size, in plain steps of that batch size.

A *pass* is one lockstep round of all the sessions that share a verifier call; alone, one round of one session. Its
rows are padded to the longest block in it, so its cost is learned by that length. A *plain step* is a pass of empty
blocks. Batch sizes within a quarter of each other share what they learn; a new one starts from its neighbours.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from draftverify.stats.task_costs import FIRST_GAP, SHARED, WARM_UP

STEADY = 1.5
"""The factor beyond which a plain step is far off."""
GUESS_VERIFY, GUESS_DRAFT = (1.1, 1.5), (0.02, 0.16)
"""Cost of blocks of 1 and of 8, in plain steps, where nothing is known."""
REFRESH = 32
"""Drafted passes in a row after which a plain one is taken."""


class Line:
    """Cost of a non-empty block by its size: a decayed least-squares line, and each size's own mean beside it.

    Args:
        guess: cost of blocks of 1 and of 8: pseudo-observations that keep the slope defined while one size was seen.
        weight: for how many observations each of the two counts.
    """

    known: Any = None
    """The cost of blocks of 0, 1, 2, … as it was timed before, which then stands in the line's place."""

    def __init__(self, guess: tuple[float, float], weight: float) -> None:
        y_1, y_8 = guess
        self.guess = (weight * 2, weight * 9, weight * 65, weight * (y_1 + y_8), weight * (y_1 + 8 * y_8))
        self.w = self.n = self.nn = self.y = self.ny = 0.0
        self.means: dict[int, float] = {}
        self.counts: dict[int, int] = {}
        self.solve()

    def add(self, n: int, y: float) -> None:
        """Learn one cost; `solve` makes it count."""
        count = self.counts[n] = self.counts.get(n, 0) + 1
        mean = self.means.get(n, y)
        self.means[n] = mean + (y - mean) * (1.0 / count if count < 10 else 0.1)
        self.w = 0.98 * self.w + 1.0
        self.n = 0.98 * self.n + n
        self.nn = 0.98 * self.nn + n * n
        self.y = 0.98 * self.y + y
        self.ny = 0.98 * self.ny + n * y

    def solve(self) -> None:
        """Fit the line, never falling, to what was learned so far."""
        w, n, nn, y, ny = self.guess
        w, n, nn, y, ny = w + self.w, n + self.n, nn + self.nn, y + self.y, ny + self.ny
        self.slope = max(0.0, (w * ny - n * y) / (w * nn - n * n))
        self.intercept = (y - self.slope * n) / w

    def at(self, n: int) -> float:
        """The line's value, drawn towards the size's own mean the more often that size was seen."""
        known = self.known
        if known is None:
            value = max(1e-9, self.intercept + self.slope * n)
        else:
            value = float(known[min(n, len(known) - 1)])
        count = self.counts.get(n)
        return value if count is None else value + count / (count + 4.0) * (self.means[n] - value)


class BatchCosts:
    """Costs at one batch size and those that share with it.

    Attributes:
        batch: how many sessions share a pass.
        plain: the last nine plain steps, in the objective's currency (seconds, or what the parts say that they cost).
        unit: their median, or that of the last three if far below; without plain steps the cost of the first block.
        verify, draft: cost of a block by its size, in plain steps.
        look: what drafting costs a pass in which nobody finds anything; `opening` what a first draft costs more.
        passes: how many.
        since: drafted passes since a plain step was timed; `odd` plain steps in a row that were far off, amid drafts.
        idle, gap: plain steps since a block was last asked for, and how many to wait before the next probe (in batches;
            alone a session has its own).
        once: (batch size, block size) pairs that were seen, so that what only the first costs is not learned; `tried`
            their block sizes.
        vector, speeds: caches, emptied by `solve`: cost of blocks of 1, 2, …; their expected gains by acceptance.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.plain: deque[float] = deque(maxlen=9)
        self.unit = self.look = self.opening = 0.0
        self.verify, self.draft = Line(GUESS_VERIFY, 0.25), Line(GUESS_DRAFT, 0.05)
        self.passes = self.since = self.idle = 0
        self.gap = FIRST_GAP
        self.odd = 0
        self.once: set[tuple[int, int]] = set()
        self.tried: set[int] = set()
        self.vector: Any = None
        self.speeds: dict[tuple[int, bool], Any] = {}

    @property
    def warm(self) -> bool:
        """Whether enough plain steps were timed."""
        return len(self.plain) >= WARM_UP

    @property
    def known(self) -> int:
        """The longest block whose cost is known from the beginning; 0 where none is."""
        return 0 if self.verify.known is None else len(self.verify.known) - 1

    def know(self, seconds: Mapping[int, float], at_most: int) -> None:
        """Begin with what passes were found to take, by block size; 0 is a plain step."""
        sizes = sorted(seconds)
        self.unit = seconds[0]
        self.plain.extend([self.unit] * WARM_UP)
        costs = [seconds[size] / self.unit for size in sizes]
        self.verify.known = np.interp(range(min(at_most, sizes[-1]) + 1), sizes, costs)

    def step(self, cost: float) -> None:
        """Learn the cost of a plain step.

        One taken amid drafts stands alone, and of a machine that has changed its speed meanwhile the median would
        know only after five of them. So one that is far off asks for another (`since` is left as it is), and three on
        the same side replace what was known.
        """
        odd = self.since > 0 and not STEADY * cost > self.unit > cost / STEADY
        self.plain.append(cost)
        if not odd:
            self.odd, self.since = 0, 0
        else:
            side = 1 if cost > self.unit else -1
            self.odd = self.odd + side if self.odd * side >= 0 else side
            if abs(self.odd) == 3:
                for _ in range(len(self.plain) - 3):
                    self.plain.popleft()
                self.odd, self.since = 0, 0
        steps = list(self.plain)
        self.unit = sorted(steps)[(len(steps) - 1) // 2]
        recent = sorted(steps[-3:])[len(steps[-3:]) // 2]
        if len(steps) > 3 and STEADY * recent < self.unit:
            self.unit = recent  # it has become faster: to go on with the old median would flatter every block

    def solve(self) -> None:
        """Make what was learned count."""
        self.verify.solve()
        self.draft.solve()
        self.vector = None
        self.speeds.clear()


class CostTable:
    """The costs at every batch size that was met."""

    def __init__(self) -> None:
        self.at: dict[int, BatchCosts] = {}
        self._home: dict[int, BatchCosts] = {}

    def of(self, batch: int) -> BatchCosts:
        """The costs that count for a batch size; of a new one its neighbours' until it has its own."""
        costs = self._home.get(batch)
        if costs is None:
            near = [size for size in self.at if max(size, batch) <= SHARED * min(size, batch)]
            nearest = min(near, key=lambda size: abs(math.log(size / batch)), default=None)
            costs = self._home[batch] = self._new(batch) if nearest is None else self.at[nearest]
        return costs

    def _new(self, batch: int) -> BatchCosts:
        costs = BatchCosts(batch)
        timed = [size for size, timed_costs in self.at.items() if timed_costs.verify.counts]
        smaller = self.at.get(max((size for size in timed if size < batch), default=0))
        larger = self.at.get(min((size for size in timed if size > batch), default=0))
        near, far = smaller or larger, larger or smaller
        if near is not None and far is not None:
            share = 0.0 if near is far else math.log(batch / near.batch) / math.log(far.batch / near.batch)

            def between(a: float, b: float) -> float:
                return a + share * (b - a)

            def guess(a: Line, b: Line) -> tuple[float, float]:
                return between(a.at(1), b.at(1)), between(a.at(8), b.at(8))

            costs.verify = Line(guess(near.verify, far.verify), 0.5)
            costs.draft = Line(guess(near.draft, far.draft), 0.5)
            costs.look, costs.opening = between(near.look, far.look), between(near.opening, far.opening)
        self.at[batch] = costs
        return costs

    def unit(self, batch: int) -> float:
        """What a plain step costs at exactly this batch size; 0 when none was timed near it.

        Beside a timed size it is a power law with the exponent between the two nearest timed sizes, at least 0 (a pass
        costs the same however many rows it has) and at most 1 (each row costs the same); ½ while only one is known.
        """
        costs = self.of(batch)
        if costs.batch == batch or not costs.unit:
            return costs.unit
        timed = [size for size, entry in self.at.items() if entry.warm and entry.unit and size != costs.batch]
        exponent = 0.5
        scale = batch / costs.batch
        if timed:
            nearest = self.at[min(timed, key=lambda size: abs(math.log(size / batch)))]
            exponent = math.log(nearest.unit / costs.unit) / math.log(nearest.batch / costs.batch)
        return costs.unit * math.pow(scale, min(max(exponent, 0.0), 1.0))

    def timed(self, costs: BatchCosts) -> int:
        """The longest block that was timed at this batch size or, where it can only be dearer, at a larger one."""
        return costs.known or max(
            (n for shared in self.at.values() if shared.batch >= costs.batch for n in shared.verify.counts),
            default=0,
        )

    def measured(self) -> list[BatchCosts]:
        """Batch sizes at which plain steps and blocks were timed, smallest first."""
        return [costs for _, costs in sorted(self.at.items()) if costs.warm and costs.verify.counts]


def pays_until(gains: Mapping[int, float], enough: float) -> int | None:
    """The largest batch size at which drafting pays; log gain is taken for linear in log batch between measured ones.

    Args:
        gains: expected speed over plain steps by measured batch size.
        enough: the gain from which it pays.

    Returns:
        0 when it does not pay even at a measured batch size of 1; None, unknown, when it pays at the largest measured
        size, or at none and the smallest is above 1.
    """
    paying = max((batch for batch, gain in gains.items() if gain >= enough), default=0)
    if not paying:
        return 0 if 1 in gains else None
    beyond = min((batch for batch in gains if batch > paying), default=0)
    if not beyond:
        return None
    share = math.log(gains[paying] / enough) / math.log(gains[paying] / gains[beyond])
    return min(beyond - 1, int(paying * (beyond / paying) ** share))
