"""Replaying a run: its pipeline built as it was, and again with something set, and what the log says of the difference.

Nothing is sent, and no model runs: the parts answer from the records, and from caches of what was bought. A metric is
asked only about an outcome that no pipeline of the run came to.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from draftverify import Fixed, stats
from draftverify.bench.config.experiment import load_recorded
from draftverify.bench.config.located import read
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.bench.records import Entry, RunRecords
from draftverify.bench.records.directory import made_from
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.labelling import judging_metric, solved_by
from draftverify.checks.combined import Combined
from draftverify.checks.scores import score
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, check_known, did_you_mean
from draftverify.lab.expectation import ExpectedBlock, expected_acceptance
from draftverify.lab.replay.driven import Replay, Replayed
from draftverify.lab.replay.log import Gap
from draftverify.lab.replay.question import CHANGES, Change
from draftverify.protocols import Closes, Metric, Opens, TellsChance
from draftverify.stats import Estimate
from draftverify.stats.solved import charged
from draftverify.traits import DraftsFrom, name_of, offers
from draftverify.values import Outcome, Task, TaskRecord


class ReplaySide(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of some records.

    Args:
        tasks: how many.
        statuses: how many ended how.
        trials, accepted: checked items, and those of them that were accepted.
        passes: verifier calls.
        solved: the share of tasks that are solved; without a metric, of those that were accepted.
        precision: the same share of the accepted tasks.
        cost: per solved task, in seconds or in the parts' cost.
    """

    tasks: int
    statuses: Mapping[str, int]
    trials: int
    accepted: int
    passes: int
    solved: Estimate
    precision: Estimate
    cost: Estimate


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of a run with something changed, beside the run.

    Args:
        pipeline: of which.
        changes: what was set, as "path=value".
        replayed: each task.
        gaps: what the log cannot answer.
        ran, would: the tasks that it can answer, as they ran and as they would have.
        gain: the cost of a solved task as it ran over that as it would have been, paired by task; above 1 the change
            pays. Of the answered tasks, which are the easier ones more often than not.
        whole: all tasks as they ran.
        at_worst, at_best: all of them as they would have been, where what is not known counts as accepted and wrong, or
            as accepted and right. What it costs is a guess: that of the dearest answered task, or of the cheapest.
        at_most: of how many tasks the replayed cost is an upper bound.
        estimated: of how many it is an estimate.
        unscored: answered tasks on whose old or new outcome the metric has no say; where that is the old one, they are
            in no figure.
        why_unscored: of the first of them; "" where the metric itself said nothing.
        of: what costs are counted in, "seconds" or "cost".
    """

    pipeline: str
    changes: tuple[str, ...]
    replayed: tuple[Replayed, ...]
    gaps: tuple[Gap, ...]
    ran: ReplaySide
    would: ReplaySide
    gain: Estimate
    whole: ReplaySide
    at_worst: ReplaySide
    at_best: ReplaySide
    at_most: int
    estimated: int
    unscored: int
    why_unscored: str
    of: str


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate, at the recorded contexts, of what another rule would have kept.

    Args:
        pipeline: of which.
        changes: what was set, as "path=value".
        blocks: for each size what was kept and what would be.
    """

    pipeline: str
    changes: tuple[str, ...]
    blocks: tuple[ExpectedBlock, ...]


class OutcomeScores:
    """What a metric says of outcomes: the recorded score where any pipeline of the run came to one, else its word now.

    Args:
        run: with the scores, by the run's own labels.
        name: the metric's.
        metric: gives it, opened.
    """

    def __init__(self, run: RunRecords, name: str, metric: Callable[[], Metric]) -> None:
        self._metric = metric
        scores = run.store.named_scores()
        self._known: dict[tuple[str, bytes], tuple[float | None, str]] = {
            (ending.task, _outcome_key(ending.outcome)): (scores[key], "")
            for ending in run.store.endings()
            if (key := (ending.pipeline, ending.task, name)) in scores
        }

    def of(self, task: Task, outcome: Outcome) -> tuple[float | None, str]:
        """The score; or None, and why the metric cannot say."""
        key = (task.id, _outcome_key(outcome))
        if key not in self._known:
            label = score(self._metric(), task, outcome)
            self._known[key] = label.value, label.problem
        return self._known[key]


