"""The measured block controller in lockstep batches on a simulated clock: one size for all, chosen per batch size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from draftverify import Context, Cost, Decision, Fixed, Pipeline, Proposal, Verification
from draftverify.protocols import BlockSize
from draftverify.stats import geometric_progress
from draftverify.stats.block import Measured
from draftverify.stats.block.costs import BatchCosts
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits
from draftverify.values import Evidence, Failure, Round, Timing
from tests.lab.simulated import PLAIN, Machine, context_of

BATCHES = (1, 3, 8, 64)


def memory_bound(most: int, slope: float = 0.0) -> Callable[[int], float]:
    """Cost of a pass over so many rows, in plain steps of a task alone: (nearly) flat up to `most`, then linear."""
    base = 1.0 + slope
    return lambda rows: max(1.0 + slope * rows, rows / most * (1.0 + slope * most)) / base


def lengths(task: int) -> int:
    """50 to 149 items, so that tasks end at different times and are replaced."""
    return 50 + task * 37 % 100


def played(
    parts: dict[str, Any],
    block: BlockSize,
    size: int,
    *,
    waves: int = 6,
    seed: int = 0,
    length: Callable[[int], int] = lengths,
) -> float:
    """Work per emitted item of `waves` times as many tasks as are under way at once, in plain steps of a task alone."""
    machine = Machine(**parts, seed=seed)
    records = machine.batch(range(waves * size), block, length, size)
    return machine.work / sum(len(round.decision.emitted) for record in records for round in record.rounds)


NOT_WORTH_IT: dict[str, dict[str, Any]] = {
    "random tokens": {"accept": lambda task, round: 0.0, "rows": memory_bound(32, 0.02)},
    "random tokens, and every row costs": {"accept": lambda task, round: 0.0, "rows": float},
    "half right, and every row costs": {
        "accept": lambda task, round: 0.5,
        "rows": lambda rows: 0.5 + 0.5 * rows,
    },
    "a dear draft model": {
        "accept": lambda task, round: 0.3,
        "rows": memory_bound(32),
        "draft": lambda n: 0.4 * n,
    },
    "a heavy tail of timings": {
        "accept": lambda task, round: 0.02,
        "rows": memory_bound(32, 0.1),
        "heavy": 0.5,
    },
    "speed that halves and recovers": {
        "accept": lambda task, round: 0.02,
        "rows": memory_bound(32, 0.1),
        "noise": 0.1,
        "bursts": 0.03,
    },
}


def slow_runs(name: str, size: int, seeds: range, waves: int) -> int:
    """How many runs did more than 1.02 times plain's work."""
    parts = NOT_WORTH_IT[name]
    plain = played(parts, Fixed(0), size, waves=waves)
    return sum(played(parts, Measured(), size, waves=waves, seed=seed) > 1.02 * plain for seed in seeds)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, BATCHES[number % 3]) for number, name in enumerate(NOT_WORTH_IT)),
        pytest.param("random tokens", 64, marks=pytest.mark.exhaustive),
    ],
)
def test_it_is_not_slower_than_plain(name: str, size: int) -> None:
    """The promise in refilled batches: no run of ten waves does over 1.02 times plain's work.

    With two runs at 8 and six else, so only a gross failure is sure to be seen here.
    """
    seeds = {64: 1, 8: 2}.get(size, 6)
    assert slow_runs(name, size, range(3000, 3000 + seeds), 10) == 0


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("name", NOT_WORTH_IT)
def test_it_is_not_slower_than_plain_in_95_of_100_runs(name: str, size: int) -> None:
    """A controller that is slow in more than 5 % of its runs passes with a probability below .046."""
    assert slow_runs(name, size, range(4000, 4060), 10) == 0


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NOT_WORTH_IT)
def test_it_is_not_slower_than_plain_at_64(name: str) -> None:
    """Sixteen runs at batch 64: a controller that is slow in 17 % of its runs passes with probability .05."""
    assert slow_runs(name, 64, range(4000, 4016), 10) == 0


@pytest.mark.parametrize("size", BATCHES)
def test_one_wave_that_is_never_refilled_is_hardly_slower(size: int) -> None:
    """All tasks start at once, end at different times and leave smaller and smaller batches: within 3 % of plain."""
    for name in ("random tokens", "half right, and every row costs"):
        parts = NOT_WORTH_IT[name]
        length = lambda task: 150 + task * 37 % 100
        plain = played(parts, Fixed(0), size, waves=1, length=length)
        for seed in range(3000, 3003):
            assert played(parts, Measured(), size, waves=1, seed=seed, length=length) <= 1.03 * plain


