"""What the tests of corpora and retrievers share: small corpora, and an encoder without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from draftverify import Check, Context, Decision, Feedback, Round
from draftverify.kit import make_context
from draftverify_retrieval import Corpus, Passage

ANIMALS = {
    "cats": "Cats sleep most of the day. A cat hunts mice at night.",
    "dogs": "Dogs bark at strangers. A dog guards the house.",
    "mice": "Mice eat grain and cheese. A mouse fears the cat.",
    "tea": "Tea is brewed from leaves in hot water.",
    "rain": "Rain falls from clouds. The rain feeds the river.",
}


class Hashed:
    """An encoder without a model: a text is the sum of its words' directions, of length 1."""

    def __init__(self, dimension: int = 32, seed: str = "") -> None:
        self.dimension = dimension
        self.seed = seed
        self.encoded: list[str] = []

    @property
    def identity(self) -> str:
        return f"hashed {self.dimension} {self.seed}"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded += texts
        rows = [
            sum(map(self._direction, text.lower().split()), np.full(self.dimension, 1e-3)) for text in texts
        ]
        vectors = np.array(rows, dtype=np.float64).reshape(-1, self.dimension)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def _direction(self, word: str) -> np.ndarray:
        number = int.from_bytes(blake2b((self.seed + word).encode(), digest_size=4).digest(), "little")
        return np.random.default_rng(number).standard_normal(self.dimension)


def write_lines(path: Path, documents: Mapping[str, str]) -> Path:
    """A .jsonl file of documents."""
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in documents.items()))
    return path


def write_files(folder: Path, documents: Mapping[str, str]) -> Path:
    """A directory of documents: these, and no others of their kind."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.txt"):
        if old.stem not in documents:
            old.unlink()
    for name, text in documents.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def corpus_of(folder: Path, documents: Mapping[str, str] = ANIMALS, **settings: object) -> Corpus:
    """A corpus of documents, one passage each unless `settings` say otherwise."""
    path = write_lines(folder / "documents.jsonl", documents)
    return Corpus(path, **{"split": "document", **settings})


def passages(corpus: Corpus) -> list[Passage]:
    """All of a corpus."""
    return [corpus.passage(row) for row in range(len(corpus))]


def asked(
    question: str, *blocks: Sequence[Passage], feedback: bool = False, scores: Mapping[str, float] = {}
) -> Context:
    """A task's context after these blocks were refused, with the scores that a reader gave by id."""
    rounds = tuple(
        Round(
            index=index,
            items=tuple(block),
            parents=(-1,) * len(block),
            asked=len(block),
            checks=tuple(Check("reject", score=scores.get(item["id"])) for item in block),
            decision=Decision(),
        )
        for index, block in enumerate(blocks)
    )
    said = tuple(Feedback(item, "no answer", "") for item in blocks[-1]) if feedback and blocks else ()
    return make_context({"question": question}, rounds=rounds, feedback=said)
