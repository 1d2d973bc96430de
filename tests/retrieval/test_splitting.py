"""How a document becomes passages."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError, ResourceError
from draftverify_retrieval import Corpus
from draftverify_retrieval.splitting import LONGEST, Splitting, pieces

from . import tiny
from .corpora import passages, write_lines

PROSE = st.text(alphabet="abAB .!?\n\r\t#-`第。é", max_size=200)
UNITS = st.sampled_from(["paragraph", "sentence", "window"])


def words(text: str, by: str = "sentence", markdown: bool = False, **settings: int) -> list[str]:
    """What the passages say."""
    return [text[start:end] for start, end, _ in pieces(text, Splitting(by, **settings), markdown=markdown)]


@given(PROSE, UNITS, st.integers(1, 4), st.data())
def test_every_character_that_is_no_space_stands_in_a_passage(text, by, size, data):
    """Whatever the unit, the size and the overlap."""
    overlap = data.draw(st.integers(0, size - 1))
    found = pieces(text, Splitting(by, size, overlap))
    covered = {place for start, end, _ in found for place in range(start, end)}
    assert {place for place, each in enumerate(text) if not each.isspace()} <= covered


@given(PROSE, UNITS, st.integers(1, 4))
def test_without_overlap_no_character_stands_in_two(text, by, size):
    """Passages come in order, one behind the other, with no white space at their ends."""
    found = pieces(text, Splitting(by, size))
    assert all(left.end <= right.start for left, right in pairwise(found))
    assert all(text[start:end].strip() == text[start:end] != "" for start, end, _ in found)


@given(PROSE, UNITS, st.integers(2, 4), st.data())
def test_overlap_shares_just_so_many_units(text, by, size, data):
    """A passage begins `size - overlap` units after the one before, and the last reaches the end."""
    overlap = data.draw(st.integers(0, size - 1))
    units = pieces(text, Splitting(by, 1))
    found = pieces(text, Splitting(by, size, overlap))
    starts = [unit.start for unit in units]
    assert [each.start for each in found] == starts[:: size - overlap][: len(found)]
    assert not units or found[-1].end == units[-1].end


@given(PROSE, UNITS)
def test_in_markdown_what_stands_in_no_passage_is_a_heading(text, by):
    """Lines that are lost from the passages are named by a passage's heading, or are marks alone."""
    found = pieces(text, Splitting(by), markdown=True)
    covered = {place for start, end, _ in found for place in range(start, end)}
    headings = " ".join(heading for *_, heading in found)
    lost = [each for place, each in enumerate(text) if place not in covered and not each.isspace()]
    assert set(lost) <= set(headings) | set("#-=")


