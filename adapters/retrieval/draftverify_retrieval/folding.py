"""Texts folded so that writings of one text are alike, with the way back to where something stands in the original.

Folded is what Unicode calls compatibility (NFKD: ligatures, full-width letters, composed accents), and beyond it: white
space is one space, quotation marks and dashes are one each, 65,536 is 65536, what cannot be seen (soft hyphens, zero-
width characters, variation selectors) is left out, and upper and lower case are one where that is wished. What is *not*
folded: letters of another alphabet that look alike, and powers, since 10² is not 102.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import regex

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts that put no space between words: there every character is a word."""
_WORD = regex.compile(
    rf"(?V1)[{_UNSPACED}]\p{{M}}*"
    rf"|(?:[[\p{{L}}\p{{N}}\p{{M}}_]--[{_UNSPACED}]]|(?<=\p{{L}}\p{{M}}?)'(?=\p{{L}})|(?<=\p{{N}})[.,](?=\p{{N}}))+"
)
_UNSPACED_ONE = regex.compile(rf"[{_UNSPACED}]")
_THOUSANDS = r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))"
_COMMA = re.compile(_THOUSANDS)
_SEGMENT = regex.compile(
    rf"(?P<space>[\s\x1c-\x1f]+)|(?P<comma>{_THOUSANDS})|(?:(?!{_THOUSANDS})[!-~])+(?=[\x00-\x7f]|\Z)"
    r"|.[\p{M}ﾞﾟ]{0,30}",
    regex.DOTALL,
)
"""White space; a comma in a number; visible ASCII, but for a letter that an accent may follow; or any one character and
its marks, of which UAX #15 allows 30: putting longer runs in order is quadratic."""
_QUOTES = {
    **dict.fromkeys("“”„‟«»〝〞〟", '"'),
    **dict.fromkeys("‘’‚‛‹›`´′ʼ", "'"),
    "″": '"',
    "−": "-",
}
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")

_LOOKS_LIKE = str.maketrans(
    "авеіјкмнорсԁтухѕһԛԝαεικνορτυχАВЕІЈКМНОРСТУХЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ",
    "abeijkmhopcdtyxshqwaeikvoptuxABEIJKMHOPCTYXSABEZHIKMNOPTYXiag",
)


class Word(NamedTuple):
    """A word of a folded text, and where it stands in it."""

    text: str
    start: int
    end: int


class Folded:
    """A text, folded.

    Args:
        original: the text.
        case: whether upper and lower case differ.

    Attributes:
        text: the folded text, without space around it.

    Examples:
        >>> passage = Folded("It was “co\u00adoperation”,\\n not ﬁre.")
        >>> passage.text
        'it was "cooperation", not fire.'
        >>> passage.find(Folded("Not fire").text)
        (24, 31)
    """

    def __init__(self, original: str, case: bool = False) -> None:
        self.original = original
        self.case = case
        plain = " ".join(original.split())
        if plain.isascii() and plain.isprintable():  # the same, much faster
            self.text = _COMMA.sub("", plain if case else plain.lower()).replace("`", "'")
        else:
            self.text = "".join([folded for folded, _, _ in self._segments()]).rstrip(" ")

    def find(self, folded: str) -> tuple[int, int] | None:
        """Where a folded text first stands in this one as whole words, in characters of the original; None if nowhere.

        Whole words are those of UAX #29: no part of one, of a number (the 5 of 1.5), or of a letter with its accent
        stands anywhere. Nor does a number without its sign or its exponent.
        """
        at = self.text.find(folded) if folded else -1
        while at >= 0:
            end = at + len(folded)
            if not self._cuts(at) and not self._cuts(end):
                place = self.original_place(at, end)
                if place is not None:
                    return place
            match = _WORD.match(self.text, at)  # nothing that begins within this word is whole
            at = self.text.find(folded, match.end() if match else at + 1)
        return None

    def original_place(self, start: int, end: int) -> tuple[int, int] | None:
        """A place in the folded text, in the original; None where it begins or ends within one of its characters."""
        sources = self._sources
        if (start and sources[start - 1] == sources[start]) or sources[end - 1 : end] == sources[
            end : end + 1
        ]:
            return None
        return sources[start][0], sources[end - 1][1]

    @cached_property
    def words(self) -> list[Word]:
        """Its words, without punctuation."""
        return [Word(match[0], match.start(), match.end()) for match in _WORD.finditer(self.text)]

    @cached_property
    def skeleton(self) -> str:
        """The folded text with letters of other alphabets as the Latin ones that they look like, as in UTS #39.

        Cyrillic and Greek ones and a few more; as long as `text`.
        """
        return self.text.translate(_LOOKS_LIKE)

    @cached_property
    def _sources(self) -> list[tuple[int, int]]:
        """The stretch of the original that each folded character comes from; one of ASCII comes from its own."""
        sources: list[tuple[int, int]] = []
        for folded, start, end in self._segments():
            if len(folded) == end - start and self.original[start:end].isascii():
                sources += [(place, place + 1) for place in range(start, end)]
            else:
                sources += [(start, end)] * len(folded)
        return sources

    def _segments(self) -> Iterator[tuple[str, int, int]]:
        """What each stretch of the original folds to, and where it stands."""
        spaced = True
        for match in _SEGMENT.finditer(self.original):
            if match["space"]:
                folded = "" if spaced else " "
            else:
                folded = "" if match["comma"] else _fold(match[0], self.case)
            spaced = folded == " " if folded else spaced
            yield folded, *match.span()

    def _cuts(self, at: int) -> bool:
        """Whether this place lies within a word or a number."""
        text = self.text
        if not 0 < at < len(text):
            return False
        left, right = text[at - 1], text[at]
        if _is_letter(left) and _is_letter(right):
            return not (_UNSPACED_ONE.match(left) or _UNSPACED_ONE.match(right))
        further_before, further_after = text[at - 2 : at - 1], text[at + 1 : at + 2]
        if right == "'":
            return left.isalpha() and further_after.isalpha()
        if left == "'":
            return right.isalpha() and further_before.isalpha()
        if right in ".,^":
            return left.isdigit() and further_after.isdigit()
        if left in ".,^":
            return right.isdigit() and (further_before.isdigit() or left == "^")
        return left == "-" and right.isdigit() and not _is_letter(further_before or " ")


@lru_cache(maxsize=65536)
def _fold(segment: str, case: bool) -> str:
    """A run of ASCII, or a character and the marks that belong to it."""
    raised = unicodedata.decomposition(segment[0]).startswith("<super>")
    text = unicodedata.normalize("NFKD", "".join([_QUOTES.get(c, c) for c in segment]))
    if not case:
        text = unicodedata.normalize("NFKD", text.casefold())
    visible = "".join([_seen(c) for c in text])
    return f"^{visible}" if raised and visible.isdigit() else visible


@lru_cache(maxsize=65536)
def _seen(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cf", "Cc") or character.isspace() or _INVISIBLE.match(character):
        return ""
    return "-" if category == "Pd" else _QUOTES.get(character, character)


@lru_cache(maxsize=65536)
def _is_letter(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LNM"
