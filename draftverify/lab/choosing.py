"""What came of a calibration's candidates: which of them is chosen, and what that should gain on tasks not yet seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from draftverify.bench.artifact import BlockTrial, Interval, OperatingPointFile, ParallelPass
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.bench.monitors.monitor import shares_of
from draftverify.bench.records import load_run
from draftverify.bench.records.database import store_url
from draftverify.bench.records.directory import versions
from draftverify.errors import ConfigError
from draftverify.lab.candidates import Candidate, Family, Identified, data_hash
from draftverify.lab.choice import Choice, choose
from draftverify.stats import (
    Estimate,
    acceptance_rate,
    cost_per_solved,
    solved_ratio,
)
from draftverify.stats.costs import CostModel, fit_costs, parallel_pass
from draftverify.stats.solved import Scored
from draftverify.values import Task, TaskRecord

__all__ = ["choice_of", "interval_of", "now", "read_scored"]

ESTIMATOR = (
    "least seconds per solved task among the sizes tried; the gain on each task of what wins on resamples without it; "
    "its interval from what resamples say of as many other tasks, t on the log scale"
)

CLEAR = 0.95
"""The share of resamples from which on a choice is not called close."""


FEW = 5
"""Tasks from which on a run's first is left out."""


def counted(tasks: int) -> int:
    """How many of so many tasks count."""
    return tasks - (tasks >= FEW)


def read_scored(experiment: Experiment, path: Path, metric: str | None) -> dict[str, Scored]:
    """Of each pipeline of a run the records, each with what the metric says, or whether it was accepted for None.

    The first task of several is left out. It pays for what is made at the first use (processes, compiled code), and the
    baseline, which begins, pays most.
    """
    chosen = experiment.chosen or ()
    first = chosen[0] if counted(len(chosen)) < len(chosen) else None
    url = store_url(experiment.store) if experiment.store else None
    found: dict[str, list[tuple[TaskRecord, float]]] = {name: [] for name in experiment.names}
    with load_run(path, url=url, thorough=False, patient=True) as records:
        said = records.store.named_scores() if metric is not None else {}
        for entry in records.store.entries(phase="measure", texts=False):
            record = entry.record
            if metric is None:
                value: float | None = float(record.outcome.status == "accepted")
            else:
                value = said.get((entry.pipeline, record.task, metric))
            if value is not None and record.task != first:
                found[entry.pipeline].append((record, value))
    return dict(found)


def choice_of(
    experiment: Experiment,
    family: Family,
    found: Mapping[str, Scored],
    identities: Mapping[str, Identified],
    first: Sequence[Task],
    rest: Sequence[Task],
    metric: str | None,
) -> tuple[OperatingPointFile, Candidate]:
    """What a calibration says of a family, and which candidate it chose.

    Args:
        experiment: with the pipelines as they stand in the file.
        family: of which one is chosen.
        found: of each candidate, and of what it is compared with, the records of the tasks to calibrate on.
        identities: by the candidates' origins.
        first, rest: the tasks to calibrate on, and those that are not seen yet.
        metric: what says that a task is solved.

    Raises:
        ConfigError: no candidate solved a task.
    """
    sizes = tuple(sorted({each.size for each in family.candidates}))
    drafting = {each.name: each for each in family.candidates if each.size and each.name != each.base}
    against = {name: found[each.base] for name, each in drafting.items()}
    best = choose({name: found[name] for name in drafting}, against, counted(len(rest)))
    taken = drafting[best.name]
    alike = [each for each in family.candidates if each.origin == taken.origin]
    solved = "accepted" if metric is None else "solved"
    block, drafts, why = _decided(experiment, best, taken, alike, found, solved)
    records = [record for each in alike for record, _ in found[each.name]]
    costs = _costs(records)
    identified = identities[taken.origin]
    own_block = f"pipelines.{family.name}.block"
    changes = experiment.cells.get(taken.origin, {})
    threshold = taken.spec.rule.arguments.get("threshold")
    return OperatingPointFile(
        experiment=experiment.name,
        pipeline=taken.origin,
        changes={path: each for path, each in changes.items() if path != own_block},
        baseline=taken.base,
        block=block,
        threshold=float(threshold) if isinstance(threshold, (int, float)) else None,
        drafts=drafts,
        why=why,
        metric=metric,
        generator=identified.generator,
        verifier=identified.verifier,
        rule=identified.rule,
        conditions=identified.conditions,
        data=data_hash(first),
        counted=best.tasks,
        unseen=data_hash(rest),
        estimator=ESTIMATOR,
        sizes=sizes,
        tried=tuple(
            _tried(each, found, costs if each in alike else _costs_of(family, each, found))
            for each in family.candidates
        ),
        tested=taken.size,
        acceptance=interval_of(acceptance_rate(record for record, _ in found[taken.name])),
        shares=tuple(
            [each for record, _ in found[taken.name] if (each := shares_of(record).acceptance) is not None]
        ),
        cost_ratio=_cost_ratio(costs, taken.size),
        parallel=_parallel(records),
        predicted=Interval.of(best.predicted.value, best.predicted.low, best.predicted.high),
        basis=best.predicted.basis,
        predicted_at=now(),
        versions=versions(),
    ), taken


