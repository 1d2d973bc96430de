"""Which model this is: a hash of its weights and of what changes its answers."""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import Any

from draftverify import identity_of
from draftverify_llm.catalogue import CATALOGUE
from draftverify_llm.llama_cpp import LlamaCpp
from draftverify_llm.local import LocalModel
from draftverify_llm.pretrained import digest_of
from draftverify_llm.text import TextModel
from draftverify_llm.weights import gguf_file, torch_directory

_NO_MATTER = {
    "api_key", "cache", "concurrency", "family", "price_in", "price_in_cached", "price_out", "requests_per_minute",
    "retries", "timeout_seconds", "tokens_per_minute",
}  # fmt: skip


def model_identity(model: TextModel) -> str:
    """32 hexadecimal digits, the same for models that answer alike as far as can be told.

    Of weights that run here their bytes (of the catalogue's their known SHA-256), the type and the packing; of a server
    its address and the model's name there, which say nothing of what the server runs; of another model what its
    constructor was given and it stored.

    Raises:
        ConfigError: an argument cannot be told from others of its kind.
        ResourceError: the weights cannot be had.
    """
    parts: list[Any] = [type(model).__name__]
    if isinstance(model, LocalModel):
        parts += [str(model.dtype), str(model.packed), _weights(model)]
    elif isinstance(model, LlamaCpp):
        entry = CATALOGUE.get(str(model.weights))
        parts.append(entry.sha256 if entry else digest_of([gguf_file(str(model.weights))]))
    else:
        arguments = set(inspect.signature(type(model)).parameters) - _NO_MATTER
        parts.append({name: identity_of(getattr(model, name)) for name in arguments if hasattr(model, name)})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _weights(model: LocalModel) -> str:
    if model.live:
        digest = hashlib.sha256(f"{model.vocabulary}\0{model.tokenizer.chat_template}".encode())
        for name, tensor in model.model.state_dict().items():
            digest.update(name.encode() + tensor.detach().float().cpu().numpy().tobytes())
        return digest.hexdigest()
    entry = CATALOGUE.get(str(model.weights))
    if entry is not None:
        return entry.sha256
    directory = torch_directory(str(model.weights))
    names = (
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
        "special_tokens_map.json", "tokenizer.model", "vocab.json", "merges.txt",
    )  # fmt: skip
    return digest_of([*sorted(directory.glob("*.safetensors")), *[directory / name for name in names]])
