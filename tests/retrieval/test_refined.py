"""Rankings refined: by metadata, by a dearer scorer, by a memo; encoders and cross-encoders behind a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftverify import ConfigError, Pipeline, Task, retry
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run
from draftverify.errors import EndpointError
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import First, LongestPrefix
from draftverify_llm import Endpoint
from draftverify_retrieval import (
    Bm25,
    CachedSearch,
    Classifier,
    Corpus,
    Dense,
    EndpointEncoder,
    EndpointReranker,
    ExactSearch,
    Filtered,
    LexicalReader,
    Memo,
    Reranked,
    Vectors,
)
from tests.llm.conftest import Server

from . import tiny
from .corpora import Hashed, corpus_of
from .readers import check_common, checks_of

QUESTIONS = ["Which cat hunts mice?", "rain on the dog"]


def library(folder: Path, count: int = 60) -> Corpus:
    """Books that all are about rivers, with their years, tongues and shelves."""
    lines = [
        {
            "id": f"book {i}",
            "text": f"A book about the river, number {i}.",
            "metadata": {
                "year": 1900 + i,
                "tongue": "en" if i % 2 else "fr",
                "shelves": ["a", "b"][: i % 3],
                "made": {"by": i % 4},
            },
        }
        for i in range(count)
    ]
    (folder / "books.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Corpus(folder / "books.jsonl", split="document")


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ({"year": 1930}, lambda i: i == 30),
        ({"year": {"min": 1950}, "tongue": "en"}, lambda i: i >= 50 and i % 2),
        ({"year": {"min": 1910, "max": 1912}}, lambda i: 10 <= i <= 12),
        ({"tongue": ["fr", "de"]}, lambda i: i % 2 == 0),
        ({"shelves": "b"}, lambda i: i % 3 == 2),
        ({"year": {"max": "1910"}}, lambda i: False),
        ({"made.by": {"min": 3}}, lambda i: i % 4 == 3),
        ({"editor": "anyone"}, lambda i: False),
    ],
)
def test_only_passages_with_such_metadata_are_found(tmp_path: Path, where: Any, fits: Any) -> None:
    """In the retriever's order, however deep they stand, by lexical and dense search alike."""
    corpus = library(tmp_path)
    for retriever in (Bm25(corpus), Dense(corpus, Hashed())):
        every = [row for row in retriever.search(["river book"], 60)[0][0].tolist() if fits(row)]
        rows, scores = Filtered(retriever, where).search(["river book"], 5)
        found = [row for row in rows[0].tolist() if row >= 0]
        assert found == every[:5]
        assert np.isfinite(scores[0, : len(found)]).all()


def test_a_task_may_say_where_to_look(tmp_path: Path) -> None:
    """On top of what holds for all; block after block, until nothing is left. A filter that is none is refused."""
    corpus = library(tmp_path)
    drafter = Filtered(Bm25(corpus), {"tongue": "en"})
    context = make_context({"question": "river", "where": {"year": {"min": 1955}}})
    proposal = drafter.propose(context, 9)
    assert {item["metadata"]["year"] for item in proposal.items} == {1955, 1957, 1959}
    assert proposal.exhausted
    with pytest.raises(ConfigError, match="min, max"):
        drafter.propose(make_context({"question": "river", "where": {"year": {"above": 3}}}), 9)
    with pytest.raises(ConfigError, match="min, max"):
        Filtered(Bm25(corpus), {"year": {}}).open()


def test_a_cross_encoder_reorders_what_was_found(tmp_path: Path) -> None:
    """By its own scores, each passage scored once a task; what lies deeper is not found."""
    corpus = corpus_of(tmp_path)
    scorer = Classifier(tiny.save(tmp_path / "encoder", "BertForSequenceClassification", num_labels=1))
    ranked = Reranked(Bm25(corpus), scorer, depth=3)
    rows, scores = ranked.search(QUESTIONS, 5)
    for line, question in enumerate(QUESTIONS):
        first = [row for row in Bm25(corpus).search([question], 3)[0][0].tolist() if row >= 0]
        checks = checks_of(scorer, question, *[corpus.passage(row) for row in first])
        by_score = sorted(zip(first, checks, strict=True), key=lambda pair: -(pair[1].score or 0.0))
        assert rows[line, : len(first)].tolist() == [row for row, _ in by_score]
        assert scores[line, : len(first)] == pytest.approx([check.score for _, check in by_score], abs=1e-4)
        assert (rows[line, len(first) :] == -1).all()


