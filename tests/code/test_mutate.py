"""Mutation repair: what a mutant is, in which order mutants come, and what they mend of the buggy example programs."""

from __future__ import annotations

import bisect
import colorsys
import fnmatch
import heapq
import inspect
import posixpath
import statistics
import sys
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import hypothesis.strategies as st
import pytest
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
from draftverify.kit import check_component, make_context
from draftverify.rules import First
from draftverify.traits import VerifierTraits
from draftverify_code.generators.edits import ProgramSource, fingerprint
from draftverify_code.generators.mutate import Mutate
from draftverify_code.generators.mutations import PRIORS, mutations
from draftverify_code.repair import Repair
from draftverify_code.sandbox import Limits, Suite, SuiteFinding
from draftverify_code.stages.tests import Tests

EXAMPLES = Path(__file__).parents[2] / "examples" / "repair"
STEPS = 20_000  # lines after which a test of the in-process sandbox counts as hanging

# What is wrong in each example: the fragments that were planted, and what stood there.
PLANTED: dict[str, list[tuple[str, str]]] = {
    "anagrams": [('"".join(word)', '"".join(sorted(word))')],
    "base_digits": [("text + DIGITS[number % base]", "DIGITS[number % base] + text")],
    "binary_search": [("while low < high", "while low <= high")],
    "brackets": [("if open_ones and open_ones.pop()", "if not open_ones or open_ones.pop()")],
    "breadth_first": [("waiting.pop()", "waiting.popleft()")],
    "caesar": [
        ('isupper():\n            base = ord("a")', 'isupper():\n            base = ord("A")'),
        ("25", "26"),
    ],
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

    workers = at_once = 1
    tier = "none"

    def __init__(self) -> None:
        self.programs: list[str] = []

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def judge(
        self,
        suite: Suite,
        programs: Sequence[str],
        limits: Limits | None = None,
    ) -> list[SuiteFinding]:
        self.programs.extend(programs)
        return [self._one(suite, program) for program in programs]

    def _one(self, suite: Suite, program: str) -> SuiteFinding:
        try:
            code = compile(program, "<program>", "exec")
        except SyntaxError:
            return SuiteFinding(Check("reject", 0.0, "syntax"))
        passed: list[bool | None] = []
        for statement in suite.asserts:
            passed.append(_passes(code, suite.setup, statement))
        score = passed.count(True) / len(passed)
        check = Check("pass", score) if score == 1 else Check("reject", score, "assertion")
        return SuiteFinding(check, tuple(passed))


def _passes(code: Any, setup: str, test: str) -> bool:
    left = STEPS

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != "<program>":
            return None
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
        return False
    finally:
        sys.settrace(before)
    return True


class Judged:
    """A verifier that asks the in-process sandbox, and stops at the first passed program."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

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


def mend(task: Task, *, rounds: int = 40, block: int = 64) -> TaskRecord:
    tests = in_process()
    pipeline = Pipeline(
        Mutate(),
        Judged(tests),
        First(),
        policy=give_up(on=["exhausted"]).then(retry(None)),
        block=block,
        budget=Budget(rounds=rounds),
    )
    return pipeline.record(task)


def checked(record: TaskRecord) -> int:
    return sum(check.verdict != "unchecked" for round in record.rounds for check in round.checks)


def proposed(task: Task, *, n: int = 10_000) -> list[str]:
    """All mutants that come when no round has been judged, in order."""
    return list(Mutate().propose(make_context(task), n).items)


def asserted(name: str) -> Task:
    return next(task for task in Repair(EXAMPLES).load() if task.id == name)


def task_of(program: str, *asserts: str) -> Task:
    return Task(id="t", input={"program": program, "test_list": list(asserts)})


# Programs to mutate: functions of the standard library, and small ones made up at random.


def _functions(*modules: ModuleType) -> list[str]:
    found = []
    for module in modules:
        for _, function in sorted(inspect.getmembers(module, inspect.isfunction)):
            if function.__code__.co_filename == module.__file__:
                text = textwrap.dedent(inspect.getsource(function))
                if len(text) < 900:
                    found.append(text)
    return found


LIBRARY = _functions(bisect, colorsys, fnmatch, heapq, posixpath, textwrap, statistics)
NAMES = st.sampled_from(["a", "b", "größe", "items"])
ATOMS = st.one_of(
    NAMES, st.integers(-3, 12).map(str), st.sampled_from(['"ü"', "'x'", "True", "None", "[]", "f'{a}'"])
)


OPERATORS = st.sampled_from(["+", "-", "*", "//", "%", "<", ">=", "==", "is not", "not in", "and", "or"])


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, OPERATORS, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, st.sampled_from(["<", "+", "//"]), inner).map(" ".join),
        pair.map(lambda two: f"max({two[0]}, {two[1]})"),
        pair.map(lambda two: f"items[{two[0]}:{two[1]}]"),
        pair.map(lambda two: f"[x for x in {two[0]} if {two[1]}]"),
        inner.map(lambda one: f"items[{one}]"),
        inner.map(lambda one: f"(not {one})"),
        inner.map(lambda one: f"items.append(\n        {one}  # é\n    )"),
    )  # fmt: skip


EXPRESSIONS = st.recursive(ATOMS, _compound, max_leaves=6)


@st.composite
def blocks(draw: st.DrawFn, indent: str = "    ", depth: int = 2) -> str:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        value = draw(EXPRESSIONS)
        kinds = ["assign", "augment", "return", "expression"] + (["if", "for", "while"] if depth else [])
        kind = draw(st.sampled_from(kinds))
        note = draw(st.sampled_from(["", "  # ß"]))
        if kind in ("if", "while"):
            lines.append(f"{indent}{kind} {value}:{note}\n" + draw(blocks(indent + "    ", depth - 1)))
        elif kind == "for":
            lines.append(f"{indent}for b in {value}:{note}\n" + draw(blocks(indent + "    ", depth - 1)))
        else:
            head = {"assign": "a = ", "augment": "a += ", "return": "return ", "expression": ""}[kind]
            lines.append(f"{indent}{head}{value}{note}\n")
    return "".join(lines)


PROGRAMS = st.one_of(
    st.sampled_from(LIBRARY), blocks().map(lambda body: f"def f(a, b, größe, items):\n{body}")
)
SLOWLY = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOWLY
@given(PROGRAMS)
def test_every_mutant_parses_and_is_new(program: str) -> None:
    """It has a syntax tree that neither the program has nor any mutant before it."""
    keys = [fingerprint(item) for item in proposed(task_of(program))]
    assert keys
    assert None not in keys
    assert len({*keys, fingerprint(program)}) == len(keys) + 1


@SLOWLY
@given(PROGRAMS)
def test_a_mutant_differs_in_one_stretch(program: str) -> None:
    """What stands before and after the edit's span, comments and layout with it, is as it was."""
    data = program.encode()
    source = ProgramSource(program)
    for edit in mutations(source):
        mutant = source.replaced(edit.start, edit.end, edit.text).encode()
        assert mutant == data[: edit.start] + edit.text.encode() + data[edit.end :]
        assert 0 < edit.weight <= max(PRIORS.values())


@SLOWLY
@given(PROGRAMS, st.integers(1, 40))
def test_blocks_continue_where_the_last_one_ended(program: str, n: int) -> None:
    """Block after block, with the cache lost between them, gives the mutants of one large block."""
    task = task_of(program)
    whole = proposed(task)
    rounds: list[Round] = []
    found: list[str] = []
    for index in range(3):
        items = Mutate().propose(make_context(task, rounds=rounds), n).items
        rounds.append(Round(index=index, items=tuple(items), checks=(Check("reject"),) * len(items)))
        found += items
    assert found == whole[: 3 * n]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if a <= b:  # why\n    c = 1\n", "if a < b:  # why\n    c = 1\n"),
        ("x = (a) >= (b)\n", "x = (a) > (b)\n"),
        ("x = a not in b\n", "x = a in b\n"),
        ("x = a == b\n", "x = a is b\n"),
        ('größe = "ü" + größe * 2\n', 'größe = "ü" + größe // 2\n'),
        ("x = a - b\n", "x = b - a\n"),
        ("x = a and b\n", "x = a or b\n"),
        ("if not a:\n    b()\n", "if a:\n    b()\n"),
        ("x = [1]\n", "x = [2]\n"),
        ("x = True\n", "x = False\n"),
        ("x = items[i - 1]\n", "x = items[i]\n"),
        ("x = items[:i + 1]\n", "x = items[:i]\n"),
        ("f(b, a)\n", "f(a, b)\n"),
        ("for i in range(1, n + 1):\n    f(i)\n", "for i in range(n):\n    f(i)\n"),
        ("x = max(a, b)\n", "x = min(a, b)\n"),
        ("x.extend(y)\n", "x.append(y)\n"),
        ("x = abs(y)\n", "x = y\n"),
        ("def f(a, b):\n    return b\n", "def f(a, b):\n    return a\n"),
        ("def f(a=1):\n    return a\n", "def f(a=0):\n    return a\n"),
        ("a = 1\nb = 2\n", "b = 2\na = 1\n"),
        ("best = float('-inf')\n", "best = 0\n"),
        ("x = a\r\ny = a < b\r\n", "x = a\r\ny = a <= b\r\n"),
        ("class A:\n    def f(self, a):\n        return a\n", "class A:\n    def f(self, a):\n        return not a\n"),
    ],
)  # fmt: skip
def test_what_is_easily_got_wrong_is_mended(right: str, wrong: str) -> None:
    """The right program is one edit away from the wrong one."""
    source = ProgramSource(wrong)
    mutants = [source.replaced(edit.start, edit.end, edit.text) for edit in mutations(source)]
    assert fingerprint(right) in set(map(fingerprint, mutants))


