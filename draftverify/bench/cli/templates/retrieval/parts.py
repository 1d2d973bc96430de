"""A search and a reader. The search is BM25, by the package rank-bm25 where it is installed; the reader is a rule, and
a language model stands in its place."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from draftverify import Check, Context, Proposal, Verification, VerifierTraits


def words(text: str) -> list[str]:
    """Lower-case words and numbers."""
    return re.findall(r"\w+", text.lower())


class Search:
    """The passages of a corpus, those first that fit the question best.

    Args:
        corpus: a file with one {"id": …, "text": …} a line.
    """

    def __init__(self, corpus: Path) -> None:
        self.corpus = corpus

    def open(self) -> None:
        """Heavy things are loaded here, and not in the constructor."""
        lines = self.corpus.read_text(encoding="utf-8").splitlines()
        self.passages: list[dict[str, str]] = [json.loads(line) for line in lines]
        texts = [words(passage["text"]) for passage in self.passages]
        try:
            from rank_bm25 import BM25Okapi

            self.scores: Any = BM25Okapi(texts).get_scores
        except ImportError:  # pip install rank-bm25, or go on with the same formula by hand
            self.scores = Bm25(texts).get_scores

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n passages. The context says how many were tried."""
        scores = self.scores(words(context.task.input["question"]))
        order = sorted(range(len(self.passages)), key=lambda place: -scores[place])
        tried = context.drafted
        hits = [self.passages[place] for place in order[tried : tried + n]]
        return Proposal.alternatives(hits, exhausted=tried + n >= len(order))


class Bm25:
    """BM25 in ten lines: rare words count more, long passages less."""

    def __init__(self, texts: list[list[str]], k: float = 1.5, b: float = 0.75) -> None:
        self.texts, self.k, self.b = [Counter(text) for text in texts], k, b
        self.mean = sum(map(len, texts)) / len(texts)
        held = Counter(word for text in self.texts for word in text)
        self.rarity = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in held.items()}

    def get_scores(self, query: list[str]) -> list[float]:
        """One score a passage."""
        return [
            sum(self.rarity.get(word, 0.0) * self.weight(word, text) for word in query) for text in self.texts
        ]

    def weight(self, word: str, text: Counter[str]) -> float:
        """How much a word of the query counts in one passage."""
        return (
            text[word]
            * (self.k + 1)
            / (text[word] + self.k * (1 - self.b + self.b * text.total() / self.mean))
        )


class Reader:
    """Passes a passage that names what is asked about and holds a year, and says the year."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One word per passage; the answer that it read stands in the passage's place."""
        return Verification(
            checks=tuple(self.read(context.task.input["question"], each) for each in proposal.items)
        )

    def read(self, question: str, passage: dict[str, str]) -> Check:
        """The year in the sentence that shares most words with the question."""
        names = set(re.findall(r"(?<!^)\b[A-Z]\w+", question))
        missing = sorted(name for name in names if name not in passage["text"])
        if missing:
            return Check(
                "reject", reason="another subject", feedback=f"it does not name {', '.join(missing)}"
            )
        sentences = re.split(r"(?<=\.) ", passage["text"])
        asked = set(words(question))
        best = max(
            sentences, key=lambda each: (bool(re.search(r"\b\d{4}\b", each)), len(asked & set(words(each))))
        )
        year = re.search(r"\b\d{4}\b", best)
        if year is None:
            return Check("reject", reason="no year")
        shared = len(asked & set(words(best))) / len(asked)
        return Check("pass", shared, correction=year.group(), feedback=f"read in {passage['id']}")
