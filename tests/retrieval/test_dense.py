"""Dense retrieval: exact and approximate indexes, vectors that are not made twice, encoders that are not mixed."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import draftverify_retrieval.dense as dense_module
from draftverify import ConfigError, ContractError
from draftverify_retrieval import DamagedIndexError, Dense
from draftverify_retrieval.passages import Retriever

from .corpora import ANIMALS, Hashed, asked, corpus_of

STRUCTURES = ["flat", "hnsw", "ivf"]
MANY = {f"d{number}": f"document number {number} of {number % 7} kinds" for number in range(400)}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_it_finds_the_nearest(tmp_path, structure):
    """A passage's own words find it first; scores are inner products, the best first."""
    dense = Dense(corpus_of(tmp_path), Hashed(), structure)
    assert isinstance(dense, Retriever)
    rows, scores = dense.search(list(ANIMALS.values()), 3)
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert np.allclose(scores[:, 0], 1, atol=1e-5)
    assert (np.diff(scores) <= 0).all()


def test_flat_is_exact(tmp_path):
    """The ranking is the matrix product's, sorted; k beyond the corpus is filled with row −1."""
    corpus, encoder = corpus_of(tmp_path, MANY), Hashed()
    queries = [f"{number} kinds of document" for number in range(30)]
    rows, scores = Dense(corpus, encoder).search(queries, 405)
    products = encoder.encode(queries) @ encoder.encode(corpus.texts()).T
    assert np.allclose(np.take_along_axis(products, rows[:, :400], 1), scores[:, :400], atol=1e-5)
    assert np.allclose(scores[:, :400], -np.sort(-products, axis=1), atol=1e-5)
    assert (rows[:, 400:] == -1).all()
    assert np.isneginf(scores[:, 400:]).all()


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 11])
def test_equal_passages_come_by_row(tmp_path, structure, k):
    """Wherever k cuts them."""
    documents = {f"d{number}": "same words" if number % 2 else f"other {number}" for number in range(20)}
    rows, _ = Dense(corpus_of(tmp_path, documents), Hashed(), structure).search(["same words", "other 4"], k)
    assert rows[0, : min(k, 10)].tolist() == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19][:k]
    assert rows[1, 0] == 4


@pytest.mark.parametrize("structure", ["hnsw", "ivf"])
def test_an_approximate_index_finds_most_of_the_exact_one(tmp_path, structure):
    """And looks further where `breadth` says so."""
    queries = [f"number {number} of kinds" for number in range(50)]
    exact = Dense(corpus_of(tmp_path, MANY), Hashed()).search(queries, 5)[0]

    def share(breadth):
        found = Dense(corpus_of(tmp_path, MANY), Hashed(), structure, breadth).search(queries, 5)[0]
        return np.mean([len({*a} & {*b}) / 5 for a, b in zip(exact.tolist(), found.tolist(), strict=True)])

    assert share(400) > 0.99
    assert share(400) >= share(1)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_an_empty_question_finds_nothing(tmp_path, structure):
    """Alone and among others; without it every passage would be as near as another."""
    dense = Dense(corpus_of(tmp_path), Hashed(), structure)
    rows, scores = dense.search(["", "tea", " \n"], 2)
    assert rows[[0, 2]].tolist() == [[-1, -1], [-1, -1]]
    assert np.isneginf(scores[[0, 2]]).all()
    assert rows[1, 0] >= 0
    assert dense.search([], 2)[0].shape == (0, 2)
    block = dense.propose(asked(""), 2)
    assert (len(block), block.exhausted) == (0, True)


def test_blocks_go_on_to_the_last_passage(tmp_path):
    """Every passage once, then no next."""
    dense = Dense(corpus_of(tmp_path), Hashed())
    blocks = []
    while not blocks or not blocks[-1].exhausted:
        blocks.append(dense.propose(asked("cat and rain", *(each.items for each in blocks)), 2))
    assert sorted(item["id"] for block in blocks for item in block.items) == sorted(ANIMALS)
    assert [len(block) for block in blocks] == [2, 2, 1]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_vectors_are_kept(tmp_path, structure, monkeypatch):
    """Opened again nothing is encoded or built; after a change only what is new is encoded."""
    index = tmp_path / "index"
    first = Dense(corpus_of(tmp_path, MANY, index=index), Hashed(), structure).search(["document 7"], 5)
    if structure != "flat":
        monkeypatch.setattr(faiss, "IndexHNSWFlat", None)
        monkeypatch.setattr(faiss, "IndexIVFFlat", None)
    encoder = Hashed()
    dense = Dense(corpus_of(tmp_path, MANY, index=index), encoder, structure)
    dense.open()
    assert encoder.encoded == []
    assert [each.tolist() for each in dense.search(["document 7"], 5)] == [each.tolist() for each in first]
    monkeypatch.undo()
    Dense(
        corpus_of(tmp_path, {**MANY, "new": "A new one."}, index=index), encoder := Hashed(), structure
    ).open()
    assert encoder.encoded == ["A new one."]


