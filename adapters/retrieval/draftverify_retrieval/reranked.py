"""A ranking put in another order by something dearer that reads question and passage together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from draftverify import Context
from draftverify.traits import GeneratorTraits, VerifierTraits, traits_of
from draftverify_llm import check_least, question_text
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.ranking import Ranking, Refined, padded, rank_with
from draftverify_retrieval.reading import QuestionPassage, ReaderAnswer, pair_of


class PassageScorer(Protocol):
    """Reads questions and passages together, as every `PassageReader` does."""

    def read(self, pairs: Sequence[QuestionPassage]) -> Sequence[ReaderAnswer]:
        """An answer to each pair, in order, of which the score counts here."""
        ...


@dataclass(eq=False)
class Reranked(Refined):
    """Drafts the first passages of its retriever in the order of another's scores; there are no others.

    Equal scores stand as the retriever ranked them, and passages without a score last. In a task each passage is scored
    once.

    Args:
        retriever: finds the passages.
        scorer: `retrieval.classifier` (a cross-encoder), `retrieval.endpoint_reranker`, or any other reader; its
            threshold is not used.
        depth: how many passages of the retriever are scored.

    References:
        Nogueira and Cho, Passage re-ranking with BERT, 2019, arXiv:1901.04085.
    """

    retriever: Retriever
    scorer: PassageScorer
    depth: int = 50

    @cached_property
    def traits(self) -> GeneratorTraits:  # type: ignore[override]
        """As of every ranking; and how far its scorer is another machine's, or may say something else again."""
        scorer = traits_of(self.scorer, VerifierTraits)
        return replace(Refined.traits, deterministic=scorer.deterministic, remote=scorer.remote)

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The k best rows of each query, as `Retriever` says."""
        self._get()
        return self._reordered(queries, self.retriever.search(queries, self.depth), [{} for _ in queries], k)

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The k best rows for each task."""
        self._get()
        questions = [question_text(context.task) for context in contexts]
        memos = [context.scratch.setdefault(self, {}) for context in contexts]
        return self._reordered(questions, rank_with(self.retriever, contexts, self.depth), memos, k)

    def _reordered(
        self, questions: Sequence[str], found: Ranking, memos: Sequence[dict[int, float]], k: int
    ) -> Ranking:
        """The rankings by the scores in the memos, which are filled up in one call of the scorer."""
        ranked = [[row for row in line if row >= 0] for line in found[0].tolist()]
        new = [
            (line, row)
            for line, rows in enumerate(ranked)
            for row in rows
            if row not in memos[line] and questions[line].strip()
        ]
        pairs = [pair_of(questions[line], self._get().passage(row)) for line, row in new]
        answers = self.scorer.read(pairs) if pairs else []
        for (line, row), answer in zip(new, answers, strict=True):
            score = answer.score
            memos[line][row] = -np.inf if score is None or np.isnan(score) else score
        lines = []
        for line, ranking in enumerate(ranked):
            scored = np.array([memos[line].get(row, -np.inf) for row in ranking])
            order = np.argsort(-scored, kind="stable")[:k]
            lines.append((np.array(ranking, dtype=np.int64)[order], scored[order]))
        return padded(lines, k)

    def _members(self) -> list[Any]:
        return [self.retriever, self.scorer]

    def _make(self) -> Passages:
        check_least(1, depth=self.depth)
        return super()._make()
