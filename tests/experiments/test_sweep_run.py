"""Runs with a matrix: their own baselines and tasks, dry run and estimate, tasks that failed made again, kill -9."""

from __future__ import annotations

import json
import math
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.cli.progress import forecast_line
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.records.listing import list_runs
from draftverify.bench.runner import forecast
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import estimate, plan, run
from draftverify.bench.runner.workload import workload
from draftverify.bench.tables.compare import compare
from draftverify.bench.tables.task_rows import task_list
from draftverify.errors import ConfigError, StoreError
from draftverify.stats import Estimate
from draftverify.values import Outcome, TaskRecord
from draftverify.view.overview import changes, overview
from draftverify.view.task_detail import task_detail
from tests.experiments.sweeps import BASE, load, write

ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from draftverify.bench.cli.main import main; sys.exit(main())"
SEEDS = {"grid": {"seed": [1, 2], "pipelines.one.block": [2, 4]}}


def attempts(out: Path) -> dict[tuple[str, str], list[str]]:
    """How every attempt ended, by (pipeline, task)."""
    found: dict[tuple[str, str], list[str]] = {}
    with load_run(out) as records:
        for entry in records.store.entries(every_attempt=True):
            ended = found.setdefault((entry.pipeline, entry.record.task), [])
            assert entry.record.attempt == len(ended)
            ended.append(entry.record.outcome.status)
    return found


def test_each_cell_has_its_own_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In summary, tables, predictions and what `show` says of an unfinished run; the baselines are marked as such."""
    file = write(tmp_path, SEEDS, predict={"limit": 1})
    out = tmp_path / "run"
    estimate(load_experiment(file), out=out)
    assert main(["show", str(out)]) == 0
    assert capsys.readouterr().out.count("baseline") >= 2
    with load_run(out) as records:  # the page too, before the run has come to its end
        told = {each["name"]: each["identical"] for each in overview(records)["pipelines"]}
    assert {name for name, same in told.items() if same is None} == {"plain@seed=1", "plain@seed=2"}
    found = run(load_experiment(file), out=out).summary
    names = [each.name for each in found.pipelines]
    assert names == [
        *("plain@seed=1", "plain@seed=2"),
        *(f"one@seed={seed},block={block}" for seed in (1, 2) for block in (2, 4)),
        *("two@seed=1", "two@seed=2"),
    ]
    with load_run(out) as records:
        predicted = {each.pipeline for each in records.predictions}
        assert records.names == names
        assert set(records.config["cells"]) == set(names)
        assert records.config["baselines"]["one@seed=2,block=4"] == "plain@seed=2"
    assert predicted == {name for name in names if not name.startswith("plain")}
    for each in found.pipelines:
        base = found.compared_with(each.name)
        assert (each.identical is None) is (base is None) is each.name.startswith("plain")
        if base is not None and each.identical is not None:
            assert base == f"plain@{each.name.partition('@')[2].partition(',')[0]}"
            assert (
                each.identical.same == each.identical.of == 4
            )  # what the tasks' own seed drafts is no matter


def test_cells_have_tasks_of_their_own(tmp_path: Path) -> None:
    """The run has all of them, and each pipeline its own; one id stands for one task."""
    out = tmp_path / "run"
    found = load(tmp_path, {"grid": {"tasks.count": [4, 6]}, "cells": {"a": {"pipelines.one.block": 1}}})
    done = run(found, out=out)
    assert done.ran == 3 * (4 + 6)
    assert done.summary.tasks == 6
    counts = Counter(pipeline for pipeline, _ in attempts(out))
    assert counts == {name: 4 if "count=4" in name else 6 for name in found.names}
    assert run(found, out=out).ran == 0
    with pytest.raises(ConfigError, match="different tasks of the id 't"):
        workload(load(tmp_path, {"grid": {"tasks.groups": [2, 3]}}), Builder())


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("predicting", [None, 1, 2, 3])
def test_a_limit_counts_in_each_group(tmp_path: Path, limit: int, predicting: int | None) -> None:
    """At most so many are measured, and as many predict beside them; whatever the source's own limit let through."""
    more = {} if predicting is None else {"predict": {"limit": predicting}}
    tasks = {"use": "run_parts.Numbered", "count": 40, "groups": 3, "limit": 36}
    file = write(tmp_path, tasks=tasks, **more)
    load = workload(load_experiment(file, limit=limit), Builder())
    first = Counter(task.group for task in load.predicting)
    measured = Counter(task.group for task in load.measured)
    assert first == Counter({f"g{i}": min(predicting, limit) for i in range(3)} if predicting else {})
    assert measured == Counter({f"g{i}": limit for i in range(3)})
    assert [task.id for task in load.predicting] == [f"t{i}" for i in range(len(load.predicting))]


