"""The house in figures, now and at an earlier commit: what there is to read, to learn and to wait for.

    python -m benchmarks.house --before COMMIT --out benchmarks/results/house.json [--suite]

Code lines are lines without docstrings, comments and blanks. The closure of `run` is what its module imports, in
functions too, followed through the project's files with every package above a module. Public names are those in the
`__all__` of packages that adapters may import. Options are those of all commands and subcommands, config keys the
names in the JSON schema that belong to no part. `--suite` runs the default tests with two processes and takes the
time and the CPU seconds of all their processes; without it an earlier file's figures stay.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.provenance import write

WINGS = ("checks", "stats", "bench", "kit", "lab", "view", "serve", "cluster")
OLD_WINGS = {
    "verifiers": "checks",
    "metrics": "checks",
    "calibration": "stats",
    "experiments": "bench",
    "records": "bench",
    "report": "bench",
    "review": "bench",
    "cli": "bench",
    "telemetry": "bench",
    "testing": "kit",
    "audit": "kit",
    "viewer": "view",
}
"""The rooms of before by the wing in which most of each stands now; the lab and the cluster were parts of others."""
SKIPPED = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
)
COUNTED = """
import json, sys
import click
commands, options = 0, 0
def walk(command, context):
    global commands, options
    options += sum(isinstance(parameter, click.Option) for parameter in command.params)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            walk(command.get_command(context, name), click.Context(command, parent=context, info_name=name))
try:
    from draftverify.bench.cli.main import draftverify
    from draftverify.bench.config.schema import schema
except ImportError:
    from draftverify.cli.main import draftverify
    from draftverify.experiments.schema import schema
context = click.Context(draftverify, info_name="draftverify")
commands = len(draftverify.list_commands(context))
walk(draftverify, context)
whole = schema({})
definitions = whole.get("$defs", {})
keys = set()
def walk_schema(node):
    if isinstance(node, dict):
        keys.update(node.get("properties", {}))
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        walk_schema(inner)
parts = {name for name in definitions if "." in name}
walk_schema({**whole, "$defs": {name: node for name, node in definitions.items() if name not in parts}})
keys = len(keys)
print(json.dumps([commands, options, keys]))
"""


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines without docstrings, comments and blanks."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            head = node.body[0]
            if (
                isinstance(head, ast.Expr)
                and isinstance(head.value, ast.Constant)
                and isinstance(head.value.value, str)
            ):
                docstrings.update(range(head.lineno, (head.end_lineno or head.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def house(root: Path) -> dict[str, Any]:
    """The figures of a tree."""
    trees: dict[str, ast.Module] = {}
    lines: dict[str, int] = {}
    sources = {"draftverify": root / "draftverify"}
    sources |= {path.name: path for path in sorted((root / "adapters").glob("*/draftverify_*"))}
    for package, folder in sources.items():
        for path in sorted(folder.rglob("*.py")):
            if "templates" not in path.parts:
                parts = (package, *path.relative_to(folder).with_suffix("").parts)
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                text = path.read_text(encoding="utf-8")
                trees[module] = ast.parse(text)
                lines[module] = code_lines(text, trees[module])
    wings: Counter[str] = Counter()
    for module, count in lines.items():
        wings[_wing(module)] += count
    run = next(name for name in ("draftverify.bench.cli.run", "draftverify.cli.run") if name in trees)
    reached = _closure(run, trees)
    commands, options, keys = _counted(root)
    pages = list((root / "docs").glob("*.md"))
    return {
        "code": dict(sorted(wings.items())),
        "draftverify": sum(count for module, count in lines.items() if module.startswith("draftverify.")),
        "adapters": sum(count for module, count in lines.items() if module.startswith("draftverify_")),
        "closure_of_run": sum(lines[module] for module in reached),
        "public_names": sum(map(_public, _packages(trees))),
        "commands": commands,
        "options": options,
        "config_keys": keys,
        "pages": len(pages),
        "words": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
    }


def _wing(module: str) -> str:
    package, *rest = module.split(".")
    if package != "draftverify":
        return "adapters"
    if not rest:
        return "island"
    if rest[:2] == ["rules", "thresholds"] or rest[:2] == ["calibration", "watch"]:
        return "lab"
    return rest[0] if rest[0] in WINGS else OLD_WINGS.get(rest[0], "island")


def _closure(start: str, trees: dict[str, ast.Module]) -> set[str]:
    reached: set[str] = set()
    coming = [start]
    while coming:
        module = coming.pop()
        if module in reached or module not in trees:
            continue
        reached.add(module)
        for node in ast.walk(trees[module]):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    coming.append(full if full in trees else node.module)
            elif isinstance(node, ast.Import):
                coming += [alias.name for alias in node.names]
        parts = module.split(".")
        coming += [".".join(parts[:count]) for count in range(1, len(parts))]
    return reached


def _packages(trees: dict[str, ast.Module]) -> list[ast.Module]:
    """Those that adapters may import: packages whose `__all__` is more than a sub-package's own business."""
    return [
        tree
        for module, tree in trees.items()
        if module.count(".") <= 2 and ".cli" not in module and _is_package(tree)
    ]


def _is_package(tree: ast.Module) -> bool:
    """A module that only collects names: all of its own statements are imports, names and text."""
    collecting = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.If, ast.FunctionDef)
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name != "__getattr__"
    ]
    return not functions and all(isinstance(node, collecting) for node in tree.body)


def _public(tree: ast.Module) -> int:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            imported = {
                alias.asname or alias.name
                for child in ast.walk(tree)
                if isinstance(child, ast.ImportFrom)
                for alias in child.names
            }
            return sum(
                isinstance(name, ast.Constant) and name.value in imported
                for name in getattr(node.value, "elts", [])
            )
    return 0


def _counted(root: Path) -> tuple[int, int, int]:
    """Commands, options and config keys, asked of the tree's own code."""
    paths = [root, *(root / "adapters").iterdir()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    commands, options, keys = json.loads(done.stdout.splitlines()[-1])
    return commands, options, keys


def suite() -> dict[str, float]:
    """Seconds and CPU seconds of the default tests, two processes at once."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout[-3000:])
    counts = {
        word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)
    }
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds), "cpu_seconds": round(cpu), **counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--before", required=True, help="the commit that is compared with")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--suite", action="store_true")
    arguments = parser.parse_args()
    earlier = json.loads(arguments.out.read_text()) if arguments.out.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        worktree = Path(folder) / "before"
        subprocess.run(
            ["git", "worktree", "add", "-q", "--detach", str(worktree), arguments.before], check=True
        )
        try:
            before = house(worktree)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(worktree)], check=True)
    figures = {"before": {"commit": arguments.before, **before}, "now": house(Path.cwd())}
    if arguments.suite or "suite" in earlier:
        # One that was run before keeps the commit that it was run on.
        figures["suite"] = (
            suite() if arguments.suite else {"commit": earlier["provenance"]["commit"], **earlier["suite"]}
        )
    write(arguments.out, "benchmarks.house", figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
