"""The benchmark's figures on recordings of known expected: known chances per task, known consensus, known times."""

from __future__ import annotations

import math
import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.code.codet import figures, parted
from benchmarks.code.estimators import (
    Targets,
    agreement,
    best_of,
    differences,
    over_tasks,
    pass_at,
    ratio,
)
from benchmarks.code.harness import PER_TASK, explained, rows
from benchmarks.code.hidden import correct_of
from benchmarks.code.recorded import Recording, match, truncate
from draftverify import Check, ConfigError, Evidence, Task, Verification

SCORED = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan]), st.booleans()), min_size=1, max_size=7
)


def recording(chances: list[float], samples: int, seed: int) -> dict[str, list[bool]]:
    """Verdicts of tasks whose samples are right with known chances."""
    dice = random.Random(seed)
    return {str(i): [dice.random() < p for _ in range(samples)] for i, p in enumerate(chances)}


@pytest.mark.parametrize("k", [1, 3, 10])
def test_pass_at_k_is_unbiased(k: int) -> None:
    """Over many recordings its mean is 1 − (1 − p)^k, averaged over tasks."""
    chances = [0.0, 0.02, 0.1, 0.3, 0.8, 1.0]
    expected = sum(1 - (1 - p) ** k for p in chances) / len(chances)
    found = [pass_at(recording(chances, 20, seed), k).value for seed in range(2000)]
    assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / math.sqrt(len(found)))


def test_pass_at_k_of_all_samples_is_the_oracle() -> None:
    """A task counts once when any of its samples is right; the interval is over tasks."""
    found = pass_at({"a": [False] * 9 + [True], "b": [False] * 10, "c": [True] * 10, "d": [False] * 10}, 10)
    assert (found.value, found.clusters) == (0.5, 4)
    assert found.low < 0.2 < 0.8 < found.high


@given(SCORED, st.data())
def test_best_of_n_is_the_mean_over_all_subsets(scored: list[tuple[float, bool]], data: Any) -> None:
    """Each subset's best group gives its share of right samples; a score that is missing is the worst."""
    n = data.draw(st.integers(1, len(scored)))
    values = [(-1.0 if math.isnan(score) else score, right) for score, right in scored]
    shares = []
    for subset in combinations(values, n):
        best = [right for score, right in subset if score == max(score for score, _ in subset)]
        shares.append(sum(best) / len(best))
    scores, correct = zip(*scored, strict=True)
    assert best_of(scores, correct, n) == pytest.approx(sum(shares) / len(shares))


def test_best_of_n_turns_down_where_the_scores_mislead() -> None:
    """One of a hundred wrong samples scores best of all: right at first, ever surer to be taken in the end."""
    scores = [1.0] + [0.9] * 40 + [0.1] * 59
    correct = [False] + [True] * 40 + [False] * 59
    found = [best_of(scores, correct, n) for n in (1, 4, 16, 100)]
    assert found[0] == pytest.approx(0.40)
    assert found[1] > max(found[0], found[2])
    assert found[2] > found[3] == 0.0
    assert best_of(scores, correct, 4) == pytest.approx(
        (math.comb(99, 4) - math.comb(59, 4)) / math.comb(100, 4)
    )


def test_best_of_n_with_a_perfect_score_is_pass_at_k() -> None:
    """The oracle."""
    correct = [True] * 3 + [False] * 17
    for n in (1, 4, 20):
        assert best_of([float(c) for c in correct], correct, n) == pytest.approx(
            pass_at({"a": correct}, n).value
        )


def planted(right: int, wrong: int, tests: int, false_tests: int, seed: int = 0) -> tuple[Any, list[bool]]:
    """Right samples agree on all true tests; wrong ones each fail some of their own; false tests pass nobody."""
    dice = np.random.default_rng(seed)
    rows = np.zeros((right + wrong, tests + false_tests))
    rows[:right, :tests] = 1
    for row in rows[right:]:
        row[:tests] = dice.random(tests) < 0.5
        row[dice.integers(tests)] = 0
    correct = [True] * right + [False] * wrong
    order = dice.permutation(len(correct))
    return rows[order], [correct[i] for i in order]


def test_agreement_finds_a_planted_consensus() -> None:
    """Whichever the support counts, though right samples are a minority and best-of-n by tests is no better."""
    for seed in range(20):
        cross, correct = planted(right=8, wrong=30, tests=12, false_tests=5, seed=seed)
        assert agreement(cross, correct, "count") == agreement(cross, correct, "root") == 1.0


