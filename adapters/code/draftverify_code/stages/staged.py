"""Stages as one verifier: a block goes through them from first to last, and each sees only what is still alive.

A stage is a Verifier like any other. Its word on an item is one of three: the item goes on, the item's way ends here,
or the stage has nothing to say. What the last stages say is what counts: nothing passes that none of them passed.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify import (
    Check,
    ConfigError,
    Context,
    ContractError,
    Cost,
    Evidence,
    Proposal,
    Task,
    Verification,
    Verifier,
)

__all__ = ["Stages"]

TIERS = ("none", "landlock", "namespaces", "bubblewrap")
"""Isolation, from the weakest."""
INTEGRITIES = ("shared-process", "separate-process", "static")
"""Integrity, from the weakest; a stage that runs nothing of the candidate does not weaken what others did."""
KNOWN = frozenset({"isolation", "integrity", "order", "dropped", "skipped", "seconds"})


class Stages:
    """Checks a block stage by stage; each stage is one pass over the items that every earlier one let through.

    The first word that is neither pass nor abstain is an item's check: a reject, an error and a timeout end its way. A
    filter (any stage before the trusted ones) that abstains has nothing against the item, which goes on. An item passes
    when no stage ended its way and a trusted one passed it; where all trusted stages abstained, its check is that
    abstention. Only the last stage stops early, at `context.enough`.

    A stage that raises is an error (a TimeoutError: a timeout) of the items that it was given; the others keep what was
    said of them. `notes` of the verification: "order", the stages' names; "skipped", those that abstained on all they
    were given; "isolation" and "integrity", the weakest of the stages that ran; "seconds" by stage; and under "stages"
    whatever else a stage noted.

    Args:
        stages: from cheap to dear.
        trusted: how many of the last ones are what counts.
    """

    def __init__(self, stages: list[Verifier], trusted: int = 1) -> None:
        check_stages(stages, trusted)
        self.stages = stages
        self.trusted = trusted

    @property
    def provides(self) -> frozenset[str]:
        """Verdicts; scores too where every trusted stage gives them; cross evidence where the only trusted one does."""
        declared = [getattr(stage, "provides", ()) for stage in self.stages[-self.trusted :]]
        words = {"scores"} if self.trusted > 1 else {"scores", "cross"}
        return frozenset({"verdicts"} | {word for word in words if all(word in one for one in declared)})

    @property
    def deterministic(self) -> bool:
        """Whether every stage is."""
        return all(getattr(stage, "deterministic", True) for stage in self.stages)

    @property
    def concurrent(self) -> bool:
        """Whether every stage is."""
        return all(getattr(stage, "concurrent", True) for stage in self.stages)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One pass of each stage over what is still alive."""
        names = names_of(self.stages)
        way = walk(names, self.stages, self.trusted, context, proposal)
        return way.verification(names, self.provides)

    def prepare(self, task: Task) -> Task:
        """The task as each stage in turn prepares it."""
        for stage in self.stages:
            if hasattr(stage, "prepare"):
                task = stage.prepare(task)
        return task

    def describe(self, values: Sequence[Any]) -> list[str]:
        """As the last stage that describes values does it; else texts as they are."""
        for stage in reversed(self.stages):
            if hasattr(stage, "describe"):
                return list(stage.describe(values))
        return [
            str(value.get("text", value)) if isinstance(value, Mapping) else str(value) for value in values
        ]

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Every stage looks at the settings.

        Raises:
            ConfigError: a stage cannot read them.
        """
        for stage in self.stages:
            if hasattr(stage, "check_settings"):
                stage.check_settings(settings)

    def open(self) -> None:
        """Open every stage; if one cannot be, none stays open."""
        for stage in self.stages:
            if hasattr(stage, "open"):
                try:
                    stage.open()
                except BaseException:
                    self.close()
                    raise

    def close(self) -> None:
        """Close every stage, whatever befalls the others."""
        failed: Exception | None = None
        for stage in reversed(self.stages):
            if hasattr(stage, "close"):
                try:
                    stage.close()
                except Exception as error:
                    failed = error
        if failed is not None:
            raise failed


def check_stages(stages: Sequence[Verifier], trusted: int) -> None:
    """Refuse stages that cannot be composed.

    Raises:
        ConfigError: there is none, fewer than are trusted, or one is asynchronous.
    """
    if not 1 <= trusted <= len(stages):
        raise ConfigError(
            f"of {len(stages)} stages {trusted} cannot be trusted; at least one is needed, the last"
        )
    for name, stage in zip(names_of(stages), stages, strict=True):
        if inspect.iscoroutinefunction(getattr(stage, "verify", None)):
            raise ConfigError(f"the stage {name!r} is asynchronous; stages are called one after the other")


def names_of(stages: Sequence[Verifier]) -> tuple[str, ...]:
    """A name for each stage: its own, or its class's in lower case; numbered where two share one."""
    found: list[str] = []
    for stage in stages:
        name = own = str(getattr(stage, "name", "") or type(stage).__name__.lower())
        number = 1
        while name in found:
            number += 1
            name = f"{own} {number}"
        found.append(name)
    return tuple(found)


class StagePass(msgspec.Struct, frozen=True, eq=False):
    """What one stage said in one pass.

    Args:
        stage: its name.
        indices: of the block's items that it was given.
        checks: one for each of these, the stage named.
        seconds: what it says that it took, or what the clock says.
        verification: all that it returned; None when it raised.
    """

    stage: str
    indices: tuple[int, ...]
    checks: tuple[Check, ...]
    seconds: float
    verification: Verification | None


