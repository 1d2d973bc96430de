"""What every report says of a pipeline beside its figures: that it checks itself, what weakens its operating point, and
what packages add by an entry point of the group `draftverify.marks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from draftverify.bench.artifact import FittedBlock
from draftverify.bench.config.specs import ComponentSpec
from draftverify.bench.records.about import versions
from draftverify.bench.runner.conditions import conditions_of
from draftverify.checks.families import shared_families
from draftverify.engine.failures import raised
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import DraftVerifyError
from draftverify.plugins import MARKS, Plugin, hooks
from draftverify.values import EMPTY

AUDITS = "audits"
"""The directory beside a config in which the audits of its judges lie."""


def marks_of(
    pipeline: Pipeline, audits: str | Path, executor: ComponentSpec | None = None
) -> tuple[str, ...]:
    """The marks of a pipeline, a phrase each.

    Args:
        pipeline: built.
        audits: the directory in which audits are looked for.
        executor: what runs its tasks, where that is known.
    """
    families = shared_families(pipeline)
    itself = (f"checks itself (family {', '.join(families)})",) if families else ()
    joined_marks = [mark for hook in hooks(MARKS) for mark in _marks_by(hook, pipeline, audits)]
    return (*itself, *_remarks(pipeline, executor), *joined_marks)


def _marks_by(hook: Plugin, pipeline: Pipeline, audits: str | Path) -> tuple[str, ...]:
    """What a package says of a pipeline; where it cannot, that: a run does not end by it, and it is not left out."""
    try:
        marks = hook.load()
    except DraftVerifyError as error:
        return (str(error).splitlines()[0],)
    try:
        return tuple(marks(pipeline, audits))
    except DraftVerifyError:  # an audit that cannot be read is the user's to mend
        raise
    except Exception as error:
        return (f"the marks {hook.name!r} of {hook.package} failed: {raised(error)}",)


def _remarks(
    pipeline: Pipeline, executor: ComponentSpec | None, settings: Mapping[str, Any] = EMPTY, prefix: str = ""
) -> Iterator[str]:
    """The remarks of the operating points of a pipeline and of those within it, which inherit its settings."""
    if isinstance(pipeline.block, FittedBlock):
        conditions = conditions_of(pipeline, executor, settings)
        yield from (f"{prefix}{remark}" for remark in pipeline.block.point.remarks(versions(), conditions))
    for generator in pipeline.generators:
        if isinstance(generator, Pipeline):
            inherited = {**settings, **pipeline.settings}
            yield from _remarks(generator, executor, inherited, f"{generator.name}: ")
