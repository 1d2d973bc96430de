"""The run directory: one driver at a time, nothing deleted, and every damaged file an error in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftverify.bench.records import RunDirectory, load_run
from draftverify.errors import StoreError
from draftverify.secret import Secret
from draftverify.values import Task
from tests.records.samples import record

ROOT = Path(__file__).parents[2]


@contextmanager
def directory(path: Path, config_hash: str = "h", **more: object) -> Iterator[RunDirectory]:
    config = more.pop("config", {"pipelines": {"spec": {"block": 4}}})
    with RunDirectory(
        path, name=str(more.pop("name", "n")), config=config, config_hash=config_hash, **more
    ) as opened:  # type: ignore[arg-type]
        yield opened


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Iterating over a loaded run gives its records, in task order; by pipeline too."""
    with directory(tmp_path / "run") as opened:
        opened.store.add_tasks([Task(id="b"), Task(id="a")])
        opened.store.add_tasks([Task(id="c")], "predict")
        for name in "abc":
            opened.store.commit("spec", record(name))
        opened.write_summary({"figure": 1.5})
    with load_run(tmp_path / "run") as run:
        assert [each.task for each in run] == ["b", "a"]
        assert run.records("spec") == [record("b"), record("a")]
        assert [task.id for task in run.tasks] == ["b", "a"]
        assert run.config == {"pipelines": {"spec": {"block": 4}}}
        assert run.summary == {"figure": 1.5}


def test_a_run_can_be_read_while_it_is_driven(tmp_path: Path) -> None:
    """Readers take no lock."""
    with directory(tmp_path / "run") as opened:
        opened.store.commit("spec", record())
        with load_run(tmp_path / "run") as run:
            assert len(run.store.committed()) == 1