def test_acceptance_that_goes_is_followed() -> None:
    """Drafts stop being right in the middle of a run at batch 8: 60 passes on hardly a pass drafts."""
    machine = Machine(
        lambda task, round: 0.8 if round < 2000 else 0.02, rows=memory_bound(32, 0.05), seed=3000
    )
    asked: list[int] = []
    block = Measured()
    machine.batch(range(64), block, lambda task: 150, 8)
    switch = next(i for i in range(len(machine.asked)) if sum(map(len, machine.asked[:i])) >= 2000)
    asked = [max(sizes) for sizes in machine.asked]
    assert sum(n > 0 for n in asked[50:switch]) > 0.9 * (switch - 50)
    late = asked[switch + 60 :]
    assert len(late) > 100
    assert sum(n > 0 for n in late) < 0.1 * len(late)


def best_fixed(parts: dict[str, Any], size: int, waves: int) -> tuple[int, float]:
    """The fixed block of least work, and its work per item."""
    found = {n: played(parts, Fixed(n), size, waves=waves) for n in (0, 1, 2, 3, 4, 6, 8, 12, 16)}
    best = min(found, key=found.__getitem__)
    return best, found[best]


@pytest.mark.parametrize(("size", "most"), [(1, 16), (3, 10), (8, 4), (64, 0)])
def test_the_size_follows_the_batch(size: int, most: int) -> None:
    """Where a pass is free up to 32 rows the best block shrinks with the batch; it reaches 88 % of its speed."""
    parts = {"accept": lambda task, round: 0.7, "rows": memory_bound(32)}
    waves = {64: 4, 8: 8}.get(size, 10)
    best, least = best_fixed(parts, size, waves)
    assert best <= most
    runs = [played(parts, Measured(), size, waves=waves, seed=seed) for seed in range(3000, 3003)]
    assert sum(runs) / 3 <= least / 0.88


@pytest.mark.parametrize("size", [3, 8])
def test_sessions_of_a_pass_are_asked_for_the_same_size(size: int) -> None:
    """However different their acceptance, so that nobody's rows are padding and all stay in step."""
    machine = Machine(
        lambda task, round: (0.95, 0.3, 0.0)[task % 3], rows=memory_bound(32, 0.02), found=0.7, seed=3000
    )
    machine.batch(range(6 * size), Measured(), lengths, size)
    assert all(len(set(sizes)) == 1 for sizes in machine.asked)
    assert len({sizes[0] for sizes in machine.asked}) > 3


def test_what_only_the_first_block_of_a_size_costs_is_not_learned() -> None:
    """Each shape's first pass takes twenty plain steps more; the report's costs are still near the truth."""
    rows = memory_bound(32, 0.02)
    for size in (1, 3):
        block = Measured()
        machine = Machine(lambda task, round: 0.7, rows=rows, once=20.0, seed=3000)
        machine.batch(range(10 * size), block, lengths, size)
        found = block.report()
        assert found["drafting"]
        plain = rows(size)
        assert found["costs"]["plain"] == pytest.approx(PLAIN * plain, rel=0.1)
        for n, seconds in found["costs"]["verify"].items():
            if sum(max(sizes) == n for sizes in machine.asked) > 15:
                assert seconds == pytest.approx(PLAIN * rows(size * (n + 1)), rel=0.15)


def gain(rows: Callable[[int], float], size: int, chance: float) -> float:
    """The best block's true speed over plain steps at a batch size."""
    progress = geometric_progress(chance, chance, 16)
    return max((1 + made) * rows(size) / rows(size * (n + 1)) for n, made in enumerate(progress, 1))


def test_it_reports_until_which_batch_size_drafting_pays() -> None:
    """After runs at 1, 3, 8 and 64 the answer is within a factor of two of the truth; beyond what was met, unknown."""
    rows = memory_bound(32, 0.02)
    expected = max(size for size in range(1, 65) if gain(rows, size, 0.7) >= 1.02)
    assert 8 < expected < 64
    block = Measured()
    assert block.report()["pays_until_batch"] is None
    for size in BATCHES:
        Machine(lambda task, round: 0.7, rows=rows, seed=3000 + size).batch(
            range(4 * size), block, lambda task: 100, size
        )
        if size < 64:
            assert block.report()["pays_until_batch"] is None
    found = block.report()
    assert set(BATCHES) <= set(found["batches"])
    for size in (1, 3, 8):
        assert found["batches"][size]["gain"] == pytest.approx(gain(rows, size, 0.7), rel=0.25)
    assert found["batches"][64]["gain"] < 1.02
    assert abs(math.log2(found["pays_until_batch"] / expected)) <= 1.0
    assert f"pays up to batch {found['pays_until_batch']}" in found["why"]


def test_it_reports_that_no_batch_size_pays() -> None:
    """0 when it does not pay alone either; unknown when only large batches were met."""
    block = Measured()
    for size, until in ((8, None), (1, 0)):
        Machine(lambda task, round: 0.02, rows=memory_bound(32, 0.1), seed=3000).batch(
            range(4 * size), block, lambda task: 100, size
        )
        found = block.report()
        assert found["pays_until_batch"] == until
    assert "pays at no batch size" in found["why"]


