"""Runs and pipelines compared task by task: which differ, by how much, and how sure that is after looking often.

A side is one pipeline of one run. Two sides are compared on the tasks that both have with the same input; what is
compared is each outcome that both can show: what the metrics say, whether a task was accepted, scores, and what it
cost. The tests are those of `stats`, and the p-values of one call are corrected together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from draftverify import stats
from draftverify.bench.records.about import FREE
from draftverify.bench.records.directory import RunRecords, differences
from draftverify.errors import ConfigError, StoreError, check_known
from draftverify.stats import PairedTest

ALPHA = 0.05
"""The chance that a table of comparisons between sides that do not differ says of any that they do."""

Kind: TypeAlias = Literal["share", "number", "ratio", "total"]
Said: TypeAlias = Literal["higher", "lower", "better", "worse", "no difference seen", "no test"]


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline of one run.

    Args:
        label: a letter, for tables.
        run: the run directory.
        pipeline: its name.
        tasks: how many the run measures.
        ended: how many of those the pipeline has a record of.
        failed: how many of these failed; a failed task is one that was not accepted.
        waiting: how many wait for a person; such a task is one that was not accepted, as long as it waits.
        differs: how its run's config differs from that of the side it is compared with, in words.
        changes: of a sweep's cell, what it sets.
    """

    label: str
    run: str
    pipeline: str
    tasks: int
    ended: int
    failed: int
    waiting: int
    differs: tuple[str, ...] = ()
    changes: dict[str, Any] = {}


class Flip(msgspec.Struct, frozen=True):
    """A task on which the sides disagree, and what each has."""

    task: str
    base: float
    other: float


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks of two sides stand beside each other.

    Args:
        base, other: labels.
        pairs: tasks of both, with the same input, that have ended or wait in both.
        only_base, only_other: tasks that only one run has.
        changed: tasks of one id whose input is another; they are no pair.
        unfinished: tasks of both that one side or both have no record of yet.
        refused: outcomes that are not compared, and why.
    """

    base: str
    other: str
    pairs: int
    only_base: tuple[str, ...]
    only_other: tuple[str, ...]
    changed: tuple[str, ...]
    unfinished: tuple[str, ...]
    refused: tuple[str, ...] = ()


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of two sides, compared.

    Args:
        outcome: what is compared.
        kind: "share" of tasks (McNemar), "number" (mean difference), "ratio" (geometric mean of ratios) or "total"
            (ratio of what a solved task costs).
        unit: of the figures; "" of a share or a score.
        base, other: labels of the sides.
        test: the figures; its p is of this comparison alone.
        corrected: p, corrected for all comparisons of the table; None where there is no test.
        said: in words. "better" and "worse" of what has a direction: solved tasks and costs.
        flips: the tasks on which the sides disagree, those that got worse first.
        if_people_solve: what `base` and `other` would be of a share if people solved every task that waits for them;
            None where none waits. Nothing is tested by it.
    """

    outcome: str
    kind: Kind
    unit: str
    base: str
    other: str
    test: PairedTest
    corrected: float | None = None
    said: Said = "no test"
    flips: tuple[Flip, ...] = ()
    if_people_solve: tuple[float, float] | None = None


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All comparisons of one call, and which sides they are of.

    Args:
        sides: in order; each pairing and cell names them by label.
        pairings: which tasks stood beside each other.
        cells: by outcome, then by side.
        counted: how many of them had a test, which is for how many p is corrected.
        alone: pipelines without a counterpart in the first run ("RUN:PIPELINE").
    """

    sides: tuple[ComparedSide, ...]
    pairings: tuple[Pairing, ...]
    cells: tuple[Cell, ...]
    counted: int
    alone: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """Whether a side solves less, or costs more, than chance would have it."""
        return any(cell.said == "worse" for cell in self.cells)

    def plain(self) -> dict[str, Any]:
        """The comparison as plain JSON data; numbers that are not finite are null."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return data


