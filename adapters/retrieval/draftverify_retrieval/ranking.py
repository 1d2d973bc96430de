"""What retrievers share: the best of a score vector, and blocks that go on down a ranking.

A retriever ranks rows of its corpus for a task; the next block is the best of that ranking that were not proposed
before in the task, whichever generator proposed them. So a block goes on where the last one ended, a ranking may change
between rounds (feedback does that), and a task that is taken up again goes on alike: nothing is remembered but the
rounds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from draftverify import Context, ContractError, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_llm import Shared, question_text
from draftverify_retrieval.passages import Passages, Retriever

Ranking: TypeAlias = "tuple[NDArray[Any], NDArray[Any]]"
"""Rows int64 [n, k] and scores float32 [n, k], as `Retriever.search` gives them."""

Rank: TypeAlias = Callable[[Sequence[Context], int], Ranking]
"""The k best rows for each task."""

_DEPTH = 32
_BLOCK = 64


T = TypeVar("T")


class RankingDrafter(Shared[T]):
    """Drafts the best passages of its ranking that were not proposed before in the task."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())
    corpus: Passages

    @abstractmethod
    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The k best rows for each task."""

    def propose(self, context: Context, n: int) -> Proposal:
        """The n best passages that were not proposed before."""
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """The same for many tasks, in one search."""
        self._get()
        return next_blocks(self.corpus, self.rank, contexts, ns)


class Refined(RankingDrafter[Passages]):
    """Drafts from what another retriever, of the same corpus, ranks."""

    retriever: Retriever

    @property
    def corpus(self) -> Passages:  # type: ignore[override]
        """The corpus of its retriever."""
        return self._get()

    def _members(self) -> list[Any]:
        return [self.retriever]

    def _make(self) -> Passages:
        corpus: Passages = self.retriever.corpus  # type: ignore[attr-defined]
        return corpus


def proposed(context: Context) -> dict[str, float]:
    """The ids of the passages that were proposed in this task, in order, and the scores that they were given, −inf
    where none was.
    """
    score_of: dict[str, float] = {}
    for round in context.rounds:
        for index, item in enumerate(round.items):
            id = item.get("id") if isinstance(item, Mapping) else None
            if isinstance(id, str):
                score = round.checks[index].score if index < len(round.checks) else None
                score_of[id] = -np.inf if score is None else score
    return score_of


def next_blocks(
    corpus: Passages, rank: Rank, contexts: Sequence[Context], ns: Sequence[int]
) -> list[Proposal]:
    """A block for each task: the best of its ranking that were not proposed before.

    Args:
        corpus: whose rows are ranked.
        rank: the ranking, called once for all tasks that need about as deep a one.
        contexts, ns: the tasks, and how many passages each asks for.

    Returns:
        Alternatives of law "given", with evidence `score` and `row`; `exhausted` where nothing is left after them.
    """
    proposed_before = [proposed(context) for context in contexts]
    # One more than is asked for says whether anything is left. Depths are powers of two: tasks at other rounds share a
    # search, and an approximate index, which finds more the deeper it looks, ranks alike in them all.
    depths = [
        max(_DEPTH, 1 << (n + len(scores_before)).bit_length())
        for n, scores_before in zip(ns, proposed_before, strict=True)
    ]
    blocks: dict[int, Proposal] = {}
    for depth in sorted(set(depths)):
        places = [place for place, depth_of_place in enumerate(depths) if depth_of_place == depth]
        rows, scores = rank([contexts[place] for place in places], depth)
        for line, place in enumerate(places):
            blocks[place] = _block(corpus, rows[line], scores[line], proposed_before[place], ns[place])
    return [blocks[place] for place in range(len(contexts))]


def _block(
    corpus: Passages, rows: NDArray[Any], scores: NDArray[Any], proposed_before: Mapping[str, float], n: int
) -> Proposal:
    items: list[Any] = []
    places: list[int] = []
    for place, row in enumerate(rows.tolist()):
        if row < 0:
            break
        passage = corpus.passage(row)
        id = passage.get("id")
        if id is None:
            raise ContractError(
                f"the passage of row {row} has no id; without it nothing tells that it was proposed"
            )
        if id in proposed_before:
            continue
        if len(items) == n:
            return _proposal(items, rows[places], scores[places], exhausted=False)
        items.append(passage)
        places.append(place)
    return _proposal(items, rows[places], scores[places], exhausted=True)


def _proposal(items: list[Any], rows: NDArray[Any], scores: NDArray[Any], *, exhausted: bool) -> Proposal:
    evidence = {"score": scores.astype(float).tolist(), "row": rows.tolist()}
    return Proposal.alternatives(tuple(items), evidence=evidence, exhausted=exhausted)


def rank_with(retriever: Retriever, contexts: Sequence[Context], k: int) -> Ranking:
    """A retriever's ranking of tasks: its own, which may read feedback, if it has a `rank`; else of the questions."""
    if hasattr(retriever, "rank"):
        ranking: Ranking = retriever.rank(contexts, k)
        return ranking
    return retriever.search([question_text(context.task) for context in contexts], k)


def nothing(n: int, k: int) -> Ranking:
    """The answer to n queries before anything is found."""
    return np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf, dtype=np.float32)


def padded(lines: Sequence[tuple[Any, Any]], k: int) -> Ranking:
    """Rows and scores of each query, the best first and at most k, as one ranking."""
    rows, scores = nothing(len(lines), k)
    for line, (best_rows, best_scores) in enumerate(lines):
        rows[line, : len(best_rows)], scores[line, : len(best_rows)] = best_rows, best_scores
    return rows, scores


def best(scores: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows of the k largest scores that are not 0, and the scores; equal ones by row."""
    if k < len(scores):
        # No fewer than k rows reach the k-th best of the blocks' maxima, which is found in a part of the time.
        maxima = scores[: len(scores) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
        least = np.partition(maxima if len(maxima) > 4 * k else scores, -k)[-k]
        rows = np.flatnonzero(scores >= least) if least > 0 else np.flatnonzero(scores)
    else:
        rows = np.flatnonzero(scores)
    best_scores = scores[rows]
    order = np.argsort(-best_scores, kind="stable")[:k]
    return rows[order], best_scores[order]
