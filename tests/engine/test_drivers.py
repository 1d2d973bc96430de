"""The drivers: one loop, the same results whoever performs the requests."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import (
    Check,
    ConfigError,
    ContractError,
    Cost,
    Decision,
    Evidence,
    Failure,
    Pipeline,
    PipelineError,
    Proposal,
    Refusal,
    RoundDone,
    Session,
    Task,
    TaskDone,
    TaskStarted,
    Verification,
    escalate,
    fallback,
    feedback,
    generator,
    retry,
    reverify,
    verifier,
)
from draftverify.engine.drivers import drive
from draftverify.engine.scheduler import Scheduler
from draftverify.rules import First
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits

from .parts import Blocks, Judge, Prefix, TakeFirst


class Noisy:
    """Drafts chains from its draws; sometimes nothing, sometimes an exception."""

    def __init__(self, trouble: float = 0.2) -> None:
        self.trouble = trouble

    def propose(self, context, n):
        u = context.draws.uniform(0)
        if u < self.trouble / 2:
            raise RuntimeError("no draft")
        if u < self.trouble:
            return Proposal.chain((), cost=Cost(seconds=0.5))
        items = tuple(int(context.draws.uniform(i, 1) * 10) for i in range(n))
        return Proposal.chain(items, cost=Cost(seconds=1.0, amount=len(items)))


class Strict:
    """Passes low items until the first high one; its checks fail now and then."""

    traits = VerifierTraits(provides={"verdicts"})

    def verify(self, context, proposal):
        checks = []
        for index, item in enumerate(proposal.items):
            if context.draws.uniform(index) < 0.05:
                checks.append(Check("error"))
                break
            checks.append(Check("pass" if item < 7 else "reject"))
            if item >= 7:
                break
        checks += [Check("unchecked")] * (len(proposal) - len(checks))
        return Verification(checks=tuple(checks), cost=Cost(seconds=2.0))


class Random:
    """Keeps the passed prefix, splices a draw of its own with probability one half."""

    traits = RuleTraits(shapes={"chain"})

    def decide(self, context, proposal, verification, rng):
        kept = []
        for index, check in enumerate(verification.checks):
            if check.verdict != "pass":
                break
            kept.append(index)
        refused = tuple(Refusal(i) for i, c in enumerate(verification.checks) if c.verdict == "reject")
        spliced = (int(rng.uniform(0) * 7),) if rng.uniform(1) < 0.5 else ()
        return Decision(kept=tuple(kept), refused=refused, spliced=spliced)


class Many:
    """The same parts, with one call for the whole batch."""

    def propose_many(self, contexts, ns):
        return [self.safe(context, n) for context, n in zip(contexts, ns, strict=True)]

    def safe(self, context, n):
        try:
            return self.propose(context, n)
        except RuntimeError as error:
            return Failure.of(error)


class NoisyMany(Noisy, Many):
    pass


class StrictMany(Strict):
    def verify_many(self, contexts, proposals):
        return [self.verify(c, p) for c, p in zip(contexts, proposals, strict=True)]


class RandomMany(Random):
    def decide_many(self, contexts, proposals, verifications, rngs):
        return [self.decide(*args) for args in zip(contexts, proposals, verifications, rngs, strict=True)]


class Coroutines:
    """The same parts as coroutine functions."""

    def __init__(self, part):
        self.part = part
        if hasattr(part, "traits"):
            self.traits = part.traits

    async def propose(self, context, n):
        await asyncio.sleep(0)
        return self.part.propose(context, n)

    async def verify(self, context, proposal):
        await asyncio.sleep(0)
        return self.part.verify(context, proposal)


POLICY = (
    retry(1).then(feedback(1)).then(reverify(1)).then(fallback(Blocks(*[Proposal.chain((1,))] * 99), times=3))
)
DONE = lambda context, new: len(new) if len(context.accepted) >= 12 else None


def low(context, item):
    return "pass" if item < 7 else "reject"


def plain(records):
    """Records without what differs by clock or driver: its seconds, how many shared a pass, and tracebacks."""

    def strip(record):
        rounds = tuple(
            msgspec.structs.replace(
                r,
                timing=msgspec.structs.replace(
                    r.timing,
                    decide=0.0,
                    busy=0.0,
                    batch=1,
                    draft=round(r.timing.draft),
                    verify=round(r.timing.verify),
                ),
                failure=r.failure and msgspec.structs.replace(r.failure, traceback=""),
            )
            for r in record.rounds
        )
        outcome = msgspec.structs.replace(
            record.outcome,
            seconds=round(record.outcome.seconds),
            failure=record.outcome.failure and msgspec.structs.replace(record.outcome.failure, traceback=""),
        )
        return msgspec.structs.replace(record, rounds=rounds, outcome=outcome)

    return [msgspec.json.encode(strip(record)) for record in records]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 9),
    block=st.integers(0, 5),
    trouble=st.sampled_from([0.0, 0.2, 0.9]),
    size=st.none() | st.integers(1, 4),
)
def test_every_driver_gives_the_same_records(seed, count, block, trouble, size):
    """Sync, asyncio, batched with and without batch methods: equal answers and charges give equal records."""
    tasks = [Task(id=f"task-{i}") for i in range(count)]
    same = {"policy": POLICY, "block": block, "done": DONE, "seed": seed}
    single = Pipeline(Noisy(trouble), Strict(), Random(), **same)
    many = Pipeline(NoisyMany(trouble), StrictMany(), RandomMany(), **same)
    coroutines = Pipeline(Coroutines(Noisy(trouble)), Coroutines(Strict()), Random(), **same)

    async def together():
        return await asyncio.gather(*(coroutines.arecord(task) for task in tasks))

    expected = plain(single.record(task) for task in tasks)
    assert plain(asyncio.run(together())) == expected
    assert plain(single.record(tasks, size=size)) == expected
    assert plain(many.record(tasks, size=size)) == expected


def test_batched_driver_makes_one_call_for_all_that_wait_for_the_same():
    """Three tasks, one pass of each kind a round; latency counts the pass whole, busy time a third."""
    calls = []

    class Counting(StrictMany):
        def verify_many(self, contexts, proposals):
            calls.append(len(contexts))
            return [Verification(checks=tuple(Check("pass") for _ in p.items)) for p in proposals]

    pipeline = Pipeline(
        Blocks(*[Proposal.chain((1, 2))] * 9),
        Counting(),
        Prefix(),
        block=2,
        done=lambda c, new: 2 if len(c.accepted) > 3 else None,
    )
    records = pipeline.record(["a", "b", "c"])
    assert calls == [3, 3]
    round = records[0].rounds[0]
    assert round.timing.busy < round.timing.verify + round.timing.draft + round.timing.decide


def test_one_call_serves_sessions_of_several_pipelines_and_of_unlike_steps():
    """Who shares a part shares its pass, whatever order they stand in; who has a step more to do catches up first."""
    calls = []

    class Counting(Judge):
        def verify_many(self, contexts, proposals):
            calls.append([context.task.id for context in contexts])
            return [self.verify(*each) for each in zip(contexts, proposals, strict=True)]

    class CountingFirst(Counting):
        def prepare(self, task):
            return task

    def pipeline(verifier):
        blocks = Blocks(Proposal.chain((1,)), Proposal.chain((2,)))
        return Pipeline(blocks, verifier, Prefix(), done=lambda c, new: 1 if len(c.accepted) > 1 else None)

    shared = Counting(low)
    one, two = pipeline(shared), pipeline(shared)
    late, other = pipeline(CountingFirst(low)), pipeline(Counting(low))
    order = [("a", one), ("b", late), ("c", two), ("d", one), ("e", other)]
    sessions = [Session(pipeline, Task(id=id)) for id, pipeline in order]
    list(drive(Scheduler(sessions)))
    records = [session.record() for session in sessions]
    assert [record.outcome.value for record in records] == [(1, 2)] * 5
    assert calls == [["a", "c", "d"]] * 2  # one alone is asked by `verify`
    assert [record.rounds[0].timing.batch for record in records] == [3, 1, 3, 3, 1]


@pytest.mark.parametrize("error", [ContractError("no"), TimeoutError("slow"), RuntimeError("device lost")])
def test_a_batch_call_that_raises_is_made_again_one_by_one(error, caplog):
    """Whatever it raises, or however many answers it gives, only the guilty task fails; a word in the log says so."""

    class Broken(Judge):
        def verify_many(self, contexts, proposals):
            if len(passes) == 1:
                return []
            raise error

        def verify(self, context, proposal):
            passes.append(context.task.id)
            if context.task.id == "1":
                raise error
            return super().verify(context, proposal)

    caplog.set_level("INFO", logger="draftverify")
    passes: list[str] = []
    pipeline = Pipeline(Blocks(Proposal.chain((1,))), Broken(low), Prefix(), done=lambda c, new: len(new))
    for _ in range(2):
        outcomes = pipeline.run(["a", "b", "c"])
        assert [outcome.status for outcome in outcomes] == ["accepted", "failed", "accepted"]
        assert outcomes[1].failure.error == type(error).__name__
        passes[:] = [""]
    assert "each is asked alone" in caplog.text


def test_a_fallback_drafts_for_its_own_sessions_alone():
    """In one lockstep some sessions draft with the fallback, in one call, and the others with the generator."""
    calls = []

    class Many:
        def __init__(self, name):
            self.name = name

        def propose(self, context, n):
            return Proposal.chain((9 if self.name == "main" and "bad" in context.task.id else 1,))

        def propose_many(self, contexts, ns):
            calls.append((self.name, [context.task.id for context in contexts]))
            return [self.propose(*each) for each in zip(contexts, ns, strict=True)]

    pipeline = Pipeline(
        Many("main"),
        Judge(low),
        Prefix(),
        policy=fallback(Many("other")),
        done=lambda c, new: 1 if len(c.accepted) > 1 else None,
    )
    pipeline.record([Task(id=id) for id in ("a", "bad1", "b", "bad2")])
    everyone = ["a", "bad1", "b", "bad2"]
    assert calls[:3] == [("main", everyone), ("main", ["a", "b"]), ("other", ["bad1", "bad2"])]


def test_finished_sessions_are_replaced():
    """With size 2 no more than two tasks are under way at once."""
    under_way, most = set(), 0

    def listen(event):
        nonlocal most
        name = type(event).__name__
        if name == "RoundDone":
            under_way.add(event.task.id)
        elif name == "TaskDone":
            under_way.discard(event.task.id)
        most = max(most, len(under_way))

    pipeline = Pipeline(
        Blocks([1], [1], [2]),
        Judge(lambda c, i: "pass" if i == 2 else "reject"),
        TakeFirst(),
        policy=retry(5),
    )
    outcomes = pipeline.run(["a", "b", "c", "d", "e"], size=2, on_event=listen)
    assert [o.value for o in outcomes] == [2] * 5
    assert most == 2


def test_a_session_without_a_listener_keeps_no_events():
    """A long task does not grow by events that nobody will ask for; with a listener all are told."""
    pipeline = Pipeline(Blocks([1]), Judge(low), TakeFirst())
    heard: list[object] = []
    pipeline.run("t", on_event=heard.append)
    assert [type(event) for event in heard] == [TaskStarted, RoundDone, TaskDone]
    unheard = Session(pipeline, Task(id="t"))
    list(drive(Scheduler([unheard])))
    assert [type(event) for event in unheard.events()] == [TaskStarted]


def test_stream_yields_decisions_as_they_are_made():
    """The emitted values arrive round by round and add up to the outcome's."""
    pipeline = Pipeline(
        Blocks(Proposal.chain((1, 2)), Proposal.chain((3,)), Proposal.chain((4,))),
        Judge(lambda c, i: "pass"),
        Prefix(),
        block=2,
        done=lambda c, new: 1 if 4 in new else None,
    )
    assert [decision.emitted for decision in pipeline.stream("x")] == [(1, 2), (3,), (4,)]


