"""What came of a fit's candidates: the one whose solved task costs least, and what that choice gains on new tasks.

What wins on some tasks is flattered by having won on them. So the gain is predicted from resamples of the tasks: on
each task counts what wins on resamples without it. That is the gain of choosing so, not of the winner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from draftverify.bench.artifact import BlockTrial, Interval, OperatingPointFile, ParallelPass
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.bench.monitors.monitor import shares_of
from draftverify.bench.records import load_run
from draftverify.bench.records.about import store_url, versions
from draftverify.bench.tables.words import cost_words, seconds_words
from draftverify.errors import ConfigError
from draftverify.exchanges import exchanges_of
from draftverify.lab.candidates import BlockCandidate, Family, Identified, data_hash
from draftverify.lab.lineage import digests_of
from draftverify.stats import Estimate, acceptance_rate, cost_per_solved, solved_ratio
from draftverify.stats.costs import CostModel, known_costs, parallel_pass
from draftverify.stats.intervals import BLOCKS, TAIL, t_quantile
from draftverify.stats.prediction import SpeedupPrediction
from draftverify.stats.solved import Scored, charged
from draftverify.values import Round, Task, TaskRecord

ESTIMATOR = (
    "least cost per solved task among the sizes tried; the gain on each task of what wins on resamples without it; "
    "its interval from what resamples say of as many other tasks, t on the log scale"
)

RESAMPLES = 1000

CLEAR = 0.95
"""The share of resamples from which on a choice is not called close."""


FEW = 5
"""Tasks from which on a run's first is left out."""


def counted(tasks: int) -> int:
    """How many of a run's tasks count: all but the first, where there are enough."""
    return tasks - (tasks >= FEW)


class ScoredRun(NamedTuple):
    """Records of a run, by pipeline, each with what the metric said.

    Args:
        of: what is counted, and stands as the records' seconds: what the parts say that they cost where one says so,
            else seconds.
    """

    records: Mapping[str, Scored]
    of: Literal["seconds", "cost"]

    def of_tasks(self, tasks: Iterable[Task]) -> ScoredRun:
        """The records of these tasks alone."""
        ids = {task.id for task in tasks}
        return self._replace(
            records={
                name: [pair for pair in scored if pair[0].task in ids]
                for name, scored in self.records.items()
            }
        )


def read_scored(experiment: Experiment, path: Path, metric: str | None) -> ScoredRun:
    """Each pipeline's records of a run with the metric's score, or without a metric whether they were accepted.

    The first task of several is left out. It pays for what is made at the first use (processes, compiled code), and the
    baseline, which begins, pays most.

    Raises:
        ConfigError: an answer was bought before, and took no time.
    """
    chosen = experiment.chosen or ()
    left_out = chosen[0] if counted(len(chosen)) < len(chosen) else None
    url = store_url(experiment.store) if experiment.store else None
    scored: dict[str, list[tuple[TaskRecord, float]]] = {name: [] for name in experiment.names}
    bought = ""
    with load_run(path, url=url, thorough=False, patient=True) as records:
        metric_scores = records.store.named_scores() if metric is not None else {}
        for entry in records.store.entries(phase="measure", texts=False):
            record = entry.record
            if any(_bought_before(round) for round in record.rounds):
                bought = bought or entry.pipeline
            if metric is None:
                value: float | None = float(record.outcome.status == "accepted")
            else:
                value = metric_scores.get((entry.pipeline, record.task, metric))
            if value is not None and record.task != left_out and entry.pipeline in scored:
                scored[entry.pipeline].append((record, value))
    if any(record.outcome.cost for side in scored.values() for record, _ in side):
        return ScoredRun({name: charged(side) for name, side in scored.items()}, "cost")
    if bought:
        raise ConfigError(
            "answers that were bought before took no time, and block sizes are told apart by it; leave out the `cache` "
            "of its models, or give their prices",
            path=f"pipelines.{bought}",
        )
    return ScoredRun(scored, "seconds")


def _bought_before(round: Round) -> bool:
    return any(reply.cached for _, exchange in exchanges_of(round) for reply in exchange.replies)


