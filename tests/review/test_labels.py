"""What people decided counts as labels, however they said it, and a fit learns from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftverify import Check, Pipeline, Verification
from draftverify.bench.cli.main import main
from draftverify.bench.records import RunRecords, load_run
from draftverify.bench.review import Reply, Reviewed, give_answer, labels, pending
from draftverify.bench.runner.run import run
from draftverify.errors import StoreError
from draftverify.kit import ScriptedGenerator
from draftverify.lab.fit import fit_verifier
from draftverify.rules import All
from draftverify.values import Outcome, Task
from draftverify.view.cli.view import view
from draftverify.view.reviewing import Reviewing
from draftverify.view.runs import Runs
from tests.experiments.runs import load


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A run with three tasks that wait, each with the candidate -1."""
    waits = load(tmp_path, policy="[{do: escalate}]", check=", splice: false", count=3, chance=0.0)
    assert run(waits, out=tmp_path / "run").waiting == 3
    return tmp_path / "run"


def at_the_terminal(path: Path) -> None:
    """Accept t0, reject t1, edit t2."""
    assert CliRunner().invoke(view, [str(path), "--review"], input="arno good\nq").exit_code == 0
    by_file(path, [{"task": "t2", "answer": "edit", "value": 7}])


def by_file(path: Path, replies: list[dict[str, object]]) -> None:
    """The same, or some of it, from an answers file."""
    file = path.parent / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, replies)))
    assert main(["view", str(path), "--review", str(file)]) == 0


def from_a_file(path: Path) -> None:
    """The same from a file alone."""
    by_file(
        path,
        [
            {"task": "t0", "answer": "accept"},
            {"task": "t1", "answer": "reject", "note": "no good"},
            {"task": "t2", "answer": "edit", "value": 7},
        ],
    )


def on_the_page(path: Path) -> None:
    """The same by what the page sends."""
    runs = Runs(path)
    reviewing = Reviewing(runs)
    who = {"run": path.name, "holder": "a" * 12}
    said = {
        "t0": {"answer": "accept"},
        "t1": {"answer": "reject", "note": "no good"},
        "t2": {"answer": "edit", "json": "7"},
    }
    for _ in said:
        asked = reviewing.claim(who)["question"]
        reviewing.answer({**who, "id": asked["id"], **said[asked["task"]]})
    runs.close()


@pytest.mark.parametrize("way", [at_the_terminal, from_a_file, on_the_page])
def test_a_decision_is_the_same_label_whatever_way_it_was_made(
    waiting: Path, way: Callable[[Path], None]
) -> None:
    """An accept says right, a reject wrong, an edit both; they stay labels when the run has gone on."""
    way(waiting)
    expected = [
        ("t0", -1, True, ""),
        ("t1", -1, False, "no good"),
        ("t2", -1, False, ""),
        ("t2", 7, True, ""),
    ]
    for _ in range(2):
        with load_run(waiting) as records:
            found = labels(records)
            made = [(each.task, each.value, each.right, each.note) for each in found]
            assert made[: len(expected)] == expected
            assert all(each.holder for each in found)
        main(["run", str(waiting.parent / "experiment.yaml"), "--out", str(waiting)])
    with load_run(waiting) as records:
        assert {question.state for question in records.questions if question.answer} == {"used"}
        spec = {record.task: record for record in records.records("spec")}
        assert (spec["t1"].outcome.status, spec["t1"].outcome.reason) == ("refused", "no good")
        (person,) = [each for each in records.store.rounds("spec", "t0", 0) if each.by == "person"]
        assert person.decision.emitted == (-1,)
        assert person.tally.trials == 0  # a person's word is a label, and no trial of the verifier


def answered(path: Path, kind: str, **more: object) -> None:
    with load_run(path) as records:
        question = pending(records)[0]
        assert give_answer(records, question, Reply(task=question.task, answer=kind, **more))  # type: ignore[arg-type]


def test_the_metric_says_what_people_said(waiting: Path) -> None:
    """Of the same value of the same task; nothing of others, nor of what was not accepted."""
    answered(waiting, "accept")
    answered(waiting, "edit", value={"b": [1], "a": None})
    metric = Reviewed(waiting)
    first, second, third = (Task(id=f"t{i}", input={}) for i in range(3))
    assert metric(first, Outcome(status="accepted", value=-1)) is True
    assert metric(second, Outcome(status="accepted", value=-1)) is False
    assert metric(second, Outcome(status="accepted", value={"a": None, "b": [1]})) is True
    assert metric(third, Outcome(status="accepted", value=-1)) is None
    assert metric(first, Outcome(status="accepted", value=-2)) is None
    assert metric(first, Outcome(status="refused", value=-1)) is None
    with pytest.raises(StoreError, match="there is no such directory"):
        Reviewed(waiting / "nowhere").check_tasks([])


def test_a_fit_learns_from_people(waiting: Path) -> None:
    """`draftverify fit scores` asks a metric which items are right; what nobody decided teaches nothing."""

    class Scores:
        def verify(self, context: object, proposal: object) -> Verification:
            return Verification(checks=tuple(Check("reject", 0.5 + item / 10) for item in proposal.items))  # type: ignore[attr-defined]

    answered(waiting, "accept")
    answered(waiting, "edit", value=2)
    tasks = [Task(id=f"t{i}", input={"n": i}) for i in range(3)]
    pipeline = Pipeline(ScriptedGenerator([[-1, 2]], shape="alternatives"), Scores(), All(), block=2)
    people = Reviewed(waiting)
    fitted = fit_verifier(Scores(), pipeline.record(tasks), {task.id: task for task in tasks}, people)
    # t0: -1 is right and 2 unknown; t1: -1 is wrong and 2 right; t2: nobody said anything.
    fit = fitted.artifact.fit
    assert (fit.items, fit.right, fitted.unscored) == (3, 2, 3)


def test_inner_questions_and_missing_candidates_make_no_wrong_labels(waiting: Path) -> None:
    """Where there was no candidate a reject says nothing of any value."""
    from msgspec.structs import replace

    class Asked:
        questions = ()

    with load_run(waiting) as records:
        question = records.questions[0]
    Asked.questions = (  # type: ignore[assignment]
        replace(question, candidate=None, state="used", answer="reject"),
        replace(question, asking="t0.1", state="answered", answer="accept"),
        question,
    )
    run_records: RunRecords = Asked()  # type: ignore[assignment]
    assert [(each.task, each.right) for each in labels(run_records)] == [("t0.1", True)]