@given(
    st.lists(st.text(alphabet="abc .", min_size=1).filter(str.strip), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_a_paragraph_is_the_same_whatever_the_others_say(paragraphs, place):
    """A change of one paragraph leaves the passages of the others."""
    paragraphs = [each.strip() for each in paragraphs]
    before = words("\n\n".join(paragraphs), "paragraph")
    place %= len(paragraphs)
    after = words("\n\n".join([*paragraphs[:place], "changed", *paragraphs[place + 1 :]]), "paragraph")
    assert before == paragraphs
    assert after == [*before[:place], "changed", *before[place + 1 :]]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met J. R. Doe. They spoke.", ["Dr. Smith met J. R. Doe.", "They spoke."]),
        ("It costs 3.50 in Fig. 2. Really.", ["It costs 3.50 in Fig. 2.", "Really."]),
        ("On Jan. 5 it rained. In Jan. It snowed.", ["On Jan. 5 it rained.", "In Jan.", "It snowed."]),
        ('He said "Stop!" and left. "Why?" she asked.', ['He said "Stop!" and left.', '"Why?" she asked.']),
        ("The U.S. Army came. e.g. here.", ["The U.S. Army came. e.g. here."]),
        ("(It ended.) Then it began.", ["(It ended.)", "Then it began."]),
        ("第一句。第二句！「第三句。」完", ["第一句。", "第二句！", "「第三句。」", "完"]),
        ("यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("What?! No... Yes", ["What?!", "No...", "Yes"]),
        ("no end mark", ["no end mark"]),
        ("Tags . . . . . 4\n3 Use . . . . . 5\nOne. Two.", ["Tags .", ". . . . 4\n3 Use .", ". . . . 5\nOne.", "Two."]),
        ("One line\nthat goes on. Two.\n\nA new paragraph", ["One line\nthat goes on.", "Two.", "A new paragraph"]),
        (" \n\t", []),
    ],
)  # fmt: skip
def test_sentences(text, sentences):
    """End marks end them, abbreviations, initials, numbers and quotations inside do not; paragraphs do."""
    assert words(text) == sentences


MARKDOWN = """Before.

# Guide #

First. Second.

## Install
- one item. And more.
- two

~~~
# no heading

x = 1. y
~~~
Use
===
Text

## Nothing here
## Last
Done.
"""


def test_markdown_is_split_below_its_headings():
    """Headings of both kinds are named outermost first, code is one unit, and an empty heading is a passage."""
    found = pieces(MARKDOWN, Splitting("sentence"), markdown=True)
    assert [(heading, MARKDOWN[start:end]) for start, end, heading in found] == [
        ("", "Before."),
        ("Guide", "First."),
        ("Guide", "Second."),
        ("Guide › Install", "- one item."),
        ("Guide › Install", "And more."),
        ("Guide › Install", "- two"),
        ("Guide › Install", "~~~\n# no heading\n\nx = 1. y\n~~~"),
        ("Use", "Text"),
        ("Use", "## Nothing here"),
        ("Use › Last", "Done."),
    ]


def test_a_window_does_not_cross_a_heading():
    """Words below one heading are never in a passage with words below another."""
    text = "# A\none two three\n# B\nfour five"
    assert words(text, "window", markdown=True, size=2, overlap=1) == ["one two", "two three", "four five"]


def test_a_file_that_is_no_markdown_has_no_headings():
    """A # begins a comment there, or anything."""
    assert words("# one\ntwo", "paragraph") == ["# one\ntwo"]


@pytest.mark.parametrize(
    "by", [pytest.param("paragraph", marks=pytest.mark.exhaustive), "sentence", "window"]
)
@pytest.mark.parametrize(
    "text",
    ["." * 10**6, ". " * 500_000, "a. " * 300_000, "# " + " " * 10**6 + "x", "x" * 10**6, "\n" * 10**6 + "a",
     "word " * 200_000],
    ids=["points", "leaders", "abbreviations", "long heading", "one word", "empty lines", "one line"],
)  # fmt: skip
def test_a_megabyte_of_anything_is_split_in_one_go(by, text):
    """No text takes time that grows with its square, and no passage has more characters than its units may."""
    start = perf_counter()
    found = pieces(text, Splitting(by), markdown=True)
    assert perf_counter() - start < 20
    most = (100 if by == "window" else 1) * LONGEST
    assert max(len("".join(text[start:end].split())) for start, end, _ in found) <= most


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"by": "sentence", "size": 0}, "size"),
        ({"by": "sentence", "overlap": 1}, "overlap"),
        ({"by": "window", "size": 5, "overlap": 5}, "overlap"),
        ({"by": "window", "overlap": -1}, "overlap"),
        ({"by": "document", "size": 2}, "size"),
    ],
)
def test_a_splitting_that_cannot_be_is_refused(settings, path):
    """By the argument's name."""
    with pytest.raises(ConfigError) as found:
        Splitting(**settings).check()
    assert found.value.path == path


def test_passages_of_so_many_tokens(tmp_path: Path) -> None:
    """Whole words of a real tokenizer, no more tokens than asked for unless one word has more; overlap is in tokens."""
    from tokenizers import Tokenizer

    directory = tiny.save(tmp_path / "encoder")
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    text = (
        "The king of Paris found gold in the river. " * 4 + "extraordinarilylongwordindeed end.\n\nLast one."
    )

    def count(start: int, end: int) -> int:
        return len(tokenizer.encode(text[start:end], add_special_tokens=False).ids)

    for size, overlap in ((12, 0), (12, 5), (1, 0), (1000, 0)):
        split = pieces(text, Splitting("token", size, overlap, str(directory)))
        words = text.split()
        for piece in split:
            assert count(piece.start, piece.end) <= size or " " not in text[piece.start : piece.end]
        if not overlap:
            assert [word for piece in split for word in text[piece.start : piece.end].split()] == words
        for before, after in pairwise(split):
            assert before.start < after.start
            assert before.end < after.end
            assert count(after.start, before.end) <= overlap if overlap else after.start >= before.end
    corpus = Corpus(
        write_lines(tmp_path / "pages.jsonl", {"a": text}), split="token", size=12, tokenizer=directory
    )
    assert len(passages(corpus)) == len(pieces(text, Splitting("token", 12, 0, str(directory))))
    with pytest.raises(ResourceError):
        Corpus(tmp_path / "pages.jsonl", split="token", tokenizer=tmp_path / "nowhere").open()
