"""A block's way through several verifiers, from cheap to dear: who is asked about which items, and whose word stands.

Nothing here calls a verifier; `combined` does. A *stage* is a Verifier like any other. What it raised is a word too:
its items are errors or timeouts, and never rejections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from draftverify.engine.boundary import read_verification
from draftverify.engine.failures import failed
from draftverify.errors import ConfigError, ContractError
from draftverify.exchanges import KEY
from draftverify.protocols import Verifier
from draftverify.traits import VerifierTraits, name_of, traits_of
from draftverify.values import (
    EMPTY,
    GIVEN,
    TIMES,
    UNCHECKED,
    Check,
    Cost,
    Evidence,
    Failure,
    Heard,
    Proposal,
    Verification,
)

_HEARD_ALONE = frozenset((*TIMES, "heard", KEY))
"""Of a stage's notes those that stand with what was heard of it, pass by pass."""


class StagePass(msgspec.Struct, frozen=True, eq=False):
    """The checks of one stage in one pass.

    Args:
        stage: its name.
        indices: of the block's items that it was given.
        checks: one for each of these, the stage named.
        seconds: what it says that it took, or what the clock says.
        verification: all that it returned; None when it failed.
        notes: its own, of a call that failed too.
    """

    stage: str
    indices: tuple[int, ...]
    checks: tuple[Check, ...]
    seconds: float
    verification: Verification | None
    notes: Mapping[str, Any] = EMPTY


def heard(name: str, stage: Verifier, indices: Sequence[int], answer: Any, seconds: float) -> StagePass:
    """A stage's answer about items of a block as a pass; an answer that breaks its contract is a failure of the stage.

    Args:
        name: of the stage.
        stage: which one.
        indices: of the items.
        answer: what came, or a Failure of the call.
        seconds: what the clock says.
    """
    verification = read_verification(answer, len(indices), stage)
    if isinstance(verification, Verification) and len(verification.checks) != len(indices):
        message = f"{name_of(stage)}: 0 checks came for {len(indices)} items; a stage gives one for each"
        verification = Failure.of(ContractError(message))
    if isinstance(verification, Failure):
        check = named(failed(verification), name)
        return StagePass(name, tuple(indices), (check,) * len(indices), seconds, None, verification.notes)
    if verification.cost is not None and verification.cost.seconds is not None:
        seconds = verification.cost.seconds
    checks = tuple(named(check, name) for check in verification.checks)
    return StagePass(name, tuple(indices), checks, seconds, verification, verification.notes)


def named(check: Check, stage: str) -> Check:
    """The check, as this stage's where it has no name."""
    return check if check.stage else replace(check, stage=stage)


def resting_on(check: Check, *supports: Check | None) -> Check:
    """The check, with the caveats of the others too on which it rests."""
    caveats = dict.fromkeys(it.caveat for it in (*supports, check) if it is not None and it.caveat)
    return check if set(caveats) <= {check.caveat} else replace(check, caveat="; ".join(caveats))


def names_of(stages: Sequence[Verifier]) -> tuple[str, ...]:
    """A name for each stage: its own, its function's, or its class's in lower case."""
    traits = (traits_of(stage, VerifierTraits) for stage in stages)
    return numbered(
        own.name or type(stage).__name__.lower() for own, stage in zip(traits, stages, strict=True)
    )


def numbered(bases: Iterable[str]) -> tuple[str, ...]:
    """The names, numbered where two are one."""
    names: list[str] = []
    for base in bases:
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base} {number}"
        names.append(name)
    return tuple(names)


def part_of(proposal: Proposal, indices: Sequence[int]) -> Proposal:
    """These items of a block, in their order, each with all that it stands on (law "given")."""
    if len(indices) == len(proposal):
        return proposal
    if all(parent == -1 for parent in proposal.parents):
        return proposal.subset(indices)
    places = {index: place for place, index in enumerate(indices)}
    return replace(
        proposal,
        items=tuple(proposal.items[index] for index in indices),
        parents=tuple(places.get(proposal.parents[index], -1) for index in indices),
        law=GIVEN,
        extends=tuple(proposal.extends[index] for index in indices) if proposal.extends else (),
        evidence=EMPTY,
    )


