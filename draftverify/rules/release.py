"""Release under a guarantee: an item is kept once it scores above what failed tasks reach by luck."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET

from draftverify.calibration import ReleaseArtifact, ReleasePool, failures_needed, read_artifact
from draftverify.engine.parts import Parts, check_made_with
from draftverify.errors import ConfigError, ContractError, below
from draftverify.protocols import Verifier
from draftverify.randomness import Draws
from draftverify.rules.bounds import between
from draftverify.values import (
    Check,
    Choice,
    Context,
    Correction,
    Decision,
    Proposal,
    Refusal,
    Round,
    Shape,
    Verification,
)

__all__ = ["Release", "Withhold", "tries_of"]

WITHHELD = "not above what failures reach"


class Withhold:
    """Refuses every item: what a pipeline with `Release` does as long as nothing is released, for making its pool."""

    needs = frozenset({"verdicts", "scores"})
    shapes: frozenset[Shape] = frozenset({"alternatives"})
    abstains = True

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Refuse what was judged."""
        refused = []
        for index, check in enumerate(verification.checks):
            if check.verdict == "pass":
                refused.append(Refusal(index, WITHHELD))
            elif check.verdict == "reject":
                refused.append(Refusal(index, check.reason))
        return Decision(refused=tuple(refused))


class Release(Withhold):
    """Keeps the first item that scores above what the pool's failed tasks reached, and is done; refuses all others.

    With a pool of failed tasks as they come, at most α of failed tasks are released, however many tries a task has and
    whoever looks at them: see `ReleasePool`. An item that the verifier does not pass is never released. Of several in
    one block that may be, it is the one with the highest score. Tries are counted over all blocks. What comes in a
    block after the pool's last try is not looked at, and the task has no answer. A task that ends before, by its budget
    or its policy, has the best item among the refused ones. An item that a person or a trusted fallback passes is
    released without a score.

    Args:
        pool: the file that `draftverify fit CONFIG --release` wrote.
        alpha: the largest share of failed tasks that may be released.
        evidence: "highest" for the highest score; "product" for what all scores of a task add up to, which is better
            where wrong items often score as high as right ones, but not so often in the same task. Then the item is
            the one with the highest score among its block's tries up to the one at which the task is released.

    Raises:
        ConfigError: α is not between 0 and 1, or there is no such evidence.
    """

    def __init__(
        self, pool: Path, alpha: float = 0.05, *, evidence: Literal["highest", "product"] = "highest"
    ) -> None:
        self.pool = Path(pool)
        self.evidence = evidence
        if evidence not in ("highest", "product"):
            raise ConfigError(f"evidence is {evidence!r}; it is 'highest' or 'product'", path="evidence")
        self.alpha = between("alpha", alpha, 0, 1, open_below=True, open_above=True)
        self._read: ReleaseArtifact | None = None
        self._above: float | None = None

    def open(self) -> None:
        """Read the pool.

        Raises:
            ConfigError: there is no such file, or too few failed tasks for α stand in it.
        """
        self._threshold()

    def check_verifier(self, verifier: Verifier) -> None:
        """Refuse another verifier than the one whose scores the pool has.

        Raises:
            ConfigError: it is another.
        """
        found, _ = self._threshold()
        with below("pool"):
            check_made_with("verifier", verifier, found.verifier, found, self.pool)

    def check_pipeline(self, pipeline: Parts) -> None:
        """Refuse another generator, or other settings, than those whose tries the pool has.

        Raises:
            ConfigError: they are others.
        """
        found, _ = self._threshold()
        with below("pool"):
            check_made_with("generator", pipeline.generator, found.generator, found, self.pool)
            now = msgspec.to_builtins(dict(pipeline.settings))
            if now != msgspec.to_builtins(dict(found.settings)):
                raise ConfigError(
                    f"{self.pool} was made with the settings {dict(found.settings)}, and the pipeline has {now}. Make "
                    f"it again: `{found.made_by}`"
                )

    def _threshold(self) -> tuple[ReleaseArtifact, float]:
        if self._read is None or self._above is None:
            with below("pool"):
                found = read_artifact(self.pool, ReleaseArtifact)
            above = found.pool.threshold(self.alpha)
            if above is None:
                raise ConfigError(
                    f"{self.pool} has {len(found.pool.scores)} failed tasks, and alpha {self.alpha:g} needs "
                    f"{failures_needed(self.alpha)}; make it of more tasks, or raise alpha",
                    path="pool",
                )
            self._read, self._above = found, above
        return self._read, self._above

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Release an item, or refuse all.

        Raises:
            ContractError: an item was passed without a score.
        """
        checks = verification.checks
        if verification.by != "verifier":
            kept = next((index for index, check in enumerate(checks) if check.verdict == "pass"), None)
            if kept is not None:
                return _keeping(checks, kept)
            return super().decide(context, proposal, verification, rng)
        found, above = self._threshold()
        seen = tries_of(tuple(context.rounds))
        left = max(found.pool.tries - len(seen), 0)
        scores = _scores(checks)[:left]
        if self.evidence == "product":
            released = self._adding_up(found.pool, seen, scores)
        else:
            released = {i: score for i, score in enumerate(scores) if score is not None and score > above}
        if released:
            return _keeping(checks, max(released, key=lambda index: (released[index], -index)))
        refusing = super().decide(context, proposal, verification, rng)
        return Decision(refused=refusing.refused, abstain=not left)

    def _adding_up(
        self, pool: ReleasePool, seen: list[float | None], scores: list[float | None]
    ) -> dict[int, float]:
        """The items of a block, with their scores, up to the one at which the task is released; else none."""
        for place in range(len(scores)):
            if pool.p_value([*seen, *scores[: place + 1]], "product") <= self.alpha:
                return {i: each for i, each in enumerate(scores[: place + 1]) if each is not None}
        return {}

    def finish(self, context: Context) -> Choice | None:
        """The released item with its score; None when there is none."""
        for round in context.rounds:
            if round.decision.emitted:
                (index,) = round.decision.taken
                return Choice(
                    round.decision.emitted[0], score=round.checks[index].score if round.checks else None
                )
        return None


def tries_of(rounds: Sequence[Round]) -> list[float | None]:
    """The scores of a task's tries in their order, as `Release` reads them; None for one that it would not release.

    Raises:
        ContractError: an item was passed without a score.
    """
    return [score for round in rounds if round.by == "verifier" for score in _scores(round.checks)]


def _scores(checks: Sequence[Check]) -> list[float | None]:
    found: list[float | None] = []
    for index, check in enumerate(checks):
        if check.verdict == "pass" and check.score is None:
            raise ContractError(f"item {index} passed without a score; the rule compares scores")
        found.append(check.score if check.verdict == "pass" else None)
    return found


def _keeping(checks: Sequence[Check], kept: int) -> Decision:
    """The decision that keeps a passed item, as its check would have it."""
    if checks[kept].correction is not UNSET:
        return Decision(corrected=(Correction(kept, checks[kept].correction),), done=True)
    return Decision(kept=(kept,), done=True)
