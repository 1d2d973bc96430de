"""`draftverify show RUN`: a run's tables, or one task round by round."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from draftverify.errors import ConfigError, StoreError
from draftverify.experiments.compare import Summary, summarise
from draftverify.experiments.report import clean, tables, words
from draftverify.records import Entry, RunRecords, Texts, load_run
from draftverify.values import Check, Outcome, Round

__all__ = ["show"]

STYLES = {"kept": "green", "held": "yellow", "struck": "red strike", "spliced": "bold blue", "left": "dim"}
# Without colours the same is said with marks, as wdiff does.
MARKS = {"kept": "{}", "held": "({})", "struck": "[-{}-]", "spliced": "{{+{}+}}", "left": "~{}~"}


@click.command()
@click.argument("run", type=click.Path(file_okay=False))
@click.option("--trace", metavar="TASK", help="Step through one task: drafted, kept, struck, spliced.")
@click.option("--pipeline", metavar="NAME", help="With --trace: only this pipeline.")
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def show(run: str, trace: str | None, pipeline: str | None, store: str | None) -> None:
    """Show the tables of RUN, finished or not, or step through one task of it."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded
    with load_run(run, url=store) as records:
        if trace is None:
            console.print(tables(summary_of(records)))
            waiting = len(records.store.questions("pending"))
            if waiting:
                console.print(Text(f"{waiting} wait for a person: draftverify review {run}"))
        else:
            for line in trace_lines(records, trace, pipeline, marks=console.color_system is None):
                console.print(line, soft_wrap=True)


def summary_of(records: RunRecords) -> Summary:
    """The finished run's summary, or what can be said of an unfinished one."""
    if records.summary:
        try:
            return msgspec.convert(records.summary, Summary)
        except msgspec.ValidationError as error:
            place = records.path / "summary.json"
            raise StoreError(f"{place}: {error}; delete it, and the run command writes it again") from error
    config = records.config
    names = list(config.get("pipelines", {}))
    return summarise(
        name=str(config.get("name", records.path.name)) + " (not finished)",
        tasks=records.tasks,
        records={name: records.records(name) for name in names},
        baseline=config.get("baseline"),
        predictions=records.predictions,
        waiting=[(each.pipeline, each.task) for each in records.questions if each.state != "used"],
        marks=records.marks,
    )


def trace_lines(records: RunRecords, task: str, pipeline: str | None, *, marks: bool) -> Iterator[Text]:
    """One task's rounds, line by line.

    Args:
        records: the run.
        task: its id.
        pipeline: only this one; all in the config's order when None.
        marks: say kept, struck and spliced with marks besides colours.

    Raises:
        ConfigError: the run has no such task or pipeline.
    """
    names = list(records.config.get("pipelines", {}))
    if pipeline is not None and pipeline not in names:
        raise ConfigError(f"the run has no pipeline {pipeline!r}{_near(pipeline, names)}", path="--pipeline")
    known = {each.id: each for each in records.store.tasks()}
    if task not in known:
        raise ConfigError(f"the run has no task {task!r}{_near(task, list(known))}", path="--trace")
    the_task = known[task]
    yield Text.assemble(("task ", "bold"), clean(task), "  ", (clean(the_task.group), "dim"))
    for name, value in the_task.input.items():
        yield Text.assemble((f"  {clean(name)}: ", "dim"), words(value, 400))
    questions = [each for each in records.questions if each.task == task and each.state != "used"]
    for name in names:
        if pipeline not in (None, name):
            continue
        yield Text("")
        yield Text.assemble(
            (name, "bold underline"), *(f"  {clean(mark)}" for mark in records.marks.get(name, ()))
        )
        entries = list(records.store.entries(pipeline=name, task=task))
        for entry in entries:
            yield from round_lines(entry.record.rounds, entry.texts, marks)
            yield from outcome_lines(entry.record.outcome)
            if entry.texts and None not in entry.texts:
                yield Text.assemble(("  in words: ", "dim"), words(_emitted(entry), 4000))
        if not entries:
            rounds = records.store.rounds(name, task, 0)
            yield from round_lines(rounds, records.store.words(name, task, 0), marks)
            asked = [each for each in questions if each.pipeline == name]
            yield Text(
                "waiting for a person" if asked else "not finished" if rounds else "not run yet",
                style="yellow",
            )


def round_lines(
    rounds: tuple[Round, ...], texts: tuple[Texts | None, ...], marks: bool, indent: str = "  "
) -> Iterator[Text]:
    """The rounds of one record, and of the records inside it."""
    for place, round in enumerate(rounds):
        said = texts[place] if place < len(texts) else None
        yield _heading(round, indent)
        if _is_chain(round):
            yield _chain(round, said, marks, indent + "  ")
        else:
            yield from _alternatives(round, said, marks, indent + "  ")
        for index, check in enumerate(round.checks):
            told = check.caveat or check.verdict in ("reject", "error", "timeout", "abstain")
            if told and _is_chain(round):
                yield Text.assemble(indent + "  ", (f"item {index}: {_said(check)}", "dim"))
        if round.failure is not None:
            yield Text(f"{indent}  {round.failure.kind}: {words(str(round.failure), 300)}", style="red")
        for step in round.steps:
            yield Text(f"{indent}  on {step.on}: {step.clause + 1}. {step.do}", style="magenta")
        for inner in round.nested:
            yield Text(f"{indent}  inner task {clean(inner.task)}: {inner.outcome.status}", style="dim")
            yield from round_lines(inner.rounds, (), marks, indent + "    ")


