"""Ray and Dask, real clusters of several processes: the records of a serial run, also when a node is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.executors.frames import Frame, bundled
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.cluster import ray as ray_executor
from draftverify.engine.events import Event
from draftverify.errors import ConfigError, ResourceError
from draftverify.values import TaskRecord
from tests.experiments.runs import load, only_spec, results, write


class Meddling:
    """A watcher that does something once so many units have ended.

    Args:
        after: so many.
        do: in a thread, since the run goes on meanwhile.
    """

    def __init__(self, after: int, do: Callable[[], Any]) -> None:
        self.after = after
        self.seen: list[tuple[str, str]] = []
        self.thread = threading.Thread(target=do)

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """Nothing yet."""

    def event(self, event: Event) -> None:
        """Never, for workers elsewhere."""

    def forecast(self, forecast: object) -> None:
        """Of no interest."""

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """Count it."""
        self.seen.append((pipeline, record.task))
        if len(self.seen) == self.after:
            self.thread.start()


def on_ray(cluster: Any, more: str = "actors: 2") -> str:
    """The executor's line in a config."""
    return f"{{use: ray, address: '{cluster.address}', {more}}}"


def on_dask(cluster: Any, more: str = "") -> str:
    """The executor's line in a config."""
    return f"{{use: dask, address: '{cluster.scheduler_address}'{more}}}"


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """As many entries as that method was called times."""
    calls: list[None] = []
    method = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], TaskRecord]:
    """The records of a serial run."""
    path = tmp_path_factory.mktemp("calm")
    run(load(path, count=20), out=path / "run")
    return results(path / "run")