def test_texts_are_left_alone_where_places_are_not_known() -> None:
    """No edit reaches into an f-string, of which Python before 3.12 says the wrong places."""
    program = 'x = f"{a + 1} of {b}"\n'
    start, end = program.index('f"'), len(program) - 1
    assert all(
        edit.end <= start or edit.start >= end or edit.start <= start
        for edit in mutations(ProgramSource(program))
    )


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_any_text_is_borne(text: str) -> None:
    """A program that is no Python gets proposals that are, or none."""
    items = proposed(task_of(text), n=20)
    assert None not in map(fingerprint, items)


MENDED = sorted(set(PLANTED) - {"luhn"} - BEYOND)


@cache
def mended(name: str) -> TaskRecord:
    return mend(asserted(name))


@pytest.mark.parametrize("name", MENDED)
def test_an_example_is_mended(name: str) -> None:
    """Each but those that are beyond one or two edits, within 40 blocks of 64; what passes is what was asked for."""
    record = mended(name)
    assert record.outcome.status == "accepted"
    finding = InProcess().judge(in_process().suite(asserted(name)), [record.outcome.value])[0]
    assert finding.check.verdict == "pass"


def test_most_examples_take_one_block() -> None:
    """The median of mutants looked at is below 25."""
    found = [checked(mended(name)) for name in MENDED]
    assert statistics.median(found) < 25


