"""Making a summary of records: each pipeline beside the baseline, per group and over all, losses included.

Nothing is estimated here; the figures and their intervals come from `stats`. This module counts, pairs records
with the baseline's, and finds where values part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from draftverify import stats
from draftverify.bench.artifact import Interval
from draftverify.bench.monitors.monitor import RateReport
from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import StoredPrediction
from draftverify.bench.tables.figures import Scale, is_known
from draftverify.bench.tables.summary import (
    ALL,
    Identity,
    MeasuredMean,
    PipelineSummary,
    Row,
    Samples,
    Solved,
    StepRow,
    Summary,
    SummaryFigure,
    Unpaired,
    ValueDivergence,
)
from draftverify.checks.scores import Measure, Score
from draftverify.errors import ConfigError
from draftverify.stats import Estimate
from draftverify.stats.progress import is_unjudged
from draftverify.values import EMPTY, Explanation, Outcome, Round, Step, Tally, Task, TaskRecord

Explain: TypeAlias = "Callable[[str, Task, Any, Any], Explanation | None]"
"""(pipeline, task, expected, got): why two outputs of a task differ; None where nobody is asked."""

Scores: TypeAlias = "Mapping[str, Mapping[tuple[str, str], Score]]"
"""By metric, what it said of the outcomes, by (pipeline, task)."""


def summarise(
    *,
    name: str,
    tasks: Sequence[Task],
    records: Mapping[str, Sequence[TaskRecord]],
    baseline: str | None = None,
    baselines: Mapping[str, str] = EMPTY,
    currency: str = "",
    predictions: Iterable[StoredPrediction] = (),
    explain: Explain | None = None,
    blocks: Mapping[str, Any] | None = None,
    marks: Mapping[str, Sequence[str]] = EMPTY,
    monitors: Mapping[str, Sequence[RateReport]] = EMPTY,
    scores: Scores = EMPTY,
    measures: Mapping[str, Measure] = EMPTY,
) -> Summary:
    """Compare what was recorded, of tasks that wait for a person what they have come to so far.

    Args:
        name: of the experiment.
        tasks: the measured ones, in order.
        records: each pipeline's, in task order, in the config's order of pipelines.
        baseline: the name of the one to compare with.
        baselines: of those pipelines that are compared with another one, its name.
        predictions: made before the measuring run.
        explain: asked why two values differ.
        blocks: block-size controllers' reports.
        marks: what is to be said of pipelines, by their names.
        monitors: how the rates that are watched have fared, by pipeline.
        scores: what the metrics said.
        measures: which of these have a unit.
    """
    sizes = {metric: by_task for metric, by_task in scores.items() if metric in measures}
    scores = {metric: by_task for metric, by_task in scores.items() if metric not in measures}
    groups = tuple(dict.fromkeys(task.group for task in tasks))
    # Tasks of no group are among all of them.
    listed_groups = (*(group for group in groups if group != ALL), ALL)
    kind = speedup_kind(scores)
    predicted = {
        (prediction.pipeline, prediction.group): prediction
        for prediction in predictions
        if prediction.kind == kind
    }
    of_task = {task.id: task for task in tasks}
    pipelines = []
    guesses: dict[str, stats.SpeedupPrediction] = {}
    measured: dict[str, Estimate] = {}
    for pipeline, ended in records.items():
        rows = []
        against = baselines.get(pipeline, baseline)
        compared = against is not None and pipeline != against
        base = list(records.get(against, ())) if against is not None else []
        for group in listed_groups:
            group_records, theirs = ([r for r in side if group in (ALL, r.group)] for side in (ended, base))
            speedup = None
            guess = predicted.get((pipeline, group))
            if compared:
                assert against is not None
                if scores:
                    by_task = next(iter(scores.values()))
                    ratio = stats.solved_ratio(
                        scored(by_task, pipeline, group_records), scored(by_task, against, theirs)
                    )
                else:
                    ratio = stats.measured_ratio(group_records, theirs)
                speedup = figure(ratio, "ratio")
                if guess and group in groups and guess.value is not None and guess.low is not None:
                    high = math.inf if guess.high is None else guess.high
                    key = f"{pipeline}/{group}"
                    guesses[key] = stats.SpeedupPrediction(guess.value, guess.low, high, "")
                    measured[key] = ratio
            unpaired = _unpaired(group_records, theirs) if compared and not scores else None
            measured_rows = _measures(pipeline, group_records, sizes, measures)
            rows.append(_row(pipeline, group, group_records, guess, speedup, unpaired, scores, measured_rows))
        failed = next((record for record in ended if record.outcome.status == "failed"), None)
        pipelines.append(
            PipelineSummary(
                name=pipeline,
                statuses=rows[-1].statuses,
                rows=tuple(rows),
                steps=tuple(_steps(pipeline, ended)),
                identical=_identity(pipeline, base, ended, of_task, explain) if compared else None,
                deterministic=all(round.deterministic for record in ended for round in record.rounds),
                marks=tuple(marks.get(pipeline, ())),
                block=(blocks or {}).get(pipeline),
                monitor=tuple(monitors.get(pipeline, ())),
                drafting=stats.drafting(ended),
                failure=None if failed is None else f"task {failed.task}: {_why(failed)}",
                problem=_problem(pipeline, ended, {**scores, **sizes}),
                judging=_judging(pipeline, ended, {**scores, **sizes}),
                unjudged=sum(map(is_unjudged, ended)),
            )
        )
    return Summary(
        name=name,
        baseline=baseline,
        baselines=dict(baselines),
        currency=currency,
        groups=groups,
        tasks=len(tasks),
        metrics=tuple(scores),
        pipelines=tuple(pipelines),
        coverage=figure(stats.coverage(guesses, measured)) if guesses else None,
    )


def speedup_kind(scores: Scores) -> str:
    """The kind of a predicted speed-up: one by another metric is another figure."""
    return f"speedup by {next(iter(scores))}"[:64] if scores else "speedup"


def figure(estimate: Estimate, scale: Scale = "share") -> SummaryFigure:
    """An estimate as plain data: what is not finite is None."""
    interval = Interval.of(estimate.value, estimate.low, estimate.high)
    known = is_known(interval.low, interval.high, scale)
    return SummaryFigure(
        interval.value, interval.low, interval.high, estimate.trials, estimate.clusters, known
    )


def _row(
    pipeline: str,
    group: str,
    records: Sequence[TaskRecord],
    predicted: StoredPrediction | None,
    speedup: SummaryFigure | None,
    unpaired: Unpaired | None,
    scores: Scores,
    measures: Mapping[str, MeasuredMean],
) -> Row:
    statuses: Counter[str] = Counter(record.outcome.status for record in records)
    rounds = [round for record in records for round in record.rounds]
    accepted = [record for record in records if record.outcome.status == "accepted"]
    items = sum(len(round.decision.emitted) for record in accepted for round in record.rounds)
    return Row(
        pipeline=pipeline,
        group=group,
        tasks=len(records),
        statuses=dict(statuses),
        accepted=figure(stats.accepted_rate(statuses.elements())),
        if_people_solve=figure(stats.accepted_rate(map(_if_accepted, statuses.elements())))
        if statuses["waiting"]
        else None,
        acceptance=figure(stats.acceptance_rate(records)),
        retries=figure(stats.acceptance_rate(records, first_tries=False)),
        per_pass=figure(stats.items_per_pass(records), "number"),
        solved={name: _solved(by_task, pipeline, records) for name, by_task in scores.items()},
        measures=measures,
        predicted=None
        if predicted is None
        else SummaryFigure(
            predicted.value,
            predicted.low,
            predicted.high,
            known=is_known(predicted.low, predicted.high, "ratio"),
        ),
        speedup=speedup,
        unpaired=unpaired,
        per_item=math.fsum(record.outcome.seconds for record in accepted) / items if items else None,
        emitted=sum(len(round.decision.emitted) for round in rounds),
        passes=sum(round.timing.passes for round in rounds),
        seconds=math.fsum(record.outcome.seconds for record in records),
        cost=math.fsum(record.outcome.cost for record in records),
        tally=Tally.total(record.outcome.tally for record in records),
        broken=sum(round.failure is not None for round in rounds),
        samples=_samples(records),
    )


def _if_accepted(status: str) -> str:
    return "accepted" if status == "waiting" else status


def _samples(records: Sequence[TaskRecord]) -> Samples | None:
    """What alternatives came to; None where none were drafted and judged item by item."""
    drafted = [[round for round in record.rounds if round.source == "generator"] for record in records]
    if not any(
        round.checks and stats.is_alternatives(round) for task_rounds in drafted for round in task_rounds
    ):
        return None
    counts = [sum(len(round.items) for round in task_rounds) for task_rounds in drafted]
    k = stats.fewest_samples(records)
    rates: list[SummaryFigure | None] = []
    left_out: Mapping[str, str] = EMPTY
    biased = ""
    for size in (1, max(k, 1)):
        try:
            passed = stats.pass_at_k_rate(records, size)
        except ConfigError as error:
            passed, biased = None, biased or str(error)
        rates.append(None if passed is None else figure(passed.rate))
        left_out = passed.left_out if passed is not None else left_out
    drawn = figure(stats.arithmetic_mean(list(zip(records, counts, strict=True))), "number")
    return Samples(drawn=drawn, k=k, pass_1=rates[0], pass_k=rates[1], left_out=dict(left_out), biased=biased)


def _why(failed: TaskRecord) -> str:
    """Why a task failed; where its checks did, in the words of one of them."""
    outcome = failed.outcome
    if outcome.failure is not None or outcome.refused is None:
        return outcome.reason
    objection = ": ".join(
        filter(None, (outcome.refused.reason, *outcome.refused.feedback.strip().splitlines()[-1:]))
    )
    return f"{outcome.reason} ({objection})" if objection else outcome.reason


def scored(
    by_task: Mapping[tuple[str, str], Score], pipeline: str, records: Iterable[TaskRecord]
) -> list[tuple[TaskRecord, float]]:
    """The records of which a metric has a say, each with it."""
    pairs = []
    for record in records:
        score = by_task.get((pipeline, record.task))
        if score is not None and score.value is not None:
            pairs.append((record, score.value))
    return pairs


def _solved(by_task: Mapping[tuple[str, str], Score], pipeline: str, records: Sequence[TaskRecord]) -> Solved:
    pairs = scored(by_task, pipeline, records)
    costly = any(record.outcome.cost for record in records)
    if_solved = [(record, 1.0 if record.outcome.status == "waiting" else value) for record, value in pairs]
    return Solved(
        rate=figure(stats.solved_rate(pairs)),
        if_people_solve=figure(stats.solved_rate(if_solved)) if if_solved != pairs else None,
        precision=figure(stats.precision(pairs)),
        seconds=figure(stats.cost_per_solved(pairs), "ratio"),
        cost=figure(stats.cost_per_solved(pairs, lambda record: record.outcome.cost), "ratio")
        if costly
        else None,
        failed=_failures(by_task, pipeline, records),
    )


def _failures(by_task: Mapping[tuple[str, str], Score], pipeline: str, records: Iterable[TaskRecord]) -> int:
    return sum(bool(by_task[pipeline, r.task].problem) for r in records if (pipeline, r.task) in by_task)


def _measures(
    pipeline: str, records: Sequence[TaskRecord], sizes: Scores, measures: Mapping[str, Measure]
) -> dict[str, MeasuredMean]:
    """What was measured, by name; the outcomes' scores come last, and give way to a metric of that name."""
    measured = {}
    for name, by_task in sizes.items():
        by = measures[name]
        mean = stats.geometric_mean if by.mean == "geometric" else stats.arithmetic_mean
        failed = _failures(by_task, pipeline, records)
        measured[name] = MeasuredMean(
            figure(mean(scored(by_task, pipeline, records)), "number"), by.unit, by.mean, failed
        )
    score_pairs = [(record, record.outcome.score) for record in records if record.outcome.score is not None]
    if score_pairs:
        measured.setdefault(
            "score", MeasuredMean(figure(stats.arithmetic_mean(score_pairs), "number"), "", "arithmetic")
        )
    return measured


