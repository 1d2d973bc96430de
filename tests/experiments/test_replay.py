"""`draftverify replay` and `draftverify replay --tune` on whole runs: what they say, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from ruamel.yaml import YAML
from scipy.stats import binom

from draftverify.bench.artifact import DataHash, Interval, OperatingPointFile, identify_parts, write_artifact
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run, timeless
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError
from draftverify.lab.cli.replay import yaml_lines
from draftverify.lab.recording import Recording, ReplaySide, WhatIf
from draftverify.lab.tune import default_space, doubt, nested, read_space, tune
from draftverify.stats.intervals import rate

from . import sweeps

YAML_READER = YAML(typ="safe")

PARTS = '''
"""Numbers to be guessed, from a list that the task brings."""

from draftverify import Check, Context, GeneratorTraits, Proposal, Task, Verification, VerifierTraits


class Tasks:
    def load(self):
        # Every third task has its good number late.
        return [
            Task(id=f"t{i}", input={"list": [1 + i % 3, 2, 5 + i % 4, 9, 3, 8]}, expected={"good": 5 + i % 4})
            for i in range(60)
        ]


class Halves:
    """Every other task has its good number first."""

    def load(self):
        lists = [5, 1, 1, 1, 5], [1, 1, 1, 1, 5]
        return [Task(id=f"h{i}", input={"list": lists[i % 2]}, expected={"good": 5}) for i in range(40)]


class Late:
    """The first number is from 5 to 9, and often wrong; after it comes one of 8 or 9."""

    def load(self):
        return [
            Task(id=f"l{i}", input={"list": [5 + i % 5, 8 + i % 2, 9]}, expected={"good": 6 + (i // 2) % 3})
            for i in range(60)
        ]


class Listed:
    traits = GeneratorTraits(drafts_from="list")

    def propose(self, context: Context, n: int) -> Proposal:
        items, start = context.task.input["list"], context.drafted
        return Proposal.alternatives(items[start : start + n], exhausted=start + n >= len(items))


class Unsaid(Listed):
    traits = GeneratorTraits()


class Scored:
    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        from draftverify import Cost

        checks = tuple(Check("pass", item / 10) for item in proposal.items)
        return Verification(checks=checks, cost=Cost(seconds=1.0 + len(checks), amount=2.0))


class Good:
    """To be opened first."""

    def open(self):
        self.numbers = (8, 9)

    def __call__(self, task, outcome):
        good = task.expected["good"]
        return outcome.value in (self.numbers if good == 8 else (good,))
'''

CONFIG = """
name: guessing
parts: [./guess_parts.py]
tasks: {use: guess_parts.Tasks}
metrics: {good: {use: guess_parts.Good}}
pipelines:
  first:
    generator: {use: guess_parts.GENERATOR}
    verifier: {use: guess_parts.Scored}
    rule: {use: first, threshold: 0.5}
    block: 2
    on_rejection: [{do: regenerate, times: 3}]
"""

HALVES = (
    CONFIG.replace("guess_parts.Tasks", "guess_parts.Halves")
    .replace("block: 2", "block: 1")
    .replace("3}", "4}")
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory of a config, and its run."""
    path = tmp_path_factory.mktemp("guessing")
    (path / "guess_parts.py").write_text(PARTS)
    best = CONFIG.replace("first, threshold: 0.5", "best").replace("block: 2", "block: 6")
    for name, generator, text in (
        ("listed", "Listed", CONFIG),
        ("unsaid", "Unsaid", CONFIG),
        ("best", "Listed", best),
        ("bare", "Listed", CONFIG.replace("metrics: {good: {use: guess_parts.Good}}\n", "")),
        ("halves", "Listed", HALVES),
        ("late", "Listed", HALVES.replace("Halves", "Late")),
    ):
        config = path / f"{name}.yaml"
        config.write_text(text.replace("GENERATOR", generator))
        run(load_experiment(config), out=path / name, command=("draftverify", "run", str(config)))
    return path


