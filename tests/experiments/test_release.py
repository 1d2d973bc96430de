"""Making a pool with `draftverify fit --release`, and running by it: from YAML to what is released."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftverify import Check, Pipeline, Task, escalate, generator, verifier
from draftverify.calibration import ReleaseArtifact, read_artifact
from draftverify.cli.main import main
from draftverify.experiments import pool_of
from draftverify.rules import Withhold

PARTS = '''
from draftverify import Check, Proposal, Task, Verification


class Guesses:
    """Of task i the scores i % 10 + 0, 1, 2, …; of every third task the third try is right, and scores higher."""

    shape = "alternatives"
    reads = frozenset()

    def propose(self, context, n):
        number, first = context.task.input["n"], context.drafted
        solved = number % 3 == 0
        return Proposal.alternatives(
            [
                {"score": number % 10 + (100 if solved and i == 2 else i), "right": solved and i == 2}
                for i in range(first, first + n)
            ]
        )


class Others(Guesses):
    pass


class Scorer:
    provides = frozenset({"verdicts", "scores"})
    reads = frozenset()

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def verify(self, context, proposal):
        return Verification(
            checks=tuple([Check("pass", score=self.factor * item["score"]) for item in proposal.items])
        )


class Numbers:
    def __init__(self, count: int, first: int = 0, every: int = 1) -> None:
        self.count, self.first, self.every = count, first, every

    def load(self):
        numbers = range(self.first, self.first + self.count, self.every)
        return [Task(id=str(n), input={"n": n}) for n in numbers]


def right(task, outcome):
    return bool(outcome.value and outcome.value["right"])
'''

CONFIG = """
parts: [./own.py]
tasks: {use: own.Numbers, count: 90}
pipelines:
  sure:
    generator: {use: own.Guesses}
    verifier: {use: own.Scorer}
    rule: {use: release, pool: ./pool.json, alpha: 0.05}
    on_rejection: [{do: regenerate, times: 3}]
metrics:
  right: {use: python, function: own.right}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own.py").write_text(PARTS)
    (tmp_path / "release.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return "release.yaml"


def test_the_pool_is_made_of_the_tasks_that_fail_in_all_their_tries(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 of 90, each by the highest of its four scores; a run then releases what lies above them, and nothing else."""
    assert main(["fit", config, "--release"]) == 0
    out = capsys.readouterr().out
    assert "sure: 60 of 90 tasks failed in all their tries, 4 at most; 30 had a try that is right" in out
    assert "released above score 12, at alpha 0.05" in out
    made = read_artifact("pool.json", ReleaseArtifact)
    assert (made.pool.tries, len(made.pool.maxima), made.metric, made.tasks) == (4, 60, "right", 90)
    assert sorted(set(made.pool.maxima)) == [float(n) for n in range(3, 13)]  # type: ignore[type-var]
    assert main(["run", config, "--set", "tasks.first=90", "--set", "tasks.count=30"]) == 0
    row = json.loads(Path("runs/release/summary.json").read_text())["pipelines"][0]
    text = json.dumps(row)
    assert '"accepted": 10' in text
    assert '"abstained": 20' in text


def test_the_pool_of_another_verifier_is_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a fit of scores is."""
    assert main(["fit", config, "--release"]) == 0
    verifier = "pipelines.sure.verifier={use: own.Scorer, factor: 2.0}"
    assert main(["run", config, "--set", verifier]) != 0
    assert "was made with the verifier Scorer" in capsys.readouterr().err


def test_too_few_failures_are_told(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is written, and says what it lacks; without any failure there is none."""
    assert main(["fit", config, "--release", "--set", "tasks.count=20"]) == 0
    assert "too few: alpha 0.05 needs 19 failed tasks" in capsys.readouterr().out
    assert main(["run", config]) != 0
    assert "has 13 failed tasks" in capsys.readouterr().err
    assert main(["fit", config, "--release", "--set", "tasks.every=3"]) != 0
    assert "none of 30 tasks is known to have failed (30 had a try that is right" in capsys.readouterr().err


def test_without_such_a_rule_there_is_nothing_to_make(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what to write."""
    assert main(["fit", config, "--release", "--set", "pipelines.sure.rule={use: best}"]) != 0
    assert "write rule: {use: release, pool: FILE}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--precision=.8", "--confidence=.8", "--lost=.2", "--best", "--blocks=2"])
def test_what_a_pool_has_no_use_for_is_a_mistake(
    config: str, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """Rather than to be taken for a promise."""
    assert main(["fit", config, "--release", option]) == 2
    assert f"--release takes no {option.split('=')[0]}" in " ".join(capsys.readouterr().err.split())
    assert not Path("pool.json").exists()


def test_it_says_beforehand_how_many_have_to_fail(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is drafted, and no threshold is asked for."""
    assert main(["fit", config, "--release", "--plan"]) == 0
    said = capsys.readouterr().out
    assert "90 tasks with labels" in said
    assert "19 of them have to fail in all their tries; 90 are enough if so many fail" in said
    assert main(["fit", config, "--release", "--plan", "--limit", "18", "--set", "tasks.count=18"]) == 0
    assert "18 are too few, were all to fail" in capsys.readouterr().out
    assert not Path("pool.json").exists()


ANOTHER = """
  other:
    generator: {use: own.Guesses}
    verifier: {use: own.Scorer}
    rule: {use: release, pool: ./pool.json, alpha: 0.1}
    on_rejection: [{do: regenerate, times: 3}]
metrics:
"""


def test_pipelines_that_share_a_pool_are_alike(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """But for their names and rules: tries of another verifier, policy or block size reach other scores by luck."""
    Path(config).write_text(CONFIG.replace("metrics:\n", ANOTHER.lstrip("\n")))
    assert main(["fit", config, "--release"]) == 0
    assert "sure, other: 60 of 90 tasks failed" in capsys.readouterr().out
    for change in (
        "verifier={use: own.Scorer, factor: 2.0}",
        "on_rejection=[{do: regenerate, times: 4}]",
        "block=2",
        "budget={rounds: 2}",
    ):
        assert main(["fit", config, "--release", "--set", f"pipelines.other.{change}"]) == 3
        said = " ".join(capsys.readouterr().err.split())
        assert "is named by sure and other, which differ in more than their rules" in said


def test_the_pool_of_another_generator_is_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The guarantee is of the generator that made it."""
    assert main(["fit", config, "--release"]) == 0
    assert main(["run", config, "--set", "pipelines.sure.generator={use: own.Others}"]) == 3
    assert "was made with the generator Guesses" in " ".join(capsys.readouterr().err.split())


def test_a_task_that_waits_is_not_in_the_pool() -> None:
    """It has fewer tries than one that nobody is asked about; nothing is known of it."""
    judge = verifier(lambda c, item: Check("abstain" if c.task.id < "2" else "pass", score=1.0), scores=True)
    pipeline = Pipeline(
        generator(lambda c, n: [1.0]), judge, Withhold(), block=1, policy=escalate(on=("abstain",))
    )
    tasks = [Task(id=str(i)) for i in range(8)]
    made, solved, unheard = pool_of(pipeline, tasks, lambda task, outcome: False)
    assert (len(made.pool.scores), solved, unheard) == (6, 0, 2)
