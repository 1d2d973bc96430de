"""The config of EAGLE-3's layer, as the library `speculators` writes it, and as it is written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftverify import ConfigError, ResourceError

__all__ = ["CONFIG", "is_eagle", "read_config"]

CONFIG = "config.json"
KIND = "speculators_model_type"


def is_eagle(directory: Path) -> bool:
    """Whether a directory holds a drafter of speculators, and no model."""
    path = directory / CONFIG
    return path.is_file() and KIND in path.read_text(encoding="utf-8", errors="replace")


def read_config(directory: Path) -> dict[str, Any]:
    """A directory's config.

    Raises:
        ResourceError: there is none.
        ConfigError: it is of something else than an EAGLE-3 layer of Llama's or Qwen3's kind.
    """
    path = directory / CONFIG
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be read ({error}); `draftverify fit part drafter RUN` makes such a directory, as does the "
            "library speculators"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error})", path="weights") from error
    layer = config.get("transformer_layer_config") or {}
    expected = {
        KIND: (config.get(KIND), ("eagle3",)),
        "model_type of the layer": (layer.get("model_type"), ("llama", "qwen3")),
        "num_hidden_layers": (layer.get("num_hidden_layers"), (1,)),
        "hidden_act": (layer.get("hidden_act", "silu"), ("silu", "swish")),
        "sliding_window": (
            layer.get("sliding_window") if layer.get("use_sliding_window", True) else None,
            (None,),
        ),
    }
    for name, (value, known) in expected.items():
        if value not in known:
            raise ConfigError(
                f"{path} has {name} {value!r}; {' or '.join(map(repr, known))} can be read", path="weights"
            )
    if not config.get("eagle_aux_hidden_state_layer_ids"):
        raise ConfigError(
            f"{path} does not say which states of the target it reads; write eagle_aux_hidden_state_layer_ids there, "
            "such as the layers 2, n // 2 and n - 3 of n",
            path="weights",
        )
    return config
