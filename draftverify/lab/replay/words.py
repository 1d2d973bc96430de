"""The verifier, answering from the log: its recorded checks, and what other stages and thresholds make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from draftverify.engine.parts import name_of
from draftverify.engine.requests import Verify
from draftverify.lab.replay.log import Log, Missing, Origin, best, key_of
from draftverify.lab.replay.stages import Spoken, spoken_in
from draftverify.values import (
    TIMES,
    UNCHECKED,
    Check,
    Context,
    Cost,
    Evidence,
    Heard,
    Proposal,
    Verification,
)

__all__ = ["Words"]


class Words:
    """What a task's verifier said.

    Args:
        log: the task's.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.judging = log.asked.judging
        self._verified = -1
        self._plain: dict[bytes, list[int]] = {}
        for place, (round, context) in enumerate(zip(log.rounds, log.before, strict=False)):
            if not round.items and round.timing.passes and round.failure is None:
                self._plain.setdefault(key_of(list(context.accepted)), []).append(place)

    def verify(self, request: Verify) -> Any:
        """What the log has the verifier say of the block, or the failure.

        Raises:
            Missing: it does not say.
        """
        log, context, proposal = self.log, request.context, request.proposal
        if self._verified == context.round:
            raise Missing("items would have been checked again, and their last check alone was recorded")
        self._verified = context.round
        if not len(proposal):
            return self._plain_step(context, proposal)
        places = sorted({each.round for each in log.block})
        for place in places:
            if any(step.do == "reverify" for step in log.rounds[place].steps):
                raise Missing(
                    f"round {place} of the record was checked again, and the last check alone was recorded"
                )
            if log.rounds[place].by != "verifier":
                raise Missing(
                    f"the items of round {place} of the record were passed without the verifier, and have no checks"
                )
        first = log.rounds[places[0]]
        log.decides = first.timing.decide
        if log.asked.undecidable and log.block_as_recorded(context) and first.failure is None:
            # The rule is not asked: what it decided is in the record.
            return Verification(
                checks=first.checks,
                correction=first.correction,
                evidence=Evidence(),
                cost=Cost(first.timing.verify, first.timing.units),
                deterministic=first.deterministic,
                notes=first.notes or {},
            )
        whole = len(places) == 1 and len(log.block) == len(first.items) and log.block[0].place == 0
        if not all(log.rounds[place].checks for place in places):
            if whole and first.failure is not None:
                return log.broke(first, "verify")
            raise Missing(f"the verifier's call failed in round {places[0]} of the record, and said nothing")
        self._same_before(context, proposal)
        own = self.judging.own
        if own is not None and not own.other and whole and context.enough == self.judging.enough:
            return Verification(
                checks=first.checks,
                correction=first.correction,
                cost=Cost(first.timing.verify, first.timing.units),
                deterministic=first.deterministic,
                notes=first.notes or {},
            )
        spoken = {place: spoken_in(log.rounds[place]) for place in places} if self.judging.staged else {}
        if spoken and (own is None or all(each is not None for each in spoken.values())):
            return self._put_together(context, proposal, spoken)
        return self._as_said(context, proposal, places, whole)

    def _as_said(
        self, context: Context, proposal: Proposal, places: Sequence[int], whole: bool
    ) -> Verification:
        """What it said of the block's items wherever it was asked about them."""
        own, rounds, first = self.judging.own, self.log.rounds, self.log.rounds[places[0]]
        assert own is not None
        said = [rounds[origin.round].checks[origin.place] for origin in self.log.block]
        if own.other:
            said = list(self.judging.verifier.rejudged(context, proposal, tuple(said)))
        checks = self._checks(said, range(len(said)), proposal, context.enough, "")
        looked = [check.verdict != "unchecked" for check in checks]
        as_before = whole and looked == [check.verdict != "unchecked" for check in first.checks]
        units = sum(rounds[place].timing.units for place in places)
        if whole:
            seconds = first.timing.verify  # the most that it takes where it would have stopped earlier
        else:
            seconds = self.log.seconds("verify", len(proposal), context.round)
        self.log.at_most = self.log.at_most or (not as_before and (whole or units > 0))
        return Verification(
            checks=checks,
            correction=self._correction(places, checks),
            cost=Cost(seconds, units),
            deterministic=all(rounds[place].deterministic for place in places),
            notes=first.notes or {},
        )

    def _put_together(
        self, context: Context, proposal: Proposal, spoken: Mapping[int, Mapping[str, Spoken] | None]
    ) -> Verification:
        """What comes of its stages' words, wherever they were asked about the block's items."""
        log = self.log
        found: Verification = self.judging.verifier.recalled(
            context, proposal, partial(self._recall, proposal, spoken)
        )
        seconds = sum(found.notes["seconds"].values())
        units = found.cost.units if found.cost is not None else 0.0
        for place in spoken:
            # What the round took beside its stages' passes.
            round, own = log.rounds[place], (log.rounds[place].notes or {}).get("seconds") or {}
            seconds += max(round.timing.verify - sum(own.values()), 0.0)
            said = spoken[place]
            if said is not None:
                told = sum(each.units for one in said.values() for each in one.passes if not each.beside)
                units += max(round.timing.units - told, 0.0)
        return replace(found, cost=Cost(seconds, units))

    def _recall(
        self,
        proposal: Proposal,
        spoken: Mapping[int, Mapping[str, Spoken] | None],
        part: Any,
        context: Context,
        items: Proposal,
        indices: Sequence[int],
    ) -> tuple[Verification, float, bool]:
        """The word of a stage on these items of the block, its seconds, and whether its call had failed."""
        source = self.judging.source(part)
        assert source is not None
        origins = [self.log.block[index] for index in indices]
        rounds = sorted({each.round for each in origins})
        name = source.stage or name_of(part)
        if not source.stage:
            one = {place: self._entire(place) for place in rounds}
        else:
            if any(spoken[place] is None for place in rounds):
                raise Missing("what each stage of the verifier said was not recorded")
            one = {place: (spoken[place] or {}).get(name, _SILENT) for place in rounds}
        if any(each.place not in one[each.round].words for each in origins):
            raise Missing(f"items that stages before refused were never put before the stage {name}")
        passes = [one[each.round].of[each.place] for each in origins]
        said = [one[each.round].words[each.place] for each in origins]
        whole = None
        if len(rounds) == 1:
            whole = one[rounds[0]].whole([each.place for each in origins], context.enough)
        if whole is not None and not source.other:
            said = list(whole.checks)
        if source.stage:
            # As the stage itself gave them: it may have another name in another order.
            said = [replace(each, stage="") if each.stage == name else each for each in said]
        if source.other:
            said = list(part.rejudged(context, items, tuple(said)))
        if whole is None or source.other:
            said = list(self._checks(said, indices, proposal, context.enough, source.stage))
        if len({each.failed for each in passes}) > 1:
            raise Missing(f"a call of the stage {name} failed on some of the items, and not on others")
        if whole is not None:
            seconds, units = whole.seconds, whole.units
        else:
            fixed, at_once = self.judging.stages.fixed(name), self.judging.stages.at_once(name)
            looked = [each for each, check in zip(origins, said, strict=True) if check.verdict != "unchecked"]
            seconds = fixed + sum(
                one[place].share([each.place for each in looked if each.round == place], fixed, at_once)
                for place in rounds
            )
            units = sum(each.units for place in rounds for each in one[place].passes if each in passes)
            self.log.estimated = True
            self.log.excess += max(sum(one[place].seconds for place in rounds) - seconds, 0.0)
        verification = Verification(
            checks=tuple(said),
            cost=Cost(seconds, units),
            deterministic=all(each.deterministic for each in passes),
            notes=passes[0].notes,
        )
        return verification, seconds, passes[0].failed

    def _entire(self, place: int) -> Spoken:
        """The recorded verifier as a stage of another."""
        round = self.log.rounds[place]
        notes = {key: each for key, each in (round.notes or {}).items() if key not in TIMES}
        items = tuple(range(len(round.checks)))
        heard = Heard(
            stage="",
            items=items,
            checks=round.checks,
            enough=self.judging.enough,
            units=round.timing.units,
            deterministic=round.deterministic,
            notes=notes,
        )
        return Spoken((heard,), round.checks, (round.timing.verify, 0.0))

    def _plain_step(self, context: Context, proposal: Proposal) -> Verification:
        places = self._plain.get(key_of(list(context.accepted)))
        if places is None:
            raise Missing(
                f"the verifier would have gone on by itself after {len(context.accepted)} accepted values, and did so "
                "nowhere in the record"
            )
        round = self.log.rounds[best(places, context.round)]
        self.log.decides = round.timing.decide
        found = Verification(
            correction=round.correction, deterministic=round.deterministic, notes=round.notes or {}
        )
        if self.judging.own is None:
            found = self.judging.verifier.recalled(context, proposal, _nobody)
        return replace(found, cost=Cost(round.timing.verify, round.timing.units))

    def _same_before(self, context: Context, proposal: Proposal) -> None:
        """Raises: Missing: an item was checked after other values than stand before it here."""
        for index, origin in enumerate(self.log.block):
            round, before = self.log.rounds[origin.round], self.log.before[origin.round]
            path: list[Any] = []
            above = origin.place
            while (above := round.parents[above]) >= 0:
                path.insert(0, round.items[above])
            here = [proposal.items[i] for i in proposal.path(index)[:-1]]
            if key_of([*before.accepted, *path]) != key_of([*context.accepted, *here]):
                raise Missing(
                    f"item {index} was checked in round {origin.round} of the record, after other values than those "
                    "that would stand before it here"
                )

    def _checks(
        self,
        said: Sequence[Check],
        indices: Sequence[int],
        proposal: Proposal,
        enough: int | None,
        stage: str,
    ) -> tuple[Check, ...]:
        """What was said of these items of the block, as far as one would have looked who may stop early."""
        stages, who = self.judging.stages, f"the stage {stage}" if stage else "the verifier"
        stops = stages.stops(stage) if stage else self.judging.stops
        found: dict[int, Check] = {}
        passed = 0
        for index, check in zip(indices, said, strict=True):
            origin = self.log.block[index]
            above = [each for each in proposal.path(index)[:-1] if each in found]
            refused = [each for each in above if found[each].verdict != "pass"]
            over = enough is not None and passed >= enough
            if over and stops is None and check.verdict != "unchecked":
                raise Missing(f"whether {who} stops once {enough} items passed is in no record")
            if over and (stops or check.verdict == "unchecked"):
                check = UNCHECKED
            elif check.verdict == "unchecked":
                if not refused:
                    raise Missing(
                        f"item {origin.place} of round {origin.round} of the record was never checked: {who} stopped "
                        "before it"
                    )
            elif stage and any(self.log.block[each].round != origin.round for each in refused):
                # In the record another stage had passed what this one refused, and here both are of one block.
                cuts = stages.cuts(stage)
                if cuts is None:
                    raise Missing(
                        f"whether {who} looks at what stands on an item that it refused is in no record"
                    )
                check = UNCHECKED if cuts else check
            passed += check.verdict == "pass"
            found[index] = check
        return tuple(found.values())

    def _correction(self, places: Sequence[int], checks: Sequence[Check]) -> tuple[Any, ...]:
        """The values that the verifier would go on with: known where it stopped at the same item."""
        if not self.judging.corrects:
            return ()
        round = self.log.rounds[places[0]]
        stopped = next((i for i, check in enumerate(round.checks) if check.verdict != "pass"), None)
        here = next((i for i, check in enumerate(checks) if check.verdict != "pass"), None)
        if (
            len(places) == 1
            and here is not None
            and stopped is not None
            and self.log.block[here] == Origin(places[0], stopped)
        ):
            return round.correction
        if len(places) == 1 and here is None and stopped is None and len(checks) == len(round.checks):
            return round.correction  # all of the same block passed
        raise Missing(
            "the verifier says what it would go on with, and what it would have said after this block was not recorded"
        )


_SILENT = Spoken((), (), None)


def _nobody(*asked: Any) -> tuple[Verification, float, bool]:
    raise AssertionError("an empty block was put before a stage")
