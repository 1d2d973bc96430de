"""Whose recorded words stand for those of a verifier, and how it went about its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from draftverify.checks.combined import Combined
from draftverify.engine.parts import Parts
from draftverify.errors import ConfigError
from draftverify.lab.replay.stages import Stages, differs_in_thresholds, stopped
from draftverify.traits import VerifierTraits, name_of, traits_of
from draftverify.values import TaskRecord

__all__ = ["RecordedVerifier", "Source"]


class Source(NamedTuple):
    """The recorded checks that stand for a verifier's: those of the stage of this name, or with "" of the whole
    verifier; and whether they are read with other thresholds."""

    stage: str
    rejudged: bool


class RecordedVerifier:
    """How the records answer for a verifier.

    Args:
        recorded: the pipeline that made the records.
        verifier: the one that is asked about.
        records: all of them.

    Attributes:
        whole_source: whose words stand for the whole of it; None where they are put together from the stages'.
        staged: whether they can be put together from the stages'.
        stops: whether it leaves items unchecked once enough passed; None where no record shows it.

    Raises:
        ConfigError: it, or a stage of it, is in no record.
    """

    def __init__(self, recorded: Parts, verifier: Any, records: Sequence[TaskRecord]) -> None:
        self.enough = recorded.enough
        self.verifier = verifier
        self.stages = Stages(recorded.verifier, records)
        self.stops = _stops_early(recorded, records)
        self.corrects = any(round.correction for record in records for round in record.rounds)
        parts = {"": recorded.verifier, **self.stages.parts}
        stages = verifier.stages if isinstance(verifier, Combined) else ()
        self._sources = {
            id(verifier_part): _source(verifier_part, parts) for verifier_part in (verifier, *stages)
        }
        self.staged = bool(stages) and all(self._answers(stage) for stage in stages)
        source = self.source(verifier)
        self.whole_source = source if source is not None and not source.stage else None
        if self.whole_source is None and not self.staged and not _is_free(verifier):
            part = next((stage for stage in stages if not self._answers(stage)), verifier)
            raise ConfigError(
                f"{name_of(part)}, as it is configured here, said nothing in these records; a replay can put recorded "
                "stages into another order, leave some out, and read scores with other thresholds where a verifier "
                "says how (`rejudged`)",
                path="verifier",
            )

    def _answers(self, part: Any) -> bool:
        return self.source(part) is not None or _is_free(part)

    def source(self, part: Any) -> Source | None:
        """The recorded checks that stand for a verifier or a stage; None where there are none."""
        return self._sources[id(part)]


def _is_free(part: Any) -> bool:
    return traits_of(part, VerifierTraits).free


def _source(part: Any, parts: Mapping[str, Any]) -> Source | None:
    for stage, recorded in parts.items():
        if part is recorded:
            return Source(stage, False)
    return next(
        (Source(name, True) for name, recorded in parts.items() if differs_in_thresholds(part, recorded)),
        None,
    )


def _stops_early(recorded: Parts, records: Sequence[TaskRecord]) -> bool | None:
    """Whether the verifier left items unchecked once enough passed; None where no record shows it."""
    if recorded.enough is None:
        return None
    for record in records:
        for round in record.rounds:
            checks = round.checks if round.by == "verifier" else ()
            stops = stopped(dict(enumerate(checks)), round.parents, recorded.enough)
            if stops is not None:
                return stops
    return None
