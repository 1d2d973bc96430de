"""All single mutations of a Python program: what is easily got wrong in an expression; statements are in `restructure`.

Each is an `Edit` of one span with a prior weight. The weights are one person's guess of how often a bug is of that
kind; where an operator has several answers at one place, each has the weight divided by the root of their number.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from draftverify_code.generators.edits import Edit, Source
from draftverify_code.generators.restructure import NEAREST, Change, restructured, scope_names

__all__ = ["PRIORS", "mutations"]

PRIORS: Mapping[str, float] = {
    "boundary": 1.0,  # < ↔ <=, > ↔ >=
    "comparison": 0.5,  # any other comparison
    "identity": 0.6,  # is ↔ ==, in ↔ not in
    "arithmetic": 0.7,  # + ↔ -, * ↔ //, …
    "augmented": 0.7,  # += ↔ -=, = ↔ +=
    "boolean": 0.7,  # and ↔ or
    "negation": 0.6,  # not added or removed
    "drop": 0.3,  # one operand, condition or argument less
    "swap": 0.5,  # operands, arguments, indices, the places of a pair
    "constant": 0.8,  # n ± 1, True ↔ False
    "far constant": 0.3,  # another number, or another initial value
    "text": 0.3,  # another string of the program, another case
    "off by one": 0.6,  # an index, a bound, an argument or a result ± 1
    "range": 0.7,  # bounds, direction and start of a range
    "slice": 0.5,  # a bound more or less, reversed
    "name": 0.5,  # another variable
    "attribute": 0.4,  # another attribute of the same object
    "call": 0.8,  # another builtin or method of the same family
    "wrap": 0.15,  # x → abs(x), sorted(x), x[::-1], x.lower(), …
    "iteration": 0.3,  # another part or order of what a loop runs over
    "guard": 0.15,  # an early return for an empty or a small argument
    "return": 0.5,  # a return added, or another result
    "delete": 0.4,  # a statement less
    "order": 0.4,  # two statements the other way round
    "indent": 0.6,  # a statement moved into or out of the block before it
    "jump": 0.5,  # break ↔ continue
}
"""Weights by kind of mutation."""

AROUND = 1000  # bytes before and after a place in which other names are looked for, where there are more

_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_COMPARISONS = {
    "<": "> >= != ==", "<=": ">= > ==", ">": "< <= != ==", ">=": "<= < ==", "==": "!= >= <= > <", "!=": "== > <",
}  # fmt: skip
_ARITHMETIC = {
    "+": "- *", "-": "+ //", "*": "// + ** /", "/": "// *", "//": "/ * % -", "%": "// - /", "**": "*",
    "&": "| ^", "|": "& ^", "^": "& |", "<<": ">>", ">>": "<<",
}  # fmt: skip
_NOT_COMMUTATIVE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.Add)
_WRAPPERS = ("abs", "sorted", "list", "set", "len", "int", "str", "sum", "max", "min")
_CONVERSIONS = ("int", "str", "abs", "float", "len")
_TIGHT = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)  # they need no parentheses in an operation


def _families(*families: str) -> dict[str, tuple[str, ...]]:
    """By name, the other names of all its families, each of which is one text."""
    related: dict[str, dict[str, None]] = {}
    for family in map(str.split, families):
        for name in family:
            related.setdefault(name, {}).update(dict.fromkeys(other for other in family if other != name))
    return {name: tuple(others) for name, others in related.items()}


_OTHER_FUNCTION = _families(
    "min max", "any all", "sorted reversed list set tuple", "sum len max min", "int float round", "str repr",
    "ord chr", "floor ceil", "hex bin oct",
)  # fmt: skip
_OTHER_METHOD = _families(
    "append extend add", "append appendleft", "pop popleft", "add update discard", "lower upper",
    "swapcase lower upper", "capitalize title upper", "islower isupper", "isalpha isalnum isdigit",
    "startswith endswith", "find rfind index count", "strip lstrip rstrip", "split rsplit splitlines",
    "ljust rjust", "keys values items", "union intersection difference symmetric_difference", "floor ceil",
    "remove discard",
)  # fmt: skip

# Between these an operation needs no parentheses of its own.
_BEFORE = {
    "", "(", "[", "{", ",", "=", ":", ";", "+=", "-=", "*=", "/=", "//=", "%=", "==", "!=", "<", ">", "<=", ">=",
    "return", "if", "elif", "while", "in", "and", "or", "not", "else", "yield", "assert", "is",
}  # fmt: skip
_AFTER = {
    "", ")", "]", "}", ",", ":", ";", "==", "!=", "<", ">", "<=", ">=", "and", "or", "if", "else", "for", "in", "is",
    "not",
}  # fmt: skip


def mutations(source: Source) -> list[Edit]:
    """Every mutation of a program, without repeats, most likely first by prior weight alone.

    Not every one of them parses, and not every one changes the syntax tree.
    """
    best: dict[tuple[int, int, str], Edit] = {}
    for node in ast.walk(source.tree):
        if node in source.unplaced:
            continue
        statement = source.statement_of(node)
        if statement is None:
            continue
        kinds: dict[str, list[Change]] = {}
        for change in _changes(source, node):
            if source.data[change.start : change.end].decode() != change.text:
                kinds.setdefault(change.operator, []).append(change)
        for operator, changes in kinds.items():
            weight = PRIORS[operator] / math.sqrt(len(changes))
            for change in changes:
                first, last = change.lines or source.header(statement)
                edit = Edit(change.start, change.end, change.text, operator, first, last, weight)
                place = (edit.start, edit.end, edit.text)
                if place not in best or best[place].weight < weight:
                    best[place] = edit
    return sorted(best.values(), key=lambda edit: (-edit.weight, edit.start, edit.end, edit.text))


def _changes(source: Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.stmt):
        yield from restructured(source, node)
    for kind, mutate in _BY_KIND:
        if isinstance(node, kind):
            yield from mutate(source, node)
    if isinstance(node, ast.expr) and _is_read(node):
        yield from _slot(source, node)


def _is_read(node: ast.expr) -> bool:
    return not isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _replaced(source: Source, node: ast.AST, text: str, operator: str, *, atom: bool = True) -> Change:
    """A node replaced by other text, in parentheses where an operation would fall apart without."""
    start, end = source.span(node)
    if not atom and not (source.before(start) in _BEFORE and source.after(end) in _AFTER):
        text = f"({text})"
    return Change(start, end, text, operator)


def _instead(
    source: Source, node: ast.AST, operator: str, *texts: str, atom: bool = True
) -> Iterator[Change]:
    """Each of several texts in a node's place."""
    return (_replaced(source, node, text, operator, atom=atom) for text in texts)


