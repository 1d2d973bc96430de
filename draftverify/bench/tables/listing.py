"""Which tasks of a run ended how, for the terminal: a line per kind of trouble, and lists of tasks by outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote

from rich.text import Text

from draftverify.bench.records.entries import TaskEnding
from draftverify.bench.tables.task_rows import OUTCOMES, Plain, RunFrame, ended_as, select
from draftverify.bench.tables.words import NAME, clean, cost_words, seconds_words, some_of, words
from draftverify.secret import redact
from draftverify.values import EMPTY

KINDS = ("all", *OUTCOMES, "slowest")
"""What can be listed: all tasks, those that ended in some way, and all by the seconds that they took."""

TROUBLES = {
    "failed": "failed",
    "refused": "refused (nothing was accepted)",
    "abstained": "abstained (no answer)",
    "wrong": "accepted and wrong",
}

_STYLES = {"accepted": "green", "failed": "red", "open": "dim"}


def trouble(
    endings: Iterable[TaskEnding], frame: RunFrame, run: str, places: Mapping[str, str] = EMPTY
) -> Iterator[Text]:
    """Lines of text per kind of trouble: how many tasks of which pipeline, the first of them, and the command that
    lists them all.

    Args:
        endings: of the run, in the order of its tasks; read one by one.
        frame: of the run.
        run: the directory, for the commands.
        places: "file:line" of pipelines in the config, where that is at hand; told of those that fail.
    """
    troubled: dict[str, dict[str, list[str]]] = {kind: {} for kind in TROUBLES}
    for ending in endings:
        name, task = ending.pipeline, ending.task
        kind: str = "wrong" if frame.is_wrong(name, task, ending.outcome) else ending.outcome.status
        if kind in troubled and frame.has(name, task):
            troubled[kind].setdefault(name, []).append(redact(task))
    for kind, tasks_of in troubled.items():
        if tasks_of:
            total = sum(map(len, tasks_of.values()))
            at = {name: f" ({place})" for name, place in places.items() if kind == "failed"}
            places_and_tasks = "; ".join(
                f"{name}{at.get(name, '')} {some_of(tasks_of[name])}"
                for name in frame.names
                if name in tasks_of
            )
            yield Text.assemble(
                (f"{TROUBLES[kind]}: {total}", "red" if kind == "failed" else "yellow"),
                f"  {clean(places_and_tasks)}",
            )
            yield Text(f"  draftverify show {quote(run)} --tasks {kind}", style="dim")


def listed(
    rows: Sequence[Plain], kind: str, *, pipeline: str | None, search: str, limit: int, currency: str = ""
) -> Iterator[Text]:
    """The tasks of one kind, each with the pipelines that it is true of.

    Args:
        rows: of `draftverify.bench.tables.task_rows.all_rows`.
        kind: one of KINDS.
        pipeline: look at this one alone; at all when None.
        search: a text that id, group or beginning of a task holds.
        limit: so many tasks.
        currency: of costs.
    """
    outcome = kind if kind in OUTCOMES else None
    sort = "slowest" if kind == "slowest" else "place"
    chosen = select(rows, pipeline=pipeline, outcome=outcome, search=search, sort=sort)
    yield Text(
        f"{_counted(len(chosen), 'task')} of {len(rows)}" + (f", {kind}" if kind != "all" else ""),
        style="bold",
    )
    names = [pipeline] if pipeline is not None else [name for row in chosen[:limit] for name in row["cells"]]
    width = max(map(len, names), default=0)
    for row in chosen[:limit]:
        group = f" ({words(row['group'], NAME)})" if row["group"] else ""
        yield Text.assemble(
            (words(row["task"], NAME), "bold"), group, (f"  {words(row['about'], 100)}", "dim")
        )
        for name, cell in row["cells"].items():
            if pipeline in (None, name) and (outcome is None or ended_as(cell, outcome)):
                yield _line(name, cell, width, currency)
    if len(chosen) > limit:
        yield Text(f"… and {len(chosen) - limit} more: --limit {len(chosen)}, or --search TEXT", style="dim")


def _line(name: str, cell: Plain, width: int, currency: str) -> Text:
    status = {"open": "not ended"}.get(cell["status"], cell["status"])
    facts = [seconds_words(cell["seconds"]), _counted(cell["rounds"], "round")] if "seconds" in cell else []
    facts += [cost_words(cell["cost"], currency)] if "cost" in cell else []
    if "solved" in cell:  # the metric's word; 0 and 1 stand as "wrong" and nothing
        facts += [f"solved {cell['solved']:.3g}"] if 0.0 < cell["solved"] < 1.0 else []
    elif "score" in cell:
        facts.append(f"score {cell['score']:.3g}")
    facts += [remark for remark in ("wrong", "differs") if cell.get(remark)]
    line = Text.assemble(
        f"  {clean(name):<{width}}  ", (f"{status:<9}", _STYLES.get(cell["status"], "yellow"))
    )
    line.append(f"  {' · '.join(facts)}" if facts else "")
    return line.append(f"  {words(cell['why'])}" if cell.get("why") else "", style="dim")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count != 1)
