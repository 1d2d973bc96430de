"""Several retrievers as one, and all that there is to read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify_retrieval import Bm25, Dense, Everything, Hybrid
from draftverify_retrieval.passages import Retriever

from .corpora import ANIMALS, Hashed, asked, corpus_of, passages


class Listed:
    """A retriever that ranks rows as it was told."""

    def __init__(self, corpus, rows):
        self.corpus = corpus
        self.rows = rows

    def search(self, queries, k):
        padded = ([*self.rows] + [-1] * k)[:k]
        rows = np.array([padded] * len(queries), dtype=np.int64).reshape(-1, k)
        return rows, np.where(rows < 0, -np.inf, -np.arange(k)).astype(np.float32)


ROWS = st.lists(st.integers(0, 30), unique=True, max_size=31)


@example([[24, 25, 0, 1, 2, 3, 4, 26, 27, 21], [0, 1, 22, 23, 21]], 5, 3)  # 1/6 = 1/15 + 1/10
@given(st.lists(ROWS, min_size=2, max_size=4), st.integers(0, 100), st.integers(1, 40))
def test_the_order_is_that_of_the_sums(rankings, constant, k):
    """Σ 1 / (k + rank), written out; equal ones as the first retriever that tells them apart has them."""
    corpus = object()
    hybrid = Hybrid([Listed(corpus, ranking) for ranking in rankings], constant)
    (rows,), (scores,) = hybrid.search(["x"], k)
    sums: dict[int, float] = {}
    for ranking in rankings:
        for place, row in enumerate(ranking, 1):
            sums[row] = sums.get(row, 0.0) + 1 / (constant + place)

    def order(row):
        return (-round(sums[row], 12), *(each.index(row) if row in each else 99 for each in rankings))

    wanted = sorted(sums, key=order)
    assert rows.tolist() == (wanted + [-1] * k)[:k]
    assert np.allclose(scores[: len(wanted)], [sums[row] for row in wanted][:k])


def test_it_goes_on_beyond_its_depth(tmp_path):
    """It asks its retrievers for more where more is asked for, to the last passage."""
    documents = {f"d{number}": f"tea {number}" for number in range(250)}
    corpus = corpus_of(tmp_path, documents)
    hybrid = Hybrid([Bm25(corpus), Dense(corpus, Hashed())])
    assert isinstance(hybrid, Retriever)
    first = hybrid.propose(asked("tea"), 200)
    second = hybrid.propose(asked("tea", first.items), 200)
    assert (len(first), first.exhausted, len(second), second.exhausted) == (200, False, 50, True)
    assert len({item["id"] for block in (first, second) for item in block.items}) == 250


def test_feedback_reaches_its_members(tmp_path):
    """BM25 inside a hybrid expands the question."""
    documents = {"tom": "Tom is a tabby cat", "tabby": "tabby stripes", "z": "nothing"}
    corpus = corpus_of(tmp_path, documents)
    hybrid = Hybrid([Bm25(corpus), Bm25(corpus, stemmer=None)])
    first = hybrid.propose(asked("cat"), 3).items
    assert [item["id"] for item in first] == ["tom"]
    assert [item["id"] for item in hybrid.propose(asked("cat", first, feedback=True), 3).items] == ["tabby"]


def test_an_empty_question_finds_nothing(tmp_path):
    """As nobody in it finds anything."""
    corpus = corpus_of(tmp_path)
    block = Hybrid([Bm25(corpus), Dense(corpus, Hashed())]).propose(asked(" "), 3)
    assert (len(block), block.exhausted) == (0, True)


def test_retrievers_of_two_corpora_are_refused(tmp_path):
    """Their rows do not mean the same; nor can one be fused, or k be negative."""
    corpus = corpus_of(tmp_path)
    with pytest.raises(ConfigError) as error:
        Hybrid([Bm25(corpus), Bm25(corpus_of(tmp_path))]).open()
    assert error.value.path == "retrievers.1"
    with pytest.raises(ConfigError, match="at least two"):
        Hybrid([Bm25(corpus)]).open()
    with pytest.raises(ConfigError, match="k is -1"):
        Hybrid([Bm25(corpus), Bm25(corpus)], -1).open()


def test_everything_is_read_in_order(tmp_path):
    """Each passage once, but those that were proposed before; the last block says so."""
    corpus = corpus_of(tmp_path)
    seen = [passages(corpus)[1]]
    first = Everything(corpus).propose(asked("rain", seen), 3)
    assert [item["id"] for item in first.items] == ["cats", "mice", "tea"]
    assert not first.exhausted
    second = Everything(corpus).propose(asked("rain", seen, first.items), 3)
    assert ([item["id"] for item in second.items], second.exhausted) == (["rain"], True)
    assert Everything(corpus).propose(asked("rain", passages(corpus)), 1).exhausted


def test_everything_may_begin_with_a_ranking(tmp_path):
    """What the retriever finds first, then what it does not, so that nothing is left out."""
    corpus = corpus_of(tmp_path)
    block = Everything(corpus, Bm25(corpus)).propose(asked("The rain and a dog"), 5)
    ids = [item["id"] for item in block.items]
    assert set(ids[:2]) == {"rain", "dogs"}
    assert ids[2:] == [id for id in ANIMALS if id not in ids[:2]]
    assert block.exhausted
