"""Metrics of a run: solved beside accepted, false passes shown, and no speed-up for giving up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftverify import Check, ConfigError, Outcome, Pipeline, Task, Verification, escalate
from draftverify.bench import RunResult, evaluate, load_experiment, run
from draftverify.bench.records import load_run
from draftverify.bench.tables.summary import Row
from draftverify.bench.tables.task_rows import task_list
from draftverify.checks.metrics import EqualAnswer
from draftverify.rules import Best, First
from draftverify.traits import VerifierTraits
from draftverify.view.overview import overview
from tests.experiments.metric_parts import Answers, Asks, Believes, Faster, Shared
from tests.report.runs import overview_of

PARTS = Path(__file__).with_name("metric_parts.py")

YAML = """
name: metrics
parts: [{parts}]
tasks: {{use: jsonl, path: tasks.jsonl, expected: {{answer: answer}}}}
{metrics}
pipelines:
  slow:
    generator: {{use: metric_parts.Answers, field: slow, seconds: 1000}}
    verifier: {{use: metric_parts.Believes}}
    rule: {{use: first}}
  quick:
    generator: {{use: metric_parts.Answers, field: quick, seconds: 100}}
    verifier: {{use: metric_parts.Believes}}
    rule: {{use: first}}
baseline: slow
{more}
"""
EXACT = "metrics: {exact: {use: exact}}"


def write(path: Path, quick: str, *, metrics: str = EXACT, more: str = "", answer: str = "yes") -> Path:
    """Twelve tasks that `slow` answers rightly; `quick` with one word for each task, of which `+` is the right one."""
    words = {"+": "yes", "-": "no", "?": "?"}
    lines = [{"slow": "yes", "quick": words[each], "answer": answer} for each in quick]
    (path / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    file = path / "metrics.yaml"
    file.write_text(YAML.format(parts=PARTS, metrics=metrics, more=more))
    return file


def ran(file: Path, **how: Any) -> RunResult:
    return run(load_experiment(file), out=file.parent / "run", **how)


def quick_row(result: RunResult) -> Row:
    [quick] = [each for each in result.summary.pipelines if each.name == "quick"]
    return quick.rows[-1]


def test_solved_is_another_figure_than_accepted(tmp_path: Path) -> None:
    """Eight right, two false passes, two given up: solved 8 of 12, precision 8 of 10, 1,200 s for 8 solved tasks."""
    row = quick_row(ran(write(tmp_path, "++++++++--??")))
    solved = row.solved["exact"]
    assert dict(row.statuses) == {"accepted": 10, "refused": 2}
    assert solved.rate.value == pytest.approx(8 / 12)
    assert solved.precision.value == pytest.approx(8 / 10)
    assert solved.seconds.value == pytest.approx(1200 / 8)
    assert solved.cost is not None
    assert solved.cost.value == pytest.approx(12 / 8)
    assert row.speedup is not None
    assert row.speedup.value == pytest.approx(10 / (12 / 8), rel=1e-2)
    shown = overview_of((tmp_path / "run" / "report.html").read_text())
    in_page = next(each for each in shown["pipelines"] if each["name"] == row.pipeline)["rows"][-1]
    assert in_page["solved"]["exact"]["rate"]["value"] == solved.rate.value
    assert in_page["solved"]["exact"]["precision"]["value"] == solved.precision.value
    assert shown["picture"]["quality"] == "solved (exact)"


@pytest.mark.parametrize("metrics", [EXACT, ""])
def test_giving_up_on_every_task_is_no_speed_up(tmp_path: Path, metrics: str) -> None:
    """Ten times as fast to nothing: no figure is claimed, with a metric and without, and the tasks are shown."""
    result = ran(write(tmp_path, "????????????", metrics=metrics))
    row = quick_row(result)
    assert row.speedup is not None
    assert row.speedup.value is None
    assert row.per_item is None
    assert dict(row.statuses) == {"refused": 12}
    shown = overview_of((tmp_path / "run" / "report.html").read_text())
    in_page = next(each for each in shown["pipelines"] if each["name"] == row.pipeline)["rows"][-1]
    assert in_page["statuses"] == {"refused": 12}
    assert in_page["verdict"] is None
    if not metrics:
        assert row.unpaired is not None
        assert (row.unpaired.own, row.unpaired.baseline, row.unpaired.both) == (12, 0, 0)
        assert in_page["unpaired"] == {"own": 12, "baseline": 0, "both": 0}


def test_without_a_metric_only_tasks_that_both_finished_are_compared(tmp_path: Path) -> None:
    """A thousand seconds against a hundred on the nine common tasks; the three others are shown and not averaged in."""
    row = quick_row(ran(write(tmp_path, "+++++++++???", metrics="")))
    assert row.speedup is not None
    assert (row.speedup.value, row.speedup.clusters) == (pytest.approx(10, rel=1e-2), 9)
    assert row.unpaired is not None
    assert row.unpaired.own == 3


def test_a_verifier_that_passes_wrong_answers_is_seen(tmp_path: Path) -> None:
    """All is accepted and half of it is wrong: the table says so, and the speed-up is half as large."""
    row = quick_row(ran(write(tmp_path, "++++++------")))
    assert dict(row.statuses) == {"accepted": 12}
    assert row.solved["exact"].precision.value == pytest.approx(0.5)
    assert row.speedup is not None
    assert row.speedup.value == pytest.approx(5.0, rel=1e-2)


def test_a_metric_joins_a_finished_run_and_no_task_runs_again(tmp_path: Path) -> None:
    """Added later it is asked once a record; the same again is not asked; a mended expected is asked anew."""
    log = tmp_path / "log"
    counted = f"metrics: {{right: {{use: metric_parts.Counted, log: {log}}}}}"
    assert ran(write(tmp_path, "++++++++--??", metrics="")).ran == 24
    result = ran(write(tmp_path, "++++++++--??", metrics=counted))
    assert result.ran == 0
    assert quick_row(result).solved["right"].rate.value == pytest.approx(8 / 12)
    assert len(log.read_text().splitlines()) == 24
    ran(write(tmp_path, "++++++++--??", metrics=counted))
    assert len(log.read_text().splitlines()) == 24
    result = ran(write(tmp_path, "++++++++--??", metrics=counted, answer="no"))
    assert result.ran == 0
    assert quick_row(result).solved["right"].rate.value == pytest.approx(2 / 12)
    assert len(log.read_text().splitlines()) == 48


def test_scores_are_known_by_the_metrics_that_say_them_now(tmp_path: Path) -> None:
    """Of a mended truth the new one; two names of one metric have its score both; one that is gone has none. What reads
    the run learns the names from its config."""

    def solved() -> dict[str, float]:
        sums: dict[str, float] = {}
        with load_run(tmp_path / "run") as records:
            said = records.store.named_scores()
            assert {name for _, _, name in said} == set(records.config.get("metrics", {}))
            for (pipeline, _, name), value in said.items():
                sums[f"{pipeline} {name}"] = sums.get(f"{pipeline} {name}", 0.0) + (value or 0.0)
        return sums

    ran(write(tmp_path, "++++++++--??"))
    assert solved() == {"slow exact": 12.0, "quick exact": 8.0}
    both = "metrics: {exact: {use: exact}, same: {use: exact}}"
    ran(write(tmp_path, "++++++++--??", answer="no", metrics=both))
    assert solved() == {"slow exact": 0.0, "quick exact": 2.0, "slow same": 0.0, "quick same": 2.0}
    ran(write(tmp_path, "++++++++--??", metrics="metrics: {same: {use: exact}}"))
    assert solved() == {"slow same": 12.0, "quick same": 8.0}
    ran(write(tmp_path, "++++++++--??", metrics=""))
    assert solved() == {}


def test_a_metric_that_fails_has_not_said_wrong(tmp_path: Path) -> None:
    """Its failures are counted and told, harmlessly, and are in no share; no say is no failure."""
    result = ran(write(tmp_path, "++++++++++++", metrics="metrics: {broken: {use: metric_parts.Broken}}"))
    solved = quick_row(result).solved["broken"]
    assert (solved.failed, solved.rate.value, solved.rate.clusters) == (6, 1.0, 6)
    report = (tmp_path / "run" / "report.html").read_text()
    told = [each for each in overview_of(report)["pipelines"] if each["problem"]]
    assert told
    assert told[0]["rows"][-1]["solved"]["broken"]["failed"] == 6
    assert "\x1b" not in report


def test_a_function_of_a_parts_file_is_a_metric(tmp_path: Path) -> None:
    """By its name, as a function of (task, outcome)."""
    metrics = "metrics: {agrees: {use: python, function: metric_parts.agrees}}"
    row = quick_row(ran(write(tmp_path, "+++++++++---", metrics=metrics)))
    assert row.solved["agrees"].rate.value == pytest.approx(9 / 12)


def test_the_speed_up_is_predicted_as_it_is_measured(tmp_path: Path) -> None:
    """With a metric both are of seconds per solved task; one that was added later was not predicted."""
    result = ran(write(tmp_path, "++-+++-+++-+++-+", more="predict: {limit: 8}"))
    row = quick_row(result)
    assert row.predicted is not None
    assert row.predicted.value == pytest.approx(10 * 6 / 8)
    late = f"metrics: {{late: {{use: metric_parts.Counted, log: {tmp_path / 'log'}}}, exact: {{use: exact}}}}"
    row = quick_row(ran(write(tmp_path, "++-+++-+++-+++-+", more="predict: {limit: 8}", metrics=late)))
    assert row.predicted is None
    assert set(row.solved) == {"late", "exact"}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("metrics: {exact: {use: exakt}}", "exact"),
        ("metrics: {exact: exact}", "a part is written"),
        ("metrics: {exact: {use: limit, items: 3}}", "is a stopping rule, not a metric"),
        ("metrics: {exact: {use: exact, expcted: a}}", "did you mean expected"),
    ],
)
def test_a_wrong_metric_is_refused_with_its_place(tmp_path: Path, metrics: str, message: str) -> None:
    """The line of the config, before anything runs."""
    with pytest.raises(Exception, match=message) as caught:
        load_experiment(write(tmp_path, "+", metrics=metrics))
    assert "metrics.yaml:5" in str(caught.value)


def test_a_metric_may_share_a_model_with_the_pipelines(tmp_path: Path) -> None:
    """It is opened, and closed with the run: calibration's scores leave the measured tasks their model."""
    file = write(
        tmp_path,
        "+++-++++",
        metrics="models: {m: {use: metric_parts.Shared}}\nmetrics: {asks: {use: metric_parts.Asks, model: m}}",
        more="predict: {limit: 3}",
    )
    file.write_text(file.read_text().replace("metric_parts.Believes", "metric_parts.Uses, model: m"))
    row = quick_row(ran(file))
    assert dict(row.statuses) == {"accepted": 5}
    assert row.solved["asks"].rate.value == 0.8
    # Its verifier is asked why answers differ, and is shown no truth either.
    assert "what is expected is {}" in (tmp_path / "run" / "report.html").read_text()