class Way(ABC):
    """A block on its way through the stages, and its items' checks so far.

    Args:
        proposal: the block.
        enough: how many passed items suffice, lowest index first; None for all.
    """

    def __init__(self, proposal: Proposal, enough: int | None = None) -> None:
        self.proposal = proposal
        self.enough = enough
        self.passes: list[StagePass] = []
        self._heard: list[tuple[StagePass, int | None, bool]] = []

    def hear(self, stage_pass: StagePass, enough: int | None = None, *, beside: bool = False) -> None:
        """Take a stage's pass, and note it for the record.

        Args:
            stage_pass: its answer.
            enough: the early stop that it was allowed.
            beside: whether it was asked for the record alone; its word decides nothing then.
        """
        self._heard.append((stage_pass, enough, beside))
        if not beside:
            self.take(stage_pass)

    def left(self, stage: str) -> list[int]:
        """The items on which a stage has not said its word, and all that they stand on."""
        checks: dict[int, Check] = {}
        for stage_pass, _, _ in self._heard:
            if stage_pass.stage == stage:
                checks.update(zip(stage_pass.indices, stage_pass.checks, strict=True))
        unheard: list[int] = []
        for index in range(len(self.proposal)):
            ancestors = self.proposal.path(index)[:-1]
            check = checks.get(index)
            passed = all(checks[ancestor].verdict == "pass" for ancestor in ancestors if ancestor in checks)
            if check is None or (check.verdict == "unchecked" and passed):
                unheard.append(index)
        return self._reaching(unheard)

    def _reaching(self, indices: Iterable[int]) -> list[int]:
        """These items, and all that they stand on."""
        return sorted({ancestor for index in indices for ancestor in self.proposal.path(index)})

    @property
    @abstractmethod
    def open(self) -> list[int]:
        """The items that the next stage is asked about, each with all that it stands on."""

    def enough_at(self, is_last: bool) -> int | None:
        """Whether the next stage may stop early, and when: what an earlier one left would be missing at the last, and
        in a tree one that judges single items would count those on branches that are cut already."""
        straight = self.proposal.fits("chain") or self.proposal.fits("alternatives")
        return self.enough if is_last and straight else None

    @abstractmethod
    def take(self, stage_pass: StagePass) -> None:
        """Take the next stage's pass."""

    @property
    @abstractmethod
    def checks(self) -> tuple[Check, ...]:
        """Each item's check, by all that was heard."""

    def verification(self, order: Sequence[str], provides: Collection[str]) -> Verification:
        """The block's verification; `order` are the names of the stages."""
        answers = (stage_pass.verification for stage_pass in self.passes)
        verifications = [answer for answer in answers if answer is not None]
        checks = self.checks
        costs = [verification.cost for verification in verifications]
        cost = None
        if any(costs):
            all_timed = len(costs) == len(self.passes) and all(
                stage_cost and stage_cost.seconds is not None for stage_cost in costs
            )
            seconds = sum(stage_pass.seconds for stage_pass in self.passes) if all_timed else None
            cost = Cost(seconds, sum(stage_cost.amount for stage_cost in costs if stage_cost))
        if any(beside for _, _, beside in self._heard):
            # What was asked for the record alone is no cost of this order.
            cost = Cost(sum(stage_pass.seconds for stage_pass in self.passes), cost.amount if cost else 0.0)
        return Verification(
            checks=checks,
            evidence=Evidence(cross=self._cross(order[-1])) if "cross" in provides else None,
            cost=cost,
            deterministic=all(verification.deterministic for verification in verifications),
            notes={"order": list(order), **self.notes(), **self._for_replays(checks)},
        )

    def _for_replays(self, checks: Sequence[Check]) -> dict[str, Any]:
        """The stages' own checks, for replays in another order; the seconds of those for the record alone."""
        heard: list[Any] = []
        seconds: dict[str, float] = {}
        for stage_pass, enough, beside in self._heard:
            verification = stage_pass.verification
            cost = verification.cost if verification is not None else None
            entry = Heard(
                stage=stage_pass.stage,
                items=stage_pass.indices,
                checks=tuple(
                    None if check == checks[index] else check
                    for index, check in zip(stage_pass.indices, stage_pass.checks, strict=True)
                ),
                enough=enough,
                beside=beside,
                failed=verification is None,
                cost=cost.amount if cost is not None else 0.0,
                deterministic=verification is None or verification.deterministic,
                notes={key: value for key, value in stage_pass.notes.items() if key not in TIMES},
            )
            heard.append(msgspec.to_builtins(entry))
            if beside:
                seconds[stage_pass.stage] = seconds.get(stage_pass.stage, 0.0) + stage_pass.seconds
        return {"heard": heard, **({"seconds_beside": seconds} if seconds else {})}

    def _cross(self, stage: str) -> Any:
        """[n, m], what a stage found of its items on each check; NaN for those that never came to it.

        Where the checks are the items themselves, judged in pairs, so that the diagonal is NaN, the columns stand where
        the items do.
        """
        n = len(self.proposal)
        cross = np.full((n, 0), np.nan)
        for stage_pass in self.passes:
            evidence = None if stage_pass.verification is None else stage_pass.verification.evidence
            if stage_pass.stage == stage and evidence is not None and evidence.cross is not None:
                part = np.asarray(evidence.cross, dtype=float)
                if part.shape[1] == len(stage_pass.indices) < n and np.isnan(np.diagonal(part)).all():
                    pairs = np.full((len(part), n), np.nan)
                    pairs[:, list(stage_pass.indices)] = part
                    part = pairs
                if cross.shape[1] != part.shape[1]:
                    cross = np.full((n, part.shape[1]), np.nan)
                cross[list(stage_pass.indices)] = part
        return cross

    def notes(self) -> dict[str, Any]:
        """What the stages noted, and the seconds of each."""
        notes: dict[str, Any] = {}
        skipped = [
            stage_pass.stage
            for stage_pass in self.passes
            if all(check.verdict == "abstain" for check in stage_pass.checks)
        ]
        if skipped:
            notes["skipped"] = list(dict.fromkeys(skipped))
        notes_of_stages: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        for stage_pass in self.passes:
            seconds[stage_pass.stage] = seconds.get(stage_pass.stage, 0.0) + stage_pass.seconds
            if stage_notes := {
                key: value for key, value in stage_pass.notes.items() if key not in _HEARD_ALONE
            }:
                notes_of_stages[stage_pass.stage] = stage_notes
        if notes_of_stages:
            notes["stages"] = notes_of_stages
        notes["seconds"] = seconds
        return notes


