"""The list of a run's tasks as plain data: a row per task, how it ended with each pipeline; chosen, sorted, in pages.

The page of a file, the local server and `draftverify show --tasks` all list these rows. No round is read for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Question
from draftverify.bench.tables.summarise import is_unanswered
from draftverify.bench.tables.words import text_of
from draftverify.errors import ConfigError
from draftverify.secret import redact
from draftverify.values import Outcome, Task

Plain: TypeAlias = "dict[str, Any]"

OUTCOMES = ("accepted", "failed", "refused", "waiting", "abstained", "differs", "wrong", "open")
"""What a list of tasks can be asked for: how a task ended ("refused": nothing was accepted), "differs" from the
baseline's value, accepted and "wrong" by the first metric, and "open": not ended."""

SORTS = ("place", "slowest", "score", "rounds")
"""In the file's order, by seconds (most first), by score (lowest first), by rounds (most first)."""

ABOUT = 160


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
        search: a text that the task's id, group or beginning holds, the beginning of an answer or draft that was
            refused, or why it was; in any case.
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
        texts = [row[key] for key in ("task", "group", "about")]
        texts += (
            [cell[key] for cell in cells(row) for key in ("why", "says") if key in cell] if sought else []
        )
        if sought and not any(sought in text.lower() for text in texts):
            return False
        return outcome is None or any(ended_as(cell, outcome) for cell in cells(row))

    def most(row: Plain, key: str) -> float:
        return max((cell.get(key) or 0.0 for cell in cells(row)), default=0.0)

    def least(row: Plain) -> float:
        return min((cell["score"] for cell in cells(row) if cell.get("score") is not None), default=math.inf)

    chosen = [row for row in rows if wanted(row)]
    if sort == "slowest":
        chosen.sort(key=lambda row: -most(row, "seconds"))
    elif sort == "rounds":
        chosen.sort(key=lambda row: -most(row, "rounds"))
    elif sort == "score":
        chosen.sort(key=least)
    return chosen


def ended_as(cell: Plain, outcome: str) -> bool:
    """Whether a cell of a row is of this kind of the list: a status, "refused", "differs" or "wrong"."""
    if outcome in ("differs", "wrong"):
        return bool(cell.get(outcome))
    status = outcome
    return bool(cell["status"] == status)


def all_rows(run: RunRecords) -> Iterator[Plain]:
    """Every measured task as a row, in order, from the outcomes alone."""
    frame = RunFrame.of(run)
    of_task = groupby(run.store.endings(), key=lambda ending: ending.task)
    ended = next(of_task, None)
    for task in run.tasks:
        outcomes: dict[str, Outcome] = {}
        if ended is not None and ended[0] == task.id:
            outcomes = {ending.pipeline: ending.outcome for ending in ended[1]}
            ended = next(of_task, None)
        yield row_of(frame, task, outcomes)


def row_of(frame: RunFrame, task: Task, outcomes: Mapping[str, Outcome]) -> Plain:
    """One task as a row of the list, from how it ended with each pipeline."""
    cells: dict[str, Plain] = {}
    for name in frame.names:
        outcome = outcomes.get(name)
        if not frame.has(name, task.id):
            continue
        if outcome is None:
            cells[name] = {"status": "open"}
            continue
        cell: Plain = {"status": outcome.status, "seconds": short(outcome.seconds), "rounds": outcome.rounds}
        if outcome.cost:
            cell["cost"] = short(outcome.cost)
        score, judged = outcome.score, frame.judged(name, task.id)
        if judged is not None:
            score = judged
            cell["solved"] = judged
        if frame.is_wrong(name, task.id, outcome):
            cell["wrong"] = True
        if score is not None:
            cell["score"] = short(score)
        base = outcomes.get(frame.bases[name])
        if base is not None and differs(outcome, base):
            cell["differs"] = True
        if outcome.reason:
            cell["why"] = redact(outcome.reason)[:ABOUT]
        if said := _says(outcome):
            cell["says"] = said
        cells[name] = cell
    return {"task": redact(task.id), "group": redact(task.group), "about": _about(task), "cells": cells}