def test_a_metric_that_failed_is_asked_again(tmp_path: Path) -> None:
    """What ailed it may be over; what it said stands."""
    down = tmp_path / "down"
    down.touch()
    metrics = f"metrics: {{flaky: {{use: metric_parts.Flaky, file: {down}}}}}"
    assert quick_row(ran(write(tmp_path, "+++", metrics=metrics))).solved["flaky"].failed == 3
    down.unlink()
    assert quick_row(ran(write(tmp_path, "+++", metrics=metrics))).solved["flaky"].rate.value == 1.0


def test_workers_are_not_sent_the_truth(tmp_path: Path) -> None:
    """So that a truth which JSON does not hold is no matter, under any executor."""
    file = write(tmp_path, "+", more="executor: {use: process, workers: 1}")
    lines = [
        "tasks: {use: metric_parts.ComplexTruths}" if x.startswith("tasks") else x
        for x in file.read_text().splitlines()
    ]
    file.write_text("\n".join(lines))
    assert quick_row(ran(file)).solved["exact"].rate.value == 0.0


def test_evaluate_opens_metrics_and_counts_waiting_tasks() -> None:
    """As a run does: a metric is opened first, and a task that waits is not solved."""
    asks = Asks(Shared())
    waits = Pipeline(Answers("slow"), Believes(), First(), policy=escalate())
    tasks = [
        Task(id=str(i), input={"slow": word}, expected={"answer": "yes"})
        for i, word in enumerate(("yes", "?"))
    ]
    found = evaluate({"waits": waits}, tasks, metrics={"asks": asks})
    row = found.summary.pipelines[0].rows[-1]
    assert dict(row.statuses) == {"accepted": 1, "waiting": 1}
    assert (row.tasks, row.solved["asks"].rate.value) == (2, 0.5)
    assert asks.model.closed
    assert [record.outcome.status for record in found.records["waits"]] == ["accepted", "waiting"]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (
            "expected: {other: answer}",
            r"metrics\.exact\.expected: what is expected of task '1' has no 'answer'; there is other",
        ),
        ("", r"metrics\.exact: no task expects anything to compare with"),
    ],
)
def test_a_metric_that_cannot_judge_the_tasks_is_told_before_any_runs(
    tmp_path: Path, tasks: str, message: str
) -> None:
    """No task is paid for, and no directory made."""
    file = write(tmp_path, "+-")
    file.write_text(file.read_text().replace("expected: {answer: answer}", tasks))
    with pytest.raises(ConfigError, match=message):
        ran(file)
    assert not (tmp_path / "run").exists()


