"""How far long work has come: a bar on stderr where that is a terminal, a line in the log where it is not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

log = logging.getLogger("draftverify.retrieval")


@contextmanager
def progress(message: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show work on `total` things.

    Args:
        message: what is done, as "splitting documents of docs".
        total: of how many; with 0 nothing is shown.

    Yields:
        A function to call with how many more are done.
    """
    if not total:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        start = perf_counter()
        yield lambda done: None
        log.info("%s: %d in %.1f s", message, total, perf_counter() - start)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        bar = bars.add_task(message, total=total)
        yield lambda done: bars.advance(bar, done)
