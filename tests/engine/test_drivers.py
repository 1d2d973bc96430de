"""The drivers: one loop, the same results whoever performs the requests."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import (
    Check,
    ConfigError,
    ContractError,
    Cost,
    Decision,
    Failure,
    Pipeline,
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
    retry,
    reverify,
)
from draftverify.engine.drivers import run, run_batch

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
        return Proposal.chain(items, cost=Cost(seconds=1.0, units=len(items)))


class Strict:
    """Passes low items until the first high one; its checks fail now and then."""

    provides = frozenset({"verdicts"})

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

    shapes = frozenset({"chain"})

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
        for name in ("shape", "laws", "provides"):
            if hasattr(part, name):
                setattr(self, name, getattr(part, name))

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
    assert plain(single.record_batch(tasks, size=size)) == expected
    assert plain(many.record_batch(tasks, size=size)) == expected


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
    records = pipeline.record_batch(["a", "b", "c"])
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
    records = run_batch(sessions)
    assert [record.outcome.value for record in records] == [(1, 2)] * 5
    assert calls == [["a", "c", "d"], ["b"], ["e"]] * 2
    assert [record.rounds[0].timing.batch for record in records] == [3, 1, 3, 3, 1]


def test_a_batch_call_that_raises_fails_every_member_and_no_other_task():
    """The failure reaches each session of the group; the driver goes on."""

    class Broken(StrictMany):
        def verify_many(self, contexts, proposals):
            raise TimeoutError("device lost")

    outcomes = Pipeline(Blocks(Proposal.chain((1,))), Broken(), Prefix()).run_batch(["a", "b"])
    assert [(o.status, o.failure.kind) for o in outcomes] == [("failed", "timeout")] * 2


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
    pipeline.record_batch([Task(id=id) for id in ("a", "bad1", "b", "bad2")])
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
    outcomes = pipeline.run_batch(["a", "b", "c", "d", "e"], size=2, on_event=listen)
    assert [o.value for o in outcomes] == [2] * 5
    assert most == 2


def test_a_session_without_a_listener_keeps_no_events():
    """A long task does not grow by events that nobody will ask for; with a listener all are told."""
    pipeline = Pipeline(Blocks([1]), Judge(low), TakeFirst())
    heard = []
    run(Session(pipeline, Task(id="t")), on_event=heard.append)
    assert [type(event) for event in heard] == [TaskStarted, RoundDone, TaskDone]
    unheard = Session(pipeline, Task(id="t"))
    run(unheard)
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
    pipeline.run_batch(["x", "y"])
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
    assert [o.status for o in pipeline.run_batch(["a", "b", "c"])] == ["waiting", "accepted", "waiting"]


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
        shape = "chain"

        def propose(self, context, n):
            return Proposal.chain((context.round,))

    def done(context, new):
        return len(new) if len(context.accepted) >= context.task.input["length"] else None

    pipeline = Pipeline(Counts(), Prepares(lambda context, item: "pass"), Prefix(), done=done)
    lengths = [3, 7, 2, 5, 4, 6, 1, 8, 3, 2, 5, 4]
    tasks = [Task(id=str(i), input={"length": length}) for i, length in enumerate(lengths)]
    records = pipeline.record_batch(tasks, size=4)
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
    outcomes = pipeline.run_batch([Task(id=str(i)) for i in range(3)])
    assert [outcome.status for outcome in outcomes] == ["accepted", "failed", "accepted"]
    assert "too long" in outcomes[1].reason
    assert verifier.calls[0] == 3


def test_a_batch_of_no_size_is_refused():
    """Nothing would ever be under way."""
    pipeline = Pipeline(Blocks((1,)), Judge(lambda context, item: "pass"), TakeFirst(), block=1)
    with pytest.raises(ConfigError, match="size is 0"):
        pipeline.run_batch([Task(id="0")], size=0)