def test_every_driver_frees_what_was_in_scratch():
    """Entries of scratch that can be closed are closed, of a stream left early too."""
    closed = []

    class Resource:
        def close(self):
            closed.append(True)

    class Opening(Blocks):
        def propose(self, context, n):
            context.scratch.setdefault("opened", Resource())
            return Proposal.chain((1,))

    pipeline = Pipeline(
        Opening(),
        Judge(lambda c, i: "pass"),
        Prefix(),
        done=lambda c, new: 1 if len(c.accepted) == 2 else None,
    )
    stream = pipeline.stream("x")
    next(stream)
    stream.close()
    assert closed == [True]
    pipeline.run("x")
    assert closed == [True] * 2
    pipeline.run(["x", "y"])
    assert closed == [True] * 4
    asyncio.run(pipeline.arun("x"))
    assert closed == [True] * 5


def test_asyncio_driver_runs_plain_parts_in_threads():
    """A blocking component does not hold up the event loop."""
    threads = set()

    def judge(context, item):
        threads.add(threading.current_thread())
        return "pass"

    outcome = asyncio.run(Pipeline(Blocks([1]), Judge(judge), TakeFirst()).arun("x"))
    assert outcome.value == 1
    assert threading.main_thread() not in threads


def test_asyncio_streaming():
    """The asynchronous stream gives the same decisions."""

    async def collect():
        pipeline = Pipeline(
            Blocks([1], [2]), Judge(lambda c, i: "pass" if i == 2 else "reject"), TakeFirst(), policy=retry(1)
        )
        return [d.emitted async for d in pipeline.astream("x")]

    assert asyncio.run(collect()) == [(), (2,)]


