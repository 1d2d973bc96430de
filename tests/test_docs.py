"""The documentation's code blocks run as they stand, page by page, in an empty directory."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(python|yaml|json|console)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"^# file: (\S+)\n")
PAGES = [
    "tutorial.md",
    "concepts.md",
    "experiments.md",
    "sweeps.md",
    "judges.md",
    "metrics.md",
    "comparing.md",
    "calibration.md",
    "trust.md",
    "plugins.md",
    "retrieval.md",
    "reasoning.md",
    "tokens.md",
    "sampling.md",
    "verifiers.md",
    "report.md",
    "code.md",
    "scale.md",
    "runs.md",
    "review.md",
    "../README.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    """Python blocks share a namespace, blocks that name a file are written, console lines must succeed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for language, text in BLOCK.findall((DOCS / page).read_text()):
        named = FILE.match(text)
        if named:
            (tmp_path / named[1]).write_text(text[named.end() :])
        elif language == "python":
            exec(compile(text, page, "exec"), namespace)
        elif language == "console":
            for line in text.splitlines():
                if line.startswith("$ draftverify "):
                    command = [sys.executable, "-m", "draftverify", *shlex.split(line)[2:]]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
                    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_between_pages_hold(page):
    """A relative link in a page names a file that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", (DOCS / page).read_text()):
        assert (DOCS / target).exists(), f"{page} links to {target}"
