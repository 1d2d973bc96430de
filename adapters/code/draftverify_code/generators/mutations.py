"""All single mutations of a Python program: what is easily got wrong in an expression, and two statements in one order.

Each is an `Edit` of one span with a prior weight. The weights are one person's guess of how often a bug is of that
kind; where a kind has several answers at one place, each has the weight divided by the root of their number.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from draftverify_code.generators.edits import ProgramSource
from draftverify_code.names import FUNCTIONS, bound

PRIORS: Mapping[str, float] = {
    "boundary": 1.0,  # < ↔ <=, > ↔ >=
    "comparison": 0.5,  # any other comparison
    "arithmetic": 0.7,  # + ↔ -, * ↔ //, …
    "boolean": 0.7,  # and ↔ or
    "negation": 0.6,  # not added or removed
    "drop": 0.4,  # one operand less
    "swap": 0.5,  # operands or arguments the other way round
    "constant": 0.8,  # n ± 1, True ↔ False
    "text": 0.3,  # the other case
    "initial": 0.3,  # another initial value
    "off by one": 0.6,  # an index, a bound or an operand ± 1
    "range": 0.7,  # bounds and direction of a range
    "name": 0.5,  # another variable
    "call": 0.8,  # another builtin or method of the same family
    "wrap": 0.2,  # x → sorted(x), list(x), reversed(x)
    "order": 0.4,  # two statements the other way round
}
"""Weights by kind of mutation."""

MOST_NAMES = 20  # other variables that are tried in one place
_COMPARISONS = {
    "<": "<= > >= != ==", "<=": "< >= > ==", ">": ">= < <= != ==", ">=": "> <= < ==", "==": "!= >= <= > <",
    "!=": "== > <", "is": "==", "is not": "!=", "in": "not_in", "not in": "in",
}  # fmt: skip
_ARITHMETIC = {
    "+": "- *", "-": "+ //", "*": "// + /", "/": "// *", "//": "% / * -", "%": "// - /", "**": "*",
    "&": "| ^", "|": "& ^", "^": "& |", "<<": ">>", ">>": "<<",
}  # fmt: skip
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
    ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_FAMILIES = (
    "min max", "any all", "sorted reversed list set tuple", "sum len max min", "int float round", "str repr",
    "ord chr", "floor ceil", "append extend add", "append appendleft", "pop popleft", "add update discard",
    "lower upper", "isupper islower", "startswith endswith", "strip lstrip rstrip", "find rfind index",
    "keys values items", "split splitlines", "union intersection difference",
)  # fmt: skip
"""Names of functions and methods that are taken for each other."""
_WRAPPERS = ("sorted", "list", "reversed", "set", "abs", "int", "str", "len")
_INITIAL = ('float("inf")', 'float("-inf")', "None", "[]", '""', "0", "1")
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.Await)
_WHOLE = re.compile(r"\w+(?:\([^()]*\))?")  # texts that need no parentheses in an operation


class Edit(NamedTuple):
    """One span of a program replaced.

    Args:
        start, end: the span, in bytes of the UTF-8 text.
        text: what stands there instead.
        weight: how likely it is a fix; above 0.
    """

    start: int
    end: int
    text: str
    weight: float


def mutations(source: ProgramSource) -> list[Edit]:
    """All single edits of a program, the likeliest fixes first; some lead to a program that does not parse."""
    mutator = _Mutator(source)
    edits = [edit for node, parent in mutator.places for edit in mutator.edits(node, parent)]
    return sorted(edits, key=lambda edit: -edit.weight)


class _Mutator:
    """The edits of one program, node by node."""

    def __init__(self, source: ProgramSource) -> None:
        self.source = source
        self.places: list[tuple[ast.AST, ast.AST]] = [(source.tree, source.tree)]
        """Each node that has a place, with its parent, and the whole tree."""
        self.variables: dict[ast.AST, Sequence[str]] = {}
        """By node, what can be read there: what the functions around it bind."""
        top = _bound_in(source.tree)
        waiting: list[tuple[ast.AST, Sequence[str]]] = [(source.tree, top)]
        while waiting:
            parent, variables = waiting.pop()
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                outer = () if variables is top else variables
                variables = tuple(dict.fromkeys((*_bound_in(parent), *outer)))
            # Before Python 3.12 the nodes inside an f-string say wrong places.
            nodes = [] if isinstance(parent, ast.JoinedStr) else list(ast.iter_child_nodes(parent))
            for node in nodes:
                self.variables[node] = variables
                self.places.append((node, parent))
            waiting.extend((node, variables) for node in reversed(nodes))

    def edits(self, node: ast.AST, parent: ast.AST) -> Iterator[Edit]:
        """The edits at one node."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._comparison(node)
        elif isinstance(node, (ast.BinOp, ast.AugAssign)):
            yield from self._arithmetic(node, parent)
        elif isinstance(node, ast.BoolOp):
            sign, opposite = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for operand, right in pairwise(node.values):
                yield from self._signs(operand, right, sign, "boolean", [opposite])
            yield from self._instead(node, parent, "drop", *map(self.source.text, node.values))
        elif isinstance(node, ast.UnaryOp):
            kind = "negation" if isinstance(node.op, ast.Not) else "drop"
            yield from self._instead(node, parent, kind, self.source.text(node.operand))
        elif isinstance(node, ast.Constant) and not isinstance(parent, ast.Expr):
            yield from self._constant(node, parent)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            called = isinstance(parent, ast.Call) and parent.func is node
            names = _related(node.id) if called else self._names(node, node.id)
            yield from self._instead(node, parent, "call" if called else "name", *names)
        elif isinstance(node, ast.Attribute):
            end = self.source.span(node)[1]
            yield from _alike(end - len(node.attr.encode()), end, "call", _related(node.attr))
        elif isinstance(node, ast.Call):
            yield from self._call(node, parent)
        if isinstance(node, ast.expr):
            yield from self._slot(node, parent)
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for statement, second in pairwise(block if isinstance(block, list) else ()):
                if not isinstance(statement, FUNCTIONS):
                    yield self._swap(statement, second, "order")

    def _comparison(self, node: ast.Compare) -> Iterator[Edit]:
        sign = _SIGNS[type(node.ops[0])]
        likeliest, *signs = (sign_text.replace("_", " ") for sign_text in _COMPARISONS[sign].split())
        kind = "boundary" if sign[0] in "<>" else "negation"
        yield from self._signs(node.left, node.comparators[0], sign, kind, [likeliest])
        yield from self._signs(node.left, node.comparators[0], sign, "comparison", signs)

    def _arithmetic(self, node: ast.BinOp | ast.AugAssign, parent: ast.AST) -> Iterator[Edit]:
        sign = _SIGNS.get(type(node.op), "")
        alternatives = _ARITHMETIC.get(sign, "").split()
        if isinstance(node, ast.AugAssign):
            signs = [*(f"{alternative}=" for alternative in alternatives), "="]
            yield from self._signs(node.target, node.value, f"{sign}=", "arithmetic", signs)
            return
        yield from self._signs(node.left, node.right, sign, "arithmetic", alternatives)
        yield self._swap(node.left, node.right, "swap")
        yield from self._instead(node, parent, "drop", *map(self.source.text, (node.left, node.right)))

    def _constant(self, node: ast.Constant, parent: ast.AST) -> Iterator[Edit]:
        value = node.value
        if isinstance(value, bool):
            yield from self._instead(node, parent, "constant", str(not value))
        elif isinstance(value, int):
            yield from self._instead(node, parent, "constant", str(value + 1))
            yield from self._instead(node, parent, "constant", str(value - 1))
            if value in (0, 1, 2):
                yield from self._instead(node, parent, "name", *self._names(node, ""))
        elif isinstance(value, str) and value.isalpha():
            yield from self._instead(node, parent, "text", repr(value.swapcase()))
        if isinstance(parent, ast.Assign):
            yield from self._instead(node, parent, "initial", *_INITIAL)

    def _call(self, node: ast.Call, parent: ast.AST) -> Iterator[Edit]:
        for argument, following in pairwise(node.args):
            yield self._swap(argument, following, "swap")
        texts = [self.source.text(argument) for argument in node.args]
        if isinstance(node.func, ast.Name) and node.func.id == "range" and len(texts) in (1, 2):
            yield from self._instead(node, parent, "range", *_ranges(*texts))

    def _slot(self, node: ast.expr, parent: ast.AST) -> Iterator[Edit]:
        """What can be done to a value because of where it stands: as a condition, an index, an argument, …"""
        text = self.source.text(node)
        if isinstance(parent, (ast.If, ast.While, ast.IfExp)) and parent.test is node:
            yield from self._instead(node, parent, "negation", f"not ({text})")
        if isinstance(node, (ast.Constant, ast.Slice, ast.Starred, ast.GeneratorExp)):
            return
        if isinstance(parent, ast.BoolOp):
            yield from self._instead(node, parent, "negation", f"not ({text})")
        argument = isinstance(parent, ast.Call) and node in parent.args
        handed_on = argument or isinstance(parent, (ast.Return, ast.Assign, ast.For, ast.comprehension))
        if handed_on and not isinstance(getattr(node, "ctx", None), ast.Store):
            yield from self._instead(node, parent, "wrap", *(f"{name}({text})" for name in _WRAPPERS))
        index = isinstance(parent, ast.Subscript) and parent.slice is node
        counted = argument or index or isinstance(parent, (ast.Compare, ast.Return, ast.Slice))
        if counted and isinstance(node, (ast.Name, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute)):
            yield from self._instead(node, parent, "off by one", f"{text} - 1", f"{text} + 1")

    def _names(self, node: ast.expr, name: str) -> list[str]:
        """The other variables that a place can read, those first that are bound nearest around it."""
        return [variable for variable in self.variables[node] if variable != name][:MOST_NAMES]

    def _signs(
        self, operand: ast.AST, right: ast.AST, sign: str, kind: str, alternatives: Sequence[str]
    ) -> Iterator[Edit]:
        """Other signs between two operands."""
        start, end = self.source.span(operand)[1], self.source.span(right)[0]
        between = self.source.data[start:end].decode()
        return _alike(
            start, end, kind, [between.replace(sign, alternative, 1) for alternative in alternatives]
        )

    def _swap(self, node: ast.AST, second: ast.AST, kind: str) -> Edit:
        """Two nodes the other way round."""
        (start, middle), (resume, end) = self.source.span(node), self.source.span(second)
        between = self.source.data[middle:resume].decode()
        text = self.source.text(second) + between + self.source.text(node)
        return Edit(start, end, text, PRIORS[kind])

    def _instead(self, node: ast.expr, parent: ast.AST, kind: str, *texts: str) -> Iterator[Edit]:
        """Other expressions at a node's place, in parentheses where they become an operand."""
        if isinstance(parent, _OPERATIONS) and getattr(parent, "slice", None) is not node:
            texts = tuple(text if _WHOLE.fullmatch(text) else f"({text})" for text in texts)
        return _alike(*self.source.span(node), kind, texts)


def _bound_in(node: ast.AST) -> tuple[str, ...]:
    """The names that are bound anywhere in a node, in the order of its text."""
    return tuple(dict.fromkeys(name for inner in ast.walk(node) for name in bound(inner)))


def _alike(start: int, end: int, kind: str, texts: Sequence[str]) -> Iterator[Edit]:
    """One place's answers of a kind, which share its weight."""
    for text in texts:
        yield Edit(start, end, text, PRIORS[kind] / math.sqrt(len(texts)))


def _related(name: str) -> list[str]:
    """The names that are taken for one."""
    families = [family.split() for family in _FAMILIES if name in family.split()]
    return list(dict.fromkeys(member for family in families for member in family if member != name))


def _ranges(bound: str, second: str = "") -> Iterator[str]:
    """Other calls of range() than the one with these arguments."""
    start, stop = (bound, second) if second else ("0", bound)
    for low, high in (
        (start, f"{stop} + 1"),
        (start, f"{stop} - 1"),
        (f"{start} + 1", stop),
        ("1", f"{stop} + 1"),
    ):
        yield f"range({low}, {high})"
    yield f"range({stop} - 1, {start} - 1, -1)"
