"""Measuring the operating point of pipelines: what `draftverify fit block` does.

The tasks are split. On the one part every candidate (a pipeline, or its cells of a sweep) runs at a ladder of block
sizes, as one ordinary run beside the baseline. The size whose solved task costs least is chosen, and what it will gain
on the other part is written down. Then that part runs, with the choice and the baseline alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.bench.artifact import OperatingPointFile, read_artifact, write_artifact
from draftverify.bench.config.experiment import load_recorded
from draftverify.bench.config.specs import ComponentSpec, Experiment
from draftverify.bench.records.directory import RunRecords, made_from
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.labelling import solved_by
from draftverify.bench.runner.run import RunResult, run
from draftverify.bench.runner.work import Watcher
from draftverify.bench.runner.workload import workload
from draftverify.errors import ConfigError, below
from draftverify.lab.candidates import (
    BlockCandidate,
    Family,
    experiment_of,
    families,
    identities_of,
    recorded_families,
    refuse_other_tasks,
)
from draftverify.lab.choosing import ScoredRun, choice_of, interval_of, now, read_scored
from draftverify.stats import solved_ratio
from draftverify.values import Task

LARGEST = 16


class OperatingPoint(msgspec.Struct, frozen=True):
    """A pipeline's operating point: the file that was written, and what stands in it."""

    path: Path
    artifact: OperatingPointFile


def fit_blocks(
    experiment: Experiment,
    *,
    out: str | Path,
    pipelines: Sequence[str] = (),
    unseen: float = 0.3,
    at_most: int | None = None,
    fresh: bool = False,
    accept_changed: bool = False,
    overlap: bool = False,
    watcher: Watcher | None = None,
    ran: Callable[[RunResult], None] = lambda result: None,
    chosen: Callable[[OperatingPoint], None] = lambda point: None,
    command: Sequence[str] = (),
) -> list[OperatingPoint]:
    """Measure the operating point of an experiment's pipelines, write it down, and try it on tasks not yet seen.

    Args:
        experiment: from `load_experiment`; its `predict` is of no matter.
        out: the directory of the files, NAME.json for each pipeline, and of two run directories: `sizes`, the
            candidates at every size, and `unseen`, the choices. A fit that was stopped goes on there.
        pipelines: these alone, without their cells; all but the baseline when empty.
        unseen: the share of the tasks on which the choice is measured, of each group alike.
        at_most: the largest block; 16 when None.
        overlap: whether a part may have been learned from some of the tasks.
        fresh, accept_changed, watcher, command: as for a run.
        ran: called with each of the two runs as it has ended; tasks that failed count as unsolved.
        chosen: called with each choice, once its prediction is written and before the unseen tasks run.

    Raises:
        ConfigError: there is nothing to fit, too few tasks, or no task was solved.
        DraftVerifyError: as a run.
    """
    folder = Path(out)
    experiment = _unwatched(experiment)  # an alarm would change on the way what is tried
    tried = list(families(experiment, pipelines, at_most or LARGEST, Builder()))
    load_all = workload(replace(experiment, predict=None), Builder())
    refuse_other_tasks(experiment, tried, load_all)
    fit = _Fit(experiment, tried, load_all.measured, unseen, folder, overlap, chosen)
    perform = partial(run, fresh=fresh, accept_changed=accept_changed, watcher=watcher, command=command)
    sizes = experiment_of(experiment, fit.candidates, fit.choosing)
    ran(perform(sizes, out=folder / "sizes"))
    choices = fit.choices(read_scored(sizes, folder / "sizes", fit.metric), fresh=fresh)
    ends = {name for _, tested in choices for name in (tested.name, tested.base)}
    finalists = [candidate for candidate in fit.candidates if candidate.name in ends]
    unseen_run = experiment_of(experiment, finalists, fit.measuring)
    ran(perform(unseen_run, out=folder / "unseen"))
    return fit.measured(choices, read_scored(unseen_run, folder / "unseen", fit.metric))


def fit_recorded_blocks(
    records: RunRecords,
    *,
    out: str | Path,
    config: str | Path | None = None,
    pipelines: Sequence[str] = (),
    unseen: float = 0.3,
    overlap: bool = False,
    chosen: Callable[[OperatingPoint], None] = lambda point: None,
) -> list[OperatingPoint]:
    """As `fit_blocks`, from a run that drafted with several block sizes: nothing is drafted again.

    Args:
        records: the run's. It has a matrix over the pipelines' `block`.
        out: the directory of the files.
        config: the config that the run was made from; None: as the run's command named it.
        pipelines, unseen, overlap, chosen: as of `fit_blocks`; the records of the unseen tasks are the measure.

    Raises:
        ConfigError: as `fit_blocks`, or the run drafted with one block size, or an alarm came in it.
    """
    experiment = load_recorded(
        records.path / "config.json", Path(config).parent if config is not None else made_from(records)
    )
    executor = dict(records.config.get("executor") or {"use": "auto"})
    experiment = _unwatched(
        replace(experiment, executor=ComponentSpec("executor", executor.pop("use"), executor))
    )
    tried = list(recorded_families(experiment, pipelines))
    ran = {ending.task for ending in records.store.endings()}
    tasks = [task for task in records.tasks if task.id in ran]
    for candidate in (candidate for family in tried for candidate in family.candidates):
        if any(entry.alarms for entry in records.watched.get(candidate.name, ())):
            raise ConfigError(
                "an alarm of its monitor may have changed it on the way; record a run without the monitor",
                path=f"pipelines.{candidate.origin}.monitor",
            )
    fit = _Fit(experiment, tried, tasks, unseen, Path(out), overlap, chosen)
    everything = replace(experiment, chosen=tuple(task.id for task in tasks))
    scored = read_scored(everything, records.path, fit.metric)
    return fit.measured(fit.choices(scored.of_tasks(fit.choosing)), scored.of_tasks(fit.measuring))


