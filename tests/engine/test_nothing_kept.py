"""A task of which nothing was kept: not accepted, whatever ended it; an empty answer is right where it was chosen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import (
    Budget,
    Check,
    Context,
    Decision,
    OutcomeError,
    Pipeline,
    Policy,
    Proposal,
    Task,
    Verification,
    feedback,
    generator,
    retry,
    verifier,
)
from draftverify.bench.tables.summarise import summarise
from draftverify.rules import (
    AdaptiveConsistency,
    All,
    Beam,
    Best,
    BestStep,
    EnoughEvidence,
    First,
    FirstStop,
    Limit,
    LongestPrefix,
    Majority,
    Rounds,
    WeightedVote,
)

from .parts import Blocks, Judge


class Ends:
    """A rule of one's own without `finish`: keeps what passed, and says itself that the task is over."""

    def decide(self, context: Context, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        kept = tuple([index for index, check in enumerate(verification.checks) if check.verdict == "pass"])
        return Decision(kept=kept, done=True)


def at_once(context: Context, new: tuple[Any, ...]) -> int:
    """A stopping rule that cuts everything."""
    return 0


RULES = [
    All(),
    All(0.5),
    LongestPrefix(),
    BestStep(),
    First(),
    First(2),
    First(threshold=0.5, otherwise="best"),
]
RULES += [Best(), Beam(2), Majority(), WeightedVote(), Ends()]
DONE = [None, Rounds(1), Rounds(3), Limit(2), FirstStop([Limit(1), Rounds(2)]), at_once]
DONE += [AdaptiveConsistency(at_most=3), EnoughEvidence(0.9, at_most=2)]
POLICIES = [Policy(), retry(2), feedback().then(retry(9))]
NOT_PASSED = st.sampled_from(["reject", "reject", "error", "timeout", "abstain", "unchecked"])


@given(
    st.sampled_from(RULES),
    st.sampled_from(DONE),
    st.sampled_from(POLICIES),
    st.lists(st.lists(NOT_PASSED, min_size=1, max_size=3), min_size=1, max_size=5),
    st.booleans(),
)
def test_a_task_whose_every_item_was_refused_is_never_accepted(
    rule: Any, done: Any, policy: Policy, verdicts: list[list[Any]], exhausted: bool
) -> None:
    """Under any rule, stopping rule and policy; taken up again it ends alike."""
    make = Proposal.chain if isinstance(rule, LongestPrefix) else Proposal.alternatives
    blocks = [make([Check(verdict, score=0.1) for verdict in block]) for block in verdicts]
    if exhausted:
        blocks[-1] = make(blocks[-1].items, exhausted=True)
    judge = Judge(lambda context, item: item)
    pipeline = Pipeline(
        Blocks(*blocks), judge, rule, policy=policy, block=3, done=done, budget=Budget(rounds=9)
    )
    record = pipeline.record("t")
    outcome = record.outcome
    assert (outcome.status == "accepted", outcome.value) == (False, None)
    with pytest.raises(OutcomeError):
        outcome.unwrap()
    again = pipeline.record("t", restore=record.rounds).outcome
    assert (again.status, again.reason) == (outcome.status, outcome.reason)


@pytest.mark.parametrize(
    "rule", [All(), LongestPrefix(), BestStep(), Ends()], ids=lambda rule: type(rule).__name__
)
def test_it_ends_as_first_ends(rule: Any) -> None:
    """Abstained, with the reason and the best refused candidate, whether or not `done` cut."""
    guesses = generator(lambda context, n: [1], shape=None)
    no = verifier(lambda context, item: Check("reject", score=0.3, reason="wrong"), scores=True)
    for done in (Rounds(1), at_once):
        ends = [Pipeline(guesses, no, each, done=done).run("t") for each in (First(), rule)]
        assert [end.status for end in ends] == ["abstained"] * 2
        assert [end.reason for end in ends] == ["nothing was accepted"] * 2
        assert [end.refused.value for end in ends] == [1, 1]
        assert [end.value for end in ends] == [None, None]


def test_no_speed_up_is_shown_of_tasks_that_kept_nothing() -> None:
    """However fast the pipeline gave up on them."""
    tasks = [Task(id=str(number), input={"n": number}) for number in range(3)]
    guesses = generator(lambda context, n: [1])
    records = {}
    for name, passes in (("base", True), ("quick", False)):
        judge = verifier(lambda context, item, passes=passes: passes)
        pipeline = Pipeline(guesses, judge, All(), done=Rounds(1))
        records[name] = [pipeline.record(task) for task in tasks]
    row = summarise(name="n", tasks=tasks, records=records, baseline="base").pipelines[1].rows[-1]
    assert row.speedup is not None
    assert row.speedup.value is None
    assert row.statuses == {"abstained": 3}


def test_an_answer_that_was_cut_to_nothing_is_an_empty_answer() -> None:
    """Where the rule kept, spliced or corrected something: an end token alone, which is no part of the answer."""
    end = generator(lambda context, n: ["<end>"], shape="chain")
    passes = verifier(lambda context, item: True)
    corrects = verifier(lambda context, item: Check("reject", correction="<end>"))
    for judge in (passes, corrects, Goes("<end>")):
        cut = Pipeline(end, judge, LongestPrefix(), done=lambda context, new: 0 if "<end>" in new else None)
        outcome = cut.run("t")
        assert (outcome.status, outcome.value) == ("accepted", ())


class Goes:
    """A verifier that refuses the draft and goes on with a value of its own."""

    def __init__(self, value: str) -> None:
        self.value = value

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        checks = (Check("reject"),) * len(proposal.items)
        return Verification(checks=checks, correction=(self.value,))


def test_an_empty_chain_that_the_stopping_rule_ends_is_an_empty_answer() -> None:
    """There was nothing to draft: the goal holds already. Alternatives have no such plain step."""
    nothing = verifier(lambda context, item: False)
    for draft, block in (([], 2), ([1], 0)):
        empty = Pipeline(Blocks(Proposal.chain(draft)), nothing, LongestPrefix(), block=block, done=at_once)
        outcome = empty.run("t")
        assert (outcome.status, outcome.value) == ("accepted", ())
    refused = Pipeline(Blocks(Proposal.chain([1])), nothing, LongestPrefix(), done=at_once).run("t")
    assert refused.status == "abstained"
    none = Pipeline(Blocks(Proposal.alternatives([])), nothing, All(), done=at_once).run("t")
    assert (none.status, none.value) == ("abstained", None)
