"""What a task has come to: a frozen state, and the one pure step that leads from a round to the next state.

A restored round comes through `State.after` as a fresh one does, so a task that is taken up again stands where it was.
"""

from __future__ import annotations

from typing import Any

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
    Step,
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
        candidate: the best item that was refused since a person last answered.
        answered: the values that a person has answered for since a value was accepted.
        heard: a person has answered, and nothing was drafted and judged since.
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
    answered: tuple[Any, ...] = ()
    heard: bool = False
    seconds: float = 0.0
    busy: float = 0.0
    passes: int = 0
    units: float = 0.0

    def after(self, round: Round) -> State:
        """The state once `round` is over: nothing but the record of it counts."""
        decision, timing, before = round.decision, round.timing, self.context
        rounds = before.rounds.then((round,))
        context = replace(
            before,
            accepted=before.accepted.then(decision.emitted) if decision.emitted else before.accepted,
            rounds=rounds,
            last=last_of(round),
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
            or not (decision.kept or decision.spliced or decision.progress)
            or round.source != "generator"
            or before.tries
            or before.refused
            or self.heard
            or self.answered
        )
        return state._after_trouble(round) if eventful else state

    def showing(self, proposal: Proposal, verification: Verification) -> State:
        """The state in which the next round is shown the arrays of the last one, which no record holds."""
        last = self.context.last
        if last is None:
            return self
        shown = Last(
            replace(last.proposal, law=proposal.law, evidence=proposal.evidence),
            replace(last.verification, evidence=verification.evidence),
            last.decision,
        )
        return replace(self, context=replace(self.context, last=shown))

    def is_askable(self, round: Round) -> bool:
        """Whether a person could be told anything new once `round` is over."""
        candidate, answered, heard = self._question_after(round)
        return not heard if candidate is None else not _is_among(candidate.value, answered)

    def _question_after(self, round: Round) -> tuple[Candidate | None, tuple[Any, ...], bool]:
        """`candidate`, `answered` and `heard` after a round."""
        candidate, answered, heard = self.candidate, self.answered, self.heard
        if round.source == "person":
            answered = answered if candidate is None else (*answered, candidate.value)
            candidate, heard = None, True
        elif _is_judged(round):
            heard = False
        decision = round.decision
        if decision.emitted:
            answered = ()  # at another place an equal item is another
        if round.trouble or decision.abstain or not decision.progress:
            candidate = _better(candidate, round, answered)
        return candidate, answered, heard

    def _after_trouble(self, round: Round) -> State:
        """What the policy has to remember of a round, and what its step wants the generator to see."""
        context, fallback, left = self.context, self.fallback, self.left
        step = round.steps[-1] if round.trouble and round.steps else None
        clause = self.policy.clauses[step.clause] if step is not None else None
        if left is not None and fallback is not None and round.source == fallback.name:
            left -= 1
            if left == 0:
                fallback = left = None
        if clause is not None and clause.do == "fallback":
            fallback, left = clause, clause.rounds
        used, feedback = (0,) * len(self.used), self.inherited
        if round.trouble:
            used = self.counting(round.steps)
            if _is_unjudged(round):
                used = self._given_back(used, step)
            told = _feedback_on(round) if clause is not None and clause.do == "feedback" else ()
            if told:
                feedback += told
            elif _is_unjudged(round) or round.source == "person":
                feedback = context.feedback  # no draft that was told it has been judged
        candidate, answered, heard = self._question_after(round)
        return replace(
            self,
            context=replace(context, feedback=feedback, refused=self._refused_after(round, clause)),
            used=used,
            fallback=fallback,
            left=left,
            candidate=candidate,
            answered=answered,
            heard=heard,
        )

    def _given_back(self, used: tuple[int, ...], step: Step | None) -> tuple[int, ...]:
        """`used`, without the feedback that the round before led to where another clause answers this one."""
        rounds = self.context.rounds
        before = rounds[-2].steps if rounds.length > 1 else ()
        if (
            not before
            or before[-1].do != "feedback"
            or (step is not None and step.clause == before[-1].clause)
        ):
            return used
        place = before[-1].clause
        return (*used[:place], used[place] - 1, *used[place + 1 :])

    def _refused_after(self, round: Round, clause: Clause | None) -> tuple[object, ...]:
        """The items that are to be drafted again after a round whose trouble the clause answers."""
        before, judged = self.context.refused, _is_judged(round)
        if round.source == "person":
            refused = before if self.candidate is None else _without(before, self.candidate.value)
        else:
            refused = () if judged or not round.trouble else before
        if clause is not None and judged and (clause.partial or before):
            refused += refused_items(round)
        return refused

    def counting(self, steps: tuple[msgspec.Struct, ...]) -> tuple[int, ...]:
        """`used`, with these steps."""
        used = list(self.used)
        for step in steps:
            used[step.clause] += 1  # type: ignore[attr-defined]
        return tuple(used)