def test_better_mutants_are_mutated() -> None:
    """Two independent mistakes are mended one after the other."""
    record = mend(asserted("caesar"), rounds=20)
    assert record.outcome.status == "accepted"


@pytest.mark.parametrize(
    "line",
    [
        lambda i: f"x{i} = x{i - 1} + 1\n",
        lambda i: f"x{i} = f('text {i}', x{i - 1})\n",
        lambda i: f"x = y.z{i} + 1\n",
    ],
    ids=["names", "texts", "attributes"],
)
def test_edits_grow_with_the_lines(line: Any) -> None:
    """In a long program of many names only those near to a place are tried in it, so that it can be mutated at all."""
    short, long = (
        len(mutations(ProgramSource("x0 = 1\n" + "".join(map(line, range(1, n)))))) for n in (100, 400)
    )
    assert long < 5 * short


def test_the_end_is_said() -> None:
    """A program with few mutants is exhausted; the last block is judged first."""
    task = task_of("x = a < b\n")
    mutate = Mutate()
    first = mutate.propose(make_context(task), 1000)
    assert not first.exhausted
    rounds = [Round(index=0, items=tuple(first.items), checks=(Check("reject"),) * len(first))]
    second = mutate.propose(make_context(task, rounds=rounds), 1000)
    assert second.exhausted
    assert not second.items


def test_items_of_others_are_not_proposed_again() -> None:
    """What another generator drafted counts as tried, in whatever layout."""
    task = task_of("x = a < b\n")
    first = proposed(task)[0]
    rounds = [
        Round(index=0, items=({"text": first.replace(" = ", "   =   ")}, 7), checks=(Check("reject"),) * 2)
    ]
    items = Mutate().propose(make_context(task, rounds=rounds), 1000).items
    assert list(items) == proposed(task)[1:]


def test_other_languages_are_left_alone() -> None:
    """There is nothing to propose for them."""
    task = Task(id="t", input={"program": "int main() {}", "language": "c"})
    assert Mutate().propose(make_context(task), 8).exhausted


def test_a_task_without_a_program_is_refused() -> None:
    """And so is a program of a size that nobody wrote."""
    with pytest.raises(ConfigError, match="no 'files'"):
        proposed(Task(id="t", input={"prompt": "def f():"}))
    with pytest.raises(ConfigError, match="bytes"):
        proposed(task_of("x = 1\n" * 100_000))


def test_the_part_conforms() -> None:
    """Shape, reproducibility, scratch as a cache, four threads."""
    tasks = [asserted("merge"), task_of("def f(a)\n    return a\n", "assert f(1) == 1")]
    check_component(Mutate(), contexts=[make_context(task, role="draft") for task in tasks], block=5)
