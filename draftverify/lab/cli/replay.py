"""`draftverify replay RUN`: what the log says of another rule, block or policy; with --tune, which is best."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.table import Table
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.screen import new_table, print_json, wide_console
from draftverify.bench.records import load_run
from draftverify.bench.tables.words import clean
from draftverify.traits import DraftsFrom

if TYPE_CHECKING:
    from draftverify.lab.recording import Expected, ReplaySide, WhatIf
    from draftverify.lab.tune import Tuned
    from draftverify.stats import Estimate

__all__ = ["replay", "yaml_lines"]

SHOWN = 6
"""Kinds of gaps that the terminal shows; --json has every gap."""


@click.command()
@options.run
@options.repeated("--set", "changes", "A.B=C", "What to change in the pipeline")
@options.optional_file(
    "--tune", "space", "Search for the best change; FILE is YAML: for each path its values."
)
@click.option("--pipeline", metavar="NAME", help="Of a run of several, which one.")
@click.option(
    "--drafts-from", type=click.Choice(get_args(DraftsFrom)), help="What drafts depend on, if none says."
)
@click.option("--seconds", is_flag=True, help="Count seconds, though parts say what they cost.")
@options.moved_config
@options.as_json
@options.store
def replay(
    run: str,
    changes: tuple[str, ...],
    space: str | None,
    pipeline: str | None,
    seconds: bool,
    as_json: bool,
    store: str | None,
    **source: Any,
) -> None:
    """Say from RUN's records what another rule, block size, policy, order of stages or budget would have come to.

    Nothing is sent, and no model runs: answers that were bought come from their cache. What cannot be answered is
    listed, with the task, the round and why. Of rules on distributions acceptance is estimated, where the run kept
    summaries of drafted tokens.

    --tune searches rules, thresholds, blocks, policies and orders of stages by cost per solved task. One half of the
    tasks chooses. The gain is that on the other half, and the YAML to paste comes with it.
    """
    from draftverify.lab.recording import Recording
    from draftverify.lab.tune import read_space, tune

    if space is not None and changes:
        raise click.UsageError("--tune chooses what to change; leave out --set")
    with load_run(run, url=store) as records:
        recording = Recording(records, pipeline, of="seconds" if seconds else None, **source)
    answer: Expected | Tuned | WhatIf
    lines: Iterator[Text | Table]
    with recording:
        if space is not None:
            answer = tune(recording, None if space == options.ALONE else read_space(space))
            lines = _tuned(answer)
        elif (expected := recording.expected(changes)) is not None:
            answer, lines = expected, _expected(expected)
        else:
            answer = recording.what_if(changes)
            lines = _what_if(answer)
        if as_json:
            print_json(answer.plain())
            return
        console = wide_console()
        for line in lines:
            console.print(line, soft_wrap=space is not None)


def _what_if(answer: WhatIf) -> Iterator[Text | Table]:
    """What the log says, for a rich console."""
    answered = len(answer.replayed) - len(answer.gaps)
    yield Text(clean(f"{answer.pipeline}: {', '.join(answer.changes) or 'nothing set'}"))
    yield Text(f"answered {answered} of {len(answer.replayed)} tasks from the records")
    if answered > answer.unscored:
        table = new_table(
            "", ">accepted tasks", ">checked items", ">accepted", ">passes", ">solved", f">{answer.of}/solved"
        )
        table.add_row("ran", *_cells(answer.ran))
        table.add_row("would have", *_cells(answer.would))
        yield table
        unit = f"{answer.of} per solved task, as it ran over as it would have been"
        yield Text(f"gain {_interval(answer.gain)} × ({unit})")
    why = f" ({answer.why_unscored})" if answer.why_unscored else ""
    for count, of, remark in (
        (answer.at_most, "of ", "the cost is an upper bound: no block of that size was timed"),
        (answer.estimated, "of ", "the cost is an estimate: stages were given other items than in the run"),
        (answer.unscored, "", f"are in no figure: the metric has no say on one of their outcomes{why}"),
    ):
        if count:
            yield Text(clean(f"{of}{count} tasks {remark}"))
    reasons = Counter(gap.why for gap in answer.gaps)
    for why, count in reasons.most_common(SHOWN):
        example = next(gap for gap in answer.gaps if gap.why == why)
        also = f" (and {count - 1} more tasks)" if count > 1 else ""
        yield Text(clean(f"not in the log: {example}{also}"))
    if len(reasons) > SHOWN:
        yield Text(f"… and {len(reasons) - SHOWN} other gaps in --json")


def _expected(answer: Expected) -> Iterator[Text | Table]:
    """What is expected of a rule on distributions."""
    yield Text(clean(f"{answer.pipeline}: {', '.join(answer.changes)}"))
    yield Text("acceptance at the recorded contexts, an estimate; what tasks would have come to takes a run")
    table = new_table(">block", ">blocks", ">kept", ">would be kept", ">acceptance", ">would be")
    for size in answer.blocks:
        figures = (size.ran_kept, size.would_keep, size.ran_rate, size.would_accept)
        table.add_row(str(size.size), str(size.blocks), *map(_interval, figures))
    yield table


def _tuned(answer: Tuned) -> Iterator[Text]:
    """What was tried, the best of it with its gain on held-out tasks, and the YAML of that."""
    refused = f", {len(answer.refused)} that it cannot" if answer.refused else ""
    yield Text(
        clean(f"{answer.pipeline}: {answer.candidates} candidates that the log can answer for{refused}")
    )
    for candidate in answer.refused[:1]:
        changes = ", ".join(candidate.changes)
        yield Text(clean(f"  the first of those: {changes}: {candidate.why}"))
    held = answer.held_out
    if not answer.changes:
        yield Text(f"no better than what ran: {answer.against}")
        return
    costs = f"{held.of} per solved task {_interval(held.would.cost)}, as it ran {_interval(held.ran.cost)}"
    yield Text(f"held out ({held.would.tasks} tasks): {costs}; gain {_interval(held.gain)} ×")
    yield Text(f"solved: {_interval(held.ran.solved)} as it ran → {_interval(held.would.solved)}")
    if held.gaps:
        yield Text(clean(f"{len(held.gaps)} held-out tasks are not in it, the first: {held.gaps[0]}"))
    if held.at_most:
        yield Text(f"of {held.at_most} of them the cost is an upper bound")
    if held.estimated:
        yield Text(f"of {held.estimated} of them the cost is an estimate")
    if not answer.better:
        yield Text(f"no better than what ran: {answer.against}")
    yield Text("to paste:" if answer.better else "the best on the tasks that chose:")
    pipelines = {answer.pipeline.partition("@")[0]: answer.proposal}
    yield from map(Text, yaml_lines({"pipelines": pipelines}, ""))


def yaml_lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A mapping as YAML: mappings below it a key a line, anything else on the line."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from yaml_lines(value, indent + "  ")
        else:
            yield f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"


def _interval(estimate: Estimate) -> str:
    """A figure and its interval."""
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _cells(side: ReplaySide) -> tuple[str, ...]:
    accepted = f"{side.statuses.get('accepted', 0)} of {side.tasks}"
    counts = map(str, (side.trials, side.accepted, side.passes))
    return (accepted, *counts, _interval(side.solved), _interval(side.cost))
