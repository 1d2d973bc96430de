"""The figures in the docs are those of the committed JSON, and what checks that can fail."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Misplaced, differing, looked_up, pages, renewed, written

JSON = {
    "a": {"value": 1.6249, "low": 1.5, "high": 1.75},
    "n": 12,
    "rate": 0.417,
    "share of 200": [0.81, 0.756, 0.8641, 200],
    "x/y": [{"seconds": 0.0021}],
}


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
