"""Published files of BigCodeBench, LiveCodeBench, APPS and MultiPL-E: what is read, and how it judges programs."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from draftverify import ConfigError, Outcome, Proposal, Task
from draftverify.kit import make_context
from draftverify_code import (
    Apps,
    BigCodeBench,
    Cases,
    HiddenTests,
    LiveCodeBench,
    MultiplE,
    RecordedPrograms,
    SamplePrograms,
    Sandbox,
    Tests,
)

from .test_sample import Scripted


def write(folder: Path, *rows: Any, name: str = "tasks.jsonl") -> Path:
    """A file with these lines."""
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def packed(tests: Any) -> str:
    """As LiveCodeBench stores private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


@pytest.fixture(scope="module")
def box():
    """One sandbox for all."""
    with Sandbox() as opened:
        yield opened


def checks_of(stage: Any, task: Task, programs: list[str]) -> Any:
    return stage.verify(make_context(task), Proposal.alternatives(programs)).checks


def words(checks: Any) -> list[tuple[str, str]]:
    return [(check.verdict, check.caveat) for check in checks]


BIG = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": 'import itertools\nimport math\n\ndef task_func(numbers):\n    """All gcds together."""\n',
    "instruct_prompt": "All gcds of pairs together.\nYou should write self-contained code starting with:\n```…```",
    "canonical_solution": "    return sum(math.gcd(*pair) for pair in itertools.combinations(numbers, 2))",
    "code_prompt": "import itertools\nimport math\ndef task_func(numbers):\n",
    "test": (
        "import unittest\nfrom unittest.mock import patch\n"
        "class TestCases(unittest.TestCase):\n"
        "    def setUp(self):\n        self.numbers = [4, 6, 8]\n"
        "    def test_pairs(self):\n        self.assertEqual(task_func(self.numbers), 2 + 4 + 2)\n"
        "    def test_empty(self):\n        self.assertEqual(task_func([]), 0)\n"
        "    @patch('math.gcd', return_value=1)\n"
        "    def test_uses_math(self, gcd):\n        self.assertEqual(task_func([2, 4]), 1)\n"
        "    def test_names_are_shared(self):\n        self.assertEqual(math.gcd(4, 6), 2)\n"
        "        self.assertTrue(os.path.exists('.') and isinstance(environ, type(os.environ)))\n"
    ),
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['itertools', 'math']",
}
BIG_PROGRAMS = {
    "complete": BIG["complete_prompt"] + BIG["canonical_solution"],
    "without the imports": "def task_func(numbers):\n" + BIG["canonical_solution"],
    "wrong": BIG["complete_prompt"] + "    return len(numbers)",
    "by hand": "def task_func(numbers):\n    def gcd(a, b): return gcd(b, a % b) if b else a\n"
    "    return sum(gcd(*pair) for pair in itertools.combinations(numbers, 2))",
    "another name": "def other(numbers): return 0",
    "leaves": "import os\nos._exit(0)",
    "patches unittest": "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'):\n"
    "        setattr(unittest.TestCase, name, lambda *_, **__: None)\ndef task_func(numbers): return 0",
}


def by_bigcodebench(program: str, row: dict[str, Any]) -> bool:
    """As its own harness judges: prompt, program and tests in one module."""
    import os
    import types
    import unittest

    module = types.ModuleType("__test__")
    vars(module).update(os=os, environ=os.environ)
    exec(row["code_prompt"] + "\n    pass\n" + program + "\n" + row["test"], vars(module))
    result = unittest.TestResult()
    unittest.TestLoader().loadTestsFromTestCase(module.TestCases).run(result)
    return result.wasSuccessful()


def test_bigcodebench(box: Sandbox, tmp_path: Path) -> None:
    """As its harness has it; programs that would end or patch that one are rejected, and the solution is not read."""
    path = write(tmp_path, BIG)
    (task,) = BigCodeBench(path).load()
    assert (task.id, task.input["form"], task.input["entry_point"]) == (
        "BigCodeBench/0",
        "completion",
        "task_func",
    )
    assert "combinations" not in json.dumps(dict(task.input))
    (instruct,) = BigCodeBench(path, prompt="instruct").load()
    assert instruct.input["prompt"] == BIG["instruct_prompt"]
    assert "form" not in instruct.input
    checks = dict(
        zip(
            BIG_PROGRAMS,
            checks_of(Tests(box, timeout=10.0), task, list(BIG_PROGRAMS.values())),
            strict=True,
        )
    )
    harmless = [name for name in BIG_PROGRAMS if name not in ("leaves", "patches unittest")]
    for name in harmless:
        assert (checks[name].verdict == "pass") is by_bigcodebench(BIG_PROGRAMS[name], BIG), checks[name]
    assert [name for name in checks if checks[name].verdict == "pass"] == ["complete", "without the imports"]
    assert {check.verdict for check in checks.values()} == {"pass", "reject"}
    assert (checks["by hand"].score, checks["by hand"].caveat) == (3 / 4, "shared-process")
    assert "test_uses_math" in checks["by hand"].feedback
    (hidden,) = BigCodeBench(path, hidden=True).load()
    assert "test" not in hidden.input
    metric = HiddenTests(box)
    for name in ("complete", "wrong"):
        solved = metric(hidden, Outcome(status="accepted", value=BIG_PROGRAMS[name]))
        assert solved is (name == "complete")


STDIN = {
    "question_title": "Halves",
    "question_content": "Print half of each number.",
    "platform": "atcoder",
    "question_id": "abc001_a",
    "contest_id": "abc001",
    "contest_date": "2024-01-01T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "2 4", "output": "1 2\n", "testtype": "stdin"}]),
    "private_test_cases": packed(
        [
            {"input": "3", "output": "1.5", "testtype": "stdin"},
            {"input": "40000000000000002", "output": "20000000000000001", "testtype": "stdin"},
        ]
    ),
    "metadata": "{}",
}
METHOD = {
    **STDIN,
    "question_content": "Give the indices of two numbers with this sum.",
    "platform": "leetcode",
    "question_id": "1",
    "starter_code": "class Solution:\n    def two_sum(self, numbers: List[int], target: int) -> List[int]:\n        ",
    "public_test_cases": json.dumps([{"input": "[2, 7]\n9", "output": "[0, 1]", "testtype": "functional"}]),
    "private_test_cases": packed([{"input": "[3, 1, 3]\n6", "output": "[0, 2]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "two_sum"}),
}
HALVES = "print(*({} for number in map(int, input().split())))"
SOLUTION = """\
class Solution:
    def two_sum(self, numbers: List[int], target: int) -> List[int]:
        def depth(n): return n and depth(n - 1)
        depth(5000)
        return next({} for i, j in combinations(range(len(numbers)), 2) if numbers[i] + numbers[j] == target)
