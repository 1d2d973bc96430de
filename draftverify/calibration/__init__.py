"""What drafting costs, what it brings, and how much of it to do: every formula of the framework lives in this room."""

from draftverify.calibration.acceptance import (
    acceptance_rate,
    items_per_pass,
    pass_at_k,
    pass_at_k_rate,
    tally,
)
from draftverify.calibration.artifact import Artifact, load, save
from draftverify.calibration.controller import Fixed, Measured
from draftverify.calibration.costs import CostModel, Curve, fit_costs
from draftverify.calibration.intervals import Estimate
from draftverify.calibration.monitor import RateMonitor
from draftverify.calibration.operating_point import OperatingPoint, geometric_progress, operating_point
from draftverify.calibration.prediction import Prediction, coverage, measured_ratio, predict, seconds_per_item
from draftverify.calibration.stages import (
    MOST_FILTERS,
    StagePlan,
    StageRow,
    StageTable,
    cost_per_accepted,
    fit_pass_cost,
    load_plan,
    plan_stages,
    predict_cost,
    save_plan,
)

__all__ = [
    "MOST_FILTERS",
    "Artifact",
    "CostModel",
    "Curve",
    "Estimate",
    "Fixed",
    "Measured",
    "OperatingPoint",
    "Prediction",
    "RateMonitor",
    "StagePlan",
    "StageRow",
    "StageTable",
    "acceptance_rate",
    "cost_per_accepted",
    "coverage",
    "fit_costs",
    "fit_pass_cost",
    "geometric_progress",
    "items_per_pass",
    "load",
    "load_plan",
    "measured_ratio",
    "operating_point",
    "pass_at_k",
    "pass_at_k_rate",
    "plan_stages",
    "predict",
    "predict_cost",
    "save",
    "save_plan",
    "seconds_per_item",
    "tally",
]
