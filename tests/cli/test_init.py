"""`draftverify init` writes experiments that run as they stand, one for each shape."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from draftverify.bench.cli.init import TEMPLATES
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run

BLOCKED = [
    "torch",
    "transformers",
    "rank_bm25",
    "draftverify_llm",
    "draftverify_tokens",
    "draftverify_retrieval",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every template, written and run by commands in a process that can import no model and no adapter."""
    place = tmp_path_factory.mktemp("templates")
    code = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))
from draftverify.bench.cli.main import main
for name in {list(TEMPLATES)!r}:
    code = main(["init", "--template", name, name]) or main(["run", name + "/experiment.yaml", "--out", name + "/run"])
    if code:
        sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_alternatives_find_a_divisor_of_each_number(made: Path) -> None:
    """The smallest one, one at a time or a block at a time; the fallback beyond the small primes."""
    with load_run(made / "alternatives" / "run") as run:
        assert {record.outcome.status for record in run} == {"accepted"}
        for name in ("one_by_one", "blocks"):
            values = {record.task: record.outcome.value for record in run.records(name)}
            assert values == {"a": 7, "b": 13, "c": 31, "d": 43, "e": 59, "f": 73, "g": 89, "h": 101}


@pytest.mark.parametrize(("template", "most"), [("chain", 0.5), ("tree", 0.5)])
def test_guesses_change_no_word_and_save_passes(made: Path, template: str, most: float) -> None:
    """Every pipeline writes what plain writing does, in fewer passes; a tree in fewer than a chain."""
    with load_run(made / template / "run") as run:
        names = list(run.config["pipelines"])
        said = {name: {record.task: record.outcome.value for record in run.records(name)} for name in names}
        costs = {name: sum(record.outcome.cost for record in run.records(name)) for name in names}
    assert all(said[name] == said["plain"] for name in names)
    assert "the house that Jack built" in " ".join(said["plain"]["cat"])
    assert sorted(costs.values(), reverse=True) == list(costs.values())
    assert costs[names[-1]] < most * costs["plain"]


