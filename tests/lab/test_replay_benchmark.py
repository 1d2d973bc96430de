"""The benchmarks on recorded data: on made-up folders, and on the recordings where DRAFTVERIFY_DATA names them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import best_of_n, ppi, published, replay
from benchmarks import trust as trust_of_models
from benchmarks.code import programs as recorded

DATA = Path(os.environ.get("DRAFTVERIFY_DATA", "no such folder"))
SYSTEMS = published.NAMES


def made_up(folder: Path, answers: int = 12) -> Path:
    """A folder with a GSM8K of our own: the 6B systems are right on every second problem, the 175B ones on all."""
    lines = []
    for i in range(answers):
        line: dict[str, object] = {"question": f"{i} + 1?", "ground_truth": f"A: {i + 1}"}
        for system in SYSTEMS:
            right = system.startswith("175b") or i % 2 == 0
            line[system] = {
                "is_correct": right,
                "solution": f"<<{i}+1={i + 1}>>\nA: {i + 1 if right else 0}",
            }
        lines.append(json.dumps(line) + "\n")
    (folder / "gsm8k").mkdir()
    (folder / "gsm8k" / "example_model_solutions.jsonl").write_text("".join(lines))
    return folder


def test_a_miss_is_an_exit_status_and_a_missing_folder_is_named(tmp_path, monkeypatch, capsys):
    """Other data gives other figures: misses, status 1. What is not there is no miss; nothing at all is status 2."""
    monkeypatch.setenv("DRAFTVERIFY_DATA", str(made_up(tmp_path)))
    out = tmp_path / "found.json"
    assert replay.main(["--part", "gsm8k,math", "--out", str(out)]) == 1
    told = json.loads(out.read_text())
    rows = {row["figure"]: row for row in told["figures"]}
    assert rows["GSM8K, 6B fine-tuned"]["recomputed"] == pytest.approx(0.5)
    assert rows["GSM8K, 6B fine-tuned"]["found"] == "miss"
    assert rows["GSM8K, 175B fine-tuned"]["recomputed"] == 1.0
    assert rows["any of the four right"]["recomputed"] == 1.0
    assert rows["pass@8"]["found"] == "not recomputed"
    assert rows["pass@8"]["note"] == "rsd_math100 is not in DRAFTVERIFY_DATA"
    assert told["hit"] + told["miss"] + told["not recomputed"] == len(told["figures"])
    said = capsys.readouterr().out
    assert "miss   GSM8K, 6B fine-tuned: 0.5000 [" in said
    assert "published 0.2168" in said
    assert replay.main(["--part", "math"]) == 2
    assert replay.main(["--show", str(out)]) == 0
    assert "| GSM8K, 6B fine-tuned | 0.2168 | 0.5000 [0.1997, 0.8003] | miss |" in capsys.readouterr().out


def test_no_interval_is_made_up(monkeypatch):
    """A figure of an audit that has no interval is shown without one; a bound of 0 stays one."""
    figure = SimpleNamespace(name="accuracy", value=0.4, low=None, high=None, n=9)
    kappa = SimpleNamespace(name="Cohen's κ", value=0.0, low=-0.2, high=0.0, n=9)
    made = SimpleNamespace(probes=[SimpleNamespace(name="agreement", figures=[figure, kappa])])
    monkeypatch.setattr("draftverify.kit.audit.audit_judge", lambda *given, **how: made)
    found = replay._audited(None, [1, 2])
    assert found["agreement", "accuracy"] == 0.4
    assert (found["agreement", "Cohen's κ"].low, found["agreement", "Cohen's κ"].high) == (-0.2, 0.0)


def test_without_data_nothing_is_computed(monkeypatch, capsys):
    """The variable and the part are named, and the status is 2."""
    monkeypatch.delenv("DRAFTVERIFY_DATA", raising=False)
    for main, said in (
        (lambda: replay.main(["--part", "gsm8k"]), "DRAFTVERIFY_DATA names no folder"),
        (lambda: replay.main(["--part", "gsm8"]), "there is no part gsm8"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main()
        assert said in capsys.readouterr().err


def programs(tasks: int, samples: int = 100) -> list[recorded.Programs]:
    """Tasks with a right half and a wrong half; the generated tests pass the right ones and one of the others."""
    verdicts = "p" * (samples // 2) + "r" * (samples - samples // 2)
    scores = tuple(1.0 if i <= samples // 2 else 0.0 for i in range(samples))
    cross = tuple("pp" if score else "--" for score in scores)
    return [
        recorded.Programs(task=f"t{i}", paper=verdicts, alone=verdicts, scores=scores, cross=cross)
        for i in range(tasks)
    ]


def test_the_figures_of_programs_by_hand(monkeypatch):
    """pass@k, CodeT's set of 51 samples of which 50 are right, and promises that such tasks never break."""
    monkeypatch.setattr(recorded, "SPLITS", 2)
    # Its bounds of all 4,950 gains take ten seconds; tests/lab/test_best_of_n.py has them.
    monkeypatch.setattr(best_of_n, "_differences", lambda curves: np.zeros((3, 100, 100)))
    found = recorded.figures(programs(24))
    assert set(found) == {figure.name for figure in published.FIGURES if figure.part == "code"}
    assert found["CodeGen-16B, pass@1"].value == pytest.approx(0.5)
    assert found["CodeGen-16B, pass@100"].value == 1.0
    assert found["CodeT's dual agreement, pass@1"].value == pytest.approx(50 / 51)
    assert found["best of 100 by generated tests"].value == pytest.approx(50 / 51)
    assert found["certificates broken, as if items were independent"].value == 0.0


