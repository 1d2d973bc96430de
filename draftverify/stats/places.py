"""Acceptance by place: by an item's position in its block, and by the verifier's stage that had the last word on it.

A trial is one judged item, as in `tally`, so that the places' trials sum to those of the acceptance rate. Blocks end at
their first refusal: the rate at a position is that of the items that came so far, not of all that were drafted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from draftverify.stats.acceptance import drafted_rounds
from draftverify.stats.intervals import Estimate, rate
from draftverify.values import Check, Round, TaskRecord


class StageCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage of a verifier did with the items that came to it.

    Args:
        stage: its name.
        reached: items that it was asked about.
        passed, rejected, errors, timeouts, abstentions: of these, those on which its word was the last.
        handed_on: the others, on which a later stage had the last word.
        rate: those that it let through, of those that it judged, clustered by task.
        seconds: that it took, where the verifier noted it.
    """

    stage: str
    reached: int
    passed: int
    rejected: int
    errors: int
    timeouts: int
    abstentions: int
    handed_on: int
    rate: Estimate
    seconds: float | None = None


def position_trials(round: Round) -> Iterator[tuple[int, bool]]:
    """The trials of a round: each one's position, and whether it was accepted.

    The position is the depth of a chain's or a tree's item, from 0, and the place of an alternative among the others.
    """
    flat = len(round.parents) > 1 and all(parent == -1 for parent in round.parents)
    depth: list[int] = []
    for index, parent in enumerate(round.parents):
        depth.append(index if flat else depth[parent] + 1 if parent >= 0 else 0)
    return ((depth[index], accepted) for index, accepted in trials(round))


def trials(round: Round) -> Iterator[tuple[int, bool]]:
    """The trials of a round: the place of each judged item among its items, and whether it was accepted."""
    refused = {refusal.index for refusal in round.decision.refused}
    if round.checks:
        for index, check in enumerate(round.checks):
            if check.verdict in ("pass", "reject"):
                yield index, check.verdict == "pass" and index not in refused
        return
    for index in (*round.decision.kept, *round.decision.held):
        yield index, True
    for index in refused:
        yield index, False


class Places:
    """Counts of one pipeline's trials by place, record after record, so that no record has to be kept.

    Only rounds that count for the acceptance rate do: first tries of the pipeline's own generator.

    Examples:
        >>> places = Places()
        >>> for record in ():
        ...     places.add(record)
        >>> places.by_position()
        {}
    """

    def __init__(self) -> None:
        self._positions: dict[int, tuple[Counter[str], Counter[str]]] = {}  # accepted, and trials, by task
        self._words: dict[str, dict[str, Counter[str]]] = {}  # stage, verdict, task
        self._order: list[str] = []
        self._seconds: dict[str, float] = {}

    def add(self, record: TaskRecord) -> None:
        """Count a record's rounds."""
        for round in drafted_rounds(record):
            for position, accepted in position_trials(round):
                counts = self._positions.setdefault(position, (Counter(), Counter()))
                counts[0][record.task] += accepted
                counts[1][record.task] += 1
            if round.by == "verifier":
                self._add_stages(record.task, round.checks, round.notes or {})

    def by_position(self) -> dict[int, Estimate]:
        """Accepted / trials at each position that had any, each task one cluster."""
        return {position: _rate(*counts) for position, counts in sorted(self._positions.items())}

    def by_stage(self) -> list[StageCounts]:
        """The stages in their order; [] where the verifier named none.

        What a stage hands on counts as let through, as of stages that must all pass an item; where the stages before
        the last pass items and refuse none, one is enough, and what they hand on are those that they would not pass.
        """
        order = self._order
        earlier = [self._words.get(stage, {}) for stage in order[:-1]]
        # Of stages that must all pass an item the early ones refuse; of those of which one is enough they only pass.
        early = {kind for verdicts in earlier for kind, of_task in verdicts.items() if of_task}
        either = "pass" in early and "reject" not in early
        stages = []
        for place, stage in enumerate(order):
            later: Counter[str] = Counter()
            for next_stage in order[place + 1 :]:
                for of_task in self._words.get(next_stage, {}).values():
                    later.update(of_task)
            verdicts = self._words.get(stage, {})
            passed, rejected = verdicts.get("pass", Counter()), verdicts.get("reject", Counter())
            counts = Counter({kind: of_task.total() for kind, of_task in verdicts.items()})
            stages.append(
                StageCounts(
                    stage=stage,
                    reached=counts.total() + later.total(),
                    passed=counts["pass"],
                    rejected=counts["reject"],
                    errors=counts["error"],
                    timeouts=counts["timeout"],
                    abstentions=counts["abstain"],
                    handed_on=later.total(),
                    rate=_rate(passed if either else passed + later, passed + later + rejected),
                    seconds=self._seconds.get(stage),
                )
            )
        return stages

    def _add_stages(self, task: str, checks: Iterable[Check], notes: Mapping[str, Any]) -> None:
        named = [check for check in checks if check.stage and check.verdict != "unchecked"]
        if not named:
            return
        noted = notes.get("order")
        order = [name for name in noted if isinstance(name, str)] if isinstance(noted, list) else []
        for stage in (*order, *(check.stage for check in named)):
            if stage not in self._order:
                self._order.append(stage)
        for check in named:
            self._words.setdefault(check.stage, {}).setdefault(check.verdict, Counter())[task] += 1
        seconds = notes.get("seconds")
        for stage, took in seconds.items() if isinstance(seconds, dict) else ():
            if isinstance(took, (int, float)):
                self._seconds[stage] = self._seconds.get(stage, 0.0) + took


def _rate(accepted: Counter[str], trials: Counter[str]) -> Estimate:
    return rate([accepted[task] for task in trials], list(trials.values()))
