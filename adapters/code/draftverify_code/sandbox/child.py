"""What a candidate's process does: take a program, run it, answer calls of its functions, until the channel is closed.

`serve` is called in a freshly forked process that is already confined. Everything here shares that process with the
program, which may do to it what it likes; the judge at the other end trusts no answer further than it is a value.
Standard library only.

The channel is a stream socket. A frame is 4 bytes of length, big-endian, and a message; none is longer than
`codec.FRAME`. One request, one answer. Requests, as values of `codec`:

- `["load", program, names, modules]`: execute the program, and say what the names are to it. `modules` are those that
  the tests import.
- `["call", name, args, kwargs]`: call what had that name when the program was loaded.

An answer is `[n, kind, content, changes, output, refused]`: `n` numbers them from 0; `changes` are what was done to the
request's lists, dicts and sets (`codec.WireExchange.changes`); `output` is what was printed, None where it was cut;
`refused` says what the sandbox refused. Kinds and contents:

- "value": what came of it. For "load" it is a list with `[name, what]` of each name that the program defines:
  "function", "module" and the module's name, "object" (another one that can be called), or "value".
- "raised": `[type, args, text, line, name]` of an exception: the name of its type; its arguments, None where it has
  more than these (see `_PLAIN`); what it says; the program's last line on its way (0: none); the name that a NameError
  misses.
- "syntax": `[text, line]` where the program does not parse.
- "apart": why tests in another process cannot say what they would in the program's: something did not cross, or is held
  by the program, or the program changed what they could see.
"""

from __future__ import annotations

import builtins
import io
import json
import linecache
import socket
import sys
from contextlib import suppress
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from draftverify_code.sandbox import codec
from draftverify_code.sandbox.surroundings import Refusals, Surroundings

FILE = "<program>"
"""The program's file name in tracebacks."""
MODULE = "__candidate__"
"""Its module's name."""

_MISSING = object()
KEPT = 1 << 16  # bytes of output that may be printed in a call


def serve(
    channel: socket.socket, program: _LoadedProgram | None = None, refusals: Refusals | None = None
) -> None:
    """Answer requests until the other end is closed, or breaks off inside a frame.

    Args:
        channel: a connected stream socket.
        program: what `rehearse` made, so that nothing need be made here.
        refusals: what sees that the sandbox refuses something; None where there is none.
    """
    # What the loop needs is bound before the program runs, so that one that patches a module by accident harms nobody.
    receive, send, head = channel.recv, channel.sendall, codec.HEAD
    program = program or _LoadedProgram()
    if refusals is not None:
        program.refusals = refusals
        refusals.watch()
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
    program.answer(0, codec.WireExchange().dumps(["load", _COMMON, ["f", "g"], []]))
    for arguments in ([[1.0, 2.5]], [[3, 4, 5], 4]) * 3:
        program.answer(0, codec.WireExchange().dumps(["call", "f", arguments, {}]))
    sys.stdout, sys.argv = stdout, argv
    del sys.modules[MODULE], linecache.cache[FILE]
    return _LoadedProgram()


class _LoadedProgram:
    def __init__(self) -> None:
        self.module = ModuleType(MODULE)
        self.module.__file__ = "program.py"
        self.names: dict[str, Any] = {}  # what the tests were told of
        self.output = _Output()
        self.stdout = self.output.stream
        self.refusals = Refusals((), (), (), False)
        self.surroundings = Surroundings()

    def answer(self, number: int, request: bytes) -> bytes:
        """Do what is asked, and put the answer into words, whatever happens."""
        try:
            exchange = codec.WireExchange()
            answer = self._answer(exchange, number, request)
            if not exchange.is_held():
                return answer
            why = "a list, dict or set that the program keeps"
        except MemoryError:
            text = "MemoryError"
            return json.dumps([number, "raised", [text, {"tuple": []}, text, 0, ""], [], "", []]).encode()
        except BaseException as error:  # it does not cross, or fights back, or no stack is left
            known = isinstance(error, (codec.CannotCross, ValueError))
            why = str(error)[:200] if known else "an answer that could not be given"
        return codec.WireExchange().dumps([number, "apart", [why], [], None, self.refusals.calls[:9]])

    def _answer(self, exchange: codec.WireExchange, number: int, request: bytes) -> bytes:
        operation, *arguments = exchange.loads(request)
        contents = exchange.contents()
        kind = "value"
        content: Any
        try:
            content = (self._load if operation == "load" else self._call)(*arguments)
        except _DoesNotParse as stop:
            (error,) = stop.args
            kind, content = "syntax", [_said(error), getattr(error, "lineno", None) or 0]
        except BaseException as error:
            self.refusals.note(error)
            kind, content = "raised", _raised(error)
        output, refused = self.output.take(), self.refusals.calls[:9]
        try:
            answer = exchange.dumps([number, kind, content, exchange.changes(contents), output, refused])
        except MemoryError:
            raise codec.CannotCross("more than there is memory for") from None
        if changed := self._changed():
            raise codec.CannotCross(f"{changed}, which the program changed")
        return answer

    def _changed(self) -> str:
        """What the program changed of what the tests could see; "" when nothing."""
        space = vars(self.module)
        for name, value in self.names.items():
            if space.get(name, _MISSING) is not value:
                return f"its name {name}"
        return self.surroundings.changed() or ("sys.stdout" if sys.stdout is not self.stdout else "")

    def _load(self, text: str, names: list[str], modules: list[str]) -> list[list[str]]:
        _settle()
        # What the program takes for its own now, as a default of an argument, is not what tests redirect later.
        early = sys.stdout = self.stdout = _Output().stream
        sys.modules[MODULE] = self.module
        linecache.cache[FILE] = len(text), None, text.splitlines(True), FILE
        self.surroundings = Surroundings(modules, text)
        try:
            code = compile(text, FILE, "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise _DoesNotParse(error) from None
        space = vars(self.module)
        exec(code, space)
        self.stdout = self.output.stream
        if sys.stdout is early:
            sys.stdout = self.stdout
        self.names = {name: space.get(name, _MISSING) for name in names}
        return [[name, _what(value)] for name, value in self.names.items() if value is not _MISSING]

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self.names[name](*args, **kwargs)


_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(lru_cache(len)))


def _what(value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    return "function" if type(value) in _FUNCTIONS else "object" if callable(value) else "value"


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
        self._kept += data[: KEPT + 1 - len(self._kept)]
        return len(data)

    def take(self) -> str | None:
        with suppress(OSError, ValueError):  # the program closed it
            self.stream.flush()
        text = self._kept.decode(errors="replace") if len(self._kept) <= KEPT else None
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


_PLAIN = frozenset(
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type)
    and issubclass(kind, BaseException)
    and not any(
        isinstance(member, (MemberDescriptorType, GetSetDescriptorType))
        for base in kind.__mro__[: kind.__mro__.index(BaseException)]
        for member in vars(base).values()
    )
)
"""Python's own exceptions that are made of nothing but their arguments."""


def _raised(error: BaseException) -> list[Any]:
    args: tuple[Any, ...] | None = None
    if type(error) in _PLAIN and not (vars(error) or error.__cause__ or error.__context__):
        with suppress(codec.CannotCross):
            codec.WireExchange().dumps(error.args)
            args = error.args
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE:
            line = step.tb_lineno
        step = step.tb_next
    name = error.name if type(error) is NameError and type(error.name) is str else ""
    return [f"{type(error).__name__}", args, _said(error), line, name]


def _said(error: BaseException) -> str:
    try:
        return f"{error}"[:1000]
    except Exception:
        return ""
