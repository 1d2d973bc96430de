"""The score from which a rule accepts, as `draftverify fit scores` certified it: it knows whose scores it is of."""

from __future__ import annotations

from pathlib import Path

from draftverify.bench.artifact import PartIdentity, check_made_with, read_artifact
from draftverify.engine.parts import Parts
from draftverify.errors import ConfigError, below
from draftverify.lab.scores import ScoreArtifact
from draftverify.protocols import Verifier
from draftverify.traits import name_of

__all__ = ["CertifiedThreshold"]


class CertifiedThreshold(float):
    """The lowest score from which so many items are right as a fit on labelled tasks promises, for rules of answers.

    It is a number, so a rule compares with it as with any other: `First(threshold=CertifiedThreshold("judge.json"))`,
    in a config `threshold: {use: calibrated, path: ./judge.json}`. `draftverify fit scores CONFIG` writes the file, for
    the verifier of the pipeline that names it. A pipeline with another verifier is refused as it is opened: scores of
    another mean something else.

    Args:
        path: the file that `draftverify fit scores` wrote.

    Raises:
        ConfigError: there is no such file, it is another kind of file, or nothing could be certified.
    """

    path: Path
    _read: ScoreArtifact

    def __new__(cls, path: Path) -> CertifiedThreshold:
        """The number that stands in the file now."""
        path = Path(path)
        with below("path"):
            artifact = read_artifact(path, ScoreArtifact)
        if artifact.fit.threshold is None:
            raise ConfigError(
                f"{path} holds no threshold: {artifact.fit.why}. Fit with more tasks or a lower precision, or write a "
                "number",
                path="path",
            )
        threshold = super().__new__(cls, artifact.fit.threshold)
        threshold.path, threshold._read = path, artifact
        return threshold

    def __reduce__(self) -> tuple[type[CertifiedThreshold], tuple[Path]]:
        """Another process reads the file again."""
        return CertifiedThreshold, (self.path,)

    def check_pipeline(self, pipeline: Parts) -> None:
        """Refuse a rule that takes steps, and one that takes others than the best items where these alone were counted.

        Raises:
            ConfigError: it does.
        """
        if pipeline.rule_traits.stepwise:
            raise ConfigError(
                f"{self.path} promises something for whole answers, and the rule {name_of(pipeline.rule)} takes steps "
                "of them; write a number"
            )
        if self._read.best and not pipeline.rule_traits.takes_best:
            raise ConfigError(
                f"{self.path} counts each task's best item alone (--best), and the rule {name_of(pipeline.rule)} takes "
                f"others, of which it promises nothing; fit it again without: `{self._read.made_by}`"
            )

    def check_verifier(self, verifier: Verifier) -> None:
        """Refuse any other verifier than the one whose scores it was fitted on.

        Args:
            verifier: of the pipeline, open.

        Raises:
            ConfigError: it is another one.
        """
        fitted_part = PartIdentity(self._read.name, self._read.verifier)
        check_made_with("verifier", verifier, fitted_part, self._read, self.path)