"""


def test_livecodebench_on_standard_input(box: Sandbox, tmp_path: Path) -> None:
    """Numbers are compared as its harness does, exactly; every test counts for the score."""
    (task,) = LiveCodeBench(write(tmp_path, STDIN)).load()
    assert task.id == "abc001_a"
    assert task.input["prompt"].startswith("Print half of each number.\n\nRead standard input")
    programs = [
        HALVES.format("f'{number // 2}.0' if number % 2 == 0 else number / 2"),
        HALVES.format("number / 2"),
        HALVES.format("f'{number // 2}'"),
        "import time; time.sleep(60)",
    ]
    right, inexact, floors, late = checks_of(Cases(box, timeout=2.0), task, programs)
    assert right.verdict == "pass", right
    assert (inexact.verdict, inexact.score) == ("reject", pytest.approx(2 / 3))
    assert (floors.verdict, floors.score) == ("reject", pytest.approx(2 / 3))
    assert "case 2 of 3" in floors.feedback
    assert (late.reason, late.score) == ("wall", 0.0)
    (quick,) = LiveCodeBench(tmp_path / "tasks.jsonl", timeouts={"abc001_a": 0.5}).load()
    (late,) = checks_of(Cases(box, timeout=60.0), quick, programs[3:])
    assert (late.verdict, late.reason) == ("reject", "wall")
    (hidden,) = LiveCodeBench(tmp_path / "tasks.jsonl", hidden=True).load()
    assert [check.verdict for check in checks_of(Cases(box), hidden, programs[1:3])] == ["pass", "pass"]
    metric = HiddenTests(box)
    solved = [metric(hidden, Outcome(status="accepted", value=program)) for program in programs[:3]]
    assert solved == [True, False, False]


def test_livecodebench_of_a_class(box: Sandbox, tmp_path: Path) -> None:
    """Judged apart, with its imports and its depth of recursion; a tuple is as good as a list."""
    (task,) = LiveCodeBench(write(tmp_path, METHOD)).load()
    programs = [
        SOLUTION.format("[i, j]"),
        SOLUTION.format("(i, j)"),
        SOLUTION.format("[j, i]"),
        "class Solution:\n    def two_sum(self, numbers, target): return [0, 1]",
        "def two_sum(numbers, target): return [0, 1]",
        "import sys\nclass Solution:\n    def two_sum(self, numbers, target): sys.exit(0)",
    ]
    checks = checks_of(Tests(box, timeout=6.0, integrity="separate-process"), task, programs)
    assert words(checks) == [("pass", ""), ("pass", ""), *[("reject", "")] * 4], checks
    assert checks[3].score == 0.5


class Evil:
    """What a pickle may do when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("unpickled"),))


