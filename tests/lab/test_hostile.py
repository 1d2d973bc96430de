"""Drafts that are always wrong, where the plain way is a fallback: the ledger over tasks, its bound and its probes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from draftverify.stats.block.fallback import CREDIT, Detour, Ledger
from draftverify.values import Decision, Outcome, Refusal, Round, Step, Timing
from tests.lab.simulated import context_of

DONE = Decision(kept=(0,), emitted=(0,), done=True)


def rounds_of(*, drafted: bool, right: bool, draft: float, plain: float = 1.0) -> list[Round]:
    """A task's rounds: drafts that cost so much, and the fallback where they were wrong or not made."""
    if drafted:
        decision = DONE if right else Decision(refused=(Refusal(0),))
        timing = Timing(verify=draft, busy=draft, passes=1)
        own = Round(index=0, items=(0,), parents=(-1,), asked=1, decision=decision, timing=timing)
        if right:
            return [own]
    else:
        own = Round(index=0, trouble=("exhausted",), steps=(Step(0, "fallback", "exhausted"),))
    timing = Timing(draft=plain, busy=plain)
    return [
        own,
        Round(index=1, source="dear", items=(0,), parents=(-1,), asked=1, decision=DONE, timing=timing),
    ]


class Played:
    """Tasks by the ledger's word, so many at once.

    Args:
        wave: how many begin before the first of them ends.
    """

    def __init__(self, allowance: float = 0.005, wave: int = 1) -> None:
        self.detour = Detour(Ledger(allowance), 1.02)
        self.wave = wave
        self.drafted: list[bool] = []
        self.lost = self.cost = self.most = 0.0

    def tasks(self, tasks: Sequence[tuple[bool, float]]) -> Played:
        """Play them: whether drafts are right, and what they cost; the fallback costs 1."""
        for first in range(0, len(tasks), self.wave):
            begun = []
            for right, draft in tasks[first : first + self.wave]:
                name = f"task {len(self.drafted)}"
                drafted = self.detour.drafts(context_of(name, [], {}))
                self.drafted.append(drafted)
                begun.append((name, rounds_of(drafted=drafted, right=right, draft=draft)))
            for name, rounds in begun:
                cost = sum(round.timing.busy for round in rounds)
                self.lost, self.cost = self.lost + cost - 1.0, self.cost + cost
                outcome = Outcome(status="accepted", rounds=len(rounds))
                self.detour.settle(context_of(name, rounds, {}), outcome, paid=False)
            self.most = max(self.most, self.lost - self.detour.ledger.allowance * self.cost)
        return self


costs = st.floats(0.0, 4.0)
streaks = st.lists(st.tuples(st.booleans(), st.integers(1, 40), costs, costs), min_size=1, max_size=8)


@given(streaks, st.sampled_from([0.0, 0.005, 0.05]), costs)
def test_what_can_be_lost_is_bounded_whatever_the_traffic(streaks, allowance, first):
    """The credit, the allowance, and one draft that was dearer than expected: never more, at no moment of the run."""
    tasks = [(False, first)]
    for right, length, one, other in streaks:
        tasks += [(right, other if place % 3 else one) for place in range(length)]
    played = Played(allowance).tasks(tasks)
    assert played.most <= CREDIT + max(cost for _, cost in tasks) + 1e-9


@given(st.floats(0.01, 4.0), st.sampled_from([1, 3, 8]))
def test_after_fifty_tasks_an_always_wrong_drafter_costs_less_than_two_per_cent(draft, wave):
    """At any price of a draft, alone and in waves; and in all the allowance, and the credit or the first wave."""
    played = Played(wave=wave).tasks([(False, draft)] * 50)
    before, cost = played.lost, played.cost
    played.tasks([(False, draft)] * 350)
    assert played.lost - before <= 0.02 * (played.cost - cost)
    assert played.lost <= max(CREDIT, wave * draft) + 0.005 * played.cost + 1e-9


@given(st.lists(st.booleans(), min_size=16, max_size=80), st.sampled_from([2, 8]), st.floats(0.05, 1.0))
def test_tasks_that_are_under_way_are_held_against_the_ledger(rights, wave, draft):
    """However many begin together: after the first of them have shown the costs, it is in no debt by drafting."""
    played = Played(wave=wave).tasks([(False, draft)] + [(right, draft) for right in rights[: wave - 1]])
    least = min(0.0, played.detour.ledger.balance)
    for first in range(0, len(rights), wave):
        played.tasks([(right, draft) for right in rights[first : first + wave]])
        assert played.detour.ledger.balance >= least - 1e-9


@given(st.floats(0.01, 0.3))
def test_it_is_tried_again_and_comes_back_when_the_traffic_turns(draft):
    """However long drafts were wrong: the next probe pays, is followed by others, and drafting goes on.

    Of the last 60 tasks one may be compared with the fallback."""
    played = Played().tasks([(False, draft)] * 400).tasks([(True, draft)] * 200)
    assert sum(played.drafted[50:400]) * draft <= CREDIT + 0.005 * 500
    assert sum(played.drafted[-60:]) >= 59


def test_drafts_that_are_always_right_are_made_but_for_a_comparison_now_and_then():
    """After 32 tasks, 64 more, and so on; nothing is withheld from a drafter that fails now and then and pays."""
    played = Played().tasks([(True, 0.2)] * 230).drafted
    assert [place for place, drafted in enumerate(played) if not drafted] == [32, 97, 226]
    assert all(Played().tasks([(place % 4 > 0, 0.2) for place in range(100)]).drafted)


def test_a_drafter_that_never_failed_is_stopped_where_it_is_too_dear():
    """What the fallback takes is seen once, and that is enough: right drafts at twice its price are given up."""
    played = Played().tasks([(True, 2.0)] * 400)
    assert sum(played.drafted[:32]) == 32
    assert sum(played.drafted[32:]) <= 3


def test_drafts_that_are_right_and_too_dear_are_stopped_too():
    """Once a task has shown what the fallback takes: to be right is not to pay."""
    played = Played().tasks([(False, 1.5), *[(True, 1.5)] * 300])
    assert sum(played.drafted) <= 4


def test_tasks_that_failed_or_wait_teach_nothing_and_free_what_was_reserved():
    """A machine that broke down says nothing about the drafter, and a person's pace neither."""
    detour = Detour(Ledger(0.0), 1.02)
    first = rounds_of(drafted=True, right=False, draft=1.0)
    detour.settle(context_of("first", first, {}), Outcome(status="accepted", rounds=2), paid=False)
    before = detour.ledger.balance, detour.gain
    for status in ("failed", "waiting"):
        detour.drafts(context_of(status, [], {}))
        detour.settle(context_of(status, first, {}), Outcome(status=status), paid=False)
    assert (detour.ledger.balance, detour.gain) == before
    assert not detour._under_way


def test_a_task_that_has_begun_is_not_judged_anew():
    """What was decided before its first round stands in its record, and so it does in another process."""
    detour = Detour(Ledger(0.0), 1.02)
    assert detour.drafts(context_of("a", rounds_of(drafted=True, right=False, draft=1.0), {}))
    assert not detour.drafts(context_of("b", rounds_of(drafted=False, right=False, draft=1.0), {}))
