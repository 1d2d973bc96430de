"""RM3: a query is expanded by the terms of passages that are taken to be relevant.

The relevance model (RM1; Lavrenko and Croft, SIGIR 2001) is P(w | R) = Σ_D P(w | D) P(D | Q), with P(w | D) the share
of w among the passage's terms and P(D | Q) ∝ what the passage scored. RM3 (Abdul-Jaleel et al., TREC 2004) cuts it to
its largest terms, scales them to 1, and mixes it with the query: λ P(w | Q) + (1 − λ) P(w | R).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T", int, str)


def expanded(
    query: Sequence[T],
    passages: Sequence[Sequence[T]],
    scores: Sequence[float],
    *,
    terms: int,
    weight: float,
) -> dict[T, float]:
    """The weights of the expanded query's terms; they sum to 1.

    Args:
        query: its terms.
        passages: the terms of each passage that is taken to be relevant.
        scores: what each scored for the query, at least 0; where all are 0 they count alike.
        terms: how many terms of the passages to keep.
        weight: λ, of the query.

    Returns:
        The query's own weights where no passage has a term, and the passages' where the query has none.
    """
    total = sum(scores)
    relevance: Counter[T] = Counter()
    for passage, score in zip(passages, scores, strict=True):
        share = score / total if total > 0 else 1 / len(scores)
        for term, times in Counter(passage).items():
            relevance[term] += share * times / len(passage)  # type: ignore[assignment]
    largest = sorted(relevance.items(), key=lambda item: (-item[1], item[0]))[:terms]
    mass = sum(p for _, p in largest)
    model = {term: p / mass for term, p in largest if p > 0}
    query_weights = {term: times / len(query) for term, times in Counter(query).items()}
    if not model or not query_weights:
        return query_weights or model
    return {
        term: weight * query_weights.get(term, 0.0) + (1 - weight) * model.get(term, 0.0)
        for term in {**query_weights, **model}
    }
