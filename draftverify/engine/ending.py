"""How a task ends: with which status, for which reason, and with what outcome."""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec.structs import astuple, replace

from draftverify.engine.failures import failure_of
from draftverify.engine.parts import Parts
from draftverify.engine.state import State
from draftverify.frozen import thaw
from draftverify.rejection.refusals import is_unjudged
from draftverify.traits import name_of
from draftverify.values import Choice, Failure, Outcome, Round, Status, Tally


class Ending(NamedTuple):
    """How a task ends, why, by which failed call, and whether a value is made of what it has."""

    status: Status
    reason: str = ""
    failure: Failure | None = None
    valued: bool = True


WAITING = Ending("waiting", "a person is asked", valued=False)

_WORDS = {
    "reject": "every candidate was refused",
    "error": "checks failed",
    "timeout": "checks timed out",
    "abstain": "the verifier could not tell",
    "exhausted": "the generator has nothing more to propose",
}


def ending_after(round: Round, parts: Parts, spent: str | None) -> Ending | None:
    """How a task ends with this round; None where it goes on.

    Args:
        round: the last one.
        parts: the pipeline's.
        spent: the budget that is spent by now, in words.
    """
    step, trouble, failure = round.steps[-1].do if round.steps else None, set(round.trouble), round.failure
    if round.decision.done:
        if not round.decision.abstain:
            return Ending("accepted")
        return Ending(
            "abstained", f"the rule {name_of(parts.rule)} says that there is no answer", valued=False
        )
    if not trouble or step not in (None, "reverify", "give_up"):
        return None
    status: Status = "refused"
    reason = "; ".join(_WORDS[kind] for kind in round.trouble)
    if failure is not None:
        status, reason = "failed", str(failure)
    elif spent is not None:
        reason = spent
    elif is_unjudged(round.trouble):
        failure = failure_of(next(check for check in round.checks if check.verdict in trouble))
        status, reason = "failed", f"{reason}: {failure}"
    elif trouble == {"abstain"} or (
        parts.rule_traits.abstains and trouble <= {"reject", "exhausted", "abstain"}
    ):
        status = "abstained"  # of a rule that may say so, nothing good and nothing left to try is an answer
    if step != "give_up" and parts.policy.clauses:
        reason += "; no policy step is left"
    return Ending(status, reason, failure)


def is_answered_by_none(round: Round, parts: Parts) -> bool:
    """Whether a task that is accepted with no value was answered by none: in this last round the stopping rule cut away
    all that the rule kept, or ended a chain that had nothing to draft from the first."""
    decision = round.decision
    if decision.kept or decision.corrected or decision.spliced:
        return True
    return "chain" in (parts.rule_traits.shapes or ()) and round.index == 0 and not round.items


def outcome_of(state: State, ending: Ending, choice: Choice | None, *, is_inner: bool) -> Outcome:
    """The outcome of a task.

    Args:
        state: the last one.
        ending: how it ends.
        choice: its value; None for none.
        is_inner: whether other parts read the outcome too; else its value is the caller's, who may change it.
    """
    (status, reason, failure, _), rounds = ending, state.context.rounds
    if status == "accepted" and choice is None:
        status = "abstained"
        reason = reason or (
            "no answer came of what was held" if state.context.held else "nothing was accepted"
        )
    value, score, support, margin, note = astuple(choice) if choice is not None else (*(None,) * 4, "")
    drifts = [share for round in rounds for share in round.decision.drift]
    refused = state.candidate if status != "accepted" else None
    if refused is not None and not refused.judged:
        refused = None
    if not is_inner:
        value = thaw(value)
        refused = refused and replace(refused, value=thaw(refused.value))
    return Outcome(
        status=status,
        value=value,
        score=score,
        support=support,
        margin=margin,
        reason="; ".join(filter(None, (reason, note))),
        refused=refused,
        failure=failure,
        rounds=rounds.length,
        tally=Tally.total([round.tally for round in rounds]),
        drift=math.fsum(drifts) if drifts else None,
        seconds=state.seconds,
        cost=state.cost,
    )
