"""Encoders and cross-encoders behind a server: its /embeddings and its /rerank."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify.errors import EndpointError
from draftverify.traits import VerifierTraits
from draftverify_llm import Endpoint, Shared, check_least, model_traits
from draftverify_retrieval.reading import PassageReader, QuestionPassage, ReaderAnswer


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Embedding]


class _Relevance(msgspec.Struct):
    index: int
    relevance_score: float


class _Relevances(msgspec.Struct):
    results: list[_Relevance]


def _identity_of(model: Endpoint) -> str:
    description = [model.base_url, model.model, dict(model.body)]
    return hashlib.sha256(msgspec.json.encode(description, order="sorted")).hexdigest()[:32]


@dataclass(eq=False)
class EndpointEncoder(Shared[Endpoint]):
    """Sentences as vectors of length 1, by a server's `/embeddings`, as OpenAI's and most others have it.

    Args:
        model: an `llm.endpoint` whose `model` is the encoder's name there; its key, retries, limits and `body` hold.
        at_once: texts of one request.
    """

    model: Endpoint
    at_once: int = 64

    @cached_property
    def dimension(self) -> int:
        """The length of a vector; a text is sent to know it."""
        return int(self.encode(["length"]).shape[1])

    @property
    def identity(self) -> str:
        """A hash of the server's address, the model's name, and what else each request holds."""
        return _identity_of(self.model)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The texts as vectors, float32 [n, dimension]; requests go out side by side.

        Raises:
            EndpointError: the server cannot be asked, or gave something else.
        """
        endpoint = self._get()
        chunks = [list(texts[start : start + self.at_once]) for start in range(0, len(texts), self.at_once)]
        with ThreadPoolExecutor(max(1, endpoint.concurrency)) as pool:
            vectors = [vector for block in pool.map(self._encoded, chunks) for vector in block]
        if len({len(vector) for vector in vectors}) > 1:
            raise EndpointError(f"{endpoint.base_url} gave vectors of several lengths")
        matrix = np.array(vectors, dtype=np.float64).reshape(len(texts), -1)
        return (matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)).astype(np.float32)

    def _encoded(self, texts: list[str]) -> list[list[float]]:
        reply = self._get().post("/embeddings", {"input": texts}, _Embeddings)
        vectors = {entry.index: entry.embedding for entry in reply.data}
        if sorted(vectors) != [*range(len(texts))]:
            raise EndpointError(
                f"{self.model.base_url} gave {len(reply.data)} vectors for {len(texts)} texts"
            )
        return [vectors[place] for place in range(len(texts))]

    def _members(self) -> list[Any]:
        return [self.model]

    def _make(self) -> Endpoint:
        check_least(1, at_once=self.at_once)
        return self.model


@dataclass(eq=False)
class EndpointReranker(PassageReader[Endpoint]):
    """Scores passages by a server's `/rerank`, as Cohere's, Jina's and vLLM's have it: one request for each question.

    A passage that passes stays the passage: it reads no answer.

    Args:
        model: an `llm.endpoint` whose `model` is the cross-encoder's name there.
        threshold: the score at which a passage passes, in the server's unit, mostly 0 to 1.
    """

    model: Endpoint
    threshold: float = 0.5

    @cached_property
    def traits(self) -> VerifierTraits:  # type: ignore[override]
        """That its word is another machine's."""
        return replace(PassageReader.traits, deterministic=False, remote=model_traits(self.model).remote)

    @property
    def identity(self) -> str:
        """A hash of the server's address, the model's name, and what else each request holds."""
        return _identity_of(self.model)

    def read(self, pairs: Sequence[QuestionPassage]) -> list[ReaderAnswer]:
        """The score of each pair, in order; questions are asked side by side.

        Raises:
            EndpointError: the server cannot be asked, or gave something else.
        """
        endpoint, places = self._get(), dict[str, list[int]]()
        for place, pair in enumerate(pairs):
            places.setdefault(pair.question, []).append(place)

        def scored(question: str) -> list[float]:
            texts = [pairs[place].text for place in places[question]]
            reply = endpoint.post("/rerank", {"query": question, "documents": texts}, _Relevances)
            score_of = {entry.index: entry.relevance_score for entry in reply.results}
            if sorted(score_of) != [*range(len(texts))]:
                raise EndpointError(
                    f"{endpoint.base_url} ranked {len(reply.results)} of {len(texts)} passages"
                )
            return [score_of[place] for place in range(len(texts))]

        answers = [ReaderAnswer(None)] * len(pairs)
        with ThreadPoolExecutor(max(1, endpoint.concurrency)) as pool:
            for question, scores in zip(places, pool.map(scored, places), strict=True):
                for place, score in zip(places[question], scores, strict=True):
                    answers[place] = ReaderAnswer(score)
        return answers

    def _members(self) -> list[Any]:
        return [self.model]

    def _make(self) -> Endpoint:
        return self.model
