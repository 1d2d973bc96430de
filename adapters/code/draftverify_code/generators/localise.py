"""Where a failing program is probably wrong: lines that its failing tests run and its passing tests do not."""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from draftverify import Task
from draftverify_code.generators.assertions import one_by_one
from draftverify_code.sandbox import Command, Limits, Sandbox
from draftverify_code.stages.command import files_of
from draftverify_code.stages.running import limits_of, seconds_of
from draftverify_code.stages.tests import Tests

__all__ = ["NOWHERE", "Suspicion", "from_command", "from_suite", "ochiai"]

PROBE = "draftverify_probe"
LINES = f"{PROBE}/lines.jsonl"
LIMITS = Limits(wall=20.0, cpu=20.0)  # noting every line takes some ten times as long


class Suspicion(msgspec.Struct, frozen=True):
    """What the tests say of a program's lines.

    Args:
        lines: line, from 1 → from 0 to 1; a line that no failing test ran is not in it. Empty where nothing is known.
        score: the share of tests that the program passes; None where that is not known.
    """

    lines: Mapping[int, float] = {}
    score: float | None = None

    def of(self, first: int, last: int) -> float:
        """The suspicion of a stretch of lines, the largest of theirs; 1 where nothing is known of any line."""
        if not self.lines:
            return 1.0
        return max((self.lines.get(line, 0.0) for line in range(first, last + 1)), default=0.0)


NOWHERE = Suspicion()


def ochiai(passed: Sequence[bool | None], lines: Sequence[frozenset[int]]) -> dict[int, float]:
    """Each line's suspicion: failed(line) / √(failed · (failed(line) + passed(line))), over tests with lines.

    Args:
        passed: for each test whether it passed; one that was not run (None) counts for nothing.
        lines: for each test the lines that it ran.

    Source: Ochiai's coefficient, as in Abreu, Zoeteweij, van Gemund (2006).
    """
    tests = [(good, ran) for good, ran in zip(passed, lines, strict=False) if good is not None and ran]
    failing = [ran for good, ran in tests if not good]
    found: dict[int, float] = {}
    for line in sorted(set[int]().union(*failing)):
        bad = sum(line in ran for ran in failing)
        good_too = sum(line in ran for good, ran in tests if good)
        found[line] = bad / math.sqrt(len(failing) * (bad + good_too))
    return found


def from_suite(tests: Tests, task: Task, program: str) -> Suspicion:
    """The suspicion from tests that the judge runs, in one run of the program."""
    suite = one_by_one(tests.suite(task))
    limits = limits_of(seconds_of(task.input, tests.timeout), tests.memory)
    finding = tests.box(suite, [program]).judge(suite, [program], limits, lines=True)[0]
    if finding.check.verdict not in ("pass", "reject"):
        return NOWHERE
    passed = finding.passed or (finding.check.verdict == "pass",) * len(finding.lines)
    return Suspicion(ochiai(passed, finding.lines), finding.check.score)


def from_command(sandbox: Sandbox, task: Task, program: str, limits: Limits = LIMITS) -> Suspicion:
    """The suspicion from a directory's own test command, in one run with every line of the target noted.

    Tests of pytest and unittest are told apart; of any other command the whole run is one test.
    """
    given = task.input
    here = Path(__file__).parent / "probe"
    files = {**files_of(task), posixpath.normpath(given["target"]): program.encode()}
    for path in sorted(here.glob("*.py")):
        files[f"{PROBE}/{path.name}"] = path.read_bytes()
    environment = {
        "PYTHONPATH": PROBE,
        "PYTEST_PLUGINS": "draftverify_pytest_probe",
        "DRAFTVERIFY_TARGET": given["target"],
        "DRAFTVERIFY_SECONDS": str(limits.wall / 2),
    }
    command = Command(tuple(given["command"]), files, collect=(LINES,), env=environment, limits=limits)
    exit = sandbox.run([command])[0]
    if exit.failure or LINES not in exit.files:
        return NOWHERE
    return _read(exit.files[LINES], exit.status == 0)


def _read(report: bytes, status: bool) -> Suspicion:
    """The suspicion from a probe's report; what a program under test may have written there instead says nothing."""
    tests: dict[str, tuple[bool, frozenset[int]]] = {}
    outside: set[int] = set()
    for row in report.splitlines():
        try:
            record = json.loads(row)
            name, passed = str(record["test"]), record["passed"]
            lines = frozenset(line for line in record["lines"] if type(line) is int and line > 0)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if passed is None:
            outside |= lines
        else:
            tests[name] = bool(passed), lines
    if not tests:
        return Suspicion(ochiai((status,), (frozenset(outside),)))
    passed = [good for good, _ in tests.values()]
    share = sum(passed) / len(passed)
    # What ran when the file was imported, every test stands on.
    return Suspicion(ochiai(passed, [lines | outside for _, lines in tests.values()]), share)
