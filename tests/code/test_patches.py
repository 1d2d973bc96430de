"""Patches to a repository: judged as git and pytest by hand, and nothing of what a model wrote leaves its place."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
import shutil
import stat
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from benchmarks.code.patches import MONEY, RIGHT, WRONG, by_hand, git, repository
from draftverify import ContractError, Proposal, ResourceError, Task
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.generators.extract import extract
from draftverify_code.patches import Workspace
from draftverify_code.patches.container import Container
from draftverify_code.patches.files import BASE, SMALL, PackedFiles, files_in, shelf
from draftverify_code.patches.workspace import CHANGE, PATCH, PROTECTED
from draftverify_code.sandbox import Limits, Sandbox, SandboxCommand
from draftverify_code.stages.command import ExitStatus
from draftverify_code.stages.suites import Suites

EXAMPLES = Path(__file__).parents[2] / "examples"
SPLIT = "tests/test_money.py::test_split_loses_nothing"
LISTS = {
    "FAIL_TO_PASS": [f"{SPLIT}[1000-3]", f"{SPLIT}[5-4]"],
    "PASS_TO_PASS": ["tests/test_money.py::test_show", "tests/test_account.py::test_balance"],
}


@pytest.fixture(scope="module")
def ledger():
    """The repository of the example with one issue open, and forty patches by name."""
    with repository() as (folder, patches):
        yield folder, {patch.name: patch.text for patch in patches}


@pytest.fixture(scope="module")
def box():
    """One sandbox with pytest in it."""
    with Sandbox(packages=("pytest",), workers=3) as sandbox:
        yield sandbox


def checks_of(stage, folder, items, **fields):
    """A block's checks; `base_commit` is main's unless another is given."""
    input = {"repository": str(folder), "base_commit": "main", **fields}
    task = Task(id="ledger", input={name: value for name, value in input.items() if value is not None})
    return stage.verify(make_context(task), Proposal.alternatives(items)).checks


# --- by hand

REPRESENTATIVE = (
    "a file renamed", "a binary file changed", "tests edited too", "made for an older commit",
    "prose before, no end of line", "rounded", "leaving at import", "a conftest.py that deselects", "and wrong",
    "asleep", "cut off",
)  # fmt: skip


def test_verdicts_are_those_of_git_and_pytest_by_hand(ledger, box):
    """Of eleven patches, some of every kind; the benchmark has all forty. Nothing else is said than pass or reject."""
    folder, patches = ledger
    texts = [patches[name] for name in REPRESENTATIVE]
    checks = checks_of(Suites(box, timeout=3.0), folder, texts)
    assert {check.verdict for check in checks} == {"pass", "reject"}
    for name, text, check in zip(REPRESENTATIVE, texts, checks, strict=True):
        assert (check.verdict == "pass") == by_hand(folder, text, 3.0), name
    reasons = dict(zip(REPRESENTATIVE, [check.reason for check in checks], strict=True))
    assert [reasons[name] for name in ("rounded", "asleep", "leaving at import", "cut off", "and wrong")] == [
        "assertion", "wall", "exit", "patch", "assertion",
    ]  # fmt: skip


def test_a_directory_without_a_revision_is_as_it_lies(ledger, box):
    """A change that was not committed counts; a patch is applied to it all the same."""
    folder, patches = ledger
    right, wrong = checks_of(Suites(box), folder, [patches["divmod"], patches["rounded"]], base_commit=None)
    assert (right.verdict, wrong.reason) == ("pass", "assertion")


def test_several_files_are_a_candidate(ledger, box):
    """As a mapping of paths to texts, an accepted one without the tests that it edits."""
    folder, _ = ledger
    text = (folder / MONEY).read_text()
    right = {MONEY: text.replace(WRONG, RIGHT), "ledger/new/__init__.py": ""}
    checks = checks_of(Suites(box), folder, [right, {MONEY: text}, {**right, "tests/test_money.py": ""}])
    assert [check.verdict for check in checks] == ["pass", "reject", "pass"]
    assert checks[2].correction == right


def test_what_is_taken_of_a_passed_patch_is_what_was_judged(ledger, box, tmp_path):
    """A patch that edits tests as well is taken without that, and applies to the repository by itself."""
    folder, patches = ledger
    (check,) = checks_of(Suites(box), folder, [patches["tests edited too"]])
    assert "protected: tests/test_money.py" in check.feedback
    assert "tests/" not in check.correction
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(folder), str(clone))
    assert git(clone, "apply", "-", stdin=check.correction.encode()).returncode == 0
    assert RIGHT in (clone / MONEY).read_text()
    assert (clone / "tests/test_money.py").read_bytes() == (folder / "tests/test_money.py").read_bytes()


def test_files_that_pytest_is_told_to_look_into_are_protected(box, tmp_path):
    """Whatever the repository's own configuration calls them."""
    files = {
        "pytest.ini": "[pytest]\npython_files = test_*.py check_*.py\n",
        "a.py": "def f():\n    return 0\n",
        "test_a.py": "import a\n\ndef test_a():\n    assert a.f() is not None\n",
        "check_a.py": "import a\n\ndef test_f():\n    assert a.f() == 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    edited = {"a.py": "def f():\n    return 2\n", "check_a.py": "def test_f():\n    pass\n"}
    right = {"a.py": "def f():\n    return 1\n"}
    checks = checks_of(Suites(box), tmp_path, [edited, {**edited, **right}], base_commit=None)
    assert [check.verdict for check in checks] == ["reject", "pass"]
    assert checks[1].correction == right
    (check,) = checks_of(Suites(box, protected=[]), tmp_path, [edited], base_commit=None)
    assert check.verdict == "pass"


def test_protection_can_be_taken_away(ledger, box):
    """Then a patch may change the tests, but not make those vanish that there were."""
    folder, patches = ledger
    names = ["an assertion removed", "a test skipped", "a test file removed"]
    checks = checks_of(Suites(box, protected=[]), folder, [patches[name] for name in names])
    assert [check.verdict for check in checks] == ["pass", "reject", "reject"]


# --- what is hostile


def new_file(path, mode="100644", text="x"):
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1 @@\n+{text}\n\\ No newline at end of file\n"
    )


