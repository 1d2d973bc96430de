"""The lexical drafter: BM25 over the passages' terms, expanded by RM3 where the policy gives feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from draftverify import ConfigError, Context
from draftverify_llm import check_least, need, question_text
from draftverify_retrieval.passages import Passages, indexed
from draftverify_retrieval.postings import Bm25Scores, postings_of
from draftverify_retrieval.ranking import Ranking, RankingDrafter, best, padded, proposed
from draftverify_retrieval.relevance_feedback import expanded
from draftverify_retrieval.words import TermExtractor


@dataclass(eq=False)
class Bm25(RankingDrafter["_OpenBm25"]):
    """Drafts passages by BM25.

    A block goes on where the last one ended. A passage is found when it shares a term with the question: a question
    without terms of the corpus finds nothing. After the policy's step `feedback` the question is expanded by RM3 with
    the terms of the passages that were best so far: those proposed in this task, by the score that the verifier gave
    them (as they were proposed, where it gave none); without any, the first of the ranking.

    Args:
        corpus: the passages.
        stemmer: a Snowball algorithm for the language, None for none.
        stopwords: a language, or the words that do not count; None for none.
        k1: how slowly the second and third occurrence of a term stop counting.
        b: how far a passage's length counts against it, 0 to 1.
        fb_docs: RM3: how many passages the question is expanded with.
        fb_terms: RM3: how many terms.
        query_weight: RM3: the weight of the question beside them, 0 to 1.

    References:
        Robertson et al., Okapi at TREC-3, 1994; RM3: see `relevance_feedback`.
    """

    corpus: Passages
    stemmer: str | None = "english"
    stopwords: str | list[str] | None = "english"
    k1: float = 1.5
    b: float = 0.75
    fb_docs: int = 10
    fb_terms: int = 10
    query_weight: float = 0.5

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The k best rows of each query, as `Retriever` says."""
        opened = self._get()
        return padded([best(opened.bm25.scores(opened.terms(query)), k) for query in queries], k)

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The k best rows for each task, its question expanded where there is feedback."""
        rows, scores = self.search([question_text(context.task) for context in contexts], k)
        for line, context in enumerate(contexts):
            if context.feedback and (weights := self._expanded(context)):
                one = slice(line, line + 1)
                rows[one], scores[one] = padded([best(self._get().bm25.scores(weights), k)], k)
        return rows, scores

    def _expanded(self, context: Context) -> dict[str, float]:
        opened = self._get()
        query = opened.terms(question_text(context.task))
        scored = opened.bm25.scores(query)
        score_of = proposed(context)
        # Sorting is stable: passages with no score, or equal ones, stay as they were proposed.
        order = sorted(score_of, key=lambda id: -score_of[id])
        rows = [opened.row_of(id) for id in order]
        relevant = [row for row in rows if row is not None][: self.fb_docs]
        if not relevant:
            relevant = best(scored, self.fb_docs)[0].tolist()
        return expanded(
            query,
            [opened.terms(indexed(self.corpus.passage(row))) for row in relevant],
            [max(0.0, float(scored[row])) for row in relevant],
            terms=self.fb_terms,
            weight=self.query_weight,
        )

    def _check(self) -> None:
        check_least(0, k1=self.k1)
        check_least(1, fb_docs=self.fb_docs, fb_terms=self.fb_terms)
        for name, share in (("b", self.b), ("query_weight", self.query_weight)):
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} is {share!r}; it must be from 0 to 1", path=name)
        packages = ["bm25s"] if self.stemmer is None else ["bm25s", "Stemmer"]
        need(*packages, doing="BM25", extra="retrieval")

    def _members(self) -> list[Any]:
        return [self.corpus]

    def _make(self) -> _OpenBm25:
        """The index of the passages.

        Raises:
            ConfigError: an argument is out of its range, or the corpus cannot be read.
            DamagedIndexError: a file of the corpus's index is not what was written.
            ResourceError: a package is missing.
        """
        self._check()
        extractor = TermExtractor(self.stemmer, self.stopwords)
        scores = Bm25Scores(postings_of(extractor, self.corpus), self.k1, self.b)
        return _OpenBm25(self.corpus, extractor, scores)


class _OpenBm25:
    """What an open index holds."""

    def __init__(self, corpus: Passages, extractor: TermExtractor, bm25: Bm25Scores) -> None:
        self.extractor = extractor
        self.bm25 = bm25
        self._corpus = corpus
        self._rows: dict[str, int] | None = None

    def terms(self, text: str) -> list[str]:
        """The terms of a text that the corpus has."""
        return self.bm25.known(self.extractor.terms(text))

    def row_of(self, id: str) -> int | None:
        """The row of a passage."""
        if self._rows is None:
            self._rows = {self._corpus.passage(row)["id"]: row for row in range(len(self._corpus))}
        return self._rows.get(id)
