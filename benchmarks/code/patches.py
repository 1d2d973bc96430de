"""Patches to a small repository: every verdict beside `git apply` and `pytest` by hand, and candidates a minute.

    python -m benchmarks.code.patches [--out benchmarks/results/code_patches.json] [--repeats 5]

The repository is that of `examples/patches`, with all issues solved but one. By hand is a plain loop: copy the
repository, apply the patch with git, put the tests back, run pytest with its report as a file, and compare the report
with the tests that there are. Both ways have the same seconds for a patch, and no plugins of pytest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec

from benchmarks.code.estimators import ratio
from benchmarks.provenance import write
from draftverify import Check, Proposal, Task
from draftverify.kit import make_context
from draftverify_code import Sandbox, Suites

REPOSITORY = Path(__file__).parents[2] / "examples" / "patches" / "repository"
SECONDS = 10.0
"""For the tests of one patch."""
WORKERS = 6
"""More than there are cores: a patch that hangs asleep keeps none busy."""
SEED = 20261128
AUTHOR = ("-c", "user.name=draftverify", "-c", "user.email=draftverify@example.org")
MONEY, REPORT = "ledger/money.py", "ledger/report.py"
WRONG = "    share = cents // parts\n    return [share] * parts\n"
RIGHT = "    share, rest = divmod(cents, parts)\n    return [share + 1] * rest + [share] * (parts - rest)\n"


class Patch(NamedTuple):
    """A patch, and what kind of one it is."""

    name: str
    kind: str
    text: str


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A git command in a repository."""
    return subprocess.run(["git", "-C", str(folder), *AUTHOR, *arguments], input=stdin, capture_output=True)