def test_a_dry_run_says_what_a_run_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cells and their changes, tasks of each group, what is done; nothing is opened, run or written."""
    file = write(tmp_path, SEEDS, limit=2, predict={"limit": 1})
    out = tmp_path / "run"
    assert main(["run", str(file), "--out", str(out), "--dry-run"]) == 0
    said = capsys.readouterr().out
    for line in (
        "swept: 8 pipelines",
        "  one@seed=2,block=4: 6 tasks; against plain@seed=2",
        "      pipelines.one.block = 4",
        "predict: 2 tasks (g0 1, g1 1)",
        "measure: 4 tasks (g0 2, g1 2)",
        f"48 runs of tasks in all; in {out} none are done, 48 to do",
    ):
        assert line in said.splitlines()
    assert not out.exists()
    estimate(load_experiment(file), out=out)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".json"}
    assert main(["run", str(file), "--out", str(out), "--dry-run"]) == 0
    assert "done, 0 to do" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".json"} == before


def test_a_dry_run_has_the_errors_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another config in the directory, a foreign directory, parts that do not fit, tasks that cannot be read."""
    out = tmp_path / "run"
    file = write(tmp_path)
    estimate(load_experiment(file), out=out)
    wrong = (
        ["--set", "seed=9"],
        ["--out", str(tmp_path)],
        ["--set", "pipelines.one.rule.use=speculative"],
        ["--set", "tasks={use: jsonl, path: none.jsonl}"],
        ["--set", "predict.limit=3"],
    )
    for arguments in wrong:
        told = []
        for dry in (["--dry-run"], []):
            code = main(["run", str(file), "--out", str(out), *arguments, *dry])
            told.append((code, capsys.readouterr().err.strip()))
        assert told[0] == told[1]
        assert told[0][0] in (3, 5)
    assert main(["run", str(file), "--dry-run", "--estimate"]) == 2


