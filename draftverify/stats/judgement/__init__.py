"""What a verifier is worth by labels: trust, ROC curves, agreement."""

from draftverify.stats.judgement.agreement import cohen_kappa, krippendorff_alpha
from draftverify.stats.judgement.roc import Roc, RocPoint, roc
from draftverify.stats.judgement.separation import auroc, auroc_within
from draftverify.stats.judgement.trust import (
    Assisted,
    BlindSpots,
    Trust,
    assisted_rate,
    blind_spots,
    error_correlation,
    labels_needed,
    trust,
)

__all__ = [
    "Assisted",
    "BlindSpots",
    "Roc",
    "RocPoint",
    "Trust",
    "assisted_rate",
    "auroc",
    "auroc_within",
    "blind_spots",
    "cohen_kappa",
    "error_correlation",
    "krippendorff_alpha",
    "labels_needed",
    "roc",
    "trust",
]
