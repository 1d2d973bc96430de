"""Mutation repair: what a mutant is, in which order mutants come, and what they mend of the buggy example programs."""

from __future__ import annotations

import ast
import inspect
import statistics
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import hypothesis.strategies as st
import pytest
from draftverify_code.generators.assertions import one_by_one
from draftverify_code.generators.edits import Edit, Source, applied, fingerprint
from draftverify_code.generators.localise import from_suite, ochiai
from draftverify_code.generators.misparse import parsable
from draftverify_code.generators.mutate import Mutate
from draftverify_code.generators.mutations import PRIORS, mutations
from draftverify_code.repair import Repair
from draftverify_code.sandbox import Finding, Limits, Suite
from draftverify_code.stages.tests import Tests
from hypothesis import HealthCheck, given, settings

from draftverify import (
    Budget,
    Check,
    ConfigError,
    Context,
    Pipeline,
    Proposal,
    Round,
    Task,
    TaskRecord,
    Verification,
    give_up,
    retry,
)
from draftverify.rules import First
from draftverify.testing import check_component, make_context

EXAMPLES = Path(__file__).parents[2] / "examples" / "repair"
STEPS = 20_000  # lines after which a test of the in-process sandbox counts as hanging

# What is wrong in each example: the fragments that were planted, and what stood there.
PLANTED: dict[str, list[tuple[str, str]]] = {
    "anagrams": [('"".join(word)', '"".join(sorted(word))')],
    "base_digits": [("text + DIGITS[number % base]", "DIGITS[number % base] + text")],
    "binary_search": [("while low < high", "while low <= high")],
    "brackets": [("if open_ones and open_ones.pop()", "if not open_ones or open_ones.pop()")],
    "breadth_first": [("waiting.pop()", "waiting.popleft()")],
    "caesar": [('isupper():\n            base = ord("a")', 'isupper():\n            base = ord("A")'), ("25", "26")],
    "change_ways": [("table = [0] +", "table = [1] +")],
    "common_subsequence": [("min(table", "max(table")],
    "digital_root": [("number >= 9", "number > 9")],
    "edit_distance": [("replaced = previous[j] +", "replaced = previous[j - 1] +")],
    "flatten": [("found.append(flat(item))", "found.extend(flat(item))")],
    "greatest_divisor": [("a // b", "a % b")],
    "intervals": [("[1] = end", "[1] = max(found[-1][1], end)"), ("start < found", "start <= found")],
    "knapsack": [("range(weight, capacity + 1)", "range(capacity, weight - 1, -1)")],
    "kth_smallest": [("if k < len(below):", "if k <= len(below):")],
    "leap_year": [("and year % 400", "or year % 400")],
    "look_and_say": [("str(end - place + 1)", "str(end - place)")],
    "luhn": [("enumerate(number)", "enumerate(reversed(number))"), ("digit > 10", "digit > 9")],
    "median": [("list(numbers)", "sorted(numbers)"), ("(ordered[middle] +", "(ordered[middle - 1] +")],
    "merge": [("right[j + 1:]", "right[j:]")],
    "pascal": [("range(len(current) - 2)", "range(len(current) - 1)")],
    "polish": [
        (
            "left = stack.pop()\n            right = stack.pop()",
            "right = stack.pop()\n            left = stack.pop()",
        )
    ],
    "powerset": [("found.append(chosen)", "found.append(list(chosen))")],
    "prime_factors": [("divisor * divisor < number", "divisor * divisor <= number")],
    "quicksort": [("range(low, high - 1)", "range(low, high)")],
    "roman": [("value <= VALUES", "value < VALUES")],
    "roman_written": [('(5, "V")', '(9, "IX"), (5, "V"), (4, "IV")')],
    "rotate": [("range(rows)", "range(rows - 1, -1, -1)")],
    "run_length": [("found.append([letter, 0])", "found.append([letter, 1])")],
    "sieve": [("range(2, limit):", "range(2, limit + 1):"), ("= True\n    return", "= False\n    return")],
    "subarray": [("best = 0", 'best = float("-inf")')],
    "topological": [("if missing[other] == 1", "if missing[other] == 0")],
    "tree_depth": [("max(depth(left), depth(left))", "max(depth(left), depth(right))")],
}
BEYOND = {"intervals", "roman_written"}  # no one or two edits mend these


class TooLong(BaseException):
    """A test of the in-process sandbox ran too many lines."""


class InProcess:
    """Stands in for the sandbox: runs the asserts of programs that this repository holds, in this process."""

    workers = 1
    tier = "none"

    def __init__(self) -> None:
        self.programs: list[str] = []

    def judge(
        self,
        suite: Suite,
        programs: Sequence[str],
        limits: Limits | None = None,
        *,
        enough: int | None = None,
        lines: bool = False,
    ) -> list[Finding]:
        self.programs.extend(programs)
        return [self._one(suite, program) for program in programs]

    def _one(self, suite: Suite, program: str) -> Finding:
        try:
            code = compile(program, "<program>", "exec")
        except SyntaxError:
            return Finding(Check("reject", 0.0, "syntax"))
        passed: list[bool | None] = []
        ran: list[frozenset[int]] = []
        for each in suite.asserts:
            good, lines = _traced(code, suite.setup, each)
            passed.append(good)
            ran.append(lines)
        score = passed.count(True) / len(passed)
        check = Check("pass", score) if score == 1 else Check("reject", score, "assertion")
        return Finding(check, tuple(passed), tuple(ran))


def _traced(code: Any, setup: str, test: str) -> tuple[bool, frozenset[int]]:
    seen: set[int] = set()
    left = STEPS

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != "<program>":
            return None
        seen.add(frame.f_lineno)
        left -= 1
        if left < 0:
            raise TooLong
        return on_line

    before = sys.gettrace()
    scope: dict[str, Any] = {}
    sys.settrace(on_line)
    try:
        exec(code, scope)
        exec(setup, scope)
        exec(test, scope)
    except (Exception, TooLong):
        return False, frozenset(seen)
    finally:
        sys.settrace(before)
    return True, frozenset(seen)


class Judged:
    """A verifier that asks the in-process sandbox, and stops at the first passed program."""

    provides = frozenset({"verdicts", "scores"})

    def __init__(self, tests: Tests) -> None:
        self.tests = tests

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        checks: list[Check] = []
        for item in proposal.items:
            if any(check.verdict == "pass" for check in checks):
                checks.append(Check("unchecked"))
            else:
                suite = self.tests.suite(context.task)
                checks.append(self.tests.sandbox.judge(suite, [item])[0].check)  # type: ignore[union-attr]
        return Verification(checks=tuple(checks))


def in_process() -> Tests:
    return Tests(sandbox=InProcess())  # type: ignore[arg-type]


def mend(task: Task, *, rounds: int = 40, block: int = 64, localised: bool = True, pairs: int = 1000) -> TaskRecord:
    tests = in_process()
    pipeline = Pipeline(
        Mutate(tests if localised else None, pairs=pairs),
        Judged(tests),
        First(),
        policy=give_up(on=["exhausted"]).then(retry(None)),
        block=block,
        budget=Budget(rounds=rounds),
    )
    return pipeline.record(task)


def checked(record: TaskRecord) -> int:
    return sum(check.verdict != "unchecked" for round in record.rounds for check in round.checks)


def proposed(task: Task, *, n: int = 10_000, mutate: Mutate | None = None) -> list[str]:
    """All mutants that come when no round has been judged, in order."""
    return list((mutate or Mutate(pairs=0)).propose(make_context(task), n).items)
