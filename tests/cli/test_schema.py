"""`draftverify schema`."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from draftverify.bench.cli.main import main


def test_to_the_screen_and_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same valid schema both ways."""
    assert main(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(printed)
    path = tmp_path / "s.json"
    assert main(["schema", "-o", str(path)]) == 0
    assert json.loads(path.read_text()) == printed
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_configs_own_parts_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`schema CONFIG -o` writes beside it, also of a config that is wrong; an editor then names the argument."""
    (tmp_path / "mine.py").write_text(
        'class Guess:\n    """My guesses."""\n    def __init__(self, width: int = 2): ...\n'
        "    def propose(self, context, n): ...\n"
    )
    config = tmp_path / "my.yaml"
    config.write_text("parts: [./mine.py]\npipelines: 7\n")
    assert main(["schema", str(config), "-o"]) == 0
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


def test_a_config_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`schema -o CONFIG` is a slip, and what to write instead is said."""
    config = tmp_path / "my.yaml"
    config.write_text("name: x\n")
    assert main(["schema", "-o", str(config)]) == 2
    assert "would overwrite it" in capsys.readouterr().err
    assert config.read_text() == "name: x\n"


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No directory to write into is a missing resource."""
    assert main(["schema", "-o", str(tmp_path / "none" / "s.json")]) == 5
    assert "cannot be written" in capsys.readouterr().err
