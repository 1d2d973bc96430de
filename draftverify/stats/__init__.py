"""Statistics: rates with intervals, paired tests, cost per solved task, what drafting brings."""

from draftverify.engine.trials import tally
from draftverify.stats.acceptance import (
    PassAtK,
    acceptance_rate,
    fewest_samples,
    items_per_pass,
    pass_at_k,
    pass_at_k_rate,
)
from draftverify.stats.costs import CostModel, Curve, fit_costs
from draftverify.stats.drafting import DraftingAccount, drafting
from draftverify.stats.intervals import Estimate, bootstrap, log_interval, log_jackknife
from draftverify.stats.paired import (
    PairedTest,
    holm,
    paired_difference,
    paired_ratio,
    paired_shares,
    paired_total_ratio,
)
from draftverify.stats.prediction import (
    SpeedupPrediction,
    Spent,
    coverage,
    measured_ratio,
    predict,
    remaining,
)
from draftverify.stats.progress import geometric_progress, is_alternatives
from draftverify.stats.solved import (
    Scored,
    accepted_rate,
    arithmetic_mean,
    cost_per_solved,
    geometric_mean,
    mean_cost,
    precision,
    predict_solved,
    solved_rate,
    solved_ratio,
)

__all__ = [
    "CostModel",
    "Curve",
    "DraftingAccount",
    "Estimate",
    "PairedTest",
    "PassAtK",
    "SpeedupPrediction",
    "Scored",
    "Spent",
    "acceptance_rate",
    "accepted_rate",
    "arithmetic_mean",
    "bootstrap",
    "cost_per_solved",
    "coverage",
    "drafting",
    "fewest_samples",
    "geometric_mean",
    "geometric_progress",
    "holm",
    "is_alternatives",
    "items_per_pass",
    "log_interval",
    "log_jackknife",
    "mean_cost",
    "measured_ratio",
    "paired_difference",
    "paired_ratio",
    "paired_shares",
    "paired_total_ratio",
    "pass_at_k",
    "pass_at_k_rate",
    "precision",
    "predict",
    "predict_solved",
    "remaining",
    "solved_rate",
    "solved_ratio",
    "tally",
    "fit_costs",
]
