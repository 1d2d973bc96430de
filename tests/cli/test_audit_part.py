"""`draftverify audit part`: each check told, with the author's own inputs from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from tests.broken_plugin_packages import put_on_path

PARTS = '''
from draftverify import Context, Decision, PASS, Proposal, REJECT, Refusal, RuleTraits, Verification


class Divides:
    """Passes what divides n."""

    def __init__(self, largest: int) -> None:
        self.largest = largest

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        n = context.task.input["n"]
        found = [item["by"] <= self.largest and n % item["by"] == 0 for item in proposal.items]
        return Verification(checks=tuple(PASS if each else REJECT for each in found))


class Swallows(Divides):
    """Takes a crash for a refusal."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        try:
            return super().verify(context, proposal)
        except ZeroDivisionError:
            return Verification(checks=(REJECT,) * len(proposal))


class Never:
    """A rule that refuses everything."""

    traits = RuleTraits(shapes={"alternatives"})

    def decide(self, context, proposal, verification, rng) -> Decision:
        return Decision(refused=tuple(Refusal(i, "no") for i, each in enumerate(verification.checks)))


class Counts:
    """A metric."""

    def __call__(self, task, outcome) -> float:
        return float(len(outcome.value))
'''
INPUTS = """
parts: [./mine.py]
arguments: {largest: 50}
tasks: [{n: 91}, {n: 30}]
proposals: [{alternatives: [{by: 7}, {by: 4}]}, {chain: [{by: 13}, {by: 5}]}]
poison: [{by: 0}]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("mine.py").write_text(PARTS)
    Path("inputs.yaml").write_text(INPUTS)
    return tmp_path


def test_a_right_part_passes_and_what_was_not_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a domain of its own, with arguments, tasks, blocks and poison from the file."""
    assert main(["audit", "part", "mine.Divides", "--inputs", "inputs.yaml"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "passed    a_crash_is_no_verdict\n" in said
    assert "not run   answers_the_same_without_scratch\n          it kept nothing in context.scratch" in said
    assert "What was not run has not been tested" in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_finding_is_told_with_the_law_and_ends_with_a_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The law, what was seen, what to do."""
    assert main(["audit", "part", "mine.Swallows", "--inputs", "inputs.yaml"]) == ExitCode.NOT_CONFORMING
    said = " ".join(capsys.readouterr().out.split())
    assert "FAILED a_crash_is_no_verdict An item whose check crashes is" in said
    assert "was judged 'reject'; catch only what means a refusal" in said
    assert "not run a_crash_is_its_own_items_alone not run, since a_crash_is_no_verdict failed" in said


def test_an_expected_failure_is_told_with_its_reason_and_a_stale_one_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file names checks that are known to fail; one that passes is a failure."""
    known = "expected_failures: {a_crash_is_no_verdict: a zero is refused by whom we ask}\n"
    Path("known.yaml").write_text(INPUTS + known)
    assert main(["audit", "part", "mine.Swallows", "--inputs", "known.yaml"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "expected  a_crash_is_no_verdict" in said
    assert "Expected: a zero is refused by whom we ask" in said
    assert main(["audit", "part", "mine.Divides", "--inputs", "known.yaml"]) == ExitCode.NOT_CONFORMING
    assert "take it out of expected_failures" in " ".join(capsys.readouterr().out.split())


def test_a_rule_is_called_with_the_cases_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """A failed check that is refused is found in a case of the author's; without one the check is not run."""
    case = (
        "cases: [{task: {n: 1}, proposal: {alternatives: [a, b]}, checks: [pass, {verdict: %s, score: 0.5}]}]"
    )
    Path("pass.yaml").write_text(case % "reject")
    Path("error.yaml").write_text(case % "error")
    assert main(["audit", "part", "mine.py:Never", "--inputs", "pass.yaml"]) == ExitCode.OK
    assert "not run   decides_on_judged_items_alone" in capsys.readouterr().out
    assert main(["audit", "part", "mine.py:Never", "--inputs", "error.yaml"]) == ExitCode.NOT_CONFORMING
    assert "FAILED    decides_on_judged_items_alone" in capsys.readouterr().out


def test_a_part_that_cannot_read_the_kits_inputs_is_told_how_to_give_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the keys, and the file of the command."""
    Path("bare.yaml").write_text("arguments: {largest: 50}")
    assert main(["audit", "part", "mine.py:Divides", "--inputs", "bare.yaml"]) == ExitCode.NOT_CONFORMING
    said = " ".join(capsys.readouterr().out.split())
    assert "KeyError: 'n'; the kit's own tasks have a prompt, text, question and prompt_ids" in said
    assert "proposals=[Proposal.alternatives([…])]" in said
    assert "--inputs FILE" in said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ["mine.py:Divides"],
            ExitCode.CONFIG,
            "its arguments stand in the file of --inputs, under arguments:",
        ),
        (["mine.py:Divide"], ExitCode.CONFIG, "did you mean mine.Divides?"),
        (
            ["nobody.knows"],
            ExitCode.USAGE,
            "there is no generator, verifier or rule 'nobody.knows'; `draftverify plugins`",
        ),
        (
            ["adaptive_consistency"],
            ExitCode.USAGE,
            "'adaptive_consistency' is a stopping rule, not a generator, verifier or rule",
        ),
        (["mine.Divides"], ExitCode.USAGE, "for one of mine.py write mine.py:Divides"),
        (["mine.py"], ExitCode.USAGE, "a part of a file is written mine.py:Class"),
        (
            ["mine.py:Counts"],
            ExitCode.CONFIG,
            "has none of propose(), verify(), decide(), so it is no generator, verifier or rule; it could be a",
        ),
        (
            ["jsonl", "--inputs", "inputs.yaml"],
            ExitCode.CONFIG,
            "'jsonl' is a source of tasks, not a generator, verifier or rule",
        ),
        (["python"], ExitCode.USAGE, "python is a generator and a verifier; say which with --role"),
        (["first", "--inputs", "wrong.yaml"], ExitCode.CONFIG, "wrong.yaml:2"),
        (["regex", "--inputs", "shape.yaml"], ExitCode.CONFIG, "proposals.0"),
    ],
)
def test_a_mistake_says_where_and_what(
    arguments: list[str], code: ExitCode, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line and in the file."""
    Path("wrong.yaml").write_text("block: 3\ntaks: []\n")
    Path("shape.yaml").write_text("arguments: {pattern: a}\nproposals: [{tree: [a, b], parents: [0, -1]}]\n")
    assert main(["audit", "part", *arguments]) == code
    assert says in " ".join(capsys.readouterr().err.split())


def test_the_file_of_the_command_may_be_among_the_parts_of_the_inputs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is one file, and not two of one name."""
    assert main(["audit", "part", "mine.py:Divides", "--inputs", "inputs.yaml"]) == ExitCode.OK
    assert " passed, " in capsys.readouterr().out.splitlines()[-2]


def test_what_was_not_run_names_the_check_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """And not another that was not run either; the numbers stand in one order."""
    Path("bare.yaml").write_text("arguments: {largest: 50}")
    assert main(["audit", "part", "mine.py:Divides", "--inputs", "bare.yaml"]) == ExitCode.NOT_CONFORMING
    out = capsys.readouterr().out
    assert {line.strip() for line in out.splitlines() if "since" in line} == {"not run, since answers failed"}
    assert out.splitlines()[-1].startswith("3 passed, 1 failed, ")


def test_a_plugin_that_cannot_be_used_is_told_as_anywhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of two packages is no part of two roles; a group that is none is named."""
    put_on_path(monkeypatch, "twin_one", "twin_two", "stray_group")
    assert main(["audit", "part", "twin"]) == ExitCode.PLUGIN
    assert "rule 'twin' is registered twice, by dv-twin-one 1.0" in capsys.readouterr().err
    assert main(["audit", "part", "stray.dice"]) == ExitCode.USAGE
    assert "did you mean draftverify.generators" in " ".join(capsys.readouterr().err.split())
