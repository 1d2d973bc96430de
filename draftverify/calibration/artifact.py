"""What was measured, on disk: versioned JSON that says what was chosen and what it was fitted on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from draftverify.calibration.operating_point import OperatingPoint
from draftverify.calibration.release import ReleasePool
from draftverify.calibration.scores import ScoreFit
from draftverify.errors import ConfigError

__all__ = [
    "Artifact",
    "ReleaseArtifact",
    "ScoreArtifact",
    "load",
    "load_release",
    "load_scores",
    "read_artifact",
    "save",
    "save_release",
    "save_scores",
    "write_artifact",
]

VERSION = 1

T = TypeVar("T", bound=msgspec.Struct)


class Artifact(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="draftverify.operating_point",
):
    """The file of an operating point.

    Args:
        point: the operating point.
        fitted_on: what it was fitted on, by name and number ("tasks", "rounds", …).
        versions: of whatever the choice depends on: the package, the models, the machine.
    """

    version: int = VERSION
    point: OperatingPoint
    fitted_on: Mapping[str, int] = {}
    versions: Mapping[str, str] = {}


class ScoreArtifact(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="draftverify.scores",
):
    """The file of what a verifier's scores mean.

    Args:
        fit: the meaning.
        verifier: the identity of the verifier whose scores they are; those of another mean something else.
        name: what to call that verifier in messages.
        metric: by which an item was right.
        best: whether each task's best item alone was counted, rather than every item.
        task_ids: SHA-256 of the ids of the tasks that it was fitted on, in hexadecimal and in order.
        versions: of the package and whatever else the scores depend on.
    """

    version: int = VERSION
    fit: ScoreFit
    verifier: str
    name: str
    metric: str
    best: bool
    task_ids: str
    versions: Mapping[str, str] = {}

    def check_verifier(self, identity: str, name: str, path: str | os.PathLike[str]) -> None:
        """Refuse another verifier than the one that it was fitted for.

        Args:
            identity, name: of the verifier at hand.
            path: where this was read.

        Raises:
            ConfigError: its identity is another.
        """
        if self.verifier != identity:
            raise ConfigError(
                f"{path} was fitted for {self.name} ({self.verifier}), and the verifier is {name} ({identity}): its "
                "weights, arguments or code are others. Fit it again"
            )


class ReleaseArtifact(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="draftverify.release",
):
    """The file of a pool of failed tasks, by which answers are released.

    Args:
        pool: the failed tasks' scores.
        verifier: the identity of the verifier whose scores they are; those of another mean something else.
        name: what to call that verifier in messages.
        metric: by which the tries were wrong.
        tasks: how many tasks were tried to find the failed ones.
        task_ids: SHA-256 of the ids of the tasks that were tried, in hexadecimal and in order.
        versions: of the package and whatever else the scores depend on.
    """

    version: int = VERSION
    pool: ReleasePool
    verifier: str
    name: str
    metric: str
    tasks: int
    task_ids: str
    versions: Mapping[str, str] = {}


def save(
    path: str | os.PathLike[str],
    point: OperatingPoint,
    *,
    fitted_on: Mapping[str, int],
    versions: Mapping[str, str],
) -> None:
    """Write an operating point; the file is complete or not there."""
    write_artifact(Path(path), Artifact(point=point, fitted_on=fitted_on, versions=versions))


def load(path: str | os.PathLike[str]) -> Artifact:
    """Read an operating point back.

    Raises:
        ConfigError: when the file is missing, is not one, or has a version that this release does not know.
    """
    raw = _read(path, Artifact, "operating point")
    point = raw.get("point")
    if isinstance(point, dict) and point.get("high", 0.0) is None:  # JSON knows no infinity
        point["high"] = math.inf
    return _converted(raw, path, Artifact, "operating point")


def save_scores(path: str | os.PathLike[str], artifact: ScoreArtifact) -> None:
    """Write what scores mean; the file is complete or not there."""
    write_artifact(Path(path), artifact)


def load_scores(path: str | os.PathLike[str]) -> ScoreArtifact:
    """Read what scores mean.

    Raises:
        ConfigError: when the file is missing, is not one, or has a version that this release does not know.
    """
    if not Path(path).exists():
        raise ConfigError(f"there is no {path}: `draftverify fit CONFIG` writes it, from labelled tasks")
    return read_artifact(path, ScoreArtifact, "score fit")


def save_release(path: str | os.PathLike[str], artifact: ReleaseArtifact) -> None:
    """Write a pool of failed tasks; the file is complete or not there."""
    write_artifact(Path(path), artifact)


def load_release(path: str | os.PathLike[str]) -> ReleaseArtifact:
    """Read a pool of failed tasks.

    Raises:
        ConfigError: when the file is missing, is not one, or has a version that this release does not know.
    """
    return read_artifact(path, ReleaseArtifact, "release pool")


def write_artifact(target: Path, artifact: msgspec.Struct) -> None:
    """Write a tagged struct as JSON; the file is complete or not there.

    Raises:
        ConfigError: it cannot be written there.
    """
    scratch = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(msgspec.json.format(msgspec.json.encode(artifact)) + b"\n")
        scratch.replace(target)
    except OSError as error:
        raise ConfigError(f"this cannot be written: {error.strerror}", where=str(target)) from error


def read_artifact(path: str | os.PathLike[str], kind: type[T], what: str) -> T:
    """Read back what `write_artifact` wrote.

    Args:
        path: the file.
        kind: a tagged struct with a `version`.
        what: what messages call it.

    Raises:
        ConfigError: when the file is missing, is not one, or has another version.
    """
    return _converted(_read(path, kind, what), path, kind, what)


def _read(path: str | os.PathLike[str], kind: type[msgspec.Struct], what: str) -> dict[str, Any]:
    try:
        raw: Any = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"the {what} cannot be read: {error.strerror}", where=str(path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"this is no {what}: {error}", where=str(path)) from error
    wanted = kind.__struct_config__.tag
    found = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or found != wanted or type(raw.get("version")) is not int:
        raise ConfigError(f"this is no {what}: its kind is {found!r}, not {wanted!r}", where=str(path))
    if raw["version"] != VERSION:
        raise ConfigError(
            f"{what} version {raw['version']} is unknown here (known: {VERSION}); make it again",
            where=str(path),
        )
    return raw


def _converted(raw: dict[str, Any], path: str | os.PathLike[str], kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the {what} is damaged: {error}", where=str(path)) from error
