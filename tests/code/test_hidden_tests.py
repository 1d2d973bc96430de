"""The metric `code.tests`: programs that pass the examples of their prompt, and the tests that no part has seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftverify import Check, ContractError, Outcome, Pipeline, Task
from draftverify.bench import evaluate
from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.rules import First
from draftverify_code import HiddenTests, HumanEval, Mbpp, RecordedPrograms, Tests
from draftverify_code.sandbox import SuiteFinding

RIGHT = "    return any(abs(a - b) < threshold for i, a in enumerate(numbers) for b in numbers[:i])\n"
EXAMPLES_ONLY = "    return len(numbers) == 6\n"


def accepted(value: object) -> Outcome:
    return Outcome(status="accepted", value=value)


def test_a_program_for_the_examples_alone_is_accepted_and_not_solved(tmp_path: Path) -> None:
    """HumanEval's first problem, judged by its docstring: both programs pass, and the hidden tests tell them apart."""
    [task] = HumanEval(limit=1, hidden=True).load()
    assert set(task.expected) == {"test"}
    assert "test" not in task.input
    pipelines = {}
    for name, sample in (("right", RIGHT), ("examples", EXAMPLES_ONLY)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps({"task_id": task.id, "samples": [sample]}))
        pipelines[name] = Pipeline(
            RecordedPrograms(path, form="completion"), Tests(doctest=True), First(), name=name
        )
    found = evaluate(pipelines, [task], metrics={"hidden": HiddenTests()})
    right, examples = (each.rows[-1] for each in found.summary.pipelines)
    assert dict(right.statuses) == dict(examples.statuses) == {"accepted": 1}
    assert right.solved["hidden"].rate.value == 1.0
    assert examples.solved["hidden"].rate.value == 0.0
    assert examples.solved["hidden"].precision.value == 0.0


CONFIG = """\
name: hidden
tasks: {use: code.humaneval, limit: 1, hidden: true}
metrics: {hidden: {use: code.tests, timeout: 20}}
pipelines:
  recorded:
    generator: {use: code.recorded, path: samples.jsonl, form: completion}
    verifier: {use: code.tests, doctest: true, timeout: 20}
    rule: {use: first}
"""


def test_an_experiment_names_it(tmp_path: Path) -> None:
    """As the documentation has it: the run ends with its figures."""
    [task] = HumanEval(limit=1).load()
    (tmp_path / "samples.jsonl").write_text(json.dumps({"task_id": task.id, "samples": [RIGHT]}))
    (tmp_path / "hidden.yaml").write_text(CONFIG)
    assert main(["run", str(tmp_path / "hidden.yaml"), "--out", str(tmp_path / "run")]) == ExitCode.OK
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["metrics"]


def test_unhidden_tests_are_the_truth_too() -> None:
    """The same metric works where the verifier has seen the tests."""
    [task] = HumanEval(limit=1).load()
    assert task.expected == {"test": task.input["test"]}


def test_mbpp_hides_all_but_the_shown_asserts(tmp_path: Path) -> None:
    """A part sees what the model is told; the metric has them all."""
    tests = ["assert double(2) == 4", "assert double(3) == 6", "assert double(5) == 10"]
    path = tmp_path / "mbpp.jsonl"
    path.write_text(json.dumps({"task_id": 1, "text": "Double a number.", "test_list": tests}))
    [task] = Mbpp(path, hidden=True).load()
    assert task.input["test_list"] == tests[:1]
    assert task.expected == {"test_list": tests}
    metric = HiddenTests()
    assert metric(task, accepted("def double(n): return n + 2")) is False
    assert metric(task, accepted(("def double(n): return n * 2",))) is True
    assert metric(task, accepted({"text": "def double(n): return n * 2"})) is True
    [task] = Mbpp(path, hidden=True, shown=0).load()
    assert "test_list" not in task.input


def test_truths_that_need_the_programs_process_are_judged_there() -> None:
    """Unless the metric is to take no such word; then it says nothing."""
    task = Task(id="1", input={}, expected={"test_list": ["assert LIMIT == 3"]})
    assert HiddenTests()(task, accepted("LIMIT = 3")) is True
    assert HiddenTests()(task, accepted("LIMIT = 4")) is False
    with pytest.raises(ContractError, match="needs shared-process"):
        HiddenTests(integrity="separate-process")(task, accepted("LIMIT = 3"))


def test_a_check_that_came_to_nothing_says_nothing() -> None:
    """Where the machine or the judge took the time, the program is not wrong for it."""

    class Late:
        tier, workers, at_once, packages = "none", 1, 1, ()

        def judge(self, suite: object, programs: list[str], *_: object, **more: object) -> list[SuiteFinding]:
            return [
                SuiteFinding(Check("timeout", reason="wall", feedback="the machine kept it"))
                for _ in programs
            ]

    task = Task(id="1", input={"entry_point": "f"}, expected={"test_list": ["assert f() == 1"]})
    with pytest.raises(ContractError, match=r"came to nothing \(wall\): the machine kept it"):
        HiddenTests(Late())(task, accepted("def f(): return 1"))  # type: ignore[arg-type]


def test_endless_programs_are_wrong_and_broken_tests_say_nothing() -> None:
    """Time out: not solved. Tests that do not parse: the metric fails. Without expected or acceptance: as every
    metric."""
    metric = HiddenTests(timeout=1.0)
    task = Task(id="1", input={"entry_point": "f"}, expected={"test_list": ["assert f() == 1"]})
    assert metric(task, accepted("import time\ndef f():\n    time.sleep(60)")) is False
    assert metric(task, Outcome(status="refused", value="def f(): return 1")) is False
    assert metric(Task(id="1"), accepted("def f(): return 1")) is None
    assert metric(task, accepted(5)) is False
    assert metric(task, accepted(("def f(): return 1", "and more"))) is False
    broken = Task(id="1", input={"entry_point": "f"}, expected={"test_list": ["assert f( =="]})
    with pytest.raises(ContractError):
        metric(broken, accepted("def f(): return 1"))
