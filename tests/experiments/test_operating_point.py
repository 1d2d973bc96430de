"""Fits of blocks: the best size of known curves, predicted before it is measured; and pipelines that use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from draftverify import Pipeline, Task
from draftverify.bench import load_experiment
from draftverify.bench.artifact import (
    FittedBlock,
    OperatingPointFile,
    identify_parts,
    read_artifact,
    write_artifact,
)
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.marks import marks_of
from draftverify.errors import ConfigError
from draftverify.lab import fit_blocks
from draftverify.lab.operating_point import split
from draftverify.rules import Limit, LongestPrefix
from tests.experiments.known_costs import Chain, OnePass, Prefix

PARTS = Path(__file__).with_name("known_costs.py")

CHAIN = """
name: chain
parts: [{parts}]
tasks: {{use: known_costs.Tasks, count: 14}}
defaults:
  verifier: {{use: known_costs.OnePass}}
  rule: {{use: longest_prefix}}
  done: {{use: limit, items: 60}}
pipelines:
  plain: {{generator: {{use: known_costs.Chain, chance: 0.5}}, block: 0}}
  spec: {{generator: {{use: known_costs.Chain, chance: {chance}, seconds: {seconds}}}}}
baseline: plain
"""

ALTERNATIVES = """
name: alternatives
parts: [{parts}]
tasks: {{use: known_costs.Tasks, count: 60}}
metrics: {{right: {{use: python, function: known_costs.right}}}}
pipelines:
  one:
    generator: {{use: known_costs.Guesses, chance: 0.2, seconds: 0.1}}
    verifier: {{use: known_costs.Scorer}}
    rule: {{use: best}}
    block: 1
  many:
    generator: {{use: known_costs.Guesses, chance: 0.2, seconds: 0.1}}
    verifier: {{use: known_costs.Scorer}}
    rule: {{use: best, threshold: 0.5}}
baseline: one
matrix:
  grid: {{pipelines.many.rule.threshold: [0.05, 0.9]}}
"""


SMALL = """
name: small
parts: [{parts}]
tasks: {{use: known_costs.Tasks, count: 7}}
metrics: {{right: {{use: python, function: known_costs.right}}}}
defaults:
  verifier: {{use: known_costs.Scorer}}
  rule: {{use: best}}
  on_rejection: [{{do: regenerate, times: 2}}]
pipelines:
  one: {{generator: {{use: known_costs.Guesses, chance: {base}}}, block: 1}}
  many: {{generator: {{use: known_costs.Guesses, chance: {chance}}}}}
