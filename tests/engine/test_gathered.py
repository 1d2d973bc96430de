"""Tasks that are gathered under asyncio share the calls of parts that take turns; nowhere else do they wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from draftverify import Check, Decision, Pipeline, Proposal, Task, Verification
from draftverify.engine import line, turns
from draftverify.rules import All, Limit
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import TaskRecord

from .parts import Judge, Prefix

PASS = 0.02
"""Seconds of a pass."""


class Counts:
    """Drafts the number of the round, in the event loop: who was answered in one tick is back in one tick."""

    traits = GeneratorTraits(shape="chain")

    async def propose(self, context, n):
        return Proposal.chain((context.round,))


class CountsInThreads:
    """The same in threads, which need some time, and more on a busy machine."""

    traits = GeneratorTraits(shape="chain")

    def propose(self, context, n):
        return Proposal.chain((context.round,))


class Shared:
    """Takes turns; remembers who was in each of its calls, and whether two were under way at once."""

    traits = VerifierTraits(concurrent=False)

    def __init__(self, seconds: float = PASS) -> None:
        self.seconds = seconds
        self.calls: list[list[str]] = []
        self.inside = 0

    def verify(self, context, proposal):
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts, proposals):
        self.inside += 1
        assert self.inside == 1, "two at once"
        self.calls.append([context.task.id for context in contexts])
        time.sleep(self.seconds)
        self.inside -= 1
        return [Verification(checks=(Check("pass"),) * len(proposal)) for proposal in proposals]


class SharedLater(Shared):
    """The same as coroutines."""

    async def verify(self, context, proposal):
        return (await self.verify_many([context], [proposal]))[0]

    async def verify_many(self, contexts, proposals):
        self.inside += 1
        assert self.inside == 1, "two at once"
        self.calls.append([context.task.id for context in contexts])
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.inside -= 1
        return [Verification(checks=(Check("pass"),) * len(proposal)) for proposal in proposals]


def rounds(n: int, verifier, generator=None, rule=None) -> Pipeline:
    return Pipeline(generator or Counts(), verifier, rule or Prefix(), done=Limit(n))


async def gathered(pipeline: Pipeline, count: int) -> list[TaskRecord]:
    return list(await asyncio.gather(*[pipeline.arecord(Task(id=str(i))) for i in range(count)]))


@pytest.mark.parametrize("kind", [Shared, SharedLater])
def test_gathered_tasks_share_each_pass(kind):
    """Twelve tasks of five rounds make five passes and not sixty; each round holds its share of the pass."""
    verifier = kind()
    records = asyncio.run(gathered(rounds(5, verifier), 12))
    assert [record.outcome.value for record in records] == [(0, 1, 2, 3, 4)] * 12
    assert list(map(len, verifier.calls)) == [12] * 5
    timing = records[0].rounds[3].timing
    assert timing.batch == 12
    assert timing.busy < timing.verify / 2


def test_those_that_come_back_one_by_one_are_waited_for():
    """Their drafts are made in threads, and the first to have one does not leave alone each time."""
    verifier = Shared()
    records = asyncio.run(gathered(rounds(8, verifier, CountsInThreads()), 12))
    assert [record.outcome.value for record in records] == [tuple(range(8))] * 12
    assert len(verifier.calls) <= 32  # 8 on a quiet machine, of 96


def test_whoever_is_prepared_or_drafted_for_by_the_same_model_catches_up():
    """Preparing, drafting and verifying take turns with each other; nobody is verified while others are behind."""

    class Model(Shared):
        traits = (GeneratorTraits(shape="chain", concurrent=False), VerifierTraits(concurrent=False))

        def prepare(self, task):
            time.sleep(0.001)
            return task

        def propose(self, context, n):
            return self.propose_many([context], [n])[0]

        def propose_many(self, contexts, ns):
            drafts.append(len(contexts))
            time.sleep(0.002)
            return [Proposal.chain((context.round,)) for context in contexts]

    drafts: list[int] = []
    model = Model()
    records = asyncio.run(gathered(rounds(4, model, model), 8))
    assert {record.outcome.value for record in records} == {(0, 1, 2, 3)}
    assert list(map(len, model.calls)) == [8] * 4
    assert drafts == [8] * 4


def test_rules_are_called_once_for_all():
    """Those whose pass was one decide in one call; a lone task's rule is called by itself."""
    decided: list[int] = []

    class Many(Prefix):
        def decide_many(self, contexts, proposals, verifications, rngs):
            decided.append(len(contexts))
            if len(contexts) == 6 and decided.count(6) == 1:
                raise RuntimeError("for all")
            return [
                Prefix.decide(self, *each)
                for each in zip(contexts, proposals, verifications, rngs, strict=True)
            ]

        def decide(self, context, proposal, verification, rng):
            decided.append(1)
            return super().decide(context, proposal, verification, rng)

    records = asyncio.run(gathered(rounds(4, Shared(), rule=Many()), 6))
    assert {record.outcome.value for record in records} == {(0, 1, 2, 3)}
    assert decided == [6] + [1] * 6 + [6] * 3
    decided.clear()
    asyncio.run(gathered(rounds(4, Shared(0), rule=Many()), 1))
    assert decided == [1] * 4