def stage_pass(
    stage: Verifier,
    name: str,
    context: Context,
    proposal: Proposal,
    indices: Sequence[int],
    *,
    enough: int | None = None,
) -> StagePass:
    """Give a stage some of a block's items in one call, and turn what it raises into checks."""
    part = proposal if len(indices) == len(proposal) else proposal.subset(indices)
    verification = None
    start = time.perf_counter()
    try:
        verification = stage.verify(msgspec.structs.replace(context, enough=enough), part)
        checks = verification.checks
        if len(checks) != len(indices):
            raise ContractError(
                f"{len(checks)} checks came for {len(indices)} items; a stage gives one for each"
            )
    except Exception as error:
        late = isinstance(error, TimeoutError)
        said = f"{type(error).__name__}: {error}"
        checks = (Check("timeout" if late else "error", None, "wall" if late else "tool", said),) * len(
            indices
        )
        verification = None
    seconds = time.perf_counter() - start
    if verification is not None and verification.cost is not None and verification.cost.seconds is not None:
        seconds = verification.cost.seconds
    named = tuple(check if check.stage else msgspec.structs.replace(check, stage=name) for check in checks)
    return StagePass(name, tuple(indices), named, seconds, verification)


def walk(
    names: Sequence[str], stages: Sequence[Verifier], trusted: int, context: Context, proposal: Proposal
) -> Walk:
    """Take a block through stages, each of which is given what is still alive."""
    way = Walk(len(proposal))
    last = len(stages) - 1
    for place, (name, stage) in enumerate(zip(names, stages, strict=True)):
        alive = way.alive
        if not alive:
            break
        enough = context.enough if place == last else None
        found = stage_pass(stage, name, context, proposal, alive, enough=enough)
        way.take(found, trusted=place > last - trusted)
    return way


class Walk:
    """What is known of a block's items on their way through the stages.

    Args:
        n: how many items.
    """

    def __init__(self, n: int) -> None:
        self.passes: list[StagePass] = []
        self._ended: list[Check | None] = [None] * n
        self._vouched: list[Check | None] = [None] * n
        self._abstained: list[Check | None] = [None] * n

    @property
    def alive(self) -> list[int]:
        """The items whose way has not ended."""
        return [index for index, check in enumerate(self._ended) if check is None]

    def take(self, found: StagePass, *, trusted: bool) -> None:
        """What the next stage said; of items whose way has ended already nothing is heard."""
        self.passes.append(found)
        for index, check in zip(found.indices, found.checks, strict=True):
            if self._ended[index] is not None:
                continue
            if check.verdict not in ("pass", "abstain"):
                self._ended[index] = check
            elif trusted and check.verdict == "pass":
                self._vouched[index] = check
            elif trusted:
                self._abstained[index] = check

    @property
    def checks(self) -> tuple[Check, ...]:
        """Each item's check, once the trusted stages were heard."""
        found = zip(self._ended, self._vouched, self._abstained, strict=True)
        return tuple(ended or vouched or abstained or Check("abstain") for ended, vouched, abstained in found)

    def verification(self, order: Sequence[str], provides: Collection[str], **more: Any) -> Verification:
        """The block's verification; `order` are the names of the stages, `more` goes into the notes."""
        reported = [found.verification for found in self.passes if found.verification is not None]
        costs = [one.cost for one in reported]
        cost = None
        if any(costs):
            told = len(costs) == len(self.passes) and all(one and one.seconds is not None for one in costs)
            cost = Cost(
                sum(found.seconds for found in self.passes) if told else None,
                sum(one.units for one in costs if one),
            )
        return Verification(
            checks=self.checks,
            evidence=Evidence(cross=self._cross(order[-1])) if "cross" in provides else None,
            cost=cost,
            deterministic=all(one.deterministic for one in reported),
            notes={"order": list(order), **more, **self._notes()},
        )

    def _cross(self, stage: str) -> Any:
        """[n, m], what a stage found of its items on each check; NaN for those that never came to it."""
        cross = np.full((len(self._ended), 0), np.nan)
        for found in self.passes:
            evidence = None if found.verification is None else found.verification.evidence
            if found.stage == stage and evidence is not None and evidence.cross is not None:
                own = np.asarray(evidence.cross, dtype=float)
                if cross.shape[1] != own.shape[1]:
                    cross = np.full((len(self._ended), own.shape[1]), np.nan)
                cross[list(found.indices)] = own
        return cross

    def _notes(self) -> dict[str, Any]:
        told = [
            (found.stage, found.verification.notes) for found in self.passes if found.verification is not None
        ]
        notes: dict[str, Any] = {}
        for word, weakest_first in (("isolation", TIERS), ("integrity", INTEGRITIES)):
            values = [own[word] for _, own in told if word in own]
            if values:
                notes[word] = min(values, key=lambda value: _rank(value, weakest_first))
        skipped = [
            found.stage for found in self.passes if all(check.verdict == "abstain" for check in found.checks)
        ]
        if skipped:
            notes["skipped"] = list(dict.fromkeys(skipped))
        others = {
            name: rest for name, own in told if (rest := {key: own[key] for key in own if key not in KNOWN})
        }
        if others:
            notes["stages"] = others
        seconds: dict[str, float] = {}
        for found in self.passes:
            seconds[found.stage] = seconds.get(found.stage, 0.0) + found.seconds
        notes["seconds"] = seconds
        return notes


def _rank(value: Any, weakest_first: Sequence[str]) -> int:
    """What is not known is no stronger than the weakest."""
    return weakest_first.index(value) if value in weakest_first else -1