class RecordedPipeline:
    """One pipeline of a run, built again from the run's config; its records are not read.

    Args:
        run: the run.
        pipeline: its name; the run's only one when None.
        config: the config that the run was made from, whose directory its paths are relative to; None: as the run's
            command named it.

    Attributes:
        spec: the pipeline's.
        pipeline: the same, built; nothing of it is opened.

    Raises:
        ConfigError: there is no such pipeline, or the config cannot be read any more.
        DraftVerifyError: a part is not there any more.
    """

    def __init__(
        self, run: RunRecords, pipeline: str | None = None, *, config: str | Path | None = None
    ) -> None:
        names = run.names
        if pipeline is None and len(names) != 1:
            raise ConfigError(
                f"{run.path} has {len(names)} pipelines; name one: --pipeline {' or '.join(names[:8])}"
            )
        self.name = names[0] if pipeline is None else pipeline
        check_known("pipeline", self.name, names, holder=f"{run.path} has")
        self._file = run.path / "config.json"
        self._base = Path(config).parent if config is not None else made_from(run)
        self._builder = Builder(sends=False)
        self._experiment = self._load()
        self.spec = self._spec_of(self._experiment)
        self.pipeline: Pipeline = self._builder.pipeline(self.spec)

    def judging_metric(self) -> tuple[str, Metric] | None:
        """The run's first metric that says right or wrong, not opened, with its name; None where it has none."""
        name = solved_by(self._experiment)
        return None if name is None else judging_metric(self._experiment, self._builder, name)

    @property
    def _own(self) -> str:
        """The pipeline's name in the config, where a cell has none."""
        return self.name.partition("@")[0]

    def _load(self, overrides: Sequence[str] = ()) -> Experiment:
        return load_recorded(self._file, self._base, cell=self.name, overrides=overrides)

    def _spec_of(self, experiment: Experiment) -> PipelineSpec:
        names = (self.name, self._own) if len(experiment.pipelines) == 1 else (self.name,)
        spec = next((spec for spec in experiment.pipelines if spec.name in names), None)
        if spec is None:
            raise ConfigError(f"{self._file}: the config has no pipeline {self.name!r} any more")
        return spec


