"""How a document becomes passages: by its structure, and by nothing that another document could change.

A passage is `size` units in a row; the next one begins `size - overlap` units later. Units are paragraphs, sentences
or words (a window); the whole document may be one; or a passage is as many words as have `size` tokens. No passage
crosses a Markdown heading. Everything in a document that
is no white space stands in a passage, but for the Markdown headings, which their passages name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from draftverify import ConfigError
from draftverify_llm import need, torch_directory

Unit: TypeAlias = Literal["document", "paragraph", "sentence", "window", "token"]

LONGEST = 10_000
"""Characters; a longer paragraph, sentence or word is cut, at white space where there is some."""

_VERSION = 2
"""Raised with every change of what `pieces` returns, so that an index made otherwise is refused."""

_SIZES = {"window": 100, "token": 200}


class Piece(NamedTuple):
    """A passage's place: `text[start:end]`, and the headings above it, joined."""

    start: int
    end: int
    heading: str


class Splitting(msgspec.Struct, frozen=True):
    """How documents are split.

    Args:
        by: the unit.
        size: units in a passage; None for 1, and for 100 words of a window, the passages of dense passage retrieval
            (Karpukhin et al. 2020).
        overlap: units that a passage shares with the one before.
        tokenizer: whose tokens are the units; "" for other units.
    """

    by: Unit = "paragraph"
    size: int | None = None
    overlap: int = 0
    tokenizer: str = ""

    @property
    def units(self) -> int:
        """How many units a passage has."""
        return self.size if self.size is not None else _SIZES.get(self.by, 1)

    @property
    def identity(self) -> str:
        """The same for splittings that split alike."""
        unit = f"{self.by} of {self.tokenizer}" if self.tokenizer else self.by
        return f"{unit} {self.units}/{self.overlap} v{_VERSION}"

    def check(self) -> None:
        """Refuse what cannot be split by.

        Raises:
            ConfigError: size or overlap is out of its range, or given for whole documents.
        """
        if self.units < 1:
            raise ConfigError(f"{self.units} units make no passage; at least 1 is needed", path="size")
        if not 0 <= self.overlap < self.units:
            raise ConfigError(
                f"passages of {self.units} {self.by} units cannot share {self.overlap}; from 0 to {self.units - 1} can "
                "be shared, and `size` sets how many a passage has",
                path="overlap",
            )
        if self.by == "document" and self.size is not None:
            raise ConfigError(
                "whole documents have no size; leave it out, or split by paragraph", path="size"
            )


def joined(*headings: str) -> str:
    """Headings as one text, the outermost first."""
    return " › ".join(filter(None, headings))


def pieces(text: str, splitting: Splitting, *, markdown: bool = False) -> list[Piece]:
    """The passages of a text, in the order in which they begin; [] of one that is white space.

    Args:
        text: the document.
        splitting: checked.
        markdown: whether lines with # (and lines underlined with = or -) are headings, and fenced code is one unit.
    """
    if splitting.by == "document":
        start, end = _stripped(text, 0, len(text))
        return [Piece(start, end, "")] if start < end else []
    passages = []
    for heading, blocks in _sections(text, markdown):
        units = [unit for block in blocks for unit in _units(text, block, splitting.by, markdown)]
        sizes = _tokens(text, units, splitting.tokenizer) if splitting.tokenizer else [1] * len(units)
        passages += [
            Piece(units[start][0], units[end - 1][1], heading)
            for start, end in _runs(sizes, splitting.units, splitting.overlap)
        ]
    return passages


def _runs(sizes: Sequence[int], most: int, shared: int) -> Iterator[tuple[int, int]]:
    """Runs of units of at most so many in all (or one unit of more), each sharing at most `shared` with the last."""
    start = end = 0
    while end < len(sizes):
        total, end = sizes[start], start + 1
        while end < len(sizes) and total + sizes[end] <= most:
            total, end = total + sizes[end], end + 1
        yield start, end
        if end == len(sizes):
            return
        first, start, total = start, end, 0
        room = min(shared, most - sizes[end])  # what is shared leaves room for the next unit
        while start > first + 1 and total + sizes[start - 1] <= room:
            total, start = total + sizes[start - 1], start - 1


def _tokens(text: str, units: Sequence[tuple[int, int]], tokenizer: str) -> list[int]:
    """How many tokens begin in each unit; in a word that is read as none, one."""
    if not units:
        return []
    first = units[0][0]
    encoded = _tokenizer(tokenizer).encode(text[first : units[-1][1]], add_special_tokens=False)
    starts = [first + start for start, end in encoded.offsets if end > start]
    return [max(1, bisect_left(starts, end) - bisect_left(starts, start)) for start, end in units]


@lru_cache(maxsize=4)
def _tokenizer(name: str) -> Any:
    """The Rust tokenizer of a model, which neither truncates nor pads.

    Raises:
        ConfigError: its directory has no tokenizer.json.
        ResourceError: it cannot be had.
    """
    need("tokenizers", doing="splitting by tokens", extra="retrieval")
    from tokenizers import Tokenizer

    path = torch_directory(name) / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"{name} has no tokenizer.json", path="tokenizer")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class _Block(NamedTuple):
    """Lines between blank ones, or a fenced piece of code with the blank ones in it; a heading has a level, from 1."""

    start: int
    end: int
    code: bool = False
    level: int = 0
    title: str = ""


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?!\S)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*\r?\n?\Z")