baseline: one
"""


def written(folder: Path, text: str = CHAIN, **blanks: Any) -> Path:
    file = folder / "experiment.yaml"
    file.write_text(text.format(**{"parts": PARTS, "chance": 0.8, "seconds": 0.1, **blanks}))
    return file


def speed(chance: float, n: int, seconds: float = 0.1) -> float:
    """Expected items of a round over its seconds."""
    return (1 - chance ** (n + 1)) / (1 - chance) / (1.0 + (0.02 + seconds) * n)


@pytest.mark.parametrize("chance", [0.6, 0.9])
def test_known_curves_have_their_best_size_found(chance: float, tmp_path: Path) -> None:
    """The chosen block is as quick as the best of those tried, and the gain is the one that the curves have."""
    (made,) = fit_blocks(load_experiment(written(tmp_path, chance=chance)), out=tmp_path / "run")
    found = made.artifact
    best = max(speed(chance, n) for n in found.sizes)
    assert found.drafts
    assert speed(chance, found.block) >= 0.97 * best
    gain = speed(chance, found.block) / speed(chance, 0)
    assert found.predicted.value == pytest.approx(gain, rel=0.1)
    assert found.measured is not None
    assert found.measured.value == pytest.approx(gain, rel=0.1)
    assert found.predicted.holds(found.measured.value)
    assert found.cost_ratio == pytest.approx(0.1, rel=0.05)
    assert found.sizes == (0, 1, 2, 4, 8, 16)
    assert (len(found.learned_from), found.unseen.tasks) == (10, 4)


def test_the_best_size_of_a_tree_is_found(tmp_path: Path) -> None:
    """Two guesses a value, right down to a depth of two: blocks of 8 give two values and a correction for 1.96 s, those
    of 4 have none to correct, those of 16 no more values, and an empty one gives a value for 1 s."""
    file = written(tmp_path)
    text = file.read_text().replace("known_costs.OnePass", "known_costs.Every")
    text = text.replace("known_costs.Chain, chance: 0.8, seconds: 0.1", "known_costs.Branches")
    file.write_text(text.replace("count: 14", "count: 7").replace("items: 60", "items: 12"))
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run", at_most=16)
    assert (made.artifact.block, made.artifact.drafts) == (8, True)
    assert made.artifact.predicted.value == pytest.approx(3 / 1.96, rel=0.01)
    assert made.artifact.measured is not None
    assert made.artifact.measured.value == pytest.approx(3 / 1.96, rel=0.01)


def test_costs_are_those_of_the_curves(point: Path) -> None:
    """Draft and verify by size are as the parts declare them, and a large block is far from as many of one."""
    made = read_artifact(point, OperatingPointFile)
    for each in made.tried:
        assert each.draft == pytest.approx(0.1 * each.block)
        assert each.verify == pytest.approx(1.0 + 0.02 * each.block)
    parallel = made.parallel
    assert parallel is not None
    assert parallel.size >= 8
    assert parallel.passes.value == pytest.approx((1.0 + 0.02 * parallel.size) / 1.02, rel=1e-6)
    assert parallel.verdict in ("one pass", "cheaper")


def test_where_items_are_accepted_less_often_than_they_cost_it_says_do_not_draft(tmp_path: Path) -> None:
    """Acceptance .1 at a cost ratio of .5: no block can pay, the block is 0, and the best one's loss was predicted."""
    (made,) = fit_blocks(load_experiment(written(tmp_path, chance=0.1, seconds=0.5)), out=tmp_path / "run")
    found = made.artifact
    assert not found.drafts
    assert found.block == 0
    assert found.why.startswith("do not draft: blocks of 1 take")
    assert found.tested == 1
    assert found.predicted.value is not None
    assert found.predicted.value < 1.0
    assert found.measured is not None
    assert found.predicted.holds(found.measured.value)


def test_of_alternatives_size_and_threshold_are_chosen_by_what_a_solved_task_costs(tmp_path: Path) -> None:
    """A low threshold accepts quickly and wrongly: by the metric the cell with the high one and large blocks wins."""
    file = written(tmp_path, ALTERNATIVES)
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run")
    found = made.artifact
    assert found.metric == "right"
    assert found.block == 16
    assert found.pipeline.startswith("many@threshold=")
    assert found.threshold == found.changes["pipelines.many.rule.threshold"]
    assert {each.pipeline for each in found.tried} == {"many@threshold=0.05", "many@threshold=0.9"}
    assert found.measured is not None
    # One guess solves a fifth of the tasks at 1.1 s, sixteen nearly all at the same cost.
    assert found.predicted.value == pytest.approx(5.0, rel=0.4)