def test_an_estimate_does_the_first_tasks_and_they_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of each group and six at least; the forecast is of the rest; the run goes on from there."""
    out = tmp_path / "run"
    arguments = [
        "run",
        str(write(tmp_path, SEEDS, tasks={"use": "run_parts.Numbered", "count": 40})),
        "--out",
        str(out),
    ]
    assert main([*arguments, "--estimate"]) == 0
    said = capsys.readouterr().out
    assert "the 272 runs of tasks that are left will take some" in said
    assert "  two@seed=1: 34 to do," in said
    assert "cost" in said
    done = attempts(out)
    assert {task for _, task in done} == {f"t{i}" for i in range(6)}
    assert len(done) == 48
    assert not (out / "summary.json").exists()
    assert main([*arguments, "--estimate"]) == 0  # the next six
    assert "the 224 runs" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "task runs now: 224" in capsys.readouterr().out


def test_an_interval_that_says_nothing_is_told_in_words() -> None:
    """From a nanosecond to a month is no forecast."""

    def said(low: float, high: float) -> str:
        left = forecast.Remainder(
            units=2, seconds=Estimate(60.0, low, high, 6, 6), cost=Estimate(0.0, 0.0, 0.0, 6, 6)
        )
        return forecast_line(forecast.Forecast(done=6, total=left, pipelines={}))

    assert "some 60 s (45 s to 1 h 5 min)" in said(45.0, 3900.0)
    assert all(
        "60 s (its interval is not known yet)" in said(*ends) for ends in ((1e-9, 1e7), (0.0, math.inf))
    )


@pytest.mark.parametrize("epoch", [None, 4])
def test_estimates_change_no_result(tmp_path: Path, epoch: int | None) -> None:
    """Tasks that predict come first, and of an epoch no task before the last one is whole: each sees what it taught."""
    lines = [json.dumps({"id": f"{kind}{i}", "kind": kind}) for kind in "xy" for i in range(10)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    log = tmp_path / "log"
    more: dict[str, Any] = {
        "predict": {"limit": 2},
        "tasks": {"use": "jsonl", "path": "tasks.jsonl", "id": "id", "group": "kind"},
        "memory": {"every": epoch} if epoch else None,
    }
    cells = {f"c{seed}": {"pipelines.one.generator.log": "./log", "seed": seed} for seed in (1, 2)}
    found = load(tmp_path, {"cells": cells}, **more)
    for _ in range(3):
        estimate(found, out=tmp_path / "some")
    run(found, out=tmp_path / "some")
    seen = sorted(line.split()[1:] for line in log.read_text().splitlines())
    log.unlink()
    run(found, out=tmp_path / "one")
    assert seen == sorted(line.split()[1:] for line in log.read_text().splitlines())
    with load_run(tmp_path / "some") as some, load_run(tmp_path / "one") as one:
        for mine, theirs in zip(some.store.entries(), one.store.entries(), strict=True):
            assert (mine.pipeline, mine.memory) == (theirs.pipeline, theirs.memory)
            assert mine.record.outcome.value == theirs.record.outcome.value
        assert {each.pipeline for each in some.predictions} == {each.pipeline for each in one.predictions}


def test_an_estimate_rests_on_all_that_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two tasks of each of six groups, which are more than the six that a run needs on its way."""
    lines = [json.dumps({"id": f"{kind}{i}", "kind": kind}) for i in range(3) for kind in "uvwxyz"]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    tasks = {"use": "jsonl", "path": "tasks.jsonl", "id": "id", "group": "kind"}
    file = write(tmp_path, tasks=tasks, predict=None)
    assert main(["run", str(file), "--out", str(tmp_path / "run"), "--estimate"]) == 0
    assert "from the first 12 tasks" in capsys.readouterr().out


