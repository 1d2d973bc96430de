"""What a candidate's process does: take a program, run it, answer calls of its functions, until the channel is closed.

`serve` is called in a freshly forked process that is already confined. Everything here shares that process with the
program, which may do to it what it likes; the judge at the other end trusts no answer further than it is a value.
Standard library only.

The channel is a stream socket. A frame is 4 bytes of length, big-endian, and a value in the form of `codec`; none is
longer than `codec.FRAME`. One request, one answer; the answer to the n-th request says n, from 0. Requests:

- `["load", program, names, lines]`: execute the program, and say what the names are; `lines`: trace from here on.
- `["call", name, args, kwargs]`: call a function of the program.

Answers:

- `[n, "value", value, changes, lines, output]`: what the call returned. For "load" the value is a list with
  `[name, kind, value]` of each name; the kind is "function", "class", "exception" (a class of these: the value is the
  name of the nearest built-in one), "value", "module" (the value is its name), or "missing".
- `[n, "raised", type, name, args, message, line, changes, lines, output]`: the nearest built-in type of the exception,
  the name of its own type (or of the first of its bases that the load named), its arguments (a tuple) and text, and
  the last line of the program on its way (0: none).
- `[n, "syntax", …]`, with the same fields: the program does not parse.
- `[n, "refused", why]`: the request could not be read here, or the answer is too large.

`changes` is what the call changed in its arguments, in place (`codec.changes`), or None; values in an answer may refer
to containers of the request. `lines` are the program's lines that ran; `output` is the beginning of what was printed.
"""

from __future__ import annotations

import builtins
import io
import linecache
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
else:
    import codec

__all__ = ["FILE", "MODULE", "rehearse", "serve"]

FILE = "<program>"
"""The program's file name in tracebacks."""
MODULE = "__candidate__"
"""Its module's name."""

KEPT = 1 << 16  # bytes of a request's output
MESSAGE = 1000  # characters of an exception's text


def serve(channel: socket.socket, program: _Program | None = None) -> None:
    """Answer requests until the other end is closed, or breaks off inside a frame.

    Args:
        channel: a connected stream socket.
        program: what `rehearse` made, so that nothing need be made here.
    """
    # What the loop needs is bound before the program runs, so that one that patches a module by accident harms nobody.
    receive, send, head, limit = channel.recv, channel.sendall, codec.HEAD, codec.FRAME
    program = program or _Program()
    number = 0
    buffer = bytearray()
    while True:
        while len(buffer) < 4 or len(buffer) < (end := 4 + head.unpack_from(buffer)[0]):
            data = receive(1 << 16)
            if not data:
                return
            buffer += data
        answer = program.answer(number, bytes(buffer[4:end]))
        if len(answer) > limit:
            answer = codec.dumps([number, "refused", f"the answer is larger than {limit >> 20} MiB"])
        send(head.pack(len(answer)) + answer)
        del buffer[:end]
        number += 1


# What programs have in common; run once before any fork.
_COMMON = """
from typing import Dict, List, Optional, Tuple
import math

class Thing:
    def __init__(self, value):
        self.value = value

def f(items: List[float], bound: Optional[float] = None) -> Tuple[int, bool]:
    counts: Dict[str, int] = {}
    for index, item in enumerate(sorted(items)):
        counts[str(item)] = counts.get(str(item), 0) + 1
        if bound is not None and abs(item - bound) < 1e-6 and index % 2 == 0:
            return index, True
    try:
        return [Thing(each).value for each in range(3)][len(items)], False
    except IndexError:
        print(f"{math.floor(1.5)}", *(each * 2 for each in counts))
        raise ValueError("none")
"""


def rehearse() -> _Program:
    """Serve a program of no interest, in the process that candidates will be forked from.

    What Python allocates and fills in at the first use of anything is then there: a candidate copies fewer pages.

    Returns:
        For each of them, where it is: a place for its program.
    """
    stdout, argv = sys.stdout, sys.argv
    ours, theirs = socket.socketpair()
    with ours, theirs:
        calls = [["call", "f", [[1.0, 2.5]], {}], ["call", "f", [[3, 4, 5]], {"bound": 4}]]
        for request in [["load", _COMMON, ["f", "g"], False], *calls * 3]:
            data = codec.dumps(request)
            ours.sendall(codec.HEAD.pack(len(data)) + data)
        ours.shutdown(socket.SHUT_WR)
        serve(theirs)
    sys.stdout, sys.argv = stdout, argv
    del sys.modules[MODULE], linecache.cache[FILE]
    return _Program()


