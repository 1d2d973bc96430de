"""Where a training stands, in one safetensors file: written whole or not at all, and gone on with by its own training.

A training names itself by a mark, a hash of its data and settings; the checkpoint of another is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftverify.errors import ConfigError


def held_out(texts: Sequence[str], share: float) -> set[int]:
    """Which of the texts a report is made of: by each one's own hash, so that it stays where it is when others join.

    Of few texts it is one at least, unless the share is 0.
    """
    places = [
        int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4], "big") for text in texts
    ]
    held = {index for index, place in enumerate(places) if place < share * 2**32}
    return held or ({places.index(min(places))} if share and len(texts) > 1 else set())


def save_checkpoint(path: Path, mark: str, tensors: Mapping[str, Any], **notes: str) -> None:
    """Write a checkpoint in place of the one before.

    Args:
        path: of the file; its directory is made.
        mark: of the training.
        tensors: torch tensors by name.
        notes: what else is to be known (how many epochs are done).
    """
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside it and moved over it, so that a kill at any moment leaves a whole one.
    new = path.with_suffix(".new")
    save_file(dict(tensors), new, metadata={**notes, "training": mark})
    new.replace(path)


def load_checkpoint(path: Path, mark: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The tensors and the notes beside them; None where there is no checkpoint.

    Raises:
        ConfigError: the file is none, or of another training.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"this is no checkpoint ({error}); remove it, or choose another --out", where=str(path)
        ) from error
    if notes.get("training") != mark:
        raise ConfigError(
            "here lies a training with other data or settings; go on with those, or choose another --out",
            where=str(path),
        )
    return tensors, notes


def optimiser_tensors(optimiser: Any) -> dict[str, Any]:
    """What a torch optimiser remembers of its parameters, named "optimiser.PLACE.WORD"."""
    return {
        f"optimiser.{index}.{name}": value
        for index, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimiser(optimiser: Any, tensors: Mapping[str, Any]) -> None:
    """Give it back; tensors of other names are passed over."""
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
