"""Which statements at the end of a program only show or try its entry point, and which it needs."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set

from draftverify_code.names import BUILTINS, binds, bound, is_definition, reads, root

__all__ = ["before_examples"]

_SHOWING = ("print", "pprint", "testmod", "exit", "quit")  # calls that serve no function
_TESTING = ("doctest", "unittest", "pytest")


def before_examples(body: Sequence[ast.stmt], entry_point: str) -> int:
    """How many statements of a top level stand before the examples at its end.

    Args:
        body: the top level.
        entry_point: a name that it binds.
    """
    examples = _Examples(body, entry_point)
    keep = len(body)
    while keep and examples.holds(body[keep - 1]):
        keep -= 1
    return keep


class _Examples:
    """Tells the statements that show or try an entry point from those that it needs.

    Names are followed through the top level: what a function reads, what a call of it may change.

    Args:
        body, entry_point: as of `before_examples`.
    """

    def __init__(self, body: Sequence[ast.stmt], entry_point: str) -> None:
        # A graph of names and of places in the body: from a name to what binds it, from there to what that reads.
        used: dict[str | int, set[str | int]] = {}
        readers: dict[str | int, set[str | int]] = {}
        imported: set[str] = set()
        self._defined = {entry_point}
        required: set[str] = set()
        for place, statement in enumerate(body):
            if is_definition(statement):
                required |= reads(statement)
                self._defined.update(bound(statement))
                if isinstance(statement, (ast.Import, ast.ImportFrom)):
                    imported.update(bound(statement))
            for name in bound(statement):
                used.setdefault(name, set()).add(place)
                readers.setdefault(place, set()).add(name)
            for name in reads(statement):
                used.setdefault(place, set()).add(name)
                readers.setdefault(name, set()).add(place)
        reached = _connected({entry_point}, used)
        self._own = {node for node in reached if isinstance(node, str)} - imported
        self._needed = self._own | required
        self._showing = _connected({entry_point}, readers)
        self._asking = _connected({"input", "stdin"}, readers, around=reached)
        changing: set[str | int] = {
            place
            for place, statement in enumerate(body)
            if place not in reached
            and is_definition(statement)
            and self._changed(statement) & reads(statement)
        }
        self._changing = _connected(changing, readers, around=reached)

    def holds(self, statement: ast.stmt) -> bool:
        """Whether it is an example."""
        if isinstance(statement, ast.If) and "__name__" in reads(statement.test):
            return True
        if is_definition(statement) or self._needed & binds(statement):
            return False
        return bool(self._asking & reads(statement)) or all(
            self._serves_nothing(inner) for inner in ast.walk(statement) if isinstance(inner, ast.stmt)
        )

    def _serves_nothing(self, statement: ast.stmt) -> bool:
        """Whether it does nothing that the entry point needs; of a compound statement, its head."""
        if is_definition(statement):
            return False
        if hasattr(statement, "body") or isinstance(statement, ast.Match):
            head = (part for part in ast.iter_child_nodes(statement) if not isinstance(part, ast.stmt))
            return not any(self._changes(part) for part in head if isinstance(part, (ast.expr, ast.withitem)))
        if isinstance(statement, (ast.Assert, ast.Raise)) or _is_showing(statement):
            return True
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            return True
        nodes = ast.walk(statement)
        if not any(isinstance(inner, ast.Call) or _is_part_assigned(inner) for inner in nodes):
            return True
        return bool(self._showing & reads(statement)) and not self._changes(statement)

    def _changes(self, node: ast.AST) -> bool:
        return bool(self._changed(node) or self._changing & reads(node))

    def _changed(self, node: ast.AST) -> set[str]:
        """The names of what the entry point reads that it may change: assigns to, calls a method of, hands on."""
        names: set[str] = set()
        for inner in ast.walk(node):
            if _is_part_assigned(inner):
                names.add(root(inner))
            elif isinstance(inner, ast.Global):
                names.update(inner.names)
            elif isinstance(inner, ast.Call):
                handed = [inner.func.value] if isinstance(inner.func, ast.Attribute) else []
                if not (isinstance(inner.func, ast.Name) and inner.func.id in BUILTINS):
                    handed += [*inner.args, *(keyword.value for keyword in inner.keywords)]
                # A function or a class that is handed on, or whose method is called, is tried.
                names.update(
                    root(some)
                    for some in handed
                    if not (isinstance(some, ast.Name) and some.id in self._defined)
                )
        return names & self._own


def _connected(
    start: set[str] | set[str | int],
    graph: Mapping[str | int, set[str | int]],
    around: Set[str | int] = frozenset(),
) -> set[str | int]:
    """What is reached from the start, itself included, through nothing that is gone around."""
    reached: set[str | int] = set(start)
    ahead = list(reached)
    while ahead:
        new = graph.get(ahead.pop(), set()) - reached - around
        reached |= new
        ahead += new
    return reached


def _is_part_assigned(node: ast.AST) -> bool:
    return isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)


def _is_showing(statement: ast.stmt) -> bool:
    """Whether it prints, runs tests or ends the program."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    called = statement.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _SHOWING or root(called) in _TESTING
