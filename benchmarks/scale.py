"""What it costs to have tasks performed elsewhere, and that nothing is lost there: processes, Ray and Dask.

    python -m benchmarks.scale [--out benchmarks/results/scale.json] [--rehearse]

Four parts, on two cores (`taskset -c 0,1` where there are more); about eight minutes, `--rehearse` about one:

- lost: so many tasks of a verifier that computes for 20 ms through a Ray cluster of three nodes on this machine, of
  which one is killed when a third of them has ended. Every task must have one record, be reported once, and be
  accepted, and the node must have had work: some tasks were performed again. Else the benchmark ends with an error.
- cores: tasks of such a verifier. Executors with two workers against `serial`, interleaved; of each run the seconds
  from the first task's end to the last's. Given is the gain with a 95 % interval over the repeats.
- driver: processor time of the driver's process for each task, from the first task's end to the last's, under each
  executor: all of its threads, Ray's and Dask's too. The Dask scheduler is another process, as on a cluster. Of the
  runs of the part before (where under `serial` the verifier computes in the driver's process, and nothing is given),
  and of tasks of a part that returns a constant.
- whole: 2,000 tasks of 10 ms, from the call of `run` until it returns, start and end of the executors' own processes
  and clusters on this machine included, beside `serial`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run

STORE = 100 << 20
"""Bytes of each Ray node's object store."""

PARTS = """
import hashlib, os
from draftverify import GeneratorTraits, PASS, Proposal, Task, Verification

class Numbered:
    def __init__(self, count: int, limit: int | None = None) -> None:
        self.count = count

    def load(self) -> list[Task]:
        return [Task(id=f"t{i}", input={"n": i}) for i in range(self.count)]

class Constant:
    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context, n):
        return Proposal.alternatives(("constant",))

class Computing:
    def __init__(self, hashes: int = 0, log: str | None = None) -> None:
        self.hashes = hashes
        self.log = log

    def verify(self, context, proposal):
        if self.log:
            with open(self.log, "a") as log:
                log.write(f"{os.getpid()} {context.task.id}\\n")
        digest = b""
        for _ in range(self.hashes):
            digest = hashlib.sha256(digest).digest()
        return Verification(checks=(PASS,))
"""

CONFIG = """
name: scale
parts: [./computing.py]
tasks: {{use: computing.Numbered, count: {count}}}
pipelines:
  one:
    generator: {{use: computing.Constant}}
    verifier: {{use: computing.Computing, hashes: {hashes}{log}}}
    rule: {{use: first}}
executor: {executor}
"""


class Stamps:
    """A watcher that notes the end of every task: when, and what processor time the driver had used.

    Args:
        after: call `do` in a thread once so many have ended.
    """

    def __init__(self, after: int | None = None, do: Callable[[], Any] = lambda: None) -> None:
        self.after = after
        self.thread = threading.Thread(target=do)
        self.names: list[str] = []
        self.first = self.last = (0.0, 0.0)

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """Nothing yet."""

    def event(self, event: Any) -> None:
        """Of no interest."""

    def forecast(self, forecast: Any) -> None:
        """Of no interest."""

    def done(self, pipeline: str, record: Any) -> None:
        """Note it."""
        self.names.append(record.task)
        used = resource.getrusage(resource.RUSAGE_SELF)
        self.last = perf_counter(), used.ru_utime + used.ru_stime
        if len(self.names) == 1:
            self.first = self.last
        if len(self.names) == self.after:
            self.thread.start()

    @property
    def seconds(self) -> float:
        """Of the clock, for each task after the first."""
        return (self.last[0] - self.first[0]) / (len(self.names) - 1)

    @property
    def processor_seconds(self) -> float:
        """Of the driver, likewise."""
        return (self.last[1] - self.first[1]) / (len(self.names) - 1)


def perform(
    folder: Path, executor: str, count: int, hashes: int = 0, log: str = "", **watching: Any
) -> Stamps:
    """Run so many tasks into folder/run."""
    (folder / "computing.py").write_text(PARTS)
    given = f", log: {log}" if log else ""
    text = CONFIG.format(count=count, hashes=hashes, log=given, executor=executor)
    (folder / "scale.yaml").write_text(text)
    stamps = Stamps(**watching)
    run(load_experiment(folder / "scale.yaml"), out=folder / "run", fresh=True, watcher=stamps)
    return stamps


@contextmanager
def ray_cluster(*cores: int) -> Iterator[Any]:
    """A Ray cluster of a head without cores and nodes of so many."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for each in cores:
            cluster.add_node(num_cpus=each, object_store_memory=STORE)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


DASK = """
import distributed, sys
if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50,
                                  scheduler_kwargs={"dashboard_address": "127.0.0.1:0"}) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def dask_cluster(folder: Path) -> Iterator[str]:
    """The address of a Dask cluster of two workers, whose scheduler is another process."""
    script = folder / "dask_cluster.py"
    script.write_text(DASK)
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        try:
            yield cluster.stdout.readline().strip()
        finally:
            cluster.stdin.close()


