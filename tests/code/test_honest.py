"""Honest programs are judged as plain Python judges them, whatever they are made of."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.code import plain

from .honest import cases

CASES = cases()


@pytest.fixture(scope="module")
def python():
    """Plain Python's verdicts on the programs of a case."""
    with subprocess.Popen(
        [sys.executable, "-I", plain.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def verdicts(case):
            found = []
            for program in case.programs:
                process.stdin.write(json.dumps(case.job(program)) + "\n")
                process.stdin.flush()
                found.append(json.loads(process.stdout.readline()))
            return found

        yield verdicts
        process.stdin.close()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_plain_python_accepts_the_program_and_no_wrong_one(case, python):
    """So that the tests of a case are worth something."""
    right, *wrong = python(case)
    assert right["verdict"] == "pass", right["said"]
    assert [each["verdict"] for each in wrong] == ["reject"] * len(wrong)