def test_cancelling_a_task_frees_its_session():
    """Cancellation is no failure of a component: it passes through, and scratch is closed."""
    closed = []

    class Waiting:
        async def propose(self, context, n):
            context.scratch["x"] = type("R", (), {"close": lambda self: closed.append(True)})()
            await asyncio.sleep(60)

    async def main():
        running = asyncio.create_task(Pipeline(Waiting(), Judge(None), TakeFirst()).arun("x"))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert closed == [True]


def test_a_coroutine_part_under_the_sync_driver_says_what_to_do():
    """It is an error that names arun."""
    outcome = Pipeline(Coroutines(Noisy(0)), Strict(), Random()).run("x")
    assert outcome.status == "failed"
    assert "arun" in outcome.failure.message


def test_escalation_works_in_a_batch():
    """A task that waits does not hold up the others."""
    pipeline = Pipeline(
        Blocks([1], [3]),
        Judge(lambda c, i: "pass" if c.task.id == "1" else "reject"),
        TakeFirst(),
        policy=escalate(),
    )
    assert [o.status for o in pipeline.run(["a", "b", "c"])] == ["waiting", "accepted", "waiting"]


def test_passes_stay_full_when_sessions_join_late():
    """A waiting session that takes the place of a finished one is prepared and drafted for at once, and then all are
    verified together, however long each task takes."""
    passes: list[int] = []

    class Prepares(Judge):
        def prepare(self, task):
            return task

        def verify_many(self, contexts, proposals):
            passes.append(len(contexts))
            return [
                self.verify(context, proposal) for context, proposal in zip(contexts, proposals, strict=True)
            ]

    class Counts:
        traits = GeneratorTraits(shape="chain")

        def propose(self, context, n):
            return Proposal.chain((context.round,))

    def done(context, new):
        return len(new) if len(context.accepted) >= context.task.input["length"] else None

    pipeline = Pipeline(Counts(), Prepares(lambda context, item: "pass"), Prefix(), done=done)
    lengths = [3, 7, 2, 5, 4, 6, 1, 8, 3, 2, 5, 4]
    tasks = [Task(id=str(i), input={"length": length}) for i, length in enumerate(lengths)]
    records = pipeline.record(tasks, size=4)
    assert [len(record.rounds) for record in records] == lengths
    assert sum(passes) == sum(lengths)
    waiting_ended = next(i for i, n in enumerate(passes) if n < 4)
    assert passes[:waiting_ended] == [4] * waiting_ended
    assert sum(passes[:waiting_ended]) >= sum(lengths) - 4 * max(lengths)
    assert {round.timing.batch for record in records for round in record.rounds} <= {1, 2, 3, 4}


