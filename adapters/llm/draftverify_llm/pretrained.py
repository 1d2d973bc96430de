"""Models as transformers saves them, by name: loaded whole or refused, what they are as a hash, texts in batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from draftverify.errors import ResourceError
from draftverify_llm.requirements import need
from draftverify_llm.weights import quiet_transformers, torch_directory

__all__ = ["Loaded", "by_length", "digest_of", "load_pretrained", "readable", "weights_identity"]


class Loaded(NamedTuple):
    """What was loaded.

    Args:
        model: the torch module, in eval mode and float32, on its device.
        tokenizer: of transformers.
        directory: where both were loaded from.
    """

    model: Any
    tokenizer: Any
    directory: Path


def load_pretrained(
    weights: str, device: str, auto: str = "AutoModel", *, optional: str = "", extra: str = "llm"
) -> Loaded:
    """Load a model and its tokenizer, downloading them first where needed.

    Args:
        weights: as `torch_directory` takes it: a catalogue name, a directory, or a hub id.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".
        auto: the transformers class that loads it.
        optional: weights with this in their name may be missing, since they are not used.
        extra: which of the distribution's extras brings the packages.

    Raises:
        ResourceError: the weights, a package or the device is missing, the model is of another kind, or a part of it
            is not in the weights.
    """
    need("torch", "transformers", doing=f"loading {weights}", extra=extra)
    directory = torch_directory(weights)
    import torch
    import transformers

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(directory), **local)
            model, report = getattr(transformers, auto).from_pretrained(
                str(directory), dtype=torch.float32, use_safetensors=True, output_loading_info=True, **local
            )
        model = model.to(device).eval()
    # transformers and torch raise many kinds for files and devices that they cannot use
    except Exception as error:
        raise ResourceError(
            f"{weights} could not be loaded from {directory} as {auto} on {device} ({type(error).__name__}: {error})"
        ) from error
    missing = sorted(name for name in report["missing_keys"] if not (optional and optional in name))
    if missing:
        raise ResourceError(
            f"{weights} is no {auto}: its weights lack {', '.join(missing[:4])}{' …' if missing[4:] else ''}, which "
            f"would be random numbers; its config names {', '.join(model.config.architectures or ['no architecture'])}"
        )
    return Loaded(model, tokenizer, directory)


def weights_identity(directory: Path, settings: Mapping[str, Any]) -> str:
    """A hash of a model's weights, config and tokenizer, and of the settings that change what it answers."""
    files = [
        *sorted(directory.glob("*.safetensors")),
        directory / "config.json",
        directory / "tokenizer.json",
    ]
    return digest_of(files, json.dumps(settings, sort_keys=True), named=False)[:32]


def digest_of(files: Sequence[Path], before: str = "", *, named: bool = True) -> str:
    """The SHA-256 of a text and of the files that are there, with their names or without."""
    digest = hashlib.sha256(before.encode())
    for file in files:
        if file.is_file():
            digest.update(f"{file.name}\0".encode() if named else b"")
            with open(file, "rb") as opened:
                while chunk := opened.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()


def by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Indices in batches of similar length, the longest first, each of at most `tokens` tokens when padded (or one)."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def readable(text: str) -> str:
    """The text with "?" for halves of surrogate pairs, which no tokenizer takes; as long as it was."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