class AllWay(Way):
    """The first word that is not a pass is an item's check; it passes when every stage passed it."""

    def __init__(self, proposal: Proposal, enough: int | None = None) -> None:
        super().__init__(proposal, enough)
        self._checks: list[Check | None] = [None] * len(proposal)

    @property
    def open(self) -> list[int]:
        """Those that every stage passed so far, they and all that they stand on."""
        indices: list[int] = []
        alive = {-1}
        for index, parent in enumerate(self.proposal.parents):
            check = self._checks[index]
            if parent in alive and (check is None or check.verdict == "pass"):
                alive.add(index)
                indices.append(index)
        return indices

    def take(self, stage_pass: StagePass) -> None:
        """The last word is the one that counts: no stage is asked about what another did not pass."""
        self.passes.append(stage_pass)
        for index, check in zip(stage_pass.indices, stage_pass.checks, strict=True):
            self._checks[index] = resting_on(check, self._checks[index]) if check.verdict == "pass" else check

    @property
    def checks(self) -> tuple[Check, ...]:
        """What stands on an item that did not pass, and was passed itself so far, is unchecked."""
        going = set(self.open)
        return tuple(
            UNCHECKED if check is None or (check.verdict == "pass" and index not in going) else check
            for index, check in enumerate(self._checks)
        )


class _Gathering(Way):
    """A way on which the words on an item are gathered until they decide it.

    Args:
        proposal: the block.
        enough: how many passed items suffice.
        stages: how many there are.
    """

    def __init__(self, proposal: Proposal, enough: int | None, stages: int) -> None:
        super().__init__(proposal, enough)
        self.stages = stages
        self._checks: list[list[Check]] = [[] for _ in proposal.items]

    @abstractmethod
    def _decided(self, index: int) -> bool:
        """Whether more words on an item would change nothing."""

    def take(self, stage_pass: StagePass) -> None:
        """Of an item that is decided nothing more is heard."""
        self.passes.append(stage_pass)
        for index, check in zip(stage_pass.indices, stage_pass.checks, strict=True):
            if not self._decided(index):
                self._checks[index].append(check)


