"""Tasks from the published files of BigCodeBench, LiveCodeBench, APPS and MultiPL-E, read from a local path.

Nothing in such a file is executed or unpickled when it is read.
"""

from __future__ import annotations

import base64
import json
import pickletools
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from draftverify import ConfigError
from draftverify_code.generators.extract import parsed
from draftverify_code.program import language_of
from draftverify_code.rows import Fields, PublishedFile, read_entry_point, read_python, read_text, read_texts

Call: TypeAlias = tuple[list[Any], list[Any]]


@dataclass(eq=False)
class BigCodeBench(PublishedFile):
    """Functions that use libraries, and unittest classes: BigCodeBench, Full or Hard.

    As in its own harness, `code_prompt` stands before each program, and program and tests share their names. They run
    in one process (`code.tests`); the packages that they import must be installed. `canonical_solution` is not read.

    Args:
        path: a `.jsonl`, `.jsonl.gz` or `.json`.
        limit: the first so many problems; all when absent.
        hidden: the tests are the truth alone, so that no part of a pipeline sees them.
        timeouts: seconds by task id; they go before a line's own `timeout`.
        prompt: "complete" is code to continue, "instruct" is in words.
    """

    fields = frozenset({"complete_prompt", "instruct_prompt", "code_prompt", "test", "entry_point"})

    prompt: Literal["complete", "instruct"] = "complete"

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        prologue = f"{read_text(row, 'code_prompt', where).rstrip()}\n    pass\n"
        input = {
            "prompt": read_text(row, f"{self.prompt}_prompt", where),
            "entry_point": read_entry_point(row, where),
            **({"form": "completion"} if self.prompt == "complete" else {}),
            **({"prologue": prologue} if parsed(prologue) is not None else {}),
        }
        setup = "import os, sys\nfrom os import environ"
        return input, {}, {"setup": setup, "test": read_python(read_text(row, "test", where), "test", where)}


class LiveCodeBench(PublishedFile):
    """Problems of contests: LiveCodeBench's code generation, whole or lite.

    Programs on standard input become `cases` (`code.cases`, numbers compared as numbers), methods of a class
    `Solution` become asserts (`code.tests`). Both have the imports that its own harness gives them. With `hidden`,
    parts see the public tests alone. The private ones are a pickled text, which is read and not unpickled.

    Args:
        path: a `.jsonl`, `.jsonl.gz` or `.json`.
        limit: the first so many problems; all when absent.
        hidden: the private tests are the truth alone.
        timeouts: seconds by task id; they go before a line's own `timeout`.
    """

    ids = ("question_id",)
    fields = frozenset({"question_content", "starter_code", "public_test_cases", "private_test_cases"})

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        public = self._tests(row, "public_test_cases", where)
        tests = [*public, *self._tests(row, "private_test_cases", where)]
        kinds = {test["testtype"] for test in tests}
        if kinds == {"stdin"}:
            pairs = [(test["input"], test["output"]) for test in tests]
            shown, whole = _cases(pairs[: len(public)], 0), _cases(pairs, 0)
        elif kinds == {"functional"}:
            metadata = _json(row, "metadata", where)
            name = metadata.get("func_name") if isinstance(metadata, dict) else None
            if not isinstance(name, str) or not name.isidentifier():
                raise ConfigError(f"`metadata` should say the `func_name`, not {metadata!r:.80}", where=where)
            calls = []
            for test in tests:
                arguments = [_value(line, "input", where) for line in test["input"].split("\n")]
                calls.append((arguments, [_value(test["output"], "output", where)]))
            whole = _asserts(name, row, calls, rows=False)
            shown = {**whole, "test_list": whole["test_list"][: len(public)]}
        else:
            raise ConfigError(
                f"the tests' `testtype` is {sorted(kinds)}, not stdin or functional", where=where
            )
        return _described(row, "question_content", where), shown if public else {}, whole

    def _tests(self, row: Mapping[str, Any], field: str, where: str) -> list[dict[str, str]]:
        text = read_text(row, field, where)
        tests = _value(text if text.lstrip().startswith("[") else _unpacked(text, field, where), field, where)
        keys = ("input", "output", "testtype")
        if not isinstance(tests, list) or not all(
            isinstance(test, dict) and all(isinstance(test.get(key), str) for key in keys) for test in tests
        ):
            raise ConfigError(f"`{field}` should be a list of {{{', '.join(keys)}}}, all texts", where=where)
        return tests


