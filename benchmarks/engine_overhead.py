"""What the engine itself costs per round, records on and in a real file, against a bare loop written out here.

    python -m benchmarks.engine_overhead [--rounds 1000] [--repeats 15] [--out benchmarks/results/engine_overhead.json]

The parts do next to nothing (they return constants), so what is left is the engine: contexts, checks of the
contract, randomness keys, round records, events, and the commit of all rounds to SQLite at the task's end. The
bare loop calls the same parts in the same order and appends to a list. The two are interleaved (ABBA); the figure
is the difference per round: the 50th and 99th percentile of single rounds, and the mean with the commit shared out
over its rounds, with a 95 % interval of the mean over repeats (Student's t).

A batch round is measured for parts that judge (four checks) and for parts that measure, as token decoding does (target
distributions and no checks). Its median over repeats is given beside the mean: another program's turn on the machine
moves the mean alone.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify import (
    PASS,
    Check,
    Decision,
    Evidence,
    Pipeline,
    Proposal,
    Refusal,
    RoundDone,
    Task,
    Verification,
)
from draftverify.bench.records import Store
from draftverify.bench.records.database import sqlite_url
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits

PROPOSAL = Proposal.chain((1, 2, 3, 4))
VERIFICATION = Verification(checks=(PASS, PASS, PASS, Check("reject")))
EVIDENCE = Verification(evidence=Evidence(target=np.full((5, 8), 0.125)))
DECISION = Decision(kept=(0, 1, 2), refused=(Refusal(3, "rejected"),), spliced=(9,))
T_975 = {4: 2.776, 9: 2.262, 14: 2.145, 19: 2.093, 29: 2.045}


class Constant:
    """Generator, verifier and rule that return constants."""

    traits: Any = (GeneratorTraits(shape="chain"), RuleTraits(shapes={"chain"}))

    def propose(self, context: Any, n: int) -> Proposal:
        return PROPOSAL

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return VERIFICATION

    def decide(self, context: Any, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        return DECISION


class ConstantMany(Constant):
    """The same, one call for the whole batch."""

    def propose_many(self, contexts: list[Any], ns: list[int]) -> list[Proposal]:
        return [PROPOSAL] * len(ns)

    def verify_many(self, contexts: list[Any], proposals: list[Proposal]) -> list[Verification]:
        return [VERIFICATION] * len(contexts)

    def decide_many(
        self, contexts: list[Any], proposals: Any, verifications: Any, rngs: Any
    ) -> list[Decision]:
        return [DECISION] * len(contexts)


class EvidenceMany(ConstantMany):
    """The same, with target distributions instead of checks."""

    traits: Any = (
        GeneratorTraits(shape="chain"),
        VerifierTraits(provides={"target"}),
        RuleTraits(shapes={"chain"}, needs={"target"}),
    )

    def verify_many(self, contexts: list[Any], proposals: list[Proposal]) -> list[Verification]:
        return [EVIDENCE] * len(contexts)


def bare_loop(part: Constant, rounds: int) -> list[float]:
    """Draft, verify, decide, keep; seconds of each round."""
    accepted: list[int] = []
    seconds = []
    for _ in range(rounds):
        start = perf_counter()
        proposal = part.propose(accepted, 4)
        verification = part.verify(accepted, proposal)
        decision = part.decide(accepted, proposal, verification, None)
        accepted.extend([proposal.items[i] for i in decision.kept])
        accepted.extend(decision.spliced)
        seconds.append(perf_counter() - start)
    return seconds


def single(pipeline: Pipeline, store: Store, name: str, rounds: int) -> tuple[list[float], float]:
    """One task of `rounds` rounds and its commit: seconds of each round, and of the commit."""
    marks: list[float] = []

    def listen(event: object) -> None:
        if type(event) is RoundDone:
            marks.append(perf_counter())

    start = perf_counter()
    record = pipeline.record(Task(id=name), on_event=listen)
    marks.insert(0, start)
    end = perf_counter()
    store.commit(pipeline.name, record)
    committed = perf_counter() - end
    assert len(marks) == rounds + 1
    return [later - earlier for earlier, later in pairwise(marks)], committed


def batch(pipeline: Pipeline, store: Store, name: str, sessions: int, rounds: int) -> tuple[float, float]:
    """`sessions` tasks in lockstep: seconds per batch round, and seconds of all their commits per batch round."""
    start = perf_counter()
    records = pipeline.record([Task(id=f"{name}.{i}") for i in range(sessions)])
    middle = perf_counter()
    for record in records:
        store.commit(pipeline.name, record)
    return (middle - start) / rounds, (perf_counter() - middle) / rounds


def interval(values: list[float]) -> dict[str, float]:
    """Mean and its 95 % interval over repeats, in microseconds."""
    mean = statistics.fmean(values)
    half = T_975[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": mean * 1e6, "low": (mean - half) * 1e6, "high": (mean + half) * 1e6}


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def measure(rounds: int, repeats: int, sessions: int) -> dict[str, Any]:
    """Run both ways in turn and return the figures."""
    part = Constant()
    stop: Callable[..., int | None] = lambda context, new: len(new) if context.round >= rounds - 1 else None
    stop_batch: Callable[..., int | None] = lambda context, new: len(new) if context.round >= 49 else None
    pipeline = Pipeline(part, part, part, block=4, done=stop, name="overhead")
    batched = {
        name: Pipeline(many, many, many, block=4, done=stop_batch, name=name)
        for name, many in (("batch", ConstantMany()), ("batch_evidence", EvidenceMany()))
    }
    bare: list[list[float]] = []
    ours: list[list[float]] = []
    commits: list[float] = []
    batches: dict[str, list[tuple[float, float]]] = {name: [] for name in batched}
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(sqlite_url(Path(folder) / "records.db"), "overhead", config_hash="overhead")
        single(pipeline, store, "warm", rounds)
        bare_loop(part, rounds)
        for repeat in range(repeats):
            order = ("bare", "ours", "ours", "bare") if repeat % 2 == 0 else ("ours", "bare", "bare", "ours")
            gc.collect()
            both: dict[str, list[float]] = {"bare": [], "ours": []}
            commit = 0.0
            for place, which in enumerate(order):
                if which == "bare":
                    both["bare"] += bare_loop(part, rounds)
                else:
                    seconds, committed = single(pipeline, store, f"{repeat}.{place}", rounds)
                    both["ours"] += seconds
                    commit += committed / rounds / 2
            bare.append(both["bare"])
            ours.append(both["ours"])
            commits.append(commit)
            for name, pipeline_batched in batched.items():
                batches[name].append(batch(pipeline_batched, store, f"{name}.{repeat}", sessions, 50))
        store.close()
    every_bare = [s for one in bare for s in one]
    every = [s for one in ours for s in one]
    means = [statistics.fmean(o) - statistics.fmean(b) for o, b in zip(ours, bare, strict=True)]
    return {
        "rounds": rounds,
        "repeats": repeats,
        "unit": "microseconds",
        "single": {
            "bare_p50": percentile(every_bare, 0.5) * 1e6,
            "overhead_p50": (percentile(every, 0.5) - percentile(every_bare, 0.5)) * 1e6,
            "overhead_p99": (percentile(every, 0.99) - percentile(every_bare, 0.99)) * 1e6,
            "overhead": interval(means),
            "commit": interval(commits),
            "overhead_with_commit": interval([m + c for m, c in zip(means, commits, strict=True)]),
        },
        **{
            name: {
                "sessions": sessions,
                "round": interval([seconds for seconds, _ in measured]),
                "commit": interval([seconds for _, seconds in measured]),
                "round_p50": percentile([seconds for seconds, _ in measured], 0.5) * 1e6,
            }
            for name, measured in batches.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=15, choices=[n + 1 for n in T_975])
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine_overhead.json"))
    options = parser.parse_args()
    figures = measure(options.rounds, options.repeats, options.sessions)
    write(options.out, "benchmarks.engine_overhead", figures)
    one = figures["single"]
    print(
        f"one session, per round over the bare loop: p50 {one['overhead_p50']:.1f} µs, p99 {one['overhead_p99']:.1f} µs"
    )
    with_commit = one["overhead_with_commit"]
    print(
        f"with the commit: {with_commit['mean']:.1f} µs [{with_commit['low']:.1f}, {with_commit['high']:.1f}]"
    )
    for name in ("batch", "batch_evidence"):
        many = figures[name]
        each, median, commit = many["round"]["mean"], many["round_p50"], many["commit"]["mean"]
        print(
            f"{name}: {many['sessions']} sessions, per batch round: mean {each:.0f} µs, median {median:.0f} µs, "
            f"commit {commit:.0f} µs"
        )


if __name__ == "__main__":
    main()
