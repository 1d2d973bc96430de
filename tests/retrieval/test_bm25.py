"""BM25: what it finds, kept in an index or not; and RM3 where there is feedback."""

from __future__ import annotations

import json
import threading

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, ContractError, Task
from draftverify.kit import make_context
from draftverify_retrieval import Bm25, Corpus, DamagedIndexError
from draftverify_retrieval.passages import Passage, Retriever
from draftverify_retrieval.words import TermExtractor

from .corpora import ANIMALS, asked, corpus_of, passages, write_lines

TEXTS = st.text(alphabet="abc ", min_size=1, max_size=30).filter(str.strip)
SAYINGS = st.lists(
    st.sampled_from(["cat", "dog", "tea", "rain", "hunts", "falls"]), min_size=1, max_size=6
).map(" ".join)


def found(retriever, question: str, k: int = 5) -> list[str]:
    """The ids of the rows that a search finds, in order."""
    (rows,), (scores,) = retriever.search([question], k)
    assert (np.diff(scores[rows >= 0]) <= 0).all()
    assert np.isneginf(scores[rows < 0]).all()
    return [retriever.corpus.passage(row)["id"] for row in rows.tolist() if row >= 0]


def test_it_finds_what_shares_terms(tmp_path):
    """Stemmed; what shares none is not found, and the rest of the answer is row −1."""
    bm25 = Bm25(corpus_of(tmp_path))
    assert isinstance(bm25, Retriever)
    assert found(bm25, "Which cat hunts at night?") == ["cats", "mice"]
    rows, scores = bm25.search(["rivers", "the"], 7)
    assert rows.dtype == np.int64
    assert scores.dtype == np.float32
    assert rows.tolist() == [[4, *[-1] * 6], [-1] * 7]


@pytest.mark.parametrize(
    "question", ["", " \n", "?!", "кто спит днём", "猫はいつ寝ますか", "the of and", "x" * 100_000]
)
def test_a_question_without_a_term_of_the_corpus_finds_nothing(tmp_path, question):
    """An empty one, another script, stop words alone: an empty block, and there is no next."""
    bm25 = Bm25(corpus_of(tmp_path))
    assert found(bm25, question) == []
    block = bm25.propose(asked(question), 3)
    assert len(block) == 0
    assert block.exhausted


def test_a_corpus_in_another_script_is_searched_in_it(tmp_path):
    """Words are words in any script, composed or not, in any case."""
    corpus = corpus_of(tmp_path, {"ru": "Кошка спит днём", "fr": "Le café", "el": "Η γάτα"})
    bm25 = Bm25(corpus, stemmer=None, stopwords=None)
    assert found(bm25, "КОШКА") == ["ru"]
    assert found(bm25, "CAFE\u0301") == ["fr"]
    assert found(bm25, "γάτα") == ["el"]


def test_a_corpus_of_stop_words_finds_nothing(tmp_path):
    """It has no terms."""
    assert found(Bm25(corpus_of(tmp_path, {"a": "the", "b": "of it"})), "the of it") == []


@given(texts=st.lists(TEXTS, min_size=1, max_size=8), query=TEXTS, k=st.integers(1, 10))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_ranking_is_the_formula_sorted(tmp_path, texts, query, k):
    """Lucene's BM25 written out; equal scores come by row, wherever k cuts them."""
    corpus = corpus_of(tmp_path, {str(row): text for row, text in enumerate(texts)})
    (rows,), (scores,) = Bm25(corpus, stemmer=None, stopwords=None).search([query], k)
    terms = [TermExtractor(None, None).terms(text) for text in texts]
    mean = sum(map(len, terms)) / len(terms)
    right = np.zeros(len(texts))
    for term in TermExtractor(None, None).terms(query):
        df = sum(term in each for each in terms)
        for row, each in enumerate(terms):
            if tf := each.count(term):
                idf = np.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
                right[row] += idf * tf / (tf + 1.5 * (0.25 + 0.75 * len(each) / mean))
    wanted = sorted(
        (row for row in range(len(texts)) if right[row] > 0), key=lambda row: (-round(right[row], 5), row)
    )
    assert rows.tolist() == (wanted + [-1] * k)[:k]
    assert np.allclose(scores[rows >= 0], right[rows[rows >= 0]], atol=1e-5)


def test_the_scores_are_those_of_bm25s(tmp_path):
    """To the last bit, for the same terms."""
    corpus = corpus_of(tmp_path)
    bm25, query = Bm25(corpus), "A cat fears the rain and the mouse"
    words = TermExtractor("english", "english")
    theirs = bm25s.BM25()
    theirs.index([words.terms(text) for text in corpus.texts()], show_progress=False)
    rows, scores = theirs.retrieve([words.terms(query)], k=3, show_progress=False)
    ours = bm25.search([query], 3)
    assert ours[0].tolist() == rows.tolist()
    assert ours[1].tolist() == scores.tolist()