def binary_file(path, size, deflated=None):
    """A new file of zeros, as git writes it."""
    data = deflated or zlib.compress(bytes(size))
    lines = []
    for start in range(0, len(data), 52):
        chunk = data[start : start + 52]
        length = chr(ord("A") + len(chunk) - 1) if len(chunk) <= 26 else chr(ord("a") + len(chunk) - 27)
        lines.append(length + base64.b85encode(chunk, pad=True).decode() + "\n")
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\nindex {'0' * 40}..{'1' * 40}\n"
    return f"{head}GIT binary patch\nliteral {size}\n{''.join(lines)}\n"


HOSTILE = {
    "above": (new_file("../x"), "invalid path"),
    "absolute": (new_file("/draftverify-was-here"), ""),
    "git's own": (new_file(".git/config"), "invalid path"),
    "git's own in other letters": (new_file("ledger/.GIT/config"), "invalid path"),
    "a link above": (new_file("ledger/up", "120000", "../../etc"), "symbolic link out"),
    "an absolute link": (new_file("ledger/etc", "120000", "/etc"), "symbolic link out"),
    "a link through itself": (new_file("ledger/l", "120000", "../ledger/../../x"), "symbolic link out"),
    "a link through another": (
        new_file("a/b/up", "120000", "../../ledger") + new_file("out", "120000", "a/b/up/../../x"),
        "symbolic link out",
    ),
    "git's own on macOS": (new_file(".g\u200cit/config"), "invalid path"),
    "git's own on Windows": (new_file("git~1/config"), "invalid path"),
    "a repository": (
        new_file("sub", "160000", f"Subproject commit {'1' * 40}").replace("\\ No", "\\ No"),
        "",
    ),
    "a file below a file": (new_file("README.md/x"), ""),
    "a bomb": (
        "diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 99999999999\nzcmZ\n\n",
        "",
    ),
    "too long": ("x" * (PATCH + 1), "more than 10 MiB"),
    "a NUL": ("\0" * 1000, ""),
    "half a surrogate": ("diff --git a/\ud800 b/\ud800\n", ""),
    "nothing": ("", "No valid patches"),
}
HOSTILE_FILES = {
    "above": {"../x": ""}, "absolute": {"/draftverify-was-here": ""}, "git's own": {".git/hooks/x": ""},
    "nothing": {"": ""}, "above later": {"ledger/../../x": ""}, "a directory": {"ledger": ""},
    "below a file": {"README.md/x": ""},
    "git's own on macOS": {".g\u200cit/config": ""}, "git's own on Windows": {"GIT~1/x": ""},
    "above on Windows": {"..\\x": ""}, "too long a name": {"x" * 256: ""},
    "a path that is no text": {"\ud800": ""}, "a text that is none": {"x": "\ud800"},
    "a file twice": {"ledger/x.py": "", "./ledger/x.py": ""},
    "a NUL": {"a\0b": ""}, "the tests alone": {"tests/test_money.py": ""}, "the tests as a file": {"tests": ""},
}  # fmt: skip