def test_no_prediction_is_made_before_all_that_predicts_is_done(tmp_path: Path) -> None:
    """A small group beside a large one, and epochs of two: an estimate does some of what predicts, and no more."""
    lines = [json.dumps({"id": f"x{i}", "kind": "xy"[i > 0]}) for i in range(12)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    tasks = {"use": "jsonl", "path": "tasks.jsonl", "id": "id", "group": "kind"}
    for epoch, done in ((None, 6), (2, 2)):
        found = load(tmp_path, predict={"limit": 8}, tasks=tasks, memory={"every": epoch} if epoch else None)
        out = tmp_path / f"run{epoch}"
        estimate(found, out=out)
        with load_run(out) as records:
            assert not records.predictions
        assert len({task for _, task in attempts(out)}) == done
        run(found, out=out)
        with load_run(out) as records:
            assert records.predictions


def test_a_forecast_is_of_the_tasks_and_not_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models load for a minute before the first task ends; tasks of a second each go on after it was told; of a run
    that is gone on with one pipeline has nothing left, and another less than enough."""
    clock = iter(range(60, 200))
    monkeypatch.setattr(forecast, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    monkeypatch.setattr(forecast, "LONG", 0.0)
    meter = forecast.Meter({("ended", ""): 0, ("short", ""): 2, ("long", ""): 40})
    for place in range(20):
        assert (meter.due() is None) is (place != 8)
        outcome = Outcome(status="accepted", value=1, seconds=1.0)
        record = TaskRecord(task=f"t{place}", outcome=outcome)
        meter.add("short" if place < 2 else "long", record)
    assert meter.forecast().total.seconds.value == pytest.approx(22.0)


def test_a_long_run_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, when six tasks are done with every pipeline; a short one keeps quiet."""
    arguments = ["run", str(write(tmp_path, tasks={"use": "run_parts.Numbered", "count": 20})), "--out"]
    assert main([*arguments, str(tmp_path / "short")]) == 0
    assert "will take some" not in capsys.readouterr().err
    monkeypatch.setattr(forecast, "LONG", 0.0)
    assert main([*arguments, str(tmp_path / "long")]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("will take some") == 1
    assert "from the first 6 tasks" in told


def broken(tmp_path: Path, *tasks: str, always: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """The base's keys with a verifier that fails at some tasks until a file is there."""
    verifier = {
        "use": "run_parts.Mended",
        "until": str(tmp_path / "mended"),
        "broken": [*tasks],
        "always": [*always],
    }
    return {"defaults": {**BASE["defaults"], "verifier": verifier, **more}}


def test_failed_tasks_are_made_again_and_the_latest_attempt_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by plain resuming; once for each --retry-errors; a failed attempt stays, also when it fails again."""
    out = tmp_path / "run"
    changes = broken(tmp_path, "t1", "t2", always=("t2",))
    metrics = {"right": {"use": "python", "function": "run_parts.is_whole"}}
    arguments = ["run", str(write(tmp_path, SEEDS, metrics=metrics, **changes)), "--out", str(out)]
    assert main(arguments) == 6
    said = capsys.readouterr().out
    assert "failed: 16" in said
    assert "with --retry-errors the same command makes the failed tasks again" in said
    (tmp_path / "mended").touch()
    assert main(arguments) == 6
    assert "task runs now: 0" in capsys.readouterr().out
    assert main([*arguments, "--retry-errors"]) == 6
    assert "task runs now: 16" in capsys.readouterr().out
    found = attempts(out)
    assert {tuple(ended) for (_, task), ended in found.items() if task == "t1"} == {("failed", "accepted")}
    assert {tuple(ended) for (_, task), ended in found.items() if task == "t2"} == {("failed", "failed")}
    assert {len(ended) for (_, task), ended in found.items() if task not in ("t1", "t2")} == {1}
    summary = json.loads((out / "summary.json").read_text())
    for pipeline in summary["pipelines"]:
        assert pipeline["statuses"] == {"accepted": 5, "failed": 1}
        assert pipeline["rows"][-1]["solved"]["right"]["rate"]["value"] == pytest.approx(5 / 6)  # asked anew
    with load_run(out) as records:
        assert [each.attempt for each in records.records("plain@seed=1")] == [0, 1, 1, 0, 0, 0]
    assert main([*arguments, "--retry-errors"]) == 6
    assert {tuple(ended) for (_, task), ended in attempts(out).items() if task == "t2"} == {("failed",) * 3}


def test_an_estimate_from_failed_tasks_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They may have taken less than the others will; the exit code is a run's, and the next command is named."""
    tasks = {"use": "run_parts.Numbered", "count": 9}
    file = write(tmp_path, tasks=tasks, **broken(tmp_path, "t0", "t2"))
    assert main(["run", str(file), "--out", str(tmp_path / "run"), "--estimate"]) == ExitCode.FAILED_TASKS
    out = capsys.readouterr().out
    assert "6 of their runs failed" in out
    assert f"draftverify show {tmp_path / 'run'} --tasks failed" in out


def test_what_was_refused_is_no_error(tmp_path: Path) -> None:
    """A task that ended as refused is a result, and stays one."""
    changes = broken(tmp_path, "t1")
    changes["defaults"]["verifier"]["splice"] = False
    found = load(tmp_path, pipelines={"one": {**BASE["pipelines"]["one"]}}, baseline=None, **changes)
    run(found, out=tmp_path / "run")
    (tmp_path / "mended").touch()
    assert run(found, out=tmp_path / "run", retry_errors=True).ran == 1
    refused = [ended for ended in attempts(tmp_path / "run").values() if ended == ["refused"]]
    assert refused


def test_a_retried_task_can_wait_for_a_person(tmp_path: Path) -> None:
    """It counts as waiting and no longer as failed; the answer is taken up by plain resuming."""
    changes = broken(tmp_path, "t0", on_rejection=[{"do": "escalate", "on": "reject"}])
    changes["defaults"]["verifier"]["splice"] = False
    one = {"generator": {"use": "run_parts.Guess", "chance": 0.0}, "block": 4}
    found = load(tmp_path, pipelines={"one": one}, baseline=None, limit=1, **changes)
    out = tmp_path / "run"
    assert (run(found, out=out).failed, run(found, out=out).waiting) == (1, 1)
    (tmp_path / "mended").touch()
    again = run(found, out=out, retry_errors=True)
    assert (again.ran, again.failed, again.waiting) == (1, 0, 2)
    planned = plan(found, out=out)
    assert (planned.units, planned.failed, planned.waiting) == ({"one": (0, 2)}, 0, 2)
    with load_run(out) as records:
        assert records.store.counts() == {("measure", "one", "waiting"): 2}
        assert sorted(record.attempt for record in records.records("one")) == [0, 1]
        question = next(each for each in records.questions if each.task == "t0")
        assert question.attempt == 1
        records.store.answer(question, "reject", note="no")
    done = run(found, out=out)
    assert (done.ran, done.failed, done.waiting) == (1, 0, 1)
    assert attempts(out)["one", "t0"] == ["failed", "refused"]


def test_a_directory_of_version_1_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it is changed; --fresh moves it aside."""
    out = tmp_path / "run"
    arguments = ["run", str(write(tmp_path)), "--out", str(out)]
    assert main(arguments) == 0
    with sqlite3.connect(out / "records.db") as connection:
        connection.execute("UPDATE draftverify_meta SET value = '1' WHERE name = 'schema_version'")
        connection.execute("ALTER TABLE draftverify_runs DROP COLUMN retrying")
    connection.close()
    capsys.readouterr()
    for more in ([], ["--retry-errors"], ["--dry-run"]):
        assert main([*arguments, *more]) == 5
        said = capsys.readouterr().err
        assert "older draftverify (record format 1; this one reads 5). Nothing was changed" in said
        assert "--fresh" in said
    assert main([*arguments, "--fresh"]) == 0
    assert (tmp_path / "run.old1" / "records.db").exists()


def start(file: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """The run command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", str(file), "--out", str(out), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )


def rows(out: Path) -> dict[tuple[str, str, int], tuple[str, str, str]]:
    """What stands in the database, word for word."""
    if not (out / "records.db").exists():
        return {}
    connection = sqlite3.connect(out / "records.db")
    try:
        query = "SELECT pipeline, task, attempt, status, outcome, committed FROM draftverify_records"
        return {row[:3]: row[3:] for row in connection.execute(query)}
    except sqlite3.OperationalError:
        return {}  # killed before the tables were made
    finally:
        connection.close()


def logged(folder: Path) -> Counter[tuple[str, str]]:
    """How often each cell's generator was called for each task."""
    return Counter(
        (log.stem, line.split()[1])
        for log in folder.glob("*.log")
        for line in log.read_text().splitlines()
        if line.count(" ") == 3
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("executor", "kills", "count"),
    [
        ("{use: serial}", 1, 40),
        pytest.param("{use: serial}", 8, 200, marks=pytest.mark.exhaustive),
        pytest.param("{use: process, workers: 2}", 4, 120, marks=pytest.mark.exhaustive),
    ],
)
def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, executor: str, kills: int, count: int) -> None:
    """A sweep is killed in the run and in the retry, again and again: what is committed stays word for word and does
    not run again, also what failed again; no task is made a third time, and the end is that of an unkilled sweep."""
    rng = random.Random(f"{executor} {kills}")
    out = tmp_path / "run"
    broken_ones = [f"t{i}" for i in range(0, count, 2)]
    always = {f"t{i}" for i in range(0, count, 4)}
    changes = broken(tmp_path, *broken_ones, always=tuple(sorted(always)))
    changes["defaults"]["verifier"]["seconds"] = 0.002
    one = {"generator": {"use": "run_parts.Guess", "chance": 0.6}, "block": 4}
    matrix = {
        "cells": {
            name: {"pipelines.one.generator.log": f"./{name}.log", "pipelines.one.generator.chance": chance}
            for name, chance in (("low", 0.3), ("high", 0.9))
        }
    }
    tasks = {"use": "run_parts.Numbered", "count": count}
    file = write(tmp_path, matrix, pipelines={"one": one}, baseline=None, tasks=tasks, **changes)
    before: dict[Any, Any] = {}
    struck = 0
    for retrying in (False, True):
        if retrying:
            (tmp_path / "mended").touch()
        option = ["--retry-errors"] * retrying
        for _ in range(kills):
            calls = logged(tmp_path)
            options = [
                *option,
                "--set",
                f"executor={executor}",
                "--set",
                f"durable={rng.choice(['task', 'round'])}",
            ]
            process = start(file, out, *options)
            end = time.monotonic() + 60
            while logged(tmp_path) == calls and time.monotonic() < end and process.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.15))
            struck += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(0.1 if "process" in executor else 0.0)  # its workers end when it has
            after = rows(out)
            assert {key: after.get(key) for key in before} == before
            ran = {(f"one@{cell}", task) for cell, task in (logged(tmp_path) - calls)}
            finished = {
                (p, t) for p, t, attempt in before if attempt == 1 or not retrying or t not in broken_ones
            }
            assert not ran & finished, "what was finished ran again"
            before = after
        assert main(["run", str(file), "--out", str(out), *option, "--set", f"executor={executor}"]) == 6
        after = rows(out)
        assert {key: after.get(key) for key in before} == before
        before = after
    assert struck >= kills  # of 2 × kills
    wanted = {
        (f"one@{cell}", f"t{i}"): ["accepted"]
        if i % 2
        else ["failed", "failed" if f"t{i}" in always else "accepted"]
        for cell in ("low", "high")
        for i in range(count)
    }
    assert attempts(out) == wanted


