"""Replies that were bought: a file of a server's answers, so that the same request is not paid for twice."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from draftverify import ResourceError

FILE = "replies.sqlite"

_log = logging.getLogger(__name__)
_under_way: dict[tuple[Path, str, int], Future[None]] = {}
_lock = threading.Lock()


class BoughtReply(NamedTuple):
    """A reply, and for how many answers was asked."""

    n: int
    reply: bytes


class BoughtReplies:
    """Replies by what was asked, in a SQLite file; each is written before it is used.

    Several threads and processes may share a directory. What stands there is as private as the answers are: it holds
    the replies, and of the requests a hash. Once open, a file that fails loses no answer: it is as if nothing had been
    bought, with a warning.

    Args:
        directory: made where it is not there.
        writes: False where the file is only read; then it must be there.

    Raises:
        ResourceError: it cannot be used, or holds another file of that name.
    """

    def __init__(self, directory: Path, *, writes: bool = True) -> None:
        self.path = (Path(directory) / FILE).resolve()
        self._lock = threading.Lock()
        try:
            if writes:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path.as_uri() + ("" if writes else "?mode=ro"),
                uri=True,
                timeout=60,
                check_same_thread=False,
                isolation_level=None,
            )
            if writes:
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS replies"
                    " (key TEXT NOT NULL, n INTEGER NOT NULL, reply BLOB NOT NULL, PRIMARY KEY (key, n))"
                )
            self._connection.execute("SELECT key, n, reply FROM replies LIMIT 0")
        except (OSError, sqlite3.Error) as error:
            raise ResourceError(f"no replies can be kept in {self.path}: {error}") from error

    def find(self, key: str, n: int) -> BoughtReply | None:
        """The reply to a request for so many answers, or the shortest to the same request for more."""
        query = "SELECT n, reply FROM replies WHERE key = ? AND n >= ? ORDER BY n LIMIT 1"
        try:
            with self._lock:
                row = self._connection.execute(query, (key, n)).fetchone()
        except sqlite3.Error as error:
            _log.warning("no reply is taken from %s, which cannot be read: %s", self.path, error)
            return None
        return BoughtReply(*row) if row is not None and isinstance(row[1], bytes) else None

    def keep(self, key: str, n: int, reply: bytes) -> None:
        """Write a reply down, in place of one to the same request."""
        try:
            with self._lock:
                self._connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, n, reply))
        except sqlite3.Error as error:
            _log.warning("a reply was not kept in %s: %s", self.path, error)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class SingleFlight:
    """A request while it is under way, so that an equal one of this process waits for its reply.

    Args:
        bought: where its reply is kept; None: nowhere, and nothing waits.
        request: all that the reply depends on, but for `n`.
        n: how many answers are asked for.
    """

    def __init__(self, bought: BoughtReplies | None, request: Mapping[str, Any], n: int) -> None:
        self.other: Future[None] | None = None
        """The equal request that was under way before this one; it ends once that one has its reply, or failed."""
        self._bought = bought
        self._key = "" if bought is None else _key(request)
        self._n = n
        self._mine: Future[None] | None = None

    def __enter__(self) -> SingleFlight:
        if self._bought is not None:
            mine = Future[None]()
            mine.set_running_or_notify_cancel()  # who waits cannot cancel it
            with _lock:
                other = _under_way.setdefault((self._bought.path, self._key, self._n), mine)
            self._mine, self.other = (mine, None) if other is mine else (None, other)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bought is not None and self._mine is not None:
            with _lock:
                del _under_way[self._bought.path, self._key, self._n]
            self._mine.set_result(None)

    def kept(self) -> BoughtReply | None:
        """The reply, if it was bought."""
        return None if self._bought is None else self._bought.find(self._key, self._n)

    def keep(self, reply: bytes) -> None:
        """Write the reply down."""
        if self._bought is not None:
            self._bought.keep(self._key, self._n, reply)


def _key(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
