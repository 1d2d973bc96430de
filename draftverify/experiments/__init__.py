"""Experiments: pipelines run over tasks and compared, from a YAML file with a run directory, or in Python."""

from draftverify.experiments.calibrate import Calibrated, calibrate
from draftverify.experiments.config import load_experiment
from draftverify.experiments.evaluate import Evaluation, evaluate
from draftverify.experiments.fit import fit_verifier
from draftverify.experiments.replay import RecordedPipeline, Recording
from draftverify.experiments.run import RunResult, run

__all__ = [
    "Calibrated",
    "Evaluation",
    "RecordedPipeline",
    "Recording",
    "RunResult",
    "calibrate",
    "evaluate",
    "fit_verifier",
    "load_experiment",
    "run",
]
