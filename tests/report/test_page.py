"""The page as a file: everything in it, nothing to load, no markup of anybody else's, in a byte budget."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.bench.tables.task_rows import task_list
from draftverify.secret import Secret
from draftverify.view import page
from draftverify.view.overview import overview
from draftverify.view.task_detail import task_detail
from tests.report.report_parts import HOSTILE
from tests.report.runs import element, overview_of, unpacked


class Markup(HTMLParser):
    """The page's elements and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_file_holds_what_the_functions_say(shaped):
    """Overview, all rows, and every task's rounds, as the server would give them."""
    with load_run(shaped) as records:
        html = page.page_html(records)
        shown, rows = overview(records), task_list(records)["rows"]
        details = {row["task"]: task_detail(records, row["task"]) for row in rows}
    assert overview_of(html) == json.loads(json.dumps(shown))
    in_file = unpacked(html, "rows")
    assert [{key: value for key, value in row.items() if key != "block"} for row in in_file] == rows
    for row in in_file:
        assert unpacked(html, f"block-{row['block']}").keys() >= {row["task"]}
        if row["group"] != "hostile":  # whose long line is cut in a file
            assert unpacked(html, f"block-{row['block']}")[row["task"]] == details[row["task"]]


def test_the_markup_is_the_page_s_own(shaped):
    """Hostile drafts add no element: those of a page without data, scripts of data apart; nothing has an address."""
    html = (shaped / "report.html").read_text()
    markup = Markup()
    markup.feed(html)
    own = Markup()
    own.feed(page.app_html("n"))
    plain = [tag for tag, attrs in markup.found if attrs.get("type") is None and tag != "meta"]
    assert plain == [tag for tag, attrs in own.found if attrs.get("type") is None and tag != "meta"]
    for tag, attrs in markup.found:
        assert "src" not in attrs, tag
        assert not any(name.startswith("on") for name in attrs), tag
        assert attrs.get("href", "data:,") == "data:,"
    assert HOSTILE[:20] not in html
    assert html.isascii() or "\x00" not in html


