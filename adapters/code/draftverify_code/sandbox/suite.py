"""A suite of tests, compiled once: what it takes from a program, its tests, and where in its text a failure lies.

Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox.words import cut
else:
    from words import cut

__all__ = ["MODULE", "Broken", "CompiledSuite", "Test"]

MODULE = "__tests__"
"""The name of the module that the tests are."""
AHEAD = (
    1 << 15
)  # bytes of calls that are sent before they are asked for; a socket takes as many without waiting
READABLE = 100_000  # characters of a test's source that is still parsed to find a whole statement


class Broken(Exception):
    """The tests themselves are wrong; the message says how."""


class _Rehearsal(BaseException):
    """A call of a candidate, where there is none yet."""


class Test(NamedTuple):
    code: CodeType
    example: Any = None  # of a doctest


class CompiledSuite:
    """A suite, compiled once."""

    def __init__(
        self,
        kind: str,
        entry_points: Sequence[str],
        source: str = "",
        asserts: Sequence[str] = (),
        setup: str = "",
    ) -> None:
        self.kind = kind
        self.entry_points = tuple(entry_points)
        self.foreseen: tuple[bytes, ...] = ()
        self._learns = True
        self.sources: dict[str, str] = {}
        self.spans: dict[str, list[tuple[int, int]]] = {}
        if not self.entry_points:
            raise Broken("the suite names no entry point")
        self.setup = self._compile(setup, "<setup>")
        self.tests: list[Test]
        if kind in ("check", "script"):
            self.tests = [Test(self._compile(source, "<tests>"))]
        elif kind == "asserts":
            self.tests = [Test(self._compile(each, f"<test {i}>")) for i, each in enumerate(asserts)]
        elif kind == "doctest":
            self.tests = self._examples(source)
        else:
            raise Broken(f"there is no kind of suite called {kind!r}")
        if not self.tests:
            raise Broken("the suite has no tests")
        free, bound = set[str](), {*self.entry_points, *dir(builtins), *vars(ModuleType(MODULE))}
        for name, text in self.sources.items():
            _names(symtable.symtable(text, name, "exec"), free, bound)
        self.names = (*self.entry_points, *sorted(free - bound))
        self.called = re.compile(rf"\b(?:{'|'.join(map(re.escape, ('candidate', *self.entry_points)))})\(")

    def _compile(self, text: str, name: str, mode: str = "exec") -> CodeType:
        self.sources[name] = text
        try:
            return compile(text, name, mode, dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Broken(f"{name[1:-1]}: {type(error).__name__}: {error}") from None

    def _examples(self, text: str) -> list[Test]:
        import doctest  # a large module, for this kind alone

        try:
            examples = doctest.DocTestParser().get_examples(text)
        except ValueError as error:
            raise Broken(str(error)) from None
        return [
            Test(self._compile(each.source, f"<example {i}>", "single"), each)
            for i, each in enumerate(examples)
            if doctest.SKIP not in each.options
        ]

    def rehearse(self) -> None:
        """Execute what comes before the first call of a candidate.

        Raises:
            Broken: it fails.
        """

        def stub(*args: Any, **kwargs: Any) -> NoReturn:
            raise _Rehearsal

        try:
            scope = self.scope(dict.fromkeys(self.entry_points, stub), {})
            if self.kind == "check":
                exec(self.tests[0].code, scope)
                if not callable(scope.get("check")):
                    raise Broken("the tests define no function check(candidate)")
        except _Rehearsal:
            pass
        except Broken:
            raise
        except BaseException as error:
            if getattr(error, "name", None) not in self.names:  # a name that the candidate may define
                raise Broken(f"{self.place(error)} raises {type(error).__name__}: {error}") from None

    def scope(self, functions: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """A fresh namespace, in which the setup has been executed.

        Args:
            functions: the entry points.
            others: what else the candidate defines; what the setup defines stands before it.
        """
        module = ModuleType(MODULE)
        sys.modules[MODULE] = module  # dataclasses look there
        scope = vars(module)
        scope |= {**others, **functions}
        exec(self.setup, scope)
        scope |= functions
        return scope

    def learn(self, requests: Sequence[bytes], *, predictable: bool) -> None:
        """Remember the calls of a program, for the next one.

        Args:
            requests: in their order.
            predictable: whether they were what was foreseen.
        """
        if not predictable:
            self.foreseen, self._learns = (), False
        if self._learns and len(requests) > len(self.foreseen):
            sizes = accumulate(map(len, requests))
            self.foreseen = tuple(each for each, size in zip(requests, sizes, strict=True) if size <= AHEAD)

    def frames(self, error: BaseException) -> list[tuple[str, int, dict[str, Any]]]:
        """The suite's own frames on the way of an exception, innermost first: file, line, variables."""
        found = []
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename in self.sources:
                found.append((frame.f_code.co_filename, line, frame.f_locals))
        return found[::-1]

    def statement(self, file: str, line: int) -> str:
        """The whole statement at a line of a source."""
        lines = self.sources[file].split("\n")
        if file not in self.spans:
            self.spans[file] = list(_spans(self.sources[file])) if len(self.sources[file]) <= READABLE else []
        first, last = next((span for span in self.spans[file] if span[0] <= line <= span[1]), (line, line))
        return " ".join(each.strip() for each in lines[first - 1 : last])

    def place(self, error: BaseException) -> str:
        """Where in the suite an exception came from."""
        frames = self.frames(error)
        return f"`{cut(self.statement(*frames[0][:2]), 200)}`" if frames else "the suite"


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """The first and the last line of each statement that holds no others."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node.lineno, node.end_lineno or node.lineno


def _names(table: symtable.SymbolTable, free: set[str], bound: set[str]) -> None:
    """The names that a source reads from its globals, and those that it binds there."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
        if binds and (top or symbol.is_declared_global()):
            bound.add(symbol.get_name())
        elif symbol.is_referenced() and (top or symbol.is_global()):
            free.add(symbol.get_name())
    for child in table.get_children():
        _names(child, free, bound)
