"""What the report page shows, as plain JSON-able data: the same for the file, the local server and whoever else asks.

Strings are as recorded, with secrets taken out; whoever displays them cleans them. No HTML is made here. A run's rounds
are read once for `overview`, and not at all for `task_list`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from draftverify import calibration
from draftverify.calibration import Estimate, Places
from draftverify.errors import ConfigError
from draftverify.records import Entry, Question, RunRecords, Texts
from draftverify.report.flow import Flow
from draftverify.report.summary import Figure, PipelineSummary, Summary, figure, first_difference, summarise
from draftverify.secret import redact
from draftverify.values import Check, Outcome, Round, Task, TaskRecord

__all__ = [
    "OUTCOMES",
    "SORTS",
    "Frame",
    "Gathering",
    "Plain",
    "all_rows",
    "changes",
    "detail_of",
    "detail_of_open",
    "ended_as",
    "overview",
    "row_of",
    "select",
    "so_far",
    "summary_of",
    "task_detail",
    "task_list",
]

Plain: TypeAlias = "dict[str, Any]"

OUTCOMES = ("accepted", "failed", "refused", "waiting", "abstained", "differs", "wrong", "open")
"""What a list of tasks can be asked for: how a task ended ("refused": nothing was accepted), "differs" from the
baseline's value, accepted and "wrong" by the first metric, and "open": not ended."""

SORTS = ("place", "slowest", "score", "rounds")
"""In the file's order, by seconds (most first), by score (lowest first), by rounds (most first)."""

DIVERGENCES = 50
"""Of a pipeline, in the overview; the list of tasks has all."""
CLIPPED = 100_000
"""Characters of one text that a task's detail shows."""
ROUNDS = 500
"""Rounds of one record that a task's detail shows: the first and the last of them."""
DRAFTS = 1_000
"""Drafts of one round that a task's detail shows: those that were kept, and the first of the others."""
ABOUT = 160