def recorded(path: Path, **more) -> Recording:
    """The recording of a run."""
    with load_run(path) as records:
        return Recording(records, **more)


@pytest.mark.parametrize(
    "changes",
    [
        ("rule.threshold=0.2",),
        ("block=1",),
        ("block=1", "rule.threshold=0.3"),
        ("rule={use: best}",),
        ("on_rejection=[]",),
        ("budget.rounds=1",),
    ],
)
def test_what_is_answered_is_what_a_run_with_it_says(made, changes, tmp_path):
    """The same config, run again with the change."""
    found = recorded(made / "listed").what_if(changes)
    assert not found.gaps
    overrides = [f"pipelines.first.{change}" for change in changes]
    run(load_experiment(made / "listed.yaml", overrides=overrides), out=tmp_path / "again")
    with load_run(tmp_path / "again") as records:
        again = records.records("first")
    for replayed, record in zip(found.replayed, again, strict=True):
        told = timeless(replayed.record)
        if replayed.at_most:
            assert replayed.record.outcome.cost >= record.outcome.cost
        else:
            assert told == timeless(record)
        assert (told.outcome.status, told.outcome.value) == (record.outcome.status, record.outcome.value)
    good = ((5,), (6,), (7,), (8, 9))
    right = sum(record.outcome.value in good[i % 4] for i, record in enumerate(again))
    assert found.would.solved.value == pytest.approx(right / 60)


def test_another_block_than_that_of_an_operating_point(made, tmp_path):
    """The block that is set takes its place; the threshold that it brought stays."""
    pipeline = recorded(made / "listed").pipeline
    parts = identify_parts(generator=pipeline.generator, verifier=pipeline.verifier, rule=pipeline.rule)
    point = OperatingPointFile(
        experiment="e", pipeline="first", baseline="first", block=2, threshold=0.5, drafts=True, why="", tested=2,
        unseen=DataHash(1, "ab"), counted=1, basis="", estimator="", sizes=(2,), tried=(),
        acceptance=Interval(0.5, 0.4, 0.6), predicted=Interval(1.0, 0.9, 1.1), parts=parts,
    )  # fmt: skip
    write_artifact(made / "point.json", point)
    config = made / "calibrated.yaml"
    text = CONFIG.replace("GENERATOR", "Listed").replace(
        "block: 2", "block: {use: fitted, path: ./point.json}"
    )
    config.write_text(text)
    run(load_experiment(config), out=tmp_path / "run", command=("draftverify", "run", str(config)))
    found = recorded(tmp_path / "run").what_if(["block=1"])
    again = recorded(made / "listed").what_if(["block=1"])
    assert not found.gaps
    one, other = ([timeless(each.record) for each in made.replayed] for made in (found, again))
    assert one == other


def test_nothing_set_gains_nothing(made):
    """The records, and their figures twice."""
    found = recorded(made / "listed").what_if(())
    assert found.ran == found.would
    assert found.gain.value == 1
    assert all(
        each.record == record
        for each, record in zip(found.replayed, recorded(made / "listed").records, strict=True)
    )


def test_what_the_log_lacks_is_named(made, capsys):
    """Task, round and why; a draft that was never made is in no log."""
    assert main(["replay", str(made / "listed"), "--set", "rule.threshold=0.95"]) == ExitCode.OK
    told = capsys.readouterr().out
    assert "answered 0 of 60 tasks from the records" in told
    assert "not in the log: task t0, round 2: nothing was drafted here" in told


