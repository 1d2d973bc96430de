"""Replay: what it answers is what a rerun says, and what it cannot answer it refuses by name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from draftverify import (
    Answer,
    Budget,
    Pipeline,
    Policy,
    Proposal,
    Task,
    escalate,
    fallback,
    feedback,
    give_up,
    retry,
    reverify,
)
from draftverify.bench.records import timeless
from draftverify.errors import ConfigError
from draftverify.kit import ScriptedVerifier
from draftverify.lab.replay import Replay
from draftverify.rules import (
    All,
    Best,
    First,
    GreedyMatch,
    Limit,
    LongestPrefix,
    Majority,
    Rounds,
    Speculative,
)
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import UNCHECKED, Check, Cost, Law, TaskRecord, Verification


def number(*seen: Any) -> int:
    """The same number for the same plain values."""
    return int(hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()[:12], 16)


class Drafter:
    """Drafts numbers that depend on what `drafts_from` says, or on all that the context shows where it says nothing."""

    def __init__(
        self, drafts_from: str | None, shape: str, values: int = 5, length: int = 7, cost: float = 0.0
    ) -> None:
        self.cost = cost
        self.traits = GeneratorTraits(shape=shape, drafts_from=drafts_from)
        self.kind = drafts_from
        self.shape = shape
        self.values = values
        self.length = length

    def propose(self, context: Any, n: int) -> Proposal:
        """The next n numbers."""
        task, accepted = context.task.id, list(context.accepted)
        told = [[each.item, each.reason, each.feedback] for each in context.feedback]
        if self.kind == "list":
            start = sum(len(each.items) for each in context.rounds if each.source == "generator")
            places = range(start, min(start + n, self.length))
            items = [number(task, place) % self.values for place in places]
            return Proposal.alternatives(
                items, exhausted=start + n >= self.length, cost=Cost(1.0 + len(items), self.cost)
            )
        items = []
        for place in range(n):
            if self.kind == "continuation":
                seen: Any = [*accepted, *items]
            elif self.kind == "accepted":
                since = []
                for each in reversed(context.rounds):
                    if each.decision.emitted:
                        break
                    since.append([list(each.items), [refusal.index for refusal in each.decision.refused]])
                seen = [accepted, told, since, place]
            elif self.kind == "round":
                seen = [context.round, accepted, told, place]
            else:
                shown = [[list(each.items), each.trouble, str(each.decision)] for each in context.rounds]
                seen = [shown, accepted, told, n, place, context.tries]
            drawn = number(task, self.kind, seen)
            if self.kind == "continuation" and drawn % 11 == 0:
                break
            items.append(drawn % self.values)
        made = Proposal.chain if self.shape == "chain" else Proposal.alternatives
        return made(items, cost=Cost(1.0 + len(items), self.cost))


class Judge:
    """Judges each item by itself, after the values before it; some checks fail, and it may stop as it is told to."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, shape: str, corrects: bool = False, failing: bool = False, stops: bool = True) -> None:
        self.shape = shape
        self.corrects = corrects
        self.failing = failing
        self.stops = stops

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        """One check per item."""
        checks: list[Check] = []
        before = list(context.accepted)
        correction: tuple[Any, ...] = ()
        for index in range(len(proposal)):
            passed = sum(check.verdict == "pass" for check in checks)
            after = proposal.parents[index] >= 0 and checks[proposal.parents[index]].verdict != "pass"
            if after or (self.stops and context.enough is not None and passed >= context.enough):
                checks.append(UNCHECKED)
                continue
            path = [proposal.items[i] for i in proposal.path(index)]
            drawn = number(context.task.id, "judge", [*before, *path])
            if self.failing and drawn % 7 == 0:
                checks.append(Check(("error", "abstain", "timeout")[drawn % 3], reason="odd"))
                continue
            score = drawn % 10 / 10
            if score >= 0.4:
                checks.append(Check("pass", score, feedback=f"{drawn % 3}"))
                continue
            checks.append(Check("reject", score, reason="low", feedback=f"{drawn % 3}"))
            if self.corrects and self.shape == "chain":
                correction = (drawn % 4,)
        if self.corrects and not proposal.items:
            correction = (number(context.task.id, "plain", before) % 4,)
        looked = sum(check.verdict != "unchecked" for check in checks)
        return Verification(
            checks=tuple(checks), correction=correction, cost=Cost(1.0 + looked, amount=float(looked))
        )


