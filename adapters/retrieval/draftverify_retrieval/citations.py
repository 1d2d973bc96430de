"""Citations, checked without any model: does what an answer quotes stand in the passages that it cites for it?

That proves where words come from. It does not prove that they support what the answer says with them: a quotation can
be true to the letter and beside the point. A reader, or a person, follows it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from draftverify import UNCHECKED, Check, Context, Failure, Outcome, Proposal, Task, Verification
from draftverify.traits import VerifierTraits
from draftverify_llm import Shared, check_least
from draftverify_retrieval.answers import values_of
from draftverify_retrieval.claims import Claim, Malformed, claims_of
from draftverify_retrieval.folding import Folded, Word
from draftverify_retrieval.passages import Passage, Passages, passage_of

Kind: TypeAlias = Literal["found", "short", "misattributed", "stitched", "fabricated"]
BAD: tuple[Kind, ...] = ("fabricated", "stitched", "misattributed")
"""The worst first."""
Uncited: TypeAlias = Literal["reject", "abstain", "pass"]


class QuotePlace(NamedTuple):
    """Where words stand: `passage_text[start:end]`, in characters; `passage` is its id (or its number in the list)."""

    passage: str
    start: int
    end: int


class QuoteFinding(NamedTuple):
    """What became of one claim.

    Attributes:
        claim: the quotation and what is cited for it.
        kind: "found": it stands, as whole words, in every passage that is cited for it. "short": it would, but it has
            too few words to prove anything. "misattributed": it stands in passages, and one that is cited is not among
            them, or none is cited. "stitched": no passage has it in one piece, but passages have all of its pieces.
            "fabricated": no passage has it.
        pieces: where it stands, or where its pieces stand, in the quotation's order.
        why: of a bad one, what is wrong, in words for whoever wrote it.
    """

    claim: Claim
    kind: Kind
    pieces: tuple[QuotePlace, ...] = ()
    why: str = ""


class PassageShelf:
    """Passages to look quotations up in.

    Args:
        passages: texts or passages, in the order in which whoever cites them was shown them; or id → text or passage.
            Two with one id are one source. One without an id is cited by its number, from 1; so are all where no id is
            itself a number.
        case: whether upper and lower case differ.
        corpus: where passages are looked for that are cited, or quoted, and not among these.

    Examples:
        >>> shelf = Shelf([{"id": "eiffel-2", "text": "It was finished in 1889, in spring."}])
        >>> (finding,) = shelf.examine(claims_of("It “was finished in 1889” [1]."))
        >>> finding.kind, finding.pieces
        ('found', (QuotePlace(passage='eiffel-2', start=3, end=23),))
    """

    def __init__(
        self, passages: Iterable[Any] | Mapping[str, Any], case: bool = False, corpus: Library | None = None
    ) -> None:
        self.case = case
        self.corpus = corpus or Library(None, case)
        self._names: list[str] = []
        self._texts: list[Folded] = []
        self._by_id: dict[str, frozenset[int]] = {}
        for passage in _listed(passages):
            self._add(passage)
        self._shown = len(self._texts)
        self._numbered = not any(id.isdecimal() for id in self._by_id)

    def __len__(self) -> int:
        return len(self._texts)

    def examine(self, claims: Sequence[Claim], least_words: int = 1) -> list[QuoteFinding]:
        """What becomes of each claim, in their order.

        A quotation of fewer than `least_words` words that no citation follows directly is none, but a word that
        somebody put into quotation marks; it is left out.

        Args:
            claims: of an answer.
            least_words: a quotation of fewer proves nothing where it stands.
        """
        return self._with_cited(claims)._examine(claims, least_words)

    def _with_cited(self, claims: Sequence[Claim]) -> PassageShelf:
        """This shelf and what else is cited of the corpus."""
        shelf = copy(self)
        shelf._names, shelf._texts, shelf._by_id = list(self._names), list(self._texts), dict(self._by_id)
        for id in dict.fromkeys(id for claim in claims for id in claim.cited):
            passage = None if shelf._of(id) else self.corpus.passage(id)
            if passage is not None:
                shelf._add(passage)
        return shelf

    def _examine(self, claims: Sequence[Claim], least_words: int) -> list[QuoteFinding]:
        cited = {claim.cited: self._cited(claim.cited) for claim in claims}
        quotes = {claim.quote: Folded(claim.quote, self.case) for claim in claims}
        places = {quote: self._places(folded) for quote, folded in quotes.items()}
        seams = _Seams(self._texts, [quotes[quote] for quote, standing in places.items() if not standing])
        return [
            self._finding(claim, quote, places[claim.quote], cited[claim.cited], seams, least_words)
            for claim in claims
            if (quote := quotes[claim.quote]).text and (claim.direct or len(quote.words) >= least_words)
        ]

    def claims_of(self, answer: Any) -> list[Claim]:
        """The claims of an answer that cites these passages.

        Raises:
            Malformed, ContractError: as by `draftverify_retrieval.claims.claims_of`.
        """
        return claims_of(answer, self)

    def __contains__(self, id: object) -> bool:
        """Whether there is a passage, or a document, of this id."""
        return id in self._by_id or self.corpus.passage(str(id)) is not None

    def _add(self, passage: Passage) -> None:
        place = len(self._texts)
        name = str(passage.get("id", place + 1))
        self._names.append(name)
        self._texts.append(Folded(passage["text"], self.case))
        for id in {name if "id" in passage else "", passage.get("document", "")} - {""}:
            self._by_id[id] = self._by_id.get(id, frozenset()) | {place}

    def _cited(self, ids: Sequence[str]) -> tuple[list[frozenset[int]], list[str]]:
        """The passages of each id that there is, and the ids of which there is none."""
        return [places for id in ids if (places := self._of(id))], [id for id in ids if not self._of(id)]

    def _of(self, id: str) -> frozenset[int]:
        """The passages of an id; of a number that is no id the passage of this number."""
        is_number = id.isascii() and id.isdecimal() and len(id) < 10 and 1 <= int(id) <= self._shown
        if id not in self._by_id and is_number and (self._numbered or self._names[int(id) - 1] == id):
            return frozenset({int(id) - 1})
        return self._by_id.get(id, frozenset())

    def _places(self, quote: Folded) -> dict[int, tuple[int, int]]:
        """Where a quotation stands in each passage that has it."""
        place_of: dict[int, tuple[int, int]] = {}
        for form in _forms(quote.text):
            for place, text in enumerate(self._texts):
                where = text.find(form)
                if where is not None:
                    place_of.setdefault(place, where)
        return place_of

    def _finding(
        self,
        claim: Claim,
        quote: Folded,
        places: Mapping[int, tuple[int, int]],
        cited: tuple[list[frozenset[int]], list[str]],
        seams: _Seams,
        least_words: int,
    ) -> QuoteFinding:
        lacks = [f"there is no passage {_short(id)}" for id in cited[1]]
        silent = [passages for passages in cited[0] if not passages & places.keys()]
        if places and cited[0] and not silent and not lacks:
            kind: Kind = "found" if len(quote.words) >= least_words else "short"
            holders = sorted(places.keys() & frozenset[int]().union(*cited[0]))
            return QuoteFinding(claim, kind, self._pieces((place, places[place]) for place in holders))
        elsewhere = self._pieces(places.items()) if places else self.corpus.find(quote)
        if elsewhere:
            lacks += [f"passage {_short(self._names[min(passages)])} does not say it" for passages in silent]
            why = f"{', '.join(lacks) or 'nothing is cited for it'}; it stands in {_said(elsewhere)}"
            return QuoteFinding(claim, "misattributed", elsewhere, why)
        parts = seams.pieces(quote)
        if parts is not None:
            pieces = self._pieces(parts)
            why = f"no passage says it in one piece; its pieces stand in {_said(pieces)}"
            if len(pieces) == 1:
                why = (
                    f"no passage says it like this; {_said(pieces)} has the same words with other punctuation"
                )
            return QuoteFinding(claim, "stitched", pieces, why)
        return QuoteFinding(
            claim, "fabricated", (), f"{', '.join([*lacks, 'no passage says it'])}{self._nearly(quote)}"
        )

    def _pieces(self, places: Iterable[tuple[int, tuple[int, int]]]) -> tuple[QuotePlace, ...]:
        return tuple([QuotePlace(self._names[place], *where) for place, where in places])

    def _nearly(self, quote: Folded) -> str:
        """What keeps a quotation from standing somewhere, where it is a cut or letters of another alphabet."""
        for name, text in zip(self._names, self._texts, strict=True):
            at = text.skeleton.find(quote.skeleton)
            if at < 0:
                continue
            for quoted, original in zip(quote.text, text.text[at : at + len(quote.text)], strict=True):
                if quoted != original:
                    return (
                        f"; passage {_short(name)} says what looks like it: for its {_named(original)} the "
                        f"quotation has {_named(quoted)}"
                    )
            return f"; passage {_short(name)} has it within a longer word or number"
        return ""


@dataclass(eq=False)
class Library:
    """A corpus by its passages' ids, folded once.

    Args:
        corpus: the passages; None for none.
        case: whether upper and lower case differ.
    """

    corpus: Passages | None
    case: bool = False

    def passage(self, id: str) -> Passage | None:
        """The passage of an id; None where there is none."""
        row = self._rows.get(id)
        return None if row is None or self.corpus is None else self.corpus.passage(row)

    def find(self, quote: Folded, most: int = 5) -> tuple[QuotePlace, ...]:
        """The first few passages that have a quotation."""
        places = (
            QuotePlace(name, *where)
            for form in _forms(quote.text)
            for name, text in self._texts
            if (where := text.find(form)) is not None
        )
        return tuple(dict.fromkeys(islice(places, most)))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {passage["id"]: row for row, passage in enumerate(self._passages()) if "id" in passage}

    @cached_property
    def _texts(self) -> list[tuple[str, Folded]]:
        return [
            (passage.get("id", str(row)), Folded(passage["text"], self.case))
            for row, passage in enumerate(self._passages(), 1)
        ]

    def _passages(self) -> Iterator[Passage]:
        return iter(()) if self.corpus is None else map(self.corpus.passage, range(len(self.corpus)))


_ELLIPSIS = re.compile(r"[\[(]?\.\.\.+[\])]?|[\[(]?\. \. \.[\])]?")
_SEAM = 3
"""Words in a row that make a piece, unless an ellipsis stands around it: fewer stand in any text."""
_OCCURRENCES = 8


class _Seams:
    """Passages by three words in a row, as far as the quotations have them that stand nowhere.

    A quotation is covered by pieces of three words or more if and only if each of its words lies in three in a row that
    a passage has. How long the pieces are said to be depends on the occurrences that are looked at, of which there are
    so many that it takes no longer than the quotation is long.
    """

    def __init__(self, texts: Sequence[Folded], quotes: Sequence[Folded]) -> None:
        self._texts = texts
        self._wholes: dict[str, tuple[int, tuple[int, int]] | None] = {}
        self._at: dict[tuple[str, ...], list[tuple[int, int]]] = {
            key: [] for quote in quotes for _, part_words in _parts(quote) for key in _triples(part_words)
        }
        if self._at:
            for place, text in enumerate(texts):
                for number, key in enumerate(_triples(text.words)):
                    occurrences = self._at.get(key)
                    if occurrences is not None and len(occurrences) < _OCCURRENCES:
                        occurrences.append((place, number))

    def pieces(self, quote: Folded) -> list[tuple[int, tuple[int, int]]] | None:
        """Where each piece stands, in the quotation's order; None where a part of it stands nowhere."""
        pieces: list[tuple[int, tuple[int, int]]] = []
        for part, part_words in _parts(quote):
            intact = self._whole(part) if len(part_words) < len(quote.words) else None
            for piece in [intact] if intact is not None else self._cover(part_words):
                if piece is None:
                    return None
                pieces.append(piece)
        return pieces or None

    def _whole(self, part: str) -> tuple[int, tuple[int, int]] | None:
        if part not in self._wholes:
            places = ((at, text.find(form)) for form in _forms(part) for at, text in enumerate(self._texts))
            self._wholes[part] = next(((at, where) for at, where in places if where is not None), None)
        return self._wholes[part]

    def _cover(self, quoted: Sequence[Word]) -> Iterator[tuple[int, tuple[int, int]] | None]:
        """Pieces from left to right, each the one that reaches furthest; None where none goes on."""
        start = 0
        while start < len(quoted):
            reach, piece = start, None
            for start_word in range(max(0, start - _SEAM + 1), start + 1):
                for place, number in self._at.get(_key(quoted, start_word), ()):
                    theirs, n = self._texts[place].words, _SEAM
                    while (
                        start_word + n < len(quoted)
                        and number + n < len(theirs)
                        and quoted[start_word + n].text == theirs[number + n].text
                    ):
                        n += 1
                    if start_word + n > reach:
                        reach, piece = start_word + n, (place, number + start - start_word, number + n - 1)
            if piece is None:
                yield None
                return
            place, begin, finish = piece
            theirs = self._texts[place].words
            where = self._texts[place].original_place(theirs[begin].start, theirs[finish].end)
            yield None if where is None else (place, where)
            start = reach


