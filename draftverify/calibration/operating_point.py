"""How many items to draft: one optimiser for chains and alternatives, over what was recorded.

It maximises E[progress(n)] / (t_draft(n) + t_verify(n) + rest), and an empty block is a candidate, so the answer may be
"do not draft". Progress is read from the records: for a chain the Kaplan–Meier curve of the accepted length (a block
that was accepted whole is censored there), for alternatives the chance that at least one of n passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.calibration.acceptance import drafted_rounds, pass_at_k
from draftverify.calibration.costs import CostModel, Timings
from draftverify.calibration.intervals import log_jackknife
from draftverify.errors import ConfigError
from draftverify.values import Round, TaskRecord

__all__ = ["OperatingPoint", "geometric_progress", "operating_point"]


class OperatingPoint(msgspec.Struct, frozen=True):
    """The block size that measurement chose.

    Args:
        n: items to draft; 0 says: do not draft.
        gain: speed at `n` over speed at `baseline`, as estimated from the records.
        low, high: its 95 % interval over tasks.
        baseline: the block size compared with: 0 (plain) where an empty block makes progress and was timed.
        why: the choice in words.
        curve: (n, gain) for every size that could be judged.
    """

    n: int
    gain: float
    low: float
    high: float
    baseline: int
    why: str
    curve: tuple[tuple[int, float], ...] = ()


def geometric_progress(first: float, later: float, n: int, *, alternatives: bool = False) -> list[float]:
    """Expected progress of blocks of 1 … n when all items but the first fare alike.

    Chain: expected accepted items, Σ_{k=1}^n a·b^{k−1}; with a = b = α and one spliced item that is Leviathan's
    (1 − α^{n+1}) / (1 − α). Alternatives: the chance of at least one, 1 − (1 − a)(1 − b)^{n−1}.

    Args:
        first: a, the acceptance of the first item.
        later: b, that of an item whose predecessors were accepted (alternatives: were all refused).

    References:
        Leviathan et al., 2211.17192.
    """
    progress = []
    total, reach = 0.0, first
    for _ in range(n):
        total += reach
        progress.append(total)
        reach = (1.0 - total) * later if alternatives else reach * later
    return progress


def operating_point(records: Iterable[TaskRecord], *, plain: Sequence[TaskRecord] = ()) -> OperatingPoint:
    """Choose the block size from recorded rounds.

    Only sizes that were asked for and timed, or lie between such, are candidates: nothing is extrapolated.

    Args:
        records: of the pipeline that drafts.
        plain: of plain decoding with the same verifier, for the cost of an empty block.

    Raises:
        ConfigError: when the records hold no drafted round, or none that was timed.
    """
    drafted = list(records)
    timings = Timings([*drafted, *plain])
    progress: _Chains | _Alternatives
    if any(is_alternatives(entry) for record in drafted for entry in record.rounds):
        progress = _Alternatives(drafted, timings.tasks)
    else:
        progress = _Chains([*drafted, *plain], timings.tasks)
    costs = timings.fit()
    timed, drawn = costs.verify.sizes, [size for size in costs.draft.sizes if size]
    candidates = [0] if timed[0] == 0 and progress.plain_moves else []
    if drawn:
        candidates += range(drawn[0], min(progress.largest, drawn[-1], timed[-1]) + 1)
    if not any(candidates):
        raise ConfigError(
            "no drafted block was recorded and timed: run the pipeline with some block size above 0 first"
        )

    def speeds(use: Any, sizes: Sequence[int]) -> list[float]:
        return progress.speeds(use, timings.fit(use), sizes)

    everyone = np.ones(len(timings.tasks), dtype=bool)
    found = speeds(everyone, candidates)
    moving = next((place for place, speed in enumerate(found) if speed > 0.0), None)
    if moving is None:
        raise ConfigError(
            "no recorded block made progress, so no size is better than another: mend the parts first"
        )
    candidates, found = candidates[moving:], found[moving:]
    gains = [speed / found[0] for speed in found]
    best = max(range(len(found)), key=found.__getitem__)
    n, baseline = candidates[best], candidates[0]

    def gain_of(size: int) -> tuple[float, float, float]:
        def statistic(use: Any) -> float:
            base, speed = speeds(use, [baseline, size])
            return speed / base if base > 0 else math.nan

        return log_jackknife(len(timings.tasks), statistic)

    against = "plain decoding" if baseline == 0 else f"blocks of {baseline}"
    if n == baseline:
        value, low, high = 1.0, 1.0, 1.0
        rival = max(range(1, len(found)), key=found.__getitem__, default=None)
        why = f"only blocks of {n} could be judged"
        if rival is not None:
            v, lo, hi = gain_of(candidates[rival])
            why = f"the best other block, {candidates[rival]}, would run at {v:.2f} ({lo:.2f} to {hi:.2f}) of {against}"
        if n == 0:
            why = f"do not draft: {why}"
    else:
        value, low, high = gain_of(n)
        why = f"blocks of {n} run at {value:.2f} ({low:.2f} to {high:.2f}) of {against}"
        if low < 1.0:
            why += "; the interval includes no gain"
    if baseline and not isinstance(progress, _Alternatives):
        why += "; no empty block was timed, so plain decoding is not among the candidates"
    return OperatingPoint(n, value, low, high, baseline, why, tuple(zip(candidates, gains, strict=True)))


def is_alternatives(entry: Round) -> bool:
    """Whether the block's items were alternatives (of one item nobody can tell)."""
    parents = entry.parents
    return len(parents) > 1 and parents[1] == -1 and all(parent == -1 for parent in parents)