def _unwatched(experiment: Experiment) -> Experiment:
    """The experiment without monitors."""
    return replace(experiment, pipelines=tuple(replace(spec, monitor=None) for spec in experiment.pipelines))


class _Fit:
    """A fit of some families of candidates, on the one part of the tasks; the other part measures it."""

    def __init__(
        self,
        experiment: Experiment,
        tried: Sequence[Family],
        tasks: Sequence[Task],
        unseen: float,
        folder: Path,
        overlap: bool,
        chosen: Callable[[OperatingPoint], None],
    ) -> None:
        self.experiment, self.tried, self.folder, self.chosen = experiment, tried, folder, chosen
        self.choosing, self.measuring = split(tasks, unseen, 0)
        self.metric = solved_by(experiment)
        self.candidates = [candidate for family in tried for candidate in family.candidates]
        self.identities = identities_of(self.candidates, experiment.executor, () if overlap else tasks)

    def choices(
        self, scored: ScoredRun, *, fresh: bool = True
    ) -> list[tuple[OperatingPoint, BlockCandidate]]:
        """The choice of each family with the candidate, written down."""
        choices: list[tuple[OperatingPoint, BlockCandidate]] = []
        for family in self.tried:
            with below(f"pipelines.{family.name}"):
                artifact, tested = choice_of(
                    self.experiment,
                    family,
                    scored,
                    self.identities,
                    self.choosing,
                    self.measuring,
                    self.metric,
                )
            path = self.folder / f"{family.name}.json"
            written = None if fresh else _written(path)
            if written is not None and _same(written, artifact):
                artifact = written  # what was predicted stays as it was written
            else:
                write_artifact(path, artifact)
            choices.append((OperatingPoint(path, artifact), tested))
            self.chosen(choices[-1][0])
        return choices

    def measured(
        self, choices: Sequence[tuple[OperatingPoint, BlockCandidate]], run: ScoredRun
    ) -> list[OperatingPoint]:
        """The choices with what they gained on the unseen tasks."""
        scored, measured = run.records, []
        for point, tested in choices:
            gain = solved_ratio(scored[tested.name], scored[tested.base])
            artifact = replace(point.artifact, measured=interval_of(gain), unmeasured="")
            if math.isnan(gain.value):
                unsolved = tested.name if any(value for _, value in scored[tested.base]) else tested.base
                solved = "accepted" if self.metric is None else "solved"
                artifact = replace(artifact, unmeasured=f"{unsolved} {solved} none of the unseen tasks")
            if artifact != point.artifact:
                artifact = replace(artifact, measured_at=now())
                write_artifact(point.path, artifact)
            measured.append(OperatingPoint(point.path, artifact))
        return measured


def split(tasks: Sequence[Task], unseen: float, seed: int) -> tuple[list[Task], list[Task]]:
    """The tasks to fit on and the others, each group split alike; the same for the same seed.

    Args:
        tasks: all.
        unseen: the share of the others, 0 to 1.
        seed: of the order within each group.

    Raises:
        ConfigError: fewer than two tasks are left to fit on, or none to be measured on.
    """
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.group, []).append(task)
    mixed = []
    for group in groups.values():
        random.Random(seed).shuffle(group)
        mixed += group
    unseen_ids = {
        task.id
        for place, task in enumerate(mixed)
        if math.floor((place + 1) * unseen + 1e-9) > math.floor(place * unseen + 1e-9)
    }
    choosing = [task for task in tasks if task.id not in unseen_ids]
    measuring = [task for task in tasks if task.id in unseen_ids]
    if len(choosing) < 2 or not measuring:
        raise ConfigError(
            f"of {len(tasks)} tasks {len(choosing)} are left to fit on and {len(measuring)} to measure on; "
            "at least 2 and 1 are needed: give more tasks, or another share of unseen ones",
            path="tasks",
        )
    return choosing, measuring


def _written(path: Path) -> OperatingPointFile | None:
    """The artifact that an earlier fit wrote; None where there is none that can be read."""
    try:
        return read_artifact(path, OperatingPointFile)
    except ConfigError:
        return None


def _same(written: OperatingPointFile, artifact: OperatingPointFile) -> bool:
    """Whether two artifacts predict the same, whatever their dates and what was measured since."""
    bare: dict[str, Any] = {"predicted_at": "", "measured": None, "unmeasured": "", "measured_at": ""}
    texts = {
        msgspec.json.encode(replace(version, **bare), order="deterministic")
        for version in (written, artifact)
    }
    return len(texts) == 1
