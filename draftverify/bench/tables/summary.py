"""What the records of a run say, as plain data: every figure of a run with its interval, which is summary.json.

`summarise` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from draftverify.bench.artifact import Interval
from draftverify.bench.monitors.monitor import RateReport
from draftverify.stats import DraftingAccount
from draftverify.values import Tally

ALL = ""
"""The group that stands for all tasks."""


class SummaryFigure(Interval, frozen=True):
    """A figure with its 95 % interval, how many trials and clusters it rests on, and whether the interval says anything
    (`draftverify.bench.tables.figures.is_known`)."""

    trials: int = 0
    clusters: int = 0
    known: bool = True


class Solved(msgspec.Struct, frozen=True, kw_only=True):
    """What a metric says of one pipeline in one group of tasks.

    Args:
        rate: the share of tasks that are solved, of those of which it has a say.
        if_people_solve: the same if people solved every task that waits for them; None where none waits.
        precision: the share of accepted outcomes that are right; the rest are the verifier's false passes.
        seconds: of all tasks, per solved one.
        cost: the same of what the parts cost; None where they say nothing of it.
        failed: outcomes about which the metric failed; they are in none of the figures.
    """

    rate: SummaryFigure
    if_people_solve: SummaryFigure | None = None
    precision: SummaryFigure
    seconds: SummaryFigure
    cost: SummaryFigure | None = None
    failed: int = 0


class MeasuredMean(msgspec.Struct, frozen=True):
    """The mean over tasks of what a metric with a unit measured, or of the outcomes' scores.

    Args:
        figure: the mean and its interval, with the task as the unit.
        unit: of the figure; "" for a plain number, as a score is.
        mean: "arithmetic" or "geometric".
        failed: outcomes about which the metric failed; they are not in the figure.
    """

    figure: SummaryFigure
    unit: str
    mean: str
    failed: int = 0


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """What alternatives came to: how many were drawn, and how likely one of them passes.

    Args:
        drawn: samples of a task, later tries too, on average.
        k: samples of pass@k: as many as every task drew in first tries; 0 where nothing is known of any.
        pass_1, pass_k: the mean over tasks of pass@1 and pass@k, of first tries; None where that would be biased.
        left_out: the tasks that are in neither, each with why.
        biased: why one of the two is None; "" where neither is.
    """

    drawn: SummaryFigure
    k: int
    pass_1: SummaryFigure | None
    pass_k: SummaryFigure | None
    left_out: Mapping[str, str] = {}
    biased: str = ""


class Unpaired(msgspec.Struct, frozen=True):
    """Tasks that are in no speed-up: not finished by the pipeline, by the baseline, by neither."""

    own: int = 0
    baseline: int = 0
    both: int = 0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline in one group of tasks ("" for all).

    Args:
        pipeline, group: of which.
        tasks: how many there are records of, those that wait for a person among them.
        statuses: how many of them ended how, or are "waiting".
        accepted: the share of them that ended as accepted.
        if_people_solve: the same if people solved every task that waits for them; None where none waits.
        acceptance: accepted / checked items, first tries.
        retries: the same of later tries.
        per_pass: emitted items per verifier pass.
        solved: what each metric says of right and wrong, by its name.
        measures: what each metric with a unit measured, by its name, and the outcomes' scores under "score".
        predicted: the speed-up that was predicted before the measuring run.
        speedup: measured, paired by task with the baseline; below 1 is a loss. With metrics it is of seconds per solved
            task, as the first of them says; without, of seconds per task that both finished.
        unpaired: without metrics, the tasks that are not in it.
        per_item: seconds per emitted item, of accepted tasks.
        emitted: items that joined the answers.
        passes: verifier passes.
        seconds: summed over tasks.
        cost: summed over tasks.
        tally: summed, of all rounds; its errors, timeouts, abstentions and unchecked are in nobody's denominator, its
            caveats say how many of the accepted items rest on a weakened word.
        broken: rounds that ended since a part's call failed; their items are in no tally at all.
        samples: where the generator drafts alternatives, what they came to.
    """

    pipeline: str
    group: str
    tasks: int
    statuses: Mapping[str, int]
    accepted: SummaryFigure
    if_people_solve: SummaryFigure | None
    acceptance: SummaryFigure
    retries: SummaryFigure
    per_pass: SummaryFigure
    solved: Mapping[str, Solved]
    measures: Mapping[str, MeasuredMean]
    predicted: SummaryFigure | None
    speedup: SummaryFigure | None
    unpaired: Unpaired | None
    per_item: float | None
    emitted: int
    passes: int
    seconds: float
    cost: float
    tally: Tally
    broken: int = 0
    samples: Samples | None = None


