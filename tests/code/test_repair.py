"""Problems to repair as they lie in directories, and the example that mends them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from draftverify import ConfigError, ContractError, Proposal, ResourceError, Task
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.kit import make_context
from draftverify_code.repair import FILE, Repair
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.command import ExitStatus
from draftverify_code.stages.tests import Tests

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def box():
    """These programs are our own, so they run on machines without isolation too."""
    with Sandbox(isolation="none", packages=["pytest"]) as sandbox:
        yield sandbox


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """A directory with a wrong program and a test file."""
    folder = tmp_path / "double"
    folder.mkdir()
    (folder / "program.py").write_text("def double(a):\n    return a * 3\n")
    (folder / "test_program.py").write_text(
        "from program import double\n\n\ndef test_it():\n    assert double(2) == 4\n"
    )
    return folder


def only(directory: Path, **fields: object) -> Task:
    """Its task, with other fields."""
    (task,) = Repair(directory).load()
    return Task(id=task.id, input={**task.input, **fields}, group=task.group)


def test_a_directory_is_one_problem(problem: Path) -> None:
    """Its files, the one to mend, and the command."""
    task = only(problem)
    assert (task.id, task.group) == ("double", "files")
    assert set(task.input) == {"prompt", "program", "target", "repository", "command"}
    assert task.input["program"] == (problem / task.input["target"]).read_text()
    assert task.input["repository"] == str(problem)
    assert task.input["program"] in task.input["prompt"]
    assert task.input["command"] == ["python", "-m", "pytest", "-q"]


def test_a_folder_of_directories_is_many(problem: Path) -> None:
    """Those that hold the target, by name; others are no problems."""
    (problem.parent / "also").mkdir()
    (problem.parent / "also" / "program.py").write_text("")
    (problem.parent / "notes").mkdir()
    (problem.parent / "readme.md").write_text("")
    assert [task.id for task in Repair(problem.parent).load()] == ["also", "double"]
    assert [task.id for task in Repair(problem.parent, limit=1).load()] == ["also"]


def test_asserts_are_a_list(problem: Path) -> None:
    """Each is a test of its own, over as many lines as it has; what else stands there comes before."""
    text = 'import math\n\nassert double(1) == 2, "é"\nassert double(\n    2,  # é\n) == math.floor(4.5)\n'
    (problem / "asserts.py").write_text(text, encoding="utf-8")
    task = only(problem)
    assert task.group == "asserts"
    assert task.input["test_list"] == [
        'assert double(1) == 2, "é"',
        "assert double(\n    2,  # é\n) == math.floor(4.5)",
    ]
    assert task.input["setup"] == "import math"
    assert "files" not in task.input


def test_what_stands_before_asserts_keeps_its_decorators(problem: Path) -> None:
    """A class of test data is the class that its author wrote."""
    text = "from dataclasses import dataclass\n\n@dataclass(\n    order=True\n)\nclass P:\n    x: int\n\n"
    text += "assert double(P(1).x) == 2\n"
    (problem / "asserts.py").write_text(text)
    scope: dict[str, object] = {"__name__": "tests", "double": lambda a: a * 2}
    task = only(problem)
    exec(task.input["setup"], scope)
    exec(task.input["test_list"][0], scope)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\nassert double(x) == 2\nx = 2\nassert double(x) == 4\n",
        "x = 1; assert double(x) == 2; x = 2; assert double(x) == 4\n",
        "assert double(0) == 0\nx = 2\nassert double(x) == 4\nx = 3\nassert double(x) == 6\n",
        "x = [1]\nassert double(x[0]) == 2\nx.append(2)\nassert double(x[1]) == 4\n",
        "x = [1]\nassert double(x[0]) == 2\nx[0] = 2\nassert double(x[0]) == 4\n",
        "x = 1\nassert double(x) == 2\nx += 1\nassert double(x) == 4\n",
        "assert double(len('a')) == 2\ndef len(a):\n    return 5\nassert double(len('a')) == 10\n",
        "assert (y := double(1)) == 2\nassert double(y) == 4\n",
        "assert double(0) == 0\nfor i in range(3):\n    assert double(i) == 2 * i\n",
        "for i in range(3):\n    if i:\n        assert double(i) == 2 * i\n",
        "x = double(1)\nassert x == 2\n",
        "def same(a):\n    assert double(a) == 2 * a\nsame(1)\nassert double(2) == 4\n",
    ],
)
def test_asserts_in_an_order_are_one_script(problem: Path, text: str) -> None:
    """Where statements between them, or asserts inside others, matter, the file is a test as it stands."""
    (problem / "asserts.py").write_text(text)
    task = only(problem)
    assert task.group == "asserts"
    assert task.input["test"] == text
    assert not {"test_list", "setup"} & set(task.input)


def test_a_script_is_run_as_it_stands(problem: Path, box: Sandbox) -> None:
    """A right program passes it, a wrong one does not."""
    text = "x = 1\nassert double(x) == 2\nx = 2\nfor y in (x, 5):\n    assert double(y) == 2 * y\n"
    (problem / "asserts.py").write_text(text)
    programs = ("def double(a):\n    return a * 2\n", "def double(a):\n    return 2\n")
    context = make_context(only(problem), role="verify")
    found = Tests(box).verify(context, Proposal.alternatives(programs))
    assert [check.verdict for check in found.checks] == ["pass", "reject"]


def test_a_script_with_a_check_function_is_refused(problem: Path) -> None:
    """A stage would take it for the function that all tests are in."""
    (problem / "asserts.py").write_text(
        "def check(a):\n    assert double(a) == 2\n\ncheck(1)\nassert double(2) == 4\n"
    )
    with pytest.raises(ConfigError, match=r"asserts\.py: a function of the name check"):
        Repair(problem).load()


def test_a_directory_is_a_path_or_a_text(problem: Path) -> None:
    """From Python either is given."""
    assert Repair(str(problem)).load()[0].id == "double"  # type: ignore[arg-type]


def test_hidden_and_made_files_are_left_out(problem: Path, box: Sandbox) -> None:
    """What tools leave behind is not handed to the sandbox; any other file is, binary ones too, and links."""
    for name in (".git", "__pycache__", "node_modules", "data"):
        (problem / name).mkdir()
        (problem / name / "x").write_text("x")
    (problem / ".env").write_text("SECRET=1")
    (problem / "picture.png").write_bytes(b"\x89PNG\xff")
    (problem / "link").symlink_to("data")
    text = "find . | sort; head -c 4 picture.png | od -An -tx1; readlink link; exit 3"
    task = only(problem, command=["sh", "-c", text])
    (check,) = ExitStatus(box).verify(make_context(task), Proposal.alternatives([""])).checks
    names = [".", "./data", "./data/x", "./link", "./picture.png", "./program.py", "./test_program.py"]
    assert check.feedback.splitlines()[1:] == [*names, " 89 50 4e 47", "data"]


def test_the_directory_is_never_written(problem: Path, box: Sandbox) -> None:
    """Loading and running its tests leave it as it was, byte for byte and with the same times."""

    def state() -> list[tuple[str, int, bytes]]:
        return [
            (str(p), p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(problem.rglob("*")) if p.is_file()
        ]

    before, entries = state(), sorted(problem.rglob("*"))
    task = only(problem, command=["python", "-m", "unittest"])
    ExitStatus(sandbox=box).verify(make_context(task), Proposal.alternatives([task.input["program"]]))
    assert (state(), sorted(problem.rglob("*"))) == (before, entries)


def test_a_program_that_is_no_text_is_refused(problem: Path) -> None:
    """With its place; and one that is too large."""
    (problem / "program.py").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ConfigError, match=r"program.py.*no UTF-8 text|no UTF-8 text.*program.py"):
        Repair(problem).load()
    (problem / "program.py").write_bytes(b"x" * (FILE + 1))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        Repair(problem).load()


def test_a_target_that_leaves_is_refused(problem: Path, tmp_path: Path) -> None:
    """By being a link."""
    (tmp_path / "secret").write_text("secret")
    (problem / "program.py").unlink()
    (problem / "program.py").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="leaves the problem's directory"):
        Repair(problem).load()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_a_pipe_is_not_read(problem: Path, box: Sandbox) -> None:
    """It would wait for ever."""
    os.mkfifo(problem / "pipe")
    with pytest.raises(ContractError, match="neither a file nor a link"):
        ExitStatus(box).verify(make_context(only(problem)), Proposal.alternatives([""]))
    (problem / "program.py").unlink()
    (problem / "pipe").rename(problem / "program.py")
    with pytest.raises(ConfigError, match="no problem is here"):
        Repair(problem).load()


def test_a_negative_limit_is_refused(problem: Path) -> None:
    """It would leave out the last ones."""
    with pytest.raises(ConfigError, match="cannot be negative"):
        Repair(problem, limit=-1).load()


def test_wrong_asserts_are_refused(problem: Path) -> None:
    """A file that does not parse, and one without an assert."""
    for text, message in (
        ("assert (\n", "do not parse"),
        ("def f():\n    assert True\n", "no assert statement"),
    ):
        (problem / "asserts.py").write_text(text)
        with pytest.raises(ConfigError, match=message):
            Repair(problem).load()
    with pytest.raises(ConfigError, match="no such directory"):
        Repair(problem / "nowhere").load()


# The examples


def test_the_examples_load() -> None:
    """At least 24 problems; at least four are judged by test files."""
    groups = [task.group for task in Repair(EXAMPLES / "repair").load()]
    assert groups.count("asserts") >= 24
    assert groups.count("files") >= 4


def test_the_experiment_is_well_formed() -> None:
    """Its parts are there and fit each other."""
    experiment = load_experiment(EXAMPLES / "code-repair.yaml")
    assert [pipeline.name for pipeline in experiment.pipelines] == ["mutants"]


@pytest.mark.slow
def test_the_example_mends_what_its_tests_judge(tmp_path: Path) -> None:
    """From the command line: problems with asserts and with test files beside each other, each mended."""
    try:
        Sandbox().open()
    except ResourceError:
        pytest.skip("this machine does not allow this isolation tier")
    for name in ("account", "anagrams"):
        shutil.copytree(EXAMPLES / "repair" / name, tmp_path / "repair" / name)
    config = (EXAMPLES / "code-repair.yaml").read_text(encoding="utf-8")
    (tmp_path / "repair.yaml").write_text(config, encoding="utf-8")
    out = tmp_path / "run"
    assert main(["run", str(tmp_path / "repair.yaml"), "--out", str(out)]) == ExitCode.OK
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert {each["name"]: each["statuses"] for each in summary["pipelines"]} == {
        "mutants": {"accepted": 2},
    }