def test_ray_gives_the_records_of_a_serial_run_and_carries_rounds(
    tmp_path: Path,
    ray_cluster: Any,
    calm: dict[tuple[str, str], TaskRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several units at once in each actor, each pipeline's actors where its resources are, each round as it is made;
    and short units travel together."""
    asked = counted(monkeypatch, ray_executor._Actor, "listen")
    log = tmp_path / "log"
    placed = (
        "actors: 1, batch: 3, resources: {node0: 0.5}, pipelines: {spec: {cpus: 0.5, resources: {node1: 1}}}"
    )
    config = load(
        tmp_path,
        count=20,
        verifier="Trial",
        check=f", log: {log}",
        executor=on_ray(ray_cluster, placed),
        durable="round",
    )
    done = run(config, out=tmp_path / "run")
    found = results(tmp_path / "run")
    assert (done.ran, done.failed, len(found)) == (40, 0, 40)
    assert len(asked) < 30
    assert {key: record.outcome for key, record in found.items()} == {
        key: record.outcome for key, record in calm.items()
    }
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len({process for process, *_ in lines}) == 2
    assert max(len(shared) for _, *shared in lines) == 3


@pytest.mark.parametrize("durable", ["task", pytest.param("round", marks=pytest.mark.exhaustive)])
def test_a_ray_node_that_is_killed_costs_no_task(
    tmp_path: Path,
    ray_cluster: Any,
    calm: dict[tuple[str, str], TaskRecord],
    durable: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What ran on it runs again elsewhere: nothing is lost, nothing twice."""
    doomed = ray_cluster.add_node(num_cpus=2, object_store_memory=80 << 20, resources={"doomed": 1})
    ray_cluster.wait_for_nodes()
    watcher = Meddling(5, lambda: ray_cluster.remove_node(doomed, allow_graceful=False))
    log = tmp_path / "log"
    config = load(
        tmp_path,
        count=20,
        seconds=0.08,
        guess=f", log: {log}",
        executor=on_ray(ray_cluster, "actors: 4"),
        durable=durable,
    )
    done = run(config, out=tmp_path / "run", watcher=watcher)
    watcher.thread.join()
    assert (done.ran, done.failed) == (40, 0)
    assert Counter(watcher.seen) == Counter(dict.fromkeys(calm, 1))
    assert results(tmp_path / "run") == calm
    assert "an actor was lost" in caplog.text  # there were some on it


@pytest.mark.exhaustive  # a part of a minute, for actors that begin anew; test_crew.py has the rule itself
def test_a_ray_actor_that_a_task_takes_along_costs_no_other_task(tmp_path: Path, ray_cluster: Any) -> None:
    """Ray kills the actor when memory runs out, and not the process below it, so nobody can tell whose doing it was:
    its units run again, each alone in an actor, and the one that does it again and again fails."""
    file = write(tmp_path, verifier="Trial", check=", fell: [t4]", executor=on_ray(ray_cluster, "actors: 1"))
    done = run(load_experiment(only_spec(file)), out=tmp_path / "run")
    failed = [record for record in results(tmp_path / "run").values() if record.outcome.status == "failed"]
    assert (done.ran, [record.task for record in failed]) == (6, ["t4"])
    assert "died while it ran this task, 4 times; Ray lost its actor" in str(failed[0].outcome.failure)


@pytest.mark.parametrize("where", ["process", pytest.param("ray", marks=pytest.mark.exhaustive)])
def test_a_task_that_takes_all_memory_costs_no_other_task(
    tmp_path: Path, where: str, small_memory: Path, request: pytest.FixtureRequest
) -> None:
    """The kernel kills its process, twice; it is recorded as failed, with the reason."""
    executor = "{use: process, workers: 1}"
    if where == "ray":
        executor = on_ray(request.getfixturevalue("ray_cluster"), "actors: 1")
    file = write(tmp_path, verifier="Trial", check=f", hog: [t4], group: {small_memory}", executor=executor)
    run(load_experiment(only_spec(file)), out=tmp_path / "run")
    found = results(tmp_path / "run")
    failed = {task: record.outcome.failure for (_, task), record in found.items() if record.outcome.failure}
    assert (len(found), list(failed)) == (6, ["t4"])
    assert "twice; the worker process was ended by SIGKILL (the machine may be out of memory)" in str(
        failed["t4"]
    )


@pytest.mark.parametrize(
    "amount",
    [{"cpus": -1.0}, {"gpus": float("inf")}, {"memory": float("nan")}, {"resources": {"disk": -1.0}}],
)
def test_a_program_s_actors_need_amounts_too(amount: dict[str, Any]) -> None:
    """What a config's schema refuses, a constructor refuses."""
    with pytest.raises(ConfigError, match="at least 0 is needed"):
        ray_executor.Ray(**amount)


def test_a_lost_actor_is_ended_and_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is only out of reach lives on, and what it says of its units comes after their next try has begun: a
    round of it is not recorded."""
    killed: list[str] = []
    monkeypatch.setattr(ray_executor, "_ray", lambda: SimpleNamespace(kill=killed.append))
    monkeypatch.setattr(ray_executor, "_loss", lambda error: b"lost")
    sent: list[bytes] = []
    heard: Future[bytes] = Future()
    heard.set_result(bundled([Frame(b"d", 0, b"a round"), Frame(b"r", 0, b"a reply")]))
    take = SimpleNamespace(remote=lambda: SimpleNamespace(future=Future))
    handle = SimpleNamespace(take=take, ready=take)
    actors = SimpleNamespace(
        create=lambda placement: handle, on_sent=sent.append, post=lambda work: None, closing=False
    )
    group = ray_executor._Group(actors, "", ray_executor.Placement())  # type: ignore[arg-type]
    group.begin(1)
    (actor,) = group.living
    actor.handle = "the first"
    made = actor.perform(b"a unit", solo=False)
    group.lost(actor, OSError("out of reach"))
    actor._took(heard)
    assert (made.result(), sent, killed) == (b"lost", [], ["the first"])


def test_a_ray_cluster_without_room_ends_the_run_in_words(
    tmp_path: Path, ray_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naming what each actor needs, and what there is."""
    monkeypatch.setattr(ray_executor, "PATIENCE", 0.5)
    config = load(tmp_path, executor=on_ray(ray_cluster, "actors: 1, cpus: 0.5, gpus: 0.25"))
    with pytest.raises(
        ResourceError, match=r"no room for 0.5 s: each needs cpus 0.5, gpus 0.25.*a node of CPU 1"
    ):
        run(config, out=tmp_path / "run")


def test_a_placement_of_no_pipeline_is_an_error(tmp_path: Path, ray_cluster: Any) -> None:
    """With the nearest name."""
    config = load(tmp_path, executor=on_ray(ray_cluster, "pipelines: {spek: {gpus: 1}}"))
    with pytest.raises(ConfigError, match="there is no pipeline 'spek'; did you mean spec"):
        run(config, out=tmp_path / "run")


def test_a_resource_that_ray_refuses_is_an_error(tmp_path: Path, ray_cluster: Any) -> None:
    """In Ray's words, with the place."""
    config = load(tmp_path, executor=on_ray(ray_cluster, "actors: 1, resources: {CPU: 1}"))
    with pytest.raises(ConfigError, match="executor: Use the 'num_cpus'"):
        run(config, out=tmp_path / "run")


@pytest.mark.parametrize("address", ["foo://bar:1", "bar", "tcp://bar:1x"])
def test_an_address_that_is_none_is_an_error(tmp_path: Path, address: str) -> None:
    """Of Dask's scheduler: with the address, no defect of this library; no client is left that nobody closes."""
    threads = set(threading.enumerate())
    config = load(tmp_path, executor=f"{{use: dask, address: '{address}'}}")
    with pytest.raises(ResourceError, match=f"no Dask at {address}"):
        run(config, out=tmp_path / "run")
    assert set(threading.enumerate()) <= threads


def test_an_error_of_a_part_ends_the_run_under_its_own_name(tmp_path: Path, ray_cluster: Any) -> None:
    """A model that an actor cannot open; it says on which machine."""
    with pytest.raises(ResourceError, match=r"the weights are missing \(in a worker on "):
        run(load(tmp_path, verifier="Missing", executor=on_ray(ray_cluster)), out=tmp_path / "run")


def test_dask_gives_the_records_of_a_serial_run(
    tmp_path: Path, dask_cluster: Any, calm: dict[tuple[str, str], TaskRecord]
) -> None:
    """Also when one of its workers is killed on the way: nothing is lost, nothing twice."""
    log = tmp_path / "log"
    config = load(tmp_path, count=20, seconds=0.01, guess=f", log: {log}", executor=on_dask(dask_cluster))
    workers = [nanny.pid for nanny in dask_cluster.workers.values()]
    watcher = Meddling(5, lambda: os.kill(workers[0], signal.SIGKILL))
    done = run(config, out=tmp_path / "run", watcher=watcher)
    watcher.thread.join()
    assert (done.ran, done.failed) == (40, 0)
    assert Counter(watcher.seen) == Counter(dict.fromkeys(calm, 1))
    assert results(tmp_path / "run") == calm
    assert len({line.split()[0] for line in log.read_text().splitlines()}) >= 2


def test_dask_cannot_carry_rounds_and_says_so(tmp_path: Path, dask_cluster: Any) -> None:
    """Before any task."""
    with pytest.raises(ConfigError, match=r"Dask cannot send rounds.*durable: task"):
        run(load(tmp_path, executor=on_dask(dask_cluster), durable="round"), out=tmp_path / "run")


def test_short_units_travel_together_and_nothing_is_left_of_a_run(
    tmp_path: Path, dask_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes beside the workers of a cluster that lives on have ended with the run."""
    sent = counted(monkeypatch, pytest.importorskip("distributed").Client, "submit")
    log = tmp_path / "log"
    run(load(tmp_path, count=20, guess=f", log: {log}", executor=on_dask(dask_cluster)), out=tmp_path / "run")
    used = {int(line.split()[0]) for line in log.read_text().splitlines()}
    assert used
    assert not [pid for pid in used if Path(f"/proc/{pid}").exists()]
    assert len(sent) < 30


@pytest.mark.exhaustive
@pytest.mark.parametrize("executor", ["{use: ray}", "{use: dask}"])
def test_a_cluster_of_the_run_s_own(tmp_path: Path, executor: str) -> None:
    """Without an address; it is gone with the run."""
    done = run(load(tmp_path, executor=executor), out=tmp_path / "run")
    assert (done.ran, done.failed) == (12, 0)
    with load_run(tmp_path / "run") as records:
        assert json.loads(json.dumps(records.config))["executor"] == {"use": executor[6:-1]}
    names = [Path(each, "cmdline").read_bytes() for each in Path("/proc").iterdir() if each.name.isdigit()]
    assert not [name for name in names if b"raylet" in name and b"127.0.0.1" in name]
