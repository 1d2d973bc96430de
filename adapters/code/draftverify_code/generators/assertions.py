"""A check function whose body is a list of asserts, as that list: a result for each assert instead of one for all."""

from __future__ import annotations

import ast

import msgspec

from draftverify_code.generators.edits import Edit, Source, applied
from draftverify_code.sandbox import Suite

__all__ = ["one_by_one"]


def one_by_one(suite: Suite) -> Suite:
    """A "check" or "script" suite as an "asserts" suite where all that it does is to assert; else as it is.

    What stands beside the asserts of a script, or around the check function, is set up first.

    Args:
        suite: of any kind.
    """
    if suite.kind not in ("check", "script") or not suite.entry_points:
        return suite
    try:
        source = Source(suite.source)
    except SyntaxError:
        return suite
    top = source.tree.body
    if suite.kind == "script":
        asserts = [each for each in top if isinstance(each, ast.Assert)]
        others = [each for each in top if not isinstance(each, ast.Assert)]
        late = asserts and any(each.lineno > asserts[0].lineno for each in others)
        called = "" if asserts and not late else None
    else:
        checks = [each for each in top if isinstance(each, ast.FunctionDef) and each.name == "check"]
        asserts, called = _flat(checks[0]) if len(checks) == 1 else ([], None)
        others = [each for each in top if each not in checks]
    if called is None:
        return suite
    # "assert True", which some tests end with, says nothing of any program.
    telling = [each for each in asserts if not (isinstance(each.test, ast.Constant) and each.test.value)]
    asserts = telling or asserts
    setup = "\n".join([suite.setup, *(source.text(each) for each in others)])
    texts = [_renamed(source.text(each), called, suite.entry_points[0]) for each in asserts]
    if None in texts:
        return suite
    return msgspec.structs.replace(suite, kind="asserts", source="", asserts=tuple(texts), setup=setup)


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
