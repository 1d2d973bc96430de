"""Benchmarks that need a machine, data or time that CI has not: their rehearsal runs, and their data is true."""

from __future__ import annotations

import copy
import json

import pytest

from benchmarks.mutants import ROOT, mutants


@pytest.mark.slow
def test_the_benchmark_of_the_one_call_rehearses(tmp_path):
    """Every way runs, the tokens are equal, the snippets that are counted are those that run, the processor is told."""
    import torch

    from benchmarks.generate import main
    from tests.tokens.tiny import byte_tokenizer, tiny_llama

    tokenizer = copy.deepcopy(byte_tokenizer())
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}>"
    for part in (tiny_llama(seed=3), tokenizer):
        part.save_pretrained(tmp_path / "model")
    rows = [{"category": "rag", "turns": [text]} for text in ("abababab", "one two one two")]
    (tmp_path / "question.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        main(
            [
                "--data", str(tmp_path / "question.jsonl"), "--weights", str(tmp_path / "model"), "--categories", "rag",
                "--prompts", "2", "--tokens", "10", "--repeats", "2", "--dtypes", "float32",
                "--out", str(tmp_path / "generate.json"),
            ]
        )  # fmt: skip
    finally:
        torch.set_num_threads(threads)
    figures = json.loads((tmp_path / "generate.json").read_text())
    found = figures["dtypes"]["float32"]["rag"]
    assert set(found["tokens_as_transformers"].values()) == {2}
    assert all(speed > 0 for speed in found["tokens_per_second"].values())
    assert figures["lines"]["one_call"] < figures["lines"]["one_call_of_transformers"]
    said = figures["provenance"]["machine"]["vector_instructions"]
    assert said["torch"] == torch.backends.cpu.get_cpu_capability()
    assert said.keys() == {"processor", "limits", "torch"}


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
