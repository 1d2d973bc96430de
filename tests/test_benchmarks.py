"""Benchmarks that need a machine, data or time that CI has not: their rehearsal runs, and their data is true."""

from __future__ import annotations

import copy
import importlib
import json
import sys
import zipfile
from importlib import metadata

import numpy as np
import pytest

from benchmarks.mutants import ROOT, mutants

REHEARSAL = ["--rehearse", "--batches", "3", "--gammas", "2", "--tokens", "8", "--prompt", "8", "--repeats", "2",
             "--agreement", "0.7"]  # fmt: skip


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
    """Every step of it on a tiny model: the tokens are right, the chosen agreement is met, each way is timed, the
    figures are written; and a second run has nothing left to do."""
    from benchmarks.tokens_gpu import PARTS, main

    out = tmp_path / "gpu.json"
    main([*REHEARSAL, "--out", str(out)])
    figures = json.loads(out.read_text())
    parts = figures["parts"]
    assert list(parts) == list(PARTS)
    assert not [row["error"] for steps in parts.values() for row in steps.values() if "error" in row]
    assert figures["left_out"] == []
    assert len(parts["correctness"]) == 10
    for row in parts["correctness"].values():
        assert row["answers"] == row["equal_to_plain_on_cpu"] == row["equal_to_transformers"] == 4
        assert row["after_warm_up"]["compilations"] == 0
    for row in (parts["speculate"]["gamma 2"], parts["batches"]["batch 3"]):
        assert abs(row["agreement"] - 0.7) < 0.1
        assert row["same_as_plain"] == row["batch"]
        assert 1 <= row["speculation"]["emitted_per_round"] <= 3
        assert row["kept_of_known"] == 2
        assert min(row["t_draft"], row["t_verify"], row["share_of_expected"]) > 0
    assert parts["plain"]["batch 1"]["share_of_copy"] > 0
    assert parts["assisted"]["batch 1"]["against_transformers_assisted"]["median"] > 0
    assert figures["provenance"]["command"]
    assert main([*REHEARSAL, "--out", str(out)])["parts"] == parts


@pytest.fixture
def steps(monkeypatch):
    """Steps that only say that they were taken, the second of which fails; what was taken."""
    from benchmarks import tokens_gpu_parts

    taken = []

    def measure(part, step):
        taken.append((part, step))
        if (part, step) == ("bandwidth", "two"):
            raise RuntimeError("out of memory")
        return {"figure": len(taken)}

    monkeypatch.setattr(
        tokens_gpu_parts,
        "steps",
        lambda part, lab, options: [
            (step, 5.0, lambda step=step: measure(part, step)) for step in ("one", "two", "three")
        ],
    )
    return taken


def test_the_gpu_benchmark_keeps_what_it_measured(steps, tmp_path):
    """A step that fails leaves its traceback, and alone is taken again by the next run; other settings, and --again for
    the parts that are asked for, measure anew."""
    from benchmarks.tokens_gpu import main

    how = ["--rehearse", "--out", str(tmp_path / "gpu.json")]
    found = main([*how, "--part", "bandwidth", "plain"])
    assert "RuntimeError: out of memory" in found["parts"]["bandwidth"]["two"]["error"]
    assert [row["figure"] for row in found["parts"]["plain"].values()] == [4, 5, 6]
    assert json.loads((tmp_path / "gpu.json").read_text())["parts"] == found["parts"]
    steps.clear()
    main([*how, "--part", "bandwidth", "plain"])
    assert steps == [("bandwidth", "two")]
    main([*how, "--part", "plain", "--again"])
    assert steps[1:] == [("plain", step) for step in ("one", "two", "three")]
    steps.clear()
    main([*how, "--part", "plain", "--tokens", "9"])
    assert len(steps) == 3


def test_the_gpu_benchmark_begins_nothing_that_would_not_end_in_time(steps, tmp_path):
    """It is named instead, and is there for the next run."""
    from benchmarks.tokens_gpu import main

    how = ["--rehearse", "--out", str(tmp_path / "gpu.json"), "--part", "plain"]
    found = main([*how, "--seconds", "4"])
    assert steps == []
    assert [(each["part"], each["step"]) for each in found["left_out"]] == [
        ("plain", step) for step in ("one", "two", "three")
    ]
    assert json.loads((tmp_path / "gpu.json").read_text())["left_out"] == found["left_out"]
    assert main(how)["left_out"] == []
    assert len(steps) == 3


def test_wheels_of_what_a_machine_lacks_are_found(tmp_path, monkeypatch):
    """Also what it has older; what is there already is left in its folder."""
    from benchmarks import tokens_gpu
    from benchmarks.tokens_gpu import carried

    for name, number in (("carried_along", "9.10"), ("pytest", "1.0"), ("of_tomorrow", "2.0")):
        info = f"{name}-{number}.dist-info"
        with zipfile.ZipFile(tmp_path / f"{name}-{number}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "FIGURE = 3\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    there = {"carried-along": "9.9", "pytest": "8.0"}

    def version(name):
        return there[name] if name in there else metadata.version(name)

    monkeypatch.setattr(tokens_gpu, "version", version)
    assert carried(tmp_path) == [
        "carried_along-9.10-py3-none-any.whl",
        "of_tomorrow-2.0-py3-none-any.whl",
    ]
    there["carried-along"] = "9.10"
    assert importlib.import_module("carried_along").FIGURE == 3
    assert carried(tmp_path) == []


def test_every_mutant_can_still_be_made():
    """Its text is in its file exactly once, and what comes of the edit is Python; its tests are there."""
    found = mutants()
    assert len(found) >= 60
    for mutant in found:
        text = (ROOT / mutant.file).read_text()
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
        assert (ROOT / mutant.tests[0]).exists()


def test_the_benchmark_of_monitors_measures_the_monitor(monkeypatch):
    """Its runs alarm where `RateMonitor` does; and it has a Wald interval, a known rate and an estimated one."""
    from benchmarks import monitors
    from draftverify.bench.monitors import RateMonitor

    for name, value in {
        "RUNS": 4,
        "ESTIMATED_RUNS": 4,
        "BLOCK": 4,
        "STEPS": 300,
        "REFERENCES": (20,),
    }.items():
        monkeypatch.setattr(monitors, name, value)
    assert monitors.false_alarms(np.random.default_rng(1)).keys() == {"wald", "known", "20"}
    hits = np.random.default_rng(2).random((4, 200)) < 0.5
    for run, at in enumerate(monitors.first(monitors.gamblers("known", np.random.default_rng(1), 4), hits)):
        own = RateMonitor(monitors.RATE)
        assert [own.observe(float(hit)) for hit in hits[run]].index(True) == at


def test_the_learned_benchmark_knows_prompts_that_are_alike() -> None:
    """A prompt that goes on from a measured one, or is the beginning of it, shares its runs of words; another none."""
    from benchmarks.learned import MOST, runs_of, shared

    asked = runs_of(
        "Compose an engaging travel blog post about a recent trip to Hawaii, with its cultural experiences"
    )
    assert shared("compose an engaging travel blog post about a recent trip to Iceland!", [asked]) > MOST
    assert shared("Write an engaging blog post about bread.", [asked, runs_of("Name a river.")]) == 0
