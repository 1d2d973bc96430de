"""A threshold that a fit certified: a number for any rule, of one verifier's scores, in a program and in a config."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from draftverify import Check, ConfigError, Pipeline, Verification, generator
from draftverify.bench import load_experiment
from draftverify.bench.artifact import write_artifact
from draftverify.bench.cli.main import main
from draftverify.bench.config.schema import schema
from draftverify.bench.monitors import Monitor, MonitoredPipeline
from draftverify.bench.runner.bench import Bench
from draftverify.identity import identity_of
from draftverify.lab import Calibrated, CertifiedThreshold, LabelledScore, fit_scores
from draftverify.lab.scores import ScoreArtifact
from draftverify.rules import All, Best, BestStep, First, FirstStop, Rounds, Threshold
from draftverify.traits import VerifierTraits

SURE = [LabelledScore(str(i), float(i % 10), i % 10 >= 5) for i in range(500)]
"""Right from score 5 on."""


class Scorer:
    """The item is its score."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def verify(self, context: Any, proposal: Any) -> Verification:
        return Verification(checks=tuple(Check("pass", score=self.factor * item) for item in proposal.items))


class Once:
    """A stopping rule of one's own that compares scores."""

    def __init__(self, least: float) -> None:
        self.least = least

    def __call__(self, context: Any, new: tuple[Any, ...]) -> int | None:
        return len(new) if any(item >= self.least for item in new) else None


def scores(tmp_path: Path, items: list[LabelledScore] = SURE, best: bool = False) -> Path:
    path = tmp_path / "judge.json"
    artifact = ScoreArtifact(
        fit=fit_scores(items),
        verifier=identity_of(Scorer()),
        name="Scorer",
        metric="m",
        best=best,
    )
    write_artifact(path, artifact)
    return path


def pipeline(rule: Any, verifier: Any = None, **others: Any) -> Pipeline:
    drafted = generator(lambda context, n: [3, 9, 4, 5])
    return Pipeline(drafted, verifier or Scorer(), rule, block=4, **others)


@pytest.mark.parametrize(
    ("rule", "value"), [(First, 9), (All, (9, 5)), (Best, 9)], ids=lambda each: str(each)
)
def test_any_rule_that_compares_scores_takes_it(tmp_path: Path, rule: Any, value: Any) -> None:
    """As the number that stands in the file."""
    threshold = CertifiedThreshold(scores(tmp_path))
    assert threshold == 5.0
    with pipeline(rule(threshold=threshold), done=Rounds(1)) as one:
        outcome = one.run("t")
    assert outcome.value == value


def test_a_stopping_rule_takes_it_too(tmp_path: Path) -> None:
    """One within another as well, where it is compared with the verifier likewise."""
    threshold = CertifiedThreshold(scores(tmp_path))
    with pipeline(All(), done=FirstStop([Once(threshold), Rounds(9)])) as one:
        assert len(one.record("t").rounds) == 1
    with pytest.raises(ConfigError, match="was made with the verifier Scorer") as caught:
        pipeline(All(), Scorer(2.0), done=FirstStop([Rounds(9), Once(threshold)])).open()
    assert caught.value.path == "done.rules.1.least"


def test_a_monitor_that_tightens_takes_it_too(tmp_path: Path) -> None:
    """What it asks for after its alarm is compared with the verifier as a rule's is."""
    watched = Monitor(0.9, on_alarm="tighten", threshold=CertifiedThreshold(scores(tmp_path)))
    Bench({"p": pipeline(First())}, monitors={"p": watched}).open("p")
    with pytest.raises(ConfigError, match="was made with the verifier Scorer") as caught:
        Bench({"p": pipeline(First(), Scorer(2.0))}, monitors={"p": watched}).open("p")
    assert caught.value.path == "pipelines.p.monitor.threshold"
    MonitoredPipeline(pipeline(First()), watched).run("t")
    with pytest.raises(ConfigError, match="was made with the verifier Scorer") as caught:
        MonitoredPipeline(pipeline(First(), Scorer(2.0)), watched).run("t")
    assert caught.value.path == "monitor.threshold"


