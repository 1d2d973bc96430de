"""One metric asked about one outcome; what it says is read before anybody counts with it.

A metric that has a `unit` is a measure: it says how much, not how right, and nothing is solved by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from draftverify.engine.canonical import notes_if_kept, read_notes
from draftverify.engine.failures import raised
from draftverify.errors import ConfigError, ContractError, below, shown
from draftverify.frozen import freeze
from draftverify.protocols import ChecksTasks, Metric
from draftverify.secret import redact
from draftverify.traits import offers
from draftverify.values import EMPTY, Outcome, Task

Mean: TypeAlias = Literal["arithmetic", "geometric"]


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """A metric's value of one outcome.

    Args:
        value: 0 (wrong) to 1 (right), of a measure any finite number; None where it has no say, or failed.
        problem: why it failed. A metric that fails has not said that the outcome is wrong.
        cost: no part of what the pipeline cost.
        notes: what the records should keep about it, such as what a model was asked; as of a Verification.
    """

    value: float | None
    problem: str = ""
    cost: float = 0.0
    notes: Mapping[str, Any] = EMPTY


class Measure(msgspec.Struct, frozen=True):
    """The unit and the mean of a metric that measures.

    Args:
        unit: of its values ("×", "s", "rows"); "" for a plain number.
        mean: how the tasks' values make one figure; "geometric" for ratios.
    """

    unit: str
    mean: Mean = "arithmetic"


def measure_of(metric: Any) -> Measure | None:
    """What a metric measures by its attributes `unit` and `mean`; None of one that says how right an outcome is.

    Raises:
        ConfigError: one of them is something else.
    """
    unit, mean = getattr(metric, "unit", None), getattr(metric, "mean", None)
    if unit is None:
        return None
    if not isinstance(unit, str) or len(unit) > 20 or not unit.isprintable():
        raise ConfigError(f"its unit is {unit!r:.80}; a short text such as 's' is needed")
    if mean is not None and mean not in get_args(Mean):
        raise ConfigError(f"its mean is {mean!r:.80}; it is 'arithmetic' or 'geometric'")
    return Measure(unit, mean or "arithmetic")


def measures_of(metrics: Mapping[str, Any]) -> dict[str, Measure]:
    """Those of the metrics that measure, by name.

    Raises:
        ConfigError: as of `measure_of`; the path begins with the metric's name.
    """
    measures = {}
    for name, metric in metrics.items():
        with below(f"metrics.{name}"):
            measure = measure_of(metric)
        if measure is not None:
            measures[name] = measure
    return measures


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
            check_metric(metric, tasks)


def check_metric(metric: Metric, tasks: Sequence[Task]) -> None:
    """Refuse a metric that cannot judge these tasks.

    Raises:
        ConfigError: as of `check_metrics`.
    """
    if isinstance(metric, type) or not callable(metric):
        raise ConfigError(f"{metric!r} is no function of (task, outcome)")
    measure_of(metric)
    if offers(metric, ChecksTasks):
        metric.check_tasks(tasks)


def score(metric: Metric, task: Task, outcome: Outcome) -> Score:
    """Ask a metric.

    A task that waits for a person has no answer yet and is not solved, whatever a metric makes of that: where it gives
    a figure, that is 0. One that fails on a task without an answer does so whether the task waits or was given up.

    Args:
        metric: the function.
        task: with what it expects.
        outcome: how it ended, whatever the status; or that it waits.
    """
    try:
        score = _read(metric(task, freeze(outcome)), measure_of(metric))  # which the next metric reads too
    except BaseException as error:
        failure = raised(error)
        score = Score(None, str(failure), notes=notes_if_kept(failure.notes, "notes"))
    measures = getattr(metric, "unit", None) is not None
    if outcome.status == "waiting" and not measures and score.value is not None:
        return replace(score, value=0.0)
    return score


def _read(reply: Any, measure: Measure | None) -> Score:
    if isinstance(reply, Score):
        cost, notes = _finite(reply.cost), reply.notes
        if cost is None:
            raise ContractError(f"the cost of a score is a finite number; this came: {shown(reply.cost)}")
        if notes is not EMPTY:
            notes = read_notes(notes, "the notes of a score")
        score = Score(None, redact(reply.problem)) if reply.problem else _read(reply.value, measure)
        return replace(score, cost=cost, notes=notes)
    if reply is None:
        return Score(None)
    value = _finite(reply)
    if measure is None:
        range_text, fits = "True, False, 0 to 1, or None", value is not None and 0 <= value <= 1
    elif measure.mean == "geometric":
        range_text = "a number above 0 where its mean is geometric, or None"
        fits = value is not None and value > 0
    else:
        range_text, fits = "a finite number where it has a unit, or None", value is not None
    if not fits:
        return Score(None, f"a metric says {range_text}; this came: {shown(reply)}")
    return Score(value)


def _finite(reply: Any) -> float | None:
    """A number as a float, whatever class it is of; None of what is no finite one."""
    if not isinstance(reply, (bool, int, float, np.bool_, np.integer, np.floating)):
        return None
    try:
        value = float(reply)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
