"""A certified threshold is of one pipeline's answers: what may be certified, the number, and who may take it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scipy.stats import binom

from draftverify import Check, ConfigError, GeneratorTraits, Pipeline, Proposal, Verification, VerifierTraits
from draftverify.bench.artifact import read_artifact, write_artifact
from draftverify.bench.cli.main import main
from draftverify.bench.config.schema import schema
from draftverify.bench.monitors import Monitor, MonitoredPipeline
from draftverify.bench.records.directory import load_run
from draftverify.bench.runner.bench import Bench
from draftverify.lab import Certificate, CertifiedThreshold, Promise, Recording, certify
from draftverify.lab.certificate import Trial, parts_of
from draftverify.rejection import escalate, retry
from draftverify.rules import All, Best, First, Threshold

# Pipelines: what is certified is what they answer

PARTS = '''
import random

from draftverify import Check, Decision, GeneratorTraits, Proposal, RuleTraits, Verification, VerifierTraits
from draftverify.rules import Threshold


class Guess:
    traits = GeneratorTraits(shape="alternatives", drafts_from="round", deterministic=True)

    def propose(self, context, n):
        drawn = random.Random(f"{context.task.id}/{context.round}/{type(self).__name__}")
        return Proposal.alternatives([self.drawn(drawn) for _ in range(n)])

    def drawn(self, source):
        return source.random()


class Better(Guess):
    def drawn(self, source):
        return source.random() ** 0.5


class Judge:
    """Its score is the item, blurred; of every seventh task it is fooled by all of them."""

    traits = VerifierTraits(provides={"verdicts", "scores"}, deterministic=True)

    def __init__(self, blur: float = 0.15) -> None:
        self.blur = blur

    def verify(self, context, proposal):
        fooled = int(context.task.id) % 7 == 0
        scores = (
            0.95 if fooled else min(max(item + random.Random(repr(item)).gauss(0, self.blur), 0.0), 1.0)
            for item in proposal.items
        )
        return Verification(checks=tuple(Check("pass", score=score) for score in scores))


class Yes:
    def verify(self, context, proposal):
        return Verification(checks=(Check("pass"),) * len(proposal))


class Voters:
    """Three of four vote for the right answer, of every fifth task half of them for the same wrong one."""

    traits = GeneratorTraits(shape="alternatives", drafts_from="round", deterministic=True)

    def propose(self, context, n):
        drawn = random.Random(f"{context.task.id}/{context.round}")
        wrong = 0.5 if int(context.task.id) % 5 == 0 else 0.1
        return Proposal.alternatives([{"answer": 0.1 if drawn.random() < wrong else 0.9} for _ in range(n)])


class Keep:
    """A rule of one's own, which calls its threshold otherwise."""

    traits = RuleTraits(shapes={"alternatives"}, needs={"verdicts", "scores"})

    def __init__(self, least: Threshold) -> None:
        self.least = least

    def decide(self, context, proposal, verification, rng):
        good = [place for place, check in enumerate(verification.checks) if check.score >= self.least]
        return Decision(kept=tuple(good[:1]), done=bool(good))

    def finish(self, context):
        return context.accepted[0] if context.accepted else None


class Nine(Keep):
    def __init__(self):
        super().__init__(0.9)


def right(task, outcome):
    return outcome.status == "accepted" and outcome.value > 0.5


def elected(task, outcome):
    return outcome.status == "accepted" and outcome.value["answer"] > 0.5