def lost(folder: Path, tasks: int, hashes: int) -> dict[str, Any]:
    """Kill a node on the way, and count.

    Raises:
        SystemExit: a task was lost or came twice, or the node had no work.
    """
    log = folder / "performed"
    with ray_cluster(1, 1, 1) as cluster:
        doomed = cluster.worker_nodes and sorted(cluster.worker_nodes, key=lambda node: node.unique_id)[-1]
        start = perf_counter()
        stamps = perform(
            folder,
            f"{{use: ray, address: '{cluster.address}', actors: 3}}",
            tasks,
            hashes,
            log=str(log),
            after=tasks // 3,
            do=lambda: cluster.remove_node(doomed, allow_graceful=False),
        )
        seconds = perf_counter() - start
        stamps.thread.join()
    lines = [line.split() for line in log.read_text().splitlines()]
    with load_run(folder / "run") as found:
        statuses = Counter(record.outcome.status for record in found)
        recorded = Counter(record.task for record in found)
    names = {f"t{i}" for i in range(tasks)}
    figures = {
        "tasks": tasks,
        "killed_after": tasks // 3,
        "statuses": statuses,
        "without_a_record": len(names - set(recorded)),
        "recorded_twice": sum(count > 1 for count in recorded.values()),
        "reported_twice": sum(count > 1 for count in Counter(stamps.names).values()),
        "performed_again": len(lines) - tasks,
        "processes": len({process for process, _ in lines}),
        "seconds": seconds,
        "driver_milliseconds_a_task": 1000 * stamps.processor_seconds,
    }
    bad = sum(figures[each] for each in ("without_a_record", "recorded_twice", "reported_twice"))
    if bad or statuses != {"accepted": tasks} or figures["performed_again"] < 1:
        raise SystemExit(f"a task was lost or came twice, or the node that was killed had no work: {figures}")
    return figures


def shared(folder: Path, computing: int, constant: int, repeats: int, hashes: int) -> dict[str, Any]:
    """The parts `cores` and `driver`: runs on clusters that are there already."""
    driver: dict[str, dict[str, list[float]]] = {"computing": {}, "constant": {}}
    seconds: dict[str, list[float]] = {}
    with ray_cluster(2) as cluster, dask_cluster(folder) as dask:
        executors = {
            "serial": "{use: serial}",
            "process": "{use: process, workers: 2}",
            "ray": f"{{use: ray, address: '{cluster.address}', actors: 2}}",
            "dask": f"{{use: dask, address: '{dask}'}}",
        }
        for name, executor in in_turn(executors, repeats):
            stamps = perform(folder, executor, computing, hashes)
            seconds.setdefault(name, []).append(stamps.seconds)
            if name != "serial":
                driver["computing"].setdefault(name, []).append(1000 * stamps.processor_seconds)
            stamps = perform(folder, executor, constant)
            driver["constant"].setdefault(name, []).append(1000 * stamps.processor_seconds)
    return {
        "driver_milliseconds_a_task": {
            part: {name: interval(values) for name, values in taken.items()} for part, taken in driver.items()
        },
        "cores": {
            "verifier": f"{hashes} hashes, 20 ms alone on this machine",
            "tasks": computing,
            "seconds_a_task": seconds,
            "gain_over_serial": gains(seconds),
        },
    }


def whole(folder: Path, tasks: int, repeats: int, hashes: int) -> dict[str, Any]:
    """Runs from the call until it returns, each with processes or a cluster of its own."""
    executors = {
        "serial": "{use: serial}",
        "process": "{use: process, workers: 2}",
        "ray": "{use: ray, actors: 2}",
        "dask": "{use: dask, workers: 2}",
    }
    seconds: dict[str, list[float]] = {}
    for name, executor in in_turn(executors, repeats):
        start = perf_counter()
        perform(folder, executor, tasks, hashes)
        seconds.setdefault(name, []).append(perf_counter() - start)
    return {
        "verifier": f"{hashes} hashes, 10 ms alone on this machine",
        "tasks": tasks,
        "seconds": seconds,
        "gain_over_serial": gains(seconds),
    }


def in_turn(executors: Mapping[str, str], repeats: int) -> Iterator[tuple[str, str]]:
    """Each executor so many times, forth and back."""
    for repeat in range(repeats):
        yield from list(executors.items())[:: 1 if repeat % 2 == 0 else -1]


def gains(seconds: Mapping[str, list[float]]) -> dict[str, Any]:
    """How many times as fast as `serial` each executor was, turn by turn."""
    return {
        name: interval([one / other for one, other in zip(seconds["serial"], values, strict=True)])
        for name, values in seconds.items()
        if name != "serial"
    }


def hashes_of(seconds: float) -> int:
    """How many hashes take so long here."""
    import hashlib

    best = math.inf
    for _ in range(5):
        digest, start = b"", perf_counter()
        for _ in range(20_000):
            digest = hashlib.sha256(digest).digest()
        best = min(best, perf_counter() - start)
    return round(20_000 * seconds / best)


def interval(values: list[float]) -> dict[str, Any]:
    """The mean with its 95 % interval (Student's t)."""
    from scipy.stats import t

    mean = statistics.mean(values)
    if len(values) < 2:
        return {"mean": mean, "each": values}
    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half, "each": values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=10_000, help="of the run that loses a node")
    parser.add_argument("--constant", type=int, default=2000, help="tasks of each run of a constant part")
    parser.add_argument("--computing", type=int, default=400, help="tasks of each run of the cores' part")
    parser.add_argument("--whole", type=int, default=2000, help="tasks of each run with its start")
    parser.add_argument("--repeats", type=int, default=6, help="half as many of the runs with their start")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/scale.json"))
    parser.add_argument("--rehearse", action="store_true", help="little of everything, and write nothing")
    options = parser.parse_args()
    if options.rehearse:
        options.tasks, options.constant, options.computing, options.whole = 300, 300, 100, 300
        options.repeats = 1
    hashes = hashes_of(0.02)
    start = perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures: dict[str, Any] = {
            "lost": lost(folder, options.tasks, hashes),
            **shared(folder, options.computing, options.constant, options.repeats, hashes),
            "whole": whole(folder, options.whole, max(1, options.repeats // 2), hashes // 2),
        }
    figures["seconds"] = perf_counter() - start
    if not options.rehearse:
        write(options.out, "benchmarks.scale", figures)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