def test_of_a_broken_parts_file_only_its_own_error_is_told(tmp_path: Path) -> None:
    """Names that it would have defined are not unknown parts."""
    broken = tmp_path / "metric_parts.py"
    broken.write_text("def f(:\n")
    file = write(tmp_path, "+")
    file.write_text(file.read_text().replace(str(PARTS), str(broken)))
    with pytest.raises(ConfigError, match="SyntaxError") as caught:
        load_experiment(file)
    assert len(str(caught.value).splitlines()) == 1


def test_a_function_in_a_parts_place_is_told_how_it_is_written(tmp_path: Path) -> None:
    """It does not return a part; `python` makes one of it."""
    with pytest.raises(ConfigError, match=r"write \{use: python, function: metric_parts\.agrees\}"):
        load_experiment(write(tmp_path, "+", metrics="metrics: {agrees: {use: metric_parts.agrees}}"))


def pipelines() -> dict[str, Pipeline]:
    return {
        "slow": Pipeline(Answers("slow", 1000), Believes(), First(), name="slow"),
        "quick": Pipeline(Answers("quick", 100), Believes(), First(), name="quick"),
    }


def test_the_same_in_python(tmp_path: Path) -> None:
    """`evaluate` gives the figures of the run, one task at a time and all at once, and prints its tables."""
    row = quick_row(ran(write(tmp_path, "++++++++--??")))
    words = ["yes"] * 8 + ["no"] * 2 + ["?"] * 2
    tasks = [
        Task(id=str(place), input={"slow": "yes", "quick": word}, expected={"answer": "yes"})
        for place, word in enumerate(words)
    ]
    for size in (1, 5):
        found = evaluate(pipelines(), tasks, metrics={"exact": EqualAnswer()}, baseline="slow", size=size)
        again = found.summary.pipelines[1].rows[-1]
        assert again.solved["exact"].rate == row.solved["exact"].rate
        assert again.solved["exact"].precision == row.solved["exact"].precision
        assert again.speedup is not None
        assert again.speedup.value == pytest.approx(10 / (12 / 8), rel=1e-2)
        assert [record.task for record in found.records["quick"]] == [task.id for task in tasks]
        assert "solved (exact)" in str(found)
        assert "solved (exact)" in found._repr_html_()


