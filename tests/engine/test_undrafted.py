"""A task that is not worth drafting for: it goes to the policy's fallback at once, and its record says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from draftverify import (
    Clause,
    Context,
    Cost,
    Fixed,
    Pipeline,
    Policy,
    Proposal,
    Task,
    TaskRecord,
    escalate,
    fallback,
    feedback,
    give_up,
    retry,
    reverify,
)
from draftverify.bench.tables.figures import drafting_words
from draftverify.lab.replay import Replay
from draftverify.rules import First, LongestPrefix
from draftverify.stats import drafting
from draftverify.stats.block import Measured
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import Check, Verification


class Priced:
    """Drafts what a function of the task says, at so many cost."""

    traits = GeneratorTraits(shape="alternatives", drafts_from="round")

    def __init__(self, says: Callable[[int], str], cost: float) -> None:
        self.says = says
        self.cost = cost
        self.asked = 0

    def propose(self, context: Context, n: int) -> Proposal:
        self.asked += 1
        return Proposal.alternatives((self.says(int(context.task.id)),), cost=Cost(0.0, self.cost))


class Right:
    """Passes "right"."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        checks = tuple(Check("pass" if item == "right" else "reject") for item in proposal.items)
        return Verification(checks=checks, cost=Cost(0.0, 0.01))


class Never(Fixed):
    """A block size that has given up drafting."""

    def __init__(self) -> None:
        super().__init__(1)
        self.settled: list[str] = []

    def drafts(self, context: Context) -> Any:
        return False

    def settle(self, context: Context, outcome: Any) -> None:
        self.settled.append(f"{context.task.id} {outcome.status}")


def wrong(task: int) -> str:
    return "wrong"


def right(task: int) -> str:
    return "right"


def built(
    says: Callable[[int], str] = wrong, *, policy: Any = None, block: Any = None, cost: float = 0.3
) -> Any:
    if policy is None:
        policy = retry(1).then(fallback(Priced(right, 1.0), name="dear"))
    block = Measured(at_most=1, objective="cost") if block is None else block
    return Pipeline(Priced(says, cost), Right(), First(), policy=policy, block=block)


def ran(pipeline: Pipeline, count: int, first: int = 0) -> list[TaskRecord]:
    return [pipeline.record(Task(id=str(i))) for i in range(first, first + count)]


def drafted(records: list[TaskRecord]) -> list[int]:
    return [place for place, record in enumerate(records) if not record.rounds[0].undrafted]


def cost_of(records: list[TaskRecord]) -> float:
    return sum(record.outcome.cost for record in records)


def test_a_hostile_drafter_is_given_up_and_the_answers_stay_the_fallbacks():
    """Of 300 tasks it is asked in a few; the others cost what the fallback alone does, retries and all left out."""
    pipeline, alone = built(), Pipeline(Priced(right, 1.0), Right(), First(), block=1)
    records, plain = ran(pipeline, 300), ran(alone, 300)
    assert [each.outcome.value for each in records] == [each.outcome.value for each in plain]
    assert len(drafted(records)) == pipeline.generator.asked / 2 < 8
    for record in records:
        if record.rounds[0].undrafted:
            first, second = record.rounds
            assert (first.items, first.asked, first.timing.passes, first.source) == ((), 0, 0, "generator")
            assert (first.steps[0].do, second.source) == ("fallback", "dear")
    assert cost_of(records[50:]) <= 1.02 * cost_of(plain[50:])
    found = pipeline.block.report()
    assert (found["n"], found["drafting"]) == (0, False)
    assert found["why"].startswith("do not draft: tasks that are drafted for are expected to run at")
    assert "lost what" in found["why"]
    assert -found["won"] * found["costs"]["plain"] == pytest.approx(cost_of(records) - cost_of(plain))


def test_told_fixed_costs_two_runs_draft_for_the_same_tasks():
    """In cost no clock takes part: drafting comes to an end, and back, in the same places."""
    turns = lambda task: "right" if task >= 150 else "wrong"
    one, other = (ran(built(turns), 300) for _ in range(2))
    assert drafted(one) == drafted(other)
    assert [each.outcome.cost for each in one] == [each.outcome.cost for each in other]
    assert drafted(one)[-1] == 299
    assert len(drafted(one)) > 50


