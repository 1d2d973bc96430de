"""What a program did to its process that tests in the same one could see, and what the sandbox refused it.

Where tests and program are two processes a verdict holds only if nothing but values went from one to the other. So a
program that changed its surroundings, or was refused something that plain Python would have done, gets none. A program
that hides what it does here gains nothing: its values are judged by the tests' own process. Standard library only; this
file is also imported alone, by a small server process.
"""

from __future__ import annotations

import _locale  # noqa: PLC2701 - the module itself is a large one
import _thread  # noqa: PLC2701
import errno
import gc
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from types import FrameType, ModuleType
from typing import Any

_MUTABLE = 1 << 9  # the flag of a class whose attributes can be changed
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2)


class Surroundings:
    """The state of this process that tests could see, before a program is loaded.

    Args:
        modules: the names of those that the tests import: what they and their classes hold is looked at, and random
            numbers, decimal contexts and NumPy's settings where they are among them, if their name stands in the
            program's text.
        text: the program's.
    """

    def __init__(self, modules: Sequence[str] = (), text: str = "") -> None:
        packages = (name.partition(".")[0] for name in modules)
        names = [name for name in dict.fromkeys(("builtins", *packages, *modules)) if name in text]
        for name in names:
            with suppress(ImportError):
                importlib.import_module(name)
        names = [name for name in names if name in sys.modules]
        holders: list[Any] = [sys.modules[name] for name in names]
        for name, value in [item for module in holders for item in vars(module).items()]:
            if isinstance(value, type) and value.__flags__ & _MUTABLE and name in text:
                holders.append(value)
        self._holders = [(holder, dict(vars(holder))) for holder in holders]
        self._more = [(*_MORE[name], _MORE[name][1]()) for name in names if name in _MORE]
        self._settings = _settings()

    def changed(self) -> str:
        """What the program changed; "" when nothing."""
        for holder, before in self._holders:
            now = vars(holder)
            if now != before:
                for name in {**before, **now}:
                    # A part that is imported becomes an attribute of its package; Python adds to classes what it needs.
                    is_pythons = isinstance(now.get(name), ModuleType) or (
                        name not in before and name.startswith("__") and isinstance(holder, type)
                    )
                    if before.get(name) is not now.get(name) and not is_pythons:
                        return f"{holder.__name__}.{name}"
        for name, setting, value in self._more:
            if setting() != value:
                return name
        settings = _settings()
        return next((name for name, value in self._settings.items() if settings[name] != value), "")


def _settings() -> dict[str, Any]:
    return {
        "the working directory": os.stat(".")[1:3],  # its path may be longer than anybody wants to wait for
        "the number of threads": _thread._count(),
        "the recursion limit": sys.getrecursionlimit(),
        "the limit of digits": getattr(sys, "get_int_max_str_digits", int)(),
        "the trace function": (sys.gettrace(), sys.getprofile()),
        "the processes that it started": _has_child(),
        "the garbage collector's setting": gc.isenabled(),
        "the environment": dict(os.environ._data),  # type: ignore[attr-defined]
        "the warnings' filters": list(warnings.filters),
        "the locale": _locale.setlocale(_locale.LC_ALL),
        "a signal's handler": [signal.getsignal(number) for number in SIGNALS],
        "the alarm": signal.getitimer(signal.ITIMER_REAL),
    }


def _is_new_socket(frame: FrameType) -> bool:
    """Whether a call makes one; a socket of a pair has its descriptor already."""
    return frame.f_locals.get("fileno") is None


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: what a package asks for then it may do without."""
    while frame is not None and frame.f_code.co_name != "_find_and_load":
        frame = frame.f_back
    return frame is not None


def _has_child() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _decimals() -> Any:
    context = sys.modules["decimal"].getcontext()
    bounds = context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp
    return *bounds, dict(context.traps)


def _numpy() -> Any:
    numpy = sys.modules["numpy"]
    _, numbers, *place = numpy.random.get_state()
    return numbers.tobytes(), place, numpy.geterr(), numpy.get_printoptions()


_MORE: dict[str, tuple[str, Callable[[], Any]]] = {
    "random": ("the random numbers", lambda: sys.modules["random"].getstate()),
    "decimal": ("the decimal context", _decimals),
    "numpy": ("NumPy's settings", _numpy),
}

_READING = ("open", "os.listdir", "os.scandir")
_WRITING = (
    "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
)  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ERRORS = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS)


class Refusals:
    """Sees what this process is refused, as far as Python's audit events or an exception tell.

    Args:
        readable, writable: the places that are open to it.
        absent: the modules that are hidden, or widely used and not installed.
        sockets: whether it may have sockets.

    Attributes:
        calls: what was refused, in words.
    """

    def __init__(
        self, readable: Sequence[str], writable: Sequence[str], absent: Sequence[str], sockets: bool
    ) -> None:
        self.calls: list[str] = []
        self._writable = tuple(f"{place.rstrip('/')}/" for place in writable)
        self._readable = (*self._writable, *(f"{place.rstrip('/')}/" for place in readable))
        self._absent = frozenset(absent)
        self._sockets = sockets

    def watch(self) -> None:
        """Begin; it does not end."""
        sys.addaudithook(self._hear)

    def note(self, error: BaseException) -> None:
        """An exception that the program did not catch."""
        if isinstance(error, OSError) and error.errno in _ERRORS:
            place = "" if error.filename is None else f" {error.filename!r:.80}"
            self.calls.append(f"{error.strerror}{place}")
        elif isinstance(error, ModuleNotFoundError) and error.name in self._absent:
            self.calls.append(f"import {error.name}")
        elif isinstance(error, RuntimeError) and "can't start new thread" in error.args:
            self.calls.append("a thread, for its limits of threads and memory")

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        refused = ""
        if event == "import":
            name = str(arguments[0])
            if name in self._absent and PathFinder.find_spec(name) is None:
                refused = f"import {name}"
        elif event in _READING or event in _WRITING:
            writes = event in _WRITING or (event == "open" and bool((arguments[2] or 0) & _WRITES))
            if not self._open_to(arguments[0], self._writable if writes else self._readable):
                refused = f"{event}({arguments[0]!r:.80})"
        elif event == "socket.__new__" and not self._sockets and _is_new_socket(sys._getframe(1)):
            refused = "socket.socket()"
        if refused and not _is_importing(sys._getframe(1)):
            self.calls.append(refused)

    def _open_to(self, path: Any, places: tuple[str, ...]) -> bool:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if type(path) is not str or path[:1] != "/":
            return True  # a descriptor, or most likely inside the scratch directory
        return f"{os.path.normpath(path)}/".startswith(places)
