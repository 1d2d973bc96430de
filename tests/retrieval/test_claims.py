"""What an answer quotes, and what it cites for it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ContractError
from draftverify_retrieval.claims import Malformed, claims_of


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("The tower “was finished” [eiffel-2].", [("was finished", ("eiffel-2",))]),
        ('It has "three levels" and "lifts" [1], [3].', [("three levels", ("1", "3")), ("lifts", ("1", "3"))]),
        ('"one" [1] and "two" [2]', [("one", ("1",)), ("two", ("2",))]),
        ('"one"[1]"two"[2]', [("one", ("1",)), ("two", ("2",))]),
        ('"American style," [a, b] yes.', [("American style,", ("a", "b"))]),
        ('"at the end [^1]."', [("at the end ", ("1",))]),
        ('"has [1]" [2]', [("has [1]", ("2",))]),
        ('"over"\n[1]', [("over", ("1",))]),
        ('He said "one" in 1990, in Rome [1].', [("one", ("1",))]),
        ("»Ja« [1] „ja“ [2] «ja» [3] 「はい」 [4] ‘yes, don’t’ [5]", [
            ("Ja", ("1",)), ("ja", ("2",)), ("ja", ("3",)), ("はい", ("4",)), ("yes, don’t", ("5",)),
        ]),
        ('"He said "no" to me" [1]', [('He said "no" to me', ("1",))]),
        ("“outer ‘inner’ “more”” [1]", [("outer ‘inner’ “more”", ("1",))]),
        ('“"all" [2].” [1]', [('"all" [2].', ("1",))]),
        ('6" of "real snow" [1]', [("real snow", ("1",))]),
        ('It "stands alone".\n\nNew [1].', [("stands alone", ())]),
        ('"one" [sic], [T]he "two" [see below] [a](b) […] [1]', [("one", ("1",)), ("two", ("1",))]),
        ("Paris is the capital [1].", []),
        ("It's Ann's and Bob's [1].", []),
        ('"one" [1] "one" [1]', [("one", ("1",))]),
        ('"one" [1][2]', [("one", ("1", "2"))]),
        ('"one" (1), (2). In (3) it is.', [("one", ("1", "2"))]),
        ("It comes (1) first.", []),
        ('"one" [Doc 2] and "two" [Source #3]', [("one", ("2",)), ("two", ("3",))]),
        ('"one" [Doc 1, Doc 2] "two" [Sources 1 and 3] "three" [source: 4]', [
            ("one", ("1", "2")), ("two", ("1", "3")), ("three", ("4",)),
        ]),
        ('"one" [1–3] "two" [#2, 4-5]', [("one", ("1", "2", "3")), ("two", ("2", "4", "5"))]),
        ('"one"【1†source】. "two"【2】【3】', [("one", ("1",)), ("two", ("2", "3"))]),
        ('"one" (source 1). "two" (1, 3). "three" (Doc #2)', [
            ("one", ("1",)), ("two", ("1", "3")), ("three", ("2",)),
        ]),
        ('"one" (see 1). It was (1889). "two" [rock and roll] [2021-04]', [
            ("one", ("2021-04",)), ("two", ("2021-04",)),
        ]),
        ("The `serial` executor [1] and `x = 1` (2).", [("serial", ("1",)), ("x = 1", ("2",))]),
        ("```\n`x`\n``` [1]", [("x", ("1",))]),
        ("It says:\n> The oven is\n> lit at \"four\" [1].\nAnd so on.", [('The oven is\nlit at "four"', ("1",))]),
        ("> The oven is lit.\n[1]", [("The oven is lit.", ("1",))]),
        ("> Lit at four. — [1] [Doc 2]", [("Lit at four.", ("1", "2"))]),
        ("> Nothing is cited.\n\n[1]", [("Nothing is cited.", ())]),
        ("", []),
    ],
)  # fmt: skip
def test_quotations_and_citations_of_a_text(text: str, claims: list[tuple[str, tuple[str, ...]]]) -> None:
    """A citation is for what was quoted since the one before it, in its paragraph."""
    assert [(claim.quote, claim.cited) for claim in claims_of(text)] == claims


def test_an_id_of_several_words_comes_before_its_number() -> None:
    """Where a passage is called so."""
    assert claims_of('"one" [Doc 2]', {"Doc 2"})[0].cited == ("Doc 2",)


def test_whether_the_citation_follows_directly() -> None:
    """Only for the last quotation before it, and with nothing but punctuation between."""
    said = claims_of('"one" and "two", [1], [2]. "three" he said [3].')
    assert [claim.direct for claim in said] == [False, True, False]


def test_ids_of_several_words_are_known_ones() -> None:
    """Brackets around words are remarks otherwise."""
    assert claims_of('"one" [Super Bowl 50/3]')[0].cited == ()
    assert claims_of('"one" [Super Bowl 50/3]', {"Super Bowl 50/3"})[0].cited == ("Super Bowl 50/3",)


@pytest.mark.parametrize(
    "answer",
    [
        {"answer": "x", "claims": [{"quote": "a", "passage": "1"}, {"text": "b", "passage": ["1", 2]}]},
        ' {"claims": [{"quote": "a", "passage": 1}, {"quote": "b", "passage": [1, "2"]}]}\n',
    ],
)
def test_an_answer_may_name_its_claims(answer: object) -> None:
    """As a mapping, or as the JSON of one."""
    assert [(claim.quote, claim.cited) for claim in claims_of(answer)] == [("a", ("1",)), ("b", ("1", "2"))]
    assert claims_of({"answer": '"a" [1]'}) == claims_of('"a" [1]')


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ("x", "no list"),
        (["x"], r"claims\[0\] has no text"),
        ([{"quote": 1, "passage": "1"}], r"claims\[0\] has no text"),
        ([{"quote": "a"}], r"claims\[0\] names no"),
        ([{"quote": "a", "passage": []}], r"claims\[0\] names no"),
        ([{"quote": "a", "passage": [None]}], r"claims\[0\] names no"),
        ([{"quote": "a", "passage": list(range(101))}], "101 passages"),
    ],
)
def test_claims_that_cannot_be_read(claims: object, why: str) -> None:
    """The place is named; what is no answer at all is another error."""
    with pytest.raises(Malformed, match=why):
        claims_of({"claims": claims})
    with pytest.raises(Malformed, match="150 passages"):
        claims_of('"a" ' + "".join(f"[{i}]" for i in range(150)))
    for odd in (7, {"x": 1}, None):
        with pytest.raises(ContractError, match="an answer is"):
            claims_of(odd)


@given(st.text('ab "“”„‘’«»[]1^,.\n', max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever marks stand in it: a quotation is a part of the text, and what is cited stands there too."""
    for claim in claims_of(text):
        assert claim.quote in text
        assert all(each in text for each in claim.cited)


@pytest.mark.parametrize(
    "unit",
    [
        '" [1] ',
        'x" [1] ',
        '["',
        "“",
        "“” [1] ",
        '"a [1]',
        "‘",
        "„“",
        '"',
        "[a",
        '"x" ',
        "[1]\n\n",
        "“a [1] ",
        "`",
        "`a` (1) ",
        "> a\n",
        ">",
        "> [1] ",
        "(1)",
    ],
)
def test_long_texts_are_read_in_time_that_grows_with_them(unit: str) -> None:
    """Marks that never close, or close at once, and citations without end."""
    start = time.perf_counter()
    claims_of(unit * (80_000 // len(unit)))
    claims_of(unit * (40_000 // len(unit)) + "x" + "” [1] " * 6_000)
    assert time.perf_counter() - start < 5.0
