"""Auditing the judge of a config, as `draftverify audit judge` does, and what reports say of pipelines with a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from draftverify.bench.config.specs import AuditSpec, ComponentSpec
from draftverify.bench.records.directory import versions
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.conditions import conditions_of
from draftverify.engine.parts import name_of
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, ResourceError, below
from draftverify.kit.audit import (
    Comparison,
    JudgeAudit,
    Planned,
    audit_judge,
    comparisons_of,
    find_audit,
    plan_labels,
)
from draftverify.values import EMPTY

__all__ = ["AUDITS", "audit_of", "marks_of", "plan_of"]

AUDITS = "audits"
"""The directory beside a config in which the audits of its judges lie."""

T = TypeVar("T")


def audit_of(spec: AuditSpec, watcher: Callable[[int], None] = lambda asked: None) -> JudgeAudit:
    """Open the judge, audit it, and close it.

    Args:
        spec: from `load_judge_audit`.
        watcher: told how many judgements have been asked for.

    Raises:
        DraftVerifyError: a part cannot be built or opened; or as of `audit_judge`.
    """
    return _with(spec, lambda judge, some: audit_judge(judge, some, probes=spec.probes, watcher=watcher))


def plan_of(spec: AuditSpec, width: float) -> list[Planned]:
    """How many labels intervals of this width need; the judge is asked about the labelled comparisons, as a pilot.

    Raises:
        DraftVerifyError: as of `audit_of`.
    """
    return _with(spec, lambda judge, some: plan_labels(width, some, judge))


def marks_of(
    pipeline: Pipeline, audits: str | Path, executor: ComponentSpec | None = None
) -> tuple[str, ...]:
    """What every report is to say of a pipeline: its own marks, how far its calibration, and those of pipelines that
    draft for it, can be taken, and of each model that judges in it how it was audited.

    Args:
        pipeline: built.
        audits: the directory in which audits are looked for.
        executor: what runs its tasks, where that is known.
    """
    judges = list(_judges(pipeline.verifier))
    told = [_audited(judge, audits) for judge in judges]
    if len(judges) > 1:
        told = [f"{name_of(judge)} {each}" for judge, each in zip(judges, told, strict=True)]
    return (*pipeline.marks, *_remarks(pipeline, executor), *told)


def _remarks(
    pipeline: Pipeline, executor: ComponentSpec | None, settings: Mapping[str, Any] = EMPTY, who: str = ""
) -> Iterator[str]:
    """Of the calibrations of a pipeline and of those within it, which inherit its settings."""
    if pipeline.calibration is not None:
        now = conditions_of(pipeline, executor, settings)
        yield from (f"{who}{each}" for each in pipeline.calibration.remarks(versions(), now))
    for each in pipeline.generators:
        if isinstance(each, Pipeline):
            yield from _remarks(each, executor, {**settings, **pipeline.settings}, f"{each.name}: ")


def _judges(verifier: Any) -> Iterator[Any]:
    """The verifiers in a verifier whose own word is a model's; one that gives distributions says no word."""
    if "target" in getattr(verifier, "provides", ()):
        return
    stages = getattr(verifier, "stages", None)
    if stages is not None:
        for each in stages:
            yield from _judges(each)
    elif getattr(verifier, "family", None) is not None:
        yield verifier


def _audited(judge: Any, audits: str | Path) -> str:
    try:
        found = find_audit(audits, judge)
    except (ConfigError, ResourceError):  # it cannot be told from others, so no audit is its own
        found = None
    return "unaudited" if found is None else found.mark


def _with(spec: AuditSpec, do: Callable[[Any, list[Comparison]], T]) -> T:
    builder = Builder()
    judge, source = builder.part(spec.judge), builder.part(spec.comparisons)
    with below("comparisons"):
        comparisons = comparisons_of(list(source.load())[: spec.limit])
    try:
        if (opens := getattr(judge, "open", None)) is not None:
            with below("judge"):
                opens()
        return do(judge, comparisons)
    finally:
        if (closes := getattr(judge, "close", None)) is not None:
            closes()
