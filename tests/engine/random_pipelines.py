"""Random pipelines: parts that fail, policies, people, partial progress, corrections, tuples, and inner pipelines.

What `differences` finds for a seed must be nothing. By hand: `python -m tests.engine.random_pipelines SECONDS`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from draftverify import (
    Budget,
    Check,
    Context,
    ContractError,
    Pipeline,
    Policy,
    Proposal,
    Task,
    Verification,
    escalate,
    fallback,
    feedback,
    give_up,
    retry,
    reverify,
)
from draftverify.bench.records import timeless
from draftverify.bench.records.encoding import decode, encode
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.engine.requests import Answer, Ask
from draftverify.rules import (
    AdaptiveConsistency,
    All,
    Beam,
    Best,
    BestStep,
    First,
    FirstStop,
    Limit,
    LongestPrefix,
    Majority,
    Rounds,
    WeightedVote,
)
from draftverify.traits import VerifierTraits
from draftverify.values import UNCHECKED, TaskRecord


def share(*values: Any) -> float:
    """A number in [0, 1) that depends on the values alone."""
    return zlib.crc32(repr(values).encode()) / 2**32


class Guesses:
    """Items of many types that depend on all that a generator is shown."""

    def __init__(self, name: str, shape: str, fails: float, kind: str) -> None:
        self.name, self.shape, self.fails, self.kind = name, shape, fails, kind

    def propose(self, context: Context, n: int) -> Proposal:
        make = Proposal.chain if self.shape == "chain" else Proposal.alternatives
        u = context.draws.uniform()
        if u < self.fails:
            raise ContractError("the generator fails")
        if u > 0.95:
            return make((), exhausted=True)
        seen = (
            *(
                self.name,
                context.task.id,
                context.round,
                len(context.feedback),
                context.tries,
                context.drafted,
            ),
            *(context.refused, tuple(context.accepted), [held.value for held in context.held]),
            None if context.last is None else (context.last.proposal.items, context.last.decision),
        )
        count = len(context.refused) or int(context.draws.uniform(1) * (n + 2))
        items = [self._item(int(1000 * share(seen, i))) for i in range(min(n, count))]
        extends = ()
        if self.kind in ("extending", "growing") and context.held:
            extends = tuple([i % len(context.held) - i % 2 for i in range(len(items))])
        return make(items, exhausted=u > 0.9, extends=extends)

    def _item(self, value: int) -> Any:
        if self.kind == "numpy":
            return np.int64(value)
        if self.kind == "tuples":
            return (value % 5, ("x", value), {"answer": (value % 3,)})
        if self.kind == "growing":
            return {"text": value, "finished": value % 3 == 0}
        return value


class ManyGuesses(Guesses):
    """The same for several tasks at once; the whole call fails now and then."""

    def propose_many(self, contexts: list[Context], ns: list[int]) -> list[Proposal]:
        if share(self.name, len(contexts), contexts[0].task.id) < 0.2:
            raise ValueError("the whole call fails")
        return [self.propose(context, n) for context, n in zip(contexts, ns, strict=True)]


class LaterGuesses(Guesses):
    """The same as a coroutine."""

    async def propose(self, context: Context, n: int) -> Proposal:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().propose(context, n)


class Judge:
    """Random verdicts, with scores, corrections and notes."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, seed: float, fails: float, corrects: float) -> None:
        self.seed, self.fails, self.corrects = seed, fails, corrects

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        draw = context.draws.uniform
        if (
            share(self.seed, len(proposal), draw()) < self.fails
        ):  # of a re-check otherwise than of the first pass
            raise (ContractError if draw(98) < 0.7 else TimeoutError)("the verifier fails")
        checks: list[Check] = []
        for index, item in enumerate(proposal.items):
            if context.enough is not None and sum(c.verdict == "pass" for c in checks) >= context.enough:
                checks.append(UNCHECKED)
                continue
            u = share(self.seed, item, context.round, draw(index + 1))
            kinds = ("pass", "reject", "error", "timeout", "abstain")
            verdict: Any = kinds[int(np.searchsorted((0.45, 0.65, 0.8, 0.9), u, side="right"))]
            more = {"correction": (index, "corrected")} if draw(index, 1) < self.corrects else {}
            checks.append(
                Check(verdict, score=np.float32(u), reason=verdict, feedback=str(item), **more)  # type: ignore[arg-type]
            )
        correction = ((7, "next"),) if draw(99) < 0.1 else ()
        return Verification(checks=tuple(checks), correction=correction, notes={"order": (1, 2)})


