"""The generator, answering from the log: the recorded items in the places where they were drafted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from draftverify.engine.parts import Parts
from draftverify.engine.requests import Draft
from draftverify.lab.replay.log import Absent, Log, Missing, Origin, best, key_of
from draftverify.traits import DraftsFrom, GeneratorTraits, name_of, traits_of
from draftverify.values import GIVEN, Context, Cost, Law, Proposal, chain_parents


class Drafts:
    """The drafts of a task's generators, answered from its log.

    Args:
        log: the task's.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._two_things = ""
        self._used: set[Origin] = set()
        self._items: dict[bytes, list[Origin]] = {}
        self._ends: dict[bytes, list[int]] = {}
        self._failed: dict[bytes, list[int]] = {}
        self._read()

    def _read(self) -> None:
        """Note where each item was drafted, where blocks ended, and which drafts failed."""
        recorded = self.log.question.recorded
        for place, (round, context) in enumerate(zip(self.log.rounds, self.log.before, strict=False)):
            number = self.log.question.source(round.source, recorded)
            kind = None if number is None else self.log.question.kind(number)
            if number is None or kind is None or not round.asked:
                continue
            items: list[Any] = []
            for index, item in enumerate(round.items):
                key = self._place(kind, number, context, items, recorded)
                origins = self._items.setdefault(key, [])
                origins.append(Origin(place, index))
                if _repeats(self.log.question.part(number)) and key_of(self.log.item(origins[0])) != key_of(
                    item
                ):
                    self._two_things = (
                        f"the generator is said to draft from the {kind}, and drafted two things at one place "
                        f"(rounds {origins[0].round} and {place} of the record)"
                    )
                items.append(item)
            key = self._place(kind, number, context, items, recorded)
            if not items and round.failure is not None and not round.timing.passes:
                self._failed.setdefault(key, []).append(place)
            elif len(items) < round.asked or round.exhausted:
                self._ends.setdefault(key, []).append(place)

    def _place(
        self, kind: DraftsFrom, number: int, context: Context, items: Sequence[Any], pipeline: Parts
    ) -> bytes:
        """A key of the place of the next item, of all that the generator's drafts depend on."""
        if kind == "list":
            drafted = sum(
                len(round.items)
                for round in context.rounds
                if self.log.question.source(round.source, pipeline) == number
            )
            return key_of([kind, number, drafted + len(items)])
        accepted = list(context.accepted)
        if kind == "continuation":
            return key_of([kind, number, [*accepted, *items]])
        if kind == "round":
            visible = [context.round, accepted, context.feedback, context.refused]
            return key_of([kind, number, visible, len(items)])
        since: list[Any] = []
        for round in reversed(tuple(context.rounds)):
            if round.decision.emitted:
                break
            since.append([round.items, [refusal.index for refusal in round.decision.refused]])
        return key_of([kind, number, accepted, context.feedback, context.refused, since, len(items)])

    def draft(self, request: Draft, pipeline: Parts, *, trusted: bool) -> Any:
        """The block that the log holds for a request, or the recorded failure; or what the generator answers again.

        Args:
            request: what is asked for.
            pipeline: of the replay.
            trusted: whether the items go past the verifier, so that the round's cost is the draft's.

        Raises:
            Missing: there is none.
        """
        return self.log.exact_first(
            partial(self._logged, request, pipeline, trusted), partial(self._anew, request)
        )

    def _anew(self, request: Draft) -> Proposal:
        """What the generator answers again, as items of the log where all of them are in it.

        Raises:
            NotBoughtError: it cannot.
        """
        log, place = self.log, request.context.round
        proposal: Proposal = log.anew(request)
        log.drafted_anew = True
        keys = [key_of(item) for item in proposal.items]
        recorded = [[key_of(item) for item in round.items] for round in log.rounds]
        blocks = [number for number, own in enumerate(recorded) if keys and own[: len(keys)] == keys]
        if blocks:
            log.block = [Origin(best(blocks, place), index) for index in range(len(keys))]
        else:
            origins = {key: Origin(i, k) for i, own in enumerate(recorded) for k, key in enumerate(own)}
            log.block = [origins[key] for key in keys] if all(key in origins for key in keys) else []
        whole = log.whole(len(keys))
        seconds = log.seconds("draft", len(keys), place) if whole is None else whole.timing.draft
        log.decides = whole.timing.decide if whole is not None else 0.0
        return replace(
            proposal, cost=Cost(seconds, proposal.cost.amount if proposal.cost is not None else 0.0)
        )

    def _logged(self, request: Draft, pipeline: Parts, trusted: bool) -> Any:
        question, context, n = self.log.question, request.context, request.n
        self.log.block = []
        if self._two_things:
            raise Missing(self._two_things)
        number = question.number(request.part)
        if number is None:
            raise Missing(f"the generator {name_of(request.part)} drafts here, and is in no record")
        kind = question.kind(number)
        if kind is None:
            return self._recorded_block(request, number, trusted)
        items: list[Any] = []
        while len(items) < n:
            key = self._place(kind, number, context, items, pipeline)
            if key in self._items:
                origin = self._drawn(request.part, self._items[key], context.round)
                items.append(self.log.item(origin))
                self.log.block.append(origin)
            elif key in self._ends:
                break
            elif not items and key in self._failed:
                return self.log.broke(self.log.rounds[best(self._failed[key], context.round)], "draft")
            else:
                raise Missing(self._not_drafted(context, n, len(items)))
        ends = self._ends.get(self._place(kind, number, context, items, pipeline))
        end = (
            None
            if ends is None
            else best(ends, self.log.block[-1].round if self.log.block else context.round)
        )
        if kind in ("list", "continuation"):
            exhausted = end is not None and self.log.rounds[end].exhausted
        else:
            start = self.log.block[0].round if self.log.block else end
            assert start is not None
            exhausted = self.log.rounds[start].exhausted
        self._used |= set(self.log.block)
        return self._proposal(kind, items, exhausted, end, context.round, trusted)

    def _recorded_block(self, request: Draft, number: int, trusted: bool) -> Any:
        """The recorded round's whole block, for a generator that may read all of its context."""
        context, place = request.context, request.context.round
        rounds = self.log.rounds
        drafter = (
            place < len(rounds)
            and self.log.question.source(rounds[place].source, self.log.question.recorded) == number
        )
        if not drafter:
            raise Missing(self._not_drafted(context, request.n, 0))
        if not self.log.as_recorded(context):
            raise Missing(
                "the generator would have seen other rounds before this one than were recorded, and does not say what "
                "its drafts depend on (drafts_from)"
            )
        recorded_context = self.log.before[place]
        if key_of([context.feedback, context.refused]) != key_of(
            [recorded_context.feedback, recorded_context.refused]
        ):
            raise Missing("the generator would have been shown other feedback than was recorded")
        if self.log.memory and self.log.question.changed:
            raise Missing("the generator saw the outcomes of earlier tasks, which may have been others")
        round = rounds[place]
        if round.asked != request.n:
            raise Missing(
                f"a block of {request.n} was asked for, the recorded one was of {round.asked}, and the generator does "
                "not say what its drafts depend on (drafts_from)"
            )
        if not round.items and round.failure is not None and not round.timing.passes:
            return self.log.broke(round, "draft")
        self.log.block = [Origin(place, index) for index in range(len(round.items))]
        return self._proposal(None, list(round.items), round.exhausted, place, place, trusted)

    def _not_drafted(self, context: Context, n: int, count: int) -> str:
        if count:
            return (
                f"a block of {n} was asked for, and {count} of it were drafted: no longer block is in the log"
            )
        place, feedback_key = context.round, key_of(context.feedback)
        if (
            context.feedback
            and place < len(self.log.before)
            and key_of(self.log.before[place].feedback) != feedback_key
        ):
            return "feedback that the record does not have would have changed the next draft"
        accepted = len(context.accepted)
        return (
            f"nothing was drafted here ({accepted} values accepted): the generator would have drafted again"
        )

    def _drawn(self, part: Any, origins: Sequence[Origin], round: int) -> Origin:
        """One of the items that were drafted at a place: of the block's round, or of the round of the same number."""
        unused = origins if _repeats(part) else [origin for origin in origins if origin not in self._used]
        if not unused:
            raise Missing(
                f"the generator is not deterministic, and would have drafted again what round {origins[0].round} of "
                "the record has"
            )
        round_wanted = self.log.block[-1].round if self.log.block else round
        return next((origin for origin in unused if origin.round == round_wanted), unused[0])

    def _proposal(
        self,
        kind: DraftsFrom | None,
        items: Sequence[Any],
        exhausted: bool,
        end: int | None,
        place: int,
        trusted: bool,
    ) -> Proposal:
        rounds, block = self.log.rounds, self.log.block
        origin = {origin_of_item.round for origin_of_item in block}
        recorded = bool(self.log.question.undecidable) and origin == {
            place
        }  # by a decision that nobody makes again
        for place_drawn in () if recorded else origin:
            if rounds[place_drawn].law != "given":
                raise Missing(
                    f"the items of round {place_drawn} of the record were drawn by the law {rounds[place_drawn].law}, "
                    "from a q that was not recorded"
                )
        source = rounds[block[0].round] if block else None
        prefix = source is not None and block == [Origin(block[0].round, i) for i in range(len(items))]
        is_entire = prefix and source is not None and len(items) == len(source.items)
        if any(rounds[number].nested for number in origin) and not is_entire:
            raise Missing("the items came of inner tasks, and a part of them would have run")
        if any(rounds[number].extends for number in origin) and not is_entire:
            raise Missing("the items go on from held ones, and stand in another block here")
        if source is not None and prefix:
            parents = source.parents[: len(items)]
        else:
            parents = (-1,) * len(items) if kind == "list" else chain_parents(len(items))
        if is_entire or not block:
            timed = source if source is not None else rounds[end] if end is not None else None
            seconds = timed.timing.draft if timed is not None else 0.0
            # An empty draft that the log has only as the end of one with items took no longer than that.
            self.log.doubt.at_most |= bool(not block and timed is not None and timed.items)
        else:
            seconds = self.log.seconds("draft", len(items), place)
        self.log.decides = source.timing.decide if source is not None else 0.0
        amount = 0.0  # of a block that is verified the round's cost is the verifier's answer
        if not block and exhausted and end is not None:
            amount = self.log.cost(end, "draft") if rounds[end].items else rounds[end].timing.cost
        elif block and trusted:
            amount = sum(rounds[number].timing.cost for number in origin)
            verified = any(rounds[number].timing.passes for number in origin)
            self.log.doubt.cost_at_most |= amount > 0 and (verified or not is_entire)
        law = GIVEN
        if recorded and rounds[place].law != "given":  # nobody reads its q, which is in no record
            law = Law(rounds[place].law, np.zeros((len(items) + 1, 1)))
        return Proposal(
            items=tuple(items),
            parents=parents,
            law=law,
            extends=source.extends if is_entire and source is not None else (),
            evidence=Absent() if items else {},
            cost=Cost(seconds, amount),
            exhausted=exhausted,
            nested=source.nested if is_entire and source is not None else (),
            notes=(source.draft_notes or {}) if is_entire and source is not None else {},
        )


def _repeats(part: Any) -> bool:
    """Whether a generator drafts the same in the same state."""
    return traits_of(part, GeneratorTraits).deterministic