def choice_of(
    experiment: Experiment,
    family: Family,
    run: ScoredRun,
    identities: Mapping[str, Identified],
    counted_tasks: Sequence[Task],
    unseen_tasks: Sequence[Task],
    metric: str | None,
) -> tuple[OperatingPointFile, BlockCandidate]:
    """The operating point of a family of candidates, and the candidate that was chosen.

    Args:
        experiment: with the pipelines as they stand in the file.
        family: of which one is chosen.
        run: of each candidate, and of what it is compared with, the records of the tasks to fit on.
        identities: by the candidates' origins.
        counted_tasks, unseen_tasks: the tasks to fit on, and those that are not seen yet.
        metric: what says that a task is solved.

    Raises:
        ConfigError: no candidate solved a task.
    """
    scored = run.records
    sizes = tuple(sorted({candidate.size for candidate in family.candidates}))
    drafting = {candidate.name: candidate for candidate in family.candidates if candidate.drafts}
    against = {name: scored[candidate.base] for name, candidate in drafting.items()}
    best = choose({name: scored[name] for name in drafting}, against, counted(len(unseen_tasks)))
    tested = drafting[best.name]
    variants = [candidate for candidate in family.candidates if candidate.origin == tested.origin]
    solved = "accepted" if metric is None else "solved"
    block, drafts, why = _decided(experiment, best, tested, variants, run, solved)
    records = [record for candidate in variants for record, _ in scored[candidate.name]]
    won = [record for record, _ in scored[tested.name]]
    costs = known_costs(records)
    identified = identities[tested.origin]
    own_block = f"pipelines.{family.name}.block"
    changes = experiment.cells.get(tested.origin, {})
    threshold = tested.spec.rule.arguments.get("threshold")
    return OperatingPointFile(
        experiment=experiment.name,
        pipeline=tested.origin,
        changes={path: value for path, value in changes.items() if path != own_block},
        baseline=tested.base,
        block=block,
        threshold=float(threshold) if isinstance(threshold, (int, float)) else None,
        drafts=drafts,
        why=why,
        metric=metric,
        of=run.of,
        parts=identified.parts,
        conditions=identified.conditions,
        learned_from=digests_of(counted_tasks),
        counted=best.tasks,
        unseen=data_hash(unseen_tasks),
        estimator=ESTIMATOR,
        sizes=sizes,
        tried=tuple(
            _tried(tried, scored, costs if tried in variants else _costs_of(family, tried, scored))
            for tried in family.candidates
        ),
        tested=tested.size,
        acceptance=interval_of(acceptance_rate(won)),
        shares=tuple([share for record in won if (share := shares_of(record).acceptance) is not None]),
        cost_ratio=_cost_ratio(costs, tested.size),
        parallel=_parallel(records),
        predicted=Interval.of(best.predicted.value, best.predicted.low, best.predicted.high),
        basis=best.predicted.basis,
        predicted_at=now(),
        versions=versions(),
    ), tested


def _decided(
    experiment: Experiment,
    best: BlockChoice,
    tested: BlockCandidate,
    variants: Sequence[BlockCandidate],
    run: ScoredRun,
    solved: str,
) -> tuple[int, bool, str]:
    """The block, whether to draft, and why.

    What a solved task will cost is the baseline's cost over the predicted gain: the cost that was measured is flattered
    by having won. Of what costs less than that, a pipeline can be run at its own smallest block, where that is the
    baseline, and at an empty one.
    """
    scored, written = run.records, seconds_words if run.of == "seconds" else cost_words
    plain = next((candidate for candidate in variants if not candidate.size and scored[candidate.name]), None)
    stepping = _finite(cost_per_solved(scored[plain.name]).value) if plain is not None else math.inf
    smallest = next((variant for variant in variants if variant.name == tested.base and variant.size), None)
    gain = best.predicted.value
    if math.isinf(best.base):  # what solved nothing is beaten by what solved something
        expected = best.cost
    else:
        expected = _finite(best.base / gain)
    evidence = f"blocks of {tested.size} take {written(best.cost)} per {solved} task, {tested.base} "
    evidence += written(best.base) if math.isfinite(best.base) else f"{solved} none"
    if plain is not None:
        evidence += ", plain steps " + (written(stepping) if math.isfinite(stepping) else "solved none")
    if expected >= best.base > best.cost:
        evidence += f"; on other tasks a choice made so gains × {gain:.3g}"
    if best.agreeing < CLEAR:
        evidence += f"; close: on {1 - best.agreeing:.0%} of resamples of the tasks another size wins"
    if expected < min(best.base, stepping):
        return tested.size, True, evidence
    if smallest is not None and best.base <= stepping:
        return smallest.size, True, f"larger blocks do not pay: {evidence}"
    if _is_plain(experiment, tested) or (plain is not None and stepping <= expected):
        return 0, False, f"do not draft: {evidence}"
    empty = "; an empty block would cost more" if plain is not None else ""
    return tested.size, False, f"do not draft: {evidence}{empty}"


