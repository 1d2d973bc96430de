"""What training puts between the first layers of a model and its head: one linear map, in a safetensors file.

The head was trained to read the last layer. `x + W x + b` turns what an early layer says into what the last one would
(the "tuned lens" of arXiv:2303.08112, here behind the final norm), so that the same head can read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from draftverify import ConfigError

__all__ = ["adapted", "save_adapter"]

LAYERS = "draftverify.exit_adapter.layers"
"""The one word of metadata, by which an adapter is known: several would be written in any order."""


class _Adapted(torch.nn.Module):
    """A head behind the map."""

    def __init__(self, head: Any, weight: Any, bias: Any) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x: Any) -> Any:
        return self.head(x + torch.nn.functional.linear(x, self.weight, self.bias))


def save_adapter(path: Path, weight: Any, bias: Any, *, layers: int) -> None:
    """Write a map, in place of the one before, whole or not at all.

    Args:
        path: of the file; its directory is made.
        weight: [width, width].
        bias: [width].
        layers: behind how many layers it stands.
    """
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    tensors = {"weight": weight.float().contiguous(), "bias": bias.float().contiguous()}
    save_file(tensors, new, metadata={LAYERS: str(layers)})
    new.replace(path)


def adapted(module: Any, path: Path, *, layers: int) -> Any:
    """The module of a model's first layers with a map before its head.

    Args:
        module: of `first_layers`; its table of parts is changed, its parts are not.
        path: the file.
        layers: how many the module has.

    Raises:
        ConfigError: the file is none, or is of another number of layers or another width; or the head is not where it
            is looked for.
    """
    weight, bias = _read(path, layers)
    head = module.get_output_embeddings()
    name = next((name for name, part in module._modules.items() if part is head and head is not None), None)
    if name is None:
        raise ConfigError(f"the head of {type(module).__name__} is not one of its own parts", path="adapter")
    width = module.config.get_text_config().hidden_size
    if weight.shape != (width, width) or bias.shape != (width,):
        raise ConfigError(
            f"{path} is for states of {weight.shape[-1]} numbers, and {type(module).__name__} has {width}; it was "
            "trained for another model",
            path="adapter",
        )
    like = {"device": module.device, "dtype": module.dtype}
    module._modules[name] = _Adapted(head, weight.to(**like), bias.to(**like))
    return module


def _read(path: Path, layers: int) -> tuple[Any, Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            depth = (file.metadata() or {}).get(LAYERS)
            if depth is None:
                raise ConfigError(
                    f"{path} is no adapter of an early exit; `draftverify fit part drafter RUN` writes one",
                    path="adapter",
                )
            weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); `draftverify fit part drafter RUN` writes one", path="adapter"
        ) from error
    if depth != str(layers):
        raise ConfigError(f"{path} was trained behind {depth} layers, and here are {layers}", path="adapter")
    return weight, bias
