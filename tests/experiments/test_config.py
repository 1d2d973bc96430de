"""A config that is right: what it is read into, and what is built from that."""

from __future__ import annotations

import json
import pickle
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftverify import Budget, ConfigError, Pipeline, PipelineError
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.specs import ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.runner.build import Builder
from draftverify.secret import Secret
from tests.experiments.config_files import CONFIG, write_experiment


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTVERIFY_TEST_KEY", "sk-very-secret")


def pipeline(experiment: Experiment, name: str) -> PipelineSpec:
    [found] = [spec for spec in experiment.pipelines if spec.name == name]
    return found


def test_the_whole_format(tmp_path: Path) -> None:
    """Every key of the format arrives where it belongs."""
    experiment = load_experiment(write_experiment(tmp_path))
    assert (experiment.name, experiment.seed, experiment.baseline) == ("whole", 7, "plain")
    assert (experiment.durable, experiment.memory, experiment.predict) == ("round", 10, 1)
    assert [spec.name for spec in experiment.pipelines] == ["plain", "blocks"]
    assert experiment.executor.arguments == {"workers": 2}
    blocks = pipeline(experiment, "blocks")
    assert blocks.settings == {"temperature": 0.1, "top_k": 4}
    assert blocks.budget == Budget(rounds=50, seconds=10.0, verifier_calls=60, cost=1.5)
    assert blocks.seed == 7
    assert blocks.where == f"{tmp_path / 'experiment.yaml'}:14"
    assert isinstance(blocks.block, ComponentSpec)
    assert [clause.do for clause in blocks.on_rejection] == ["reverify", "feedback", "fallback", "escalate"]


def test_what_is_left_out(tmp_path: Path) -> None:
    """A short config has the file's name, seed 0, one item a block, the serial executor, no baseline."""
    config = """
parts: [./mine.py]
tasks: {use: jsonl, path: tasks.jsonl}
pipelines: {a: {generator: {use: mine.Guess}, verifier: {use: mine.Check, least: 0}, rule: {use: first}}}
"""
    experiment = load_experiment(write_experiment(tmp_path, config))
    assert (experiment.name, experiment.seed, experiment.baseline) == ("experiment", 0, None)
    assert (experiment.executor.use, experiment.durable) == ("auto", "task")
    assert (experiment.pipelines[0].block, experiment.pipelines[0].done) == (None, None)


def test_pipelines_are_built_with_their_arguments(tmp_path: Path) -> None:
    """Values arrive as the constructor's annotations say: tuples, floats, paths, parts and secrets."""
    experiment = load_experiment(write_experiment(tmp_path))
    built = Builder().pipeline(pipeline(experiment, "blocks"))
    guess: Any = built.generator
    assert isinstance(built, Pipeline)
    assert (guess.temperature, type(guess.temperature)) == (2.0, float)
    assert (guess.how, guess.only) == ("down", (1, 2))
    assert guess.file == tmp_path / "numbers" / "list.txt"
    assert guess.others[0].model.weights == "own"
    assert guess.model.weights == tmp_path / "weights.bin"
    assert guess.model.like.weights == "tiny"
    assert type(guess.model.key) is Secret
    assert guess.model.key == "sk-very-secret"
    assert built.name == "blocks"
    assert built.seed == 7
    assert built.budget.rounds == 50
    steps = [
        (clause.do, clause.on, clause.times, clause.rounds, clause.verified)
        for clause in built.policy.clauses
    ]
    assert steps == [
        ("reverify", ("error",), 2, 1, True),
        ("feedback", ("reject", "timeout"), 1, 1, True),
        ("fallback", (), None, None, False),
        ("escalate", (), 1, 1, True),
    ]
    assert built.run("x").status == "accepted"


def test_specs_travel(tmp_path: Path) -> None:
    """An experiment is the same after JSON and after pickle, and builds the same parts."""
    experiment = load_experiment(write_experiment(tmp_path))
    assert pickle.loads(pickle.dumps(experiment)) == experiment
    copy = Experiment.from_json(experiment.to_json())
    assert copy.to_json() == experiment.to_json()
    assert copy.fingerprint == experiment.fingerprint
    built: Any = Builder().pipeline(pipeline(copy, "blocks")).generator
    assert built.model.like.weights == "tiny"
    assert built.others[0].model.weights == "own"