class ManyJudge(Judge):
    """The same for several tasks at once."""

    def verify_many(self, contexts: list[Context], proposals: list[Proposal]) -> list[Verification]:
        if share(self.seed, len(contexts), contexts[0].task.id) < 0.2:
            raise OverflowError("the whole call fails")
        return [self.verify(context, one) for context, one in zip(contexts, proposals, strict=True)]


class LaterJudge(Judge):
    """The same as a coroutine."""

    async def verify(self, context: Context, proposal: Proposal) -> Verification:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().verify(context, proposal)


def build(seed: int, *, later: bool = False) -> Pipeline:
    """The pipeline of a seed; its twin with coroutine parts when `later`. Every fourth checks parts of its blocks again
    and goes on."""
    r = random.Random(seed)
    return _mixed(r, later) if seed % 4 == 3 else _pipeline(r, later, depth=0)


def _mixed(r: random.Random, later: bool) -> Pipeline:
    guesses, judge = (LaterGuesses, LaterJudge) if later else (ManyGuesses, ManyJudge)
    shape, kind = r.choice(["chain", "alternatives", "alternatives"]), r.choice(["numbers", "tuples"])

    def guess(name: str) -> Any:
        return guesses(name, shape, r.choice([0, 0.1]), kind)

    again = reverify(r.choice([1, 2]), on=("error", "timeout", "abstain"), partial=True)
    return Pipeline(
        guess("g"),
        judge(r.random(), r.choice([0.3, 0.5]), r.choice([0, 0.3])),
        LongestPrefix() if shape == "chain" else r.choice([All(), First(3), Best(0.1)]),
        policy=again.then(_policy(r, guess, 0)).then(retry(3, partial=r.random() < 0.5)),
        block=4,
        done=FirstStop([Limit(9), Rounds(9)]),
        budget=Budget(rounds=12),
        seed=r.randint(0, 99),
    )


def _pipeline(r: random.Random, later: bool, depth: int) -> Pipeline:
    shape = r.choice(["chain", "alternatives", "alternatives"])
    many = r.random() < 0.5
    guesses = LaterGuesses if later else ManyGuesses if many else Guesses
    judge = LaterJudge if later else ManyJudge if many else Judge
    kind = r.choice(["numbers", "numpy", "tuples", "extending", "growing"])

    def guess(name: str) -> Any:
        return guesses(name, shape, r.choice([0, 0.1, 0.3]), kind)

    rule: Any
    if shape == "chain":
        rule, done = LongestPrefix(), FirstStop([Limit(r.randint(1, 6)), Rounds(12)])
    else:
        votes = [Majority(share=r.choice([0.0, 0.5])), WeightedVote()]
        others = [
            First(),
            First(3),
            First(threshold=0.4, otherwise="best"),
            All(),
            Best(0.2),
            Best(0.3, abstain_after=2),
            Beam(2),
            BestStep(0.1),
        ]
        rule = r.choice([*votes, *others])
        done = r.choice([None, Rounds(3), FirstStop([Limit(5), Rounds(6)])])
        if isinstance(rule, (Beam, BestStep)):
            done = FirstStop([Limit(3), Rounds(5)])
        elif isinstance(rule, (Majority, WeightedVote)):
            done = r.choice([None, FirstStop([AdaptiveConsistency(at_most=8), Rounds(9)])])
    generator = guess("g")
    if shape == "alternatives" and depth < 2 and r.random() < 0.35:
        generator = _pipeline(r, later, depth + 1)
    budget = Budget(
        rounds=r.choice([12, 25]),
        verifier_calls=r.choice([None, 6]),
        cost=r.choice([None, 40.0]),
    )
    return Pipeline(
        generator,
        judge(r.random(), r.choice([0, 0.1, 0.3]), r.choice([0, 0.3])),
        rule,
        policy=_policy(r, guess, depth),
        block=r.choice([0, 1, 2, 4]) if shape == "chain" else r.choice([1, 2, 4]),
        done=done,
        budget=budget,
        seed=r.randint(0, 99),
        name=f"depth {depth}",
    )


