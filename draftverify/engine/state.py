"""What a task has come to: a frozen state, and the one pure step that leads from a round to the next state.

A restored round comes through `State.after` as a fresh one does, so a task that is taken up again stands where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.randomness import Draws
from draftverify.rejection import Clause, Policy
from draftverify.rejection.refusals import (
    best_candidate,
    feedback_on,
    is_among,
    is_unjudged,
    refused_items,
    without,
)
from draftverify.values import (
    EMPTY,
    GIVEN,
    Candidate,
    Context,
    Decision,
    Feedback,
    Held,
    Last,
    Law,
    Proposal,
    Round,
    Step,
    Verification,
)


class State(msgspec.Struct, frozen=True, eq=False, gc=False):
    """All that a task has come to by its last round.

    Args:
        context: what a generator is shown next; its draws are the next round's.
        policy: whose clauses the rounds' steps are.
        inherited: the feedback that an inner task was begun with.
        used: how often each clause was taken at this place; a round without trouble sets it back.
        fallback: the clause whose generator drafts now.
        rounds_left: for how many rounds more; None for good.
        candidate: the best item that was refused since a person last answered.
        answered: the values that a person has answered for since a value was accepted.
        heard: a person has answered, and nothing was drafted and judged since.
        seconds: latency so far.
        busy: machine seconds that the task answers for.
        passes: verifier calls.
        cost: what the parts said that they cost.
    """

    context: Context
    policy: Policy
    inherited: tuple[Feedback, ...] = ()
    used: tuple[int, ...] = ()
    fallback: Clause | None = None
    rounds_left: int | None = None
    candidate: Candidate | None = None
    answered: tuple[Any, ...] = ()
    heard: bool = False
    seconds: float = 0.0
    busy: float = 0.0
    passes: int = 0
    cost: float = 0.0

    def after(
        self, round: Round, proposal: Proposal | None = None, verification: Verification | None = None
    ) -> State:
        """The state once `round` is over: nothing but its record counts.

        Args:
            round: the record.
            proposal, verification: of a round that was just made, for the arrays that `context.last` shows and no
                record holds.
        """
        decision, timing, context = round.decision, round.timing, self.context
        rounds, held = context.rounds.then((round,)), context.held
        if round.held or decision.released:
            held = holding(held, decision, round.held)
        state = replace(
            self,
            context=replace(
                context,
                accepted=context.accepted.then(decision.emitted),
                held=held,
                rounds=rounds,
                last=_last_of(round, proposal, verification),
                draws=Draws(context.draws.key, rounds.length),
                tries=context.tries + 1 if round.trouble else 0,
            ),
            seconds=self.seconds + timing.draft + timing.verify + timing.decide,
            busy=self.busy + timing.busy,
            passes=self.passes + timing.passes,
            cost=self.cost + timing.cost,
        )
        remembers = round.trouble or context.tries or context.refused or self.heard or self.answered
        is_plain = round.source == "generator" and (decision.kept or decision.spliced or decision.progress)
        return state if is_plain and not (remembers or decision.abstain) else state._after_policy(round)

    def is_askable(self, round: Round) -> bool:
        """Whether a person could be told anything new once `round` is over."""
        candidate, answered, heard = self._question_after(round)
        return not heard if candidate is None else not is_among(candidate.value, answered)

    def counting(self, steps: Sequence[Step]) -> tuple[int, ...]:
        """`used`, with these steps."""
        used = list(self.used)
        for step in steps:
            used[step.clause] += 1
        return tuple(used)

    def _after_policy(self, round: Round) -> State:
        """What the policy has to remember of a round, and what its step wants the generator to see."""
        context, fallback, rounds_left = self.context, self.fallback, self.rounds_left
        step = round.steps[-1] if round.trouble and round.steps else None
        clause = self.policy.clauses[step.clause] if step is not None else None
        if rounds_left is not None and fallback is not None and round.source == fallback.name:
            fallback, rounds_left = (fallback, rounds_left - 1) if rounds_left > 1 else (None, None)
        if clause is not None and clause.do == "fallback":
            fallback, rounds_left = clause, clause.rounds
        used, feedback = (0,) * len(self.used), self.inherited
        if round.trouble:
            is_unused = not round.decision.progress and is_unjudged(round.trouble)
            used = self._used_after(round, is_unused)
            refusals = feedback_on(round) if clause is not None and clause.do == "feedback" else ()
            if refusals:
                feedback += refusals
            elif is_unused or round.source == "person":
                feedback = context.feedback  # no draft that was shown it has been judged
        candidate, answered, heard = self._question_after(round)
        return replace(
            self,
            context=replace(context, feedback=feedback, refused=self._refused_after(round, clause)),
            used=used,
            fallback=fallback,
            rounds_left=rounds_left,
            candidate=candidate,
            answered=answered,
            heard=heard,
        )

    def _used_after(self, round: Round, is_unused: bool) -> tuple[int, ...]:
        """`used` after a round with trouble. A clause whose feedback it has not used gets its use back where another
        one answers."""
        used = list(self.counting(round.steps))
        for step in [step for earlier in self.context.rounds[-2:-1] for step in earlier.steps[-1:]]:
            is_answer = step.clause in [answer.clause for answer in round.steps[-1:]]
            if is_unused and step.do == "feedback" and not is_answer:
                used[step.clause] -= 1
        return tuple(used)

    def _question_after(self, round: Round) -> tuple[Candidate | None, tuple[Any, ...], bool]:
        """`candidate`, `answered` and `heard` after a round."""
        candidate, answered, heard = self.candidate, self.answered, self.heard
        if round.source == "person":
            answered = answered if candidate is None else (*answered, candidate.value)
            candidate, heard = None, True
        elif _is_judged(round):
            heard = False
        if round.decision.emitted:
            answered = ()  # at another place an equal item is another
        if round.trouble or round.decision.abstain or not round.decision.progress:
            candidate = best_candidate(candidate, round, answered)
        return candidate, answered, heard

    def _refused_after(self, round: Round, clause: Clause | None) -> tuple[Any, ...]:
        """The items that are to be drafted again after a round whose trouble the clause answers."""
        refused, is_judged = self.context.refused, _is_judged(round)
        if round.source == "person":
            remaining = refused if self.candidate is None else without(refused, self.candidate.value)
        else:
            remaining = () if is_judged or not round.trouble else refused
        if clause is not None and is_judged and (clause.partial or refused):
            remaining += refused_items(round)
        return remaining


def _is_judged(round: Round) -> bool:
    """Whether a round came to a decision on items."""
    return bool(round.items) and round.failure is None


def _last_of(round: Round, proposal: Proposal | None, verification: Verification | None) -> Last | None:
    """A round as the next one is shown it; None for one that came to no decision. Proposal and verification of one that
    was just made are what its record says, with their arrays."""
    if round.failure is not None or (not round.timing.passes and round.by == "verifier"):
        return None
    if proposal is None:
        law = GIVEN if round.law == "given" else Law(round.law)
        proposal = Proposal(
            items=round.items,
            parents=round.parents,
            law=law,
            extends=round.extends,
            exhausted=round.exhausted,
            nested=round.nested,
            notes=round.draft_notes or EMPTY,
        )
    elif proposal.items is not round.items:
        proposal = replace(proposal, items=round.items)
    if verification is None:
        verification = Verification(
            checks=round.checks, correction=round.correction, notes=round.notes or EMPTY, by=round.by
        )
    if verification.deterministic is not round.deterministic:
        verification = replace(verification, deterministic=round.deterministic)
    return Last(proposal, verification, round.decision)


def holding(held: tuple[Held, ...], decision: Decision, entries: tuple[Held, ...]) -> tuple[Held, ...]:
    """What is held after a decision that released some of it and holds these entries."""
    if decision.released:
        released = set(decision.released)
        held = tuple([entry for index, entry in enumerate(held) if index not in released])
    return held + entries