@pytest.mark.parametrize("way", ["batch", "asyncio"])
def test_every_driver_stops(way):
    """What is decided before the first of a wave has ended is not known better; it stops after that."""
    pipeline = built()
    tasks = [Task(id=str(i)) for i in range(64)]
    if way == "batch":
        records = pipeline.record(tasks, size=4)
    else:

        async def every() -> list[TaskRecord]:
            return [await pipeline.arecord(task) for task in tasks]

        records = asyncio.run(every())
    assert all(record.outcome.value == "right" for record in records)
    assert len(drafted(records)) <= 8


def test_a_task_left_without_drafts_is_taken_up_again_without_them():
    """The record says it, so another process, which knows nothing yet, goes on where it was."""
    block = Never()
    record = built(block=block).record(Task(id="1"))
    assert block.settled == ["1 accepted"]
    fresh = built()
    again = fresh.record(Task(id="1"), restore=record.rounds[:1])
    assert [round.source for round in again.rounds] == ["generator", "dear"]
    assert again.outcome.value == "right"
    assert fresh.generator.asked == 0


def test_a_fallback_that_fails_leads_to_what_comes_after_it_and_not_back_to_the_drafts():
    """A retry that was passed over is not made after the fallback either: nothing is drafted for the task."""
    policy = retry(2).then(fallback(Priced(wrong, 1.0))).then(give_up())
    pipeline = built(right, policy=policy, block=Never())
    record = pipeline.record(Task(id="1"))
    assert record.outcome.status == "refused"
    assert pipeline.generator.asked == 0


def test_where_there_is_no_fallback_something_is_drafted():
    """A policy that only asks again, or a person, leaves the block size nothing to decide."""
    for policy in (retry(1), escalate(), None):
        pipeline = Pipeline(Priced(wrong, 0.1), Right(), First(), policy=policy, block=Never())
        assert pipeline.undrafted is None
        assert len(pipeline.record(Task(id="1")).rounds[0].items) == 1


@pytest.mark.parametrize(
    ("policy", "trouble"),
    [
        (fallback(object()), "exhausted"),
        (retry(3).then(feedback(2)).then(fallback(object(), on=["reject"])), "reject"),
        (fallback(object(), on=["error"]), None),
        (escalate().then(fallback(object())), None),
        (give_up(on=["exhausted"]).then(fallback(object(), on=["reject"])), "reject"),
        (reverify().then(fallback(object(), rounds=None, verified=False)), "exhausted"),
        (Policy((Clause(do="give_up"),)), None),
        (Policy(), None),
    ],
)
def test_the_way_out_is_the_first_step_that_asks_no_drafts(policy, trouble):
    """Only a fallback is one, and only where drafts that came to nothing would have led to it."""
    assert policy.undrafted == trouble


def test_a_verifier_that_goes_on_by_itself_is_never_left():
    """Where an empty block is a plain step, that is how not to draft, whatever the policy."""

    class Next:
        traits = VerifierTraits(plain_steps=True)

        def verify(self, context: Context, proposal: Proposal) -> Verification:
            checks = (Check("reject", correction="right"),) if proposal.items else ()
            return Verification(checks=checks, correction=() if checks else ("right",), cost=Cost(0.0, 1.0))

    class Guess(Priced):
        traits = GeneratorTraits(shape="chain")

        def propose(self, context: Context, n: int) -> Proposal:
            return Proposal.chain(("wrong",) * n)

    block = Measured(objective="cost")
    stop = lambda context, new: len(new) if len(context.accepted) >= 90 else None
    policy = fallback(Guess(wrong, 0.0), on=["error", "exhausted"])
    pipeline = Pipeline(Guess(wrong, 0.0), Next(), LongestPrefix(), policy=policy, block=block, done=stop)
    record = pipeline.record(Task(id="1"))
    assert not any(round.undrafted for round in record.rounds)
    assert sum(round.asked == 0 for round in record.rounds) > 60


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_whether_to_draft_is_true_or_false(answer):
    """Anything else fails the task, with the part and the value."""
    block = Never()
    block.drafts = lambda context: answer  # type: ignore[method-assign]
    outcome = built(block=block).run(Task(id="1"))
    assert outcome.status == "failed"
    assert "Never: whether to draft is" in outcome.reason