def test_a_function_is_a_metric() -> None:
    """Any function of (task, outcome)."""

    def short(task: Task, outcome: Outcome) -> float:
        return 0.5 if outcome.value == "yes" else 0.0

    tasks = [Task(id=str(i), input={"slow": "yes", "quick": "no"}) for i in range(4)]
    found = evaluate(pipelines(), tasks, metrics={"short": short})
    slow, quick = (each.rows[-1].solved["short"].rate.value for each in found.summary.pipelines)
    assert (slow, quick) == (0.5, 0.0)


def test_what_cannot_be_evaluated_is_refused() -> None:
    """A baseline that is no pipeline, two tasks of one id, and what is no metric."""
    with pytest.raises(ConfigError, match=r"metrics\.exact: .* is no function of"):
        evaluate(pipelines(), [], metrics={"exact": EqualAnswer})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="a mapping by name is needed"):
        evaluate(pipelines(), [], metrics=[EqualAnswer()])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean slow"):
        evaluate(pipelines(), [], baseline="slwo")
    with pytest.raises(ConfigError, match="the same id"):
        evaluate(pipelines(), [Task(id="1"), Task(id="1")])


def test_a_measure_stands_beside_what_is_solved_and_solves_nothing(tmp_path: Path) -> None:
    """It comes first in the config: solved is still by `exact`, its mean stands in table, summary and report."""
    both = "metrics: {faster: {use: metric_parts.Faster}, exact: {use: exact}}"
    result = ran(write(tmp_path, "++++++++--??", metrics=both))
    row = quick_row(result)
    assert result.summary.metrics == ("exact",)
    assert list(row.solved) == ["exact"]
    assert row.speedup is not None
    assert row.speedup.value == pytest.approx(10 / (12 / 8), rel=1e-2)  # the clock runs too
    measured = row.measures["faster"]
    assert measured.figure.value == pytest.approx(10, rel=1e-2)
    assert (measured.figure.clusters, measured.unit, measured.mean) == (10, "×", "geometric")
    with load_run(tmp_path / "run") as records:
        shown = overview(records)["pipelines"][1]["rows"][-1]["measures"]["faster"]
    assert (shown["unit"], shown["mean"], shown["figure"]["clusters"]) == ("×", "geometric", 10)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["pipelines"][1]["rows"][-1]["measures"]["faster"]["unit"] == "×"


