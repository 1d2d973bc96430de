"""A run's figures as plain JSON-able data: what the report page shows above its list of tasks, and how far a run is.

Strings are as recorded, with secrets taken out; whoever displays them cleans them. No HTML is made here. A run's rounds
are read once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from draftverify import stats
from draftverify.bench.artifact import VERIFIER_AUDIT
from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Entry
from draftverify.bench.tables.figures import Scale, drafting_words
from draftverify.bench.tables.flow import Flow
from draftverify.bench.tables.summarise import figure, so_far
from draftverify.bench.tables.summary import PipelineSummary, Summary, SummaryFigure
from draftverify.bench.tables.task_rows import Plain
from draftverify.secret import redacted
from draftverify.stats import Estimate
from draftverify.stats.places import Places
from draftverify.values import TaskRecord

DIVERGENCES = 50
"""Of a pipeline, in the overview; the list of tasks has all."""


def changes(run: RunRecords) -> Plain:
    """How far a run is, and a word that is another one whenever anything was written: cheap, to be polled.

    Returns:
        {"version", "finished", "done", "total", "waiting", "failed", "pipelines": {name: {"done", "total", …}}}.
        "done" are tasks that ended, and "waiting" those that wait for a person; a run is "finished" once its last
        command came to its end and nobody is waited for; one whose retry of failed tasks was killed is not.
    """
    counts: dict[str, dict[str, int]] = {}
    for (phase, name, status), count in run.store.counts().items():
        if phase == "measure":
            counts.setdefault(name, {})[status] = count
    names = list(dict.fromkeys((*run.names, *counts)))
    totals = run.store.totals(names, "measure")
    pipelines = {}
    for name in names:
        statuses = counts.get(name, {})
        waiting = statuses.get("waiting", 0)
        pipelines[name] = {
            "done": sum(statuses.values()) - waiting,
            "total": totals[name],
            "waiting": waiting,
            "failed": statuses.get("failed", 0),
        }
    keys = ("done", "total", "waiting", "failed")
    summed = {key: sum(progress[key] for progress in pipelines.values()) for key in keys}
    stamps = [_stamp(run.path / name) for name in ("summary.json", "run.json", VERIFIER_AUDIT)]
    return {
        "version": "/".join([run.store.written()[1], *map(str, stamps)]),
        "finished": bool(stamps[0]) and summed["done"] == summed["total"] and not run.store.retrying(),
        **summed,
        "pipelines": pipelines,
    }


def _stamp(file: Path) -> int:
    """When a file was written; 0 where there is none."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def overview(run: RunRecords) -> Plain:
    """Every figure of a run: its name, date, command and config, pipelines and charts; finished or not.

    Reads the rounds of all records once.
    """
    gathering = Gathering(run)
    for entry in run.entries(texts=False):
        gathering.add(entry)
    return gathering.overview()


class Gathering:
    """A collector of what the overview shows, in one pass over a run's records.

    Args:
        run: whose.
    """

    def __init__(self, run: RunRecords) -> None:
        self.run = run
        self.state = changes(run)
        self.recorded = summary_of(run)
        self.names = list(self.state["pipelines"])
        self._places = {name: Places() for name in self.names}
        self._flows = {name: Flow() for name in self.names}
        self._costs: dict[str, dict[str, _Costs]] = {name: {} for name in self.names}
        self._verdicts = {name: _VerdictTally() for name in self.names}
        self._kept: dict[str, list[TaskRecord]] = {name: [] for name in self.names}

    def add(self, entry: Entry) -> None:
        """Count a record."""
        name, record = entry.pipeline, entry.record
        if name not in self._places:
            return
        self._places[name].add(record)
        self._flows[name].add(record)
        self._verdicts[name].add(record)
        for group in {record.group, ""}:
            self._costs[name].setdefault(group, _Costs()).add(record)
        if self.recorded is None:  # of a run that goes on nobody has summed anything yet
            self._kept[name].append(record)

    def overview(self) -> Plain:
        """The collected figures, as plain data."""
        run, about = self.run, self.run.about
        summary = self.recorded or so_far(run, self._kept)
        config = run.config
        cells = config.get("cells", {})
        pipelines = [self._pipeline(pipeline, summary, cells) for pipeline in summary.pipelines]
        figures: Plain = {
            "name": str(config.get("name", run.path.name)),
            "run": about.run,
            "path": str(run.path),
            "started": about.starts[0].at,
            "last": run.store.written()[0],
            "command": list(about.starts[-1].command),
            "starts": [
                {key: start[key] for key in ("at", "command", "accepted") if start.get(key)}
                for start in msgspec.to_builtins(about.starts)
            ],
            "config": json.dumps(config, indent=2, ensure_ascii=False),
            "versions": about.starts[-1].versions,
            "parts": about.starts[-1].parts,
            "tags": list(about.tags),
            "cells": cells,
            "baseline": summary.baseline,
            "currency": summary.currency,
            "baselines": config.get("baselines", {}),
            "groups": list(summary.groups),
            "tasks": summary.tasks,
            "metrics": list(summary.metrics),
            "finished": self.state["finished"],
            "progress": self.state,
            "version": self.state["version"],
            "coverage": _plain(summary.coverage),
            "verifiers": _verifiers(run),
            "pipelines": pipelines,
            "picture": _picture(pipelines, summary),
        }
        without_secrets: Plain = redacted(figures)
        return without_secrets

    def _pipeline(self, summary: PipelineSummary, run_summary: Summary, cells: Mapping[str, Any]) -> Plain:
        name = summary.name
        plain: Plain = msgspec.to_builtins(summary)
        if plain["identical"] is not None:
            every = plain["identical"]["divergences"]
            plain["identical"] = {
                **plain["identical"],
                "differ": len(every),
                "divergences": list(every[:DIVERGENCES]),
            }
        if summary.drafting is not None:
            plain["drafting"]["said"] = drafting_words(summary.drafting)
        costs = self._costs.get(name, {})
        for row in plain["rows"]:
            row["verdict"] = _verdict(row["speedup"])
            row.update(costs[row["group"]].plain() if row["group"] in costs else _Costs().plain())
        verdicts = self._verdicts.get(name, _VerdictTally())
        places, flow = self._places.get(name, Places()), self._flows.get(name, Flow())
        plain.update(
            baseline=name == run_summary.baseline or name in run_summary.baselines.values(),
            cell=dict(cells.get(name, {})),
            positions=[
                {"position": position, **_plain_figure(estimate)}
                for position, estimate in places.by_position().items()
            ],
            stages=[
                {**msgspec.to_builtins(stage), "rate": _plain_figure(stage.rate)}
                for stage in places.by_stage()
            ],
            flow=flow.plain(),
            monitor=[str(entry) for entry in summary.monitor],
            trust=verdicts.plain(summary, run_summary),
        )
        return plain