def parse_side(text: str) -> tuple[Path, str | None]:
    """A run directory, or RUN:PIPELINE. A directory whose own name has a colon is one.

    Raises:
        StoreError: there is no such directory.
    """
    places = [place for place, char in enumerate(text) if char == ":"]
    for path, pipeline in [(text, None), *((text[:place], text[place + 1 :]) for place in reversed(places))]:
        if path and Path(path).is_dir():
            return Path(path), pipeline
    raise StoreError(
        f"there is no run directory {text!r}; write RUN or RUN:PIPELINE (draftverify show lists them)"
    )


def compare(runs: Sequence[tuple[RunRecords, str | None]], *, only: Iterable[str] = ()) -> RunComparison:
    """Compare pipelines, paired by task.

    The first one given is what the others are compared with. A run without a pipeline stands for all of its pipelines:
    each is compared with the one of its name in the first run (with the only one of the first, where that is one);
    those of a single run with their baseline, or with the first pipeline.

    Args:
        runs: each with the name of a pipeline or None for all.
        only: the outcomes to compare; all when empty.

    Raises:
        ConfigError: a run has no such pipeline, no outcome has such a name, or there is nothing to compare.
    """
    sources: dict[Path, _Source] = {}
    requested = [(sources.setdefault(run.path.resolve(), _Source(run)), name) for run, name in runs]
    couples, unmatched = _couples(requested)
    keys = list(dict.fromkeys(key for couple in couples for key in couple))
    labels = {key: _label(place) for place, key in enumerate(keys)}
    for source in sources.values():
        source.read({name for owner, name in keys if owner is source})
    chosen = set(only)
    cells: dict[str, list[tuple[_Outcome, Cell]]] = {}
    pairings = []
    for couple in couples:
        pairing, tasks = _pairing(*couple, labels)
        for outcome in _outcomes(*couple):
            tested = cells.setdefault(outcome.name, [])
            if chosen and outcome.name not in chosen:
                continue
            if outcome.refused:
                pairing = replace(pairing, refused=(*pairing.refused, outcome.refused))
            elif (cell := outcome.tested(couple, tasks, labels)) is not None:
                tested.append((outcome, cell))
        pairings.append(pairing)
    for name in sorted(chosen - cells.keys()):
        raise ConfigError(
            f"nothing of the name {name!r} is there to compare; there are {', '.join(sorted(cells))}"
        )
    every = [tested for of_outcome in cells.values() for tested in of_outcome]
    corrected = stats.holm([cell.test.p for _, cell in every])
    against = {other_key: base_key for base_key, other_key in couples}
    return RunComparison(
        sides=tuple(_side(key, labels[key], against.get(key)) for key in keys),
        pairings=tuple(pairings),
        cells=tuple(
            cell if math.isnan(p) else replace(cell, corrected=p, said=_said(cell, p, outcome.better))
            for (outcome, cell), p in zip(every, corrected, strict=True)
        ),
        counted=sum(not math.isnan(p) for p in corrected),
        alone=unmatched,
    )


class _Ended(NamedTuple):
    """What a comparison needs of one task of one pipeline."""

    status: str
    score: float | None
    seconds: float
    cost: float


class _Source:
    """One run, of which the endings of the compared pipelines are held, and no values, drafts or rounds."""

    def __init__(self, run: RunRecords) -> None:
        self.run = run
        self.config = run.config
        self.names = run.names
        self.metrics: dict[str, Any] = dict(self.config.get("metrics") or {})
        self.cells: Mapping[str, Mapping[str, Any]] = self.config.get("cells") or {}
        self.measures = _measures(run)
        self.currency = run.currency
        self.inputs: dict[str, bytes] = {}
        self.ended: dict[str, dict[str, _Ended]] = {}
        self.scores: dict[tuple[str, str, str], float | None] = {}

    def read(self, names: set[str]) -> None:
        for task in self.run.tasks:
            input_text = msgspec.json.encode(dict(task.input), order="deterministic")
            self.inputs[task.id] = hashlib.blake2b(input_text, digest_size=16).digest()
        self.ended = {name: {} for name in names}
        for ending in self.run.store.endings():
            if ending.pipeline in names:
                outcome = ending.outcome
                self.ended[ending.pipeline][ending.task] = _Ended(
                    outcome.status, outcome.score, outcome.seconds, outcome.cost
                )
        self.scores = self.run.store.named_scores()

    def tasks_of(self, pipeline: str) -> Mapping[str, bytes]:
        """The tasks of a pipeline, each with its input's hash; a sweep's cell may have tasks of its own."""
        own_tasks = self.run.store.own_tasks().get(pipeline)
        return (
            self.inputs
            if own_tasks is None
            else {id: digest for id, digest in self.inputs.items() if id in own_tasks}
        )