class Recording(RecordedPipeline):
    """One pipeline of a run, ready to be replayed. It is closed after use: a metric may have been opened.

    Args:
        run: the run's records.
        pipeline, config: as of `RecordedPipeline`.
        drafts_from: what the drafts of generators depend on that do not say so themselves.
        of: what costs are counted in; None: in what the parts say that they cost, where one says so, else in seconds.
        metric: the name of that by which tasks are solved; None: the run's first that says right or wrong.

    Attributes:
        records: its tasks', in order.
        tasks: the run's, by id.
        metric: the name of the metric; None: the run has none.
        run: the run's id.

    Raises:
        ConfigError: as `RecordedPipeline`; or `drafts_from` is no word for it.
        DraftVerifyError: a part is not there any more.
    """

    def __init__(
        self,
        run: RunRecords,
        pipeline: str | None = None,
        *,
        config: str | Path | None = None,
        drafts_from: DraftsFrom | None = None,
        of: Literal["seconds", "cost"] | None = None,
        metric: str | None = None,
    ) -> None:
        if drafts_from is not None and drafts_from not in get_args(DraftsFrom):
            raise ConfigError(
                f"drafts_from is {drafts_from!r}; it is one of {', '.join(get_args(DraftsFrom))}",
                path="drafts_from",
            )
        super().__init__(run, pipeline, config=config)
        self.run = run.about.run
        self._drafts_from = drafts_from
        self.tasks = {task.id: task for task in run.tasks}
        self._entries: list[tuple[Task, Entry]] = [
            (self.tasks[entry.record.task], entry) for entry in run.entries(pipeline=self.name, texts=False)
        ]
        self.records = [entry.record for _, entry in self._entries]
        self.of = of or ("cost" if any(record.outcome.cost for record in self.records) else "seconds")
        self._closing = ExitStack()
        self.metric: str | None = None
        if metric is not None or self._experiment.metrics:
            with suppress(ConfigError) if metric is None else nullcontext():
                self.metric, _ = judging_metric(self._experiment, self._builder, metric)
        self._scores = None if self.metric is None else OutcomeScores(run, self.metric, self.open_metric)
        self._opened: Any = None

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the metric, where it was opened."""
        self._closing.close()

    @property
    def remembers(self) -> bool:
        """Whether parts saw earlier tasks' outcomes."""
        return self._experiment.memory is not None

    def answers(self, changes: Sequence[str]) -> Iterator[tuple[TaskRecord | None, float | None, str]]:
        """Each task as it would have been with something set, None where the records cannot say; how much of it is
        solved, and why the metric cannot say.

        Raises:
            ConfigError: as `what_if`.
        """
        for replayed in self._replayed(changes, self._entries):
            solved, problem = (None, "") if replayed.record is None else self._solved(replayed.record)
            yield replayed.record, solved, problem

    @property
    def groups(self) -> Mapping[str, str]:
        """The recorded tasks' ids, in order, and the group of each."""
        return {record.task: record.group for record in self.records}

    @property
    def written(self) -> Mapping[str, Any]:
        """The pipeline as its config has it."""
        pipeline: Mapping[str, Any] = self._experiment.config["pipelines"][self._own]
        return pipeline

    def what_if(self, changes: Sequence[str], tasks: frozenset[str] | None = None) -> WhatIf:
        """Replay the pipeline with something set.

        Args:
            changes: "path=value" each, of `CHANGES` and what is below them, as "rule.threshold=0.5".
            tasks: the ids of those to replay; None: all. What blocks cost, and how the verifier goes about its items,
                is read from these alone.

        Raises:
            ConfigError: a value is wrong, cannot be set in a replay, or no record could answer it.
        """
        entries = [pair for pair in self._entries if tasks is None or pair[0].id in tasks]
        records = [entry.record for _, entry in entries]
        replayed = tuple(self._replayed(changes, entries))
        ran: list[tuple[TaskRecord, float]] = []
        would: list[tuple[TaskRecord, float]] = []
        unknown: list[tuple[TaskRecord, float]] = []  # as they ran
        unscored: list[str] = []
        for record, replayed_record in zip(records, (task.record for task in replayed), strict=True):
            ran_value, why = self._solved(record)
            would_value, why_now = (None, "") if replayed_record is None else self._solved(replayed_record)
            if replayed_record is not None and (ran_value is None or would_value is None):
                unscored.append(why or why_now)
            if ran_value is not None and replayed_record is not None and would_value is not None:
                ran.append((record, ran_value))
                would.append((replayed_record, would_value))
            elif ran_value is not None:
                unknown.append((record, ran_value))
        costs = [self._cost(record) for record, _ in would] or [0.0]
        at_worst = would + [(self._guess(record, max(costs)), 0.0) for record, _ in unknown]
        at_best = would + [(self._guess(record, min(costs)), 1.0) for record, _ in unknown]
        answered = [task for task in replayed if task.record is not None]
        return WhatIf(
            pipeline=self.name,
            changes=tuple(changes),
            replayed=replayed,
            gaps=tuple(task.gap for task in replayed if task.gap is not None),
            ran=self._side(ran),
            would=self._side(would),
            gain=stats.solved_ratio(self._charged(would), self._charged(ran)),
            whole=self._side(ran + unknown),
            at_worst=self._side(at_worst),
            at_best=self._side(at_best),
            at_most=sum(task.at_most if self.of == "seconds" else task.cost_at_most for task in answered),
            estimated=sum(task.estimated for task in answered) if self.of == "seconds" else 0,
            unscored=len(unscored),
            why_unscored=unscored[0] if unscored else "",
            of=self.of,
        )

    def expected(self, changes: Sequence[str]) -> Expected | None:
        """Estimate how much of the recorded drafts a rule on distributions, which no record holds, would have kept.

        Args:
            changes: as of `what_if`.

        Returns:
            An estimate from the summaries of drafted tokens; None where `what_if` is to be asked: nothing but the rule
            and the block's number is estimated, and no other rule.

        Raises:
            ConfigError: a value is wrong, no summaries were recorded, a block was no chain or not as long, or the rule
                reads more than a summary holds.
        """
        pipeline, changed = self._changed(changes)
        size = pipeline.block if "block" in changed else None
        estimable = changed and changed <= {"rule", "block"} and (size is None or isinstance(size, Fixed))
        if not estimable or "target" not in pipeline.rule_traits.needs:
            return None
        if not offers(pipeline.rule, TellsChance):
            raise ConfigError(
                f"{name_of(pipeline.rule)} judges a block as a whole, and a record keeps summaries of single tokens; "
                "its acceptance takes a run",
                path="rule",
            )
        blocks = expected_acceptance(
            self.records, pipeline.rule.chance, most=None if size is None else size.n
        )
        return Expected(pipeline=self.name, changes=tuple(changes), blocks=blocks)

    def _solved(self, record: TaskRecord) -> tuple[float | None, str]:
        """How much of a task is solved; or None, and why the metric cannot say."""
        if self._scores is None:
            return float(record.outcome.status == "accepted"), ""
        return self._scores.of(self.tasks[record.task], record.outcome)

    # How it was made, and how it would be

    def _replayed(self, changes: Sequence[str], entries: Sequence[tuple[Task, Entry]]) -> Iterator[Replayed]:
        pipeline, changed = self._changed(changes)
        records = [entry.record for _, entry in entries]
        replay = Replay(self.pipeline, records, pipeline, changed=changed, drafts_from=self._drafts_from)
        for task, entry in entries:
            yield replay.task(task, entry.record, memory=entry.memory)

    def _changed(self, changes: Sequence[str]) -> tuple[Pipeline, frozenset[Change]]:
        for change in changes:
            path, value, _ = change.partition("=")
            field = path.strip().partition(".")[0]
            if not value:
                raise ConfigError(f"{change!r} sets nothing; write path=value", where=f"--set {change}")
            if field not in CHANGES:
                raise ConfigError(
                    f"{field!r} cannot be set in a replay{did_you_mean(field, CHANGES)}: the log holds what the "
                    f"generator drafted; {', '.join(CHANGES)} can",
                    where=f"--set {change}",
                )
        overrides = [self.override(change) for change in changes]
        spec = self._spec_of(self._load(overrides))
        changed = frozenset(name for name in CHANGES if getattr(spec, name) != getattr(self.spec, name))
        # What is answered from a log is not watched: a policy may be tried that an alarm could not ask a person by.
        return self._builder.pipeline(msgspec.structs.replace(spec, monitor=None)), changed

    def override(self, change: str) -> str:
        """A change as an override of the config: below the pipeline, and stages that are named are written out.

        Raises:
            ConfigError: the verifier has no stage of that name.
        """
        change = change.strip()
        path, _, value = change.partition("=")
        verifier = self.pipeline.verifier
        names = verifier.names if isinstance(verifier, Combined) else ()
        written = self.written["verifier"].get("stages")
        if path.strip() == "verifier.stages" and written:
            order = read(value, f"--set {change}")[0].plain()
            if isinstance(order, list) and order and all(isinstance(stage, str) for stage in order):
                unknown = next((stage for stage in order if stage not in names), None)
                if unknown is not None:
                    near = did_you_mean(unknown, names)
                    raise ConfigError(
                        f"the verifier has no stage {unknown!r}; it has {', '.join(names)}{near}",
                        where=f"--set {change}",
                    )
                change = f"{path}={json.dumps([written[names.index(stage)] for stage in order])}"
        return f"pipelines.{self._own}.{change}"

    # What is solved

    def open_metric(self) -> Any:
        """The metric, opened once; there is one."""
        if self._opened is None:
            assert self.metric is not None
            metric: Any = self._builder.part(self._experiment.metrics[self.metric])
            if offers(metric, Closes):
                self._closing.callback(metric.close)
            if offers(metric, Opens):
                metric.open()
            self._opened = metric
        return self._opened

    # Figures

    def _cost(self, record: TaskRecord) -> float:
        return record.outcome.cost if self.of == "cost" else record.outcome.seconds

    @staticmethod
    def _guess(record: TaskRecord, cost: float) -> TaskRecord:
        """A task of which the log does not say how it would have ended, accepted at this cost, whatever it counts."""
        outcome = Outcome(status="accepted", seconds=cost, cost=cost)
        return msgspec.structs.replace(record, outcome=outcome, rounds=())

    def _charged(self, scored: Sequence[tuple[TaskRecord, float]]) -> list[tuple[TaskRecord, float]]:
        """The records with their cost where `stats` looks for seconds."""
        return list(scored) if self.of == "seconds" else charged(scored)

    def _side(self, scored: Sequence[tuple[TaskRecord, float]]) -> ReplaySide:
        records = [record for record, _ in scored]
        tallies = [record.outcome.tally for record in records]
        return ReplaySide(
            tasks=len(records),
            statuses=Counter(record.outcome.status for record in records),
            trials=sum(tally.trials for tally in tallies),
            accepted=sum(tally.accepted for tally in tallies),
            passes=sum(round.timing.passes for record in records for round in record.rounds),
            solved=stats.solved_rate(scored),
            precision=stats.precision(scored),
            cost=stats.cost_per_solved(scored, self._cost),
        )


def passed_scores(records: Iterable[TaskRecord]) -> Iterator[float]:
    """The scores of items that passed."""
    for record in records:
        for check in (check for round in record.rounds for check in round.checks):
            if check.verdict == "pass" and check.score is not None:
                yield check.score


def _outcome_key(outcome: Outcome) -> bytes:
    """A key that outcomes share which a metric scores alike."""
    return msgspec.json.encode([outcome.status, outcome.value], order="deterministic")
