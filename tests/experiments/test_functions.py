"""Functions of a parts file as parts: `{use: python, function: …}` is read, built and sent like any other part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from draftverify import ConfigError, Pipeline, PluginError, plugins, verifier
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.schema import schema
from draftverify.bench.config.specs import Experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import run

PARTS = Path(__file__).with_name("function_parts.py")

CONFIG = f"""
parts: [{PARTS}]
tasks: {{use: jsonl, path: tasks.jsonl}}
pipelines:
  roots:
    generator: {{use: python, function: function_parts.guesses}}
    verifier:
      use: all_of
      stages:
        - use: any_of
          stages: [{{use: json_schema, schema: {{type: integer, maximum: 5}}}}, {{use: exact, field: square}}]
        - {{use: python, function: function_parts.is_root, scores: true}}
    rule: {{use: best}}
    block: 8
"""


def load(folder: Path, text: str = CONFIG) -> Experiment:
    """Write the config and its tasks, and load it."""
    (folder / "tasks.jsonl").write_text('{"square": 25}\n{"square": 9}\n')
    (folder / "functions.yaml").write_text(text)
    return load_experiment(folder / "functions.yaml")


def test_a_pipeline_of_functions_runs(tmp_path: Path) -> None:
    """In worker processes too, which import the file themselves."""
    made = {}
    for use, executor in (("serial", "{use: serial}"), ("process", "{use: process, workers: 1}")):
        experiment = load(tmp_path, CONFIG + f"executor: {executor}\n")
        run(experiment, out=tmp_path / use)
        with load_run(tmp_path / use) as records:
            made[use] = [entry.record.outcome for entry in records.store.entries()]
    assert [(outcome.status, outcome.value) for outcome in made["serial"]] == [
        ("accepted", 5),
        ("exhausted", None),
    ]
    assert [outcome.value for outcome in made["process"]] == [5, None]


def test_the_function_is_the_files_own(tmp_path: Path) -> None:
    """It is not called to build the part, and the spec travels as JSON."""
    experiment = Experiment.from_json(load(tmp_path).to_json())
    pipeline = Builder().pipeline(experiment.pipelines[0])
    judge = pipeline.verifier.stages[1]
    assert isinstance(judge, verifier)
    assert judge.function.__name__ == "is_root"
    assert judge.scores
    assert pipeline.generator.shape == "alternatives"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "function_parts.is_rot",
            "function_parts.py defines no 'is_rot'; did you mean function_parts.is_root",
        ),
        ("function_parts.Root", "function_parts.Root is a class; a function is needed here"),
        ("os:system", "there is no function 'os:system'"),
        ("os.system", "there is no function 'os.system'"),
        ("json_schema", "'json_schema' is a verifier, not a function"),
        (
            "{use: function_parts.is_root}",
            "a function is written by its name, my_parts.judge, not a mapping",
        ),
    ],
)
def test_what_is_no_function_is_told_with_its_place(tmp_path: Path, written: str, message: str) -> None:
    """No code in a config: only what a parts file or an installed package offers by name."""
    with pytest.raises((ConfigError, PluginError)) as caught:
        load(tmp_path, CONFIG.replace("function: function_parts.is_root", f"function: {written}"))
    assert "functions.yaml:12: pipelines.roots.verifier.stages.1.function: " in str(caught.value)
    assert message in str(caught.value)


def test_arguments_of_the_general_verifiers_are_checked(tmp_path: Path) -> None:
    """With file, line and path, like those of any part."""
    text = CONFIG.replace("field: square", "feild: square").replace(
        "schema: {type: integer, maximum: 5}", "schema: 7"
    )
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    said = str(caught.value)
    assert "functions.yaml:11: pipelines.roots.verifier.stages.0.stages.0.schema: should be" in said
    assert "unknown key 'feild' of exact; did you mean field?" in said


def test_a_schema_in_the_config_is_checked_before_the_first_task(tmp_path: Path) -> None:
    """Its error names the pipeline and the place in the schema."""
    text = CONFIG.replace("{type: integer, maximum: 5}", "{type: number, maximum: five}")
    with pytest.raises(
        ConfigError, match=r"verifier\.stages\.0\.stages\.0\.schema\.maximum: this is no JSON schema: 'five'"
    ):
        run(load(tmp_path, text), out=tmp_path / "run")


def test_the_schema_of_the_format_knows_them(tmp_path: Path) -> None:
    """An editor completes their arguments, and marks a function that is no name."""
    found = schema()
    kinds = found["$defs"]["verifier"]["properties"]["use"]["anyOf"]
    names = {each.get("const") for each in kinds}
    assert {"regex", "json_schema", "exact", "command", "python", "all_of", "any_of"} <= names
    python = found["$defs"]["verifier.python"]
    assert python["properties"]["function"]["type"] == "string"
    assert python["required"] == ["use", "function"]
    validator = jsonschema.Draft202012Validator({**python, "$defs": found["$defs"]})
    assert not validator.is_valid({"use": "python", "function": {"use": "x"}})
    assert validator.is_valid({"use": "python", "function": "my_parts.judge"})
    json.dumps(found)


def test_a_package_may_offer_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an entry point of the group `draftverify.functions`."""
    package = tmp_path / "site"
    info = package / "judges-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: judges\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[draftverify.functions]\njudges.even = judges_package:even\n")
    (package / "judges_package.py").write_text("def even(context, item):\n    return item % 2 == 0\n")
    monkeypatch.syspath_prepend(package)
    assert plugins.find("function", "judges.even").package == "judges 1.0"
    text = CONFIG.replace("function: function_parts.is_root, scores: true", "function: judges.even")
    pipeline: Any = Builder().pipeline(load(tmp_path, text.replace("best", "all")).pipelines[0])
    assert isinstance(pipeline, Pipeline)
    assert pipeline.verifier.stages[1].function(None, 4)