def _swapped(source: Source, node: ast.AST, one: ast.AST, other: ast.AST, operator: str = "swap") -> Change:
    """A node with two others inside it the other way round."""
    (start, end), (a, b), (c, d) = map(source.span, (node, one, other))
    data = source.data
    text = data[start:a] + data[c:d] + data[b:c] + data[a:b] + data[d:end]
    return Change(start, end, text.decode(), operator)


def _operator(source: Source, left: ast.AST, right: ast.AST, words: str) -> tuple[int, int] | None:
    """The span of an operator of one or two words between two operands."""
    wanted = words.split()
    tokens = source.between(source.span(left)[1], source.span(right)[0])
    for place, token in enumerate(tokens):
        if [each.text for each in tokens[place : place + len(wanted)]] == wanted:
            return token.start, tokens[place + len(wanted) - 1].end
    return None


_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_IDENTITY = {"is": "==", "is not": "!=", "in": "not in", "not in": "in"}


def _compare(source: Source, node: ast.Compare) -> Iterator[Change]:
    operands = [node.left, *node.comparators]
    for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
        symbol = _SYMBOLS.get(type(operator), "")
        found = _operator(source, left, right, symbol)
        if found is None:
            continue
        if symbol in _BOUNDARY:
            yield Change(*found, _BOUNDARY[symbol], "boundary")
        if symbol in _IDENTITY:
            yield Change(*found, _IDENTITY[symbol], "identity")
        for other in _COMPARISONS.get(symbol, "").split():
            yield Change(*found, other, "comparison")