def _heading(round: Round, indent: str) -> Text:
    timing = round.timing
    parts = [
        f"drafted {len(round.items)}" + (f" of {round.asked}" if round.asked != len(round.items) else "")
    ]
    if round.source != "generator":
        parts.append(f"by {clean(round.source)}")
    if round.tries:
        parts.append(f"try {round.tries + 1}")
    if round.tally.trials:
        parts.append(f"accepted {round.tally.accepted} of {round.tally.trials}")
    parts.append(f"draft {_time(timing.draft)}, verify {_time(timing.verify)}")
    if timing.units:
        parts.append(f"{timing.units:g} units")
    return Text.assemble(indent, (f"round {round.index}", "bold"), "  ", (" · ".join(parts), "dim"))


def _is_chain(round: Round) -> bool:
    return round.parents == tuple(range(-1, len(round.items) - 1))


def _chain(round: Round, said: Texts | None, marks: bool, indent: str) -> Text:
    """A chain on one line: its items, then what was spliced in their place."""
    line = Text(indent)
    segments = [(_state(round, index), _item(round, said, index)) for index in range(len(round.items))]
    segments += [("spliced", text) for text in _spliced(round, said, 120)]
    if not segments:
        return line.append("nothing", style="dim")
    for number, (state, text) in enumerate(segments):
        if number:
            line.append("│", style="dim")
        line.append(MARKS[state].format(text) if marks else text, style=STYLES[state])
    return line


def _alternatives(round: Round, said: Texts | None, marks: bool, indent: str) -> Iterator[Text]:
    """Alternatives and trees, one item a line."""
    for index in range(len(round.items)):
        state = _state(round, index)
        text = _item(round, said, index, 300)
        parent = round.parents[index]
        below = f" after {parent}" if parent >= 0 else ""
        passed = bool(round.checks) and round.checks[index].verdict == "pass"
        word = ("not chosen" if passed else "not judged") if state == "left" else state
        line = Text.assemble(indent, (f"{index}{below} {word}: ", "dim"))
        line.append(MARKS[state].format(text) if marks else text, style=STYLES[state])
        if round.checks:
            line.append(f"  {_said(round.checks[index])}", style="dim")
        yield line
    for text in _spliced(round, said, 300):
        shown = MARKS["spliced"].format(text) if marks else text
        yield Text.assemble(indent, ("spliced: ", "dim"), (shown, STYLES["spliced"]))


def _emitted(entry: Entry) -> str:
    """All that joined the answer, in words."""
    found: list[str] = []
    for round, said in zip(entry.record.rounds, entry.texts, strict=True):
        if said is not None:
            others = iter(said.spliced)
            found += [next(others) if index is None else said.items[index] for index in round.decision.joined]
    return "".join(found)


def _spliced(round: Round, said: Texts | None, limit: int) -> list[str]:
    """What joined in the place of items, or after them."""
    decision = round.decision
    values = [value for index, value in zip(decision.joined, decision.emitted, strict=True) if index is None]
    known = said is not None and len(said.spliced) == len(values)
    return [words(value, limit) for value in (said.spliced if known and said is not None else values)]


def _state(round: Round, index: int) -> str:
    decision = round.decision
    if index in decision.kept:
        return "kept" if index in decision.joined else "left"  # cut off by the stopping rule
    if index in decision.held:
        return "held"
    if any(refusal.index == index for refusal in decision.refused):
        return "struck"
    if round.checks and round.checks[index].verdict in ("reject", "error", "timeout", "abstain"):
        return "struck"
    return "left"


def _item(round: Round, said: Texts | None, index: int, limit: int = 120) -> str:
    known = said is not None and index < len(said.items)
    return words(said.items[index] if known and said is not None else round.items[index], limit)


def _said(check: Check) -> str:
    parts: list[str] = [check.verdict]
    if check.score is not None:
        parts.append(f"{check.score:.3g}")
    parts += [words(text, 200) for text in (check.reason, check.feedback) if text]
    parts += [f"caveat: {words(check.caveat, 200)}"] if check.caveat else []
    return " · ".join(parts)


def outcome_lines(outcome: Outcome) -> Iterator[Text]:
    """How a task ended, its value, and what is to be said against it."""
    style = {"accepted": "green", "failed": "red"}.get(outcome.status, "yellow")
    reason = f" ({words(outcome.reason, 300)})" if outcome.reason else ""
    units = f", {outcome.units:g} units" if outcome.units else ""
    facts = f"  {outcome.rounds} rounds, {_time(outcome.seconds)}{units}"
    yield Text.assemble("  ", (outcome.status, style), reason, (facts, "dim"))
    weakened = outcome.tally.weakened()
    if weakened:
        yield Text(f"  {words(weakened, 400)}", style="yellow")
    yield Text.assemble(("  value: ", "dim"), words(outcome.value, 2000))
    if outcome.refused is not None:
        yield Text.assemble(("  best refused: ", "dim"), words(outcome.refused.value, 400))


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.2f} ms"


def _near(name: str, known: list[Any]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(known[:8])}{', …' if len(known) > 8 else ''}" if known else ""