def test_specs_are_frozen(tmp_path: Path) -> None:
    """A spec cannot be changed after it was checked."""
    experiment = load_experiment(write_experiment(tmp_path))
    with pytest.raises(AttributeError):
        experiment.seed = 8  # type: ignore[misc]


def test_equal_specs_build_one_part(tmp_path: Path) -> None:
    """Pipelines share a model whether it is named or written out twice; a block controller is nobody else's."""
    config = CONFIG.replace("block: {use: measured, at_most: 8}", "block: {use: measured}").replace(
        "    generator: {use: mine.Guess}\n",
        "    generator: {use: mine.Guess, model: small}\n    block: {use: measured}\n",
    )
    experiment = load_experiment(write_experiment(tmp_path, config))
    builder = Builder()
    plain, blocks = (builder.pipeline(spec) for spec in experiment.pipelines)
    generators: list[Any] = [plain.generator, blocks.generator]
    assert generators[0].model is generators[1].model.like
    assert plain.rule is not blocks.rule  # {use: first} and {use: first, enough: 1} are not the same text
    assert plain.block is not blocks.block


def test_overrides_are_read_as_yaml(tmp_path: Path) -> None:
    """--set reaches into mappings and lists, makes what is missing, and is in the resolved config."""
    experiment = load_experiment(
        write_experiment(tmp_path),
        overrides=[
            "seed=8",
            "pipelines.blocks.block=3",
            "pipelines.blocks.on_rejection.0.times=forever",
            "pipelines.plain.budget.rounds=4",
            "pipelines.plain.generator={use: mine.Guess, only: [5]}",
        ],
        limit=1,
    )
    assert experiment.seed == 8
    blocks, plain = pipeline(experiment, "blocks"), pipeline(experiment, "plain")
    assert (blocks.block, plain.budget) == (3, Budget(rounds=4))
    assert blocks.on_rejection[0].options["times"] is None
    assert plain.generator.arguments == {"only": [5]}
    assert (experiment.limit, experiment.tasks.arguments["limit"]) == (1, 3)
    assert experiment.config["seed"] == 8
    assert experiment.config["limit"] == 1


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command is run from does not matter."""
    write_experiment(tmp_path)
    monkeypatch.chdir(tmp_path.parent)
    experiment = load_experiment(f"{tmp_path.name}/experiment.yaml")
    assert experiment.tasks.arguments["path"] == str(tmp_path / "tasks.jsonl")
    assert len(Builder().part(experiment.tasks).load()) == 2


def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    """The secret stands neither in specs, nor in the resolved config, nor in what workers are sent, nor in a repr."""
    experiment = load_experiment(write_experiment(tmp_path))
    built: Any = Builder().pipeline(pipeline(experiment, "blocks")).generator
    shown = [
        json.dumps(experiment.config),
        experiment.to_json().decode(),
        repr(experiment),
        repr(built.model.key),
        repr(vars(built.model)),
    ]
    assert all("sk-very-secret" not in text for text in shown)
    assert "${DRAFTVERIFY_TEST_KEY}" in shown[0]


def test_the_resolved_config_can_be_recorded(tmp_path: Path) -> None:
    """It is JSON, holds the defaults that matter, and names no directory of this machine."""
    experiment = load_experiment(write_experiment(tmp_path))
    text = json.dumps(experiment.config, allow_nan=False)
    assert str(tmp_path) not in text
    assert experiment.config["name"] == "whole"
    assert experiment.config["parts"] == ["./mine.py"]


def test_what_the_results_rest_on_is_named(tmp_path: Path) -> None:
    """Plugins and parts files that are used, those inside arguments and fallbacks too; no executor."""
    path = write_experiment(tmp_path)
    parts = load_experiment(path).parts()
    assert all(re.fullmatch("[0-9a-f]{64}", each["sha256"]) for each in parts.values())
    assert parts["stopping rounds"]["package"] == "draftverify"
    assert parts["stopping rounds"]["version"] == metadata.version("draftverify")
    assert not any(name.startswith("executor") for name in parts)
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "\n# changed\n")
    now = load_experiment(path).parts()
    assert [name for name in parts if now[name] != parts[name]] == ["mine.py"]


def test_two_packages_of_one_namespace_have_a_hash_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace is no package: each distribution's part is hashed by its own files."""
    for name, role in (("one", "generator"), ("two", "verifier")):
        package = tmp_path / f"site-{name}" / "dv_shared_name" / name
        info = tmp_path / f"site-{name}" / f"dv_shared_{name}-1.0.dist-info"
        package.mkdir(parents=True)
        info.mkdir()
        method = "propose(self, context, n)" if role == "generator" else "verify(self, context, proposal)"
        (package / "__init__.py").write_text(f"class Part:\n    shape = 'chain'\n    def {method}: ...\n")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dv-shared-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[draftverify.{role}s]\nshared.{name} = dv_shared_name.{name}:Part\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path / f"site-{name}"))
    (tmp_path / "tasks.jsonl").write_text('{"id": "a"}\n')
    (tmp_path / "shared.yaml").write_text(
        "tasks: {use: jsonl, path: tasks.jsonl}\n"
        "pipelines: {p: {generator: {use: shared.one}, verifier: {use: shared.two}, rule: {use: first}}}\n"
    )
    experiment = load_experiment(tmp_path / "shared.yaml")
    before = experiment.parts()
    (tmp_path / "site-two" / "dv_shared_name" / "two" / "more.py").write_text("LIMIT = 3\n")
    now = experiment.parts()
    assert [name for name in before if now[name] != before[name]] == ["verifier shared.two"]
    assert now["generator shared.one"]["sha256"] != now["verifier shared.two"]["sha256"]


