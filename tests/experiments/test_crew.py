"""The crew: what is in flight, what becomes of it when a worker dies, and how it ends; on pools told what to do."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftverify import Pipeline, generator, retry, verifier
from draftverify.bench.executors import Thread, Workers
from draftverify.bench.executors.crew import CRASHES_IN_A_ROW, Crew
from draftverify.bench.executors.frames import LostUnit
from draftverify.bench.executors.messages import WorkerReply
from draftverify.bench.executors.workers import AHEAD, MOST_AHEAD, SECONDS_AHEAD, Pace, Team
from draftverify.bench.records.encoding import decode, encode
from draftverify.bench.runner.bench import Bench, Done, Unit
from draftverify.bench.runner.build import Builder
from draftverify.engine.budget import Budget
from draftverify.errors import ResourceError
from draftverify.rules import First
from draftverify.values import Outcome, Task, TaskRecord
from tests.experiments.runs import load

Perform = Callable[[Unit], Done]


def units(*names: str) -> list[Callable[[], Unit]]:
    """Units of these tasks."""
    return [lambda name=name: Unit(pipeline="only", task=Task(id=name)) for name in names]


def done(unit: Unit) -> Done:
    """What comes of one at once."""
    record = TaskRecord(task=unit.task.id, outcome=Outcome(status="accepted"))
    return Done(pipeline=unit.pipeline, record=record)


class Told:
    """A bench that performs as it is told."""

    def __init__(self, perform: Perform = done) -> None:
        self.perform = perform

    def stop(self) -> None:
        """Nothing is under way."""


class Pools:
    """An executor whose pools are made by a function, and counted.

    Args:
        make: makes one.
        workers: how many units at once.
        local: whether this process's pipelines are used.
    """

    def __init__(self, make: Callable[[], Executor], workers: int = 1, local: bool = True) -> None:
        self.make, self.workers, self.local = make, workers, local
        self.made = 0

    def pool(self) -> Executor:
        """A fresh one."""
        self.made += 1
        return self.make()


def crew(where: Any, bench: Any = None, spec: bytes = b"") -> Crew:
    return Crew(where, bench=bench, spec=spec)


class Mortal(Executor):
    """Performs at once, and breaks for good at a task whose name begins with "deadly"."""

    def __init__(self) -> None:
        self.broken = False

    def submit(self, fn: Any, unit: Unit) -> Future[Any]:  # type: ignore[override]
        """Perform it, or break."""
        if self.broken:
            raise BrokenExecutor
        future: Future[Any] = Future()
        if unit.task.id.startswith("deadly"):
            self.broken = True
            future.set_exception(BrokenExecutor())
        else:
            future.set_result(fn(unit))
        return future


def statuses(found: list[Done]) -> dict[str, str]:
    return {each.record.task: each.record.outcome.status for each in found}


@pytest.mark.parametrize("workers", [1, 3])
def test_tasks_that_kill_their_worker_cost_no_other_task_however_many_they_are(workers: int) -> None:
    """Each is tried twice, on workers of its own, and recorded as failed; what comes to its end between them counts."""
    names = [f"{kind} {i}" for i in range(CRASHES_IN_A_ROW + 2) for kind in ("deadly", "good")]
    found: list[Done] = []
    where = Pools(Mortal, workers)
    with crew(where, Told()) as crew_:
        crew_.perform(units(*names), found.extend)
    expected = {name: "accepted" if name.startswith("good") else "failed" for name in names}
    assert statuses(found) == expected
    assert len(found) == len(names)


def test_workers_that_die_one_after_the_other_end_the_run() -> None:
    """At the fifth lone unit; those before it are recorded."""
    found: list[Done] = []
    with pytest.raises(ResourceError, match="5 worker processes died"), crew(Pools(Mortal), Told()) as crew_:
        crew_.perform(units(*(f"deadly {i}" for i in range(9))), found.extend)
    assert statuses(found) == {f"deadly {i}": "failed" for i in range(4)}


def test_what_was_finished_when_a_worker_died_is_not_done_again() -> None:
    """Its answer had come from another one, and is taken."""
    performed = []

    def perform(unit: Unit) -> Done:
        performed.append(unit.task.id)
        time.sleep(0.05)
        return done(unit)

    class Half(Mortal):
        def submit(self, fn: Any, unit: Unit) -> Future[Any]:  # type: ignore[override]
            if unit.task.id == "slow":
                return ThreadPoolExecutor(1).submit(fn, unit)
            return super().submit(fn, unit)

    found: list[Done] = []
    with crew(Pools(Half, 2), Told(perform)) as crew_:
        crew_.perform(units("slow", "deadly"), found.extend)
    assert performed == ["slow"]
    assert statuses(found) == {"slow": "accepted", "deadly": "failed"}


@pytest.mark.parametrize("local", [True, False])
def test_no_more_units_are_in_flight_than_there_are_workers(local: bool) -> None:
    """One more where they are elsewhere, so that none waits for this thread."""
    inside, most, lock = [0], [0], threading.Lock()

    def perform(unit: Unit) -> Done:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        with lock:
            inside[0] -= 1
        return done(unit)

    class Far(ThreadPoolExecutor):
        def submit(self, fn: Any, spec: bytes, data: bytes) -> Future[Any]:  # type: ignore[override]
            unit = decode(data, Unit, "a unit")
            return super().submit(lambda: msgspec.json.encode({"done": perform(unit)}))

    found: list[Done] = []
    where = Pools(lambda: (ThreadPoolExecutor if local else Far)(16), 3, local)
    with crew(where, Told(perform) if local else None) as crew_:
        crew_.perform(units(*map(str, range(16))), found.extend)
    assert (len(found), where.made) == (16, 1)
    assert most == [3 if local else 4]


def test_a_slow_unit_holds_up_nobody() -> None:
    """What comes to its end beside it is taken at once, and others follow."""
    over = threading.Event()
    waited: list[bool] = []

    def perform(unit: Unit) -> Done:
        if unit.task.id == "slow":
            waited.append(over.wait(10))
        return done(unit)

    found: list[str] = []

    def take(came: Sequence[Done]) -> None:
        found.extend(each.record.task for each in came)
        if len(found) == 5:
            over.set()

    with crew(Thread(2), Told(perform)) as crew_:
        crew_.perform(units("slow", *map(str, range(5))), take)
    assert waited == [True]
    assert found == [*map(str, range(5)), "slow"]


def test_after_an_error_nothing_more_is_begun() -> None:
    """What waits for a thread is let go."""
    performed = []

    def perform(unit: Unit) -> Done:
        performed.append(unit.task.id)
        time.sleep(0.05)
        return done(unit)

    def take(came: Sequence[Done]) -> None:
        raise KeyboardInterrupt

    where = Pools(lambda: ThreadPoolExecutor(1), 6)
    with pytest.raises(KeyboardInterrupt), crew(where, Told(perform)) as crew_:
        crew_.perform(units(*map(str, range(6))), take)
    assert len(performed) <= 2


def test_after_ctrl_c_units_in_threads_end_at_their_next_round() -> None:
    """A thread cannot be killed, and a long task need not be waited for."""
    rounds = []

    def propose(context: Any, n: int) -> list[str]:
        if context.task.id == "long":
            rounds.append(context.round)
            time.sleep(0.005)
        return [context.task.id]

    def take(came: Sequence[Done]) -> None:
        raise KeyboardInterrupt

    short = verifier(lambda context, item: item == "short")
    long = Pipeline(generator(propose), short, First(), policy=retry(None), budget=Budget(rounds=400))
    bench = Bench({"only": long})
    with pytest.raises(KeyboardInterrupt), crew(Thread(2), bench) as crew_:
        crew_.perform(units("long", "short"), take)
    assert len(rounds) < 200
    bench.close()


class Repeating(Future[bytes]):
    """A future that tells of its end so many times.

    Args:
        times: how many.
    """

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def add_done_callback(self, fn: Callable[[Future[bytes]], object]) -> None:
        """Call it as often."""
        for _ in range(self.times):
            super().add_done_callback(fn)


class Echoing(Workers):
    """Workers that answer as they are told.

    Args:
        say: the answers to a unit; more than one come as the first one does, again.
    """

    room = 3

    def __init__(self, say: Callable[[Unit, bool], list[WorkerReply]]) -> None:
        self.say = say

    def begin(self, spec: bytes, on_sent: Any) -> None:
        """Nothing to do."""

    def perform(self, pipeline: str, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Answer at once, and tell it as often."""
        replies = self.say(decode(unit, Unit, "a unit"), solo)
        future = Repeating(len(replies))
        future.set_result(encode(replies[0], "a reply").encode())
        return future

    def close(self, *, kill: bool) -> None:
        """Nothing to do."""