def test_a_pickle_is_read_and_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is more than a text, cut off, or no base64 is refused, and nothing of it runs."""
    monkeypatch.chdir(tmp_path)
    for data in (
        pickle.dumps(Evil()),
        pickle.dumps(["[]"]),
        pickle.dumps("[]")[:-3],
        b"",
        pickle.dumps(b"[]"),
    ):
        private = base64.b64encode(zlib.compress(data)).decode()
        path = write(tmp_path, {**STDIN, "private_test_cases": private})
        with pytest.raises(
            ConfigError, match=r"tasks\.jsonl:1: `private_test_cases` should be JSON, or a text"
        ):
            LiveCodeBench(path).load()
    whole = STDIN["private_test_cases"]
    for text in (whole[:40], whole[: len(whole) // 8 * 4], "no base64!"):
        with pytest.raises(ConfigError, match="private_test_cases"):
            LiveCodeBench(write(tmp_path, {**STDIN, "private_test_cases": text})).load()
    for protocol in range(5):
        text = pickle.dumps(json.dumps([{"input": "ä", "output": "\n", "testtype": "stdin"}]), protocol)
        private = base64.b64encode(zlib.compress(text)).decode()
        (task,) = LiveCodeBench(write(tmp_path, {**STDIN, "private_test_cases": private})).load()
        assert task.input["cases"][1] == {"input": "ä", "output": "\n"}
    assert not (tmp_path / "unpickled").exists()


APPS = {
    "id": 7,
    "question": "Print the larger of two numbers.",
    "solutions": json.dumps(["print(max(map(float, input().split())))"]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["3 1"]], "outputs": ["2\n", ["3.000001"]]}),
    "difficulty": "interview",
    "url": "https://example.org",
    "starter_code": "",
}
CALLED = {
    **APPS,
    "id": 8,
    "input_output": json.dumps(
        {"fn_name": "pairs", "inputs": [[[1, 2]], [[]]], "outputs": [[[[1, 1], [2, 2]]], [[]]]}
    ),
    "starter_code": "def pairs(xs):\n    ",
}


def test_apps(box: Sandbox, tmp_path: Path) -> None:
    """A file or the directory that its authors published; cases or calls; no tests, no verdict."""
    rows = [APPS, CALLED, {**APPS, "id": 9, "input_output": ""}]
    tasks = Apps(write(tmp_path, *rows)).load()
    assert [task.id for task in tasks] == ["7", "8", "9"]
    for row in rows:
        folder = tmp_path / "test" / f"{row['id']:04d}"
        folder.mkdir(parents=True)
        for name, field in (("question.txt", "question"), ("starter_code.py", "starter_code")):
            if row[field]:
                (folder / name).write_text(row[field])
        if row["input_output"]:
            (folder / "input_output.json").write_text(row["input_output"])
    folders = Apps(tmp_path / "test").load()
    assert [task.id for task in folders] == ["0007", "0008", "0009"]
    assert [task.input for task in folders] == [task.input for task in tasks]
    larger = "a, b = map(float, input().split())\nprint({})"
    right, wrong = checks_of(Cases(box), tasks[0], [larger.format("max(a, b)"), larger.format("b")])
    assert (right.verdict, wrong.verdict, wrong.score) == ("pass", "reject", 0.5)
    pairs = "def pairs(xs: List[int]):\n    return [{} for x in xs]"
    programs = [pairs.format("(x, x)"), pairs.format("[x, x]"), pairs.format("x")]
    checks = checks_of(Tests(box), tasks[1], programs)
    assert words(checks) == [("pass", ""), ("pass", ""), ("reject", "")]
    assert checks[2].score == 0.5
    assert [checks_of(stage, tasks[2], ["x = 1"])[0].verdict for stage in (Cases(box), Tests(box))] == [
        "abstain"
    ] * 2


PYTHON = {
    "name": "HumanEval_53_add",
    "language": "py",
    "prompt": 'def add(x: int, y: int) -> int:\n    """Add two numbers."""\n',
    "doctests": "transform",
    "original": "HumanEval_53_add.py",
    "prompt_terminology": "reworded",
    "tests": "def check(candidate):\n    assert candidate(0, 1) == 1\n    assert candidate(2, 3) == 5\n\n"
    "def test_check():\n    check(add)\n\ntest_check()\n",
    "stop_tokens": ["\ndef", "\n#", "\nif", "\nclass"],
}
RUST = {
    **PYTHON,
    "language": "rs",
    "prompt": "/// Add two numbers.\nfn add(x: isize, y: isize) -> isize {\n",
    "tests": "}\n\nfn main() {\n    let candidate = add;\n    assert_eq!(candidate(0, 1), 1);\n}\n",
    "stop_tokens": ["\n}"],
}


def test_multipl_e(box: Sandbox, tmp_path: Path) -> None:
    """Python's are judged here, and those of another language left to its stage."""
    (task,) = MultiplE(write(tmp_path, PYTHON)).load()
    programs = [PYTHON["prompt"] + f"    return x {operator} y\n" for operator in "+-"]
    assert words(checks_of(Tests(box), task, programs)) == [("pass", ""), ("reject", "")]
    (rust,) = MultiplE(write(tmp_path, RUST)).load()
    assert {name: rust.input[name] for name in ("language", "prompt", "test", "stop_tokens", "form")} == {
        "language": "rust",
        "prompt": RUST["prompt"],
        "test": RUST["tests"],
        "stop_tokens": ["\n}"],
        "form": "completion",
    }
    (check,) = checks_of(Tests(box), rust, ["fn add(x: isize, y: isize) -> isize { x + y }"])
    assert check.verdict == "abstain"
    assert "rust" in check.feedback


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no compiler of Rust")
def test_multipl_e_s_completions_are_cut_where_its_tests_begin(tmp_path: Path) -> None:
    """A recorded completion, a model's, and a whole program of a chat answer; the metric judges each."""
    (task,) = MultiplE(write(tmp_path, RUST), hidden=True).load()
    whole = f"fn one() -> isize {{\n    1\n}}\n\n{RUST['prompt']}    x + y\n}}\n"
    answers = {"completion": "    x + y\n}\n\nfn main() {}\n", "text": f"Here:\n```rust\n{whole}```\n"}
    programs = []
    for form, answer in answers.items():
        path = tmp_path / f"{form}.jsonl"
        path.write_text(json.dumps({"task_id": task.id, "text": answer}))
        programs += RecordedPrograms(path, form=form).propose(make_context(task), 1).items
    model = Scripted(answers["completion"])
    programs += SamplePrograms(model, chat=False).propose(make_context(task), 1).items
    assert programs[1:] == [whole.removesuffix("\n}\n"), programs[0]]
    metric = HiddenTests()
    assert [metric(task, Outcome(status="accepted", value=program)) for program in programs] == [True] * 3
    wrong = programs[0].replace("x + y", "x - y - 1")
    assert metric(task, Outcome(status="accepted", value=wrong)) is False