def test_a_generator_that_does_not_say_needs_the_callers_word(made, capsys):
    """--drafts-from."""
    assert main(["replay", str(made / "unsaid"), "--set", "block=1"]) == ExitCode.OK
    assert "does not say what its drafts depend on (drafts_from)" in capsys.readouterr().out
    assert main(["replay", str(made / "unsaid"), "--set", "block=1", "--drafts-from", "list"]) == ExitCode.OK
    assert "answered 60 of 60 tasks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("generator.limit=3", "'generator' cannot be set in a replay"),
        ("blok=3", "did you mean block"),
        ("block", "sets nothing"),
        ("rule.treshold=0.5", "treshold"),
        ("block={use: measured}", "learns"),
    ],
)
def test_what_cannot_be_set_is_refused(made, change, said):
    """Before any task is looked at."""
    with pytest.raises(ConfigError, match=said):
        recorded(made / "listed").what_if([change])


def test_a_config_that_has_moved_is_named(made, tmp_path, monkeypatch, capsys):
    """The run keeps its config, but not the files beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "listed", tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    about["starts"][-1]["command"] = ["draftverify", "run", "gone.yaml"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    assert main(["replay", "run", "--set", "block=1"]) == ExitCode.CONFIG
    assert "guess_parts" in capsys.readouterr().err
    assert main(["replay", "run", "--set", "block=1", "--config", str(made / "listed.yaml")]) == ExitCode.OK
    capsys.readouterr()
    assert main(["replay", "run", "--json", "--config", str(made / "listed.yaml")]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["gain"]["value"] == 1


def test_tune_finds_a_cheaper_policy_on_held_out_tasks(made, capsys, tmp_path):
    """The first from a threshold is right three times as often as the best; the YAML to paste does so."""
    rules = [{"use": "best"}, {"use": "first", "threshold": 0.5}]
    found = tune(recorded(made / "best"), {"rule": rules})
    assert found.better
    assert found.held_out.would.tasks == 30
    assert not found.held_out.gaps
    assert 1 < found.held_out.gain.low < found.held_out.gain.value
    assert found.settings["rule"]["use"] == "first"
    assert main(["replay", str(made / "best"), "--tune"]) == ExitCode.OK
    told = capsys.readouterr().out
    assert "candidates" in told
    assert re.search(r"solved: 0\.\d+ \[.*\] as it ran → 1 \[", told)
    pasted = YAML_READER.load(told.partition("to paste:")[2])["pipelines"]["first"]
    assert pasted["rule"]["use"] == "first"


def test_tune_says_no_better_where_nothing_is(made, capsys, tmp_path):
    """A space that holds what ran alone."""
    space = tmp_path / "space.yaml"
    space.write_text("block: [2]\n")
    assert main(["replay", str(made / "listed"), "--tune", str(space)]) == ExitCode.OK
    assert "no better than what ran" in capsys.readouterr().out


def test_tune_does_not_propose_what_solves_less(made, capsys):
    """Giving up at once costs less per solved task, and solves half as many; the log says both."""
    halves = recorded(made / "halves")
    found = halves.what_if(["on_rejection=[]"])
    assert found.would.cost.value < found.ran.cost.value
    assert found.would.solved.value == 0.5 * found.ran.solved.value
    found = tune(halves, {"on_rejection": [[]]})
    assert not found.changes
    assert not found.better
    assert found.against == "on the tasks that choose, nothing that solves as much costs less"


def test_tune_knows_what_ran_within_a_list(made):
    """A clause's own setting that ran is no candidate beside what ran."""
    assert tune(recorded(made / "halves"), {"on_rejection.0.times": [4, 3]}).candidates == 2


@pytest.mark.parametrize(
    ("fewer", "lacking", "said"),
    [
        (0.1, 2, "it solves less of the held-out tasks where the 2 of which nothing is known are not"),
        (0.1, 0, "it solves less of the held-out tasks"),
        (0.0, 2, "what 2 held-out tasks would have cost is not known"),
        (0.0, 0, "the interval of the gain holds 1"),
    ],
)
def test_what_stands_against_a_candidate_is_said(made, fewer, lacking, said):
    """Fewer solved tasks on the held-out half, as far as is known; and no gain is shown where costs are not known."""
    found, with_ = recorded(made / "listed").what_if(()), msgspec.structs.replace
    solved = with_(found.ran.solved, value=found.ran.solved.value - fewer)
    would = with_(found.would, tasks=found.would.tasks - lacking)
    assert doubt(with_(found, would=would, at_worst=with_(found.at_worst, solved=solved))) == said


