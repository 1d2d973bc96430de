"""What a block of drafts comes to: what its acceptance lets expect, and where alternatives first passed."""

from __future__ import annotations

from draftverify.values import Round, TaskRecord


def geometric_progress(
    first_rate: float, later_rate: float, n: int, *, alternatives: bool = False
) -> list[float]:
    """Expected progress of blocks of 1 … n when all items but the first fare alike.

    Chain: expected accepted items, Σ_{k=1}^n a·b^{k−1}; with a = b = α and one spliced item that is Leviathan's
    (1 − α^{n+1}) / (1 − α). Alternatives: the chance of at least one, 1 − (1 − a)(1 − b)^{n−1}.

    Args:
        first_rate: a, the acceptance of the first item.
        later_rate: b, that of an item whose predecessors were accepted (alternatives: were all refused).

    References:
        Leviathan et al., 2211.17192.
    """
    progress = []
    total, reach = 0.0, first_rate
    for _ in range(n):
        total += reach
        progress.append(total)
        reach = (1.0 - total) * later_rate if alternatives else reach * later_rate
    return progress


def is_alternatives(entry: Round) -> bool:
    """Whether the block's items were alternatives (of one item nobody can tell)."""
    parents = entry.parents
    return len(parents) > 1 and parents[1] == -1 and all(parent == -1 for parent in parents)


def first_accepted(entry: Round) -> int:
    """The place of the first accepted item among those that were judged, from 1."""
    if not entry.checks:
        chosen = min(entry.decision.kept + entry.decision.held)
        return 1 + sum(refusal.index < chosen for refusal in entry.decision.refused)
    refused = {refusal.index for refusal in entry.decision.refused}
    judged = [i for i, check in enumerate(entry.checks) if check.verdict in ("pass", "reject")]
    return 1 + next(
        place for place, i in enumerate(judged) if entry.checks[i].verdict == "pass" and i not in refused
    )


def is_unjudged(record: TaskRecord) -> bool:
    """Whether nothing of a task was judged since checks failed, though it ended as if it had been."""
    tally = record.outcome.tally
    if record.outcome.status not in ("refused", "abstained") or tally.trials:
        return False
    return bool(tally.errors or tally.timeouts or any(round.failure is not None for round in record.rounds))