@pytest.mark.parametrize("structure", ["hnsw", "ivf"])
def test_an_approximate_index_takes_in_new_rows(tmp_path, structure, monkeypatch):
    """Wherever they stand in the corpus, and one that says what another says; where rows went it is made anew."""
    index = tmp_path / "index"
    Dense(corpus_of(tmp_path, MANY, index=index), Hashed(), structure).open()
    documents = {"first": "A new one.", **MANY, "again": MANY["d7"], "last": "Quite another."}
    with monkeypatch.context() as patched:
        patched.setattr(dense_module, "_empty", None)
        for _ in range(2):
            dense = Dense(corpus_of(tmp_path, documents, index=index), Hashed(), structure, breadth=1000)
            names = [
                [dense.corpus.passage(row)["id"] for row in rows]
                for rows in dense.search(["A new one.", "Quite another.", MANY["d7"]], 2)[0].tolist()
            ]
            assert [names[0][0], names[1][0], names[2]] == ["first", "last", ["d7", "again"]]
    Dense(corpus_of(tmp_path, MANY, index=index), Hashed(), structure).open()
    fewer = Dense(corpus_of(tmp_path, {"d7": MANY["d7"]}, index=index), Hashed(), structure)
    assert fewer.search(["document"], 2)[0].tolist() == [[0, -1]]


def test_encoding_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    """What the index kept in the meantime is not encoded again, and the result is the same."""
    monkeypatch.setattr(dense_module, "KEEP_EVERY", 0.0)
    encoder = Hashed()
    inner = encoder.encode

    def until_the_third(texts):
        if len(encoder.encoded) >= 2 * 256:
            raise KeyboardInterrupt
        return inner(texts)

    encoder.encode = until_the_third
    documents = {str(number): f"number {number}" for number in range(1000)}
    with pytest.raises(KeyboardInterrupt):
        Dense(corpus_of(tmp_path, documents, index=tmp_path / "index"), encoder).open()
    again = Hashed()
    dense = Dense(corpus_of(tmp_path, documents, index=tmp_path / "index"), again)
    dense.open()
    assert len(again.encoded) == 1000 - 2 * 256
    fresh = Dense(corpus_of(tmp_path, documents), Hashed())
    queries = ["number 3", "number 900"]
    assert [each.tolist() for each in dense.search(queries, 9)] == [
        each.tolist() for each in fresh.search(queries, 9)
    ]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    states=st.lists(
        st.dictionaries(
            st.sampled_from("uvwxyz"), st.text("ab ", min_size=1, max_size=9).filter(str.strip), min_size=1
        ),
        min_size=2,
        max_size=4,
    ),
    structure=st.sampled_from(STRUCTURES),
)
def test_an_index_after_any_changes_ranks_as_one_made_anew(tmp_path_factory, states, structure):
    """Adds, edits and deletes: rows and scores to the last bit, of the approximate ones too."""
    folder = tmp_path_factory.mktemp("dense")
    for state in states:
        kept = Dense(corpus_of(folder, state, index=folder / "index"), Hashed(8), structure).search(
            ["a ab", "b"], 6
        )
        fresh = Dense(corpus_of(folder, state), Hashed(8), structure).search(["a ab", "b"], 6)
        assert [each.tolist() for each in kept] == [each.tolist() for each in fresh]


@pytest.mark.parametrize("other", [Hashed(32, "other weights"), Hashed(16)], ids=["weights", "dimension"])
def test_another_encoder_is_refused(tmp_path, other):
    """Vectors of two encoders cannot be compared; the message names both and the directory."""
    index = tmp_path / "index"
    Dense(corpus_of(tmp_path, index=index), Hashed()).open()
    with pytest.raises(ConfigError, match=rf"index.*hashed 32 .*{other.identity}"):
        Dense(corpus_of(tmp_path, index=index), other).open()
    Dense(corpus_of(tmp_path, index=index), Hashed()).open()


@pytest.mark.parametrize("part", ["vectors", "hnsw"])
def test_a_truncated_part_is_found_when_the_corpus_is_opened(tmp_path, part):
    """Before anything is searched."""
    Dense(corpus_of(tmp_path, index=tmp_path / "index"), Hashed(), "hnsw").open()
    (path,) = (tmp_path / "index").glob(f"{part}.*")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DamagedIndexError, match=path.name):
        corpus_of(tmp_path, index=tmp_path / "index").open()


@pytest.mark.parametrize("broken", [lambda v: v[:, :-1], lambda v: v[:-1], lambda v: v * np.nan])
def test_an_encoder_that_gives_something_else_is_named(tmp_path, broken):
    """Vectors of another length, too few, or not finite."""
    encoder = Hashed()
    inner = encoder.encode
    encoder.encode = lambda texts: broken(inner(texts))
    with pytest.raises(ContractError, match="Hashed"):
        Dense(corpus_of(tmp_path), encoder).open()


@pytest.mark.parametrize(("structure", "breadth"), [("flat", 4), ("hnsw", 0)])
def test_a_breadth_that_means_nothing_is_refused(tmp_path, structure, breadth):
    """A flat index looks at everything."""
    with pytest.raises(ConfigError) as error:
        Dense(corpus_of(tmp_path), Hashed(), structure, breadth).open()
    assert error.value.path == "breadth"
