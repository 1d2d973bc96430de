"""What a candidate's process does: take a program, run it, answer calls of its functions, until the channel is closed.

`serve` is called in a freshly forked process that is already confined. Everything here shares that process with the
program, which may do to it what it likes; the judge at the other end trusts no answer further than it is a value.
Standard library only.

The channel is a stream socket. A frame is 4 bytes of length, big-endian, and a message; none is longer than
`codec.FRAME`. One request, one answer; the answer to the n-th request says n, from 0. Requests, as values of `codec`:

- `["load", program, names, None]`: execute the program, and say what the names are.
- `["call", function, args, kwargs, changed]`: call a function or a class that crossed before.
- `["draw", iterator, changed]`: the next item of one that crossed before.

`changed` is what the tests changed since of what the program kept (`codec.changes`). Answers:

- `[n, "value", value, changed, line, output]`: what came of it. For "load" the value is a list with
  `[name, value]` of each name that the program defines.
- `[n, "raised", exception, …]`, and `[n, "syntax", …]` where the program does not parse.
- `[n, "refused", why]`: something cannot cross; `[n, "failed", name]`: the program raised a built-in exception of that
  name, of which nothing more can be told. Nothing of the request is known then, as if it had not been.

`line` is the last line of the program on an exception's way (0: none);
`output` is the beginning of what was printed. Behind the answer, after a line's end, stand the numbers of all that the
program still holds of what crossed: the rest is forgotten at both ends.
"""

from __future__ import annotations

import builtins
import io
import json
import linecache
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
    from draftverify_code.sandbox.own import FILE, MODULE, ProgramWire
else:
    import codec
    from own import FILE, MODULE, ProgramWire

__all__ = ["rehearse", "serve"]

_MISSING = object()
KEPT = 1 << 16  # bytes of a request's output


def serve(channel: socket.socket, program: _LoadedProgram | None = None) -> None:
    """Answer requests until the other end is closed, or breaks off inside a frame.

    Args:
        channel: a connected stream socket.
        program: what `rehearse` made, so that nothing need be made here.
    """
    # What the loop needs is bound before the program runs, so that one that patches a module by accident harms nobody.
    receive, send, head = channel.recv, channel.sendall, codec.HEAD
    program = program or _LoadedProgram()
    number = 0
    buffer = bytearray()
    while True:
        while len(buffer) < 4 or len(buffer) < (end := 4 + head.unpack_from(buffer)[0]):
            data = receive(1 << 16)
            if not data:
                return
            buffer += data
        request = bytes(buffer[4:end])
        del buffer[:end]
        answer = program.answer(number, request)
        send(head.pack(len(answer)) + answer)
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


def rehearse() -> _LoadedProgram:
    """Load and call a program of no interest, in the process that candidates will be forked from.

    What Python allocates and fills in at the first use of anything is then there: a candidate copies fewer pages.

    Returns:
        For each of them, where it is: a place for its program.
    """
    stdout, argv = sys.stdout, sys.argv
    program = _LoadedProgram()
    program.answer(0, codec.Wire().dumps(["load", _COMMON, ["f", "g"], None]))
    function = next(number for number, value in program.wire.objects.items() if callable(value))
    for arguments in ('[[1.0,2.5]],{"dict":[]}', '[[3,4,5]],{"dict":["bound",4]}') * 3:
        program.answer(0, f'["call",{{"ref":{function}}},{arguments},null]'.encode())
    sys.stdout, sys.argv = stdout, argv
    del sys.modules[MODULE], linecache.cache[FILE]
    return _LoadedProgram()


class _LoadedProgram:
    def __init__(self) -> None:
        self.module = ModuleType(MODULE)
        self.module.__file__ = "program.py"
        self.wire = ProgramWire()
        self.output = _Output()
        self.constants: list[tuple[str, Any]] = []  # names and values that the tests were told
        self.called: list[tuple[Any, Any]] = []  # functions, and what they called themselves

    def answer(self, number: int, request: bytes) -> bytes:
        """Do what is asked, and put the answer into words, whatever happens."""
        count = self.wire.count
        try:
            answer = self._answer(number, request)
            kept_numbers = self.wire.kept()
            answer += b"\n%b" % (json.dumps(kept_numbers).encode() if kept_numbers else b"[]")
            if len(answer) > codec.FRAME:
                raise codec.CannotCross(f"more than {codec.FRAME >> 20} MiB")
            return answer
        except (codec.CannotCross, ValueError) as error:
            fields = ["refused", str(error)[:200]]
        except BaseException as error:  # of an exception that fights back, or still without memory
            fields = ["failed", "MemoryError" if isinstance(error, MemoryError) else "RuntimeError"]
        self.wire.forget(count)
        return json.dumps([number, *fields]).encode() + b"\n[]"

    def _answer(self, number: int, request: bytes) -> bytes:
        operation, *arguments, changed = self.wire.loads(request)
        if changed is not None:
            self.wire.change(changed, self.wire.count)
        contents = self.wire.contents(self.wire.objects)
        kind, line = "value", 0
        error: BaseException | None = None
        try:
            value = self._operations[operation](self, *arguments)
        except _DoesNotParse as stop:
            kind, (error,) = "syntax", stop.args
            line = getattr(error, "lineno", None) or 0
        except BaseException as raised:
            kind, error, line = "raised", raised, _line(raised)
        self.wire.check()
        for name, constant in self.constants:
            if vars(self.module).get(name, _MISSING) is not constant:
                raise codec.CannotCross(f"the program's {name}, which changed after it was loaded")
        if any(getattr(function, "__name__", None) is not name for function, name in self.called):
            raise codec.CannotCross("a function that changed its name after it was loaded")
        if error is not None:
            value = _untraced(error)
            error = None
        answer = [number, kind, value, codec.changes(contents), line, self.output.take()]
        try:
            return self.wire.dumps(answer)
        except MemoryError:
            if kind == "value":  # the program had the memory for it
                raise codec.CannotCross("more than there is memory for") from None
            raise

    def _load(self, text: str, names: list[str]) -> list[list[Any]]:
        _settle()
        # What the program takes for its own now, as a default of an argument, is not what tests redirect later.
        early = sys.stdout = _Output().stream
        sys.modules[MODULE] = self.module
        linecache.cache[FILE] = len(text), None, text.splitlines(True), FILE
        try:
            code = compile(text, FILE, "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise _DoesNotParse(error) from None
        space = vars(self.module)
        exec(code, space)
        if sys.stdout is early:
            sys.stdout = self.output.stream
        values = [(name, space.get(name, _MISSING)) for name in names]
        self.constants = [(name, value) for name, value in values if not callable(value)]
        self.called = [(value, getattr(value, "__name__", None)) for _, value in values if callable(value)]
        return [[name, value] for name, value in values if value is not _MISSING]

    def _call(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    _operations = {"load": _load, "call": _call, "draw": lambda self, iterator: next(iterator)}  # noqa: RUF012


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


def _untraced(error: BaseException) -> BaseException:
    """The exception without the frames of its way: they hold what the program no longer does."""
    step: BaseException | None = error
    for _ in range(codec.MAX_DEPTH):
        if step is None:
            break
        step = step.with_traceback(None).__context__
    return error
