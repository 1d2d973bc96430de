"""A pairwise judge's verdicts from a file, asked like the judge itself: `llm.recorded_judge`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from draftverify import ConfigError, Context, Proposal, Verification
from draftverify.kit.audit import PairVerdict, Presented, Variation, as_choice
from draftverify.secret import quiet
from draftverify.traits import EvidenceKind, VerifierTraits
from draftverify_llm.jsonl import MISSING, read_rows, value_at
from draftverify_llm.pairwise_judge import Against, compared

_log = quiet(logging.getLogger(__name__))


class RecordedJudge:
    """Replays verdicts on pairs of answers: in pipelines, and in audits, where what was not asked then is not tested.

    Each line of the file is a JSON object: the question, two answers, and the verdict on them in this order; where the
    judge was asked in the other order too, that verdict as well, in the words of the order that it saw: "first" is
    the answer that stood first then; a file that looks as if it meant the line's own order is warned of. A verdict is
    one of the words that labels may have (`as_choice`: first, second, tie, A, B, C, 1, 2, 0, A>B, …); anything else is
    a reply without a verdict, and kept as its words. A pair may stand in two lines, one for each order. Pairs are found
    by their texts; an audit finds them by their id too, where lines have one, since texts may stand twice. Where every
    pair has both orders a win takes both, as of `llm.pairwise_judge`; else the one order that was asked decides.

    Args:
        path: the file, UTF-8; empty lines are skipped.
        fields: which field of a line, or path with dots, holds "question", "first", "second", "verdict", "swapped" (the
            verdict in the other order), "words" and "id"; each its own name when it is not said.
        against: which pairs of a block are looked up: "all" or "knockout".
        family: the line of models that the verdicts rest on, such as "gpt-4".
    """

    def __init__(
        self, path: Path, fields: Mapping[str, str] = {}, against: Against = "all", family: str = "unknown"
    ) -> None:
        self.path = Path(path)
        self.fields = fields
        self.against = against
        self.family = family
        self._said: tuple[dict[_Key, PairVerdict], bool] | None = None

    @cached_property
    def traits(self) -> VerifierTraits:
        """Of the family that was given."""
        provides: set[EvidenceKind] = {"verdicts", "scores", "cross"}
        return VerifierTraits(provides=provides, reads=frozenset(), families={self.family})

    def open(self) -> None:
        """Read the file.

        Raises:
            ConfigError: with the line, when it is not as it must be.
        """
        self._known()

    def close(self) -> None:
        """Let the verdicts go; the next use reads them again."""
        self._said = None

    @property
    def both(self) -> bool:
        """Whether every pair was judged in both orders."""
        return self._known()[1]

    @property
    def varies(self) -> frozenset[Variation]:
        """The order, where every pair was judged in both."""
        return frozenset({"order"} if self.both else ())

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """The block's comparisons."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks."""
        if self.both:
            return compared(contexts, proposals, self.compare, self.against)
        return compared(contexts, proposals, self._either, self.against, orders=1)

    def compare(self, pairs: Sequence[Presented]) -> list[PairVerdict]:
        """The recorded word on each pair in this order; "not recorded" where there is none."""
        recorded, unknown = self._known()[0], PairVerdict(None, why="not recorded")
        answers = []
        for pair in pairs:
            texts = (pair.question, pair.first, pair.second)
            answers.append(recorded.get((*texts, pair.id)) or recorded.get((*texts, "")) or unknown)
        return answers

    def _either(self, pairs: Sequence[Presented]) -> list[PairVerdict]:
        """The word on each pair in whichever order it was asked, as of this one."""
        answers = []
        for pair, answer in zip(pairs, self.compare(pairs), strict=True):
            if answer.why == "not recorded":
                (answer,) = self.compare([Presented(pair.question, pair.second, pair.first)])
                answer = _turned(answer)
            answers.append(answer)
        return answers

    def _known(self) -> tuple[dict[_Key, PairVerdict], bool]:
        if self._said is None:
            recorded = self._read()
            self._said = recorded, all((key[0], key[2], key[1], key[3]) in recorded for key in recorded)
        return self._said

    def _read(self) -> dict[_Key, PairVerdict]:
        names = {name: name for name in ("question", "first", "second", "verdict", "swapped", "words", "id")}
        for name in self.fields:
            if name not in names:
                raise ConfigError(f"{name!r} is none of {', '.join(names)}", path=f"fields.{name}")
        names |= self.fields
        recorded: dict[_Key, PairVerdict] = {}
        for where, row in read_rows(self.path):
            self._take(row, names, recorded, where)
        if not recorded:
            raise ConfigError("the file holds no verdicts", where=str(self.path))
        if _read_from_the_other_side(recorded):
            _log.warning(
                "%s: nearly every pair has one verdict in both orders; if %r says which answer is better as the line "
                "has them, and not as the judge saw them, exchange its words",
                self.path, names["swapped"],
            )  # fmt: skip
        return recorded

    def _take(
        self, row: Mapping[str, Any], names: Mapping[str, str], recorded: dict[_Key, PairVerdict], where: str
    ) -> None:
        """One line's verdicts. Without an id a pair has one verdict; with ids the first line speaks for the texts."""
        entry = {name: value for name in names if (value := value_at(row, names[name])) is not MISSING}
        question, first, second = (
            _text(entry.get(name), names[name], where) for name in ("question", "first", "second")
        )
        if "verdict" not in entry:
            raise ConfigError(f"there is no field {names['verdict']!r}", where=where)
        id, text = entry.get("id", ""), entry.get("words")
        verdicts = {(first, second): entry["verdict"]}
        if entry.get("swapped") is not None and first != second:
            verdicts[second, first] = entry["swapped"]
        for pair, verdict in verdicts.items():
            choice = as_choice(verdict)
            answer = PairVerdict(choice, words=text if isinstance(text, str) else "")
            if choice is None:
                answer = PairVerdict(None, why="no verdict", words=answer.words or str(verdict))
            key = (question, *pair, str(id))
            if key in recorded and recorded[key].choice != choice:
                raise ConfigError("this pair stands in an earlier line, with another verdict", where=where)
            recorded[key] = answer
            recorded.setdefault((question, *pair, ""), answer)


_Key: TypeAlias = tuple[str, str, str, str]
"""Question, first answer, second answer, and the line's id or ""."""


def _read_from_the_other_side(recorded: Mapping[_Key, PairVerdict]) -> bool:
    """Whether a judge contradicts itself on nearly every pair and is no judge who keeps to a place: both places win."""
    pairs = [
        (answer.choice, recorded[question, second, first, id].choice)
        for (question, first, second, id), answer in recorded.items()
        if first < second and (question, second, first, id) in recorded
    ]
    decided = [here for here, there in pairs if here == there and here != "tie" and here is not None]
    least = min(decided.count("first"), decided.count("second"))
    return len(pairs) >= 20 and len(decided) >= 0.8 * len(pairs) and least >= 0.2 * len(pairs)


def _turned(answer: PairVerdict) -> PairVerdict:
    if answer.choice is None or answer.choice == "tie":
        return answer
    return PairVerdict("second" if answer.choice == "first" else "first", words=answer.words)


def _text(value: Any, field: str, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"the field {field!r} should be a text, not {value!r:.60}", where=where)
    return value
