"""Programs that do not parse, mended where one token or one line's indentation is all that is wrong."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

__all__ = ["parsable"]

_OPENED = {"(": ")", "[": "]", "{": "}"}
_NEEDS_COLON = re.compile(r"\s*(if|elif|else|for|while|def|class|try|except|finally|with|async)\b")
AROUND = 2  # how many lines before the one that the parser names may be the wrong one


def parsable(program: str) -> list[str]:
    """Versions of a program that parse, each one line from it, likely ones first; [] when there is none.

    Args:
        program: a text that does not parse.
    """
    try:
        ast.parse(program)
    except SyntaxError as error:
        at = error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return []
    else:
        return []
    lines = program.splitlines(keepends=True) or [""]
    found: dict[str, None] = {}
    first = min(max(at, 1), len(lines))
    for number in dict.fromkeys((first, *range(first - 1, max(first - 1 - AROUND, 0), -1), len(lines))):
        for line in _versions(lines, number - 1):
            version = "".join((*lines[: number - 1], line, *lines[number:]))
            if version not in found and _parses(version):
                found[version] = None
    return list(found)


def _parses(program: str) -> bool:
    try:
        ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _versions(lines: list[str], place: int) -> Iterator[str]:
    whole = lines[place]
    body = whole.rstrip("\r\n")
    end = whole[len(body) :]
    code, space, comment = _split(body)
    if _NEEDS_COLON.match(code) and not code.endswith(":"):
        yield code + ":" + space + comment + end
        yield code.rstrip(",;") + ":" + space + comment + end
    waiting: list[str] = []
    for each in code:
        if each in _OPENED:
            waiting.append(_OPENED[each])
        elif waiting and each == waiting[-1]:
            waiting.pop()
    if waiting:
        closing = "".join(reversed(waiting))
        yield code + closing + end
        if code.endswith(":"):
            yield code[:-1] + closing + ":" + end
        yield code.rstrip(",") + closing[0] + end
    for bracket in ")]}":
        if bracket in code:
            cut = code.rindex(bracket)
            yield code[:cut] + code[cut + 1 :] + space + comment + end
    for quote in "'\"":
        yield code + quote + end
        yield code + quote + ")" + end
    for wrong, right in (
        ("=", "=="),
        ("==", "="),
        ("=>", ">="),
        ("=<", "<="),
        ("!", "not "),
        ("++", " += 1"),
        ("&&", "and"),
        ("||", "or"),
    ):
        for match in re.finditer(re.escape(wrong), code):
            yield code[: match.start()] + right + code[match.end() :] + space + comment + end
    yield re.sub(r"\belse if\b", "elif", code) + space + comment + end
    indents = dict.fromkeys(re.match(r"[ \t]*", line)[0] for line in lines if line.strip())  # type: ignore[index]
    for indent in (*indents, *(indent + "    " for indent in indents)):
        yield indent + body.lstrip() + end
    yield body[: len(body) - len(body.lstrip())] + "pass" + end
    yield ""


def _split(body: str) -> tuple[str, str, str]:
    """A line's code, the space after it, and its comment, as far as that can be told without parsing."""
    code = body
    if "#" in body and not re.search(r"['\"][^'\"]*#", body):
        code = body[: body.index("#")]
    stripped = code.rstrip()
    return stripped, code[len(stripped) :], body[len(code) :]