GOOD = {BigCodeBench: BIG, LiveCodeBench: METHOD, Apps: CALLED, MultiplE: PYTHON}
DAMAGED = [
    (BigCodeBench, {"test": "class ("}, "`test` should be Python, and does not parse"),
    (BigCodeBench, {"entry_point": "a b"}, "`entry_point` should be a function's name"),
    (LiveCodeBench, {"public_test_cases": "[{]"}, "`public_test_cases` should hold JSON"),
    (
        LiveCodeBench,
        {"public_test_cases": '[{"input": 1}]'},
        "a list of {input, output, testtype}, all texts",
    ),
    (LiveCodeBench, {"metadata": "{}"}, "`metadata` should say the `func_name`"),
    (LiveCodeBench, {"public_test_cases": STDIN["public_test_cases"]}, "functional.*stdin"),
    (Apps, {"input_output": "{"}, "`input_output` should hold JSON"),
    (Apps, {"input_output": '{"inputs": [[1]], "outputs": []}'}, "as many `inputs` as `outputs`"),
    (Apps, {"input_output": '{"fn_name": "a.b", "inputs": [[1]], "outputs": [1]}'}, "`fn_name` should be"),
    (
        Apps,
        {"input_output": '{"inputs": [1], "outputs": [1]}'},
        "should be texts where there is no `fn_name`",
    ),
    (MultiplE, {"stop_tokens": "x"}, "`stop_tokens` should be a list of texts"),
    (MultiplE, {"name": None}, "`name` should be a text or a number"),
]


