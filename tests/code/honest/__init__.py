"""Honest programs with the tests that a user would write for them, over the whole language; and wrong variants of each.

The files beside this one are read, never imported. A program stands in a cell:

    # %% name
    <the program>

    # tests
    <its tests: a script>

    # wrong: old => new

`# tests: asserts` makes each assert statement a test of its own, with what stands before it; `# tests: check f` is for
a `def check(candidate)` that is given `f`; `# tests: doctest` for examples in a string. A wrong variant is the program
with one text, which stands in it once, exchanged for another; its tests must refuse it. No verdict is written down:
plain Python's is found by running it (benchmarks/code/plain.py).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Case", "cases"]


class Case(NamedTuple):
    """A program, its tests, and its wrong variants."""

    name: str
    program: str
    kind: str
    tests: str
    wrong: tuple[str, ...]

    @property
    def programs(self) -> tuple[str, ...]:
        """The right one, and then the wrong ones."""
        return (self.program, *self.wrong)

    @property
    def input(self) -> dict[str, Any]:
        """The task's, for the stage `code.tests`."""
        kind, _, entry = self.kind.partition(" ")
        if kind == "check":
            return {"test": self.tests, "entry_point": entry}
        if kind == "doctest":
            return {"prompt": self.tests, "doctest": True}
        return {"test_list": asserts(self.tests)} if kind == "asserts" else {"test": self.tests}

    def job(self, program: str) -> dict[str, Any]:
        """The same for plain Python."""
        kind, _, entry = self.kind.partition(" ")
        tests = f"{self.tests}\ncheck({entry})\n" if kind == "check" else self.tests
        return {
            "program": program,
            "tests": ast.literal_eval(tests) if kind == "doctest" else tests,
            "doctest": kind == "doctest",
            "timeout": 20,
            "memory": 4096,
        }


def asserts(source: str) -> list[str]:
    """The assert statements of a source, each with the other statements that stand before it."""
    lines = source.split("\n")
    ends = [node.end_lineno or 0 for node in ast.parse(source).body if isinstance(node, ast.Assert)]
    return ["\n".join(lines[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def cases() -> list[Case]:
    """All of them, in the order of their files."""
    found = []
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name != "__init__.py":
            cells = re.split(r"^# %% (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
            found += [
                _case(f"{path.stem}: {name}", text)
                for name, text in zip(cells[::2], cells[1::2], strict=True)
            ]
    return found


def _case(name: str, text: str) -> Case:
    changes = re.findall(r"^# wrong: (.+) => ?(.*)\n", text, re.MULTILINE)
    text = re.sub(r"^# wrong: .+\n", "", text, flags=re.MULTILINE)
    program, kind, tests = re.split(r"^# tests(?:: (.+))?\n", text, flags=re.MULTILINE)
    for old, _ in changes:
        if program.count(old) != 1:
            raise ValueError(f"{name}: {old!r} stands {program.count(old)} times in the program")
    return Case(
        name, program, kind or "script", tests, tuple(program.replace(old, new) for old, new in changes)
    )
