"""Fitting what scores mean: from a labelled run to the file, and from the file to what a run accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftverify import Check, Pipeline, Task, generator, verifier
from draftverify.bench.artifact import read_artifact, write_artifact
from draftverify.bench.cli.main import main
from draftverify.lab import Calibrated, fit_verifier
from draftverify.lab.lineage import TrainingReport, digests_of
from draftverify.lab.scores import ScoreArtifact
from draftverify.rules import All

PARTS = '''
from pathlib import Path

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

    def __init__(self, factor: float = 1.0, weights: Path | None = None) -> None:
        self.factor, self.weights = factor, weights

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
        learned_from = [f'{{"n": {i}}}' for i in range(self.steps)]
        return {"begun": begun, "loss": 1 / self.steps, "curve": [1.0], "learned_from": learned_from}
'''

CONFIG = """
parts: [./own.py]
tasks: {use: own.Numbers, count: 60}
defaults: {generator: {use: own.Guesses}, verifier: {use: own.Scorer}, rule: {use: all}, block: 5}
pipelines:
  raw: {}
  steps: {rule: {use: best_step}, budget: {rounds: 1}}
metrics:
  right: {use: python, function: own.right}
"""
SURE = """
parts: [./own.py]
tasks: {use: own.Numbers, count: 60}
pipelines:
  sure:
    generator: {use: own.Guesses}
    verifier: {use: calibrated, verifier: {use: own.Scorer}, scores: ./judge.json}
    rule: {use: all, abstain_after: 1}
    block: 5
metrics: {right: {use: python, function: own.right}}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a config, and its run."""
    path = tmp_path_factory.mktemp("fit")
    (path / "own.py").write_text(PARTS)
    (path / "fit.yaml").write_text(CONFIG)
    (path / "sure.yaml").write_text(SURE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert main(["run", "fit.yaml"]) == 0
    return path


@pytest.fixture
def run(recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The run, in whose config's directory the test stands."""
    monkeypatch.chdir(recorded)
    capsys.readouterr()
    return "runs/fit"