def test_in_a_batch_only_the_session_fails_whose_request_cannot_be_met():
    """A component that refuses one request of a call is asked for each alone: the others go on."""

    class Picky(Judge):
        def __init__(self):
            super().__init__(lambda context, item: "pass")
            self.calls = []

        def verify(self, context, proposal):
            self.calls.append(1)
            if context.task.id == "1":
                raise ContractError("too long")
            return super().verify(context, proposal)

        def verify_many(self, contexts, proposals):
            self.calls.append(len(contexts))
            return [Picky.verify(self, *pair) for pair in zip(contexts, proposals, strict=True)]

    verifier = Picky()
    pipeline = Pipeline(Blocks((1,)), verifier, TakeFirst(), block=1)
    outcomes = pipeline.run([Task(id=str(i)) for i in range(3)])
    assert [outcome.status for outcome in outcomes] == ["accepted", "failed", "accepted"]
    assert "too long" in outcomes[1].reason
    assert verifier.calls[0] == 3


def test_a_batch_of_no_size_is_refused():
    """Nothing would ever be under way."""
    pipeline = Pipeline(Blocks((1,)), Judge(lambda context, item: "pass"), TakeFirst(), block=1)
    with pytest.raises(ConfigError, match="size is 0"):
        pipeline.run([Task(id="0")], size=0)