def mixed(objective: Any) -> tuple[float, float]:
    """Values per plain step of the batch, and a session's plain steps per value, where two of eight tasks copy."""
    machine = Machine(
        lambda task, round: 0.97 if task % 4 == 0 else 0.0,
        rows=memory_bound(64, 0.01),
        draft=lambda n: 0.02 * n,
        seed=3000,
    )
    # Nobody ends within the passes that are looked at.
    records = machine.batch(
        range(8), Measured(8, objective=objective), lambda task: 5000 if task % 4 == 0 else 600, 8
    )
    seconds = sum(round.timing.total for round in records[0].rounds[:550])
    values = [sum(len(round.decision.emitted) for round in record.rounds[:550]) for record in records]
    return sum(values) * PLAIN / seconds, sum(seconds / PLAIN / made for made in values) / 8


def test_latency_counts_sessions_and_throughput_values() -> None:
    """Where two of eight sessions copy, blocks bring more values, but most sessions wait longer for each of theirs."""
    (slower, shorter), (faster, longer) = mixed("latency"), mixed("throughput")
    assert faster > 1.2 * slower
    assert longer > 1.1 * shorter


def test_alone_latency_and_throughput_choose_alike() -> None:
    """With nobody to share a pass with, both are values per second of one session."""
    asked = []
    for objective in ("latency", "throughput", "cost"):
        machine = Machine(lambda task, round: (0.9, 0.2)[task % 2], found=0.7, seed=3000)
        machine.batch(range(6), Measured(objective=objective), lengths, 1)  # type: ignore[arg-type]
        asked.append(machine.asked)
    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("dear", [False, True])
def test_cost_goes_by_the_reported_units(size: int, dear: bool) -> None:
    """Time and price disagree: whoever pays by the row drafts only where rows are cheap, however fast blocks are."""
    cost = (lambda n: 1.0 + 2.0 * n) if dear else (lambda n: 1.0 + 0.1 * n)
    rows = memory_bound(64) if dear else float
    drafted, spent = {}, {}
    for objective in ("latency", "cost"):
        machine = Machine(lambda task, round: 0.7, rows=rows, cost=cost, seed=3000)
        block = Measured(objective=objective)  # type: ignore[arg-type]
        records = machine.batch(range(8 * size), block, lambda task: 100, size)
        drafted[objective] = sum(max(sizes) > 0 for sizes in machine.asked) / len(machine.asked)
        emitted = sum(len(round.decision.emitted) for record in records for round in record.rounds)
        spent[objective] = sum(round.timing.cost for record in records for round in record.rounds) / emitted
    assert (drafted["latency"] > 0.8) == dear
    assert (drafted["cost"] > 0.8) == (not dear)
    assert spent["cost"] < spent["latency"]
    assert spent["cost"] <= 1.02
    assert block.report()["costs"]["plain"] == pytest.approx(size * 1.0)


def test_emptied_scratch_changes_nothing_in_a_batch() -> None:
    """Scratch is a cache there, too."""

    class Forgetful(Measured):
        def size(self, context: Context) -> int:
            context.scratch.clear()
            return super().size(context)

        def observe(self, context: Context, round: Any) -> None:
            context.scratch.clear()
            super().observe(context, round)

    asked = []
    for block in (Measured(), Forgetful()):
        machine = Machine(lambda task, round: (0.8, 0.1)[task % 2], rows=memory_bound(16), seed=3000)
        machine.batch(range(12), block, lambda task: 60, 3)
        asked.append(machine.asked)
    assert asked[0] == asked[1]


def test_threads_with_a_batch_each_share_one_controller() -> None:
    """Passes of different threads are not mistaken for one: each thread's sessions keep to one size."""
    block = Measured()

    def play(thread: int) -> Machine:
        machine = Machine(lambda task, round: 0.7, rows=memory_bound(32), seed=thread)
        machine.batch(range(100 * thread, 100 * thread + 12), block, lambda task: 100, 3 + thread % 2)
        return machine

    with ThreadPoolExecutor(4) as pool:
        machines = list(pool.map(play, range(4)))
    for machine in machines:
        assert all(len(set(sizes)) == 1 for sizes in machine.asked)
    assert block.report()["rounds"] == sum(machine.rounds for machine in machines)


def test_sessions_that_begin_together_ask_for_the_same_whatever_others_teach() -> None:
    """Between two first asks of a thread, another thread's run changes what the controller would choose."""
    block = Measured()
    ask = lambda task: block.size(context_of(task, [], {}))
    first = ask("one")

    def teach() -> int:
        machine = Machine(lambda task, round: 0.9, rows=memory_bound(32), seed=3000)
        machine.batch(range(12), block, lambda task: 100, 3)
        return ask("of another thread")

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(teach).result() != first
    assert ask("two") == first


