"""The index directory: all of a change or nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import draftverify_retrieval.index as index_module
from draftverify import ResourceError
from draftverify_retrieval.index import (
    DIGEST,
    DamagedIndexError,
    IndexDirectory,
    digest_of,
    rows_before,
    runs_of,
)

OLD = {"one": ({"is": "old"}, b"old one"), "two": ({}, b"old two")}
NEW = {"one": ({"is": "new"}, b"new one, longer"), "three": ({}, b"new three")}


class Crash(BaseException):
    """What no code catches, as a process that ends catches nothing."""


def contents(directory: IndexDirectory) -> dict[str, bytes]:
    """The bytes of every part that there is."""
    directory.check()
    found = {name: directory.load(name) for name in ("one", "two", "three")}
    return {name: part[1] for name, part in found.items() if part is not None}


def made(path: Path) -> IndexDirectory:
    directory = IndexDirectory(path)
    with directory.locked():
        directory.commit(OLD)
    return directory


def test_parts_are_read_as_they_were_written(tmp_path):
    """A change leaves the other parts, and the files of what was replaced are removed."""
    directory = made(tmp_path / "index")
    with directory.locked():
        directory.commit(NEW)
    assert directory.load("one") == ({"is": "new"}, b"new one, longer")
    assert directory.load("nothing") is None
    assert contents(directory) == {"one": b"new one, longer", "two": b"old two", "three": b"new three"}
    assert len(list((tmp_path / "index").glob("*.part"))) == 3


def steps(monkeypatch, limit: int) -> None:
    """Let the process end before its step number `limit` that changes the disk."""
    left = [limit]

    def counted(inner):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return inner(*arguments, **named)

        return call

    class File:
        def __init__(self, path, mode):
            self.inner = open(path, mode)  # noqa: SIM115 - closed in __exit__

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.inner.close()

        def write(self, content):
            half = len(content) // 2
            self.inner.write(content[:half])
            self.inner.flush()
            counted(self.inner.write)(content[half:])

        flush = property(lambda self: self.inner.flush)
        fileno = property(lambda self: self.inner.fileno)

    monkeypatch.setattr(index_module, "open", counted(File), raising=False)
    monkeypatch.setattr(os, "replace", counted(os.replace))
    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))


def test_a_crash_at_any_step_leaves_the_old_parts_or_the_new(tmp_path, monkeypatch):
    """Files half written too; and the next change goes through."""
    after = {"one": b"new one, longer", "two": b"old two", "three": b"new three"}
    seen = []
    for limit in range(100):
        directory = made(tmp_path / str(limit))
        with monkeypatch.context() as patched, directory.locked():
            steps(patched, limit)
            try:
                directory.commit(NEW)
                ended = True
            except Crash:
                ended = False
        found = contents(IndexDirectory(tmp_path / str(limit)))
        assert found in ({"one": b"old one", "two": b"old two"}, after)
        seen.append(found)
        with directory.locked():
            directory.commit(NEW)
        assert contents(directory) == after
        assert len(list((tmp_path / str(limit)).glob("*.part"))) == 3
        if ended:
            break
    assert ended
    assert limit > 8
    assert seen[0] != seen[-1]


def test_a_killed_process_leaves_a_whole_index(tmp_path):
    """A process that writes one generation after the other is killed with no warning."""
    code = (
        "import sys; from pathlib import Path; from draftverify_retrieval.index import IndexDirectory\n"
        "directory = IndexDirectory(Path(sys.argv[1]))\n"
        "for n in range(10**6):\n"
        "    with directory.locked():\n"
        "        directory.commit({name: ({'n': n}, f'{name} {n} '.encode() * 1000) for name in ('a', 'b')})\n"
        "    print(n, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "index")], stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    directory = IndexDirectory(tmp_path / "index")
    with directory.locked():  # a dead process holds no lock
        directory.check()
    found = [directory.load(name) for name in ("a", "b")]
    assert None not in found
    assert found[0][0] == found[1][0]
    assert found[0][0]["n"] >= 4


@pytest.mark.parametrize("name", ["one", "two"])
def test_each_part_is_checked(tmp_path, name):
    """A part that is longer than what was written is damaged too."""
    directory = made(tmp_path / "index")
    (path,) = directory.path.glob(f"{name}.*.part")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DamagedIndexError, match=r"8 bytes; 7 were written"):
        directory.check()


def test_a_full_disk_is_an_error_that_names_the_directory(tmp_path, monkeypatch):
    """And the old parts stay."""
    directory = made(tmp_path / "index")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with directory.locked(), pytest.raises(ResourceError, match=r"index.*No space left"):
        directory.commit(NEW)
    monkeypatch.undo()
    assert contents(directory) == {"one": b"old one", "two": b"old two"}


def test_rows_before():
    """Where each row stood; new ones stood nowhere, and a second one that says the same is new."""
    a, b, c = (digest_of(each) for each in "abc")
    assert len(a) == DIGEST
    assert rows_before(a + b, c + b + a + a).tolist() == [-1, 1, 0, -1]
    assert rows_before(a + b + a + c, a + c + a).tolist() == [0, 3, 2]
    assert list(runs_of(np.array([-1, -1, 0, 1, 3, -1]))) == [(0, 2, -1), (2, 4, 0), (4, 5, 3), (5, 6, -1)]
    assert rows_before(b"", a).tolist() == [-1]
    assert rows_before(a, b"").tolist() == []