class AnyWay(_Gathering):
    """An item passes when one stage passed it; else its check is the one that leaves most open.

    A failed check might have been a pass, and so might an abstention, or an item of a chain that a stage never came to:
    an item is rejected only where every stage that was asked about it rejected it.
    """

    def enough_at(self, is_last: bool) -> int | None:
        """A pass of any stage is final, so every stage may stop early."""
        return self.enough

    @property
    def open(self) -> list[int]:
        """Those that none passed yet, before enough had passed, and all that they stand on."""
        return self._reaching(index for index in range(self._cut()) if not self._decided(index))

    def _decided(self, index: int) -> bool:
        """It has passed."""
        checks = self._checks[index]
        return bool(checks) and checks[-1].verdict == "pass"

    def _cut(self) -> int:
        """How many items, from the first on, hold as many passed ones as are enough; all when fewer passed."""
        passed = [index for index in range(len(self._checks)) if self._decided(index)]
        enough = len(passed) + 1 if self.enough is None else self.enough
        return len(self._checks) if len(passed) < enough else passed[enough - 1] + 1 if enough else 0

    @property
    def checks(self) -> tuple[Check, ...]:
        """What lies behind enough passed items, and was not put before every stage, is unchecked."""
        cut = self._cut()
        return tuple(
            UNCHECKED if index >= cut and not self._settled(checks) else self._word(index)
            for index, checks in enumerate(self._checks)
        )

    def _word(self, index: int) -> Check:
        """The one that leaves most open; an abstention where one stage rejected the item, another never came to it, and
        all that it stands on passed: it is refused by no more than some, and there is nothing to wait for."""
        check = _most_open(self._checks[index])
        rejected = any(stage_check.verdict == "reject" for stage_check in self._checks[index])
        stands = all(map(self._decided, self.proposal.path(index)[:-1]))
        if rejected and check.verdict == "unchecked" and stands:
            return Check("abstain", reason="unchecked", stage=check.stage)
        return check

    def _settled(self, checks: Sequence[Check]) -> bool:
        """Whether an item passed, or every stage looked at it."""
        looked = [check.verdict for check in checks if check.verdict != "unchecked"]
        return "pass" in looked or len(looked) == self.stages


def votes_needed(at_least: int | None, voters: int) -> int:
    """How many votes pass an item: so many as are given, else more than half.

    Raises:
        ConfigError: it is no number of the voters.
    """
    if at_least is not None and not 1 <= at_least <= voters:
        raise ConfigError(f"at_least is {at_least}; there are {voters} stages", path="at_least")
    return voters // 2 + 1 if at_least is None else at_least


class MostWay(_Gathering):
    """An item passes once so many stages passed it, and is rejected once too few are left that might.

    Args:
        proposal: the block.
        needed: how many passes.
        stages: how many stages there are.
    """

    def __init__(self, proposal: Proposal, needed: int, stages: int) -> None:
        super().__init__(proposal, None, stages)
        self.needed = needed

    @property
    def open(self) -> list[int]:
        """Those on which the votes so far do not decide, and all that they stand on."""
        return self._reaching(index for index in range(len(self._checks)) if not self._decided(index))

    def _count(self, index: int, verdict: str) -> int:
        return sum(check.verdict == verdict for check in self._checks[index])

    def _decided(self, index: int) -> bool:
        passes, rejects = self._count(index, "pass"), self._count(index, "reject")
        return passes >= self.needed or rejects > self.stages - self.needed

    @property
    def checks(self) -> tuple[Check, ...]:
        """Of each item the vote; where it could not be held the word that leaves most open."""
        return tuple(map(self._word, range(len(self._checks))))

    def _word(self, index: int) -> Check:
        votes = self._checks[index]
        passes, rejects = self._count(index, "pass"), self._count(index, "reject")
        if not self._decided(index):
            check = _most_open([vote for vote in votes if vote.verdict not in ("pass", "reject")])
            undone = check.verdict == "unchecked" and passes + rejects
            return Check("abstain", reason="unchecked") if undone else check
        share = passes / (passes + rejects)
        if passes >= self.needed:
            supports = [vote for vote in votes if vote.verdict == "pass"]
            return resting_on(replace(supports[-1], score=share), *supports)
        return replace(_most_open([vote for vote in votes if vote.verdict == "reject"]), score=share)


def _most_open(checks: Sequence[Check]) -> Check:
    for verdict in ("pass", "error", "timeout", "abstain", "unchecked"):
        for check in checks:
            if check.verdict == verdict:
                return check
    rejects = [check for check in checks if check.verdict == "reject"]
    if len(rejects) < 2:
        return rejects[0] if rejects else UNCHECKED
    scores = [check.score for check in rejects if check.score is not None]
    objections = [f"{check.stage}: {check.feedback or check.reason or 'refused'}" for check in rejects]
    check = Check(
        "reject",
        score=max(scores, default=None),
        reason=rejects[-1].reason,
        feedback="one of these is needed\n" + "\n".join(objections),
        stage=rejects[-1].stage,
    )
    return resting_on(check, *rejects)
