"""What an answer quotes, and which passages it cites for it.

In a text, a citation is an id in brackets, and what it is cited for are the quotations since the citations before it:

    The tower “was finished in 1889” [eiffel-2].         one claim
    It has "three levels" and "eight lifts" [1], [3].    two, each of which should stand in 1 and in 3
    "It was finished in 1889 [^1]."                      one; the citation may stand at the quotation's end
    He called it "an odd lamp post".                     one that cites nothing, if nothing comes in its paragraph

A citation may also be (1), where it follows a quotation directly; [Doc 1], [#1], 【1】 and their like; several, [1, 3];
or a range, [1–3].

Quotation marks are "…", “…”, „…“, «…», »…«, ‹…›, ‘…’, 「…」 and 『…』, one kind within another, and `…`; single
straight marks are apostrophes. Lines that begin with > are one quotation. What a quotation itself quotes is a part of
it. `[sic]`, `[…]`, `[T]he` and `[text](link)` are no citations, nor are several words that are no passage's id. A
citation without a quotation claims nothing that could be looked up.

An answer may also name its claims itself: a mapping, or a text that is its JSON,
`{"answer": "…", "claims": [{"quote": "…", "passage": "eiffel-2"}]}`; `text` may stand for `quote`, and a list of ids
for one. A reader's answer is one claim too: its `quote`, or where it has none the `answer` that stands in the passage,
of the passage whose `id` it has.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from draftverify import ContractError


class Claim(NamedTuple):
    """A quotation and what is cited for it.

    Attributes:
        quote: what stands between the marks.
        cited: the ids that stand in the brackets after it.
        direct: whether the citation follows the quotation with nothing but punctuation between.
    """

    quote: str
    cited: tuple[str, ...]
    direct: bool = True


class Malformed(ValueError):
    """An answer whose claims cannot be read; the message says why."""


def claims_of(answer: Any, sources: Container[str] = ()) -> list[Claim]:
    """The claims of an answer, each once, in their order.

    Args:
        answer: a text, or a mapping with `claims`, or with the text under `answer`; or a reader's answer.
        sources: the ids of passages, for citations of ids of several words.

    Raises:
        Malformed: the claims that it names are not as they must be.
        ContractError: it is neither a text nor such a mapping.
    """
    named = _named(answer)
    if named is not None:
        return list(dict.fromkeys(_in_list(named, sources)))
    if isinstance(answer, Mapping) and "text" in answer and ("quote" in answer or "answer_start" in answer):
        quote = answer.get("quote") or answer["answer"]
        return [Claim(str(quote), (str(answer["id"]),) if "id" in answer else ())]
    text = answer.get("answer") if isinstance(answer, Mapping) else answer
    if not isinstance(text, str):
        raise ContractError(
            f"an answer is a text, or a mapping with `answer` or `claims`; the item is {answer!r:.80}"
        )
    return list(dict.fromkeys(_AnswerText(text, sources).claims()))


def _named(answer: Any) -> Any:
    if isinstance(answer, str) and answer.lstrip()[:1] == "{" and '"claims"' in answer:
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):  # a text that begins like JSON
            return None
    return answer.get("claims") if isinstance(answer, Mapping) else None


def _in_list(named: Any, sources: Container[str]) -> Iterator[Claim]:
    if not isinstance(named, (list, tuple)):
        raise Malformed("`claims` is no list")
    for place, entry in enumerate(named):
        quote = entry.get("quote", entry.get("text")) if isinstance(entry, Mapping) else None
        if not isinstance(quote, str):
            raise Malformed(f"claims[{place}] has no text `quote`")
        passages = entry.get("passage")
        passages = passages if isinstance(passages, (list, tuple)) else [passages]
        if not passages or not all(isinstance(id, (str, int)) for id in passages):
            raise Malformed(f"claims[{place}] names no `passage`")
        yield Claim(quote, _few(id for label in map(str, passages) for id in _ids(label, sources) or [label]))


_MOST = 100


def _few(cited: Iterable[str]) -> tuple[str, ...]:
    """Ids, each once. Thousands after each of thousands of quotations would be an attack."""
    ids = tuple(dict.fromkeys(cited))
    if len(ids) > _MOST:
        raise Malformed(f"{len(ids)} passages are cited at one place; {_MOST} are taken at most")
    return ids


def _ids(label: str, sources: Container[str]) -> list[str]:
    """What stands in brackets as ids: one, or several; none where it is no citation."""
    if (whole := label.lstrip("^").strip()) in sources:
        return [whole]
    ids: list[str] = []
    for part in re.split(r"[,;]|(?<=[0-9]) (?:and|&) (?=\W?[0-9])", whole):
        id = part.strip().lstrip("^")
        numbered = None if id in sources else _NUMBERED.fullmatch(id)
        if numbered and int(numbered[1]) <= (last := int(numbered[2] or numbered[1])):
            ids += map(str, range(int(numbered[1]), min(last, int(numbered[1]) + _MOST) + 1))
        elif id in sources or (re.fullmatch(r"\S*\w\S*", id) and id.lower() != "sic"):
            ids.append(id)
        else:
            return []
    return ids


_NUMBERED = re.compile(
    r"(?:(?:doc|document|passage|source|text|chunk|ref|reference)s?[.:]?[ #]{0,3}|#)?"
    r"([0-9]{1,6})(?:[ ]?[-–—][ ]?([0-9]{1,6}))?(?:†.*)?",
    re.IGNORECASE,
)
_BRACKETS = r"(?:\[\^?[^\[\]\n]{1,200}\](?![\w(])|【[^【】\n]{1,200}】)"
_TOKEN = re.compile(
    r"^[ ]{0,3}>[^\n]*(?:\n[ ]{0,3}>[^\n]*)*"  # a block quote
    r"|(?<!`)`[^`\n]{1,1000}`(?!`)"
    rf"|{_BRACKETS}|\((?:[a-z]{{1,10}}[.:]?[ #]{{1,3}})?[0-9]{{1,3}}(?:[ ]?[,;–-][ ]?[0-9]{{1,3}}){{0,20}}\)"
    r'|\n[ \t]*\n|["“”„‟«»‹›‘’‚「」『』]',
    re.MULTILINE | re.IGNORECASE,
)
_CITATIONS = re.compile(rf"(?:[ \t—–-]{{0,8}}{_BRACKETS}){{1,20}}[ \t.]{{0,8}}\Z")
_ONE_CITATION = re.compile(_BRACKETS)
_BLOCK_MARK = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_BETWEEN = frozenset(" \t\u00a0.,;:!?…)\n")
_CLOSED_BY = {
    '"': '"“„‟', "”": '“„‟"', "“": "„", "»": "«", "«": "»", "›": "‹", "‹": "›", "’": "‘‚", "‘": "‚", "」": "「",
    "』": "『",
}  # fmt: skip
"""What each mark can close."""
_ONLY_CLOSE = frozenset("”’」』")
_LAST_ALONE = frozenset("“«»‹›‘’")
"""Marks that open in one language and close in another, or are apostrophes: they close what was opened last alone."""


_DEEPEST = 8
"""Marks that stand open at once; of more the oldest is taken for a slip, as one that is never closed."""


class _OpenMark(NamedTuple):
    mark: str
    after: int


class _AnswerText:
    """One pass over a text, in which every mark is put down and taken up once."""

    def __init__(self, text: str, sources: Container[str]) -> None:
        self.text = text
        self.sources = sources
        self.open: list[_OpenMark] = []
        self.standing: Counter[str] = Counter()  # the marks that are open
        self.made: list[
            tuple[int, int, tuple[str, ...], bool]
        ] = []  # claims: start and end of the quotation, …
        self.waiting: list[tuple[int, int]] = []  # quotations that no citation came after yet: start and end
        self.cited: list[tuple[int, int]] = []  # those that the citations before this token are for,
        self.ids: list[str] = []  # what these cite,
        self.first = self.reach = 0  # and where they begin and end

    def claims(self) -> list[Claim]:
        for match in _TOKEN.finditer(self.text):
            token, at, end = match[0], match.start(), match.end()
            if token[0] in "[【":
                self._bracketed(token, at, end)
            elif token[0] == "(":
                if self._follows(at):
                    self._bracketed(token, at, end)
            elif token[0] == "`":
                self._end_of_citations()
                self.waiting.append((at + 1, end - 1))
            elif token[0] == "\n":
                self._end_of_paragraph()
            elif token.lstrip(" ")[0] == ">":
                self._block(token, at, end)
            else:
                self._mark(token, at, end)
        self._end_of_paragraph()
        return [Claim(self._quoted(start, end), cited, direct) for start, end, cited, direct in self.made]

    def _quoted(self, start: int, end: int) -> str:
        """The words of a quotation; of a block those behind its marks."""
        quote = self.text[start:end]
        return _BLOCK_MARK.sub("", quote).strip() if _BLOCK_MARK.match(quote) else quote

    def _bracketed(self, token: str, at: int, end: int) -> None:
        ids = _ids(token[1:-1], self.sources)
        if not ids:
            return
        if not (self.ids and self._joins(self.reach, at)):
            self._end_of_citations()
            self.cited, self.waiting, self.first = self.waiting, [], at
        self.ids += ids
        self.reach = end

    def _block(self, block: str, at: int, end: int) -> None:
        """A block quote, with the citations at its end."""
        self._end_of_citations()
        citations = _CITATIONS.search(block, max(0, len(block) - 1000))
        words_end = at + citations.start() if citations else end
        self.waiting.append((at, words_end))
        for match in _ONE_CITATION.finditer(self.text, words_end, end):
            self._bracketed(match[0], *match.span())

    def _follows(self, at: int) -> bool:
        """Whether a citation here would follow a quotation, or another citation, directly."""
        if self.ids:
            return self._joins(self.reach, at)
        return bool(self.waiting) and self._joins(self.waiting[-1][1] + 1, at)

    def _end_of_paragraph(self) -> None:
        self._end_of_citations()
        self.made += [(start, end, (), False) for start, end in self.waiting]
        self.waiting = []

    def _end_of_citations(self) -> None:
        cited = _few(self.ids)
        self.made += [(start, end, cited, self._joins(end + 1, self.first)) for start, end in self.cited]
        self.cited, self.ids = [], []

    def _mark(self, mark: str, at: int, end: int) -> None:
        ids, citation_start = self.ids, self.first
        ends_in_citation = bool(ids) and self._joins(self.reach, at)
        self._end_of_citations()
        opener = self._closed(mark, at)
        if opener is None:
            if mark not in _ONLY_CLOSE and not (mark == '"' and self._looks(at) == "closes"):
                self.open.append(_OpenMark(mark, end))
                self.standing[mark] += 1
                if len(self.open) > _DEEPEST:
                    self.standing[self.open.pop(0).mark] -= 1
            return
        start = opener.after
        for inner in (self.waiting, self.made):  # what a quotation quotes is its own
            while inner and inner[-1][0] > start:
                inner.pop()
        if ends_in_citation and citation_start >= start and not self._cited_after(end):
            self.made.append((start, citation_start, _few(ids), True))
        else:
            self.waiting.append((start, at))

    def _joins(self, start: int, end: int) -> bool:
        """Whether nothing but punctuation, spaces and one line break lies between."""
        between = self.text[start : min(end, start + 17)]
        return len(between) <= 16 and _BETWEEN.issuperset(between) and between.count("\n") <= 1

    def _cited_after(self, at: int) -> bool:
        match = _TOKEN.search(self.text, at, at + 220)
        return match is not None and match[0][0] in "[【" and self._joins(at, match.start())

    def _closed(self, mark: str, at: int) -> _OpenMark | None:
        """What the mark closes, taken from what is open with all that was opened after it; None for nothing."""
        openers = _CLOSED_BY.get(mark, "")
        if mark in _LAST_ALONE:
            if not self.open or self.open[-1].mark not in openers:
                return None
            if mark == "’" and self.text[at + 1 : at + 2].isalpha():
                return None
        elif mark == '"':
            looks = self._looks(at)
            openers = {"opens": "", "either": '"', "closes": openers}[looks]
        if not any(self.standing[opener_mark] for opener_mark in openers):
            return None
        while True:
            opener = self.open.pop()
            self.standing[opener.mark] -= 1
            if opener.mark in openers:
                return opener

    def _looks(self, at: int) -> str:
        """What a straight mark looks like from what stands around it."""
        preceding, following = self.text[at - 1 : at] or " ", self.text[at + 1 : at + 2] or " "
        if (preceding.isspace() or preceding in "([{-–—“„‟«‹‘「『") and not following.isspace():
            return "opens"
        return "closes" if not preceding.isspace() and not following.isalnum() else "either"
