"""What a fit of blocks tries: pipelines of a config, or their cells of a sweep, at a ladder of block sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from draftverify.bench.artifact import DataHash, PartIdentity, identify_parts
from draftverify.bench.config.specs import ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.conditions import conditions_of
from draftverify.bench.runner.workload import Workload
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below, check_known
from draftverify.lab.lineage import refuse_overlap
from draftverify.traits import VerifierTraits, traits_of
from draftverify.values import Task

LONGEST = 200


class BlockCandidate(NamedTuple):
    """A pipeline of the config at one block size: its spec under a name of its own, and what it is compared with."""

    origin: str
    size: int
    spec: PipelineSpec
    base: str

    @property
    def name(self) -> str:
        """The pipeline's name at this size."""
        return self.spec.name

    @property
    def drafts(self) -> bool:
        """Whether it drafts, and is not what it is compared with."""
        return bool(self.size) and self.name != self.base


class Family(NamedTuple):
    """A pipeline of the file with all its cells and sizes: of them one is chosen."""

    name: str
    candidates: tuple[BlockCandidate, ...]


class Identified(NamedTuple):
    """The parts that an operating point belongs to, and the conditions that its costs rest on."""

    parts: Mapping[str, PartIdentity]
    conditions: Mapping[str, Any]


def families(
    experiment: Experiment, names: Sequence[str], at_most: int, builder: Builder
) -> Iterator[Family]:
    """Those of an experiment's pipelines, at a ladder of sizes.

    Raises:
        ConfigError: there is nothing to fit.
    """
    for name, specs in _named(experiment, names):
        candidates: list[BlockCandidate] = []
        for variant in _variants(experiment, specs):
            sizes = [cell.block for cell in variant if isinstance(cell.block, int)]
            candidates += _sized(experiment, variant[0], at_most, sizes, builder)
        if not any(candidate.drafts for candidate in candidates):
            raise ConfigError(
                f"blocks of {at_most} at most are the baseline's, and nothing is left to compare with it; try larger "
                "ones (--at-most)",
                path=f"pipelines.{name}",
            )
        yield Family(name, tuple(candidates))


def recorded_families(experiment: Experiment, names: Sequence[str]) -> Iterator[Family]:
    """Those of a run's pipelines, at the block sizes that the run drafted with.

    Raises:
        ConfigError: there is nothing to fit, or the run has one size of it.
    """
    for name, specs in _named(experiment, names):
        candidates: list[BlockCandidate] = []
        for variant in _variants(experiment, specs):
            sized = {spec.block: spec for spec in variant if isinstance(spec.block, int)}
            base = experiment.compared_with(variant[0].name) or (sized[min(sized)].name if sized else "")
            twin = _twin(experiment, variant[0], base)
            sized |= {twin.block: twin} if twin is not None and isinstance(twin.block, int) else {}
            candidates += [BlockCandidate(variant[0].name, size, sized[size], base) for size in sorted(sized)]
        if len({candidate.size for candidate in candidates}) < 2:
            raise ConfigError(
                "the run drafted with one block size, and what another costs is in no record; run it with "
                f"matrix: {{grid: {{pipelines.{name}.block: [1, 2, 4]}}}}, or give the config, and sizes are run",
                path=f"pipelines.{name}.block",
            )
        yield Family(name, tuple(candidates))


def _named(experiment: Experiment, names: Sequence[str]) -> Iterator[tuple[str, list[PipelineSpec]]]:
    """The pipelines of the file that are to be fitted, each with its cells."""
    of_file: dict[str, list[PipelineSpec]] = {}
    for spec in experiment.pipelines:
        of_file.setdefault(spec.name.partition("@")[0], []).append(spec)
    baseline = (experiment.baseline or "").partition("@")[0]
    for name in names:
        check_known("pipeline", name, of_file, path="pipelines")
        if name == baseline:
            raise ConfigError(f"{name} is the baseline, with which the others are compared", path="baseline")
    chosen = list(dict.fromkeys(names)) or [name for name in of_file if name != baseline]
    if not chosen:
        raise ConfigError("there is no pipeline beside the baseline to fit", path="pipelines")
    yield from ((name, of_file[name]) for name in chosen)


def _variants(experiment: Experiment, specs: Sequence[PipelineSpec]) -> list[list[PipelineSpec]]:
    """Cells that differ in their block alone, together."""
    variants: dict[bytes, list[PipelineSpec]] = {}
    for spec in specs:
        key = msgspec.json.encode([_bare(spec), experiment.compared_with(spec.name)], order="deterministic")
        variants.setdefault(key, []).append(spec)
    return list(variants.values())


def _twin(experiment: Experiment, spec: PipelineSpec, base: str) -> PipelineSpec | None:
    """What a pipeline is compared with, where that is itself at another block size."""
    specs = (pipeline for pipeline in experiment.pipelines if pipeline.name == base)
    return next((pipeline for pipeline in specs if _bare(pipeline) == _bare(spec)), None)