def state(folder):
    """Every file below a directory, git's too."""
    return {
        path: path.readlink() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_what_leads_out_is_refused_and_nothing_is_written(ledger, box):
    """Not a file of the repository, its git directory or beside it; the refusals are rejections that say why."""
    folder, patches = ledger
    before = state(folder.parent)
    stage = Suites(box)
    items = [*(text for text, _ in HOSTILE.values()), *HOSTILE_FILES.values(), patches["divmod"]]
    *checks, right = checks_of(stage, folder, items)
    assert right.verdict == "pass"
    words = [*(word for _, word in HOSTILE.values()), *([""] * len(HOSTILE_FILES))]
    for name, word, check in zip([*HOSTILE, *HOSTILE_FILES], words, checks, strict=True):
        assert (check.verdict, check.reason, check.score) == ("reject", "patch", 0.0), name
        assert word in check.feedback, name
    assert state(folder.parent) == before
    assert not Path("/draftverify-was-here").exists()


def test_the_tests_cannot_be_made_a_link(ledger, box, tmp_path):
    """A patch that removes them and puts a link there is refused: they stay, and the link has no place."""
    folder, _ = ledger
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(folder), str(clone))
    shutil.rmtree(clone / "tests")
    (clone / "tests").symlink_to("ledger")
    git(clone, "add", "-A")
    patch = git(clone, "diff", "--cached", "--binary").stdout.decode()
    (check,) = checks_of(Suites(box), folder, [patch])
    assert (check.verdict, check.reason, check.feedback) == ("reject", "patch", "tests is a directory")


PLUGIN = "def pytest_pyfunc_call(pyfuncitem):\n    return 'zzz' not in pyfuncitem.nodeid or None\n"
CONFIGURATIONS = {
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p ledger.plugin'\n",
    "setup.cfg": "[tool:pytest]\naddopts = -p ledger.plugin\n",
    "pytest.ini": "[pytest]\naddopts = -p ledger.plugin\n",
    "tox.ini": "[pytest]\naddopts = -p ledger.plugin\n",
    "conftest.py": PLUGIN,
    "tests\n/conftest.py": PLUGIN,
    "evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = ledger.plugin\n",
    "src/sitecustomize.py": "import os\nos._exit(0)\n",
    "pytest/__init__.py": "raise SystemExit(0)\n",
    "pdb.py": "import os\nos._exit(0)\n",
}


def test_no_configuration_of_pytest_buys_a_pass(ledger, box):
    """What pytest reads stays as it was, and the open issue stays open; nothing but that is no patch."""
    folder, _ = ledger
    items = [{path: text, "ledger/plugin.py": PLUGIN} for path, text in CONFIGURATIONS.items()]
    alone = [{path: text} for path, text in CONFIGURATIONS.items()][:5]
    checks = checks_of(Suites(box), folder, [*items, *alone])
    assert {check.verdict for check in checks} == {"reject"}
    assert [check.reason for check in checks[len(items) :]] == ["patch"] * 5
    assert "changes nothing but what is protected: pyproject.toml" in checks[len(items)].feedback


def test_no_candidate_stands_in_the_place_of_the_files(ledger, box):
    """Its files may be called as the archives from which the task's own are laid out."""
    folder, _ = ledger
    files = {path: file for path, file in files_in(folder) if file.content.isascii()}
    tests = files["tests/test_money.py"]
    empty = re.sub(rb"    assert .*", b"    pass", tests.content)
    files |= {"tests/test_money.py": tests._replace(content=empty)}
    archives = (PackedFiles({**files, "x" * length: tests}.items()).archive for length in range(1, 200))
    text = next(archive for archive in archives if archive.isascii()).decode()
    checks = checks_of(Suites(box), folder, [{name: text} for name in (BASE, CHANGE)])
    assert [(check.verdict, check.reason) for check in checks] == [("reject", "assertion")] * 2


