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
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from draftverify.errors import ConfigError

__all__ = ["ReleasePool", "failures_needed", "release_pool"]

Evidence: TypeAlias = Literal["highest", "product"]
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


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
    is what Ville's inequality says of a capital.

    *Evidence that adds up.* With `evidence="product"`, M is another number of a task's tries: the largest capital that
    it ever had, where try s multiplies the capital by e(q) = (1 − q + q ln q)/(q ln² q), and q is the share of the
    n + 1 tasks whose try s scores as high or higher. The same proof holds, since M is made in the same way of every
    task and never falls. For the pool's tasks it needs scores of the new one that are not there yet; until they are
    they are left out of the counts, which makes the pool's M larger, and p_t too. By itself, such a capital could be
    released from 1/α on only if each try were like a fresh draw of the pool's, whatever the tries before it were. Tries
    of one task are not (`benchmarks/release.py` measures what becomes of the promise), so here its rank decides.

    *What is not promised.* The probability is over the pool and the task together: a given pool's own error varies
    around it, as Beta(k, n + 1 − k) with k = ⌊α (n + 1)⌋ where scores have no ties. Nothing is said of a task that the
    generator does solve in one of its tries: another, wrong one may be released first. Tries after the last of the
    pool's tell nothing: how high they come by luck was not seen, and `p_value` does not look at them.

    Args:
        scores: of each failed task, those of all its tries in their order; None for a try that cannot be released.

    References:
        Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005), for ranks among exchangeable
        scores; Ville, "Étude critique de la notion de collectif" (1939); Cho and Sun, "When Should an AI Workflow
        Release?", arXiv:2605.12947, for pools of failures and release as a sequential test.
    """

    scores: tuple[tuple[float | None, ...], ...]

    @property
    def tries(self) -> int:
        """T, how many tries each of them had at most."""
        return max(map(len, self.scores))

    @property
    def maxima(self) -> tuple[float | None, ...]:
        """[n], of each failed task the highest score; None for a task none of whose tries had a score."""
        return tuple(max((each for each in row if each is not None), default=None) for row in self.scores)

    def p_value(self, scores: Sequence[float | None], evidence: Evidence = "highest") -> float:
        """p_t, of a task's scores up to now; it may be compared with any α at any time.

        Args:
            scores: of the tries in their order, higher is better; None for a try that cannot be released.
            evidence: "highest" for the highest score, "product" for what all of them add up to. Which one is to be
                said before the scores are seen.
        """
        if evidence == "product":
            return self._ranked_capital(scores[: self.tries])
        highest = max((each for each in scores[: self.tries] if each is not None), default=-math.inf)
        above = sum(highest <= (-math.inf if each is None else each) for each in self.maxima)
        return (1 + above) / (len(self.scores) + 1)

    def _ranked_capital(self, scores: Sequence[float | None]) -> float:
        n, t = len(self.scores), len(scores)
        if not t:
            return 1.0
        pool = np.array([_filled(row, self.tries) for row in self.scores])
        own = np.array(_filled(scores, t))
        # How many of the pool's tasks score as high or higher at each place, and of the pool's the new task too.
        columns = np.sort(pool, axis=0)
        counts = np.stack(
            [n - np.searchsorted(columns[:, s], pool[:, s], "left") for s in range(self.tries)], axis=1
        )
        counts[:, :t] += own >= pool[:, :t]
        shares = (1 + (pool[:, :t] >= own).sum(axis=0)) / (n + 1)
        above = _largest_capital(counts / (n + 1)) >= _largest_capital(shares[None])[0] - 1e-9
        return (1 + int(above.sum())) / (n + 1)

    def threshold(self, alpha: float) -> float | None:
        """The score above which a try is released at α, where the highest score counts: the pool's ⌊α (n + 1)⌋-th
        highest; None where nothing ever is, since the pool has fewer than `failures_needed(alpha)` tasks.

        Raises:
            ConfigError: α is not between 0 and 1.
        """
        rank = _rank(len(self.scores), alpha)
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
    rows = [tuple(None if score is None else float(score) for score in row) for row in failures]
    if not any(rows):
        raise ConfigError("a pool needs at least one failed task with a try; there is none")
    for row in rows:
        for score in row:
            if score is not None and not math.isfinite(score):
                raise ConfigError(f"a failure has the score {score}; finite numbers are needed")
    return ReleasePool(tuple(rows))


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


def _filled(scores: Sequence[float | None], length: int) -> list[float]:
    """Scores, −∞ for none, made this long."""
    found = [-math.inf if each is None else each for each in scores]
    return found + [-math.inf] * (length - len(found))


def _largest_capital(shares: Rows) -> Rows:
    """[n], the logarithm of the largest capital that shares [n, tries] ever lead to."""
    q = np.minimum(shares, 1 - 1e-4)  # at 1 the formula is 0/0, and ½ in the limit
    logs = np.log(q)
    values = (1 - q + q * logs) / (q * logs * logs)
    found: Rows = np.cumsum(np.log(values), axis=1).max(axis=1)
    return found
