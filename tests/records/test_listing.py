"""The list of runs: what each is and how far it came; damaged ones with the reason, and never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftverify.bench.records import Question, RunDirectory, load_run
from draftverify.bench.records.listing import list_runs
from draftverify.bench.records.lock import is_driven
from draftverify.values import Outcome, Task, TaskRecord
from draftverify.view.overview import changes
from tests.records.samples import record, waiting

ROOT = Path(__file__).parents[2]
CONFIG = {"pipelines": {"plain": {}, "spec": {}}}


def made(
    path: Path, *, tasks: int = 2, done: int = 2, tags: tuple[str, ...] = (), finished: bool = True
) -> Path:
    """A run of which the first so many tasks have ended under both pipelines."""
    with RunDirectory(path, name=path.name, config=CONFIG, config_hash="h", tags=tags) as opened:
        opened.store.add_tasks([Task(id=str(place)) for place in range(tasks)])
        for place in range(done):
            for name in CONFIG["pipelines"]:
                opened.store.commit(name, record(str(place)))
        if finished:
            opened.write_summary({})
    return path


def begun(path: Path, at: str) -> None:
    """Say when a run was first started."""
    about = json.loads((path / "run.json").read_text())
    about["starts"][0]["at"] = at
    (path / "run.json").write_text(json.dumps(about))


def test_runs_are_listed_the_latest_first_with_how_far_they_came(tmp_path: Path) -> None:
    """At any of four depths; nothing within a run is taken for one, and other folders for none."""
    begun(made(tmp_path / "a"), "2026-01-02T00:00:00+00:00")
    begun(made(tmp_path / "deep" / "er" / "b", tasks=3, done=1, finished=False), "2026-01-03T00:00:00+00:00")
    begun(made(tmp_path / "c", tasks=0, done=0, finished=False), "2026-01-01T00:00:00+00:00")
    made(tmp_path / "a" / "inner")
    (tmp_path / "other").mkdir()
    found = list_runs(tmp_path)
    assert [(each.path.name, each.state) for each in found] == [
        ("b", "2 of 6"),
        ("a", "finished"),
        ("c", "not begun"),
    ]
    assert (found[0].tasks, found[0].pipelines, found[0].name) == (3, ("plain", "spec"), "b")
    assert found[1].last > "2026"


def test_failed_and_waiting_tasks_are_counted(tmp_path: Path) -> None:
    """A run whose every task ended or waits is finished."""
    with RunDirectory(tmp_path / "r", name="r", config=CONFIG, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t")])
        opened.store.commit("plain", TaskRecord(task="t", outcome=Outcome(status="failed")))
        opened.store.park("spec", waiting("t"), Question(pipeline="spec", task="t", round=2))
        opened.write_summary({})
    assert [each.state for each in list_runs(tmp_path)] == ["finished, 1 failed, 1 waiting"]


def test_a_retry_that_was_killed_is_not_finished(tmp_path: Path) -> None:
    """Every task has ended and the summary is there, of the attempts before; once the retry ends, it is."""
    path = tmp_path / "r"
    failed = TaskRecord(task="t", outcome=Outcome(status="failed"))
    with RunDirectory(path, name="r", config={"pipelines": {"spec": {}}}, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t")])
        opened.store.commit("spec", failed)
        opened.write_summary({})
        opened.store.begin_retry()
    (found,) = list_runs(tmp_path)
    assert (found.state, found.finished) == ("1 of 1, 1 failed, the retry has not ended", False)
    with load_run(path) as run:
        assert not changes(run)["finished"]
    with RunDirectory(path, name="r", config={"pipelines": {"spec": {}}}, config_hash="h") as opened:
        opened.store.end_retry()
    with load_run(path) as run:
        assert changes(run)["finished"]
    assert [each.state for each in list_runs(tmp_path)] == ["finished, 1 failed"]


def test_tags_choose_runs(tmp_path: Path) -> None:
    """All that are given must be there; what cannot be read is listed always."""
    made(tmp_path / "a", tags=("nightly", "lr=3"))
    made(tmp_path / "b", tags=("nightly",))
    made(tmp_path / "c")
    (tmp_path / "c" / "run.json").write_text("{")
    assert {each.path.name for each in list_runs(tmp_path, tags=["nightly", "lr=3"])} == {"a", "c"}
    assert {each.path.name for each in list_runs(tmp_path, tags=["nightly"])} == {"a", "b", "c"}


def test_tags_of_the_last_start_that_gave_any_stand(tmp_path: Path) -> None:
    """They change, and the run stays the same one; a start without any leaves them."""
    path = made(tmp_path / "r", tags=("a", "b", "a"))
    before = json.loads((path / "run.json").read_text())
    assert before["tags"] == ["a", "b"]
    made(path)
    assert json.loads((path / "run.json").read_text()) == before
    made(path, tags=("c",))
    assert json.loads((path / "run.json").read_text()) == {**before, "tags": ["c"]}


def test_a_config_s_tags_take_none_away_that_the_command_line_gave(tmp_path: Path) -> None:
    """Every start gives those of the config; they come and go with it, and the others stay until others are given."""
    path = tmp_path / "r"

    def tagged(config: list[str], *given: str) -> list[str]:
        with RunDirectory(path, name="r", config={"tags": config}, config_hash="h", tags=(*config, *given)):
            pass
        tags: list[str] = json.loads((path / "run.json").read_text())["tags"]
        return tags

    assert tagged(["nightly"], "try-1") == ["nightly", "try-1"]
    assert tagged(["nightly"]) == ["nightly", "try-1"]
    assert tagged(["weekly"]) == ["weekly", "try-1"]
    assert tagged(["weekly"], "try-2") == ["weekly", "try-2"]
    assert tagged([]) == ["try-2"]


DAMAGE = {
    "run.json is cut": lambda path: (path / "run.json").write_text('{"run": "x"'),
    "run.json is gone": lambda path: (path / "run.json").unlink(),
    "run.json has odd values": lambda path: (path / "run.json").write_text(
        '{"run": "x", "config_hash": "h", "starts": [3], "tags": "t", "name": null}'
    ),
    "run.json has no start": lambda path: (path / "run.json").write_text(
        '{"run": "x", "name": "n", "config_hash": "h", "starts": []}'
    ),
    "config.json is gone": lambda path: (path / "config.json").unlink(),
    "config.json is a list": lambda path: (path / "config.json").write_text("[]"),
    "config.json has odd values": lambda path: (path / "config.json").write_text('{"pipelines": 3}'),
    "the database is gone": lambda path: (path / "records.db").unlink(),
    "the database is empty": lambda path: (path / "records.db").write_bytes(b""),
    "the database is noise": lambda path: (path / "records.db").write_bytes(os.urandom(9000)),
    "the database lost its end": lambda path: os.truncate(path / "records.db", 9000),
    "run.json is a folder": lambda path: [(path / "run.json").unlink(), (path / "run.json").mkdir()],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_listed_with_the_reason(tmp_path: Path, damage: str) -> None:
    """Beside the sound ones, naming its own directory."""
    made(tmp_path / "sound")
    DAMAGE[damage](made(tmp_path / "damaged"))
    found = {each.path.name: each for each in list_runs(tmp_path)}
    assert found["sound"].state == "finished"
    assert found["damaged"].state == "damaged"
    assert "damaged" in found["damaged"].problem


def test_a_run_that_is_driven_says_so_and_is_not_disturbed(tmp_path: Path) -> None:
    """Here or by another process; asking takes no lock, and gives none up."""
    path = tmp_path / "r"
    code = (
        "import sys\n"
        "from draftverify.bench.records import RunDirectory\n"
        f"with RunDirectory({str(path)!r}, name='n', config={{}}, config_hash='h'):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_driven(path)
        assert list_runs(tmp_path)[0].state == "being driven, not begun"
        process.communicate()
    assert not is_driven(path)
    with RunDirectory(path, name="n", config={}, config_hash="h"):
        assert is_driven(path)
        asked = f"from draftverify.bench.records.lock import is_driven; print(is_driven({str(path)!r}))"
        said = subprocess.run(
            [sys.executable, "-c", asked], capture_output=True, text=True, cwd=ROOT, check=True
        )
        assert said.stdout == "True\n"  # asking here did not give the lock up
