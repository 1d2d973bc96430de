"""What searching through this library costs over the libraries' own calls, on the same index.

    python -m benchmarks.retrieval_search [--passages 1000 20000] [--repeats 15]
        [--out benchmarks/results/retrieval_search.json]

Ours is `Bm25.search` and `Dense.search`: texts in, rows and scores out, equal ones by row. Theirs is `bm25s.tokenize`
and `BM25.retrieve`, and the same encoder and faiss's `index.search`. Passages and queries are words of a Zipf law; the
encoder looks vectors up, so that no model's time is in either. Both are called in turn, in changing order, on blocks of
queries; a ratio is of two calls on the same block, one right after the other, and the figures are the median ratio
(above 1 ours is slower) with its 95 % interval by resampling, and the median difference. That both answer with the same
rows is measured first.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.provenance import write
from draftverify_retrieval import Bm25, Corpus, Dense

K = 20
QUERIES = 512
DIMENSION = 384


class LookedUp:
    """An encoder that knows its texts' vectors."""

    dimension = DIMENSION
    identity = "looked up"

    def __init__(self, texts: Sequence[str]) -> None:
        vectors = np.random.default_rng(1).standard_normal((len(texts), DIMENSION), dtype=np.float32)
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self._places = {text: place for place, text in enumerate(texts)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Their vectors."""
        return self._vectors[[self._places[text] for text in texts]]


def texts_of(count: int, length: int, seed: int) -> list[str]:
    """Texts of words of a Zipf law, each with a word of its own."""
    words = np.minimum(np.random.default_rng(seed).zipf(1.3, (count, length)), 30_000)
    return [" ".join(f"w{word}" for word in row) + f" own{seed}x{place}" for place, row in enumerate(words)]


def ratios(
    ours: Callable[[list[str]], Any],
    theirs: Callable[[list[str]], Any],
    blocks: list[list[str]],
    repeats: int,
) -> dict[str, float]:
    """Ours over theirs, of pairs of calls on the same block: the median, and its interval."""
    pairs = []
    for repeat in range(repeats + 2):
        for block in blocks:
            took = {}
            for call in (ours, theirs) if repeat % 2 else (theirs, ours):
                start = perf_counter()
                call(block)
                took[call] = perf_counter() - start
            if repeat >= 2:  # the first two warm caches
                pairs.append((took[ours], took[theirs]))
    found = np.array(pairs)
    each = found[:, 0] / found[:, 1]
    drawn = np.median(np.random.default_rng(0).choice(each, (2000, len(each))), axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {
        "ratio": round(float(np.median(each)), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
        "more_us_per_call": round(1e6 * float(np.median(found[:, 0] - found[:, 1])), 1),
        "their_us_per_call": round(1e6 * float(np.median(found[:, 1])), 1),
    }


def lexical(corpus: Corpus) -> tuple[Callable[[list[str]], Any], Callable[[list[str]], Any]]:
    """Ours and bm25s's."""
    import bm25s
    import Stemmer

    ours, stemmer = Bm25(corpus), Stemmer.Stemmer("english")
    ours.open()
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(list(corpus.texts()), stemmer=stemmer, show_progress=False), show_progress=False
    )

    def theirs(queries: list[str]) -> Any:
        terms = bm25s.tokenize(queries, stemmer=stemmer, return_ids=False, show_progress=False)
        return index.retrieve(terms, k=K, show_progress=False)

    return (lambda queries: ours.search(queries, K)), theirs


def dense(
    corpus: Corpus, queries: list[str], structure: Any
) -> tuple[Callable[[list[str]], Any], Callable[[list[str]], Any]]:
    """Ours and faiss's, on one index object."""
    encoder = LookedUp([*corpus.texts(), *queries])
    ours = Dense(corpus, encoder, structure)
    ours.open()
    index = ours.faiss
    return (lambda asked: ours.search(asked, K)), (lambda asked: index.search(encoder.encode(asked), K)[::-1])


def agreement(ours: Any, theirs: Any) -> float:
    """The share of rows that both found, whatever the order of equal ones."""
    return float(
        np.mean(
            [len({*a} & {*b}) / len(a) for a, b in zip(ours[0].tolist(), theirs[0].tolist(), strict=True)]
        )
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, nargs="+", default=[1000, 20_000])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_search.json"))
    options = parser.parse_args(arguments)
    queries = texts_of(QUERIES, 9, seed=2)
    figures: dict[str, Any] = {"k": K, "queries": QUERIES, "repeats": options.repeats, "ratios": []}
    for count in options.passages:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "passages.jsonl")
            lines = (
                json.dumps({"id": str(i), "text": text}) for i, text in enumerate(texts_of(count, 60, seed=3))
            )
            path.write_text("\n".join(lines))
            corpus = Corpus(path, split="document")
            corpus.open()
        for name in ("bm25s", "faiss flat", "faiss hnsw", "faiss ivf"):
            library, _, structure = name.partition(" ")
            ours, theirs = lexical(corpus) if library == "bm25s" else dense(corpus, queries, structure)
            same = agreement(ours(queries[:64]), theirs(queries[:64]))
            for size in (1, 64):
                some = queries[:64] if size == 1 else queries
                blocks = [some[start : start + size] for start in range(0, len(some), size)]
                row = {
                    "library": name,
                    "passages": count,
                    "queries_at_once": size,
                    "same_rows": round(same, 4),
                }
                row |= ratios(ours, theirs, blocks, options.repeats)
                figures["ratios"].append(row)
                print(json.dumps(row), flush=True)
    write(options.out, "benchmarks.retrieval_search", figures)


if __name__ == "__main__":
    main()
