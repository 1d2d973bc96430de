"""The verifier, answering from the log: its recorded checks, and what other stages and thresholds make of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from draftverify.engine.requests import Verify
from draftverify.lab.replay.log import Log, Missing, Origin, best, key_of
from draftverify.lab.replay.stages import Spoken, spoken_in
from draftverify.traits import name_of
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


class Words:
    """The checks of a task's verifier, answered from its log.

    Args:
        log: the task's.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.judging = log.question.judging
        self._verified = -1
        self._plain: dict[bytes, list[int]] = {}
        for place, (round, context) in enumerate(zip(log.rounds, log.before, strict=False)):
            if not round.items and round.timing.passes and round.failure is None:
                self._plain.setdefault(key_of(list(context.accepted)), []).append(place)

    def verify(self, request: Verify) -> Any:
        """The verification that the log holds for a block, or the recorded failure; or what the verifier answers again.

        Raises:
            Missing: neither says.
        """
        if self._verified == request.context.round:
            raise Missing("items would have been checked again, and their last check alone was recorded")
        self._verified = request.context.round
        return self.log.exact_first(partial(self._logged, request), partial(self._anew, request))

    def _anew(self, request: Verify) -> Verification:
        """What the verifier answers again.

        Raises:
            NotBoughtError: it cannot.
        """
        log = self.log
        verification: Verification = log.anew(request)
        log.judged_anew = True
        n = len(request.proposal)
        whole = log.whole(n)
        seconds = log.seconds("verify", n, request.context.round) if whole is None else whole.timing.verify
        if whole is not None and not _looked_alike(verification.checks, whole.checks):
            log.doubt.estimated, log.doubt.excess = True, math.inf
        amount = verification.cost.amount if verification.cost is not None else 0.0
        if not log.drafted_anew:
            amount += sum(log.cost(place, "draft") for place in {origin.round for origin in log.block})
        return replace(verification, cost=Cost(seconds, amount))

    def _logged(self, request: Verify) -> Any:
        log, context, proposal = self.log, request.context, request.proposal
        if self.judging.whole_source is None and not self.judging.staged:
            raise Missing(f"{name_of(request.part)} said nothing in these records")
        if not len(proposal):
            return self._plain_step(context, proposal)
        if len(log.block) < len(proposal):
            raise Missing(
                "items of the block are in no record of the task, and nothing says how they were checked"
            )
        places = sorted({origin.round for origin in log.block})
        for place in places:
            if any(step.do == "reverify" for step in log.rounds[place].steps):
                raise Missing(
                    f"round {place} of the record was checked again, and the last check alone was recorded"
                )
            if log.rounds[place].by != "verifier":
                raise Missing(
                    f"the items of round {place} of the record were passed without the verifier, and have no checks"
                )
        source = log.rounds[places[0]]
        log.decides = source.timing.decide
        if log.question.undecidable and not log.question.decided_alike:
            raise Missing(
                f"the rule needs {', '.join(sorted(log.question.undecidable))}, which was not recorded"
            )
        if log.question.undecidable and log.block_as_recorded(context) and source.failure is None:
            # The rule is not asked: what it decided is in the record.
            return replace(self._as_it_was(places[0]), evidence=Evidence())
        entire = len(places) == 1 and len(log.block) == len(source.items) and log.block[0].place == 0
        if not all(log.rounds[place].checks for place in places):
            if entire and source.failure is not None:
                return log.broke(source, "verify")
            raise Missing(f"the verifier's call failed in round {places[0]} of the record, and said nothing")
        self._same_before(context, proposal)
        verifier = self.judging.whole_source
        if (
            verifier is not None
            and not verifier.rejudged
            and entire
            and context.enough == self.judging.enough
        ):
            return self._as_it_was(places[0])
        spoken = {place: spoken_in(log.rounds[place]) for place in places} if self.judging.staged else {}
        if spoken and (verifier is None or all(stages is not None for stages in spoken.values())):
            return self._put_together(context, proposal, spoken)
        return self._recorded_checks(context, proposal, places, entire)

    def _as_it_was(self, place: int) -> Verification:
        """What a recorded round's whole block was told, at what it cost."""
        round = self.log.rounds[place]
        return Verification(
            checks=round.checks,
            correction=round.correction,
            cost=Cost(round.timing.verify, self._spent(place)),
            deterministic=round.deterministic,
            notes=round.notes or {},
        )

    def _recorded_checks(
        self, context: Context, proposal: Proposal, places: Sequence[int], entire: bool
    ) -> Verification:
        """The recorded checks of the block's items, in whichever rounds they were made."""
        verifier, rounds, source = self.judging.whole_source, self.log.rounds, self.log.rounds[places[0]]
        assert verifier is not None
        checks_said = [rounds[origin.round].checks[origin.place] for origin in self.log.block]
        if verifier.rejudged:
            checks_said = list(self.judging.verifier.rejudged(context, proposal, tuple(checks_said)))
        checks = self._checks(checks_said, range(len(checks_said)), proposal, context.enough, "")
        as_before = entire and _looked_alike(checks, source.checks)
        amount = sum(map(self._spent, places))
        if entire:
            seconds = source.timing.verify  # the most that it takes where it would have stopped earlier
        else:
            seconds = self.log.seconds("verify", len(proposal), context.round)
        self.log.doubt.at_most |= entire and not as_before
        self.log.doubt.cost_at_most |= amount > 0 and not as_before
        return Verification(
            checks=checks,
            correction=self._correction(places, checks),
            cost=Cost(seconds, amount),
            deterministic=all(rounds[place].deterministic for place in places),
            notes=source.notes or {},
        )

    def _put_together(
        self, context: Context, proposal: Proposal, spoken: Mapping[int, Mapping[str, Spoken] | None]
    ) -> Verification:
        """The verification that the stages' recorded checks make of the block's items."""
        log = self.log

        def recall(
            part: Any, context: Context, items: Proposal, indices: Sequence[int]
        ) -> tuple[Verification, float, bool]:
            """A stage's verification of these items, its seconds, and whether its call had failed."""

            def anew() -> tuple[Verification, float, bool]:
                verification = log.anew(Verify(0, part, context, items))
                log.doubt.estimated, log.doubt.excess = True, math.inf
                return verification, 0.0, False

            logged = partial(self._recall, proposal, spoken, part, context, items, indices)
            return log.exact_first(logged, anew)  # type: ignore[no-any-return]

        verification: Verification = self.judging.verifier.recalled(context, proposal, recall)
        seconds = sum(verification.notes["seconds"].values())
        amount = verification.cost.amount if verification.cost is not None else 0.0
        for place in spoken:
            # What the round took beside its stages' passes.
            round, stage_seconds = log.rounds[place], (log.rounds[place].notes or {}).get("seconds") or {}
            seconds += max(round.timing.verify - sum(stage_seconds.values()), 0.0)
            stages = spoken[place]
            if stages is not None:
                passes = [heard for stage in stages.values() for heard in stage.passes if not heard.beside]
                amount += max(self._spent(place) - sum(heard.cost for heard in passes), 0.0)
        return replace(verification, cost=Cost(seconds, amount))

    def _spent(self, place: int) -> float:
        """What a recorded round cost, but for its draft where the block's generator has told its own cost."""
        return self.log.cost(place, "verify") if self.log.drafted_anew else self.log.rounds[place].timing.cost

    def _recall(
        self,
        proposal: Proposal,
        spoken: Mapping[int, Mapping[str, Spoken] | None],
        part: Any,
        context: Context,
        items: Proposal,
        indices: Sequence[int],
    ) -> tuple[Verification, float, bool]:
        source = self.judging.source(part)
        if source is None:
            raise Missing(f"{name_of(part)} said nothing in the records")
        origins = [self.log.block[index] for index in indices]
        rounds = sorted({origin.round for origin in origins})
        name = source.stage or name_of(part)
        if not source.stage:
            words_of = {place: self._entire(place) for place in rounds}
        else:
            if any(spoken[place] is None for place in rounds):
                raise Missing("what each stage of the verifier said was not recorded")
            words_of = {place: (spoken[place] or {}).get(name, _SILENT) for place in rounds}
        if any(origin.place not in words_of[origin.round].words for origin in origins):
            raise Missing(f"items that stages before refused were never put before the stage {name}")
        passes = [words_of[origin.round].of[origin.place] for origin in origins]
        checks = [words_of[origin.round].words[origin.place] for origin in origins]
        entire = None
        if len(rounds) == 1:
            entire = words_of[rounds[0]].whole([origin.place for origin in origins], context.enough)
        if entire is not None and not source.rejudged:
            checks = list(entire.checks)
        if source.stage:
            # As the stage itself gave them: it may have another name in another order.
            checks = [replace(check, stage="") if check.stage == name else check for check in checks]
        if source.rejudged:
            checks = list(part.rejudged(context, items, tuple(checks)))
        if entire is None or source.rejudged:
            checks = list(self._checks(checks, indices, proposal, context.enough, source.stage))
        if len({stage_pass.failed for stage_pass in passes}) > 1:
            raise Missing(f"a call of the stage {name} failed on some of the items, and not on others")
        if entire is not None:
            seconds, amount = entire.seconds, entire.cost
        else:
            fixed, at_once = self.judging.stages.fixed(name), self.judging.stages.at_once(name)
            looked: dict[int, list[int]] = {place: [] for place in rounds}
            for origin, check in zip(origins, checks, strict=True):
                if check.verdict != "unchecked":
                    looked[origin.round].append(origin.place)
            seconds = fixed + sum(words_of[place].share(looked[place], fixed, at_once) for place in rounds)
            spent = (heard for place in rounds for heard in words_of[place].passes)
            amount = sum(heard.cost for heard in spent if heard in passes)
            self.log.doubt.estimated = True
            self.log.doubt.cost_at_most |= amount > 0
            self.log.doubt.excess += max(sum(words_of[place].seconds for place in rounds) - seconds, 0.0)
        verification = Verification(
            checks=tuple(checks),
            cost=Cost(seconds, amount),
            deterministic=all(stage_pass.deterministic for stage_pass in passes),
            notes=passes[0].notes,
        )
        return verification, seconds, passes[0].failed

    def _entire(self, place: int) -> Spoken:
        """The recorded verifier as a stage of another."""
        round = self.log.rounds[place]
        notes = {key: value for key, value in (round.notes or {}).items() if key not in TIMES}
        items = tuple(range(len(round.checks)))
        heard = Heard(
            stage="",
            items=items,
            checks=round.checks,
            enough=self.judging.enough,
            cost=self._spent(place),
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
        verification = self._as_it_was(place := best(places, context.round))
        self.log.decides = self.log.rounds[place].timing.decide
        if self.judging.whole_source is None:
            anew = self.judging.verifier.recalled(context, proposal, _nobody)
            verification = replace(anew, cost=verification.cost)
        return verification

    def _same_before(self, context: Context, proposal: Proposal) -> None:
        """Raises: Missing: an item was checked after other values than stand before it here."""
        for index, origin in enumerate(self.log.block):
            round, context_of_origin = self.log.rounds[origin.round], self.log.before[origin.round]
            path: list[Any] = []
            parent = origin.place
            while (parent := round.parents[parent]) >= 0:
                path.insert(0, round.items[parent])
            path_here = [proposal.items[i] for i in proposal.path(index)[:-1]]
            if key_of([*context_of_origin.accepted, *path]) != key_of([*context.accepted, *path_here]):
                raise Missing(
                    f"item {index} was checked in round {origin.round} of the record, after other values than those "
                    "that would stand before it here"
                )

    def _checks(
        self,
        recorded: Sequence[Check],
        indices: Sequence[int],
        proposal: Proposal,
        enough: int | None,
        stage: str,
    ) -> tuple[Check, ...]:
        """The recorded checks of these items, unchecked where a verifier that may stop early would have stopped."""
        stages, judge = self.judging.stages, f"the stage {stage}" if stage else "the verifier"
        stops = stages.stops(stage) if stage else self.judging.stops
        checks: dict[int, Check] = {}
        passed = 0
        for index, check in zip(indices, recorded, strict=True):
            origin = self.log.block[index]
            ancestors = [ancestor for ancestor in proposal.path(index)[:-1] if ancestor in checks]
            refused = [ancestor for ancestor in ancestors if checks[ancestor].verdict != "pass"]
            over = enough is not None and passed >= enough
            if over and stops is None and check.verdict != "unchecked":
                raise Missing(f"whether {judge} stops once {enough} items passed is in no record")
            if over and (stops or check.verdict == "unchecked"):
                check = UNCHECKED
            elif check.verdict == "unchecked":
                if not refused:
                    raise Missing(
                        f"item {origin.place} of round {origin.round} of the record was never checked: {judge} stopped "
                        "before it"
                    )
            elif stage and any(
                self.log.block[index_refused].round != origin.round for index_refused in refused
            ):
                # In the record another stage had passed what this one refused, and here both are of one block.
                cuts = stages.cuts(stage)
                if cuts is None:
                    raise Missing(
                        f"whether {judge} looks at what stands on an item that it refused is in no record"
                    )
                check = UNCHECKED if cuts else check
            passed += check.verdict == "pass"
            checks[index] = check
        return tuple(checks.values())

    def _correction(self, places: Sequence[int], checks: Sequence[Check]) -> tuple[Any, ...]:
        """The values that the verifier would go on with: known where it stopped at the same item."""
        if not self.judging.corrects:
            return ()
        round = self.log.rounds[places[0]]
        stopped = next((i for i, check in enumerate(round.checks) if check.verdict != "pass"), None)
        stop = next((i for i, check in enumerate(checks) if check.verdict != "pass"), None)
        if stop is not None and stopped is not None:
            is_same = self.log.block[stop] == Origin(places[0], stopped)
        else:  # all of the same block passed
            is_same = stop is stopped and len(checks) == len(round.checks)
        if len(places) == 1 and is_same:
            return round.correction
        raise Missing(
            "the verifier says what it would go on with, and what it would have said after this block was not recorded"
        )


def _looked_alike(checks: Sequence[Check], recorded: Sequence[Check]) -> bool:
    """Whether the same items of a block were looked at."""
    return [check.verdict == "unchecked" for check in checks] == [
        check.verdict == "unchecked" for check in recorded
    ]


_SILENT = Spoken((), (), None)


def _nobody(*arguments: Any) -> tuple[Verification, float, bool]:
    raise AssertionError("an empty block was put before a stage")