def _parts(quote: Folded) -> list[tuple[str, list[Word]]]:
    """What stands between a quotation's ellipses, with its words."""
    edges = [0, *[edge for match in _ELLIPSIS.finditer(quote.text) for edge in match.span()], len(quote.text)]
    parts, remaining = [], iter(quote.words)
    current = next(remaining, None)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        part_words = []
        while current is not None and current.start < end:
            part_words.append(current)
            current = next(remaining, None)
        if part_words:
            parts.append((quote.text[start:end].strip(), part_words))
    return parts


def _triples(run: Sequence[Word]) -> Iterator[tuple[str, ...]]:
    return (_key(run, start) for start in range(len(run) - _SEAM + 1))


def _key(run: Sequence[Word], start: int) -> tuple[str, ...]:
    return tuple([token.text for token in run[start : start + _SEAM]])


# A row of dots is tried from its first alone: of 50,000 that end in a word each would be.
_EDGE = re.compile(r"^[\[(]?\.\.\.+[\])]?|[\[(]?(?<!\.)\.\.\.+[\])]?$")


def _forms(folded: str) -> Sequence[str]:
    """A quotation as it is, and without an ellipsis around it and the punctuation of the sentence that it stands in."""
    bare = _EDGE.sub("", folded).strip(" .,;:!?")
    return list(dict.fromkeys([folded, bare])) if bare else [folded]


