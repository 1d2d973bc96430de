"""An operating point on disk: versioned JSON that says what was chosen and what it was fitted on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from draftverify.calibration.operating_point import OperatingPoint
from draftverify.errors import ConfigError

__all__ = ["Artifact", "load", "save"]

KIND = "draftverify.operating_point"
VERSION = 1


class Artifact(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=KIND
):
    """What the file holds.

    Args:
        point: the operating point.
        fitted_on: what it was fitted on, by name and number ("tasks", "rounds", …).
        versions: of whatever the choice depends on: the package, the models, the machine.
    """

    version: int = VERSION
    point: OperatingPoint
    fitted_on: Mapping[str, int] = {}
    versions: Mapping[str, str] = {}


class _Header(msgspec.Struct, tag_field="kind", tag=KIND):
    version: int
    point: dict[str, Any]


def save(
    path: str | os.PathLike[str],
    point: OperatingPoint,
    *,
    fitted_on: Mapping[str, int],
    versions: Mapping[str, str],
) -> None:
    """Write an operating point; the file is complete or not there."""
    target = Path(path)
    text = msgspec.json.format(
        msgspec.json.encode(Artifact(point=point, fitted_on=fitted_on, versions=versions))
    )
    scratch = target.with_name(target.name + ".part")
    scratch.write_bytes(text + b"\n")
    scratch.replace(target)


def load(path: str | os.PathLike[str]) -> Artifact:
    """Read an operating point back.

    Raises:
        ConfigError: when the file is missing, is not one, or has a version that this release does not know.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"the operating point cannot be read: {error.strerror}", where=str(path)) from error
    try:
        header = msgspec.json.decode(text, type=_Header)
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"this is no operating point: {error}", where=str(path)) from error
    if header.version != VERSION:
        raise ConfigError(
            f"operating point version {header.version} is unknown here (known: {VERSION}); fit it again",
            where=str(path),
        )
    if header.point.get("high", 0.0) is None:  # JSON knows no infinity
        raw["point"] = {**header.point, "high": math.inf}
    try:
        return msgspec.convert(raw, Artifact)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the operating point is damaged: {error}", where=str(path)) from error
