"""Mutations of whole statements: one less, another order, in or out of a block, a guard or a return more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from draftverify_code.generators.edits import Source

__all__ = ["NEAREST", "Change", "restructured", "scope_names"]

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPOUND = (ast.For, ast.While, ast.AsyncFor, ast.If, ast.With, ast.Try)
NEAREST = 20  # other names, texts or attributes that are tried in one place
_JUMPS = {ast.Break: ("continue",), ast.Continue: ("break",), ast.Pass: ("continue", "break", "return")}
_SIGNS = {"+=": "-= = *=", "-=": "+= =", "*=": "+= //=", "//=": "*= /= -="}


class Change(NamedTuple):
    """A span in bytes, what stands there instead, the kind of mutation; `lines` if they are not the statement's."""

    start: int
    end: int
    text: str
    operator: str
    lines: tuple[int, int] | None = None


def scope_names(source: Source, node: ast.AST) -> tuple[str, ...]:
    """The variables that a place in a function can read: arguments, and names bound in it or in functions around."""
    scope = _function_around(source, node) or source.tree
    if scope not in source.names:
        outer = (
            scope_names(source, scope) if scope is not source.tree and _function_around(source, scope) else ()
        )
        source.names[scope] = tuple(dict.fromkeys((*_bound(scope), *outer)))
    return source.names[scope]


def _function_around(source: Source, node: ast.AST) -> ast.AST | None:
    around = source.parents.get(node)
    while around is not None and not isinstance(around, (*FUNCTIONS, ast.Lambda)):
        around = source.parents.get(around)
    return around


def _bound(function: ast.AST) -> Iterator[str]:
    if isinstance(function, (*FUNCTIONS, ast.Lambda)):
        given = function.args
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            if each.arg not in ("self", "cls"):
                yield each.arg
    waiting: list[ast.AST] = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def restructured(source: Source, statement: ast.stmt) -> Iterator[Change]:
    """The mutations of one statement, as a whole."""
    if isinstance(statement, FUNCTIONS):
        yield from _function(source, statement)
        return
    yield from _words(source, statement)
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Global, ast.Nonlocal)):
        return
    lines = source.whole_lines(statement)
    if lines is None or _is_docstring(source, statement):
        return
    block = source.block_of(statement)
    place = block.index(statement)
    if len(block) > 1:
        yield Change(*lines, "", "delete", source.header(statement))
    elif not isinstance(statement, ast.Pass):
        yield Change(*source.span(statement), "pass", "delete")
    following = block[place + 1] if place + 1 < len(block) else None
    if following is not None:
        yield from _with_following(source, statement, following, lines)
    yield from _moved_out(source, block, place)


def _is_docstring(source: Source, statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _words(source: Source, statement: ast.stmt) -> Iterator[Change]:
    """Another keyword or another sign of assignment."""
    start, end = source.span(statement)
    if isinstance(statement, (ast.Break, ast.Continue, ast.Pass)):
        for word in _JUMPS[type(statement)]:
            yield Change(start, end, word, "jump")
    elif isinstance(statement, ast.AugAssign):
        tokens = source.between(source.span(statement.target)[1], source.span(statement.value)[0])
        for token in tokens[:1]:
            for other in _SIGNS.get(token.text, "+= -=").split():
                yield Change(token.start, token.end, other, "augmented")
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, (ast.Name, ast.Subscript, ast.Attribute)):
            tokens = source.between(source.span(target)[1], source.span(statement.value)[0])
            for token in tokens[:1]:
                for other in ("+=", "-=") if token.text == "=" else ():
                    yield Change(token.start, token.end, other, "augmented")
        if _function_around(source, statement) is not None and isinstance(target, ast.Name):
            yield Change(start, source.span(statement.value)[0], "return ", "return")
    elif isinstance(statement, ast.Return):
        yield from _result(source, statement)
    elif isinstance(statement, ast.Expr):
        value = statement.value
        if isinstance(value, ast.Yield) and value.value is not None:
            yield Change(start, source.span(value.value)[0], "yield from ", "return")
        elif isinstance(value, ast.YieldFrom):
            yield Change(start, source.span(value.value)[0], "yield ", "return")
        elif not isinstance(value, ast.Constant) and _function_around(source, statement) is not None:
            yield Change(start, start, "return ", "return")


