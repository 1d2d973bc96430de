"""What docs/configuration.md, docs/runs.md, docs/plugins.md and docs/cli.md say of the format is so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from draftverify.bench.cli.init import FOLDER
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.format import budget, clause, experiment, memory, pipeline, predict
from draftverify.bench.config.parameters import parameters
from draftverify.bench.config.tasks import Jsonl
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError
from draftverify.plugins import ROLES, installed
from draftverify.plugins import load as load_plugin

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
RUNS = (DOCS / "runs.md").read_text(encoding="utf-8")
PLUGINS = (DOCS / "plugins.md").read_text(encoding="utf-8")
PARTS = (FOLDER / "alternatives" / "parts.py").read_text(encoding="utf-8")
TASKS = (FOLDER / "alternatives" / "tasks.jsonl").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for each, block in found if each == language]


def test_the_example_loads_and_builds(tmp_path: Path) -> None:
    """The page's experiment is right, with the parts that `draftverify init` writes."""
    config = blocks(CONFIGURATION, "yaml")[0]
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "experiment.yaml").write_text(config)
    experiment = load_experiment(tmp_path / "experiment.yaml")
    assert [Builder().pipeline(spec).name for spec in experiment.pipelines] == ["one_by_one", "blocks"]


def test_the_nested_example_runs(tmp_path: Path) -> None:
    """The page's pipeline inside a pipeline, with the parts and tasks that `draftverify init` writes."""
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "tasks.jsonl").write_text(TASKS)
    (tmp_path / "experiment.yaml").write_text(blocks(CONFIGURATION, "yaml")[1])
    experiment = load_experiment(tmp_path / "experiment.yaml")
    done = run(experiment, out=tmp_path / "run")
    assert done.failed == 0
    with load_run(tmp_path / "run") as records:
        nested = [round.nested for entry in records.store.entries() for round in entry.record.rounds]
    assert any(len(inner) == 2 for inner in nested)


def test_every_executor_is_documented() -> None:
    """The table shows each that is installed, with arguments that it takes."""
    shown = re.findall(r"^\| `(\{use: .*\})` \|", RUNS, flags=re.MULTILINE)
    found = [YAML(typ="safe", pure=True).load(each) for each in shown]
    assert {each["use"] for each in found} == {
        each.name for each in installed() if each.role == "executor" and each.distribution == "draftverify"
    }
    for each in found:
        name = each.pop("use")
        load_plugin("executor", name)(**each)


def test_the_ray_example_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts, placements and store are what they should be; nothing is built, and no cluster is asked."""
    monkeypatch.setenv("PGPASSWORD", "only for this test")
    (tmp_path / "ray.yaml").write_text(blocks(RUNS, "yaml")[0])
    experiment = load_experiment(tmp_path / "ray.yaml")
    executor = Builder().part(experiment.executor)
    assert executor.gpus == 0.25
    assert executor.pipelines["careful"].resources == {"fast_disk": 1}
    assert experiment.store == "postgresql://runs:${PGPASSWORD}@database/runs"
    with pytest.raises(ConfigError, match=r"executor\.pipelines\.careful\.gpu"):
        load_experiment(tmp_path / "ray.yaml", overrides=["executor.pipelines.careful.gpu=1"])


def test_the_python_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading and building from Python, as shown, beside the page's experiment."""
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "experiment.yaml").write_text(blocks(CONFIGURATION, "yaml")[0])
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    exec(blocks(CONFIGURATION, "python")[0], space)
    assert (space["pipeline"].name, space["pipeline"].seed) == ("one_by_one", 8)


def test_the_mistakes_are_told_as_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's errors are what the command prints for its example with three mistakes."""
    config = blocks(CONFIGURATION, "yaml")[0]
    shown = next(block for block in blocks(CONFIGURATION, "") if block.startswith("3 errors"))
    wrong = config.replace("seed: 7", 'seed: "8"').replace("{use: first}", "{use: frist}", 1)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "experiment.yaml").write_text(wrong.replace("at_most", "at_mots"))
    monkeypatch.chdir(tmp_path)
    assert main(["run", "experiment.yaml"]) == 3
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize("keys", [experiment, pipeline, clause, budget, memory, predict])
def test_every_key_is_documented(keys: Callable[..., Any]) -> None:
    """No key of the format is left out of the page."""
    missing = [key for key in parameters(keys) if f"`{key}`" not in CONFIGURATION]
    assert missing == []


def test_every_argument_of_jsonl_is_documented() -> None:
    """The table of task files is whole."""
    assert [key for key in parameters(Jsonl) if f"| `{key}` |" not in CONFIGURATION] == []


def test_every_role_is_documented() -> None:
    """The page names each group, and the method of each role that has one."""
    for info in ROLES.values():
        [row] = [line for line in PLUGINS.splitlines() if re.match(rf"\|[^|]*\| `{info.group}` \|", line)]
        assert f"`{info.method}" in row


def test_the_plugins_page_shows_a_part_that_works() -> None:
    """The class on the page is a verifier with the argument that its text describes."""
    space: dict[str, type] = {"__name__": "docs"}  # type: ignore[dict-item]
    exec(blocks(PLUGINS, "python")[0], space)
    [largest] = parameters(space["Divides"]).values()
    assert (largest.annotation, largest.default) == (int, 1_000_000)
    assert largest.description == "guesses above this are refused unseen."