def changes(run: RunRecords) -> Plain:
    """How far a run is, and a word that is another one whenever anything was written: cheap, to be polled.

    Returns:
        {"version", "finished", "done", "total", "waiting", "failed", "pipelines": {name: {"done", "total", …}}}.
        "done" are tasks that ended; a run is "finished" once its last command came to its end and nobody is waited for;
        one whose retry of failed tasks was killed is not.
    """
    counts: dict[str, dict[str, int]] = {}
    for (phase, name, status), count in run.store.counts().items():
        if phase == "measure":
            counts.setdefault(name, {})[status] = count
    names = list(dict.fromkeys((*run.names, *counts)))
    totals, waiting = run.store.totals(names, "measure"), run.store.waiting()
    pipelines = {
        name: {
            "done": sum(counts.get(name, {}).values()),
            "total": totals[name],
            "waiting": waiting.get(name, 0),
            "failed": counts.get(name, {}).get("failed", 0),
        }
        for name in names
    }
    keys = ("done", "total", "waiting", "failed")
    summed = {key: sum(each[key] for each in pipelines.values()) for key in keys}
    stamps = [_stamp(run.path / name) for name in ("summary.json", "run.json")]
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
    """What one pass over a run's records collects for the overview.

    Args:
        run: whose.
    """

    def __init__(self, run: RunRecords) -> None:
        self.run = run
        self.state = changes(run)
        written = summary_of(run)
        self.recorded = written if written is not None and written.is_of(run.store.counts()) else None
        self.names = list(self.state["pipelines"])
        self._places = {name: Places() for name in self.names}
        self._flows = {name: Flow() for name in self.names}
        self._costs: dict[str, dict[str, _Costs]] = {name: {} for name in self.names}
        self._words = {name: _Words() for name in self.names}
        self._kept: dict[str, list[TaskRecord]] = {name: [] for name in self.names}

    def add(self, entry: Entry) -> None:
        """Count a record."""
        name, record = entry.pipeline, entry.record
        if name not in self._places:
            return
        self._places[name].add(record)
        self._flows[name].add(record)
        self._words[name].add(record)
        for group in {record.group, ""}:
            self._costs[name].setdefault(group, _Costs()).add(record)
        if self.recorded is None:  # of a run that goes on nobody has summed anything yet
            self._kept[name].append(record)

    def overview(self) -> Plain:
        """What was collected."""
        run, about = self.run, self.run.about
        summary = self.recorded or so_far(run, self._kept)
        starts = list(about.get("starts") or [{}])
        config = run.config
        cells = config.get("cells", {})
        pipelines = [self._pipeline(each, summary, cells) for each in summary.pipelines]
        made: Plain = {
            "name": str(config.get("name", run.path.name)),
            "run": about["run"],
            "path": str(run.path),
            "started": starts[0].get("at"),
            "last": run.store.written()[0],
            "command": list(starts[-1].get("command", ())),
            "starts": [
                {key: each[key] for key in ("at", "command", "accepted") if each.get(key)} for each in starts
            ],
            "config": json.dumps(config, indent=2, ensure_ascii=False),
            "versions": starts[-1].get("versions", {}),
            "parts": starts[-1].get("parts", {}),
            "tags": list(about.get("tags", ())),
            "cells": cells,
            "baseline": summary.baseline,
            "baselines": config.get("baselines", {}),
            "groups": list(summary.groups),
            "tasks": summary.tasks,
            "metrics": list(summary.metrics),
            "finished": self.state["finished"],
            "progress": self.state,
            "version": self.state["version"],
            "coverage": _plain(summary.coverage),
            "pipelines": pipelines,
            "picture": _picture(pipelines, summary),
        }
        found: Plain = redacted(made)
        return found

    def _pipeline(self, summary: PipelineSummary, whole: Summary, cells: Mapping[str, Any]) -> Plain:
        name = summary.name
        plain: Plain = msgspec.to_builtins(summary)
        if plain["identical"] is not None:
            every = plain["identical"]["divergences"]
            plain["identical"] = {
                **plain["identical"],
                "differ": len(every),
                "divergences": list(every[:DIVERGENCES]),
            }
        costs = self._costs.get(name, {})
        for row in plain["rows"]:
            row["verdict"] = _verdict(row["speedup"])
            row.update(costs[row["group"]].plain() if row["group"] in costs else _Costs().plain())
        words = self._words.get(name, _Words())
        places, flow = self._places.get(name, Places()), self._flows.get(name, Flow())
        plain.update(
            baseline=name == whole.baseline or name in whole.baselines.values(),
            cell=dict(cells.get(name, {})),
            positions=[
                {"position": position, **_plain_figure(each)}
                for position, each in places.by_position().items()
            ],
            stages=[
                {**msgspec.to_builtins(each), "rate": _plain_figure(each.rate)} for each in places.by_stage()
            ],
            flow=flow.plain(),
            trust=words.plain(summary, whole),
        )
        return plain


