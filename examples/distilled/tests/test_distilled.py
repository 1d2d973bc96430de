"""The parts keep draftverify's contract, no student changes the answers' law, and what a log taught is accepted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from draftverify import ConfigError, Pipeline, Proposal, Task
from draftverify.bench import load_experiment, run
from draftverify.kit import Subject, check_component
from draftverify.rules import Limit, Speculative
from draftverify_distilled import Network, Starts, Student, StudentTraining, Teacher

PACKAGE = Path(__file__).parents[1]
INPUTS = [dict(task.input) for task in Starts(count=2).load()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The first run, and the fits from its log, one by its command: a folder of folders."""
    folder = tmp_path_factory.mktemp("runs")
    few = ["tasks.count=8", "models.network.depth=32", "models.another.depth=32"]
    log = run(load_experiment(PACKAGE / "log.yaml", overrides=few), out=folder / "log").path
    fit = ["fit", "part", "distilled.student", str(log), "--set", "pipeline=teacher"]
    assert "tasks: 8" in command(*fit, "--out", str(folder / "student"))
    StudentTraining(log, "another").train(folder / "control", lambda *_: None)
    StudentTraining(log, "teacher", tasks=1).train(folder / "beginner", lambda *_: None)
    return folder


@pytest.mark.parametrize(
    "part",
    [
        Subject(Student(), tasks=INPUTS),
        Subject(
            Teacher(Network(depth=8)), tasks=INPUTS, proposals=[Proposal.chain([3, 5, 7]), Proposal.chain([])]
        ),
    ],
)
def test_the_parts_keep_the_contract(part):
    """draftverify's conformance kit: the student's draws are of its q, and the teacher reads each path."""
    check_component(part)


def test_a_trained_student_keeps_the_contract(trained):
    """Its law is honest with a table of its own, too."""
    check_component(Subject(Student(trained / "student" / "table.npy"), tasks=INPUTS))


def test_what_the_log_taught_is_accepted_more_often_and_the_control_less(trained):
    """On other tasks than those of the log, by entry points; the answers surprise the teacher alike."""
    tables = [
        f"pipelines.{name}.generator.table={trained / name / 'table.npy'}" for name in ("student", "control")
    ]
    few = ["tasks.count=12", "models.network.depth=32", *tables]
    result = run(load_experiment(PACKAGE / "experiment.yaml", overrides=few), out=trained / "next")
    rows = {pipeline.name: pipeline.rows[-1] for pipeline in result.summary.pipelines}
    untrained, control, student = (rows[name].acceptance for name in ("untrained", "control", "student"))
    assert student.low > untrained.high
    assert control.value < untrained.value
    surprises = [row.measures["surprise"].figure for row in rows.values()]
    assert max(figure.low for figure in surprises) < min(figure.high for figure in surprises)
    assert "no difference seen" in command("compare", str(result.path), "--on", "surprise")


def test_the_sweep_runs(trained):
    """Six cells beside the teacher alone; more of the log is accepted more often."""
    tables = [
        f"matrix.cells.{name}={{pipelines.drafted.generator: {{use: distilled.student, table: "
        f"{trained / name / 'table.npy'}}}}}"
        for name in ("beginner", "student")
    ]
    few = ["tasks.count=6", "models.network.depth=32", *tables]
    result = run(load_experiment(PACKAGE / "sweep.yaml", overrides=few), out=trained / "sweep")
    kept = {pipeline.name: pipeline.rows[-1].acceptance.value for pipeline in result.summary.pipelines}
    assert len(kept) == 7
    assert kept["drafted@student,block=6"] > kept["drafted@beginner,block=6"]


def test_the_teacher_s_distribution_stays_its_own():
    """First symbols of 1,500 tasks with an untrained student: as often as the network says, but for chance."""
    network, start = Network(depth=8), [1, 2, 3, 4, 5, 6]
    pipeline = Pipeline(Student(), Teacher(network), Speculative(), block=2, done=Limit(1))
    outcomes = pipeline.run([Task(id=str(number), input={"start": start}) for number in range(1500)])
    counts = np.bincount([outcome.value[0] for outcome in outcomes], minlength=16)
    expected = 1500 * network.probabilities([start])[0]
    assert ((counts - expected) ** 2 / expected).sum() < 45  # of 15 degrees of freedom, 1 in 10,000


def test_a_missing_table_is_told_with_the_command_that_writes_it(tmp_path):
    """Before any task runs."""
    with pytest.raises(ConfigError, match="fit part"):
        Student(tmp_path / "none.npy").open()


def command(*arguments):
    """What a command of draftverify prints."""
    line = [sys.executable, "-m", "draftverify", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
