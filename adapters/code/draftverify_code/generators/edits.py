"""Small changes to a program's text: where the nodes of its syntax tree and its tokens stand, in bytes.

A syntax tree counts columns in UTF-8 bytes and a token in characters; both become offsets into the encoded text here,
so that a change is one span of bytes replaced, and the rest of the text, comments and layout with it, stays.
"""

from __future__ import annotations

import ast
import bisect
import hashlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property

import msgspec

__all__ = ["Edit", "Source", "Token", "applied", "fingerprint"]

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_PARSING = (SyntaxError, ValueError, RecursionError, MemoryError)


class Edit(msgspec.Struct, frozen=True, gc=False):
    """One span of a program replaced.

    Args:
        start, end: the span, in bytes of the UTF-8 text.
        text: what stands there instead.
        operator: which kind of mutation it is; a key of `PRIORS`.
        first, last: the lines, from 1, whose statement it changes.
        weight: how likely it is a fix, before anything is known of the tests; above 0.
    """

    start: int
    end: int
    text: str
    operator: str
    first: int
    last: int
    weight: float


class Token(msgspec.Struct, frozen=True, gc=False):
    """A token and its span in bytes; the text of one that ends a line is ""."""

    text: str
    start: int
    end: int


def applied(program: str, *edits: Edit) -> str:
    """The program with the edits made, whose spans do not overlap."""
    data = program.encode()
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode()


def fingerprint(program: str) -> bytes | None:
    """The same for two programs with the same syntax tree, whatever their layout; None for one that does not parse."""
    try:
        tree = ast.dump(ast.parse(program))
    except _PARSING:
        return None
    return hashlib.blake2b(tree.encode(errors="surrogatepass"), digest_size=16).digest()


class Source:
    """A program that parses, with offsets.

    Args:
        program: its text.

    Raises:
        SyntaxError: it does not parse, or it cannot be encoded.
    """

    def __init__(self, program: str) -> None:
        try:
            self.data = program.encode()
            self.tree = ast.parse(program)
        except SyntaxError:
            raise
        except _PARSING as error:
            raise SyntaxError(str(error)) from error
        self.starts = [match.start() for match in _LINE.finditer(self.data)]
        self.parents: dict[ast.AST, ast.AST] = {}
        self.names: dict[ast.AST, tuple[str, ...]] = {}
        """By function, or by the whole tree, the variables that can be read in it; filled by who asks."""
        inside_text: list[ast.AST] = []
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.JoinedStr):
                inside_text.append(node)
        # Before Python 3.12 the nodes inside an f-string say wrong places.
        self.unplaced = {inner for node in inside_text for inner in ast.walk(node) if inner is not node}
        self.tokens = list(self._tokens(program))
        self._token_starts = [token.start for token in self.tokens]

    def _tokens(self, program: str) -> Iterator[Token]:
        lines = [self.data[a:b].decode() for a, b in zip(self.starts, [*self.starts[1:], None], strict=True)]

        def offset(row: int, column: int) -> int:
            if row > len(lines):
                return len(self.data)
            return self.starts[row - 1] + len(lines[row - 1][:column].encode())

        if "\r" in program.replace("\r\n", ""):
            return  # tokens and trees do not agree on where such lines end
        try:
            for kind, text, start, end, _ in tokenize.generate_tokens(io.StringIO(program).readline):
                if kind in (tokenize.NEWLINE, tokenize.ENDMARKER):
                    yield Token("", offset(*start), offset(*end))
                elif kind not in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                    yield Token(text, offset(*start), offset(*end))
        except (tokenize.TokenError, SyntaxError, IndexError):
            return

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """The short strings of the program, docstrings apart."""
        return tuple(
            dict.fromkeys(
                node.value
                for node in ast.walk(self.tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and len(node.value) <= 40
                and node not in self.unplaced
                and not isinstance(self.parents.get(node), ast.Expr)
            )
        )

    @cached_property
    def attributes(self) -> dict[tuple[str, bool], tuple[str, ...]]:
        """The attributes that the program reads of each variable, those that it calls (True) and the others."""
        found: dict[tuple[str, bool], dict[str, None]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.setdefault((node.value.id, self.is_called(node)), {})[node.attr] = None
        return {key: tuple(names) for key, names in found.items()}

    def is_called(self, node: ast.expr) -> bool:
        """Whether a value is what a call calls."""
        parent = self.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node stands, in bytes."""
        return (
            self.starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self.starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def text(self, node: ast.AST) -> str:
        """What stands at a node's place."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def between(self, start: int, end: int) -> list[Token]:
        """The tokens inside a span, line ends excepted."""
        low = bisect.bisect_left(self._token_starts, start)
        high = bisect.bisect_left(self._token_starts, end)
        return [token for token in self.tokens[low:high] if token.text]

    def before(self, offset: int) -> str:
        """The token that ends at or before an offset; "" at the start of a logical line."""
        place = bisect.bisect_left(self._token_starts, offset) - 1
        return self.tokens[place].text if place >= 0 else ""

    def after(self, offset: int) -> str:
        """The token that begins at or after an offset; "" at the end of a logical line."""
        place = bisect.bisect_left(self._token_starts, offset)
        return self.tokens[place].text if place < len(self.tokens) else ""

    def header(self, statement: ast.stmt) -> tuple[int, int]:
        """The lines of a statement; of a compound one those before its body."""
        first = statement.lineno
        body = getattr(statement, "body", None)
        if isinstance(body, list) and body:
            return first, max(first, body[0].lineno - 1)
        return first, statement.end_lineno or first

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement around a node."""
        while node is not None and not isinstance(node, ast.stmt):
            node = self.parents.get(node)  # type: ignore[assignment]
        return node

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def whole_lines(self, statement: ast.stmt) -> tuple[int, int] | None:
        """The span of a statement's lines, their ends included; None when something else stands on them."""
        first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))])
        start = self.starts[first - 1]
        last = statement.end_lineno or first
        end = self.starts[last] if last < len(self.starts) else len(self.data)
        own_start, own_end = self.span(statement)
        if first == statement.lineno and self.data[start:own_start].strip():
            return None
        rest = self.data[own_end:end].strip()
        if rest and not rest.startswith(b"#"):
            return None
        return start, end

    def indent(self, statement: ast.stmt) -> str:
        """The white space before a statement that begins its line."""
        start = self.starts[statement.lineno - 1]
        return self.data[start : start + statement.col_offset].decode()