def test_held_out_tasks_have_no_part_in_what_is_tried(made):
    """Thresholds are quantiles of the scores of the tasks that choose; so are costs."""
    listed = recorded(made / "listed")
    few = frozenset({"t2", "t5"})  # whose lists begin with 3, 2
    thresholds = {each.get("threshold") for each in default_space(listed, few)["rule"]}
    all_ = {each.get("threshold") for each in default_space(listed)["rule"]}
    seen = {
        check.score
        for record in listed.records
        if record.task in few
        for round in record.rounds
        for check in round.checks
    }
    assert thresholds - {None, 0.5} <= seen
    assert 0.1 in all_ - thresholds


@pytest.mark.parametrize("threshold", [0.65, 0.75, 0.85])
def test_bounds_hold_what_a_run_says_where_the_log_has_gaps(made, threshold, tmp_path, capsys):
    """From both sides, of the share that is solved and of precision."""
    change = f"rule.threshold={threshold}"
    late = recorded(made / "late")
    found = late.what_if([change])
    overrides = [f"pipelines.first.{change}"]
    config = made / "late.yaml"
    command = ("draftverify", "run", str(config))
    run(load_experiment(config, overrides=overrides), out=tmp_path / "again", command=command)
    again = recorded(tmp_path / "again").what_if(()).ran
    gaps = len(found.gaps)
    assert gaps >= 24
    assert found.whole.tasks == found.at_worst.tasks == found.at_best.tasks == again.tasks == 60
    for figure in ("solved", "precision"):
        worst, best, actual = (getattr(side, figure) for side in (found.at_worst, found.at_best, again))
        assert worst.value <= actual.value <= best.value
        assert worst.low <= actual.value <= best.high
    assert main(["replay", str(made / "late"), "--set", change]) == ExitCode.OK
    told = capsys.readouterr().out
    assert "precision" in told
    assert "of all 60 tasks, what the log lacks as wrong or as right: solved 0" in told


def test_a_candidate_with_gaps_is_compared(made):
    """One that the log knows of 36 tasks in 60 is no answer, and it counts how many there were."""
    answer = tune(recorded(made / "late"), {"rule.threshold": [0.65, 0.95]})
    assert (answer.candidates, answer.gapped, answer.refused) == (3, 2, ())


@pytest.mark.parametrize("name", ["good", "precision"])
def test_tune_keeps_a_bound_by_the_metric(made, name, capsys):
    """The best is right in a third of the tasks; with a bound of .8 it is the first from a threshold that is proposed,
    and confirmed on the others."""
    answer = tune(recorded(made / "best"), at_least={name: 0.8})
    assert answer.better
    side = answer.held_out.at_worst
    assert (side.precision if name == "precision" else side.solved).low >= 0.8
    assert main(["replay", str(made / "best"), "--tune", "--at-least", f"{name}=.8"]) == ExitCode.OK
    told = " ".join(capsys.readouterr().out.split())
    assert f"on the held-out tasks too {name} is at least 0.8" in told
    assert "to paste:" in told


def test_a_bound_that_nothing_keeps_is_said(made, capsys):
    """With what comes of it; nothing is proposed."""
    space = made / "blocks.yaml"
    space.write_text("block: [1]\n")
    assert main(["replay", str(made / "best"), "--tune", str(space), "--at-least", "good=.8"]) == ExitCode.OK
    told = capsys.readouterr().out
    assert re.search(
        r"no better than what ran: good is 0\.\d+ \[0\.\d+, 0\.\d+\], which does not show 0\.8", told
    )
    assert "to paste" not in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--tune", "--at-least", "god=.9"],
            "there is no bound god=0.9 to keep: good or precision has one, up to 1",
        ),
        (["--tune", "--at-least", "good=90"], "there is no bound good=90 to keep"),
        (["--tune", "--at-least", "good"], "write NAME=SHARE, as right=.9"),
        (["--at-least", "good=.9"], "add --tune"),
    ],
)
def test_a_bound_that_is_none_is_refused(made, arguments, said, capsys):
    """Before anything is replayed."""
    assert main(["replay", str(made / "best"), *arguments]) != ExitCode.OK
    assert said in " ".join(capsys.readouterr().err.split())


