"""What earlier tasks of a run taught, for workers anywhere on this machine: files that only grow, a record a line.

The driver's process appends each record once; a worker is told how far it may read, and reads each line once. So memory
costs a task the same whether it is the run's second or its hundred-thousandth.
"""

from __future__ import annotations

import tempfile
import threading
from typing import IO, Any

import msgspec

from draftverify.bench.records.encoding import decode, encode
from draftverify.errors import ConfigError
from draftverify.frozen import freeze
from draftverify.values import Memory, TaskRecord, Trail


class Recall(msgspec.Struct, frozen=True):
    """A snapshot: the first `size` bytes of the file at `path`, and its version."""

    path: str
    size: int
    version: int


class Recollection:
    """The driver's end of memory: a file for each pipeline. They go when the run ends, since the store has their
    records."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="draftverify-memory-")
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Recollection:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        self._folder.cleanup()

    def forget(self) -> None:
        """Forget all records: each phase begins anew."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def add(self, pipeline: str, record: TaskRecord) -> None:
        """Append one record."""
        line = encode(record, f"pipeline {pipeline!r}, task {record.task!r}")
        self._file(pipeline).write(line.encode() + b"\n")

    def of(self, pipeline: str, epoch: int) -> Recall | None:
        """The snapshot as it is now; None before the first epoch ended."""
        if not epoch:
            return None
        file = self._file(pipeline)
        file.flush()
        return Recall(file.name, file.tell(), epoch)

    def _file(self, pipeline: str) -> IO[bytes]:
        file: Any = self._files.get(pipeline)
        if file is None:
            file = tempfile.NamedTemporaryFile(suffix=".jsonl", dir=self._folder.name, delete=False)  # noqa: SIM115
            self._files[pipeline] = file
        return file  # type: ignore[no-any-return]


class Memories:
    """A worker's end of memory: the records that it was told of, each line read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Trail, dict[int, int]]] = {}
        self._lock = threading.Lock()

    def recall(self, recall: Recall | None) -> Memory:
        """The snapshot's records.

        Raises:
            ConfigError: the driver's file is not here.
        """
        if recall is None:
            return Memory()
        with self._lock:
            trail, lengths = self._read.get(recall.path, (Trail.of(()), {0: 0}))
            if recall.size not in lengths:
                begin = next(reversed(lengths))  # the farthest, since snapshots only grow
                try:
                    with open(recall.path, "rb") as file:
                        file.seek(begin)
                        lines = file.read(recall.size - begin).splitlines()
                except FileNotFoundError as error:
                    raise ConfigError(
                        f"{recall.path}: what earlier tasks taught is not on this machine; set TMPDIR of the driver to "
                        "a folder that all machines share, or leave out memory",
                        path="memory",
                    ) from error
                trail = trail.then([freeze(decode(line, TaskRecord, recall.path)) for line in lines])
                lengths[recall.size] = len(trail)
                self._read[recall.path] = trail, lengths
            return Memory(recall.version, Trail(trail.entries, lengths[recall.size]))
