"""A verifier whose scores are probabilities: `calibrated`, over any that gives scores, once these have been fitted."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

import msgspec

from draftverify.bench.artifact import identify_parts, read_artifact
from draftverify.checks.combined import Combined, as_stages
from draftverify.checks.stages import AllWay, StagePass
from draftverify.errors import ConfigError, below
from draftverify.lab.scores import ScoreArtifact, ScoreFit
from draftverify.protocols import Verifier
from draftverify.traits import EvidenceKind, VerifierTraits, name_of, traits_of
from draftverify.values import Check, Context, Proposal


class Calibrated(Combined):
    """Judges by the probability that an item is right, which a fit on labelled tasks makes of a verifier's score.

    An item passes at `accept` or above, and is rejected below. The score alone decides, whatever the verifier said
    itself; a check without a score, and one that failed, stay as they are. The score of a check is the probability, so
    that the thresholds of rules mean the same for every verifier.

    `draftverify fit scores RUN` writes the file. It is refused for any other verifier than that it was fitted for.

    Args:
        verifier: gives scores, higher being better.
        scores: the file that `draftverify fit scores` wrote.
        accept: the lowest probability that passes.

    Raises:
        ConfigError: the probability lies outside 0 to 1, or the verifier gives no scores.
    """

    def __init__(self, verifier: Verifier, scores: Path, accept: float = 0.5) -> None:
        with below("verifier"):
            as_stages((verifier,))
        if "scores" not in traits_of(verifier, VerifierTraits).provides:
            raise ConfigError(
                f"{name_of(verifier)} gives no scores, so there is nothing to calibrate", path="verifier"
            )
        self.verifier = verifier
        self.scores = Path(scores)
        if not isinstance(accept, (int, float)) or not 0 <= accept <= 1:
            raise ConfigError(f"accept is {accept!r}; a probability is needed, 0 to 1", path="accept")
        self.accept = accept
        self._read: ScoreArtifact | None = None
        self._opened = []

    @property
    def stages(self) -> tuple[Verifier, ...]:  # type: ignore[override]
        """The verifier that gives the scores, as a single stage."""
        return (self.verifier,)

    def provided(self, stages: Sequence[VerifierTraits]) -> Set[EvidenceKind]:
        """Verdicts and scores."""
        return {"verdicts", "scores"}

    def stands_outside(self, stages: Sequence[VerifierTraits]) -> bool:
        """Whether the verifier does."""
        return stages[0].stands_outside

    def open(self) -> None:
        """Open the verifier, and read what its scores mean.

        Raises:
            ConfigError: there is no such file, or it belongs to another verifier.
        """
        super().open()
        try:
            self._read = self._fitted()
        except BaseException:
            self.close()
            raise

    def _fitted(self) -> ScoreArtifact:
        """Raises: ConfigError: as `open`."""
        with below("scores"):
            fitted = read_artifact(self.scores, ScoreArtifact)
            fitted.check_parts(identify_parts(verifier=self.verifier), self.scores)
        return fitted

    def way(self, context: Context, proposal: Proposal) -> _CalibratedWay:
        """The block before its one stage, which looks at every item and whose scores become probabilities."""
        if self._read is None:
            self._read = self._fitted()
        return _CalibratedWay(proposal, self._read.fit, self.accept)


class _CalibratedWay(AllWay):
    def __init__(self, proposal: Proposal, fit: ScoreFit, accept: float) -> None:
        super().__init__(proposal)
        self.fit, self.accept = fit, accept

    def take(self, stage_pass: StagePass) -> None:
        checks = tuple(self._calibrated(check) for check in stage_pass.checks)
        super().take(msgspec.structs.replace(stage_pass, checks=checks))

    def _calibrated(self, check: Check) -> Check:
        if check.score is None or check.verdict not in ("pass", "reject", "abstain"):
            return check
        probability = self.fit.probability(check.score)
        if probability >= self.accept:
            return msgspec.structs.replace(check, score=probability, verdict="pass", reason="")
        reason = check.reason or "improbable"
        return msgspec.structs.replace(check, score=probability, verdict="reject", reason=reason)