class Simulated:
    """A recording of thresholds whose tasks are drawn: each is right with the threshold's chance, and dearer where the
    threshold is higher. From the third on the log does not know how every thirtieth task ends."""

    metric, name, written = "right", "p", {"rule": {"threshold": 0}}
    chances = (0.7, 0.84, 0.86, 0.93, 0.97)

    def __init__(self, seed: int, tasks: int) -> None:
        self.draws = np.random.default_rng(seed).random((len(self.chances), tasks))
        self.groups = {str(task): "" for task in range(tasks)}

    def what_if(self, changes, tasks):
        place = int(changes[0].partition("=")[2]) if changes else 0
        ids = sorted(map(int, tasks))
        right = self.draws[place, ids] < self.chances[place]
        known = np.array([task % 30 > 0 or place < 3 for task in ids])
        worst, best = (self.side(place, np.where(known, right, guess)) for guess in (0.0, 1.0))
        nothing = np.zeros(0)
        return WhatIf(
            pipeline="p", changes=tuple(changes), replayed=(), gaps=(), ran=self.side(0, nothing),
            would=self.side(place, right[known]), gain=worst.solved, whole=self.side(0, right), at_worst=worst,
            at_best=best, at_most=0, estimated=0, unscored=0, why_unscored="", of="cost",
        )  # fmt: skip

    @staticmethod
    def side(place, right):
        solved = rate(right.astype(float).tolist(), [1.0] * len(right))
        cost = msgspec.structs.replace(solved, value=1.0 + place)
        return ReplaySide(
            tasks=len(right),
            statuses={},
            trials=0,
            accepted=0,
            passes=0,
            solved=solved,
            precision=solved,
            cost=cost,
        )


def test_a_bound_is_wrongly_confirmed_in_one_of_forty_searches_at_most():
    """Of 400 searches; how often the held-out interval, gaps counted from both sides, holds the truth of the proposal;
    and how often a truth that is the bound itself is confirmed (seeded: each fails with a chance of 1 in 10,000)."""
    wrongly = held = proposed = confirmed = edge = 0
    for seed in range(400):
        drawn = Simulated(seed, 600)
        answer = tune(drawn, {"rule.threshold": [1, 2, 3, 4]}, at_least={"right": 0.85})
        edge += not doubt(drawn.what_if(["rule.threshold=1"], drawn.groups), {"right": 0.84}, dearer=True)
        if answer.changes:
            truth = Simulated.chances[answer.settings["rule.threshold"]]
            worst, best = answer.held_out.at_worst.solved, answer.held_out.at_best.solved
            proposed += 1
            held += worst.low <= truth <= best.high
            confirmed += answer.better
            wrongly += answer.better and truth < 0.85
    assert proposed > 300
    assert confirmed > 200
    assert wrongly <= binom.ppf(0.9999, 400, 0.025)
    assert 0 < edge <= binom.ppf(0.9999, 400, 0.025)
    assert held >= binom.ppf(0.0001, proposed, 0.95)


@pytest.mark.parametrize("path", ["rule", "rule.threshold", "verifier.stages", "done"])
def test_without_a_metric_nothing_grades_itself(made, path):
    """What says which tasks are accepted is not tuned by how many are; blocks and policies are."""
    bare = recorded(made / "bare")
    assert set(default_space(bare)) == {"block", "on_rejection"}
    with pytest.raises(ConfigError, match="without a metric"):
        tune(bare, {path: [1]})


