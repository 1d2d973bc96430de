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
from typing import Any, NamedTuple, NoReturn

from draftverify_code.sandbox.words import cut

MODULE = "__tests__"
"""The name of the module that the tests are."""
ALIASES = {"np": "numpy"}
"""Names of modules that are not their own."""
READABLE = 100_000  # characters of a test's source that is still parsed to find a whole statement


_WORDS = re.compile(r"\w+")
_IDENTITIES = re.compile(r"\bid\(|\bis\s+(?!(?:not\s+)?(?:None|True|False)\b)")


class Broken(Exception):
    """The tests themselves are wrong; the message says how."""


class _Rehearsal(BaseException):
    """A call of a candidate, where there is none yet."""


class Test(NamedTuple):
    """One test.

    Attributes:
        code: what is executed.
        shared: why it says nothing of a program in another process; "" where it does.
        example: of a doctest.
    """

    code: CodeType
    shared: str = ""
    example: Any = None


class CompiledSuite:
    """A suite, compiled once.

    Attributes:
        names: what it takes from a program, entry points first.
        pythons: the names of Python's own that it reads.
        own: the names that it defines, which the program does not see.
        shared: why none of its tests says anything of a program in another process; "" where one does.
        modules: those that it imports, or reads by names that the program may have given them.
        catches: whether it may catch an exception.
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
        self._shared = _reach(setup)
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
            read, written = globals_of(table)
            free |= read
            bound |= written
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
        texts = self.sources.values()
        imported = {name for text in texts for name in _modules(text)}
        read = {ALIASES.get(name, name) for name in self.names[len(self.entry_points) :]}
        self.modules = tuple(sorted(imported | (read & _PURE)))
        self.catches = kind == "doctest" or any(map(_catches, texts))

    @cached_property
    def called(self) -> re.Pattern[str]:
        """Where a statement calls the program."""
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, ('candidate', *self.entry_points)))})\(")

    def _test(self, text: str, name: str, mode: str = "exec") -> Test:
        code, shared = self._compile(text, name, mode), self._shared or _reach(text)
        if not shared and re.search(
            rf"\btype\((?:candidate|{'|'.join(map(re.escape, self.entry_points))})\)", text
        ):
            shared = "asks for the type of a function of the program's"
        return Test(code, shared)

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
            self._test(example.source, f"<doctest example {i}[0]>", "single")._replace(example=example)
            for i, example in enumerate(examples)
            if doctest.SKIP not in example.options
        ]

    def meddles(self, program: str) -> str:
        """Why the program's functions would do something else in one process with the tests; "" when they would not."""
        identities = _IDENTITIES.search(program)
        if self._meddling.isdisjoint(_WORDS.findall(program)) and not identities:
            return ""
        try:
            table = symtable.symtable(program, "program", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""
        if identities and _compares_identities(ast.parse(program)):
            return "is for a program that compares identities, which do not cross"
        # The same import at both ends is the same thing.
        made_names = {symbol.get_name() for symbol in table.get_symbols() if _is_made(symbol)}
        read = {name for name in _read_inside(table) if name in made_names or name not in self._imported}
        names = sorted(read & self._meddling)
        return f"makes the name {names[0]}, which the program reads" if names else ""

    def changes(self, name: str) -> bool:
        """Whether it gives an attribute to what has a name, or takes one away."""
        texts = (text for text in self.sources.values() if len(text) <= READABLE)
        nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
        return any(_is_part_stored(node) and ast.unparse(node).startswith(f"{name}.") for node in nodes)

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
    """BuiltinFunctionType FunctionType LambdaType MethodType __import__ __traceback__ assertLogs assertNoLogs
    assertWarns assertWarnsRegex breakpoint delattr errstate exec() getcontext getrecursionlimit getstate globals id
    input localcontext open redirect_stderr seed set_int_max_str_digits setattr setcontext seterr setfirstweekday
    setrecursionlimit setstate""".split()  # noqa: SIM905
)
_OF_SYS = frozenset(
    """_getframe argv displayhook excepthook meta_path modules path setprofile setswitchinterval settrace
    stderr stdin""".split()  # noqa: SIM905
)
_CATCHING = re.compile(r"\b(?:try|with|unittest|suppress|exec)\b|[rR]aises")