'''

RULES = {
    "first": "{use: first, threshold: {use: certified, path: ./c.json}}",
    "best": "{use: best, threshold: {use: certified, path: ./c.json}}",
    "own": "{use: own.Keep, least: {use: certified, path: ./c.json}}",
}
POLICY = "[{do: regenerate, times: 2}, {do: fallback, generator: {use: own.Better}}, {do: escalate}]"
CONFIG = """
name: answers
parts: [own.py]
tasks: {{use: jsonl, path: tasks.jsonl, id: id, expected: {{a: a}}}}
metrics: {{right: {{use: python, function: own.right}}}}
pipelines:
  one:
    generator: {{use: own.Guess}}
    verifier: {{use: own.Judge}}
    rule: {rule}
    block: {block}
    on_rejection: {policy}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment of 36 labelled tasks, whose rule waits for a certificate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(PARTS)
    write_tasks(tmp_path / "tasks.jsonl", range(36))
    path = tmp_path / "answers.yaml"
    path.write_text(CONFIG.format(rule=RULES["first"], block=2, policy=POLICY))
    return path


def write_tasks(path: Path, ids: Sequence[int]) -> None:
    path.write_text("".join(f'{{"id": "{number}", "a": 1}}\n' for number in ids))


@pytest.mark.parametrize(
    ("rule", "block"),
    [pytest.param("first", 1, marks=pytest.mark.exhaustive), ("first", 3), ("best", 3), ("own", 2)],
)
def test_replayed_answers_are_those_of_a_run(
    config: Path, rule: str, block: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """With regenerates and a fallback: at the certified threshold a run answers as many, and as many rightly."""
    config.write_text(CONFIG.format(rule=RULES[rule], block=block, policy=POLICY))
    assert main(["run", str(config), "--complete"]) == 0
    assert main(["certify", "runs/answers.complete", "--precision", "0.7", "--out", "c.json"]) == 0
    shown = capsys.readouterr().out
    made = read_artifact("c.json", Certificate)
    assert f"accept from score {made.threshold:.6g}: " in shown
    (trial,) = (each for each in made.tried if each.threshold == made.threshold)
    assert (trial.unknown, made.tasks, made.metric) == (0, 36, "right")
    assert main(["run", str(config)]) in (0, 7)  # what it refuses waits for a person
    with load_run("runs/answers") as run:
        endings = [ending.outcome for ending in run.store.endings()]
        answers = [outcome for outcome in endings if outcome.status == "accepted"]
        marks = run.marks["one"]
    assert len(answers) == trial.answered
    assert sum(answer.value <= 0.5 for answer in answers) == trial.wrong
    assert marks == ("certified: at least 0.7 of the answers right (but for a chance of 0.1)",)


def test_what_the_records_cannot_say_counts_as_wrong(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run that stopped at its own threshold a stricter one is not known, and nothing is certified by it."""
    low = "pipelines.one.rule.threshold=0.0"
    assert main(["run", str(config), "--set", low, "--set", "pipelines.one.block=1"]) == 0
    assert main(["certify", "runs/answers", "--precision", "0.5", "--out", "c.json"]) == 0
    made = read_artifact("c.json", Certificate)
    first = made.tried[0]
    assert first.unknown > 18
    assert first.wrong >= first.unknown
    assert made.threshold is None
    assert "count as wrong (run --complete judges all items)" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ConfigError, match="holds no threshold: "):
        CertifiedThreshold(Path("c.json"))


def test_a_bound_on_wrong_answers_among_all_tasks(config: Path) -> None:
    """By the same test; it answers less than the precision of the same share would."""
    assert main(["run", str(config), "--complete"]) == 0
    with load_run("runs/answers.complete") as run, Recording(run) as recording:
        made = certify(recording, Promise("wrong", 0.25, 0.1))
    tried = {trial.threshold: trial for trial in made.tried}[made.threshold or 0.0]
    assert tried.p == pytest.approx(binom.cdf(tried.wrong, 36, 0.25))
    assert tried.p <= 0.1
    assert "at most 0.25 of all tasks answered wrongly" in str(made.promise)


@pytest.mark.parametrize(
    ("change", "role"),
    [
        ("pipelines.one.verifier.blur=0.2", "verifier"),
        ("pipelines.one.generator={use: own.Better}", "generator"),
        ("pipelines.one.block=3", "block"),
        ("pipelines.one.on_rejection=[]", "policy"),
        ("pipelines.one.budget={rounds: 1}", "budget"),
        ("pipelines.one.rule={use: best, threshold: {use: certified, path: ./c.json}}", "rule"),
        ("pipelines.one.done={use: rounds, n: 2}", "done"),
    ],
)
def test_another_pipeline_is_refused(
    config: Path, change: str, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of its answers nothing was promised; the person who is asked at the end is none of it."""
    write_artifact("c.json", certificate(parts=parts_of(certified_pipeline(config))))
    assert main(["run", str(config), "--dry-run"]) == 0
    assert main(["run", str(config), "--set", change]) == 3
    assert f"was made with the {role} " in " ".join(capsys.readouterr().err.split())


def certified_pipeline(config: Path) -> Pipeline:
    """The pipeline of the config, with a number in the certificate's place."""
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.runner.build import Builder

    experiment = load_experiment(config, overrides=["pipelines.one.rule.threshold=0.5"])
    return Builder().pipeline(experiment.pipelines[0])


def certificate(threshold: float = 0.5, **fields: Any) -> Certificate:
    return Certificate(
        **{
            "threshold": threshold, "promise": Promise(), "why": "so it is", "metric": "right", "pipeline": "one",
            "run": "r", "parts": {}, "tasks": 60, "tried": (Trial(threshold, 60, 0, 0, 0.0),), **fields,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("metrics={}", "the run has no metric that says what is right"),
        ("pipelines.one.rule={use: own.Nine}", "the rule Nine has no threshold"),
        ("pipelines.one.rule={use: best_step, threshold: 0.5}", "takes steps of answers"),
    ],
)
def test_what_cannot_be_certified_is_said(
    config: Path, change: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is replayed; no file is written."""
    low = ["--set", "pipelines.one.rule.threshold=0.0"] if "metrics" in change else []
    low += ["--set", "pipelines.one.budget={rounds: 4}"]  # nobody ends the steps
    assert main(["run", str(config), *low, "--set", change, "--limit", "3"]) in (0, 7)
    assert main(["certify", "runs/answers", "--out", "c.json"]) == 3
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("c.json").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("pipelines.one.block={use: measured}", "measured learns from what is accepted"),
        ("memory={every: 5}", "of a run that accepts nothing nothing is remembered"),
        (
            "pipelines.one.on_rejection=[{do: escalate}, {do: fallback, generator: {use: own.Better}}]",
            "a person is asked before other steps",
        ),
        (
            "pipelines.one.on_rejection=[{do: fallback, generator: {generator: {use: own.Better}, verifier: {use: "
            "own.Judge}, rule: {use: first}, on_rejection: [{do: escalate}]}}]",
            "a person is asked before other steps",
        ),
    ],
)
def test_what_drafts_otherwise_where_nothing_is_accepted_is_refused(
    config: Path, change: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a complete run, and of an ordinary one as a certificate where it can be one at all."""
    assert main(["run", str(config), "--complete", "--set", change]) == 3
    assert words in " ".join(capsys.readouterr().err.split())
    if "measured" in change or "memory" in change:
        low = "pipelines.one.rule.threshold=0.0"
        assert main(["run", str(config), "--set", low, "--set", change, "--limit", "9"]) == 0
        assert main(["certify", "runs/answers", "--out", "c.json"]) == 3
        assert not Path("c.json").exists()


def test_a_block_that_says_that_it_does_not_learn_is_a_number(config: Path) -> None:
    """Of one's own, by its traits: a run with it can be complete."""
    own = Path("own.py")
    block = "class Two:\n    traits = BlockTraits(learns=False)\n    size = lambda self, context: 2\n"
    block += "    observe = lambda self, context, round: None\n"
    own.write_text(f"from draftverify import BlockTraits\n{PARTS}\n\n{block}")
    assert main(["run", str(config), "--complete", "--set", "pipelines.one.block={use: own.Two}"]) == 0
    assert main(["certify", "runs/answers.complete", "--precision", "0.5", "--out", "c.json"]) == 0


def test_a_certificate_is_not_used_with_a_memory(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which answers it had been of nobody knows then; it is said before anything runs."""
    write_artifact("c.json", certificate())
    assert main(["run", str(config), "--set", "memory={every: 5}"]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert "with a memory later answers depend on earlier ones, and what certified promises is of" in err


def test_tasks_from_which_a_score_was_learned_prove_nothing_unless_said(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of scores is one that the pipeline's verifier reads."""
    write_tasks(Path("tasks.jsonl"), range(12))
    assert main(["run", str(config), "--complete"]) == 0
    assert main(["fit", "scores", "runs/answers.complete", "--out", "judge.json"]) == 0
    calibrated = "pipelines.one.verifier={use: calibrated, verifier: {use: own.Judge}, scores: judge.json}"
    assert main(["run", str(config), "--complete", "--out", "runs/sure", "--set", calibrated]) == 0
    capsys.readouterr()
    assert main(["certify", "runs/sure", "--precision", "0.5", "--out", "c.json"]) == 3
    assert "12 of these 12 tasks are among the 12 that" in " ".join(capsys.readouterr().err.split())
    assert not Path("c.json").exists()
    assert main(["certify", "runs/sure", "--precision", "0.5", "--out", "c.json", "--overlap"]) == 0


def test_rules_without_a_threshold_stay_as_they_are(config: Path) -> None:
    """Beside those that have one: their verifiers may give no scores."""
    plain = "  plain: {generator: {use: own.Guess}, verifier: {use: own.Yes}, rule: {use: first}}"
    config.write_text(f"{config.read_text()}{plain}\n")
    assert main(["run", str(config), "--complete", "--limit", "3"]) == 0


def test_a_persons_answers_are_not_the_pipelines(config: Path) -> None:
    """Nobody knows what it had answered, and it counts as wrong."""
    text = config.read_text().replace("threshold: {use: certified, path: ./c.json}", "threshold: 0.99")
    config.write_text(text.replace(POLICY, "[{do: escalate}]"))
    assert main(["run", str(config)]) == 7
    with load_run("runs/answers") as run:
        asked = list(run.store.questions("pending"))
        assert all(run.store.answer(question, "edit", 0.9) for question in asked)
    assert main(["run", str(config)]) in (0, 7)
    with load_run("runs/answers") as run, Recording(run) as recording:
        made = certify(recording, Promise("precision", 0.5, 0.1))
    assert made.tried[0].answered == 36
    assert made.tried[0].unknown == made.tried[0].wrong >= len(asked)


def test_a_share_of_the_vote_is_certified_of_any_run(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every run records its votes; whoever is elected by less than what was certified gives no answer."""
    write_tasks(Path("tasks.jsonl"), range(80))
    vote = ["--set", "pipelines.one.generator={use: own.Voters}", "--set", "pipelines.one.block=9"]
    vote += [
        "--set",
        "metrics={right: {use: python, function: own.elected}}",
        "--set",
        "pipelines.one.verifier={use: own.Yes}",
    ]
    rule = "pipelines.one.rule={use: majority, share: %s}"
    assert main(["run", str(config), *vote, "--set", rule % 0.95]) == 0
    assert main(["certify", "runs/answers", "--precision", "0.9", "--out", "c.json"]) == 0
    made = read_artifact("c.json", Certificate)
    assert made.threshold is not None
    assert 0.5 < made.threshold < 0.95
    certified = rule % "{use: certified, path: ./c.json}"
    assert main(["run", str(config), *vote, "--set", certified, "--out", "runs/sure"]) == 0
    with load_run("runs/sure") as run:
        answers = [record.outcome for record in run if record.outcome.status == "accepted"]
    trial = next(trial for trial in made.tried if trial.threshold == made.threshold)
    assert len(answers) == trial.answered < 80
    assert sum(outcome.value["answer"] < 0.5 for outcome in answers) == trial.wrong
    capsys.readouterr()
    vote += ["--set", "pipelines.one.block=7"]
    assert main(["run", str(config), *vote, "--set", certified, "--out", "runs/7"]) == 3
    assert "made with the block" in " ".join(capsys.readouterr().err.split())


def test_labels_are_the_runs_own(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever became of the file that they came from."""
    assert main(["run", str(config), "--complete"]) == 0
    Path("tasks.jsonl").unlink()
    assert main(["certify", "runs/answers.complete", "--precision", "0.7", "--out", "c.json"]) == 0
    assert "accept from score" in capsys.readouterr().out


def test_an_answer_of_which_the_metric_says_nothing_is_not_right(config: Path) -> None:
    """Every second task's: half of all answers at most are known to be right."""
    own = Path("own.py")
    unsure = "return None if int(task.id) % 2 else outcome.status"
    own.write_text(own.read_text().replace("return outcome.status", unsure))
    assert main(["run", str(config), "--complete"]) == 0
    with load_run("runs/answers.complete") as run, Recording(run) as recording:
        made = certify(recording, Promise("precision", 0.2, 0.1))
    assert made.tried[-1].answered == 36
    assert made.tried[-1].wrong >= 18


def test_a_metric_that_fails_of_every_answer_is_no_wrong_answer(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said why."""
    assert main(["run", str(config), "--complete"]) == 0
    own = Path("own.py")
    own.write_text(own.read_text().replace("outcome.value > 0.5", "outcome.value > undefined"))
    assert main(["certify", "runs/answers.complete", "--out", "c.json"]) == 3
    assert "the metric says nothing of any answer: NameError" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"threshold": -5.0}, "its figures prove 0.5"), ({"tried": ()}, "its figures prove None")],
)
def test_a_certificate_that_was_edited_is_refused(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    """Its threshold is that which its figures prove."""
    write_artifact(tmp_path / "c.json", msgspec.structs.replace(certificate(), **fields))
    with pytest.raises(ConfigError, match=words):
        CertifiedThreshold(tmp_path / "c.json")


def test_a_certificate_without_a_part_is_refused(tmp_path: Path) -> None:
    """Nothing says whose answers it is of."""
    write_artifact(tmp_path / "c.json", certificate(5.0))
    with pytest.raises(ConfigError, match="is damaged: it is to name generator, verifier"):
        pipeline(First(threshold=CertifiedThreshold(tmp_path / "c.json"))).open()


def test_settings_of_an_outer_pipeline_are_other_settings(tmp_path: Path) -> None:
    """An inner one inherits them."""
    number = threshold(tmp_path, First())
    inner = pipeline(First(threshold=number))
    Pipeline(inner, Scorer(), All()).open()
    with pytest.raises(ConfigError, match=r"inherits settings \(temperature\)"):
        Pipeline(pipeline(First(threshold=number)), Scorer(), All(), settings={"temperature": 2.0}).open()


def test_a_run_that_would_be_complete_anyway_is_told(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a matrix is run cell by cell."""
    assert main(["run", str(config), "--complete", "--set", "pipelines.one.rule={use: majority}"]) == 3
    assert "every run is complete" in capsys.readouterr().err
    config.write_text(config.read_text() + "matrix: {grid: {pipelines.one.block: [1, 2]}}\n")
    assert main(["run", str(config), "--complete"]) == 3
    assert "a matrix is not made complete" in capsys.readouterr().err


# The number


class Scorer:
    """The item is its score."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def verify(self, context: Any, proposal: Any) -> Verification:
        return Verification(checks=tuple(Check("pass", score=self.factor * item) for item in proposal.items))


class Four:
    """Drafts four numbers."""

    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives([3, 9, 4, 5])


def pipeline(rule: Any, verifier: Any = None, **others: Any) -> Pipeline:
    return Pipeline(Four(), verifier or Scorer(), rule, block=4, **others)


def threshold(tmp_path: Path, rule: Any, **others: Any) -> CertifiedThreshold:
    """5, of the pipeline with this rule."""
    write_artifact(tmp_path / "c.json", certificate(5.0, parts=parts_of(pipeline(rule, **others))))
    return CertifiedThreshold(tmp_path / "c.json")


@pytest.mark.parametrize(("rule", "value"), [(First, 9), (All, (9, 5)), (Best, 9)], ids=str)
def test_any_rule_that_compares_scores_takes_it(tmp_path: Path, rule: Any, value: Any) -> None:
    """As the number that stands in the file; in another process too."""
    number = threshold(tmp_path, rule())
    assert number == pickle.loads(pickle.dumps(number)) == 5.0
    with pipeline(rule(threshold=number)) as one:
        assert one.run("t").value == value


@pytest.mark.parametrize("opened", [True, False])
def test_another_verifier_is_refused(tmp_path: Path, opened: bool) -> None:
    """As the pipeline opens or at its first task, within another pipeline too."""
    number = threshold(tmp_path, First())
    other = pipeline(First(threshold=number), Scorer(2.0))
    for one, path in (
        (other, "rule.threshold"),
        (Pipeline(other, Scorer(), All()), "generator.rule.threshold"),
    ):
        with pytest.raises(ConfigError, match=r"made with the verifier Scorer") as caught:
            one.open() if opened else one.run("t")
        assert caught.value.path == path


def test_a_person_may_be_asked_at_the_end_or_not(tmp_path: Path) -> None:
    """Her answers are her own."""
    number = threshold(tmp_path, First(), policy=retry(1))
    pipeline(First(threshold=number), policy=retry(1).then(escalate())).open()
    with pytest.raises(ConfigError, match="made with the policy Policy"):
        pipeline(First(threshold=number), policy=retry(2)).open()


def test_a_monitor_that_tightens_takes_it_too(tmp_path: Path) -> None:
    """What it asks for after its alarm is of the same pipeline."""
    watched = Monitor(0.9, on_alarm="tighten", threshold=threshold(tmp_path, First()))
    Bench({"p": pipeline(First())}, monitors={"p": watched}).open("p")
    with pytest.raises(ConfigError, match="made with the verifier Scorer") as caught:
        MonitoredPipeline(pipeline(First(), Scorer(2.0)), watched).run("t")
    assert caught.value.path == "monitor.threshold"


def test_an_editor_knows_it() -> None:
    """The schema has the role, and its one part with the path."""
    made = schema()["$defs"]
    assert made["threshold.certified"]["required"] == ["use", "path"]
    assert {"$ref": "#/$defs/threshold"} in made["rule.first"]["properties"]["threshold"]["anyOf"][0]["anyOf"]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("{use: certifed, path: ./c.json}", "there is no threshold 'certifed'"),
        ("{use: certified}", "path"),
        ("much", "number"),
        ("{use: certified, path: ./none.json}", "there is no"),
    ],
)
def test_what_is_no_threshold_is_said(
    config: Path, capsys: pytest.CaptureFixture[str], value: str, what: str
) -> None:
    """With the place in the file."""
    assert main(["run", str(config), "--set", f"pipelines.one.rule.threshold={value}"]) == 3
    assert what in " ".join(capsys.readouterr().err.split())


def test_a_run_knows_what_stood_in_the_file(config: Path) -> None:
    """Its SHA-256 is among what the records rest on."""
    from draftverify.bench.config.experiment import load_experiment

    write_artifact("c.json", certificate())
    before = load_experiment(config).parts()["file c.json"]["sha256"]
    Path("c.json").write_text(Path("c.json").read_text() + "\n")
    assert load_experiment(config).parts()["file c.json"]["sha256"] != before


def test_the_annotation_is_a_number_elsewhere() -> None:
    """A rule that a program makes is given a float like any other."""
    assert First(threshold=0.5).threshold == 0.5
    assert Threshold is not float
