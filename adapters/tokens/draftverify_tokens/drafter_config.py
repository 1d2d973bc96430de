"""What the directory of a learned drafter says of itself: the config, in the form of the library `speculators`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftverify import ConfigError, ResourceError

CONFIG = "config.json"
KIND = "speculators_model_type"
STATES = "target_layer_ids"
"""The key of transformers' configs that names the states which a model reads of another one (`tokens.dflash`)."""
READERS = {"eagle3": "tokens.eagle", "medusa": "tokens.medusa"}
"""The drafter that reads each kind of directory."""


def kind_of(directory: Path) -> str | None:
    """Which kind of drafter a directory holds: one of `READERS`, or `STATES`; None where it holds none, but a model.

    Raises:
        ConfigError: its config cannot be read.
    """
    path = directory / CONFIG
    data = path.read_bytes() if path.is_file() else b""
    if KIND.encode() in data:
        return str(_parsed(path, data).get(KIND))
    return STATES if STATES.encode() in data else None


def read_config(directory: Path, kind: str) -> dict[str, Any]:
    """The config of a directory that holds a drafter of a kind.

    Raises:
        ResourceError: there is none.
        ConfigError: it cannot be read, or is of another kind.
    """
    path = directory / CONFIG
    try:
        config = _parsed(path, path.read_bytes())
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be read ({error.strerror}); `draftverify fit part drafter RUN --set "
            f"kind={READERS[kind].removeprefix('tokens.')} --out {directory}` makes such a directory, as does the "
            "library speculators"
        ) from error
    if (other := config.get(KIND)) != kind:
        reader = f", which {READERS[other]} reads" if other in READERS else ", which no drafter here reads"
        raise ConfigError(
            f"{path} has {KIND} {other!r}{reader}; {READERS[kind]} reads {kind!r}",
            path="weights",
        )
    return config


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(data)
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error})", path="weights") from error
    return config
