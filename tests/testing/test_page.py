"""docs/testing.md: its code runs, what it says the kit finds is found, and it lists every check."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from draftverify.bench.cli.main import main
from draftverify.kit import check_names

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def test_the_code_blocks_run_and_the_mistake_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks share a namespace, those that name a file are written, commands succeed; the report is the page's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for language, block in re.findall(r"^```(python|yaml|console)\n(.*?)^```$", PAGE, re.M | re.S):
        if named := re.match(r"# file: (\S+)\n", block):
            Path(named[1]).write_text(block)
        elif language == "console":
            for line in block.splitlines():
                assert main(shlex.split(line)[2:]) == 0
        else:
            exec(compile(block, "testing.md", "exec"), namespace)
    printed = " ".join(capsys.readouterr().out.split())
    shown = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    assert shown
    for text in shown:
        assert " ".join(text.split()) in printed


def test_the_page_lists_every_check() -> None:
    """A new check is documented."""
    missing = [name for name in check_names() if f"`{name}`" not in PAGE]
    assert not missing
