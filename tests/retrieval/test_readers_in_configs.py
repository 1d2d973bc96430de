"""Readers by their names: trained by the command, and reading in an experiment."""

from __future__ import annotations

import json
from pathlib import Path

from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run

from . import tiny
from .test_reader import NAMES, PLACES, THINGS, passage_of

CONFIG = """
name: reading
tasks: {use: jsonl, path: tasks.jsonl}
models:
  pages: {use: retrieval.corpus, path: pages.jsonl, split: document}
pipelines:
  words:
    generator: {use: retrieval.bm25, corpus: pages}
    verifier: {use: retrieval.lexical_reader, corpus: pages, threshold: 0.5}
    rule: {use: first}
    block: 3
  trained:
    generator: {use: retrieval.bm25, corpus: pages}
    verifier: {use: retrieval.reader, weights: reader, threshold: -100}
    rule: {use: first}
    block: 3
"""


def test_a_reader_is_trained_and_read_with(tmp_path: Path) -> None:
    """`draftverify fit part reader` writes the directory that a pipeline names; what is accepted are readings."""
    tiny.save(tmp_path / "encoder")
    passages = [passage_of(i) for i in range(24)]
    questions = [f"Who found the {THINGS[(5 * i) % 12]} of {PLACES[i]}?" for i in range(24)]
    lines = [
        {"question": question, "passage": text, "answers": [NAMES[i % 12]]}
        for i, (question, text) in enumerate(zip(questions, passages, strict=True))
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "train.yaml").write_text("{data: data.jsonl, encoder: ./encoder, epochs: 2, negatives: 2}")
    (tmp_path / "pages.jsonl").write_text(
        "\n".join(json.dumps({"id": f"page {i}", "text": text}) for i, text in enumerate(passages))
    )
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"question": "Who found the gold of north paris?"}))
    (tmp_path / "config.yaml").write_text(CONFIG)
    arguments = ["fit", "part", "reader", str(tmp_path / "train.yaml"), "--out", str(tmp_path / "reader")]
    assert main(arguments) == 0
    report = json.loads((tmp_path / "reader" / "report.json").read_text())["figures"]
    assert report["questions"] + report["held_out_questions"] == 24
    result = run(load_experiment(tmp_path / "config.yaml"), out=tmp_path / "run")
    statuses = {each.name: dict(each.rows[0].statuses) for each in result.summary.pipelines}
    assert statuses == {"words": {"accepted": 1}, "trained": {"accepted": 1}}
