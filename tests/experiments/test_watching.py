"""A run's monitors: where they alarm, what an alarm does, what is told of it, and that a resume changes nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import (
    Answer,
    Outcome,
    Pipeline,
    PipelineError,
    Task,
    TaskRecord,
    escalate,
    fallback,
    generator,
    retry,
    verifier,
)
from draftverify.bench import evaluate, load_experiment, run
from draftverify.bench.cli.main import main
from draftverify.bench.monitors import Monitor, MonitoredPipeline, Shares, after_alarm
from draftverify.bench.monitors.alarms import task_shares
from draftverify.bench.monitors.watching import Watch, alike, reference_of
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.work import Watcher
from draftverify.checks.combined import AllOf
from draftverify.checks.metrics import EqualAnswer
from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.rules import All, First, Limit, LongestPrefix
from draftverify.stats.block import Measured
from tests.experiments.watched_parts import Guesses, Judge, Machine, Numbers, Steps
from tests.lab.test_watch import a_round
from tests.report.runs import overview_of

PARTS = Path(__file__).with_name("watched_parts.py")

CONFIG = f"""
name: watched
parts: [{PARTS}]
tasks: {{use: watched_parts.Numbers, count: 120}}
metrics: {{right: {{use: exact}}}}
pipelines:
  own:
    generator: {{use: watched_parts.Guesses, then: 0.2, turns: 60}}
    verifier: {{use: watched_parts.Judge}}
    rule: {{use: all}}
    block: 4
    on_rejection: []
    monitor:
      reference: {{acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1}}
      labels: {{metric: right, every: 2}}
"""


def written(folder: Path, **changes: str) -> Path:
    """The config with other texts in it: of each pair the first is replaced."""
    text = CONFIG
    for old, new in (each.split(" → ") for each in changes.values()):
        assert old in text
        text = text.replace(old, new)
    (folder / "watched.yaml").write_text(text)
    return folder / "watched.yaml"


def told(out: Path, pipeline: str = "own") -> list[tuple[str, Shares, tuple[Any, ...]]]:
    """What a run's monitor was told, and said."""
    with load_run(out) as records:
        return [(each.task, each.shares, each.alarms) for each in records.watched[pipeline]]


VERIFIER = {
    "a": "Guesses, then: 0.2, turns: 60 → Guesses",
    "b": "use: watched_parts.Judge → use: watched_parts.Judge, then: 0.9, turns: 60",
}
STEPS = {
    "a": "watched_parts.Guesses → watched_parts.Steps",
    "b": "watched_parts.Judge → watched_parts.Machine",
    "c": "{use: all} → {use: longest_prefix}",
    "d": "\n      labels: {metric: right, every: 2} → \n      on_alarm: stop",
    "e": "    on_rejection: [] →     done: {use: limit, items: 4}",
}


# What is said, and where


