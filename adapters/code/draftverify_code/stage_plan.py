"""Which stages of a verifier pay, and in what order: filters before a trusted stage, from one table of a calibration.

The table has what every stage said of every item, and what each stage's passes cost. The aim is the least expected cost
of an accepted item. What a stage costs at its place depends on which stages stand before it, not on their order, so the
best of all ordered subsets is found over subsets (Held and Karp), exactly; for independent filters it is the ascending
order of cost / (1 − pass rate).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from draftverify import ConfigError
from draftverify.calibration import Estimate, Kept, read_artifact, write_artifact
from draftverify_code.stage_costs import predict_cost

__all__ = ["MOST_FILTERS", "StagePlan", "StageRow", "StageTable", "load_plan", "plan_stages", "save_plan"]

FOLDS = 10
"""Parts of the calibration that are held out, one after the other, for what a plan costs."""
MOST_FILTERS = 12
"""Stages that may be tried in every order: 2 to this power subsets are looked at."""


class StageTable(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a calibration found: every stage on every item, unconditionally. N items, S stages.

    Args:
        names: [S], each once.
        tasks: [N] integers, the task of each item; a task's items stand together.
        blocks: [N] integers, the pass in which each was checked; a block's items stand together and are of one task.
        passes: [N, S] booleans, whether the item goes on after that stage. After the last: whether it is accepted.
        fixed: [S], seconds of a pass whatever its size.
        each: [N, S], seconds that an item adds to a pass ([S] where all items of a stage cost the same).
        trusted: how many of the last stages are the ones that count; they are never dropped or moved.
        at_once: how many items the last stage looks at beside each other: it stops early after whole groups of these.
    """

    names: tuple[str, ...]
    tasks: Any
    blocks: Any
    passes: Any
    fixed: Any
    each: Any
    trusted: int = 1
    at_once: int = 1


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stage in the plan's table.

    Args:
        stage: its name.
        place: "kept", "dropped" or "trusted".
        fixed, each: seconds of a pass, and of an item that reaches it.
        alone: the share of all items that it passes.
        marginal: the share that it passes of those that reach it; of a dropped stage: that would reach it if it stood
            after all filters that were kept.
        lost: the share it refuses of the items that the trusted stages accept.
        ratio: cost / (1 − marginal), seconds per refused item, fixed costs shared out; None where it refuses nothing.
        why: in words.
    """

    stage: str
    place: Literal["kept", "dropped", "trusted"]
    fixed: float
    each: float
    alone: float
    marginal: float
    lost: float
    ratio: float | None
    why: str


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The order of the stages, what was dropped, and why.

    Args:
        order: the stages that run.
        dropped: those that do not.
        rows: the table, in the order of both.
        seconds, accepted: for each calibration task what the plan would have cost and accepted.
        unseen: the same two of plans made without the task (and others, a tenth at a time): a plan looks better than it
            is on what it was chosen by.
        items: how many were calibrated on.
        enough: the early stop of the last stage that the plan was made for.
    """

    order: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: tuple[StageRow, ...]
    seconds: tuple[float, ...]
    accepted: tuple[float, ...]
    unseen: tuple[tuple[float, ...], tuple[float, ...]]
    items: int
    enough: int | None = None

    @property
    def cost(self) -> float:
        """Seconds per accepted item of the calibration; infinite when none was."""
        return sum(self.seconds) / sum(self.accepted) if sum(self.accepted) else math.inf

    def predict(self, new_tasks: int) -> Estimate:
        """The cost of an accepted item over so many new tasks; see `predict_cost`."""
        return predict_cost(*self.unseen, new_tasks)

    def __str__(self) -> str:
        columns = "stage,,ms a pass,ms an item,passes,of those left,good lost,ms a refusal,why"
        head = tuple(columns.split(","))
        rows = [head] + [
            (
                row.stage,
                row.place,
                f"{1e3 * row.fixed:.2f}",
                f"{1e3 * row.each:.3f}",
                f"{row.alone:.3f}",
                f"{row.marginal:.3f}",
                f"{row.lost:.3f}",
                "-" if row.ratio is None else f"{1e3 * row.ratio:.2f}",
                row.why,
            )
            for row in self.rows
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if column in (0, 1, 8) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        tasks = len(self.seconds)
        said = f"{1e3 * self.cost:.2f} ms per accepted item" if any(self.accepted) else "nothing was accepted"
        lines.append(f"{said}, from {self.items} items of {tasks} task{'s' * (tasks > 1)}")
        if tasks > 1 and any(self.unseen[1]):
            lines[-1] += (
                f"; {1e3 * sum(self.unseen[0]) / sum(self.unseen[1]):.2f} ms on tasks that a plan had not seen"
            )
        return "\n".join(lines)


def plan_stages(
    table: StageTable, *, block: int | None = None, enough: int | None = None, draft: float = 0.0
) -> StagePlan:
    """Choose which stages to run, and in which order, for the least expected cost of an accepted item.

    The cost is that of every pass a stage makes over what is still alive in a block, and of drafting. An item that a
    filter refuses and the trusted stages would have accepted is not accepted: its cost is borne by the others. Of plans
    that cost the same the one with the fewest stages is taken. Where nothing was accepted there is nothing to choose
    by, and all stages are kept as they stand.

    Args:
        table: the calibration.
        block: the size of the blocks to plan for; those of the calibration when None.
        enough: after how many accepted items of a block the last stage stops, lowest index first; None for never.
        draft: seconds that it takes to draft one item.

    Raises:
        ConfigError: the table's shapes do not fit each other, or more than twelve stages are not trusted.
    """
    return _Planner(table, block, enough, draft).plan()


class _Planner:
    """The table with its blocks, and what stages cost on what earlier ones left."""

    def __init__(self, table: StageTable, block: int | None, enough: int | None, draft: float) -> None:
        self.table, self.enough, self.draft = table, enough, draft
        self.passes = np.asarray(table.passes, dtype=bool)
        N, S = self.passes.shape if self.passes.ndim == 2 else (0, 0)
        tasks, blocks = np.asarray(table.tasks), np.asarray(table.blocks)
        if (
            not N
            or len(table.names) != S
            or len(set(table.names)) != S
            or len(tasks) != N
            or len(blocks) != N
        ):
            raise ConfigError(
                f"a stage table needs items, and for each a task, a block and one entry per stage; there are "
                f"passes of shape {self.passes.shape}, {len(tasks)} tasks, {len(blocks)} blocks and the stages "
                f"{', '.join(table.names)}"
            )
        self.filters = S - table.trusted
        if not 1 <= table.trusted <= S or self.filters > MOST_FILTERS:
            raise ConfigError(
                f"of {S} stages {table.trusted} are trusted; at least one must be, and at most {MOST_FILTERS} may be "
                "left to order"
            )
        if table.at_once < 1:
            raise ConfigError(f"the last stage looks at one item or more at once, not {table.at_once}")
        if block is not None and block < 1:
            raise ConfigError(f"a block has one item or more, not {block}")
        self.fixed = np.broadcast_to(np.asarray(table.fixed, dtype=float), (S,))
        self.each = np.broadcast_to(np.asarray(table.each, dtype=float), (N, S))
        new_task = np.concatenate(([True], tasks[1:] != tasks[:-1]))
        self.task = np.cumsum(new_task) - 1
        if block is None:
            new_block = new_task | np.concatenate(([True], blocks[1:] != blocks[:-1]))
        else:
            place = np.arange(N) - np.flatnonzero(new_task)[self.task]
            new_block = place % block == 0
        self.starts = np.flatnonzero(new_block)
        self.block = np.cumsum(new_block) - 1

    def plan(self) -> StagePlan:
        table, N = self.table, len(self.task)
        found = self._subsets()
        best, stages, order = self._best(found)
        count = int(self.task[-1]) + 1
        seconds, accepted = (self._by_task(each, count) for each in self._spending(order))
        unseen_seconds, unseen_accepted = self._unseen(order, count)
        chosen = [*order, *range(self.filters, len(table.names))]
        rows, alive = [], np.ones(N, dtype=bool)
        for k in chosen:
            rows.append(self._row(k, alive, "trusted" if k >= self.filters else "kept", found, stages, best))
            alive = alive & self.passes[:, k]
        left = self._alive(order)
        dropped = [k for k in range(self.filters) if k not in stages]
        rows += [self._row(k, left, "dropped", found, stages, best) for k in dropped]
        return StagePlan(
            order=tuple(table.names[k] for k in chosen),
            dropped=tuple(table.names[k] for k in dropped),
            rows=tuple(rows),
            seconds=tuple(seconds.tolist()),
            accepted=tuple(accepted.tolist()),
            unseen=(tuple(unseen_seconds.tolist()), tuple(unseen_accepted.tolist())),
            items=N,
            enough=self.enough,
        )

    def _best(
        self, found: dict[frozenset[int], tuple[float, list[int]]]
    ) -> tuple[float, frozenset[int], list[int]]:
        """Of all subsets the one with the least cost of an accepted item: that cost, it, and its order."""
        order = list(range(self.filters))
        best, stages = math.inf, frozenset(order)
        for subset, (spent, its_order) in sorted(found.items(), key=lambda entry: len(entry[0])):
            cost = self._per_accepted(subset, spent)
            if cost < best * (1.0 - 1e-12):
                best, stages, order = cost, subset, its_order
        return best, stages, order

    def _by_task(self, of_block: Any, count: int) -> Any:
        return np.bincount(self.task[self.starts], of_block, count)

    def _unseen(self, order: Sequence[int], count: int) -> tuple[Any, Any]:
        """Seconds and accepted items of each task under the plan that the other folds' tasks lead to."""
        fold = np.arange(count) % FOLDS
        found = np.zeros(count), np.zeros(count)
        for number in range(min(count, FOLDS)):
            own = fold == number
            if not own.all():
                others = self._without(own)
                order = others._best(others._subsets())[2]
            for target, by_block in zip(found, self._spending(order), strict=True):
                target[own] = self._by_task(by_block, count)[own]
        return found

    def _without(self, tasks: Any) -> _Planner:
        """A planner of the other tasks."""
        kept = ~tasks[self.task]
        table = msgspec.structs.replace(
            self.table,
            tasks=self.task[kept],
            blocks=self.block[kept],
            passes=self.passes[kept],
            each=self.each[kept],
        )
        return _Planner(table, None, self.enough, self.draft)

    def _subsets(self) -> dict[frozenset[int], tuple[float, list[int]]]:
        """For every subset of the filters its least cost, in seconds, and the order that has it."""
        found: dict[frozenset[int], tuple[float, list[int]]] = {frozenset(): (0.0, [])}
        layer = dict(found)
        for _ in range(self.filters):
            following: dict[frozenset[int], tuple[float, list[int]]] = {}
            for subset, (spent, order) in layer.items():
                alive = self._alive(order)
                for k in sorted(set(range(self.filters)) - subset):
                    cost = spent + float(self._pass(k, alive).sum())
                    larger = subset | {k}
                    if larger not in following or cost < following[larger][0]:
                        following[larger] = cost, [*order, k]
            found |= following
            layer = following
        return found

    def _alive(self, stages: Iterable[int]) -> Any:
        return self.passes[:, list(stages)].all(axis=1)

    def _pass(self, k: int, looked_at: Any) -> Any:
        """Seconds of stage k's passes over these items: [blocks]."""
        used = np.logical_or.reduceat(looked_at, self.starts)
        return np.add.reduceat(self.each[:, k] * looked_at, self.starts) + self.fixed[k] * used

    def _trusted(self, alive: Any) -> tuple[Any, Any]:
        """Seconds of the trusted stages over what the filters left, and items accepted: [blocks] each."""
        last = len(self.table.names) - 1
        seconds = np.zeros(len(self.starts))
        for k in range(self.filters, last):
            seconds += self._pass(k, alive)
            alive = alive & self.passes[:, k]
        hits = alive & self.passes[:, last]
        if self.enough is not None:
            before = self._before(hits)
            places = np.flatnonzero(alive)
            first = self._before(alive)[places] % self.table.at_once == 0
            starts = np.maximum.accumulate(np.where(first, np.arange(len(places)), 0))
            alive = np.zeros_like(alive)
            alive[places] = before[places[starts]] < self.enough
            hits = hits & (before < self.enough)
        return seconds + self._pass(last, alive), np.add.reduceat(hits.astype(float), self.starts)

    def _before(self, items: Any) -> Any:
        """How many of these stand before each item in its block: [items]."""
        count = np.cumsum(items) - items
        return count - count[self.starts][self.block]

    def _per_accepted(self, subset: Iterable[int], spent: float) -> float:
        seconds, accepted = self._trusted(self._alive(subset))
        total = self.draft * len(self.task) + spent + float(seconds.sum())
        return total / float(accepted.sum()) if accepted.any() else math.inf

    def _spending(self, order: Sequence[int]) -> tuple[Any, Any]:
        """Seconds and accepted items of each block, filters in this order: [blocks] each."""
        alive = np.ones(len(self.task), dtype=bool)
        seconds = self.draft * np.bincount(self.block).astype(float)
        for k in order:
            seconds += self._pass(k, alive)
            alive = alive & self.passes[:, k]
        last, accepted = self._trusted(alive)
        return seconds + last, accepted

    def _row(
        self,
        k: int,
        reached: Any,
        place: Literal["kept", "dropped", "trusted"],
        found: dict[frozenset[int], tuple[float, list[int]]],
        stages: frozenset[int],
        best: float,
    ) -> StageRow:
        passes = self.passes[:, k]
        good = self._alive(range(self.filters, len(self.table.names)))
        marginal = float(passes[reached].mean()) if reached.any() else 1.0
        lost = float(1.0 - passes[good].mean()) if good.any() else 0.0
        refused = int((reached & ~passes).sum())
        why = "it is what counts" if place == "trusted" else self._why(k, stages, found, best)
        if place == "dropped" and not refused:
            why = f"it refuses nothing that the others leave; {why}"
        return StageRow(
            stage=self.table.names[k],
            place=place,
            fixed=float(self.fixed[k]),
            each=float(self.each[reached, k].mean()) if reached.any() else 0.0,
            alone=float(passes.mean()),
            marginal=marginal,
            lost=0.0 if place == "trusted" else lost,
            ratio=float(self._pass(k, reached).sum()) / refused if refused else None,
            why=why,
        )

    def _why(
        self,
        k: int,
        stages: frozenset[int],
        found: dict[frozenset[int], tuple[float, list[int]]],
        best: float,
    ) -> str:
        """What the plan would cost with this filter the other way."""
        if math.isinf(best):
            return "nothing was accepted, so there is nothing to choose by"
        other = stages ^ {k}
        cost = self._per_accepted(other, found[other][0])
        if math.isinf(cost):
            return "with it nothing would be accepted"
        change = f"{100.0 * (cost / best - 1.0):.1f} % more" if best else f"{cost:.3g} s more"
        return f"{'without' if k in stages else 'with'} it an accepted item would cost {change}"


class _Prediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    new_tasks: int
    value: float
    low: float
    high: float | None  # JSON knows no infinity
    trials: int
    clusters: int


class _Written(Kept, frozen=True, kw_only=True, tag="draftverify.stage_plan"):
    what = "plan of stages"
    made_by = "save_plan"

    plan: StagePlan
    predicted: _Prediction


def save_plan(path: str | os.PathLike[str], plan: StagePlan, *, new_tasks: int) -> Estimate:
    """Write a plan down, with what it predicts for so many new tasks; the file is complete or not there.

    Returns:
        The prediction.
    """
    found = plan.predict(new_tasks)
    high = found.high if math.isfinite(found.high) else None
    written = _Prediction(new_tasks, found.value, found.low, high, found.trials, found.clusters)
    write_artifact(path, _Written(plan=plan, predicted=written))
    return found


def load_plan(path: str | os.PathLike[str]) -> tuple[StagePlan, Estimate]:
    """Read back a plan and what it predicted.

    Raises:
        ConfigError: when the file is missing, is not one, or has a version that this release does not know.
    """
    written = read_artifact(path, _Written)
    said = written.predicted
    high = math.inf if said.high is None else said.high
    return written.plan, Estimate(said.value, said.low, high, said.trials, said.clusters)