def test_a_name_that_is_no_text_can_be_recorded(ledger, box):
    """Git knows bytes; what is said of them is written with their numbers."""
    folder, patches = ledger
    patch = new_file("x.py").replace("a/x.py", '"a/test_\\377.py"').replace("b/x.py", '"b/test_\\377.py"')
    (check,) = checks_of(Suites(box), folder, [patch + patches["divmod"]])
    assert check.verdict == "pass"
    assert r"protected: test_\udcff.py" in check.feedback


UNITTEST = """\
import unittest
from a import f

class T(unittest.TestCase):
    def test_f(self):
        self.assertTrue({})
"""


@pytest.mark.parametrize("name", ["test_a", "tests", "testa"])
def test_nothing_stands_in_the_place_of_unittest_s_modules(box, tmp_path, name):
    """Neither a package of the same name, which Python would find first, nor bytecode, nor an edited file."""
    (tmp_path / "a.py").write_text("def f():\n    return 0\n")
    (tmp_path / f"{name}.py").write_text(UNITTEST.format("f()"))
    fooled = UNITTEST.format("1")
    code = compile(fooled, f"{name}.py", "exec")
    cached = importlib._bootstrap_external._code_to_hash_pyc(code, bytes(8), False)
    cache = f"__pycache__/{name}.{sys.implementation.cache_tag}.pyc"
    items = [{f"{name}/__init__.py": fooled}, {"b.py": "", f"{name}.py": fooled}]
    blob = hashlib.sha1(b"blob %d\0%b" % (len(cached), cached)).hexdigest()
    written = binary_file(cache, len(cached), zlib.compress(cached)).replace("1" * 40, blob)
    items += [new_file("b.py") + written]
    *checks, right = checks_of(
        Suites(box, "unittest"), tmp_path, [*items, {"a.py": "def f():\n    return 1\n"}], base_commit=None
    )
    assert right.verdict == "pass"
    assert [check.verdict for check in checks] == ["reject"] * 3


def test_a_test_that_writes_in_place_changes_no_other_candidate_s_files(ledger, box):
    """The repository's own `test_export_writes_in_place` does so, and finds the file as it was each time."""
    folder, patches = ledger
    before = state(folder)
    checks = checks_of(Suites(box), folder, [patches["divmod"], patches["a loop"], patches["a new module"]])
    assert [check.verdict for check in checks] == ["pass"] * 3
    assert state(folder) == before


def test_candidates_do_not_see_the_repository_of_the_user(ledger, box):
    """Nor its history, which may hold the solution."""
    if box.tier == "none":
        pytest.skip("this machine does not allow this isolation tier")
    folder, _ = ledger
    command = ["sh", "-c", f"ls -A . ; ls {folder} 2>&1; exit 3"]
    (check,) = checks_of(ExitStatus(box, command), folder, [{"ledger/x.py": ""}])
    assert ".git" not in check.feedback.split()
    assert "ledger" in check.feedback.split()
    assert "No such file" in check.feedback or "denied" in check.feedback


# --- tests by name


def test_the_score_is_the_share_of_the_listed_tests(ledger, box):
    """And the feedback names those that failed. Tests that are not listed do not count, though they fail."""
    folder, patches = ledger
    broken = patches["rounded"]
    unlisted = {MONEY: (folder / MONEY).read_text().replace(WRONG, RIGHT).replace("int(whole) * 100", "0")}
    wrong, right, fine = checks_of(Suites(box), folder, [broken, patches["divmod"], unlisted], **LISTS)
    assert (wrong.verdict, wrong.score) == ("reject", 0.5)
    assert f"{SPLIT}[1000-3]" in wrong.feedback
    assert f"also failed: {SPLIT}[5-4]" in wrong.feedback
    assert [(check.verdict, check.score) for check in (right, fine)] == [("pass", 1.0)] * 2


