"""Benchmarks that need a machine, data or time that CI has not: their rehearsal runs, and their data is true."""

from __future__ import annotations

import json

import pytest

from benchmarks.mutants import ROOT, mutants


@pytest.mark.slow
def test_the_gpu_benchmark_rehearses_on_a_cpu(tmp_path):
    """Every step of it on a tiny model: the chosen agreement is met, each way is timed, the figures are written."""
    from benchmarks.tokens_gpu import main

    out = tmp_path / "gpu.json"
    main(["--rehearse", "--batches", "1", "3", "--gammas", "2", "--tokens", "10", "--prompt", "8", "--repeats", "2",
          "--agreement", "0.7", "--out", str(out)])  # fmt: skip
    figures = json.loads(out.read_text())
    assert abs(figures["agreement"] - 0.7) < 0.1
    assert set(figures["batches"]) == {"1", "3"}
    for row in figures["batches"].values():
        assert row["plain"]["tokens_per_second"]["median"] > 0
        assert 1 <= row["gamma 2"]["emitted_per_round"] <= 3
    assert figures["batches"]["1"]["transformers"]["tokens_per_second"]["median"] > 0
    assert figures["provenance"]["command"]


def test_every_mutant_can_still_be_made():
    """Its text is in its file exactly once, and what comes of the edit is Python; its tests are there."""
    found = mutants()
    assert len(found) >= 60
    for mutant in found:
        text = (ROOT / mutant.file).read_text()
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
        assert (ROOT / mutant.tests[0]).exists()