def _policy(r: random.Random, guess: Callable[[str], Any], depth: int) -> Policy:
    policy = reverify(2, on=("error", "timeout", "abstain"), partial=True) if r.random() < 0.3 else Policy()
    for place in range(r.choice([0, 1, 2, 3, 5, 8])):
        times, partial = r.choice([1, 2, 3]), r.random() < 0.5
        on: Any = r.choice([(), (), ("reject",), ("error", "timeout"), ("abstain",), ("exhausted", "reject")])
        do = r.choice("rfvbeg" if r.random() < 0.5 else "rfvvb")
        rounds, trusted = r.choice([1, 2, None]), r.random() < 0.3
        again: Any = r.choice([("error",), ("error", "timeout", "abstain"), ("abstain",)])
        if do == "r":
            policy = policy.then(retry(times, on=on, partial=partial))
        elif do == "f":
            policy = policy.then(feedback(times, on=on or ("reject",), partial=partial))
        elif do == "v":
            policy = policy.then(reverify(times, on=again, partial=partial))
        elif do == "b":
            other = guess(f"fallback {place} of {depth}")
            more: Any = {
                "rounds": rounds,
                "verified": not trusted,
                "times": times,
                "on": on,
                "partial": partial,
            }
            policy = policy.then(fallback(other, **more))
        elif do == "e":
            policy = policy.then(escalate(on=on, partial=partial))
        else:
            policy = policy.then(give_up(on=on, partial=partial))
    return policy


def person(request: Ask) -> Answer | None:
    """Says what the question alone decides; is away now and then, or cannot be reached."""
    u = share(request.task.id, repr(request.candidate), request.trouble)
    if u < 0.1:
        raise ConnectionError("nobody can be reached")
    if u < 0.3:
        return None
    if u < 0.5 and request.candidate:
        return Answer("accept")
    return Answer("edit", (int(u * 100), "edited")) if u < 0.85 else Answer("reject", note="no")


def interruptions(seed: int, tasks: int = 1) -> Iterator[str]:
    """In what tasks of a seed differ that are taken up again after each of their rounds, or that went through JSON."""
    pipeline = build(seed)
    for number in range(tasks):
        yield from _taken_up(pipeline, Task(id=str(number), input={"n": number}))


def _taken_up(pipeline: Pipeline, task: Task) -> Iterator[str]:
    record = pipeline.record(task, ask=person)
    restored = decode(encode(record, ""), TaskRecord, "")
    if encode(restored, "") != encode(record, ""):
        yield f"task {task.id} read again from its record"
    for place in range(len(record.rounds) + 1):
        inner = restored.inner if place == len(record.rounds) else ()
        again = pipeline.record(task, ask=person, restore=restored.rounds[:place], inner=inner)
        if timeless(decode(encode(again, ""), TaskRecord, "")) != timeless(restored):
            yield f"task {task.id} taken up again after {place} rounds"


def differences(seed: int, tasks: int = 4) -> Iterator[str]:
    """In what the drivers, the executors and a task taken up again after each round differ for a seed."""
    pipeline, r = build(seed), random.Random(-seed)
    work = [Task(id=str(number), input={"n": number}) for number in range(tasks)]
    records = [pipeline.record(task, ask=person) for task in work]
    first = [timeless(record) for record in records]
    size = r.choice([None, 2, 3])
    if first != [timeless(record) for record in pipeline.record(work, ask=person, size=size)]:
        yield f"batch of {size}"
    for name, twin in (("asyncio", pipeline), ("coroutines", build(seed, later=True))):
        if first != asyncio.run(_all(twin, work)):
            yield name
    for name, twin in (("executor", pipeline), ("executor of coroutines", build(seed, later=True))):
        found = _benched(twin, work, size or 4)
        if found != [_benched(pipeline, [task], 1)[0] for task in work]:
            yield name
    for task in work:
        yield from _taken_up(pipeline, task)


async def _all(pipeline: Pipeline, tasks: list[Task]) -> list[TaskRecord]:
    found = await asyncio.gather(*[pipeline.arecord(task, ask=person) for task in tasks])
    return [timeless(record) for record in found]


def _benched(pipeline: Pipeline, tasks: list[Task], size: int) -> list[TaskRecord]:
    bench = Bench({"p": pipeline})
    units = (Unit(pipeline="p", task=task) for task in tasks)
    try:
        found = {done.record.task: timeless(done.record) for done in bench.perform_all(units, size=size)}
    finally:
        bench.close()
    return [found[task.id] for task in tasks]


if __name__ == "__main__":
    start, seed, wrong = time.time(), 0, 0
    while time.time() - start < float(sys.argv[1]):
        for difference in differences(seed):
            print(f"seed {seed}: {difference}")
            wrong += 1
        seed += 1
    print(f"{seed} pipelines, {wrong} differences")
    sys.exit(wrong > 0)
