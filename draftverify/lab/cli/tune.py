"""`draftverify tune RUN`: the rule, block and policy that would have solved the recorded tasks at the least cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.tables.words import clean
from draftverify.lab.cli.replay import interval, replays

if TYPE_CHECKING:
    from draftverify.lab.recording import Recording
    from draftverify.lab.tune import Tuned

__all__ = ["tune", "yaml_lines"]


@click.command()
@click.option(
    "--space", type=click.Path(exists=True, dir_okay=False), help="A YAML file: for each path its values."
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="The share of tasks that choose; the others measure.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the split.")
@replays
def tune(recording: Recording, space: str | None, share: float, seed: int, as_json: bool) -> None:
    """Search rules, thresholds, blocks, policies and orders of stages that RUN can answer for, by cost per solved task.

    One half of the tasks chooses. The gain is that on the other half, and the YAML to paste comes with it.
    """
    from draftverify.lab.tune import read_space
    from draftverify.lab.tune import tune as search

    found = search(recording, None if space is None else read_space(space), share=share, seed=seed)
    if as_json:
        click.echo(json.dumps(found.plain(), indent=2, allow_nan=False))
        return
    console = Console(highlight=False)
    for line in _shown(found):
        console.print(line, soft_wrap=True)


def _shown(found: Tuned) -> Iterator[Text]:
    refused = f", {len(found.refused)} that it cannot" if found.refused else ""
    yield Text(clean(f"{found.pipeline}: {found.candidates} candidates that the log can answer for{refused}"))
    if found.refused:
        first = found.refused[0]
        yield Text(clean(f"  the first of those: {', '.join(first.changes)}: {first.why}"))
    held = found.held_out
    if not found.changes:
        yield Text(f"no better than what ran: {found.against}")
        return
    yield Text(
        f"held out ({held.would.tasks} tasks): {held.of} per solved task {interval(held.would.cost)}, as it ran "
        f"{interval(held.ran.cost)}; gain {interval(held.gain)} ×"
    )
    yield Text(f"solved: {interval(held.ran.solved)} as it ran → {interval(held.would.solved)}")
    if held.gaps:
        yield Text(clean(f"{len(held.gaps)} held-out tasks are not in it, the first: {held.gaps[0]}"))
    if held.at_most:
        yield Text(f"of {held.at_most} of them the cost is an upper bound")
    if held.estimated:
        yield Text(f"of {held.estimated} of them the cost is an estimate")
    if not found.better:
        yield Text(f"no better than what ran: {found.against}")
    yield Text("the best on the tasks that chose:" if not found.better else "to paste:")
    yield from map(Text, yaml_lines({"pipelines": {found.pipeline.partition("@")[0]: found.proposal}}, ""))


def yaml_lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A mapping as YAML: mappings below it a key a line, anything else on the line."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from yaml_lines(value, indent + "  ")
        else:
            yield f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"
