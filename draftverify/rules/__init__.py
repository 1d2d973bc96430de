"""Acceptance rules: how much of a verified block is kept, and what stands in the place of what is not.

`laws` maps p and q to what is emitted, `sampling` plays them; `block_verification`, `trees` and `typical` judge blocks
in other ways; `selection` decides by verdicts, and `stopping` says when a task is finished. See docs/rules.md.
"""

from draftverify.rules.agreement import ConsensusSet, DualAgreement, consensus_sets
from draftverify.rules.ballots import Count, count
from draftverify.rules.block_verification import BlockVerification
from draftverify.rules.laws import (
    Chow,
    Diff,
    EnsembleLaw,
    LenienceLaw,
    LossyLaw,
    Opt,
    PositionLaw,
    SpeculativeLaw,
    TokenV1,
    TokenV2,
    TokenV3,
)
from draftverify.rules.sampling import (
    Cascade,
    Ensemble,
    GreedyMatch,
    Lenience,
    Lossy,
    Positionwise,
    Speculative,
    TokenMatch,
)
from draftverify.rules.selection import All, Best, First, LongestPrefix, Majority, WeightedVote
from draftverify.rules.stopping import AdaptiveConsistency, AnyOf, Limit, Rounds, leader_confidence
from draftverify.rules.trees import KSeq, Tree
from draftverify.rules.typical import Typical

__all__ = [
    "AdaptiveConsistency",
    "All",
    "AnyOf",
    "Best",
    "BlockVerification",
    "Cascade",
    "Chow",
    "ConsensusSet",
    "Count",
    "Diff",
    "DualAgreement",
    "Ensemble",
    "EnsembleLaw",
    "First",
    "GreedyMatch",
    "KSeq",
    "Lenience",
    "LenienceLaw",
    "Limit",
    "LongestPrefix",
    "Lossy",
    "LossyLaw",
    "Majority",
    "Opt",
    "PositionLaw",
    "Positionwise",
    "Rounds",
    "Speculative",
    "SpeculativeLaw",
    "TokenMatch",
    "TokenV1",
    "TokenV2",
    "TokenV3",
    "Tree",
    "Typical",
    "WeightedVote",
    "consensus_sets",
    "count",
    "leader_confidence",
]
