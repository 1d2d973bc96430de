"""The store: exactly one committed record, rounds that outlive a crash, questions, and errors that lose nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from draftverify.bench.records import Question, Store, StoredPrediction, Texts
from draftverify.bench.records.database import ConnectionLost, sqlite_url
from draftverify.bench.records.tables import SCHEMA_VERSION
from draftverify.checks.metrics import Score
from draftverify.errors import ContractError, StoreError
from draftverify.values import Candidate, Outcome, Round, Task, TaskRecord
from tests.records.samples import ROUNDS, record, waiting

TASKS = [Task(id=name, input={"prompt": name.upper()}, group="g") for name in ("t", "a", "z")]


def test_a_committed_record_comes_back(store: Store) -> None:
    """With its rounds, their words and the memory's version; nulls in texts too."""
    store.add_tasks(TASKS)
    texts = (Texts(("A", "{}", "-"), ("x",)), None)
    assert store.commit("spec", record(), texts, memory=3)
    (entry,) = store.entries()
    assert (entry.pipeline, entry.record, entry.texts, entry.memory) == ("spec", record(), texts, 3)


def test_entries_are_in_task_order(store: Store) -> None:
    """The order is the run's, not the alphabet's nor that of the commits."""
    store.add_tasks(TASKS)
    for name in ("z", "a", "t"):
        store.commit("spec", record(name, rounds=()))
        store.commit("plain", record(name, rounds=()))
    found = [(entry.record.task, entry.pipeline) for entry in store.entries()]
    assert found == [(name, pipeline) for name in ("t", "a", "z") for pipeline in ("plain", "spec")]
    assert [entry.record.task for entry in store.entries(pipeline="spec", task="a")] == ["a"]


def test_a_database_s_own_order_of_words_changes_none(tmp_path: Path, postgres: str) -> None:
    """One that sorts as English does, where small letters stand beside capital ones, gives what SQLite gives."""
    import psycopg

    names = ["b", "B", "a_b", "a-b", "ab", "A", "é", "z", "Z"]
    orders = []
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(
            "CREATE DATABASE english TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'"
        )
        try:
            for url in (sqlite_url(tmp_path / "records.db"), postgres.replace("/postgres?", "/english?")):
                with Store.open(url, "run", config_hash="x") as opened:
                    opened.add_tasks([Task(id=name, group=name) for name in names])
                    for name in names:
                        opened.commit(name, record("A"))
                        opened.predict(
                            [
                                StoredPrediction(
                                    pipeline="p", group=name, kind="k", value=None, low=None, high=None
                                )
                            ]
                        )
                        opened.park("p", waiting(name), Question(pipeline="p", task=name, round=2))
                    orders.append(
                        [
                            [entry.pipeline for entry in opened.entries() if entry.pipeline != "p"],
                            [ending.pipeline for ending in opened.endings()],
                            [each.group for each in opened.predictions()],
                            list(opened.counts()),
                        ]
                    )
        finally:
            server.execute("DROP DATABASE english WITH (FORCE)")
    assert orders[0] == orders[1]
    assert orders[0][0] == sorted(names)


