"""The benchmark of drafting in an index rehearses on a small corpus: its figures are there, and nothing differs."""

from __future__ import annotations

import json

import pytest

from benchmarks import retrieval_speculative


@pytest.mark.parametrize("case", ["dense", "dense_hnsw", "no_locality"])
def test_a_case_says_first_and_measures_after(case, monkeypatch, tmp_path):
    """A run fails where an outcome differs; both figures are written with what they rest on."""
    monkeypatch.setattr(retrieval_speculative, "ROWS", 3000)
    monkeypatch.setattr(retrieval_speculative, "TOPICS", 30)
    out = tmp_path / "figures.json"
    retrieval_speculative.main(
        [case, "--tasks", "3", "--steps", "20", "--calibration", "2", "--out", str(out)]
    )
    figures = json.loads(out.read_text())["cases"][case]
    assert figures["provenance"]["command"]
    assert figures["predicted"]["steps"] == 40
    assert figures["predicted"]["low"] < figures["predicted"]["high"]
    assert figures["measured"]["identical"] == 3
    assert figures["measured"]["queries"] == 60
    assert ("time_ratio" in figures["measured"]) == (case == "no_locality")
    assert set(figures["cost"]) == {"seconds", "1", "2", "4", "8", "16"}
