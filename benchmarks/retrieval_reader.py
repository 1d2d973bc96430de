"""Answerable or not: the lexical reader's score against BM25's, on twins of questions.

    python -m benchmarks.retrieval_reader DATA.json --out benchmarks/results/retrieval_reader.json

Each question of the odd paragraphs of a file in SQuAD's layout is asked twice: of the corpus of all paragraphs, and of
the corpus without its own, which is its unanswerable twin. BM25 drafts five paragraphs each time. A score says how
answerable the question is:

- bm25: the best paragraph's score over the query's ceiling, Σ idf(t) over its terms, which no passage can reach;
- lexical: the lexical reader's best score over the block, terms weighed by the corpus.

For each: AUROC of answerable against unanswerable, and the share of unanswerable twins refused at the floor that keeps
95 % of the answerable ones; 95 % intervals by bootstrap over paragraphs (their questions and twins together), of
differences in pairs. Beside them the risk–coverage curve of questions and twins together: of those that are answered,
the best scores first, the share whose best passage is not the one with the answer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify import Proposal
from draftverify.kit import make_context
from draftverify.stats import Estimate, bootstrap
from draftverify_retrieval import Bm25, Corpus, LexicalReader, Squad
from draftverify_retrieval.tasks import paragraphs
from draftverify_retrieval.words import TermExtractor

BLOCK = 5
KEPT = 0.95
RESAMPLES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options.data, Path(folder))
    write(options.out, "benchmarks.retrieval_reader", {"repeats": 1, **figures})
    for name, found in figures["scores"].items():
        print(name, {key: shown(value) for key, value in found.items()})


def shown(value: dict[str, float]) -> str:
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def measure(data: Path, folder: Path) -> dict[str, Any]:
    start = time.perf_counter()
    passages = list(paragraphs(data))
    lines = folder / "paragraphs.jsonl"
    lines.write_text("".join(json.dumps(each) + "\n" for each in passages))
    corpus = Corpus(lines, split="document")
    tasks = Squad(data, half="odd").load()
    bm25 = Bm25(corpus)
    bm25.open()
    rows, scores = bm25.search([task.input["question"] for task in tasks], BLOCK + 1)
    places = {corpus.passage(row)["id"]: row for row in range(len(corpus))}
    own = np.array([places[task.expected["document"]] for task in tasks])
    ceilings = ceilings_of([task.input["question"] for task in tasks], corpus.texts())
    # Each twin's block: the first five that are there.
    blocks = {
        "answerable": [[int(r) for r in row[:BLOCK] if r >= 0] for row in rows],
        "twin": [
            [int(r) for r in row if r >= 0 and r != gold][:BLOCK] for row, gold in zip(rows, own, strict=True)
        ],
    }
    best: dict[str, dict[str, np.ndarray]] = {"bm25": {}, "lexical": {}}
    tops_of: dict[str, np.ndarray] = {}
    for kind, block in blocks.items():
        found = [
            max((s for r, s in zip(row, score, strict=True) if r in kept), default=0.0)
            for row, score, kept in zip(rows, scores, block, strict=True)
        ]
        best["bm25"][kind] = np.array(found) / ceilings
    tops_of["bm25"] = np.array([row[0] if row else -1 for row in blocks["answerable"]])
    contexts = [make_context(task) for task in tasks]
    reader = LexicalReader(corpus)
    checks: dict[tuple[int, int], Any] = {}
    wanted = [sorted({*a, *b}) for a, b in zip(*blocks.values(), strict=True)]
    proposals = [Proposal.alternatives([corpus.passage(row) for row in rows]) for rows in wanted]
    for i, verification in enumerate(reader.verify_many(contexts, proposals)):
        checks |= {(i, row): check for row, check in zip(wanted[i], verification.checks, strict=True)}

    def score(i: int, row: int) -> float:
        return -np.inf if checks[i, row].score is None else checks[i, row].score

    for kind, block in blocks.items():
        best["lexical"][kind] = np.array(
            [max((score(i, row) for row in rows), default=-np.inf) for i, rows in enumerate(block)]
        )
    tops_of["lexical"] = np.array(
        [max(rows, key=partial(score, i), default=-1) for i, rows in enumerate(blocks["answerable"])]
    )
    recall = float(np.mean([gold in block for gold, block in zip(own, blocks["answerable"], strict=True)]))
    return {
        "questions": len(tasks),
        "paragraphs": {"corpus": len(corpus), "measured": len(set(own.tolist()))},
        "recall_at_5": recall,
        "scores": compared(best, own),
        "risk_coverage": {name: curve(best[name], tops_of[name] == own, own) for name in best},
        "seconds": time.perf_counter() - start,
    }


def selective_risk(scores: list[float], right: list[float], coverage: float, clusters: list[int]) -> Estimate:
    """The risk at the highest threshold that covers at least so many of the items; the redraws choose it anew."""
    _, place = np.unique(-np.asarray(scores, dtype=float), return_inverse=True)
    wrong = 1.0 - np.asarray(right, dtype=float)

    def risk(weights: Any) -> float:
        count = np.bincount(place, weights).cumsum()
        last = int(np.searchsorted(count, coverage * count[-1] * (1.0 - 1e-12)))
        return float(np.bincount(place, weights * wrong).cumsum()[last] / count[last])

    return bootstrap(risk, clusters)


def curve(best: dict[str, np.ndarray], right: np.ndarray, own: np.ndarray) -> dict[str, dict[str, float]]:
    """The risk at each tenth of coverage, with its interval over paragraphs."""
    scores = [*best["answerable"], *best["twin"]]
    rights = [*right.astype(float), *np.zeros(len(right))]
    found = {}
    for tenth in range(1, 11):
        risk = selective_risk(scores, rights, tenth / 10, [*own, *own])
        found[f"{tenth / 10:g}"] = {
            "mean": risk.value,
            "low": max(risk.low, 0.0),
            "high": min(risk.high, 1.0),
        }
    return found


def ceilings_of(questions: list[str], texts: Any) -> np.ndarray:
    words = TermExtractor("english", "english")
    counts = Counter(term for text in texts for term in set(words.terms(text)))
    rare = lambda term: np.log1p((len(texts) - counts[term] + 0.5) / (counts[term] + 0.5))
    # A term that is asked twice counts twice, as in the score.
    return np.array([sum(map(rare, words.terms(question))) or 1.0 for question in questions])


def auroc(right: np.ndarray, wrong: np.ndarray) -> float:
    ordered = np.sort(wrong)
    below = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(below.mean() / 2 / len(ordered))


def refused(right: np.ndarray, wrong: np.ndarray) -> float:
    return float(np.mean(wrong < np.quantile(right, 1 - KEPT)))


def compared(best: dict[str, dict[str, np.ndarray]], own: np.ndarray) -> dict[str, Any]:
    """Every score's figures, and the lexical reader's advantage on the same resamples."""
    found: dict[str, Any] = {}
    for figure, of in (("auroc", auroc), ("refused_at_95", refused)):

        def value(name: str, part: np.ndarray, of: Any = of) -> float:
            return of(best[name]["answerable"][part], best[name]["twin"][part])

        for name in best:
            found.setdefault(name, {})[figure] = resampled(own, partial(value, name))
        found.setdefault("lexical - bm25", {})[figure] = resampled(
            own, lambda part, value=value: value("lexical", part) - value("bm25", part)
        )
    return found


def resampled(own: np.ndarray, figure: Any) -> dict[str, float]:
    """A figure of all questions, with its 95 % interval over resampled paragraphs."""
    groups = [np.flatnonzero(own == each) for each in np.unique(own)]
    rng = np.random.default_rng(0)
    drawn = [
        figure(np.concatenate([groups[i] for i in rng.integers(0, len(groups), len(groups))]))
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"mean": figure(np.arange(len(own))), "low": float(low), "high": float(high)}


if __name__ == "__main__":
    main()
