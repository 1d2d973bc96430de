"""Training data as TRL takes it: `datasets` reads the files, TRL checks and tokenises them; nothing is trained."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.cli.main import main
from draftverify.lab.training import training_rows, write_lines
from tests.llm.conftest import build_tiny
from tests.records.test_training import STEPS, one, run_of

CONFIG = """
name: guesses
parts: [./guesses.py]
tasks: {use: guesses.Numbers, count: 12}
metrics: {right: {use: exact}}
pipelines:
  own:
    generator: {use: guesses.Guesses}
    verifier: {use: guesses.Fooled}
    rule: {use: first}
    block: 4
"""

PARTS = """
from draftverify import Check, GeneratorTraits, Proposal, Task, Verification


class Numbers:
    def __init__(self, count: int) -> None:
        self.count = count

    def load(self):
        return [
            Task(id=f"t{n}", input={"prompt": f"What is {n} + {n}?"}, expected={"answer": str(2 * n)})
            for n in range(self.count)
        ]


class Guesses:
    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context, n):
        number = int(context.task.id[1:])
        return Proposal.alternatives([str(2 * number + off) for off in (1, 0, 2, 3)])


class Fooled:
    def verify(self, context, proposal):
        fooled = int(context.task.id[1:]) % 3 == 0
        right = context.task.input["prompt"].split()[2]
        passes = [(item == str(2 * int(right))) != fooled for item in proposal.items]
        return Verification(checks=tuple(Check("pass" if is_passed else "reject") for is_passed in passes))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a run whose verifier is fooled on every third task, in each format."""
    home = tmp_path_factory.mktemp("trl")
    (home / "guesses.py").write_text(PARTS)
    (home / "guesses.yaml").write_text(CONFIG)
    assert main(["run", str(home / "guesses.yaml"), "--out", str(home / "run")]) == 0
    for to in ("preference", "sft", "kto"):
        out = str(home / f"{to}.jsonl")
        assert main(["export", str(home / "run"), "--to", f"trl-{to}", "--chat", "-o", out]) == 0
    return home


def rows(exported: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [json.loads(line) for line in (exported / f"{name}.jsonl").read_text().splitlines()]


def test_nothing_wrong_is_taught_by_a_run_with_a_metric(exported: Path) -> None:
    """Chosen and completed is what is right, rejected what is wrong, also where the verifier was fooled."""

    def is_right(row: dict[str, Any], turns: list[dict[str, str]]) -> bool:
        return turns[-1]["content"] == str(2 * int(row["task"][1:]))

    pairs, answers, labelled = (rows(exported, name) for name in ("preference", "sft", "kto"))
    assert len(pairs) == 36
    assert {row["task"] for row in pairs} == {f"t{n}" for n in range(12)}
    assert all(is_right(row, row["chosen"]) and not is_right(row, row["rejected"]) for row in pairs)
    assert [row["task"] for row in answers] == [f"t{n}" for n in range(12) if n % 3]
    assert all(is_right(row, row["completion"]) for row in answers)
    assert len(labelled) == 48
    assert all(is_right(row, row["completion"]) == row["label"] for row in labelled)
    assert {row["by"] for row in (*answers, *labelled)} == {"metric right"}


@pytest.mark.parametrize(("name", "trainer"), [("preference", "DPO"), ("sft", "SFT"), ("kto", "KTO")])
def test_trl_takes_the_rows(exported: Path, tmp_path: Path, name: str, trainer: str) -> None:
    """A trainer of the format is made of a tiny model; it checks the columns and tokenises every row."""
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    dataset = datasets.load_dataset(
        "json", data_files=str(exported / f"{name}.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert trl.is_conversational(dataset[0])
    model, tokenizer = build_tiny()
    model.save_pretrained(tmp_path / "model")  # from where a trainer loads what it compares with
    tokenizer.pad_token = tokenizer.eos_token
    config = getattr(trl, f"{trainer}Config")(output_dir=str(tmp_path / "out"), report_to=[], use_cpu=True)
    made = getattr(trl, f"{trainer}Trainer")(
        model=str(tmp_path / "model"), args=config, train_dataset=dataset, processing_class=tokenizer
    )
    assert len(made.train_dataset) == len(rows(exported, name))
    assert all(len(ids) for column in made.train_dataset.column_names if column.endswith("ids")
               for ids in made.train_dataset[column])  # fmt: skip


def test_datasets_reads_steps(tmp_path: Path) -> None:
    """As TRL documents stepwise supervision: a prompt, steps, and whether each is right."""
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "steps.jsonl"
    with run_of(tmp_path / "run", [one("a", STEPS, value=["go", "climb"])]) as run:
        assert write_lines(training_rows(run, "trl-stepwise", Counter()), out) == 2
    dataset = datasets.load_dataset(
        "json", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache")
    )
    text, mark = datasets.Value("string"), datasets.Value("bool")
    columns = {name: dataset.features[name] for name in ("prompt", "completions", "labels")}
    assert columns == {"prompt": text, "completions": datasets.List(text), "labels": datasets.List(mark)}
    assert dataset["labels"][:] == [[True, True], [True, False]]
