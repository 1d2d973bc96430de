"""What is asked of a pipeline's records: what made them, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from draftverify.engine.parts import Parts
from draftverify.errors import ConfigError
from draftverify.lab.replay.judging import RecordedVerifier
from draftverify.stats.costs import CostModel, fit_costs
from draftverify.traits import DraftsFrom, GeneratorTraits, VerifierTraits, name_of, traits_of
from draftverify.values import TaskRecord

__all__ = ["CHANGES", "ReplayQuestion", "Change", "DraftsFrom"]

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
        self.costs = _fitted(records)
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


def _fitted(records: Sequence[TaskRecord]) -> CostModel | None:
    try:
        return fit_costs(records)
    except ConfigError:
        return None  # no round was timed
