"""The generators of this adapter keep the framework's contract, and can be named in a config."""

from __future__ import annotations

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run
from draftverify.kit import Subject, check_component
from draftverify_retrieval import Bm25, Dense, Everything, Hybrid, Reformulate

from .corpora import Hashed, corpus_of
from .test_reformulate import Writer

TASKS = [
    {"question": "Which cat hunts mice?"},
    {"question": "rain on the dog"},
    {"question": ""},
    {"question": "кот"},
]
MAKERS = {
    "bm25": lambda corpus: Bm25(corpus),
    "flat": lambda corpus: Dense(corpus, Hashed()),
    "hnsw": lambda corpus: Dense(corpus, Hashed(), "hnsw"),
    "ivf": lambda corpus: Dense(corpus, Hashed(), "ivf"),
    "hybrid": lambda corpus: Hybrid([Bm25(corpus), Dense(corpus, Hashed())]),
    "reformulate": lambda corpus: Reformulate(Bm25(corpus), Writer("tea")),
    "everything": lambda corpus: Everything(corpus),
    "everything ranked": lambda corpus: Everything(corpus, Bm25(corpus)),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_the_part_conforms(tmp_path, name):
    """Law, shape, reproducibility, one batch as many calls, four threads, opened and closed twice."""
    check_component(Subject(MAKERS[name](corpus_of(tmp_path)), tasks=TASKS))


CONFIG = """
name: retrieval
tasks: {use: jsonl, path: tasks.jsonl}
models:
  pages: {use: retrieval.corpus, path: documents.jsonl, split: sentence, index: index}
  words: {use: retrieval.bm25, corpus: pages}
pipelines:
  block:
    generator: {use: retrieval.bm25, corpus: pages, stopwords: [the]}
    verifier: {use: python, function: parts.names_a_mouse}
    rule: {use: first}
    block: 2
    on_rejection:
      - {on: reject, do: feedback}
      - {on: reject, do: regenerate, times: forever}
      - {on: exhausted, do: fallback, rounds: forever, generator: {use: retrieval.everything, corpus: pages}}
  fused:
    generator: {use: retrieval.hybrid, retrievers: [words, {use: retrieval.bm25, corpus: pages, stemmer: null}]}
    verifier: {use: python, function: parts.names_a_mouse}
    rule: {use: first}
    block: 4
parts: [./parts.py]
"""

PARTS = """
def names_a_mouse(context, item):
    return "mouse" in item["text"]
"""


def test_the_parts_run_from_a_config(tmp_path):
    """By name, over one corpus with an index; a fallback reads on where nothing else finds the passage."""
    corpus_of(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "tasks.jsonl").write_text(
        '{"question": "Which cat hunts?"}\n{"question": "clouds"}\n{"question": "?"}\n'
    )
    result = run(load_experiment(tmp_path / "config.yaml"), out=tmp_path / "run")
    statuses = {each.name: dict(each.rows[0].statuses) for each in result.summary.pipelines}
    assert statuses == {"block": {"accepted": 3}, "fused": {"accepted": 1, "exhausted": 2}}
    assert (tmp_path / "index/manifest.json").exists()