class _Chains:
    """Per task and position k: how many blocks could have had a k-th accepted item, and what stopped them there.

    Two things end a block: a refusal, or a generator that gave fewer items than asked. A block accepted as far as it
    was asked for, or cut, is censored there.
    """

    def __init__(self, records: Sequence[TaskRecord], tasks: dict[str, int]) -> None:
        rounds = [
            (tasks.setdefault(record.task, len(tasks)), entry)
            for record in records
            for entry in drafted_rounds(record)
            if entry.timing.passes
        ]
        self.largest = max((entry.asked for _, entry in rounds if entry.items), default=0)
        shape = (len(tasks), self.largest + 2)
        self.at_risk, self.refused, self.short, self.asked_for, self.ended = np.zeros((5, *shape))
        self.spliced = np.zeros((len(tasks), 3, 2))
        for task, entry in rounds:
            asked, got, kept = min(entry.asked, self.largest), len(entry.items), len(entry.decision.kept)
            stopped = kept < got and entry.tally.trials > entry.tally.accepted
            kind = 2 if not got else 0 if stopped else 1
            own = len(entry.decision.spliced) + len(entry.decision.corrected)
            self.spliced[task, kind] += own, 1
            self.asked_for[task, 1 : min(got + 1, asked) + 1] += 1
            self.ended[task, got + 1] += got < asked
            self.at_risk[task, 1 : kept + 1] += 1
            self.at_risk[task, kept + 1] += stopped or kept == got < asked
            self.refused[task, kept + 1] += stopped
            self.short[task, kept + 1] += kept == got < asked
        totals = self.spliced.sum(axis=0)
        self.plain_moves = bool(totals[2, 0] if totals[2, 1] else totals[1, 0])

    def speeds(self, use: Any, costs: CostModel, sizes: Sequence[int]) -> list[float]:
        """Expected items per second at each size."""
        risk = np.maximum(self.at_risk[use].sum(axis=0), 1.0)
        refused, short = self.refused[use].sum(axis=0) / risk, self.short[use].sum(axis=0) / risk
        reach = np.cumprod(1.0 - refused - short)
        refusals = np.cumsum(np.concatenate(([0.0], reach[:-1])) * refused)
        ended = self.ended[use].sum(axis=0) / np.maximum(self.asked_for[use].sum(axis=0), 1.0)
        drawn = np.cumprod(1.0 - ended)
        sums, counts = self.spliced[use].sum(axis=0).T
        splice = sums / np.maximum(counts, 1.0)
        plain = splice[2] if counts[2] else splice[1]
        verify = np.interp(range(self.largest + 1), costs.verify.sizes, costs.verify.seconds)
        draft = np.interp(range(self.largest + 1), costs.draft.sizes or (0,), costs.draft.seconds or (0.0,))
        found = []
        for n in sizes:
            if n == 0:
                found.append(float(plain / (verify[0] + costs.rest)))
                continue
            came = drawn[: n + 1].copy()
            came[:n] -= drawn[1 : n + 1]
            seconds = float((came * (draft + verify)[: n + 1]).sum()) + costs.rest
            progress = reach[1 : n + 1].sum() + splice[0] * refusals[n] + splice[1] * (1.0 - refusals[n])
            found.append(float(progress / seconds))
        return found