_Key: TypeAlias = "tuple[_Source, str]"


def _couples(
    requested: Sequence[tuple[_Source, str | None]],
) -> tuple[list[tuple[_Key, _Key]], tuple[str, ...]]:
    """Which side is compared with which, and pipelines that have no counterpart."""
    for source, name in requested:
        if not source.names:
            raise ConfigError(f"{source.run.path}: the run has no pipelines")
        if name is not None:
            check_known("pipeline", name, source.names, holder=f"{source.run.path}: the run has")
    base_source, name = requested[0]
    if len(requested) == 1:
        if name is not None:
            raise ConfigError(
                f"one pipeline alone is compared with nothing; give another: {base_source.run.path}:PIPELINE"
            )
        return _within(base_source), ()
    base = [name] if name is not None else base_source.names
    couples: list[tuple[_Key, _Key]] = []
    unmatched = []
    for source, named in requested[1:]:
        for pipeline in [named] if named is not None else source.names:
            counterpart = base[0] if len(base) == 1 else pipeline if pipeline in base else None
            if counterpart is None:
                unmatched.append(f"{source.run.path}:{pipeline}")
                continue
            couple = ((base_source, counterpart), (source, pipeline))
            if couple[0] != couple[1] and couple not in couples:
                couples.append(couple)
    if not couples:
        raise ConfigError(
            "no two pipelines to compare: the runs share no pipeline's name; say which with RUN:PIPELINE "
            f"({', '.join(unmatched[:4])})"
            if unmatched
            else "no pipeline differs from itself; give another run, or RUN:PIPELINE"
        )
    return couples, tuple(unmatched)


def _within(source: _Source) -> list[tuple[_Key, _Key]]:
    """Each pipeline of one run with its baseline."""
    if len(source.names) < 2:
        raise ConfigError(f"{source.run.path}: the run has one pipeline; give another run to compare it with")
    baselines: Mapping[str, str] = source.config.get("baselines") or {}
    baseline = source.config.get("baseline")
    default = baseline if baseline in source.names else source.names[0]
    couples: list[tuple[_Key, _Key]] = []
    for name in source.names:
        base = str(baselines.get(name, default))
        if base != name and name not in baselines.values():
            couples.append(((source, base), (source, name)))
    return couples


def _pairing(base_key: _Key, other_key: _Key, labels: Mapping[_Key, str]) -> tuple[Pairing, list[str]]:
    (a, pipeline_a), (b, pipeline_b) = base_key, other_key
    base_inputs, other_inputs = a.tasks_of(pipeline_a), b.tasks_of(pipeline_b)
    both = [task for task in base_inputs if task in other_inputs]
    same_input = [task for task in both if base_inputs[task] == other_inputs[task]]
    tasks = [task for task in same_input if task in a.ended[pipeline_a] and task in b.ended[pipeline_b]]
    ended = set(tasks)
    pairing = Pairing(
        base=labels[base_key],
        other=labels[other_key],
        pairs=len(tasks),
        only_base=tuple(task for task in base_inputs if task not in other_inputs),
        only_other=tuple(task for task in other_inputs if task not in base_inputs),
        changed=tuple(task for task in both if base_inputs[task] != other_inputs[task]),
        unfinished=tuple(task for task in same_input if task not in ended),
    )
    return pairing, tasks