def test_only_the_scripts_of_the_page_may_run(shaped):
    """The policy names them by their hashes, and lets nothing be loaded."""
    html = (shaped / "report.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    script = re.search(r"<script>(.*?)</script>", html, re.S)
    assert script is not None
    for text in (script[1], *map(page._static, page.LIBRARIES.values())):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy[1]
    assert "unsafe" not in policy[1].replace("style-src 'unsafe-inline'", "")


def test_the_modules_are_one_script():
    """No import is left, each name is there once, and what a module imports comes before it."""
    seen: set[str] = set()
    for name in page.MODULES:
        text = page._static(name)
        for wanted in re.findall(r'^import .* from "\./(\S+)";$', text, re.M):
            assert page.MODULES.index(wanted) < page.MODULES.index(name), f"{name} imports {wanted}"
        assert len(re.findall(r"^import ", text, re.M)) == len(
            re.findall(r'^import .* from "\./\S+";$', text, re.M)
        )
        own = re.findall(r"^(?:export )?(?:async )?(?:function|const|let) (\w+)", text, re.M)
        assert not seen & set(own), f"{name}: {seen & set(own)} is in another module too"
        seen |= set(own)
        for imported in re.findall(r"^import \{ (.*) \} from", text, re.M):
            assert set(imported.split(", ")) <= seen
    joined = page._script()
    assert not re.search(r"^(import|export)\b", joined, re.M)
    assert "</script" not in joined
    assert "innerHTML" not in joined
    assert "insertAdjacentHTML" not in joined


def test_a_budget_leaves_out_the_rounds_of_tasks_that_went_well(shaped, monkeypatch):
    """The list stays whole; those that went wrong are the first to be kept; none is kept beyond the budget."""
    monkeypatch.setattr(page, "BLOCK", 1)
    with load_run(shaped) as records:
        none = unpacked(page.page_html(records, details=0), "rows")
    assert len(none) == 10
    assert not any("block" in row for row in none)


def test_few_rows_are_those_that_went_wrong(tokens, monkeypatch):
    """Of a list that is too long the failed tasks stay."""
    monkeypatch.setattr(page, "ROWS", 2)
    with load_run(tokens) as records:
        rows = unpacked(page.page_html(records), "rows")
    assert len(rows) == 2
    assert "t7" in [row["task"] for row in rows]


@pytest.mark.parametrize("most", range(1, 11))
def test_of_a_long_list_the_first_that_went_wrong_stay_and_then_the_first_others(shaped, monkeypatch, most):
    """As if all had been there to choose from, whatever there is room for; in order."""
    with load_run(shaped) as records:
        whole = unpacked(page.page_html(records), "rows")
        monkeypatch.setattr(page, "ROWS", most)
        rows = unpacked(page.page_html(records), "rows")
    chosen = sorted(whole, key=lambda row: not page._went_wrong(row))[:most]
    assert [row["task"] for row in rows] == [row["task"] for row in whole if row in chosen]


def test_the_command_writes_the_file_anywhere(shaped, tmp_path, capsys):
    """It says where; a place that cannot be written to is an error; what is no run is one too."""
    assert main(["view", str(shaped), "-o", str(tmp_path / "a.html")]) == 0
    assert "wrote" in capsys.readouterr().out
    assert overview_of((tmp_path / "a.html").read_text())["name"] == "shapes"
    assert main(["view", str(shaped), "-o", str(tmp_path / "none" / "a.html")]) != 0
    assert "write it elsewhere with -o" in capsys.readouterr().err
    assert main(["view", str(tmp_path), "-o", str(tmp_path / "a.html")]) != 0
    assert "not a run directory" in capsys.readouterr().err


def test_the_command_that_made_the_run_is_told(tmp_path, monkeypatch):
    """run.json has it, and the page; the directory stands there as it was given, without where it lies on the disk."""
    (tmp_path / "parts.py").write_text(
        "from draftverify import Check, GeneratorTraits, Proposal, Task, Verification\n"
        "class Some:\n    def load(self):\n        return [Task(id='a')]\n"
        "class Say:\n    traits = GeneratorTraits(shape='alternatives')\n"
        "    def propose(self, context, n):\n        return Proposal.alternatives(['x'])\n"
        "class Yes:\n    def verify(self, context, proposal):\n        return Verification(checks=(Check('pass'),))\n"
    )
    (tmp_path / "e.yaml").write_text(
        "name: told\nparts: [./parts.py]\ntasks: {use: parts.Some}\npipelines:\n"
        "  p: {generator: {use: parts.Say}, verifier: {use: parts.Yes}, rule: {use: first}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", "e.yaml", "--out", "made"]) == 0
    expected = ["draftverify", "run", "e.yaml", "--out", "made"]
    assert json.loads((tmp_path / "made" / "run.json").read_text())["starts"][0]["command"] == expected
    html = (tmp_path / "made" / "report.html").read_text()
    assert overview_of(html)["command"] == expected
    assert overview_of(html)["path"] == "made"
    assert str(tmp_path) not in html
    assert main([*expected[1:], "--estimate"]) == 0
    for _ in range(2):
        assert main(expected[1:]) == 0
    starts = json.loads((tmp_path / "made" / "run.json").read_text())["starts"]
    assert [start["command"] for start in starts] == [expected, [*expected, "--estimate"], expected]


def test_a_secret_that_looks_like_the_page_does_not_break_it(shaped):
    """Secrets are taken out of the data; the page's own text stays, or no script of it would run."""
    Secret("function")
    with load_run(shaped) as records:
        html = page.page_html(records)
    assert "function sourceOf" in html


def test_the_libraries_licences_are_beside_them():
    """Apache ECharts asks for LICENSE and NOTICE, Prism for its licence; their versions stand in the files."""
    assert "Apache License" in page._static("echarts/LICENSE")
    assert "Apache ECharts" in page._static("echarts/NOTICE")
    assert page._static("echarts/echarts.min.js").startswith("/* Apache ECharts 6.1.0")
    assert "MIT LICENSE" in page._static("prism/LICENSE")
    assert page._static("prism/prism.min.js").startswith("/* Prism 1.30.0")
    assert all(element(page.app_html("n"), name) for name in page.LIBRARIES)


@pytest.mark.parametrize("name", page.MODULES)
def test_every_module_says_what_it_is_for(name):
    """A file opens with what it is for, in JavaScript too."""
    assert page._static(name).startswith("// ")
