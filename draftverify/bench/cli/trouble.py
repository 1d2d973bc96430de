"""What went wrong in a run, printed below its tables."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

from rich.console import Console
from rich.text import Text

from draftverify.bench.cli.screen import print_lines
from draftverify.bench.records.directory import RunRecords
from draftverify.bench.tables.listing import trouble
from draftverify.bench.tables.task_rows import RunFrame
from draftverify.values import EMPTY


def what_went_wrong(
    console: Console, records: RunRecords, run: str, places: Mapping[str, str] = EMPTY
) -> None:
    """Print which tasks ended without a right answer, and how many wait for a person.

    Args:
        console: where to.
        records, run: the run and its directory.
        places: "file:line" of pipelines in the config, where that is at hand.
    """
    lines = [*trouble(records.store.endings(), RunFrame.of(records), run, places)]
    waiting = len(records.store.questions("pending"))
    if waiting:
        text = f"{waiting} wait{'s' * (waiting == 1)} for a person: draftverify view {quote(run)} --review"
        lines.append(Text(text, style="yellow"))
    print_lines(console, lines)
