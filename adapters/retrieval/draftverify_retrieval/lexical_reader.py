"""A reader without a model: how much of the question stands in a passage, and in which of its sentences most."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from draftverify import Check, Context, Proposal, Verification
from draftverify.checks.verifiers import at_threshold
from draftverify_retrieval.passages import Passages
from draftverify_retrieval.reading import Found, Pair, read_blocks
from draftverify_retrieval.splitting import Splitting, pieces
from draftverify_retrieval.words import Words

__all__ = ["LexicalReader"]

_SENTENCES = Splitting(by="sentence")


class LexicalReader:
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

    provides = frozenset({"verdicts", "scores"})
    thresholds = ("threshold",)
    reads: frozenset[str] = frozenset()

    def __init__(
        self,
        corpus: Passages | None = None,
        threshold: float = 0.6,
        stemmer: str | None = "english",
        stopwords: str | list[str] | None = "english_plus",
    ) -> None:
        self.corpus = corpus
        self.threshold = threshold
        self.stemmer = stemmer
        self.stopwords = stopwords
        self._lock = threading.Lock()
        self._loaded: tuple[Words, Counter[str], int] | None = None

    def open(self) -> None:
        """Open the corpus and count its terms."""
        with self._lock:
            if self._loaded is None:
                words = Words(self.stemmer, self.stopwords)
                counts: Counter[str] = Counter()
                texts: Sequence[str] = ()
                if self.corpus is not None:
                    if (opens := getattr(self.corpus, "open", None)) is not None:
                        opens()
                    texts = self.corpus.texts()
                for text in texts:
                    counts.update(set(words.terms(text)))
                self._loaded = words, counts, len(texts)

    def close(self) -> None:
        """Let the counts go, and close the corpus."""
        with self._lock:
            if self._loaded is not None and (closes := getattr(self.corpus, "close", None)) is not None:
                closes()
            self._loaded = None

    @property
    def identity(self) -> str:
        """A hash of the terms' weights and the words' settings."""
        words, counts, rows = self._open()
        said = json.dumps(["lexical", words.identity, rows, sorted(counts.items())])
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per passage."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks."""
        return read_blocks(contexts, proposals, self._read, self.threshold)

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of a block that was read at another."""
        return at_threshold(checks, self.threshold, "no answer")

    def _read(self, pairs: Sequence[Pair]) -> list[Found]:
        loaded = self._open()
        return [_read(pair, *loaded) for pair in pairs]

    def _open(self) -> Any:
        if self._loaded is None:
            self.open()
        return self._loaded


def _read(pair: Pair, words: Words, counts: Counter[str], rows: int) -> Found:
    weights = {
        term: math.log1p((rows - counts[term] + 0.5) / (counts[term] + 0.5)) if rows else 1.0
        for term in words.terms(pair.question)
    }
    whole = sum(weights.values())
    if not whole:
        return Found(None, reason="no terms in the question")

    def share(text: str) -> float:
        return sum(weights[term] for term in weights.keys() & set(words.terms(text))) / whole

    best, start, end = -1.0, pair.begin, len(pair.text)
    for piece in pieces(pair.text[pair.begin :], _SENTENCES):
        found = share(pair.text[pair.begin + piece.start : pair.begin + piece.end])
        if found > best:
            best, start, end = found, pair.begin + piece.start, pair.begin + piece.end
    return Found((share(pair.text) + best) / 2, pair.text[start:end], start, end)
