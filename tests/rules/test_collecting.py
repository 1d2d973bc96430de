"""Rules that collect: a sample without an answer casts no vote and ends nothing; what does end a vote, and how."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from draftverify import (
    Answer,
    Budget,
    Check,
    Context,
    Pipeline,
    PipelineError,
    Policy,
    Proposal,
    Task,
    escalate,
    fallback,
    feedback,
    generator,
    give_up,
    retry,
    verifier,
)
from draftverify.bench.records import timeless
from draftverify.rules import (
    AdaptiveConsistency,
    All,
    Best,
    Limit,
    Majority,
    Rounds,
    SureMajority,
    WeightedVote,
)
from draftverify.traits import RuleTraits
from draftverify.values import Outcome, TaskRecord
from draftverify_reasoning import Answered

DATA = Path(os.environ.get("DRAFTVERIFY_DATA", Path(__file__).parents[2] / "../shared/data"))
RECORDING = DATA / "rsd_math100/math_cot_100.jsonl"


def sampled(silent: float) -> Any:
    """A generator of whose samples this share has no answer; of the others four in five are right."""

    def draft(context: Context, n: int) -> list[str]:
        texts = []
        for place in range(context.drafted, context.drafted + n):
            sample = random.Random(f"7 {context.task.id} {place}")
            answer = 42 if sample.random() < 0.8 else sample.choice([1, 2, 3])
            texts.append("I do not know." if sample.random() < silent else f"So the answer is {answer}.")
        return texts

    return generator(draft)


def vote(silent: float, block: int, policy: Policy | None = None, done: Any = None) -> Pipeline:
    done = AdaptiveConsistency() if done is None else done
    return Pipeline(sampled(silent), Answered(), Majority(), policy=policy, block=block, done=done)


def solved(outcome: Outcome) -> bool:
    return outcome.status == "accepted" and outcome.value["answer"] == "42"


def alike(silent: float, block: int, tasks: int) -> int:
    """How many tasks are solved, each of them exactly as with `retry(40)`, from the same samples."""
    count = 0
    for number in range(tasks):
        task = Task(id=str(number))
        alone, retried = (vote(silent, block, policy).run(task) for policy in (None, retry(40)))
        assert (alone.status, alone.value, alone.rounds, alone.tally) == (
            retried.status, retried.value, retried.rounds, retried.tally
        )  # fmt: skip
        count += solved(alone)
    return count


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("silent", [0.1, 0.3])
def test_samples_without_an_answer_end_no_vote(silent: float, block: int) -> None:
    """It draws the next as it would with `retry(40)`. The samples are the same, by their seeds, so the outcomes are
    equal, and no error probability is left."""
    assert alike(silent, block, 16) == 16


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("silent", [0.0, 0.02, 0.1, 0.3])
def test_300_votes_are_solved_whatever_share_has_no_answer(silent: float, block: int) -> None:
    """Five of 100,000 such votes are lost in a simulation. With a probability below .0005 each, more than 4 lost ones
    of 300 would come with a probability below 10⁻⁶."""
    assert alike(silent, block, 300) >= 296


@pytest.mark.skipif(not RECORDING.exists(), reason="the recorded data is not here (DRAFTVERIFY_DATA)")
def test_votes_on_recorded_solutions_of_which_some_are_cut_off() -> None:
    """Of each problem's eight samples some end before their answer; the others are voted on, in their order."""
    rows = [json.loads(line) for line in RECORDING.open(encoding="utf-8")][:40]
    pools = {
        str(row["idx"]): [
            text.split("\\boxed")[0] if random.Random(f"7 {row['idx']} {place}").random() < 0.3 else text
            for place, text in enumerate(row["code"])
        ]
        for row in rows
    }
    recorded = generator(lambda context, n: pools[context.task.id][context.drafted :][:n])
    answered, until = Answered("boxed"), AdaptiveConsistency(at_most=8)
    ends = []
    for name, pool in pools.items():
        ways = [
            Pipeline(recorded, answered, Majority(), policy=policy, done=until).record(Task(id=name))
            for policy in (None, retry(40))
        ]
        outcomes = [record.outcome for record in ways]
        assert (outcomes[0].status, outcomes[0].value) == (outcomes[1].status, outcomes[1].value)
        drawn = [text for round in ways[0].rounds for text in round.items]
        assert drawn == pool[: len(drawn)]
        ends.append(ways[0])
    assert all(record.outcome.status == "accepted" for record in ends)
    assert sum(not round.held for record in ends for round in record.rounds) > 40


