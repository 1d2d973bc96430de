"""Executors: the same results everywhere, and a worker that dies costs no more than its task."""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify.bench.executors import Batch, Process, Thread
from draftverify.bench.executors.crew import Crew
from draftverify.bench.records import timeless
from draftverify.bench.records.encoding import decode, encode
from draftverify.bench.runner import memory
from draftverify.bench.runner.bench import Done, OnRound, Unit
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError, ResourceError
from draftverify.values import Outcome, TaskRecord
from tests.experiments.runs import load, results

EXECUTORS = {
    "serial": "{use: serial}",
    "thread": "{use: thread, workers: 3}",
    "process": "{use: process, workers: 2}",
    "batch": "{use: batch, size: 3}",
}


def compared(chance: float, policy: str, splice: bool, broken: list[str]) -> None:
    """A run under each executor, with both durabilities, against the serial one."""
    check = f", splice: {str(splice).lower()}, broken: [{', '.join(broken)}]"
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for executor, durable in itertools.product(EXECUTORS, ("task", "round")):
            path = Path(name, f"{executor}-{durable}")
            path.mkdir()
            config = load(
                path,
                count=5,
                chance=chance,
                policy=policy,
                check=check,
                durable=durable,
                executor=EXECUTORS[executor],
            )
            done = run(config, out=path / "run")
            found[executor, durable] = results(path / "run"), done.waiting, done.failed
    first = found["serial", "task"]
    assert all(each == first for each in found.values())