class Apps(PublishedFile):
    """Problems of contests and interviews: APPS.

    Programs on standard input become `cases` (`code.cases`, numbers compared within 1e-5), functions become asserts
    (`code.tests`). Tuples are as good as lists. A problem without `input_output` has no tests, and stages abstain from
    it. The `solutions` are not read.

    Args:
        path: a `.jsonl`, or the directory that has a folder for each problem, with `question.txt`.
        limit: the first so many problems; all when absent.
        hidden: the tests are the truth alone, so that no part of a pipeline sees them.
        timeouts: seconds by task id; they go before a line's own `timeout`.
    """

    ids = ("problem_id", "id")
    fields = frozenset({"question", "input_output"})

    def _rows(self, path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
        return self._folders(path) if path.is_dir() else super()._rows(path)

    def _folders(self, directory: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        files = {
            "question": "question.txt",
            "input_output": "input_output.json",
            "starter_code": "starter_code.py",
        }
        for place in sorted(directory.glob("*/question.txt")):
            paths = {field: place.with_name(name) for field, name in files.items()}
            try:
                texts = {
                    field: path.read_text("utf-8") if path.exists() else "" for field, path in paths.items()
                }
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"a file cannot be read: {error}", where=str(place.parent)) from error
            yield str(place.parent), {"id": place.parent.name, **texts}

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        input = _described(row, "question", where)
        if not row["input_output"]:
            return input, {}, {}
        pairs = _json(row, "input_output", where)
        inputs, outputs = (
            pairs.get(name) if isinstance(pairs, dict) else None for name in ("inputs", "outputs")
        )
        if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
            raise ConfigError("`input_output` should have as many `inputs` as `outputs`", where=where)
        name = pairs.get("fn_name")
        if name is None:
            texts = [(_lines(text), _lines(output)) for text, output in zip(inputs, outputs, strict=True)]
            if not all(isinstance(text, str) for pair in texts for text in pair):
                message = "`inputs` and `outputs` should be texts where there is no `fn_name`"
                raise ConfigError(message, where=where)
            return input, {}, _cases(texts, 1e-5) if texts else {}
        is_name = isinstance(name, str) and name.isidentifier()
        if not is_name or not all(isinstance(arguments, list) for arguments in inputs):
            message = "`fn_name` should be a function's name, and `inputs` lists of its arguments"
            raise ConfigError(message, where=where)
        # What a function gives is in a list of one, or is not.
        answers = [[value, *value[:1]] if isinstance(value, list) else [value] for value in outputs]
        calls = list(zip(inputs, answers, strict=True))
        return input, {}, _asserts(name, row, calls, rows=True)


class MultiplE(PublishedFile):
    """HumanEval and MBPP in other languages: MultiPL-E.

    A task's `test` is what follows a program, and its `stop_tokens` are where completions are cut. `code.tests` judges
    those in Python, `code.language` the others.

    Args:
        path: a `.jsonl`, `.jsonl.gz` or `.json`.
        limit: the first so many problems; all when absent.
        hidden: the tests are the truth alone, so that no part of a pipeline sees them.
        timeouts: seconds by task id; they go before a line's own `timeout`.
    """

    ids = ("name",)
    fields = frozenset({"language", "prompt", "tests", "stop_tokens"})

    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        language = read_text(row, "language", where)
        tests = read_text(row, "tests", where)
        input = {
            "prompt": read_text(row, "prompt", where),
            "form": "completion",
            "language": language_of(language),
            "stop_tokens": read_texts(row, "stop_tokens", where),
        }
        if input["language"] == "python":
            called = re.search(r"^\s*check\((\w+)\)", read_python(tests, "tests", where), re.MULTILINE)
            input |= {"entry_point": called[1]} if called else {}
        return input, {}, {"test": tests}


_MODULES = """string re datetime collections heapq bisect copy math random statistics itertools functools operator io
sys json typing"""
_PROLOGUE = "; ".join(
    [
        *(f"from {module} import *" for module in _MODULES.split()),
        f"import {', '.join(_MODULES.split())}",
        "from builtins import abs, compile, pow",  # which these modules have too
    ]
)
"""What LiveCodeBench's harness puts before every program, in one line."""
_DEEP = """
def _deep(function):
    def deep(*args):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(50_000)
        try:
            return function(*args)
        finally:
            sys.setrecursionlimit(before)
    return deep
"""
"""Its limit of recursion, which no call leaves behind."""
_LISTED = """
def listed(value, rows={rows}):
    value = list(value) if isinstance(value, tuple) else value
    if rows and isinstance(value, list):
        value = [list(row) if isinstance(row, tuple) else row for row in value]
    return value
"""
LARGEST = 1 << 30  # bytes of a problem's tests


def _described(row: Mapping[str, Any], field: str, where: str) -> Fields:
    """A problem in words, with the code to start with."""
    starter = str(row.get("starter_code") or "").strip()
    end = f"Start with this code:\n\n```python\n{starter}\n```"
    if not starter:
        end = "Read standard input and write to standard output."
    return {"prompt": f"{read_text(row, field, where).strip()}\n\n{end}"}


def _cases(pairs: Sequence[tuple[str, str]], tolerance: float) -> Fields:
    """The tests of programs on standard input."""
    return {
        "prologue": f"{_PROLOGUE}; sys.setrecursionlimit(50_000)",
        "cases": [{"input": text, "output": output} for text, output in pairs],
        "tolerance": tolerance,
    }


def _asserts(name: str, row: Mapping[str, Any], calls: Sequence[Call], rows: bool) -> Fields:
    """The tests of a function, or of a method of the class `Solution` where the code to start with has it.

    Args:
        name: of the function.
        row: the line.
        calls: arguments, and the answers that are right.
        rows: whether lists of tuples are as good as lists of lists.
    """
    function = (
        f"Solution().{name}" if re.search(r"\bclass Solution\b", str(row.get("starter_code"))) else name
    )
    tests = []
    for arguments, answers in calls:
        right = f"== {answers[0]!r}" if len(answers) == 1 else f"in {answers!r}"
        tests.append(f"assert listed({name}({', '.join(map(repr, arguments))})) {right}")
    return {
        "prologue": f"{_PROLOGUE}; exec({_DEEP!r})",
        "epilogue": f"{name} = _deep({function})\n",
        "setup": _LISTED.format(rows=rows),
        "test_list": tests,
    }


def _lines(value: Any) -> Any:
    """A list of lines as a text."""
    return "\n".join(map(str, value)) if isinstance(value, list) else value


def _json(row: Mapping[str, Any], field: str, where: str) -> Any:
    """What a field has as JSON in a text."""
    return _value(read_text(row, field, where), field, where)


def _value(text: str, field: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"`{field}` should hold JSON: {error}, in {text!r:.80}", where=where) from error


def _unpacked(text: str, field: str, where: str) -> str:
    """The text that LiveCodeBench pickles, compresses and encodes; whatever else a pickle may hold is refused."""
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), LARGEST)
        if not reader.eof:
            raise ValueError(f"it is cut off, or has more than {LARGEST:,} bytes")
        operations = [(operation.name, argument) for operation, argument, _ in pickletools.genops(data)]
        strange = [name for name, _ in operations if name not in _OF_TEXTS]
        texts = [argument for name, argument in operations if "UNICODE" in name]
        if strange or len(texts) != 1:
            raise ValueError(f"it is a pickle of something else than a text: {', '.join(strange[:3])}")
        return str(texts[0])
    except (ValueError, zlib.error) as error:
        message = f"`{field}` should be JSON, or a text that was pickled, compressed and encoded: {error}"
        raise ConfigError(message, where=where) from error


_OF_TEXTS = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "PUT", "STOP"} | {
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE",
}  # fmt: skip
"""What a pickle of one text is made of."""