def test_records_are_read_in_lots(store: Store, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred at a time, each with the rounds and words of its own; of one with damaged rounds that is told."""
    monkeypatch.setattr("draftverify.bench.records.reading.LOT", 4)
    store.add_tasks([Task(id=f"t{i}") for i in range(5)])
    for i, pipeline in product(range(5), ("a", "b")):
        made = msgspec.structs.replace(record(f"t{i}"), rounds=ROUNDS[: 1 + i % len(ROUNDS)])
        store.commit(pipeline, made, [Texts((f"{pipeline}{i}",))])
    store.commit_round("a", "t0", 1, ROUNDS[0])  # of an attempt under way
    read: list[str] = []
    sa.event.listen(store._engine, "before_cursor_execute", lambda *told: read.append(told[2]))
    entries = list(store.entries(phase="measure"))
    assert sum(each.startswith("SELECT") for each in read) == 1 + 3 * 2
    assert [(each.record.task, each.pipeline) for each in entries] == list(
        product([f"t{i}" for i in range(5)], "ab")
    )
    for each in entries:
        i = int(each.record.task[1:])
        assert each.record.rounds == ROUNDS[: 1 + i % len(ROUNDS)]
        assert each.texts[0] == Texts((f"{each.pipeline}{i}",))
    with store._transaction() as connection:
        first = "delete from draftverify_rounds where run = :run and task = 't1' and round = 0"
        connection.execute(sa.text(first), {"run": run_id})
    problems = [each.record.outcome.failure for each in store.entries()]
    assert [problem is not None for problem in problems] == [False, False, True, True, *[False] * 6]
    assert "round 0 is missing" in str(problems[2])


def test_a_pipeline_may_have_tasks_of_its_own(store: Store, url: str, run_id: str) -> None:
    """Totals count those; who opens the store later is told, and before it is written down all tasks count."""
    assert store.own_tasks() == {}
    store.set_own_tasks({"one": ["t0", "t1"], "two": ["t1", "t0"], "three": ["t2"]})
    store.add_tasks([Task(id="t0")], "predict")
    store.add_tasks([Task(id=f"t{i}") for i in (1, 2)])
    names = ("one", "two", "three", "all")
    with Store.open(url, run_id, config_hash="c0ffee") as other:
        assert other.own_tasks() == {"one": {"t0", "t1"}, "two": {"t0", "t1"}, "three": {"t2"}}
        assert other.totals(names) == {"one": 2, "two": 2, "three": 1, "all": 3}
        assert other.totals(names, "measure") == {"one": 1, "two": 1, "three": 1, "all": 2}


def test_the_second_commit_changes_nothing(store: Store) -> None:
    """A record is committed once per (pipeline, task, attempt); another attempt is another record."""
    assert store.commit("spec", record(value="first"))
    assert not store.commit("spec", record(value="second", rounds=()))
    (entry,) = store.entries()
    assert entry.record == record(value="first")
    later = TaskRecord(task="t", attempt=1, outcome=Outcome(status="failed"))
    assert store.commit("spec", later)
    assert store.committed() == {("spec", "t", 0), ("spec", "t", 1)}


def test_what_a_metric_said_of_an_attempt_before_the_last_is_not_its_present_word(store: Store) -> None:
    """A retry that is killed before its end leaves the failed attempt's score with its name."""
    store.commit("spec", TaskRecord(task="t", outcome=Outcome(status="failed")))
    store.add_scores({("spec", "t", 0, "digest"): Score(0.0)}, "right")
    assert store.named_scores() == {("spec", "t", "right"): 0.0}
    store.commit("spec", TaskRecord(task="t", attempt=1, outcome=Outcome(status="accepted", value=1)))
    assert store.named_scores() == {}


def test_many_threads_commit_one_record(store: Store) -> None:
    """Whoever comes first wins; the others are told that it was there."""
    won = []
    threads = [
        threading.Thread(target=lambda n=n: won.append(store.commit("spec", record(value=n))))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]
    assert len(list(store.entries())) == 1


def test_a_commit_is_all_or_nothing(store: Store) -> None:
    """A record whose last round cannot be written leaves no trace at all."""
    broken = record(rounds=(*ROUNDS, Round(index=2, items=(b"bytes",))))
    with pytest.raises(ContractError, match=r"round 2, items\[0\]: a value of type builtins\.bytes"):
        store.commit("spec", broken)
    doubled = record(rounds=(*ROUNDS, ROUNDS[0]))
    with pytest.raises(StoreError):
        store.commit("spec", doubled)
    assert store.committed() == set()
    assert store.rounds("spec", "t", 0) == ()


def test_durable_rounds_are_what_a_restart_goes_on_from(store: Store, url: str, run_id: str) -> None:
    """Rounds committed one by one are there for another process; the final commit replaces them."""
    store.commit_round("spec", "t", 0, ROUNDS[0], Texts(("A",)))
    store.commit_round("spec", "t", 0, ROUNDS[0])
    store.commit_round("spec", "t", 0, ROUNDS[1])
    with Store.open(url, run_id, config_hash="c0ffee") as other:
        assert other.rounds("spec", "t", 0) == ROUNDS
        assert other.words("spec", "t", 0) == (Texts(("A",)), None)
        assert other.open_tasks() == {("spec", "t", 0)}
        assert other.commit("spec", record())
        assert other.open_tasks() == set()
    assert [entry.record for entry in store.entries()] == [record()]


def test_a_missing_round_is_an_error(store: Store) -> None:
    """A gap in the rounds is never restored as if it were none."""
    store.commit_round("spec", "t", 0, ROUNDS[1])
    with pytest.raises(StoreError, match="round 0 is missing"):
        store.rounds("spec", "t", 0)


def question(round: int = 2) -> Question:
    return Question(
        pipeline="spec",
        task="t",
        round=round,
        group="g",
        input={"prompt": "T"},
        candidate=Candidate(["x"], 0.5),
    )


def test_a_waiting_task_has_its_record_so_far_and_its_question(store: Store) -> None:
    """Parking twice asks once; the task counts as waiting, and is still to be taken up."""
    store.add_tasks([Task(id="t")])
    store.park("spec", waiting(), question(), memory=2)
    store.park("spec", waiting(), question())
    (found,) = store.questions("pending")
    assert found.asked
    assert msgspec.structs.replace(found, asked="") == question()
    assert store.rounds("spec", "t", 0) == ROUNDS
    assert store.committed() == set()
    assert store.open_tasks() == {("spec", "t", 0)}
    assert store.counts() == {("measure", "spec", "waiting"): 1}
    (entry,) = store.entries()
    assert (entry.record, entry.memory) == (waiting(), 2)
    (ending,) = store.endings()
    assert ending.outcome == waiting().outcome


def test_the_record_of_an_answered_task_takes_the_place_of_the_one_that_waited(store: Store) -> None:
    """It counts once: the rounds are the later ones, what metrics said of the waiting task is forgotten, and nothing
    parks a task that has ended."""
    store.add_tasks([Task(id="t")])
    store.park("spec", waiting(), question())
    store.add_scores({("spec", "t", 0, "m"): Score(0.0)}, "exact")
    store.name_scores({("spec", "t", 0, "m"): "exact"})
    assert store.named_scores() == {("spec", "t", "exact"): 0.0}
    store.answer(question(), "edit", "y")
    longer = record(rounds=(*ROUNDS, Round(index=2, source="person")))
    assert store.commit("spec", longer)
    assert store.scores() == {}
    store.add_scores({("spec", "t", 0, "m"): Score(1.0)}, "exact")
    assert not store.commit("spec", record())
    store.park("spec", waiting(), question(3))
    (entry,) = store.entries()
    assert entry.record == longer
    assert store.counts() == {("measure", "spec", "accepted"): 1}
    assert store.scores() == {("spec", "t", 0, "m"): Score(1.0)}
    assert store.open_tasks() == set()


def test_a_waiting_task_is_read_as_it_stood(store: Store) -> None:
    """Rounds that were made since, by a run that was killed, come with the next record; inner tasks are in it."""
    store.add_tasks([Task(id="t")])
    inner = msgspec.structs.replace(waiting("t.0"), rounds=())
    store.park("spec", waiting(), msgspec.structs.replace(question(), inner=(inner,)))
    (asked,) = store.questions("pending")
    store.answer(asked, "edit", "y")
    store.commit_round("spec", "t", 0, Round(index=2, source="person"))
    (entry,) = store.entries()
    assert entry.record == msgspec.structs.replace(waiting(), inner=(inner,))
    assert len(entry.texts) == 2
    assert len(store.rounds("spec", "t", 0)) == 3


def test_the_first_answer_stands(store: Store) -> None:
    """An answer is stored once, and used once the record is committed."""
    store.park("spec", waiting(), question())
    assert store.answer(question(), "edit", {"code": "y"}, "mine")
    assert not store.answer(question(), "reject")
    (answered,) = store.questions("answered")
    assert (answered.answer, answered.value, answered.note) == ("edit", {"code": "y"}, "mine")
    # A crash after the answer parks the same question again: the answer stays.
    store.park("spec", waiting(), question())
    assert len(store.questions("answered")) == 1
    store.commit("spec", record())
    assert [found.state for found in store.questions()] == ["used"]


@pytest.mark.parametrize("faster", [False, True])
def test_an_answer_whose_acknowledgement_is_lost_is_sent_again(
    store: Store, url: str, run_id: str, monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    """Who gave it hears that it stands, also when the run has taken it up by then; not when another's was first."""
    store.park("spec", waiting(), question())
    transaction, times = Store._transaction, []

    @contextmanager
    def cut(self: Store, *, writing: bool = True) -> Iterator[Any]:
        times.append(writing)
        if faster and len(times) == 1:
            monkeypatch.undo()
            with Store.open(url, run_id, config_hash="") as other:
                assert other.answer(question(), "accept", holder="her")
            raise ConnectionLost("the connection ended before the commit")
        with transaction(self, writing=writing) as connection:
            yield connection
        if len(times) == 1:
            monkeypatch.undo()
            store.commit("spec", record())
            raise ConnectionLost("the connection ended after the commit")

    monkeypatch.setattr(Store, "_transaction", cut)
    assert store.answer(question(), "accept", holder="him") is not faster
    assert len(times) == 1
    (found,) = store.questions()
    assert (found.answer, found.holder) == ("accept", "her" if faster else "him")
    assert not store.answer(question(), "accept", holder="him")


def test_a_round_is_kept_under_its_attempt(store: Store) -> None:
    """The next attempt at a task goes on from its own rounds, beside those of the one that failed."""
    store.commit_round("spec", "t", 0, ROUNDS[0])
    first = Round(index=0, source="big")
    store.commit_round("spec", "t", 1, first)
    assert store.rounds("spec", "t", 0) == ROUNDS[:1]
    assert store.rounds("spec", "t", 1) == (first,)


def test_a_later_question_uses_the_earlier_answer(store: Store) -> None:
    """A task that asks again after an edit waits with its newest question alone."""
    store.park("spec", waiting(), question())
    store.answer(question(), "edit", "y")
    store.park("spec", waiting(rounds=(*ROUNDS, Round(index=2, source="person"))), question(3))
    assert [(found.round, found.state) for found in store.questions()] == [(2, "used"), (3, "pending")]
    assert len(store.rounds("spec", "t", 0)) == 3


def test_a_claim_keeps_others_out_until_it_ends(store: Store) -> None:
    """Who holds a question renews it and answers it; another may claim it when the lease is over or let go."""
    store.park("spec", waiting(), question())
    (asked,) = store.questions("pending")
    assert store.claim(asked, "ann", 60)
    assert store.claim(asked, "ann", 60)
    assert not store.claim(asked, "bob", 60)
    assert not store.answer(asked, "reject", holder="bob")
    assert not store.answer(asked, "reject")
    assert [store.questions(free_for=who) == () for who in ("ann", "bob")] == [False, True]
    assert store.question_counts() == {"pending": 1, "answered": 0, "used": 0, "held": 1}
    assert store.claim(asked, "ann", 0)
    assert store.claim(asked, "bob", 60)
    assert not store.answer(asked, "accept", holder="ann")
    assert store.answer(asked, "reject", holder="bob")
    assert not store.claim(asked, "bob", 60)
    (answered,) = store.questions()
    assert (answered.answer, answered.holder, answered.held) == ("reject", "bob", False)
    assert store.question_counts() == {"pending": 0, "answered": 1, "used": 0, "held": 0}


def test_an_answer_to_a_question_that_was_replaced_is_refused(store: Store) -> None:
    """Inner tasks of one round ask under one key: who was shown the first of them does not answer the next one."""
    inner = msgspec.structs.replace(record("t.0"), rounds=())
    store.park("spec", waiting(), msgspec.structs.replace(question(), inner=(inner,)))
    (shown,) = store.questions("pending")
    inners = (inner, msgspec.structs.replace(inner, task="t.1"))
    other = msgspec.structs.replace(question(), inner=inners, candidate=Candidate("another"))
    store.park("spec", waiting(), other)
    assert not store.claim(shown, "ann", 60)
    assert not store.answer(shown, "accept")
    assert store.question(shown) is None
    (now,) = store.questions("pending")
    assert now.candidate == Candidate("another")
    assert store.question(now) == now


def test_an_answer_is_kept_when_another_question_takes_its_place(store: Store) -> None:
    """What was said of the first inner task stays readable after the second has asked, and the third."""
    inner = msgspec.structs.replace(record("t.0"), rounds=())
    asked = [
        msgspec.structs.replace(
            question(), asking=f"t.{i}", inner=(msgspec.structs.replace(inner, task=f"t.{i}"),)
        )
        for i in range(3)
    ]
    for each in asked:
        store.park("spec", waiting(), each)
        (now,) = store.questions("pending")
        assert store.answer(now, "reject", None, each.asking, holder="ann")
    (last,) = store.questions()
    said = [(each.asking, each.note, each.holder) for each in (*last.before, last)]
    assert said == [(f"t.{i}", f"t.{i}", "ann") for i in range(3)]


def test_an_inner_question_that_is_asked_twice_stays_who_claimed_and_answered_it(store: Store) -> None:
    """A write whose acknowledgement was lost is made again: the claim stays, and so does the answer."""
    inner = msgspec.structs.replace(record("t.0"), rounds=())
    asked = msgspec.structs.replace(question(), asking="t.0", inner=(inner,))
    store.park("spec", record(), asked)
    (first,) = store.questions("pending")
    assert store.claim(first, "ann", 60)
    store.park("spec", record(), asked)
    assert store.questions("pending") == (store.question(first),)
    assert not store.claim(first, "bob", 60)
    assert store.answer(first, "edit", "y", holder="ann")
    store.park("spec", record(), asked)
    (answered,) = store.questions()
    assert (answered.state, answered.answer, answered.value, answered.holder) == (
        "answered",
        "edit",
        "y",
        "ann",
    )
    assert answered.asked == first.asked


def test_questions_come_oldest_first(store: Store) -> None:
    """Whatever their tasks are called: who has waited longest is asked about first."""
    for name in ("z", "a", "m"):
        store.park("spec", waiting(name), msgspec.structs.replace(question(), task=name))
    assert [found.task for found in store.questions("pending")] == ["z", "a", "m"]


def test_a_prediction_is_never_rewritten(store: Store) -> None:
    """What was predicted before the measuring run stands; an interval may be open."""
    first = StoredPrediction(pipeline="spec", group="", kind="speedup", value=1.5, low=0.0, high=None)
    store.predict([first])
    store.predict([StoredPrediction(pipeline="spec", group="", kind="speedup", value=9.0, low=9.0, high=9.0)])
    assert store.predictions() == (first,)


def test_tasks_come_back_and_a_changed_one_is_refused(store: Store) -> None:
    """A resume may bring the same tasks, and no others under their ids."""
    store.add_tasks(TASKS)
    store.add_tasks(TASKS)
    assert [(task.id, task.input, task.group) for task in store.tasks()] == [
        (task.id, task.input, task.group) for task in TASKS
    ]
    for changed, words in (
        (Task(id="a", input={"prompt": "other"}, group="g"), "its input changed"),
        (Task(id="a", input={"prompt": "A"}, group="h"), "its group changed"),
        (Task(id="a", input={}, group="h"), "its input and group changed"),
    ):
        with pytest.raises(StoreError, match=rf"task 'a'.*{words}.*--fresh"):
            store.add_tasks([changed])
    with pytest.raises(StoreError, match=r"task 't'.*its phase changed"):
        store.add_tasks(TASKS, "predict")
    assert store.tasks("predict") == ()


def test_runs_share_a_database_and_nothing_else(store: Store, url: str, run_id: str) -> None:
    """Two runs in one database do not see each other's records."""
    store.commit("spec", record())
    with Store.open(url, run_id + "b", config_hash="other") as other:
        assert other.committed() == set()
        assert other.commit("spec", record(value="other"))
    assert [entry.record.outcome.value for entry in store.entries()] == ["done"]


def test_another_config_is_refused(store: Store, url: str, run_id: str) -> None:
    """Records of one config are never continued under another."""
    with pytest.raises(StoreError, match=r"another config.*--out.*--fresh"):
        Store.open(url, run_id, config_hash="beef")


@pytest.mark.parametrize(("by", "words"), [(1, "newer"), (-1, "older")])
def test_another_format_is_refused(url: str, run_id: str, store: Store, by: int, words: str) -> None:
    """A store of another version is named as such and not touched."""

    def write(version: int) -> None:
        with store._transaction() as connection:
            connection.exec_driver_sql(
                f"UPDATE draftverify_meta SET value = '{version}' WHERE name = 'schema_version'"
            )

    write(SCHEMA_VERSION + by)
    try:
        with pytest.raises(
            StoreError, match=rf"{words} draftverify.*Nothing was changed.*run\.json names it"
        ):
            Store.open(url, run_id, config_hash="c0ffee")
    finally:
        write(SCHEMA_VERSION)


def test_no_database_is_a_store_error(tmp_path: Path) -> None:
    """Reading what is not there says so, and makes nothing."""
    with pytest.raises(StoreError, match="no database"):
        Store.open(sqlite_url(tmp_path / "none.db"), "run", config_hash="", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_text_file_is_no_database(tmp_path: Path) -> None:
    """Another file under the name is refused and left as it was."""
    path = tmp_path / "records.db"
    path.write_text("not a database, " * 100)
    with pytest.raises(
        StoreError, match=r"records\.db: not a database, or a damaged one.*choose another --out"
    ):
        Store.open(sqlite_url(path), "run", config_hash="x")
    assert path.read_text() == "not a database, " * 100


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    """Damage in the middle of the file is found when it is opened, before anything is written."""
    path = tmp_path / "records.db"
    with Store.open(sqlite_url(path), "run", config_hash="x") as store:
        for number in range(200):
            store.commit("spec", record(str(number)))
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    data = bytearray(path.read_bytes())
    data[4096 * 10 : 4096 * 20] = os.urandom(4096 * 10)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(sqlite_url(path), "run", config_hash="x")


def test_a_wrong_url_says_what_to_write(tmp_path: Path) -> None:
    """No URL, an unsupported database, a server that is not there: StoreErrors without the password."""
    with pytest.raises(StoreError, match="no database URL"):
        Store.open("nonsense", "run", config_hash="x")
    with pytest.raises(StoreError, match=r"supported|driver"):
        Store.open("mysql://u:hunter2@host/db", "run", config_hash="x")
    with pytest.raises(StoreError) as error:
        Store.open(f"postgresql+psycopg://u:hunter2@/db?host={tmp_path}", "run", config_hash="x")
    assert "hunter2" not in str(error.value)


def test_a_killed_writer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """A process killed while it commits leaves whole records, each with all its rounds."""
    path = tmp_path / "records.db"
    code = (
        "import sys\n"
        "from draftverify.bench.records import Store\n"
        "from tests.records.samples import record\n"
        f"store = Store.open({sqlite_url(path)!r}, 'run', config_hash='x')\n"
        "for n in range(100000):\n"
        "    store.commit('spec', record(str(n)))\n"
        "    print(n, flush=True)\n"
    )
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(20)]
    process.kill()
    told += process.stdout.readlines()
    process.wait()
    with Store.open(sqlite_url(path), "run", config_hash="x") as store:
        entries = list(store.entries())
    # The last line may be cut off, and the last commit may not have been told.
    assert len(told) - 1 <= len(entries) <= len(told) + 1
    assert all(entry.record == record(entry.record.task) for entry in entries)
