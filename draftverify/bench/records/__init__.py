"""What a run leaves behind: the store of committed records, the run directory around it, and reading them.

What needs the database is imported when it is first used: workers write nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from draftverify.bench.records.encoding import timeless
from draftverify.bench.records.entries import Entry, MonitorEntry, Question, StoredPrediction, Texts
from draftverify.bench.records.split import split_of

if TYPE_CHECKING:
    from draftverify.bench.records.directory import RunDirectory, RunRecords, load_run
    from draftverify.bench.records.store import Store

__all__ = [
    "Entry",
    "StoredPrediction",
    "Question",
    "RunDirectory",
    "RunRecords",
    "Store",
    "Texts",
    "MonitorEntry",
    "load_run",
    "split_of",
    "timeless",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'store' if name == 'Store' else 'directory'}"), name)
