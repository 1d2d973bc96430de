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
from functools import cached_property
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox.words import cut
else:
    from words import cut

__all__ = ["IDENTITIES", "MODULE", "Broken", "CompiledSuite", "Test"]

MODULE = "__tests__"
"""The name of the module that the tests are."""
IDENTITIES = "compares identities"
"""The doubt of tests that use `is` with more than a constant."""
READABLE = 100_000  # characters of a test's source that is still parsed to find a whole statement


_WORDS = re.compile(r"\w+")


class Broken(Exception):
    """The tests themselves are wrong; the message says how."""


class _Rehearsal(BaseException):
    """A call of a candidate, where there is none yet."""


class Test(NamedTuple):
    """One test.

    Attributes:
        code: what is executed.
        shared: why it says nothing of a program in another process; "" where it does.
        doubt: why it may fail there though the program is right; "" where it does not.
        example: of a doctest.
    """

    code: CodeType
    shared: str = ""
    doubt: str = ""
    example: Any = None


class CompiledSuite:
    """A suite, compiled once.

    Attributes:
        names: what it takes from a program, entry points first.
        pythons: the names of Python's own that it reads.
        own: the names that it defines, which the program does not see.
        shared: why none of its tests says anything of a program in another process; "" where one does.
        asks_types: whether it may ask what type something is.
    """

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
        self.sources: dict[str, str] = {}
        self.spans: dict[str, list[tuple[int, int]]] = {}
        if not self.entry_points:
            raise Broken("the suite names no entry point")
        self.setup = self._compile(setup, "<setup>")
        self._reach = _reach(setup)
        self.tests: list[Test]
        if kind in ("check", "script"):
            self.tests = [self._test(source, "<tests>")]
        elif kind == "asserts":
            self.tests = [self._test(statement, f"<test {i}>") for i, statement in enumerate(asserts)]
        elif kind == "doctest":
            self.tests = self._examples(source)
        else:
            raise Broken(f"there is no kind of suite called {kind!r}")
        if not self.tests:
            raise Broken("the suite has no tests")
        free, bound = set[str](), {*self.entry_points, *vars(ModuleType(MODULE))}
        pythons = {*dir(builtins)}
        meddling, self._imported = set[str](), set[str]()
        for name, text in self.sources.items():
            table = symtable.symtable(text, name, "exec")
            _names(table, free, bound)
            if name != "<setup>":
                meddling |= _made(table)
                self._imported |= {
                    symbol.get_name() for symbol in table.get_symbols() if symbol.is_imported()
                }
        self._imported -= meddling
        meddling |= self._imported
        self._meddling = meddling
        self.names = (*self.entry_points, *sorted(free - bound - pythons))
        self.pythons = tuple(sorted(free & pythons - bound))
        self.own = frozenset(bound - {*self.entry_points})
        self.shared = self.tests[0].shared if all(test.shared for test in self.tests) else ""
        self.asks_types = any("type" in text for text in self.sources.values())

    @cached_property
    def called(self) -> re.Pattern[str]:
        """Where a statement calls the program."""
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, ('candidate', *self.entry_points)))})\(")

    def _test(self, text: str, name: str, mode: str = "exec") -> Test:
        code, reach = self._compile(text, name, mode), _reach(text)
        return Test(code, self._reach[0] or reach[0], self._reach[1] or reach[1])

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
            self._test(example.source, f"<example {i}>", "single")._replace(example=example)
            for i, example in enumerate(examples)
            if doctest.SKIP not in example.options
        ]

    def meddles(self, program: str) -> str:
        """Which name the tests make that the program's functions would read; "" when there is none."""
        if self._meddling.isdisjoint(_WORDS.findall(program)):
            return ""
        try:
            table = symtable.symtable(program, "program", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""
        # The same import at both ends is the same thing.
        made_names = {symbol.get_name() for symbol in table.get_symbols() if _is_made(symbol)}
        read = {name for name in _read_inside(table) if name in made_names or name not in self._imported}
        names = sorted(read & self._meddling)
        return f"makes the name {names[0]}, which the program reads" if names else ""

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

    def scope(self, functions: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
        """A fresh namespace, in which the setup has been executed.

        Args:
            functions: the entry points.
            names: what else the candidate defines; what the setup defines stands before it.
        """
        module = ModuleType(MODULE)
        sys.modules[MODULE] = module  # dataclasses look there
        scope = vars(module)
        scope |= {**names, **functions}
        exec(self.setup, scope)
        scope |= functions
        return scope

    def frames(self, error: BaseException) -> list[tuple[str, int, dict[str, Any]]]:
        """The suite's own frames on the way of an exception, innermost first: file, line, variables."""
        frames = []
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename in self.sources:
                frames.append((frame.f_code.co_filename, line, frame.f_locals))
        return frames[::-1]

    def statement(self, file: str, line: int) -> str:
        """The whole statement at a line of a source."""
        lines = self.sources[file].split("\n")
        if file not in self.spans:
            self.spans[file] = list(_spans(self.sources[file])) if len(self.sources[file]) <= READABLE else []
        start, end = next((span for span in self.spans[file] if span[0] <= line <= span[1]), (line, line))
        return " ".join(line_text.strip() for line_text in lines[start - 1 : end])

    def place(self, error: BaseException) -> str:
        """Where in the suite an exception came from."""
        frames = self.frames(error)
        return f"`{cut(self.statement(*frames[0][:2]), 200)}`" if frames else "the suite"


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """The first and the last line of each statement that holds no others."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node.lineno, node.end_lineno or node.lineno


# What does the same in whatever process it is used, and does nothing to the process.
_PURE = frozenset(
    """__future__ abc array ast base64 binascii bisect calendar cmath collections colorsys contextlib copy
    dataclasses datetime decimal difflib doctest enum errno fractions functools graphlib hashlib heapq html io
    ipaddress itertools json keyword math numbers numpy operator pprint random re secrets statistics string
    struct sys textwrap time timeit types typing unicodedata unittest uuid zlib zoneinfo""".split()  # noqa: SIM905
)
_REACHING = frozenset(
    """__import__ assertLogs assertNoLogs assertWarns assertWarnsRegex breakpoint delattr errstate exec() getcontext
    getrecursionlimit getstate globals input localcontext open redirect_stderr seed setattr setcontext seterr
    setfirstweekday setstate""".split()  # noqa: SIM905
)
_OF_SYS = frozenset(
    """_getframe argv displayhook excepthook meta_path modules path setprofile setswitchinterval settrace
    stderr stdin""".split()  # noqa: SIM905
)
_DOUBTFUL = frozenset({"id", "set_int_max_str_digits", "setrecursionlimit"})


def _reach(text: str) -> tuple[str, str]:
    """What tests use of their process that the program would find there too: certainly, and perhaps."""
    if len(text) > READABLE:  # it has its data inside; what it imports it uses
        modules = re.findall(r"^\s*(?:from|import)\s+([\w.]+)", text, re.MULTILINE)
        return next(filter(None, map(_outside, modules)), ""), ""
    names: dict[str, str] = {}
    used: set[str] = set()
    bound: set[str] = set()
    stored: set[str] = set()
    doubt = ""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "exec" and len(node.args) < 2:
            used.add("exec()")  # what has a namespace of its own meddles with no other
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
            if isinstance(node.value, ast.Name):
                used.add(f"{node.value.id}.{node.attr}")
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                stored.add(ast.unparse(node).partition(".")[0])
        elif isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            if not any(
                side in ("None", "True", "False", "...") or side.startswith("type(") for side in sides
            ):
                doubt = IDENTITIES
    outside = [message for name, module in names.items() if name in used and (message := _outside(module))]
    module_tails = {module.rpartition(".")[2] for module in names.values()}
    reached = {*used - bound, *module_tails} & _REACHING or {f"sys.{name}" for name in _OF_SYS} & {
        *used,
        *names.values(),
    }
    outside += [f"uses {name}" for name in sorted(reached)]
    outside += [f"changes {name}" for name in sorted(stored & names.keys())]
    doubtful = {*used, *module_tails} & _DOUBTFUL
    return next(iter(outside), ""), f"uses {min(doubtful)}" if doubtful else doubt


def _outside(module: str) -> str:
    pure = module.partition(".")[0] in _PURE and not module.startswith("unittest.mock")
    return "" if pure else f"uses {module}"


def _is_made(symbol: symtable.Symbol) -> bool:
    """Whether a name is bound, and not only to what is imported."""
    return (symbol.is_assigned() or symbol.is_namespace()) and not symbol.is_imported()


def _made(table: symtable.SymbolTable) -> set[str]:
    """The names of a module that its source makes, also by `global` in a function."""
    top = table.get_type() == "module"
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if _is_made(symbol) and (top or symbol.is_declared_global())
    }
    return names.union(*map(_made, table.get_children()))


def _read_inside(table: symtable.SymbolTable) -> set[str]:
    """The globals that a program's functions read."""
    names = set[str]()
    for child in table.get_children():
        if child.get_type() == "function":
            names |= {
                symbol.get_name()
                for symbol in child.get_symbols()
                if symbol.is_referenced() and symbol.is_global()
            }
        names |= _read_inside(child)
    return names


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
