"""When to release an answer: the evidence of a task's scores against a pool of failures, under a guarantee that holds
however often it is looked at.

A generator tries, a verifier scores, and what scores well enough is released. On a task that the generator cannot solve
every release is wrong, and the more it tries the likelier one becomes: the highest of many scores is high by luck. The
pool has the scores of such tasks, all of their tries, so the highest score of a new task is compared with the highest
of theirs, and not with single scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from draftverify.errors import ConfigError

__all__ = ["ReleasePool", "failures_needed", "release_pool"]


class ReleasePool(msgspec.Struct, frozen=True):
    """The highest scores of failed tasks, and what a new task's scores are worth beside them.

    *What is assumed.* Call a task failed when none of the `tries` that the generator makes on it is right. The scores
    of a failed task, all its tries in their order, are exchangeable with those of the pool's n failed tasks: tasks of
    one source, the same generator, verifier and policy, as many tries. Nothing is assumed of the tries of one task:
    they may depend on each other, learn from what was refused, and be of an easier or harder kind than other tasks'.

    *What holds.* Let M_t be the highest score of the first t tries of a failed task, M_i that of all tries of the
    pool's i-th task, and

        p_t = (1 + #{i: M_i ≥ M_t}) / (n + 1).

    Then P(p_t ≤ α at any t) ≤ α: the probability that a failed task is ever released, whatever the number of looks and
    whoever stops when.

    *Why.* M_t never falls, so p_t never rises, and p_t ≤ α at some t just when p_T ≤ α at the last of the T tries.
    There M_T and the M_i are n + 1 exchangeable numbers, one for each task, so that the rank of M_T among them, from
    above and with ties counted against it, is at most k with a probability of at most k / (n + 1); and p_T ≤ α asks
    for a rank of at most α (n + 1).

    The same as an e-process: E_t = 1{p_t ≤ α} / α never falls and E[E_T] ≤ 1, so that P(E_t ≥ 1/α at any t) ≤ α, which
    is what Ville's inequality says of a capital. One that multiplies an e-value of each try's own p-value would ask
    that each try be like a fresh draw of the pool's, whatever the tries before it were; tries of one task are not, and
    the promise is then broken (`benchmarks/release.py` measures by how much).

    *What is not promised.* The probability is over the pool and the task together: a given pool's own error varies
    around it, as Beta(k, n + 1 − k) with k = ⌊α (n + 1)⌋ where scores have no ties. Nothing is said of a task that the
    generator does solve in one of its tries: another, wrong one may be released first. Tries after the last of the
    pool's tell nothing: how high they come by luck was not seen, and `p_value` does not look at them.

    Args:
        maxima: [n], of each failed task the highest score; None for a task none of whose tries had a score.
        tries: T, how many tries each of them had at most.

    References:
        Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005), for ranks among exchangeable
        scores; Ville, "Étude critique de la notion de collectif" (1939); Cho and Sun, "When Should an AI Workflow
        Release?", arXiv:2605.12947, for pools of failures and release as a sequential test.
    """

    maxima: tuple[float | None, ...]
    tries: int

    def p_value(self, scores: Sequence[float | None]) -> float:
        """p_t, of a task's scores up to now; it may be compared with any α at any time.

        Args:
            scores: of the tries in their order, higher is better; None for a try that cannot be released.
        """
        highest = max((each for each in scores[: self.tries] if each is not None), default=-math.inf)
        above = sum(highest <= (-math.inf if each is None else each) for each in self.maxima)
        return (1 + above) / (len(self.maxima) + 1)

    def threshold(self, alpha: float) -> float | None:
        """The score above which a try is released at α: the pool's ⌊α (n + 1)⌋-th highest; None where nothing ever is,
        since the pool has fewer than `failures_needed(alpha)` tasks.

        Raises:
            ConfigError: α is not between 0 and 1.
        """
        rank = _rank(len(self.maxima), alpha)
        if rank < 1:
            return None
        found = sorted((-math.inf if each is None else each for each in self.maxima), reverse=True)
        return found[rank - 1]


def release_pool(failures: Iterable[Sequence[float | None]]) -> ReleasePool:
    """The pool of some failed tasks.

    Args:
        failures: of each task the scores of all its tries; None for a try without one.

    Raises:
        ConfigError: there is no failed task, or a score is not finite.
    """
    rows = [tuple(row) for row in failures]
    tries = max(map(len, rows), default=0)
    if not tries:
        raise ConfigError("a pool needs at least one failed task with a try; there is none")
    for row in rows:
        for score in row:
            if score is not None and not math.isfinite(score):
                raise ConfigError(f"a failure has the score {score}; finite numbers are needed")
    highest = (max((float(each) for each in row if each is not None), default=None) for row in rows)
    return ReleasePool(tuple(highest), tries)


def failures_needed(alpha: float) -> int:
    """How many failed tasks a pool must have for anything to be released at α: ⌈1/α⌉ − 1.

    Raises:
        ConfigError: α is not between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha is {alpha}; more than 0 and less than 1 is needed", path="alpha")
    n = math.ceil(1 / alpha) - 1
    return n if _rank(n, alpha) else n + 1


def _rank(n: int, alpha: float) -> int:
    """⌊α (n + 1)⌋, where α (n + 1) may fall short of a whole number by rounding alone."""
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha is {alpha}; more than 0 and less than 1 is needed", path="alpha")
    return math.floor(alpha * (n + 1) + 1e-9)