@pytest.mark.parametrize(
    ("settings", "pasted"),
    [
        (
            {"rule": {"use": "best"}, "rule.threshold": 0.5, "block": 2},
            {"rule": {"use": "best", "threshold": 0.5}, "block": 2},
        ),
        (
            {"rule.threshold": 0.5, "rule.otherwise": "best"},
            {"rule": {"threshold": 0.5, "otherwise": "best"}},
        ),
        ({"verifier.stages.1.bound": 8}, {"verifier": {"stages": [{"use": "a"}, {"use": "b", "bound": 8}]}}),
    ],
)
def test_what_is_to_be_pasted_is_nested(settings, pasted):
    """A key stands once, with all that is set below it; a list is whole."""
    written = {"rule": {"use": "first"}, "verifier": {"stages": [{"use": "a"}, {"use": "b", "bound": 5}]}}
    assert nested(settings, written) == pasted
    assert YAML_READER.load("\n".join(yaml_lines({"first": pasted}, ""))) == {"first": pasted}
    assert written["verifier"]["stages"][1]["bound"] == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "a mapping"),
        ("block: 3", "a list of values"),
        ("generator.x: [1]", "cannot be tuned"),
        ("a: [", "YAML"),
    ],
)
def test_a_space_that_is_none_is_refused(text, said, tmp_path):
    """With its line."""
    file = tmp_path / "space.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        read_space(file)
    assert "space.yaml:1" in str(caught.value)


STAGED = '''
from draftverify import Check, Cost, Verification, VerifierTraits


class Stage:
    """Passes from a bound on, at a price."""

    def __init__(self, name: str, bound: int = 0, seconds: float = 1.0) -> None:
        self.name, self.bound, self.seconds = name, bound, seconds
        self.traits = VerifierTraits(name=name, provides={"verdicts", "scores"}, thresholds={"bound"})

    def verify(self, context, proposal):
        checks = tuple(Check("pass", item / 10) for item in proposal.items)
        cost = Cost(seconds=self.seconds * len(proposal))
        return Verification(checks=self.rejudged(context, proposal, checks), cost=cost)

    def rejudged(self, context, proposal, checks):
        return tuple(
            Check("pass", check.score) if check.score >= self.bound / 10 else Check("reject", check.score)
            for check in checks
        )
'''
STAGES = """
    verifier:
      use: all_of
      stages:
        - {use: guess_stages.Stage, name: dear, bound: 4, seconds: 10.0}
        - {use: guess_stages.Stage, name: cheap, bound: 5, seconds: 0.1}
"""


@pytest.fixture(scope="module")
def staged(made):
    """The directory of a config of stages in four cells, and its run: in two of them each stage is asked about all."""
    (made / "guess_stages.py").write_text(STAGED)
    text = CONFIG.replace("    verifier: {use: guess_parts.Scored}\n", STAGES.lstrip("\n"))
    text = text.replace("GENERATOR", "Listed").replace(
        "guess_parts.py]", "guess_parts.py, ./guess_stages.py]"
    )
    text = text.replace("first, threshold: 0.5", "best").replace("block: 2", "block: 6")
    (made / "staged.yaml").write_text(
        text
        + "matrix: {grid: {pipelines.first.verifier.ask_all: [false, true], pipelines.first.block: [6, 3]}}\n"
    )
    run(load_experiment(made / "staged.yaml"), out=made / "staged")
    return made


def cell(path: Path, **values) -> Recording:
    """The recording of a cell."""
    with load_run(path / "staged") as records:
        name = next(
            name
            for name, found in records.config["cells"].items()
            if {key.rpartition(".")[2]: value for key, value in found.items()} == values
        )
        return Recording(records, name, config=path / "staged.yaml")


