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

SHOWN = 6
"""Kinds of gaps that the terminal shows; --json has every gap."""


@click.command()
@options.run
@options.repeated("--set", "changes", "A.B=C", "What to change in the pipeline")
@options.optional_file(
    "--tune", "space", "Search for the best change; FILE is YAML: for each path its values."
)
@options.repeated(
    "--at-least", "bounds", "NAME=SHARE", "With --tune: what it keeps, as right=.9 or precision=.9"
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
    bounds: tuple[str, ...],
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

    --tune searches rules, thresholds, blocks, policies and orders of stages by cost per solved task; --at-least those
    that keep a share of the metric or of precision. One half of the tasks chooses. Gain and shares are those on the
    other half, and the YAML to paste comes with it.
    """
    from draftverify.lab.recording import Recording
    from draftverify.lab.tune import read_space, tune

    if space is not None and changes:
        raise click.UsageError("--tune chooses what to change; leave out --set")
    if space is None and bounds:
        raise click.UsageError("--at-least bounds what --tune chooses; add --tune")
    at_least = dict(map(_bound, bounds))
    with load_run(run, url=store) as records:
        recording = Recording(records, pipeline, of="seconds" if seconds else None, **source)
    answer: Expected | Tuned | WhatIf
    lines: Iterator[Text | Table]
    with recording:
        if space is not None:
            answer = tune(recording, None if space == options.ALONE else read_space(space), at_least=at_least)
            lines = _tuned(answer)
        elif (expected := recording.expected(changes)) is not None:
            answer, lines = expected, _expected(expected)
        else:
            answer = recording.what_if(changes)
            lines = _what_if(answer)
        if as_json:
            print_json(_figures(answer))
            return
        console = wide_console()
        for line in lines:
            console.print(line, soft_wrap=space is not None)


def _figures(answer: Expected | Tuned | WhatIf) -> dict[str, Any]:
    """The answer's fields but for the tasks' own replays."""
    fields = {name: getattr(answer, name) for name in answer.__struct_fields__ if name != "replayed"}
    if "held_out" in fields:
        halves = {half: _figures(fields[half]) for half in ("chosen", "held_out")}
        fields |= halves | {"better": not fields["against"]}
    return fields


def _what_if(answer: WhatIf) -> Iterator[Text | Table]:
    """What the log says, for a rich console."""
    answered = len(answer.replayed) - len(answer.gaps)
    yield Text(clean(f"{answer.pipeline}: {', '.join(answer.changes) or 'nothing set'}"))
    yield Text(f"answered {answered} of {len(answer.replayed)} tasks from the records")
    if answered > answer.unscored:
        table = new_table(
            "", ">accepted tasks", ">checked items", ">accepted", ">passes", ">solved", ">precision",
            f">{answer.of}/solved",
        )  # fmt: skip
        table.add_row("ran", *_cells(answer.ran))
        table.add_row("would have", *_cells(answer.would))
        yield table
        unit = f"{answer.of} per solved task, as it ran over as it would have been"
        yield Text(f"gain {_interval(answer.gain)} × ({unit})")
    yield from _bounds(answer)
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


def _bound(written: str) -> tuple[str, float]:
    """Raises: click.UsageError: it is not NAME=SHARE."""
    name, _, share = written.partition("=")
    try:
        return name.strip(), float(share)
    except ValueError as error:
        raise click.UsageError(f"--at-least {written}: write NAME=SHARE, as right=.9") from error


def _bounds(answer: WhatIf) -> Iterator[Text]:
    """Where the log does not know every task: what they could have come to, whatever these were."""
    worst, best = answer.at_worst, answer.at_best
    if worst.tasks > answer.would.tasks:
        solved, precision = (
            f"{low.value:.3g} to {high.value:.3g} [{low.low:.3g}, {high.high:.3g}]"
            for low, high in ((worst.solved, best.solved), (worst.precision, best.precision))
        )
        yield Text(f"of all {worst.tasks} tasks, what the log lacks as wrong or as right: solved {solved}")
        yield Text(f"  precision {precision}; as it ran solved {_interval(answer.whole.solved)}")


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
    gapped = f"; of {answer.gapped} the log lacks tasks, which count against them" if answer.gapped else ""
    yield Text(clean(f"{answer.pipeline}: {answer.candidates} candidates{gapped}"))
    for candidate in answer.refused[:1]:
        changes = ", ".join(candidate.changes)
        yield Text(clean(f"  {len(answer.refused)} others are none, the first: {changes}: {candidate.why}"))
    held = answer.held_out
    if not answer.changes:
        yield Text(f"no better than what ran: {answer.against}")
        return
    costs = f"{held.of} per solved task {_interval(held.would.cost)}, as it ran {_interval(held.ran.cost)}"
    yield Text(f"held out ({held.would.tasks} tasks): {costs}; gain {_interval(held.gain)} ×")
    for name in ("solved", "precision"):
        ran, would = (_interval(getattr(side, name)) for side in (held.ran, held.would))
        yield Text(f"{name}: {ran} as it ran → {would}")
    if held.gaps:
        yield Text(clean(f"{len(held.gaps)} held-out tasks are not in it, the first: {held.gaps[0]}"))
        yield from _bounds(held)
    if held.at_most:
        yield Text(f"of {held.at_most} of them the cost is an upper bound")
    if held.estimated:
        yield Text(f"of {held.estimated} of them the cost is an estimate")
    if not answer.better:
        yield Text(clean(f"no better than what ran: {answer.against}"))
    elif answer.at_least:
        kept = ", ".join(f"{name} is at least {share:g}" for name, share in answer.at_least.items())
        yield Text(
            clean(f"on the held-out tasks too {kept}, by the whole interval (wrongly said in 2.5 % at most)")
        )
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
    return (accepted, *counts, *map(_interval, (side.solved, side.precision, side.cost)))