def _decided(
    experiment: Experiment,
    best: Choice,
    taken: Candidate,
    alike: Sequence[Candidate],
    found: Mapping[str, Scored],
    solved: str,
) -> tuple[int, bool, str]:
    """The block, whether to draft, and why.

    What a solved task will cost is the baseline's cost over the predicted gain: the cost that was measured is flattered
    by having won. Of what costs less than that, a pipeline can be run at its own smallest block, where that is the
    baseline, and at an empty one.
    """
    plain = next((each for each in alike if not each.size and found[each.name]), None)
    stepping = _finite(cost_per_solved(found[plain.name]).value) if plain is not None else math.inf
    smallest = next((each for each in alike if each.name == taken.base and each.size), None)
    gain = best.predicted.value
    if math.isinf(best.base):  # what solved nothing is beaten by what solved something
        expected = best.cost
    else:
        expected = _finite(best.base / gain)
    told = f"blocks of {taken.size} cost {best.cost:.3g} s per {solved} task, {taken.base} "
    told += f"{best.base:.3g} s" if math.isfinite(best.base) else f"{solved} none"
    if plain is not None:
        told += f", plain steps {stepping:.3g} s" if math.isfinite(stepping) else ", plain steps solved none"
    if expected >= best.base > best.cost:
        told += f"; on other tasks a choice made so gains × {gain:.3g}"
    if best.agreeing < CLEAR:
        told += f"; close: on {1 - best.agreeing:.0%} of resamples of the tasks another size wins"
    if expected < min(best.base, stepping):
        return taken.size, True, told
    if smallest is not None and best.base <= stepping:
        return smallest.size, True, f"larger blocks do not pay: {told}"
    if _is_plain(experiment, taken) or (plain is not None and stepping <= expected):
        return 0, False, f"do not draft: {told}"
    return (
        taken.size,
        False,
        f"do not draft: {told}" + "; an empty block would cost more" * (plain is not None),
    )


def _is_plain(experiment: Experiment, taken: Candidate) -> bool:
    """Whether the baseline is what the pipeline is with an empty block: then both cost the same."""

    def kept(spec: PipelineSpec) -> tuple[Any, ...]:
        return spec.verifier, spec.rule, spec.done, spec.settings

    return any(
        spec.name == taken.base and spec.block == 0 and kept(spec) == kept(taken.spec)
        for spec in experiment.pipelines
    )


def _finite(value: float) -> float:
    """A cost; infinite where nothing was solved for it."""
    return math.inf if math.isnan(value) else value


def _tried(each: Candidate, found: Mapping[str, Scored], costs: CostModel | None) -> BlockTrial:
    own = found[each.name]
    return BlockTrial(
        pipeline=each.origin,
        block=each.size,
        draft=_at(costs, "draft", each.size),
        verify=_at(costs, "verify", each.size),
        rest=costs.rest if costs is not None else None,
        solved=sum(value for _, value in own),
        cost=interval_of(cost_per_solved(own)),
        gain=Interval(1.0, 1.0, 1.0)
        if each.name == each.base
        else interval_of(solved_ratio(own, found[each.base])),
    )


def _costs_of(family: Family, of: Candidate, found: Mapping[str, Scored]) -> CostModel | None:
    alike = [each for each in family.candidates if each.origin == of.origin]
    return _costs([record for each in alike for record, _ in found[each.name]])


def _costs(records: Sequence[TaskRecord]) -> CostModel | None:
    try:
        return fit_costs(records)
    except ConfigError:  # no round was timed
        return None


def _at(costs: CostModel | None, part: str, size: int) -> float | None:
    if costs is None:
        return None
    if part == "draft" and not size:
        return 0.0
    curve = costs.draft if part == "draft" else costs.verify
    try:
        return curve.at(size)
    except ConfigError:  # blocks as large as that never came
        return None


def _cost_ratio(costs: CostModel | None, size: int) -> float | None:
    if costs is None or not costs.verify.sizes or not costs.verify.seconds[0] > 0.0:
        return None
    drafted = _at(costs, "draft", size)
    return None if drafted is None or not size else drafted / size / costs.verify.seconds[0]


def _parallel(records: Sequence[TaskRecord]) -> ParallelPass | None:
    try:
        n, ratio = parallel_pass(records)
    except ConfigError:  # no block of one, or none larger
        return None
    return ParallelPass(n, interval_of(ratio))


def interval_of(estimate: Estimate) -> Interval:
    return Interval.of(estimate.value, estimate.low, estimate.high)


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
