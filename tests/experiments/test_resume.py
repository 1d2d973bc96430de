"""kill -9 at random moments: what was committed stays, what was not runs again, nothing commits twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run
from tests.experiments.runs import load, only_spec, results, write

ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from draftverify.bench.cli.main import main; sys.exit(main())"
EXECUTORS = {"serial": "{use: serial}", "process": "{use: process, workers: 2}"}


def start(config: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """The run command as a process of its own, which Ctrl-C reaches even where these tests run in the background."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", str(config), "--out", str(out), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def lines(log: Path, since: int) -> list[tuple[int, str]]:
    """(process, task) of the calls logged after so many bytes."""
    if not log.exists():
        return []
    text = log.read_bytes()[since:].decode()
    return [(int(line.split()[0]), line.split()[1]) for line in text.splitlines() if line.count(" ") == 3]


def committed(out: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """What stands in the database, word for word, with the time at which it was committed."""
    if not (out / "records.db").exists():
        return {}
    connection = sqlite3.connect(out / "records.db")
    try:
        rows = connection.execute(
            "SELECT pipeline, task, outcome, committed FROM draftverify_records"
        ).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return {}  # killed before the tables were made
    finally:
        connection.close()
    assert len(rows) == len({row[:2] for row in rows})
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


def wait_until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether something comes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kills", "tasks"), [(2, 50), pytest.param(50, 1000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_kills_change_nothing(tmp_path: Path, executor: str, kills: int, tasks: int) -> None:
    """A run that is killed again and again, in most cases with tasks in flight, ends in an unkilled run's records.

    After every kill: what was committed before stands word for word, nothing of it ran again, and no worker is left.
    """
    rng = random.Random(f"kill -9, {executor}")
    log = tmp_path / "log"
    out = tmp_path / "run"
    changes = {"count": tasks, "check": f", broken: [t7, t{tasks // 2}]"}
    seconds = 0.005 if executor == "serial" else 0.004
    config = write(tmp_path, seconds=seconds, guess=f", log: {log}", executor=EXECUTORS[executor], **changes)
    only_spec(config)
    before = committed(out)
    in_flight = 0
    for kill in range(kills):
        since = log.stat().st_size if log.exists() else 0
        process = start(config, out, "--set", f"durable={rng.choice(['task', 'round'])}")
        if kill % 8 == 0:
            time.sleep(rng.uniform(0.0, 0.6))  # while it starts, or makes the directory
        else:
            assert wait_until(lambda since=since: bool(lines(log, since)), 30), "the run does not start"
            time.sleep(rng.uniform(0.0, 0.25))
            wait_until(lambda since=since: ("spec", lines(log, since)[-1][1]) not in committed(out), 1)
        assert process.poll() is None, "the run ended before it could be killed"
        process.kill()
        process.wait()
        ran = lines(log, since)
        assert wait_until(lambda ran=ran: not any(is_running(pid) for pid, _ in ran), 5), (
            "a worker outlived its parent"
        )
        after = committed(out)
        assert {key: after.get(key) for key in before} == before
        assert not {("spec", task) for _, task in ran} & set(before), "what was committed ran again"
        in_flight += any(("spec", task) not in after for _, task in ran)
        before = after
    assert in_flight >= kills // 2  # the first of eight comes while it starts
    assert 0 < len(before) < tasks
    assert run(load_experiment(config), out=out).failed == 2
    reference = tmp_path / "reference"
    reference.mkdir()
    unkilled = load_experiment(only_spec(write(reference, **changes)))
    run(unkilled, out=reference / "run")
    assert results(out) == results(reference / "run")


@pytest.mark.parametrize("executor", [*EXECUTORS, "thread"])
def test_ctrl_c_leaves_a_run_that_can_go_on(tmp_path: Path, executor: str) -> None:
    """Exit code 130, one line that says so, no traceback, no worker left; the same command ends the run."""
    log = tmp_path / "log"
    kind = EXECUTORS.get(executor, "{use: thread, workers: 3}")
    config = write(tmp_path, count=16, seconds=0.01, guess=f", log: {log}", executor=kind)
    process = start(config, tmp_path / "run")
    assert wait_until(lambda: len(lines(log, 0)) > 10, 30)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"the same command goes on from it" in error
    assert b"Traceback" not in error
    assert not any(is_running(pid) for pid, _ in lines(log, 0))
    assert 0 < len(committed(tmp_path / "run")) < 32
    assert run(load_experiment(config), out=tmp_path / "run").failed == 0
    assert len(committed(tmp_path / "run")) == 32


def test_a_killed_start_can_be_repeated(tmp_path: Path) -> None:
    """A process killed while it makes the directory leaves something that the same command can use."""
    from draftverify.bench.records import RunDirectory

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json.part").write_text('{"run": "ab')
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "run" / "lock").touch()
    done = run(load(tmp_path), out=tmp_path / "run")
    assert done.ran == 12
    assert os.path.exists(tmp_path / "run" / "report.html")
    with RunDirectory(tmp_path / "run", name="x", config={}, config_hash="y", fresh=True) as again:
        assert not again.resumed
