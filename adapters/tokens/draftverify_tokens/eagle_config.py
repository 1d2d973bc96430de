"""The config of EAGLE-3's layer, as the library `speculators` writes it, and as it is written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftverify import ConfigError
from draftverify_tokens.drafter_config import CONFIG, read_config


def read_eagle_config(directory: Path) -> dict[str, Any]:
    """A directory's config.

    Raises:
        ResourceError: there is none.
        ConfigError: it is of something else than an EAGLE-3 layer of Llama's or Qwen3's kind.
    """
    config, path = read_config(directory, "eagle3"), directory / CONFIG
    layer = config.get("transformer_layer_config") or {}
    expected = {
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