def test_a_passage_is_scored_once_a_task(tmp_path: Path) -> None:
    """Rounds go on down the ranking and pay for nothing twice."""
    corpus = library(tmp_path, 12)
    read: list[str] = []

    class Counting(LexicalReader):
        def read(self, pairs: Any) -> Any:
            read.extend(pair.text for pair in pairs)
            return super().read(pairs)

    reader = LexicalReader(corpus, threshold=2)
    drafter = Reranked(Bm25(corpus), Counting(corpus), depth=8)
    outcome = Pipeline(drafter, reader, First(abstain_after=9), block=3, policy=retry(8)).run(
        Task(id="1", input={"question": "number 7"})
    )
    assert outcome.status == "abstained"
    assert len(read) == len(set(read)) == 8


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that encodes by the number of each letter, and ranks by the words in common."""
    made = Server()

    def answer(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if "input" in request:
            data = [
                {"index": place, "embedding": [float(text.count(letter)) for letter in "abcdefghijklmnop"]}
                for place, text in enumerate(request["input"])
            ]
            return 200, {}, json.dumps({"data": data[::-1]}).encode()
        asked = set(request["query"].lower().split())
        results = [
            {"index": place, "relevance_score": len(asked & set(text.lower().split())) / len(asked)}
            for place, text in enumerate(request["documents"])
        ]
        return 200, {}, json.dumps({"results": results[::-1]}).encode()

    made.answer = answer
    yield made
    made.close()


def test_vectors_of_a_server(tmp_path: Path, server: Server) -> None:
    """In batches, in order, of length 1; an index keeps them, and another model's are refused."""
    endpoint = Endpoint(server.url, "letters", api_key="secret-key-1")
    encoder = EndpointEncoder(endpoint, at_once=2)
    texts = ["abba", "cab", "dad", "p", "aa"]
    vectors = encoder.encode(texts)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert vectors[0, :2] == pytest.approx([2 / 8**0.5] * 2)
    assert sorted(len(request["input"]) for request in server.requests) == [1, 2, 2]
    assert all(headers["Authorization"] == "Bearer secret-key-1" for headers in server.headers)
    corpus = corpus_of(tmp_path, index=tmp_path / "index")
    dense = Dense(corpus, encoder)
    assert dense.search(["Tea is brewed from leaves in hot water."], 1)[0].tolist() == [[3]]
    other = EndpointEncoder(Endpoint(server.url, "words"))
    with pytest.raises(ConfigError, match="two encoders"):
        Dense(corpus_of(tmp_path, index=tmp_path / "index"), other).open()


@pytest.mark.parametrize(
    "reply", [b'{"data": [{"index": 1, "embedding": [1.0]}]}', b'{"data": [{"index": 0}]}', b"[]"]
)
def test_vectors_that_are_none_are_the_servers_error(server: Server, reply: bytes) -> None:
    """A missing one, one without numbers, another form."""
    server.answer = lambda request: (200, {}, reply)
    with pytest.raises(EndpointError):
        EndpointEncoder(Endpoint(server.url, "letters", retries=0)).encode(["a"])


def test_a_server_that_ranks(tmp_path: Path, server: Server) -> None:
    """As a verifier, and as what reorders a ranking; an overloaded server is asked again."""
    scorer = EndpointReranker(Endpoint(server.url, "words"), threshold=0.5)
    check_common(scorer)
    good, bad = checks_of(scorer, "cat hunts mice", "the cat hunts mice", "tea")
    assert (good.verdict, good.score, bad.verdict, bad.score) == ("pass", 1.0, "reject", 0.0)
    inner, server.requests[:] = server.answer, []
    tries = iter([(503, {"Retry-After": "0"}, b"busy")])
    server.answer = lambda request: next(tries, None) or inner(request)
    corpus = corpus_of(tmp_path)
    rows, _ = Reranked(Bm25(corpus), scorer).search(["which cat hunts mice at night?"], 2)
    assert rows[0, 0] == 0
    assert len(server.requests) == 2
    server.answer = lambda request: (200, {}, b'{"results": []}')
    with pytest.raises(EndpointError, match="0 of"):
        checks_of(scorer, "cat", "a")


