"""The bench: pipelines run over tasks and compared, from a YAML file with a run directory, or in Python.

A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.runner.evaluate import Evaluation, evaluate
    from draftverify.bench.runner.run import RunResult, run

__all__ = ["Evaluation", "RunResult", "evaluate", "load_experiment", "run"]

_SOURCES = {
    "Evaluation": "draftverify.bench.runner.evaluate",
    "RunResult": "draftverify.bench.runner.run",
    "evaluate": "draftverify.bench.runner.evaluate",
    "load_experiment": "draftverify.bench.config.experiment",
    "run": "draftverify.bench.runner.run",
}


def __getattr__(name: str) -> object:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SOURCES[name]), name)
