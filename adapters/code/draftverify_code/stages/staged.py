"""Stages of code checking as one verifier: filters that may abstain, then the stages that are trusted.

A stage is a Verifier like any other, and how a block goes through stages is the framework's business
(`draftverify.verifiers`). What is special here is whose word stands (a filter with nothing to say lets an item
go on, and nothing passes that no trusted stage passed), and what the records keep of isolation and integrity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import permutations
from typing import Any

from msgspec.structs import replace

from draftverify import Check, ConfigError, Context, Proposal, Verifier
from draftverify.checks.verifiers import Combined, StagePass, Way, names_of, resting_on
from draftverify.protocols import Describes
from draftverify.traits import EvidenceKind, VerifierTraits, is_asynchronous, offers

TIERS = ("none", "landlock", "namespaces", "bubblewrap")
"""Isolation, from the weakest."""
INTEGRITIES = ("shared-process", "mixed", "separate-process", "static")
"""Integrity, from the weakest; a stage that runs nothing of the candidate does not weaken what others did."""
KNOWN = frozenset({"isolation", "integrity", "order", "skipped"})


class CodeStages(Combined):
    """Checks a block stage by stage; each stage is one pass over the items that every earlier one let through.

    The first word that is neither pass nor abstain is an item's check: a reject, an error and a timeout end its way. A
    filter (any stage before the trusted ones) that abstains has nothing against the item, which goes on. An item passes
    when no stage ended its way and a trusted one passed it; where all trusted stages abstained, its check is that
    abstention. Only the last stage stops early, at `context.enough`.

    A stage that raises is an error (a TimeoutError: a timeout) of the items that it was given; the others keep what was
    said of them. `notes` of the verification: "order", the stages' names; "skipped", those that abstained on all they
    were given; "isolation" and "integrity", the weakest of the stages that ran; "seconds" by stage; under "stages"
    whatever else a stage noted; and "heard", what each said, for replays.

    Args:
        stages: from cheap to dear.
        trusted: how many of the last ones are what counts.
        ask_all: whether a stage is also asked, for the record alone, about the items that are settled without it.
    """

    def __init__(self, stages: list[Verifier], trusted: int = 1, ask_all: bool = False) -> None:
        _check_stages(stages, trusted)
        super().__init__(stages, ask_all)
        self.trusted = trusted

    def orders(self) -> Iterator[tuple[int, ...]]:
        """Every order of any of the filters, before the trusted stages: those alone say what passes."""
        filters_count = len(self.stages) - self.trusted
        for count in range(filters_count, -1, -1):
            for filters in permutations(range(filters_count), count):
                yield (*filters, *range(filters_count, len(self.stages)))

    def provided(self, stages: Sequence[VerifierTraits]) -> Set[EvidenceKind]:
        """Verdicts; scores too where every trusted stage gives them; cross evidence where the only trusted one does."""
        declared = [stage.provides for stage in stages[-self.trusted :]]
        kinds: tuple[EvidenceKind, ...] = ("scores",) if self.trusted > 1 else ("scores", "cross")
        return {"verdicts", *(kind for kind in kinds if all(kind in provides for provides in declared))}

    def stands_outside(self, stages: Sequence[VerifierTraits]) -> bool:
        """Whether every trusted stage rests on no model; a filter may abstain, and then it let the item through."""
        return all(stage.stands_outside for stage in stages[-self.trusted :])

    def way(self, context: Context, proposal: Proposal) -> StagesWay:
        """A block before its first stage."""
        return StagesWay(proposal, context.enough, names_of(self.stages)[-self.trusted :])

    @property
    def describe(self) -> Callable[[Sequence[Any]], list[str]]:
        """As the last stage that describes values does it; else texts as they are."""
        described = [stage.describe for stage in self.stages if offers(stage, Describes)]
        return described[-1] if described else _texts


def _texts(values: Sequence[Any]) -> list[str]:
    return [str(value.get("text", value)) if isinstance(value, Mapping) else str(value) for value in values]


def _check_stages(stages: Sequence[Verifier], trusted: int) -> None:
    """Refuse stages that cannot be composed.

    Raises:
        ConfigError: there is none, fewer than are trusted, or one is asynchronous.
    """
    if not 1 <= trusted <= len(stages):
        raise ConfigError(
            f"of {len(stages)} stages {trusted} cannot be trusted; at least one is needed, the last"
        )
    for name, stage in zip(names_of(stages), stages, strict=True):
        if is_asynchronous(stage):
            raise ConfigError(f"the stage {name!r} is asynchronous; stages are called one after the other")


class StagesWay(Way):
    """A block on its way through filters and trusted stages.

    Args:
        proposal: the block.
        enough: how many passed items suffice.
        trusted: the names of the stages that are what counts.
    """

    def __init__(self, proposal: Proposal, enough: int | None, trusted: Collection[str]) -> None:
        super().__init__(proposal, enough)
        self.trusted = trusted
        self._ended: list[Check | None] = [None] * len(proposal)
        self._vouched: list[Check | None] = [None] * len(proposal)
        self._abstained: list[Check | None] = [None] * len(proposal)

    @property
    def open(self) -> list[int]:
        """The items whose way has not ended."""
        return [index for index, check in enumerate(self._ended) if check is None]

    def take(self, stage_pass: StagePass) -> None:
        """What the next stage said; of items whose way has ended already nothing is heard."""
        self.passes.append(stage_pass)
        trusted = stage_pass.stage in self.trusted
        for index, check in zip(stage_pass.indices, stage_pass.checks, strict=True):
            if self._ended[index] is not None:
                continue
            if check.verdict not in ("pass", "abstain"):
                self._ended[index] = check if stage_pass.verification is not None else _broken(check)
            elif trusted and check.verdict == "pass":
                self._vouched[index] = resting_on(check, self._vouched[index])
            elif trusted:
                self._abstained[index] = check

    @property
    def checks(self) -> tuple[Check, ...]:
        """Each item's check, once the trusted stages were heard."""
        verdicts = zip(self._ended, self._vouched, self._abstained, strict=True)
        return tuple(
            ended or vouched or abstained or Check("abstain") for ended, vouched, abstained in verdicts
        )

    def notes(self) -> dict[str, Any]:
        """The weakest isolation and integrity of the stages that ran, beside what any way has."""
        notes = super().notes()
        stage_notes = notes.pop("stages", {})
        weakest = {}
        for key, weakest_first in (("isolation", TIERS), ("integrity", INTEGRITIES)):
            values = [notes_of_stage[key] for notes_of_stage in stage_notes.values() if key in notes_of_stage]
            if values:
                weakest[key] = min(values, key=lambda value: _rank(value, weakest_first))
        remarks = {
            name: remark
            for name, notes_of_stage in stage_notes.items()
            if (remark := {key: notes_of_stage[key] for key in notes_of_stage if key not in KNOWN})
        }
        return {**weakest, **notes, **({"stages": remarks} if remarks else {})}


def _broken(check: Check) -> Check:
    """The check of an item whose stage failed, in the words of code checking."""
    late = check.verdict == "timeout"
    feedback = f"{'TimeoutError' if late else check.reason}: {check.feedback}"
    return replace(check, reason="wall" if late else "tool", feedback=feedback)


def _rank(value: Any, weakest_first: Sequence[str]) -> int:
    """What is not known is no stronger than the weakest."""
    return weakest_first.index(value) if value in weakest_first else -1