def test_ended_sessions_let_go_of_their_arrays():
    """Of forty tasks at four at once the arrays of a few are alive at any time, whoever keeps the records."""
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0

    class Measuring:
        traits = VerifierTraits(provides={"target"})

        def verify(self, context, proposal):
            nonlocal most
            target = np.full((len(proposal) + 1, 8), 0.125)
            alive.append(weakref.ref(target))
            most = max(most, sum(one() is not None for one in alive))
            return Verification(evidence=Evidence(target=target))

    class Keep:
        traits = RuleTraits(needs={"target"})

        def decide(self, context, proposal, verification, rng):
            return Decision(kept=tuple(range(len(proposal))), done=context.round == 2)

    pipeline = Pipeline(Blocks(*[[1, 2]] * 3), Measuring(), Keep(), block=2)
    records = pipeline.record([Task(id=str(i)) for i in range(40)], size=4)
    assert len(records) == 40
    assert len(alive) == 120
    assert most <= 9  # a round under way and the one before it, for each of four
    assert sum(one() is not None for one in alive) <= 1


class TakingTurns:
    """Says so when two calls are inside at once."""

    traits = VerifierTraits(concurrent=False)

    def __init__(self) -> None:
        self.inside = 0
        self.calls = 0

    def verify(self, context, proposal):
        self.inside += 1
        self.calls += 1
        try:
            time.sleep(0.001)
            assert self.inside == 1, "two at once"
            return Verification(checks=(Check("pass"),) * len(proposal))
        finally:
            self.inside -= 1


def test_parts_that_are_not_concurrent_take_turns_under_asyncio_and_threads():
    """`concurrent = False` holds whatever calls: threads of one event loop, and event loops in threads."""
    part = TakingTurns()
    pipeline = Pipeline(Blocks([1]), part, TakeFirst())

    async def many(start):
        return await asyncio.gather(*[pipeline.arun(Task(id=str(start + i))) for i in range(8)])

    with ThreadPoolExecutor(4) as threads:
        loops = [threads.submit(asyncio.run, many(100 * i)) for i in range(2)]
        plain = [threads.submit(pipeline.run, Task(id=f"p{i}")) for i in range(8)]
        outcomes = [outcome for loop in loops for outcome in loop.result()]
        outcomes += [each.result() for each in plain]
    assert {outcome.status for outcome in outcomes} == {"accepted"}
    assert part.calls == 24