def test_a_test_patch_brings_the_tests(ledger, box):
    """It goes over what a candidate makes of the same files, and may need what is not there yet."""
    folder, patches = ledger
    test = "from ledger.money import split, doubled\n\ndef test_doubled():\n    assert doubled(2) == 4\n"
    brought = {
        "test_patch": "".join(
            ["diff --git a/tests/test_new.py b/tests/test_new.py\nnew file mode 100644\n--- /dev/null\n"]
            + ["+++ b/tests/test_new.py\n@@ -0,0 +1,4 @@\n"]
            + [f"+{line}\n" for line in test.splitlines()]
        ),
        "FAIL_TO_PASS": ["tests/test_new.py::test_doubled"],
        "PASS_TO_PASS": ["tests/test_money.py::test_show"],
    }
    text = (folder / MONEY).read_text()
    items = [{MONEY: f"{text}\n\ndef doubled(x):\n    return x {op} 2\n"} for op in "*-"]
    items.append({**items[1], "tests/test_new.py": "def test_doubled():\n    pass\n"})
    checks = checks_of(Suites(box), folder, [*items, patches["divmod"]], **brought)
    assert [check.verdict for check in checks] == ["pass", "reject", "reject", "reject"]
    assert checks[3].reason == "missing"
    with pytest.raises(ContractError, match="test_patch of task ledger does not apply"):
        checks_of(Suites(box), folder, items, test_patch="nothing")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"PASS_TO_PASS": [f"{SPLIT}[5-4]"]}, "of PASS_TO_PASS does not pass before any candidate"),
        ({"FAIL_TO_PASS": ["tests/test_money.py::test_show"]}, "of FAIL_TO_PASS passes before any candidate"),
        ({"FAIL_TO_PASS": ["tests/test_money.py::test_nothing"]}, "of FAIL_TO_PASS is not there"),
        ({"PASS_TO_PASS": ["tests/test_money.py::test_nothing"]}, "it is not there"),
        ({"FAIL_TO_PASS": ["tests/test_none.py::test_x"]}, "tests/test_none.py is no file"),
    ],
)
def test_broken_lists_are_an_error_and_no_rejection(ledger, box, lists, message):
    """Whatever the candidate is."""
    folder, patches = ledger
    lists = {**{name: [] for name in LISTS}, **lists}
    check, other = checks_of(Suites(box), folder, [patches["divmod"], patches["rounded"]], **lists)
    assert (check.verdict, check.reason) == (other.verdict, other.reason) == ("error", "tests")
    assert message in check.feedback


def test_names_that_end_at_a_space_are_those_of_swe_bench(box, tmp_path):
    """Its lists were read off a log, in which a parameter with a space ends early."""
    test = "import pytest\nfrom a import f\n\n@pytest.mark.parametrize('x', ['b c', 'd'])\n"
    test += "def test_f(x):\n    assert f(x)\n"
    (tmp_path / "a.py").write_text("def f(x):\n    return x == 'd'\n")
    (tmp_path / "test_a.py").write_text(test)
    lists = {"FAIL_TO_PASS": ["test_a.py::test_f[b"], "PASS_TO_PASS": ["test_a.py::test_f[d]"]}
    right, wrong = checks_of(
        Suites(box), tmp_path, [{"a.py": f"def f(x):\n    return {text}\n"} for text in ("True", "x > 'c'")],
        base_commit=None, **lists,
    )  # fmt: skip
    assert (right.verdict, right.score) == ("pass", 1.0)
    assert (wrong.verdict, wrong.score) == ("reject", 0.5)


def test_without_lists_tests_that_do_not_import_are_an_error(box, tmp_path):
    """Which tests there are could be any candidate's word; the message says what to do."""
    (tmp_path / "a.py").write_text("")
    (tmp_path / "test_a.py").write_text("from a import f\n\ndef test_f():\n    assert f()\n")
    (check,) = checks_of(Suites(box), tmp_path, [{"a.py": "def f():\n    return 1\n"}], base_commit=None)
    assert (check.verdict, check.reason) == ("error", "tests")
    assert "FAIL_TO_PASS" in check.feedback


def test_a_package_that_is_here_and_not_in_the_sandbox_is_an_error(box, tmp_path):
    """In a test function, where a file of tests is imported, or in a patch alone; with lists and without."""
    if box.tier == "none":
        pytest.skip("this machine does not allow this isolation tier")
    (tmp_path / "a.py").write_text("def f():\n    return 0\n")
    late = "from a import f\n\ndef test_f():\n    import hypothesis\n    assert f()\n"
    early = "import hypothesis\nfrom a import f\n\ndef test_f():\n    assert f()\n"
    lists = {"FAIL_TO_PASS": ["test_a.py::test_f"]}
    for test in (late, early):
        (tmp_path / "test_a.py").write_text(test)
        for given in ({}, lists):
            (check,) = checks_of(Suites(box), tmp_path, [{"a.py": ""}], base_commit=None, **given)
            assert (check.verdict, check.reason) == ("error", "tests")
            assert "add hypothesis to the sandbox's `packages`" in check.feedback
    lacks = {"a.py": "def f():\n    import hypothesis\n    return 1\n"}
    candidates = [lacks, {"a.py": "def f():\n    return 1\n"}]
    (tmp_path / "test_a.py").write_text("from a import f\n\ndef test_f():\n    assert f()\n")
    for given in ({}, lists):
        wrong, right = checks_of(Suites(box), tmp_path, candidates, base_commit=None, **given)
        assert (wrong.verdict, wrong.reason, right.verdict) == ("error", "refused", "pass")
        assert "hypothesis" in wrong.feedback