def never(done: Any, rule: Any = None, **more: Any) -> TaskRecord:
    """A vote on samples none of which has an answer."""
    pipeline = Pipeline(
        sampled(1.0), Answered(), Majority() if rule is None else rule, done=done, **{"block": 1, **more}
    )
    return pipeline.record("t")


@pytest.mark.parametrize("block", [1, 4])
def test_a_vote_in_which_no_sample_has_an_answer_ends_at_its_samples(block: int) -> None:
    """`at_most` counts what was drawn. The vote abstains, and shows a refused sample."""
    for done in (AdaptiveConsistency(at_most=12), None):
        outcome = never(done, block=block).outcome
        assert (outcome.status, outcome.tally.trials) == ("abstained", 12 if done else 40)
        assert (outcome.value, outcome.reason) == (None, "nothing was accepted")
        assert outcome.refused is not None
        assert outcome.refused.reason == "no answer"


@pytest.mark.parametrize(
    ("rule", "done"),
    [(Majority(), SureMajority()), (All(), Limit(3)), (Majority(), lambda context, new: None)],
    ids=["sure majority", "limit", "a function"],
)
def test_where_nothing_else_ends_it_a_hundred_blocks_in_vain_do(rule: Any, done: Any) -> None:
    """A stopping rule that waits for answers does not run into the budget of 100,000 rounds."""
    outcome = never(done, rule).outcome
    assert (outcome.status, outcome.rounds) == ("refused", 100)
    assert outcome.reason == "every candidate was refused"


def test_a_hundred_blocks_in_vain_are_counted_in_a_row() -> None:
    """One ballot, and the count begins anew."""
    numbered = generator(lambda context, n: [context.round])
    some = verifier(lambda context, item: item % 100 == 0)
    outcome = Pipeline(numbered, some, Majority(), done=SureMajority(), budget=Budget(rounds=300)).run("t")
    assert (outcome.rounds, outcome.value) == (300, 0)


def test_the_budget_counts_rounds_without_a_ballot_and_the_ballots_are_counted() -> None:
    """It ends the vote with what is held."""
    texts = ["?", "The answer is 4.", "?", "?"]
    one = generator(lambda context, n: [texts[context.round]])
    outcome = Pipeline(one, Answered(), Majority(), budget=Budget(rounds=4)).run("t")
    assert (outcome.status, outcome.rounds, outcome.value["answer"]) == ("refused", 4, "4")
    blank = Pipeline(one, Answered(), Majority(), budget=Budget(rounds=1)).run("t")
    assert (blank.status, blank.value, blank.refused.value) == ("refused", None, "?")


def test_an_exhausted_generator_ends_a_vote_and_the_ballots_are_counted() -> None:
    """With its last block, with or without an answer, or with an empty one."""
    for last in (["?"], []):
        blocks = [["The answer is 4."], ["?"], last]
        pool = generator(
            lambda context, n, blocks=blocks: Proposal.alternatives(
                blocks[context.round], exhausted=context.round == 2
            )
        )
        outcome = Pipeline(pool, Answered(), Majority()).run("t")
        assert (outcome.status, outcome.rounds, outcome.value["answer"]) == ("refused", 3, "4")


def test_a_check_that_failed_is_no_sample_without_an_answer() -> None:
    """It is for the policy; without a clause the task fails, and its ballots are counted."""
    texts = ["a", "b", "c"]
    one = generator(lambda context, n: [texts[context.round]])
    breaks = verifier(lambda context, item: Check("error") if item == "b" else True)
    outcome = Pipeline(one, breaks, Majority(None)).run("t")
    assert (outcome.status, outcome.rounds, outcome.value) == ("failed", 2, "a")


def steps_of(policy: Policy, ask: Any = None) -> tuple[list[str], Outcome]:
    """What becomes of a vote whose first three samples have no answer."""
    one = generator(lambda context, n: ["?" if context.round < 3 else "The answer is 4."])
    record = Pipeline(one, Answered(), Majority(), policy=policy).record("t", ask=ask)
    return [step.do for round in record.rounds for step in round.steps], record.outcome