ALTERNATIVES = {
    "first": lambda: First(),
    "first two": lambda: First(2),
    "first from .7": lambda: First(threshold=0.7),
    "first from .9, else the best": lambda: First(threshold=0.9, otherwise="best"),
    "best": lambda: Best(),
    "best from .8": lambda: Best(threshold=0.8),
    "all from .6": lambda: All(threshold=0.6),
    "vote": lambda: Majority(field=None),
}
CHAINS = {"longest prefix": lambda: LongestPrefix()}
POLICIES = {
    "none": lambda: Policy(),
    "retry": lambda: retry(1),
    "retry more": lambda: retry(4),
    "feedback": lambda: feedback(2),
    "retry, feedback": lambda: retry(1).then(feedback(2)),
    "failed alone": lambda: retry(3, on=("error", "timeout")),
    "give up": lambda: give_up(on=("abstain",)).then(retry(2)),
    "partial": lambda: retry(2, partial=True),
    "ask": lambda: retry(1).then(escalate()),
    "again": lambda: reverify(1).then(retry(2)),
}
OTHER = Drafter("round", "alternatives", values=9, cost=3.0)
POLICIES["fallback"] = lambda: retry(1).then(fallback(OTHER, name="other", rounds=2))
POLICIES["trusted"] = lambda: retry(1).then(fallback(OTHER, name="other", verified=False))


def built(setup: dict[str, Any], generator: Any, judge: Any) -> Pipeline:
    """A pipeline of these parts."""
    chain = setup["rule"] in CHAINS
    return Pipeline(
        generator,
        judge,
        (CHAINS if chain else ALTERNATIVES)[setup["rule"]](),
        policy=POLICIES[setup["policy"]](),
        block=setup["block"],
        done=Limit(6) if chain else Rounds(3) if setup["rule"] in ("all from .6", "vote") else None,
        budget=Budget(rounds=setup["rounds"]),
        seed=4,
    )


@st.composite
def setups(draw: Any, chain: bool) -> dict[str, Any]:
    """A rule, policy, block and budget."""
    policies = sorted(set(POLICIES) - ({"fallback", "trusted"} if chain else set()))
    return {
        "rule": draw(st.sampled_from(sorted(CHAINS if chain else ALTERNATIVES))),
        "policy": draw(st.sampled_from(policies)),
        "block": draw(st.integers(0 if chain else 1, 5)),
        "rounds": draw(st.integers(1, 8)),
    }


@st.composite
def worlds(draw: Any) -> tuple[Any, ...]:
    """Two set-ups of one domain, its generator and verifier, and a task."""
    chain = draw(st.booleans())
    shape = "chain" if chain else "alternatives"
    kinds = [None, "accepted", "round", "continuation" if chain else "list"]
    generator = Drafter(draw(st.sampled_from(kinds)), shape)
    judge = Judge(shape, **{each: draw(st.booleans()) for each in ("corrects", "failing", "stops")})
    first, second = draw(setups(chain)), draw(setups(chain))
    kept = draw(st.sets(st.sampled_from(sorted(first))))
    second = {**second, **{name: first[name] for name in kept}}
    return first, second, generator, judge, Task(id=str(draw(st.integers(0, 200))))


FIELDS = {"rule": "rule", "policy": "on_rejection", "block": "block", "rounds": "budget"}


def holds(world: tuple[Any, ...]) -> bool:
    """Whether the log answered; where it did, the answer is the rerun's."""
    first, second, generator, judge, task = world
    made, other = built(first, generator, judge), built(second, generator, judge)
    record = made.record(task)
    changed = frozenset(FIELDS[name] for name in first if first[name] != second[name])
    found = Replay(made, [record], other, changed=changed).task(task, record)
    if found.record is None:
        assert found.gap is not None
        assert found.gap.task == task.id
        return False
    again = other.record(task)
    assert free(found.record) == free(again)
    (seconds, cost), (took, used) = cost_of(found.record), cost_of(again)
    assert cost == pytest.approx(used) or found.cost_at_most
    assert cost >= used - 1e-9
    assert seconds == pytest.approx(took) or found.at_most or found.estimated
    assert seconds >= took - 1e-9 or found.estimated
    return True


