"""Answers as they are compared, against SQuAD's own script."""

from __future__ import annotations

import re
import string
import time
from collections import Counter

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import ContractError, Outcome
from draftverify_retrieval.answers import answer_of, exact_match, f1, holds_answer, normalised, values_of


def scripts_normalised(s: str) -> str:
    """`normalize_answer` of SQuAD's evaluation scripts."""
    s = "".join(ch for ch in s.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


def scripts_f1(prediction: str, expected: str) -> float:
    """`compute_f1` of SQuAD 2.0's."""
    have, want = scripts_normalised(prediction).split(), scripts_normalised(expected).split()
    same = sum((Counter(have) & Counter(want)).values())
    if not have or not want:
        return float(have == want)
    if same == 0:
        return 0.0
    precision, recall = same / len(have), same / len(want)
    return 2 * precision * recall / (precision + recall)


WORDS = st.text("ab the.,-'An\n", max_size=30) | st.text(st.characters(max_codepoint=127), max_size=30)


@given(WORDS)
def test_ascii_answers_are_normalised_as_by_the_script(text: str) -> None:
    """Punctuation, articles, case and space go in the script's order."""
    assert normalised(text) == scripts_normalised(text)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_exact_match_and_f1_are_the_scripts(answer: str, answers: list[str]) -> None:
    """The best over the right answers."""
    assert exact_match(answer, answers) == max(
        scripts_normalised(answer) == scripts_normalised(each) for each in answers
    )
    assert f1(answer, answers) == pytest.approx(max(scripts_f1(answer, each) for each in answers))


@given(st.text(max_size=40))
@example("A\U0003d000")
def test_normalising_twice_is_once(text: str) -> None:
    """What is compared does not depend on how often it was normalised, articles that come to be apart."""
    once = normalised(text)
    assert not regex.search(r"\b(a|an|the)\b", once)  # `re` knows other code points as letters
    assert normalised(once) == once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("«Straße»", "STRASSE"),
        ("co\u00adoperate", "cooperate"),
        ("don’t", "don't"),
        ("rock\u00a0’n’\u00a0roll", "rock n roll"),
        ("1914–1918", "1914-1918"),
    ],
)
def test_writings_of_one_answer_are_one(one: str, other: str) -> None:
    """Composition, case, typographic quotes and dashes, and what cannot be seen make no difference."""
    assert exact_match(one, [other]) == 1.0


def test_different_numbers_stay_different() -> None:
    """A power is not a longer number, and a Cyrillic а is no Latin one."""
    assert exact_match("10²", ["102"]) == 0.0
    assert exact_match("p\u0430ris", ["paris"]) == 0.0


def test_a_question_without_answer_wants_an_abstention() -> None:
    """1 for it if and only if nothing was answered; an abstention from a question that has an answer is wrong."""
    for score in (exact_match, f1):
        assert (score(None, []), score("Paris", []), score(None, ["Paris"]), score("", [])) == (1, 0, 0, 0)


def test_an_answer_stands_in_a_text_as_whole_words() -> None:
    """And no answer of which nothing is left, such as an article, stands anywhere."""
    assert holds_answer("He was born in Paris, France.", ["london", "the Paris"])
    assert not holds_answer("The comparison", ["Paris", "the", ""])


def test_what_an_outcome_answers() -> None:
    """Texts, readings, passages and tuples of them; nothing of what was not accepted."""
    reading = {"id": "1", "text": "It is Paris.", "answer": "Paris"}
    assert [answer_of(value) for value in ("Lyon", reading, {"text": "It is."}, 7)] == [
        "Lyon",
        "Paris",
        "It is.",
        "7",
    ]
    assert values_of(Outcome(status="accepted", value=(reading, "Lyon"))) == (reading, "Lyon")
    assert values_of(Outcome(status="accepted", value="Lyon")) == ("Lyon",)
    assert values_of(Outcome(status="exhausted", value="Lyon")) == ()
    with pytest.raises(ContractError, match="an answer is a text"):
        answer_of({"id": "1"})


def test_a_long_answer_is_no_attack() -> None:
    """A megabyte is read in time that grows with it, whatever it is made of."""
    start = time.perf_counter()
    for text in ("a" + "\u0315\u0300" * 250_000, "the " * 250_000, "." * 1_000_000):
        normalised(text)
    assert time.perf_counter() - start < 20.0
