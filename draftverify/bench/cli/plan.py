"""What `draftverify run` says before a run: what it would do, and what is left of it will take."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftverify.bench.tables.tables import WIDE
from draftverify.bench.tables.words import about_seconds, clean

if TYPE_CHECKING:
    from draftverify.bench.config.specs import Experiment
    from draftverify.bench.runner.forecast import Forecast, Left
    from draftverify.bench.runner.run import Plan
    from draftverify.stats import Estimate

__all__ = ["forecast_line", "forecast_lines", "plan_lines"]


def plan_lines(experiment: Experiment, plan: Plan, out: Path) -> Iterator[str]:
    """What `--dry-run` prints."""
    yield f"{clean(experiment.name)}: {len(plan.units)} pipelines"
    for name, (done, total) in plan.units.items():
        before = f", {done} done" if done else ""
        base = experiment.compared_with(name)
        against = f"; against {clean(base)}" if base is not None and experiment.cells else ""
        yield f"  {clean(name)}: {total} tasks{before}{against}"
        for path, value in experiment.cells.get(name, {}).items():
            yield f"      {clean(path)} = {clean(_short(value))}"
    for phase, groups in plan.tasks.items():
        each = ", ".join(f"{clean(group)} {count}" for group, count in groups.items() if group)
        yield f"{phase}: {sum(groups.values())} tasks" + (f" ({each})" if each else "")
    done, total = (sum(pair[place] for pair in plan.units.values()) for place in (0, 1))
    left = total - done - plan.waiting
    yield f"{total} runs of tasks in all; in {out} {done or 'none'} {'are' if done != 1 else 'is'} done, {left} to do"
    if plan.waiting:
        yield f"{plan.waiting} wait{'s' * (plan.waiting == 1)} for a person: draftverify review {out}"
    if plan.failed:
        yield f"{plan.failed} failed: --retry-errors makes them again"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def forecast_lines(forecast: Forecast) -> Iterator[str]:
    """What `--estimate` prints."""
    yield forecast_line(forecast)
    for name, left in forecast.pipelines.items():
        yield f"  {clean(name)}: {left.units} to do, {_amounts(left)}"


def forecast_line(forecast: Forecast) -> str:
    """What is left of a run, in one line."""
    if not forecast.whole.units:
        return "nothing is left to do"
    return (
        f"the {forecast.whole.units} runs of tasks that are left will take some {_amounts(forecast.whole)}; "
        f"from the first {forecast.done} tasks, 95 % intervals"
        + (f"; {forecast.failed} of their runs failed" if forecast.failed else "")
    )


def _amounts(left: Left) -> str:
    said = _range(left.seconds, about_seconds)
    return (
        f"{said}, cost {_range(left.cost, lambda units: f'{units:.3g}')} units" if left.cost.value else said
    )


def _range(estimate: Estimate, words: Callable[[float], str]) -> str:
    if not math.isfinite(estimate.value):
        return "an unknown time"
    sure = math.isfinite(estimate.high) and estimate.high <= WIDE * estimate.low
    ends = f"{words(estimate.low)} to {words(estimate.high)}" if sure else "too few tasks for an interval"
    return f"{words(estimate.value)} ({ends})"