class _Outcome(NamedTuple):
    """One outcome that can be compared.

    `value` gives it for a side and a task, None where the side has none; `gain` is beside a cost how much was solved.
    `better` says whether more or less of it is better; "" where neither is known to be.
    """

    name: str
    kind: Kind
    unit: str
    value: Callable[[_Key, str], float | None]
    gain: Callable[[_Key, str], float | None] | None = None
    better: Literal["", "more", "less"] = ""
    refused: str = ""

    def tested(
        self, couple: tuple[_Key, _Key], tasks: Sequence[str], labels: Mapping[_Key, str]
    ) -> Cell | None:
        """Test it on the tasks of which both sides have it; None where there is none.

        Where a metric finds some tasks right in part, there is no share of tasks but a number.
        """
        rows: list[tuple[str, float, float]] = []
        gains: tuple[list[float], list[float]] = [], []
        for task in tasks:
            values = [self.value(side, task) for side in couple]
            gained = [1.0 if self.gain is None else self.gain(side, task) for side in couple]
            if values[0] is None or values[1] is None or gained[0] is None or gained[1] is None:
                continue
            rows.append((task, values[0], values[1]))
            gains[0].append(gained[0])
            gains[1].append(gained[1])
        if not rows:
            return None
        base, compared = [row[1] for row in rows], [row[2] for row in rows]
        kind, flips = self.kind, [Flip(*row) for row in rows if row[1] != row[2]]
        flips.sort(key=lambda flip: flip.other - flip.base)
        if kind == "total":
            test, flips = stats.paired_total_ratio(base, gains[0], compared, gains[1]), []
        elif kind == "ratio":
            test, flips = stats.paired_ratio(base, compared), []
        elif kind == "share" and {*base, *compared} <= {0.0, 1.0}:
            test = stats.paired_shares([*map(bool, base)], [*map(bool, compared)])
        else:
            kind, test = "number", stats.paired_difference(base, compared)
        return Cell(
            outcome=self.name,
            kind=kind,
            unit=self.unit,
            base=labels[couple[0]],
            other=labels[couple[1]],
            test=test,
            flips=tuple(flips),
            if_people_solve=self._if_people_solve(couple, [task for task, _, _ in rows]),
        )

    def _if_people_solve(self, couple: tuple[_Key, _Key], tasks: Sequence[str]) -> tuple[float, float] | None:
        """What both sides would have of a share if people solved every task that waits; None where none does."""
        waiting = [{task for task in tasks if _of(side, task).status == "waiting"} for side in couple]
        if self.kind != "share" or not any(waiting):
            return None
        base, compared = (
            sum(1.0 if task in waiting_tasks else self.value(side, task) or 0.0 for task in tasks)
            / len(tasks)
            for side, waiting_tasks in zip(couple, waiting, strict=True)
        )
        return base, compared


def _outcomes(base_key: _Key, other_key: _Key) -> Iterator[_Outcome]:
    """What both sides can show: metrics first, costs last."""
    (a, _), (b, _) = base_key, other_key
    shared = [name for name in a.metrics if name in b.metrics]
    solving = [name for name in shared if name not in a.measures]
    for name in shared:
        unit, mean = a.measures.get(name, ("", ""))
        kind: Kind = "share" if name not in a.measures else "ratio" if mean == "geometric" else "number"
        changed = list(differences(a.metrics[name], b.metrics[name], f"metrics.{name}"))
        refused = (
            f"{name}: it is another metric in the other run ({'; '.join(changed[:2])})" if changed else ""
        )
        better: Literal["", "more"] = "" if name in a.measures else "more"
        yield _Outcome(name, kind, unit, _score(name, kind == "ratio"), better=better, refused=refused)
        if refused and name in solving:
            solving.remove(name)
    yield _Outcome("accepted", "share", "", lambda side, task: float(_of(side, task).status == "accepted"))
    yield _Outcome("score", "number", "", lambda side, task: _of(side, task).score)
    for name, unit, cost in (("seconds", "s", _seconds), ("cost", a.currency, _cost)):
        refused = ""
        if name == "cost" and a.currency != b.currency:
            here, there = (source.currency or "no currency" for source in (a, b))
            refused = f"cost: in {here} in one run, in {there} in the other"
        if solving:
            # What was given up has cost something too: summed over all, shared out over the solved.
            if name == "seconds" or any(
                ending.cost for source, of in (base_key, other_key) for ending in source.ended[of].values()
            ):
                gain = _score(solving[0])
                yield _Outcome(f"{name}/solved", "total", unit, cost, gain, better="less", refused=refused)
        else:
            yield _Outcome(name, "ratio", unit, _finished(cost), better="less", refused=refused)


