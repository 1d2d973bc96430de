"""A reader without a model: how much of the question stands in a passage, and in which of its sentences most."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from draftverify_retrieval.passages import Passages
from draftverify_retrieval.postings import postings_of
from draftverify_retrieval.reading import PassageReader, QuestionPassage, ReaderAnswer
from draftverify_retrieval.splitting import Splitting, pieces
from draftverify_retrieval.words import TermExtractor

_SENTENCES = Splitting(by="sentence")


@dataclass(eq=False)
class LexicalReader(PassageReader[tuple[TermExtractor, Counter[str], int]]):
    """Reads by words alone. The answer is the sentence that shares most with the question.

    The score is the mean of two shares of the question's terms, each weighted by its rarity: those that stand in the
    passage, and those that stand in its best sentence. 1 is all of them in one sentence, 0 none; a term that the corpus
    does not have counts as its rarest. A question without terms ("What is it?") cannot be judged: abstain.

    score(q, p) = ½ Σ_{t ∈ q ∩ p} idf(t) / Σ_{t ∈ q} idf(t) + ½ max_{s ∈ p} Σ_{t ∈ q ∩ s} idf(t) / Σ_{t ∈ q} idf(t)

    Args:
        corpus: whose passages say how rare a term is: idf(t) = ln(1 + (N − df + ½) / (df + ½)). Without one, all terms
            weigh the same, which tells less.
        threshold: the score at which a passage passes, 0 to 1.
        stemmer: a Snowball algorithm; None for none.
        stopwords: one of bm25s's lists (the default has question words too), or the words themselves; None for none.
    """

    corpus: Passages | None = None
    threshold: float = 0.6
    stemmer: str | None = "english"
    stopwords: str | list[str] | None = "english_plus"

    def _make(self) -> tuple[TermExtractor, Counter[str], int]:
        """The terms' extractor and counts, and the number of passages, of the corpus opened."""
        extractor = TermExtractor(self.stemmer, self.stopwords)
        if self.corpus is None:
            return extractor, Counter(), 0
        postings = postings_of(extractor, self.corpus)
        counts = Counter(dict(zip(postings.vocabulary, postings.frequencies().tolist(), strict=True)))
        return extractor, counts, len(self.corpus)

    def _members(self) -> list[Any]:
        return [self.corpus]

    @property
    def identity(self) -> str:
        """A hash of the terms' weights and the words' settings."""
        extractor, counts, rows = self._get()
        description = json.dumps(["lexical", extractor.identity, rows, sorted(counts.items())])
        return hashlib.sha256(description.encode()).hexdigest()[:32]

    def read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        loaded = self._get()
        return [_read(pair, *loaded) for pair in pairs]


def _read(pair: QuestionPassage, extractor: TermExtractor, counts: Counter[str], rows: int) -> ReaderAnswer:
    weights = {
        term: math.log1p((rows - counts[term] + 0.5) / (counts[term] + 0.5)) if rows else 1.0
        for term in extractor.terms(pair.question)
    }
    total = sum(weights.values())
    if not total:
        return ReaderAnswer(None, reason="no terms in the question")

    def share(text: str) -> float:
        return sum(weights[term] for term in weights.keys() & set(extractor.terms(text))) / total

    best, start, end = -1.0, pair.begin, len(pair.text)
    for piece in pieces(pair.text[pair.begin :], _SENTENCES):
        shared = share(pair.text[pair.begin + piece.start : pair.begin + piece.end])
        if shared > best:
            best, start, end = shared, pair.begin + piece.start, pair.begin + piece.end
    return ReaderAnswer((share(pair.text) + best) / 2, pair.text[start:end], start, end)