def test_a_task_alone_waits_for_nobody():
    """Its calls are its own, one by one."""
    verifier = Shared(0.001)
    (record,) = asyncio.run(gathered(rounds(20, verifier), 1))
    assert verifier.calls == [["0"]] * 20
    assert {round.timing.batch for round in record.rounds} == {1}


def test_a_slow_draft_holds_up_nobody_for_long():
    """One whose drafts come from far away is waited for once, a part of a pass, and never again."""

    class Far(Counts):
        async def propose(self, context, n):
            await asyncio.sleep(PASS * 15)
            return await super().propose(context, n)

    verifier = Shared()
    near, far = rounds(10, verifier), rounds(2, verifier, Far())

    async def main():
        slow = asyncio.create_task(far.arun(Task(id="far")))
        records = await gathered(near, 4)
        return records, await slow

    records, slow = asyncio.run(main())
    assert slow.value == (0, 1)
    spent = records[0].rounds
    assert len(spent) == 10
    assert sum(len(call) >= 4 for call in verifier.calls) == 10


def test_parts_that_are_concurrent_are_called_side_by_side():
    """A judge far away that is slow for one task is not slow for all, though it could take many at once."""
    calls: list[int] = []

    class Remote(Judge):
        async def verify(self, context, proposal):
            await asyncio.sleep(0.2 if context.task.id == "0" else 0)
            return super().verify(context, proposal)

        async def verify_many(self, contexts, proposals):
            calls.append(len(contexts))
            return [await self.verify(*each) for each in zip(contexts, proposals, strict=True)]

    ended: list[str] = []
    pipeline = rounds(2, Remote(lambda context, item: "pass"))

    async def one(id: str) -> None:
        assert (await pipeline.arun(Task(id=id))).status == "accepted"
        ended.append(id)

    async def main():
        await asyncio.gather(*[one(str(i)) for i in range(4)])

    asyncio.run(main())
    assert calls == []
    assert ended[-1] == "0"


@pytest.mark.parametrize("kind", [Shared, SharedLater])
def test_a_task_that_is_cancelled_takes_nobody_along(kind):
    """It is one of four in the call: the call goes on, and the task ends after it, since the call uses its scratch."""
    verifier = kind()
    pipeline = rounds(4, verifier)
    closed: list[int] = []

    class Scratch(CountsInThreads):
        def propose(self, context, n):
            context.scratch["x"] = type("R", (), {"close": lambda self: closed.append(verifier.inside)})()
            return super().propose(context, n)

    async def main():
        tasks = [asyncio.create_task(pipeline.arun(Task(id=str(i)))) for i in range(3)]
        doomed = asyncio.create_task(rounds(4, verifier, Scratch()).arun(Task(id="doomed")))
        while not any("doomed" in call and len(call) > 1 for call in verifier.calls):
            await asyncio.sleep(0.001)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        late = asyncio.create_task(pipeline.arun(Task(id="late")))
        await asyncio.sleep(0)
        late.cancel()  # while it waits
        return await asyncio.gather(*tasks)

    assert {outcome.value for outcome in asyncio.run(main())} == {(0, 1, 2, 3)}
    assert closed == [0]