def free(record: TaskRecord) -> TaskRecord:
    """A record without its times and cost."""
    bare = timeless(record)
    rounds = tuple(replace(each, timing=replace(each.timing, cost=0.0)) for each in bare.rounds)
    return replace(bare, rounds=rounds, outcome=replace(bare.outcome, cost=0.0))


def cost_of(record: TaskRecord) -> tuple[float, float]:
    """Seconds, as generator and verifier report them, and cost."""
    return sum(each.timing.draft + each.timing.verify for each in record.rounds), record.outcome.cost


@example(
    (
        {"rule": "all from .6", "policy": "again", "block": 4, "rounds": 2},
        {"rule": "all from .6", "policy": "again", "block": 4, "rounds": 3},
        Drafter("list", "alternatives", values=5, length=7),
        Judge("alternatives", stops=False),
        Task(id="0"),
    )
)
@example(
    (
        {"rule": "all from .6", "policy": "fallback", "block": 1, "rounds": 3},
        {"rule": "all from .6", "policy": "trusted", "block": 1, "rounds": 3},
        Drafter(None, "alternatives"),
        Judge("alternatives"),
        Task(id="2"),
    )
)
@given(worlds())
@settings(max_examples=120)
def test_replay_equals_rerun(world):
    """Over rules, thresholds, blocks, policies and budgets: the log says what a rerun would, or refuses.

    So with its cost: where it is not flagged it is the rerun's, and an upper bound is one.
    """
    holds(world)


@pytest.mark.exhaustive
@given(worlds())
@settings(max_examples=1_500)
def test_replay_equals_rerun_in_a_sweep(world):
    """The same, far more often."""
    holds(world)


@given(worlds())
@settings(max_examples=60)
def test_nothing_set_is_the_record(world):
    """Nothing set gives the record; so does driving every round of it from the log, where no check was made twice."""
    first, _, generator, judge, task = world
    made = built(first, generator, judge)
    record = made.record(task)
    assert Replay(made, [record], made, changed=frozenset()).task(task, record).record == record
    driven = Replay(made, [record], made, changed=frozenset({"budget"})).task(task, record)
    if any(step.do == "reverify" for round in record.rounds for step in round.steps):
        assert driven.gap is not None
        assert "checked again" in driven.gap.why
    else:
        assert driven.record is not None
        assert timeless(driven.record) == timeless(record)
        assert driven.record.outcome.seconds == pytest.approx(record.outcome.seconds)
        assert not driven.at_most


def test_the_log_answers_often():
    """Of thresholds, blocks and policies over a recorded list most questions are answered."""
    generator, judge = Drafter("list", "alternatives"), Judge("alternatives")
    first = {"rule": "best from .8", "policy": "retry more", "block": 3, "rounds": 8}
    for change in (
        {"block": 1},
        {"block": 2},
        {"policy": "retry"},
        {"rule": "best"},
        {"rule": "first from .7"},
    ):
        answered = [
            holds((first, {**first, **change}, generator, judge, Task(id=str(task)))) for task in range(20)
        ]
        assert sum(answered) >= 15, change


def replayed(made: Pipeline, other: Pipeline, *changed: str, task: Task = Task(id="1"), **more: Any) -> Any:  # noqa: B008
    """One task, recorded by one pipeline and asked about another."""
    record = made.record(task)
    return Replay(made, [record], other, changed=frozenset(changed), **more).task(task, record)


def alternatives(items: list[int], drafts_from: str | None = "list") -> Any:
    """A generator of one list."""

    class Listed:
        traits = GeneratorTraits(drafts_from=drafts_from)

        def propose(self, context: Any, n: int) -> Proposal:
            start = context.drafted
            return Proposal.alternatives(items[start : start + n], exhausted=start + n >= len(items))

    return Listed()


