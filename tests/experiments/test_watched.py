"""Workers that are watched: what hangs or dies costs its own task, passes are shared, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.executors.frames import Begin
from draftverify.bench.executors.messages import read_reply
from draftverify.bench.executors.watched import WatchedProcess
from draftverify.bench.records.encoding import encode
from draftverify.bench.runner.bench import Unit
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError
from draftverify.plugins import PartsFile
from draftverify.values import Task
from tests.experiments.runs import load, only_spec, results, write


def passes(log: Path) -> list[list[str]]:
    """The tasks that shared each pass."""
    return [line.split()[1:] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("batch", [1, 3])
def test_what_hangs_or_dies_costs_its_own_task(tmp_path: Path, batch: int) -> None:
    """A call that lets no other thread run ends by the deadline; the failures say which it was; nothing lives on."""
    log, children = tmp_path / "log", tmp_path / "children"
    file = write(
        tmp_path,
        verifier="Trial",
        check=f", hang: [t1], die: [t4], log: {log}, children: {children}",
        executor=f"{{use: process, workers: 1, batch: {batch}, deadline: 0.5}}",
    )
    done = run(load_experiment(only_spec(file)), out=tmp_path / "run")
    found = results(tmp_path / "run")
    failed = {key: record.outcome.failure for key, record in found.items() if record.outcome.failure}
    assert {(task, failure.kind, failure.error) for (_, task), failure in failed.items()} == {
        ("t1", "timeout", "DeadlineExceeded"),
        ("t4", "error", "WorkerDied"),
    }
    assert (done.ran, done.failed, len(found)) == (6, 2, 6)
    dead = next(failure for failure in failed.values() if failure.error == "WorkerDied")
    assert "twice; the worker process was ended by SIGKILL (the machine may be out of memory)" in dead.message
    if batch == 1:  # alone in its process it hangs once, dies twice, and takes nobody along
        tries = Counter(task for shared in passes(log) for task in shared)
        assert (tries["t1"], tries["t4"]) == (1, 2)
    orphans = [int(number) for number in children.read_text().split()]
    assert len(orphans) == 2  # whatever a worker began ends with it
    try:
        assert gone(orphans)
    finally:
        for orphan in filter(alive, orphans):
            os.kill(orphan, signal.SIGKILL)


def test_units_share_passes_in_a_worker(tmp_path: Path) -> None:
    """As many as the batch says, the next one joins when one has ended, and the records are the same."""
    log = tmp_path / "log"
    count = 8
    run(
        load(
            tmp_path,
            count=count,
            verifier="Trial",
            check=f", log: {log}",
            executor="{use: process, workers: 1, batch: 4}",
        ),
        out=tmp_path / "run",
    )
    sizes = [len(shared) for shared in passes(log)]
    assert max(sizes) == 4
    run(load(tmp_path, count=count, verifier="Trial"), out=tmp_path / "calm")
    calm = results(tmp_path / "calm")
    alone = sum(record.outcome.rounds for record in calm.values())
    assert sum(sizes) == alone
    assert len(sizes) < alone / 2
    assert {key: record.outcome for key, record in results(tmp_path / "run").items()} == {
        key: record.outcome for key, record in calm.items()
    }


def test_a_worker_ends_with_its_driver_even_when_it_hangs(tmp_path: Path) -> None:
    """The driver is killed, and the worker is in a call that lets no other thread of it run."""
    log = tmp_path / "log"
    file = write(
        tmp_path,
        verifier="Trial",
        check=f", hang: [t0], log: {log}",
        executor="{use: process, workers: 1}",
    )
    command = [sys.executable, "-m", "draftverify", "run", str(file), "--out", str(tmp_path / "run")]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if log.exists() and passes(log):
            break
        time.sleep(0.05)
    worker = int(log.read_text().split()[0])
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert gone([worker])


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def gone(numbers: list[int]) -> bool:
    """Whether these processes have ended, in ten seconds at most."""
    for _ in range(200):
        if not any(alive(number) for number in numbers):
            return True
        time.sleep(0.05)
    return False


def begin(tmp_path: Path, **changes: object) -> tuple[Begin, bytes]:
    """What a worker is told first, and a unit for it."""
    config = load(tmp_path, **changes)
    task = Builder().part(config.tasks).load()[0]
    unit = encode(Unit(pipeline="plain", task=task), "a unit").encode()
    return Begin(config.to_json(), parts=config.parts()), unit


def ended(first: Begin, unit: bytes, **options: float) -> str:
    """What ends the run, as a worker says it; or the status of the unit."""
    watched = WatchedProcess(first, **options)
    reply = read_reply(watched.perform(unit, solo=False).result(timeout=60))
    watched.close()
    return str(reply.error) if reply.error is not None else reply.done.record.outcome.status  # type: ignore[union-attr]


def test_a_worker_elsewhere_wants_the_same_files(tmp_path: Path) -> None:
    """A parts file that is absent there, or another one, is an error that names it; and so is a package."""
    first, unit = begin(tmp_path)
    assert ended(first, unit) == "accepted"
    other = {**first.parts, "rule longest_prefix": {"package": "draftverify", "version": "0", "sha256": ""}}
    said = ended(msgspec.structs.replace(first, parts=other), unit)
    assert said.startswith("ConfigError: rule longest_prefix: not as on the driver's machine")
    parts = tmp_path / "run_parts.py"
    parts.write_bytes((Path(__file__).parent / "run_parts.py").read_bytes())
    first, unit = begin(tmp_path, parts=parts)
    parts.write_text(parts.read_text() + "\n# changed\n")
    assert f"{parts} has changed since the config was read" in ended(first, unit)
    parts.unlink()
    said = ended(first, unit)
    assert "the parts file cannot be read: No such file or directory" in said
    assert "in a worker on" in said
    with pytest.raises(ConfigError, match="cannot be read"):
        PartsFile.read(parts)


def test_a_worker_that_has_nothing_to_do_is_let_go(tmp_path: Path) -> None:
    """After so many seconds its process ends; another one takes the next unit."""
    log = tmp_path / "log"
    first, unit = begin(tmp_path, verifier="Trial", check=f", log: {log}")
    watched = WatchedProcess(first, idle=0.2)
    watched.perform(unit, solo=False).result(timeout=60)
    (one,) = {line.split()[0] for line in log.read_text().splitlines()}
    assert gone([int(one)])
    watched.perform(unit, solo=False).result(timeout=60)
    assert {line.split()[0] for line in log.read_text().splitlines()} > {one}
    watched.close()


def test_a_unit_is_not_begun_beside_one_that_is_to_be_alone(tmp_path: Path) -> None:
    """Neither before nor after it, however many may be under way."""
    log = tmp_path / "log"
    first, _ = begin(tmp_path, verifier="Trial", check=f", log: {log}")
    watched = WatchedProcess(msgspec.structs.replace(first, size=4))
    made = [
        watched.perform(
            encode(Unit(pipeline="plain", task=Task(id=name)), "a unit").encode(), solo=name == "alone"
        )
        for name in ("a", "b", "alone", "c", "d")
    ]
    for each in made:
        assert read_reply(each.result(timeout=60)).done is not None
    watched.close()
    shared = passes(log)
    assert {tuple(each) for each in shared if "alone" in each} == {("alone",)}
    assert ["c", "d"] in shared
