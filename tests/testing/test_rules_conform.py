"""The project's own rules are held to the kit, as anybody's are."""

from __future__ import annotations

from typing import Any

from draftverify.kit import Subject, make_context, parametrize_with_checks
from draftverify.rules import (
    All,
    Beam,
    Best,
    BestStep,
    BlockVerification,
    Cascade,
    DualAgreement,
    Ensemble,
    First,
    GreedyMatch,
    KSeq,
    Lenience,
    LongestPrefix,
    Lossy,
    Majority,
    Speculative,
    TokenMatch,
    Tournament,
    Tree,
    Typical,
    WeightedVote,
)

SELECTION = [
    All(),
    Beam(2),
    Best(),
    Best(0.5, abstain_after=2),
    BestStep(),
    DualAgreement(),
    DualAgreement(support="root"),
    First(),
    First(2, threshold=0.5),
    First(threshold=0.5, otherwise="best"),
    LongestPrefix(),
    Majority(),
    Tournament(),
    Tournament(share=0.6, margin=0.1),
    WeightedVote(),
]
SAMPLING = [
    BlockVerification(),
    Cascade(kind="opt", alpha=0.2, measure_drift=True),
    Ensemble(weight=0.5, measure_drift=True),
    Ensemble(weight=0.5),
    KSeq(),
    Lenience(lenience=0.8, measure_drift=True),
    Lossy(alpha=0.1, measure_drift=True),
    Speculative(),
    TokenMatch(),
    Tree(),
    Typical(measure_drift=True),
    Subject(
        GreedyMatch(measure_drift=True), trials=200, contexts=[make_context(settings={"temperature": 0.0})]
    ),
]


@parametrize_with_checks([*SELECTION, *SAMPLING], trials=100)
def test_rules_conform(component: Any, check: Any) -> None:
    """Every rule passes every check that applies to it."""
    check(component)