def test_the_lock_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    """Another process is refused while it runs; a killed one keeps nothing, even when a fork of it lives on."""
    code = (
        "import os, sys, time\n"
        "from draftverify.bench.records import RunDirectory\n"
        f"opened = RunDirectory({str(tmp_path / 'run')!r}, name='n', config={{}}, config_hash='h')\n"
        "opened.__enter__()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(20)\n"
        "    os._exit(0)\n"
        "print(child, flush=True)\n"
        "time.sleep(20)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        held = rf"another process \({process.pid}\) drives this run"
        with pytest.raises(StoreError, match=held), directory(tmp_path / "run"):
            pass
        process.kill()
        process.wait()
        with directory(tmp_path / "run") as opened:
            assert opened.resumed
    finally:
        os.kill(child, 9)
        process.stdout.close()


def test_another_config_is_refused_naming_what_is_new_gone_and_changed(tmp_path: Path) -> None:
    """Dotted paths, at most five of them; what may change is not among them."""
    with directory(tmp_path / "run", config={"a": {"b": 1, "c": [1]}, "d": "x", "metrics": {}}):
        pass
    with pytest.raises(StoreError) as error, directory(tmp_path / "run", "g", config={"a": {"b": 2}, "e": 1}):
        pass
    for word in ("a.b was 1, is 2", "a.c is gone", "d is gone", "e is new", "--out", "--fresh"):
        assert word in str(error.value)
    assert "metrics" not in str(error.value)


def test_fresh_keeps_every_earlier_run(tmp_path: Path) -> None:
    """One after the other is moved aside, records and all."""
    for number in range(3):
        with directory(tmp_path / "run", fresh=True) as opened:
            opened.store.commit("spec", record(str(number)))
    for place, name in enumerate(("run.old1", "run.old2", "run")):
        with load_run(tmp_path / name) as run:
            assert [entry.record.task for entry in run.store.entries()] == [str(place)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": 3, "config_hash": "h"}', "\udcff"])
def test_a_damaged_run_json_is_an_error_in_words(tmp_path: Path, text: str) -> None:
    """For a driver as for a reader; the file is left as it is."""
    with directory(tmp_path / "run"):
        pass
    path = tmp_path / "run" / "run.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match=r"run\.json"), directory(tmp_path / "run"):
        pass
    with pytest.raises(StoreError, match=r"run\.json"):
        load_run(tmp_path / "run")
    assert path.read_bytes() == text.encode(errors="surrogateescape")


def test_a_missing_database_is_an_error_for_a_reader(tmp_path: Path) -> None:
    """A reader makes none."""
    with directory(tmp_path / "run"):
        pass
    for path in (tmp_path / "run").glob("records.db*"):
        path.unlink()
    with pytest.raises(StoreError, match="there is no database"):
        load_run(tmp_path / "run")
    assert not (tmp_path / "run" / "records.db").exists()


@pytest.mark.parametrize("lost", ["deleted", "emptied"])
def test_records_that_are_gone_are_not_begun_anew(tmp_path: Path, lost: str) -> None:
    """Neither a driver nor a reader takes a run whose database is lost for one that never began."""
    with directory(tmp_path / "run") as opened:
        opened.store.commit("spec", record("a"))
    for path in (tmp_path / "run").glob("records.db*"):
        path.unlink() if lost == "deleted" else path.write_bytes(b"")
    with pytest.raises(StoreError, match="any more"), directory(tmp_path / "run"):
        pass
    with pytest.raises(StoreError, match="any more"):
        load_run(tmp_path / "run")
    with directory(tmp_path / "run", fresh=True) as opened:
        assert opened.store.committed() == set()


def test_a_run_in_an_emptied_postgresql_database_is_refused(
    tmp_path: Path, postgres: str, run_id: str
) -> None:
    """The same, by URL."""
    import psycopg

    with directory(tmp_path / "run", url=postgres, name=run_id):
        pass
    with psycopg.connect(postgres) as other:
        other.execute("DELETE FROM draftverify_runs WHERE name = %s", (run_id,))
    with pytest.raises(StoreError, match="any more"), directory(tmp_path / "run", url=postgres):
        pass


def test_records_in_postgresql_are_found_by_url(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory does not hold the URL, which may hold a password; it is given again, or in the environment."""
    monkeypatch.delenv("DRAFTVERIFY_STORE", raising=False)
    with directory(tmp_path / "run", url=postgres) as opened:
        opened.store.commit("spec", record())
    assert postgres not in (tmp_path / "run" / "run.json").read_text()
    assert not (tmp_path / "run" / "records.db").exists()
    with pytest.raises(StoreError, match="set DRAFTVERIFY_STORE"):
        load_run(tmp_path / "run")
    with load_run(tmp_path / "run", url=postgres) as run:
        assert len(run.store.committed()) == 1
    monkeypatch.setenv("DRAFTVERIFY_STORE", postgres)
    with load_run(tmp_path / "run") as run:
        assert len(run.store.committed()) == 1


@pytest.mark.parametrize(
    ("written", "noted"),
    [
        ("postgresql://me:pw@host/runs", "postgresql://me:***@host/runs"),
        ("--store=postgresql://me:a-long-one@host/runs", "--store=postgresql://me:***@host/runs"),
        ("tasks.url=https://tok@host/t?api_key=k1", "tasks.url=https://***@host/t?api_key=***"),
        ("postgresql://me@host/runs", "postgresql://me@host/runs"),
    ],
)
def test_command_and_config_are_noted_without_passwords(tmp_path: Path, written: str, noted: str) -> None:
    """Also one that stands on the command line alone, and one that is too short to be looked for elsewhere; the report
    shows both."""
    with directory(
        tmp_path / "run", command=["draftverify", "run", "--store", written], config={"store": written}
    ):
        pass
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == {"store": noted}
    (start,) = json.loads((tmp_path / "run" / "run.json").read_text())["starts"]
    assert start["command"][-1] == noted


def test_the_url_of_other_runs_hides_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DRAFTVERIFY_STORE stays set, and a run beside those on the server has its records in a file."""
    with directory(tmp_path / "run") as opened:
        opened.store.commit("spec", record())
    monkeypatch.setenv("DRAFTVERIFY_STORE", "postgresql://nobody@127.0.0.1:1/none")
    with load_run(tmp_path / "run", url=os.environ["DRAFTVERIFY_STORE"]) as run:
        assert len(run.store.committed()) == 1


def test_a_run_in_postgresql_is_not_continued_in_a_file(tmp_path: Path, postgres: str) -> None:
    """Without the URL the records would seem to be gone, and all would run again."""
    with directory(tmp_path / "run", url=postgres):
        pass
    with pytest.raises(StoreError, match="its records are in PostgreSQL"), directory(tmp_path / "run"):
        pass
    with directory(tmp_path / "file"):
        pass
    with (
        pytest.raises(StoreError, match=r"its records are in records\.db"),
        directory(tmp_path / "file", url=postgres),
    ):
        pass


def test_other_parts_are_refused_by_name_unless_they_are_accepted(tmp_path: Path) -> None:
    """The error names what changed; accepting it is noted once, and is not asked for again."""
    before = {"rule r": {"package": "p", "version": "1.0", "sha256": "a"}, "mine.py": {"sha256": "b"}}
    now = {**before, "rule r": {"package": "p", "version": "1.1", "sha256": "c"}}
    with directory(tmp_path / "run", parts=before) as opened:
        opened.store.commit("spec", record("a"))
    written = (tmp_path / "run" / "run.json").read_bytes()
    changes = ["rule r has changed from version 1.0 to 1.1"]
    with (
        pytest.raises(StoreError, match=f"{changes[0]} since this run was made"),
        directory(tmp_path / "run", parts=now),
    ):
        pass
    assert (tmp_path / "run" / "run.json").read_bytes() == written
    with directory(tmp_path / "run", parts=now, accept_changed=True) as opened:
        assert len(opened.store.committed()) == 1
    with directory(tmp_path / "run", parts=now):
        pass
    starts = json.loads((tmp_path / "run" / "run.json").read_text())["starts"]
    assert [(start["parts"], start.get("accepted")) for start in starts] == [(before, None), (now, changes)]


def test_a_part_whose_name_has_a_secret_in_it_is_the_same_part(tmp_path: Path) -> None:
    """run.json holds the name without it; the run goes on all the same, and no second start is noted."""
    Secret("longest")
    for begun in (False, True):
        with directory(tmp_path / "run", parts={"rule longest_prefix": {"sha256": "a"}}) as opened:
            assert opened.resumed is begun
            assert opened.look()
    (start,) = json.loads((tmp_path / "run" / "run.json").read_text())["starts"]
    assert list(start["parts"]) == ["rule ***_prefix"]


def test_versions_are_noted_when_they_change(tmp_path: Path) -> None:
    """A run that goes on under another version says so."""
    with directory(tmp_path / "run"):
        pass
    path = tmp_path / "run" / "run.json"
    about = json.loads(path.read_text())
    assert len(about["starts"]) == 1
    about["starts"][0]["versions"]["python"] = "2.7"
    path.write_text(json.dumps(about))
    for _ in range(2):
        with directory(tmp_path / "run"):
            pass
    assert [start["versions"]["python"] for start in json.loads(path.read_text())["starts"]] == [
        "2.7",
        sys.version.split()[0],
    ]
