"""The cascade benchmark's figures, on answers of known expected, and its runs, on a tiny model."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import cascades
from benchmarks.cascade_estimates import (
    Interval,
    Way,
    cost_ratio,
    mixture_gap,
    quality_gap,
    sequential,
    sequential_gap,
    verdict,
)
from benchmarks.cascade_picture import picture
from benchmarks.cascades import (
    POINTS,
    Answer,
    answers,
    drift_alone,
    judge,
    log_likelihood,
    pipelines,
    prompts,
    shown,
)
from draftverify import Task
from draftverify_llm import LocalModel

PROMPTS = 20


def way(quality: Any, cost: Any, passes: Any = 0.0, tokens: int = 10) -> Way:
    """A way whose answers all have as many tokens, with these figures per token."""
    quality, cost, passes = (
        np.broadcast_to(np.asarray(x, float), (PROMPTS,)) for x in (quality, cost, passes)
    )
    return Way(quality * tokens, np.full(PROMPTS, float(tokens)), cost * tokens, passes * tokens)


def models(seed: int) -> tuple[Way, Way, Any]:
    """A draft, a target that is dearer, and the draft's confidence."""
    dice = np.random.default_rng(seed)
    draft = way(dice.normal(-2, 0.5, PROMPTS), dice.uniform(1, 2, PROMPTS))
    target = way(dice.normal(-1, 0.5, PROMPTS), dice.uniform(5, 8, PROMPTS), 1)
    return draft, target, dice.normal(-1, 0.3, PROMPTS)


def test_figures_are_pooled_over_tokens() -> None:
    """A long answer weighs as much as its tokens, in quality, seconds and passes alike."""
    found = Way(*(np.array(x, float) for x in ([-30, -4], [10, 2], [5, 1], [20, 4])))
    assert found.quality() == pytest.approx(-34 / 12)
    assert found.cost() == pytest.approx(6 / 12)
    assert found.passes_per_token() == 2
    assert found.quality(np.array([False, True])) == -2


@given(st.integers(0, 10**6), st.integers(0, PROMPTS))
def test_the_sequential_cascade_defers_the_least_confident(seed: int, k: int) -> None:
    """k prompts are the target's, at both models' cost; no kept answer is less confident than a deferred one."""
    draft, target, confidence = models(seed)
    found = sequential(draft, target, confidence, k / PROMPTS)
    theirs = found.seconds > draft.seconds
    assert theirs.sum() == k
    assert np.array_equal(found.seconds, draft.seconds + np.where(theirs, target.seconds, 0))
    assert np.array_equal(found.log_likelihood, np.where(theirs, target.log_likelihood, draft.log_likelihood))
    assert np.array_equal(found.passes, np.where(theirs, target.passes, 0))
    assert confidence[theirs].max(initial=-math.inf) <= confidence[~theirs].min(initial=math.inf)


@given(st.integers(0, 10**6), st.integers(0, PROMPTS), st.floats(-1, 1))
def test_a_cascade_is_level_with_itself(seed: int, k: int, better: float) -> None:
    """The gap of a threshold's own cascade at equal cost is 0, and what its quality is raised by when it is raised."""
    draft, target, confidence = models(seed)
    found = sequential(draft, target, confidence, k / PROMPTS)
    raised = Way(found.log_likelihood + better * found.tokens, found.tokens, found.seconds, found.passes)
    gap = sequential_gap(raised, draft, target, confidence)
    assert gap.value == pytest.approx(better, abs=1e-9)
    assert gap.low <= gap.value <= gap.high


def test_between_two_thresholds_the_cascade_is_a_line() -> None:
    """Halfway in cost between deferring nothing and everything, equal prompts give half of the way in quality."""
    draft, target = way(-2, 1), way(-1, 4, 1)
    assert sequential_gap(way(-1.2, 3), draft, target, np.arange(PROMPTS)).value == pytest.approx(0.3)
    dearer = sequential_gap(way(-1.2, 9), draft, target, np.arange(PROMPTS))
    assert dearer.value == pytest.approx(-0.2)  # beyond its end it is what it is there


def test_a_mixture_is_a_line_too() -> None:
    """A quarter of the way in cost from the draft to the other is a quarter of the way in quality."""
    draft, other = way(-2, 1), way(-1, 5)
    assert mixture_gap(way(-1.5, 2), draft, other).value == pytest.approx(0.25)
    assert mixture_gap(way(-1.5, 7), draft, other).value == pytest.approx(-0.5)
    assert mixture_gap(way(-1.5, 0.5), draft, other).value == pytest.approx(0.5)


def test_nobody_mixes_in_a_draft_that_is_dearer() -> None:
    """Where the draft costs more than speculative decoding the rival is speculative decoding alone, at any cost."""
    dear, other = way(-2, 5), way(-1, 1)
    for cost in (0.5, 3, 7):
        assert mixture_gap(way(-1.5, cost), dear, other).value == pytest.approx(-0.5)


