"""A script of asserts taken apart, and the global names that a text reads and binds."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection

from draftverify_code.generators.edits import ProgramSource
from draftverify_code.names import bound, is_definition

__all__ = ["global_names", "separated"]


def separated(source: ProgramSource, functions: Collection[str]) -> tuple[list[ast.Assert], list[str]] | None:
    """The asserts of a script, and the texts of its other statements; None where order matters among them.

    It does not where the others can all be executed first: none of them asserts or names one of the functions, and
    those that follow an assert only bind names that do not occur before.

    Args:
        source: the script.
        functions: those of the program, which there are none of while the other statements are executed.
    """
    asserts: list[ast.Assert] = []
    rest: list[str] = []
    earlier: set[str] = set()
    for statement in source.tree.body:
        text = _text(source, statement)
        try:
            read, binds = global_names(text)
        except SyntaxError:
            return None  # it does not stand alone
        if isinstance(statement, ast.Assert):
            if binds:
                return None
            asserts.append(statement)
        else:
            if _tests(statement, functions) or (asserts and (binds & earlier or not _only_binds(statement))):
                return None
            rest.append(text)
        earlier |= read | binds
    return asserts, rest


def global_names(text: str) -> tuple[set[str], set[str]]:
    """The names that Python reads from its globals, and those that it binds there.

    Raises:
        SyntaxError: it does not compile.
    """
    read: set[str] = set()
    bound: set[str] = set()
    try:
        tables = [symtable.symtable(text, "<text>", "exec")]
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from error
    for table in tables:
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if top or symbol.is_global():
                if symbol.is_referenced():
                    read.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported():
                    bound.add(symbol.get_name())
        tables.extend(table.get_children())
    return read, bound


def _tests(statement: ast.stmt, functions: Collection[str]) -> bool:
    """Whether a statement asserts something or names one of the functions."""
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id in functions)
        for node in ast.walk(statement)
    )


def _only_binds(statement: ast.stmt) -> bool:
    """Whether all that a statement does is to give names their values, whenever it is executed."""
    if is_definition(statement):
        return "*" not in bound(statement)
    return isinstance(statement, (ast.Assign, ast.Expr, ast.Pass)) and not any(
        isinstance(node, (ast.Call, ast.Await))
        or (isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store))
        for node in ast.walk(statement)
    )


def _text(source: ProgramSource, statement: ast.stmt) -> str:
    """What stands at a statement's place, its decorators included."""
    start, end = source.span(statement)
    for decorator in getattr(statement, "decorator_list", [])[:1]:
        start = source.data.rindex(b"@", 0, source.span(decorator)[0])
    return source.data[start:end].decode()
