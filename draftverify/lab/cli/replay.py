"""`draftverify replay RUN --set rule=…`: what the log says of another rule, block or policy."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from draftverify.bench.records import load_run
from draftverify.bench.tables.words import clean
from draftverify.lab.replay.asked import DraftsFrom

if TYPE_CHECKING:
    from draftverify.lab.recording import Expected, Recording, Side, WhatIf
    from draftverify.stats import Estimate

__all__ = ["interval", "replay", "replays", "shown"]

SHOWN = 6
"""Kinds of gaps that the terminal shows; --json has every gap."""


def replays(command: Callable[..., None]) -> Callable[..., None]:
    """The argument and the options of commands that replay a run; the command is given `recording` and `as_json`."""

    @functools.wraps(command)
    def opened(
        run: str,
        pipeline: str | None,
        drafts_from: DraftsFrom | None,
        config: str | None,
        units: bool,
        store: str | None,
        **own: Any,
    ) -> None:
        from draftverify.lab.recording import Recording

        with load_run(run, url=store) as records:
            recording = Recording(
                records, pipeline, config=config, drafts_from=drafts_from, of="units" if units else "seconds"
            )
        with recording:
            command(recording=recording, **own)

    made: Callable[..., None] = opened
    for option in reversed(
        (
            click.argument("run", type=click.Path(file_okay=False)),
            click.option("--pipeline", metavar="NAME", help="Of a run of several, which one."),
            click.option(
                "--drafts-from",
                type=click.Choice(get_args(DraftsFrom)),
                help="What drafts depend on, of generators that do not say (docs/replay.md).",
            ),
            click.option(
                "--config",
                type=click.Path(exists=True, dir_okay=False),
                help="The config that the run was made from, where it has moved.",
            ),
            click.option("--units", is_flag=True, help="Count costs in units rather than seconds."),
            click.option("--json", "as_json", is_flag=True, help="Write everything as JSON."),
            click.option(
                "--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given."
            ),
        )
    ):
        made = option(made)
    return made


@click.command()
@click.option(
    "--set", "changes", multiple=True, metavar="A.B=C", help="What to change in the pipeline; repeatable."
)
@replays
def replay(recording: Recording, changes: tuple[str, ...], as_json: bool) -> None:
    """Say from RUN's records what another rule, block size, policy, order of stages or budget would have come to.

    Nothing is drafted or verified again. What the log cannot answer is listed, with the task, the round and why. Of
    rules on distributions acceptance is estimated, where the run kept summaries of drafted tokens.
    """
    expected = recording.expected(changes)
    if expected is not None:
        plain, lines = expected.plain, _expected(expected)
    else:
        found = recording.what_if(changes)
        plain, lines = found.plain, shown(found)
    if as_json:
        click.echo(json.dumps(plain(), indent=2, allow_nan=False))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    for line in lines:
        console.print(line)


def shown(found: WhatIf) -> Iterator[Text | Table]:
    """What the log says, for a rich console."""
    answered = len(found.replayed) - len(found.gaps)
    yield Text(clean(f"{found.pipeline}: {', '.join(found.changes) or 'nothing set'}"))
    yield Text(f"answered {answered} of {len(found.replayed)} tasks from the records")
    if answered > found.unscored:
        table = Table(box=None, pad_edge=False)
        for heading in (
            "",
            "accepted tasks",
            "checked items",
            "accepted",
            "passes",
            "solved",
            f"{found.of}/solved",
        ):
            table.add_column(heading, justify="left" if not heading else "right")
        table.add_row("ran", *_cells(found.ran))
        table.add_row("would have", *_cells(found.would))
        yield table
        yield Text(
            f"gain {interval(found.gain)} × ({found.of} per solved task, as it ran over as it would have been)"
        )
    if found.at_most:
        yield Text(f"of {found.at_most} tasks the cost is an upper bound: no block of that size was timed")
    if found.estimated:
        yield Text(
            f"of {found.estimated} tasks the cost is an estimate: stages were given other items than in the run"
        )
    if found.unscored:
        why = f" ({found.why_unscored})" if found.why_unscored else ""
        yield Text(
            clean(
                f"{found.unscored} tasks are in no figure: the metric has no say on one of their outcomes{why}"
            )
        )
    kinds = Counter(gap.why for gap in found.gaps)
    for why, count in kinds.most_common(SHOWN):
        first = next(gap for gap in found.gaps if gap.why == why)
        more = f" (and {count - 1} more tasks)" if count > 1 else ""
        yield Text(clean(f"not in the log: {first}{more}"))
    if len(kinds) > SHOWN:
        yield Text(f"… and {len(kinds) - SHOWN} other gaps in --json")


def _expected(found: Expected) -> Iterator[Text | Table]:
    """What is expected of a rule on distributions."""
    yield Text(clean(f"{found.pipeline}: {', '.join(found.changes)}"))
    yield Text("acceptance at the recorded contexts, an estimate; what tasks would have come to takes a run")
    table = Table(box=None, pad_edge=False)
    for heading in ("block", "blocks", "kept", "would be kept", "acceptance", "would be"):
        table.add_column(heading, justify="right")
    for each in found.blocks:
        figures = (each.ran_kept, each.would_keep, each.ran_rate, each.would_accept)
        table.add_row(str(each.size), str(each.blocks), *map(interval, figures))
    yield table


def interval(estimate: Estimate) -> str:
    """A figure and its interval."""
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _cells(side: Side) -> tuple[str, ...]:
    return (
        f"{side.statuses.get('accepted', 0)} of {side.tasks}",
        str(side.trials),
        str(side.accepted),
        str(side.passes),
        interval(side.solved),
        interval(side.cost),
    )
