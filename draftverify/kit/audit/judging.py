"""The config of `draftverify audit judge`: its keys, and its judge opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from pydantic import Field

from draftverify.bench.config.forms import Keyed
from draftverify.bench.config.parameters import Component, Model, Record
from draftverify.bench.config.specs import ComponentSpec
from draftverify.bench.runner.build import Builder
from draftverify.errors import below
from draftverify.kit.audit import PROBES, AnswerComparison, ProbeName, comparisons_of
from draftverify.protocols import Closes, Opens
from draftverify.traits import offers


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


@contextmanager
def opened(spec: AuditSpec) -> Iterator[tuple[Any, list[AnswerComparison]]]:
    """The judge of a config, open, and the comparisons.

    Raises:
        DraftVerifyError: a part cannot be built or opened; or as of `comparisons_of`.
    """
    builder = Builder()
    judge, source = builder.part(spec.judge), builder.part(spec.comparisons)
    with below("comparisons"):
        comparisons = comparisons_of(list(source.load())[: spec.limit], judge)
    try:
        if offers(judge, Opens):
            with below("judge"):
                judge.open()
        yield judge, comparisons
    finally:
        if offers(judge, Closes):
            judge.close()
