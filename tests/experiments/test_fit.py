"""Fitting what scores mean: from a config's labelled tasks to the file, and from the file to what a run accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from draftverify import Check, ConfigError, DraftVerifyError, Pipeline, Task, generator, verifier
from draftverify.bench.artifact import read_artifact, write_artifact
from draftverify.bench.cli.main import main
from draftverify.kit import ScriptedGenerator
from draftverify.lab import Calibrated, fit_verifier
from draftverify.lab.scores import ScoreArtifact
from draftverify.rules import All
from tests.lab.test_artifact import POINT

PARTS = '''
from draftverify import Check, GeneratorTraits, Proposal, Verification, VerifierTraits


class Guesses:
    """Five numbers of each task, of which the large ones are right more often."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def propose(self, context, n):
        first = context.drafted
        items = [{"score": (7 * i + int(context.task.id)) % 10, "place": i} for i in range(first, first + n)]
        return Proposal.alternatives(items)


class Scorer:
    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset())

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def verify(self, context, proposal):
        return Verification(checks=tuple(
            Check("pass", score=self.factor * item["score"], correction={**item, "answer": item["score"]})
            for item in proposal.items
        ))


def right(task, outcome):
    value = outcome.value
    if outcome.status != "accepted":
        return False
    answers = [value] if isinstance(value, dict) else value
    return all(each["answer"] >= task.expected["from"] for each in answers)


def broken(task, outcome):
    raise KeyError("expected")


class Numbers:
    def __init__(self, count: int, limit: int | None = None) -> None:
        self.count = count

    def load(self):
        from draftverify import Task

        return [Task(id=str(i), input={"n": i}, expected={"from": 6}) for i in range(self.count)]


class Counter:
    """A trainer that counts, and goes on where it was stopped."""

    def __init__(self, steps: int, stop: int = 0) -> None:
        self.steps, self.stop = steps, stop

    def train(self, out, progress):
        out.mkdir(parents=True, exist_ok=True)
        mark = out / "checkpoint"
        begun = int(mark.read_text()) if mark.exists() else 0
        for step in range(begun + 1, self.steps + 1):
            progress(step, self.steps, f"loss {1 / step:.2f}")
            mark.write_text(str(step))
            if step == self.stop and begun < step:
                raise KeyboardInterrupt
        return {"begun": begun, "loss": 1 / self.steps, "curve": [1.0]}