def test_a_coroutine_whose_tasks_are_all_cancelled_is_cancelled_too():
    """Nobody wants its answer; who comes next has the turn."""
    verifier = SharedLater(60)

    async def main():
        tasks = [asyncio.create_task(rounds(1, verifier).arun(Task(id=str(i)))) for i in range(3)]
        while not verifier.inside:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        verifier.seconds = 0.0
        return await rounds(1, verifier).arun("x")

    outcome = asyncio.run(asyncio.wait_for(main(), 10))
    assert outcome.status == "accepted"


@pytest.mark.parametrize("kind", [Shared, SharedLater])
def test_of_a_call_that_raises_only_the_guilty_task_fails(kind):
    """Each is asked alone then, one after the other, since the part takes turns."""

    class Guilty(kind):
        def verify_many(self, contexts, proposals):
            if any(context.task.id == "3" for context in contexts):
                raise TimeoutError("slow") if len(contexts) > 1 else ValueError("bad")
            return super().verify_many(contexts, proposals)

    records = asyncio.run(gathered(rounds(3, Guilty(0.005)), 6))
    assert [record.outcome.status for record in records] == ["accepted"] * 3 + ["failed"] + ["accepted"] * 2
    assert records[3].outcome.failure.error == "ValueError"


@pytest.mark.parametrize("way", ["threads", "loop"])
@pytest.mark.parametrize("of_one_model", [False, True])
def test_only_parts_that_share_something_wait_for_each_other(way, of_one_model):
    """Two verifiers are called side by side, unless they say that they share a model."""
    both_inside = threading.Barrier(2, timeout=0.2 if of_one_model else 10)
    met: list[bool] = []

    class Slow:
        traits = VerifierTraits(concurrent=False, shares=(lambda: (Slow,)) if of_one_model else None)

        def verify(self, context, proposal):
            try:
                both_inside.wait()
                met.append(True)
            except threading.BrokenBarrierError:
                both_inside.reset()
                met.append(False)
            return Verification(checks=(Check("pass"),) * len(proposal))

    pipelines = [rounds(1, Slow(), CountsInThreads()) for _ in range(2)]

    async def main():
        return await asyncio.gather(*[pipeline.arun("x") for pipeline in pipelines])

    if way == "loop":
        outcomes = asyncio.run(main())
    else:
        with ThreadPoolExecutor(2) as threads:
            outcomes = list(threads.map(lambda pipeline: pipeline.run("x"), pipelines))
    assert {outcome.status for outcome in outcomes} == {"accepted"}
    assert met == [not of_one_model] * 2


def test_loops_in_several_threads_batch_each_for_itself():
    """A turn holds in all loops; who waits in one loop shares that loop's calls."""
    verifier = Shared(0.01)
    pipeline = rounds(4, verifier, CountsInThreads())

    def loop(name: int) -> list[str]:
        async def main():
            return await asyncio.gather(*[pipeline.arun(Task(id=f"{name}.{i}")) for i in range(6)])

        return [outcome.status for outcome in asyncio.run(main())]

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(loop, name) for name in range(2)]
        alone = threads.submit(pipeline.run, "x")
        assert {status for each in found for status in each.result()} == {"accepted"}
        assert alone.result().status == "accepted"
    shared = [{id.split(".")[0] for id in call} for call in verifier.calls]
    assert all(len(loops) == 1 for loops in shared)
    assert len(verifier.calls) <= 24


