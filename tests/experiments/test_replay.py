"""`draftverify replay` and `draftverify replay --tune` on whole runs: what they say, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from ruamel.yaml import YAML

from draftverify.bench.artifact import DataHash, Interval, OperatingPointFile, PartIdentity, write_artifact
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run, timeless
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError
from draftverify.identity import identity_of
from draftverify.lab.cli.replay import yaml_lines
from draftverify.lab.recording import Recording
from draftverify.lab.replay import Gap
from draftverify.lab.tune import default_space, doubt, nested, read_space, tune

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
    parts = {
        name: PartIdentity(type(part).__name__, identity_of(part))
        for name in ("generator", "verifier", "rule")
        for part in [getattr(pipeline, name)]
    }
    data = DataHash(1, "ab")
    point = OperatingPointFile(
        experiment="e", pipeline="first", baseline="first", block=2, threshold=0.5, drafts=True, why="", tested=2,
        metric=None, data=data, unseen=data, counted=1, basis="", estimator="", sizes=(2,), tried=(),
        acceptance=Interval(0.5, 0.4, 0.6), predicted=Interval(1.0, 0.9, 1.1), **parts,
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
    assert "candidates that the log can answer for" in told
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gaps": (Gap("t1", 0, "so"),)}, "1 held-out tasks are not in the log"),
        ({"unscored": 2}, "the metric has no say on 2 held-out tasks"),
        ({"fewer": True}, "it solves less of the held-out tasks"),
        ({}, "the interval of the gain holds 1"),
    ],
)
def test_what_standsdoubt_a_candidate_is_said(made, changes, said):
    """Gaps, tasks without a score, and fewer solved tasks on the held-out half are no gain."""
    found = recorded(made / "listed").what_if(())
    if changes.pop("fewer", False):
        solved = msgspec.structs.replace(found.ran.solved, value=found.ran.solved.value + 0.1)
        changes = {"ran": msgspec.structs.replace(found.ran, solved=solved)}
    assert doubt(msgspec.structs.replace(found, **changes)) == said


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
