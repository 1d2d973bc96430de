"""The stage planner on recorded samples: planned on half of the tasks, its prediction held against the other half."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.code.estimators import Targets
from benchmarks.code.recorded import Recording
from draftverify import Proposal, Task, Verifier
from draftverify.calibration import Estimate, log_jackknife
from draftverify.testing import make_context
from draftverify_code.planner import arranged
from draftverify_code.planner import measure as calibrate
from draftverify_code.stage_plan import load_plan, plan_stages, save_plan
from draftverify_code.stages.lint import Lint
from draftverify_code.stages.staged import Stages
from draftverify_code.stages.syntax import Syntax
from draftverify_code.stages.tests import Tests
from draftverify_code.stages.types import Types

SEED = 7


def halves(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """The tasks by lot, one half to plan on and the other to measure."""
    mixed = list(recordings)
    random.Random(SEED).shuffle(mixed)
    return mixed[::2], mixed[1::2]


def work(recordings: Sequence[Recording]) -> list[tuple[Task, Sequence[str]]]:
    """Each task with its programs, one block."""
    return [(one.task, one.programs) for one in recordings]


def cost_per_accepted(seconds: Sequence[float], accepted: Sequence[float]) -> Estimate:
    """Σ seconds / Σ accepted over tasks, with an interval that knows of the tasks.

    Args:
        seconds: one per task.
        accepted: items accepted, one per task.

    Returns:
        `trials` are accepted items; infinite, with an open interval, when there is none.
    """
    s, a = np.asarray(seconds, dtype=float), np.asarray(accepted, dtype=float)

    def statistic(use: Any) -> float:
        return float(s[use].sum() / a[use].sum()) if a[use].sum() else math.inf

    value, low, high = log_jackknife(len(s), statistic) if len(s) else (math.nan, 0.0, math.inf)
    return Estimate(value, low, high, round(float(a.sum())), len(s))


class Spending(msgspec.Struct, frozen=True):
    """What some tasks cost and gave: seconds and accepted programs, one of each per task."""

    seconds: tuple[float, ...]
    accepted: tuple[float, ...]

    @property
    def per_accepted(self) -> Estimate:
        """Seconds per accepted program, with its interval over tasks."""
        return cost_per_accepted(self.seconds, self.accepted)


def spent(
    verifier: Verifier,
    work: Sequence[tuple[Task, Sequence[Any]]],
    *,
    block: int | None = None,
    enough: int | None = None,
    seed: int = 0,
) -> Spending:
    """Verify every program and time it: what a plan's prediction is held against.

    Args:
        verifier: opened.
        work: tasks and the programs drafted for each.
        block: programs in a block; all of a task's when None.
        enough: after how many accepted programs of a block the verifier may stop.
        seed: of the contexts.
    """
    seconds, accepted = [], []
    for task, programs in work:
        prepared = verifier.prepare(task) if hasattr(verifier, "prepare") else task
        context = make_context(prepared, role="verify", seed=seed, enough=enough)
        took = passed = 0.0
        for first in range(0, len(programs), block or len(programs) or 1):
            proposal = Proposal.alternatives(programs[first : first + block] if block else programs)
            start = time.perf_counter()
            found = verifier.verify(context, proposal)
            own = time.perf_counter() - start
            told = found.cost.seconds if found.cost is not None else None
            took += own if told is None else told
            hits = sum(check.verdict == "pass" for check in found.checks)
            passed += hits if enough is None else min(hits, enough)
        seconds.append(took)
        accepted.append(passed)
    return Spending(tuple(seconds), tuple(accepted))


def in_turns(verifiers: Sequence[Verifier], tasks: Sequence[tuple[Task, Sequence[str]]]) -> list[Estimate]:
    """Seconds per accepted program of each verifier, one task after the other, each taking its turn to be first."""
    found: list[list[Spending]] = [[] for _ in verifiers]
    for number, one in enumerate(tasks):
        for turn in range(len(verifiers)):
            place = (number + turn) % len(verifiers)
            found[place].append(spent(verifiers[place], [one]))
    return [
        cost_per_accepted([each.seconds[0] for each in own], [each.accepted[0] for each in own])
        for own in found
    ]


def measure(recordings: Sequence[Recording], path: Path, *, whole: bool) -> tuple[dict[str, Any], Targets]:
    """Plan, write down, measure.

    Args:
        recordings: the tasks.
        path: where the plan and its prediction are written before the measuring half is run.
        whole: whether these are all tasks, for which the targets hold.
    """
    first, second = halves(recordings)
    stages: list[Verifier] = [Syntax(), Lint(), Types("zuban"), Tests()]
    everything = Stages(stages)
    everything.open()
    try:
        plan = plan_stages(calibrate(stages, work(first)))
        path.parent.mkdir(parents=True, exist_ok=True)
        save_plan(path, plan, new_tasks=len(second))
        print(plan)
        plan, predicted = load_plan(path)
        written = datetime.now(timezone.utc)
        print(f"predicted before the measuring half: {predicted}", flush=True)
        began = datetime.now(timezone.utc)
        planned, unplanned = in_turns([arranged(stages, plan), everything], work(second))
    finally:
        everything.close()
    targets = Targets()
    if whole:
        targets.holds(
            "stages that do not pay and are dropped", list(plan.dropped), "at least one", bool(plan.dropped)
        )
        targets.between("seconds per accepted program", planned.value, predicted.low, predicted.high)
    return {
        "planned_on": [one.task.id for one in first],
        "measured_on": [one.task.id for one in second],
        "plan": msgspec.to_builtins(plan.rows),
        "order": plan.order,
        "dropped": plan.dropped,
        "predicted": predicted,
        "written_at": written,
        "measured_from": began,
        "measured": planned,
        "measured_with_all_stages": unplanned,
    }, targets
