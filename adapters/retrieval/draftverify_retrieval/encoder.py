"""Sentences as vectors: any sentence-transformers model, on transformers alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from draftverify import ResourceError
from draftverify_llm import (
    Pretrained,
    Shared,
    by_length,
    load_pretrained,
    readable,
    torch_directory,
    weights_identity,
)

Pooling = Literal["mean", "cls"]


@dataclass(eq=False)
class Encoder(Shared[tuple[Pretrained, Pooling]]):
    """An encoder of sentences, loaded on first use; `encode` gives unit vectors, whose products are cosines.

    What the model's directory says is heeded: mean or [CLS] pooling, and the longest text. Vectors are normalised
    whether it says so or not. A directory without `modules.json` is a plain transformers encoder: mean pooling.

    Args:
        weights: a catalogue name, a sentence-transformers or transformers directory, or a hub id. In YAML a path that
            begins with ./ or ../ is relative to the file.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".

    References:
        Reimers and Gurevych, Sentence-BERT, EMNLP 2019, arXiv:1908.10084.
    """

    weights: str | Path = "all-minilm-l6-v2"
    device: str = "auto"

    def _make(self) -> tuple[Pretrained, Pooling]:
        """The model, downloaded first where needed, and its pooling.

        Raises:
            ResourceError: the weights, a package or the device is missing, or the model pools otherwise.
        """
        pooling, longest = _read_modules(torch_directory(str(self.weights)))
        model = load_pretrained(str(self.weights), self.device, extra="retrieval")
        model.encoder.enable_truncation(min(model.longest, longest or model.longest))
        return model, pooling

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._get()[0].model.config.hidden_size)

    @cached_property
    def identity(self) -> str:
        """A hash of the weights, the tokenizer and the pooling: vectors of one identity may be compared."""
        directory = torch_directory(str(self.weights))
        pooling, longest = _read_modules(directory)
        return weights_identity(directory, {"pooling": pooling, "longest": longest})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The texts as vectors.

        Texts of similar length share a pass. A text's vector does not depend on the others but for rounding (1e-6).

        Args:
            texts: any; one that is longer than the model reads is cut off there.

        Returns:
            float32 [n, dimension], each row of length 1.
        """
        import torch

        model, pooling = self._get()
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        rows = model.encoder.encode_batch_fast([readable(text) for text in texts])
        with torch.inference_mode():
            for batch in by_length([len(row.ids) for row in rows], model.at_once):
                output, mask = model.forward([rows[i] for i in batch])
                hidden = output.last_hidden_state
                if pooling == "cls":
                    pooled = hidden[:, 0]
                else:
                    pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
                vectors[batch] = torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()
        return vectors


def _read_modules(directory: Path) -> tuple[Pooling, int | None]:
    """The pooling and the longest text that sentence-transformers' files in a model's directory say.

    Raises:
        ResourceError: the model has a module or a pooling that is not followed here.
    """
    modules = _json(directory / "modules.json", [])
    kinds = {str(module["type"]).rpartition(".")[2]: directory / module["path"] for module in modules}
    if unread := set(kinds) - {"Transformer", "Pooling", "Normalize"}:
        raise ResourceError(
            f"{directory} has the module {sorted(unread)[0]}, and only encoders of a transformer, pooling and "
            "normalising are read"
        )
    longest = _json(kinds.get("Transformer", directory) / "sentence_bert_config.json", {}).get(
        "max_seq_length"
    )
    if "Pooling" not in kinds:
        return "mean", longest
    pooling = _json(kinds["Pooling"] / "config.json", {})
    chosen = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
    if chosen == ["pooling_mode_mean_tokens"]:
        return "mean", longest
    if chosen == ["pooling_mode_cls_token"]:
        return "cls", longest
    raise ResourceError(
        f"{kinds['Pooling'] / 'config.json'} asks for {', '.join(chosen) or 'no pooling'}, and only the mean of the "
        "tokens or the [CLS] token alone is taken"
    )


def _json(path: Path, otherwise: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else otherwise