@pytest.mark.parametrize(
    "change",
    ["verifier.stages=[cheap, dear]", "verifier.stages=[cheap]", "verifier.stages.1.bound=8", "block=1"],
)
def test_a_cell_is_replayed_with_other_stages(staged, change, tmp_path):
    """Stages by their names, a stage's threshold, and what the matrix sets: as a run with it says."""
    found = cell(staged, ask_all=True, block=6).what_if([change])
    assert not found.gaps
    config = staged / "again.yaml"
    text = (staged / "staged.yaml").read_text().partition("matrix:")[0]
    lines = text.split("\n")
    dear, cheap = (next(line for line in lines if name in line) for name in ("dear", "cheap"))
    changed = {
        "verifier.stages=[cheap, dear]": text.replace(dear, "X").replace(cheap, dear).replace("X", cheap),
        "verifier.stages=[cheap]": text.replace(dear + "\n", ""),
        "verifier.stages.1.bound=8": text.replace("bound: 5", "bound: 8"),
        "block=1": text.replace("block: 6", "block: 1"),
    }
    config.write_text(changed[change])
    assert changed[change] != text
    run(load_experiment(config), out=tmp_path / "again")
    with load_run(tmp_path / "again") as records:
        again = records.records("first")
    for replayed, record in zip(found.replayed, again, strict=True):
        assert (replayed.record.outcome.status, replayed.record.outcome.value) == (
            record.outcome.status,
            record.outcome.value,
        )
        verify = sum(round.timing.verify for round in record.rounds)
        assert sum(round.timing.verify for round in replayed.record.rounds) == pytest.approx(verify, rel=0.01)


def test_stages_that_were_not_asked_are_told_with_their_tasks(staged, capsys):
    """How many tasks the log cannot answer for, in one line."""
    found = cell(staged, ask_all=False, block=6)
    assert len(found.what_if(["verifier.stages=[cheap, dear]"]).gaps) == 60
    said = [
        "replay",
        str(staged / "staged"),
        "--pipeline",
        found.name,
        "--config",
        str(staged / "staged.yaml"),
    ]
    assert main([*said, "--set", "verifier.stages=[cheap, dear]"]) == ExitCode.OK
    told = capsys.readouterr().out
    assert (
        "items that stages before refused were never put before the stage cheap (and 59 more tasks)" in told
    )
    assert main([*said, "--set", "verifier.stages=[chaep]"]) == ExitCode.CONFIG
    assert "has no stage 'chaep'; it has dear, cheap; did you mean cheap?" in capsys.readouterr().err


def test_tune_finds_the_cheaper_order_of_stages(staged):
    """The cheap one first refuses what the dear one need not look at; its gain is that of held-out tasks."""
    found = tune(cell(staged, ask_all=True, block=3))
    assert [each["name"] for each in found.settings["verifier.stages"]] == ["cheap", "dear"]
    assert found.better
    assert found.held_out.gain.low > 1.1


def test_a_cells_pipeline_is_built_as_it_ran(tmp_path):
    """What the matrix sets through `defaults` too, but not where a pipeline has something of its own."""
    two = {**sweeps.BASE["pipelines"]["two"], "done": {"use": "limit", "items": 6}}
    matrix = {
        "paired": {"defaults.done.items": [8, 4], "pipelines.two.block": [2, 3]},
        "grid": {"pipelines.one.generator.chance": [0.6, 0.5]},
    }
    pipelines = {"one": sweeps.BASE["pipelines"]["one"], "two": two}
    experiment = sweeps.load(tmp_path, matrix, pipelines=pipelines, baseline=None)
    run(experiment, out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        assert len(records.names) == 6
        for name, spec in zip(experiment.names, experiment.pipelines, strict=True):
            found = Recording(records, name, config=tmp_path / "sweep.yaml")
            same = {"name": "", "path": "", "where": ""}
            assert msgspec.structs.replace(found.spec, **same) == msgspec.structs.replace(spec, **same)
            assert not found.what_if(["budget.rounds=39"]).gaps