def echoed(say: Callable[[Unit, bool], list[WorkerReply]], *names: str) -> list[Done]:
    """What is taken of these tasks."""
    found: list[Done] = []
    with crew(Pools(lambda: Echoing(say), local=False)) as crew_:  # type: ignore[arg-type, return-value]
        crew_.perform(units(*names), found.extend)
    return found


def test_an_answer_that_comes_twice_is_taken_once() -> None:
    """However late the second one is."""
    names = [str(i) for i in range(6)]
    found = echoed(lambda unit, solo: [WorkerReply(done=done(unit))] * 2, *names)
    assert [each.record.task for each in found] == names


def test_an_answer_for_another_task_is_refused() -> None:
    """Nothing is recorded under a name that was not asked for."""
    other = Unit(pipeline="only", task=Task(id="other"))
    with pytest.raises(ResourceError, match="task 'other', when it was asked for 'only', task 'one'"):
        echoed(lambda unit, solo: [WorkerReply(done=done(other))], "one")


@pytest.mark.parametrize(
    ("losses", "status", "kind"),
    [
        ([LostUnit("gone")], "accepted", None),
        ([LostUnit("gone", solo=True)], "accepted", None),
        ([LostUnit("gone", solo=True)] * 2, "failed", "WorkerDied"),
        ([LostUnit("late", late=True)], "accepted", None),
        ([LostUnit("late", solo=True, late=True)], "failed", "DeadlineExceeded"),
        ([LostUnit("a node went")] * 3, "accepted", None),
        ([LostUnit("a node went")] * 4, "failed", "WorkerDied"),
    ],
)
def test_what_becomes_of_a_unit_whose_worker_is_lost(
    losses: list[LostUnit], status: str, kind: str | None
) -> None:
    """It runs again, alone, unless it was alone and does so again; nodes may go three times."""
    left = {"unlucky": list(losses)}
    asked: list[tuple[str, bool]] = []

    def say(unit: Unit, solo: bool) -> list[WorkerReply]:
        asked.append((unit.task.id, solo))
        rest = left.get(unit.task.id)
        return [WorkerReply(lost=rest.pop(0))] if rest else [WorkerReply(done=done(unit))]

    found = {each.record.task: each.record.outcome for each in echoed(say, "unlucky", "other")}
    assert (found["unlucky"].status, found["other"].status) == (status, "accepted")
    assert (found["unlucky"].failure and found["unlucky"].failure.error) == kind
    assert [solo for name, solo in asked if name == "unlucky"][1:] == [True] * (
        len(losses) - (status == "failed")
    )


