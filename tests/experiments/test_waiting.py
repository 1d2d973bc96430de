"""Tasks that wait for a person are in every figure: as not solved, with what they have cost so far, and once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftverify import Outcome, Pipeline, Policy, Task, escalate, give_up, retry, stats
from draftverify.bench import Evaluation, RunResult, evaluate, load_experiment, run
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.config.specs import Experiment
from draftverify.bench.monitors import Monitor
from draftverify.bench.records import RunRecords, load_run, rows
from draftverify.bench.runner.run import estimate
from draftverify.bench.tables.summary import Row
from draftverify.checks.metrics import EqualAnswer, score
from draftverify.lab import Recording
from draftverify.lab.choosing import read_scored
from draftverify.rules import First
from draftverify.view.overview import overview
from tests.experiments.metric_parts import Answers, Believes
from tests.report.runs import overview_of, unpacked

PARTS = Path(__file__).with_name("metric_parts.py")
YAML = """
name: waits
parts: [{parts}]
tasks: {{use: jsonl, path: {tasks}, expected: {{answer: answer}}, group: kind}}
metrics: {{exact: {{use: exact}}}}
pipelines:
  slow:
    generator: {{use: metric_parts.Answers, field: slow, seconds: 1000}}
    verifier: {{use: metric_parts.Believes}}
    rule: {{use: first}}
  quick:
    generator: {{use: metric_parts.Answers, field: {field}, seconds: 100}}
    verifier: {{use: metric_parts.Believes}}
    rule: {{use: first}}
    on_rejection: [{{do: regenerate, times: 1}}, {{do: {policy}}}]
    monitor: {{reference: {{acceptance: 0.6}}}}
baseline: slow
predict: {{limit: 2}}
durable: {durable}
executor: {executor}
"""
WORDS = {"+": "yes", "-": "no", "?": "?"}
QUICK = "++?-" + "+" * 12 + "??????--"
"""Of the 20 that are measured 12 are solved, 6 are refused or wait, and 2 are false passes."""
WORSE = "++?-" + "+" * 4 + "?" * 14 + "--"


def experiment(
    folder: Path,
    policy: str,
    *,
    field: str = "quick",
    durable: str = "task",
    executor: str = "{use: serial}",
) -> Experiment:
    """The experiment in which every refused candidate is given up or goes to a person."""
    folder.mkdir(exist_ok=True)
    lines = [
        {"slow": "yes", "quick": WORDS[one], "worse": WORDS[other], "answer": "yes", "kind": f"g{place % 2}"}
        for place, (one, other) in enumerate(zip(QUICK, WORSE, strict=True))
    ]
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    file = folder / "waits.yaml"
    tasks = folder / "tasks.jsonl"
    file.write_text(
        YAML.format(parts=PARTS, tasks=tasks, policy=policy, field=field, durable=durable, executor=executor)
    )
    return load_experiment(file)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    """The same experiment with `give_up` and with `escalate`."""
    folder = tmp_path_factory.mktemp("waits")
    return {
        policy: run(experiment(folder / policy, policy), out=folder / policy / "run")
        for policy in ("give_up", "escalate")
    }


def quick(result: RunResult) -> Row:
    """The row of the pipeline with the policy, over all tasks."""
    return result.summary.pipelines[1].rows[-1]


def same(left: Any, right: Any) -> bool:
    """Whether two figures are equal, up to the microseconds that rules take."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == pytest.approx(right, rel=1e-3, nan_ok=True)
    return bool(left == right)


def without(plain: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in names}


