"""What a trained verifier's report says of the solutions that were held out: what choosing by its score is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from draftverify.stats import bootstrap
from draftverify.stats.judgement import auroc, auroc_within


def held_out_figures(
    scores: Sequence[float],
    right: Sequence[bool],
    problems: Sequence[int],
    answers: Sequence[str | None],
    logprobs: Sequence[float] | None,
) -> dict[str, Any]:
    """The report's figures, with their intervals over problems; see `VerifierTraining.train`.

    Args:
        scores, right, problems, answers: of each solution its score, whether it is right, whose it is, what it answers.
        logprobs: of each solution, where they were learned from.
    """
    selected, mean, oracle = select(scores, right, problems)
    majority = elect(answers, right, problems)
    chosen = {
        "best_of_n": selected, "mean": mean, "majority": majority, "oracle": oracle,
        "gain": np.subtract(selected, mean), "gain_over_majority": np.subtract(selected, majority),
    }  # fmt: skip
    if logprobs is not None:
        chosen["likeliest"], *_ = select(logprobs, right, problems)
    figures = {
        "auc_within": auroc_within(scores, right, problems),
        "auc": auroc(scores, right, problems),
        **{
            name: bootstrap(lambda w, of=of: float(w @ of / w.sum()), range(len(of)))  # type: ignore[misc]
            for name, of in chosen.items()
        },
    }
    figures = {name: estimate for name, estimate in figures.items() if math.isfinite(estimate.value)}
    report: dict[str, Any] = {name: estimate.value for name, estimate in figures.items()}
    report["intervals"] = {name: [estimate.low, estimate.high] for name, estimate in figures.items()}
    return report


def select(
    scores: Sequence[float], right: Sequence[bool], problems: Sequence[int]
) -> tuple[list[float], list[float], list[float]]:
    """Of each problem: whether its best-scored solution is right (of equals the share that is), the share of right
    ones, whether there is one.
    """
    of: dict[int, list[tuple[float, bool]]] = {}
    for score, good, problem in zip(scores, right, problems, strict=True):
        of.setdefault(problem, []).append((score, good))
    selected = [
        float(np.mean([good for score, good in attempts if score == max(attempts)[0]]))
        for attempts in of.values()
    ]
    mean = [float(np.mean([good for _, good in attempts])) for attempts in of.values()]
    return selected, mean, [float(any(good for _, good in attempts)) for attempts in of.values()]


def elect(answers: Sequence[str | None], right: Sequence[bool], problems: Sequence[int]) -> list[float]:
    """Of each problem the share of right ones among its commonest answers; 0 where none has an answer."""
    votes: dict[int, dict[str, list[bool]]] = {}
    for answer, good, problem in zip(answers, right, problems, strict=True):
        ballots = votes.setdefault(problem, {})
        if answer is not None:
            ballots.setdefault(answer, []).append(good)
    shares = []
    for ballots in votes.values():
        most = max(map(len, ballots.values()), default=0)
        leading = [float(np.mean(good)) for good in ballots.values() if len(good) == most]
        shares.append(float(np.mean(leading)) if leading else 0.0)
    return shares
