"""What is asked of a pipeline's records: what made them, what differs, and whose recorded words stand for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from draftverify.checks.combined import Combined
from draftverify.engine.parts import Parts
from draftverify.errors import ConfigError
from draftverify.lab.replay.stages import Stages, differs_in_thresholds, stopped
from draftverify.stats.costs import known_costs
from draftverify.traits import DraftsFrom, GeneratorTraits, VerifierTraits, name_of, traits_of
from draftverify.values import TaskRecord

Change: TypeAlias = Literal["rule", "block", "done", "on_rejection", "budget", "verifier"]
CHANGES: tuple[Change, ...] = get_args(Change)
"""What a replay may set; the rest of a pipeline is what the log was made with."""

_CHECKS = frozenset({"verdicts", "scores"})


class ReplayQuestion:
    """A pipeline's records, and the change that a replay asks them about.

    Args:
        recorded: the pipeline that made the records.
        records: all of them; what blocks cost is fitted from them.
        pipeline: the same with something changed. Generators and verifiers are not called; a fallback that drafted
            in the records is the same object as in `recorded`.
        changed: what differs.
        drafts_from: of the generators that do not say what their drafts depend on, the caller's word for it.

    Attributes:
        costs: what blocks cost by their size; None where nothing was timed.
        answered: whether people answered in these records.
        asks: whether a generator or the verifier answers again for nothing.
        decided_alike: whether what is changed leaves it to the same rule to decide on the same block.
        undecidable: what the rule needs that no record holds.

    Raises:
        ConfigError: no record could answer it: a rule that needs evidence which is not recorded, a block size that
            learns as it goes, a verifier or a stage that said nothing in the records.
    """

    def __init__(
        self,
        recorded: Parts,
        records: Sequence[TaskRecord],
        pipeline: Parts,
        *,
        changed: frozenset[Change],
        drafts_from: DraftsFrom | None = None,
    ) -> None:
        self.recorded = recorded
        self.pipeline = pipeline
        self.changed = changed
        self._drafts_from = drafts_from
        self._parts = [recorded.generator]  # by their numbers in places
        for clause in recorded.policy.clauses:
            if clause.generator is not None and not any(clause.generator is part for part in self._parts):
                self._parts.append(clause.generator)
        verifier = (pipeline if "verifier" in changed else recorded).verifier
        judges = traits_of(verifier, VerifierTraits).free
        self.asks = judges or any(traits_of(part, GeneratorTraits).free for part in self._parts)
        unrecorded = pipeline.rule_traits.needs - _CHECKS
        self.decided_alike = not changed - {"on_rejection", "budget", "done"}
        if unrecorded and not self.decided_alike and not judges:
            raise ConfigError(
                f"the rule {name_of(pipeline.rule)} needs {', '.join(sorted(unrecorded))}, and the records hold checks "
                "alone; only changes of the policy, the budget and the stopping rule can be replayed for it; of "
                "tokens, another rule's or block's acceptance is estimated, with nothing else set beside them",
                path="rule",
            )
        self.undecidable = unrecorded
        if "block" in changed and pipeline.learns:
            raise ConfigError(
                f"the block {name_of(pipeline.block)} chooses by what it learns as it goes, which no record says; "
                "replay numbers",
                path="block",
            )
        self.costs = known_costs(records)
        self.answered = any(map(_answered, records))
        self.judging = RecordedVerifier(recorded, verifier, records)

    def number(self, part: Any) -> int | None:
        """The number of a generator; None for one that is in no record."""
        if part is self.pipeline.generator:
            return 0
        return next((place for place, generator in enumerate(self._parts) if generator is part), None)

    def source(self, name: str, pipeline: Parts) -> int | None:
        """The number of the generator that a round's source names."""
        if name == "generator":
            return 0
        clauses = pipeline.policy.clauses
        generators = (
            clause.generator for clause in clauses if clause.generator is not None and clause.name == name
        )
        return next((self.number(part) for part in generators), None)

    def part(self, number: int) -> Any:
        """The generator of a number."""
        return self._parts[number]

    def kind(self, number: int) -> DraftsFrom | None:
        """What a generator's drafts depend on; one that answers again shows it by its answers."""
        traits = traits_of(self._parts[number], GeneratorTraits)
        return traits.drafts_from or (None if traits.free else self._drafts_from)


def _answered(record: TaskRecord) -> bool:
    """Whether a person said something of a task."""
    steps = record.rounds[-1].steps if record.rounds else ()
    rejected = bool(steps) and steps[-1].do == "escalate" and record.outcome.status == "refused"
    return rejected or any(round.source == "person" for round in record.rounds)


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
