"""Auditing the judge of a config: what `draftverify audit judge` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from draftverify.audit import (
    Comparison,
    JudgeAudit,
    Planned,
    audit_judge,
    comparisons_of,
    plan_labels,
)
from draftverify.errors import below
from draftverify.experiments.build import Builder
from draftverify.experiments.specs import AuditSpec

__all__ = ["audit_of", "plan_of"]

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


def _with(spec: AuditSpec, do: Callable[[Any, list[Comparison]], T]) -> T:
    builder = Builder()
    judge, source = builder.part(spec.judge), builder.part(spec.comparisons)
    with below("comparisons"):
        comparisons = comparisons_of(source.load()[: spec.limit])
    try:
        if (opens := getattr(judge, "open", None)) is not None:
            with below("judge"):
                opens()
        return do(judge, comparisons)
    finally:
        if (closes := getattr(judge, "close", None)) is not None:
            closes()