def test_a_clause_that_answers_goes_first_and_a_used_up_one_ends_nothing() -> None:
    """As far as it was given: after it the vote goes on by itself."""
    steps, outcome = steps_of(feedback(1, on=("reject",)))
    assert steps == ["feedback", "feedback"]
    assert (outcome.status, outcome.value["answer"], outcome.rounds) == ("accepted", "4", 7)
    steps, outcome = steps_of(retry(2))
    assert (steps, outcome.status) == (["regenerate"] * 2, "accepted")
    other = generator(lambda context, n: ["The answer is 5."])
    steps, outcome = steps_of(fallback(other, rounds=None))
    assert (steps, outcome.value["answer"]) == (["fallback"], "5")


def test_whoever_wants_a_vote_to_end_or_a_person_to_be_asked_says_so() -> None:
    """`give_up` ends it at the first sample without an answer, `escalate` asks about it."""
    steps, outcome = steps_of(give_up(on=("reject",)))
    assert (steps, outcome.status, outcome.rounds) == (["give_up"], "refused", 1)
    questions = []
    steps, outcome = steps_of(escalate(), ask=lambda request: questions.append(request))
    assert (steps, outcome.status, len(questions)) == (["escalate"], "waiting", 1)
    steps, outcome = steps_of(escalate(), ask=lambda request: Answer("edit", "The answer is 6."))
    assert (outcome.status, outcome.value["answer"], steps) == ("accepted", "4", ["escalate"])


def scored(*scores: float) -> tuple[Any, Any]:
    """One item a round, passed with its score."""
    one = generator(lambda context, n: [context.round])
    return one, verifier(lambda context, item: Check("pass", score=scores[item]), scores=True)


def test_best_and_all_collect_under_a_stopping_rule_that_they_are_given() -> None:
    """The best of three blocks, of which the first had no good item; by itself the policy is asked."""
    parts = scored(0.1, 0.6, 0.2, 0.7)
    best = Pipeline(*parts, Best(0.5), done=Rounds(4)).run("t")
    assert (best.status, best.value, best.rounds) == ("accepted", 3, 4)
    both = Pipeline(*parts, All(0.5), done=Limit(2)).run("t")
    assert (both.status, both.value, both.rounds) == ("accepted", (1, 3), 4)
    for rule in (Best(0.5), All(0.5)):
        alone = Pipeline(*parts, rule).run("t")
        assert (alone.status, alone.rounds, alone.refused.value) == ("refused", 1, 0)


def test_where_refused_items_are_drafted_again_and_refused_the_task_ends() -> None:
    """A block that began anew would accept the kept ones twice. Ballots are no such items: a vote goes on."""
    rows = generator(lambda context, n: list(context.refused) or [1, 2, 3])
    odd = verifier(lambda context, item: item % 2 == 1)
    policy = retry(2, partial=True)
    outcome = Pipeline(rows, odd, All(), block=3, done=Limit(3), policy=policy).run("t")
    assert (outcome.status, outcome.value, outcome.rounds) == ("refused", (1, 3), 3)
    ballots = generator(
        lambda context, n: [[1, 2], [2], [2], [2, 1], [1, 2], [2], [1], [1, 1]][context.round][:n]
    )
    outcome = Pipeline(ballots, odd, Majority(), block=2, policy=policy).run("t")
    assert (outcome.status, outcome.value) == ("accepted", 1)


@pytest.mark.parametrize("rule", [Majority(None), WeightedVote(None)])
def test_a_round_without_a_ballot_is_a_first_try_without_trouble(rule: Any) -> None:
    """So no sample of a vote is a retry; taken up again after any round the vote ends alike."""
    numbered = generator(lambda context, n: [context.round % 3])
    odd = verifier(lambda context, item: Check("pass" if item == 1 else "reject", score=1.0), scores=True)
    pipeline = Pipeline(numbered, odd, rule)
    record = pipeline.record("t")
    assert (record.outcome.status, record.outcome.value) == ("accepted", 1)
    assert [round.items for round in record.rounds if not round.held] == [(0,), (2,)] * 3 + [(0,)]
    assert all(not round.trouble and not round.steps and not round.tries for round in record.rounds)
    for place in range(len(record.rounds)):
        again = pipeline.record("t", restore=record.rounds[:place])
        assert timeless(again) == timeless(record)


def test_an_unknown_word_for_when_a_rule_collects_is_told() -> None:
    """When the pipeline is built."""
    with pytest.raises(PipelineError, match="'sometimes' is no word for collects"):
        RuleTraits(collects="sometimes")  # type: ignore[arg-type]
