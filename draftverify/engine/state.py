"""What a task has come to: a frozen state, and the one pure step that leads from a round to the next state.

A restored round comes through `State.after` as a fresh one does, so a task that is taken up again stands where it was.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from draftverify.randomness import Draws
from draftverify.rejection import Clause, Policy
from draftverify.values import (
    EMPTY,
    GIVEN,
    Candidate,
    Check,
    Context,
    Decision,
    Feedback,
    Held,
    Last,
    Law,
    Proposal,
    Round,
    Trail,
    Trouble,
    Verification,
)

__all__ = ["State", "holding", "is_open", "last_of", "refused_items", "troubles_of"]


class State(msgspec.Struct, frozen=True, eq=False, gc=False):
    """All that a task has come to by its last round.

    Args:
        context: what a generator is shown next; its draws are the next round's.
        policy: whose clauses the rounds' steps are.
        inherited: the feedback that an inner task was begun with.
        used: how often each clause was taken at this place; a round without trouble sets it back.
        fallback: the clause whose generator drafts now.
        left: for how many rounds more; None for good.
        candidate: the best refused one since a person last accepted.
        told: a person's word was taken and nothing was drafted and judged since: there is nothing new to ask about.
        seconds: latency so far. busy: machine seconds that the task answers for.
        passes: verifier calls. units: cost units.
    """

    context: Context
    policy: Policy
    inherited: tuple[Feedback, ...] = ()
    used: tuple[int, ...] = ()
    fallback: Clause | None = None
    left: int | None = None
    candidate: Candidate | None = None
    told: bool = False
    seconds: float = 0.0
    busy: float = 0.0
    passes: int = 0
    units: float = 0.0

    def after(self, round: Round, last: Last | None = None, accepted: Trail | None = None) -> State:
        """The state once `round` is over.

        Args:
            round: its record.
            last: the round with its arrays, for the one after; None to make it from the record.
            accepted: all that is accepted by now, where that was put together already.
        """
        decision, timing, before = round.decision, round.timing, self.context
        rounds = before.rounds.then((round,))
        if accepted is None:
            accepted = before.accepted.then(decision.emitted) if decision.emitted else before.accepted
        context = replace(
            before,
            accepted=accepted,
            rounds=rounds,
            last=last if last is not None else last_of(round),
            draws=Draws(before.draws.key, rounds.length),
            tries=before.tries + 1 if round.trouble else 0,
        )
        if round.held or decision.released:
            context = replace(context, held=holding(before.held, decision, round.held))
        state = replace(
            self,
            context=context,
            seconds=self.seconds + timing.draft + timing.verify + timing.decide,
            busy=self.busy + timing.busy,
            passes=self.passes + timing.passes,
            units=self.units + timing.units,
        )
        eventful = (
            round.trouble
            or decision.done
            or not decision.progress
            or round.source != "generator"
            or before.tries
            or before.refused
        )
        return state._after_trouble(round) if eventful else state

    def _after_trouble(self, round: Round) -> State:
        """What the policy has to remember of a round, and what its step wants the generator to see."""
        judged = round.items and round.failure is None
        candidate, fallback, left, told = self.candidate, self.fallback, self.left, self.told
        refused = self.context.refused  # still to be drafted, unless they were
        if round.source == "person" and candidate is not None:
            refused = _without(refused, candidate.value)
        elif judged or not round.trouble:
            refused = ()
        context = replace(self.context, feedback=self.inherited, refused=refused)
        if round.source == "person":
            told = told or not round.trouble or round.by == "person"
            candidate = candidate if round.trouble else None
        elif judged:
            told = False
        if left is not None and fallback is not None and round.source == fallback.name:
            left -= 1
            if left == 0:
                fallback = left = None
        used = (0,) * len(self.used)
        decided = round.decision
        if round.trouble or not decided.progress:
            candidate = _better(candidate, round)
        if round.trouble:
            used = self.counting(round.steps)
            clause = self.policy.clauses[round.steps[-1].clause] if round.steps else None
            if clause is not None and clause.do == "fallback":
                fallback, left = clause, clause.rounds
            if clause is not None and clause.do == "feedback":
                context = replace(context, feedback=self.inherited + _feedback_on(round))
            if clause is not None and clause.partial and judged:
                context = replace(context, refused=refused + refused_items(round))
        return replace(
            self, context=context, candidate=candidate, fallback=fallback, left=left, told=told, used=used
        )

    def counting(self, steps: tuple[msgspec.Struct, ...]) -> tuple[int, ...]:
        """`used`, with these steps."""
        used = list(self.used)
        for step in steps:
            used[step.clause] += 1  # type: ignore[attr-defined]
        return tuple(used)


def last_of(round: Round) -> Last | None:
    """A round as the next one is shown it, without arrays; None for one that came to no decision."""
    if round.failure is not None or (not round.timing.passes and round.by == "verifier"):
        return None
    proposal = Proposal(
        items=round.items,
        parents=round.parents,
        law=GIVEN if round.law == "given" else Law(round.law),
        extends=round.extends,
        exhausted=round.exhausted,
        nested=round.nested,
    )
    verification = Verification(
        checks=round.checks,
        correction=round.correction,
        deterministic=round.deterministic,
        notes=round.notes or EMPTY,
        by=round.by,
    )
    return Last(proposal, verification, round.decision)


def holding(before: tuple[Held, ...], decision: Decision, held: tuple[Held, ...]) -> tuple[Held, ...]:
    """What is held after a decision that held these items."""
    if decision.released:
        gone = set(decision.released)
        before = tuple([entry for index, entry in enumerate(before) if index not in gone])
    return before + held


_FAILED: tuple[Trouble, ...] = ("error", "timeout", "abstain")


def is_open(check: Check) -> bool:
    """Whether a check came to nothing and may be made again."""
    return check.verdict in _FAILED


def troubles_of(checks: tuple[Check, ...], decision: Decision) -> tuple[Trouble, ...]:
    """What stood in the way of items that did not make it, each kind once: failed checks first, since they may hide a
    pass."""
    taken = decision.taken
    verdicts = {check.verdict for index, check in enumerate(checks) if index not in taken}
    found: list[Trouble] = [kind for kind in _FAILED if kind in verdicts]
    return (*found, "reject") if "reject" in verdicts or decision.refused else tuple(found)


def refused_items(round: Round) -> tuple[object, ...]:
    """The values of a round's items that were judged, or should have been, and did not make it."""
    decision = round.decision
    taken = decision.taken
    refused = {each.index for each in decision.refused}
    open_ = {i for i, check in enumerate(round.checks) if is_open(check) or check.verdict == "reject"}
    return tuple(
        [item for i, item in enumerate(round.items) if i in refused or (i in open_ and i not in taken)]
    )