class _Costs:
    """Seconds by part and cost of one pipeline's tasks in one group."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cost: list[float] = []
        self.draft = self.verify = 0.0

    def add(self, record: TaskRecord) -> None:
        self.seconds.append(record.outcome.seconds)
        self.cost.append(record.outcome.cost)
        self.draft += math.fsum(round.timing.draft for round in record.rounds)
        self.verify += math.fsum(round.timing.verify for round in record.rounds)

    def plain(self) -> Plain:
        """Figures of a row: the mean cost of a task, and where the seconds went."""
        total = math.fsum(self.seconds)
        return {
            "seconds_per_task": _plain_figure(stats.mean_cost(self.seconds), "ratio"),
            "cost_per_task": _plain_figure(stats.mean_cost(self.cost), "ratio") if any(self.cost) else None,
            "split": {
                "draft": self.draft,
                "verify": self.verify,
                "rest": max(total - self.draft - self.verify, 0.0),
            },
        }


class _VerdictTally:
    """A tally of the verdicts that a pipeline's answers rest on, and of who gave them."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.by: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()

    def add(self, record: TaskRecord) -> None:
        for round in record.rounds:
            if round.items:
                self.sources[round.source] += len(round.items)
            if round.checks:
                self.by[round.by] += len(round.checks)
                self.verdicts.update(check.verdict for check in round.checks)

    def plain(self, pipeline: PipelineSummary, run_summary: Summary) -> Plain:
        """Verdicts, whose they were, caveats, marks (audits among them), and how often accepted was right."""
        row = pipeline.rows[-1]
        solved = row.solved.get(run_summary.metrics[0]) if run_summary.metrics else None
        return {
            "verdicts": self.verdicts,
            "by": self.by,
            "sources": self.sources,
            "caveats": dict(row.tally.caveats),
            "accepted_items": row.tally.accepted,
            "marks": list(pipeline.marks),
            "precision": None if solved is None else msgspec.to_builtins(solved.precision),
            "deterministic": pipeline.deterministic,
        }


def summary_of(run: RunRecords) -> Summary | None:
    """The run's summary.json; None where there is none that can be read, or the run has gone on since."""
    try:
        summary = msgspec.convert(run.summary, Summary) if run.summary else None
    except msgspec.ValidationError:
        return None
    return summary if summary is not None and summary.is_of(run.store.counts()) else None


def _verifiers(run: RunRecords) -> Plain | None:
    """The audit that `draftverify audit verifier` wrote; None where there is none, or one of fewer records."""
    try:
        audit: Plain = msgspec.json.decode((run.path / VERIFIER_AUDIT).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return None
    return audit if audit.get("written") == run.store.written()[1] else None


def _picture(pipelines: Sequence[Plain], summary: Summary) -> Plain:
    """Cost against quality: one point per pipeline, over all tasks."""
    metric = summary.metrics[0] if summary.metrics else None
    points = []
    for pipeline in pipelines:
        row = pipeline["rows"][-1]
        points.append(
            {
                "pipeline": pipeline["name"],
                "baseline": pipeline["baseline"],
                "quality": row["solved"][metric]["rate"] if metric is not None else row["accepted"],
                "seconds": row["seconds_per_task"],
                "cost": row["cost_per_task"],
            }
        )
    return {"quality": f"solved ({metric})" if metric is not None else "accepted", "points": points}


def _verdict(speedup: Mapping[str, Any] | None) -> str | None:
    """A speed-up in a word, gain, loss or unclear: its interval is above 1, below it, or holds it."""
    if speedup is None or speedup["value"] is None or not speedup["known"]:
        return None
    low, high = speedup["low"], speedup["high"]
    if low is not None and low > 1.0:
        return "gain"
    return "loss" if high is not None and high < 1.0 else "unclear"


def _plain(value: SummaryFigure | None) -> Plain | None:
    return None if value is None else msgspec.to_builtins(value)


def _plain_figure(estimate: Estimate, scale: Scale = "share") -> Plain:
    plain: Plain = msgspec.to_builtins(figure(estimate, scale))
    return plain