'''

CONFIG = """
parts: [./own.py]
tasks: {use: own.Numbers, count: 60}
models:
  judge: {use: own.Scorer}
pipelines:
  raw: {generator: {use: own.Guesses}, verifier: {use: own.Scorer}, rule: {use: all}, block: 5}
  sure:
    generator: {use: own.Guesses}
    verifier: {use: calibrated, verifier: judge, scores: ./judge.json}
    rule: {use: all, abstain_after: 1}
    block: 1
  staged:
    generator: {use: own.Guesses}
    verifier: {use: all_of, stages: [{use: own.Scorer}, {use: calibrated, verifier: judge, scores: ./judge.json}]}
    rule: {use: first}
    block: 1
metrics:
  right: {use: python, function: own.right}
  broken: {use: python, function: own.broken}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own.py").write_text(PARTS)
    (tmp_path / "fit.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return "fit.yaml"


def test_fit_writes_the_file_that_a_run_then_decides_by(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once for the two pipelines that share it."""
    assert main(["fit", "scores", config]) == 0
    out = capsys.readouterr().out
    assert "sure: 24 of 60 items right, 60 tasks" in out
    assert "fitted on what sure drafts; staged judge by it too" in out
    assert "wrote" in out
    made = read_artifact("judge.json", ScoreArtifact)
    assert (made.fit.items, made.fit.tasks, made.metric) == (60, 60, "right")
    assert main(["run", config, "--set", "metrics={right: {use: python, function: own.right}}"]) == 0
    summary = json.loads(Path("runs/fit/summary.json").read_text())
    text = json.dumps(summary)
    assert '"sure"' in text
    capsys.readouterr()


@pytest.mark.parametrize(("block", "items"), [(3, 180), (0, 240)])
def test_blocks_are_those_of_the_calibration(config: str, block: int, items: int) -> None:
    """As large as the pipeline's would be; where it says not to draft, of the best size that drafts, here 4."""
    write_artifact("point.json", replace(POINT, block=block, tested=4))
    text = Path(config).read_text()
    file = "scores: ./judge.json}\n    rule: {use: all, abstain_after: 1}\n    "
    assert f"{file}block: 1" in text
    Path(config).write_text(
        text.replace(f"{file}block: 1", f"{file}block: {{use: fitted, path: ./point.json}}")
    )
    assert main(["fit", "scores", config, "--pipeline", "sure"]) == 0
    assert read_artifact("judge.json", ScoreArtifact).fit.items == items


def test_more_blocks_are_more_items(config: str) -> None:
    """Drafted one after the other, whatever was accepted."""
    assert main(["fit", "scores", config, "--pipeline", "sure", "--blocks", "3"]) == 0
    assert read_artifact("judge.json", ScoreArtifact).fit.items == 60 * 3


def test_in_python(tmp_path: Path) -> None:
    """The same of parts: right are the numbers from 6 on, and a pipeline that uses the file accepts no other."""
    guesses = generator(lambda context, n: [(7 * i + int(context.task.id)) % 10 for i in range(n)])
    judge = verifier(lambda context, item: Check("pass", score=item), scores=True)
    tasks = [Task(id=str(i), expected={"from": 6}) for i in range(60)]
    made, unscored = fit_verifier(
        guesses, judge, tasks, lambda task, outcome: outcome.value >= task.expected["from"], block=1
    )
    assert (made.fit.items, unscored) == (60, 0)
    write_artifact(tmp_path / "judge.json", made)
    with Pipeline(guesses, Calibrated(judge, tmp_path / "judge.json"), All(), block=10) as pipeline:
        assert set(pipeline.run(Task(id="3")).value) == {6, 7, 8, 9}


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_steps_of_an_answer_cannot_be_labelled(shape: str) -> None:
    """A metric says whether an answer is right, and no item of a chain is one."""
    steps = ScriptedGenerator([["a", "b"]], shape=shape)  # type: ignore[arg-type]
    judge = verifier(lambda context, item: Check("pass", score=1.0), scores=True)
    with pytest.raises(ConfigError, match=f"drafts are {shape}s, of which no item is a whole answer"):
        fit_verifier(steps, judge, [Task(id="1")], lambda task, outcome: True)


def test_the_order_of_the_tasks_does_not_matter() -> None:
    """Nor which of them ended first: the same tasks are left out together."""
    guesses = generator(lambda context, n: [(7 * i + int(context.task.id)) % 10 for i in range(n)])
    judge = verifier(lambda context, item: Check("pass", score=item), scores=True)
    tasks = [Task(id=str(i), expected={"from": 5 + i % 3}) for i in range(30)]
    first, second = (
        fit_verifier(guesses, judge, order, lambda t, o: o.value >= t.expected["from"], block=3)[0]
        for order in (tasks, tasks[::-1])
    )
    assert first == second


def test_a_pipeline_inside_another_is_fitted_too(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On the tasks of the outer one."""
    own = PARTS.replace("context.task.id", 'context.task.id.split("/")[0]').replace("% 10", "% 4 + 6")
    Path("own.py").write_text(own)
    Path(config).write_text("""
parts: [./own.py]
tasks: {use: own.Numbers, count: 60}
pipelines:
  outer:
    generator:
      generator: {use: own.Guesses}
      verifier: {use: calibrated, verifier: {use: own.Scorer}, scores: ./inner.json}
      rule: {use: first}
      block: 1
    verifier: {use: calibrated, verifier: {use: own.Scorer}, scores: ./outer.json, accept: 0.5}
    rule: {use: all}
    block: 1
metrics:
  right: {use: python, function: own.right}
""")
    assert main(["fit", "scores", config]) == 0
    inner, outer = (read_artifact(f"{each}.json", ScoreArtifact).fit for each in ("inner", "outer"))
    assert (inner.items, inner.tasks) == (60, 60)
    # The outer one judges what the inner one answered.
    assert outer.items == outer.right == 60
    assert main(["run", config]) == 0


def test_items_that_teach_nothing_are_counted() -> None:
    """Those without a score, those whose check failed, and those of which the metric says nothing."""
    odd = verifier(
        lambda c, item: Check("error" if item == 1 else "pass", score=None if item == 2 else item),
        scores=True,
    )
    tasks = [Task(id=str(i), expected={"from": 6}) for i in range(30)]
    made, unscored = fit_verifier(
        generator(lambda c, n: list(range(n))),
        odd,
        tasks,
        lambda t, o: None if o.value == 3 else o.value > 4,
        block=6,
    )
    assert (made.fit.items, unscored) == (30 * 3, 30 * 3)


def test_tasks_that_failed_are_counted(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is fitted is fitted on the others, and says so."""
    Path("own.py").write_text(
        PARTS.replace("first = context.drafted", "first = context.drafted; 1 / (int(context.task.id) % 6)")
    )
    assert main(["fit", "scores", config, "--pipeline", "sure"]) == 0
    assert "10 tasks taught nothing: they failed, or nothing was drafted for them" in capsys.readouterr().out


def test_where_all_tasks_failed_it_is_said_why() -> None:
    """By the first of their failures."""
    judge = verifier(lambda context, item: Check("pass", score=item), scores=True)
    tasks = [Task(id=str(i)) for i in range(3)]
    with pytest.raises(DraftVerifyError, match="all 3 tasks failed, the first by ZeroDivisionError: "):
        fit_verifier(generator(lambda context, n: 1 / 0), judge, tasks, lambda task, outcome: True)


def test_the_directory_of_the_file_is_made(config: str) -> None:
    """Rather than to fail when all work is done."""
    assert (
        main(
            [
                "fit",
                "scores",
                config,
                "--pipeline",
                "sure",
                "--set",
                "pipelines.sure.verifier.scores=./new/judge.json",
            ]
        )
        == 0
    )
    assert read_artifact("new/judge.json", ScoreArtifact).fit.tasks == 60


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--pipeline", "raw"], "no pipeline has a calibrated verifier"),
        (["--pipeline", "sur"], "did you mean sure"),
        (["--metric", "rigth"], "did you mean right"),
        (["--metric", "broken"], "the metric failed on task 0: KeyError"),
        (["--set", "metrics={}"], "there are no metrics"),
        (["--set", "tasks.count=0"], "no judged item"),
        (
            ["--set", "pipelines.sure.rule={use: best_step}"],
            "makes an answer of many items, of which none is",
        ),
        (["--set", "pipelines.sure.rule={use: beam, width: 2}"], "pipelines.sure.rule"),
    ],
)
def test_what_cannot_be_fitted_is_said(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    """And no file is written."""
    assert main(["fit", "scores", config, *arguments]) != 0
    assert what in " ".join(capsys.readouterr().err.split())
    assert not Path("judge.json").exists()


def test_a_run_refuses_the_scores_of_a_verifier_that_has_changed(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another argument is another verifier."""
    assert main(["fit", "scores", config]) == 0
    assert main(["run", config, "--set", "models.judge.factor=2.0"]) == 3
    assert "was made with the verifier Scorer" in " ".join(capsys.readouterr().err.split())


def test_train_goes_on_and_writes_its_report(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A trainer of a parts file, by name; what was stopped begins at its checkpoint."""
    Path("count.yaml").write_text("parts: [./own.py]\nsteps: 40\nstop: 10\n")
    assert main(["fit", "part", "own.Counter", "count.yaml"]) == 130
    assert "goes on from the last checkpoint" in capsys.readouterr().err
    assert main(["fit", "part", "own.Counter", "count.yaml"]) == 0
    told = capsys.readouterr()
    assert "begun: 10\nloss: 0.025\n" in told.out
    assert "step 40 of 40: loss 0.03" in told.err
    assert len(told.err.splitlines()) < 25
    report = json.loads(Path("count/report.json").read_text())
    assert {**report, "training": ""} == {"training": "", "begun": 10, "loss": 0.025, "curve": [1.0]}


def test_train_keeps_what_it_trained(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command again does nothing; another training is not written over it, and is told of."""
    Path("count.yaml").write_text("parts: [./own.py]\nsteps: 4\n")
    assert main(["fit", "part", "own.Counter", "count.yaml"]) == 0
    report = Path("count/report.json").read_bytes()
    assert main(["fit", "part", "own.Counter", "count.yaml"]) == 0
    assert "holds it already" in capsys.readouterr().out
    assert main(["fit", "part", "own.Counter", "count.yaml", "--set", "steps=5"]) == 3
    assert "other data or settings" in " ".join(capsys.readouterr().err.split())
    assert Path("count/report.json").read_bytes() == report


def test_a_report_is_json_whatever_it_holds(config: str) -> None:
    """An end of an interval that is not known is null."""
    Path("count.yaml").write_text("parts: [./own.py]\nsteps: 4\n")
    own = (
        Path("own.py").read_text().replace('"curve": [1.0]', '"curve": [float("-inf"), (1.0, float("nan"))]')
    )
    Path("own.py").write_text(own)
    assert main(["fit", "part", "own.Counter", "count.yaml"]) == 0
    text = Path("count/report.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["curve"] == [None, [1.0, None]]


@pytest.mark.parametrize(
    ("text", "name", "what"),
    [
        ("steps: many\n", "own.Counter", "count.yaml:2 steps"),
        ("step: 4\n", "own.Counter", "unknown key 'step' of own.Counter; did you mean steps or stop?"),
        ("steps: 4\n", "own.Count", "did you mean own.Counter or own.broken?"),
        ("steps: 4\n", "own.Scorer", "has no train()"),
        ("steps: 4\nuse: own.Scorer\n", "own.Counter", "own.Counter is what is trained"),
        ("- 1\n", "own.Counter", "mapping"),
    ],
)
def test_what_is_wrong_with_a_trainers_config_is_said(
    config: str, capsys: pytest.CaptureFixture[str], text: str, name: str, what: str
) -> None:
    """With file, line and the nearest name; nothing is trained."""
    Path("count.yaml").write_text(("" if text.startswith("-") else "parts: [./own.py]\n") + text)
    assert main(["fit", "part", name, "count.yaml"]) != 0
    assert what in " ".join(capsys.readouterr().err.split())
    assert not Path("count").exists()