def _is_plain(experiment: Experiment, tested: BlockCandidate) -> bool:
    """Whether the baseline is this pipeline with an empty block, so that both cost the same."""

    def unblocked(spec: PipelineSpec) -> tuple[Any, ...]:
        return spec.verifier, spec.rule, spec.done, spec.settings

    return any(
        spec.name == tested.base and spec.block == 0 and unblocked(spec) == unblocked(tested.spec)
        for spec in experiment.pipelines
    )


def _finite(value: float) -> float:
    """A cost; infinite where nothing was solved for it."""
    return math.inf if math.isnan(value) else value


def _tried(candidate: BlockCandidate, scored: Mapping[str, Scored], costs: CostModel | None) -> BlockTrial:
    of_candidate = scored[candidate.name]
    return BlockTrial(
        pipeline=candidate.origin,
        block=candidate.size,
        draft=_at(costs, "draft", candidate.size),
        verify=_at(costs, "verify", candidate.size),
        rest=costs.rest if costs is not None else None,
        solved=sum(value for _, value in of_candidate),
        cost=interval_of(cost_per_solved(of_candidate)),
        gain=Interval(1.0, 1.0, 1.0)
        if candidate.name == candidate.base
        else interval_of(solved_ratio(of_candidate, scored[candidate.base])),
    )


def _costs_of(family: Family, tested: BlockCandidate, scored: Mapping[str, Scored]) -> CostModel | None:
    variants = [candidate for candidate in family.candidates if candidate.origin == tested.origin]
    return known_costs([record for candidate in variants for record, _ in scored[candidate.name]])


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
    return datetime.now(UTC).isoformat(timespec="seconds")


class BlockChoice(msgspec.Struct, frozen=True):
    """The candidate that was chosen.

    Args:
        name: its name.
        cost: of a solved task.
        base: the same of what it is compared with; infinite where that solved none.
        tasks: on how many tasks all candidates were compared.
        agreeing: the share of resamples of those tasks on which it would have been chosen too.
        predicted: the gain over what it is compared with, on new tasks.
    """

    name: str
    cost: float
    base: float
    tasks: int
    agreeing: float
    predicted: SpeedupPrediction


