"""What drafting costs, what it brings, and how much of it to do: every formula of the framework lives in this room."""

from draftverify.calibration.acceptance import (
    acceptance_rate,
    items_per_pass,
    pass_at_k,
    pass_at_k_rate,
    tally,
)
from draftverify.calibration.agreement import (
    assisted_rate,
    cohen_kappa,
    krippendorff_alpha,
    labels_needed,
)
from draftverify.calibration.artifact import (
    Artifact,
    ScoreArtifact,
    load,
    load_scores,
    read_artifact,
    save,
    save_scores,
    write_artifact,
)
from draftverify.calibration.best_of_n import BestOfN, best_of_n
from draftverify.calibration.controller import Fixed, Measured
from draftverify.calibration.costs import CostModel, Curve, fit_costs
from draftverify.calibration.duration import Spent, remaining
from draftverify.calibration.intervals import Estimate, log_interval, log_jackknife
from draftverify.calibration.means import arithmetic_mean, geometric_mean
from draftverify.calibration.monitor import RateMonitor
from draftverify.calibration.operating_point import OperatingPoint, geometric_progress, operating_point
from draftverify.calibration.paired import (
    PairedTest,
    holm,
    paired_difference,
    paired_ratio,
    paired_shares,
    paired_total_ratio,
)
from draftverify.calibration.places import Places, StageCounts, position_trials
from draftverify.calibration.prediction import Prediction, coverage, measured_ratio, predict
from draftverify.calibration.scores import (
    Judged,
    Reliability,
    ScoreFit,
    certified,
    fit_scores,
    reliability,
)
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

__all__ = [
    "Artifact",
    "BestOfN",
    "CostModel",
    "Curve",
    "Estimate",
    "Fixed",
    "Judged",
    "Measured",
    "OperatingPoint",
    "PairedTest",
    "Places",
    "Prediction",
    "RateMonitor",
    "Reliability",
    "ScoreArtifact",
    "ScoreFit",
    "Spent",
    "Scored",
    "StageCounts",
    "accepted_rate",
    "acceptance_rate",
    "arithmetic_mean",
    "assisted_rate",
    "certified",
    "cohen_kappa",
    "RiskCoverage",
    "aurc",
    "auroc",
    "best_of_n",
    "auroc_within",
    "bootstrap",
    "cost_per_solved",
    "coverage",
    "fit_costs",
    "fit_scores",
    "geometric_mean",
    "geometric_progress",
    "holm",
    "items_per_pass",
    "krippendorff_alpha",
    "labels_needed",
    "load",
    "load_scores",
    "log_interval",
    "log_jackknife",
    "mean_cost",
    "measured_ratio",
    "operating_point",
    "paired_difference",
    "paired_ratio",
    "paired_shares",
    "paired_total_ratio",
    "pass_at_k",
    "pass_at_k_rate",
    "position_trials",
    "precision",
    "predict",
    "predict_solved",
    "read_artifact",
    "remaining",
    "reliability",
    "risk_coverage",
    "save",
    "save_scores",
    "selective_risk",
    "solved_rate",
    "solved_ratio",
    "specificity",
    "tally",
    "write_artifact",
]
