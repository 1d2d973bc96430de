"""Replay of other verifiers: stages in another order or left out, and scores read with other thresholds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import Budget, Pipeline, Proposal, Task, retry
from draftverify.bench.records import timeless
from draftverify.checks.verifiers import AllOf, AnyOf
from draftverify.errors import ConfigError
from draftverify.lab.replay import Replay
from draftverify.rules import Best, First, Limit, LongestPrefix
from draftverify.traits import VerifierTraits
from draftverify.values import UNCHECKED, Check, Cost, Verification

from .test_replay import Drafter, alternatives, number


class Stage:
    """Judges each item by itself and what it stands on; stops early where it is one that does."""

    def __init__(self, name: str, threshold: float = 0.3, failing: bool = False, cost: float = 0.0) -> None:
        self.name = name
        self.traits = VerifierTraits(name=name, provides={"verdicts", "scores"}, thresholds={"threshold"})
        self.threshold = threshold
        self.failing = failing
        self.cost = cost

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        """One check per item; a call for some blocks fails."""
        path = [
            [*context.accepted, *(proposal.items[i] for i in proposal.path(k))] for k in range(len(proposal))
        ]
        if self.failing and number(context.task.id, self.name) % 4 == 0:
            raise RuntimeError("it broke")
        drawn = [number(context.task.id, self.name, each) for each in path]
        found = [
            Check("abstain", reason="odd") if each % 9 == 0 else Check("pass", each % 10 / 10)
            for each in drawn
        ]
        checks = self.rejudged(context, proposal, tuple(found))
        cost = Cost(amount=self.cost * len(proposal)) if self.cost else None
        return Verification(checks=checks, cost=cost, notes={"by": self.name})

    def rejudged(self, context: Any, proposal: Proposal, checks: Any) -> Any:
        """The checks at this threshold."""
        found: list[Check] = []
        for check, parent in zip(checks, proposal.parents, strict=True):
            passed = sum(each.verdict == "pass" for each in found)
            if (parent >= 0 and found[parent].verdict != "pass") or (
                context.enough is not None and passed >= context.enough
            ):
                check = UNCHECKED
            elif check.score is not None:
                verdict = "pass" if check.score >= self.threshold else "reject"
                check = msgspec.structs.replace(
                    check, verdict=verdict, reason="" if verdict == "pass" else "low"
                )
            found.append(check)
        return tuple(found)


STAGES = [Stage("syntax", 0.2), Stage("types", 0.4, failing=True), Stage("tests", 0.3)]
RULES = {"first": First, "first two": lambda: First(2), "best": Best}


DRAFTERS = {True: Drafter("continuation", "chain"), False: Drafter("list", "alternatives")}


def built(chain: bool, kind: Any, order: Any, block: int, rule: str, **more: Any) -> Pipeline:
    """A pipeline of some of the stages."""
    return Pipeline(
        DRAFTERS[chain],
        kind([STAGES[place] for place in order], **more),
        LongestPrefix() if chain else RULES[rule](),
        policy=retry(2),
        block=block,
        done=Limit(4) if chain else None,
        budget=Budget(rounds=5),
    )


orders = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)


questions = st.fixed_dictionaries(
    {
        "ask_all": st.booleans(),
        "chain": st.booleans(),
        "kinds": st.sampled_from([(AllOf, AllOf), (AnyOf, AnyOf), (AllOf, AnyOf)]),
        "first": orders,
        "second": orders,
        "blocks": st.tuples(st.integers(1, 4), st.integers(1, 4)),
        "rules": st.tuples(st.sampled_from(sorted(RULES)), st.sampled_from(sorted(RULES))),
        "task": st.integers(0, 100),
    }
)


@given(questions)
@settings(max_examples=120)
def test_replay_of_stages_equals_rerun(question):
    """Other orders, other blocks and rules with them, stages left out: the log says what a rerun would, or refuses."""
    holds(**question)


@pytest.mark.exhaustive
@given(questions)
@settings(max_examples=3_000)
def test_replay_of_stages_equals_rerun_in_a_sweep(question):
    """The same, far more often."""
    holds(**question)


def holds(ask_all, chain, kinds, first, second, blocks, rules, task):
    """Whether the log answered; where it did, the answer is the rerun's."""
    made = built(chain, kinds[0], first, blocks[0], rules[0], ask_all=ask_all)
    other = built(chain, kinds[1], second, blocks[1], rules[1])
    record = made.record(Task(id=str(task)))
    changed = frozenset({"verifier", "block", "rule"})
    if not set(second) <= set(first):
        with pytest.raises(ConfigError, match="said nothing in these records"):
            Replay(made, [record], other, changed=changed)
        return False
    found = Replay(made, [record], other, changed=changed).task(Task(id=str(task)), record)
    if found.record is None:
        assert found.gap is not None
        return False
    assert timeless(found.record) == timeless(other.record(Task(id=str(task))))
    return True