def _modules(text: str) -> list[str]:
    """The modules that a source imports."""
    lines = re.findall(r"^\s*(?:from\s+([\w.]+)|import\s+(\w.*))", text, re.MULTILINE)
    return [
        part.split()[0] for origin, names in lines for part in (origin or names).split(",") if part.strip()
    ]


def _catches(text: str) -> bool:
    """Whether tests may catch an exception."""
    if not _CATCHING.search(text) or len(text) > READABLE:
        return bool(_CATCHING.search(text))
    kinds = (ast.Try, ast.With, ast.AsyncWith, getattr(ast, "TryStar", ast.Try))
    names = re.compile(r"unittest|suppress|exec|.*[rR]aises")
    return any(
        isinstance(node, kinds)
        or names.match(
            getattr(node, "id", "") or getattr(node, "attr", "") or getattr(node, "module", "") or ""
        )
        or (isinstance(node, ast.alias) and names.match(node.name))
        for node in ast.walk(ast.parse(text))
    )


def _compares_identities(tree: ast.AST) -> bool:
    """Whether `is` stands between two things that are neither constants nor types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "id":
            return True
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            if not any(
                side in ("None", "True", "False", "...") or side.startswith("type(") for side in sides
            ):
                return True
    return False


def _reach(text: str) -> str:
    """What tests use of their process that the program would find there too."""
    if len(text) > READABLE:  # it has its data inside; what it imports it uses
        return next(filter(None, map(_outside, _modules(text))), "")
    tree = ast.parse(text)
    if _compares_identities(tree):
        return "compares identities"
    names: dict[str, str] = {}
    used: set[str] = set()
    bound: set[str] = set()
    stored: set[str] = set()
    for node in ast.walk(tree):
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
            if _is_part_stored(node):
                stored.add(ast.unparse(node).partition(".")[0])
    outside = [message for name, module in names.items() if name in used and (message := _outside(module))]
    module_tails = {module.rpartition(".")[2] for module in names.values()}
    reached = {*used - bound, *module_tails} & _REACHING or {f"sys.{name}" for name in _OF_SYS} & {
        *used,
        *names.values(),
    }
    outside += [f"uses {name}" for name in sorted(reached)]
    outside += [f"changes {name}" for name in sorted(stored & names.keys())]
    return next(iter(outside), "")


def _is_part_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del))


def _outside(module: str) -> str:
    pure = module.partition(".")[0] in _PURE and not module.startswith("unittest.mock")
    return "" if pure else f"uses {module}"


def _is_made(symbol: symtable.Symbol) -> bool:
    """Whether a name is bound, and not only to what is imported."""
    return (symbol.is_assigned() or symbol.is_namespace()) and not symbol.is_imported()


def _made(table: symtable.SymbolTable) -> set[str]:
    """The names of a module that its source makes, also by `global` in a function."""
    top = table.get_type() == "module"
    made = (symbol for symbol in table.get_symbols() if _is_made(symbol))
    names = {symbol.get_name() for symbol in made if top or symbol.is_declared_global()}
    return names.union(*map(_made, table.get_children()))


def _read_inside(table: symtable.SymbolTable) -> set[str]:
    """The globals that a program's functions read."""
    names = set[str]()
    for child in table.get_children():
        if child.get_type() == "function":
            read = (symbol for symbol in child.get_symbols() if symbol.is_referenced() and symbol.is_global())
            names |= {symbol.get_name() for symbol in read}
        names |= _read_inside(child)
    return names


def globals_of(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The names that a source reads from its globals, and those that it binds there."""
    top, read, written = table.get_type() == "module", set[str](), set[str]()
    for symbol in table.get_symbols():
        if top or symbol.is_global():
            if symbol.is_referenced():
                read.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                written.add(symbol.get_name())
    for child in table.get_children():
        inner_read, inner_written = globals_of(child)
        read |= inner_read
        written |= inner_written
    return read, written