def _binary(source: Source, node: ast.BinOp) -> Iterator[Change]:
    symbol = _SYMBOLS.get(type(node.op), "")
    found = _operator(source, node.left, node.right, symbol)
    if not symbol or found is None:
        return
    for other in _ARITHMETIC.get(symbol, "").split():
        yield Change(*found, other, "arithmetic")
    if isinstance(node.op, _NOT_COMMUTATIVE):
        yield _swapped(source, node, node.left, node.right)
    for kept in (node.left, node.right):
        yield _replaced(source, node, source.text(kept), "drop", atom=not isinstance(kept, ast.BinOp))


def _boolean(source: Source, node: ast.BoolOp) -> Iterator[Change]:
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in pairwise(node.values):
        found = _operator(source, left, right, word)
        if found is not None:
            yield Change(*found, other, "boolean")
    for place, value in enumerate(node.values):
        start, end = source.span(value)
        if source.before(start) == "(" and source.after(end) == ")":
            continue  # its parentheses would stay behind
        if place:
            yield Change(source.span(node.values[place - 1])[1], end, "", "drop")
        else:
            yield Change(source.span(node)[0], source.span(node.values[1])[0], "", "drop")
    yield _replaced(source, node, f"not ({source.text(node)})", "negation", atom=False)


def _unary(source: Source, node: ast.UnaryOp) -> Iterator[Change]:
    operator = "negation" if isinstance(node.op, ast.Not) else "drop"
    yield _replaced(source, node, source.text(node.operand), operator)