@pytest.mark.parametrize(("layout", "fault", "said"), DAMAGED)
def test_a_damaged_line_refuses_the_file(layout: Any, fault: Any, said: str, tmp_path: Path) -> None:
    """With the file, the line, and what should be there."""
    row = GOOD[layout]
    other = {**row, layout.ids[-1]: "another", **fault}
    path = write(tmp_path, row, other)
    with pytest.raises(ConfigError, match=rf"tasks\.jsonl:2: .*{said}"):
        layout(path).load()
    path = write(tmp_path, row, "{not JSON")
    with pytest.raises(ConfigError, match=r"tasks\.jsonl:2: not JSON"):
        layout(path).load()


def test_a_file_of_another_layout_is_named(tmp_path: Path) -> None:
    """The mistake of a new user: the right file for the wrong loader, or no such file."""
    for layout, row in GOOD.items():
        path = write(tmp_path, row)
        for other in GOOD:
            if other is not layout:
                message = rf"a line of {other.__name__} has `.*it looks like one of {layout.__name__}"
                with pytest.raises(ConfigError, match=message):
                    other(path).load()
        with pytest.raises(ConfigError, match="cannot be read: No such file"):
            layout(tmp_path / "nowhere.jsonl").load()
    with pytest.raises(ConfigError, match="it has id"):
        BigCodeBench(write(tmp_path, {"id": 3})).load()