class Scored:
    """Passes everything, with the item as its score."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        """One score per item."""
        return Verification(checks=tuple([Check("pass", float(item)) for item in proposal.items]))


class Passing:
    """Passes even numbers, and stops when it may."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        """One verdict per item, as long as any is needed."""
        checks: list[Check] = []
        for item in proposal.items:
            over = context.enough is not None and sum(c.verdict == "pass" for c in checks) >= context.enough
            checks.append(UNCHECKED if over else Check("pass" if item % 2 == 0 else "reject"))
        return Verification(checks=tuple(checks))


def test_an_item_that_was_never_checked_is_named():
    """A rule that needs more passes than the verifier waited for."""
    listed = alternatives([1, 2, 4, 6])
    found = replayed(
        Pipeline(listed, Passing(), First(), block=4), Pipeline(listed, Passing(), First(2), block=4), "rule"
    )
    assert found.record is None
    assert (found.gap.task, found.gap.round) == ("1", 0)
    assert "item 2 of round 0 of the record was never checked" in found.gap.why


@pytest.mark.parametrize("stops", [True, False])
def test_whether_the_verifier_stops_early_is_not_guessed(stops):
    """A record of a rule that looks at all items does not say whether the verifier stops where one suffices."""
    listed, judge = alternatives([2, 3, 4, 6]), Judge("alternatives", stops=stops)
    made, other = (Pipeline(listed, judge, rule, block=4) for rule in (Best(), First()))
    task = next(
        task
        for task in (Task(id=str(each)) for each in range(50))
        if other.record(task).rounds[0].checks[0].verdict == "pass"
    )
    found = replayed(made, other, "rule", task=task)
    assert found.gap is not None
    assert found.gap.why == "whether the verifier stops once 1 items passed is in no record"
    # Where the log shows it, the answer is the rerun's.
    found = replayed(other, Pipeline(listed, judge, First(), block=2), "block", task=task)
    assert found.record.rounds[0].checks[1].verdict == ("unchecked" if stops else "pass")


def test_a_longer_block_is_refused():
    """Items that nobody drafted are not in the log."""
    listed = alternatives([2, 4, 6, 8])
    found = replayed(
        Pipeline(listed, Passing(), First(), block=2), Pipeline(listed, Passing(), First(), block=3), "block"
    )
    assert found.gap is not None
    assert "a block of 3 was asked for, and 2 of it were drafted" in found.gap.why


def test_a_stricter_threshold_needs_drafts_that_were_never_made():
    """The record ended where the first rule had enough."""
    listed = alternatives([3, 1, 9, 9])
    made, other = (
        Pipeline(listed, Scored(), First(threshold=each), block=2, policy=retry(3)) for each in (2.0, 5.0)
    )
    found = replayed(made, other, "rule")
    assert (found.gap.task, found.gap.round) == ("1", 1)
    assert "would have drafted again" in found.gap.why


def test_feedback_that_the_record_does_not_have_is_refused():
    """A draft that would have been made with other feedback is another one."""
    drafter = Drafter("round", "alternatives")
    judge = Judge("alternatives")
    task = next(
        task
        for task in (Task(id=str(each)) for each in range(50))
        if len(Pipeline(drafter, judge, First(threshold=0.9), policy=retry(2)).record(task).rounds) == 3
    )
    made, other = (
        Pipeline(drafter, judge, First(threshold=0.9), policy=policy) for policy in (retry(2), feedback(2))
    )
    found = replayed(made, other, "on_rejection", task=task)
    assert found.gap.round == 1
    assert "feedback that the record does not have would have changed the next draft" in found.gap.why


def test_a_sample_without_an_answer_is_answered_by_another_policy():
    """The vote went on from it without trouble; a clause that was not there would have ended it."""
    listed = alternatives([2, 1, 2, 2, 2, 2])
    made, other = (
        Pipeline(listed, Passing(), Majority(None), policy=policy)
        for policy in (retry(on=["error"]), give_up())
    )
    assert made.record("1").outcome.status == "accepted"
    found = replayed(made, other, "on_rejection")
    assert (found.record.outcome.status, len(found.record.rounds)) == ("refused", 2)
    assert timeless(found.record) == timeless(other.record(Task(id="1")))


def test_a_generator_that_does_not_say_what_it_reads_is_replayed_as_it_was():
    """Another policy is answered where nothing differs before; another block is not; the caller's word helps."""
    listed = alternatives([1, 3, 5, 7], None)
    made = Pipeline(listed, Passing(), First(), block=2, policy=retry(3))
    assert replayed(made, Pipeline(listed, Passing(), First(), block=2), "on_rejection").record is not None
    other = Pipeline(listed, Passing(), First(), block=1, policy=retry(3))
    assert "drafts_from" in replayed(made, other, "block").gap.why
    told = replayed(made, other, "block", drafts_from="list")
    assert timeless(told.record) == timeless(other.record(Task(id="1")))