def _constant(source: Source, node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(source.parents.get(node), ast.Expr):
        return  # a docstring
    if isinstance(value, bool):
        yield _replaced(source, node, str(not value), "constant")
    elif isinstance(value, (int, float)):
        if isinstance(value, int) or value.is_integer():
            yield _replaced(source, node, repr(value + 1), "constant")
            yield _replaced(source, node, repr(value - 1), "constant", atom=value >= 1)
        for other in (0, 1, 2, -1, 10):
            if abs(value - other) > 1:
                yield _replaced(source, node, str(other), "far constant", atom=other >= 0)
        if value:
            yield _replaced(source, node, f"-{source.text(node)}", "far constant", atom=False)
        parent = source.parents.get(node)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            others = ('float("inf")', 'float("-inf")', "None", "[]", '""')
            yield from _instead(source, node, "far constant", *others)
        if value in (0, 1, 2):
            yield from _instead(source, node, "name", *_names_near(source, node))
    elif value is None:
        yield from _instead(source, node, "far constant", "0", "[]", "False", "True", '""')
    elif isinstance(value, str) and source.before(source.span(node)[1]) == source.text(node):
        cases = (value.lower(), value.upper(), value.capitalize(), value.strip(), value + " ", " " + value)
        texts = dict.fromkeys((*_near(source.strings, value), *cases, "", " "))
        yield from _instead(source, node, "text", *(repr(text) for text in texts if text != value))


def _container(source: Source, node: ast.List | ast.Dict | ast.Set) -> Iterator[Change]:
    if not getattr(node, "elts", None) and not getattr(node, "keys", None):
        yield from _instead(source, node, "far constant", "[]", "{}", '""', "set()", "0")


def _pair(source: Source, node: ast.Tuple) -> Iterator[Change]:
    starred = any(isinstance(each, ast.Starred) for each in node.elts)
    if len(node.elts) == 2 and _is_read(node) and not starred:
        yield _swapped(source, node, *node.elts)


def _name(source: Source, node: ast.Name) -> Iterator[Change]:
    if not _is_read(node):
        return
    parent = source.parents.get(node)
    if source.is_called(node):
        yield from _instead(source, node, "call", *_OTHER_FUNCTION.get(node.id, ()))
    elif not (isinstance(parent, (ast.arg, ast.AnnAssign)) and parent.annotation is node):
        others = (other for other in _names_near(source, node) if other != node.id)
        yield from _instead(source, node, "name", *others)


def _names_near(source: Source, node: ast.expr) -> Sequence[str]:
    """The variables that a place can read; where they are many, those that occur nearest to it."""
    scope = scope_names(source, node)
    if len(scope) <= NEAREST:
        return scope
    readable = frozenset(scope)
    here = source.span(node)[0]
    around = source.between(max(0, here - AROUND), here + AROUND)
    around.sort(key=lambda token: abs(token.start - here))
    return list(dict.fromkeys(token.text for token in around if token.text in readable))[:NEAREST]


def _near(values: Sequence[str], value: str) -> Sequence[str]:
    """A value's neighbours among all values of its kind, in the order in which the program first has them."""
    place = values.index(value) if len(values) > NEAREST and value in values else 0
    start = max(0, min(place - NEAREST // 2, len(values) - NEAREST))
    return values[start : start + NEAREST]


def _attribute(source: Source, node: ast.Attribute) -> Iterator[Change]:
    end = source.span(node)[1]
    start = end - len(node.attr.encode())
    if source.data[start:end].decode() != node.attr:
        return
    called = source.is_called(node)
    if called:
        for other in _OTHER_METHOD.get(node.attr, ()):
            yield Change(start, end, other, "call")
    if isinstance(node.value, ast.Name):
        for other in _near(source.attributes[node.value.id, called], node.attr):
            if other != node.attr:
                yield Change(start, end, other, "attribute")


def _call(source: Source, node: ast.Call) -> Iterator[Change]:
    arguments = [each for each in node.args if not isinstance(each, (ast.Starred, ast.GeneratorExp))]
    for one, other in pairwise(arguments):
        yield _swapped(source, node, one, other)
        yield Change(source.span(one)[1], source.span(other)[1], "", "drop")
    if isinstance(node.func, ast.Name):
        yield from _builtin(source, node, node.func.id, arguments)
    elif isinstance(node.func, ast.Attribute):
        yield from _method(source, node, node.func, arguments)


def _builtin(source: Source, node: ast.Call, name: str, arguments: list[ast.expr]) -> Iterator[Change]:
    texts = [source.text(each) for each in arguments]
    if name == "range" and len(texts) == len(node.args) and 0 < len(texts) < 4:
        yield from _instead(source, node, "range", *_ranges(*texts))
    elif name in ("sorted", "max", "min") and texts and not node.keywords:
        end = source.span(node)[1]
        more = ", reverse=True)" if name == "sorted" else ", default=0)"
        if source.data[end - 1 : end] == b")" and source.before(end - 1) != ",":
            yield Change(end - 1, end, more, "call")
    elif name == "int" and len(texts) == 1:
        yield _replaced(source, node, f"round({texts[0]})", "call")
    elif name == "round" and len(texts) == 1:
        yield from _instead(source, node, "call", f"int({texts[0]})", f"round({texts[0]}, 2)")


def _ranges(first: str, second: str = "", step: str = "") -> Iterator[str]:
    """Other calls of range() than the one with these arguments."""
    start, stop = (first, second) if second else ("0", first)
    bounds = [(start, f"{stop} + 1"), (start, f"{stop} - 1")]
    if second:
        bounds += [
            (f"{start} + 1", stop),
            (f"{start} - 1", stop),
            (f"{start} + 1", f"{stop} + 1"),
            ("0", stop),
        ]
    bounds += [("1", stop)] if second else [("1", stop), ("1", f"{stop} + 1")]
    for low, high in bounds:
        yield f"range({low}, {high}, {step})" if step else f"range({low}, {high})"
    if not step:
        yield f"range({stop} - 1, {start} - 1, -1)"
        yield f"range({start}, {stop}, 2)"
    elif step == "-1":
        yield f"range({stop} + 1, {start} + 1)"


def _method(
    source: Source, node: ast.Call, method: ast.Attribute, arguments: list[ast.expr]
) -> Iterator[Change]:
    name, owner = method.attr, source.text(method.value)
    texts = [source.text(each) for each in arguments]
    used = not isinstance(source.parents.get(node), ast.Expr)
    bare = not node.args and not node.keywords
    others: list[str] = []
    operations: list[str] = []
    if name == "pop":
        others = [f"{owner}.pop({given})" for given in ("0", "-1") if [given] != texts]
    elif name == "sort" and bare:
        others = [f"{owner}.sort(reverse=True)", *([f"sorted({owner})"] if used else [])]
    elif name == "append" and len(texts) == 1:
        others = [f"{owner}.insert(0, {texts[0]})", f"{owner}.append(list({texts[0]}))"]
        operations = [f"{owner} + [{texts[0]}]"] if used else []
    elif name in ("issubset", "issuperset", "startswith", "endswith") and len(texts) == 1:
        operations = [f"{owner} == {texts[0]}"]
    elif name == "get" and len(texts) == 1:
        others = [f"{owner}.get({texts[0]}, 0)"]
    elif name == "split":
        others = [f"{owner}.split({given})" for given in ("", '" "', '","')]
    yield from _instead(source, node, "call", *others)
    yield from _instead(source, node, "call", *operations, atom=False)


def _subscript(source: Source, node: ast.Subscript) -> Iterator[Change]:
    inner = node.value
    if isinstance(inner, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        one, other = source.span(inner.slice), source.span(node.slice)
        if source.data[one[1] : other[0]].strip() == b"][":
            yield _swapped(source, node, inner.slice, node.slice)
    if _is_read(node):
        yield _replaced(source, node, source.text(inner), "drop")


def _slice(source: Source, node: ast.Slice) -> Iterator[Change]:
    if not isinstance(source.parents.get(node), ast.Subscript):
        return
    lower = source.text(node.lower) if node.lower else ""
    upper = source.text(node.upper) if node.upper else ""
    step = f":{source.text(node.step)}" if node.step else ""
    span = source.span(node)
    others = [("", upper), (lower, "")]
    others += [(f"{lower} + 1", upper), (f"{lower} - 1", upper)] if lower else [("1", upper)]
    others += [(lower, f"{upper} + 1"), (lower, f"{upper} - 1")] if upper else [(lower, "-1")]
    if lower and upper:
        others.append((lower, f"{lower} + {upper}"))
    for low, high in others:
        yield Change(*span, f"{low}:{high}{step}", "slice")
    yield Change(*span, f"{lower}:{upper}{'' if step else ':-1'}", "slice")


def _conditional(source: Source, node: ast.IfExp) -> Iterator[Change]:
    yield _swapped(source, node, node.body, node.orelse, "negation")
    yield from _instead(source, node, "drop", source.text(node.body), source.text(node.orelse))


def _comprehension(source: Source, node: ast.comprehension) -> Iterator[Change]:
    for test in node.ifs:
        start, end = source.span(test)
        tokens = [token for token in source.between(source.span(node.iter)[1], start) if token.text == "if"]
        if tokens and source.before(start) == "if":
            yield Change(tokens[-1].start, end, "", "drop")


def _slot(source: Source, node: ast.expr) -> Iterator[Change]:
    """What can be done to a value because of where it stands: as a condition, an index, a result, …"""
    parent = source.parents.get(node)
    text = source.text(node)
    if _is_condition(parent, node):
        if not isinstance(node, (ast.UnaryOp, ast.Constant)):
            negated = f"not {text}" if isinstance(node, _TIGHT) else f"not ({text})"
            yield _replaced(source, node, negated, "negation", atom=False)
        return
    if isinstance(node, (ast.Constant, ast.Starred, ast.GeneratorExp, ast.Slice, ast.Lambda, ast.JoinedStr)):
        return
    shifted = isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant)
    if _is_counted(parent, node) and not shifted and isinstance(node, (*_TIGHT, ast.BinOp)):
        yield from _instead(source, node, "off by one", f"{text} - 1", f"{text} + 1", atom=False)
    if isinstance(parent, ast.For) and parent.iter is node and not _is_call_of(node, "range"):
        others = (f"{text}[1:]", f"{text}[:-1]", f"reversed({text})", f"sorted({text})", f"list({text})")
        yield from _instead(source, node, "iteration", *others)
    if isinstance(parent, ast.BinOp) and isinstance(node, (ast.Name, ast.Subscript, ast.Call)):
        yield from _wrapped(source, node, text, _CONVERSIONS)
    if isinstance(parent, ast.Assign) and isinstance(node, _TIGHT):
        yield _replaced(source, node, f"not {text}", "negation", atom=False)
    if _is_value(parent, node) and not isinstance(node, (ast.Tuple, ast.Dict, ast.Compare, ast.BoolOp)):
        yield from _wrapped(source, node, text, _WRAPPERS)
        plain = isinstance(node, (*_TIGHT, ast.List, ast.ListComp))
        if plain:
            more = ("[::-1]", ".lower()", ".strip()", "[0]", "[-1]", "[:]")
            yield from _instead(source, node, "wrap", *(text + each for each in more))
        yield _replaced(source, node, f"-{text}" if plain else f"-({text})", "wrap", atom=False)


def _wrapped(source: Source, node: ast.expr, text: str, names: Sequence[str]) -> Iterator[Change]:
    others = (f"{name}({text})" for name in names if not _is_call_of(node, name))
    return _instead(source, node, "wrap", *others)


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _is_condition(parent: ast.AST | None, node: ast.expr) -> bool:
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is node
    if isinstance(parent, ast.comprehension):
        return node in parent.ifs
    if isinstance(parent, ast.Return):
        return isinstance(node, ast.Compare)
    return isinstance(parent, ast.BoolOp)


def _is_counted(parent: ast.AST | None, node: ast.expr) -> bool:
    """Whether a value is one that is easily one too many or one too few."""
    if isinstance(parent, ast.Compare):
        return not isinstance(parent.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot))
    if isinstance(parent, ast.Subscript):
        return parent.slice is node
    if isinstance(parent, ast.Call):
        return node in parent.args and not _is_call_of(parent, "len")
    if isinstance(parent, ast.BinOp):
        return isinstance(node, (ast.Name, ast.Call))
    return isinstance(parent, (ast.Return, ast.Assign, ast.AugAssign, ast.IfExp))


def _is_value(parent: ast.AST | None, node: ast.expr) -> bool:
    """Whether a value is handed on whole."""
    if isinstance(parent, ast.Call):
        return node in parent.args and not _is_call_of(parent, "range")
    if isinstance(parent, ast.comprehension):
        return parent.iter is node
    if isinstance(parent, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return parent.elt is node
    return isinstance(parent, (ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.Compare))


_BY_KIND: tuple[tuple[Any, Callable[[Source, Any], Iterator[Change]]], ...] = (
    (ast.Compare, _compare),
    (ast.BinOp, _binary),
    (ast.BoolOp, _boolean),
    (ast.UnaryOp, _unary),
    (ast.Constant, _constant),
    ((ast.List, ast.Dict), _container),
    (ast.Tuple, _pair),
    (ast.Name, _name),
    (ast.Attribute, _attribute),
    (ast.Call, _call),
    (ast.Subscript, _subscript),
    (ast.Slice, _slice),
    (ast.IfExp, _conditional),
    (ast.comprehension, _comprehension),
)
