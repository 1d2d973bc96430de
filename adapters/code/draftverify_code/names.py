"""The names that a piece of Python's syntax tree binds, and those of outside that it uses."""

from __future__ import annotations

import ast
import builtins
import symtable

from draftverify_code.sandbox.suite import globals_of

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def bound(node: ast.AST) -> list[str]:
    """The names that this very node binds."""
    if isinstance(node, FUNCTIONS):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [name for target in targets for inner in ast.walk(target) for name in bound(inner)]
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name else []
    return []


def binds(node: ast.AST) -> set[str]:
    """The names that are bound anywhere in it."""
    return {name for inner in ast.walk(node) for name in bound(inner)}


def free(node: ast.AST) -> set[str]:
    """The names that are read in it and bound nowhere in it."""
    names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
    return {name.id for name in names if isinstance(name.ctx, ast.Load)} - binds(node)


def reads(node: ast.AST) -> set[str]:
    """The names of outside that it uses: those that it reads or declares global; `stdin` for `sys.stdin`."""
    names = free(node)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Global):
            names.update(inner.names)
        elif isinstance(inner, ast.Attribute) and inner.attr == "stdin":
            names.add("stdin")
    return names


def global_names(text: str) -> tuple[set[str], set[str]]:
    """The names that Python reads from its globals, and those that it binds there.

    Raises:
        SyntaxError: it does not compile.
    """
    try:
        return globals_of(symtable.symtable(text, "<text>", "exec"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from error


def root(node: ast.AST) -> str:
    """The name that a chain of attributes and subscripts begins with; "" when it begins with something else."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_definition(statement: ast.AST) -> bool:
    """Whether it defines a function or a class, or imports."""
    return isinstance(statement, (*FUNCTIONS, ast.Import, ast.ImportFrom))
