"""Exact search in vectors: the definition, however many queries are searched at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify_retrieval import ApproximateVectors, Vectors
from draftverify_retrieval.vectors import AT_ONCE, LONGEST


def by_definition(vectors, query, k):
    """The k best rows by the inner product in float64, of equal ones the lowest first."""
    scores = (vectors.astype(np.float64) * query).sum(axis=1)
    return np.lexsort((np.arange(len(vectors)), -scores))[:k]


def corpus(rows, d, seed, *, near=0.0, repeated=1):
    """Random vectors, of which groups of `repeated` are equal, or as near as `near`."""
    rng = np.random.default_rng(seed)
    few = rng.standard_normal((-(-rows // repeated), d)).astype(np.float32)
    vectors = np.tile(few, (repeated, 1))[:rows]
    return vectors + near * rng.standard_normal(vectors.shape).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 7, 40, LONGEST, LONGEST + 1, 3 * LONGEST - 5]),
    d=st.sampled_from([1, 3, 16]),
    k=st.sampled_from([1, 2, 5, 50]),
    n=st.sampled_from([1, 2, 3, 9, AT_ONCE, AT_ONCE + 1]),
    repeated=st.sampled_from([1, 3, 2000]),
    near=st.sampled_from([0.0, 1e-7, 1e-3]),
    seed=st.integers(0, 10**6),
)
def test_search_is_the_definition_alone_and_in_a_batch(rows, d, k, n, repeated, near, seed):
    """Near ties, equal rows, short corpora: a batch, and each query alone, find what float64 over all rows finds."""
    vectors = corpus(rows, d, seed, near=near, repeated=repeated)
    queries = corpus(n, d, seed + 1)
    index = Vectors(vectors)
    found, scores = index.search(queries, k)
    for place, query in enumerate(queries):
        right = by_definition(vectors, query, k)
        assert found[place, : len(right)].tolist() == right.tolist()
        assert (found[place, len(right) :] == -1).all()
        assert (scores[place, len(right) :] == -np.inf).all()
        alone, score = index.search([query], k)
        assert alone[0].tolist() == found[place].tolist()
        assert score[0].tolist() == scores[place].tolist()


def test_a_subset_finds_what_the_whole_finds_among_its_rows():
    """Best first, equal ones by row, and rows that came first make room."""
    vectors = corpus(50, 4, 3, repeated=5)
    index = Vectors(vectors)
    subset = index.subset(12)
    assert subset.search(vectors[0], 3) == []
    subset.add([40, 41, 42, 43])
    subset.add([*range(30, 20, -1), 30, 29])
    held = [42, 43, *range(30, 20, -1)]
    for query in corpus(20, 4, 9):
        order = [row for row in by_definition(vectors, query, 50) if row in held]
        assert subset.search(query, 1) == order[:1]
        assert subset.search(query, 20) == order


def test_an_approximate_index_is_mostly_right_and_answers_a_batch_as_each_query_alone():
    """What a trusted index must be: the same answer whatever else is searched."""
    vectors, queries = corpus(3000, 16, 0), corpus(18, 16, 1)
    index = ApproximateVectors(vectors)
    rows, scores = index.search(queries, 5)
    assert rows.shape == scores.shape == (18, 5)
    right = Vectors(vectors).search(queries, 1)[0][:, 0]
    assert (rows[:, 0] == right).mean() > 0.7
    for place, query in enumerate(queries):
        assert index.search([query], 5)[0][0].tolist() == rows[place].tolist()


def test_what_is_no_vector_is_said():
    """Shapes and numbers that cannot be searched."""
    with pytest.raises(ConfigError, match=r"shape \(3,\)"):
        Vectors(np.zeros(3, np.float32))
    with pytest.raises(ConfigError, match="finite"):
        Vectors(np.full((2, 2), np.nan, np.float32))
    index = Vectors(np.eye(3, dtype=np.float32))
    with pytest.raises(ConfigError, match=r"vectors of 3 numbers; these have the shape \(1, 2\)"):
        index.search([[1.0, 2.0]], 1)
    with pytest.raises(ConfigError, match="finite"):
        index.search([[1.0, 2.0, float("inf")]], 1)
    for wrong in ([[1.0, 2.0, 3.0], [1.0]], ["a question"], [None, [1.0, 2.0, 3.0]]):
        with pytest.raises(ConfigError, match="vectors of 3 numbers"):
            index.search(wrong, 1)