def _without(values: tuple[object, ...], gone: object) -> tuple[object, ...]:
    """The values without the last one equal to `gone`: of equals, a person is asked about the later one."""
    at = next((i for i in reversed(range(len(values))) if values[i] == gone), len(values))
    return values[:at] + values[at + 1 :]


def _better(best: Candidate | None, round: Round) -> Candidate | None:
    """The best refused candidate by now: the highest score, the later one of equals, and of a round without scores one
    of which nobody could tell rather than one that was rejected."""
    reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
    open_ = {index for index, check in enumerate(round.checks) if check.verdict == "abstain"}
    for index in sorted(range(len(round.items)), key=lambda index: index in open_):
        item = round.items[index]
        check = round.checks[index] if round.checks else None
        if index not in reasons and (check is None or check.verdict in ("unchecked", "pass")):
            continue
        score = check.score if check is not None else None
        if best is not None and best.score is not None and (score is None or score < best.score):
            continue
        reason = (check.reason if check is not None else "") or reasons.get(index, "")
        best = Candidate(item, score, reason, *((check.feedback, check.caveat) if check is not None else ()))
    return best


def _feedback_on(round: Round) -> tuple[Feedback, ...]:
    reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
    found = []
    for index, item in enumerate(round.items):
        check = round.checks[index] if round.checks else None
        if check is not None and check.verdict in ("reject", "abstain"):
            found.append(Feedback(item, check.reason or reasons.get(index, ""), check.feedback))
        elif index in reasons:
            found.append(Feedback(item, reasons[index], check.feedback if check is not None else ""))
    return tuple(found)
