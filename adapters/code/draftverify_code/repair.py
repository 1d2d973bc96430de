"""Programs to mend: a directory with a file that is wrong, and the tests that say so."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import Any

from draftverify import ConfigError, Task
from draftverify_code.generators.edits import ProgramSource
from draftverify_code.names import BUILTINS, FUNCTIONS, global_names

TARGET, ASSERTS = "program.py", "asserts.py"
FILE = 1 << 20  # bytes of the file to mend, and of the asserts


class Repair:
    """One task per directory that holds a `program.py`: the directory itself, or each one in it that does.

    A problem is judged in one of two ways. Where it holds a file `asserts.py`, the assert statements in it
    are the tests, each for itself, and what stands before them is executed first; where other statements stand between
    them, or an assert stands in a loop, the file is one test, a script. The program never runs in their process.
    Elsewhere the directory is the task's `repository`: pytest, or a stage for test files, runs on a copy of it.

    A task's id is the directory's name, its group "asserts" or "files". Its input: `program`, the file's text;
    `target`, its name; `prompt`, the same in words, for a model; `test_list` and `setup`, `test` (a script), or
    `repository` and `command`. The directory is read and never written to.

    Args:
        directory: a problem's directory, or a folder of them.
        limit: the first so many problems; all when absent.
    """

    def __init__(self, directory: Path, limit: int | None = None) -> None:
        self.directory = Path(directory)
        self.limit = limit

    def load(self) -> list[Task]:
        """The tasks, by name.

        Raises:
            ConfigError: there is no such directory or no problem in it; or a program, or a file of asserts, is too
                large, no text, or a link to somewhere else.
        """
        where = str(self.directory)
        if self.limit is not None and self.limit < 0:
            raise ConfigError(f"limit is {self.limit}; it cannot be negative", where=where)
        if not self.directory.is_dir():
            raise ConfigError("there is no such directory", where=where)
        problems = [self.directory, *sorted(self.directory.iterdir())]
        problems = [problem for problem in problems if _is_there(problem / TARGET)]
        if not problems:
            raise ConfigError(f"no problem is here: neither {TARGET} nor */{TARGET}", where=where)
        if problems[0] == self.directory:
            problems = problems[:1]
        return [_task(problem) for problem in problems[: self.limit]]


def _task(problem: Path) -> Task:
    program = _text(problem, TARGET)
    fields: dict[str, Any] = {"prompt": _PROMPT.format(program=program), "program": program, "target": TARGET}
    if _is_there(problem / ASSERTS):
        fields |= _tests(_text(problem, ASSERTS), where=str(problem / ASSERTS))
        return Task(id=problem.resolve().name, input=fields, group="asserts")
    fields |= {"repository": str(problem.resolve()), "command": ["python", "-m", "pytest", "-q"]}
    return Task(id=problem.resolve().name, input=fields, group="files")


_PROMPT = """\
This Python program fails its tests. Mend it, and answer with the whole program.

```python
{program}
```
"""


def _is_there(path: Path) -> bool:
    try:
        return path.is_file() or path.is_symlink()
    except OSError:
        return False


def _tests(text: str, where: str) -> dict[str, Any]:
    """A file of asserts as `test_list` and `setup`, or as the script `test`."""
    try:
        source = ProgramSource(text)
        read, bound = global_names(text)
    except SyntaxError as error:
        raise ConfigError(f"the asserts do not parse: {error}", where=where) from error
    if not _asserts(source.tree):
        raise ConfigError("there is no assert statement outside of functions", where=where)
    body = source.tree.body
    first = next((place for place, node in enumerate(body) if isinstance(node, ast.Assert)), len(body))
    asserts = [source.text(statement) for statement in body[first:]]
    if (
        asserts
        and all(isinstance(statement, ast.Assert) for statement in body[first:])
        and not any(global_names(statement)[1] for statement in asserts)
        and not any(_tries(statement, read - bound - BUILTINS) for statement in body[:first])
    ):
        preamble = source.data[: source.span(body[first])[0]].decode().strip()
        return {"test_list": asserts, **({"setup": preamble} if preamble else {})}
    if any(
        isinstance(statement, ast.FunctionDef) and statement.name == "check" for statement in source.tree.body
    ):
        raise ConfigError(
            "a function of the name check is taken for check(candidate), all the tests; give it another name",
            where=where,
        )
    return {"test": text}


def _tries(statement: ast.stmt, functions: Collection[str]) -> bool:
    """Whether a statement asserts something or names one of the program's functions."""
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id in functions)
        for node in ast.walk(statement)
    )


def _asserts(tree: ast.Module) -> bool:
    """Whether an assert stands outside of functions and classes."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        if isinstance(node, ast.Assert):
            return True
        if not isinstance(node, FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _text(problem: Path, name: str) -> str:
    """A file of a problem.

    Raises:
        ConfigError: it lies elsewhere, is no file, is too large or is no text.
    """
    path, root = problem / name, problem.resolve()
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root):
            raise ConfigError(f"a link that leaves the problem's directory, to {real}", where=str(path))
        if not real.is_file():
            raise ConfigError("this is no file", where=str(path))
        if real.stat().st_size > FILE:
            raise ConfigError(f"the file is larger than {FILE >> 20} MiB", where=str(path))
        return real.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("this file is no UTF-8 text", where=str(path)) from error
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"the file cannot be read: {error}", where=str(path)) from error
