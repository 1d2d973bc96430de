"""A run that answers nothing early, so that its records say what every threshold would have answered."""

from __future__ import annotations

import copy
from typing import Any

from msgspec.structs import replace

from draftverify.bench.config.parameters import threshold_of
from draftverify.bench.config.specs import ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.runner.build import Builder
from draftverify.errors import ConfigError
from draftverify.rejection import unasked
from draftverify.traits import BlockTraits, traits_of

UNREACHED = 1e308
"""A threshold that no score reaches; one that JSON can say."""


def complete(experiment: Experiment) -> Experiment:
    """The same experiment with thresholds that nothing reaches and no person at the end of a policy: every item of a
    block is judged, and the policy goes to its end.

    Raises:
        ConfigError: no rule is given a threshold; or what accepts nothing would draft otherwise than what accepts: a
            block that learns, a memory, a person who is asked before other steps.
    """
    if experiment.cells:
        raise ConfigError(
            "a matrix is not made complete; run one cell, with its values as --set", path="matrix"
        )
    if experiment.memory is not None:
        raise ConfigError(
            "of a run that accepts nothing nothing is remembered; leave memory out", path="memory"
        )
    judged = {
        spec.name: argument
        for spec in experiment.pipelines
        if (argument := threshold_of(spec.rule.target, ("threshold",))) in spec.rule.arguments
        and argument is not None
    }
    if not judged:
        raise ConfigError(
            "no pipeline's rule is given a threshold of scores, so every run is complete; write one, of any value",
            path="pipelines",
        )
    completed = {
        spec.name: _complete(spec, judged[spec.name]) for spec in experiment.pipelines if spec.name in judged
    }
    config: Any = copy.deepcopy(dict(experiment.config))
    for name, argument in judged.items():
        pipeline = config["pipelines"][name]
        pipeline.pop("monitor", None)
        pipeline["rule"] = {**pipeline["rule"], argument: UNREACHED}
        if clauses := pipeline.get("on_rejection"):
            pipeline["on_rejection"] = clauses[: len(completed[name].on_rejection)]
    return replace(
        experiment,
        config=config,
        pipelines=tuple(completed.get(spec.name, spec) for spec in experiment.pipelines),
    )


def _complete(spec: PipelineSpec, argument: str) -> PipelineSpec:
    """Raises: ConfigError: as `complete`."""
    if isinstance(spec.block, ComponentSpec) and traits_of(Builder().part(spec.block), BlockTraits).learns:
        raise ConfigError(
            f"{spec.block.use} learns from what is accepted, and of a run that accepts nothing it learns not to draft; "
            "give a number, or a fitted block",
            path=f"{spec.path}.block",
        )
    clauses = tuple(unasked(spec.on_rejection))
    inner = [
        part for part in (spec.generator, *(clause.generator for clause in clauses)) if _asks_person(part)
    ]
    if inner or any(clause.do == "escalate" for clause in clauses):
        raise ConfigError(
            "a person is asked before other steps, and what follows depends on her; put escalate last",
            path=f"{spec.path}.on_rejection",
        )
    rule = replace(spec.rule, arguments={**spec.rule.arguments, argument: UNREACHED})
    return replace(spec, rule=rule, on_rejection=clauses, monitor=None)


def _asks_person(part: Any) -> bool:
    """Whether it is a pipeline in which a person is asked."""
    if not isinstance(part, PipelineSpec):
        return False
    inner = (part.generator, *(clause.generator for clause in part.on_rejection))
    return any(clause.do == "escalate" for clause in part.on_rejection) or any(map(_asks_person, inner))
