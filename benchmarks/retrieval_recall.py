"""How often the passage that holds the answer is among the first k, on XQuAD's English questions.

    python -m benchmarks.retrieval_recall [--data ../shared/data/xquad_en/xquad.en.json]
        [--out benchmarks/results/retrieval_recall.json]

Two corpora of the same 240 paragraphs: each paragraph a passage, and each sentence one, by this library's splitter. A
passage is right when it is of the question's paragraph and the answer begins in it. BM25 with and without stemming and
stop words, all-MiniLM-L6-v2, and both fused; recall at 1, 5 and 20, with 95 % intervals over paragraphs (questions of
one paragraph are not independent), 2,000 resamples of seed 0.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify_retrieval import Bm25, Corpus, Dense, Encoder, Hybrid

XQUAD = Path("../shared/data/xquad_en/xquad.en.json")
KS = (1, 5, 20)


def questions_of(path: Path) -> tuple[list[str], list[tuple[int, str, int]]]:
    """The paragraphs, and each question with its paragraph's number and where its answer begins there."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    questions = [
        (number, asked["question"], asked["answers"][0]["answer_start"])
        for number, paragraph in enumerate(paragraphs)
        for asked in paragraph["qas"]
    ]
    return [paragraph["context"] for paragraph in paragraphs], questions


def corpus_of(folder: Path, paragraphs: list[str], split: Any) -> Corpus:
    """The paragraphs as a corpus of documents "0", "1", …"""
    path = folder / "paragraphs.jsonl"
    lines = (json.dumps({"id": str(number), "text": text}) for number, text in enumerate(paragraphs))
    path.write_text("\n".join(lines), encoding="utf-8")
    return Corpus(path, split=split)


def right_rows(corpus: Corpus, questions: list[tuple[int, str, int]]) -> list[int]:
    """The row that holds each question's answer."""
    places: dict[int, list[tuple[int, int, int]]] = {}
    for row in range(len(corpus)):
        passage = corpus.passage(row)
        places.setdefault(int(passage["document"]), []).append((passage["start"], passage["end"], row))
    return [
        next(row for start, end, row in places[number] if start <= answer < end)
        for number, _, answer in questions
    ]


def recall(rows: Any, right: list[int], groups: list[int]) -> dict[str, dict[str, float]]:
    """Recall at each k, and its interval over groups."""
    rng = np.random.default_rng(0)
    names, index = np.unique(groups, return_inverse=True)
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=2000)[:, index]
    found = {}
    for k in KS:
        hits = (rows[:, :k] == np.array(right)[:, None]).any(axis=1)
        low, high = np.quantile((weights * hits).sum(axis=1) / weights.sum(axis=1), [0.025, 0.975])
        found[f"@{k}"] = {
            "recall": round(float(hits.mean()), 4),
            "low": round(low, 4),
            "high": round(high, 4),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=XQUAD)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_recall.json"))
    options = parser.parse_args(arguments)
    paragraphs, questions = questions_of(options.data)
    figures: dict[str, Any] = {"questions": len(questions), "intervals": "95 %, paragraphs resampled"}
    for name, split in (("paragraphs", "document"), ("sentences", "sentence")):
        with tempfile.TemporaryDirectory() as folder:
            corpus = corpus_of(Path(folder), paragraphs, split)
            corpus.open()
        right = right_rows(corpus, questions)
        bm25, dense = Bm25(corpus), Dense(corpus, Encoder())
        retrievers: dict[str, Any] = {
            "bm25": bm25,
            "bm25 without stop words' list": Bm25(corpus, stopwords=None),
            "bm25 without stemming": Bm25(corpus, stemmer=None),
            "bm25 without either": Bm25(corpus, stemmer=None, stopwords=None),
            "all-MiniLM-L6-v2": dense,
            "hybrid": Hybrid([bm25, dense]),
        }
        figures[name] = {"passages": len(corpus)}
        for retriever, part in retrievers.items():
            part.open()
            rows, _ = part.search([question for _, question, _ in questions], max(KS))
            figures[name][retriever] = recall(rows, right, [number for number, *_ in questions])
            shown = "  ".join(f"{k} {each['recall']:.3f}" for k, each in figures[name][retriever].items())
            print(f"{name} ({len(corpus)})  {retriever:32s} {shown}", flush=True)
    write(options.out, "benchmarks.retrieval_recall", figures)


if __name__ == "__main__":
    main()