def _sections(text: str, markdown: bool) -> Iterator[tuple[str, list[_Block]]]:
    """What stands below each heading; a heading with nothing below it is a block itself."""
    headings: list[_Block] = []
    blocks: list[_Block] = []
    for block in [*_blocks(text, markdown), _Block(len(text), len(text), level=1)]:
        if not block.level:
            blocks.append(block)
            continue
        titles = [heading.title for heading in headings]
        if blocks:
            yield joined(*titles), blocks
        elif headings and block.level <= headings[-1].level:
            yield joined(*titles[:-1]), [headings[-1]]
        headings = [*[heading for heading in headings if heading.level < block.level], block]
        blocks = []


def _blocks(text: str, markdown: bool) -> list[_Block]:
    """Blocks in order, headings among them."""
    blocks: list[_Block] = []
    start: int | None = None
    lines = 0
    fence = ""

    def close(at: int, **kind: Any) -> None:
        nonlocal start, lines
        if start is not None:
            blocks.append(_Block(*_stripped(text, start, at), **kind))
        start, lines = None, 0

    for match in _LINE.finditer(text):
        line = match.group()
        mark = _FENCE.match(line) if markdown else None
        if fence:
            # A fence is closed by one of its own kind, as long or longer, with nothing behind it.
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                close(match.end(), code=True)
                fence = ""
        elif mark:
            close(match.start())
            start, fence = match.start(), mark[1]
        elif markdown and (heading := _HEADING.match(line)):
            close(match.start())
            start = match.start()
            close(match.end(), level=len(heading[1]), title=_title(line[heading.end() :]))
        elif markdown and lines == 1 and (heading := _UNDERLINE.match(line)):
            title = text[start : match.start()].strip()
            close(match.end(), level=1 if heading[1][0] == "=" else 2, title=title)
        elif line.strip():
            start, lines = match.start() if start is None else start, lines + 1
        else:
            close(match.start())
    close(len(text), code=bool(fence))
    return blocks


def _title(line: str) -> str:
    """A heading's words: without the # at their end."""
    title = line.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare != title and (not bare or bare[-1].isspace()) else title


_WORD = re.compile(r"\S+")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+", re.MULTILINE)


def _units(text: str, block: _Block, by: Unit, markdown: bool) -> Iterator[tuple[int, int]]:
    places: Iterable[tuple[int, int]]
    if by in ("window", "token"):
        places = (match.span() for match in _WORD.finditer(text, block.start, block.end))
    elif by == "sentence" and not block.code:
        places = _sentences(text, block, markdown)
    else:
        places = [(block.start, block.end)]
    for start, end in places:
        yield from _cut(text, start, end)


# Counts are bounded: a million dots in a row are to be read in one go.
_END = re.compile(
    r"""[.!?…]{1,50}["'”’»)\]*_]{0,5}(?=\s)"""  # Latin, Greek and Cyrillic end with a space behind
    r"""|[।؟۔]{1,50}["”’)]{0,5}(?=\s)"""  # Devanagari, Arabic, Urdu
    r"""|[。！？｡]{1,50}["”’」』）)]{0,5}"""  # Chinese and Japanese without
)
_BEFORE = re.compile(r"[^\s(\[\"'“‘]+\Z")
_TITLES = re.compile(
    r"(?i:mr|mrs|ms|dr|prof|st|mt|ft|gen|col|capt|cmdr|lt|sgt|rev|hon|gov|sen|rep|pres|figs?|eq|vs|cf|e\.g|i\.e|viz)"
)
_BEFORE_NUMBERS = re.compile(r"(?i:nos?|vol|pp?|ch|sec|approx|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)")
_INITIALS = re.compile(r"[A-Z](?:\.[A-Z])*")


def _sentences(text: str, block: _Block, markdown: bool) -> Iterator[tuple[int, int]]:
    """Sentences of a block: an end mark, unless what follows is lower case or what stands before is an abbreviation.

    Abbreviations are English ones, and initials. Items of a Markdown list begin sentences of their own.
    """
    cuts = [match.start() for match in _BULLET.finditer(text, block.start, block.end)] if markdown else []
    bounds = [block.start, *[cut for cut in cuts if cut > block.start], block.end]
    for start_bound, end_bound in pairwise(bounds):
        begin = looked = start_bound
        worded = False  # dots that lead to a page number are no sentences
        for match in _END.finditer(text, start_bound, end_bound):
            worded = worded or _ALPHANUMERIC.search(text, looked, match.start()) is not None
            looked = match.end()
            if worded and _ends(text, begin, match, end_bound):
                yield _stripped(text, begin, match.end())
                begin, worded = match.end(), False
        start, end = _stripped(text, begin, end_bound)
        if start < end:
            yield start, end


def _ends(text: str, begin: int, match: re.Match[str], end_bound: int) -> bool:
    mark = match.group()[0]
    if mark not in ".!?…":
        return True
    next_word = _WORD.search(text, match.end(), min(end_bound, match.end() + 50))
    following = next_word.group()[0] if next_word else ""
    if following.islower():
        return False
    if mark != "." or match.group() != ".":
        return True
    previous = _BEFORE.search(text, max(begin, match.start() - 20), match.start())
    token = previous.group() if previous else ""
    if _TITLES.fullmatch(token) or (following.isdigit() and _BEFORE_NUMBERS.fullmatch(token)):
        return False
    # J. Smith, the U.S. Army. A sentence may end in initials too; then it goes on to the next end mark.
    return not _INITIALS.fullmatch(token)


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > LONGEST:
        space = max(text.rfind(" ", start, start + LONGEST), text.rfind("\n", start, start + LONGEST))
        cut = space if space > start + LONGEST // 2 else start + LONGEST
        yield _stripped(text, start, cut)
        start, _ = _stripped(text, cut, end)
    if start < end:
        yield start, end


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The place without white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
