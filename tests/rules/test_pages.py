"""The rules' pages: their code runs, their YAML names rules that can be built, and every rule has its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftverify.plugins import load
from draftverify.rules import Cascade

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "rules.md", *sorted((DOCS / "rules").glob("*.md"))]
ON_SAMPLES = [
    *("block_verification", "cascade", "ensemble", "greedy_match", "k_seq", "lenience", "lossy"),
    *("speculative", "token_match", "tree", "typical"),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def built(text: str) -> Any:
    spec = msgspec.yaml.decode(text)["rule"]
    return load("rule", spec.pop("use"))(**spec)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks share a namespace, and each prints something."""
    namespace: dict[str, Any] = {"__name__": "docs"}
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)
        assert capsys.readouterr().out


def test_the_yaml_of_the_pages_builds_every_rule() -> None:
    """A form for each rule on samples, with names and values that it takes."""
    rules = [built(block) for page in PAGES for block in blocks(page, "yaml") if block.startswith("rule:")]
    assert {type(rule) for rule in rules} == {load("rule", name) for name in ON_SAMPLES}


def test_every_rule_stands_in_the_index_and_on_its_page() -> None:
    """By its YAML name; of cascades every kind."""
    index = PAGES[0].read_text()
    for name in ON_SAMPLES:
        [row] = [line for line in index.splitlines() if line.startswith(f"| `{name}` |")][:1]
        page, *_ = re.findall(r"\]\((rules/\w+\.md)(#([\w-]+))?\)", row)[0]
        assert f"use: {name}" in (DOCS / page).read_text()
    kinds = (DOCS / "rules" / "cascades.md").read_text()
    for kind in ("chow", "diff", "opt", "token_v1", "token_v2", "token_v3"):
        assert Cascade(kind, 0.1).kind == kind  # type: ignore[arg-type]
        assert f"| `{kind}` |" in kinds


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_hold(page: Path) -> None:
    """Files and headings that are linked to are there."""
    for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([\w-]+))?", page.read_text()):
        named = (page.parent / target) if target else page
        assert named.exists(), f"{page.name} links to {target}"
        heads = [
            re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
            for head in re.findall(r"^#+ (.*)$", named.read_text(), re.M)
        ]
        assert not anchor or anchor in heads, f"{page.name} links to {target}#{anchor}"