def test_what_holds_of_best_items_is_refused_by_a_rule_that_takes_others(tmp_path: Path) -> None:
    """Of scores 0.81 and 0.95 at .8 the fit counts the second, and `first` answers the first."""
    threshold = CertifiedThreshold(scores(tmp_path, best=True))
    pipeline(Best(threshold=threshold)).open()
    for rule in (First, All):
        with pytest.raises(ConfigError, match=f"the rule {rule.__name__} takes others") as caught:
            pipeline(rule(threshold=threshold)).open()
        assert caught.value.path == "rule.threshold"


def test_a_rule_of_steps_is_refused(tmp_path: Path) -> None:
    """Whole answers were labelled, and a step is none."""
    with pytest.raises(ConfigError, match="whole answers, and the rule BestStep takes steps") as caught:
        pipeline(BestStep(threshold=CertifiedThreshold(scores(tmp_path)))).open()
    assert caught.value.path == "rule.threshold"


@pytest.mark.parametrize("opened", [True, False])
def test_another_verifier_is_refused(tmp_path: Path, opened: bool) -> None:
    """As the pipeline opens or at its first task, within another pipeline too: other scores mean something else."""
    other = pipeline(First(threshold=CertifiedThreshold(scores(tmp_path))), Scorer(2.0))
    for one, path in (
        (other, "rule.threshold"),
        (Pipeline(other, Scorer(), All()), "generator.rule.threshold"),
    ):
        with pytest.raises(
            ConfigError, match=r"made with the verifier Scorer .*`draftverify fit scores CONFIG`"
        ) as caught:
            one.open() if opened else one.run("t")
        assert caught.value.path == path


def test_a_verifier_of_probabilities_is_another(tmp_path: Path) -> None:
    """Its scores have another unit, and it decides by the file itself."""
    path = scores(tmp_path)
    with pytest.raises(ConfigError, match="the verifier is Calibrated"):
        pipeline(First(threshold=CertifiedThreshold(path)), Calibrated(Scorer(), path)).open()


def test_what_cannot_be_read_or_was_not_certified_is_refused(tmp_path: Path) -> None:
    """With what to do about it; no run begins with a threshold that nobody vouches for."""
    with pytest.raises(ConfigError, match="draftverify fit"):
        CertifiedThreshold(tmp_path / "none.json")
    coins = [LabelledScore(str(i), 1.0, i % 2 == 0) for i in range(100)]
    with pytest.raises(ConfigError, match="holds no threshold: no score is high enough"):
        CertifiedThreshold(scores(tmp_path, coins))


def test_a_worker_reads_it_again(tmp_path: Path) -> None:
    """Sent to another process it still knows whose scores it is of."""
    sent = pickle.loads(pickle.dumps(CertifiedThreshold(scores(tmp_path))))
    assert sent == 5.0
    with pytest.raises(ConfigError, match="was made with"):
        sent.check_verifier(Scorer(2.0))


PARTS = '''
from draftverify import Check, Decision, GeneratorTraits, Proposal, RuleTraits, Task, Verification, VerifierTraits
from draftverify.rules import Threshold


class Guesses:
    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context, n):
        first = context.drafted
        return Proposal.alternatives([(7 * i + int(context.task.id)) % 10 for i in range(first, first + n)])


class Scorer:
    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def verify(self, context, proposal):
        return Verification(checks=tuple(Check("pass", score=self.factor * item) for item in proposal.items))


class Keep:
    """A rule of one's own."""

    traits = RuleTraits(needs={"verdicts", "scores"})

    def __init__(self, least: Threshold) -> None:
        self.least = least

    def decide(self, context, proposal, verification, rng):
        good = [i for i, check in enumerate(verification.checks) if check.score >= self.least]
        return Decision(kept=tuple(good), done=True)


class Numbers:
    def __init__(self, count: int) -> None:
        self.count = count

    def load(self):
        return [Task(id=str(i), input={"n": i}, expected={"from": 6}) for i in range(self.count)]


def right(task, outcome):
    values = outcome.value if isinstance(outcome.value, (list, tuple)) else [outcome.value]
    return outcome.status == "accepted" and all(each >= task.expected["from"] for each in values)
'''