def test_the_log_answers_often_where_all_stages_were_asked():
    """Other orders of what can be drafted from the log."""
    common = {"chain": False, "kinds": (AllOf, AllOf), "blocks": (3, 3), "rules": ("best", "best")}
    answers = {
        ask_all: [
            holds(ask_all, first=[0, 1, 2], second=second, task=task, **common)
            for task in range(20)
            for second in ([2, 1, 0], [1, 0, 2], [2])
        ]
        for ask_all in (True, False)
    }
    assert sum(answers[True]) >= 40
    assert 0 < sum(answers[False]) < sum(answers[True]) / 2


def listed(verifier: Any, rule: Any = None) -> Pipeline:
    """Six numbers in blocks of three."""
    return Pipeline(SIX, verifier, First() if rule is None else rule, block=3, policy=retry(1))


SIX = alternatives([1, 2, 3, 4, 5, 6])


def test_where_all_stages_were_asked_every_order_is_answered():
    """And the words beside decide nothing, and cost the rounds nothing."""
    costly = [Stage("a", 0.5, cost=1.0), Stage("b", 0.5, cost=2.0)]
    answered = 0
    for task in (Task(id=str(each)) for each in range(20)):
        plain, asked = (listed(AllOf(costly, ask_all=each), Best()) for each in (False, True))
        record = asked.record(task)
        bare = plain.record(task)
        assert record.outcome.value == bare.outcome.value
        assert record.outcome.cost == bare.outcome.cost
        other = listed(AllOf(costly[::-1], ask_all=True), Best())
        found = Replay(asked, [record], other, changed=frozenset({"verifier"})).task(task, record)
        if found.record is not None:
            again = other.record(task)
            assert found.record.outcome.value == again.outcome.value
            assert found.estimated
            assert not found.at_most
            assert again.outcome.cost <= found.record.outcome.cost
            answered += 1
        elif found.gap is not None:
            assert "nothing was drafted" in found.gap.why
    assert answered >= 15


def test_whether_a_stage_stops_early_is_not_guessed():
    """A stage that was never last was never told that one item suffices: what it makes of that is in no record."""
    stages = [Stage("a", 0.0), Stage("b", 0.0)]
    made, other = listed(AllOf(stages, ask_all=True)), listed(AllOf(stages[::-1], ask_all=True))
    task = Task(id="3")
    record = made.record(task)
    found = Replay(made, [record], other, changed=frozenset({"verifier"})).task(task, record)
    assert found.gap is not None
    assert found.gap.why == "whether the stage a stops once 1 items passed is in no record"


def test_an_item_that_a_stage_before_refused_is_refused():
    """By the name of the stage that never saw it, and in the same words for every task."""
    made, other = (listed(AllOf([STAGES[place] for place in order])) for order in ((0, 2), (2, 0)))
    tasks = [Task(id=str(each)) for each in range(20)]
    records = [made.record(task) for task in tasks]
    replay = Replay(made, records, other, changed=frozenset({"verifier"}))
    gaps = [replay.task(task, record).gap for task, record in zip(tasks, records, strict=True)]
    refused = [
        any(
            check.stage == "syntax" and check.verdict != "pass"
            for round in record.rounds
            for check in round.checks
        )
        for record in records
    ]
    said = "items that stages before refused were never put before the stage tests"
    assert [gap is not None and gap.why == said for gap in gaps] == refused
    assert 0 < sum(refused) < 20


@given(st.tuples(st.integers(0, 10), st.integers(0, 10)), st.booleans(), st.booleans(), st.integers(0, 100))
@settings(max_examples=80)
def test_replay_of_a_verifiers_threshold_equals_rerun(thresholds, chain, staged, task):
    """Alone or as a stage; what a looser one would have to look at again is refused."""
    pipelines = []
    for each in thresholds:
        own: Any = Stage("own", each / 10)
        pipelines.append(
            Pipeline(
                DRAFTERS[chain],
                AllOf([STAGES[0], own], ask_all=True) if staged else own,
                LongestPrefix() if chain else Best(),
                policy=retry(3),
                block=3,
                done=Limit(4) if chain else None,
                budget=Budget(rounds=6),
            )
        )
    made, other = pipelines
    record = made.record(Task(id=str(task)))
    found = Replay(made, [record], other, changed=frozenset({"verifier"})).task(Task(id=str(task)), record)
    if found.record is not None:
        assert timeless(found.record) == timeless(other.record(Task(id=str(task))))
    else:
        assert found.gap is not None


@pytest.mark.parametrize(
    "verifier", [Stage("other"), Stage("own", failing=True), AllOf([Stage("own", failing=True)])]
)
def test_a_verifier_that_said_nothing_is_refused(verifier):
    """Another one, or the same with another argument than a threshold."""
    with pytest.raises(ConfigError, match="said nothing in these records"):
        Replay(listed(Stage("own")), [], listed(verifier), changed=frozenset({"verifier"}))