def test_the_lists_may_name_tests_of_unittest(box, tmp_path):
    """By unittest's names."""
    (tmp_path / "a.py").write_text("def f(x):\n    return 0\n")
    test = "import unittest\nfrom a import f\n\nclass T(unittest.TestCase):\n"
    for name, text in (("zero", "f(0), 0"), ("one", "f(1), 1"), ("other", "f(2), 3")):
        test += f"    def test_{name}(self):\n        self.assertEqual({text})\n"
    (tmp_path / "test_a.py").write_text(test)
    lists = {"FAIL_TO_PASS": ["test_a.T.test_one"], "PASS_TO_PASS": ["test_a.T.test_zero"]}
    items = [{"a.py": f"def f(x):\n    return {text}\n"} for text in ("x", "1")]
    stage = Suites(box, "unittest")
    right, wrong = checks_of(stage, tmp_path, items, base_commit=None, **lists)
    assert (right.verdict, right.score) == ("pass", 1.0)
    assert (wrong.verdict, wrong.score) == ("reject", 0.5)


def test_a_sandbox_without_pytest_is_an_error(ledger):
    """And says what to add."""
    folder, patches = ledger
    with Sandbox() as bare:
        if bare.tier == "none":
            pytest.skip("this machine does not allow this isolation tier")
        (check,) = checks_of(Suites(bare), folder, [patches["divmod"]])
    assert (check.verdict, check.reason) == ("error", "tests")
    assert "add pytest to its packages" in check.feedback


def test_a_revision_that_is_not_there_is_named(ledger, box, tmp_path):
    """And a directory that is none, or no repository."""
    folder, patches = ledger
    for given, message in (
        ({"base_commit": "0" * 40}, "no revision 0000"),
        ({"repository": str(tmp_path / "none")}, "there is no"),
        ({"repository": str(tmp_path / "none"), "base_commit": None}, "there is no"),
        ({"repository": str(tmp_path)}, "not a git repository"),
    ):
        with pytest.raises(ContractError, match=message):
            checks_of(Suites(box), folder, [patches["divmod"]], **given)


def test_git_must_be_there(ledger, box, monkeypatch, tmp_path):
    """Without it nothing is said of a patch."""
    folder, patches = ledger
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match="git"):
        checks_of(Suites(box), folder, [patches["divmod"]], base_commit=None)


# --- commands


def test_a_command_runs_on_patches(ledger, box):
    """Its status decides; modes and links are as git has them. What cannot be started is an error."""
    folder, patches = ledger
    stage = ExitStatus(box, ["sh", "-c", "test -x run.sh && test ! -L docs.md"])
    checks = checks_of(
        stage, folder, [patches[name] for name in ("a mode changed", "divmod", "a link inside", "prose")]
    )
    assert [(check.verdict, check.reason) for check in checks] == [
        ("pass", ""), ("reject", "status"), ("reject", "status"), ("reject", "patch"),
    ]  # fmt: skip
    stage = ExitStatus(box, ["sh", "-c", "test -x ledger/root && test ! -u ledger/root"])
    (check,) = checks_of(stage, folder, [new_file("ledger/root", "104755")])
    assert check.verdict == "pass"
    (check,) = checks_of(ExitStatus(box, ["no-such-tool"]), folder, [patches["divmod"]])
    assert (check.verdict, check.reason) == ("error", "sandbox")
    assert "no-such-tool could not be started" in check.feedback