def test_a_drifting_generator_is_named_wherever_the_run_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The run warns; its table, `show`, summary.json and report have the alarm, and the records have all of it."""
    config, out = written(tmp_path), tmp_path / "run"
    assert main(["run", str(config), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    rows = told(out)
    alarms = [alarm for _, _, each in rows for alarm in each]
    assert [task for task, _, _ in rows] == [f"t{n}" for n in range(120)]
    assert [shares.right is not None for _, shares, _ in rows] == [True, False] * 60
    assert alarms[0].rate == "acceptance"
    assert alarms[-1].part == "generator"
    assert all(int(alarm.task[1:]) >= 60 for alarm in alarms)
    said = [str(alarm) for alarm in alarms]
    assert caplog.messages == [f"own: {each}" for each in said]
    assert all(each in printed for each in said)
    assert main(["show", str(out)]) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in said)
    assert "own: monitor: acceptance 0." in shown
    pipeline = overview_of((out / "report.html").read_text())["pipelines"][0]
    assert pipeline["marks"] == said
    assert pipeline["monitor"][0].startswith("acceptance 0.")
    summary = json.loads((out / "summary.json").read_text())["pipelines"][0]
    assert summary["marks"] == said
    assert [each["rate"] for each in summary["monitor"]] == ["acceptance", "right", "true_pass", "false_pass"]
    with load_run(out) as records:
        assert all(each.written for each in records.watched["own"])


def test_a_verifier_that_became_lax_is_named(tmp_path: Path) -> None:
    """By the wrong drafts that it accepts, while the generator is what it was."""
    run(load_experiment(written(tmp_path, **VERIFIER)), out=tmp_path / "run")
    alarms = [alarm for _, _, each in told(tmp_path / "run") for alarm in each]
    assert "false_pass" in {alarm.rate for alarm in alarms}
    assert alarms[-1].part == "verifier"


def test_a_run_without_a_change_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No alarm of this seed, and what the rates were stands below the table."""
    config = written(tmp_path, a=VERIFIER["a"])
    assert main(["run", str(config), "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "alarm at" not in printed
    assert "before; right drafts 0." in printed


def test_tasks_without_truth_have_no_label(tmp_path: Path) -> None:
    """The trickle is what the metric has a say on."""
    changes = {"a": "count: 120 → count: 20, unlabelled: true", "b": ", every: 2 → "}
    run(load_experiment(written(tmp_path, **changes)), out=tmp_path / "run")
    labelled = [shares.right is not None for _, shares, _ in told(tmp_path / "run")]
    assert labelled == [True, False] * 10


# What an alarm does


def test_stop_goes_on_by_the_verifiers_own_steps(tmp_path: Path) -> None:
    """A generator that has become useless is called no more, and the answers are as right as before."""
    log = tmp_path / "log"
    changes = {**STEPS, "f": f"turns: 60 → turns: 60, log: {log}"}
    run(load_experiment(written(tmp_path, **changes)), out=tmp_path / "run")
    rows = told(tmp_path / "run")
    at = next(place for place, (_, _, alarms) in enumerate(rows) if alarms)
    assert 60 <= at < 100
    drafted = {int(line) for line in log.read_text().split()}
    assert drafted == set(range(at + 1))
    with load_run(tmp_path / "run") as records:
        found = records.records("own")
        assert "later tasks go without drafts" in records.marks["own"][0]
    assert all(record.outcome.value == [n] * 4 for n, record in enumerate(found))
    assert {len(round.items) for record in found[at + 1 :] for round in record.rounds} == {0}


def test_escalate_asks_a_person_of_every_answer(tmp_path: Path) -> None:
    """After a verifier has become lax no answer is accepted by its word; one that a person accepts is."""
    config = written(
        tmp_path,
        **VERIFIER,
        c="every: 2 → every: 2}\n      on_alarm: escalate #",
        d="count: 120 → count: 90",
        e="on_rejection: [] → on_rejection: [{do: escalate}]",
    )
    out = tmp_path / "run"
    run(load_experiment(config), out=out)
    rows = told(out)
    at = next(place for place, (_, _, alarms) in enumerate(rows) if alarms)
    with load_run(out) as records:
        waiting = {question.task for question in records.store.questions("pending")}
        accepted = {record.task for record in records.records("own") if record.outcome.status == "accepted"}
        question = next(each for each in records.store.questions("pending") if each.task == f"t{at + 1}")
        assert "passed, but the pipeline's monitor has alarmed" in question.candidate.reason
        assert "abstain" in question.trouble
        assert records.store.answer(question, "accept")
    after = {f"t{n}" for n in range(at + 1, 90)}
    assert after <= waiting
    assert not after & accepted
    before = told(out)
    with sqlite3.connect(out / "records.db") as database:  # as of a run that died before it was told of them
        database.execute("DELETE FROM draftverify_watched WHERE task IN ('t88', 't89')")
    run(load_experiment(config), out=out)
    with load_run(out) as records:
        found = {record.task: record.outcome for record in records.records("own")}
    assert found[f"t{at + 1}"].status == "accepted"
    assert told(out) == before  # it was told of that task when it began to wait


def test_tighten_asks_for_a_higher_score(tmp_path: Path) -> None:
    """Once a lax verifier passes wrong answers, none below the stricter threshold is taken, and those above it are."""
    config = written(
        tmp_path,
        **VERIFIER,
        c="every: 2 → every: 2}\n      on_alarm: tighten\n      threshold: 0.5 #",
        d="turns: 60} → turns: 60, scores: true}",
        e="{use: all} → {use: first}",
        f="on_rejection: [] → on_rejection: [{do: regenerate, times: 2}]",
    )
    out = tmp_path / "run"
    run(load_experiment(config), out=out)
    rows = told(out)
    at = next(place for place, (_, _, alarms) in enumerate(rows) if alarms)
    assert 60 <= at < 100
    with load_run(out) as records:
        found = list(records.records("own"))
        assert "later passes below the monitor's threshold are rejected" in records.marks["own"][0]
    after = found[at + 1 :]
    wrong = {n for n, record in enumerate(found) if record.outcome.value not in (n, None)}
    assert wrong & {*range(60, at + 1)}
    assert not wrong & {*range(at + 1, 120)}
    assert sum(record.outcome.status == "accepted" for record in after) > len(after) / 2
    checks = [check for record in after for round in record.rounds for check in round.checks]
    refused = [check for check in checks if check.verdict == "reject" and "below 0.5" in check.reason]
    assert refused
    assert all(check.score < 0.5 for check in refused if check.score is not None)


# An interrupted run is no other


def ended(task: str, verdicts: str) -> TaskRecord:
    """A task of one round with these verdicts."""
    return TaskRecord(task=task, outcome=Outcome(status="accepted"), rounds=(a_round(0, verdicts),))


class Killed(Watcher):
    """Ends a run after so many units."""

    def __init__(self, after: int) -> None:
        self.left = after

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """Nothing."""

    def event(self, event: object) -> None:
        """Nothing."""

    def forecast(self, forecast: object) -> None:
        """Nothing."""

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """Counts."""
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], dict[str, Any]]:
    """A config whose generator changes, what its monitor was told and said, and how its tasks ended."""
    folder = tmp_path_factory.mktemp("whole")
    changes = {
        **STEPS,
        "f": "count: 120 → count: 40",
        "g": "turns: 60 → turns: 12",
        "h": "then: 0.2 → then: 0.0",
    }
    config = written(folder, **changes)
    run(load_experiment(config), out=folder / "run")
    return config, told(folder / "run"), outcomes(folder / "run")