def make_repository(folder: Path) -> None:
    """The example's repository with its history: an older commit, and the one that patches are for."""
    shutil.copytree(REPOSITORY, folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    _edit(folder, "ledger/account.py", "if self.balance < cents:", "if self.balance + self.limit < cents:")
    _edit(
        folder, REPORT, "max(account.balance for account in accounts)",
        "max((account.balance for account in accounts), default=0)",
    )  # fmt: skip
    (folder / "logo.png").write_bytes(bytes(range(256)) * 8)
    (folder / "run.sh").write_text("#!/bin/sh\npython -m pytest\n")
    now = (folder / MONEY).read_text()
    _edit(folder, MONEY, "at least one part is needed", "no parts")
    git(folder, "init", "-q", "-b", "main")
    for message in ("older", "newer"):
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", message)
        (folder / MONEY).write_text(now)


def _edit(folder: Path, path: str, old: str, new: str) -> None:
    text = (folder / path).read_text()
    assert old in text, (path, old)
    (folder / path).write_text(text.replace(old, new))


def make_patches(folder: Path) -> list[Patch]:
    """Forty patches, made by git in a clone of the repository, or by hand where git would make no such thing."""

    def right(clone: Path) -> None:
        _edit(clone, MONEY, WRONG, RIGHT)

    def body(text: str) -> Callable[[Path], None]:
        return lambda clone: _edit(clone, MONEY, WRONG, text)

    def both(*edits: Callable[[Path], object]) -> Callable[[Path], None]:
        def edit(clone: Path) -> None:
            for one in edits:
                one(clone)

        return edit

    def file(path: str, text: str) -> Callable[[Path], object]:
        return lambda clone: (clone / path).write_bytes(text.encode())

    def replaced(path: str, old: str, new: str) -> Callable[[Path], object]:
        return lambda clone: _edit(clone, path, old, new)

    def moved(clone: Path) -> None:
        (clone / "ledger/report.py").rename(clone / "ledger/reports.py")
        (clone / "ledger/report.py").write_text("from ledger.reports import *  # the old name\n")

    tests, head = "tests/test_money.py", "    assert sum(shares) == cents\n"
    made: dict[str, dict[str, Callable[[Path], Any]]] = {
        "right": {
            "divmod": right,
            "a loop": body(
                "    shares = [0] * parts\n    for cent in range(cents):\n"
                "        shares[cent % parts] += 1\n    return shares\n"
            ),
            "a comprehension": body("    return [(cents + parts - 1 - part) // parts for part in range(parts)]\n"),
            "a new module": both(
                body("    from ledger.shares import share\n\n    return share(cents, parts)\n"),
                file("ledger/shares.py", f"def share(cents, parts):\n{RIGHT}"),
            ),
            "a file renamed": both(right, moved),
            "a binary file changed": both(right, lambda clone: (clone / "logo.png").write_bytes(bytes(999))),
            "a file removed": both(right, lambda clone: (clone / "logo.png").unlink()),
            "a mode changed": both(right, lambda clone: (clone / "run.sh").chmod(0o755)),
            "a file with CRLF": both(right, file("NOTES.txt", "one\r\ntwo\r\n")),
            "no newline at the end": both(right, file("NOTES.txt", "one")),
            "a link inside": both(right, lambda clone: (clone / "docs.md").symlink_to("README.md")),
            "tests edited too": both(right, replaced(tests, head, "    assert not shares\n")),
        },
        "wrong": {
            "rounded": body("    return [round(cents / parts)] * parts\n"),
            "the last one gets it": body(
                "    share = cents // parts\n    return [share] * (parts - 1) + [cents - share * (parts - 1)]\n"
            ),
            "a comment": replaced(MONEY, WRONG, f"    # equal parts\n{WRONG}"),
            "another function broken": both(right, replaced(MONEY, ":02d", ":2d")),
            "a syntax error": body("    return [\n"),
            "a missing module": both(right, replaced(MONEY, "def parse", "import cents\n\n\ndef parse")),
            "an exception": body("    raise NotImplementedError\n"),
            "a needed file removed": both(right, lambda clone: (clone / REPORT).unlink()),
            "a lost fixture's class": both(right, replaced("ledger/account.py", "class Account", "class Konto")),
            "leaving at import": both(right, replaced(MONEY, "def parse", "import os\n\nos._exit(0)\n\n\ndef parse")),
        },
        "test-editing": {
            "an assertion removed": replaced(tests, head + "    assert shares == sorted(shares, reverse=True)\n", ""),
            "a test skipped": replaced(tests, "def test_split_loses", "@pytest.mark.skip\ndef test_split_loses"),
            "a test file removed": lambda clone: (clone / tests).unlink(),
            "a conftest.py that deselects": file("conftest.py", "collect_ignore = ['tests/test_money.py']\n"),
            "a pytest.ini that ignores": file("pytest.ini", "[pytest]\naddopts = --ignore=tests/test_money.py\n"),
            "and wrong": both(body("    return [cents] * parts\n"), replaced(tests, head, "    return\n")),
        },
        "hanging": {
            "asleep": body("    import time\n\n    time.sleep(3600)\n"),
            "waiting for itself": body("    import threading\n\n    threading.Event().wait()\n"),
            "asleep at import": both(
                right, replaced(MONEY, "def parse", "import time\n\ntime.sleep(3600)\n\n\ndef parse")
            ),
        },
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", str(folder), str(clone)], check=True)
        patches = [
            Patch(name, kind, _difference(clone, edit, "main"))
            for kind, edits in made.items()
            for name, edit in edits.items()
        ]
        by_name = {patch.name: patch.text for patch in patches}
        plain = by_name["divmod"]
        older = _difference(clone, both(right, replaced("README.md", "Sums", "Amounts")), "main~1")
    patches += [
        Patch("made for an older commit", "right", older),
        Patch("without git's own lines", "right", plain[plain.index("--- ") :]),
        Patch("prose before, no end of line", "right", f"This splits by divmod:\n\n{plain.rstrip()}"),
        Patch(
            "for another text",
            "non-applying",
            plain.replace("share = cents // parts", "share = cents / parts"),
        ),
        Patch("for another file", "non-applying", plain.replace(MONEY, "ledger/coins.py")),
        Patch("cut off", "non-applying", plain[: plain.index("+    return")]),
        Patch("out of the repository", "non-applying", plain.replace(MONEY, "../ledger/money.py")),
        Patch("into git's own files", "non-applying", _new_file(".git/hooks/post-checkout")),
        Patch("prose", "non-applying", "Change `split` so that it uses divmod.\n"),
    ]
    Random(SEED).shuffle(patches)  # as samples come, and not by their kinds
    return patches


def _new_file(path: str) -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1 @@\n+#!/bin/sh\n"


def _difference(clone: Path, edit: Callable[[Path], object], commit: str) -> str:
    git(clone, "checkout", "-q", "-f", "--detach", commit.replace("main", "origin/main"))
    git(clone, "clean", "-fdq")
    edit(clone)
    git(clone, "add", "-A")
    return git(clone, "diff", "--cached", "--binary", "--full-index", "-M").stdout.decode()


def by_hand(folder: Path, patch: str, seconds: float = SECONDS) -> bool:
    """Whether a patch applies, and all tests of the repository pass then: with copies, git and pytest alone."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(folder, copy, symlinks=True)
        git(copy, "update-index", "-q", "--refresh")  # its files have other times than the copied index says
        text = patch if patch.endswith("\n") else f"{patch}\n"
        if git(copy, "apply", "--3way", "-", stdin=text.encode()).returncode:
            return False
        for name in ("tests", "conftest.py", "pytest.ini"):
            _put_back(folder / name, copy / name)
        report = Path(scratch) / "report.xml"
        command = [
            sys.executable,
            "-s",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
        ]
        own = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            subprocess.run(command, cwd=copy, env={**os.environ, **own}, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        if not report.exists():
            return False
        suite = ElementTree.parse(report).getroot()[0]
        counts = [int(suite.get(name, "1")) for name in ("errors", "failures", "skipped", "tests")]
        return counts == [0, 0, 0, TESTS]


TESTS = 18
"""How many the repository has."""


def _put_back(given: Path, copy: Path) -> None:
    if copy.is_dir():
        shutil.rmtree(copy)
    elif copy.exists():
        copy.unlink()
    if given.is_dir():
        shutil.copytree(given, copy)
    elif given.exists():
        shutil.copy2(given, copy)


@contextmanager
def repository() -> Iterator[tuple[Path, list[Patch]]]:
    """The repository in a directory of its own, and the patches to it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "ledger"
        make_repository(folder)
        yield folder, make_patches(folder)


def checked(folder: Path, patches: Sequence[Patch], box: Sandbox) -> list[Check]:
    """What `code.suites` says of patches, in one block."""
    task = Task(id="ledger", input={"repository": str(folder), "base_commit": "main"})
    block = Proposal.alternatives([patch.text for patch in patches])
    return list(Suites(box, timeout=SECONDS).verify(make_context(task), block).checks)


def measure(repeats: int) -> dict[str, Any]:
    """Both ways in turns, every patch."""
    with repository() as (folder, patches), Sandbox(packages=["pytest"], workers=WORKERS) as box:
        quick = [patch for patch in patches if patch.kind != "hanging"]
        seconds: dict[str, dict[str, list[float]]] = {}
        verdicts: dict[str, dict[str, Any]] = {patch.name: {"kind": patch.kind} for patch in patches}

        def ours(block: Sequence[Patch]) -> None:
            for patch, check in zip(block, checked(folder, block, box), strict=True):
                verdicts[patch.name].setdefault("ours", []).append(check.verdict)
                verdicts[patch.name]["reason"] = check.reason

        def loop(block: Sequence[Patch]) -> None:
            for patch in block:
                verdicts[patch.name].setdefault("by hand", []).append(by_hand(folder, patch.text))

        def pool(block: Sequence[Patch]) -> None:
            with ThreadPoolExecutor(box.at_once) as workers:
                list(workers.map(lambda patch: by_hand(folder, patch.text), block))

        ways = {"ours": ours, "plain loop": loop, "plain loops side by side": pool}
        checked(folder, patches[:1], box)  # the servers are started before any clock
        for repeat in range(repeats):
            for name, block in (("all", patches), ("all that end", quick)):
                for way in [*ways][repeat % 3 :] + [*ways][: repeat % 3]:
                    start = perf_counter()
                    ways[way](block)
                    seconds.setdefault(name, {}).setdefault(way, []).append(perf_counter() - start)
        tier = box.tier
    differing = [
        name
        for name, found in verdicts.items()
        if {verdict == "pass" for verdict in found["ours"]} != set(found["by hand"])
        or not {*found["ours"]} <= {"pass", "reject"}
    ]
    sizes = {"all": len(patches), "all that end": len(quick)}
    return {
        "patches": len(patches),
        "kinds": {
            kind: sum(patch.kind == kind for patch in patches) for kind in {p.kind: 0 for p in patches}
        },
        "isolation": tier,
        "at_once": box.at_once,
        "timeout": SECONDS,
        "repeats": repeats,
        "differing": differing,
        "differing_count": len(differing),
        "verdicts": verdicts,
        "candidates_a_minute": {
            name: {way: 60 * sizes[name] * repeats / sum(took) for way, took in ways_of.items()}
            for name, ways_of in seconds.items()
        },
        "times_as_fast": {
            name: {way: ratio(took, ways_of["ours"]) for way, took in ways_of.items() if way != "ours"}
            for name, ways_of in seconds.items()
        },
        "seconds": seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/code_patches.json"))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    figures = msgspec.to_builtins(measure(options.repeats))
    write(options.out, "benchmarks.code.patches", figures)
    print({name: figures[name] for name in ("differing", "candidates_a_minute", "times_as_fast")})
    return 1 if figures["differing"] else 0


if __name__ == "__main__":
    sys.exit(main())