def test_a_part_of_a_repository_has_paths_of_its_own(box, tmp_path):
    """The directory that is named, at a revision."""
    part = tmp_path / "whole" / "part"
    part.mkdir(parents=True)
    (part / "a.txt").write_text("one\n")
    (tmp_path / "whole" / "b.txt").write_text("")
    git(tmp_path / "whole", "init", "-q", "-b", "main")
    git(tmp_path / "whole", "add", "-A")
    git(tmp_path / "whole", "commit", "-q", "-m", "one")
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
    (check,) = checks_of(ExitStatus(box, ["sh", "-c", "grep two a.txt && ! ls b.txt"]), part, [patch])
    assert check.verdict == "pass"


# --- files


def test_an_archive_of_any_size_gives_back_what_went_in(tmp_path):
    """Small ones are in memory and large ones on disk, gone with their tree; bytes, modes and links are kept."""
    (tmp_path / "odd \n name").write_bytes(b"\r\n\0\xff")
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("run")
    (tmp_path / ".hidden").write_text("")
    for size in (10, 3 << 20):
        (tmp_path / "large").write_bytes(b"\xfe" * size)
        tree = PackedFiles(files_in(tmp_path))
        assert dict(tree.files()) == dict(files_in(tmp_path))
        assert tree.modes == {"large": 0o100644, "link": 0o120000, "odd \n name": 0o100644, "run": 0o100755}
        archive = tree.archive
        assert isinstance(archive, bytes) == (size == 10)
        del tree
    assert not archive.exists()


def test_a_sandbox_that_shows_a_large_archive_keeps_its_settings(tmp_path):
    """What it was given of packages, sockets and workers."""
    (tmp_path / "large.bin").write_bytes(bytes(SMALL + 1))
    given = Sandbox(packages=["pytest"], sockets=True, workers=3)
    shown = Workspace(Task(id="t", input={"repository": str(tmp_path)}), PROTECTED).box(given)
    assert (shown.packages, shown.sockets, shown.workers, shown.readable) == (["pytest"], True, 3, (shelf(),))


