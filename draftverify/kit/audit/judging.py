"""Auditing the judge of a config, as `draftverify audit judge` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import msgspec
from pydantic import Field

from draftverify.bench.config.experiment import load_form
from draftverify.bench.config.forms import Keyed
from draftverify.bench.config.parameters import Component, Model, Record
from draftverify.bench.config.specs import ComponentSpec
from draftverify.bench.runner.build import Builder
from draftverify.errors import below
from draftverify.kit.audit import (
    PROBES,
    AnswerComparison,
    JudgeAudit,
    LabelPlan,
    ProbeName,
    audit_judge,
    comparisons_of,
    plan_labels,
)
from draftverify.protocols import Closes, Opens
from draftverify.traits import offers

T = TypeVar("T")


class AuditSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The config of a judge's audit.

    Args:
        judge: the verifier that is audited.
        comparisons: the tasks that are read as comparisons.
        probes: by name, in order.
        limit: at most so many comparisons, the first.
    """

    judge: ComponentSpec
    comparisons: ComponentSpec
    probes: tuple[ProbeName, ...] = tuple(PROBES)
    limit: int | None = None


def judge_audit(
    judge: Annotated[Any, Component("verifier")],
    comparisons: Annotated[Any, Component("tasks")],
    probes: list[ProbeName] = [],  # noqa: B006 - the signature is read, and never called
    limit: Annotated[int, Field(ge=1)] | None = None,
    parts: tuple[str, ...] = (),
    models: Annotated[Any, Keyed(Model("model"), names=True)] = None,
) -> None:
    """The audit of a judge.

    Args:
        judge: a judge, or any verifier that gives scores.
        comparisons: tasks with `question`, `first` and `second`, whose `expected` are labels: first, second or tie.
        probes: these alone; all when absent.
        limit: the first so many comparisons; all when absent.
        parts: as of an experiment.
        models: as of an experiment.
    """


def _judge_audit(models: object = None, parts: object = None, **fields: Any) -> AuditSpec:
    if "probes" in fields:
        fields["probes"] = tuple(fields["probes"])
    return AuditSpec(**fields)


AUDIT = Record(judge_audit, _judge_audit)


def load_judge_audit(
    file: str | os.PathLike[str], *, overrides: Iterable[str] = (), limit: int | None = None
) -> AuditSpec:
    """Read and check the config of a judge's audit: `judge`, `comparisons`, `probes`, and `models` and `parts`.

    Args:
        file, overrides: as for an experiment.
        limit: at most so many comparisons, as after `--limit`.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    spec: AuditSpec = load_form(AUDIT, file, overrides=overrides, limit=limit)
    return spec


def audit_of(spec: AuditSpec, watcher: Callable[[int], None] = lambda count: None) -> JudgeAudit:
    """Open the judge, audit it, and close it.

    Args:
        spec: from `load_judge_audit`.
        watcher: told how many judgements have been asked for.

    Raises:
        DraftVerifyError: a part cannot be built or opened; or as of `audit_judge`.
    """
    return _with(
        spec, lambda judge, comparisons: audit_judge(judge, comparisons, probes=spec.probes, watcher=watcher)
    )


def plan_of(spec: AuditSpec, width: float) -> list[LabelPlan]:
    """How many labels intervals of this width need; the judge is asked about the labelled comparisons, as a pilot.

    Raises:
        DraftVerifyError: as of `audit_of`.
    """
    return _with(spec, lambda judge, comparisons: plan_labels(width, comparisons, judge))


def _with(spec: AuditSpec, do: Callable[[Any, list[AnswerComparison]], T]) -> T:
    builder = Builder()
    judge, source = builder.part(spec.judge), builder.part(spec.comparisons)
    with below("comparisons"):
        comparisons = comparisons_of(list(source.load())[: spec.limit], judge)
    try:
        if offers(judge, Opens):
            with below("judge"):
                judge.open()
        return do(judge, comparisons)
    finally:
        if offers(judge, Closes):
            judge.close()
