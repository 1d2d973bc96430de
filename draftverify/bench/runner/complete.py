"""A run that answers nothing early, so that its records say what every threshold would have answered."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from draftverify.bench.config.parameters import threshold_of
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.errors import ConfigError

__all__ = ["UNREACHED", "complete"]

UNREACHED = 1e308
"""A threshold that no score reaches; one that JSON can say."""


def complete(experiment: Experiment) -> Experiment:
    """The same experiment with thresholds that nothing reaches and nobody asked at the end: every item of a block is
    judged, and the policy goes to its end.

    Raises:
        ConfigError: no pipeline's rule has a threshold, or pipelines stand in a matrix.
    """
    if experiment.cells:
        raise ConfigError(
            "a matrix is not made complete; run one cell, with its values as --set", path="matrix"
        )
    arguments = {spec.name: threshold_of(spec.rule.target) for spec in experiment.pipelines}
    judged = {name: argument for name, argument in arguments.items() if argument is not None}
    if not judged:
        raise ConfigError("no pipeline's rule has a threshold, so every run is complete", path="pipelines")
    config: Any = copy.deepcopy(dict(experiment.config))
    for name, argument in judged.items():
        pipeline = config["pipelines"][name]
        pipeline["rule"] = {**pipeline["rule"], argument: UNREACHED}
        if "on_rejection" in pipeline:
            pipeline["on_rejection"] = [
                each for each in pipeline["on_rejection"] if _step(each) != "escalate"
            ]
    return replace(
        experiment,
        config=config,
        pipelines=tuple(
            _complete(spec, judged[spec.name]) if spec.name in judged else spec
            for spec in experiment.pipelines
        ),
    )


def _complete(spec: PipelineSpec, argument: str) -> PipelineSpec:
    rule = replace(spec.rule, arguments={**spec.rule.arguments, argument: UNREACHED})
    clauses = tuple(clause for clause in spec.on_rejection if clause.do != "escalate")
    return replace(spec, rule=rule, on_rejection=clauses, monitor=None)


def _step(clause: Any) -> Any:
    """What a clause does, as the config writes it."""
    return clause.get("do") if isinstance(clause, Mapping) else clause