def test_intervals_cover() -> None:
    """Of 600 samples of 20 prompts the 95 % intervals of both differences hold the expected in 92.5 to 97.5 %.

    At true coverage 95 % each bound is broken with probability 0.0025.
    """
    dice, inside = np.random.default_rng(5), [0, 0]
    for _ in range(600):
        common = dice.normal(0, 1, PROMPTS)
        a = way(-1.2 + common + dice.normal(0, 0.3, PROMPTS), 2 * np.exp(dice.normal(0, 0.2, PROMPTS)))
        b = way(-1.0 + common, np.exp(dice.normal(0, 0.2, PROMPTS)))
        quality, cost = quality_gap(a, b), cost_ratio(a, b)
        inside[0] += quality.low <= -0.2 <= quality.high
        inside[1] += cost.low <= 2 <= cost.high
    assert all(0.925 <= count / 600 <= 0.975 for count in inside), inside


def test_pairing_takes_out_what_prompts_share() -> None:
    """Hard prompts are hard for both: the interval of the difference is far narrower than either's spread."""
    common = np.random.default_rng(2).normal(0, 5, PROMPTS)
    gap = quality_gap(way(common + 0.1, 1), way(common, 1))
    assert (gap.low, gap.value, gap.high) == pytest.approx((0.1, 0.1, 0.1))


def test_more_comparisons_widen() -> None:
    """Twenty comparisons need Student's t at 0.25 % where one needs it at 5 %."""
    from scipy.stats import t

    draft, target, _ = models(1)
    one, twenty = quality_gap(draft, target), quality_gap(draft, target, comparisons=20)
    wider = t.ppf(1 - 0.025 / 20, PROMPTS - 1) / t.ppf(0.975, PROMPTS - 1)
    assert (twenty.high - twenty.low) / (one.high - one.low) == pytest.approx(wider)
    assert twenty.value == pytest.approx(one.value)


@pytest.mark.parametrize(
    ("quality", "cost", "said"),
    [
        ((0.1, 0.2), (0.5, 0.9), "dominates"),
        ((-0.2, -0.1), (1.1, 1.2), "dominated"),
        ((-0.2, -0.1), (0.5, 0.9), "trades"),
        ((0.1, 0.2), (1.1, 1.2), "trades"),
        ((-0.1, 0.2), (0.5, 0.9), "undecided"),
        ((0.1, 0.2), (0.9, 1.1), "undecided"),
    ],
)
def test_a_verdict_needs_both_intervals(
    quality: tuple[float, float], cost: tuple[float, float], said: str
) -> None:
    """Only intervals that are clear of no difference count, for quality and cost together."""
    assert verdict(Interval(sum(quality) / 2, *quality), Interval(sum(cost) / 2, *cost)) == said


def row(of: Way) -> dict[str, list[float]]:
    """A way as the benchmark writes it down."""
    return {
        "log_likelihood": list(of.log_likelihood), "tokens": list(of.tokens), "seconds": list(of.seconds),
        "passes": list(of.passes), "drift": [0.0] * PROMPTS,
    }  # fmt: skip


def test_the_answer_names_who_dominates() -> None:
    """A cascade that is better and cheaper than everything is named; one on the way between, or a lossy one, is not."""
    dice = np.random.default_rng(8)

    def noisy(quality: float, cost: float) -> Way:
        return way(quality + dice.normal(0, 0.02, PROMPTS), cost * np.exp(dice.normal(0, 0.02, PROMPTS)), 1)

    made = {
        "draft": noisy(-2, 1), "target": noisy(-1, 9), "speculative": noisy(-1, 5), "chow 0.5": noisy(-0.8, 3),
        "opt 0.1": noisy(-1.5, 3), "token_v3 0.9": noisy(-1.4, 3), "diff 0": noisy(-1.95, 3),
        "lossy 0.5": noisy(-0.8, 3),
    }  # fmt: skip
    found = judge(
        {"ways": {name: row(each) for name, each in made.items()}, "confidence": list(range(PROMPTS))}
    )
    assert found["answer"] == {
        "cascades": 4,
        "better_than_sequential_at_equal_cost": ["chow 0.5", "opt 0.1", "token_v3 0.9"],
        "worse_than_sequential_at_equal_cost": ["diff 0"],
        "dominate_speculative": ["chow 0.5"],
        "better_than_mixture_at_equal_cost": ["chow 0.5", "token_v3 0.9"],
        "dominate_both": ["chow 0.5"],
    }
    assert found["standing"]["lossy 0.5"]["speculative"]["verdict"] == "dominates"
    assert found["table"]["sequential 0.5"]["passes_per_token"] == pytest.approx(0.5)


def test_prompts_are_distinct_and_always_the_same() -> None:
    """The measured prompts, and those that settings were chosen on, share none."""
    assert len(set(prompts(54))) == 54
    assert prompts(4, 50) == prompts(54)[50:]
    assert prompts(1) == ["Once upon a time, there was a girl named Lily who lived near the river."]
    assert not [text for text in prompts(54) if "{" in text]


