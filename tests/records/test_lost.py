"""A database that is held or taken away while a run goes on: waited for a while, then the run ends in words, whole."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.records import Question, Store, load_run, timeless
from draftverify.bench.records import database as db
from draftverify.bench.runner.run import run
from draftverify.errors import StoreError
from draftverify.values import Task, TaskRecord
from tests.experiments.runs import load, results, write
from tests.records.samples import ROUNDS as RECORDED
from tests.records.samples import record, waiting

EXECUTORS = ["{use: serial}", "{use: thread, workers: 2}", "{use: process, workers: 1}"]
ROUNDS = {"durable": "round", "policy": "[{do: regenerate, times: 2}]"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for tenths of a second where a run waits for half a minute."""
    monkeypatch.setattr(db, "LOCKED_SECONDS", 0.1)
    monkeypatch.setattr(db, "PAUSES", (0.0, 0.1, 0.2))


PAUSES = db.PAUSES  # of a run: here they are shorter
QUESTION = Question(pipeline="spec", task="t", round=2)
WRITES: dict[str, Callable[[Store], Any]] = {
    "add_tasks": lambda opened: opened.add_tasks([Task(id="t")]),
    "commit": lambda opened: opened.commit("spec", record()),
    "commit_round": lambda opened: opened.commit_round("spec", "t", 0, RECORDED[0]),
    "park": lambda opened: opened.park("spec", waiting(), QUESTION),
    "answer": lambda opened: opened.answer(QUESTION, "accept"),
    "predict": lambda opened: opened.predict([]),
    "add_scores": lambda opened: opened.add_scores({}),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_tried_again_while_the_file_is_held(
    tmp_path: Path, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times, after longer and longer pauses; then it says so, and once the file is free it is carried out."""
    monkeypatch.setattr(db, "LOCKED_SECONDS", 0.01)
    slept: list[float] = []
    path = tmp_path / "records.db"
    with Store.open(db.sqlite_url(path), "run", config_hash="x") as opened:
        held = sqlite3.connect(path)

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 6:
                held.rollback()

        monkeypatch.setattr(db.time, "sleep", sleep)
        held.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="keeps it locked"):
            WRITES[write](opened)
        assert slept == list(db.PAUSES)
        WRITES[write](opened)
        assert slept == [*db.PAUSES, *db.PAUSES]
        held.close()


def test_forty_seconds_without_the_database_end_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart takes as long."""
    monkeypatch.setattr(db, "PAUSES", PAUSES)
    path, waited = tmp_path / "records.db", [0.0]
    with Store.open(db.sqlite_url(path), "run", config_hash="x") as opened:
        held = sqlite3.connect(path)

        def sleep(seconds: float) -> None:
            waited[0] += seconds
            if waited[0] >= 40:
                held.rollback()

        monkeypatch.setattr(db.time, "sleep", sleep)
        held.execute("BEGIN IMMEDIATE")
        assert opened.commit("spec", record())
        held.close()


def test_a_statement_waits_for_seconds_before_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is held for a moment costs not even a further try."""
    monkeypatch.setattr(db, "LOCKED_SECONDS", 10.0)
    monkeypatch.setattr(db, "PAUSES", ())
    path = tmp_path / "records.db"
    with Store.open(db.sqlite_url(path), "run", config_hash="x") as opened:
        held = sqlite3.connect(path, check_same_thread=False)
        held.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.1, held.rollback)
        timer.start()
        assert opened.commit("spec", record())
        timer.join()
        held.close()


class Disturbing:
    """A watcher that takes the database away as soon as the tasks begin.

    Args:
        disturb: takes it away.
    """

    def __init__(self, disturb: Callable[[], None]) -> None:
        self.disturb = disturb

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """Take it away."""
        self.disturb()

    def event(self, event: object) -> None:
        """Nothing."""

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], TaskRecord]:
    """What the run records when nobody is in its way."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(load(folder, **ROUNDS), out=folder / "run")
    return results(folder / "run")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_one_round_that_cannot_be_committed_ends_the_run(
    tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when what comes after it could be: no worker waits for ever for somebody to read its rounds."""
    commit, asked = Store.commit_round, []

    def fail_once(*arguments: Any) -> None:
        asked.append(arguments)
        if len(asked) == 3:
            raise StoreError("no")
        commit(*arguments)

    monkeypatch.setattr(Store, "commit_round", fail_once)
    with pytest.raises(StoreError, match="no"):
        run(load(tmp_path, executor=executor, **ROUNDS), out=tmp_path / "run")
    assert run(load(tmp_path, executor=executor, **ROUNDS), out=tmp_path / "run").resumed


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_run_whose_file_stays_locked_ends_in_words(
    tmp_path: Path, executor: str, undisturbed: dict[tuple[str, str], TaskRecord], caplog: Any
) -> None:
    """No hang, whichever thread meets the lock first, and one wait; nothing is lost, and the same call goes on."""
    experiment, out = load(tmp_path, executor=executor, **ROUNDS), tmp_path / "run"
    held = sqlite3.connect(out.with_name("other"), check_same_thread=False)

    def hold() -> None:
        held.execute("ATTACH ? AS run", (str(out / "records.db"),))
        held.execute("BEGIN IMMEDIATE")
        held.execute("DELETE FROM run.draftverify_rounds")

    with pytest.raises(StoreError, match=r"keeps it locked .* the same command goes on from it"):
        run(experiment, out=out, watcher=Disturbing(hold))
    held.close()
    assert 3 <= caplog.text.count("trying again") <= 6
    assert run(experiment, out=out).resumed
    assert results(out) == undisturbed


@pytest.mark.parametrize("executor", EXECUTORS[1:])
def test_a_lock_that_is_given_back_costs_nothing(
    tmp_path: Path, executor: str, undisturbed: dict[tuple[str, str], TaskRecord]
) -> None:
    """Held for longer than SQLite itself waits, and for less than the run does."""
    out = tmp_path / "run"
    held = sqlite3.connect(tmp_path / "other", check_same_thread=False)

    def hold() -> None:
        held.execute("ATTACH ? AS run", (str(out / "records.db"),))
        held.execute("BEGIN IMMEDIATE")
        held.execute("DELETE FROM run.draftverify_rounds")
        threading.Timer(0.25, held.close).start()

    run(load(tmp_path, executor=executor, **ROUNDS), out=out, watcher=Disturbing(hold))
    assert results(out) == undisturbed


@pytest.fixture
def database(postgres: str) -> Iterator[tuple[str, Callable[[str], None]]]:
    """The URL of a database of the test's own, and a function that lets others carry a statement out."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as other:
        other.execute("CREATE DATABASE lost")
        try:
            yield postgres.replace("/postgres?", "/lost?"), lambda text: other.execute(text) and None
        finally:
            other.execute("DROP DATABASE lost WITH (FORCE)")


END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'lost'"


def recorded(out: Path, url: str) -> dict[tuple[str, str], TaskRecord]:
    """The records of a run in PostgreSQL, without their times."""
    with load_run(out, url=url) as found:
        return {(each.pipeline, each.record.task): timeless(each.record) for each in found.store.entries()}


@pytest.mark.parametrize("executor", EXECUTORS[2:])
def test_a_connection_that_ended_is_taken_up_again(
    tmp_path: Path,
    executor: str,
    database: tuple[str, Callable[[str], None]],
    undisturbed: dict[tuple[str, str], TaskRecord],
) -> None:
    """The server ends it in the middle of a run; the run does not notice."""
    url, other = database
    experiment = load(tmp_path, executor=executor, **ROUNDS)
    run(experiment, out=tmp_path / "run", store=url, watcher=Disturbing(lambda: other(END)))
    assert recorded(tmp_path / "run", url) == undisturbed


@pytest.mark.parametrize("executor", EXECUTORS[:1])
def test_a_run_whose_server_is_gone_ends_in_words(
    tmp_path: Path,
    executor: str,
    database: tuple[str, Callable[[str], None]],
    undisturbed: dict[tuple[str, str], TaskRecord],
) -> None:
    """It lets nobody in any more; once it does again the same call goes on."""
    url, other = database
    experiment, out = load(tmp_path, executor=executor, **ROUNDS), tmp_path / "run"

    def shut() -> None:
        other("ALTER DATABASE lost WITH ALLOW_CONNECTIONS false")
        other(END)

    with pytest.raises(StoreError, match=r"cannot be reached, .* the same command goes on from it"):
        run(experiment, out=out, store=url, watcher=Disturbing(shut))
    other("ALTER DATABASE lost WITH ALLOW_CONNECTIONS true")
    assert run(experiment, out=out, store=url).resumed
    assert recorded(out, url) == undisturbed


@pytest.mark.parametrize("back", [True, False])
def test_a_server_that_goes_away_in_the_middle(
    tmp_path: Path,
    back: bool,
    postgres_server: Any,
    undisturbed: dict[tuple[str, str], TaskRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped while workers are at it, and restarted: the run goes on. One that stays away ends the run in words, and
    the same call goes on once it is back. Nothing is lost; of what the environment holds the directory keeps no more
    than the name."""
    monkeypatch.setattr(db, "PAUSES", (0.0, 0.5, 1.0, 4.0) if back else (0.0, 0.1))
    monkeypatch.setenv("TEST_STORE_HOST", postgres_server.url.partition("host=")[2])
    url = "postgresql://tester@/postgres?host=${TEST_STORE_HOST}"
    chosen = {"executor": "{use: process, workers: 1}", "more": f"store: {url}", **ROUNDS}
    experiment = load(tmp_path, seconds=0.002, **chosen)
    out = tmp_path / "run"
    outage = threading.Thread(target=lambda: (postgres_server.stop(), back and postgres_server.start()))

    class Stopping(Disturbing):
        ended = 0

        def done(self, pipeline: str, record: TaskRecord) -> None:
            """After the third task."""
            self.ended += 1
            if self.ended == 3:
                outage.start()
                if not back:
                    outage.join()

    stopping = Stopping(lambda: None)
    try:
        if back:
            run(experiment, out=out, watcher=stopping)
        else:
            with pytest.raises(StoreError, match=r"cannot be reached, .* the same command goes on from it"):
                run(experiment, out=out, watcher=stopping)
            assert stopping.ended < 12
    finally:
        outage.join()
        if not back:
            postgres_server.start()
    if not back:
        again = run(experiment, out=out)
        assert again.resumed
        assert again.ran <= 12 - stopping.ended
    else:
        assert stopping.ended == 12
    assert json.loads((out / "config.json").read_text())["store"] == url
    assert results(out) == undisturbed


def test_a_server_that_is_restarted_as_a_run_ends_costs_neither_report_nor_tables(
    tmp_path: Path, postgres_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are made from the records, over connections of their own."""
    monkeypatch.setattr(db, "PAUSES", (0.0, 0.5, 1.0, 4.0))
    opened, patient = Store.open, []

    def stopped(*arguments: Any, **named: Any) -> Store:
        if not named["create"]:
            patient.append(named["patient"])
            postgres_server.stop()
            threading.Timer(0.2, postgres_server.start).start()
        return opened(*arguments, **named)

    monkeypatch.setattr(Store, "open", stopped)
    file = write(tmp_path, more=f"store: {postgres_server.url}")
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == 0
    assert patient == [True, True]
    assert (tmp_path / "run" / "report.html").exists()
    assert "report.html was not written" not in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_server_that_is_restarted_under_ray(
    tmp_path: Path,
    postgres_server: Any,
    undisturbed: dict[tuple[str, str], TaskRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice, while actors send rounds: each is committed once, and the run does not notice."""
    pytest.importorskip("ray", reason="no Ray for this Python")
    monkeypatch.setattr(db, "PAUSES", (0.0, 0.5, 1.0, 4.0))
    out = tmp_path / "run"
    more = f"store: {postgres_server.url}"
    experiment = load(
        tmp_path, seconds=0.02, executor="{use: ray, actors: 2, cpus: 0.5}", more=more, **ROUNDS
    )

    class Stopping(Disturbing):
        ended = 0

        def done(self, pipeline: str, record: TaskRecord) -> None:
            """After the second task and the sixth."""
            self.ended += 1
            if self.ended in (2, 6):
                postgres_server.stop()
                restarts.append(threading.Timer(0.5, postgres_server.start))
                restarts[-1].start()

    restarts: list[threading.Timer] = []
    stopping = Stopping(lambda: None)
    try:
        done = run(experiment, out=out, watcher=stopping)
    finally:
        for each in restarts:
            each.join()
    assert (done.ran, stopping.ended, len(restarts)) == (12, 12, 2)
    assert results(out) == undisturbed


@pytest.mark.parametrize("name", [".", "records.db", "run.json"])
def test_a_run_whose_files_are_taken_away_ends_at_once(
    tmp_path: Path, name: str, undisturbed: dict[tuple[str, str], TaskRecord]
) -> None:
    """It does not go on for nothing, nor say that what is gone stays; once they are back it goes on."""
    experiment, out = load(tmp_path, **ROUNDS), tmp_path / "run"

    class Taking(Disturbing):
        ended = 0

        def done(self, pipeline: str, record: TaskRecord) -> None:
            """After the third task."""
            self.ended += 1
            if self.ended == 3:
                (out / name).rename(tmp_path / "away")

    taking = Taking(lambda: None)
    with pytest.raises(
        StoreError, match=r"(run.json|records.db): moved or removed while the run goes on, .*put it back"
    ):
        run(experiment, out=out, watcher=taking)
    assert taking.ended == 3
    (tmp_path / "away").rename(out / name)
    assert run(experiment, out=out).ran == 9
    assert results(out) == undisturbed


def test_a_reader_waits_for_no_writer_and_is_waited_for_by_none(tmp_path: Path) -> None:
    """`show` beside a run: while another process is in the middle of a commit, and while itself reads."""
    url = db.sqlite_url(tmp_path / "records.db")
    with Store.open(url, "run", config_hash="x") as writing:
        writing.commit("spec", record("a"))
        with writing._transaction(), Store.open(url, "run", config_hash="", create=False) as reading:
            assert len(list(reading.entries())) == 1
            with reading._transaction(writing=False):
                pass
        with reading._transaction(writing=False) as connection:
            connection.exec_driver_sql("SELECT * FROM draftverify_records")
            writing.commit("spec", record("b"))