def test_a_fit_of_a_run_is_that_of_drafts_made_for_it(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Slope and intercept are those that the command had when it drafted the same items itself; nothing is called."""
    own, asked = Path("own.py").read_text(), "raise AssertionError"
    drafts, judges = "first = context.drafted", "return Verification("
    Path("own.py").write_text(own.replace(drafts, asked).replace(judges, f"{asked}("))
    try:
        assert main(["fit", "scores", run, "--pipeline", "raw", "--out", "new/judge.json"]) == 0
    finally:
        Path("own.py").write_text(own)
    out = capsys.readouterr().out
    assert "raw: 120 of 300 items right, 60 tasks, by the metric right" in out
    assert "wrote new/judge.json" in out
    artifact = read_artifact("new/judge.json", ScoreArtifact)
    assert (artifact.fit.slope, artifact.fit.intercept) == pytest.approx(
        (3.500667498668975, -19.252986576032846)
    )
    assert artifact.fit.error == pytest.approx(0.033741433894128384)
    assert artifact.metric == "right"
    assert artifact.parts["verifier"].name == "Scorer"
    assert artifact.learned_from == digests_of(Task(id=str(i), input={"n": i}) for i in range(60))


def test_a_calibrated_run_is_fitted_by_the_raw_scores(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A fit made again is the same: the probabilities that stand in its records are not taken for scores."""
    assert main(["fit", "scores", run, "--pipeline", "raw", "--out", "judge.json"]) == 0
    assert main(["run", "sure.yaml"]) == 0
    assert main(["fit", "scores", "runs/sure", "--out", "again.json", "--overlap"]) == 0
    assert read_artifact("again.json", ScoreArtifact) == read_artifact("judge.json", ScoreArtifact)


def test_a_run_refuses_the_scores_of_a_verifier_that_has_changed(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another argument is another verifier."""
    assert main(["fit", "scores", run, "--pipeline", "raw", "--out", "judge.json"]) == 0
    changed = "pipelines.sure.verifier.verifier.factor=2.0"
    assert main(["run", "sure.yaml", "--out", "runs/changed", "--set", changed]) == 3
    assert "was made with the verifier Scorer" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("learned", [60, 12, 0])
def test_what_was_trained_on_the_tasks_is_not_fitted_on_them_unless_said(
    run: str, capsys: pytest.CaptureFixture[str], learned: int
) -> None:
    """Of a verifier whose weights lie in the directory of a training; each of its tasks is told."""
    folder = Path(f"trained-{learned}")
    prompts = [json.dumps({"n": i + 60 - learned}) for i in range(30 + learned)]
    report = TrainingReport(learned_from=digests_of(prompts), figures={})
    write_artifact(folder / "report.json", report)
    raw = f"pipelines={{raw: {{verifier: {{use: own.Scorer, weights: ./{folder}}}}}}}"
    out = f"runs/{folder}"
    assert main(["run", "fit.yaml", "--out", out, "--set", raw]) == 0
    capsys.readouterr()
    assert main(["fit", "scores", out]) == (3 if learned else 0)
    err = " ".join(capsys.readouterr().err.split())
    if learned:
        assert f"error: {learned} of these 60 tasks are among the {30 + learned} that" in err
        assert f"{folder}/report.json was learned from" in err
        assert "(--overlap)" in err
        assert not Path(out, "raw.scores.json").exists()
        assert main(["fit", "scores", out, "--overlap"]) == 0
    assert read_artifact(f"{out}/raw.scores.json", ScoreArtifact).fit.items == 300


def test_in_python(tmp_path: Path) -> None:
    """The same of parts: right are the numbers from 6 on, and a pipeline that uses the file accepts no other. The order
    of the records does not matter: the same tasks are left out together."""
    guesses = generator(lambda context, n: [(7 * i + int(context.task.id)) % 10 for i in range(n)])
    judge = verifier(lambda context, item: Check("pass", score=item), scores=True)
    tasks = {str(i): Task(id=str(i), expected={"from": 6}) for i in range(60)}
    records = Pipeline(guesses, judge, All(), block=2).record(list(tasks.values()))
    first, second = (
        fit_verifier(judge, order, tasks, lambda task, outcome: outcome.value >= task.expected["from"])
        for order in (records, records[::-1])
    )
    assert first == second
    assert (first.artifact.fit.items, first.unscored, first.unheard) == (120, 0, 0)
    write_artifact(tmp_path / "judge.json", first.artifact)
    with Pipeline(guesses, Calibrated(judge, tmp_path / "judge.json"), All(), block=10) as pipeline:
        assert set(pipeline.run(Task(id="3")).value) == {6, 7, 8, 9}


def test_items_that_teach_nothing_are_counted() -> None:
    """Those without a score, those whose check failed, and those of which the metric says nothing; of a task that
    failed there are none."""
    odd = verifier(
        lambda c, item: Check("error" if item == 1 else "pass", score=None if item == 2 else item),
        scores=True,
    )
    tasks = {str(i): Task(id=str(i)) for i in range(31)}
    drafts = generator(lambda c, n: list(range(n if int(c.task.id) else 1 // 0)))
    records = Pipeline(drafts, odd, All(), block=6).record(list(tasks.values()))
    fitted = fit_verifier(odd, records, tasks, lambda t, o: None if o.value == 3 else o.value > 4)
    assert (fitted.artifact.fit.items, fitted.unscored, fitted.unheard) == (30 * 3, 30 * 3, 1)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "has 2 pipelines; name one: --pipeline raw or steps"),
        (["--pipeline", "ra"], "did you mean raw"),
        (["--pipeline", "raw", "--metric", "rigth"], "did you mean right"),
        (["--pipeline", "steps"], "makes an answer of many items, of which none is"),
    ],
)
def test_what_cannot_be_fitted_is_said(
    run: str, capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    """And no file is written."""
    assert main(["fit", "scores", run, *arguments, "--out", "none.json"]) == 3
    assert what in " ".join(capsys.readouterr().err.split())
    assert not Path("none.json").exists()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    return "fit.yaml"


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
    report = read_artifact("count/report.json", TrainingReport)
    assert report.figures == {"begun": 10, "loss": 0.025, "curve": [1.0]}
    assert report.learned_from == digests_of(Task(id="t", input={"n": i}) for i in range(40))


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
    assert json.loads(text, parse_constant=pytest.fail)["figures"]["curve"] == [None, [1.0, None]]


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
