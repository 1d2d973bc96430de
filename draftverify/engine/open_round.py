"""The round that is under way: what a draft, a verification and a decision make of it, and its record."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from draftverify.engine import boundary
from draftverify.engine.failures import failed, raised
from draftverify.engine.parts import Parts
from draftverify.engine.state import holding
from draftverify.engine.trials import tally
from draftverify.exchanges import joined_notes
from draftverify.rejection.refusals import troubles_of
from draftverify.values import (
    EMPTY,
    PASS,
    By,
    Context,
    Decision,
    Failure,
    Held,
    Last,
    Proposal,
    Round,
    Step,
    Tally,
    Timing,
    Trouble,
    Verification,
)

NO_ITEMS = Proposal.chain(())
_UNVERIFIED, _UNDECIDED, _NO_TRIALS = Verification(), Decision(), Tally()


class OpenRound(msgspec.Struct, eq=False, gc=False):
    """The round that is under way, as far as it has come.

    Args:
        pipeline: the parts.
        context: as the generator is shown it.
        source, generator: who drafts.
        trusted: whether what is drafted is not verified.
        asked: how many items.
        proposal: the block.
        pending: what is to be verified; None for nothing.
        places: of the items whose checks are made again.
        verification, decision, trouble, failure, steps, tokens: what the round has come to.
        draft, verify, decide, busy, cost, passes, batch: as in `Timing`.
    """

    pipeline: Parts
    context: Context
    source: str = "generator"
    generator: Any = None
    trusted: bool = False
    asked: int = 0
    proposal: Proposal = NO_ITEMS
    pending: Proposal | None = None
    places: tuple[int, ...] = ()
    verification: Verification = _UNVERIFIED
    decision: Decision = _UNDECIDED
    trouble: tuple[Trouble, ...] = ()
    failure: Failure | None = None
    steps: tuple[Step, ...] = ()
    tokens: bytes = b""
    draft: float = 0.0
    verify: float = 0.0
    decide: float = 0.0
    busy: float = 0.0
    cost: float = 0.0
    passes: int = 0
    batch: int = 1

    def trust(self, proposal: Proposal, by: By) -> None:
        """Have the rule decide on items that a person, or a fallback that is trusted, passes."""
        self.proposal, self.verification = proposal, Verification(checks=(PASS,) * len(proposal), by=by)

    def take_draft(self, value: Any, seconds: float, busy: float) -> None:
        """Take a draft, or a Failure.

        Args:
            value: it.
            seconds: its call's.
            busy: this task's share of the machine seconds.
        """
        if type(value) is Failure:
            self._fail(value)
        else:
            if value.cost is not None:
                value, seconds, busy = self._charged(value, seconds, busy)
            self.proposal = value
            if value.exhausted and not len(value.items):
                self.trouble = ("exhausted",)
            elif self.trusted and len(value.items):
                self.trust(value, "fallback")
            else:
                self.pending = value
        self.draft += seconds
        self.busy += busy

    def take_verification(self, value: Any, seconds: float, busy: float) -> None:
        """Take a verification, or a Failure, of the whole block or of checks that were made again."""
        self.passes += 1
        if seconds != busy and busy:
            self.batch = round(seconds / busy)
        if self.places and type(value) is not Failure and not value.checks:
            value = Failure("error", "ContractError", "a pass that checked items again brought no checks")
        if type(value) is not Failure and value.cost is not None:
            value, seconds, busy = self._charged(value, seconds, busy)
        self.verify += seconds
        self.busy += busy
        if self.places:
            value = _rechecked(self.verification, self.places, value, self.pending is self.proposal)
        elif type(value) is Failure:
            self._fail(value)
            return
        self.verification, self.pending = value, None

    def take_decision(self, value: Any, seconds: float, busy: float, judging: Context) -> None:
        """Take a decision, or a Failure: what joins, what ends the task, and what is in the way.

        Args:
            value, seconds, busy: as of a draft.
            judging: the context that the rule was shown.
        """
        self.decide += seconds
        self.busy += busy
        if type(value) is Failure:
            self._fail(value)
            return
        if value.items:
            self.proposal = replace(self.proposal, items=value.items)
        self.tokens = value.tokens or self.tokens
        if value.abstain:
            self.decision = replace(value, items=(), tokens=b"", drift=(), done=True)
            return
        try:
            decision = self.decision = self._emitting(value, judging)
        except BaseException as error:
            self._fail(raised(error))
            return
        progress = decision.kept or decision.spliced or decision.progress
        if decision.done or (progress and not self.pipeline.partial):
            return
        self.trouble, exhausted = troubles_of(self.verification.checks, decision), self.proposal.exhausted
        if not progress and (exhausted or not self.trouble):
            self.trouble += ("exhausted",) if exhausted or not len(self.proposal.items) else ("reject",)

    def check_again(self, places: tuple[int, ...]) -> None:
        """Have the items in these places verified again: of alternatives those alone, else with the whole block, whose
        evidence is of all items together."""
        is_part = places and self.proposal.fits("alternatives") and self.verification.evidence is None
        self.pending, self.places = self.proposal.subset(places) if is_part else self.proposal, places
        self.trouble, self.failure = (), None

    def record(self) -> Round:
        """The round's record, as far as it has come."""
        context, decision = self.context, self.decision
        proposal, verification = self.proposal, self.verification
        items, by, counts = _host(proposal.items), verification.by, _NO_TRIALS
        if by == "verifier" and verification is not _UNVERIFIED:
            counts = tally(len(items), verification.checks, decision)
        # What is seldom there is added after: CPython passes more than fifteen keywords through a dict, which takes
        # longer than all else here.
        record = Round(
            index=context.rounds.length,
            tries=context.tries,
            source=self.source,
            items=items,
            parents=proposal.parents,
            law=proposal.law.kind,
            asked=self.asked,
            checks=verification.checks,
            decision=decision,
            tally=counts,
            timing=Timing(
                self.draft, self.verify, self.decide, self.busy, self.cost, self.passes, self.batch
            ),
            trouble=self.trouble,
            steps=self.steps,
            failure=self.failure,
            deterministic=self.pipeline.deterministic and verification.deterministic,
        )
        if proposal.exhausted or proposal.nested or proposal.extends or decision.held or by != "verifier":
            held, extends, nested = self._held(decision), proposal.extends, proposal.nested
            record = replace(
                record, by=by, held=held, extends=extends, nested=nested, exhausted=proposal.exhausted
            )
        if verification.correction or verification.notes or self.tokens:
            correction, notes = verification.correction, verification.notes or None
            record = replace(record, correction=correction, notes=notes, tokens=self.tokens)
        if proposal.notes:
            record = replace(record, draft_notes=proposal.notes)
        is_of_rule = self.pending is None and proposal is not NO_ITEMS  # whose failure keeps its notes itself
        if self.failure is not None and self.failure.notes and not is_of_rule:
            call = "draft_notes" if self.pending is None else "notes"
            noted = {call: self.failure.notes}
            record = replace(record, failure=replace(self.failure, notes=EMPTY), **noted)
        return record

    def _fail(self, failure: Failure) -> None:
        """Nothing is decided, since a call failed."""
        self.decision, self.trouble, self.failure = _UNDECIDED, (failure.kind,), failure

    def _charged(self, value: Any, seconds: float, busy: float) -> tuple[Any, float, float]:
        """Count what an answer says that it cost; the answer without it, and its seconds and machine seconds."""
        cost = value.cost
        self.cost += cost.amount
        if cost.seconds is not None:
            seconds = busy = cost.seconds
        return replace(value, cost=None), seconds, busy

    def _emitting(self, decision: Decision, judging: Context) -> Decision:
        """The decision with the values that join, cut where the stopping rule says so.

        That rule sees the verifier's context as it would be after this round.
        """
        done, items = self.pipeline.done, _host(self.proposal.items)
        values = (*map(items.__getitem__, decision.kept), *decision.spliced)
        if decision.corrected:
            joining = {index: items[index] for index in decision.kept}
            joining.update({correction.index: correction.value for correction in decision.corrected})
            values = (*[joining[index] for index in sorted(joining)], *decision.spliced)
        decision = replace(decision, items=(), tokens=b"", emitted=values)
        if done is None:
            return decision
        held = judging.held
        if decision.held or decision.released:
            held = holding(held, decision, self._held(decision))
        shown_round = Last(self.proposal, self.verification, decision)
        accepted = judging.accepted.then(values)
        keep = done(replace(judging, accepted=accepted, held=held, last=shown_round, enough=None), values)
        if keep is None:
            return decision
        keep = boundary.read_cut(keep, len(values), done)
        return replace(decision, emitted=values[:keep], drift=decision.drift[:keep], done=True)

    def _held(self, decision: Decision) -> tuple[Held, ...]:
        """The items that a decision holds, as their check's correction has them where there is one."""
        items, checks, number = _host(self.proposal.items), self.verification.checks, self.context.round
        entries = []
        for index in decision.held:
            check = checks[index] if checks else PASS
            value = items[index] if check.correction is UNSET else check.correction
            entries.append(Held(value, check.score, number, index))
        return tuple(entries)


def _host(items: Any) -> tuple[Any, ...]:
    """Items as Python's values, from whatever device."""
    return items if type(items) is tuple else tuple(items.tolist())


def _rechecked(
    verification: Verification, places: tuple[int, ...], later: Verification | Failure, is_whole: bool
) -> Verification:
    """A verification after a re-check of the items in these places, or of the whole block. Where that failed as a call,
    those items' checks say so."""
    checks, notes = list(verification.checks), joined_notes(verification.notes, later.notes)
    if isinstance(later, Failure):
        for place in places:
            checks[place] = failed(later)
        return replace(verification, checks=tuple(checks), notes=notes)
    deterministic = verification.deterministic and later.deterministic
    if is_whole:
        return replace(later, deterministic=deterministic, notes=notes)
    for place, check in zip(places, later.checks, strict=True):
        checks[place] = check
    return replace(verification, checks=tuple(checks), deterministic=deterministic, notes=notes)