def test_a_generator_that_is_not_what_it_is_said_to_be_is_found_out():
    """Two things at one place of the record."""
    drafter = Drafter("round", "alternatives")
    drafter.traits = dataclasses.replace(drafter.traits, drafts_from=None)
    judge = Judge("alternatives")
    made, other = (Pipeline(drafter, judge, First(threshold=0.95), policy=retry(times)) for times in (3, 2))
    found = replayed(made, other, "budget", drafts_from="continuation")
    assert "drafted two things at one place" in found.gap.why


def test_a_generator_that_is_not_deterministic_drafts_once():
    """A second draft of the same place would have been another one."""
    drafter = Drafter("continuation", "chain")
    drafter.traits = dataclasses.replace(drafter.traits, deterministic=False)
    judge = ScriptedVerifier(lambda context, item: False)
    made, other = (
        Pipeline(drafter, judge, LongestPrefix(), block=2, policy=retry(times)) for times in (1, 2)
    )
    record = Pipeline(drafter, judge, LongestPrefix(), block=2).record(Task(id="3"))
    found = Replay(made, [record], other, changed=frozenset({"on_rejection"})).task(Task(id="3"), record)
    assert found.gap.round == 1
    assert "not deterministic" in found.gap.why


def test_a_rule_that_needs_distributions_is_refused_before_any_task():
    """Records hold checks, and no p and q."""
    listed = Drafter("continuation", "chain")
    judge = ScriptedVerifier(lambda context, item: True, target=lambda prefix: [0.5, 0.5])
    made = Pipeline(listed, judge, LongestPrefix(), block=2, done=Limit(4))
    other = Pipeline(listed, judge, GreedyMatch(), block=2, done=Limit(4))
    with pytest.raises(ConfigError, match="needs target, and the records hold checks alone"):
        Replay(made, [], other, changed=frozenset({"rule"}))


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("budget", {"budget": Budget(rounds=2)}),
        ("budget", {"budget": Budget(rounds=90)}),
        ("done", {"done": Limit(3)}),
    ],
)
def test_a_rule_on_distributions_decides_as_it_did(name, more):
    """Another budget or stopping rule is answered with the recorded decisions, as far as they go."""
    judge = ScriptedVerifier(lambda context, item: True, target=lambda prefix: [0.4, 0.6])
    drafter = Drawing("continuation", "chain", values=2)
    settings = {"block": 2, "done": Limit(7)}
    first, other, longer = (
        Pipeline(drafter, judge, Speculative(), **{**settings, **own})
        for own in ({}, more, {"done": Limit(30)})
    )
    task = Task(id="2")
    record = first.record(task)
    assert len(record.rounds) > 2
    found = Replay(first, [record], other, changed=frozenset({name})).task(task, record)
    assert found.gap is None
    assert timeless(found.record) == timeless(other.record(task))
    found = Replay(first, [record], longer, changed=frozenset({"done"})).task(task, record)
    assert "the record ends here" in found.gap.why


