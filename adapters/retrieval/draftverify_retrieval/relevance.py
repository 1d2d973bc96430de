"""Rankings against relevance judgements, as trec_eval measures them: recall, precision, nDCG and reciprocal rank.

A run gives each query's passages a score; the highest comes first, and of equal ones (as 32-bit floats, which is what
trec_eval holds) the greater id. Qrels give the passages of a query that were judged a grade; above 0 is relevant, and
what was not judged is not. Every function gives one figure per query that has a relevant passage: 0 where the run does
not have the query, so that their mean is over the same queries for every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from draftverify import ConfigError

__all__ = [
    "Qrels",
    "Run",
    "grades_of",
    "ndcg",
    "precision",
    "ranked",
    "recall",
    "reciprocal_rank",
]

Run: TypeAlias = Mapping[str, Mapping[str, float]]
"""query → passage → score, higher is better."""
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""query → passage → grade, above 0 is relevant."""


def ranked(scores: Mapping[str, float]) -> list[str]:
    """A query's passages, the best first; of equals the greater id, by its UTF-8 bytes."""
    single = {id: float(np.float32(score)) for id, score in scores.items()}
    return sorted(sorted(single, key=lambda id: id.encode(), reverse=True), key=lambda id: -single[id])


def recall(run: Run, qrels: Qrels, k: int) -> dict[str, float]:
    """The share of a query's relevant passages that are among its first k."""
    return _each(run, qrels, k, lambda gains, ideal: _relevant(gains) / _relevant(ideal))


def precision(run: Run, qrels: Qrels, k: int) -> dict[str, float]:
    """The share of relevant ones among a query's first k, of which there are k even where fewer were found."""
    return _each(run, qrels, k, lambda gains, ideal: _relevant(gains) / k)


def ndcg(run: Run, qrels: Qrels, k: int) -> dict[str, float]:
    """Σ grade / log2(rank + 1) over the first k, of the same sum in the best order.

    References:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20 (2002).
    """
    return _each(run, qrels, k, lambda gains, ideal: _dcg(gains) / _dcg(ideal[:k]))


def reciprocal_rank(run: Run, qrels: Qrels, k: int | None = None) -> dict[str, float]:
    """1 / rank of the first relevant passage among the first k, or among all; 0 without one. The mean is MRR."""
    return _each(run, qrels, k, lambda gains, ideal: _reciprocal(gains))


def _each(
    run: Run, qrels: Qrels, k: int | None, figure: Callable[[Sequence[int], Sequence[int]], float]
) -> dict[str, float]:
    """A figure of the grades of the first k, in order, and of all relevant grades, the highest first."""
    if k is not None and k < 1:
        raise ConfigError(f"k is {k}; 1 or more is needed", path="k")
    figures = {}
    for query, grades in qrels.items():
        ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
        if ideal:
            top = ranked(run.get(query, {}))[:k]
            figures[query] = figure([grades.get(id, 0) for id in top], ideal)
    return figures


def _relevant(gains: Sequence[int]) -> int:
    return sum(gain > 0 for gain in gains)


def _dcg(gains: Sequence[int]) -> float:
    return sum(max(gain, 0) / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _reciprocal(gains: Sequence[int]) -> float:
    return next((1.0 / rank for rank, gain in enumerate(gains, 1) if gain > 0), 0.0)


def grades_of(passages: Any) -> dict[str, int]:
    """A truth's `passages` as grades by id: ids (or one), of grade 1, or id → grade. Ids that are numbers become texts,
    as those of a corpus do.
    """
    if isinstance(passages, Mapping):
        return {str(id): grade for id, grade in passages.items()}
    return dict.fromkeys(map(str, [passages] if isinstance(passages, (str, int)) else passages), 1)