def _sized(
    experiment: Experiment, spec: PipelineSpec, at_most: int, configured: Sequence[int], builder: Builder
) -> list[BlockCandidate]:
    """A pipeline at every size: powers of two, those that the config has, and 0 where an empty block brings a value.

    At a size where it is the baseline under another name, the baseline is the candidate: a twin of it would win or lose
    by chance.
    """
    sizes = {2**k for k in range(at_most.bit_length()) if 2**k <= at_most} | {*configured} - {0}
    if traits_of(builder.part(spec.verifier), VerifierTraits).goes_on_plainly:
        sizes.add(0)
    named = {}
    for size in sorted(sizes):
        name = f"{spec.name}{',' if '@' in spec.name else '@'}block={size}"[-LONGEST:]
        named[size] = replace(spec, name=name, path=f"pipelines.{name}", block=size, where=spec.where)
    base = experiment.compared_with(spec.name) or named[min(named)].name
    twin = _twin(experiment, spec, base)
    if twin is not None and isinstance(twin.block, int):
        named[twin.block] = twin
    return [BlockCandidate(spec.name, size, named[size], base) for size in sorted(named)]


def _bare(spec: PipelineSpec) -> PipelineSpec:
    """The spec without its name and its block."""
    return replace(spec, name="", where="", path="", block=None)


def refuse_other_tasks(experiment: Experiment, families: Sequence[Family], load_all: Workload) -> None:
    for family in families:
        names = {name for candidate in family.candidates for name in (candidate.origin, candidate.base)}
        if any(load_all.own_tasks.get(name) is not None for name in names):
            raise ConfigError(
                "its cells, or it and the baseline, have different tasks, so their costs cannot be compared; "
                "fit one of them at a time",
                path=f"pipelines.{family.name}",
            )


def identities_of(
    trying: Sequence[BlockCandidate], executor: ComponentSpec, tasks: Sequence[Task] = ()
) -> dict[str, Identified]:
    """The identities of each candidate's parts, and the conditions of its costs; before anything is paid for.

    Raises:
        DraftVerifyError: a part cannot be built or opened, cannot be told from others, or was learned from a task.
    """
    builder = Builder()
    identified: dict[str, Identified] = {}
    for candidate in trying:
        if candidate.origin in identified:
            continue
        with below(f"pipelines.{candidate.origin}", candidate.spec.where):
            pipeline: Pipeline = builder.pipeline(candidate.spec)
            refuse_overlap(pipeline, tasks)
            with pipeline:
                parts = identify_parts(
                    generator=pipeline.generator, verifier=pipeline.verifier, rule=pipeline.rule
                )
                identified[candidate.origin] = Identified(parts, conditions_of(pipeline, executor))
    return identified


def experiment_of(
    experiment: Experiment, trying: Sequence[BlockCandidate], tasks: Sequence[Task]
) -> Experiment:
    """The experiment of some candidates and what they are compared with, on some of the tasks."""
    specs = {candidate.name: candidate.spec for candidate in trying}
    base_of = {candidate.name: candidate.base for candidate in trying}
    bases = set(base_of.values())
    unchanged = {
        spec.name: spec for spec in experiment.pipelines if spec.name in bases and spec.name not in specs
    }
    pipelines = (*unchanged.values(), *specs.values())
    cells = {name: changes for name, changes in experiment.cells.items() if name in unchanged}
    for candidate in (candidate for candidate in trying if candidate.name not in experiment.names):
        path = f"pipelines.{candidate.origin.partition('@')[0]}.block"
        cells[candidate.name] = {**experiment.cells.get(candidate.origin, {}), path: candidate.size}
    baseline = experiment.baseline if experiment.baseline in bases else sorted(bases)[0]
    baselines = {name: base for name, base in base_of.items() if base not in (baseline, name)}
    files = {spec.name.partition("@")[0] for spec in pipelines}
    of_file = experiment.config["pipelines"]
    config = {
        **experiment.config,
        "pipelines": {name: pipeline for name, pipeline in of_file.items() if name in files},
        "cells": cells,
        "baseline": baseline,
        "baselines": baselines,
        "chosen": data_hash(tasks).sha256,
    }
    return replace(
        experiment,
        pipelines=pipelines,
        cells=cells,
        baseline=baseline,
        baselines=baselines,
        predict=None,
        limit=None,
        chosen=tuple(task.id for task in tasks),
        sources={},
        config=config,
    )


def data_hash(tasks: Sequence[Task]) -> DataHash:
    rows = [
        [task.id, task.group, dict(task.input), dict(task.expected)]
        for task in sorted(tasks, key=lambda t: t.id)
    ]
    text = msgspec.json.encode(rows, order="deterministic", enc_hook=repr)
    return DataHash(len(tasks), hashlib.sha256(text).hexdigest())
