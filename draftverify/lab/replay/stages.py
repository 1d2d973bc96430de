"""What the stages of a recorded verifier said in each round, whether one of them stops early, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from draftverify.checks.combined import Combined
from draftverify.identity import arguments_of
from draftverify.protocols import Rejudges
from draftverify.traits import VerifierTraits, offers, traits_of
from draftverify.values import Check, Heard, Round, TaskRecord


class Whole(NamedTuple):
    """One pass: its checks, seconds and cost."""

    checks: tuple[Check, ...]
    seconds: float
    cost: float


class Spoken:
    """A stage's recorded passes over the items of a round.

    Args:
        passes: its own, of the round; those for the record alone are the last.
        checks: the block's.
        seconds: of the passes that counted, and of those for the record alone.
    """

    def __init__(
        self, passes: Sequence[Heard], checks: Sequence[Check], seconds: tuple[float, float] | None
    ) -> None:
        self.passes = passes
        self._checks = checks
        self.words: dict[int, Check] = {}
        self.of: dict[int, Heard] = {}
        for stage_pass in passes:
            for item, own_check in zip(stage_pass.items, stage_pass.checks, strict=True):
                check = checks[item] if own_check is None else own_check
                if item not in self.words or self.words[item].verdict == "unchecked":
                    self.words[item], self.of[item] = check, stage_pass
        self._seconds = seconds

    @property
    def seconds(self) -> float:
        """The seconds of all its passes."""
        return sum(self._seconds or (0.0,))

    def looked(self, beside: bool) -> list[int]:
        """The items at which it looked in the passes of a kind."""
        return [
            item for item, check in self.words.items() if _looked(check) and self.of[item].beside == beside
        ]

    def points(self, at_once: int) -> Iterator[tuple[int, float]]:
        """For each kind of passes, the number of turns of `at_once` items, and the seconds."""
        if self._seconds is not None:
            for beside, seconds in zip((False, True), self._seconds, strict=True):
                if count := len(self.looked(beside)):
                    yield -(-count // at_once), seconds

    def share(self, items: Sequence[int], fixed: float, at_once: int) -> float:
        """The seconds of these items beyond what a pass takes whatever its size."""
        total = 0.0
        for beside, seconds in zip((False, True), self._seconds or (0.0, 0.0), strict=True):
            looked = self.looked(beside)
            count = len(set(looked) & set(items))
            if count:
                total += max(seconds - fixed, 0.0) * -(-count // at_once) / -(-len(looked) // at_once)
        return total

    def whole(self, items: Sequence[int], enough: int | None) -> Whole | None:
        """The pass over just these items with this early stop; None where there was none."""
        counted = [stage_pass for stage_pass in self.passes if not stage_pass.beside]
        if len(counted) != 1 or (counted[0].items, counted[0].enough) != (tuple(items), enough):
            return None
        paired = zip(items, counted[0].checks, strict=True)
        checks = tuple(self._checks[item] if check is None else check for item, check in paired)
        return Whole(checks, 0.0 if self._seconds is None else self._seconds[0], counted[0].cost)


class Stages:
    """The stages of a recorded verifier.

    Args:
        verifier: it.
        records: all of its.

    Attributes:
        parts: its stages by name.
    """

    def __init__(self, verifier: Any, records: Sequence[TaskRecord]) -> None:
        staged = isinstance(verifier, Combined)
        self.parts: Mapping[str, Any] = (
            dict(zip(verifier.names, verifier.stages, strict=True)) if staged else {}
        )
        self._stops: dict[str, bool] = {}
        self._cuts: dict[str, bool] = {}
        points: dict[str, list[tuple[int, float]]] = {}
        for record in records if self.parts else ():
            for round in record.rounds:
                for name, spoken in (spoken_in(round) or {}).items():
                    points.setdefault(name, []).extend(spoken.points(self.at_once(name)))
                    self._note(name, round, spoken)
        self._fixed = {name: _fixed(timed) for name, timed in points.items()}

    def _note(self, name: str, round: Round, spoken: Spoken) -> None:
        for stage_pass in spoken.passes:
            checks: dict[int, Check] = {}
            passed = 0
            for item, own_check in zip(stage_pass.items, stage_pass.checks, strict=True):
                check = checks[item] = round.checks[item] if own_check is None else own_check
                over = stage_pass.enough is not None and passed >= stage_pass.enough
                parent_check = checks.get(round.parents[item])
                if not over and parent_check is not None and parent_check.verdict != "pass":
                    self._cuts.setdefault(name, not _looked(check))
                passed += check.verdict == "pass"
            if (
                stage_pass.enough is not None
                and (said_so := stopped(checks, round.parents, stage_pass.enough)) is not None
            ):
                self._stops.setdefault(name, said_so)

    def stops(self, name: str) -> bool | None:
        """Whether a stage leaves items unchecked once enough passed; None where no record shows it."""
        return self._stops.get(name)

    def cuts(self, name: str) -> bool | None:
        """Whether a stage leaves unchecked what stands on an item that it did not pass; None where that is unknown."""
        return self._cuts.get(name)

    def at_once(self, name: str) -> int:
        """How many items a stage looks at beside each other."""
        return max(traits_of(self.parts[name], VerifierTraits).at_once, 1) if name in self.parts else 1

    def fixed(self, name: str) -> float:
        """Seconds of a stage's pass, whatever its size."""
        return self._fixed.get(name, 0.0)


