"""What an index costs to build, to open and to add a document to, beside bm25s's and faiss's own files.

    python -m benchmarks.retrieval_index [--passages 200000] [--vectors 50000] [--repeats 3]
        [--data ../shared/data/xquad_en/xquad.en.json] [--out benchmarks/results/retrieval_index.json]

Ours is `Corpus` with `Bm25`, or with `Dense`, and an index directory; an added document is a line more in the .jsonl
file. bm25s's is `tokenize`, `index` and `save` with the corpus, and `load` with it. faiss's is `add` and `write_index`,
and `read_index`, and the lines of texts, of vectors that are there (d = 384): no model's time is in
either. Each operation is a process
of its own, in turn; the figures are medians: seconds of the processor, on the wall, and megabytes that stay in memory.

`ranking`: nDCG@10 of XQuAD's questions, of whose paragraphs one is relevant, by ours grown from a half of the
paragraphs, and by bm25s and faiss on all of them; `graded`: the same where that paragraph has the grade 2, and the
others of its article have 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import ir_measures
import numpy as np

from benchmarks.provenance import write
from benchmarks.retrieval_recall import XQUAD, questions_of
from benchmarks.retrieval_search import DIMENSION, texts_of
from draftverify_retrieval import Bm25, Corpus, Dense, Encoder

NEW = {"id": "new", "text": "w1 w2 w3 a document more"}


class RowEncoder:
    """The vectors of a file, as they are asked for."""

    dimension = DIMENSION
    identity = "rows of a file"

    def __init__(self, path: Path) -> None:
        self._vectors = np.load(path, mmap_mode="r")
        self._next = 0

    def encode(self, texts: Sequence[str]) -> Any:
        """The next vectors."""
        start, self._next = self._next, self._next + len(texts)
        return np.array(self._vectors[start : self._next])


def write_lines(path: Path, texts: Sequence[str], more: Sequence[dict[str, str]] = ()) -> Path:
    """Texts as a .jsonl file of documents."""
    entries = [*({"id": str(number), "text": text} for number, text in enumerate(texts)), *more]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def read_lines(path: Path) -> list[dict[str, str]]:
    """What the lines of a file say."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def bm25s_build(folder: Path) -> Any:
    """Tokenise, index and save."""
    import bm25s
    import Stemmer

    entries = read_lines(folder / "texts.jsonl")
    index = bm25s.BM25()
    terms = bm25s.tokenize(
        [entry["text"] for entry in entries], stemmer=Stemmer.Stemmer("english"), show_progress=False
    )
    index.index(terms, show_progress=False)
    index.save(folder / "bm25s", corpus=entries, show_progress=False)
    return index, entries


def bm25s_open(folder: Path) -> Any:
    """Load the scores and the corpus."""
    import bm25s

    return bm25s.BM25.load(folder / "bm25s", load_corpus=True)


def faiss_build(folder: Path) -> Any:
    """Add all vectors, write the index, and read the texts."""
    import faiss

    index = faiss.IndexFlatIP(DIMENSION)
    index.add(np.load(folder / "vectors.npy"))
    faiss.write_index(index, str(folder / "flat.faiss"))
    return index, read_lines(folder / "rows.jsonl")


def faiss_open(folder: Path) -> Any:
    """Read the index, and the texts."""
    import faiss

    return faiss.read_index(str(folder / "flat.faiss")), read_lines(folder / "rows.jsonl")


def lexical(folder: Path, name: str = "texts") -> Any:
    """Open ours over a file: build it, or add to it, where that is to be done."""
    bm25 = Bm25(Corpus(folder / f"{name}.jsonl", split="document", index=folder / "ours"))
    bm25.open()
    return bm25


def dense(folder: Path, name: str = "rows") -> Any:
    """The same with vectors."""
    corpus = Corpus(folder / f"{name}.jsonl", split="document", index=folder / "ours_dense")
    opened = Dense(corpus, RowEncoder(folder / "vectors.npy"))
    opened.open()
    return opened


OPERATIONS: dict[str, Callable[[Path], Any]] = {
    "bm25s build": bm25s_build,
    "build": lexical,
    "bm25s open": bm25s_open,
    "open": lexical,
    "add": lambda folder: lexical(folder, "texts_and_one"),
    "faiss build": faiss_build,
    "dense build": dense,
    "faiss open": faiss_open,
    "dense open": dense,
    "dense add": lambda folder: dense(folder, "rows_and_one"),
}
FRESH = {"build": "ours", "dense build": "ours_dense"}


