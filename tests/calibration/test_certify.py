"""A certified threshold: its promise is broken as seldom as said, by enumeration, and it is one pipeline's answers'."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from draftverify import Check, ConfigError, GeneratorTraits, Pipeline, Proposal, Verification, VerifierTraits
from draftverify.bench.artifact import PartIdentity, read_artifact, write_artifact
from draftverify.bench.cli.main import main
from draftverify.bench.config.schema import schema
from draftverify.bench.monitors import Monitor, MonitoredPipeline
from draftverify.bench.records.directory import load_run
from draftverify.bench.runner.bench import Bench
from draftverify.lab import Certificate, CertifiedThreshold, Promise, Recording, certify
from draftverify.lab.certificate import fewest_tasks, last_kept, parts_of, starts
from draftverify.rejection import escalate, retry
from draftverify.rules import All, Best, First, Threshold

# What a promise is worth: exact, no simulation


def broken(tasks: int, levels: Sequence[tuple[float, float]], promise: Promise) -> float:
    """The chance that a threshold is certified whose promise does not hold, over runs of so many tasks.

    Args:
        tasks: of a run.
        levels: of each threshold, the strictest first: the share of tasks that it answers beside those that stricter
            ones answer, and the share of those answers that is right.
    """
    total, right, answers = 0.0, 0.0, 0.0
    holds = []
    for share, chance in levels:
        answers, right = answers + share, right + share * chance
        holds.append(
            right / answers >= promise.share
            if promise.of == "precision"
            else answers - right <= promise.share
        )

    def walk(place: int, trials: tuple[tuple[int, int], ...], seen: float, chance: float) -> None:
        nonlocal total
        if place == len(levels):
            last, _ = last_kept(trials, promise, tasks=tasks)
            total += chance * (last is not None and not holds[last])
            return
        answered, wrong = trials[-1] if trials else (0, 0)
        share, good = levels[place]
        taken = min(share / (1.0 - seen), 1.0) if seen < 1.0 else 0.0
        for more in range(tasks - answered + 1):
            now = chance * pmf(more, tasks - answered, taken)
            for mistakes in range(more + 1):
                probability = now * pmf(mistakes, more, 1.0 - good)
                if probability > 1e-9:
                    trial = (answered + more, wrong + mistakes)
                    walk(place + 1, (*trials, trial), seen + share, probability)

    walk(0, (), 0.0, 1.0)
    return total


@functools.cache
def pmf(count: int, of: int, chance: float) -> float:
    """Of a binomial."""
    return float(binom.pmf(count, of, chance))


@pytest.mark.parametrize("tasks", [19, 22, 40, 150, 400])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("delta", [0.05, 0.1])
def test_one_score_for_all_breaks_no_promise_more_often_than_said(
    tasks: int, share: float, delta: float
) -> None:
    """Whatever the precision is below the promised one: the most that it can be, and a little below it."""
    promise = Promise("precision", share, delta)
    kept = [wrong for wrong in range(tasks + 1) if last_kept([(tasks, wrong)], promise, tasks=tasks)[0] == 0]
    for precision in (share - 1e-9, share - 0.02):
        assert binom.pmf(kept, tasks, 1.0 - precision).sum() <= delta


LEVELS = {
    "the lower one bad": [(0.5, 0.97), (0.5, 0.8)],
    "both at the edge": [(0.5, 0.8999), (0.5, 0.8999)],
    "the higher one bad": [(0.4, 0.85), (0.6, 0.93)],
    "the higher one a little bad": [(0.3, 0.88), (0.7, 0.9085)],
    "some tasks never answered": [(0.5, 0.9), (0.3, 0.89)],
}


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("tasks", [24, 60])
def test_two_scores_break_no_promise_more_often_than_said(
    tasks: int, levels: list[tuple[float, float]]
) -> None:
    """Two thresholds are tried, and the chance is that of one: of the precision, and of wrong answers among all."""
    assert broken(tasks, levels, Promise("precision", 0.9, 0.1)) <= 0.1
    assert broken(tasks, levels, Promise("wrong", 0.08, 0.1)) <= 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize("levels", [[(1 / 3, 0.8999)] * 3, [(0.2, 0.85), (0.4, 0.92), (0.4, 0.89)]])
def test_three_scores_break_no_promise_more_often_than_said(levels: list[tuple[float, float]]) -> None:
    """Of a precision that runs as small as these can promise."""
    assert broken(14, levels, Promise("precision", 0.7, 0.1)) <= 0.1


def test_so_many_tasks_certify_it_were_all_of_them_right() -> None:
    """22 for .9 at .1 (.9^22 < .1), 21 do not; and the first test waits for as many answers."""
    promise = Promise()
    assert fewest_tasks(promise) == 22
    for tasks, place in ((21, None), (22, 0)):
        assert last_kept([(tasks, 0)], promise, tasks=tasks)[0] == place
    assert last_kept([(1, 1), (21, 0), (50, 0)], promise, tasks=50) == (2, [1.0, 1.0, pytest.approx(0.9**50)])
    assert (starts(promise, 40), starts(promise, 200)) == ({22: 0.1}, {29: 0.05, 100: 0.05})


def test_a_threshold_that_fails_ends_the_sequence_or_a_half_of_it() -> None:
    """What follows it is not even asked for once half of the tasks are answered; before, the other half is to come."""
    asked: list[tuple[int, int]] = []

    def trials(*each: tuple[int, int]) -> Any:
        asked.clear()
        for trial in each:
            asked.append(trial)
            yield trial

    assert last_kept(trials((30, 0), (60, 9), (100, 0)), Promise(), tasks=100)[0] == 0
    assert asked == [(30, 0), (60, 9)]
    assert last_kept(trials((30, 9), (40, 9), (100, 3)), Promise(), tasks=100)[0] == 2
    assert len(asked) == 3


@pytest.mark.parametrize("name", ["share", "delta"])
@pytest.mark.parametrize("value", [0.0, 1.0, 2.0])
def test_nothing_is_promised_for_certain(name: str, value: float) -> None:
    """A share and a chance lie between 0 and 1."""
    with pytest.raises(ConfigError, match=name):
        Promise(**{name: value})


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


def right(task, outcome):
    return outcome.status == "accepted" and outcome.value > 0.5
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
    """An experiment of 60 labelled tasks, whose rule waits for a certificate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(PARTS)
    write_tasks(tmp_path / "tasks.jsonl", range(60))
    path = tmp_path / "answers.yaml"
    path.write_text(CONFIG.format(rule=RULES["first"], block=2, policy=POLICY))
    return path