def test_plain_steps_amid_drafts_that_are_far_off_ask_for_more() -> None:
    """One leaves the next due, one that agrees settles it, and three on the same side replace what was known."""
    for odd in (1.0, 4.0):
        costs = BatchCosts(1)
        for _ in range(9):
            costs.step(2.0)
        costs.since = 33
        costs.step(odd)
        assert (costs.since, costs.unit) == (33, 2.0)
        costs.step(2.0)
        assert costs.since == 0
        costs.since = 33
        for _ in range(3):
            costs.step(odd)
        assert (costs.since, costs.unit) == (0, odd)


@pytest.mark.parametrize("size", [3, 8])
def test_sessions_of_a_pass_that_do_not_tell_leave_the_bound_as_it_is(size: int) -> None:
    """A session for which a fallback drafts is asked for its size and never observed; the others are learned from."""

    class Deaf(Measured):
        def observe(self, context: Context, round: Any) -> None:
            if int(context.task.id.removeprefix("task ")) % size:
                super().observe(context, round)

    for chance, drafts in ((0.8, True), (0.0, False)):
        parts = {"accept": lambda task, round, chance=chance: chance, "rows": memory_bound(32, 0.05)}
        block = Deaf()
        ratio = played(parts, block, size, seed=3000) / played(parts, Fixed(0), size)
        assert ratio < 0.8 if drafts else ratio <= 1.02
        assert block.report()["drafting"] == drafts
        found = block.report()
        assert found["batch"] == size
        assert found["costs"]["plain"] == pytest.approx(PLAIN * parts["rows"](size), rel=0.1)


@pytest.mark.parametrize("alone", [True, False])
def test_failed_rounds_are_no_pass(alone: bool) -> None:
    """A pass in which a session's call failed teaches no cost, alone or in a batch."""
    block = Measured()
    size = 1 if alone else 3
    Machine(lambda task, round: 0.7, rows=memory_bound(32), seed=3000).batch(
        range(size), block, lambda task: 90, size
    )
    before = block.report()
    contexts = [context_of(f"late {i}", [], {}) for i in range(size)]
    for i, context in enumerate(contexts):
        failure = None if i else Failure("error", "ValueError", "no")
        block.observe(
            context,
            Round(
                index=0,
                items=(0,) * 4,
                parents=(-1, 0, 1, 2),
                asked=4,
                failure=failure,
                timing=Timing(verify=900.0, busy=900.0, passes=1, batch=size),
            ),
        )
    after = block.report()
    assert (after["costs"], after["won"]) == (before["costs"], before["won"])


class Words:
    """Drafts that are right, and their verifier, with the calls for many at once and no clock."""

    traits = (
        GeneratorTraits(shape="chain"),
        VerifierTraits(provides={"target"}),
        RuleTraits(needs={"target"}),
    )

    def __init__(self, rows: Callable[[int], float]) -> None:
        self.rows = rows
        self.verified: list[list[int]] = []

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.chain((0,) * n, cost=Cost(seconds=0.0))

    def propose_many(self, contexts: Sequence[Context], sizes: Sequence[int]) -> list[Proposal]:
        return [self.propose(context, n) for context, n in zip(contexts, sizes, strict=True)]

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        sizes = [len(proposal) for proposal in proposals]
        self.verified.append(sizes)
        cost = Cost(seconds=PLAIN * self.rows(len(sizes) * (1 + max(sizes))))
        return [Verification(evidence=Evidence(hidden=0), cost=cost) for _ in sizes]

    def decide(self, context: Context, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        return Decision(kept=tuple(range(len(proposal))), spliced=(0,))


def test_the_batched_driver_keeps_its_sessions_in_one_pass() -> None:
    """As a batch, with tasks replaced as they end, every call serves a full batch with blocks of one size."""
    words = Words(memory_bound(32, 0.02))
    block = Measured()

    def done(context: Context, new: tuple[Any, ...]) -> int | None:
        over = len(context.accepted) - (60 + 7 * int(context.task.id) % 30)
        return len(new) - over if over >= 0 else None

    pipeline = Pipeline(words, words, words, block=block, done=done)  # type: ignore[arg-type]
    outcomes = pipeline.run([{}] * 40, size=4)
    assert all(outcome.status == "accepted" for outcome in outcomes)
    full = [sizes for sizes in words.verified if len(sizes) == 4]
    assert len(full) > 0.9 * len(words.verified)
    assert all(len(set(sizes)) == 1 for sizes in words.verified)
    assert {0, 1, 2, 4, 8} <= {sizes[0] for sizes in full}
    assert block.report()["batch"] == 4