class ValueDivergence(msgspec.Struct, frozen=True):
    """Where a pipeline's value first parts from the baseline's."""

    task: str
    position: int | None
    expected: Any
    got: Any
    why: str = ""


class Identity(msgspec.Struct, frozen=True):
    """How many values equal the baseline's, of the tasks that both have a record of."""

    same: int
    of: int
    divergences: tuple[ValueDivergence, ...] = ()


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One clause of a pipeline's policy, over all tasks.

    Args:
        pipeline, clause, do: which one; `clause` is its place in the policy.
        on: how often it answered which trouble.
        taken: how often it was taken.
        tasks: in how many tasks.
        seconds, cost: of the rounds that it led to; of a re-verification its share of the round's passes.
        progress: how often the round that it led to made progress.
        accepted: how many tasks of which that is true were accepted.
    """

    pipeline: str
    clause: int
    do: str
    on: Mapping[str, int]
    taken: int
    tasks: int
    seconds: float
    cost: float
    progress: int
    accepted: int


class PipelineSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline: its rows (groups first, all tasks last), its policy's steps, and how it compares.

    Args:
        deterministic: whether every round was; what is not may differ from the baseline without being wrong.
        marks: what is to be said of it wherever it is shown, a phrase each ("checks itself (family smollm2)").
        block: the block-size controller's own report.
        monitor: how the rates that are watched have fared; what alarmed is among the marks.
        drafting: what drafting has won or lost by the records; None where that cannot be told.
        failure: the first task that failed, and why.
        problem: the first outcome about which a metric failed, and why.
        judging: what the metrics cost, which is no part of the pipeline's own cost.
        unjudged: tasks that are not among the failed ones, and of which no item was judged, since every check and call
            failed: they ran out of their budget, say, while the verifier was away.
    """

    name: str
    statuses: Mapping[str, int]
    rows: tuple[Row, ...]
    steps: tuple[StepRow, ...] = ()
    identical: Identity | None = None
    deterministic: bool = True
    marks: tuple[str, ...] = ()
    block: Any = None
    monitor: tuple[RateReport, ...] = ()
    drafting: DraftingAccount | None = None
    failure: str | None = None
    problem: str | None = None
    judging: float = 0.0
    unjudged: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Every figure of a run.

    Args:
        name: of the experiment.
        baseline: the pipeline that the others are compared with.
        baselines: of those pipelines that are compared with another one, its name: in a sweep that of their own cell.
        groups: in task order; without the one for all.
        tasks: how many were to be measured.
        metrics: the names of those that say how right an outcome is; the first says what is solved.
        pipelines: in the config's order.
        currency: of costs; "" where the experiment names none.
        coverage: the share of predicted intervals (of single groups) that hold what was measured.
    """

    name: str
    baseline: str | None
    groups: tuple[str, ...]
    tasks: int
    pipelines: tuple[PipelineSummary, ...]
    metrics: tuple[str, ...] = ()
    coverage: SummaryFigure | None = None
    baselines: Mapping[str, str] = {}
    currency: str = ""

    def compared_with(self, pipeline: str) -> str | None:
        """The pipeline that another one is compared with; None for a baseline, and where there is none."""
        baseline = self.baselines.get(pipeline, self.baseline)
        return None if baseline == pipeline else baseline

    def is_of(self, counts: Mapping[tuple[str, str, str], int]) -> bool:
        """Whether it is still true of a run: no task ended, began to wait or was made again after it was written.

        Args:
            counts: of `Store.counts`.
        """
        own_counts = {
            (row.name, status): count for row in self.pipelines for status, count in row.statuses.items()
        }
        return own_counts == {
            (name, status): count for (phase, name, status), count in counts.items() if phase == "measure"
        }

    def plain(self) -> dict[str, Any]:
        """The summary as plain JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data