def write_tasks(path: Path, ids: Sequence[int]) -> None:
    path.write_text("".join(f'{{"id": "{number}", "a": 1}}\n' for number in ids))


@pytest.mark.parametrize(("rule", "block"), [("first", 1), ("first", 3), ("best", 3), ("own", 2)])
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
    assert (trial.unknown, made.tasks, made.metric) == (0, 60, "right")
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
    assert first.unknown > 30
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
    assert tried.p == pytest.approx(binom.cdf(tried.wrong, 60, 0.25))
    assert tried.p <= 0.1
    assert "at most 0.25 of all tasks answered wrongly" in str(made.promise)


@pytest.mark.parametrize(
    ("change", "role"),
    [
        ("pipelines.one.verifier.blur=0.2", "verifier"),
        ("pipelines.one.generator={use: own.Better}", "generator"),
        ("pipelines.one.block=3", "block"),
        ("pipelines.one.on_rejection=[]", "policy"),
        ("pipelines.one.rule={use: best, threshold: {use: certified, path: ./c.json}}", "rule"),
        ("pipelines.one.done={use: rounds, n: 2}", "stopping rule"),
    ],
)
def test_another_pipeline_is_refused(
    config: Path, change: str, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of its answers nothing was promised; the person who is asked at the end is none of it."""
    parts = {role: PartIdentity("x", "0") for role in ROLES} | parts_of(certified_pipeline(config))
    write_artifact("c.json", certificate(parts=parts))
    assert main(["run", str(config), "--dry-run"]) == 0
    assert main(["run", str(config), "--set", change]) == 3
    assert f"was certified with the {role} " in " ".join(capsys.readouterr().err.split())


ROLES = ("generator", "verifier", "rule", "policy", "block", "stopping rule", "settings")


def certified_pipeline(config: Path) -> Pipeline:
    """The pipeline of the config, with a number in the certificate's place."""
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.runner.build import Builder

    experiment = load_experiment(config, overrides=["pipelines.one.rule.threshold=0.5"])
    return Builder().pipeline(experiment.pipelines[0])


def certificate(threshold: float | None = 0.5, **fields: Any) -> Certificate:
    return Certificate(
        **{
            "threshold": threshold, "promise": Promise(), "why": "so it is", "metric": "right", "pipeline": "one",
            "run": "r", "parts": {}, "tasks": 60, "tried": (), **fields,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("metrics={}", "the run has no metric that says what is right"),
        ("pipelines.one.rule={use: majority}", "the rule Majority has no threshold"),
        ("pipelines.one.rule={use: best_step, threshold: 0.5}", "takes steps of answers"),
    ],
)
def test_what_cannot_be_certified_is_said(
    config: Path, change: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is replayed; no file is written."""
    low = ["--set", "pipelines.one.rule.threshold=0.0"] if "metrics" in change else []
    assert main(["run", str(config), *low, "--set", change, "--limit", "3"]) in (0, 7)
    assert main(["certify", "runs/answers", "--out", "c.json"]) == 3
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("c.json").exists()


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
        with pytest.raises(ConfigError, match=r"certified with the verifier Scorer") as caught:
            one.open() if opened else one.run("t")
        assert caught.value.path == path


def test_a_person_may_be_asked_at_the_end_or_not(tmp_path: Path) -> None:
    """Her answers are her own."""
    number = threshold(tmp_path, First(), policy=retry(1))
    pipeline(First(threshold=number), policy=retry(1).then(escalate())).open()
    with pytest.raises(ConfigError, match="certified with the policy 1"):
        pipeline(First(threshold=number), policy=retry(2)).open()


def test_a_monitor_that_tightens_takes_it_too(tmp_path: Path) -> None:
    """What it asks for after its alarm is of the same pipeline."""
    watched = Monitor(0.9, on_alarm="tighten", threshold=threshold(tmp_path, First()))
    Bench({"p": pipeline(First())}, monitors={"p": watched}).open("p")
    with pytest.raises(ConfigError, match="certified with the verifier Scorer") as caught:
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
