"""The parts keep draftverify's contract, z3 and NumPy agree, and the experiments end as they should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from draftverify import Context, Proposal
from draftverify.bench import load_experiment, run
from draftverify.bench.records import load_run
from draftverify.kit import Subject, check_component, make_context
from draftverify_proofs import Enumeration, Proved, Tested

PACKAGE = Path(__file__).parents[1]
XOR = {"variables": ["x", "y"], "program": "x | y; x & y; t0 - t1"}
COUNT = {
    "variables": ["i", "j", "n"],
    "start": {"i": "0", "j": "n"},
    "guard": "i ^ n",
    "body": {"i": "i + 1", "j": "j - 1"},
    "holds": "j",
}
BLOCKS = [Proposal.alternatives(["x ^ y", "x + y", "import os", "x"]), Proposal.alternatives(["y ^ x"])]


@pytest.mark.parametrize(
    "part",
    [
        Subject(Enumeration(), tasks=[XOR, COUNT]),
        Subject(Tested(), tasks=[XOR], proposals=BLOCKS),
        Subject(Proved(), tasks=[XOR], proposals=BLOCKS),
    ],
)
def test_the_parts_keep_the_contract(part):
    """draftverify's conformance kit over the drafter and both verifiers."""
    check_component(part)


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("x | y", "x & y; x ^ y; t0 + t1"),
        ("x - y", "-1 ^ x; t0 + y; -1 ^ t1"),
        ("x + x", "x << 1"),
        ("0", "-1 >> 1; -1 ^ t0; x >> 1; t1 & t2"),
        ("1", "0 - x; x | t0; -1 >> 1; t1 | t2; t3 - t3; t4 + 1"),
    ],
)
def test_numpy_and_z3_read_every_operator_alike(written, same):
    """Words wrap, and zeros come in from the left."""
    context = asked({"variables": ["x", "y"], "program": written})
    assert verdicts(Tested(), context, [same]) == verdicts(Proved(), context, [same]) == ["pass"]


@pytest.mark.parametrize("task", [XOR, COUNT])
def test_no_input_refutes_what_z3_proves(task):
    """Of all drafts; and z3 refutes some of those that two inputs cannot tell from right ones."""
    context = asked(task)
    drafts = Enumeration().propose(context, 700).items
    proved, tested, hardly = (
        verdicts(part, context, drafts) for part in (Proved(), Tested(), Tested(inputs=2))
    )
    assert "pass" in proved
    assert all(test == "pass" for test, proof in zip(tested, proved, strict=True) if proof == "pass")
    assert hardly.count("pass") > tested.count("pass") >= proved.count("pass")


def test_what_z3_has_no_time_for_is_no_rejection():
    """It abstains."""
    assert verdicts(Proved(effort=1), asked(XOR), ["x ^ y"]) == ["abstain"]


def test_both_ways_prove_the_same(tmp_path):
    """The experiment: testing first changes no answer, and nothing is proved that other inputs refute."""
    result = run(load_experiment(PACKAGE / "experiment.yaml", limit=3), out=tmp_path / "run")
    with load_run(result.path) as records:
        alone, first = (
            {record.task: record.outcome.value for record in records.records(name)} for name in records.names
        )
    assert alone == first
    assert first["xor"] == "x ^ y"
    assert first["count_down"] == "i + j; n ^ t0"
    figures = [pipeline.rows[-1].solved["agrees"].rate.value for pipeline in result.summary.pipelines]
    assert figures == [1.0, 1.0]


def test_the_sweep_runs_and_is_compared(tmp_path):
    """Six cells, side by side."""
    result = run(load_experiment(PACKAGE / "sweep.yaml", limit=1), out=tmp_path / "run")
    assert len(result.summary.pipelines) == 6
    command = [sys.executable, "-m", "draftverify", "compare", str(result.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "seconds/solved" in done.stdout


def test_the_readme_s_example_runs():
    """As it stands."""
    [code] = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
    namespace: dict = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["outcome"].value == "x + y"


def asked(task) -> Context:
    return make_context(task, role="verify")


def verdicts(verifier, context, items):
    return [check.verdict for check in verifier.verify(context, Proposal.alternatives(items)).checks]