CONFIG = """
name: refined
tasks: {use: jsonl, path: tasks.jsonl, expected: {passages: passages}}
models:
  server: {use: llm.endpoint, base_url: "URL", model: any}
  books: {use: retrieval.corpus, path: books.jsonl, split: document}
  vectors: {use: retrieval.endpoint_encoder, model: server}
  words: {use: retrieval.bm25, corpus: books}
  meanings: {use: retrieval.dense, corpus: books, encoder: vectors}
  both: {use: retrieval.hybrid, retrievers: [words, meanings]}
  old: {use: retrieval.filtered, retriever: both, where: {year: {max: 1910}}}
pipelines:
  ranked:
    generator: {use: retrieval.reranked, retriever: old, scorer: {use: retrieval.endpoint_reranker, model: server}}
    verifier: {use: retrieval.endpoint_reranker, model: server, threshold: 0.1}
    rule: {use: first, abstain_after: 1}
    block: 2
metrics: {map: {use: retrieval.map}}
"""


def test_all_of_it_runs_from_a_config(tmp_path: Path, server: Server) -> None:
    """Filtered, fused, reranked and read, with a server for vectors and scores."""
    library(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG.replace("URL", server.url))
    task = {"id": "a", "question": "the river, number 7.", "passages": ["book 7"]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    result = run(load_experiment(tmp_path / "config.yaml"), out=tmp_path / "run")
    (row,) = result.summary.pipelines[0].rows
    assert dict(row.statuses) == {"accepted": 1}
    assert row.solved["map"].rate.value == 1.0


def test_equal_queries_are_searched_once() -> None:
    """Texts and vectors, alone and in a batch; the oldest makes room, and what comes out is what the index finds."""
    rows = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    asked: list[int] = []

    class Counting(Vectors):
        def search(self, queries: Any, k: int) -> Any:
            asked.append(len(queries))
            return super().search(queries, k)

    memo = Memo(Counting(rows), size=3)
    plain = Vectors(rows)
    for batch, searched in (([0, 1], 2), ([1, 0], 0), ([2, 2, 0], 1), ([3], 1), ([1], 1)):
        asked.clear()
        found, scores = memo.search([rows[place] for place in batch], 4)
        right = plain.search([rows[place] for place in batch], 4)
        assert (found.tolist(), scores.tolist()) == (right[0].tolist(), right[1].tolist())
        assert sum(asked) == searched


def test_a_chain_of_searches_may_stand_on_a_memo() -> None:
    """Nine steps of two queries are two searches."""
    rows = np.eye(8, dtype=np.float32)
    asked: list[int] = []

    class Counting(Vectors):
        def search(self, queries: Any, k: int) -> Any:
            asked.append(len(queries))
            return super().search(queries, k)

    def onward(task: Task, steps: Any) -> Any:
        return rows[len(steps) % 2] if len(steps) < 9 else None

    exact = ExactSearch(Memo(Counting(rows)), next_query=onward, prefetch=0)
    drafter = CachedSearch(Vectors(rows), next_query=onward)
    outcome = Pipeline(drafter, exact, LongestPrefix(), block=0).run(Task(id="walk"))
    assert [step["rows"] for step in outcome.value] == [[0], [1]] * 4 + [[0]]
    assert sum(asked) == 2


@pytest.mark.parametrize("name", ["filtered", "reranked"])
def test_the_parts_conform(tmp_path: Path, name: str) -> None:
    """Law, shape, reproducibility, one batch as many calls, four threads, opened and closed twice."""
    corpus = corpus_of(tmp_path)
    made = Filtered(Bm25(corpus)) if name == "filtered" else Reranked(Bm25(corpus), LexicalReader(corpus))
    tasks = [{"question": question} for question in (*QUESTIONS, "", "кот")]
    check_component(Subject(made, tasks=tasks))
