"""What stood in the way of a round's items: troubles, what feedback tells, and the candidate that a person is shown."""

from __future__ import annotations

from typing import Any, NamedTuple

from draftverify.values import UNCHECKED, Candidate, Check, Decision, Feedback, Round, Trouble

_OPEN: tuple[Trouble, ...] = ("error", "timeout", "abstain")


def is_open(check: Check) -> bool:
    """Whether a check came to nothing and may be made again."""
    return check.verdict in _OPEN


def is_unjudged(troubles: tuple[Trouble, ...]) -> bool:
    """Whether calls and checks that failed are all that stood in the way."""
    return set(troubles) <= {"error", "timeout"}


def troubles_of(checks: tuple[Check, ...], decision: Decision) -> tuple[Trouble, ...]:
    """What stood in the way of items that did not make it, each kind once: failed checks first, since they may hide a
    pass."""
    chosen = decision.taken
    verdicts = {check.verdict for index, check in enumerate(checks) if index not in chosen}
    troubles: list[Trouble] = [kind for kind in _OPEN if kind in verdicts]
    return (*troubles, "reject") if "reject" in verdicts or decision.refused else tuple(troubles)


class _Judged(NamedTuple):
    """What a round came to on one item.

    Attributes:
        item: its value.
        check: the verifier's word; of a call that failed as a whole, an error with the failure's words.
        reason: the rule's, for refusing it; None where it did not.
        refused: whether it was judged, or should have been, and did not make it.
    """

    item: Any
    check: Check
    reason: str | None
    refused: bool


def _judged(round: Round) -> list[_Judged]:
    """What a round came to, item by item."""
    reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
    chosen, failure, checks = round.decision.taken, round.failure, round.checks
    if not checks:
        check = UNCHECKED if failure is None else Check("error", None, failure.error, failure.message)
        checks = (check,) * len(round.items)
    entries = []
    for index, (item, check) in enumerate(zip(round.items, checks, strict=True)):
        refused = index in reasons or (check.verdict not in ("pass", "unchecked") and index not in chosen)
        entries.append(_Judged(item, check, reasons.get(index), refused))
    return entries


def refused_items(round: Round) -> tuple[Any, ...]:
    """The values of a round's items that were judged, or should have been, and did not make it."""
    return tuple([entry.item for entry in _judged(round) if entry.refused])


def feedback_on(round: Round) -> tuple[Feedback, ...]:
    """What is told of the items that the verifier rejected, or could not judge, and of those that the rule refused."""
    feedback = []
    for item, check, reason, _ in _judged(round):
        if check.verdict in ("reject", "abstain"):
            feedback.append(Feedback(item, check.reason or reason or "", check.feedback))
        elif reason is not None:
            feedback.append(Feedback(item, reason, check.feedback))
    return tuple(feedback)


def best_candidate(best: Candidate | None, round: Round, answered: tuple[Any, ...]) -> Candidate | None:
    """The best refused candidate of those of a round and the best one before it: one that no person has answered for,
    one that was judged before one whose check failed, one with a score before one without, the highest score, the later
    one; of a round, those of which nobody could tell are the later ones."""
    candidates = [best] if best is not None else []
    refused = [entry for entry in _judged(round) if entry.refused]
    for item, check, reason, _ in sorted(refused, key=lambda entry: entry.check.verdict == "abstain"):
        is_judged = reason is not None or check.verdict in ("reject", "abstain")
        texts = (check.reason or reason or "", check.feedback, check.caveat)
        candidates.append(Candidate(item, check.score, *texts, is_judged))

    def rank(candidate: Candidate) -> tuple[bool, bool, bool, float]:
        is_new = not is_among(candidate.value, answered)
        return is_new, candidate.judged, candidate.score is not None, candidate.score or 0.0

    return max(reversed(candidates), key=rank, default=None)


def _is_equal(item: object, value: object) -> bool:
    """Whether two items are equal, as far as they can tell: arrays and odd objects may not."""
    try:
        return item is value or bool(item == value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False


def is_among(value: object, values: tuple[object, ...]) -> bool:
    """Whether an item is equal to one of these."""
    return any(_is_equal(value, item) for item in values)


def without(values: tuple[object, ...], value: object) -> tuple[object, ...]:
    """The values without the last one equal to `value`: of equals, a person is asked about the later one."""
    place = next((i for i in reversed(range(len(values))) if _is_equal(values[i], value)), len(values))
    return values[:place] + values[place + 1 :]
