"""How a Python text is read: whether it compiles, the names that it looks up, and the same text without what could
steer a type checker.

The harness calls these functions on short texts. Long ones are read by this file run as a script, in a sandbox: it
takes a line of JSON for each text, {text, bare, names}, and answers each with one, as `answer` gives it. It imports
nothing but the standard library.
"""

from __future__ import annotations

import ast
import dis
import io
import json
import sys
import tokenize
import unicodedata
import warnings
from types import CodeType
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


def places(text: str) -> list[tuple[int, int]]:
    """Line and column, from 1, of the names that Python looks up when the program runs: not those in an annotation that
    is not evaluated.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):  # what is evaluated when somebody asks for it, from Python 3.12
        if getattr(node, "type_params", ()):
            node.type_params = []  # type: ignore[attr-defined]
        if type(node).__name__ == "TypeAlias":
            node.value = ast.copy_location(ast.Constant(None), node)  # type: ignore[attr-defined]
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    codes, starts = [compile(tree, NAME, "exec", dont_inherit=True)], set[tuple[int, int]]()
    for code in codes:
        inner = [part for part in code.co_consts if isinstance(part, CodeType)]
        codes += [part for part in inner if part.co_name != "__annotate__"]
        for step in dis.get_instructions(code):
            if step.opname in _LOOKING_UP and step.positions and (row := step.positions.lineno):
                before = lines[row - 1].encode()[: step.positions.col_offset]
                starts.add((row, len(before.decode()) + 1))
    return sorted(starts)


_LOOKING_UP = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_NAME", "DELETE_GLOBAL"}


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
