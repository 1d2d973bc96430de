"""The two ways in which a check fails, by `ensure` or by a sum that `deviates`, and how it says nothing."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

ERROR_PROBABILITY = 1e-6
"""The chance, at most, that a statistical check refuses an honest component. Its draws are fixed: it is rolled once."""


def ensure(holds: object, problem: str) -> None:
    """Fail the check, saying what was found and what to do."""
    if not holds:
        raise AssertionError(problem)


class NotExercised(Exception):
    """A check had nothing to look at, so that it must not say that it passed."""


def exercised(by: object, why: str) -> None:
    """End the check as one that was not run, where nothing that it could have failed by came up.

    Args:
        by: what did; it stands at the end of a check, since a finding counts more than what was not looked at.
        why: what never happened, and what would make it.
    """
    if not by:
        raise NotExercised(why)


def deviates(total: Any, variance: Any, tests: int) -> Any:
    """Whether sums of independent terms in [-1, 1] with mean 0 are too far from 0, by Bernstein's inequality.

    Args:
        total: the sums.
        variance: the sums of the terms' variances.
        tests: among how many tests `ERROR_PROBABILITY` is shared out.
    """
    weight = log(2 * tests / ERROR_PROBABILITY)
    return abs(total) > weight / 3 + np.sqrt(weight**2 / 9 + 2 * weight * variance)
