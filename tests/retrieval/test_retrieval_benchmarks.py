"""The benchmarks of this room run, and what they compare is the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

import benchmarks.retrieval_index as index
import benchmarks.retrieval_manual as manual
import benchmarks.retrieval_recall as recall
import benchmarks.retrieval_search as search
from draftverify_retrieval import Dense

from .corpora import Hashed


def test_the_search_benchmark_compares_equal_answers(tmp_path, monkeypatch):
    """Ours and theirs find the same rows, and every library is timed."""
    monkeypatch.setattr(search, "QUERIES", 70)
    search.main(["--passages", "120", "--repeats", "2", "--out", str(tmp_path / "search.json")])
    found = json.loads((tmp_path / "search.json").read_text())
    assert {row["library"] for row in found["ratios"]} == {"bm25s", "faiss flat", "faiss hnsw", "faiss ivf"}
    assert all(row["same_rows"] > 0.98 for row in found["ratios"])
    assert all(0 < row["low"] <= row["ratio"] <= row["high"] for row in found["ratios"])
    assert found["provenance"]["command"]


XQUAD = {
    "data": [
        {
            "paragraphs": [
                {"context": "The cat sleeps. It hunts at night.", "qas": [
                    {"question": "What does the cat do, sleeps?", "answers": [{"answer_start": 8, "text": "sleeps"}]},
                    {"question": "When does it hunt, at night?", "answers": [{"answer_start": 28, "text": "night"}]}]},
                {"context": "Rain falls. The river rises.", "qas": [
                    {"question": "What rises, the river?", "answers": [{"answer_start": 16, "text": "river"}]}]},
            ]
        }
    ]
}  # fmt: skip


@pytest.mark.parametrize(("split", "right"), [("document", [0, 0, 1]), ("sentence", [0, 1, 3])])
def test_the_right_passage_is_the_one_that_holds_the_answer(tmp_path, split, right):
    """Of the question's own paragraph."""
    (tmp_path / "xquad.json").write_text(json.dumps(XQUAD))
    paragraphs, questions = recall.questions_of(tmp_path / "xquad.json")
    corpus = recall.corpus_of(tmp_path, paragraphs, split)
    assert recall.right_rows(corpus, questions) == right


def test_the_recall_benchmark_runs(tmp_path, monkeypatch):
    """With every retriever on both corpora; what is found first is found among the first five."""
    (tmp_path / "xquad.json").write_text(json.dumps(XQUAD))
    monkeypatch.setattr(recall, "Encoder", Hashed)
    monkeypatch.setattr(recall, "Dense", Dense)
    recall.main(["--data", str(tmp_path / "xquad.json"), "--out", str(tmp_path / "recall.json")])
    found = json.loads((tmp_path / "recall.json").read_text())
    for corpus in ("paragraphs", "sentences"):
        for name in ("bm25", "all-MiniLM-L6-v2", "hybrid"):
            figures = found[corpus][name]
            assert figures["@1"]["recall"] <= figures["@5"]["recall"] <= figures["@20"]["recall"] == 1
    assert found["sentences"]["bm25"]["@1"]["recall"] == 1


def test_the_index_benchmark_compares_equal_answers(tmp_path):
    """A grown index ranks as bm25s and faiss do, by graded relevance too, and every operation opens something."""
    (tmp_path / "xquad.json").write_text(json.dumps(XQUAD))
    figures = index.ranking(tmp_path / "xquad.json", tmp_path, Hashed())
    assert figures["bm25"] == figures["bm25s"] > 0.8
    assert figures["dense"] == figures["faiss"]
    graded = figures["graded"]
    assert graded["bm25"] == graded["bm25s"] != figures["bm25"]
    assert graded["dense"] == graded["faiss"]
    texts = search.texts_of(40, 20, seed=3)
    for name in ("texts", "rows"):
        index.write_lines(tmp_path / f"{name}.jsonl", texts)
        index.write_lines(tmp_path / f"{name}_and_one.jsonl", texts, [index.NEW])
    np.save(tmp_path / "vectors.npy", np.eye(41, index.DIMENSION, dtype=np.float32))
    opened = {name: operation(tmp_path) for name, operation in index.OPERATIONS.items()}
    assert len(opened["bm25s open"].corpus) == len(opened["open"].corpus) == 40
    assert len(opened["add"].corpus) == opened["dense add"].faiss.ntotal == 41
    assert opened["add"].search(["a document more"], 1)[0].tolist() == [[40]]


def test_the_scripted_reader_of_the_manual_reads_what_is_there():
    """Mostly the default where the passage says one, mostly a refusal where it does not."""
    question = "What is the default of the parameter indent of the function dumps of json?"
    pages = ("dumps(obj, *, indent: int = 4, key='x') {}", "dumps(obj, *, key='x') {}")
    replies = [
        [manual.scripted_reply(f"Passage: {page.format(n)}\n\nQuestion: {question}")[0] for n in range(50)]
        for page in pages
    ]
    assert replies[0].count("4") > 40
    assert replies[1].count("no answer") > 35