def test_the_prediction_is_written_before_the_unseen_tasks_run(tmp_path: Path) -> None:
    """When a choice is told its file is there, without a measured figure, and no unseen task has been begun. Stopped
    there, a fit does nothing twice and keeps what it predicted; done, it runs no task."""

    def stop(made: Any) -> None:
        assert read_artifact(made.path, OperatingPointFile) == made.artifact
        assert made.artifact.measured is None
        assert not (tmp_path / "run" / "unseen").exists()
        raise KeyboardInterrupt

    experiment = load_experiment(written(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        fit_blocks(experiment, out=tmp_path / "run", chosen=stop)
    before = read_artifact(tmp_path / "run" / "spec.json", OperatingPointFile)
    (made,) = fit_blocks(experiment, out=tmp_path / "run")
    assert read_artifact(made.path, OperatingPointFile) == made.artifact
    assert replace(made.artifact, measured=None, measured_at="") == before
    assert fit_blocks(experiment, out=tmp_path / "run")[0].artifact == made.artifact
    with load_run(tmp_path / "run" / "sizes") as run:
        assert len(list(run)) == 10 * 7
    with load_run(tmp_path / "run" / "unseen") as run:
        assert len(list(run)) == 4 * 2


def test_without_a_baseline_the_smallest_size_is_one(tmp_path: Path) -> None:
    """A pipeline alone is compared with its own plain steps."""
    file = written(tmp_path)
    text = file.read_text().replace("baseline: plain\n", "")
    file.write_text("\n".join(line for line in text.splitlines() if "  plain:" not in line))
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run")
    assert made.artifact.baseline == "spec@block=0"
    assert made.artifact.predicted.value == pytest.approx(speed(0.8, made.artifact.block), rel=0.1)


def test_a_candidate_that_is_the_baseline_is_not_tried_against_it(tmp_path: Path) -> None:
    """At its block a pipeline of the same parts is the baseline: it runs once, and cannot win by chance."""
    file = written(tmp_path, chance=0.1, seconds=0.5)
    text = file.read_text().replace(
        "{use: known_costs.Chain, chance: 0.5}, block: 0",
        "{use: known_costs.Chain, chance: 0.1, seconds: 0.5}, block: 1",
    )
    file.write_text(text)
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run", at_most=4)
    found = made.artifact
    with load_run(tmp_path / "run" / "sizes") as run:
        assert sorted({entry.pipeline for entry in run.store.entries()}) == [
            "plain", "spec@block=0", "spec@block=2", "spec@block=4"
        ]  # fmt: skip
    assert [each.gain.value for each in found.tried if each.block == 1] == [1.0]
    assert (found.block, found.tested) == (0, 2)


@pytest.mark.parametrize(
    ("base", "block", "drafts"),
    [
        ("{use: known_costs.Chain, chance: 0.9, seconds: 0.01}, block: 4", 2, False),
        ("{use: known_costs.Chain, chance: 0.6}, block: 1", 2, True),
        ("{use: known_costs.Chain, chance: 0.1}, block: 0", 2, True),
    ],
)
def test_an_empty_block_is_written_only_where_it_costs_less(
    base: str, block: int, drafts: bool, tmp_path: Path
) -> None:
    """A quick baseline of other parts says: do not draft. But plain steps would cost half as much again as blocks of
    two, so a pipeline that uses the file keeps those."""
    file = written(tmp_path, chance=0.6)
    text = file.read_text().replace("{use: known_costs.Chain, chance: 0.5}, block: 0", base)
    file.write_text(text.replace("count: 14", "count: 9").replace("items: 60", "items: 30"))
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run", at_most=2)
    assert (made.artifact.block, made.artifact.drafts) == (block, drafts)
    assert ("an empty block would cost more" in made.artifact.why) != drafts


LOTTERY = """
name: lottery
parts: [{parts}]
tasks: {{use: known_costs.Tasks, count: 24}}
defaults:
  verifier: {{use: known_costs.Lottery}}
  rule: {{use: best}}
  done: {{use: rounds, n: 1}}
pipelines:
  one: {{generator: {{use: known_costs.Guesses, chance: 0.5, seconds: 0.01}}, block: 204}}
  many: {{generator: {{use: known_costs.Guesses, chance: 0.5, seconds: 0}}}}
baseline: one
"""


def test_whether_to_draft_is_not_decided_by_a_figure_that_chance_made(tmp_path: Path) -> None:
    """Of eight sizes that cost what the baseline costs one wins by chance. It is not said to pay."""
    (made,) = fit_blocks(load_experiment(written(tmp_path, LOTTERY)), out=tmp_path / "run", at_most=128)
    found = made.artifact
    assert len(found.sizes) == 8
    (winner,) = (each for each in found.tried if each.block == found.tested)
    assert winner.gain.value is not None
    assert winner.gain.value > 1.1
    assert found.predicted.value is not None
    assert found.predicted.value < 1.0
    assert not found.drafts
    assert f"on other tasks a choice made so gains × {found.predicted.value:.3g}" in found.why


def test_a_baseline_that_solved_nothing_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the choice and in the place of the prediction, and not that the tasks were too few."""
    file = written(tmp_path, SMALL, base=0.0, chance=1.0)
    assert main(["fit", "block", str(file), "--out", str(tmp_path / "out"), "--at-most", "1"]) == 0
    found = read_artifact(tmp_path / "out" / "many.json", OperatingPointFile)
    assert found.drafts
    assert "one solved none" in found.why
    assert found.basis == "the baseline solved no task"
    assert found.unmeasured == "one solved none of the unseen tasks"
    said = capsys.readouterr().out
    assert "predicted × – for blocks of 1 (the baseline solved no task)" in said
    assert found.unmeasured in said
    assert "too few" not in said
    assert "inf" not in said


def test_a_choice_that_solved_no_unseen_task_is_said_to_have_done_so(tmp_path: Path) -> None:
    """Where a blank would look as if nothing had been measured."""
    file = written(tmp_path, SMALL, base=1.0, chance=1.0)
    tasks = [Task(id=f"t{i}", group="ab"[i % 2]) for i in range(7)]
    known = sorted(task.id for task in split(tasks, 0.3, 0)[0])
    (tmp_path / "seen.py").write_text(f"def known(task, outcome):\n    return float(task.id in {known})\n")
    text = (
        file.read_text().replace("parts: [", "parts: [seen.py, ").replace("known_costs.right", "seen.known")
    )
    file.write_text(text)
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run", at_most=2)
    assert made.artifact.measured is not None
    assert made.artifact.measured.value is None
    assert made.artifact.unmeasured == "one solved none of the unseen tasks"


def test_tasks_that_failed_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They count as unsolved, which may be what a choice rests on; so they are told, and the exit is that of `run`."""
    file = written(tmp_path)
    text = file.read_text().replace("known_costs.Chain, chance: 0.8", "known_costs.Faulty, chance: 0.8")
    file.write_text(text.replace("count: 14", "count: 7").replace("items: 60", "items: 8"))
    assert main(["fit", "block", str(file), "--out", str(tmp_path / "out"), "--at-most", "1"]) == 6
    said = capsys.readouterr().out
    assert "t3" in said
    assert "failed" in said
    assert f"wrote {tmp_path / 'out' / 'spec.json'}" in said


def test_a_file_of_another_version_is_written_anew(tmp_path: Path) -> None:
    """What cannot be read is no prediction to keep, and the sizes have been paid for."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "many.json").write_text('{"kind": "draftverify.operating_point", "version": 0}')
    file = written(tmp_path, SMALL, base=1.0, chance=1.0)
    (made,) = fit_blocks(load_experiment(file), out=out, at_most=2)
    assert read_artifact(out / "many.json", OperatingPointFile) == made.artifact


def test_where_the_baseline_is_the_only_size_nothing_runs(tmp_path: Path) -> None:
    """Blocks of one at most, and the baseline is that pipeline with blocks of one: refused, and with what to do."""
    file = written(tmp_path, SMALL, base=1.0, chance=1.0)
    with pytest.raises(ConfigError, match="nothing is left to compare with it; try larger ones"):
        fit_blocks(load_experiment(file), out=tmp_path / "run", at_most=1)
    assert not (tmp_path / "run").exists()


@given(st.lists(st.sampled_from("abc"), min_size=8, max_size=60), st.floats(0.15, 0.8), st.integers(0, 5))
def test_a_split_takes_its_share_of_every_group(groups: list[str], share: float, seed: int) -> None:
    """Every task is on one side, and the shares are right to a task, in all and in each group; it is repeatable."""
    tasks = [Task(id=str(i), group=group) for i, group in enumerate(groups)]
    first, rest = split(tasks, share, seed)
    assert sorted(task.id for task in (*first, *rest)) == sorted(task.id for task in tasks)
    assert abs(len(rest) - share * len(tasks)) <= 1
    for group in set(groups):
        assert abs(sum(task.group == group for task in rest) - share * groups.count(group)) <= 1
    assert split(tasks, share, seed) == (first, rest)


def test_too_few_tasks_are_refused(tmp_path: Path) -> None:
    """One task cannot be split."""
    with pytest.raises(ConfigError, match="of 1 tasks"):
        split([Task(id="a")], 0.3, 0)


@pytest.mark.parametrize(("names", "said"), [(["plain"], "is the baseline"), (["spce"], "did you mean spec")])
def test_only_pipelines_that_can_be_compared_are_fitted(names: list[str], said: str, tmp_path: Path) -> None:
    """The baseline itself, and a name that nothing has, are refused before anything runs."""
    with pytest.raises(ConfigError, match=said):
        fit_blocks(load_experiment(written(tmp_path)), out=tmp_path / "run", pipelines=names)
    assert not (tmp_path / "run").exists()


# Pipelines that use it


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("point")
    (made,) = fit_blocks(load_experiment(written(folder)), out=folder / "run", at_most=8)
    return made.path


def own(point: Path) -> FittedBlock:
    """The operating point, as of parts that a program makes."""
    parts = {"generator": Chain(0.8), "verifier": OnePass(), "rule": LongestPrefix()}
    file = point.with_name("own.json")
    write_artifact(
        file,
        replace(
            read_artifact(point, OperatingPointFile),
            parts=identify_parts(**parts),
        ),
    )
    return FittedBlock(file)


def used(folder: Path, point: Path, more: str = "", **blanks: Any) -> Path:
    file = written(folder, **blanks)
    text = file.read_text().replace(
        "seconds: 0.1}}", f"seconds: 0.1}}, block: {{use: fitted, path: {point}}}{more}}}"
    )
    assert "fitted" in text
    file.write_text(text)
    return file


def test_a_pipeline_takes_its_block_from_the_file(point: Path, tmp_path: Path) -> None:
    """In a config and in a program, and a run goes through."""
    file = used(tmp_path, point)
    spec = load_experiment(file).pipelines[1]
    assert Builder().pipeline(spec).block.point.block == read_artifact(point, OperatingPointFile).block
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == 0
    made = Pipeline(Chain(0.8), OnePass(), LongestPrefix(), block=own(point), done=Limit(60))
    assert len(made.record(Task(id="t")).rounds[0].items) == read_artifact(point, OperatingPointFile).block


@pytest.mark.parametrize(
    ("blanks", "role"),
    [
        ({"chance": 0.7}, "generator Chain"),
        ({"each": 0.5}, "verifier OnePass"),
        ({"rule": "other"}, "rule LongestPrefix"),
    ],
)
def test_other_parts_refuse_it(
    blanks: dict[str, Any], role: str, point: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another generator, verifier or rule ends the run before a task, with file, line and what differs."""
    file = used(tmp_path, point, **{key: each for key, each in blanks.items() if key == "chance"})
    text = file.read_text()
    if "each" in blanks:
        text = text.replace("known_costs.OnePass}", "known_costs.OnePass, each: 0.5}")
    if "rule" in blanks:
        text = text.replace("longest_prefix", "known_costs.Prefix")
    file.write_text(text)
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == 3
    said = capsys.readouterr().err.replace("\n", " ")
    assert f"made with the {role}" in said
    assert "experiment.yaml:11  pipelines.spec.block" in said
    with pytest.raises(ConfigError, match="made with the rule"):
        Pipeline(Chain(0.8), OnePass(), Prefix(), block=own(point)).run("x")


def test_another_machine_or_package_is_told_and_not_refused(
    point: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run, report and show say what it was then and is now; so they do where it says not to draft."""
    made = read_artifact(point, OperatingPointFile)
    path = tmp_path / "elsewhere.json"
    write_artifact(path, replace(made, versions={**made.versions, "numpy": "1.0"}, drafts=False))
    file = used(tmp_path, path)
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == 0
    assert main(["show", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.count("fitted elsewhere (numpy 1.0 then, ") == 2
    marks = marks_of(Builder().pipeline(load_experiment(file).pipelines[1]), tmp_path)
    assert marks[0] == "its fit says: do not draft"


@pytest.mark.parametrize(
    ("old", "new", "other"),
    [
        ("  done:", "  on_rejection: [{do: regenerate}]\n  done:", "on_rejection"),
        ("items: 60", "items: 61", "done"),
        ("  done:", "  budget: {rounds: 90}\n  done:", "budget"),
        ("baseline: plain", "baseline: plain\nexecutor: {use: batch, size: 2}", "executor"),
    ],
)
def test_what_else_the_costs_rest_on_is_told_where_it_is_other(
    old: str, new: str, other: str, point: Path, tmp_path: Path
) -> None:
    """A policy, a stopping rule, a budget or an executor that the measured pipeline did not have; and nothing else."""
    file = used(tmp_path, point)
    assert not any("other" in each for each in told_of(file))
    file.write_text(file.read_text().replace(old, new))
    (told,) = told_of(file)
    assert told == f"fitted elsewhere (other {other})"


def told_of(file: Path) -> list[str]:
    experiment = load_experiment(file)
    made = Builder().pipeline(experiment.pipelines[1])
    return [each for each in marks_of(made, file.parent, experiment.executor) if "elsewhere" in each]


def test_the_fit_of_a_pipeline_that_drafts_for_another_counts_too(point: Path, tmp_path: Path) -> None:
    """Its remarks are told with its place, and a run rests on its file."""
    made = read_artifact(point, OperatingPointFile)
    path = tmp_path / "inner.json"
    write_artifact(path, replace(made, versions={**made.versions, "numpy": "1.0"}))
    file = used(tmp_path, path)
    text = file.read_text()
    inner = next(line for line in text.splitlines() if "  spec:" in line).partition("{generator: ")[2]
    parts = "verifier: {use: known_costs.OnePass}, rule: {use: longest_prefix}, done: {use: limit, items: 60}"
    outer = "verifier: {use: known_costs.Scorer}, rule: {use: best}"
    wrapped = f"{{generator: {{generator: {inner[:-1]}, {parts}}}, {outer}}}"
    file.write_text(text.replace(f"{{generator: {inner}", wrapped))
    (told,) = told_of(file)
    assert told.startswith("spec.generator: fitted elsewhere (numpy 1.0 then, ")
    assert any(name.endswith("inner.json") for name in load_experiment(file).parts())


def test_a_file_that_is_missing_or_damaged_is_refused(point: Path, tmp_path: Path) -> None:
    """Where it stands in the config, and with what to do."""
    with pytest.raises(ConfigError, match="`draftverify fit block CONFIG` writes it") as error:
        Builder().bench(load_experiment(used(tmp_path, tmp_path / "none.json")))
    assert "experiment.yaml:11: pipelines.spec" in str(error.value)
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps({**json.loads(point.read_text()), "block": "eight"}))
    with pytest.raises(ConfigError, match="damaged"):
        Builder().bench(load_experiment(used(tmp_path, damaged)))


def test_a_rule_has_the_threshold_of_its_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed with the cell, and another one is refused."""
    file = written(tmp_path, ALTERNATIVES)
    (made,) = fit_blocks(load_experiment(file), out=tmp_path / "run")
    whole = file.read_text().partition("matrix:")[0]
    assert main(["fit", "block", str(file), "--out", str(tmp_path / "run")]) == 0
    change = f"pipelines.many.rule.threshold={made.artifact.threshold}"
    assert f"the chosen cell is {made.artifact.pipeline}; it changes {change}" in capsys.readouterr().out
    block = f"\n    block: {{use: fitted, path: {made.path}}}"
    file.write_text(whole.replace("threshold: 0.5}", f"threshold: {made.artifact.threshold}}}{block}"))
    Builder().pipeline(load_experiment(file).pipelines[1]).open()
    file.write_text(whole.replace("threshold: 0.5}", f"threshold: 0.2}}{block}"))
    with pytest.raises(ConfigError, match="was made with the rule Best"):
        Builder().pipeline(load_experiment(file).pipelines[1]).open()


# On the command line


def test_the_command_prints_predicted_beside_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes, the verifier's pass, the choice, and one line a pipeline with both figures."""
    file = written(tmp_path)
    assert main(["fit", "block", str(file), "--out", str(tmp_path / "out"), "--at-most", "4"]) == 0
    said = capsys.readouterr().out
    for words in (
        "10 tasks to fit on, of which 9 count, 4 unseen",
        "no metric says what is solved",
        "in one pass",
        "predicted ×",
        "(9 tasks, cost per solved task)",
    ):
        assert words in said
    assert "as predicted" in said
    assert f"wrote {tmp_path / 'out' / 'spec.json'}" in said
    assert main(["show", str(tmp_path / "out" / "sizes")]) == 0


def test_the_command_says_when_the_tasks_were_too_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, beside the prediction and in the last column, in the place of a verdict."""
    file = written(tmp_path, chance=0.07, seconds=0.05)  # a block of one gains 1.07 / 1.07
    file.write_text(file.read_text().replace("count: 14", "count: 4"))
    assert main(["fit", "block", str(file), "--out", str(tmp_path / "out"), "--at-most", "2"]) == 0
    said = capsys.readouterr().out
    doubt = read_artifact(tmp_path / "out" / "spec.json", OperatingPointFile).doubt
    assert doubt.startswith("too few tasks to say w")
    assert f"{doubt} on 1 others" in said
    assert said.count(doubt) == 2
    assert "as predicted" not in said


@pytest.mark.parametrize("template", ["chain", "tree"])
def test_the_shipped_examples_are_fitted(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains and trees whose passes cost one each: every pipeline has its file, which says to draft though no second is
    won, and a run takes its block from it."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--template", template, "."]) == 0
    found = fit_blocks(load_experiment("experiment.yaml"), out="out", at_most=4)
    for each in found:
        assert (each.artifact.of, each.artifact.drafts) == ("cost", True), each.artifact.why
        path = f"pipelines.{each.path.stem}"
        chosen = load_experiment(
            "experiment.yaml", overrides=[f"{path}.block={{use: fitted, path: {each.path}}}"]
        )
        (spec,) = (spec for spec in chosen.pipelines if spec.name == each.path.stem)
        pipeline = Builder().pipeline(spec)
        pipeline.open()
        assert pipeline.block.point.block == each.artifact.block


def test_a_run_at_several_sizes_is_fitted_without_drafting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records are split; the choice is that of a fit that runs, and a pipeline takes the file as its own."""
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path)
    file.write_text(file.read_text() + "matrix: {grid: {pipelines.spec.block: [1, 4, 16]}}\n")
    assert main(["run", str(file), "--out", "runs/sizes"]) == 0
    assert main(["fit", "block", "runs/sizes"]) == 0
    assert [path.name for path in Path("runs/sizes.fitted").iterdir()] == ["spec.json"]
    made = read_artifact("runs/sizes.fitted/spec.json", OperatingPointFile)
    assert made.sizes == (1, 4, 16)
    assert (made.block, made.drafts) == (4, True)
    gain = speed(0.8, 4) / speed(0.8, 0)
    assert made.predicted.value == pytest.approx(gain, rel=0.15)
    assert made.measured is not None
    assert made.measured.value == pytest.approx(gain, rel=0.15)
    assert (len(made.learned_from), made.unseen.tasks) == (10, 4)
    fitted = "pipelines.spec.block={use: fitted, path: runs/sizes.fitted/spec.json}"
    written(tmp_path)
    assert main(["run", str(file), "--out", "runs/fitted", "--set", fitted, "--limit", "2"]) == 0
    with load_run("runs/fitted") as run:
        assert "spec" not in run.marks


def test_what_another_block_costs_is_in_no_record_of_one_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said what to record; and options of a run that would be made are refused."""
    monkeypatch.chdir(tmp_path)
    four = ["--limit", "2", "--set", "pipelines.spec.block=4"]
    assert main(["run", str(written(tmp_path)), "--out", "runs/one", *four]) == 0
    assert main(["fit", "block", "runs/one"]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert "matrix: {grid: {pipelines.spec.block: [1, 2, 4]}}, or give the config" in err
    assert main(["fit", "block", "runs/one", "--at-most", "4"]) == 2
    assert not Path("runs/one.fitted").exists()
