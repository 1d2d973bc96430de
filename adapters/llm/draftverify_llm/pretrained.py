"""Models as transformers saves them, by name: loaded whole or refused, what they are as a hash, texts in batches."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftverify.errors import ConfigError, ResourceError
from draftverify_llm.weights import load_transformers


@dataclass(frozen=True)
class Pretrained:
    """A loaded model, with padded batches of what its tokenizer encodes.

    Args:
        model: the torch module, in eval mode and float32, on its device.
        tokenizer: of transformers.
        longest: how many tokens a row may have, special ones counted.
        has_types: whether the model is told which of two texts a token is of, as the tokenizer's files say.
    """

    model: Any
    tokenizer: Any
    longest: int
    has_types: bool

    @property
    def encoder(self) -> Any:
        """The Rust tokenizer. Its truncation and padding are set when it is loaded and by nobody later: it is safe from
        threads as long as nothing is set."""
        return self.tokenizer.backend_tokenizer

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

    @property
    def pad(self) -> int | None:
        """The id that the model takes for padding; a decoder that is told none reads rows one by one."""
        id: int | None = self.model.config.get_text_config().pad_token_id
        return id

    def forward(self, rows: Sequence[Any], **arguments: Any) -> Any:
        """The model's output for encoded rows, padded on the right to the longest of them.

        Args:
            rows: tokenizers' Encodings, of which ids and type_ids are read.
            arguments: for the model.

        Returns:
            The transformers output, whose tensors are [rows, longest, …], and the mask, bool [rows, longest].
        """
        import torch

        width = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), width), self.pad or 0, dtype=torch.long)
        types, mask = torch.zeros((2, len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)] = torch.tensor(row.ids)
            types[i, : len(row.ids)] = torch.tensor(row.type_ids)
            mask[i, : len(row.ids)] = 1
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self.has_types:
            inputs["token_type_ids"] = types.to(self.device)
        return self.model(**inputs, **arguments), mask.bool().to(self.device)


def load_pretrained(weights: str, device: str, auto: str = "AutoModel", *, extra: str = "llm") -> Pretrained:
    """Load a model and its tokenizer, downloading them first where needed.

    Args:
        weights: as `torch_directory` takes it: a catalogue name, a directory, or a hub id.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".
        auto: the transformers class that loads it.
        extra: which of the distribution's extras brings the packages.

    Raises:
        ResourceError: the weights, a package or the device is missing, the model is of another kind, a part of it
            is not in the weights, or its tokenizer has no Rust form.
    """
    model, tokenizer = load_transformers(weights, device, auto, "float32", extra=extra)
    if not tokenizer.is_fast:
        raise ResourceError(f"the tokenizer of {weights} has no tokenizer.json, and only those are read")
    encoder = tokenizer.backend_tokenizer
    encoder.no_truncation()
    encoder.no_padding()
    # A text that holds "[SEP]" says these five characters; it does not end the passage.
    encoder.encode_special_tokens = True
    types = "token_type_ids" in tokenizer.model_input_names
    types &= "token_type_ids" in inspect.signature(model.forward).parameters
    return Pretrained(model, tokenizer, _longest(model.config, tokenizer), types)


def _longest(config: Any, tokenizer: Any) -> int:
    positions = int(getattr(config.get_text_config(), "max_position_embeddings", 0) or 512)
    if config.model_type in {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer"}:
        positions -= config.pad_token_id + 1  # their first position stands behind the padding's
    return min(positions, int(tokenizer.model_max_length))


def label_place(weights: object, config: Any, label: str | None) -> int | None:
    """The place of a label among a classifier's outputs; None where there is one output.

    Raises:
        ConfigError: it has no such label, or none was said where there are several.
    """
    labels = {str(name).lower(): place for place, name in config.id2label.items()}
    if config.num_labels == 1:
        if label is not None:
            raise ConfigError(f"{weights} has one output, so leave `label` out", path="label")
        return None
    if label is None or label.lower() not in labels:
        problem = f"no label {label!r}" if label is not None else f"{config.num_labels} outputs"
        raise ConfigError(
            f"{weights} has {problem}; say by `label` which of {', '.join(labels)} is meant", path="label"
        )
    return labels[label.lower()]


def label_scores(logits: Any, label: int | None) -> Any:
    """What a classifier says, float64 [rows]: of one output its logit, of more the log-odds in nats of a label.

    Args:
        logits: [rows, outputs].
        label: the place of the label; None of one output.
    """
    logits = logits.double()
    if label is None:
        return logits[:, 0]
    others = [place for place in range(logits.shape[1]) if place != label]
    return logits[:, label] - logits[:, others].logsumexp(1)


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
