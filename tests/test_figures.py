"""The figures in the docs are those of the committed JSON, and what checks that can fail."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import stale
from benchmarks.figures import ROOT, Misplaced, differing, looked_up, pages, renewed, written

JSON = {
    "a": {"value": 1.6249, "low": 1.5, "high": 1.75},
    "n": 12,
    "rate": 0.417,
    "share of 200": [0.81, 0.756, 0.8641, 200],
    "x/y": [{"seconds": 0.0021}],
}


@pytest.mark.filterwarnings(
    "ignore:.*benchmarks.stale.*:RuntimeWarning"
)  # imported here, and run as a command
def test_every_page_says_what_its_json_says():
    """`python -m benchmarks.figures --write` mends it."""
    assert list(differing(write=False)) == []
    assert len(pages()) > 20


@pytest.mark.parametrize(
    ("shown", "pointer", "now"),
    [
        ("9.99 [1, 2.0]", "/a", "1.62 [2, 1.8]"),
        ("8 repeats", "/n", "12 repeats"),
        ("3 %", "/rate", "42 %"),
        (".1", "/rate", ".4"),
        (".1 [.1, .1]", "/share of 200", ".8 [.8, .9]"),
        ("1.0 ms", "/x~1y/0/seconds times 1000", "2.1 ms"),
        ("0.1", "/rate over /a/low", "0.3"),
    ],
)
def test_a_figure_is_written_as_it_was_shown(tmp_path, shown, pointer, now):
    """Digits, percentages and words stay; the numbers are the file's."""
    (tmp_path / "f.json").write_text(json.dumps(JSON))
    page = tmp_path / "page.md"
    assert renewed(page, f'x [{shown}](f.json "{pointer}") y') == f'x [{now}](f.json "{pointer}") y'


@pytest.mark.parametrize("pointer", ["/b", "/x~1y", "/a/value/deep", "/x~1y/1"])
def test_a_figure_that_is_not_there_is_told(tmp_path, pointer):
    """With the page and the pointer."""
    (tmp_path / "f.json").write_text(json.dumps(JSON))
    with pytest.raises(Misplaced, match=f"page.md.*{pointer}"):
        renewed(tmp_path / "page.md", f'[1](f.json "{pointer}")')


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_what_is_written_stays_when_it_is_written_again(number, digits):
    """The form is read off what it wrote itself."""
    first = written("0." + "0" * digits if digits else "0", [number])
    assert written(first, [number]) == first
    assert looked_up([number], "/0") == [number]


def test_every_file_that_the_docs_show_has_its_modules():
    """What measures a version that is gone stands in the benchmarks' own history alone. Modules are there."""
    docs = "".join(page.read_text() for page in pages() if page.parent.name != "benchmarks")
    assert set(re.findall(r"results/(\w+)\.json", docs)) <= stale.MODULES.keys()
    named = {path for measurement in stale.measurements() for path in measurement.paths}
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_figure_is_stale_once_its_modules_have_changed(tmp_path, monkeypatch):
    """Not by a commit of another file, by one of its config as of its module; and a commit that is unknown is told."""

    def commit(path):
        (tmp_path / path).open("a").write("#\n")
        for command in (["add", "-A"], ["commit", "-qm", "x"]):
            subprocess.run(
                ["git", "-c", "user.name=n", "-c", "user.email=e", *command], cwd=tmp_path, check=True
            )
        head = ["git", "rev-parse", "HEAD"]
        return subprocess.run(head, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    def behind(at):
        provenance = {"command": "python -m benchmarks.experiment fast.yaml", "commit": f"{at}+changes"}
        (tmp_path / "fast.json").write_text(json.dumps({"parts": [{"provenance": provenance}]}))
        return re.findall(r"fast.json: (\w+)", "\n".join(stale.stale()))

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(stale, "ROOT", tmp_path)
    monkeypatch.setattr(stale, "RESULTS", tmp_path)
    monkeypatch.setattr(stale, "MODULES", {"fast": "fast.py"})
    monkeypatch.setattr(stale, "pages", list)
    first = [commit(path) for path in ("fast.py", "fast.yaml")][-1]
    commit("other.py")
    assert behind(first) == []
    commit("fast.yaml")
    commit("fast.py")
    assert behind(first) == ["2"]
    assert behind("0" * 40) == ["its"]
