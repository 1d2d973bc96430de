"""Measuring the operating point of pipelines: what `draftverify calibrate` does.

The tasks are split. On the one part every candidate (a pipeline, or its cells of a sweep) runs at a ladder of block
sizes, as one ordinary run beside the baseline. The size whose solved task costs least is chosen, and what it will gain
on the other part is written down. Then that part runs, with the choice and the baseline alone.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from draftverify.calibration import (
    Artifact,
    Choice,
    CostModel,
    DataHash,
    Estimate,
    Interval,
    PartIdentity,
    Tried,
    acceptance_rate,
    choose,
    cost_per_solved,
    fit_costs,
    load,
    operating_point,
    parallel_pass,
    save,
    shares_of,
    solved_ratio,
)
from draftverify.calibration.solved import Scored
from draftverify.engine.parts import identity_of, name_of
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below
from draftverify.experiments.build import Builder
from draftverify.experiments.run import Watcher, run
from draftverify.experiments.specs import Experiment, PipelineSpec
from draftverify.experiments.workload import Workload, workload
from draftverify.metrics import measures_of
from draftverify.plugins import did_you_mean
from draftverify.records import load_run
from draftverify.records.database import store_url
from draftverify.records.directory import versions
from draftverify.values import Task, TaskRecord

__all__ = ["Calibrated", "calibrate", "split"]

ESTIMATOR = (
    "least seconds per solved task among the sizes tried; the gain by cross-fitting: of each tenth of the tasks the "
    "size that wins without it, a jackknife interval over tasks on the log scale, wider by sqrt(1 + n/m)"
)
LONGEST = 200


class Calibrated(msgspec.Struct, frozen=True):
    """What came of one pipeline: the file that was written, and what stands in it."""

    path: Path
    artifact: Artifact


class _Candidate(NamedTuple):
    """A pipeline of the config at one block size: its spec under a name of its own, and what it is compared with."""

    origin: str
    size: int
    spec: PipelineSpec
    base: str

    @property
    def name(self) -> str:
        return self.spec.name


class _Family(NamedTuple):
    """A pipeline of the file with all its cells and sizes: of them one is chosen."""

    name: str
    candidates: tuple[_Candidate, ...]


def calibrate(
    experiment: Experiment,
    *,
    out: str | Path,
    pipelines: Sequence[str] = (),
    unseen: float = 0.3,
    at_most: int = 16,
    seed: int = 0,
    fresh: bool = False,
    accept_changed: bool = False,
    watcher: Watcher | None = None,
    chosen: Callable[[Calibrated], None] = lambda calibrated: None,
    command: Sequence[str] = (),
) -> list[Calibrated]:
    """Measure the operating point of an experiment's pipelines, write it down, and try it on tasks not yet seen.

    Args:
        experiment: from `load_experiment`; its `calibrate` is of no matter.
        out: the directory of the files, NAME.json for each pipeline, and of two run directories: `sizes`, the
            candidates at every size, and `unseen`, the choices. A calibration that was stopped goes on there.
        pipelines: these alone, without their cells; all but the baseline when empty.
        unseen: the share of the tasks on which the choice is measured, of each group alike.
        at_most: the largest block.
        seed: of the split.
        fresh, accept_changed, watcher, command: as for a run.
        chosen: called with each choice, once its prediction is written and before the unseen tasks run.

    Raises:
        ConfigError: there is nothing to calibrate, too few tasks, or no task was solved.
        DraftVerifyError: as a run.
    """
    folder = Path(out)
    # What is tried is not watched: an alarm would change it on the way.
    unwatched = tuple([replace(each, monitor=None) for each in experiment.pipelines])
    experiment = replace(experiment, pipelines=unwatched)
    families = list(_families(experiment, pipelines, at_most, Builder()))
    load_all = workload(replace(experiment, calibrate=None), Builder())
    first, rest = split(load_all.measured, unseen, seed)
    _check_tasks(experiment, families, load_all)
    trying = [each for family in families for each in family.candidates]
    identities = _identities(trying)
    sizes = _experiment(experiment, trying, first)
    run(
        sizes,
        out=folder / "sizes",
        fresh=fresh,
        accept_changed=accept_changed,
        watcher=watcher,
        command=command,
    )
    found = _read(sizes, folder / "sizes")
    made: list[tuple[Calibrated, _Candidate]] = []
    for family in families:
        with below(f"pipelines.{family.name}"):
            artifact, tested = _choice(experiment, family, found, identities, first, rest)
        path = folder / f"{family.name}.json"
        before = load(path) if path.exists() and not fresh else None
        if before is not None and _same(before, artifact):
            artifact = before  # what was predicted stays as it was written
        else:
            save(path, artifact)
        made.append((Calibrated(path, artifact), tested))
        chosen(made[-1][0])
    ends = {name for _, tested in made for name in (tested.name, tested.base)}
    last = _experiment(experiment, [each for each in trying if each.name in ends], rest)
    run(
        last,
        out=folder / "unseen",
        fresh=fresh,
        accept_changed=accept_changed,
        watcher=watcher,
        command=command,
    )
    seen = _read(last, folder / "unseen")
    measured = []
    for calibrated, tested in made:
        gain = solved_ratio(seen[tested.name], seen[tested.base])
        artifact = replace(calibrated.artifact, measured=_interval(gain))
        if artifact != calibrated.artifact:
            artifact = replace(artifact, measured_at=_now())
            save(calibrated.path, artifact)
        measured.append(Calibrated(calibrated.path, artifact))
    return measured


def split(tasks: Sequence[Task], unseen: float, seed: int) -> tuple[list[Task], list[Task]]:
    """The tasks to calibrate on and the others, each group split alike; the same for the same seed.

    Args:
        tasks: all.
        unseen: the share of the others, 0 to 1.
        seed: of the order within each group.

    Raises:
        ConfigError: fewer than two tasks are left to calibrate on, or none to be measured on.
    """
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.group, []).append(task)
    mixed = []
    for group in groups.values():
        random.Random(seed).shuffle(group)
        mixed += group
    kept = {
        task.id
        for place, task in enumerate(mixed)
        if math.floor((place + 1) * unseen + 1e-9) > math.floor(place * unseen + 1e-9)
    }
    first = [task for task in tasks if task.id not in kept]
    rest = [task for task in tasks if task.id in kept]
    if len(first) < 2 or not rest:
        raise ConfigError(
            f"of {len(tasks)} tasks {len(first)} are left to calibrate on and {len(rest)} to measure on; at least 2 "
            "and 1 are needed: give more tasks, or another share of unseen ones",
            path="tasks",
        )
    return first, rest


# What is tried


def _families(
    experiment: Experiment, asked: Sequence[str], at_most: int, builder: Builder
) -> Iterator[_Family]:
    of_file: dict[str, list[PipelineSpec]] = {}
    for spec in experiment.pipelines:
        of_file.setdefault(spec.name.partition("@")[0], []).append(spec)
    baseline = (experiment.baseline or "").partition("@")[0]
    for name in asked:
        if name not in of_file:
            raise ConfigError(f"there is no pipeline {name!r}{did_you_mean(name, of_file)}", path="pipelines")
        if name == baseline:
            raise ConfigError(f"{name} is the baseline, with which the others are compared", path="baseline")
    wanted = list(dict.fromkeys(asked)) or [name for name in of_file if name != baseline]
    if not wanted:
        raise ConfigError("there is no pipeline beside the baseline to calibrate", path="pipelines")
    for name in wanted:
        candidates: list[_Candidate] = []
        known: set[bytes] = set()
        for spec in of_file[name]:
            bare = replace(spec, name="", where="", path="", block=None, calibration="")
            key = msgspec.json.encode([bare, experiment.compared_with(spec.name)], order="deterministic")
            if key in known:  # another cell, which differs in its block alone
                continue
            known.add(key)
            alike = [
                each.block
                for each in of_file[name]
                if isinstance(each.block, int)
                and replace(each, name="", where="", path="", block=None, calibration="") == bare
            ]
            candidates += _sized(experiment, spec, at_most, alike, builder)
        yield _Family(name, tuple(candidates))


def _sized(
    experiment: Experiment, spec: PipelineSpec, at_most: int, own: Sequence[int], builder: Builder
) -> list[_Candidate]:
    """A pipeline at every size: powers of two, those that the config has, and 0 where an empty block brings a value."""
    sizes = {2**k for k in range(at_most.bit_length()) if 2**k <= at_most} | {size for size in own if size}
    verifier = builder.part(spec.verifier)
    if getattr(verifier, "plain_steps", False) or "target" in getattr(verifier, "provides", ()):
        sizes.add(0)
    named = {}
    for size in sorted(sizes):
        name = f"{spec.name}{',' if '@' in spec.name else '@'}block={size}"[-LONGEST:]
        named[size] = replace(
            spec, name=name, path=f"pipelines.{name}", block=size, calibration="", where=spec.where
        )
    base = experiment.compared_with(spec.name) or named[min(named)].name
    return [_Candidate(spec.name, size, made, base) for size, made in named.items()]


def _check_tasks(experiment: Experiment, families: Sequence[_Family], load_all: Workload) -> None:
    for family in families:
        of = [load_all.own.get(each) for made in family.candidates for each in (made.origin, made.base)]
        if any(each is not None for each in of):
            raise ConfigError(
                "its cells, or it and the baseline, have different tasks, so their costs cannot be compared; "
                "calibrate one of them at a time",
                path=f"pipelines.{family.name}",
            )


def _identities(trying: Sequence[_Candidate]) -> dict[str, tuple[PartIdentity, PartIdentity, PartIdentity]]:
    """What tells each candidate's generator, verifier and rule from others; before anything is paid for.

    Raises:
        DraftVerifyError: a part cannot be built or opened, or cannot be told from others.
    """
    builder = Builder()
    found: dict[str, tuple[PartIdentity, PartIdentity, PartIdentity]] = {}
    for each in trying:
        if each.origin in found:
            continue
        with below(f"pipelines.{each.origin}", each.spec.where):
            pipeline: Pipeline = builder.pipeline(each.spec)
            with pipeline:
                parts = (pipeline.generator, pipeline.verifier, pipeline.rule)
                generator, verifier, rule = (PartIdentity(name_of(part), identity_of(part)) for part in parts)
                found[each.origin] = generator, verifier, rule
    return found


def _experiment(experiment: Experiment, trying: Sequence[_Candidate], tasks: Sequence[Task]) -> Experiment:
    """The experiment of some candidates and what they are compared with, on some of the tasks."""
    made = {each.name: each.spec for each in trying}
    bases = {each.base for each in trying}
    own = [spec for spec in experiment.pipelines if spec.name in bases and spec.name not in made]
    specs = (*own, *made.values())
    cells = {
        name: changes for name, changes in experiment.cells.items() if name in {spec.name for spec in own}
    }
    for each in trying:
        path = f"pipelines.{each.origin.partition('@')[0]}.block"
        cells[each.name] = {**experiment.cells.get(each.origin, {}), path: each.size}
    baseline = experiment.baseline if experiment.baseline in bases else sorted(bases)[0]
    baselines = {each.name: each.base for each in trying if each.base not in (baseline, each.name)}
    files = {spec.name.partition("@")[0] for spec in specs}
    config = {
        **experiment.config,
        "pipelines": {name: each for name, each in experiment.config["pipelines"].items() if name in files},
        "cells": cells,
        "baseline": baseline,
        "baselines": baselines,
        "chosen": _data(tasks).sha256,
    }
    return replace(
        experiment,
        pipelines=specs,
        cells=cells,
        baseline=baseline,
        baselines=baselines,
        calibrate=None,
        limit=None,
        chosen=tuple(task.id for task in tasks),
        sources={},
        config=config,
    )


# What came of it


def _read(experiment: Experiment, path: Path) -> dict[str, Scored]:
    """Of each pipeline of a run the records, each with what the first metric says, or whether it was accepted."""
    metric = _metric(experiment)
    url = store_url(experiment.store) if experiment.store else None
    found: dict[str, list[tuple[TaskRecord, float]]] = {name: [] for name in experiment.names}
    with load_run(path, url=url, thorough=False, patient=True) as records:
        said = records.store.named_scores() if metric is not None else {}
        for entry in records.store.entries(phase="measure", texts=False):
            record = entry.record
            if metric is None:
                value: float | None = float(record.outcome.status == "accepted")
            else:
                value = said.get((entry.pipeline, record.task, metric))
            if value is not None:
                found[entry.pipeline].append((record, value))
    return dict(found)


def _metric(experiment: Experiment) -> str | None:
    """The first metric that says what is solved."""
    builder = Builder()
    measures = measures_of({name: builder.part(spec) for name, spec in experiment.metrics.items()})
    return next((name for name in experiment.metrics if name not in measures), None)


def _choice(
    experiment: Experiment,
    family: _Family,
    found: Mapping[str, Scored],
    identities: Mapping[str, tuple[PartIdentity, PartIdentity, PartIdentity]],
    first: Sequence[Task],
    rest: Sequence[Task],
) -> tuple[Artifact, _Candidate]:
    """Raises: ConfigError: no candidate solved a task."""
    sizes = tuple(sorted({each.size for each in family.candidates}))
    drafting = {each.name: each for each in family.candidates if each.size and each.name != each.base}
    against = {name: found[each.base] for name, each in drafting.items()}
    best = choose({name: found[name] for name in drafting}, against, len(rest))
    taken = drafting[best.name]
    alike = [each for each in family.candidates if each.origin == taken.origin]
    plain = next((each for each in alike if not each.size and found[each.name]), None)
    stepping = cost_per_solved(found[plain.name]).value if plain is not None else math.nan
    idle = plain is not None or _idle(experiment, taken)
    pays = best.cost < min(best.base, stepping if plain is not None else math.inf)
    # Without a baseline the smallest size is one; where that is no empty block, it drafts too.
    smallest = next((each for each in alike if each.name == taken.base and each.size), None)
    records = [record for each in alike for record, _ in found[each.name]]
    shape = _shape(records)
    costs = _costs(records)
    generator, verifier, rule = identities[taken.origin]
    threshold = taken.spec.rule.arguments.get("threshold")
    n, parallel = _parallel(records)
    solved = "accepted" if _metric(experiment) is None else "solved"
    return Artifact(
        experiment=experiment.name,
        pipeline=taken.origin,
        changes=experiment.cells.get(taken.origin, {}),
        baseline=taken.base,
        block=taken.size if pays else 0 if idle else smallest.size if smallest else taken.size,
        threshold=float(threshold) if isinstance(threshold, (int, float)) else None,
        drafts=pays or smallest is not None,
        why=_why(best, taken, stepping, pays, smallest, solved),
        shape=shape,
        metric=_metric(experiment),
        generator=generator,
        verifier=verifier,
        rule=rule,
        settings=taken.spec.settings,
        data=_data(first),
        unseen=_data(rest),
        estimator=ESTIMATOR,
        sizes=sizes,
        tried=tuple(
            _tried(each, found, costs if each in alike else _costs_of(family, each, found))
            for each in family.candidates
        ),
        tested=taken.size,
        acceptance=_interval(acceptance_rate(record for record, _ in found[taken.name])),
        shares=tuple(
            [each for record, _ in found[taken.name] if (each := shares_of(record).acceptance) is not None]
        ),
        cost_ratio=_cost_ratio(costs, taken.size),
        parallel=parallel,
        parallel_size=n,
        modelled=_modelled(records) if shape != "tree" else (),
        predicted=Interval.of(best.predicted.value, best.predicted.low, best.predicted.high),
        predicted_at=_now(),
        versions=versions(),
    ), taken


def _idle(experiment: Experiment, taken: _Candidate) -> bool:
    """Whether the baseline is the same verifier and rule without drafts: then a pipeline can stop drafting, too."""
    parts = (taken.spec.verifier, taken.spec.rule)
    return any(
        spec.name == taken.base and spec.block == 0 and (spec.verifier, spec.rule) == parts
        for spec in experiment.pipelines
    )


def _why(
    best: Choice, taken: _Candidate, stepping: float, pays: bool, smallest: _Candidate | None, solved: str
) -> str:
    costs = f"blocks of {taken.size} cost {best.cost:.3g} s per {solved} task, {taken.base} {best.base:.3g} s"
    if not math.isnan(stepping):
        costs += f", plain steps {stepping:.3g} s"
    told = costs if pays else f"larger blocks do not pay: {costs}" if smallest else f"do not draft: {costs}"
    if best.agreeing < 1.0:
        told += (
            f"; close: left out a tenth at a time, {1 - best.agreeing:.0%} of the tasks have another winner"
        )
    return told


def _tried(each: _Candidate, found: Mapping[str, Scored], costs: CostModel | None) -> Tried:
    own = found[each.name]
    return Tried(
        pipeline=each.origin,
        block=each.size,
        draft=_at(costs, "draft", each.size),
        verify=_at(costs, "verify", each.size),
        rest=costs.rest if costs is not None else None,
        solved=sum(value for _, value in own),
        cost=_interval(cost_per_solved(own)),
        gain=Interval(1.0, 1.0, 1.0)
        if each.name == each.base
        else _interval(solved_ratio(own, found[each.base])),
    )


def _costs_of(family: _Family, of: _Candidate, found: Mapping[str, Scored]) -> CostModel | None:
    alike = [each for each in family.candidates if each.origin == of.origin]
    return _costs([record for each in alike for record, _ in found[each.name]])


def _costs(records: Sequence[TaskRecord]) -> CostModel | None:
    try:
        return fit_costs(records)
    except ConfigError:  # no round was timed
        return None


def _at(costs: CostModel | None, part: str, size: int) -> float | None:
    if costs is None:
        return None
    if part == "draft" and not size:
        return 0.0
    curve = costs.draft if part == "draft" else costs.verify
    try:
        return curve.at(size)
    except ConfigError:  # blocks as large as that never came
        return None


def _cost_ratio(costs: CostModel | None, size: int) -> float | None:
    if costs is None or not costs.verify.sizes or not costs.verify.seconds[0] > 0.0:
        return None
    drafted = _at(costs, "draft", size)
    return None if drafted is None or not size else drafted / size / costs.verify.seconds[0]


def _parallel(records: Sequence[TaskRecord]) -> tuple[int, Interval | None]:
    try:
        n, ratio = parallel_pass(records)
    except ConfigError:  # no block of one, or none larger
        return 0, None
    return n, _interval(ratio)


def _modelled(records: Sequence[TaskRecord]) -> tuple[tuple[int, float], ...]:
    try:
        return operating_point(records).curve
    except ConfigError:
        return ()


def _shape(records: Sequence[TaskRecord]) -> str:
    """How the items of blocks stood to each other, by the largest blocks."""
    parents = max((entry.parents for record in records for entry in record.rounds), key=len, default=())
    if all(parent == -1 for parent in parents) and len(parents) > 1:
        return "alternatives"
    return "chain" if parents == tuple(range(-1, len(parents) - 1)) else "tree"


def _interval(estimate: Estimate) -> Interval:
    return Interval.of(estimate.value, estimate.low, estimate.high)


def _data(tasks: Sequence[Task]) -> DataHash:
    told = [
        [task.id, task.group, dict(task.input), dict(task.truth)]
        for task in sorted(tasks, key=lambda t: t.id)
    ]
    text = msgspec.json.encode(told, order="deterministic", enc_hook=repr)
    return DataHash(len(tasks), hashlib.sha256(text).hexdigest())


def _same(before: Artifact, now: Artifact) -> bool:
    """Whether an artifact says what one that was written before says, when it said so and what was measured aside."""
    bare: dict[str, Any] = {"predicted_at": "", "measured": None, "measured_at": ""}
    plain = (msgspec.json.encode(replace(each, **bare), order="deterministic") for each in (before, now))
    return len(set(plain)) == 1


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
