"""The calibrated verifier: the probability decides, other verifiers' files are refused, what failed stays failed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftverify import (
    Check,
    ConfigError,
    Pipeline,
    Task,
    Verification,
    generator,
    verifier,
)
from draftverify.bench.artifact import identify_parts, write_artifact
from draftverify.bench.records import timeless
from draftverify.checks.verifiers import AllOf
from draftverify.identity import identity_of
from draftverify.kit import check_component
from draftverify.lab import Calibrated, LabelledScore, fit_scores
from draftverify.lab.replay import Replay
from draftverify.lab.scores import ScoreArtifact
from draftverify.rules import All, EnoughEvidence, First
from draftverify.secret import Secret
from draftverify.traits import VerifierTraits


class Scorer:
    """The item is its score; it rejects all, so that nothing but the score can pass."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def verify(self, context: Any, proposal: Any) -> Verification:
        return Verification(checks=tuple(self._check(item) for item in proposal.items))

    def _check(self, item: Any) -> Check:
        if item == "crash":
            return Check("error", reason="crash")
        if item == "unsure":
            return Check("abstain")
        return Check("reject", score=self.factor * (item if isinstance(item, int) else len(str(item))))


SURE = [LabelledScore(str(i), float(i % 10), i % 10 >= 5) for i in range(500)]
"""Right from score 5 on."""


def scores(tmp_path: Path, of: Any = None, items: list[LabelledScore] = SURE) -> Path:
    path = tmp_path / "scores.json"
    parts = identify_parts(verifier=of or Scorer())
    made = fit_scores(items)
    write_artifact(path, ScoreArtifact(fit=made, parts=parts, metric="m"))
    return path


def verdicts(calibrated: Calibrated, items: list[Any]) -> list[str]:
    pipeline = Pipeline(generator(lambda context, n: items), calibrated, All(), block=len(items))
    with pipeline:
        record = pipeline.record("t")
    return [check.verdict for check in record.rounds[0].checks]


def test_the_probability_decides_whatever_the_verifier_said(tmp_path: Path) -> None:
    """It rejected them all, and those that are likelier right than wrong pass; a check that failed, or has no
    score, stays as it is."""
    calibrated = Calibrated(Scorer(), scores(tmp_path))
    assert verdicts(calibrated, [9, 4, 5, "crash", "unsure"]) == [
        "pass",
        "reject",
        "pass",
        "error",
        "abstain",
    ]


def test_scores_are_probabilities(tmp_path: Path) -> None:
    """Which a rule's threshold and a stopping rule can be given as such."""
    drafted = generator(lambda context, n: [6, 7])
    calibrated = Calibrated(Scorer(), scores(tmp_path), accept=0.0)
    chance = fit_scores(SURE).probability(6.0)
    with Pipeline(drafted, calibrated, All(threshold=chance + 1e-9), block=2) as pipeline:
        assert pipeline.run("t").value == (7,)
    with Pipeline(drafted, calibrated, All(), block=2, done=EnoughEvidence(chance)) as pipeline:
        assert len(pipeline.run("t").value) == 2


def test_it_looks_past_what_its_verifier_would_have_counted_as_enough(tmp_path: Path) -> None:
    """A verifier may stop at enough items that it passed; it passes none here."""
    with Pipeline(
        generator(lambda c, n: [1, 2, 8, 9]), Calibrated(Scorer(), scores(tmp_path)), First(), block=4
    ) as one:
        assert one.run("t").value == 8


@pytest.mark.parametrize("other", [Scorer(2.0), verifier(lambda context, item: 1.0, scores=True)])
def test_the_file_of_another_verifier_is_refused(tmp_path: Path, other: Any) -> None:
    """Its arguments, its class or its code are others: the scores mean something else."""
    with pytest.raises(ConfigError, match="was made with the verifier Scorer"):
        Calibrated(other, scores(tmp_path)).open()


def test_a_missing_file_names_the_command(tmp_path: Path) -> None:
    """Which writes it."""
    with pytest.raises(ConfigError, match="draftverify fit"):
        Calibrated(Scorer(), tmp_path / "none.json").open()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"accept": 1.5}, "accept is 1.5"),
        ({"accept": -1}, "accept is -1"),
        ({"accept": "certified"}, "accept is 'certified'"),
    ],
)
def test_probabilities_lie_between_0_and_1(arguments: dict[str, float], what: str) -> None:
    """And are numbers."""
    with pytest.raises(ConfigError, match=what):
        Calibrated(Scorer(), Path("x"), **arguments)


def test_a_verifier_without_scores_is_refused() -> None:
    """There is nothing to calibrate."""
    with pytest.raises(ConfigError, match="gives no scores"):
        Calibrated(verifier(lambda context, item: True), Path("x"))


def test_it_is_a_stage_and_keeps_the_contract(tmp_path: Path) -> None:
    """Within another verifier, and by the conformance kit."""
    calibrated = Calibrated(Scorer(), scores(tmp_path))
    check_component(calibrated)
    both = AllOf([verifier(lambda context, item: item != 9), calibrated])
    with Pipeline(generator(lambda c, n: [9, 8]), both, First(), block=2) as pipeline:
        assert pipeline.run("t").value == 8


