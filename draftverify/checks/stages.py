"""A block's way through several verifiers, from cheap to dear: who is asked about which items, and whose word stands.

Nothing here calls a verifier; `combined` does. A *stage* is a Verifier like any other. What it raised is a word too:
its items are errors or timeouts, and never rejections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from draftverify.engine.boundary import read_verification
from draftverify.engine.functions import failed
from draftverify.engine.parts import name_of
from draftverify.errors import ContractError
from draftverify.protocols import Verifier
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

__all__ = ["AllWay", "AnyWay", "StagePass", "Way", "heard", "named", "names_of", "part_of", "resting_on"]


class StagePass(msgspec.Struct, frozen=True, eq=False):
    """What one stage said in one pass.

    Args:
        stage: its name.
        indices: of the block's items that it was given.
        checks: one for each of these, the stage named.
        seconds: what it says that it took, or what the clock says.
        verification: all that it returned; None when it failed.
    """

    stage: str
    indices: tuple[int, ...]
    checks: tuple[Check, ...]
    seconds: float
    verification: Verification | None


def heard(name: str, stage: Verifier, indices: Sequence[int], answer: Any, seconds: float) -> StagePass:
    """What a stage said of these items of a block; an answer that breaks its contract is a failure of the stage.

    Args:
        name: of the stage.
        stage: which one.
        indices: of the items.
        answer: what came, or a Failure of the call.
        seconds: what the clock says.
    """
    found = read_verification(answer, len(indices), stage)
    if isinstance(found, Verification) and len(found.checks) != len(indices):
        said = f"{name_of(stage)}: 0 checks came for {len(indices)} items; a stage gives one for each"
        found = Failure.of(ContractError(said))
    if isinstance(found, Failure):
        return StagePass(name, tuple(indices), (named(failed(found), name),) * len(indices), seconds, None)
    if found.cost is not None and found.cost.seconds is not None:
        seconds = found.cost.seconds
    checks = tuple(named(check, name) for check in found.checks)
    return StagePass(name, tuple(indices), checks, seconds, found)


def named(check: Check, stage: str) -> Check:
    """The check, as this stage's where it has no name."""
    return check if check.stage else replace(check, stage=stage)


def resting_on(check: Check, *others: Check | None) -> Check:
    """The check, with the caveats of the others too on which it rests."""
    caveats = dict.fromkeys(each.caveat for each in (*others, check) if each is not None and each.caveat)
    return check if set(caveats) <= {check.caveat} else replace(check, caveat="; ".join(caveats))