def _of(side: _Key, task: str) -> _Ended:
    return side[0].ended[side[1]][task]


def _seconds(side: _Key, task: str) -> float:
    return _of(side, task).seconds


def _cost(side: _Key, task: str) -> float:
    return _of(side, task).cost


def _finished(cost: Callable[[_Key, str], float]) -> Callable[[_Key, str], float | None]:
    """The cost of accepted tasks alone: one that gave up has no speed."""
    return lambda side, task: (cost(side, task) or None) if _of(side, task).status == "accepted" else None


def _score(name: str, positive: bool = False) -> Callable[[_Key, str], float | None]:
    def value(side: _Key, task: str) -> float | None:
        score = side[0].scores.get((side[1], task, name))
        return None if score is None or (positive and score <= 0.0) else score

    return value


def _measures(run: RunRecords) -> dict[str, tuple[str, str]]:
    """Unit and mean of those metrics that measure something else than how right an outcome is."""
    measures = {}
    for pipeline in run.summary.get("pipelines", ()):
        for row in pipeline.get("rows", ()):
            for name, measured in (row.get("measures") or {}).items():
                measures[name] = str(measured.get("unit", "")), str(measured.get("mean", ""))
    return measures


def _said(cell: Cell, p: float, better: Literal["", "more", "less"]) -> Said:
    if p >= ALPHA:
        return "no difference seen"
    up = cell.test.effect > (1.0 if cell.kind in ("ratio", "total") else 0.0)
    if better:
        return "better" if up == (better == "more") else "worse"
    return "higher" if up else "lower"


def _side(key: _Key, label: str, base: _Key | None) -> ComparedSide:
    source, pipeline = key
    ended = source.ended[pipeline]
    differs: list[str] = []
    if base is not None and base[0] is not source:
        ignored = (*FREE, "name", "pipelines", "matrix", "cells", "baselines")  # of a cell `changes` tells
        old, new = (
            {k: v for k, v in run_source.config.items() if k not in ignored}
            for run_source in (base[0], source)
        )
        differs = list(differences(old, new))
        was, now = (
            run_source.config.get("pipelines", {}).get(name.partition("@")[0])
            for run_source, name in (base, key)
        )
        differs += differences(was, now, pipeline)
        differs += _versions(base[0].run, source.run)
    return ComparedSide(
        label=label,
        run=str(source.run.path),
        pipeline=pipeline,
        tasks=len(source.tasks_of(pipeline)),
        ended=len(ended),
        failed=sum(ending.status == "failed" for ending in ended.values()),
        waiting=sum(ending.status == "waiting" for ending in ended.values()),
        differs=tuple(differs),
        changes=dict(source.cells.get(pipeline, {})),
    )


def _versions(old: RunRecords, new: RunRecords) -> Iterator[str]:
    """Packages, machine and parts that were others at the last start."""
    was, now = (run.about.starts[-1] for run in (old, new))
    yield from differences(was.versions, now.versions)
    old_parts, new_parts = was.parts, now.parts
    for name in dict.fromkeys((*old_parts, *new_parts)):
        if name in old_parts and name in new_parts and old_parts[name] != new_parts[name]:
            yield f"{name} has changed"


def _label(place: int) -> str:
    """The letters of a side: A, B, …, Z, AA, AB, …"""
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters
