"""What drafting costs, what it brings, and how much of it to do: every formula of the framework lives in this room."""

from draftverify.calibration.acceptance import (
    acceptance_rate,
    items_per_pass,
    pass_at_k,
    pass_at_k_rate,
    tally,
)
from draftverify.calibration.agreement import cohen_kappa, krippendorff_alpha
from draftverify.calibration.artifact import (
    Artifact,
    DataHash,
    Interval,
    Kept,
    ParallelPass,
    PartIdentity,
    ReleaseArtifact,
    ScoreArtifact,
    Tried,
    read_artifact,
    write_artifact,
)
from draftverify.calibration.best_of_n import BestOfN, best_of_n
from draftverify.calibration.choice import Choice, choose
from draftverify.calibration.controller import Fixed, Measured
from draftverify.calibration.costs import CostModel, Curve, fit_costs, parallel_pass
from draftverify.calibration.drafting import Drafting, drafting
from draftverify.calibration.duration import Spent, remaining
from draftverify.calibration.expected_acceptance import ExpectedBlock, expected_acceptance
from draftverify.calibration.intervals import Estimate, log_interval, log_jackknife
from draftverify.calibration.means import arithmetic_mean, geometric_mean
from draftverify.calibration.monitor import RateMonitor
from draftverify.calibration.paired import (
    PairedTest,
    holm,
    paired_difference,
    paired_ratio,
    paired_shares,
    paired_total_ratio,
)
from draftverify.calibration.places import Places, StageCounts, position_trials, trials
from draftverify.calibration.prediction import Prediction, coverage, measured_ratio, predict
from draftverify.calibration.progress import geometric_progress
from draftverify.calibration.release import ReleasePool, failures_needed, release_pool
from draftverify.calibration.roc import Roc, RocPoint, roc
from draftverify.calibration.scores import Reliability, ScoreFit, fit_scores, reliability
from draftverify.calibration.selective import (
    RiskCoverage,
    aurc,
    auroc,
    auroc_within,
    bootstrap,
    risk_coverage,
    selective_risk,
    specificity,
)
from draftverify.calibration.solved import (
    Scored,
    accepted_rate,
    cost_per_solved,
    mean_cost,
    precision,
    predict_solved,
    solved_rate,
    solved_ratio,
)
from draftverify.calibration.thresholds import (
    Beforehand,
    Judged,
    beforehand,
    certified,
    certified_rejection,
    least_abstained,
)
from draftverify.calibration.token_summary import TokenSummary, read_summaries
from draftverify.calibration.trust import (
    Assisted,
    BlindSpots,
    Trust,
    assisted_rate,
    blind_spots,
    error_correlation,
    labels_needed,
    trust,
)
from draftverify.calibration.watch import RATES, Alarm, Monitor, Shares, Watched, part_of, shares_of

__all__ = [
    "RATES",
    "Alarm",
    "Artifact",
    "Assisted",
    "Beforehand",
    "BestOfN",
    "BlindSpots",
    "Choice",
    "CostModel",
    "Curve",
    "DataHash",
    "Drafting",
    "Estimate",
    "ExpectedBlock",
    "Fixed",
    "Interval",
    "Judged",
    "Kept",
    "Measured",
    "Monitor",
    "PairedTest",
    "ParallelPass",
    "PartIdentity",
    "Places",
    "Prediction",
    "RateMonitor",
    "ReleaseArtifact",
    "ReleasePool",
    "Reliability",
    "Roc",
    "RocPoint",
    "ScoreArtifact",
    "ScoreFit",
    "Shares",
    "Spent",
    "Scored",
    "StageCounts",
    "TokenSummary",
    "Tried",
    "Trust",
    "Watched",
    "accepted_rate",
    "acceptance_rate",
    "arithmetic_mean",
    "assisted_rate",
    "beforehand",
    "certified",
    "certified_rejection",
    "choose",
    "cohen_kappa",
    "RiskCoverage",
    "aurc",
    "auroc",
    "best_of_n",
    "blind_spots",
    "auroc_within",
    "bootstrap",
    "cost_per_solved",
    "coverage",
    "error_correlation",
    "drafting",
    "expected_acceptance",
    "failures_needed",
    "fit_costs",
    "fit_scores",
    "geometric_mean",
    "geometric_progress",
    "holm",
    "items_per_pass",
    "krippendorff_alpha",
    "labels_needed",
    "least_abstained",
    "log_interval",
    "log_jackknife",
    "mean_cost",
    "measured_ratio",
    "paired_difference",
    "paired_ratio",
    "paired_shares",
    "paired_total_ratio",
    "parallel_pass",
    "part_of",
    "pass_at_k",
    "pass_at_k_rate",
    "position_trials",
    "precision",
    "predict",
    "predict_solved",
    "read_artifact",
    "read_summaries",
    "remaining",
    "release_pool",
    "reliability",
    "risk_coverage",
    "roc",
    "shares_of",
    "selective_risk",
    "solved_rate",
    "solved_ratio",
    "specificity",
    "tally",
    "trials",
    "trust",
    "write_artifact",
]
