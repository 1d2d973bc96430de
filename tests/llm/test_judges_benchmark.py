"""The recorded judges' figures, as published with their data; skipped where the data is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.judges import DATA, llmbar, pandalm, told

ROOT = Path(__file__).parents[2]
FOUND = ROOT / DATA
RESULTS = json.loads((ROOT / "benchmarks/results/judges.json").read_text())["judges"]
needs_data = pytest.mark.skipif(not (FOUND / "pandalm").is_dir(), reason="../shared/data is not there")


@needs_data
@pytest.mark.parametrize(
    ("judge", "consistent", "accuracy"), [("GPT-4", 0.870, 0.810), ("ChatGPT", 0.575, 0.713)]
)
def test_llmbar_mtbench(judge, consistent, accuracy, tmp_path):
    """Swap consistency and accuracy over both orders, of the reference, and what is committed."""
    found = told(*llmbar(FOUND, judge, tmp_path))
    assert found["probes"]["order"]["swap consistency"][0] == pytest.approx(consistent, abs=6e-4)
    assert found["probes"]["agreement"]["accuracy"][0] == pytest.approx(accuracy, abs=6e-4)
    assert found["probes"] == RESULTS[judge]["probes"]


@needs_data
def test_pandalm(tmp_path):
    """The annotators' α, GPT-3.5's agreement and κ, and how often people prefer the longer answer."""
    found = told(*pandalm(FOUND, tmp_path))
    agreement = found["probes"]["agreement"]
    assert agreement["annotators' α"][0] == pytest.approx(0.864, abs=6e-4)
    assert agreement["accuracy"][0] == pytest.approx(0.70, abs=6e-3)
    assert agreement["Cohen's κ"][0] == pytest.approx(0.48, abs=6e-3)
    assert found["probes"]["length"]["longer, labels"][0] == pytest.approx(0.675, abs=6e-4)
    assert found["probes"] == RESULTS["GPT-3.5 on PandaLM"]["probes"]