def choose(tried: Mapping[str, Scored], against: Mapping[str, Scored], new: int) -> BlockChoice:
    """Choose the candidate with the least cost per solved task, and predict its gain.

    The predicted gain is that of choosing on resamples (tasks drawn with replacement) and counting on the tasks that a
    resample left out. Its interval is Student's t on the log scale. The spread is that of M − P over resamples, where P
    is the winner's gain on the resample and M the same candidate's on `new` tasks drawn apart from it; and, in squares,
    how far the winner's gain on all tasks lies from the predicted one: what is known of the flattery is a guess as
    large as itself.

    Args:
        tried: of each candidate the records, each with what the metric said; of two that cost the same the first wins.
        against: of each candidate those of what it is compared with.
        new: on how many new tasks the gain will be measured.

    Raises:
        ConfigError: the candidates have no task in common, or solved none.

    References:
        Efron and Tibshirani, Improvements on cross-validation: the .632+ bootstrap method (1997), on counting what a
        resample left out.
        Varma and Simon, Bias in error estimation when using cross-validation for model selection (2006), on why the
        winner's own figure is too good.
    """
    names = list(tried)
    sides = [*({record.task for record, _ in side} for side in (*tried.values(), *against.values()))]
    shared = set.intersection(*sides) if sides else set()
    tasks = [record.task for record, _ in tried[names[0]] if record.task in shared] if names else []
    if not tasks:
        raise ConfigError("no task ended, and was judged, at every block size and with the baseline")
    figures = []
    for side in (tried, against):
        of_task = [
            {record.task: (record.outcome.seconds, value) for record, value in side[name]} for name in names
        ]
        figures += list(np.array([[own[task] for own in of_task] for task in tasks]).transpose(2, 0, 1))
    sums = np.sum(figures, axis=1)
    costs = _per_solved(sums[0], sums[1])
    winner = int(costs.argmin())
    if not math.isfinite(costs[winner]):
        raise ConfigError("no task was solved at any block size, so none is better than another")
    predicted, agreeing = _predicted(np.stack(figures), winner, new)
    return BlockChoice(
        name=names[winner],
        cost=float(costs[winner]),
        base=float(_per_solved(sums[2], sums[3])[winner]),
        tasks=len(tasks),
        agreeing=agreeing,
        predicted=predicted,
    )


def _predicted(sides: Any, winner: int, new: int) -> tuple[SpeedupPrediction, float]:
    """The gain on `new` other tasks of choosing on these, and how often resamples choose the same.

    Args:
        sides: [4, tasks, candidates]: seconds and solved of each candidate, and of what it is compared with.
        winner: on all tasks.
        new: how many others.
    """
    tasks, candidates = sides.shape[1:]
    draws, equal = np.random.default_rng(0), np.full(tasks, 1.0 / tasks)
    drawn, apart = (draws.multinomial(n, equal, RESAMPLES).astype(float) for n in (tasks, max(new, 1)))
    costs = _per_solved(drawn @ sides[0], drawn @ sides[1])
    chosen, decides = costs.argmin(axis=1), np.isfinite(costs).any(axis=1)
    # Of each task the candidates' shares of the resamples without it.
    votes = (drawn == 0.0).T @ (np.eye(candidates)[chosen] * decides[:, None])
    without = votes.sum(axis=1, keepdims=True)
    shares = np.where(without > 0.0, votes / np.maximum(without, 1.0), np.eye(candidates)[winner])
    value = float(_log_gain((sides * shares).sum(axis=(1, 2))))
    agreeing = float((chosen == winner)[decides].mean()) if decides.any() else 1.0
    if not math.isfinite(value):
        reason = "the baseline solved no task"
        if sides[3, :, winner].sum() > 0.0:
            reason = "no size solved a task that it was not chosen by"
        return SpeedupPrediction(math.nan, 0.0, math.inf, reason), agreeing
    place = np.arange(RESAMPLES)
    with np.errstate(invalid="ignore"):
        missed = _log_gain((apart @ sides)[:, place, chosen]) - _log_gain((drawn @ sides)[:, place, chosen])
    flattered = float(_log_gain(sides[:, :, winner].sum(axis=1)))
    spread = math.nan
    if tasks > 1 and np.isfinite(missed).all():
        spread = math.sqrt(missed.var() * tasks / (tasks - 1) + (flattered - value) ** 2)
    low, high = 0.0, math.inf
    if math.isfinite(spread):
        reach = t_quantile(TAIL, min(tasks, BLOCKS) - 1) * spread
        low, high = math.exp(value - min(reach, 700.0)), math.exp(min(value + reach, 700.0))
    return SpeedupPrediction(math.exp(value), low, high, f"{tasks} tasks, cost per solved task"), agreeing


def _per_solved(cost: Any, solved: Any) -> Any:
    """Cost per solved task; infinite where none is solved."""
    return np.where(solved > 0.0, cost / np.maximum(solved, 1e-300), math.inf)


def _log_gain(sums: Any) -> Any:
    """The log of the baseline's cost per solved task over the candidate's, of `sums` [4, …]; not finite for none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(sums[2] / sums[3]) - np.log(sums[0] / sums[1])