def test_a_measure_alone_leaves_tables_without_solved(tmp_path: Path) -> None:
    """As without metrics: the speed-up is of tasks that both finished, and no task's answer is wrong or right."""
    row = quick_row(
        ran(write(tmp_path, "+++++++++???", metrics="metrics: {faster: {use: metric_parts.Faster}}"))
    )
    assert not row.solved
    assert row.unpaired is not None
    assert row.unpaired.own == 3
    with load_run(tmp_path / "run") as records:
        listed = task_list(records)["rows"]
    assert not [cell for task in listed for cell in task["cells"].values() if "solved" in cell]


def test_scores_of_outcomes_are_shown() -> None:
    """The mean of what a rule that compares scores chose; a metric of that name stands in its place."""

    class Scored:
        traits = VerifierTraits(provides={"verdicts", "scores"})

        def verify(self, context: Any, proposal: Any) -> Any:
            return Verification(checks=tuple(Check("pass", score=float(item)) for item in proposal.items))

    tasks = [Task(id=each, input={"says": each}) for each in ("2", "4")]
    pipelines = {"best": Pipeline(Answers("says"), Scored(), Best())}
    found = evaluate(pipelines, tasks)
    assert found.summary.pipelines[0].rows[-1].measures["score"].figure.value == 3.0
    assert " score " in str(found)
    named = evaluate(pipelines, tasks, metrics={"score": Faster()})
    assert named.summary.pipelines[0].rows[-1].measures["score"].unit == "×"
