"""A program's text and its syntax tree together: where each node stands, and spans of bytes replaced.

A syntax tree counts columns in UTF-8 bytes; lines and columns become offsets into the encoded text here, so that a
change is one span replaced, and the rest of the text, comments and layout with it, stays.
"""

from __future__ import annotations

import ast
import hashlib
import re

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_PARSING = (SyntaxError, ValueError, RecursionError, MemoryError)


def fingerprint(program: str) -> bytes | None:
    """The same for two programs with the same syntax tree, whatever their layout; None for one that does not parse."""
    try:
        tree = ast.dump(ast.parse(program))
    except _PARSING:
        return None
    return hashlib.blake2b(tree.encode(errors="surrogatepass"), digest_size=16).digest()


class ProgramSource:
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

    def replaced(self, start: int, end: int, text: str) -> str:
        """The program with one span of bytes replaced."""
        return (self.data[:start] + text.encode() + self.data[end:]).decode()
