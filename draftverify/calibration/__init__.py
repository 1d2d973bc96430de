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
from draftverify.calibration.intervals import Estimate, log_interval, log_jackknife
from draftverify.calibration.monitor import RateMonitor
from draftverify.calibration.operating_point import OperatingPoint, geometric_progress, operating_point
from draftverify.calibration.prediction import Prediction, coverage, measured_ratio, predict, seconds_per_item

__all__ = [
    "Artifact",
    "CostModel",
    "Curve",
    "Estimate",
    "Fixed",
    "Measured",
    "OperatingPoint",
    "Prediction",
    "RateMonitor",
    "acceptance_rate",
    "coverage",
    "fit_costs",
    "geometric_progress",
    "items_per_pass",
    "load",
    "log_interval",
    "log_jackknife",
    "measured_ratio",
    "operating_point",
    "pass_at_k",
    "pass_at_k_rate",
    "predict",
    "save",
    "seconds_per_item",
    "tally",
]
