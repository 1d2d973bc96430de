"""A reader by words alone: shares of the question, weighted by rarity, in the passage and in its best sentence."""

from __future__ import annotations

import math

import pytest
from msgspec import UNSET

from draftverify import Proposal
from draftverify.kit import check_component, make_context
from draftverify_retrieval import LexicalReader, Passage

from .readers import check_common, checks_of, subject_of


class Rows:
    """A corpus of texts."""

    def __init__(self, *rows: str) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def passage(self, row: int) -> Passage:
        return Passage(id=str(row), text=self.rows[row])

    def texts(self) -> list[str]:
        return list(self.rows)


def test_it_keeps_the_contract() -> None:
    """The kit's checks, with a corpus and without."""
    check_component(subject_of(LexicalReader()))
    check_component(subject_of(LexicalReader(Rows("gold and river", "gold"))))


def test_what_holds_of_every_reader() -> None:
    """Empty questions and passages, batches, places of answers, identity."""
    check_common(LexicalReader())


def test_the_answer_is_the_sentence_that_shares_most() -> None:
    """The best sentence with its place, also where the passage is rejected."""
    text = "The sky was grey. Gold lay in the river, he said. Kings slept."
    (check,) = checks_of(LexicalReader(), "Who found gold in the river?", {"text": text, "id": "x"})
    assert check.correction["answer"] == "Gold lay in the river, he said."
    assert check.correction["id"] == "x"
    assert check.correction["normalised"] == "gold lay in river he said"
    assert (check.verdict, check.score) == ("pass", pytest.approx(2 / 3))  # of found, gold, river
    (other,) = checks_of(LexicalReader(threshold=0.9), "Who found gold in the river?", text)
    assert (other.verdict, other.reason) == ("reject", "no answer")
    assert other.correction["answer"] == check.correction["answer"]


def test_the_score_is_the_formula() -> None:
    """Half the passage's weighted share, half the best sentence's; a term that no row has is the rarest."""
    reader = LexicalReader(Rows("gold river", "gold", "stone", "gold moss"))
    (check,) = checks_of(reader, "gold river zebra", "Gold is here. A river is there.")
    idf = {"gold": 3, "river": 1, "zebra": 0}
    idf = {term: math.log(1 + (4 - df + 0.5) / (df + 0.5)) for term, df in idf.items()}
    whole = sum(idf.values())
    expected = ((idf["gold"] + idf["river"]) / whole + idf["river"] / whole) / 2
    assert check.score == pytest.approx(expected)


def test_a_question_without_terms_is_not_judged() -> None:
    """Stop words alone say nothing: abstain, with the reason."""
    (check,) = checks_of(LexicalReader(), "What is it?", "It is what it is.")
    assert (check.verdict, check.reason, check.correction) == ("abstain", "no terms in the question", UNSET)


def test_the_heading_counts_and_is_no_answer() -> None:
    """A term of the heading counts for the passage; the answer stands in the text, with its place there."""
    passage = {"text": "It was found by a girl. It rained.", "heading": "Gold"}
    (with_heading,) = checks_of(LexicalReader(), "Who found gold?", passage)
    (without,) = checks_of(LexicalReader(), "Who found gold?", passage["text"])
    assert with_heading.score > without.score
    assert with_heading.correction["answer"] == "It was found by a girl."
    assert with_heading.correction["answer_start"] == 0


def test_identity_follows_the_corpus_and_the_words() -> None:
    """Another corpus or stemmer is another reader."""
    found = {
        LexicalReader().identity,
        LexicalReader(Rows("gold")).identity,
        LexicalReader(Rows("river")).identity,
        LexicalReader(stemmer=None).identity,
    }
    assert len(found) == 4


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.7, 1.0])
def test_at_another_threshold_it_says_what_it_would_have_said(threshold: float) -> None:
    """From the checks that it gave at its own; what has no score stays."""
    texts = ["Gold lay in the river.", "Gold is here. A river is there.", "", "Kings slept."]
    block = Proposal.alternatives([{"id": text, "text": text} for text in texts])
    context = make_context({"question": "gold in the river?"})
    reader, other = LexicalReader(), LexicalReader(threshold=threshold)
    first = reader.verify(context, block).checks
    assert other.rejudged(context, block, first) == other.verify(context, block).checks
