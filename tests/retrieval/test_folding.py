"""Folded texts, and the way back to the original."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify_retrieval.folding import Folded

ODD = (
    "aéeiß ﬁﬀ²½Ⅷ’“”„—–-\u00ad\u200b\u0301\u0315\u0300\u0344\u0f73가\u1100\u1161漢字ไทยİıſ…\u00a0\n\t"
    "\ufe0f🏳\u200d🌈.,5^'`´¨"
)
TEXTS = st.text(ODD, max_size=40) | st.text(max_size=40)


def fold(text: str, case: bool = False) -> str:
    return Folded(text, case).text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ﬁre  and\n water", "fire and water"),
        ("“It’s” — no", '"it\'s" - no'),
        ("«Ja» ‹nein›", "\"ja\" 'nein'"),
        ("co\u00adop\u200beration\ufeff", "cooperation"),
        ("café", "cafe\u0301"),
        ("ＡＢＣ １２", "abc 12"),
        ("1914‑18", "1914–18"),
        ("−5", "-5"),
        ("STRASSE ΣΑΣ", "straße σας"),
        ("wait…", "wait..."),
        ("가", "\u1100\u1161"),
        ("❤\ufe0f", "❤"),
    ],
)
def test_writings_of_one_text_fold_alike(one: str, other: str) -> None:
    """Unicode's compatibility, quotes, dashes, space, case, and what cannot be seen."""
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"), [("p\u0430ris", "paris"), ("10²", "102"), ("cafe", "café"), ("no", "know")]
)
def test_different_texts_stay_different(one: str, other: str) -> None:
    """A letter of another alphabet, a power, an accent."""
    assert fold(one) != fold(other)
    assert fold("Polish", True) != fold("polish", True)


@given(st.text(st.characters(max_codepoint=127) | st.sampled_from(" `\n\tAb"), max_size=30), st.booleans())
def test_ascii_takes_a_shorter_way_to_the_same(text: str, case: bool) -> None:
    """A character that is left out sends the text the long way."""
    assert Folded(text, case).text == Folded(text + "\u200b", case).text


@given(TEXTS)
def test_what_unicode_calls_equal_folds_alike(text: str) -> None:
    """Whatever the normal form that a text came in."""
    for form in ("NFC", "NFD"):
        assert fold(unicodedata.normalize(form, text)) == fold(text)


@given(TEXTS, st.data(), st.booleans())
@example("e\u0301a", None, False)
def test_a_place_in_the_original_folds_to_what_was_found(
    text: str, data: st.DataObject | None, case: bool
) -> None:
    """Of any part that is found: its place holds it, no more than it, and begins and ends at what can be seen."""
    whole = Folded(text, case)
    n = len(whole.text)
    start = data.draw(st.integers(0, n)) if data else 1
    part = whole.text[start : data.draw(st.integers(start, n)) if data else n].strip()
    found = whole.find(part)
    if found is not None:
        held = text[slice(*found)]
        assert fold(held, case) == part
        assert fold(held[0], case) or len(held) > 1
        assert not held[0].isspace()


@given(
    st.lists(
        st.sampled_from(["eins", "Zwei", "3,5", "“vier”", "fünf", "ﬁx", "it's"]), min_size=1, max_size=8
    ),
    st.data(),
)
def test_whole_words_are_found_where_they_stand(words: list[str], data: st.DataObject) -> None:
    """Any run of words of a text stands in it, however it is spaced."""
    i = data.draw(st.integers(0, len(words) - 1))
    j = data.draw(st.integers(i + 1, len(words)))
    found = Folded("\n ".join(words)).find(fold(" ".join(words[i:j]).upper()))
    assert found is not None
    assert fold("\n ".join(words)[slice(*found)]) == fold(" ".join(words[i:j]))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("cat", "concatenate"),
        ("5 million", "1.5 million"),
        ("1", "1,000"),
        ("12", "112"),
        ("5 degrees", "-5 degrees"),
        ("10", "10² metres"),
        ("cafe", "café"),
        ("I can", "I can't"),
        ("f", "ﬁ"),
        ("", "anything"),
    ],
)
def test_parts_of_words_and_numbers_stand_nowhere(part: str, text: str) -> None:
    """What was cut out of a word or a number says something else."""
    assert Folded(text).find(fold(part)) is None


@pytest.mark.parametrize(
    ("part", "text", "place"),
    [
        ("cat", "concatenate cat", (12, 15)),
        ("war", "pre-war", (4, 7)),
        ("1918", "1914-1918", (5, 9)),
        ("京都", "東京都に", (1, 3)),
        ("the end", "the\u200b\n end.", (0, 9)),
        ("rock", "rock'", (0, 4)),
        ("1990", "in 1990. 5 more", (3, 7)),
    ],
)
def test_words_stand_where_they_do(part: str, text: str, place: tuple[int, int]) -> None:
    """The first place as whole words; characters are words where a script has no spaces."""
    assert Folded(text).find(fold(part)) == place


def test_words_are_what_is_between_punctuation() -> None:
    """With apostrophes and decimal points inside; one for each character of scripts without spaces."""
    assert [word.text for word in Folded("It's 1,234.5—or “so”; 東京 x_1.").words] == [
        "it's", "1234.5", "or", "so", "東", "京", "x_1",
    ]  # fmt: skip


def test_long_texts_fold_in_time_that_grows_with_them() -> None:
    """Of marks without end too, and in a search in which every place is a near miss."""
    start = time.perf_counter()
    for text in ("word " * 40_000, "a" + "\u0315\u0300" * 50_000, "é" * 100_000, "\u200b" * 100_000):
        Folded(text).find("no")
    assert Folded("a" * 1_000_000).find("a" * 1000) is None
    assert Folded("a " * 50_000 + "b").find("a " * 1000 + "b") is not None
    assert time.perf_counter() - start < 15.0