class _Alternatives:
    """The chance that at least one of n alternatives passes, per task.

    Where every item was checked that is pass@n, which uses every order of the samples; where blocks stopped at the
    first passed item it is the Kaplan–Meier curve over positions, in which the rest of a block is censored.
    """

    plain_moves = False

    def __init__(self, records: Sequence[TaskRecord], tasks: dict[str, int]) -> None:
        rounds = [
            (tasks[record.task], entry)
            for record in records
            for entry in drafted_rounds(record)
            if entry.items
        ]
        judged = [(task, entry.tally.trials, entry.tally.accepted, entry) for task, entry in rounds]
        self.early = any(entry.tally.unchecked and entry.tally.accepted for _, _, _, entry in judged)
        width = max((trials for _, trials, _, _ in judged), default=0)
        self.tried, self.found = np.zeros((2, len(tasks), width + 1))
        for task, trials, accepted, entry in judged:
            if self.early:
                at = first_accepted(entry) if accepted else trials
                self.tried[task, 1 : at + 1] += 1
                self.found[task, at] += accepted > 0
            else:
                for k in range(1, trials + 1):
                    self.tried[task, k] += 1
                    self.found[task, k] += pass_at_k(trials, accepted, k)
        enough = min(2, len(tasks))
        self.largest = max(
            (k for k in range(1, width + 1) if (self.tried[:, k] > 0).sum() >= enough), default=0
        )

    def speeds(self, use: Any, costs: CostModel, sizes: Sequence[int]) -> list[float]:
        """Expected successes per second at each size."""
        tried, found = self.tried[use], self.found[use]
        if self.early:
            hazard = found.sum(axis=0) / np.maximum(tried.sum(axis=0), 1.0)
            chance = 1.0 - np.cumprod(1.0 - hazard)
        else:
            share = found / np.maximum(tried, 1.0)
            chance = share.sum(axis=0) / np.maximum((tried > 0).sum(axis=0), 1)
        draft = np.interp(sizes, costs.draft.sizes or (0,), costs.draft.seconds or (0.0,))
        verify = np.interp(sizes, costs.verify.sizes, costs.verify.seconds)
        return [float(chance[n] / (d + v + costs.rest)) for n, d, v in zip(sizes, draft, verify, strict=True)]


def first_accepted(entry: Round) -> int:
    """The place of the first accepted item among those that were judged, from 1."""
    if not entry.checks:
        chosen = min(entry.decision.kept + entry.decision.held)
        return 1 + sum(refusal.index < chosen for refusal in entry.decision.refused)
    refused = {refusal.index for refusal in entry.decision.refused}
    judged = [i for i, check in enumerate(entry.checks) if check.verdict in ("pass", "reject")]
    return 1 + next(
        place for place, i in enumerate(judged) if entry.checks[i].verdict == "pass" and i not in refused
    )
