"""Dual execution agreement: of the alternatives, those that agree with most others on most checks.

The checks may be as unsure as the items (tests that a model wrote): a check that many items pass is a likelier one, and
an item that agrees with many others on many checks is too. So items are grouped by the set of checks that they pass,
and a group scores (its items) × (the checks that they pass), equal items and equal checks counting each.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from draftverify.errors import ConfigError, ContractError
from draftverify.randomness import Draws
from draftverify.traits import RuleTraits
from draftverify.values import Array, Context, Decision, Proposal, Refusal, Verification

Support: TypeAlias = Literal["count", "root"]
"""What a set's items count for in its score: their number (the paper), or its square root (the authors' program)."""


class ConsensusSet(msgspec.Struct, frozen=True):
    """Items that pass the same checks.

    Args:
        items: their indices, ascending.
        checks: the checks that each of them passes, ascending; at least one.
        score: support of the items × number of checks.
    """

    items: tuple[int, ...]
    checks: tuple[int, ...]
    score: float


def consensus_sets(cross: Array, *, support: Support = "count") -> list[ConsensusSet]:
    """Group items by the set of checks that they pass, best score first; of equal scores the set with the lowest item.

    Scores are compared exactly, so that sets of 8 items × 3 checks and of 18 × 2 are equal under "root".

    Args:
        cross: [n items, m checks], how item i fares on check k: True or 1 is a pass, anything less is none, and NaN
            says that it was not run, which is no pass either.
        support: what the number of items counts for.

    Returns:
        The sets; an item that passes nothing is in none of them.

    Raises:
        ContractError: `cross` is no matrix of numbers between 0 and 1.
        ConfigError: `support` is another word.

    References:
        Chen et al., CodeT: Code Generation with Generated Tests, 2207.10397, which scores by "count"; the program
        published with it, microsoft/CodeT, by "root".
    """
    _check_support(support)
    passed = _matrix(cross) == 1.0
    groups: dict[bytes, list[int]] = {}
    for index, key in enumerate(np.packbits(passed, axis=1)):
        groups.setdefault(key.tobytes(), []).append(index)
    sets: list[tuple[int, ConsensusSet]] = []
    for items in groups.values():
        checks = tuple(int(k) for k in np.flatnonzero(passed[items[0]]))
        if checks:
            s, t = len(items), len(checks)
            exact, score = (s * t, float(s * t)) if support == "count" else (s * t * t, s**0.5 * t)
            sets.append((exact, ConsensusSet(tuple(items), checks, score)))
    sets.sort(key=lambda entry: (-entry[0], entry[1].items[0]))
    return [entry[1] for entry in sets]


class DualAgreement:
    """Keeps the first item of the best consensus set, and is done; for cross evidence [n items, m checks].

    Of sets that score the same, the one with the lowest item; of its items, which no check tells apart, the lowest. An
    item that passes no check is never chosen: it is refused, unless none was run on it. Where the verifier gives
    verdicts too, only items that passed take part.

    Args:
        support: "count" scores a set by items × checks, "root" by √items × checks: fewer but better tested items.
    """

    traits = RuleTraits(shapes={"alternatives"}, needs={"cross"})

    def __init__(self, support: Support = "count") -> None:
        self.support: Support = support
        _check_support(support)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Keep one item, or none when no item passes any check.

        Raises:
            ContractError: the verification has no cross evidence, or it is no matrix of numbers between 0 and 1.
        """
        cross = cross_of(verification)
        checks = verification.checks
        for index, check in enumerate(checks):
            if check.verdict != "pass":
                cross[index] = np.nan
        sets = consensus_sets(cross, support=self.support)
        refused = [Refusal(i, check.reason) for i, check in enumerate(checks) if check.verdict == "reject"]
        judged = ~np.isnan(cross).all(axis=1)
        hopeless = judged & ~(cross == 1.0).any(axis=1)
        refused += [Refusal(int(index), "passes no check") for index in np.flatnonzero(hopeless)]
        return Decision(kept=sets[0].items[:1] if sets else (), refused=tuple(refused), done=bool(sets))

    def finish(self, context: Context) -> Any:
        """The item; None when none was accepted."""
        return context.accepted[0] if context.accepted else None


def _check_support(support: str) -> None:
    if support not in ("count", "root"):
        raise ConfigError(f"support is {support!r}; it is 'count' or 'root'", path="support")


def cross_of(verification: Verification) -> Any:
    """A copy of the cross evidence [n items, m checks], for rules that compare items by it.

    Raises:
        ContractError: there is none, or it is no matrix of numbers between 0 and 1 (or NaN).
    """
    if verification.evidence is None or verification.evidence.cross is None:
        raise ContractError("the rule compares items by `evidence.cross`; the verification has none")
    return _matrix(verification.evidence.cross).copy()


def _matrix(cross: Array) -> Any:
    try:
        matrix = np.asarray(cross, dtype=float)
    except (TypeError, ValueError) as error:
        raise ContractError(f"cross evidence must be a matrix of numbers: {error}") from None
    if matrix.ndim != 2:
        raise ContractError(f"cross evidence has shape {matrix.shape}; [items, checks] is needed")
    if ((matrix < 0) | (matrix > 1)).any():
        raise ContractError("cross evidence must lie between 0 (fails) and 1 (passes), or be NaN (not run)")
    return matrix