def test_the_fingerprint_follows_what_changes_results(tmp_path: Path) -> None:
    """Another argument is another experiment; another executor or version of a part is not."""
    path = write_experiment(tmp_path)
    one = load_experiment(path).fingerprint
    assert load_experiment(path, overrides=["executor={use: process, workers: 7}"]).fingerprint == one
    assert load_experiment(path, overrides=["durable=task"]).fingerprint == one
    assert load_experiment(path, overrides=["pipelines.plain.block=2"]).fingerprint != one
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "\n# changed\n")
    assert load_experiment(path).fingerprint == one


def test_a_clause_is_what_its_combinator_makes(tmp_path: Path) -> None:
    """Left out of YAML, a clause's options are those of `retry()`, `feedback()` and so on."""
    from draftverify.rejection import escalate, feedback, give_up, retry, reverify

    steps = "[{do: regenerate}, {do: feedback}, {do: reverify}, {do: escalate}, {do: give_up}]"
    path = write_experiment(tmp_path)
    experiment = load_experiment(path, overrides=[f"pipelines.plain.on_rejection={steps}"])
    built = Builder().pipeline(pipeline(experiment, "plain"))
    assert built.policy == retry().then(feedback()).then(reverify()).then(escalate()).then(give_up())


def test_parts_that_do_not_fit_are_told_with_their_place(tmp_path: Path) -> None:
    """A rule that needs what the verifier does not provide is refused at build, by file, line and pipeline."""
    path = write_experiment(tmp_path, CONFIG.replace("rule: {use: first}\n", "rule: {use: speculative}\n"))
    experiment = load_experiment(path)
    with pytest.raises(PipelineError) as error:
        Builder().pipeline(pipeline(experiment, "plain"))
    assert str(error.value).startswith(f"{path}:10: pipelines.plain: the rule Speculative needs")


def test_arguments_that_the_part_itself_refuses(tmp_path: Path) -> None:
    """What a constructor raises is the config's error, told with its place."""
    path = write_experiment(
        tmp_path, CONFIG.replace("rule: {use: first}\n", "rule: {use: mine.Refuses, n: 4}\n")
    )
    with pytest.raises(ConfigError) as error:
        Builder().pipeline(load_experiment(path).pipelines[0])
    assert "experiment.yaml:10: pipelines.plain: mine.Refuses refuses its arguments" in str(error.value)
    assert "n is out of season" in str(error.value)


def test_a_secret_that_is_gone_when_a_worker_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without the variable says so."""
    experiment = load_experiment(write_experiment(tmp_path))
    monkeypatch.delenv("DRAFTVERIFY_TEST_KEY")
    with pytest.raises(ConfigError, match="DRAFTVERIFY_TEST_KEY is not set"):
        Builder().pipeline(pipeline(experiment, "blocks"))


def test_specs_hold_plain_data_only(tmp_path: Path) -> None:
    """JSON can say a whole experiment without a custom encoder."""
    experiment = load_experiment(write_experiment(tmp_path))
    assert json.loads(json.dumps(msgspec.to_builtins(experiment))) == json.loads(experiment.to_json())