@pytest.mark.parametrize(
    ("chance", "policy", "splice", "broken"),
    [
        (0.6, "[{do: feedback}, {do: escalate}]", True, ["t1"]),
        pytest.param(
            0.3,
            "[{do: regenerate, times: 2}, {do: give_up}]",
            False,
            ["t0", "t3"],
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_the_same_results_under_every_executor(
    chance: float, policy: str, splice: bool, broken: list[str]
) -> None:
    """Serial, threads and processes, each with both durabilities: equal records but for times."""
    compared(chance, policy, splice, broken)


@pytest.mark.slow
@pytest.mark.exhaustive
@settings(max_examples=20, derandomize=True)
@given(
    chance=st.floats(0.0, 1.0),
    policy=st.sampled_from(
        [
            "[]",
            "[{do: regenerate, times: 2}, {do: give_up}]",
            "[{do: feedback}, {do: escalate}]",
            "[{do: reverify}]",
        ]
    ),
    splice=st.booleans(),
    broken=st.lists(st.sampled_from(["t0", "t1", "t3"]), unique=True, max_size=2),
)
def test_the_same_results_whatever_happens(
    chance: float, policy: str, splice: bool, broken: list[str]
) -> None:
    """The same for any chance, policy and failures."""
    compared(chance, policy, splice, broken)


def test_parts_that_are_not_concurrent_take_turns(tmp_path: Path) -> None:
    """Under threads such a part is never called from two at once."""
    done = run(
        load(tmp_path, verifier="Alone", seconds=0.002, executor="{use: thread, workers: 4}"),
        out=tmp_path / "run",
    )
    assert (done.ran, done.failed) == (12, 0)


@pytest.mark.parametrize("executor", ["{use: process, workers: 2}", "{use: batch, size: 2}"])
def test_parts_are_opened_once_for_all_phases_and_epochs(tmp_path: Path, executor: str) -> None:
    """Calibration, measuring and six epochs later each process still has the parts that it opened first."""
    log = tmp_path / "opened"
    config = load(
        tmp_path,
        count=12,
        verifier="Opened",
        check=f", log: {log}",
        executor=executor,
        more="memory: {every: 2}\npredict: {limit: 1}",
    )
    run(config, out=tmp_path / "run")
    opened = log.read_text().splitlines()
    processes = {line.split()[0] for line in opened}
    assert len(opened) == len(processes)  # two pipelines, whose verifiers are one
    assert len(processes) <= (1 if "batch" in executor else 2)  # a quick worker may do it all


def test_a_memory_on_another_machine_is_told(tmp_path: Path) -> None:
    """With what to do, and the key of the config."""
    with pytest.raises(ConfigError, match="or leave out memory") as caught:
        memory.Memories().recall(memory.Recall(str(tmp_path / "gone.jsonl"), 3, 1))
    assert caught.value.path == "memory"


def test_memory_is_sent_as_a_place_and_read_line_by_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred epochs each worker reads every record once, and is told only how far to read."""
    read = []
    monkeypatch.setattr(memory, "decode", lambda *asked: read.append(asked) or decode(*asked))
    with memory.Recollection() as recollection:
        memories = memory.Memories()
        for epoch in range(100):
            recall = recollection.of("spec", epoch)
            snapshot = memories.recall(recall)
            assert (snapshot.version, len(snapshot.records)) == (epoch, 4 * epoch)
            assert len(repr(recall)) < 200
            for number in range(4):
                recollection.add(
                    "spec", TaskRecord(task=f"{epoch}.{number}", outcome=Outcome(status="failed"))
                )
        assert len(read) == 4 * 99


def test_threads_do_overlap(tmp_path: Path) -> None:
    """Parts that may be called from several threads are: four wait together."""
    start = time.perf_counter()
    run(load(tmp_path, count=4, seconds=0.02, executor="{use: thread, workers: 8}"), out=tmp_path / "run")
    threads = time.perf_counter() - start
    start = time.perf_counter()
    run(load(tmp_path, count=4, seconds=0.02), out=tmp_path / "serial")
    assert threads < (time.perf_counter() - start) / 2


def test_a_worker_that_dies_once_costs_nothing(tmp_path: Path) -> None:
    """Its units run again, from the rounds that were committed; nothing is doubled."""
    once, log = tmp_path / "died", tmp_path / "log"
    guess = f", crash: [t3], once: {once}, log: {log}"
    config = load(tmp_path, guess=guess, executor="{use: process, workers: 2}", durable="round")
    done = run(config, out=tmp_path / "run")
    assert once.exists()
    made = [line.split()[2] for line in log.read_text().splitlines() if line.split()[1] == "t3"]
    assert (made.count("0"), made.count("1")) == (1, 2)
    assert (done.ran, done.failed) == (12, 0)
    run(load(tmp_path, executor="{use: serial}"), out=tmp_path / "calm")
    assert results(tmp_path / "run") == results(tmp_path / "calm")


@pytest.mark.exhaustive  # with one worker in test_watched.py, with any number of workers in test_crew.py
def test_a_task_whose_worker_dies_again_is_recorded_as_failed(tmp_path: Path) -> None:
    """Only that one: whoever shared the pool with it comes to its right end."""
    config = load(tmp_path, guess=", crash: [t1, t4]", executor="{use: process, workers: 2}")
    done = run(config, out=tmp_path / "run")
    found = results(tmp_path / "run")
    assert done.failed == 2
    assert len(found) == 12
    failed = {key for key, record in found.items() if record.outcome.status == "failed"}
    assert failed == {("spec", "t1"), ("spec", "t4")}
    failure = found["spec", "t1"].outcome.failure
    assert failure is not None
    assert failure.error == "WorkerDied"


@pytest.mark.exhaustive  # ten processes begin for it; test_crew.py has the rule itself
def test_workers_that_cannot_work_stop_the_run(tmp_path: Path) -> None:
    """When worker after worker dies the run ends with an error, and can go on later."""
    config = load(
        tmp_path,
        count=8,
        guess=f", crash: [{', '.join(f't{i}' for i in range(8))}]",
        executor="{use: process, workers: 1}",
        more="",
    )
    # Only the drafting pipeline crashes; without the plain one nothing ever succeeds.
    spec = config.pipelines[1]
    alone = type(config)(**{**_fields(config), "pipelines": (spec,), "baseline": None})
    with pytest.raises(ResourceError, match="worker processes died one after the other"):
        run(alone, out=tmp_path / "run")


def _fields(struct: object) -> dict[str, object]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}  # type: ignore[attr-defined]


def test_an_error_of_a_worker_ends_the_run_under_its_own_name(tmp_path: Path) -> None:
    """A model that a worker cannot open is the same error that it would be here; no task is marked as failed."""
    config = load(tmp_path, verifier="Missing", executor="{use: process, workers: 1}")
    with pytest.raises(ResourceError, match="the weights are missing"):
        run(config, out=tmp_path / "run")
    assert results(tmp_path / "run") == {}


class Elsewhere:
    """Anybody's executor: any `concurrent.futures.Executor`, to which units travel as bytes."""

    local = False
    workers = 2

    def pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(2)


def remote(tmp_path: Path, on_round: OnRound | None = None) -> list[Done]:
    config = load(tmp_path, count=3)
    units = [
        lambda name=name, task=task: Unit(pipeline=name, task=task)
        for name in ("plain", "spec")
        for task in Builder().part(config.tasks).load()
    ]
    found: list[Done] = []
    with Crew(Elsewhere(), bench=None, spec=config.to_json(), on_round=on_round) as crew:
        crew.perform(units, found.extend)
    return found


@pytest.mark.parametrize(("executor", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_an_executor_whose_package_is_missing_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str, package: str
) -> None:
    """Which extra to install, and no traceback of the clearing up after it."""
    monkeypatch.setitem(sys.modules, package, None)
    said = f"executor '{executor}' needs {package}, which is not installed: .* extra '{executor}'"
    with pytest.raises(ResourceError, match=said):
        run(load(tmp_path, executor=f"{{use: {executor}}}"), out=tmp_path / "run")


def test_any_executor_will_do(tmp_path: Path) -> None:
    """What another executor brings back is what a serial run records."""
    found = {(done.pipeline, done.record.task): timeless(done.record) for done in remote(tmp_path)}
    run(load(tmp_path, count=3), out=tmp_path / "run")
    as_recorded = {key: decode(encode(record, ""), TaskRecord, "") for key, record in found.items()}
    assert as_recorded == results(tmp_path / "run")


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_a_pool_of_the_callers_own_gives_the_records_of_a_serial_run_and_stays_open(
    tmp_path: Path, kind: Callable[[int], Executor]
) -> None:
    """Threads of this process, and processes that build the parts themselves."""
    config = load(tmp_path, count=3)
    with kind(2) as executor:
        run(config, out=tmp_path / "own", executor=executor)
        assert executor.submit(max, 1, 2).result() == 2
    run(config, out=tmp_path / "run")
    assert results(tmp_path / "own") == results(tmp_path / "run")


def test_a_pool_of_the_callers_own_that_breaks_ends_the_run_in_words(tmp_path: Path) -> None:
    """Nobody but the caller can make another; with that one the run goes on, and no task was recorded as failed."""
    config = load(tmp_path, count=3, guess=f", crash: [t1], once: {tmp_path / 'once'}")
    with ProcessPoolExecutor(2) as executor, pytest.raises(ResourceError, match="its pool is broken"):
        run(config, out=tmp_path / "run", executor=executor)
    with ProcessPoolExecutor(2) as executor:
        assert run(config, out=tmp_path / "run", executor=executor).failed == 0
    assert len(results(tmp_path / "run")) == 6


def test_an_executor_that_cannot_carry_rounds_says_so(tmp_path: Path) -> None:
    """`durable: round` needs a way for rounds while their task runs."""
    with pytest.raises(ConfigError, match=r"Elsewhere cannot send rounds.*durable: task"):
        remote(tmp_path, on_round=lambda *_: None)


@pytest.mark.parametrize("executor", [Thread, Process, Batch])
def test_an_executor_without_workers_is_refused(executor: type) -> None:
    """Zero workers would wait for ever."""
    with pytest.raises(ConfigError, match="at least 1"):
        executor(0)