def test_workers_may_come_to_take_fewer_units_than_they_have() -> None:
    """Nothing more is sent until there is room again."""

    class Shrinking(Echoing):
        rooms = iter([4, 1, 1, 3])

        @property
        def room(self) -> int:  # type: ignore[override]
            return next(self.rooms, 3)

    names = [str(i) for i in range(9)]
    found: list[Done] = []
    where = Pools(lambda: Shrinking(lambda unit, solo: [WorkerReply(done=done(unit))]), local=False)  # type: ignore[arg-type, return-value]
    with crew(where) as crew_:
        crew_.landed = OneByOne()  # type: ignore[assignment]
        crew_.perform(units(*names), found.extend)
    assert [each.record.task for each in found] == names


class OneByOne(queue.SimpleQueue[Any]):
    """A queue that never says that it holds more."""

    def empty(self) -> bool:
        """As if it did not."""
        return True


class Slow:
    """A member that ends nothing by itself."""

    room = 3

    def __init__(self) -> None:
        self.given: list[tuple[str, Future[bytes]]] = []

    def perform(self, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Keep it."""
        future: Future[bytes] = Future()
        self.given.append((unit.decode(), future))
        return future

    def end(self) -> None:
        """End the first."""
        self.given.pop(0)[1].set_result(b"")


def test_a_unit_that_is_to_be_alone_has_its_worker_to_itself() -> None:
    """It waits for one that has nothing, nothing is put behind it, and the others go on elsewhere."""
    team, one, two = Team(), Slow(), Slow()
    team.join(one)
    team.join(two)

    def has() -> list[str]:
        return ["".join(name for name, _ in each.given) for each in (one, two)]

    for name in "abC":
        team.perform(name.encode(), solo=name.isupper())
    assert has() == ["a", "b"]
    one.end()
    for name in "dEf":
        team.perform(name.encode(), solo=name.isupper())
    assert has() == ["C", "bd"]
    two.end()
    one.end()
    assert has() == ["E", "df"]
    team.leave(one)
    one.end()
    team.join(one)
    team.perform(b"g", solo=False)
    assert has() == ["g", "df"]


def test_a_worker_has_half_a_second_of_short_units_ahead_and_few_long_ones() -> None:
    """From its first units on, and again when units become longer."""
    pace = Pace()
    assert pace.ahead == AHEAD
    pace.ended(1, 60.0)  # models were loaded
    for _ in range(10):
        pace.ended(10, 0.2)
    assert pace.ahead == pytest.approx(SECONDS_AHEAD / 0.02, abs=2)
    pace.ended(1, 5.0)
    assert pace.ahead == AHEAD
    for _ in range(20):
        pace.ended(100, 0.0)
    assert pace.ahead == MOST_AHEAD


class Far:
    """Anybody's executor with one worker."""

    local = False
    workers = 1

    def pool(self) -> Executor:
        """A thread."""
        return ThreadPoolExecutor(1)


def far(folder: Path, **changes: Any) -> list[Done]:
    """What comes of an experiment's tasks there."""
    config = load(folder, count=3, **changes)
    tasks = Builder().part(config.tasks).load()
    made = [
        lambda name=name, task=task: Unit(pipeline=name, task=task)
        for name in ("plain", "spec")
        for task in tasks
    ]
    found: list[Done] = []
    with crew(Far(), spec=config.to_json()) as crew_:
        crew_.perform(made, found.extend)
    return found


def test_a_worker_opens_its_parts_once(tmp_path: Path) -> None:
    """For all units of an experiment; another experiment has its own."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        log = tmp_path / name / "opened"
        assert len(far(tmp_path / name, verifier="Opened", check=f", log: {log}")) == 6
        assert len(log.read_text().splitlines()) == 1


def test_an_error_of_a_worker_keeps_its_name(tmp_path: Path) -> None:
    """Whoever catches it here catches it from there."""
    with pytest.raises(ResourceError, match="the weights are missing"):
        far(tmp_path, verifier="Missing")


class Heavy:
    """A generator with weights."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self) -> None:
        """Load them."""
        self.calls.append("open")

    def close(self) -> None:
        """Free them."""
        self.calls.append("close")

    def propose(self, context: Any, n: int) -> list[str]:
        """Nothing."""
        return []


def test_a_bench_closes_every_pipeline_that_it_opened() -> None:
    """And none that it did not."""
    parts = [Heavy(), Heavy(), Heavy()]
    pipelines = {
        str(i): Pipeline(part, verifier(lambda c, item: True), First()) for i, part in enumerate(parts)
    }  # type: ignore[arg-type]
    bench = Bench(pipelines)
    for name in ("0", "1", "0"):
        bench.open(name)
    bench.close()
    assert [part.calls for part in parts] == [["open", "close"], ["open", "close"], []]


def test_a_unit_that_cannot_be_taken_up_keeps_its_rounds() -> None:
    """Rounds of another policy: its record has them, says how many, and why it failed; the others go on."""
    parts = generator(lambda context, n: [1]), verifier(lambda context, item: False), First()
    rounds = Pipeline(*parts, policy=retry(2)).record("x").rounds
    bench = Bench({"only": Pipeline(*parts)})
    bad = Unit(pipeline="only", task=Task(id="bad"), restore=rounds)
    record = bench.perform(bad).record
    assert (record.outcome.status, record.outcome.rounds, record.rounds) == ("failed", 3, rounds)
    assert "of another policy" in record.outcome.reason
    good = Unit(pipeline="only", task=Task(id="good"))
    found = [each.record.task for each in bench.perform_all(iter([good, bad, good, bad]), size=2)]
    assert sorted(found) == ["bad", "bad", "good", "good"]
    bench.close()
