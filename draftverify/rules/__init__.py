"""Acceptance rules: how much of a verified block is kept, and what stands in the place of what is not.

Each rule on samples has a file that reads like its paper: `speculative`, `lenience`, `lossy`, `ensemble` and `cascades`
are maps of p and q played by the template of `positionwise`; `block_verification`, `matching`, `trees`, `k_seq` and
`typical` judge blocks in other ways. How they do it for many blocks at once is in `batch`, `chains` and `walk`, on the
arrays of `arrays`. `selection` decides by verdicts, `thresholds` has the score from which a fit certified that it may,
and `stopping` says when a task is finished. See docs/rules.md.
"""

from draftverify.protocols import Threshold
from draftverify.rules.agreement import ConsensusSet, DualAgreement, consensus_sets
from draftverify.rules.ballots import AnswerVotes, count
from draftverify.rules.block_verification import BlockVerification
from draftverify.rules.cascades import Cascade
from draftverify.rules.ensemble import Ensemble
from draftverify.rules.k_seq import KSeq
from draftverify.rules.lenience import Lenience
from draftverify.rules.lossy import Lossy
from draftverify.rules.matching import GreedyMatch, TokenMatch
from draftverify.rules.positionwise import Positionwise
from draftverify.rules.selection import (
    All,
    Beam,
    Best,
    BestStep,
    First,
    LongestPrefix,
    Majority,
    WeightedVote,
)
from draftverify.rules.speculative import Speculative
from draftverify.rules.stopping import (
    AdaptiveConsistency,
    EnoughEvidence,
    FirstStop,
    Limit,
    Rounds,
    SureMajority,
    leader_confidence,
    leader_evidence,
)
from draftverify.rules.tournament import Tournament
from draftverify.rules.trees import Tree
from draftverify.rules.typical import Typical

__all__ = [
    "AdaptiveConsistency",
    "All",
    "FirstStop",
    "Beam",
    "Best",
    "BestStep",
    "BlockVerification",
    "Cascade",
    "ConsensusSet",
    "AnswerVotes",
    "DualAgreement",
    "EnoughEvidence",
    "Ensemble",
    "First",
    "GreedyMatch",
    "KSeq",
    "Lenience",
    "Limit",
    "LongestPrefix",
    "Lossy",
    "Majority",
    "Positionwise",
    "Rounds",
    "Speculative",
    "SureMajority",
    "Threshold",
    "TokenMatch",
    "Tournament",
    "Tree",
    "Typical",
    "WeightedVote",
    "consensus_sets",
    "count",
    "leader_confidence",
    "leader_evidence",
]
