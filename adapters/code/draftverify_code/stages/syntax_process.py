"""How a Python text is read: whether it compiles, the names that it looks up, and the same text without what could
steer a type checker.

The harness calls these functions on short texts. Long ones are read by this file run as a script, in a sandbox: it
takes a line of JSON for each text, {text, bare, names}, and answers each with one, as `answer` gives it. It imports
nothing but the standard library.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any

NAME = "<draftverify candidate>"


def wrong(text: str) -> dict[str, Any] | None:
    """Why Python does not compile a text.

    Returns:
        None when it does; else {message, line, column}, both from 1, 0 where there is none.
    """
    # Compiled, not parsed alone: `return` outside a function is no syntax either. Nothing of it is executed.
    warnings.filterwarnings("ignore", module=NAME)
    try:
        compile(text, NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        message = f"{type(error).__name__}: {error.msg}"
        return {"message": message, "line": error.lineno or 0, "column": error.offset or 0}
    except (RecursionError, MemoryError):
        return {"message": "it is nested too deeply for Python to compile", "line": 0, "column": 0}
    except (ValueError, OverflowError, SystemError) as error:
        return {"message": str(error), "line": 0, "column": 0}
    return None


def without_comments(text: str) -> str:
    """A text that compiles, without its comments, and with a decorator that does nothing for `no_type_check`.

    Nor does a line inside a string begin like a setting of mypy, which takes it for one.

    Every comment goes, since what one switches off differs from year to year. Lines keep
    their numbers, and code its columns but for lines that had the name.

    Raises:
        tokenize.TokenError, SyntaxError, ValueError: the comments cannot be told from the code.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and "#" not in text and "no_type_check" not in text:
        return text
    lines = text.split("\n")
    edits = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            edits.append((row - 1, column, len(lines[row - 1]), ""))
        elif token.type == tokenize.ERRORTOKEN and not token.string.isspace():
            raise ValueError(f"{token.string[:20]!r} in line {row} is no token")
        elif token.type == tokenize.NAME and unicodedata.normalize("NFKC", token.string) == "no_type_check":
            edits.append((row - 1, column, token.end[1], "no_type_check_decorator"))
        elif token.end[0] > row:  # a text of several lines: mypy reads a setting at the start of any line
            places = [place for place in range(row, token.end[0]) if lines[place].startswith("# mypy:")]
            edits += [(place, 0, 2, "#_") for place in places]
    for row, start, end, instead in reversed(edits):
        lines[row] = lines[row][:start] + instead + lines[row][end:]
    return "\n".join(lines)


def looked_up(tree: ast.Module) -> Iterator[ast.Name]:
    """The names that Python looks up when the program runs, as far as one can tell: not those in an annotation that is
    not evaluated.
    """
    lazy = sys.version_info >= (3, 14) or any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    nodes: list[tuple[ast.AST, bool]] = [(tree, False)]
    while nodes:
        node, local = nodes.pop()
        if isinstance(node, ast.Name):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside = not isinstance(node, ast.ClassDef)
        else:
            inside = local
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns") and (lazy or (local and isinstance(node, ast.AnnAssign))):
                continue
            if field == "type_params" or (field == "value" and type(node).__name__ == "TypeAlias"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    nodes.append((part, inside))


def places(text: str) -> list[tuple[int, int]]:
    """Line and column, from 1, of the names that are looked up."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    column = lambda name: len(lines[name.lineno - 1].encode()[: name.col_offset].decode()) + 1
    return [(name.lineno, column(name)) for name in looked_up(ast.parse(text))]


def answer(text: str, bare: bool, names: bool) -> dict[str, Any]:
    """What there is to say of a text.

    Returns:
        {wrong}, and where it compiles {bare, names}, empty when not asked for, or {error} when they cannot be had.
    """
    fault = wrong(text)
    if fault is not None:
        return {"wrong": fault}
    try:
        return {
            "wrong": None,
            "bare": without_comments(text) if bare else "",
            "names": places(text) if names else [],
        }
    except (tokenize.TokenError, SyntaxError, ValueError) as error:
        return {"wrong": None, "error": str(error)}


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(**json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