class Drawing(Drafter):
    """Draws from its own q."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.traits = dataclasses.replace(self.traits, laws={"iid"})

    def propose(self, context: Any, n: int) -> Proposal:
        """As it is, with a q."""
        made = super().propose(context, n)
        return replace(made, law=Law("iid", np.full((n + 1, 2), 0.5)))


def test_a_verifier_that_would_have_stopped_earlier_costs_at_most_what_it_took():
    """The whole block was looked at; of less that is an upper bound, in seconds and in cost."""
    listed, judge = alternatives([2, 3, 4, 6]), Judge("alternatives")
    made = Pipeline(listed, judge, First(2), block=4)
    other = Pipeline(listed, judge, First(), block=4)
    task = next(
        task
        for task in (Task(id=str(each)) for each in range(50))
        if (tally := made.record(task).outcome.tally).accepted == 2
        and tally.trials > other.record(task).outcome.tally.trials
    )
    found = replayed(made, other, "rule", task=task)
    assert found.at_most
    assert cost_of(found.record) > cost_of(other.record(task))


def test_a_block_of_a_size_that_was_timed_is_an_estimate():
    """What blocks of its size took in the run, and in a task's first round what first rounds take beyond that."""

    class Timed(Passing):
        def verify(self, context: Any, proposal: Proposal) -> Verification:
            cost = Cost(len(proposal) + 10.0 * (context.round == 0))
            return replace(super().verify(context, proposal), cost=cost)

    # The list ends in the second block: blocks of two and of one were timed in later rounds, of two in first ones.
    lists = {"2": alternatives([1, 3, 5, 7, 2]), "1": alternatives([1, 3, 5, 7, 9, 2])}
    made = Pipeline(lists["1"], Timed(), First(), block=2, policy=retry(3))
    short = Pipeline(lists["2"], Timed(), First(), block=2, policy=retry(3))
    records = [made.record(Task(id="0")), short.record(Task(id="1"))]
    other = Pipeline(lists["1"], Timed(), First(), block=1, policy=retry(9))
    changed = frozenset({"block", "on_rejection"})
    found = Replay(made, records, other, changed=changed).task(Task(id="0"), records[0])
    assert found.estimated
    assert not found.at_most
    assert [each.timing.verify for each in found.record.rounds] == [11.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_a_budget_that_an_upper_bound_reaches_is_not_answered():
    """Whether it was spent is not known; where the bound stays below it, it was not."""
    listed, judge = alternatives([1, 3, 5, 2, 4, 6]), Judge("alternatives")
    task = next(
        task
        for task in (Task(id=str(each)) for each in range(50))
        if Pipeline(listed, judge, First(threshold=0.9), block=6).record(task).outcome.tally.accepted == 0
    )
    made = Pipeline(listed, judge, First(threshold=0.9), block=6)
    for cost, answered in ((4.0, False), (100.0, True)):
        other = Pipeline(
            listed, judge, First(threshold=0.9), block=2, policy=retry(1), budget=Budget(cost=cost)
        )
        found = replayed(made, other, "block", "on_rejection", "budget", task=task)
        assert (found.record is not None) == answered
        assert answered or "the cost budget of 4 was spent by here is not known" in found.gap.why


def test_a_trusted_fallback_costs_what_it_did():
    """Its cost are the whole round's, since no verifier is asked."""
    listed, policy = alternatives([1, 3, 5, 7]), retry(1).then(fallback(OTHER, name="other", verified=False))
    made, other = (
        Pipeline(listed, Passing(), First(), block=2, policy=policy, budget=Budget(rounds=each))
        for each in (8, 9)
    )
    record = made.record(Task(id="1"))
    found = replayed(made, other, "budget")
    assert timeless(found.record) == timeless(record)
    assert record.outcome.cost == 3.0
    assert not found.at_most


def test_a_block_that_passes_whole_has_the_recorded_correction():
    """Under another threshold too: the verifier goes on from the same values."""

    class Steps(Judge):
        traits = VerifierTraits(thresholds=("least",))
        least = 0.0

        def verify(self, context: Any, proposal: Proposal) -> Verification:
            checks = tuple(Check("pass", 0.9) for _ in proposal.items)
            return Verification(checks=checks, correction=(len(context.accepted),))

        def rejudged(self, context: Any, proposal: Proposal, checks: Any) -> Any:
            return checks

    drafter = Drafter("continuation", "chain", length=50)
    made, other = (
        Pipeline(drafter, Steps("chain"), LongestPrefix(), block=3, done=Limit(6)) for _ in range(2)
    )
    found = replayed(made, other, "verifier")
    assert timeless(found.record) == timeless(made.record(Task(id="1")))


@pytest.mark.parametrize("kind", ["accept", "edit", "reject"])
def test_what_a_person_answered_is_answered_again(kind):
    """To the same question; another question was never put to a person who answers."""
    listed, task = alternatives([1, 3, 5, 7]), Task(id="1")
    policy = retry(1).then(escalate())
    made = Pipeline(listed, Passing(), First(), block=2, policy=policy)
    record = made.record(task, ask=lambda _: Answer(kind, 8 if kind == "edit" else None, "no"))
    same = Pipeline(listed, Passing(), First(), block=2, policy=policy, budget=Budget(rounds=50))
    found = Replay(made, [record], same, changed=frozenset({"budget"})).task(task, record)
    assert timeless(found.record) == timeless(record)
    less = Pipeline(listed, Passing(), First(), block=2, policy=escalate())
    found = Replay(made, [record], less, changed=frozenset({"on_rejection"})).task(task, record)
    assert "a person would be asked something that nobody was asked in the run" in found.gap.why
