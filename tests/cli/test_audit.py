"""`draftverify audit lossless`: a verdict per pipeline, its evidence, JSON, and an exit code of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main

PARTS = '''
import msgspec
import numpy as np
from draftverify import GeneratorTraits, Task
from draftverify.rules import Speculative
from draftverify.kit import DraftFrom, TableModel, TargetFrom


class Tasks:
    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def load(self) -> list[Task]:
        return [Task(id=f"t{i}", input={"prompt_ids": [i]}) for i in range(4)][: self.limit]


class Draft:
    traits = GeneratorTraits(laws={"iid"}, shape="chain")

    def propose(self, context, n):
        return DraftFrom(TableModel(20, seed=97, order=2)).propose(context, n)


class Target(TargetFrom):
    def __init__(self) -> None:
        super().__init__(TableModel(20, seed=28, order=2))


class NoBonus(Speculative):
    """Draws the bonus from the row before it."""

    def decide_many(self, contexts, proposals, verifications, rngs):
        changed = []
        for proposal, verification in zip(proposals, verifications):
            target = np.array(verification.evidence.target)
            if len(proposal):
                target[-1] = target[-2]
            evidence = msgspec.structs.replace(verification.evidence, target=target)
            changed.append(msgspec.structs.replace(verification, evidence=evidence))
        return super().decide_many(contexts, proposals, changed, rngs)
'''

YAML = """
name: audited
seed: 3
parts: [parts.py]
tasks: {use: parts.Tasks}
pipelines:
  right:
    generator: {use: parts.Draft}
    verifier: {use: parts.Target}
    rule: {use: speculative}
    block: 2
    done: {use: limit, items: 12}
  lossy:
    generator: {use: parts.Draft}
    verifier: {use: parts.Target}
    rule: {use: lenience, lenience: 0.5, measure_drift: true}
    block: 2
    done: {use: limit, items: 12}
  wrong:
    generator: {use: parts.Draft}
    verifier: {use: parts.Target}
    rule: {use: parts.NoBonus}
    block: 2
    done: {use: limit, items: 12}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """An experiment with a right pipeline, a lossy one and a broken one."""
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "experiment.yaml").write_text(YAML)
    return str(tmp_path / "experiment.yaml")


@pytest.fixture
def small(config: str) -> str:
    """The same with blocks of one."""
    Path(config).write_text(YAML.replace("block: 2", "block: 1"))
    return config


QUICK = ["--prefixes", "4", "--draws", "1024"]


def test_an_exact_pipeline_and_a_lossy_one_exit_with_0(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each, with what was looked at and what the lossy one drifts by."""
    assert main(["audit", "lossless", config, "--pipeline", "right", "--pipeline", "lossy", *QUICK]) == 0
    said = capsys.readouterr()
    right = next(line for line in said.out.splitlines() if "Speculative" in line)
    lossy = next(line for line in said.out.splitlines() if "Lenience" in line)
    assert "lossless as far as tested" in right
    assert "right: tested: the rule on " in said.out
    assert "tiny models in blocks of 0, 1, 2, exactly" in said.out
    assert "the rule in 1024 rounds at each of 4 prefixes, to TV " in said.out
    assert "64 proposals of the generator, to TV " in said.out
    assert "lossy, drift" in lossy
    assert "wrong" not in said.out
    assert "auditing right" in said.err


def test_a_broken_exact_rule_exits_with_8_and_says_why(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The case, the answer and both probabilities."""
    assert main(["audit", "lossless", small, "--pipeline", "wrong", *QUICK]) == ExitCode.NOT_LOSSLESS == 8
    out = capsys.readouterr().out
    assert "NOT lossless" in out
    assert "comes with probability" in out
    assert "see --json" in out


def test_the_report_as_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, verdicts included; nothing else on stdout."""
    assert main(["audit", "lossless", small, "--json", "--limit", "2", *QUICK]) == ExitCode.NOT_LOSSLESS
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False
    right, lossy, wrong = report["pipelines"]
    assert (right["passed"], lossy["passed"], wrong["passed"]) == (True, True, False)
    assert right["enumeration"]["worst"] < 1e-12
    assert right["draws"]["copies"] == 1024
    assert lossy["drift"] > 0
    assert wrong["found"]


def test_an_unknown_pipeline_is_a_mistake_in_the_config(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for every command; the near one is named."""
    assert main(["audit", "lossless", config, "--pipeline", "rigth"]) == ExitCode.CONFIG
    assert "did you mean right?" in capsys.readouterr().err


def test_a_rule_that_crashes_is_named_and_the_others_are_audited(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One part's bug costs one verdict."""
    parts = Path(config).parent / "parts.py"
    parts.write_text(PARTS.replace("return super().decide_many(contexts, proposals, changed, rngs)", "1 / 0"))
    how = ["audit", "lossless", config, "--pipeline", "wrong", "--pipeline", "lossy", *QUICK]
    assert main(how) == ExitCode.NOT_LOSSLESS
    out = capsys.readouterr().out
    assert "ZeroDivisionError" in out
    assert "NOT lossless" in next(line for line in out.splitlines() if "NoBonus" in line)
    lossy = next(line for line in out.splitlines() if "Lenience" in line)
    assert "lossy, drift" in lossy
    assert "NOT" not in lossy
