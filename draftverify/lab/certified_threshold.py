"""The score from which a rule accepts, as `draftverify certify` proved it: it knows whose answers it is of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from draftverify.bench.artifact import read_artifact
from draftverify.engine.parts import Parts
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below
from draftverify.identity import arguments_of
from draftverify.lab.certificate import Certificate, parts_of


class CertifiedThreshold(float):
    """The lowest score from which a pipeline's answers keep what a certificate promises.

    It is a number, so a rule compares with it as with any other: `First(threshold=CertifiedThreshold("first.json"))`,
    in a config `threshold: {use: certified, path: ./first.json}`. `draftverify certify RUN` writes the file. A
    pipeline with another generator, verifier, rule, policy, block or settings is refused as it is opened: of its
    answers nothing was promised.

    Args:
        path: the file that `draftverify certify` wrote.

    Raises:
        ConfigError: there is no such file, it is another kind of file, or nothing could be certified.
    """

    path: Path
    certificate: Certificate

    def __new__(cls, path: Path) -> CertifiedThreshold:
        """The number that stands in the file now."""
        path = Path(path)
        with below("path"):
            certificate = read_artifact(path, Certificate)
        if certificate.threshold != certificate.proved:
            raise ConfigError(
                f"{path} is damaged: it says {certificate.threshold}, and its figures prove {certificate.proved}",
                path="path",
            )
        if certificate.threshold is None:
            raise ConfigError(
                f"{path} holds no threshold: {certificate.why}. Certify with more tasks or promise less, or write a "
                "number",
                path="path",
            )
        threshold = super().__new__(cls, certificate.threshold)
        threshold.path, threshold.certificate = path, certificate
        return threshold

    def __reduce__(self) -> tuple[type[CertifiedThreshold], tuple[Path]]:
        """Another process reads the file again."""
        return CertifiedThreshold, (self.path,)

    def check_pipeline(self, pipeline: Parts) -> None:
        """Refuse any other pipeline than the one whose answers it is of.

        Args:
            pipeline: with its parts open.

        Raises:
            ConfigError: it is another one.
        """
        self.certificate.check_parts(parts_of(pipeline), self.path)


def certified_marks(pipeline: Pipeline, audits: str | Path) -> Iterator[str]:
    """A phrase for a pipeline whose rule's threshold was certified, to stand beside what labels say now.

    Args:
        pipeline: built.
        audits: not looked at.
    """
    for value in arguments_of(pipeline.rule).values():
        if isinstance(value, CertifiedThreshold):
            yield f"certified: {value.certificate.promise}"