def _result(source: Source, statement: ast.Return) -> Iterator[Change]:
    """Another result: a variable, or the simplest values."""
    span = source.span(statement)
    for name in scope_names(source, statement):
        yield Change(*span, f"return {name}", "return")
    for simple in ("True", "False", "0", "1", "-1", "None", "[]", '""'):
        yield Change(*span, f"return {simple}", "guard")
    value = statement.value
    text = source.text(value) if value is not None else ""
    if isinstance(value, (ast.Compare, ast.BoolOp, ast.Call, ast.Name)):
        plain = isinstance(value, (ast.Call, ast.Name))
        yield Change(*span, f"return not {text}" if plain else f"return not ({text})", "negation")
    elif isinstance(value, ast.BinOp):
        yield Change(*span, f"return {text} + 1", "off by one")
        yield Change(*span, f"return {text} - 1", "off by one")


def _with_following(
    source: Source, statement: ast.stmt, following: ast.stmt, lines: tuple[int, int]
) -> Iterator[Change]:
    """The two the other way round, or the second one moved into the first."""
    after = source.whole_lines(following)
    if after is None or after[0] < lines[1] or isinstance(following, (*FUNCTIONS, ast.ClassDef)):
        return
    both = source.header(statement)[0], source.header(following)[1]
    data = source.data
    first, between, second = data[slice(*lines)], data[lines[1] : after[0]], data[slice(*after)]
    if not second.endswith((b"\n", b"\r")):
        second += b"\n"
    yield Change(lines[0], after[1], (second + between + first).decode(), "order", both)
    inner = _last_block(statement)
    if inner and source.whole_lines(inner[-1]) is not None and _can_move(following):
        deeper, indent = source.indent(inner[-1]), source.indent(following)
        yield Change(*after, _reindented(second.decode(), indent, deeper), "indent", source.header(following))


def _last_block(statement: ast.stmt) -> list[ast.stmt]:
    """The statements that stand last in a compound one; [] of a plain one."""
    if not isinstance(statement, COMPOUND):
        return []
    for name in ("finalbody", "orelse", "handlers", "body"):
        block = getattr(statement, name, None)
        if block:
            return block if name != "handlers" else block[-1].body
    return []


def _moved_out(source: Source, block: Sequence[ast.stmt], place: int) -> Iterator[Change]:
    """The last one or two of a block, moved behind it."""
    parent = source.parents[block[0]]
    if isinstance(parent, ast.ExceptHandler):
        parent = source.parents[parent]
    if (
        place == 0
        or place < len(block) - 2
        or not isinstance(parent, COMPOUND)
        or _last_block(parent) is not block
    ):
        return
    moved = block[place:]
    spans = [source.whole_lines(each) for each in moved]
    if None in spans or not all(map(_can_move, moved)) or source.whole_lines(parent) is None:
        return
    start, end = spans[0][0], spans[-1][1]  # type: ignore[index]
    text = _reindented(source.data[start:end].decode(), source.indent(moved[0]), source.indent(parent))
    yield Change(start, end, text, "indent", (moved[0].lineno, source.header(moved[-1])[1]))


def _can_move(statement: ast.stmt) -> bool:
    """Whether its lines can be shifted without changing a text in it."""
    return not any(
        isinstance(node, (ast.Constant, ast.JoinedStr)) and node.lineno != node.end_lineno
        for node in ast.walk(statement)
    )


def _reindented(text: str, indent: str, instead: str) -> str:
    return re.sub(
        rf"^{re.escape(indent)}(?=\S)|^{re.escape(indent)}(?=[ \t]+\S)", instead, text, flags=re.MULTILINE
    )


def _function(source: Source, function: Function) -> Iterator[Change]:
    """A guard at its start, a result at its end."""
    body = [each for each in function.body if not _is_docstring(source, each)]
    if not body:
        return
    first, last = source.whole_lines(body[0]), source.whole_lines(body[-1])
    if first is None or last is None or isinstance(body[0], (*FUNCTIONS, ast.ClassDef)):
        return
    names = list(dict.fromkeys(_bound(function)))
    given = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
    indent = source.indent(body[0])
    lines = (body[0].lineno, body[0].lineno)
    step = "\t" if indent.startswith("\t") else "    "
    for name in given:
        tests = (f"not {name}", f"{name} <= 0", f"{name} == 1", f"{name} < 2", f"len({name}) < 2")
        for test in tests:
            for value in ("[]", "0", "False", "True", '""', "None", "-1", "1", name):
                text = f"{indent}if {test}:\n{indent}{step}return {value}\n"
                yield Change(first[0], first[0], text, "guard", lines)
    if not isinstance(body[-1], (ast.Return, ast.Raise)):
        end = (body[-1].lineno, body[-1].end_lineno or body[-1].lineno)
        ended = source.data[: last[1]].endswith((b"\n", b"\r"))
        for value in (*names, "True", "False", "None", "0", "-1", "[]"):
            text = f"{indent}return {value}\n" if ended else f"\n{indent}return {value}"
            yield Change(last[1], last[1], text, "return", end)
