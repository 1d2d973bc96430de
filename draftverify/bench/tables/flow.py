"""What was refused where, what the pipeline did about it, and how the task ended: counts of refused items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from draftverify.values import Round, TaskRecord

MOST = 8
"""Places and reasons that are shown by name; the others are pooled."""
SHORT = 48


class Flow:
    """Refused items of one pipeline, by (where, what followed, how the task ended)."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, record: TaskRecord) -> None:
        """Count a record's refused items; those of records inside it are its drafter's own business."""
        for round in record.rounds:
            for where, consequence in _refusals(round):
                self._counts[where, consequence, record.outcome.status] += 1

    def plain(self) -> list[dict[str, Any]]:
        """Rows [{"where", "then", "ended", "items"}], the frequent ones first."""
        of_where = Counter[str]()
        for (where, _, _), count in self._counts.items():
            of_where[where] += count
        named = {where for where, _ in of_where.most_common(MOST)}
        pooled: Counter[tuple[str, str, str]] = Counter()
        for (where, consequence, ended), count in self._counts.items():
            pooled[where if where in named else "other reasons", consequence, ended] += count
        return [
            {"where": where, "then": consequence, "ended": ended, "items": count}
            for (where, consequence, ended), count in pooled.most_common()
        ]


def _refusals(round: Round) -> Iterator[tuple[str, str]]:
    """(where, what followed) of each refused item of a round, and of a call that failed as a whole."""
    decision = round.decision
    if round.failure is not None:
        yield f"call failed: {round.failure.error}"[:SHORT], _then(round)
        return
    corrected = {correction.index for correction in decision.corrected}
    refused = {refusal.index: refusal.reason for refusal in decision.refused}
    for index in range(len(round.items)):
        check = round.checks[index] if round.checks else None
        judged = check is not None and check.verdict not in ("pass", "unchecked")
        if check is not None and judged:
            reason = check.reason if check.verdict == "reject" and check.reason else check.verdict
            where = f"{check.stage}: {reason}" if check.stage else reason
        elif index in refused:
            where = f"rule: {refused[index]}" if refused[index] else "rule"
        else:
            continue
        if index in corrected:
            yield where[:SHORT], "corrected in its place"
        elif index in decision.kept or index in decision.held:
            continue
        else:
            yield where[:SHORT], _then(round)


def _then(round: Round) -> str:
    """What followed a round in which something was refused, in words."""
    if round.steps:
        return f"policy: {round.steps[-1].do.replace('_', ' ')}"
    decision = round.decision
    if decision.spliced:
        return "verifier's own in its place"
    if decision.kept or decision.held or decision.corrected:
        return "others were kept"
    return "nothing was left"