CONFIG = """
parts: [./own.py]
tasks: {use: own.Numbers, count: 60}
models:
  judge: {use: own.Scorer}
defaults: {generator: {use: own.Guesses}, verifier: judge, block: 5}
pipelines:
  shipped: {rule: {use: all, threshold: {use: calibrated, path: ./judge.json}}}
  own: {rule: {use: own.Keep, least: {use: calibrated, path: ./judge.json}}}
  plain: {rule: {use: all, threshold: 7}}
metrics:
  right: {use: python, function: own.right}
"""

ONE = ("--set", "defaults.block=1")
"""A threshold is certified of one item a task."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own.py").write_text(PARTS)
    (tmp_path / "fit.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return "fit.yaml"


def test_a_config_names_the_file_that_fit_writes(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For the verifier of the pipelines that name it; a rule of one's own takes it like a shipped one."""
    assert main(["run", config]) == 3
    assert "there is no" in capsys.readouterr().err
    assert main(["fit", "scores", config, *ONE]) == 0
    out = capsys.readouterr().out
    assert "shipped: 24 of 60 items right, 60 tasks" in out
    assert "own judge by it too" in out
    assert "accept from score 6" in out
    assert main(["run", config]) == 0
    told = capsys.readouterr().out
    assert re.search(r"shipped +60 accepted +100%", told)
    assert re.search(r"shipped +40% ", told)  # 120 of 300 drafted
    assert re.search(r"plain +30% ", told)


def test_a_run_knows_what_stood_in_the_file(config: str) -> None:
    """Its SHA-256 is among what the records rest on, so a run that goes on with another file is told of."""
    assert main(["fit", "scores", config, *ONE]) == 0
    before = load_experiment(config).parts()["file judge.json"]["sha256"]
    Path("judge.json").write_text(Path("judge.json").read_text() + "\n")
    assert load_experiment(config).parts()["file judge.json"]["sha256"] != before


def test_a_run_refuses_the_threshold_of_a_verifier_that_has_changed(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another argument is another verifier."""
    assert main(["fit", "scores", config, *ONE]) == 0
    assert main(["run", config, "--set", "models.judge.factor=2.0"]) == 3
    assert "was made with the verifier Scorer" in " ".join(capsys.readouterr().err.split())


def test_one_file_is_of_one_verifier(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of them sharing it is told before anything is drafted."""
    other = "pipelines.own.verifier={use: own.Scorer, factor: 3.0}"
    assert main(["fit", "scores", config, "--set", other]) == 3
    assert "named for two verifiers, by shipped and own" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("{use: calibratd, path: ./judge.json}", "there is no threshold 'calibratd'"),
        ("{use: calibrated}", "path"),
        ("much", "number"),
        ("{path: ./judge.json}", "number"),
    ],
)
def test_what_is_no_threshold_is_said(
    config: str, capsys: pytest.CaptureFixture[str], value: str, what: str
) -> None:
    """With the place in the file."""
    assert main(["run", config, "--set", f"pipelines.shipped.rule.threshold={value}"]) == 3
    assert what in " ".join(capsys.readouterr().err.split())


def test_an_editor_knows_it() -> None:
    """The schema has the role, and its one part with the path."""
    made = schema()["$defs"]
    assert made["threshold.calibrated"]["required"] == ["use", "path"]
    assert {"$ref": "#/$defs/threshold"} in made["rule.first"]["properties"]["threshold"]["anyOf"][0]["anyOf"]


def test_the_annotation_is_a_number_elsewhere() -> None:
    """A rule that a program makes is given a float like any other."""
    assert First(threshold=0.5).threshold == 0.5
    assert Threshold is not float