def test_agreement_takes_the_lot_of_equal_sets() -> None:
    """Two sets of score 4, one of them right in one of two: 1 of 3; without a passed test there is no figure."""
    cross = [[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert agreement(cross, [True, False, False, True], "count") == pytest.approx(1 / 3)
    assert agreement(cross, [True, False, False, True], "root") == 0.0
    assert agreement(np.zeros((3, 2)), [True] * 3, "count") is None
    assert agreement(np.zeros((3, 0)), [True] * 3, "count") is None


def test_agreement_compares_scores_exactly() -> None:
    """√8 × 3 and √18 × 2 are one lot, though their floating-point numbers differ."""
    cross = [[1, 1, 0, 0, 0]] * 18 + [[0, 0, 1, 1, 1]] * 8
    assert agreement(cross, [True] * 18 + [False] * 8, "root") == pytest.approx(18 / 26)


def test_a_ratio_of_times_and_its_interval() -> None:
    """The truth lies in about 95 % of intervals, and twice as slow on both sides changes nothing."""
    dice = np.random.default_rng(1)
    inside = 0
    for _ in range(500):
        machine = dice.uniform(0.5, 2.0, 8)
        ours = 1.0 * machine * dice.lognormal(0, 0.1, 8)
        theirs = 9.0 * machine * dice.lognormal(0, 0.1, 8)
        found = ratio(theirs, ours)
        inside += found.low <= 9.0 <= found.high
    assert 0.92 < inside / 500 < 0.98
    assert ratio([6.0, 12.0], [3.0, 6.0]).value == pytest.approx(2.0)
    assert math.isinf(ratio([6.0], [3.0]).high)


def test_an_interval_over_tasks_covers_the_truth() -> None:
    """Values between 0 and 1, one a task."""
    dice = random.Random(3)
    inside = 0
    for _ in range(300):
        found = over_tasks([dice.betavariate(0.5, 1.0) for _ in range(60)])
        inside += found.low <= 1 / 3 <= found.high
    assert inside / 300 > 0.93


def test_differences_are_listed_with_both_reasons() -> None:
    """And only those where the verdict differs, not the words."""
    ours = [(True, ""), (False, "assertion"), (False, "wall")]
    theirs = [(True, "passed"), (False, "failed: "), (True, "passed")]
    assert differences(["a", "b", "c"], ours, theirs) == [
        {"program": "c", "ours": (False, "wall"), "theirs": (True, "passed")}
    ]


def test_a_difference_is_explained_by_time_alone() -> None:
    """A program that one of them stopped for time; any other difference stays to be explained."""
    passed = (True, "passed")
    assert explained({"ours": (False, "timeout, wall: 3 s"), "theirs": passed})
    assert explained({"ours": (True, "pass, : "), "theirs": (False, "timed out")})
    assert not explained({"ours": (False, "reject, value: timeout"), "theirs": passed})


def test_targets_are_missed_by_what_lies_outside() -> None:
    """On the edge is no miss; NaN is one."""
    found = Targets()
    found.near("edge", 0.219, 0.217, 0.002)
    found.at_most("edge", 150.0, 150)
    found.at_least("edge", 8.0, 8)
    assert not found.missed
    found.near("far", 0.2192, 0.217, 0.002)
    found.near("unknown", math.nan, 0.217, 0.002)
    found.at_least("low", 7.99, 8)
    found.holds("same", 3, "0 differences", False)
    assert [row["what"] for row in found.missed] == ["far", "unknown", "low", "same"]


def test_truncation_is_at_the_first_stop() -> None:
    """Whichever stop that is; without one the completion stays whole."""
    body = "    x = 1\n    return x\n"
    assert truncate(body) == body
    assert truncate(f"{body}\nprint(f(1))\n\ndef g():\n") == body
    assert truncate(f"{body}\n@cache\nclass A: pass") == body
    assert truncate("\ndef f") == ""


def test_rows_are_matched_to_problems_by_their_prompts() -> None:
    """In any order, for functions of the same name too; what cannot be told apart is refused."""
    problems = {
        "a/0": {"prompt": 'def add(x):\n    """ One.\n    >>> add(1)\n    """\n', "entry_point": "add"},
        "a/1": {"prompt": 'def add(x):\n    """ Two.\n    >>> add(1)\n    """\n', "entry_point": "add"},
        "a/2": {"prompt": 'def sub(x):\n    """ One.\n    """\n', "entry_point": "sub"},
    }
    one, two, sub = (
        f'def {n}(x):\n    """ {w}.\n    """\n' for n, w in (("add", "One"), ("add", "Two"), ("sub", "One"))
    )
    assert match([sub, two, one], problems) == ["a/2", "a/1", "a/0"]
    with pytest.raises(ConfigError, match="row 2"):
        match([one, one], problems)
    with pytest.raises(ConfigError, match="row 1"):
        match(["def other(x):\n"], problems)


def recorded(id: str, completions: list[str], test: str = "def check(candidate): ...") -> Recording:
    """A recording by hand, of a task whose prompt has a helper function."""
    prompt = "def helper(x):\n    return x\n\n\ndef f(x):\n"
    return Recording(
        Task(id=id, input={"prompt": prompt, "entry_point": "f", "test": test}), tuple(completions)
    )


def verification(cross: Any) -> Verification:
    """What the verifier says of such results: a program passes with its share of tests."""
    shares = [float(np.mean(row)) if len(row) else None for row in cross]
    checks = tuple(Check("pass" if share else "reject", share) for share in shares)
    return Verification(checks=checks, evidence=Evidence(cross=np.asarray(cross, dtype=float)))


def test_figures_of_a_recording_of_known_truth() -> None:
    """Agreement right where it is planted; the best by tests misled where one wrong program passes them all."""
    planted_cross = [[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]]
    samples = [recorded("a", list("vwxyz")), recorded("b", list("vwxyz"))]
    found = {"a": verification(planted_cross), "b": verification(np.zeros((5, 2)))}
    correct = correct_of({"a": "ppprt", "b": "prrre"})
    result = figures(samples, found, correct)
    # Of task b no sample passes a test: one of five by lot.
    assert result["agreement_count"]["by_lot"].value == pytest.approx((1.0 + 0.2) / 2)
    assert result["agreement_count"]["rule"].value == pytest.approx((1.0 + 0.2) / 2)
    assert result["agreement_count"]["none"] == 1
    assert result["best_of_all_by_rule"].value == pytest.approx((0.0 + 0.2) / 2)
    assert result["best_of"][1].value == pytest.approx((0.6 + 0.2) / 2)
    assert result["pass_at"][1].value == pytest.approx((0.6 + 0.2) / 2)
    # Of task a's ten pairs four have the misleading sample, and one has no right sample.
    assert result["best_of"][2].value == pytest.approx((0.6 + 0.2) / 2)
    assert result["pass_at"][2].value == pytest.approx((0.9 + 0.4) / 2)
    assert set(result["best_of"]) == {1, 2, 4}


def test_shared_programs_are_looked_up() -> None:
    """A reading's verification is a part of that of all programs, equal programs alike."""
    found = verification([[1, 0], [1, 1], [0, 0]])
    part = parted(found, ["p", "q", "r"], ["r", "p", "r"])
    assert part.evidence is not None
    assert part.evidence.cross.tolist() == [[0, 0], [1, 0], [0, 0]]
    assert [check.score for check in part.checks] == [0.0, 0.5, 0.0]


def test_tests_alone_do_not_see_the_prompts_other_functions() -> None:
    """Only where they call one; otherwise they stay as they are."""
    plain = recorded("a", ["    return x\n"], "def check(candidate):\n    assert candidate(1) == 1\n")
    assert plain.suite_alone == plain.suite
    calling = recorded(
        "b", ["    return x\n"], "def check(candidate):\n    assert candidate(1) == helper(1)\n"
    )
    for suite, outcome in ((calling.suite, "passes"), (calling.suite_alone, "fails")):
        scope: dict[str, Any] = {}
        exec(suite.setup + ("    return x\n" if suite.setup else ""), scope)
        exec(suite.source, scope)
        if outcome == "passes":
            scope["check"](lambda x: x)
        else:
            with pytest.raises(NameError, match="helper"):
                scope["check"](lambda x: x)


def test_programs_are_drawn_by_a_seed() -> None:
    """So many of each task, every task in one block, the same again the next time."""
    samples = [recorded(f"HumanEval/{i}", [str(k) for k in range(30)]) for i in range(20)]
    found = rows(samples)
    for name, blocks in found.items():
        parts = [part for block in blocks for part in block]
        assert sorted(part.recording.task.id for part in parts) == sorted(one.task.id for one in samples)
        assert all(len(set(part.completions)) == PER_TASK for part in parts)
        assert {len(block) for block in blocks} == {2, 3}
        assert rows(samples)[name] == blocks
    assert len({part.completions for block in found["samples"] for part in block}) > 10