def test_a_coroutine_part_that_is_not_concurrent_takes_turns_too():
    """The turn is held until the coroutine is done."""

    class Later(TakingTurns):
        async def verify(self, context, proposal):
            self.inside += 1
            await asyncio.sleep(0.001)
            assert self.inside == 1, "two at once"
            self.inside -= 1
            return Verification(checks=(Check("pass"),))

    pipeline = Pipeline(Blocks([1]), Later(), TakeFirst())

    async def many():
        return await asyncio.gather(*[pipeline.arun(Task(id=str(i))) for i in range(6)])

    assert {outcome.status for outcome in asyncio.run(many())} == {"accepted"}


def test_the_library_prints_nothing(capfd):
    """What goes wrong is logged through the standard library, or is in the record."""

    class Broken:
        def verify_many(self, contexts, proposals):
            raise OSError("away")

        def verify(self, context, proposal):
            raise OSError("away")

    pipeline = Pipeline(Blocks([1]), Broken(), TakeFirst())
    assert [outcome.status for outcome in pipeline.run(["a", "b"])] == ["failed", "failed"]
    assert capfd.readouterr() == ("", "")


class OneAtATime:
    """Not concurrent; its calls take a while, and what is counted is how many were inside at once."""

    traits = GeneratorTraits(concurrent=False)

    def __init__(self) -> None:
        self.inside = self.most = 0

    def propose(self, context, n):
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.1)
        self.inside -= 1
        return Proposal.alternatives((1,))


def accepting(generator, rule=None) -> Pipeline:
    return Pipeline(generator, Judge(lambda context, item: "pass"), rule or TakeFirst())


def test_a_cancelled_call_keeps_its_turn_until_its_thread_is_done():
    """A thread cannot be cancelled: until it ends, nobody else is called and nothing of its task is freed."""
    part = OneAtATime()

    async def main():
        first = asyncio.create_task(accepting(part).arun("x"))
        await asyncio.sleep(0.03)
        first.cancel()
        second = await accepting(part).arun("y")
        with pytest.raises(asyncio.CancelledError):
            await first
        return second

    assert asyncio.run(main()).status == "accepted"
    assert part.most == 1


def test_two_parts_that_each_run_a_pipeline_of_the_other_s_model_do_not_wait_for_ever():
    """In threads: who would close the circle fails with an error, and the other goes on."""
    models, both = ("left", "right"), threading.Barrier(2)

    class OfModel:
        def __init__(self, model, inner=None):
            self.inner = inner
            self.traits = VerifierTraits(concurrent=False, shares=lambda: (model,))

        def verify(self, context, proposal):
            if self.inner is not None:
                both.wait(10)
                self.inner.run("inner").unwrap()
            return Verification(checks=(Check("pass"),))

    def crossing(mine, other):
        inner = Pipeline(Blocks([1]), OfModel(other), TakeFirst())
        return Pipeline(Blocks([1]), OfModel(mine, inner), TakeFirst())

    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(crossing(*names).run, "x") for names in (models, models[::-1])]
        outcomes = [run.result(timeout=20) for run in runs]
    assert sorted(outcome.status for outcome in outcomes) == ["accepted", "failed"]
    assert any("neither could go on" in outcome.reason for outcome in outcomes)


def test_run_inside_the_event_loop_does_not_wait_for_the_loop_itself():
    """A rule that calls `run` while a coroutine of the same loop has the turn fails, and says what to do."""

    model = GeneratorTraits(concurrent=False, shares=lambda: (Asking,))

    class Later:
        traits = model

        async def propose(self, context, n):
            await asyncio.sleep(0.1)
            return Proposal.alternatives((1,))

    class OfTheSame(OneAtATime):
        traits = model

    class Asking(TakeFirst):
        def decide(self, context, proposal, verification, rng):
            assert accepting(OneAtATime()).run("z").status == "accepted"
            assert accepting(OfTheSame()).run("z").failure.message.endswith("await arun instead of run")
            return super().decide(context, proposal, verification, rng)

    async def main():
        return await asyncio.gather(accepting(Later()).arun("x"), accepting(Blocks([1]), Asking()).arun("y"))

    assert {outcome.status for outcome in asyncio.run(main())} == {"accepted"}


