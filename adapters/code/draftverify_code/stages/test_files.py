"""A task's `test` that is a file of unittest's or pytest's tests: it becomes the one file beside a program."""

from __future__ import annotations

import ast
import re
from typing import Literal

from msgspec.structs import replace

from draftverify import ContractError, Task
from draftverify_code.names import BUILTINS, global_names

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINES = re.compile(r"^(?:class\b|(?:async[ \t]+)?def[ \t]+test)", re.MULTILINE)


def framework_of(source: str) -> Literal["", "unittest", "pytest"]:
    """Whose tests a source defines; "" where it is a script, which calls what it defines, or does not parse."""
    if not _DEFINES.search(source):  # other tests may be very long
        return ""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    defined = {node.name: node for node in body if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
    used, called = set[str](), [node for node in body if _runs(node)]
    while called:
        names = {name.id for name in ast.walk(called.pop()) if isinstance(name, ast.Name)} - used
        used |= names
        called += [defined[name] for name in names & defined.keys()]
    if not used.isdisjoint(("globals", "locals", "vars")):
        return ""  # it looks for its tests itself
    cases = False
    for node in body:
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or node.name in used:
            continue
        if isinstance(node, FUNCTIONS):
            if node.name.startswith("test"):
                return "pytest"
        elif any(
            isinstance(inner, FUNCTIONS) and inner.name.startswith(("test", "runTest")) for inner in node.body
        ):
            if any(ast.unparse(base).endswith("TestCase") for base in node.bases):
                cases = True
            elif node.name.startswith("Test"):
                return "pytest"
    imports = (alias.name for node in body if isinstance(node, ast.Import) for alias in node.names)
    return ("pytest" if "pytest" in imports else "unittest") if cases else ""


def _runs(node: ast.stmt) -> bool:
    """Whether a statement does something when a test file is imported."""
    if isinstance(node, ast.If):
        return "__name__" not in ast.unparse(node.test)
    return not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom))


def with_test_file(task: Task) -> Task:
    """A task whose `test` is a file beside its `target`, the module `solution` where it names none.

    The tests may import that module. Names that they read, and neither they nor their `setup` define, are the
    program's, as if both were one file.

    Raises:
        ContractError: they do not compile.
    """
    fields = task.input
    source, setup, entry = (str(fields.get(name) or "") for name in ("test", "setup", "entry_point"))
    target = str(fields.get("target") or "solution.py")
    module = target.removesuffix(".py").replace("/", ".")
    try:
        (read_before, bound_before), (read, bound) = map(global_names, (setup, source))
    except SyntaxError as error:
        raise ContractError(f"the tests of task {task.id} do not compile: {error}") from error
    names = sorted((read | read_before) - bound - bound_before - BUILTINS - {entry})
    # A setup may be the prompt, where the function that is asked for has no body.
    imports = [f"from {module} import {entry}"] if entry in read - bound else []
    if names:
        taken = f"{{name: getattr(_program, name) for name in {names} if hasattr(_program, name)}}"
        imports += [f"import {module} as _program", f"globals().update({taken})"]
    lines = source.split("\n")
    first = max((node.end_lineno or 0 for node in ast.parse(source).body if _is_future(node)), default=0)
    text = "\n".join([*lines[:first], *filter(None, (setup, "; ".join(imports))), *lines[first:]])
    files = {**fields.get("files", {}), f"test_{module.rpartition('.')[2]}.py": text}
    return replace(task, input={**fields, "files": files, "target": target})


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