def _named(character: str) -> str:
    return f"{character!r} ({unicodedata.name(character, '?')})"


def _listed(passages: Iterable[Any] | Mapping[str, Any]) -> Iterator[Passage]:
    if not isinstance(passages, Mapping):
        yield from map(passage_of, passages)
        return
    for id, item in passages.items():
        yield {**passage_of(item), "id": str(id)}


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _said(pieces: Sequence[QuotePlace], most: int = 5) -> str:
    places = [f"{_short(piece.passage)} [{piece.start}:{piece.end}]" for piece in pieces[:most]]
    return " and ".join(places) + (f" and {len(pieces) - most} more" if len(pieces) > most else "")


class _PassageSource(Shared[Library]):
    """Where the passages are that citations are looked up in."""

    corpus: Passages | None
    case: bool

    def _members(self) -> list[Any]:
        return [self.corpus]

    def _make(self) -> Library:
        return Library(self.corpus, self.case)

    def _shelf(self, task: Task, readings: Iterable[Any] = ()) -> PassageShelf:
        texts = [
            reading
            for reading in readings
            if isinstance(reading, Mapping) and isinstance(reading.get("text"), str)
        ]
        return PassageShelf([*_listed(task.input.get("passages", ())), *texts], self.case, self._get())


@dataclass(eq=False)
class Citations(_PassageSource):
    """Passes answers whose quotations stand in the passages that they cite, word for word. It needs no model.

    How an answer quotes and cites is said in `draftverify_retrieval.claims`: “…” [id]. The passages are those of
    the task's input (`passages`: texts or passages, or id → text), what was accepted or is held so far, and those of
    the corpus. White space, Unicode's writings of one text, quotation marks and dashes make no difference; a letter
    of another alphabet does.

    An answer passes when every claim of it is found, and at least `claims_needed` are. The reason of a rejection is the
    worst of its claims: "fabricated", "stitched" or "misattributed"; "too few"; "uncited"; or "malformed". The score is
    the share of its claims that are found, 0 of none. The notes have, for each item, how many claims there are of each
    kind, and the first hundred of them with their places.

    That an answer passes proves where its quotations come from, and not that they support it.

    Args:
        corpus: where passages are looked for that the task does not bring.
        claims_needed: so many found claims, at least, make an answer that has claims pass.
        uncited: the verdict on an answer without any claim that counts.
        least_words: a quotation of fewer words counts for nothing where it is found. It is a bad one where it is not,
            and the citation follows it directly.
        case: whether upper and lower case differ.
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset())

    corpus: Passages | None = None
    claims_needed: int = 1
    uncited: Uncited = "reject"
    least_words: int = 3
    case: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, claims_needed=self.claims_needed, least_words=self.least_words)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per answer, and the claims in the notes.

        Raises:
            ContractError: a passage of the task is none.
        """
        shelf = self._shelf(context.task, [*context.accepted, *[held.value for held in context.held]])
        checks: list[Check] = []
        notes: list[Any] = []
        for item in proposal.items:
            passed = sum(check.verdict == "pass" for check in checks)
            enough = context.enough is not None and passed >= context.enough
            check, findings = (UNCHECKED, None) if enough else self._judged(item, shelf)
            checks.append(check)
            notes.append(None if findings is None else _noted(findings))
        return Verification(checks=tuple(checks), notes={"citations": notes})

    def _judged(self, item: Any, shelf: PassageShelf) -> tuple[Check, Sequence[QuoteFinding]]:
        try:
            findings = shelf.examine(shelf.claims_of(item), self.least_words)
        except Malformed as error:
            return Check("reject", 0.0, "malformed", f"the citations cannot be read: {error}"), ()
        except Exception as error:
            failure = Failure.of(error)
            return Check("error", reason=failure.error, feedback=failure.message), ()
        if findings and not shelf and self.corpus is None:
            return Check("abstain", reason="no passages", feedback="there is no passage to look in"), ()
        return self._check(findings), findings

    def _check(self, findings: Sequence[QuoteFinding]) -> Check:
        bad = [finding for finding in findings if finding.kind in BAD]
        count = sum(finding.kind == "found" for finding in findings)
        if bad:
            worst = min((finding.kind for finding in bad), key=BAD.index)
            lines = [f"“{_short(finding.claim.quote)}”: {finding.why}" for finding in bad[:10]]
            remainder = [f"and {len(bad) - 10} more"] if len(bad) > 10 else []
            feedback = "quote passages word for word and cite those: " + "\n".join([*lines, *remainder])
            return Check("reject", count / (count + len(bad)), worst, feedback)
        ask = f'quote at least {self.least_words} words that a passage says, and cite it: "…" [id]'
        if not count:
            return Check(self.uncited, 0.0, "uncited", "" if self.uncited == "pass" else ask)
        if count < self.claims_needed:
            return Check(
                "reject", 1.0, "too few", f"{count} of {self.claims_needed} quotations that are needed; {ask}"
            )
        return Check("pass", 1.0)


