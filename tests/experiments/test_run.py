"""A whole run: committed once, taken up by the same call, predicted first, answered questions taken up."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from draftverify import Task, generator, verifier
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import Store, load_run
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.bench.runner.run import RunResult, run
from draftverify.engine.events import Event, RoundDone, TaskDone
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, StoreError
from draftverify.rules import All, Limit
from draftverify.values import TaskRecord
from tests.experiments.run_parts import LENGTH, expected
from tests.experiments.runs import load, results, write


class Watch:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, dict[str, tuple[int, int]]]] = []
        self.ended: list[tuple[str, str]] = []
        self.events: list[Event] = []

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        self.phases.append((phase, dict(totals)))

    def event(self, event: Event) -> None:
        self.events.append(event)

    def done(self, pipeline: str, record: TaskRecord) -> None:
        self.ended.append((pipeline, record.task))


def answer(task: str) -> list[int]:
    return [expected(task, position) for position in range(LENGTH)]


def test_a_run_commits_every_unit_once(tmp_path: Path) -> None:
    """Each task of each pipeline ends in one record with its rounds; values are right and identical."""
    watch = Watch()
    done = run(load(tmp_path), out=tmp_path / "run", watcher=watch)
    assert (done.ran, done.failed, done.waiting, done.resumed) == (12, 0, 0, False)
    found = results(tmp_path / "run")
    assert len(found) == 12
    assert all(record.outcome.value == answer(task) for (_, task), record in found.items())
    assert all(record.outcome.rounds == len(record.rounds) for record in found.values())
    identical = done.summary.pipelines[1].identical
    assert identical is not None
    assert (identical.same, identical.of) == (6, 6)
    assert watch.phases == [("measure", {"plain": (0, 6), "spec": (0, 6)})]
    assert sum(isinstance(event, TaskDone) for event in watch.events) == 12
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "run.json", "config.json", "records.db", "summary.json", "report.html",
    }  # fmt: skip


def test_pipelines_take_turns(tmp_path: Path) -> None:
    """AB, BA, AB, …: neither pipeline always runs on the warmer machine."""
    watch = Watch()
    run(load(tmp_path, count=3), out=tmp_path / "run", watcher=watch)
    assert [name for name, _ in watch.ended] == ["plain", "spec", "spec", "plain", "plain", "spec"]


def test_the_same_call_on_a_finished_run_does_nothing_again(tmp_path: Path) -> None:
    """No unit runs twice; the summary is the same but for what only a live process knows."""
    first = run(load(tmp_path), out=tmp_path / "run")
    before = results(tmp_path / "run")
    again = run(load(tmp_path), out=tmp_path / "run")
    assert (again.ran, again.resumed) == (0, True)
    assert again.summary == first.summary
    assert results(tmp_path / "run") == before


def test_another_config_is_refused_by_what_differs(tmp_path: Path) -> None:
    """The error names the dotted path and both values, and the two ways on; nothing is touched."""
    run(load(tmp_path), out=tmp_path / "run")
    with pytest.raises(
        StoreError, match=r"pipelines\.spec\.generator\.chance was 0\.6, is 0\.7.*--out.*--fresh"
    ):
        run(load(tmp_path, chance=0.7), out=tmp_path / "run")
    assert len(results(tmp_path / "run")) == 12


def test_another_executor_may_go_on(tmp_path: Path) -> None:
    """Executor and durability change no result, so they may differ between two starts."""
    run(load(tmp_path), out=tmp_path / "run")
    again = run(load(tmp_path, executor="{use: thread, workers: 2}", durable="round"), out=tmp_path / "run")
    assert again.ran == 0


def test_fresh_moves_the_old_run_aside(tmp_path: Path) -> None:
    """Nothing is deleted: the old run can still be read."""
    run(load(tmp_path), out=tmp_path / "run")
    done = run(load(tmp_path, chance=0.9), out=tmp_path / "run", fresh=True)
    assert (done.ran, done.resumed) == (12, False)
    assert len(results(tmp_path / "run.old1")) == 12
    assert len(results(tmp_path / "run")) == 12


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    """A directory with other files in it is no place for a run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").touch()
    with pytest.raises(StoreError, match=r"not a run directory \(thesis.tex is in it"):
        run(load(tmp_path), out=tmp_path / "run")