class _Costs:
    """Seconds by part and units of one pipeline's tasks in one group; how many of them were accepted."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.seconds: list[float] = []
        self.units: list[float] = []
        self.draft = self.verify = 0.0

    def add(self, record: TaskRecord) -> None:
        self.statuses.append(record.outcome.status)
        self.seconds.append(record.outcome.seconds)
        self.units.append(record.outcome.units)
        self.draft += math.fsum(round.timing.draft for round in record.rounds)
        self.verify += math.fsum(round.timing.verify for round in record.rounds)

    def plain(self) -> Plain:
        """Figures of a row: the share accepted, the mean cost of a task, and where the seconds went."""
        total = math.fsum(self.seconds)
        return {
            "accepted": _plain_figure(calibration.accepted_rate(self.statuses)),
            "seconds_per_task": _plain_figure(calibration.mean_cost(self.seconds)),
            "units_per_task": _plain_figure(calibration.mean_cost(self.units)) if any(self.units) else None,
            "split": {
                "draft": self.draft,
                "verify": self.verify,
                "rest": max(total - self.draft - self.verify, 0.0),
            },
        }


class _Words:
    """Whose words the answers of a pipeline rest on, and what they were."""

    def __init__(self) -> None:
        self.verdicts: dict[str, int] = {}
        self.by: dict[str, int] = {}
        self.sources: dict[str, int] = {}

    def add(self, record: TaskRecord) -> None:
        for round in record.rounds:
            if round.items:
                self.sources[round.source] = self.sources.get(round.source, 0) + len(round.items)
            if not round.checks:
                continue
            self.by[round.by] = self.by.get(round.by, 0) + len(round.checks)
            for check in round.checks:
                self.verdicts[check.verdict] = self.verdicts.get(check.verdict, 0) + 1

    def plain(self, pipeline: PipelineSummary, whole: Summary) -> Plain:
        """Verdicts, whose they were, caveats, marks (audits among them), and how often accepted was right."""
        row = pipeline.rows[-1]
        solved = row.solved.get(whole.metrics[0]) if whole.metrics else None
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
    """summary.json; None where there is none that can be read."""
    try:
        return msgspec.convert(run.summary, Summary) if run.summary else None
    except msgspec.ValidationError:
        return None


def so_far(run: RunRecords, records: Mapping[str, Sequence[TaskRecord]]) -> Summary:
    """What can be said of a run that has not come to its end; the metrics are asked there."""
    config = run.config
    return summarise(
        name=str(config.get("name", run.path.name)),
        tasks=run.tasks,
        records=records,
        baseline=config.get("baseline"),
        baselines=config.get("baselines", {}),
        predictions=run.predictions,
        waiting=[(each.pipeline, each.task) for each in run.questions if each.state != "used"],
        marks=run.marks,
    )


def _picture(pipelines: Sequence[Plain], summary: Summary) -> Plain:
    """Cost against quality: one point per pipeline, over all tasks."""
    metric = summary.metrics[0] if summary.metrics else None
    points = []
    for each in pipelines:
        row = each["rows"][-1]
        points.append(
            {
                "pipeline": each["name"],
                "baseline": each["baseline"],
                "quality": row["solved"][metric]["rate"] if metric is not None else row["accepted"],
                "seconds": row["seconds_per_task"],
                "units": row["units_per_task"],
            }
        )
    return {"quality": f"solved ({metric})" if metric is not None else "accepted", "points": points}


def _verdict(speedup: Mapping[str, Any] | None) -> str | None:
    """What a speed-up says in a word: its interval is above 1, below it, or holds it."""
    if speedup is None or speedup["value"] is None:
        return None
    low, high = speedup["low"], speedup["high"]
    if low is not None and low > 1.0:
        return "gain"
    return "loss" if high is not None and high < 1.0 else "unclear"


# The list of tasks


def task_list(
    run: RunRecords,
    *,
    rows: Sequence[Plain] | None = None,
    pipeline: str | None = None,
    outcome: str | None = None,
    search: str = "",
    sort: str = "place",
    offset: int = 0,
    limit: int = 100,
) -> Plain:
    """A page of the run's tasks, each with how every pipeline fared.

    Args:
        run: whose.
        rows: what `all_rows` gave, where it is at hand.
        pipeline: what is asked for is asked of this one; of any when None.
        outcome: one of OUTCOMES; all when None.
        search: a text that the task's id, group or beginning holds, in any case.
        sort: one of SORTS.
        offset, limit: which of those that are left.

    Returns:
        {"total": how many are left, "rows": [{"task", "group", "about", "cells": {pipeline: {"status", …}}}]}

    Raises:
        ConfigError: an outcome, a sort or a pipeline that there is not.
    """
    if rows is None:
        rows = list(all_rows(run))
    if pipeline is not None and rows and not any(pipeline in row["cells"] for row in rows):
        raise ConfigError(f"the run has no pipeline {pipeline!r}", path="pipeline")
    chosen = select(rows, pipeline=pipeline, outcome=outcome, search=search, sort=sort)
    return {"total": len(chosen), "rows": chosen[offset : offset + limit]}


def select(
    rows: Iterable[Plain], *, pipeline: str | None, outcome: str | None, search: str, sort: str
) -> list[Plain]:
    """The rows that a list asks for, in its order; the page of a file does the same in the browser.

    Raises:
        ConfigError: an outcome or a sort that there is not.
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise ConfigError(f"{outcome!r} is no outcome; there are {', '.join(OUTCOMES)}", path="outcome")
    if sort not in SORTS:
        raise ConfigError(f"{sort!r} is no order; there are {', '.join(SORTS)}", path="sort")
    sought = search.strip().lower()

    def cells(row: Plain) -> list[Plain]:
        every: dict[str, Plain] = row["cells"]
        return list(every.values()) if pipeline is None else [every[pipeline]] if pipeline in every else []

    def wanted(row: Plain) -> bool:
        if sought and not any(sought in row[key].lower() for key in ("task", "group", "about")):
            return False
        return outcome is None or any(ended_as(cell, outcome) for cell in cells(row))

    def most(row: Plain, key: str) -> float:
        return max((cell.get(key) or 0.0 for cell in cells(row)), default=0.0)

    def least(row: Plain) -> float:
        return min((cell["score"] for cell in cells(row) if cell.get("score") is not None), default=math.inf)

    found = [row for row in rows if wanted(row)]
    if sort == "slowest":
        found.sort(key=lambda row: -most(row, "seconds"))
    elif sort == "rounds":
        found.sort(key=lambda row: -most(row, "rounds"))
    elif sort == "score":
        found.sort(key=least)
    return found


