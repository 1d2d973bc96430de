"""Parts that several others open and the last of them closes: a corpus, weights, a file of samples."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from draftverify.protocols import Closes, Opens
from draftverify.traits import offers

T = TypeVar("T")


class Shared(ABC, Generic[T]):
    """A part with something that is made when it is first needed, and let go when everybody who opened it closed it."""

    def __init__(self) -> None:
        self.__post_init__()

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._users = 0
        self._made: T | None = None
        self._closing: ExitStack | None = None

    @abstractmethod
    def _make(self) -> T:
        """Make what the part holds while it is open; never None."""

    def _members(self) -> Iterable[Any]:
        """The parts that it stands on: those that can be opened are, before, and closed after."""
        return ()

    def open(self) -> None:
        """Make it, if it is not there, and count one more user."""
        with self._lock:
            self._get()
            self._users += 1

    def close(self) -> None:
        """Count one user less, and let it go when there is none; the next use makes it again."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users and self._closing is not None:
                self._made = None
                self._closing.close()
                self._closing = None

    def _get(self) -> T:
        """It; made here where nobody opened it."""
        held = self._made
        if held is None:
            with self._lock:
                if self._made is None:
                    with ExitStack() as opened:
                        for member in self._members():
                            if offers(member, Opens):
                                member.open()
                            if offers(member, Closes):
                                opened.callback(member.close)
                        self._made = self._make()
                        self._closing = opened.pop_all()
                held = self._made
        return held
