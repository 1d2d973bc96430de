"""Which statements at the end of a program only show or try its entry point: when in doubt one stays."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from draftverify_code.names import BUILTINS, binds, bound, is_definition, reads, root

_SHOWING = ("print", "pprint", "testmod", "exit", "quit")  # calls that serve no function
_TESTING = ("doctest", "unittest", "pytest")


def before_examples(body: Sequence[ast.stmt], entry_point: str) -> int:
    """How many statements of a top level stand before the examples at its end.

    Args:
        body: the top level.
        entry_point: a name that it binds.
    """
    definitions = [statement for statement in body if is_definition(statement)]
    defined = {name for statement in definitions for name in bound(statement)} | {entry_point}
    asking, idle = (
        {"input", "stdin"},
        set(BUILTINS),
    )  # with the functions that read input, and that change nothing
    needed = {entry_point}.union(*map(reads, definitions))
    for statement in reversed(body):
        if needed & binds(statement):
            needed |= reads(statement)

    def serves_nothing(statement: ast.stmt) -> bool:
        if is_definition(statement):
            return False
        if isinstance(statement, (ast.Assert, ast.Raise)) or _is_showing(statement):
            return True
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            return True
        # Of a compound statement the head; what is in it is looked at by itself.
        children = ast.iter_child_nodes(statement)
        heads = [part for part in children if isinstance(part, (ast.expr, ast.withitem))]
        nodes = [node for head in heads for node in ast.walk(head)]
        parts = {root(node) for node in nodes if _is_part_assigned(node)}
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        if not (calls or parts):
            return True
        is_plain = all(isinstance(called, ast.Name) and called.id in idle for called in calls)
        return (is_plain or entry_point in names) and not (names & needed - defined or parts & defined)

    def is_example(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If) and "__name__" in reads(statement.test):
            return True
        if is_definition(statement) or needed & binds(statement):
            return False
        parts = (part for part in ast.walk(statement) if isinstance(part, ast.stmt))
        return bool(asking & reads(statement)) or all(map(serves_nothing, parts))

    for function in definitions:
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name != entry_point:
            parts = (
                part for part in ast.walk(function) if isinstance(part, ast.stmt) and part is not function
            )
            if all(serves_nothing(part) and not needed & binds(part) for part in parts):
                idle.add(function.name)
            if asking & reads(function):
                asking.add(function.name)

    keep = len(body)
    while keep and is_example(body[keep - 1]):
        keep -= 1
    return keep


def _is_part_assigned(node: ast.AST) -> bool:
    return isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)


def _is_showing(statement: ast.stmt) -> bool:
    """Whether it prints, runs tests or ends the program."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    called = statement.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _SHOWING or root(called) in _TESTING
