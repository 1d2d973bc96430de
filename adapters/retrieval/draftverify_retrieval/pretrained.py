"""Encoders as transformers saves them: a model and its Rust tokenizer, and padded batches of what that encodes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftverify import ResourceError
from draftverify_llm import load_pretrained

__all__ = ["Pretrained", "load"]


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
        ids = torch.full((len(rows), width), self.model.config.pad_token_id or 0, dtype=torch.long)
        types = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)] = torch.tensor(row.ids)
            types[i, : len(row.ids)] = torch.tensor(row.type_ids)
            mask[i, : len(row.ids)] = 1
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self.has_types:
            inputs["token_type_ids"] = types.to(self.device)
        return self.model(**inputs, **arguments), mask.bool().to(self.device)


def load(weights: str, device: str, auto: str = "AutoModel") -> Pretrained:
    """Load a model and its tokenizer as `draftverify_llm.load_pretrained` does.

    Raises:
        ResourceError: as that, or its tokenizer has no Rust form.
    """
    # A pooler is of no use here, and many an encoder is saved without one.
    optional = "pooler" if auto == "AutoModel" else ""
    model, tokenizer, directory = load_pretrained(weights, device, auto, optional=optional, extra="retrieval")
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
