"""One metric asked about one outcome; what it says is read before anybody counts with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError, below
from draftverify.protocols import Metric
from draftverify.secret import redact
from draftverify.values import Failure, Outcome, Task

__all__ = ["Score", "check_metrics", "function", "score"]


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a metric said of one outcome.

    Args:
        value: 0 (wrong) to 1 (right); None where it has no say, or failed.
        problem: why it failed. A metric that fails has not said that the outcome is wrong.
    """

    value: float | None
    problem: str = ""


def function(function: Annotated[Metric, "function"]) -> Metric:
    """A function of (task, outcome) as a metric.

    Args:
        function: how right the outcome is: True, False, 0 to 1, or None where it has no say.
    """
    return function


def check_metrics(metrics: Mapping[str, Metric], tasks: Sequence[Task]) -> None:
    """Refuse metrics that cannot judge these tasks (`check_tasks`, where a metric has it), before any task runs.

    Raises:
        ConfigError: one is no function of (task, outcome), or refuses the tasks; the path begins with its name.
    """
    for name, metric in metrics.items():
        with below(f"metrics.{name}"):
            if isinstance(metric, type) or not callable(metric):
                raise ConfigError(f"{metric!r} is no function of (task, outcome)")
            if hasattr(metric, "check_tasks"):
                metric.check_tasks(tasks)


def score(metric: Metric, task: Task, outcome: Outcome) -> Score:
    """Ask a metric.

    Args:
        metric: the function.
        task: with its truth.
        outcome: how it ended, whatever the status.
    """
    try:
        return _read(metric(task, outcome))
    except (Exception, SystemExit) as error:
        return Score(None, str(Failure.of(error)))


def _read(said: Any) -> Score:
    if said is None:
        return Score(None)
    if not isinstance(said, (bool, int, float, np.bool_, np.integer, np.floating)) or not 0 <= said <= 1:
        return Score(
            None, f"a metric says True, False, 0 to 1, or None; this came: {redact(repr(said))}"[:200]
        )
    return Score(float(said))