def ended_as(cell: Plain, outcome: str) -> bool:
    """Whether a cell of a row is of this kind of the list: a status, "refused", "differs" or "wrong"."""
    if outcome in ("differs", "wrong"):
        return bool(cell.get(outcome))
    status = {"refused": "exhausted"}.get(outcome, outcome)
    return bool(cell["status"] == status)


def all_rows(run: RunRecords) -> Iterator[Plain]:
    """Every measured task as a row, in order, from the outcomes alone."""
    frame = Frame.of(run)
    of_task = groupby(run.store.endings(), key=lambda each: each.task)
    ended = next(of_task, None)
    for task in run.tasks:
        own: dict[str, Outcome] = {}
        if ended is not None and ended[0] == task.id:
            own = {each.pipeline: each.outcome for each in ended[1]}
            ended = next(of_task, None)
        yield row_of(frame, task, own)


def row_of(frame: Frame, task: Task, outcomes: Mapping[str, Outcome]) -> Plain:
    """One task as a row of the list, from how it ended with each pipeline."""
    cells: dict[str, Plain] = {}
    for name in frame.names:
        outcome = outcomes.get(name)
        if not frame.has(name, task.id):
            continue
        if outcome is None:
            cells[name] = {"status": "waiting" if (name, task.id) in frame.waiting else "open"}
            continue
        cell: Plain = {
            "status": outcome.status,
            "seconds": _short(outcome.seconds),
            "rounds": outcome.rounds,
        }
        if outcome.units:
            cell["units"] = _short(outcome.units)
        score, judged = outcome.score, _judged(frame, name, task.id)
        if judged is not None:
            score = judged
            cell["solved"] = judged
            if outcome.status == "accepted" and judged < 1.0:
                cell["wrong"] = True
        if score is not None:
            cell["score"] = _short(score)
        base = outcomes.get(frame.bases[name])
        if base is not None and _differs(outcome, base):
            cell["differs"] = True
        if outcome.reason:
            cell["why"] = redact(outcome.reason)[:ABOUT]
        cells[name] = cell
    return {
        "task": redact(task.id),
        "group": redact(task.group),
        "about": _about(task),
        "cells": cells,
    }


def _judged(frame: Frame, pipeline: str, task: str) -> float | None:
    """What the first metric says."""
    return frame.said.get((pipeline, task, frame.metrics[0])) if frame.metrics else None


