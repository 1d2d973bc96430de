"""The items of a recorded round: in words where there are any, and what became of each."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from draftverify.bench.records.entries import Texts
from draftverify.values import Round


def item_of(round: Round, texts: Texts | None, index: int) -> Any:
    """An item in words where there are any, else as it was drafted."""
    return texts.items[index] if texts is not None and index < len(texts.items) else round.items[index]


def spliced_in(round: Round, texts: Texts | None) -> list[Any]:
    """What joined in the place of items, or after them; in words where there are any."""
    decision = round.decision
    values = [value for index, value in zip(decision.joined, decision.emitted, strict=True) if index is None]
    return list(texts.spliced) if texts is not None and len(texts.spliced) == len(values) else values


def emitted_words(round: Round, texts: Texts) -> list[str]:
    """What joined the answer, in words and in order."""
    spliced = iter(texts.spliced)
    return [next(spliced, "") if index is None else texts.items[index] for index in round.decision.joined]


def answer_words(rounds: Sequence[Round], texts: Sequence[Texts | None]) -> str | None:
    """All that joined an answer, as one text; None where some round has no words."""
    pairs = [(round, words) for round, words in zip(rounds, texts, strict=False) if words is not None]
    if not texts or len(pairs) < len(rounds):
        return None
    return "".join(word for pair in pairs for word in emitted_words(*pair))


def fate_of(round: Round, index: int, joined: Container[int | None]) -> str:
    """What became of an item: "kept", "cut" (kept, and cut off by the stopping rule), "corrected", "held", "refused",
    "passed" (and not chosen), "unjudged" (its check failed, timed out or abstained), or "left" (not looked at).
    `joined` is the decision's, made once for all items."""
    decision = round.decision
    if index in decision.kept:
        return "kept" if index in joined else "cut"
    if decision.corrected and any(correction.index == index for correction in decision.corrected):
        return "corrected"
    if index in decision.held:
        return "held"
    if any(refusal.index == index for refusal in decision.refused):
        return "refused"
    verdict = round.checks[index].verdict if index < len(round.checks) else "unchecked"
    return {"pass": "passed", "reject": "refused", "unchecked": "left"}.get(verdict, "unjudged")