def test_retrieval_answers_what_can_be_answered(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it from five hits, and no answer where there is none; with the package rank-bm25 the same."""
    assert main(["init", "--template", "retrieval", str(tmp_path / "new")]) == 0
    assert main(["run", str(tmp_path / "new" / "experiment.yaml"), "--out", str(tmp_path / "run")]) == 0
    found = []
    for place in (made / "retrieval" / "run", tmp_path / "run"):
        with load_run(place) as run:
            found.append({record.task: record.outcome.value for record in run.records("five_hits")})
            (solved,) = [
                each["rows"][-1]["solved"] for each in run.summary["pipelines"] if each["name"] == "five_hits"
            ]
            assert solved["correct"]["rate"]["value"] == 1.0
    assert found[0] == found[1]
    assert found[0]["pluto"] == "2006"
    assert found[0]["vulcan"] is None


def test_a_judge_is_right_more_often_than_the_first_draft(made: Path) -> None:
    """And the table says how often it is wrong; where no draft is good enough the holding reply is sent."""
    with load_run(made / "judge" / "run") as run:
        rates = {
            each["name"]: each["rows"][-1]["solved"]["good"]["precision"]["value"]
            for each in run.summary["pipelines"]
        }
        (refund,) = [each for each in run.records("best_draft") if each.task == "refund"]
    assert rates == {"first_draft": pytest.approx(2 / 6), "best_draft": pytest.approx(4 / 5)}
    assert refund.rounds[-1].source == "parts.HoldingReply"


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_schema_beside_it_knows_the_config(made: Path, template: str) -> None:
    """The config fits it, its own parts included; a misspelt argument of one does not."""
    folder = made / template
    validator = jsonschema.Draft202012Validator(json.loads((folder / "draftverify.schema.json").read_text()))
    config = YAML(typ="safe").load(folder / "experiment.yaml")
    validator.validate(config)
    name = list(config["pipelines"])[-1]
    config["pipelines"][name]["verifier"]["misspelt"] = 1
    assert not validator.is_valid(config)


def test_the_schema_alone_is_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a directory: with the parts of the experiment that lies there, or with the installed ones."""
    assert main(["init", "--schema", str(tmp_path)]) == 0
    path = tmp_path / "draftverify.schema.json"
    assert capsys.readouterr().out == f"wrote {path}\n"
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert main(["init", str(tmp_path / "new")]) == 0
    path = tmp_path / "new" / "draftverify.schema.json"
    text = path.read_text()
    assert text != json.dumps(schema)
    path.unlink()
    assert main(["init", "--schema", str(tmp_path / "new")]) == 0
    assert path.read_text() == text


def test_a_configs_own_parts_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`init --schema CONFIG` writes beside it, also of a config that is wrong; an editor then names the argument."""
    (tmp_path / "mine.py").write_text(
        'class Guess:\n    """My guesses."""\n    def __init__(self, width: int = 2): ...\n'
        "    def propose(self, context, n): ...\n"
    )
    config = tmp_path / "my.yaml"
    config.write_text("parts: [./mine.py]\npipelines: 7\n")
    assert main(["init", "--schema", str(config)]) == 0
    path = tmp_path / "draftverify.schema.json"
    assert f"wrote {path}" in capsys.readouterr().out
    schema = json.loads(path.read_text())
    part = {"$ref": "#/$defs/generator", "$defs": schema["$defs"]}
    jsonschema.validate({"use": "mine.Guess", "width": 3}, part)
    with pytest.raises(jsonschema.ValidationError, match="'wide'"):
        jsonschema.validate({"use": "mine.Guess", "wide": 3}, part)
    assert {"const": "mine.Guess", "description": "My guesses."} in schema["$defs"]["generator"][
        "properties"
    ]["use"]["anyOf"]
    assert "mine.Guess" not in json.dumps(schema["$defs"]["verifier"])


@pytest.mark.parametrize("name", ["plan", "code-patch", "extract", "reasoning-steps"])
def test_an_example_is_written_with_what_it_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tasks, parts, schema or folder lie where it looks for them; what is there already may be the same."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["init", "--example", name]) == 0
        assert f"draftverify run examples/{name}.yaml" in capsys.readouterr().out
    assert main(["run", f"examples/{name}.yaml", "--dry-run"]) == 0


def test_an_example_overwrites_nothing_and_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another file in the place of its tasks; pages that only a clone has; and the names that there are."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "prompts.jsonl").write_text("mine")
    for name, code, message in (
        ("quickstart", 3, "examples/prompts.jsonl stands there already"),
        ("retrieval-qa", 3, "reads ../docs, which a clone of the repository has"),
        ("quikstart", 2, "did you mean quickstart?"),
        ("zzz", 2, "there are audit, cascade, code-humaneval"),
    ):
        assert main(["init", "--example", name, str(tmp_path)]) == code
        assert message in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "examples").iterdir()] == ["prompts.jsonl"]


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the same name stays as it is, and nothing else is written."""
    (tmp_path / "parts.py").write_text("mine")
    assert main(["init", str(tmp_path)]) == 3
    assert "parts.py stands there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["parts.py"]
    assert (tmp_path / "parts.py").read_text() == "mine"


def test_it_makes_the_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory that is not there is made, and the next command is named."""
    folder = tmp_path / "a" / "b"
    assert main(["init", str(folder)]) == 0
    names = {"experiment.yaml", "parts.py", "tasks.jsonl", "draftverify.schema.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert f"draftverify run {folder / 'experiment.yaml'}" in capsys.readouterr().out


def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file where a directory is due is an error without a traceback."""
    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / "file" / "inside")]) == 3
    assert "cannot be written" in capsys.readouterr().err