def _noted(findings: Sequence[QuoteFinding]) -> dict[str, Any]:
    return {
        "kinds": dict(Counter(finding.kind for finding in findings)),
        "claims": [
            {
                "quote": _short(finding.claim.quote, 200),
                "cited": [_short(label) for label in finding.claim.cited],
                "kind": finding.kind,
                "at": [list(piece) for piece in finding.pieces[:10]],
                **({"why": finding.why} if finding.why else {}),
            }
            for finding in findings[:100]
        ],
    }


@dataclass(eq=False)
class Cited(_PassageSource):
    """The share of an answer's claims that stand in the passages that they cite, as `Citations` finds them.

    An answer without any claim that counts has 0; what was not accepted has no share. The passages are those of the
    task's input and of the corpus.

    Args:
        corpus: where passages are looked for that the task does not bring.
        least_words: quotations of fewer words do not count where they are found.
        case: whether upper and lower case differ.
    """

    corpus: Passages | None = None
    least_words: int = 3
    case: bool = False

    def __call__(self, task: Task, outcome: Outcome) -> float | None:
        """The share, over all values of the outcome together.

        Raises:
            ContractError: a value is no answer.
        """
        answers = values_of(outcome)
        if not answers:
            return None
        shelf = self._shelf(task)
        kinds: Counter[str] = Counter()
        for answer in answers:
            try:
                claims = shelf.claims_of(answer)
            except Malformed:
                kinds["malformed"] += 1
                continue
            kinds.update(finding.kind for finding in shelf.examine(claims, self.least_words))
        counted = kinds.total() - kinds["short"]
        return kinds["found"] / counted if counted else 0.0