def test_what_the_programs_did_is_kept_and_read(tmp_path, monkeypatch):
    """The file is written when it is not there, and read when it is: nothing runs twice."""
    kept = tmp_path / "programs.json"
    monkeypatch.setattr(recorded, "run_programs", lambda data: programs(2))
    first = recorded.programs(tmp_path, kept)
    monkeypatch.setattr(recorded, "run_programs", lambda data: pytest.fail("it ran again"))
    assert recorded.programs(tmp_path, kept) == first


def test_every_figure_is_named_once():
    """A part and a name are one figure, and each part says which folder it reads."""
    names = [(figure.part, figure.name) for figure in published.FIGURES]
    assert len(set(names)) == len(names)
    assert {part for part, _ in names} == set(published.FOLDERS) == {"code", *replay.PARTS}


def test_few_labels_on_made_up_answers(tmp_path, monkeypatch):
    """All figures come out of a small folder; answers that are the same share a number, whatever their form."""
    right, answers = ppi.answered(made_up(tmp_path, 200))
    assert right.mean() == pytest.approx(0.75)
    assert answers[1].tolist() == [0, 0, 2, 2]
    monkeypatch.setattr(ppi, "LABELS", 40)
    found = ppi.measured(right, answers, 6)
    assert found["accuracy"] == pytest.approx(0.5)
    assert found["the_judge"]["precision"]["value"] == 1.0
    assert set(found["anew"]) == {"ppi", "labels", "rogan_gladen", "weight"}
    assert found["anew"]["ppi"]["width"] <= found["anew"]["labels"]["width"]


def test_rogan_and_gladen_s_formula():
    """(p + Sp − 1)/(Se + Sp − 1): a judge with Se .8 and Sp .6 that passes half sees a quarter of the truth."""
    label = np.repeat([1.0, 0.0], 10)
    said = np.concatenate([np.repeat([1.0, 0.0], [8, 2]), np.repeat([1.0, 0.0], [4, 6])])
    value, low, high = ppi.rogan_gladen(label, said, np.repeat([1.0, 0.0], [50, 50]))
    assert value == pytest.approx((0.5 + 0.6 - 1) / (0.8 + 0.6 - 1))
    assert low < value < high


def test_blind_spots_of_made_up_families():
    """Two Llamas that make the same mistakes, and two others that make their own."""
    models = ["Llama-3-a", "Llama-3-b", "gpt-a", "claude-a"]
    answers = np.zeros((60, 4), dtype=int)
    answers[::3, :2] = 1  # wrong in the same way
    answers[1::3, 2], answers[1::3, 3] = 2, 3
    found = trust_of_models.measured(models, answers, answers == 0)
    spots = found["blind spots"]["in one stratum"]
    assert (spots["related"]["value"], spots["others"]["value"]) == (1.0, 0.0)
    assert found["errors"]["of a family"]["pairs"] == 1
    assert found["errors"]["of a family"]["value"] == 1.0
    assert trust_of_models.family("Mixtral-8x7B") == "Mistral"


@pytest.mark.skipif(
    not (DATA / "rsd_math100").is_dir(), reason="DRAFTVERIFY_DATA does not name the recordings"
)
def test_the_published_figures_come_out(monkeypatch):
    """Those that take seconds."""
    assert replay.main(["--part", "gsm8k,math"]) == 0
