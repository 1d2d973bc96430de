"""A script or a check function that only asserts, as a list of asserts: a result for each instead of one for all."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection

import msgspec

from draftverify_code.generators.edits import Edit, Source, applied
from draftverify_code.names import bound, is_definition
from draftverify_code.sandbox import Suite

__all__ = ["global_names", "one_by_one", "separated"]


def one_by_one(suite: Suite) -> Suite:
    """A "check" or "script" suite as an "asserts" suite where all that it does is to assert; else as it is.

    What stands beside the asserts of a script, or around the check function, is set up first, where it can be.

    Args:
        suite: of any kind.
    """
    if suite.kind not in ("check", "script") or not suite.entry_points:
        return suite
    try:
        source = Source(suite.source)
    except SyntaxError:
        return suite
    if suite.kind == "script":
        asserts, others = separated(source, suite.entry_points) or ([], [])
        called = "" if asserts else None
    else:
        top = source.tree.body
        checks = [each for each in top if isinstance(each, ast.FunctionDef) and each.name == "check"]
        asserts, called = _flat(checks[0]) if len(checks) == 1 else ([], None)
        rest = [each for each in top if each not in checks]
        if any(_tests(each, {"check", *suite.entry_points}) for each in rest):
            return suite
        others = [_text(source, each) for each in rest]
    if called is None:
        return suite
    # "assert True", which some tests end with, says nothing of any program.
    telling = [each for each in asserts if not (isinstance(each.test, ast.Constant) and each.test.value)]
    asserts = telling or asserts
    setup = "\n".join([suite.setup, *others])
    texts = [_renamed(source.text(each), called, suite.entry_points[0]) for each in asserts]
    if None in texts:
        return suite
    return msgspec.structs.replace(suite, kind="asserts", source="", asserts=tuple(texts), setup=setup)


def separated(source: Source, functions: Collection[str]) -> tuple[list[ast.Assert], list[str]] | None:
    """The asserts of a script, and the texts of its other statements; None where order matters among them.

    It does not where the others can all be executed first: none of them asserts or names one of the functions, and
    those that follow an assert only bind names that do not occur before.

    Args:
        source: the script.
        functions: those of the program, which there are none of while the other statements are executed.
    """
    asserts: list[ast.Assert] = []
    others: list[str] = []
    before: set[str] = set()
    for each in source.tree.body:
        text = _text(source, each)
        try:
            read, own = global_names(text)
        except SyntaxError:
            return None  # it does not stand alone
        if isinstance(each, ast.Assert):
            if own:
                return None
            asserts.append(each)
        else:
            if _tests(each, functions) or (asserts and (own & before or not _only_binds(each))):
                return None
            others.append(text)
        before |= read | own
    return asserts, others


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


def _text(source: Source, statement: ast.stmt) -> str:
    """What stands at a statement's place, its decorators included."""
    start, end = source.span(statement)
    for decorator in getattr(statement, "decorator_list", [])[:1]:
        start = source.data.rindex(b"@", 0, source.span(decorator)[0])
    return source.data[start:end].decode()


def _flat(check: ast.FunctionDef) -> tuple[list[ast.Assert], str | None]:
    """The asserts of a check function, and what its argument is called; None when it does more than assert."""
    asserts = [each for each in check.body if isinstance(each, ast.Assert)]
    rest = [
        each
        for each in check.body
        if not isinstance(each, (ast.Assert, ast.Pass))
        and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    arguments = check.args.args
    if rest or not asserts or len(arguments) != 1:
        return [], None
    return asserts, arguments[0].arg


def _renamed(text: str, name: str, instead: str) -> str | None:
    """A statement with one variable called otherwise; None when it cannot be read alone."""
    try:
        source = Source(text)
    except SyntaxError:
        return None
    edits = [
        Edit(*source.span(node), instead, "name", 1, 1, 1.0)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and node.id == name and node not in source.unplaced
    ]
    return applied(text, *edits)