def _problem(pipeline: str, records: Iterable[TaskRecord], scores: Scores) -> str | None:
    for record in records:
        for name, by_task in scores.items():
            score = by_task.get((pipeline, record.task))
            if score is not None and score.problem:
                return f"{name}, task {record.task}: {score.problem}"
    return None


def _judging(pipeline: str, records: Iterable[TaskRecord], scores: Scores) -> float:
    keys = [(pipeline, record.task) for record in records]
    return sum(by_task[key].cost for by_task in scores.values() for key in keys if key in by_task)


def _unpaired(records: Iterable[TaskRecord], base: Iterable[TaskRecord]) -> Unpaired:
    finished = [{r.task for r in side if r.outcome.status == "accepted"} for side in (records, base)]
    every = {record.task for side in (records, base) for record in side}
    return Unpaired(
        own=len(finished[1] - finished[0]),
        baseline=len(finished[0] - finished[1]),
        both=len(every - finished[0] - finished[1]),
    )


def _identity(
    pipeline: str,
    base: Sequence[TaskRecord],
    records: Sequence[TaskRecord],
    tasks: Mapping[str, Task],
    explain: Explain | None,
) -> Identity:
    expected = {record.task: record.outcome for record in base}
    identical = of = 0
    divergences = []
    for record in records:
        if record.task not in expected:
            continue
        of += 1
        want, got = expected[record.task], record.outcome
        if is_unanswered(want) or is_unanswered(got):
            sides = ((pipeline, got), ("the baseline", want))
            failed = [
                f"{side} failed: {outcome.reason}" for side, outcome in sides if outcome.status == "failed"
            ]
            divergences.append(ValueDivergence(record.task, None, want.value, got.value, "; ".join(failed)))
            continue
        if want.value == got.value:
            identical += 1
            continue
        position, wanted_item, got_item = first_difference(want.value, got.value)
        why = explain(pipeline, tasks[record.task], want.value, got.value) if explain is not None else None
        divergences.append(
            ValueDivergence(record.task, position, wanted_item, got_item, why.text if why else "")
        )
    return Identity(identical, of, tuple(divergences))


