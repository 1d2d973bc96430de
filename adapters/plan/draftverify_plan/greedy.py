"""The cheap generator: a relaxed plan from the current state, proposed as if nothing in it undid anything else."""

from __future__ import annotations

from draftverify import Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_plan.problem import PlanningProblem, problem_of


class Greedy:
    """Drafts the first steps of a relaxed plan (see `relaxation`).

    A real state refuses such a plan where one step deletes what a later one needs, or where a condition is one that
    the relaxation does not read. The prefix up to there is often good. Steps that were taken before from the same
    state, and steps that `context.feedback` says were refused in it, are avoided; where nothing else leads on, or the
    plan came back to a state it had been in more than `circles` times, there is no next block.

    Args:
        circles: how many returns to an earlier state are borne.

    Source: relaxed plans are those of FF (Hoffmann and Nebel, 2001); see `relaxation`.
    """

    traits = GeneratorTraits(shape="chain", reads=frozenset(), drafts_from="accepted")

    def __init__(self, circles: int = 8) -> None:
        self.circles = circles

    def propose(self, context: Context, n: int) -> Proposal:
        """The first n steps of a relaxed plan; none when the goal holds, `exhausted` when it knows no way on."""
        problem = problem_of(context)
        states = problem.states(context.accepted, context.scratch)
        if problem.is_goal(states[-1]):
            return Proposal.chain(())
        past = [problem.facts(state) for state in states]
        if len(past) - len(set(past)) > self.circles:
            return _NONE
        # A step leads from the same state to the same state: taking it again would close a circle.
        repeats = {step for step, facts in zip(context.accepted, past, strict=False) if facts == past[-1]}
        steps = _draft(problem, past[-1], repeats | _refused_here(context))
        return Proposal.chain(tuple(steps[:n])) if steps else _NONE


_NONE = Proposal.chain((), exhausted=True)


def _draft(problem: PlanningProblem, now: frozenset[int], avoid: set[str]) -> list[str]:
    """A relaxed plan that does not begin with a step to avoid; [] when there is none."""
    relaxation = problem.relaxation
    numbers = {relaxation.number_of[step] for step in avoid if step in relaxation.number_of}
    plan = relaxation.plan(now, numbers) or []
    for place, action in enumerate(plan):
        if action not in numbers and now.issuperset(relaxation.actions[action].needs):
            order = [action, *plan[:place], *plan[place + 1 :]]
            return [relaxation.actions[number].step for number in order]
    return []


def _refused_here(context: Context) -> set[str]:
    """What was refused in the current state, if the policy wants it read: feedback names the last round's only."""
    if not context.feedback:
        return set()
    refused = {refusal.item for refusal in context.feedback}
    for round in reversed(context.rounds):
        if round.decision.emitted:
            break
        refused.update(round.items[refusal.index] for refusal in round.decision.refused)
    return {step for step in refused if isinstance(step, str)}
