"""What a run leaves behind: the store of committed records, the run directory around it, and reading them."""

from draftverify.bench.records.directory import RunDirectory, RunRecords, load_run
from draftverify.bench.records.encoding import timeless
from draftverify.bench.records.entries import Entry, MonitorEntry, Question, StoredPrediction, Texts
from draftverify.bench.records.split import split_of
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