def test_protected_paths_are_those_of_tests_and_of_ci():
    """By file, directory and whole path; a module that only sounds like tests is none."""
    workspace = Workspace(Task(id="t", input={"files": {}, "target": "a.py"}), PROTECTED)
    paths = (
        "test_a.py a/b_test.go tests/a.txt a/tests/b/c.py web/a.spec.ts conftest.py .github/a.yml test/a.rb "
        "pyproject.toml a/setup.cfg tox.ini pytest.ini x.dist-info/entry_points.txt src/x.egg-info/PKG-INFO"
    )
    assert all(map(workspace.protects, paths.split()))
    others = "testing.py a/test/utils.py latest.py contest.py project.toml a/testimony/b.py attests/a.py"
    assert not any(map(workspace.protects, others.split()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("commit", [None, "main"])
def test_fifty_thousand_files_are_no_obstacle(box, tmp_path, commit):
    """Binary ones, of a directory and of a commit: each candidate has its own, in seconds."""
    for folder in range(100):
        (tmp_path / f"data/{folder}").mkdir(parents=True)
        for number in range(500):
            (tmp_path / f"data/{folder}/{number}.bin").write_bytes(bytes([folder, number % 256, 0, 255]) * 20)
    (tmp_path / "a.py").write_text("x = 1\n")
    test = "from pathlib import Path\nfrom a import x\n\ndef test_x():\n    assert x == 2\n"
    test += "    files = list(Path('data').glob('*/*.bin'))\n    assert len(files) == 50_000\n"
    test += "    files[0].write_bytes(b'')\n    assert sum(path.stat().st_size for path in files) == 49_999 * 80\n"
    (tmp_path / "test_a.py").write_text(test)
    if commit:
        git(tmp_path, "init", "-q", "-b", "main")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", "one")
    patches = [f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = {x}\n" for x in (2, 3, "2.0")]
    checks = checks_of(Suites(box, timeout=120.0), tmp_path, patches, base_commit=commit)
    assert [check.verdict for check in checks] == ["pass", "reject", "pass"]


# --- containers

ENGINE = """\
#!{python}
import os, shutil, sys
words = sys.argv[1:]
open({log!r}, "a").write(" ".join(words[:2]) + "\\n")
if words[0] == "kill":
    sys.exit(0)
given = next(word for word in words if word.endswith(":/draftverify:ro"))[: -len(":/draftverify:ro")]
image = words.index("the/image")
for place, word in enumerate(words):
    if word == "-e":
        name, _, value = words[place + 1].partition("=")
        os.environ[name] = value
command = [word.replace("/draftverify/", given + "/") for word in words[image + 1 :]]
command[0] = {python!r}
os.environ.pop("PYTEST_ADDOPTS", None)
own = os.path.join(os.path.dirname({log!r}), str(os.getpid()))
shutil.copytree({folder!r}, own, symlinks=True)
os.chdir(own)
os.execv(command[0], command)
"""


def test_a_named_image_is_run_by_the_engine_that_is_there(ledger, monkeypatch, tmp_path):
    """A stand-in for it runs what it is given in a copy of the repository, over which the patch is laid out."""
    folder, patches = ledger
    log = tmp_path / "log"
    engine = tmp_path / "podman"
    engine.write_text(ENGINE.format(python=sys.executable, log=str(log), folder=str(folder)))
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("draftverify_code.patches.container.ENGINES", (str(engine),))
    monkeypatch.setattr(Container, "at_once", 1)
    input = {"repository": str(folder), "base_commit": "main", "image": "the/image"}
    context = make_context(Task(id="t", input=input))
    texts = [patches[name] for name in ("divmod", "rounded")]
    verification = Suites().verify(context, Proposal.alternatives(texts))
    assert [check.verdict for check in verification.checks] == ["pass", "reject"]
    assert verification.notes["isolation"] == "container"
    assert set(log.read_text().splitlines()) == {"run --rm"}


def test_what_a_container_prints_without_end_is_not_kept(monkeypatch, tmp_path):
    """A model's program decides how much that is; the harness keeps what it may."""
    engine = tmp_path / "podman"
    engine.write_text(
        f"#!{sys.executable}\nimport sys\nprint(sys.stdin.read())\n"
        "for _ in range(32): sys.stderr.write('x' * (1 << 20))\nsys.exit(3)\n"
    )
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("draftverify_code.patches.container.ENGINES", (str(engine),))
    command = SandboxCommand(("true",), stdin=b"given", limits=Limits(output=1 << 20))
    tracemalloc.start()
    [ended] = Container("the/image").run([command])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (ended.status, ended.stdout, len(ended.stderr)) == (3, b"given\n", 1 << 20)
    assert most < 8 << 20


def test_without_an_engine_or_its_image_there_is_no_verdict(ledger, monkeypatch):
    """The error says what is missing."""
    folder, patches = ledger
    stage = Suites()
    if shutil.which("docker") or shutil.which("podman"):
        (check,) = checks_of(stage, folder, [patches["divmod"]], image="draftverify.example/none")
        assert (check.verdict, check.reason) == ("error", "sandbox")
        assert "did not run the image draftverify.example/none" in check.feedback
    monkeypatch.setattr("draftverify_code.patches.container.ENGINES", ())
    for part in (stage, ExitStatus(command=["true"])):
        (check,) = checks_of(part, folder, [patches["divmod"]], image="the/image")
        assert (check.verdict, check.reason) == ("error", "sandbox")
        assert "neither docker nor podman is installed" in check.feedback


# --- the rest of the way


def test_a_patch_is_taken_out_of_an_answer():
    """Out of its fence, under either name; and without one as it stands."""
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"
    for tag in ("diff", "patch"):
        assert extract(f"So:\n\n```{tag}\n{patch}\n```\nDone.", language="diff").strip() == patch
    assert extract(patch, language="diff") == patch


@pytest.mark.parametrize("suites", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_it_conforms(ledger, box, suites):
    """The kit's rules for verifiers, on patches: by a command, and by the repository's tests."""
    folder, patches = ledger
    task = Task(id="t", input={"repository": str(folder), "base_commit": "main"})
    block = Proposal.alternatives([patches["divmod"], patches["rounded"], patches["prose"]])
    stage = Suites(box) if suites else ExitStatus(box, ["grep", "-q", "divmod", MONEY])
    check_component(Subject(stage, tasks=[task], proposals=[block]))


@pytest.mark.slow
def test_the_example_answers_its_issues(tmp_path):
    """From the command line: by the best of four, after feedback with the larger model, and past a patch that hangs."""
    for name in ("patches", "code-patch.yaml"):
        place = EXAMPLES / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
    out = tmp_path / "run"
    sooner = ["--set", "pipelines.patches.verifier.timeout=3"]
    assert main(["run", str(tmp_path / "code-patch.yaml"), "--out", str(out), *sooner]) == ExitCode.OK
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [pipeline["statuses"] for pipeline in summary["pipelines"]] == [{"accepted": 3}]