def test_two_drivers_of_one_directory(tmp_path: Path) -> None:
    """The second one is refused while the first one runs, and may come after it."""

    class Second(Watch):
        def done(self, pipeline: str, record: TaskRecord) -> None:
            if not self.ended:
                with pytest.raises(StoreError, match="this process drives this run"):
                    run(load(tmp_path), out=tmp_path / "run")
            super().done(pipeline, record)

    assert run(load(tmp_path), out=tmp_path / "run", watcher=Second()).ran == 12
    assert run(load(tmp_path), out=tmp_path / "run").ran == 0


def test_a_pipeline_that_cannot_be_opened_ends_the_run_before_any_task(tmp_path: Path) -> None:
    """The message has the config's line and the part's path, no task of another pipeline was run, and no directory is
    left in which the mended config would be refused; one that was begun stays as it is."""
    config = write(tmp_path)
    text = config.read_text().replace("{use: run_parts.Guess, chance", "{use: run_parts.Unfitting, chance")
    config.write_text(text)
    line = 1 + text.splitlines().index("  spec:")
    with pytest.raises(
        ConfigError, match=rf":{line}: pipelines\.spec\.generator\.own_cache: its type is another one"
    ):
        run(load_experiment(config), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(load(tmp_path), out=tmp_path / "run")
    before = results(tmp_path / "run")
    config.write_text(text)
    with pytest.raises(ConfigError, match="own_cache"):
        run(load_experiment(config), out=tmp_path / "run", fresh=True)
    assert results(tmp_path / "run") == before


def test_what_cannot_be_opened_ends_a_resumed_run_before_any_task_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped goes on with no task of the other pipeline; a finished one opens nothing."""

    class Stopping(Watch):
        def done(self, pipeline: str, record: TaskRecord) -> None:
            super().done(pipeline, record)
            if len(self.ended) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(load(tmp_path), out=tmp_path / "run", watcher=Stopping())
    before = results(tmp_path / "run")

    def refuse(self: Pipeline, opened: set[int] | None = None) -> None:
        if self.name == "spec":
            raise ConfigError("the weights are gone")

    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "open", refuse)
        with pytest.raises(ConfigError, match="the weights are gone"):
            run(load(tmp_path), out=tmp_path / "run")
    assert results(tmp_path / "run") == before
    run(load(tmp_path), out=tmp_path / "run")
    monkeypatch.setattr(Pipeline, "open", refuse)
    assert run(load(tmp_path), out=tmp_path / "run").ran == 0


def test_failed_tasks_are_recorded_and_counted(tmp_path: Path) -> None:
    """A part that raises fails its task, not the run; the record says how, and a resume does not try again."""
    check = ", broken: [t2]"
    done = run(load(tmp_path, check=check, policy="[]"), out=tmp_path / "run")
    assert done.failed == 2
    record = results(tmp_path / "run")["spec", "t2"]
    assert record.outcome.failure is not None
    assert "the checker is broken" in record.outcome.failure.message
    identical = done.summary.pipelines[1].identical
    assert identical is not None
    assert (identical.same, identical.of) == (5, 6)
    assert "failed" in identical.divergences[0].why
    assert run(load(tmp_path, check=check, policy="[]"), out=tmp_path / "run").ran == 0


def test_predictions_are_written_before_the_measuring_run(tmp_path: Path) -> None:
    """Tasks that predict are the first of each group, are in no table, and predict each group and the whole."""
    watch = Watch()

    class Stop(Watch):
        def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
            super().started(phase, totals)
            if phase == "measure":
                raise KeyboardInterrupt

    config = {"count": 12, "more": "predict: {limit: 2}"}
    with pytest.raises(KeyboardInterrupt):
        run(load(tmp_path, **config), out=tmp_path / "run", watcher=Stop())
    with load_run(tmp_path / "run") as halfway:
        predicted = halfway.predictions
        assert list(halfway) == []
    assert [(each.pipeline, each.group) for each in predicted] == [
        ("spec", ""),
        ("spec", "g0"),
        ("spec", "g1"),
    ]
    done = run(load(tmp_path, **config), out=tmp_path / "run", watcher=watch)
    assert watch.phases == [
        ("predict", {"plain": (4, 4), "spec": (4, 4)}),
        ("measure", {"plain": (0, 8), "spec": (0, 8)}),
    ]
    with load_run(tmp_path / "run") as finished:
        assert finished.predictions == predicted
        assert {record.task for record in finished} == {f"t{i}" for i in range(4, 12)}
    assert done.summary.tasks == 8
    rows = done.summary.pipelines[1].rows
    assert [row.group for row in rows] == ["g0", "g1", ""]
    assert all(row.predicted is not None and row.predicted.value is not None for row in rows)
    assert done.summary.coverage is not None
    assert done.summary.coverage.trials == 2


def test_predictions_must_leave_something_to_measure(tmp_path: Path) -> None:
    """Predicting from every task is a mistake of the config, and leaves no directory behind to be in the way."""
    with pytest.raises(ConfigError, match="leaves none to measure"):
        run(load(tmp_path, count=4, more="predict: {limit: 2}"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_changed_tasks_file_is_refused(tmp_path: Path) -> None:
    """A resume under the same config but with another input under an id would mix two experiments."""
    tasks = tmp_path / "tasks.jsonl"
    config = load(tmp_path)
    text = config_text(tmp_path).replace(
        "{use: run_parts.Numbered, count: 6}", "{use: jsonl, path: tasks.jsonl}"
    )
    (tmp_path / "experiment.yaml").write_text(text)
    tasks.write_text('{"n": 1}\n{"n": 2}\n')
    from draftverify.bench.config.experiment import load_experiment

    assert config.name == "scripted"
    run(load_experiment(tmp_path / "experiment.yaml"), out=tmp_path / "run")
    tasks.write_text('{"n": 1}\n{"n": 3}\n')
    with pytest.raises(StoreError, match="task '2' is not the one that this run began with"):
        run(load_experiment(tmp_path / "experiment.yaml"), out=tmp_path / "run")


def config_text(path: Path) -> str:
    return (path / "experiment.yaml").read_text()


ESCALATING = {"policy": "[{do: escalate}]", "check": ", splice: false", "count": 4, "chance": 0.5}


def waiting_run(tmp_path: Path, **more: str) -> RunResult:
    return run(load(tmp_path, **{**ESCALATING, **more}), out=tmp_path / "run")


@pytest.mark.parametrize("durable", ["task", "round"])
def test_a_waiting_task_goes_on_with_its_answer(tmp_path: Path, durable: str) -> None:
    """It has rounds, a question and no record; the same call restores it with its answer, and decides nothing again."""
    first = waiting_run(tmp_path, durable=durable)
    assert first.waiting > 0
    with load_run(tmp_path / "run") as records:
        (question, *_) = records.store.questions("pending")
        assert question.candidate is not None
        assert question.text == f"<{question.candidate.value}>"
        assert question.trouble == ("reject",)
        before = records.store.rounds("spec", question.task, 0)
        assert len(before) == question.round
        assert ("spec", question.task, 0) not in records.store.committed()
        right = expected(question.task, sum(len(round.decision.emitted) for round in before))
        assert records.store.answer(question, "edit", right, "looked it up")
    assert waiting_run(tmp_path, durable=durable).ran == 1
    with load_run(tmp_path / "run") as records:
        after = records.store.rounds("spec", question.task, 0)
        assert after[: len(before)] == before
        assert after[len(before)].source == "person"
        assert after[len(before)].decision.emitted == (right,)


def test_an_answer_is_used_once(tmp_path: Path) -> None:
    """Killed after the answer became a round, the task goes on from that round, and asks its next question anew."""

    class Stop(Watch):
        def event(self, event: Event) -> None:
            if isinstance(event, RoundDone) and event.round.source == "person":
                raise KeyboardInterrupt

    config = load(tmp_path, **{**ESCALATING, "chance": 0.0, "count": 1, "durable": "round"})
    run(config, out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        records.store.answer(records.store.questions("pending")[0], "edit", expected("t0", 0))
    with pytest.raises(KeyboardInterrupt):
        run(config, out=tmp_path / "run", watcher=Stop())
    assert run(config, out=tmp_path / "run").waiting == 1
    with load_run(tmp_path / "run") as records:
        (question,) = records.store.questions("pending")
        rounds = records.store.rounds("spec", "t0", 0)
    assert [round.source for round in rounds] == ["generator", "person", "generator"]
    assert question.round == 3


def test_a_rejected_task_ends(tmp_path: Path) -> None:
    """A person's reject commits the task as exhausted, with the reason; unanswered ones go on waiting."""
    first = waiting_run(tmp_path)
    with load_run(tmp_path / "run") as records:
        question = records.store.questions("pending")[0]
        records.store.answer(question, "reject", note="no good")
    second = waiting_run(tmp_path)
    assert second.waiting == first.waiting - 1
    record = results(tmp_path / "run")["spec", question.task]
    assert (record.outcome.status, record.outcome.reason) == ("refused", "no good")


def test_answering_until_nothing_waits_gives_right_values(tmp_path: Path) -> None:
    """Many questions of one task, one after the other, each answered by an edit: every value comes out right."""
    for _ in range(40):
        if not waiting_run(tmp_path).waiting:
            break
        with load_run(tmp_path / "run") as records:
            for question in records.store.questions("pending"):
                rounds = records.store.rounds(question.pipeline, question.task, 0)
                place = sum(len(round.decision.emitted) for round in rounds)
                records.store.answer(question, "edit", expected(question.task, place))
    found = results(tmp_path / "run")
    assert len(found) == 8
    assert all(record.outcome.value == answer(task) for (_, task), record in found.items())


@pytest.mark.parametrize(
    ("executor", "epoch", "seen"),
    [
        ("{use: serial}", "", [0, 0, 0, 0, 0]),
        ("{use: serial}", "memory: {every: 2}", [0, 0, 2, 2, 4]),
        ("{use: batch, size: 3}", "memory: {every: 2}", [0, 0, 2, 2, 4]),
        ("{use: thread, workers: 4}", "memory: {every: 2}", [0, 0, 2, 2, 4]),
        ("{use: process, workers: 2}", "memory: {every: 2}", [0, 0, 2, 2, 4]),
        pytest.param("{use: process, workers: 2}", "", [0, 0, 0, 0, 0], marks=pytest.mark.exhaustive),
    ],
)
def test_memory_grows_by_epochs_in_task_order(
    tmp_path: Path, executor: str, epoch: str, seen: list[int]
) -> None:
    """A task sees the records of all earlier epochs, under every executor; without epochs nobody remembers anything."""
    log = tmp_path / "log"
    run(load(tmp_path, count=5, guess=f", log: {log}", executor=executor, more=epoch), out=tmp_path / "run")
    lines = [line.split() for line in log.read_text().splitlines()]
    assert {(task, int(records)) for _, task, _, records in lines} == {
        (f"t{i}", n) for i, n in enumerate(seen)
    }
    with load_run(tmp_path / "run") as records:
        versions = {entry.record.task: entry.memory for entry in records.entries(pipeline="spec")}
    assert versions == {f"t{i}": n // 2 for i, n in enumerate(seen)}


def test_a_resumed_run_remembers_the_same(tmp_path: Path) -> None:
    """Stopped inside an epoch and taken up, every task sees the memory that it would have seen."""

    class Stop(Watch):
        def done(self, pipeline: str, record: TaskRecord) -> None:
            super().done(pipeline, record)
            if len(self.ended) == 5:
                raise KeyboardInterrupt

    log = tmp_path / "log"
    config = load(tmp_path, count=5, guess=f", log: {log}", more="memory: {every: 2}")
    with pytest.raises(KeyboardInterrupt):
        run(config, out=tmp_path / "run", watcher=Stop())
    run(config, out=tmp_path / "run")
    lines = [line.split() for line in log.read_text().splitlines()]
    assert {(task, int(records)) for _, task, _, records in lines} == {
        ("t0", 0), ("t1", 0), ("t2", 2), ("t3", 2), ("t4", 4),
    }  # fmt: skip


def test_a_directory_with_an_unreadable_record_opens_and_names_the_task(tmp_path: Path) -> None:
    """What an earlier version let in ends nothing: that task is shown as failed, the others are there, and the same
    call goes on."""
    config = load(tmp_path, count=4)
    run(config, out=tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "records.db")) as database, database:
        database.execute(
            "UPDATE draftverify_rounds SET data = replace(data, '{', '{\"cost\":Infinity,') WHERE task = 't1'"
        )
        database.execute("UPDATE draftverify_records SET outcome = '{\"status\":1}' WHERE task = 't2'")
    with load_run(tmp_path / "run") as records:
        statuses = {record.task: record.outcome.status for record in records.records("spec")}
        said = {record.task: record.outcome.reason for record in records.records("spec")}
    assert statuses == {"t0": "accepted", "t1": "failed", "t2": "failed", "t3": "accepted"}
    assert "task 't1'" in said["t1"]
    assert "task 't2'" in said["t2"]
    again = run(config, out=tmp_path / "run")
    assert (again.ran, again.failed) == (0, 4)


def test_config_and_versions_are_in_the_directory(tmp_path: Path) -> None:
    """run.json says with what the run was made; the config is there as resolved."""
    run(load(tmp_path), out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        assert records.config["pipelines"]["spec"]["block"] == 4
        versions = records.about.starts[0].versions
    assert {"python", "draftverify", "platform", "processor", "numpy", "cores"} <= set(versions)


def test_a_report_that_cannot_be_made_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends as it would have, with its records and its figures; a full disk is no other matter."""

    def broken(*_: object, **__: object) -> str:
        raise KeyError("a defect of the page")

    monkeypatch.setattr("draftverify.view.page.page_html", broken)
    result = run(load(tmp_path, count=2), out=tmp_path / "run")
    assert (result.failed, result.ran) == (0, 4)
    assert "a defect of the page" in caplog.text
    assert "draftverify --traceback view" in caplog.text
    assert (tmp_path / "run" / "summary.json").exists()
    assert not (tmp_path / "run" / "report.html").exists()


def test_the_rounds_of_a_retry_are_kept_as_its_own() -> None:
    """A second attempt that is stopped goes on from what it has come to, and not from the one that failed."""
    sent: list[tuple[int, int]] = []
    parts = generator(lambda context, n: [context.round]), verifier(lambda context, item: True)
    bench = Bench({"only": Pipeline(*parts, All(), done=Limit(3))})
    bench.on_round = lambda pipeline, task, attempt, round, texts: sent.append((attempt, round.index))
    bench.perform(Unit(pipeline="only", task=Task(id="t"), attempt=1))
    assert sent == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("executor", ["{use: serial}", "{use: process, workers: 1}"])
def test_a_retry_that_is_stopped_goes_on_from_its_own_rounds(tmp_path: Path, executor: str) -> None:
    """With `durable: round`: what the second attempt had decided is not drafted again."""
    parts = tmp_path / "twice.py"
    parts.write_text(TWICE.format(log=str(tmp_path / "log")))
    file = tmp_path / "twice.yaml"
    file.write_text(
        f"name: twice\nparts: [{parts}]\ntasks: {{use: twice.One}}\npipelines:\n  only:\n"
        "    generator: {use: twice.Twice}\n    verifier: {use: twice.Twice}\n    rule: {use: all}\n"
        "    done: {use: limit, items: 3}\n"
        f"durable: round\nexecutor: {executor}\n"
    )
    out, log = tmp_path / "run", tmp_path / "log"
    assert run(load_experiment(file), out=out).failed == 1
    log.write_text("")

    class Stopping(Watch):
        def done(self, pipeline: str, record: TaskRecord) -> None:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "commit_all", lambda store, entries: {})  # the kill comes before it
        with pytest.raises(KeyboardInterrupt):
            run(load_experiment(file), out=out, retry_errors=True, watcher=Stopping())
    assert log.read_text().split() == ["1/0", "1/1", "1/2"]
    assert run(load_experiment(file), out=out, retry_errors=True).failed == 0
    assert log.read_text().split() == ["1/0", "1/1", "1/2"]


TWICE = """
from draftverify import PASS, Proposal, Task, Verification

class One:
    def load(self):
        return [Task(id="t")]

class Twice:
    def propose(self, context, n):
        with open({log!r}, "a") as log:
            print(f"{{context.attempt}}/{{context.round}}", file=log)
        if not context.attempt and context.round == 1:
            raise OSError("down")
        return Proposal.alternatives((context.round,))

    def verify(self, context, proposal):
        return Verification(checks=(PASS,))
"""
