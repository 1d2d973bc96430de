"""Encoders as transformers saves them: a model and its tokenizer by name, what they are as a hash, padded batches."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftverify import ResourceError
from draftverify_llm import quiet_transformers, torch_directory
from draftverify_retrieval.requirements import need

__all__ = ["Pretrained", "by_length", "identity", "load", "readable"]


@dataclass(frozen=True)
class Pretrained:
    """A loaded model.

    Args:
        model: the torch module, in eval mode and float32, on its device.
        tokenizer: the Rust tokenizer. Its truncation and padding are set here once and by nobody later: it is safe
            from threads as long as nothing is set.
        longest: how many tokens a row may have, special ones counted.
        directory: where the model was loaded from.
        has_types: whether the model is told which of two texts a token is of, as the tokenizer's files say.
    """

    model: Any
    tokenizer: Any
    longest: int
    directory: Path
    has_types: bool

    @property
    def device(self) -> Any:
        """The torch device."""
        return self.model.device

    @property
    def at_once(self) -> int:
        """How many tokens, padding counted, go through the model in one pass.

        On a CPU small passes stay in its caches: 20 paragraphs took half the time at 1,024 tokens of what they took at
        8,192.
        """
        return 1024 if self.device.type == "cpu" else 32768

    def forward(self, rows: Sequence[Any], **more: Any) -> Any:
        """The model's output for encoded rows, padded on the right to the longest of them.

        Args:
            rows: tokenizers' Encodings, of which ids and type_ids are read.
            more: for the model.

        Returns:
            The transformers output, whose tensors are [rows, longest, …], and the mask, bool [rows, longest].
        """
        import torch

        width = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), width), self.model.config.pad_token_id or 0, dtype=torch.long)
        types = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)] = torch.tensor(row.ids)
            types[i, : len(row.ids)] = torch.tensor(row.type_ids)
            mask[i, : len(row.ids)] = 1
        given = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self.has_types:
            given["token_type_ids"] = types.to(self.device)
        return self.model(**given, **more), mask.bool().to(self.device)


def load(weights: str, device: str, auto: str = "AutoModel") -> Pretrained:
    """Load a model and its tokenizer, downloading them first where needed.

    Args:
        weights: as `draftverify_llm.torch_directory` takes it: a catalogue name, a directory, or a hub id.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".
        auto: the transformers class that loads it.

    Raises:
        ResourceError: the weights, a package or the device is missing, the model is of another kind, a part of it
            is not in the weights, or its tokenizer has no Rust form.
    """
    need("torch", "transformers", doing=f"loading {weights}")
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
    # A pooler is of no use here, and many an encoder is saved without one.
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name or auto != "AutoModel")
    if missing:
        raise ResourceError(
            f"{weights} is no {auto}: its weights lack {', '.join(missing[:4])}{' …' if missing[4:] else ''}, which "
            f"would be random numbers; its config names {', '.join(model.config.architectures or ['no architecture'])}"
        )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ResourceError(f"the tokenizer of {weights} has no tokenizer.json, and only those are read")
    backend.no_truncation()
    backend.no_padding()
    # A text that holds "[SEP]" says these five characters; it does not end the passage.
    backend.encode_special_tokens = True
    types = "token_type_ids" in tokenizer.model_input_names
    types &= "token_type_ids" in inspect.signature(model.forward).parameters
    return Pretrained(model, backend, _longest(model.config, tokenizer), directory, types)


def _longest(config: Any, tokenizer: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", 0) or 512)
    if config.model_type in {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer"}:
        positions -= config.pad_token_id + 1  # their first position stands behind the padding's
    return min(positions, int(tokenizer.model_max_length))


def identity(directory: Path, settings: Mapping[str, Any]) -> str:
    """A hash of a model's weights, config and tokenizer, and of the settings that change what it answers."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    files = [
        *sorted(directory.glob("*.safetensors")),
        directory / "config.json",
        directory / "tokenizer.json",
    ]
    for file in files:
        if file.is_file():
            with open(file, "rb") as opened:
                # hashlib.file_digest is of Python 3.11
                while chunk := opened.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()[:32]


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
