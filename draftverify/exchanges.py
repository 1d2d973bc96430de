"""What was said to a model and what it said, as a round's notes keep it: so that a wrong answer can be understood.

A generator notes its requests on its proposal, a verifier its own on the verification, a metric its own on the score,
each as `noted(exchanges)`; tables, pages and exports read them with `exchanges_of`. Texts are kept without secrets and
up to a length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from draftverify.frozen import FrozenDict, freeze
from draftverify.secret import redact
from draftverify.values import Heard, Round

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

KEY = "exchanges"
"""Of notes."""
LONGEST = 20_000
"""Characters of one text that are kept."""
NAMED = 200
"""Characters of a name: a role, a model, a request."""
WHOLE = 400_000
"""Characters of one call's exchanges that are kept."""


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One message that was sent; the role "" is a text as it stands, outside any chat."""

    role: str
    content: str


class ModelReply(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One answer, as it came.

    Args:
        text: the answer.
        item: the place of the item in the block that it became, or about which was asked; None for no single one.
        finish: why it ended, as the model said.
        tokens: sampled.
        logprob: of the tokens, in nats.
        id: by which the server knows the request.
        cached: whether it was bought before.
    """

    text: str
    item: int | None = None
    finish: str = ""
    tokens: int = 0
    logprob: float | None = None
    id: str = ""
    cached: bool = False


class Exchange(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One request and the answers to it.

    Args:
        asked: the messages, as they were sent.
        replies: the answers; none where the request failed.
        model: that answered, as the server names it.
        tokens_in: of the messages.
        tokens_in_cached: those of them that the server had read before, which some sell for less.
        cost: what it cost.
        failure: what went wrong.
    """

    asked: tuple[Turn, ...]
    replies: tuple[ModelReply, ...] = ()
    model: str = ""
    tokens_in: int = 0
    tokens_in_cached: int = 0
    cost: float = 0.0
    failure: str = ""

    def about(self, item: int | None) -> Exchange:
        """The same, of one item of the block, or of none."""
        replies = tuple(msgspec.structs.replace(reply, item=item) for reply in self.replies)
        return msgspec.structs.replace(self, replies=replies)


def noted(exchanges: Iterable[Exchange]) -> dict[str, Any]:
    """Exchanges as notes of a proposal or a verification; nothing where there are none."""
    remaining = WHOLE
    records: list[Any] = []

    def short(text: str) -> str:
        nonlocal remaining
        text = redact(text)  # before the cut, since half a secret is too much of it
        cut = _cut(text, min(LONGEST, remaining))
        remaining -= min(len(text), remaining)
        return cut

    for exchange in exchanges:
        asked = tuple(Turn(_name(turn.role), short(turn.content)) for turn in exchange.asked)
        replies = tuple(
            msgspec.structs.replace(
                reply, text=short(reply.text), finish=_name(reply.finish), id=_name(reply.id)
            )
            for reply in exchange.replies
        )
        records.append(
            msgspec.to_builtins(
                msgspec.structs.replace(
                    exchange,
                    asked=asked,
                    replies=replies,
                    model=_name(exchange.model),
                    failure=short(exchange.failure),
                )
            )
        )
    return {KEY: records} if records else {}


def read_notes(notes: Mapping[str, Any]) -> list[Exchange]:
    """The exchanges that a part noted; what stands there in another form is left out."""
    return list(_entries(notes.get(KEY), Exchange))


def joined_notes(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Mapping[str, Any]:
    """The notes of two passes over a block: the later one's, with the exchanges of both."""
    exchanges = [*read_notes(earlier), *read_notes(later)]
    return FrozenDict({**earlier, **later, **freeze(noted(exchanges))})


def exchanges_of(round: Round) -> Iterator[tuple[str, Exchange]]:
    """What was said in a round: ("draft", …) of its generator, then of its verifier ("verify", …), by stage where it
    has stages. What a part noted in another form is left out.

    After a re-verification no reply has an item: which of them were asked about again is not recorded.
    """
    n = len(round.items)
    yield from _within(round.draft_notes, "draft", range(n))
    yield from _within(round.notes, "verify", range(n if round.timing.passes <= 1 else 0))


def exchanges_of_metric(name: str, notes: Mapping[str, Any]) -> Iterator[tuple[str, Exchange]]:
    """What a metric asked models by the notes of its score: ("metric NAME", …), of a member of a panel ("metric NAME,
    MEMBER", …)."""
    for speaker, exchange in _within(notes, "", ()):
        yield f"metric {name}, {speaker}" if speaker else f"metric {name}", exchange


def _within(notes: Any, speaker: str, places: Sequence[int]) -> Iterator[tuple[str, Exchange]]:
    """The exchanges among notes, and among those of stages; `places` are those of the part's items in the block."""
    if not isinstance(notes, Mapping):
        return
    for exchange in read_notes(notes):
        replies = tuple(
            msgspec.structs.replace(reply, item=_at(places, reply.item)) for reply in exchange.replies
        )
        yield speaker, msgspec.structs.replace(exchange, replies=replies)
    for heard in _entries(notes.get("heard"), Heard):
        inner = [place for item in heard.items if (place := _at(places, item)) is not None]
        yield from _within(heard.notes, heard.stage, inner if len(inner) == len(heard.items) else ())


def _at(places: Sequence[int], item: int | None) -> int | None:
    return places[item] if item is not None and 0 <= item < len(places) else None


def _entries(values: Any, kind: type[_Struct]) -> Iterator[_Struct]:
    for value in values if isinstance(values, (list, tuple)) else ():
        try:
            yield msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue


def _name(text: str) -> str:
    return _cut(redact(text), NAMED)


def _cut(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long, and how much is left out between."""
    excess = len(text) - longest
    if excess <= 0:
        return text
    tail = longest // 4
    return f"{text[: longest - tail]}[… {excess} characters …]{text[len(text) - tail :]}"