class _Program:
    def __init__(self) -> None:
        self.module = ModuleType(MODULE)
        self.names: frozenset[str] = frozenset()
        self.tracing = False
        self.lines: set[int] = set()
        self.output = _Output()

    def answer(self, number: int, request: bytes) -> bytes:
        """Do what is asked, and put the answer into words, whatever happens."""
        known = codec.Known()
        try:
            operation, *rest = codec.loads(request, known, numpy=True)
        except ValueError as error:
            return codec.dumps([number, "refused", str(error)])
        count = len(known.objects)
        before = codec.snapshot(known, 2)  # all but the request itself and its list of arguments
        try:
            try:
                value = self._load(*rest) if operation == "load" else self._call(*rest)
            finally:
                if self.tracing:
                    sys.settrace(None)
            answer = [number, "value", value, codec.changes(before), self._ran(), self.output.take()]
            return codec.dumps(answer, known)
        except BaseException as error:
            del known.objects[count:], known.extents[count:]
            try:
                return self._raised(number, error, before, known)
            except BaseException as another:  # of an exception that fights back, or still without memory
                name = b"MemoryError" if isinstance(another, MemoryError) else b"RuntimeError"
                return b'[%d,"raised","%b","%b",{"tuple":[]},"",0,null,[],""]' % (number, name, name)

    def _raised(self, number: int, error: BaseException, before: codec.Snapshot, known: codec.Known) -> bytes:
        if isinstance(error, _DoesNotParse):
            (error,) = error.args
            line = getattr(error, "lineno", None) or 0
            name = "SyntaxError"
            return codec.dumps(
                [number, "syntax", name, name, (), _message(error), line, None, self._ran(), ""]
            )
        line = _line(error)
        kinds = type(error).__mro__
        named = (
            k.__name__ for k in kinds if k.__name__ in self.names and vars(self.module).get(k.__name__) is k
        )
        names = codec.exception_name(type(error)), next(named, kinds[0].__name__)
        told = "raised", *names, tuple(error.args), _message(error), line
        ran, output = self._ran(), self.output.take()
        try:
            return codec.dumps([number, *told, codec.changes(before), ran, output], known)
        except Exception:
            return codec.dumps([number, "raised", *names, (), _message(error), line, None, ran, output])

    def _load(self, text: str, names: list[str], lines: bool) -> list[list[Any]]:
        _settle()
        self.names = frozenset(names)
        sys.stdout = self.output.stream
        sys.modules[MODULE] = self.module
        linecache.cache[FILE] = len(text), None, text.splitlines(True), FILE
        try:
            code = compile(text, FILE, "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise _DoesNotParse(error) from None
        self.tracing = lines
        if lines:
            sys.settrace(self._trace)
        exec(code, vars(self.module))
        if lines:
            sys.settrace(None)
        return [[name, *self._kind(name)] for name in names]

    def _kind(self, name: str) -> tuple[str, Any]:
        try:
            value = vars(self.module)[name]
        except KeyError:
            return "missing", None
        if isinstance(value, ModuleType):
            return "module", value.__name__
        if isinstance(value, type):
            return (
                ("exception", codec.exception_name(value))
                if issubclass(value, BaseException)
                else ("class", None)
            )
        return ("function", None) if callable(value) else ("value", value)

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.tracing:
            sys.settrace(self._trace)
        value = vars(self.module)[name](*args, **kwargs)
        # A generator runs now, so that its lines, its output and its exceptions are this call's.
        return codec.drawn(value) if hasattr(type(value), "__next__") else value

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return self._trace_line if frame.f_code.co_filename == FILE else None

    def _trace_line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line":
            self.lines.add(frame.f_lineno)
        return self._trace_line

    def _ran(self) -> list[int]:
        lines = sorted(self.lines)
        self.lines.clear()
        return lines


class _DoesNotParse(Exception):
    """Carries the compiler's exception."""


class _Output(io.RawIOBase):
    """What the program prints: the beginning of it, for each request."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.stream = io.TextIOWrapper(
            io.BufferedWriter(self), encoding="utf-8", errors="replace", newline="\n"
        )

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._kept += data[: max(KEPT - len(self._kept), 0)]
        return len(data)

    def take(self) -> str:
        with suppress(OSError, ValueError):  # the program closed it
            self.stream.flush()
        text = self._kept.decode(errors="replace")
        self._kept.clear()
        return text


def _settle() -> None:
    """Give the program what a script of its own finds, and the same random numbers each time."""
    sys.argv = [FILE]
    for name in ("exit", "quit"):
        if not hasattr(builtins, name):  # `site` defines them, and is not loaded here
            setattr(builtins, name, sys.exit)
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed(0)


def _line(error: BaseException) -> int:
    """The last line of the program on the exception's way; 0 when there is none."""
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _message(error: BaseException) -> str:
    try:
        return str(error)[:MESSAGE]
    except BaseException as another:
        return f"<its text cannot be had: {type(another).__name__}>"