def test_blocks_go_on_where_the_last_one_ended(tmp_path):
    """Nothing is proposed twice in a task, whoever proposed it; the last block says that it is."""
    documents = {f"d{number}": "tea " * (number + 1) + "milk" for number in range(7)}
    bm25 = Bm25(corpus_of(tmp_path, documents))
    whole = bm25.propose(asked("tea"), 7)
    assert whole.exhausted
    order = [item["id"] for item in whole.items]
    assert sorted(order) == sorted(documents)
    first = bm25.propose(asked("tea"), 3)
    second = bm25.propose(asked("tea", first.items), 3)
    third = bm25.propose(asked("tea", first.items, second.items), 3)
    assert [item["id"] for block in (first, second, third) for item in block.items] == order
    assert [block.exhausted for block in (first, second, third)] == [False, False, True]
    assert bm25.propose(asked("tea", whole.items), 3).exhausted
    by_another = [passages(bm25.corpus)[3]]
    assert "d3" not in [item["id"] for item in bm25.propose(asked("tea", by_another), 7).items]
    assert first.evidence["row"] == [bm25.corpus.texts().index(item["text"]) for item in first.items]
    assert len(first.evidence["score"]) == 3


def test_many_tasks_are_ranked_in_one_search(tmp_path, monkeypatch):
    """And each gets what it would have got alone."""
    bm25 = Bm25(corpus_of(tmp_path))
    contexts = [asked("cat"), asked("dog", [passages(bm25.corpus)[1]]), asked(""), asked("rain and tea")]
    alone = [bm25.propose(context, n).items for context, n in zip(contexts, [1, 2, 3, 4], strict=True)]
    calls = []
    inner = Bm25.search
    monkeypatch.setattr(
        Bm25, "search", lambda self, queries, k: calls.append(len(queries)) or inner(self, queries, k)
    )
    together = bm25.propose_many(contexts, [1, 2, 3, 4])
    assert [block.items for block in together] == alone
    assert calls == [4]


def test_a_task_without_a_question_is_an_error(tmp_path):
    """That names what is there."""
    with pytest.raises(ConfigError, match="it has text"):
        Bm25(corpus_of(tmp_path)).propose(make_context(Task(id="t", input={"text": "x"})), 1)


EXPANDABLE = {
    "tom": "Tom is a tabby cat with stripes",
    "tabby": "A tabby has stripes and whiskers",
    "whiskers": "Whiskers feel the wind",
    "cat": "The cat sat",
    "other": "Nothing of the sort",
}


def test_feedback_expands_the_question(tmp_path):
    """Passages that share no term with the question are found by the terms of those that did; RM3."""
    bm25 = Bm25(corpus_of(tmp_path, EXPANDABLE))
    block = bm25.propose(asked("cat"), 2)
    assert {item["id"] for item in block.items} == {"tom", "cat"}
    assert bm25.propose(asked("cat", block.items), 3).items == ()
    again = bm25.propose(asked("cat", block.items, feedback=True), 3)
    assert [item["id"] for item in again.items] == ["tabby"]


def test_feedback_reads_the_passages_that_the_reader_scored_best(tmp_path):
    """One passage is expanded with: the one of the higher score, wherever it was proposed."""
    documents = {"a": "cat alpha", "b": "cat beta", "alpha": "alpha", "beta": "beta"}
    bm25 = Bm25(corpus_of(tmp_path, documents), fb_docs=1)
    block = bm25.propose(asked("cat"), 2).items
    for best, other in (("a", "b"), ("b", "a")):
        context = asked("cat", block, feedback=True, scores={best: -1.0, other: -2.0})
        assert [item["text"] for item in bm25.propose(context, 5).items] == [
            {"a": "alpha", "b": "beta"}[best]
        ]


def test_feedback_for_a_question_without_terms_is_the_passages_alone(tmp_path):
    """And without passages either it finds nothing."""
    bm25 = Bm25(corpus_of(tmp_path))
    seen = [passages(bm25.corpus)[0]]
    assert [item["id"] for item in bm25.propose(asked("?", seen, feedback=True), 5).items] == ["mice"]
    strange = [{"id": "from elsewhere", "text": "x"}]
    assert bm25.propose(asked("?", strange, feedback=True), 5).items == ()


def test_feedback_without_passages_of_the_corpus_reads_the_first_of_the_ranking(tmp_path):
    """As pseudo-relevance feedback does: nothing that was proposed is known here."""
    bm25 = Bm25(corpus_of(tmp_path, EXPANDABLE))
    strange = [{"id": "from elsewhere", "text": "x"}]
    assert "tabby" not in [item["id"] for item in bm25.propose(asked("cat", strange), 5).items]
    assert "tabby" in [item["id"] for item in bm25.propose(asked("cat", strange, feedback=True), 5).items]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"k1": -1}, "k1"),
        ({"b": 1.5}, "b"),
        ({"fb_docs": 0}, "fb_docs"),
        ({"fb_terms": 0}, "fb_terms"),
        ({"query_weight": 2}, "query_weight"),
        ({"stemmer": "engish"}, "stemmer"),
        ({"stopwords": "klingon"}, "stopwords"),
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path, settings, path):
    """When it is opened, by name."""
    with pytest.raises(ConfigError) as error:
        Bm25(corpus_of(tmp_path), **settings).open()
    assert error.value.path == path