def names_of(stages: Sequence[Verifier]) -> tuple[str, ...]:
    """A name for each stage: its own, its function's, or its class's in lower case; numbered where two share one."""
    found: list[str] = []
    for stage in stages:
        function = getattr(getattr(stage, "function", None), "__name__", "")
        name = own = str(getattr(stage, "name", "") or function or type(stage).__name__.lower())
        number = 1
        while name in found:
            number += 1
            name = f"{own} {number}"
        found.append(name)
    return tuple(found)


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
    """What is known of a block's items on their way through the stages.

    Args:
        proposal: the block.
        enough: how many passed items suffice, lowest index first; None for all.
    """

    def __init__(self, proposal: Proposal, enough: int | None = None) -> None:
        self.proposal = proposal
        self.enough = enough
        self.passes: list[StagePass] = []
        self._heard: list[tuple[StagePass, int | None, bool]] = []

    def hear(self, found: StagePass, enough: int | None = None, *, beside: bool = False) -> None:
        """What a stage said, as it said it.

        Args:
            found: its pass.
            enough: the early stop that it was allowed.
            beside: whether it was asked for the record alone; its word decides nothing then.
        """
        self._heard.append((found, enough, beside))
        if not beside:
            self.take(found)

    def left(self, stage: str) -> list[int]:
        """The items on which a stage has not said its word, and all that they stand on."""
        words: dict[int, Check] = {}
        for found, _, _ in self._heard:
            if found.stage == stage:
                words.update(zip(found.indices, found.checks, strict=True))
        wanted: set[int] = set()
        for index in range(len(self.proposal)):
            path = self.proposal.path(index)
            word = words.get(index)
            above = [words[each].verdict for each in path[:-1] if each in words]
            if word is None or (word.verdict == "unchecked" and all(each == "pass" for each in above)):
                wanted.update(path)
        return sorted(wanted)

    @property
    @abstractmethod
    def open(self) -> list[int]:
        """The items that the next stage is asked about, each with all that it stands on."""

    def enough_at(self, last: bool) -> int | None:
        """Whether the next stage may stop early, and when: what an earlier one left would be missing at the last, and
        in a tree one that judges single items would count those on branches that are cut already."""
        straight = self.proposal.fits("chain") or self.proposal.fits("alternatives")
        return self.enough if last and straight else None

    @abstractmethod
    def take(self, found: StagePass) -> None:
        """What the next stage said."""

    @property
    @abstractmethod
    def checks(self) -> tuple[Check, ...]:
        """Each item's check, by all that was heard."""

    def verification(self, order: Sequence[str], provides: Collection[str]) -> Verification:
        """The block's verification; `order` are the names of the stages."""
        told = [found.verification for found in self.passes if found.verification is not None]
        checks = self.checks
        costs = [one.cost for one in told]
        cost = None
        if any(costs):
            all_told = len(costs) == len(self.passes) and all(
                one and one.seconds is not None for one in costs
            )
            seconds = sum(found.seconds for found in self.passes) if all_told else None
            cost = Cost(seconds, sum(one.units for one in costs if one))
        if any(beside for _, _, beside in self._heard):
            # What was asked for the record alone is no cost of this order.
            cost = Cost(sum(found.seconds for found in self.passes), cost.units if cost else 0.0)
        return Verification(
            checks=checks,
            evidence=Evidence(cross=self._cross(order[-1])) if "cross" in provides else None,
            cost=cost,
            deterministic=all(one.deterministic for one in told),
            notes={"order": list(order), **self.notes(), **self._told(checks)},
        )

    def _told(self, checks: Sequence[Check]) -> dict[str, Any]:
        """What each stage said, for replays in another order; the seconds of what it was asked for the record alone."""
        heard: list[Any] = []
        seconds: dict[str, float] = {}
        for found, enough, beside in self._heard:
            said = found.verification
            noted = said.notes if said is not None else EMPTY
            one = Heard(
                stage=found.stage,
                items=found.indices,
                checks=tuple(
                    None if check == checks[index] else check
                    for index, check in zip(found.indices, found.checks, strict=True)
                ),
                enough=enough,
                beside=beside,
                failed=said is None,
                units=said.cost.units if said is not None and said.cost is not None else 0.0,
                deterministic=said is None or said.deterministic,
                notes={key: value for key, value in noted.items() if key not in TIMES},
            )
            heard.append(msgspec.to_builtins(one))
            if beside:
                seconds[found.stage] = seconds.get(found.stage, 0.0) + found.seconds
        return {"heard": heard, **({"seconds_beside": seconds} if seconds else {})}

    def _cross(self, stage: str) -> Any:
        """[n, m], what a stage found of its items on each check; NaN for those that never came to it.

        Where the checks are the items themselves, judged in pairs, so that the diagonal is NaN, the columns stand where
        the items do.
        """
        n = len(self.proposal)
        cross = np.full((n, 0), np.nan)
        for found in self.passes:
            evidence = None if found.verification is None else found.verification.evidence
            if found.stage == stage and evidence is not None and evidence.cross is not None:
                own = np.asarray(evidence.cross, dtype=float)
                if own.shape[1] == len(found.indices) < n and np.isnan(np.diagonal(own)).all():
                    pairs = np.full((len(own), n), np.nan)
                    pairs[:, list(found.indices)] = own
                    own = pairs
                if cross.shape[1] != own.shape[1]:
                    cross = np.full((n, own.shape[1]), np.nan)
                cross[list(found.indices)] = own
        return cross

    def notes(self) -> dict[str, Any]:
        """What the stages noted, and the seconds of each."""
        notes: dict[str, Any] = {}
        skipped = [
            found.stage for found in self.passes if all(check.verdict == "abstain" for check in found.checks)
        ]
        if skipped:
            notes["skipped"] = list(dict.fromkeys(skipped))
        own: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        for found in self.passes:
            seconds[found.stage] = seconds.get(found.stage, 0.0) + found.seconds
            noted = found.verification.notes if found.verification is not None else EMPTY
            if rest := {key: value for key, value in noted.items() if key not in (*TIMES, "heard")}:
                own[found.stage] = rest
        if own:
            notes["stages"] = own
        notes["seconds"] = seconds
        return notes


