"""The section on serving: its files are written, its config is served, and its client's lines run against that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.serve.server import models_of
from tests.serve.serving import serving

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_page_s_example_answers_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The root of a square, and for another number a refusal that says why."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text().partition("\n## Serving")[2], re.M | re.S)
    for block in blocks:
        if named := re.match(r"# file: (\S+)\n", block):
            (tmp_path / named[1]).write_text(block[named.end() :])
    (client,) = [block for block in blocks if "OpenAI(" in block]
    with serving(models_of(load_experiment(tmp_path / "roots.yaml"))) as served:
        exec(client.replace("http://127.0.0.1:8000", served.base), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "31"
    assert said[1]
