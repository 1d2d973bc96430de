"""What scores mean: probabilities hold on other tasks, and a certified threshold keeps its promise as often as said."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.bench.artifact import read_artifact, write_artifact
from draftverify.lab import LabelledScore, ScoreFit, certified, fit_scores, reliability
from draftverify.lab.scores import ScoreArtifact

PRECISION = 0.9


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


def test_a_certified_threshold_is_violated_as_seldom_as_promised() -> None:
    """At 90 % confidence in at most 15 % of 200 fits of 400 tasks (chance of more, at 10 %: 1 %); and those that were
    certified, more than half, accept on average two fifths of what an oracle would."""
    fresh = population(20_000, 99, each=1)
    scores = np.array([each.score for each in fresh])
    right = np.array([each.right for each in fresh])
    order = np.argsort(-scores)
    best = np.flatnonzero(np.cumsum(right[order]) / np.arange(1, len(order) + 1) >= PRECISION).max()
    violated, kept = 0, []
    for seed in range(200):
        threshold, _ = certified(population(400, seed, each=1), precision=PRECISION, confidence=0.9)
        if threshold is not None:
            violated += right[scores >= threshold].mean() < PRECISION
            kept.append((scores >= threshold).mean() / ((best + 1) / len(scores)))
    assert violated <= 30
    assert len(kept) > 100
    assert np.mean(kept) > 0.4


def test_tasks_that_were_all_right_promise_nothing_when_they_are_few() -> None:
    """22 tasks without a mistake certify 90 % at 90 % confidence (.9^22 < .1), 21 do not."""
    for tasks, expected in ((21, False), (22, True)):
        threshold, why = certified([LabelledScore(str(task), 1.0, True) for task in range(tasks)])
        assert (threshold is not None) == expected, why
    assert "22 are needed" in certified([LabelledScore(str(task), 1.0, True) for task in range(21)])[1]


def test_scores_that_say_nothing_certify_nothing() -> None:
    """And their probability is the base rate, whatever the score."""
    rng = np.random.default_rng(3)
    items = [LabelledScore(str(task), float(rng.normal()), bool(rng.random() < 0.5)) for task in range(500)]
    made = fit_scores(items)
    assert made.threshold is None
    assert "no score is high enough" in made.why
    assert (made.true_pass, made.false_pass) == (None, None)
    assert made.probability(0.0) == pytest.approx(0.5, abs=0.07)


def test_scores_that_mislead_are_turned_round() -> None:
    """Where higher scores are right less often, the probability falls, and no threshold is certified."""
    items = [LabelledScore(each.task, -each.score, each.right) for each in population(1000, 4, each=1)]
    made = fit_scores(items)
    assert made.slope < 0
    assert made.probability(-3.0) > made.probability(3.0)
    assert made.threshold is None


@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.sampled_from([1e-9, 1.0, 1e9]), st.booleans())
def test_any_items_give_probabilities(tasks: int, seed: int, unit: float, alike: bool) -> None:
    """Of any unit, all alike, all right or all wrong: between 0 and 1, and a threshold that is some item's score."""
    rng = np.random.default_rng(seed)
    scores = np.full(tasks, 3.0) if alike else rng.normal(size=tasks) * unit
    rights = rng.random(tasks) < rng.choice([0.0, 0.5, 1.0])
    items = [
        LabelledScore(str(i), float(s), bool(r)) for i, (s, r) in enumerate(zip(scores, rights, strict=True))
    ]
    made = fit_scores(items)
    assert all(0 < made.probability(float(score)) < 1 for score in scores)
    assert made.threshold is None or made.threshold in scores
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


@pytest.mark.parametrize("name", ["precision", "confidence"])
@pytest.mark.parametrize("value", [0.0, 1.0, 2.0])
def test_precision_and_confidence_lie_between_0_and_1(name: str, value: float) -> None:
    """Neither can be promised for certain."""
    with pytest.raises(ConfigError, match=name):
        fit_scores(population(30, 5), **{name: value})


def artifact(made: ScoreFit) -> ScoreArtifact:
    return ScoreArtifact(fit=made, verifier="0123", name="Reader", metric="right", best=False)


@pytest.mark.parametrize("tasks", [5, 200])
def test_an_artifact_is_read_as_it_was_written(tmp_path: Path, tasks: int) -> None:
    """With a threshold and without."""
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