def test_a_block_size_that_cannot_learn_from_a_task_fails_that_task():
    """With the error, as where it cannot learn from a round."""
    block = Never()
    block.settle = lambda context, outcome: 1 / 0  # type: ignore[method-assign]
    outcome = built(block=block).run(Task(id="1"))
    assert outcome.status == "failed"
    assert "could not learn from the task" in outcome.reason
    assert "ZeroDivisionError" in outcome.reason


def test_what_was_not_drafted_is_replayed_as_such():
    """The same comes out of the record; a policy without a fallback is refused for it."""
    dear = Priced(right, 1.0)
    pipeline = built(policy=retry(1).then(fallback(dear)))
    record = next(each for each in ran(pipeline, 12) if each.rounds[0].undrafted)

    def replayed(policy: Policy) -> Any:
        other = Pipeline(pipeline.generator, pipeline.verifier, First(), policy=policy, block=Measured())
        replay = Replay(pipeline, [record], other, changed=frozenset({"on_rejection"}))
        return replay.task(Task(id=record.task), record)

    same = replayed(retry(2).then(fallback(dear))).record
    assert [(round.source, round.undrafted) for round in same.rounds] == [
        ("generator", True),
        ("fallback", False),
    ]
    assert same.outcome.cost == record.outcome.cost
    assert "nothing was drafted" in replayed(retry(1)).gap.why


LEFT = ["a stream that is not read to its end", "a task that is cancelled"]


@pytest.mark.parametrize("how", LEFT)
def test_tasks_that_are_left_hold_nothing_back(how):
    """They are never settled. Else a few of them would leave the ledger nothing to draft with, for good."""

    class Hangs(Right):
        async def verify(self, context: Context, proposal: Proposal) -> Verification:  # type: ignore[override]
            await asyncio.sleep(60.0 if context.task.id.startswith("1") else 0.0)
            return super().verify(context, proposal)

    says = Priced(lambda task: "right" if task else "wrong", 0.25)
    block, policy = Measured(at_most=1, objective="cost"), fallback(Priced(right, 1.0))
    cancels = how == LEFT[1]
    pipeline = Pipeline(says, Hangs() if cancels else Right(), First(), policy=policy, block=block)

    async def leave(task: str) -> None:
        if cancels:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pipeline.arun(Task(id=task)), 0.002)
        else:
            stream = pipeline.stream(Task(id=task))
            next(stream)
            stream.close()

    async def all_of_them() -> None:
        await pipeline.arun(Task(id="0"))
        for number in range(10, 20):
            await leave(str(number))
        await pipeline.arun(Task(id="2"))

    asyncio.run(all_of_them())
    assert says.asked == 12


def test_the_account_says_what_drafting_has_lost_and_won():
    """From the records alone, and the same as beside a run of the fallback alone; of a fixed block too."""

    class Slow(Priced):
        def propose(self, context: Context, n: int) -> Proposal:
            return Proposal.alternatives((self.says(int(context.task.id)),), cost=Cost(self.cost))

    def run(says: Callable[[int], str], block: Any) -> Any:
        policy = fallback(Slow(right, 1.0))
        return drafting(ran(Pipeline(Slow(says, 0.25), Right(), First(), policy=policy, block=block), 200))

    stopped = run(wrong, Measured(at_most=1))
    assert stopped.of == "tasks"
    assert stopped.stopped is not None
    assert stopped.stopped < 8
    assert stopped.again >= 1
    assert not stopped.back
    assert stopped.lost == pytest.approx(0.25 * stopped.drafted, abs=0.05)
    assert drafting_words(stopped).startswith(f"drafting stopped after {stopped.stopped} tasks; it lost ")
    assert f"tried again {stopped.again} time" in drafting_words(stopped)
    never = run(wrong, 1)
    assert never.stopped is None
    assert never.lost == pytest.approx(50.0, rel=0.01)
    assert "drafting never stopped; it lost 50" in drafting_words(never)
    turned = run(lambda task: "right" if task >= 60 else "wrong", Measured(at_most=1))
    assert turned.back
    assert turned.lost < -40.0
    assert "won" in drafting_words(turned)
    assert drafting_words(turned).endswith("and back since")
    assert run(right, 1) is None  # nobody knows what the fallback would have taken
