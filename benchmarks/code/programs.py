"""What the recorded programs did, kept, and the published figures that follow: for `benchmarks.replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.best_of_n import best_of_n
from benchmarks.code import codet, hidden
from benchmarks.code.estimators import agreement, over_tasks, pass_at
from benchmarks.code.recorded import PUBLISHED_STOPS, load
from draftverify.stats import Estimate, pass_at_k
from draftverify.stats.intervals import beta_quantile, rate
from draftverify_code.sandbox import Sandbox


class Programs(msgspec.Struct, frozen=True):
    """What the recorded programs of one task did, in the order of the recording.

    Args:
        task: its name in HumanEval.
        paper: the hidden tests' verdicts, a letter each, as the CodeT paper's program reads the recording.
        alone: the same where the tests see the tested function alone, which the figures here are of.
        scores: the share of generated tests that each passed; −1 without any.
        cross: of each, a letter for each generated test: passed (p), not (-), not run (?).
    """

    task: str
    paper: str
    alone: str
    scores: tuple[float, ...]
    cross: tuple[str, ...]


def run_programs(data: Path) -> list[Programs]:
    """Every recorded program against its hidden tests and all generated ones, in the sandbox."""
    recordings = load(data, None, PUBLISHED_STOPS)
    with Sandbox() as sandbox:
        found = hidden.judged([(one.suite, one.programs) for one in recordings], sandbox)
        paper = {one.task.id: hidden.letters(each) for one, each in zip(recordings, found, strict=True)}
        apart = [one for one in recordings if one.suite_alone != one.suite]
        found = hidden.judged([(one.suite_alone, one.programs) for one in apart], sandbox)
        alone = {one.task.id: hidden.letters(each) for one, each in zip(apart, found, strict=True)}
        pools = [list(dict.fromkeys(one.programs)) for one in recordings]
        work = [(one.task, pool) for one, pool in zip(recordings, pools, strict=True)]
        verified = codet.verified(work, data / "generated_tests.jsonl", sandbox)
    done = []
    for one, pool, each in zip(recordings, pools, verified, strict=True):
        own = codet.parted(each, pool, one.programs)
        cross: Any = own.evidence.cross if own.evidence is not None else ()
        done.append(
            Programs(
                task=one.task.id,
                paper=paper[one.task.id],
                alone=alone.get(one.task.id, paper[one.task.id]),
                scores=tuple(-1.0 if check.score is None else float(check.score) for check in own.checks),
                cross=tuple("".join(MARKS.get(float(mark), "?") for mark in row) for row in cross),
            )
        )
    return done


MARKS = {1.0: "p", 0.0: "-"}


def figures(programs: Sequence[Programs]) -> dict[str, Estimate]:
    """pass@k, CodeT's selection, best of n and the certificates, from what the programs did."""
    right = {one.task: [letter == "p" for letter in one.alone] for one in programs}
    paper = {one.task: [letter == "p" for letter in one.paper] for one in programs}
    codes = {mark: value for value, mark in MARKS.items()}
    agreed = []
    for one in programs:
        cross = np.array([[codes.get(mark, np.nan) for mark in row] for row in one.cross])
        chosen = agreement(cross, right[one.task], "count")
        agreed.append(
            pass_at_k(len(one.alone), sum(right[one.task]), 1) if chosen is None else chosen
        )  # by lot where no program passes any test, as in the published program
    scores = [one.scores for one in programs]
    expected = [[float(each) for each in right[one.task]] for one in programs]
    best = best_of_n(scores, expected)
    reading = "as the CodeT paper reads it"
    return {
        **{f"CodeGen-16B, pass@{k}": pass_at(right, k) for k in (1, 10, 100)},
        **{f"CodeGen-16B, pass@{k} {reading}": pass_at(paper, k) for k in (10, 100)},
        "CodeT's dual agreement, pass@1": over_tasks(agreed),
        **{f"best of {n} by generated tests": best.at(n) for n in (1, 4, 100)},
        **certificates(scores, expected),
    }


SPLITS, RESAMPLES, PRECISION, DELTA = 300, 1000, 0.5, 0.1
BY_WHOLE = "by whole problems, at most δ = .1"


def certificates(scores: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> dict[str, Estimate]:
    """How often a threshold that was certified on half of the problems breaks its promise on the other half.

    Certified for a precision of ½ at δ = .1, as it was published: by resampling whole problems (the δ-quantile of a
    thousand bootstrap samples), and as if items were independent (Clopper–Pearson), both along the same sequence of
    thresholds. A split on which nothing can be certified breaks none.
    """
    rng = np.random.default_rng(2026)
    rows, expected = np.array(scores), np.array(right)
    broken = {"as if items were independent": 0, BY_WHOLE: 0}
    for _ in range(SPLITS):
        order = rng.permutation(len(rows))
        own, other = order[: len(rows) // 2], order[len(rows) // 2 :]
        for name, bound in ((BY_WHOLE, _resampled(rng)), ("as if items were independent", _independent)):
            threshold = _certified(rows[own], expected[own], bound)
            if threshold is not None:
                chosen = rows[other] >= threshold
                broken[name] += bool(chosen.any() and expected[other][chosen].mean() < PRECISION)
    return {
        f"certificates broken, {name}": rate([1.0] * count + [0.0] * (SPLITS - count), [1.0] * SPLITS)
        for name, count in broken.items()
    }


def _certified(scores: Any, right: Any, bound: Callable[[Any, Any], float]) -> float | None:
    """The last threshold, from the strictest down, whose precision is certain by a bound of [problems, items]."""
    least = int(np.ceil(np.log(DELTA) / np.log(PRECISION)))
    best = None
    for threshold in np.unique(scores)[::-1]:
        chosen = scores >= threshold
        if chosen.sum() < least:
            continue
        if bound(chosen.sum(axis=1), (right * chosen).sum(axis=1)) < PRECISION:
            break
        best = float(threshold)
    return best


def _independent(counts: Any, hits: Any) -> float:
    """The precision that is certain as if items were independent."""
    count, hit = float(counts.sum()), float(hits.sum())
    return beta_quantile(DELTA, hit, count - hit + 1.0) if hit else 0.0


def _resampled(rng: np.random.Generator) -> Callable[[Any, Any], float]:
    """The precision that is certain by resampling whole problems."""

    def bound(counts: Any, hits: Any) -> float:
        drawn = rng.multinomial(len(counts), np.full(len(counts), 1.0 / len(counts)), RESAMPLES)
        every = drawn @ counts
        return float(np.quantile((drawn @ hits)[every > 0] / every[every > 0], DELTA))

    return bound


def programs(data: Path, kept: Path | None) -> list[Programs]:
    """What they did: read from `kept` where that is there, else run, and kept."""
    if kept is not None and kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=list[Programs])
    done = run_programs(data)
    if kept is not None:
        kept.write_bytes(msgspec.json.encode(done))
    return done