def is_unanswered(outcome: Outcome) -> bool:
    """Whether a task failed or waits, and so has no answer that could equal another, not even that of its like."""
    return outcome.status in ("failed", "waiting")


def first_difference(expected: Any, got: Any) -> tuple[int | None, Any, Any]:
    """Where two values part: the position and what stands there in each (None after an end).

    Values that are no sequences of one kind part nowhere in particular: position None, and both whole.
    """
    lists = isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple))
    if not lists and not (isinstance(expected, str) and isinstance(got, str)):
        return None, expected, got
    for position, (wanted_item, got_item) in enumerate(zip_longest(expected, got)):
        if wanted_item != got_item or position >= min(len(expected), len(got)):
            return position, wanted_item, got_item
    return None, expected, got


def _steps(pipeline: str, records: Iterable[TaskRecord]) -> list[StepRow]:
    by_clause: dict[tuple[int, str], list[tuple[TaskRecord, Step, _Led]]] = {}
    for record in records:
        for index, round in enumerate(record.rounds):
            for place, step in enumerate(round.steps):
                led = _led_to(record.rounds, index, place, step)
                by_clause.setdefault((step.clause, step.do), []).append((record, step, led))
    return [
        StepRow(
            pipeline=pipeline,
            clause=clause,
            do=do,
            on=dict(Counter(step.on for _, step, _ in answers)),
            taken=len(answers),
            tasks=len({record.task for record, _, _ in answers}),
            seconds=math.fsum(led.seconds for _, _, led in answers),
            cost=math.fsum(led.cost for _, _, led in answers),
            progress=sum(led.progress for _, _, led in answers),
            accepted=len(
                {r.task for r, _, led in answers if led.progress and r.outcome.status == "accepted"}
            ),
        )
        for (clause, do), answers in sorted(by_clause.items())
    ]


class _Led(NamedTuple):
    seconds: float
    cost: float
    progress: bool


def _led_to(rounds: Sequence[Round], index: int, place: int, step: Step) -> _Led:
    """What a step led to, in seconds, cost and progress: the next round, or its own share when it checked again."""
    round = rounds[index]
    if step.do == "reverify":
        share = 1.0 / max(round.timing.passes, 1)
        final = place == len(round.steps) - 1
        return _Led(round.timing.verify * share, round.timing.cost * share, final and round.decision.progress)
    if index + 1 >= len(rounds) or step.do == "give_up":
        return _Led(0.0, 0.0, False)
    next_round = rounds[index + 1]
    return _Led(next_round.timing.total, next_round.timing.cost, next_round.decision.progress)


def so_far(run: RunRecords, records: Mapping[str, Sequence[TaskRecord]]) -> Summary:
    """What can be said of a run that has not come to its end; the metrics are asked there."""
    config = run.config
    return summarise(
        name=str(config.get("name", run.path.name)),
        tasks=run.tasks,
        records=records,
        baseline=config.get("baseline"),
        baselines=config.get("baselines", {}),
        currency=run.currency,
        predictions=run.predictions,
        marks=run.marks,
    )