def outcomes(out: Path) -> dict[str, Any]:
    """How many items each task's rounds had, and what came of it."""
    with load_run(out) as records:
        found = records.records("own")
    return {each.task: ([len(round.items) for round in each.rounds], each.outcome.value) for each in found}


@settings(max_examples=5, deadline=None)
@given(after=st.lists(st.integers(1, 39), min_size=1, max_size=2), lose=st.integers(0, 2))
def test_an_interrupted_run_alarms_at_the_same_task(
    whole: tuple[Path, list[Any], dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    after: list[int],
    lose: int,
) -> None:
    """Wherever it is ended, and where what the monitor was told last was not written yet: all comes as it did."""
    config, rows, ended = whole
    out = tmp_path_factory.mktemp("resumed") / "run"
    experiment, done = load_experiment(config), 0
    for units in after:
        if done + units >= 40:
            break
        done += units
        with pytest.raises(KeyboardInterrupt):
            run(experiment, out=out, watcher=Killed(units))
        with sqlite3.connect(out / "records.db") as database:
            written = "SELECT rowid FROM draftverify_watched ORDER BY rowid DESC LIMIT ?"
            database.execute(f"DELETE FROM draftverify_watched WHERE rowid IN ({written})", (lose,))
    run(experiment, out=out)
    assert told(out) == rows
    assert outcomes(out) == ended


@pytest.mark.parametrize("executor", ["{use: thread, workers: 4}", "{use: batch, size: 5}"])
def test_the_alarm_comes_at_the_same_task_under_every_executor(
    whole: tuple[Path, list[Any], dict[str, Any]], tmp_path: Path, executor: str
) -> None:
    """What is done about it begins with the tasks that are begun after it: as many later as are under way at once."""
    config, rows, _ = whole
    (tmp_path / "watched.yaml").write_text(f"{config.read_text()}executor: {executor}\n")
    run(load_experiment(tmp_path / "watched.yaml"), out=tmp_path / "run")
    alarm = [row for row in rows if row[2]]
    assert [row for row in told(tmp_path / "run") if row[2]] == alarm
    stopped = [task for task, (items, _) in outcomes(tmp_path / "run").items() if not any(items)]
    at = int(alarm[0][0][1:])
    assert {int(task[1:]) > at for task in stopped} == {True}
    if "batch" in executor:  # a thread that the machine holds up is passed by as many tasks as there are
        assert {f"t{n}" for n in range(at + 7, 40)} <= set(stopped)


@given(st.permutations(range(9)), st.lists(st.text("pr", min_size=1, max_size=4), min_size=9, max_size=9))
def test_tasks_are_told_of_in_their_order(order: list[int], verdicts: list[str]) -> None:
    """Whatever order they end in; and a task of which it was told is not told of again."""
    tasks = [Task(id=str(n)) for n in range(9)]

    def made(n: int) -> TaskRecord:
        return ended(str(n), verdicts[n])

    def watch() -> Watch:
        return Watch("own", Monitor(None, level=0.5), {"acceptance": 0.9}, tasks, 0, None)  # type: ignore[arg-type]

    straight, turned, again = watch(), watch(), watch()
    expected = [each for n in range(9) for each in straight.take(made(n))]
    found = [each for n in order for each in turned.take(made(n))]
    assert found == expected
    assert [each.task for each in found] == [str(n) for n in range(9)]
    assert not any(turned.take(made(n)) for n in range(9))
    again.recall(expected)
    assert again.untold() == []
    assert again.monitor is not None
    assert turned.monitor is not None
    assert again.monitor.alarms == turned.monitor.alarms
    assert again.monitor.report() == turned.monitor.report()


# What it compares with


def test_the_first_tasks_may_be_what_it_compares_with(tmp_path: Path) -> None:
    """Those that predict: nothing alarms among them, and the reference is their mean."""
    changes = {
        "a": "      reference: {acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1}\n → ",
        "b": "pipelines: → predict: {limit: 40}\npipelines:",
    }
    result = run(load_experiment(written(tmp_path, **changes)), out=tmp_path / "run")
    rows = told(tmp_path / "run")
    first = [shares.acceptance for _, shares, _ in rows[:40] if shares.acceptance is not None]
    found = {each.rate: each for each in result.summary.pipelines[0].monitor}
    assert found["acceptance"].reference == pytest.approx(sum(first) / len(first))
    assert any(alarms for _, _, alarms in rows[40:])
    assert not any(alarms for _, _, alarms in rows[:40])


def test_an_earlier_run_may_be_what_it_compares_with(tmp_path: Path) -> None:
    """One with a monitor by all that it was told, one without by its records; a run that is not finished is refused."""
    experiment = load_experiment(written(tmp_path, a="count: 120 → count: 12"))
    spec = experiment.pipelines[0].monitor
    assert spec is not None
    run(experiment, out=tmp_path / "first")
    shares = [each for _, each, _ in told(tmp_path / "first")]
    of_run = type(spec)(reference=str(tmp_path / "first"))
    assert reference_of(of_run, "own") == shares
    assert reference_of(of_run, "another") == shares  # it has one pipeline
    with sqlite3.connect(tmp_path / "first" / "records.db") as database:
        database.execute(
            "DROP TABLE draftverify_watched"
        )  # as of a run that was made before there were monitors
    assert reference_of(of_run, "own") == [Shares(acceptance=each.acceptance) for each in shares]
    assert main(["show", str(tmp_path / "first")]) == 0
    config = written(
        tmp_path,
        a="{acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1} → ./first",
    )
    with pytest.raises(ConfigError, match="says nothing of right") as caught:
        run(load_experiment(config), out=tmp_path / "second")
    assert "pipelines.own.monitor.reference" in str(caught.value)
    (tmp_path / "first" / "summary.json").unlink()
    with pytest.raises(ConfigError, match="not finished"):
        reference_of(of_run, "own")


def test_a_run_that_alarmed_is_no_reference(tmp_path: Path) -> None:
    """Its tasks are of two kinds."""
    experiment = load_experiment(written(tmp_path, a="turns: 60 → turns: 0", b="count: 120 → count: 40"))
    run(experiment, out=tmp_path / "first")
    spec = experiment.pipelines[0].monitor
    assert spec is not None
    with pytest.raises(ConfigError, match="alarmed at task"):
        reference_of(type(spec)(reference=str(tmp_path / "first")), "own")


def test_an_operating_point_may_be_what_it_compares_with(tmp_path: Path) -> None:
    """`draftverify fit block` writes down what each task said; what it tries has no monitor itself."""
    plain = (
        "\n      reference: {acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1}"
        "\n      labels: {metric: right, every: 2}"
    )
    changes = {
        "a": "count: 120 → count: 40",
        "b": f"    monitor:{plain} →     monitor: {{reference: 0.5}}",
    }
    config = written(tmp_path, **changes)
    out = tmp_path / "point"
    assert main(["fit", "block", str(config), "--out", str(out), "--at-most", "2"]) == 0
    made = json.loads((out / "own.json").read_text())
    assert 20 < len(made["shares"]) <= len(made["learned_from"]) == 28  # of tasks of which an item was judged
    text = config.read_text().replace(
        "    block: 4\n", f"    block: {{use: fitted, path: {out / 'own.json'}}}\n"
    )
    config.write_text(text.replace("reference: 0.5", f"reference: {out / 'own.json'}"))
    found = run(load_experiment(config), out=tmp_path / "run").summary.pipelines[0].monitor
    assert found[0].reference == pytest.approx(sum(made["shares"]) / len(made["shares"]))


def test_groups_are_compared_in_the_shares_that_the_run_has() -> None:
    """Where as many of each predict, only so many count; a run whose groups are what they were does not alarm."""
    first = [Task(id=f"{group}{n}", group=group) for group in "ab" for n in range(40)]
    measured = [Task(id=f"m{n}", group="b" if n % 10 == 0 else "a") for n in range(600)]
    chosen = alike(first, measured)
    assert sorted(chosen) == sorted([*(f"a{n}" for n in range(40)), *(f"b{n}" for n in range(4))])
    assert alike(first[:40], measured[1:10]) == {f"a{n}" for n in range(40)}
    watch = Watch("own", Monitor(None), None, [*first, *measured], len(first), None)  # type: ignore[arg-type]
    for place, task in enumerate([*first, *measured]):
        verdicts = ("pppr" if place % 4 else "pppp") if task.group == "a" else "rrrr"
        assert not any(each.alarms for each in watch.take(ended(task.id, verdicts)))
    assert watch.monitor is not None
    assert watch.monitor.report()[0].observed == 600


def test_a_run_rests_on_each_of_its_references(tmp_path: Path) -> None:
    """Two of one name in two folders, of which the first has changed, too."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.json").write_text("{}")
    text = written(tmp_path, a="{acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1} → ./a/own.json",
                   b="      labels: {metric: right, every: 2}\n → ").read_text()  # fmt: skip
    pipeline = text[text.index("  own:") :]
    other = pipeline.replace("  own:", "  other:").replace("./a/", "./b/")
    (tmp_path / "watched.yaml").write_text(text + other)
    experiment = load_experiment(tmp_path / "watched.yaml")
    before = experiment.parts()
    for folder in ("a", "b"):
        (tmp_path / folder / "own.json").write_text(f"[{len(folder)}]")
        after = experiment.parts()
        assert after["reference own.json"] != before["reference own.json"]
        before = after


# Mistakes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"a": "acceptance: → acceptence:"}, "unknown key 'acceptence'; did you mean acceptance?"),
        ({"a": "acceptance: 0.695 → acceptance: 1"}, "should be less than 1"),
        ({"a": "metric: right → metric: rigth"}, "no metric 'rigth'; did you mean right?"),
        ({"a": "every: 2 → every: 0"}, "should be greater than or equal to 1"),
        ({"a": "      labels → {}      on_alarm: shout\n      labels".format("")}, "'stop', 'tighten' or 'escalate'"),
        ({"a": "reference: {acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1} → reference: ./gone"},
         "there is no run and no file at"),
        ({"a": "      reference: {acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1}\n → "},
         "there is nothing to compare with"),
        ({"a": "{acceptance: 0.695, right: 0.7, true_pass: 0.95, false_pass: 0.1} → 0.7"},
         "says nothing of right, true_pass and false_pass"),
        ({"a": "      labels: {metric: right, every: 2} → ", "b": "{acceptance: 0.695, → {"},
         "without labels nothing else is watched"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_config_is_told_with_its_place(
    tmp_path: Path, changes: Mapping[str, str], said: str
) -> None:
    """The line, the key, and what would do."""
    with pytest.raises(DraftVerifyError) as caught:
        load_experiment(written(tmp_path, **changes))
    assert said in str(caught.value)
    assert "pipelines.own.monitor" in str(caught.value)
    assert "watched.yaml:" in str(caught.value)


class Brings(Guesses):
    """A generator that brings a block size, which learns."""

    def default_block(self) -> Any:
        return Measured(at_most=4)


def test_what_runs_after_the_alarm_goes_on_with_what_was_learned() -> None:
    """Its block size is the pipeline's own, also where the generator brought it, and so is its stopping rule."""
    pipeline = Pipeline(Brings(), Judge(), All(), policy=escalate(on=["abstain"]), done=Limit(3), name="own")
    after = after_alarm(pipeline, Monitor(0.5, on_alarm="escalate"))
    assert after.verifier is not pipeline.verifier
    assert (after.block, after.done, after.name) == (pipeline.block, pipeline.done, "own")
    assert after.block is pipeline.block


@pytest.mark.parametrize("stages", [1, 2])
def test_what_a_doubted_verifier_said_stays_in_its_notes(stages: int) -> None:
    """The check says that nobody can tell; beside it stands each stage's own word, also where that became the check."""
    judges = [verifier(lambda context, item: True) for _ in range(stages)]
    judge = judges[0] if stages == 1 else AllOf(judges)
    parts = generator(lambda context, n: ["a"]), judge, All()
    after = after_alarm(Pipeline(*parts, policy=escalate(on=["abstain"])), Monitor(0.5, on_alarm="escalate"))
    (round,) = after.record("task").rounds
    assert [check.verdict for check in round.checks] == ["abstain"]
    heard = [[check["verdict"] for check in entry["checks"]] for entry in round.notes["heard"]]
    assert heard[-1] == ["pass"]
    assert len(heard) == stages


def test_a_threshold_that_is_missing_is_told_with_its_place(tmp_path: Path) -> None:
    """As the pipeline is built, below its monitor."""
    config = written(tmp_path, a="every: 2 → every: 2}\n      on_alarm: tighten #")
    with pytest.raises(DraftVerifyError, match=r"pipelines\.own: monitor\.threshold: .* needs a threshold"):
        Builder().bench(load_experiment(config))


def test_what_the_parts_cannot_do_is_refused() -> None:
    """Stopping without plain steps, asking where nobody can be asked, labels of steps, a monitor within a pipeline."""
    parts = (Guesses(), Judge(), All())
    plain, steps = Pipeline(*parts), (Steps(), Machine(), LongestPrefix())
    with pytest.raises(PipelineError, match="plain_steps"):
        after_alarm(plain, Monitor(0.5, on_alarm="stop"))
    with pytest.raises(PipelineError, match="needs a policy step that asks"):
        after_alarm(Pipeline(*parts, policy=retry(2)), Monitor(0.5, on_alarm="escalate"))
    with pytest.raises(PipelineError, match="no item is a whole answer"):
        after_alarm(Pipeline(*steps), Monitor(0.5, metric=EqualAnswer()))
    with pytest.raises(PipelineError, match="no item is one"):
        after_alarm(Pipeline(*steps, policy=escalate()), Monitor(0.5, on_alarm="escalate"))
    with pytest.raises(PipelineError, match="provides: scores"):
        after_alarm(plain, Monitor(0.5, on_alarm="tighten", threshold=0.9))
    with pytest.raises(PipelineError, match="nothing would be stricter"):
        after_alarm(
            Pipeline(Guesses(), Judge(scores=True), First(threshold=0.9)),
            Monitor(0.5, on_alarm="tighten", threshold=0.6),
        )
    with pytest.raises(ConfigError, match="nothing to compare with"):
        MonitoredPipeline(plain, Monitor(None))
    with pytest.raises(ConfigError, match="says nothing of right"):
        evaluate({"own": plain}, Numbers(1).load(), monitors={"own": Monitor(0.5, metric=EqualAnswer())})
    with pytest.raises(ConfigError, match="needs a threshold"):
        Monitor(0.5, on_alarm="tighten")
    with pytest.raises(ConfigError, match="on_alarm is stop"):
        Monitor(0.5, on_alarm="stop", threshold=0.9)
    with pytest.raises(PipelineError, match="a Monitor is needed"):
        MonitoredPipeline(plain, 0.8)  # type: ignore[arg-type]


# In Python


def test_a_pipeline_is_watched_without_a_run() -> None:
    """One task after the other, and in an evaluation: the alarm is acted on, and marked."""
    tasks = Numbers(60).load()
    pipeline = Pipeline(Steps(then=0.0, turns=10), Machine(), LongestPrefix(), block=4, done=Limit(4))
    monitor, other = Monitor(0.7, on_alarm="stop"), Monitor(0.7, on_alarm="stop")
    watched = MonitoredPipeline(pipeline, monitor)
    rounds = [watched.record(task).rounds for task in tasks]
    evaluation = evaluate({"own": pipeline}, tasks, monitors={"own": other})
    assert len(monitor.alarms) == len(other.alarms) == 1
    at = int(monitor.alarms[0].task[1:])
    assert [any(round.items for round in each) for each in rounds] == [n <= at for n in range(60)]
    after = evaluation.records["own"][at + 5 :]
    assert not any(round.items for record in after for round in record.rounds)
    assert evaluation.summary.pipelines[0].marks == (str(other.alarms[0]),)


def test_the_generator_is_not_blamed_where_checking_stops_at_a_pass() -> None:
    """With First a laxer verifier checks fewer items, and yet the labels say the same of what was drafted."""
    tasks = Numbers(40).load()

    def right(lax: float) -> list[float | None]:
        pipeline = Pipeline(
            Guesses(right=0.5, then=0.5),
            verifier(
                lambda context, item: item > -1 or hash((context.task.input["n"], item)) % 10 < 10 * lax
            ),
            First(),
            block=4,
        )
        monitor = Monitor({"right": 0.5}, metric=EqualAnswer())
        assert pipeline.enough == 1
        records = [pipeline.record(task) for task in tasks]
        return [
            task_shares(monitor, task, record, 0, checks_all=pipeline.enough is None).right
            for task, record in zip(tasks, records, strict=True)
        ]

    assert right(0.1) == right(0.7)


def test_a_generator_that_has_become_better_is_not_stopped() -> None:
    """The alarm is recorded, and drafting goes on."""
    pipeline = Pipeline(Steps(right=1.0, then=1.0), Machine(), LongestPrefix(), block=4, done=Limit(4))
    watched = MonitoredPipeline(pipeline, Monitor(0.5, on_alarm="stop"))
    records = [watched.record(task) for task in Numbers(20).load()]
    assert [alarm.then for alarm in watched.monitor.alarms] == ["record"]
    assert all(record.rounds[0].items for record in records)


def test_a_trusted_fallback_is_doubted_too() -> None:
    """After an alarm with escalate its answer is verified, and given to a person."""
    monitor = Monitor(0.9, on_alarm="escalate")
    pipeline = Pipeline(
        generator(lambda context, n: [0], shape="alternatives"),
        verifier(lambda context, item: item == 1),
        First(),
        policy=fallback(
            generator(lambda context, n: [2], shape="alternatives"), verified=False, on=["reject"]
        ).then(escalate()),
    )
    watched = MonitoredPipeline(pipeline, monitor)
    assert watched.run(Task(id="before")).value == 2
    while not monitor.acts:
        monitor.observe("", Shares(acceptance=0.0))
    after = watched.record(Task(id="after"))
    assert after.outcome.status == "waiting"
    assert [(each.source, each.trouble) for each in after.rounds][-1] == ("fallback", ("reject",))
    assert watched.run(Task(id="asked"), ask=lambda request: Answer("accept")).value == 2
    edited = watched.run(Task(id="edited"), ask=lambda request: Answer("edit", 1))
    assert edited.value == 1, "what a person made of it is for the verifier to judge, as before"


def test_stop_goes_to_the_fallback_at_once_where_there_are_no_plain_steps() -> None:
    """Nothing is drafted or checked of it any more; every task is solved as before."""
    pipeline = Pipeline(
        generator(lambda context, n: [0], shape="alternatives"),
        verifier(lambda context, item: item == 1),
        First(),
        policy=retry().then(fallback(generator(lambda context, n: [1], shape="alternatives"))),
    )
    watched = MonitoredPipeline(pipeline, Monitor(0.9, on_alarm="stop"))
    records = [watched.record(Task(id=str(n))) for n in range(40)]
    (alarm,) = watched.monitor.alarms
    at = int(alarm.task)
    for n, record in enumerate(records):
        assert record.outcome.value == 1
        assert [round.items for round in record.rounds] == ([(0,), (0,), (1,)] if n <= at else [(), (1,)])
    assert records[-1].rounds[0].undrafted


def test_a_task_that_waits_is_told_of_once() -> None:
    """With what was judged until then; where it is taken up again nothing more is told."""
    pipeline = Pipeline(Guesses(then=0.0), Judge(wrong=0.0, then=0.0), All(), policy=escalate(), block=4)
    watched = MonitoredPipeline(pipeline, Monitor(0.7))
    task = Numbers(1).load()[0]
    waiting = watched.record(task)
    assert waiting.outcome.status == "waiting"
    assert watched.monitor.tasks == 1
    again = watched.record(task, restore=waiting.rounds, ask=lambda request: Answer("accept"))
    assert again.outcome.status == "accepted"
    assert watched.monitor.tasks == 1