def _says(outcome: Outcome) -> str:
    """The beginning of the answer, or of the best that was refused and why; "" of what is no text and no object."""
    refused = outcome.refused
    value = outcome.value if outcome.status == "accepted" or refused is None else refused.value
    texts = [text_of(value)]
    if isinstance(value, (list, tuple)) and all(isinstance(item, (int, float)) for item in value):
        texts = []  # tokens
    texts += [refused.reason, refused.feedback] if refused is not None else []
    text = " ".join(text for text in texts if text not in ("", "null"))
    return " ".join(redact(text[: 8 * ABOUT])[: 4 * ABOUT].split())[:ABOUT]


def differs(outcome: Outcome, base: Outcome) -> bool:
    """Whether a value is another than the baseline's, as `identical` counts: what failed or waits equals nothing."""
    return is_unanswered(outcome) or is_unanswered(base) or outcome.value != base.value


class RunFrame(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks of a run have in common, read once.

    Args:
        names: the pipelines, in order.
        bases: what each is compared with; "" for nothing.
        waiting: questions that are open, by (pipeline, task).
        metrics: their names.
        judge: the first of them that says right or wrong (in an unfinished run, the first); None without one.
        scores: what metrics said, by (pipeline, task, metric).
        own_tasks: of pipelines that do not run over all tasks, the ids of theirs.
        currency: of costs; "" where the experiment names none.
    """

    names: tuple[str, ...]
    bases: Mapping[str, str]
    waiting: Mapping[tuple[str, str], Question]
    metrics: tuple[str, ...]
    judge: str | None
    scores: Mapping[tuple[str, str, str], float | None]
    own_tasks: Mapping[str, frozenset[str]] = {}
    currency: str = ""

    def has(self, pipeline: str, task: str) -> bool:
        """Whether a pipeline runs over a task."""
        return pipeline not in self.own_tasks or task in self.own_tasks[pipeline]

    def judged(self, pipeline: str, task: str) -> float | None:
        """What the first metric that says right or wrong says of a task."""
        return self.scores.get((pipeline, task, self.judge)) if self.judge else None

    def is_wrong(self, pipeline: str, task: str, outcome: Outcome) -> bool:
        """Whether an answer was accepted of which that metric says that it is not right."""
        judged = self.judged(pipeline, task)
        return judged is not None and judged < 1.0 and outcome.status == "accepted"

    @staticmethod
    def of(run: RunRecords) -> RunFrame:
        """The frame of a run as it stands."""
        config = run.config
        names = list(dict.fromkeys((*run.names, *(pipeline for _, pipeline, _ in run.store.counts()))))
        metrics = tuple(config.get("metrics", {}))
        common, baselines = config.get("baseline"), config.get("baselines", {})
        bases = {name: baselines.get(name, common) or "" for name in names}
        return RunFrame(
            names=tuple(names),
            bases={name: "" if base == name else base for name, base in bases.items()},
            waiting={
                (question.pipeline, question.task): question
                for question in run.questions
                if question.state != "used"
            },
            metrics=metrics,
            judge=next(iter(run.summary.get("metrics", metrics)), None),
            scores=run.store.named_scores(),
            own_tasks=run.store.own_tasks(),
            currency=run.currency,
        )


def _about(task: Task) -> str:
    """The beginning of what a task asks: its longest text is seldom its name."""
    texts = [value for value in task.input.values() if isinstance(value, str)]
    text = max(texts, key=len, default="") if texts else text_of(dict(task.input))
    return " ".join(redact(text)[: 4 * ABOUT].split())[:ABOUT]


def short(number: float) -> float:
    """A number with five digits, which is more than a clock or a score has, and half the bytes."""
    if not number or not isinstance(number, float) or not math.isfinite(number):
        return number
    return float(f"{number:.5g}")