class AllWay(Way):
    """The first word that is not a pass is an item's check; it passes when every stage passed it."""

    def __init__(self, proposal: Proposal, enough: int | None = None) -> None:
        super().__init__(proposal, enough)
        self._words: list[Check | None] = [None] * len(proposal)

    @property
    def open(self) -> list[int]:
        """Those that every stage passed so far, they and all that they stand on."""
        found: list[int] = []
        alive = {-1}
        for index, parent in enumerate(self.proposal.parents):
            word = self._words[index]
            if parent in alive and (word is None or word.verdict == "pass"):
                alive.add(index)
                found.append(index)
        return found

    def take(self, found: StagePass) -> None:
        """The last word is the one that counts: no stage is asked about what another did not pass."""
        self.passes.append(found)
        for index, check in zip(found.indices, found.checks, strict=True):
            self._words[index] = resting_on(check, self._words[index]) if check.verdict == "pass" else check

    @property
    def checks(self) -> tuple[Check, ...]:
        """What stands on an item that did not pass, and was passed itself so far, is unchecked."""
        going = set(self.open)
        return tuple(
            UNCHECKED if word is None or (word.verdict == "pass" and index not in going) else word
            for index, word in enumerate(self._words)
        )


class AnyWay(Way):
    """An item passes when one stage passed it; else its check is the one that leaves most open.

    A failed check might have been a pass, and so might an abstention, or an item of a chain that a stage never came to:
    an item is rejected only where every stage that was asked about it rejected it.

    Args:
        proposal: the block.
        enough: how many passed items suffice.
        stages: how many there are.
    """

    def __init__(self, proposal: Proposal, enough: int | None, stages: int) -> None:
        super().__init__(proposal, enough)
        self.stages = stages
        self._words: list[list[Check]] = [[] for _ in proposal.items]

    def enough_at(self, last: bool) -> int | None:
        """A pass of any stage is final, so every stage may stop early."""
        return self.enough

    @property
    def open(self) -> list[int]:
        """Those that none passed yet, before enough had passed, and all that they stand on."""
        wanted: set[int] = set()
        for index, passed in enumerate(self._passed()[: self._cut()]):
            if not passed:
                wanted.update(self.proposal.path(index))
        return sorted(wanted)

    def take(self, found: StagePass) -> None:
        """Of an item that passed already nothing more is heard."""
        self.passes.append(found)
        passed = self._passed()
        for index, check in zip(found.indices, found.checks, strict=True):
            if not passed[index]:
                self._words[index].append(check)

    def _passed(self) -> list[bool]:
        return [bool(words) and words[-1].verdict == "pass" for words in self._words]

    def _cut(self) -> int:
        """How many items, from the first on, hold as many passed ones as are enough; all when fewer passed."""
        passed = [index for index, own in enumerate(self._passed()) if own]
        enough = len(passed) + 1 if self.enough is None else self.enough
        return len(self._words) if len(passed) < enough else passed[enough - 1] + 1 if enough else 0

    @property
    def checks(self) -> tuple[Check, ...]:
        """What lies behind enough passed items, and was not put before every stage, is unchecked."""
        cut = self._cut()
        return tuple(
            UNCHECKED if index >= cut and not self._settled(words) else self._word(index)
            for index, words in enumerate(self._words)
        )

    def _word(self, index: int) -> Check:
        """The one that leaves most open; an abstention where one stage rejected the item, another never came to it, and
        all that it stands on passed: it is refused by no more than some, and there is nothing to wait for."""
        check = _most_open(self._words[index])
        if check.verdict == "unchecked" and any(word.verdict == "reject" for word in self._words[index]):
            passed = self._passed()
            if all(passed[above] for above in self.proposal.path(index)[:-1]):
                return Check("abstain", reason="unchecked", stage=check.stage)
        return check

    def _settled(self, words: Sequence[Check]) -> bool:
        """Whether an item passed, or every stage looked at it."""
        looked = [check.verdict for check in words if check.verdict != "unchecked"]
        return "pass" in looked or len(looked) == self.stages


def _most_open(words: Sequence[Check]) -> Check:
    for verdict in ("pass", "error", "timeout", "abstain", "unchecked"):
        for check in words:
            if check.verdict == verdict:
                return check
    rejects = [check for check in words if check.verdict == "reject"]
    if len(rejects) < 2:
        return rejects[0] if rejects else UNCHECKED
    scores = [check.score for check in rejects if check.score is not None]
    said = [f"{check.stage}: {check.feedback or check.reason or 'refused'}" for check in rejects]
    check = Check(
        "reject",
        score=max(scores, default=None),
        reason=rejects[-1].reason,
        feedback="one of these is needed\n" + "\n".join(said),
        stage=rejects[-1].stage,
    )
    return resting_on(check, *rejects)