@pytest.mark.parametrize("driver", ["run", "arun"])
def test_a_part_that_stops_iterating_is_a_failure(driver):
    """StopIteration, which no future takes, hangs nothing."""
    generator = Blocks([1])
    generator.propose = lambda context, n: next(iter(()))
    pipeline = accepting(generator)
    outcome = pipeline.run("x") if driver == "run" else asyncio.run(asyncio.wait_for(pipeline.arun("x"), 10))
    assert outcome.failure.error == "StopIteration"


def test_a_part_that_awaits_something_cancelled_is_not_cancelled_itself():
    """Its CancelledError is a failure like any other; that of the task itself passes through."""

    class Awaits:
        async def propose(self, context, n):
            await stopped()

    async def stopped():
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    assert asyncio.run(accepting(Awaits()).arun("x")).failure.error == "CancelledError"
    in_place = Blocks([1])
    in_place.propose = lambda context, n: asyncio.run(stopped())
    assert accepting(in_place).run("x").failure.error == "CancelledError"
    assert asyncio.run(accepting(in_place).arun("x")).failure.error == "CancelledError"


def test_a_stream_that_is_closed_under_asyncio_frees_its_task_at_once():
    """Closing it does not wait for the garbage collector."""
    closed = []

    class Endless:
        async def propose(self, context, n):
            context.scratch["x"] = type("R", (), {"close": lambda self: closed.append(True)})()
            return Proposal.chain((1,))

    async def main():
        stream = Pipeline(Endless(), Judge(lambda context, item: "pass"), Prefix()).astream("x")
        async for _ in stream:
            break
        assert not closed
        await stream.aclose()
        return list(closed)

    assert asyncio.run(main()) == [True]


def test_one_task_or_many_under_every_driver():
    """Whatever they come as; many are answered in their order, and what is of one task alone is refused for them."""
    pipeline = Pipeline(
        generator(lambda c, n: range(n)), verifier(lambda c, item: item > 1), First(), block=4
    )
    tasks = [Task(id="a"), {"prompt": "b"}, "c"]
    assert [pipeline.run(task).value for task in tasks] == [2] * 3
    for many in (tasks, tuple(tasks), iter(tasks)):
        assert [record.task for record in pipeline.record(many, size=2)] == ["a", "1", "2"]
    assert [outcome.value for outcome in pipeline.run(tasks)] == [2] * 3
    assert [outcome.value for outcome in asyncio.run(pipeline.arun(tasks, size=2))] == [2] * 3
    assert [record.task for record in asyncio.run(pipeline.arecord(iter(tasks)))] == ["a", "1", "2"]
    assert asyncio.run(pipeline.arun("c")).value == 2
    assert (pipeline.run([]), pipeline.record(())) == ([], [])
    assert pipeline.run(b"bytes").value == 2
    with pytest.raises(PipelineError, match="restore is of one task, and many were given"):
        pipeline.record(tasks, restore=())


def test_a_session_that_leaves_takes_those_inside_it_along() -> None:
    """The others of the pool go on, and its place is free for the next."""
    inner = Pipeline(
        generator(lambda context, n: [context.task.id]), verifier(lambda context, item: True), First()
    )
    outer = Pipeline(inner, verifier(lambda context, item: True), First(), block=2)
    coming = [Session(outer, Task(id=name)) for name in ("gone", "stays", "next")]
    pool = Scheduler(coming, size=2)
    steps, ended = drive(pool), []
    ended += next(steps)  # the inner drafts of the first two are made
    pool.leave(coming[0])
    for sessions in steps:
        ended += sessions
    assert sorted(session.task.id for session in ended) == ["next", "stays"]
    assert all(session.record().outcome.status == "accepted" for session in ended)