# What is allowed to differ: how tasks ended, and the second figure.
ENDED = ("statuses", "if_people_solve")


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the summary, or of the page, without the words on how tasks ended and what rules took."""
    solved = {name: without(each, *ENDED) for name, each in row["solved"].items()}
    split = without(row.get("split", {}), "rest")
    return {**without(row, *ENDED), "solved": solved, "split": split}


def test_tables_and_summary_say_the_same_of_waiting_and_of_given_up_tasks(both: dict[str, RunResult]) -> None:
    """Solved, acceptance, cost, speed-up and prediction, of every group; beside them what people could add."""
    kept, waits = both["give_up"], both["escalate"]
    assert (kept.waiting, waits.waiting) == (0, 6)
    assert dict(quick(waits).statuses) == {"accepted": 14, "waiting": 6}
    assert quick(waits).tasks == 20
    for left, right in zip(kept.summary.pipelines, waits.summary.pipelines, strict=True):
        for one, other in zip(left.rows, right.rows, strict=True):
            assert same(figures(msgspec.to_builtins(one)), figures(msgspec.to_builtins(other)))
    solved = quick(waits).solved["exact"]
    assert solved.rate.value == pytest.approx(12 / 20)
    assert solved.if_people_solve is not None
    assert solved.if_people_solve.value == pytest.approx(18 / 20)
    assert quick(kept).solved["exact"].if_people_solve is None
    assert quick(waits).predicted is not None
    written = json.loads((waits.path / "summary.json").read_text())
    assert written == json.loads(json.dumps(waits.summary.plain()))


def test_the_report_counts_waiting_tasks(both: dict[str, RunResult]) -> None:
    """Rows, picture, positions, time and trust are those of given-up tasks; the flow has as many refused items."""
    pages = {
        name: overview_of((result.path / "report.html").read_text())["pipelines"][1]
        for name, result in both.items()
    }
    kept, waits = pages["give_up"], pages["escalate"]
    for one, other in zip(kept["rows"], waits["rows"], strict=True):
        assert same(figures(one), figures(other))
    for part in ("positions", "stages", "trust", "monitor"):
        assert same(kept[part], waits[part]), part
    for name, ended in (("give_up", "refused"), ("escalate", "waiting")):
        flow = pages[name]["flow"]
        assert {(each["where"], each["ended"]) for each in flow} == {("reject", ended)}
        assert sum(each["items"] for each in flow) == 12
    listed = unpacked((both["escalate"].path / "report.html").read_text(), "rows")
    cells = [row["cells"]["quick"] for row in listed if row["cells"]["quick"]["status"] == "waiting"]
    assert [cell["seconds"] for cell in cells] == [pytest.approx(200, rel=1e-3)] * 6
    # The page of a run that goes on sums the records anew.
    (both["escalate"].path / "summary.json").rename(both["escalate"].path / "kept.json")
    with load_run(both["escalate"].path) as records:
        page = overview(records)["pipelines"][1]["rows"][-1]
    (both["escalate"].path / "kept.json").rename(both["escalate"].path / "summary.json")
    assert same(page["seconds_per_task"], waits["rows"][-1]["seconds_per_task"])
    assert page["tasks"] == 20


def test_show_says_both_figures(both: dict[str, RunResult], capsys: pytest.CaptureFixture[str]) -> None:
    """What is solved, and what would be if people solved all that wait."""
    shown = {}
    for name, result in both.items():
        assert main(["show", str(result.path)]) == 0
        shown[name] = capsys.readouterr().out
    assert "60%" in shown["give_up"]
    assert "60%" in shown["escalate"]
    assert "6 waiting" in shown["escalate"]
    assert "(90%" in shown["escalate"]
    assert "people solve" in shown["escalate"]
    assert "people" not in shown["give_up"]
    assert main(["show", str(both["escalate"].path), "--tasks", "waiting"]) == 0
    assert "6 tasks of 20, waiting" in capsys.readouterr().out


@pytest.mark.parametrize("policy", ["give_up", "escalate"])
def test_a_regression_fails_the_comparison(
    both: dict[str, RunResult], policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From .6 solved to .2: `--fail-on-worse` exits with 10 whatever is done with what was refused."""
    worse = run(experiment(tmp_path, policy, field="worse"), out=tmp_path / "run").path
    sides = [f"{both[policy].path}:quick", f"{worse}:quick"]
    assert main(["compare", *sides, "--fail-on-worse", "--on", "exact"]) == ExitCode.WORSE
    said = capsys.readouterr().out
    assert "60.0 → 20.0 %" in said
    assert "worse" in said
    assert ("90.0 → 90.0 % if people solve the tasks that wait" in said) is (policy == "escalate")
    assert ("14 wait for a person, and count as not solved" in said) is (policy == "escalate")
    sides = [f"{both[other].path}:quick" for other in both]
    exact = [word for outcome in ("exact", "accepted", "cost/solved") for word in ("--on", outcome)]
    assert main(["compare", *sides, *exact, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [pairing["pairs"] for pairing in found["pairings"]] == [20]
    assert [(cell["outcome"], cell["said"]) for cell in found["cells"]] == [
        (outcome, "no difference seen") for outcome in ("exact", "accepted", "cost/solved")
    ]
    assert [cell["test"]["base"] == cell["test"]["other"] for cell in found["cells"]] == [True] * 3
    assert found["cells"][0]["if_people_solve"] == pytest.approx([0.6, 0.9])
    assert [side["waiting"] for side in found["sides"]] == [0, 6]


def test_exports_have_a_row_of_a_waiting_task(both: dict[str, RunResult]) -> None:
    """Tasks, rounds and items are those of given-up tasks, but for how the task ended and what was asked."""
    ended = ("status", "reason", "committed", "steps", "decide", "busy")
    for level in ("tasks", "rounds", "items"):
        found = []
        for result in both.values():
            with load_run(result.path) as records:
                found.append([without(row, *ended) for row in rows.rows(records, level)])  # type: ignore[arg-type]
        assert same(*found), level
        assert len(found[0]) == (40 if level == "tasks" else 46)


def test_records_and_predictions_count_waiting_tasks(both: dict[str, RunResult]) -> None:
    """Acceptance, what was predicted from the first tasks, and what a fit reads."""
    found: list[dict[str, Any]] = []
    for policy, result in both.items():
        with load_run(result.path) as records:
            own = records.records("quick")
            read = read_scored(load_experiment(result.path.parent / "waits.yaml"), result.path, "exact")
            scored = read.records["quick"]
            found.append(
                {
                    "tasks": len(own),
                    "acceptance": stats.acceptance_rate(own),
                    "retries": stats.acceptance_rate(own, first_tries=False),
                    "predictions": [msgspec.to_builtins(each) for each in records.predictions],
                    "scored": [(record.task, record.outcome.cost, value) for record, value in scored],
                    "cost": stats.cost_per_solved(scored).value,
                    "watched": [(each.task, each.shares, each.alarms) for each in records.watched["quick"]],
                    "metric": records.store.named_scores(),
                }
            )
        assert len(found[-1]["scored"]) == 20, policy
    assert same(*found)
    assert found[0]["acceptance"].trials == 20
    assert found[0]["predictions"]


def test_a_replay_counts_waiting_tasks(both: dict[str, RunResult]) -> None:
    """As they ran, and as they would have been: the same of both runs."""
    found = []
    for result in both.values():
        config = result.path.parent / "waits.yaml"
        with load_run(result.path) as records, Recording(records, "quick", config=config) as recording:
            replayed = recording.what_if(["on_rejection=[{do: give_up}]"])
        for side in (replayed.ran, replayed.would):
            found.append((side.tasks, side.trials, side.passes, side.solved, side.cost.value))
    assert same(found[:2], found[2:])
    assert found[0][0] == 20


def test_a_forecast_counts_waiting_tasks(tmp_path: Path) -> None:
    """What is left costs as much per task as those that were done, waiting ones among them."""
    found = []
    for policy in ("give_up", "escalate"):
        forecast = estimate(experiment(tmp_path / policy, policy), out=tmp_path / policy / "run")
        left = forecast.pipelines["quick"]
        found.append((forecast.done, left.cost, left.cost))
    assert found[0] == found[1]
    assert found[0][2].value > 0


def test_evaluate_counts_waiting_tasks() -> None:
    """In the library as in a run: equal figures, and the second one beside them."""
    tasks = [
        Task(id=str(place), input={"quick": WORDS[word]}, expected={"answer": "yes"})
        for place, word in enumerate("++++++????")
    ]

    def evaluated(policy: Policy, metrics: dict[str, Any] | None = None) -> Evaluation:
        monitor = Monitor({"acceptance": 0.6})
        pipeline = Pipeline(Answers("quick", 100.0), Believes(), First(), policy=retry(1).then(policy))
        monitors = {"quick": monitor}
        found = evaluate({"quick": pipeline}, tasks, metrics=metrics or {}, monitors=monitors)
        assert [record.task for record in found.records["quick"]] == [task.id for task in tasks]
        assert monitor.tasks == len(tasks)
        return found

    exact = {"exact": EqualAnswer()}
    kept, waits = (
        evaluated(policy, exact).summary.pipelines[0].rows[-1] for policy in (give_up(), escalate())
    )
    assert same(figures(msgspec.to_builtins(kept)), figures(msgspec.to_builtins(waits)))
    assert (waits.tasks, waits.solved["exact"].rate.value) == (10, pytest.approx(0.6))
    assert waits.if_people_solve is not None
    assert waits.if_people_solve.value == 1.0
    # Without a metric the same stands beside what was accepted.
    assert "people solve" in str(evaluated(escalate()))
    assert "accepted" in str(evaluated(escalate())).splitlines()[1]
    assert "accepted" not in str(evaluated(give_up())).splitlines()[1]


def test_a_waiting_task_is_not_solved_whatever_a_metric_makes_of_it() -> None:
    """A metric that gives it a figure gives 0; without expectation there is none, a measure says what it says, and
    one that fails on a task without an answer fails as on a task that was given up."""
    task, waits = Task(id="t", expected={"answer": "yes"}), Outcome(status="waiting", seconds=2.0)

    class Seconds:
        unit = "s"

        def __call__(self, task: Task, outcome: Outcome) -> float:
            return outcome.seconds

    def lenient(task: Task, outcome: Outcome) -> float | None:
        return 1.0 if task.expected else None

    assert score(lenient, task, waits).value == 0.0
    gave_up = Outcome(status="refused")
    longer = lambda task, outcome: len(outcome.value) > 2
    assert score(longer, task, waits) == score(longer, task, gave_up)
    assert "TypeError" in score(longer, task, waits).problem
    assert score(lenient, task.without_expected(), waits).value is None
    assert score(Seconds(), task, waits).value == 2.0


def answer(records: RunRecords, value: str | None) -> int:
    """Answer all questions with this value, or reject; how many there were."""
    asked = records.store.questions("pending")
    for question in asked:
        assert records.store.answer(question, "reject" if value is None else "edit", value)
    return len(asked)


@pytest.mark.parametrize(
    ("executor", "durable"),
    [
        ("{use: serial}", "task"),
        ("{use: batch, size: 8}", "round"),
        # In a worker a task waits and goes on in test_nested_config.py too.
        pytest.param("{use: process, workers: 1}", "round", marks=pytest.mark.exhaustive),
    ],
)
def test_an_answered_task_counts_once(tmp_path: Path, executor: str, durable: str) -> None:
    """Its record goes on: the rounds before the question and those after it, one row, one verdict for the monitor."""
    own = experiment(tmp_path, "escalate", executor=executor, durable=durable)
    first = run(own, out=tmp_path / "run")
    with load_run(first.path) as records:
        told = records.watched["quick"]
        assert answer(records, "yes") == 7  # one of them is of the tasks to fit on
        # Until the run takes the answers up the tasks wait.
        assert records.store.counts()["measure", "quick", "waiting"] == 6
    second = run(own, out=tmp_path / "run")
    assert (second.waiting, second.ran) == (0, 7)
    row = quick(second)
    assert dict(row.statuses) == {"accepted": 20}
    assert row.solved["exact"].rate.value == pytest.approx(18 / 20)
    assert row.solved["exact"].if_people_solve is None
    assert row.acceptance == quick(first).acceptance
    assert row.cost == quick(first).cost
    with load_run(first.path) as records:
        assert records.watched["quick"] == told
        assert len(records.records("quick")) == 20
        assert {len(record.rounds) for record in records.records("quick")} == {1, 3}
        assert all(record.outcome.rounds == len(record.rounds) for record in records.records("quick"))
        scores = records.store.named_scores()
        assert len(scores) == 40
    assert run(own, out=tmp_path / "run").summary == second.summary