def test_every_way_runs_and_is_counted(tiny: LocalModel) -> None:
    """Each way answers each task once; a draft that is the target is kept, and alone it counts no target pass."""
    laws = list(POINTS)
    ways = pipelines(tiny, tiny, laws, tokens=6, block=2, temperature=0.5)
    assert len(ways) == 3 + sum(len(POINTS[law]) for law in laws)
    tasks = [Task(id=f"t{i}", input={"prompt_ids": [65 + i, 66]}) for i in range(2)]
    made: dict[str, list[Answer]] = {name: [] for name in ways}
    order = []
    for name, index, answer in answers(ways, tasks):
        made[name].append(answer)
        order.append((index, name))
    assert [name for index, name in order if index == 0] == list(ways)
    assert [name for index, name in order if index == 1] == [*list(ways)[1:], "target"]
    for name, each in made.items():
        for answer in each:
            assert 1 <= len(answer.tokens) <= 6
            assert answer.seconds > 0
            whole = len(answer.tokens)
            fewest = {"draft": 0, "target": whole}.get(name, math.ceil(whole / 3))
            # The token-wise laws prefer p's likeliest tokens, and so refuse others even where q is p.
            assert fewest <= answer.passes <= (whole if name.startswith("token") else fewest), name


def test_log_likelihood_is_the_chain_s(tiny: LocalModel) -> None:
    """It is the sum of each token's log-probability after all before it, the prompt's own left out."""
    import torch

    prompt, answer = [70, 71, 72], [80, 81, 90, 65]
    by_steps = 0.0
    for i, token in enumerate(answer):
        with torch.no_grad():
            logits = tiny.model(torch.tensor([prompt + answer[:i]])).logits[0, -1]
        by_steps += float(logits.double().log_softmax(-1)[token])
    assert log_likelihood(tiny, prompt, answer) == pytest.approx(by_steps, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.5, 0.0])
def test_the_draft_s_own_drift_is_tv_at_every_token(tiny: LocalModel, temperature: float) -> None:
    """Alone it emits q: its drift is Σ TV(q, p) at the run's temperature, and 0 from itself."""
    import torch

    prompt, answer = [70, 71, 72], [80, 81, 90, 65]
    other = LocalModel.from_module(rolled(tiny.model), tiny.tokenizer)
    by_steps = 0.0
    for i in range(len(answer)):
        with torch.no_grad():
            rows = [
                each(torch.tensor([prompt + answer[:i]])).logits[0, -1] for each in (tiny.model, other.model)
            ]
        if temperature:
            q, p = ((row / temperature).double().softmax(-1) for row in rows)
            by_steps += float((q - p).abs().sum()) / 2
        else:
            by_steps += float(rows[0].argmax() != rows[1].argmax())
    assert by_steps > 0.01
    assert drift_alone(tiny, other, prompt, answer, temperature) == pytest.approx(by_steps, abs=1e-4)
    assert drift_alone(tiny, tiny, prompt, answer, temperature) == 0


def rolled(model: Any) -> Any:
    """The same model with its head's rows moved by one: other logits."""
    import copy

    import torch

    other = copy.deepcopy(model)
    with torch.no_grad():
        other.lm_head.weight.copy_(other.lm_head.weight.roll(1, 0))
    return other


@pytest.mark.parametrize("rehearse", [False, True])
def test_a_rehearsal_leaves_the_recorded_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rehearse: bool
) -> None:
    """Its tables are printed; only a run on the fifty prompts is written down."""
    draft, target, confidence = models(3)
    ways = {"draft": draft, "target": target, "speculative": way(-1, 3), "chow 0.5": way(-1.5, 2)}
    measured = {"ways": {name: row(each) for name, each in ways.items()}, "confidence": list(confidence)}
    monkeypatch.setattr(cascades, "measure", lambda options: measured)
    out = tmp_path / "cascades.json"
    out.write_text("{}")
    monkeypatch.setattr(sys, "argv", ["cascades", "--out", str(out), *(["--rehearse"] if rehearse else [])])
    cascades.main()
    assert "| chow 0.5 |" in capsys.readouterr().out
    assert (json.loads(out.read_text()) == {}) is rehearse


def test_the_documented_tables_are_the_recorded_ones() -> None:
    """benchmarks/README.md shows the tables of the recorded run, all of them as the benchmark prints them, or none."""
    root = Path(__file__).parents[2]
    text = (root / "benchmarks" / "README.md").read_text(encoding="utf-8")
    results = root / "benchmarks" / "results" / "cascades.json"
    if results.exists():
        assert shown(json.loads(results.read_text())) in text
    else:
        assert "| way |" not in text


def test_the_documented_picture_is_the_recorded_run_s() -> None:
    """docs/cascades.svg is what the benchmark draws from the recorded figures, and every way is in it."""
    root = Path(__file__).parents[2]
    figures = json.loads((root / "benchmarks" / "results" / "cascades.json").read_text())
    drawn = (root / "docs" / "cascades.svg").read_text(encoding="utf-8")
    assert drawn == picture(figures) + "\n"
    ElementTree.fromstring(drawn)
    assert all(f">{name}<" in drawn for name in figures["table"])