def _differs(own: Outcome, base: Outcome) -> bool:
    """Whether a value is another than the baseline's, as `identical` counts: a failure equals nothing."""
    return "failed" in (own.status, base.status) or own.value != base.value


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks of a run have in common, read once.

    Args:
        names: the pipelines, in order.
        bases: what each is compared with; "" for nothing.
        waiting: questions that are open, by (pipeline, task).
        metrics: their names; the first says what is solved.
        said: what metrics said, by (pipeline, task, metric).
        own: of pipelines that do not run over all tasks, the ids of theirs.
    """

    names: tuple[str, ...]
    bases: Mapping[str, str]
    waiting: Mapping[tuple[str, str], Question]
    metrics: tuple[str, ...]
    said: Mapping[tuple[str, str, str], float | None]
    own: Mapping[str, frozenset[str]] = {}

    def has(self, pipeline: str, task: str) -> bool:
        """Whether a pipeline runs over a task."""
        return pipeline not in self.own or task in self.own[pipeline]

    @staticmethod
    def of(run: RunRecords) -> Frame:
        """The frame of a run as it stands."""
        config = run.config
        names = list(dict.fromkeys((*run.names, *(pipeline for _, pipeline, _ in run.store.counts()))))
        common, own = config.get("baseline"), config.get("baselines", {})
        bases = {name: own.get(name, common) or "" for name in names}
        return Frame(
            names=tuple(names),
            bases={name: "" if base == name else base for name, base in bases.items()},
            waiting={(each.pipeline, each.task): each for each in run.questions if each.state != "used"},
            metrics=tuple(config.get("metrics", {})),
            said=run.store.named_scores(),
            own=run.store.own(),
        )


def _about(task: Task) -> str:
    """The beginning of what a task asks: its longest text is seldom its name."""
    texts = [value for value in task.input.values() if isinstance(value, str)]
    text = max(texts, key=len, default="") if texts else json.dumps(dict(task.input), ensure_ascii=False)
    return " ".join(redact(text)[: 4 * ABOUT].split())[:ABOUT]


# One task


def task_detail(run: RunRecords, task: str) -> Plain:
    """One task: what it asks, and of every pipeline how it ended and what was drafted, said and kept in each round.

    Raises:
        ConfigError: the run has no such task.
    """
    known = next((each for each in run.store.tasks() if each.id == task), None)
    if known is None:
        raise ConfigError(f"the run has no task {task!r}", path="task")
    frame = Frame.of(run)
    entries = {entry.pipeline: entry for entry in run.store.entries(task=task)}
    entries.update(detail_of_open(run, frame, known, entries))
    return detail_of(frame, known, entries)


def detail_of_open(run: RunRecords, frame: Frame, task: Task, ended: Iterable[str]) -> dict[str, Entry]:
    """What there is of a task in the pipelines in which it has not ended: it waits for a person, or is under way."""
    found = {}
    for name in frame.names:
        question = frame.waiting.get((name, task.id))
        attempt = question.attempt if question is not None else 0
        if name not in ended and (rounds := run.store.rounds(name, task.id, attempt)):
            outcome = Outcome(status="waiting", rounds=len(rounds))
            record = TaskRecord(
                task=task.id, group=task.group, attempt=attempt, outcome=outcome, rounds=rounds
            )
            texts = run.store.words(name, task.id, attempt)
            found[name] = Entry(pipeline=name, record=record, texts=texts)
    return found


def detail_of(
    frame: Frame,
    task: Task,
    entries: Mapping[str, Entry],
    *,
    clipped: int = CLIPPED,
    rounds: int = ROUNDS,
    drafts: int = DRAFTS,
) -> Plain:
    """A task's detail from its records.

    Args:
        frame: of the run.
        task: which.
        entries: its records with the words of their rounds, by pipeline.
        clipped: characters of one text that are shown.
        rounds: of one record that are shown.
        drafts: of one round that are shown.
    """
    show = _Show(clipped, rounds, drafts)
    pipelines: list[Plain] = []
    for name in frame.names:
        entry, question = entries.get(name), frame.waiting.get((name, task.id))
        if not frame.has(name, task.id):
            continue
        if entry is None:
            pipelines.append({"name": name, "status": "waiting" if question else "open", "rounds": []})
            continue
        own = show.record(entry.record, entry.texts)
        base = entries.get(frame.bases[name])
        ended = base is not None and "waiting" not in (own["status"], base.record.outcome.status)
        if base is not None and ended and _differs(entry.record.outcome, base.record.outcome):
            position, expected, got = first_difference(base.record.outcome.value, entry.record.outcome.value)
            own["differs"] = {
                "position": position,
                "expected": show.text(expected),
                "got": show.text(got),
            }
        keys = {metric: (name, task.id, metric) for metric in frame.metrics}
        scores = {metric: frame.said[key] for metric, key in keys.items() if key in frame.said}
        if scores:
            own["scores"] = scores
        if entry.record.outcome.status == "waiting" and question is None:
            own["status"] = "open"
        if question is not None:
            own["question"] = {
                "state": question.state,
                "answer": question.answer,
                "note": show.text(question.note),
            }
        pipelines.append({"name": name, **own})
    return {
        "task": redact(task.id),
        "group": redact(task.group),
        "input": {redact(key): show.text(value) for key, value in task.input.items()},
        "pipelines": pipelines,
    }


class _Show:
    """Records as plain data, texts cut to a length; what is at its default is left out."""

    def __init__(self, clipped: int, rounds: int, drafts: int) -> None:
        self._clipped = clipped
        self._rounds = rounds
        self._drafts = drafts

    def text(self, value: Any) -> str:
        """A recorded value as text; of one that is too long its beginning, and how much is left."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        # A secret goes before the cut, since half of one is too much of it.
        text = redact(text)
        left = len(text) - self._clipped
        return text if left <= 0 else f"{text[: self._clipped]}… ({left} more characters)"

    def record(self, record: TaskRecord, texts: Sequence[Texts | None]) -> Plain:
        """How it ended, and its rounds."""
        outcome = record.outcome
        own: Plain = {"status": outcome.status, "attempt": record.attempt, **self._outcome(outcome)}
        words = _value_in_words(record, texts)
        if words is not None:
            own["words"] = self.text(words)
        own["kind"] = _kind(record, texts)
        places = range(len(record.rounds))
        if len(places) > self._rounds:
            first = self._rounds - self._rounds // 4
            own["left_out"] = [first, len(places) - self._rounds]
            places = [*places[:first], *places[len(places) - self._rounds // 4 :]]  # type: ignore[assignment]
        own["rounds"] = [
            self._round(record.rounds[place], texts[place] if place < len(texts) else None)
            for place in places
        ]
        return own

    def _outcome(self, outcome: Outcome) -> Plain:
        if outcome.status == "waiting":
            return {}
        found: Plain = {"seconds": _short(outcome.seconds), "value": self.text(outcome.value)}
        if outcome.units:
            found["units"] = _short(outcome.units)
        for name in ("score", "support", "margin", "drift"):
            if getattr(outcome, name) is not None:
                found[name] = _short(getattr(outcome, name))
        if outcome.reason:
            found["reason"] = self.text(outcome.reason)
        if outcome.refused is not None:
            best = outcome.refused
            found["refused"] = {
                "text": self.text(best.value),
                "reason": self.text(best.reason),
                "feedback": self.text(best.feedback),
                "score": best.score,
            }
        if outcome.failure is not None:
            found["failure"] = {
                "said": self.text(str(outcome.failure)),
                "traceback": self.text(outcome.failure.traceback),
            }
        if weakened := outcome.tally.weakened():
            found["caveats"] = self.text(weakened)
        return found

    def _round(self, round: Round, words: Texts | None) -> Plain:
        timing, decision = round.timing, round.decision
        places = list(range(len(round.items)))
        if len(places) > self._drafts:
            taken = decision.taken
            places = sorted(sorted(places, key=lambda index: (index not in taken, index))[: self._drafts])
        joined = decision.joined
        among = set(joined)
        found: Plain = {
            "index": round.index,
            "draft": _short(timing.draft),
            "verify": _short(timing.verify),
            "items": [self._item(round, words, index, among) for index in places],
        }
        if len(places) < len(round.items):
            found["drafted"] = len(round.items)
            for index, item in zip(places, found["items"], strict=True):
                item["at"] = index
        others = [value for index, value in zip(joined, decision.emitted, strict=True) if index is None]
        known = words is not None and len(words.spliced) == len(others)
        if others:
            found["spliced"] = [self.text(each) for each in (words.spliced if known and words else others)]
        if round.asked != len(round.items):
            found["asked"] = round.asked
        for name, value, default in (
            ("tries", round.tries, 0),
            ("source", round.source, "generator"),
            ("by", round.by, "verifier"),
            ("units", _short(timing.units), 0.0),
            ("passes", timing.passes, 1),
            ("batch", timing.batch, 1),
            ("deterministic", round.deterministic, True),
            ("exhausted", round.exhausted, False),
            ("done", decision.done, False),
            ("abstain", decision.abstain, False),
        ):
            if value != default:
                found[name] = value
        if round.trouble:
            found["trouble"] = list(round.trouble)
        if round.steps:
            found["steps"] = [{"clause": step.clause, "do": step.do, "on": step.on} for step in round.steps]
        if round.failure is not None:
            found["failure"] = self.text(str(round.failure))
        if round.notes:
            found["notes"] = self.text(round.notes)
        if round.nested:
            found["nested"] = [
                {"task": self.text(inner.task), **self.record(inner, ())} for inner in round.nested
            ]
        return found

    def _item(self, round: Round, words: Texts | None, index: int, joined: set[int | None]) -> Plain:
        known = words is not None and index < len(words.items)
        found: Plain = {"text": self.text(words.items[index] if known and words else round.items[index])}
        found["fate"] = fate_of(round, index, joined)
        if round.parents[index] != index - 1:
            found["parent"] = round.parents[index]
        decision = round.decision
        for refusal in decision.refused:
            if refusal.index == index and refusal.reason:
                found["why"] = self.text(refusal.reason)
                break
        for corrected in decision.corrected:
            if corrected.index == index:
                found["instead"] = self.text(corrected.value)
                break
        if round.checks:
            found["check"] = self._check(round.checks[index])
        return found

    def _check(self, check: Check) -> Plain:
        found: Plain = {"verdict": check.verdict}
        if check.score is not None:
            found["score"] = _short(check.score)
        for name in ("reason", "feedback", "stage", "caveat"):
            if said := getattr(check, name):
                found[name] = self.text(said)
        if check.correction is not msgspec.UNSET:
            found["correction"] = self.text(check.correction)
        return found


def fate_of(round: Round, index: int, joined: Container[int | None]) -> str:
    """What became of an item: "kept", "cut" (kept, and cut off by the stopping rule), "corrected", "held", "refused",
    "passed" (and not chosen), or "left" (not judged). `joined` is the decision's, made once for all items."""
    decision = round.decision
    if index in decision.kept:
        return "kept" if index in joined else "cut"
    if decision.corrected and any(each.index == index for each in decision.corrected):
        return "corrected"
    if index in decision.held:
        return "held"
    for refusal in decision.refused:
        if refusal.index == index:
            return "refused"
    verdict = round.checks[index].verdict if round.checks else "unchecked"
    if verdict in ("reject", "error", "timeout", "abstain"):
        return "refused"
    return "passed" if verdict == "pass" else "left"


def _kind(record: TaskRecord, texts: Sequence[Texts | None]) -> str:
    """How drafts are best read: "tokens" (numbers with words, one after the other), "steps" (a chain of short texts) or
    "drafts" (whole texts, beside each other)."""
    rounds = record.rounds
    items = [item for round in rounds for item in round.items]
    flat = any(len(round.items) > 1 and round.parents[-1] == -1 for round in rounds)
    if items and not flat and all(isinstance(item, int) for item in items):
        return "tokens"
    spliced = [value for round in rounds for value in round.decision.emitted]
    if not items and spliced and all(isinstance(value, int) for value in spliced):
        return "tokens"
    long = any(isinstance(item, str) and ("\n" in item.strip() or len(item) > 300) for item in items)
    many = any(len(round.items) > 1 for round in rounds)
    answer = record.outcome.value
    grown = isinstance(answer, (list, tuple)) and len(answer) > 1
    return "steps" if (many or grown) and not flat and not long else "drafts"


def _value_in_words(record: TaskRecord, texts: Sequence[Texts | None]) -> str | None:
    """All that joined the answer, in words; None where some round has none."""
    if not texts or None in texts:
        return None
    found: list[str] = []
    for round, said in zip(record.rounds, texts, strict=True):
        if said is None:
            return None
        others = iter(said.spliced)
        for index in round.decision.joined:
            found.append(next(others, "") if index is None else said.items[index])
    return "".join(found)


# Within


def redacted(value: Any) -> Any:
    """The same data with secrets taken out of every text."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key) if isinstance(key, str) else key: redacted(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(each) for each in value]
    return value


def _plain(found: Figure | None) -> Plain | None:
    return None if found is None else msgspec.to_builtins(found)


def _plain_figure(estimate: Estimate) -> Plain:
    made: Plain = msgspec.to_builtins(figure(estimate))
    return made


def _short(number: float) -> float:
    """Five digits, which is more than a clock or a score has, and half the bytes."""
    if not number or not isinstance(number, float) or not math.isfinite(number):
        return number
    return float(f"{number:.5g}")