def test_an_index_holds_terms_and_matrix(tmp_path, monkeypatch):
    """The second time no text is read for terms; a change reads what is new."""
    index = tmp_path / "index"
    first = Bm25(corpus_of(tmp_path, index=index)).search(["cat and tea"], 5)
    read: list[str] = []
    inner = TermExtractor.tokens
    monkeypatch.setattr(TermExtractor, "tokens", lambda self, text: read.append(text) or inner(self, text))
    again = Bm25(corpus_of(tmp_path, index=index)).search(["cat and tea"], 5)
    assert read == ["cat and tea"]
    assert [each.tolist() for each in again] == [each.tolist() for each in first]
    read.clear()
    Bm25(corpus_of(tmp_path, {**ANIMALS, "milk": "Milk is white."}, index=index)).open()
    assert read == ["Milk is white."]


def test_two_settings_share_one_index(tmp_path):
    """Each finds what it would find alone."""
    index = tmp_path / "index"
    for _ in range(2):
        assert found(Bm25(corpus_of(tmp_path, index=index)), "cats") == ["cats", "mice"]
        assert found(Bm25(corpus_of(tmp_path, index=index), stemmer=None), "cats") == ["cats"]
        one, other = (
            Bm25(corpus_of(tmp_path, index=index), b=b).search(["cat"], 2)[1].tolist() for b in (0.0, 1.0)
        )
        assert one != other


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    states=st.lists(st.dictionaries(st.sampled_from("uvwxyz"), SAYINGS, min_size=1), min_size=2, max_size=4),
    query=SAYINGS,
)
def test_an_index_after_any_changes_ranks_as_one_made_anew(tmp_path_factory, states, query):
    """Adds, edits, deletes and other orders: rows and scores to the last bit."""
    folder = tmp_path_factory.mktemp("bm25")
    for state in states:
        kept = Bm25(corpus_of(folder, state, index=folder / "index"))
        fresh = Bm25(corpus_of(folder, state))
        assert [each.tolist() for each in kept.search([query], 6)] == [
            each.tolist() for each in fresh.search([query], 6)
        ]


def test_a_truncated_part_is_found_when_the_corpus_is_opened(tmp_path):
    """Before anything is searched."""
    Bm25(corpus_of(tmp_path, index=tmp_path / "index")).open()
    (path,) = (tmp_path / "index").glob("terms.*.part")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedIndexError, match=path.name):
        corpus_of(tmp_path, index=tmp_path / "index").open()


def test_it_opens_and_closes_its_corpus(tmp_path):
    """Once, however often it is opened itself; a corpus that cannot be opened leaves nothing open."""
    corpus = corpus_of(tmp_path)
    bm25 = Bm25(corpus)
    bm25.open()
    bm25.open()
    bm25.close()
    write_lines(tmp_path / "documents.jsonl", {"new": "Only this."})
    assert found(bm25, "cat") == ["cats", "mice"]
    bm25.close()
    assert found(bm25, "cat") == []
    assert len(corpus) == 1
    with pytest.raises(ConfigError):
        Bm25(Corpus(tmp_path / "nowhere")).open()


def test_a_stemmer_is_used_by_one_thread_alone(tmp_path, monkeypatch):
    """PyStemmer's are not for two at once."""
    inner = Stemmer.Stemmer

    class OfOneThread:
        def __init__(self, language):
            self.thread, self.inner = threading.get_ident(), inner(language)

        def stemWords(self, words):  # noqa: N802 - PyStemmer's name
            assert threading.get_ident() == self.thread
            return self.inner.stemWords(words)

    monkeypatch.setattr(Stemmer, "Stemmer", OfOneThread)
    bm25 = Bm25(corpus_of(tmp_path))
    bm25.open()
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(found(bm25, "cats hunting mice"))) for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [["cats", "mice"]] * 4


def test_a_list_of_stop_words(tmp_path):
    """Those, and no others."""
    bm25 = Bm25(corpus_of(tmp_path), stopwords=["cat"], stemmer=None)
    assert found(bm25, "cat") == []
    assert len(found(bm25, "the")) == 4


def test_proposals_can_be_written_down(tmp_path):
    """Passages and evidence are plain values, as records hold them."""
    block = Bm25(corpus_of(tmp_path)).propose(asked("cat"), 2)
    assert json.loads(json.dumps(block.items)) == list(block.items)
    assert json.loads(json.dumps(dict(block.evidence))) == dict(block.evidence)


def test_a_passage_without_id_is_refused() -> None:
    """It would be proposed again in every round."""

    class Nameless:
        def __len__(self) -> int:
            return 1

        def passage(self, row: int) -> Passage:
            return {"text": "A cat sleeps."}

        def texts(self) -> list[str]:
            return ["A cat sleeps."]

    with pytest.raises(ContractError, match="row 0 has no id"):
        Bm25(Nameless()).propose(make_context({"question": "cat"}), 1)