class Identified:
    """Says itself who it is."""

    identity = "a"

    def __init__(self, size: int = 1, file: Path | None = None, inner: Any = None) -> None:
        self.size, self.file, self.inner = size, file, inner


class Plain:
    def __init__(self, size: int = 1, file: Path | None = None, inner: Any = None) -> None:
        self.size, self.file, self.inner = size, file, inner

    def told(self) -> int:
        return self.size


def _adds(k: int) -> Any:
    return lambda x, more=0: x + k + more


def _counts_down() -> Any:
    def down(x: int) -> int:
        return down(x - 1) if x else 0

    return down


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_adds(1), _adds(2)),
        (lambda x, k=1: x, lambda x, k=2: x),
        (lambda x: abs(x), lambda x: len(x)),
        (lambda x: [(lambda y: y + 1) for _ in x], lambda x: [(lambda y: y + 2) for _ in x]),
        (partial(pow, 1), partial(pow, 2)),
        (cache(_adds(1)), cache(_adds(2))),
        (np.zeros(3), np.ones(3)),
        (np.float32(1), np.float32(2)),
        (re.compile("a"), re.compile("b")),
        (b"a", b"b"),
        (Plain(1).told, Plain(2).told),
    ],
)
def test_arguments_that_answer_otherwise_make_another_part(one: Any, other: Any) -> None:
    """What a function closes over, calls and falls back on; numbers of arrays; what a method is bound to."""
    assert identity_of(Plain(inner=one)) == identity_of(Plain(inner=one)) != identity_of(Plain(inner=other))


def test_who_a_part_is_does_not_hang_on_its_key() -> None:
    """Another key makes no other part, and nothing of one stands in a file; a slice's dots are told like numbers."""
    assert identity_of(Plain(inner=Secret("sk-one-1"))) == identity_of(Plain(inner=Secret("sk-two-2")))
    assert identity_of(Plain(inner=lambda x: x[..., 0])) != identity_of(Plain(inner=lambda x: x[0]))


def test_a_directory_is_what_stands_in_it(tmp_path: Path) -> None:
    """Not what it is called."""
    one, other = tmp_path / "one", tmp_path / "other"
    for each in (one, other):
        (each / "deep").mkdir(parents=True)
        (each / "deep" / "file").write_text("a")
    assert identity_of(Plain(file=one)) == identity_of(Plain(file=other))
    (other / "deep" / "file").write_text("b")
    assert identity_of(Plain(file=one)) != identity_of(Plain(file=other))


def test_who_a_part_is_does_not_depend_on_the_process() -> None:
    """Nor on where its code lies in memory, or on the order of a set."""
    script = (
        "from draftverify import verifier\nfrom draftverify import identity_of\n"
        "print(identity_of(verifier(lambda c, i: i in {'a', 'b', 'c', 'd'} and [j for j in (lambda k: k)(i)])))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(said) == 1


def test_a_part_that_cannot_be_told_is_an_error() -> None:
    """Rather than the same as another; one that holds itself, as a recursive function does, can be told."""
    with pytest.raises(ConfigError, match="no telling a range from another; give Plain an `identity`"):
        identity_of(Plain(inner=range(3)))
    with pytest.raises(ConfigError, match="no telling a Decimal from another"):
        identity_of(Plain(inner=Decimal(3)))
    assert identity_of(Plain(inner=_counts_down())) == identity_of(Plain(inner=_counts_down()))


def test_who_a_part_is(tmp_path: Path) -> None:
    """Its own word, else its class and arguments: parts within it, and what stands in files, not where they lie."""
    assert identity_of(Identified(1)) == identity_of(Identified(2))
    assert identity_of(Plain(1)) == identity_of(Plain(1)) != identity_of(Plain(2))
    assert identity_of(Plain(inner=[Plain(3)])) != identity_of(Plain(inner=[Plain(4)]))
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    other.write_text("a")
    assert identity_of(Plain(file=one)) == identity_of(Plain(file=other))
    other.write_text("b")
    assert identity_of(Plain(file=one)) != identity_of(Plain(file=other))
    assert identity_of(verifier(lambda c, i: True)) != identity_of(verifier(lambda c, i: False))


def test_a_replay_reads_recorded_scores_at_other_probabilities(tmp_path: Path) -> None:
    """As a rerun does; and the verifier alone, put into `calibrated` afterwards."""
    path, scorer = scores(tmp_path), Scorer()
    drafter = generator(lambda context, n: list(range(10)))

    def made(judge: Any) -> Pipeline:
        return Pipeline(drafter, judge, First(2), block=10)

    recorded = {
        "calibrated": made(Calibrated(scorer, path)),
        "alone": made(scorer),
    }
    task = Task(id="1")
    for first in recorded.values():
        record = first.record(task)
        for accept in (0.2, 0.5, 0.9):
            other = made(Calibrated(scorer, path, accept))
            found = Replay(first, [record], other, changed=frozenset({"verifier"})).task(task, record)
            assert found.record is not None
            assert timeless(found.record) == timeless(other.record(task))