def test_inner_pipelines_share_passes_across_gathered_tasks():
    """The inner tasks of all outer ones are verified together."""
    verifier = Shared()
    inner = rounds(3, verifier)
    outer = Pipeline(inner, Judge(lambda context, item: "pass"), All(), block=2)
    records = asyncio.run(gathered(outer, 4))
    assert [list(record.outcome.value) for record in records] == [[[0, 1, 2], [0, 1, 2]]] * 4
    assert list(map(len, verifier.calls)) == [8] * 3


def test_a_coroutine_that_has_the_turn_may_await_a_pipeline_of_its_own():
    """It waits for nobody, itself least of all."""
    inner = rounds(1, Shared(0.001))

    class Asking(SharedLater):
        async def verify_many(self, contexts, proposals):
            assert (await inner.arun("inside")).status == "accepted"
            return await super().verify_many(contexts, proposals)

    records = asyncio.run(asyncio.wait_for(gathered(rounds(2, Asking(0.005)), 3), 10))
    assert {record.outcome.status for record in records} == {"accepted"}


def test_a_call_is_made_in_the_context_of_a_task_that_shares_it():
    """Context variables, of a tracer say, are there as they were when the task was alone."""
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    seen: set[str] = set()

    class Traced(Shared):
        def verify_many(self, contexts, proposals):
            assert threading.current_thread() is not threading.main_thread()
            seen.add(name.get())
            return super().verify_many(contexts, proposals)

    async def one(id: str):
        name.set(id)
        return await rounds(2, verifier).arun(Task(id=id))

    async def main():
        return await asyncio.gather(*[one(id) for id in "abc"])

    verifier = Traced(0.005)
    assert {outcome.status for outcome in asyncio.run(main())} == {"accepted"}
    assert seen <= set("abc")


def test_a_loop_that_is_stopped_midway_leaves_the_turn_to_others():
    """asyncio.run cancels what is under way; the next loop goes on."""
    verifier = SharedLater(60)

    async def main():
        asyncio.create_task(rounds(1, verifier).arun("x"))  # noqa: RUF006
        while not verifier.inside:
            await asyncio.sleep(0.001)
        raise KeyError("away")

    with pytest.raises(KeyError):
        asyncio.run(main())
    verifier.seconds = 0.0
    assert asyncio.run(asyncio.wait_for(rounds(1, verifier).arun("x"), 10)).status == "accepted"


@pytest.mark.parametrize("kind", [Shared, SharedLater])
def test_a_loop_that_is_closed_midway_loses_the_turn(kind):
    """Nobody waits for ever for what it will not give back, but for a thread that is still in the part."""
    verifier = kind(0.1)
    loop = asyncio.new_event_loop()
    task = loop.create_task(rounds(2, verifier).arun("x"))

    async def under_way():
        while not verifier.inside:
            await asyncio.sleep(0.001)

    loop.run_until_complete(under_way())
    loop.close()
    if kind is SharedLater:
        verifier.inside = 0  # a coroutine that nobody goes on with
    records = asyncio.run(asyncio.wait_for(gathered(rounds(2, verifier), 3), 10))
    assert {record.outcome.value for record in records} == {(0, 1)}
    assert not turns._turns
    assert loop not in line._lines
    task._log_destroy_pending = False  # asyncio would say so, as it should


def test_decisions_that_a_rule_makes_later_are_awaited():
    """A rule may be a coroutine too, which takes its time for each task by itself."""

    class Later(Prefix):
        async def decide(self, context, proposal, verification, rng):
            await asyncio.sleep(0)
            return Prefix.decide(self, context, proposal, verification, rng)

        async def decide_many(self, contexts, proposals, verifications, rngs):
            raise AssertionError("each is asked by itself")

    records = asyncio.run(gathered(rounds(2, Shared(0.001), rule=Later()), 3))
    assert {record.outcome.value for record in records} == {(0, 1)}
    assert isinstance(records[0].rounds[0].decision, Decision)
