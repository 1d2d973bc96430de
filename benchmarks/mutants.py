"""Whether the tests see what a user would: small wrong edits of the library, one by one, against the tests for them.

    python -m benchmarks.mutants [--only units] [--jobs 1] [--out benchmarks/results/mutants.json]

The edits stand in mutants.yaml: for each the text that is replaced, by what, why a user would notice, and the tests
that should. Each is applied to a copy of the tree, and its tests run until the first failure; tests marked slow do not.
Before that the same tests run on the copy as it is, and must pass. An edit whose text is not in its file exactly once
ends the command: the file has moved on, and so must the list.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from time import perf_counter
from typing import Any

import msgspec
from ruamel.yaml import YAML

from benchmarks.provenance import write

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".yaml")
COPIED = ("draftverify", "adapters", "tests", "pyproject.toml")
PYTEST = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--timeout=30"]
SECONDS = 300
"""After so long an edit has made its tests hang, which nobody overlooks."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small wrong edit.

    Args:
        file: that is edited.
        old, new: the text that is replaced, which stands there once, and by what.
        why: what a user would see of it.
        tests: arguments for pytest, of the tests that should see it.
    """

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]


def mutants() -> tuple[Mutant, ...]:
    """The list; tests that stand beside a file are those of all its edits that name none.

    Raises:
        ValueError: an edit changes nothing, or its text is not in its file exactly once.
    """
    found = []
    for group in YAML(typ="safe").load(LIST.read_text()):
        text = (ROOT / group["file"]).read_text()
        for entry in group["mutants"]:
            mutant = msgspec.convert({"file": group["file"], "tests": group["tests"], **entry}, Mutant)
            times = text.count(mutant.old)
            if times != 1 or mutant.new == mutant.old:
                raise ValueError(
                    f"{LIST.name}: {mutant.file} has the text {mutant.old!r} {times} times, and an edit replaces what "
                    "stands there once by something else; bring the list up to date"
                )
            found.append(mutant)
    return tuple(found)


@contextmanager
def copies(count: int) -> Iterator[Queue[Path]]:
    """So many copies of the tree, compiled so that an edited file is compiled again whatever its time and size."""
    with tempfile.TemporaryDirectory() as name:
        free: Queue[Path] = Queue()
        for number in range(count):
            copy = Path(name, str(number))
            for part in COPIED:
                if (ROOT / part).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", "*.dist-info", "*.egg-info")
                    shutil.copytree(ROOT / part, copy / part, ignore=ignored)
                else:
                    shutil.copy(ROOT / part, copy / part)
            mode = py_compile.PycInvalidationMode.CHECKED_HASH
            compileall.compile_dir(copy, quiet=2, invalidation_mode=mode)
            free.put(copy)
        yield free


def run_tests(copy: Path, tests: tuple[str, ...]) -> tuple[str, str]:
    """("passed", "failed" or "hung", the test that failed) of these tests in a copy.

    Raises:
        RuntimeError: they could not be run.
    """
    path = [str(copy), *map(str, copy.glob("adapters/*"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *PYTEST, "-m", "not slow", *tests]
    process = subprocess.Popen(
        command, cwd=copy, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "hung", ""
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(tests)}: pytest says {process.returncode}\n{output}")
    named = re.search(r"^(?:FAILED|ERROR) (\S+::\S+)", output, re.MULTILINE)
    return ("failed" if process.returncode else "passed"), named.group(1) if named else ""


def measure(chosen: tuple[Mutant, ...], jobs: int) -> list[dict[str, Any]]:
    """Apply each, run its tests, and print what came of it."""

    def unchanged(tests: tuple[str, ...]) -> None:
        copy = free.get()
        said, test = run_tests(copy, tests)
        free.put(copy)
        if said != "passed":
            raise RuntimeError(f"{' '.join(tests)} {said} on the tree as it is: {test}")

    def changed(mutant: Mutant) -> dict[str, Any]:
        copy, start = free.get(), perf_counter()
        file = copy / mutant.file
        text = file.read_text()
        file.write_text(text.replace(mutant.old, mutant.new))
        try:
            said, test = run_tests(copy, mutant.tests)
        finally:
            file.write_text(text)
            free.put(copy)
        result = "survived" if said == "passed" else "caught"
        print(
            f"{result:8} {perf_counter() - start:5.1f} s  {mutant.file}: {mutant.why}  [{test or said}]",
            flush=True,
        )
        about = {"file": mutant.file, "old": mutant.old, "new": mutant.new, "why": mutant.why}
        return {**about, "result": result, "by": test or said, "seconds": perf_counter() - start}

    with copies(jobs) as free, ThreadPoolExecutor(jobs) as pool:
        list(pool.map(unchanged, dict.fromkeys(mutant.tests for mutant in chosen)))
        return list(pool.map(changed, chosen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="those that have this text in their file, texts or reason")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chosen = tuple(m for m in mutants() if options.only in f"{m.file}\n{m.old}\n{m.new}\n{m.why}")
    start = perf_counter()
    found = measure(chosen, options.jobs)
    counts = Counter(each["result"] for each in found)
    by_file = {
        file: dict(Counter(each["result"] for each in found if each["file"] == file))
        for file in dict.fromkeys(each["file"] for each in found)
    }
    seconds, used = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime  # what it takes of one core, whoever else is at work
    print(
        f"{counts['caught']} of {len(found)} caught, in {seconds:.0f} s ({processor:.0f} s of processor time)"
    )
    if options.out is not None:
        times = {"seconds": seconds, "processor_seconds": processor}
        figures = {"caught": counts["caught"], "of": len(found), **times, "by_file": by_file}
        write(options.out, "benchmarks.mutants", {**figures, "mutants": found})


if __name__ == "__main__":
    main()
