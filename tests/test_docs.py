"""The documentation's code blocks run as they stand, page by page, in an empty directory; the README's too."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from tests.llm.conftest import Server
from tests.report.runs import overview_of, unpacked

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(python|yaml|json|console)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"^# file: (\S+)\n")
PAGES = [
    "tutorial.md",
    "concepts.md",
    "judges.md",
    "comparing.md",
    "replay.md",
    "operating-point.md",
    "monitors.md",
    "statistics.md",
    "plugins.md",
    "retrieval.md",
    "reasoning.md",
    "tokens.md",
    "verifiers.md",
    "report.md",
    "code.md",
    "runs.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    """Python blocks share a namespace, named files are written, console lines end with 0 or as they say."""
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
                    told = re.search(r"  # .*\bexit code (\d+)", line)
                    expected = int(told[1]) if told else ExitCode.OK
                    assert main(shlex.split(line, comments=True)[2:]) == expected, line


def test_the_three_uses_of_the_readme_run(capsys):
    """Of twelve lines at most, with a server that forgets the amount once, and of whose four programs one is right."""

    def answer(request):
        asked = request["messages"]
        replies = ["```python\ndef slug(title):\n    return title.lower()\n```"] * request.get("n", 1)
        if "slug" in asked[0]["content"]:
            replies[2] = """```python
import re
def slug(title):
    return "-".join(re.findall("[a-z]+", title.lower()))
```"""
        elif len(asked) == 1:
            replies = ['Here it is: {"name": "Ada Byron"}']
        else:
            assert "'amount' is a required property" in asked[-1]["content"]
            replies = ['{"name": "Ada Byron", "amount": 12.5}']
        choices = [{"index": i, "message": {"content": reply}} for i, reply in enumerate(replies)]
        return 200, {}, json.dumps({"choices": choices}).encode()

    server = Server()
    server.answer = answer
    blocks = [
        text
        for language, text in BLOCK.findall((DOCS.parent / "README.md").read_text())
        if language == "python"
    ]
    assert len(blocks) == 3
    namespace: dict[str, object] = {"__name__": "readme"}
    printed = []
    try:
        for block in blocks:
            assert len(block.splitlines()) <= 12
            exec(
                compile(block.replace("http://localhost:8000/v1", server.url), "README.md", "exec"), namespace
            )
            printed.append(capsys.readouterr().out)
    finally:
        server.close()
    assert printed[0] == '{"name": "Ada Byron", "amount": 12.5} in 2 rounds\n'
    tokens, passes = map(int, re.findall(r"(\d+) tokens in (\d+) passes", printed[1])[0])
    assert 1 <= passes <= tokens  # how many it drafts hangs on what passes cost here and now
    assert "re.findall" in printed[2]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_between_pages_hold(page):
    """A relative link in a page names a file that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", (DOCS / page).read_text()):
        assert (DOCS / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", sorted((DOCS / "gallery").glob("*.html")), ids=lambda page: page.stem)
def test_a_page_of_the_gallery_says_what_one_would_type(page):
    """Its command is draftverify's, its run lies below runs/, and no path of a machine is in it."""
    html = page.read_text()
    run = overview_of(html)
    assert run["command"][:2] == ["draftverify", "run"]
    assert (DOCS.parent / run["command"][2]).is_file()
    assert run["path"] == f"runs/{run['name']}"
    packed = [unpacked(html, name) for name in re.findall(r'id="(rows|block-\d+)"', html)]
    assert not re.findall(r"/(?:tmp|root|home|work)/[^\"\s]*", json.dumps([run, packed]))
    assert f"(gallery/{page.name})" in (DOCS / "tutorial.md").read_text()
