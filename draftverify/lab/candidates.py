"""What a calibration tries: pipelines of a config, or their cells of a sweep, at a ladder of block sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from draftverify.bench.artifact import DataHash, PartIdentity
from draftverify.bench.config.specs import ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.conditions import conditions_of
from draftverify.bench.runner.workload import Workload
from draftverify.engine.parts import name_of
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below
from draftverify.identity import identity_of
from draftverify.plugins import did_you_mean
from draftverify.values import Task

__all__ = [
    "Candidate",
    "Family",
    "Identified",
    "data_hash",
    "experiment_of",
    "families",
    "identities_of",
    "refuse_other_tasks",
]

LONGEST = 200


class Candidate(NamedTuple):
    """A pipeline of the config at one block size: its spec under a name of its own, and what it is compared with."""

    origin: str
    size: int
    spec: PipelineSpec
    base: str

    @property
    def name(self) -> str:
        return self.spec.name


class Family(NamedTuple):
    """A pipeline of the file with all its cells and sizes: of them one is chosen."""

    name: str
    candidates: tuple[Candidate, ...]


class Identified(NamedTuple):
    """Whose operating point it is, and under which conditions."""

    generator: PartIdentity
    verifier: PartIdentity
    rule: PartIdentity
    conditions: Mapping[str, Any]


def families(
    experiment: Experiment, asked: Sequence[str], at_most: int, builder: Builder
) -> Iterator[Family]:
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
        candidates: list[Candidate] = []
        known: set[bytes] = set()
        for spec in of_file[name]:
            bare = _bare(spec)
            key = msgspec.json.encode([bare, experiment.compared_with(spec.name)], order="deterministic")
            if key in known:  # another cell, which differs in its block alone
                continue
            known.add(key)
            alike = [
                each.block for each in of_file[name] if isinstance(each.block, int) and _bare(each) == bare
            ]
            candidates += _sized(experiment, spec, at_most, alike, builder)
        if not any(each.size and each.name != each.base for each in candidates):
            raise ConfigError(
                f"blocks of {at_most} at most are the baseline's, and nothing is left to compare with it; try larger "
                "ones (--at-most)",
                path=f"pipelines.{name}",
            )
        yield Family(name, tuple(candidates))


def _sized(
    experiment: Experiment, spec: PipelineSpec, at_most: int, own: Sequence[int], builder: Builder
) -> list[Candidate]:
    """A pipeline at every size: powers of two, those that the config has, and 0 where an empty block brings a value.

    At a size where it is the baseline under another name, the baseline is the candidate: a twin of it would win or lose
    by chance.
    """
    sizes = {2**k for k in range(at_most.bit_length()) if 2**k <= at_most} | {size for size in own if size}
    verifier = builder.part(spec.verifier)
    if getattr(verifier, "plain_steps", False) or "target" in getattr(verifier, "provides", ()):
        sizes.add(0)
    named = {}
    for size in sorted(sizes):
        name = f"{spec.name}{',' if '@' in spec.name else '@'}block={size}"[-LONGEST:]
        named[size] = replace(spec, name=name, path=f"pipelines.{name}", block=size, where=spec.where)
    base = experiment.compared_with(spec.name) or named[min(named)].name
    twin = next((each for each in experiment.pipelines if each.name == base), None)
    if twin is not None and isinstance(twin.block, int) and _bare(twin) == _bare(spec):
        named[twin.block] = twin
    return [Candidate(spec.name, size, named[size], base) for size in sorted(named)]


def _bare(spec: PipelineSpec) -> PipelineSpec:
    """The spec without its name and its block."""
    return replace(spec, name="", where="", path="", block=None)


def refuse_other_tasks(experiment: Experiment, families: Sequence[Family], load_all: Workload) -> None:
    for family in families:
        of = [load_all.own_tasks.get(each) for made in family.candidates for each in (made.origin, made.base)]
        if any(each is not None for each in of):
            raise ConfigError(
                "its cells, or it and the baseline, have different tasks, so their costs cannot be compared; "
                "calibrate one of them at a time",
                path=f"pipelines.{family.name}",
            )


def identities_of(trying: Sequence[Candidate], executor: ComponentSpec) -> dict[str, Identified]:
    """What tells each candidate's parts from others, and what else its costs rest on; before anything is paid for.

    Raises:
        DraftVerifyError: a part cannot be built or opened, or cannot be told from others.
    """
    builder = Builder()
    found: dict[str, Identified] = {}
    for each in trying:
        if each.origin in found:
            continue
        with below(f"pipelines.{each.origin}", each.spec.where):
            pipeline: Pipeline = builder.pipeline(each.spec)
            with pipeline:
                parts = (pipeline.generator, pipeline.verifier, pipeline.rule)
                generator, verifier, rule = (PartIdentity(name_of(part), identity_of(part)) for part in parts)
                found[each.origin] = Identified(generator, verifier, rule, conditions_of(pipeline, executor))
    return found


def experiment_of(experiment: Experiment, trying: Sequence[Candidate], tasks: Sequence[Task]) -> Experiment:
    """The experiment of some candidates and what they are compared with, on some of the tasks."""
    made = {each.name: each.spec for each in trying}
    bases = {each.base for each in trying}
    own = [spec for spec in experiment.pipelines if spec.name in bases and spec.name not in made]
    specs = (*own, *made.values())
    cells = {
        name: changes for name, changes in experiment.cells.items() if name in {spec.name for spec in own}
    }
    for each in (each for each in trying if each.name not in experiment.names):
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
        "chosen": data_hash(tasks).sha256,
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


def data_hash(tasks: Sequence[Task]) -> DataHash:
    told = [
        [task.id, task.group, dict(task.input), dict(task.expected)]
        for task in sorted(tasks, key=lambda t: t.id)
    ]
    text = msgspec.json.encode(told, order="deterministic", enc_hook=repr)
    return DataHash(len(tasks), hashlib.sha256(text).hexdigest())
