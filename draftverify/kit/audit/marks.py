"""What reports say of the models that judge in a pipeline: how each was audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftverify.checks.combined import Combined
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, ResourceError
from draftverify.kit.audit.judge_audit import find_audit
from draftverify.traits import VerifierTraits, name_of, traits_of


def judge_marks(pipeline: Pipeline, audits: str | Path) -> list[str]:
    """A phrase for each model whose word counts in the pipeline's verifier.

    Args:
        pipeline: built.
        audits: the directory in which audits are looked for.
    """
    judges = list(_judges(pipeline.verifier))
    marks = [_audited(judge, audits) for judge in judges]
    if len(judges) < 2:
        return marks
    return [f"{name_of(judge)} {mark}" for judge, mark in zip(judges, marks, strict=True)]


def _judges(verifier: Any) -> Iterator[Any]:
    """The verifiers in a verifier whose own word is a model's; one that gives distributions has none."""
    traits = traits_of(verifier, VerifierTraits)
    if "target" in traits.provides:
        return
    if isinstance(verifier, Combined):
        for stage in verifier.stages:
            yield from _judges(stage)
    elif traits.families:
        yield verifier


def _audited(judge: Any, audits: str | Path) -> str:
    try:
        audit = find_audit(audits, judge)
    except (ConfigError, ResourceError):  # it cannot be told from others, so no audit is its own
        audit = None
    return "unaudited" if audit is None else audit.mark