def memory() -> float:
    """Megabytes that the process holds."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def measure(name: str, folder: Path) -> dict[str, float]:
    """One operation, in this process."""
    import bm25s  # noqa: F401 - what is imported is in nobody's time
    import faiss  # noqa: F401
    import filelock  # noqa: F401
    import rich.progress  # noqa: F401
    import scipy.sparse  # noqa: F401
    import Stemmer  # noqa: F401

    before, start, cpu = memory(), perf_counter(), process_time()
    opened = OPERATIONS[name](folder)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    gc.collect()
    figures = {"cpu_seconds": cpu, "seconds": seconds, "megabytes": memory() - before}
    del opened
    return figures


def measured(folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """The medians of every operation, each in processes of its own, in turn."""
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in OPERATIONS}
    for _ in range(repeats):
        for name in OPERATIONS:
            if name in FRESH:
                for part in (folder / FRESH[name]).glob("*"):
                    part.unlink()
            command = [sys.executable, "-m", "benchmarks.retrieval_index", "--measure", name, str(folder)]
            rows[name].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            print(name, rows[name][-1], flush=True)
    return {
        name: {key: round(statistics.median(row[key] for row in some), 4) for key in some[0]}
        for name, some in rows.items()
    }


def ndcg(rows: Any, grades: Sequence[dict[int, int]]) -> float:
    """nDCG@10 of each question's rows, by the grades of those that are relevant."""
    qrels = {str(n): {str(row): grade for row, grade in of.items()} for n, of in enumerate(grades)}
    run = {str(n): {str(row): -float(rank) for rank, row in enumerate(some)} for n, some in enumerate(rows)}
    return round(ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)[ir_measures.nDCG @ 10], 6)


def ranking(data: Path, folder: Path, encoder: Any) -> dict[str, Any]:
    """nDCG@10 of grown indexes, and of bm25s's and faiss's own; with one relevant paragraph, and graded."""
    import bm25s
    import faiss
    import Stemmer

    texts, asked = questions_of(data)
    questions = [question for _, question, _ in asked]
    articles = json.loads(data.read_text(encoding="utf-8"))["data"]
    article_of = [place for place, article in enumerate(articles) for _ in article["paragraphs"]]
    one = [{number: 1} for number, *_ in asked]
    graded = [
        {row: 1 + (row == number) for row, article in enumerate(article_of) if article == article_of[number]}
        for number, *_ in asked
    ]
    path = folder / "paragraphs.jsonl"

    def grown(make: Callable[[Corpus], Any]) -> Any:
        for count in (len(texts) // 2, len(texts)):
            write_lines(path, texts[:count])
            retriever = make(Corpus(path, split="document", index=folder / "grown"))
            retriever.open()
        return retriever.search(questions, min(10, len(texts)))[0].tolist()

    def terms_of(some: Sequence[str]) -> Any:
        # ½ is 1⁄2 to ours.
        plain = [unicodedata.normalize("NFKC", text) for text in some]
        return bm25s.tokenize(plain, stemmer=stemmer, return_ids=False, show_progress=False)

    def ordered(scores: Any) -> list[int]:
        # Of rows with equal scores bm25s takes any; rows with none of the terms are not found.
        order = np.lexsort((np.arange(len(scores)), -scores))[:10]
        return np.where(scores[order] > 0, order, -1).tolist()

    stemmer, index = Stemmer.Stemmer("english"), bm25s.BM25()
    index.index(terms_of(texts), show_progress=False)
    flat = faiss.IndexFlatIP(encoder.dimension)
    flat.add(encoder.encode(texts))
    rows = {
        "bm25": grown(Bm25),
        "bm25s": [ordered(index.get_scores(terms)) for terms in terms_of(questions)],
        "dense": grown(lambda corpus: Dense(corpus, encoder)),
        "faiss": flat.search(encoder.encode(questions), 10)[1].tolist(),
    }
    return {
        **{name: ndcg(some, one) for name, some in rows.items()},
        "graded": {name: ndcg(some, graded) for name, some in rows.items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--vectors", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=XQUAD)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_index.json"))
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure[0], Path(options.measure[1]))))
        return
    figures: dict[str, Any] = {name: getattr(options, name) for name in ("passages", "vectors", "repeats")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures["ranking"] = ranking(options.data, folder, Encoder())
        print(figures["ranking"], flush=True)
        texts = texts_of(max(options.passages, options.vectors), 60, seed=3)
        for file, count in (("texts", options.passages), ("rows", options.vectors)):
            write_lines(folder / f"{file}.jsonl", texts[:count])
            write_lines(folder / f"{file}_and_one.jsonl", texts[:count], [NEW])
        draws = np.random.default_rng(1)
        np.save(folder / "vectors.npy", draws.standard_normal((options.vectors, DIMENSION), dtype=np.float32))
        figures["operations"] = measured(folder, options.repeats)
    write(options.out, "benchmarks.retrieval_index", figures)


if __name__ == "__main__":
    main()
