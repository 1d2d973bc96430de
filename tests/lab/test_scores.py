"""What scores mean: probabilities hold on other tasks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.bench.artifact import PartIdentity, read_artifact, write_artifact
from draftverify.lab import LabelledScore, ScoreFit, fit_scores, reliability
from draftverify.lab.scores import ScoreArtifact


def population(tasks: int, seed: int, *, each: int = 5) -> list[LabelledScore]:
    """Items whose chance to be right rises with the score, and from task to task; scores of any unit."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=(tasks, 1))
    scores = 2 * rng.normal(size=(tasks, each))
    right = rng.random((tasks, each)) < 1 / (1 + np.exp(-(1.5 * scores - 1 + ease)))
    return [
        LabelledScore(str(task), float(scores[task, i]), bool(right[task, i]))
        for task in range(tasks)
        for i in range(each)
    ]


def test_probabilities_hold_on_other_tasks() -> None:
    """In each tenth of 5,000 fresh items the share that is right lies within .06 of what was promised (four sigma)."""
    made = fit_scores(population(400, 1))
    fresh = population(1000, 2)
    promised = np.array([made.probability(each.score) for each in fresh])
    right = np.array([each.right for each in fresh])
    for part in np.array_split(np.argsort(promised), 10):
        assert abs(promised[part].mean() - right[part].mean()) < 0.06
    assert made.error < 0.05
    assert sum(part.right.trials for part in made.reliability) == made.items == 2000


def test_scores_that_say_nothing_have_the_base_rate() -> None:
    """Whatever the score."""
    rng = np.random.default_rng(3)
    items = [LabelledScore(str(task), float(rng.normal()), bool(rng.random() < 0.5)) for task in range(500)]
    made = fit_scores(items)
    assert made.probability(0.0) == pytest.approx(0.5, abs=0.07)


def test_scores_that_mislead_are_turned_round() -> None:
    """Where higher scores are right less often, the probability falls."""
    items = [LabelledScore(each.task, -each.score, each.right) for each in population(1000, 4, each=1)]
    made = fit_scores(items)
    assert made.slope < 0
    assert made.probability(-3.0) > made.probability(3.0)


@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.sampled_from([1e-9, 1.0, 1e9]), st.booleans())
def test_any_items_give_probabilities(tasks: int, seed: int, unit: float, alike: bool) -> None:
    """Of any unit, all alike, all right or all wrong: between 0 and 1."""
    rng = np.random.default_rng(seed)
    scores = np.full(tasks, 3.0) if alike else rng.normal(size=tasks) * unit
    rights = rng.random(tasks) < rng.choice([0.0, 0.5, 1.0])
    items = [
        LabelledScore(str(i), float(s), bool(r)) for i, (s, r) in enumerate(zip(scores, rights, strict=True))
    ]
    made = fit_scores(items)
    assert all(0 < made.probability(float(score)) < 1 for score in scores)
    assert math.isfinite(made.error)


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ([], "no judged item"),
        ([LabelledScore("a", 1.0, True), LabelledScore("a", 2.0, False)], "of one task"),
        ([LabelledScore("a", math.nan, True), LabelledScore("b", 2.0, False)], "task a has the score nan"),
    ],
)
def test_items_that_teach_nothing_are_refused(items: list[LabelledScore], what: str) -> None:
    """By what is wrong with them."""
    with pytest.raises(ConfigError, match=what):
        fit_scores(items)


def artifact(made: ScoreFit) -> ScoreArtifact:
    return ScoreArtifact(fit=made, parts={"verifier": PartIdentity("Reader", "0123")}, metric="right")


@pytest.mark.parametrize("tasks", [5, 200])
def test_an_artifact_is_read_as_it_was_written(tmp_path: Path, tasks: int) -> None:
    """Of few tasks and of many."""
    written = artifact(fit_scores(population(tasks, 6, each=1)))
    write_artifact(tmp_path / "scores.json", written)
    assert read_artifact(tmp_path / "scores.json", ScoreArtifact) == written


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no score fit"),
        ("[]", "its kind is None"),
        ('{"kind": "draftverify.operating_point", "version": 1}', "operating_point"),
        ('{"kind": "draftverify.scores", "version": 2}', "version 2 is unknown"),
        ('{"kind": "draftverify.scores", "version": 1}', "damaged"),
    ],
)
def test_what_is_no_artifact_is_refused(tmp_path: Path, text: str, what: str) -> None:
    """By name, with what is wrong."""
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(ConfigError, match=what):
        read_artifact(tmp_path / "scores.json", ScoreArtifact)


def test_what_was_promised_is_set_beside_what_came() -> None:
    """In parts of equal size by probability; items of one task count as one where they go together."""
    promised = [(i % 100) / 100 for i in range(200)]
    right = [i % 100 >= 50 for i in range(200)]
    parts = reliability(promised, right, list(range(200)))
    assert len(parts) == 10
    assert [part.right.trials for part in parts] == [20] * 10
    assert [part.promised for part in parts] == pytest.approx([0.045 + 0.1 * k for k in range(10)])
    assert [part.right.value for part in parts] == [0.0] * 5 + [1.0] * 5
    alone = reliability([0.5] * 36, [i < 18 for i in range(36)], list(range(36)))[0].right
    together = reliability([0.5] * 36, [i < 18 for i in range(36)], [i // 9 for i in range(36)])[0].right
    assert together.clusters == 4
    assert together.high - together.low > 2 * (alone.high - alone.low)