def _is_judged(round: Round) -> bool:
    """Whether a round came to a decision on items."""
    return bool(round.items) and round.failure is None


def _is_unjudged(round: Round) -> bool:
    """Whether calls and checks that failed are all that a round with trouble came to."""
    return not round.decision.progress and set(round.trouble) <= {"error", "timeout"}


def last_of(round: Round) -> Last | None:
    """A round as the next one is shown it, without arrays; None for one that came to no decision."""
    if round.failure is not None or (not round.timing.passes and round.by == "verifier"):
        return None
    # What is seldom there is added after: most rounds have two fields of each.
    proposal = Proposal(items=round.items, parents=round.parents)
    if round.exhausted or round.nested or round.extends or round.law != "given":
        proposal = replace(
            proposal,
            law=GIVEN if round.law == "given" else Law(round.law),
            extends=round.extends,
            exhausted=round.exhausted,
            nested=round.nested,
        )
    verification = Verification(checks=round.checks, deterministic=round.deterministic)
    if round.correction or round.notes or round.by != "verifier":
        verification = replace(
            verification, correction=round.correction, notes=round.notes or EMPTY, by=round.by
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


def _is_equal(left: object, right: object) -> bool:
    """Whether two items are equal, as far as they can tell: arrays and odd objects may not."""
    try:
        return left is right or bool(left == right)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False


def _is_among(value: object, values: tuple[object, ...]) -> bool:
    return any(_is_equal(value, other) for other in values)


def _without(values: tuple[object, ...], gone: object) -> tuple[object, ...]:
    """The values without the last one equal to `gone`: of equals, a person is asked about the later one."""
    at = next((i for i in reversed(range(len(values))) if _is_equal(values[i], gone)), len(values))
    return values[:at] + values[at + 1 :]


def _better(best: Candidate | None, round: Round, answered: tuple[Any, ...]) -> Candidate | None:
    """The best refused candidate by now: one that no person has answered for, one that was judged before one whose
    check failed, one with a score before one without, the highest score, the later one; of a round, those of which
    nobody could tell are the later ones."""
    reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
    taken, failure = round.decision.taken, round.failure
    unsure = {index for index, check in enumerate(round.checks) if check.verdict == "abstain"}
    for index in sorted(range(len(round.items)), key=lambda index: index in unsure):
        check = round.checks[index] if round.checks else None
        if index in taken:
            continue
        if check is not None and (index in reasons or check.verdict not in ("unchecked", "pass")):
            judged = index in reasons or check.verdict in ("reject", "abstain")
            words = (check.reason or reasons.get(index, ""), check.feedback, check.caveat)
        elif index in reasons:
            judged, words = True, (reasons[index], "", "")
        elif check is None and failure is not None:
            judged, words = False, (failure.error, failure.message, "")
        else:
            continue
        candidate = Candidate(round.items[index], check.score if check is not None else None, *words, judged)
        if best is None or _rank(candidate, answered) >= _rank(best, answered):
            best = candidate
    return best


def _rank(candidate: Candidate, answered: tuple[Any, ...]) -> tuple[bool, bool, bool, float]:
    fresh = not _is_among(candidate.value, answered)
    return fresh, candidate.judged, candidate.score is not None, candidate.score or 0.0


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