def spoken_in(round: Round) -> dict[str, Spoken] | None:
    """The recorded passes of each stage in a round; None where they were not recorded."""
    notes = round.notes or {}
    try:
        heard = msgspec.convert(notes.get("heard"), tuple[Heard, ...])
    except msgspec.ValidationError:
        return None
    passes_of: dict[str, list[Heard]] = {}
    for entry in heard:
        if len(entry.items) != len(entry.checks) or any(item >= len(round.checks) for item in entry.items):
            return None
        passes_of.setdefault(entry.stage, []).append(entry)
    by_stage, beside = notes.get("seconds"), notes.get("seconds_beside")
    return {
        name: Spoken(
            passes,
            round.checks,
            None if by_stage is None else (_took(by_stage, name), _took(beside, name)),
        )
        for name, passes in passes_of.items()
    }


def stopped(checks: Mapping[int, Check], parents: Sequence[int], enough: int) -> bool | None:
    """Whether a pass left items unchecked once enough passed; None where it had none left to show it by.

    An item that was left unchecked says nothing where it stands on one that did not pass.
    """
    passed = 0
    for item, check in checks.items():
        parent_check = checks.get(parents[item])
        if passed >= enough and (_looked(check) or parent_check is None or parent_check.verdict == "pass"):
            return not _looked(check)
        passed += check.verdict == "pass"
    return None


def differs_in_thresholds(part: Any, recorded: Any) -> bool:
    """Whether two verifiers are alike but for the arguments that are `thresholds`, of which they can tell."""
    if type(part) is not type(recorded) or not offers(part, Rejudges):
        return False
    ours, theirs = arguments_of(part), arguments_of(recorded)
    names = ours.keys() - traits_of(part, VerifierTraits).thresholds
    return all(_same(ours[name], theirs.get(name)) for name in names)


def _same(value: Any, recorded: Any) -> bool:
    try:
        return value is recorded or bool(value == recorded)
    except Exception:
        return False


def _took(seconds: Any, name: str) -> float:
    took = seconds.get(name) if isinstance(seconds, dict) else None
    return float(took) if isinstance(took, (int, float)) else 0.0


def _looked(check: Check) -> bool:
    return check.verdict != "unchecked"


def _fixed(points: Sequence[tuple[int, float]]) -> float:
    """The a of a + b·n, by least squares over the median of each size; 0 where all passes were of one size."""
    sizes = sorted({n for n, _ in points})
    if len(sizes) < 2:
        return 0.0
    samples = [[seconds for n, seconds in points if n == size] for size in sizes]
    weights = np.sqrt([len(column) for column in samples])
    slope, fixed = np.polyfit(sizes, [float(np.median(column)) for column in samples], 1, w=weights)
    return float(np.clip(fixed, 0.0, min(seconds for _, seconds in points))) if slope > 0 else 0.0