def test_a_retry_is_taken_up_where_it_was_killed(tmp_path: Path) -> None:
    """What failed again before the kill is not made a third time by the same command; the next one makes all again."""
    found = load(
        tmp_path,
        pipelines={"one": BASE["pipelines"]["one"]},
        baseline=None,
        **broken(tmp_path, "t1", "t2", "t3"),
    )
    out = tmp_path / "run"
    run(found, out=out, max_failures=99)

    class Killed(Exception):
        pass

    class Watcher:
        def started(self, phase: str, totals: Any) -> None: ...
        def event(self, event: Any) -> None: ...
        def forecast(self, forecast: Any) -> None: ...
        def done(self, pipeline: str, record: Any) -> None:
            raise Killed

    with pytest.raises(Killed):
        run(found, out=out, retry_errors=True, max_failures=99, watcher=Watcher())
    assert sorted(map(len, attempts(out).values())) == [1, 1, 1, 1, 1, 2]
    assert run(found, out=out).ran == 0  # plain resuming is apart
    assert run(found, out=out, retry_errors=True, max_failures=99).ran == 2
    assert sorted(map(len, attempts(out).values())) == [1, 1, 1, 2, 2, 2]
    assert run(found, out=out, retry_errors=True, max_failures=99).ran == 3


def test_a_plan_is_of_what_is_there(tmp_path: Path) -> None:
    """Units done, failed and waiting, from Python."""
    found = load(tmp_path, **broken(tmp_path, "t1"))
    run(found, out=tmp_path / "run")
    made = plan(found, out=tmp_path / "run")
    assert made.units == {"plain": (6, 6), "one": (6, 6), "two": (6, 6)}
    assert (made.failed, made.waiting) == (3, 0)
    with pytest.raises(StoreError, match="another config"):
        plan(load(tmp_path, seed=5, **broken(tmp_path, "t1")), out=tmp_path / "run")


def test_cells_with_tasks_of_their_own_count_those(tmp_path: Path) -> None:
    """How far such a run is, in its list, its report and its tasks: no cell waits for tasks that are another's."""
    made = run(load(tmp_path, {"grid": {"tasks.count": [2, 3]}}), out=tmp_path / "runs" / "swept")
    (listed,) = list_runs(tmp_path / "runs")
    assert (listed.units, listed.done, listed.finished) == (15, 15, True)
    with load_run(made.path) as records:
        now = changes(records)
        assert (now["done"], now["total"], now["finished"]) == (15, 15, True)
        assert now["pipelines"]["one@count=2"]["total"] == 2
        rows = task_list(records)["rows"]
        assert [len(row["cells"]) for row in rows] == [6, 6, 3]
        assert task_list(records, outcome="open")["total"] == 0
        names = [each["name"] for each in task_detail(records, rows[2]["task"])["pipelines"]]
        assert names == ["plain@count=3", "one@count=3", "two@count=3"]
        (pairing,) = compare([(records, "one@count=2"), (records, "two@count=3")]).pairings
        assert (pairing.pairs, len(pairing.only_other), pairing.unfinished) == (2, 1, ())
