"""A verifier whose scores are probabilities: `calibrated`, over any that gives scores, once these have been fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from draftverify.bench.artifact import PartIdentity, check_made_with, read_artifact
from draftverify.checks.verifiers.combined import Combined, as_stages
from draftverify.checks.verifiers.stages import AllWay, StagePass
from draftverify.engine.parts import name_of
from draftverify.errors import ConfigError, below
from draftverify.lab.scores import ScoreArtifact, ScoreFit
from draftverify.protocols import Verifier
from draftverify.values import Check, Context, Proposal

__all__ = ["Calibrated"]


class Calibrated(Combined):
    """Judges by the probability that an item is right, which a fit on labelled tasks makes of a verifier's score.

    An item passes at `accept` or above, is rejected below `reject`, and between the two the verifier abstains: it
    cannot tell, and a policy may ask a person or a dearer verifier (`on: abstain, do: escalate`). The score alone
    decides, whatever the verifier said itself; a check without a score, and one that failed, stay as they are. The
    score of a check is the probability, so that the thresholds of rules mean the same for every verifier.

    `draftverify fit CONFIG` writes the file. It is refused for any other verifier than the one it was fitted for.

    Args:
        verifier: gives scores, higher being better.
        scores: the file that `draftverify fit` wrote.
        accept: the lowest probability that passes; when absent the scores pass that the fit certified, those from its
            threshold on.
        reject: the lowest probability that is not rejected; when absent all that does not pass is. "certified" takes
            the score below which the fit certified that few of the right items lie; where it could certify no such
            score nothing is rejected, and where it could certify none to accept nothing passes: it abstains instead.

    Raises:
        ConfigError: a probability lies outside 0 to 1, or `reject` above `accept`; or the verifier gives no scores.
    """

    def __init__(
        self,
        verifier: Verifier,
        scores: Path,
        accept: float | None = None,
        reject: float | Literal["certified"] | None = None,
    ) -> None:
        with below("verifier"):
            as_stages((verifier,))
        if "scores" not in getattr(verifier, "provides", ()):
            raise ConfigError(
                f"{name_of(verifier)} gives no scores, so there is nothing to calibrate", path="verifier"
            )
        self.verifier = verifier
        self.scores = Path(scores)
        for name, value in (("accept", accept), ("reject", reject)):
            if isinstance(value, str) and (name, value) != ("reject", "certified"):
                raise ConfigError(f"{name} is {value!r}; a probability is needed, 0 to 1", path=name)
            if isinstance(value, (int, float)) and not 0 <= value <= 1:
                raise ConfigError(f"{name} is {value}; a probability is needed, 0 to 1", path=name)
        if accept is not None and isinstance(reject, (int, float)) and reject > accept:
            raise ConfigError(f"reject is {reject}, above accept, {accept}", path="reject")
        self.accept = accept
        self.reject = reject
        self._read: ScoreArtifact | None = None
        self._opened = []

    @property
    def stages(self) -> tuple[Verifier, ...]:  # type: ignore[override]
        """The one that gives the scores."""
        return (self.verifier,)

    @property
    def provides(self) -> frozenset[str]:
        """Verdicts and scores."""
        return frozenset({"verdicts", "scores"})

    def open(self) -> None:
        """Open the verifier, and read what its scores mean.

        Raises:
            ConfigError: there is no such file, it belongs to another verifier, or no threshold was certified and none
                was given.
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
            found = read_artifact(self.scores, ScoreArtifact)
            then = PartIdentity(found.name, found.verifier)
            check_made_with("verifier", self.verifier, then, found, self.scores)
        if self.accept is None and found.fit.threshold is None and self.reject != "certified":
            raise ConfigError(
                f"{self.scores} holds no threshold: {found.fit.why}. Fit with more tasks or a lower precision, or say "
                "which probability to accept",
                path="accept",
            )
        reject = self.reject
        if self.accept is None and isinstance(reject, (int, float)) and found.fit.threshold is not None:
            certified = found.fit.probability(found.fit.threshold)
            if reject > certified:
                raise ConfigError(
                    f"reject is {reject}, above the {certified:.3f} that the fit certified; lower it, or say "
                    "which probability to accept",
                    path="reject",
                )
        return found

    def way(self, context: Context, proposal: Proposal) -> _CalibratedWay:
        """One stage, and its checks in probabilities. It looks at every item: what passes is not its own to say."""
        if self._read is None:
            self._read = self._fitted()
        return _CalibratedWay(proposal, self._read.fit, self.accept, self.reject)


class _CalibratedWay(AllWay):
    def __init__(
        self,
        proposal: Proposal,
        fit: ScoreFit,
        accept: float | None,
        reject: float | Literal["certified"] | None,
    ) -> None:
        super().__init__(proposal)
        self.fit, self.accept, self.reject = fit, accept, reject

    def take(self, found: StagePass) -> None:
        checks = tuple(self._calibrated(check) for check in found.checks)
        super().take(msgspec.structs.replace(found, checks=checks))

    def _calibrated(self, check: Check) -> Check:
        if check.score is None or check.verdict not in ("pass", "reject", "abstain"):
            return check
        probability = self.fit.probability(check.score)
        changes: dict[str, Any] = {"score": probability}
        if self._passes(check.score, probability):
            changes.update(verdict="pass", reason="")
        elif self._rejects(check.score, probability):
            changes.update(verdict="reject", reason=check.reason or "improbable")
        else:
            changes.update(verdict="abstain", reason="uncertain")
        return msgspec.structs.replace(check, **changes)

    def _passes(self, score: float, probability: float) -> bool:
        if self.accept is not None:
            return probability >= self.accept
        # By the score, of which the fit certified it: where few scores are wrong the probability may fall.
        return self.fit.threshold is not None and score >= self.fit.threshold

    def _rejects(self, score: float, probability: float) -> bool:
        if self.reject == "certified":
            return self.fit.reject is not None and score < self.fit.reject
        return self.reject is None or probability < self.reject
