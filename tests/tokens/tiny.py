"""Models of a few thousand weights and a tokenizer of bytes: real transformers parts, quick enough for every test."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pytest

from draftverify import Context, Task
from draftverify.kit import make_context
from draftverify_llm import LocalModel
from draftverify_tokens import Target


@lru_cache
def byte_tokenizer() -> Any:
    """One token per byte (ids 0–255) and an end token, 256; most characters outside ASCII take several tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    vocabulary = {character: byte for byte, character in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def tiny_llama(
    vocabulary: int = 257, *, seed: int = 0, layers: int = 2, positions: int = 512, spread: float = 0.3
) -> Any:
    """A random Llama; a larger `spread` of its weights makes its distributions sharper."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=spread,
        bos_token_id=None,
        eos_token_id=vocabulary - 1,
        pad_token_id=None,
        use_cache=True,
    )
    return LlamaForCausalLM(config).eval()


FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma3", "gpt_neox")


def tiny_of(
    family: str, vocabulary: int = 24, *, seed: int = 0, layers: int = 2, dtype: str = "float32"
) -> Any:
    """A random model of a family; mistral looks back 4 tokens, gemma3 has a layer that does and one that does not."""
    import torch
    import transformers

    name = {
        "llama": "Llama",
        "qwen2": "Qwen2",
        "qwen3": "Qwen3",
        "mistral": "Mistral",
        "gpt_neox": "GPTNeoX",
    }.get(family)
    common: dict[str, Any] = {
        "vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": layers,
        "num_attention_heads": 4, "max_position_embeddings": 512, "initializer_range": 0.4, "use_cache": True,
        "bos_token_id": None, "eos_token_id": vocabulary - 1, "pad_token_id": None,
    }  # fmt: skip
    grouped = {"num_key_value_heads": 2}
    extra: dict[str, dict[str, Any]] = {
        "llama": grouped,
        "qwen2": {**grouped, "use_sliding_window": False},
        "qwen3": {**grouped, "head_dim": 8, "use_sliding_window": False},
        "mistral": {**grouped, "head_dim": 8, "sliding_window": 4},
        "gemma3": {
            **grouped,
            "head_dim": 8,
            "sliding_window": 4,
            "layer_types": ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(layers)],
        },
        "gpt_neox": {"rotary_pct": 0.5},
    }
    torch.manual_seed(seed)
    config_class = transformers.Gemma3TextConfig if name is None else getattr(transformers, name + "Config")
    model_class = (
        transformers.Gemma3ForCausalLM if name is None else getattr(transformers, name + "ForCausalLM")
    )
    return model_class(config_class(**common, **extra[family])).eval().to(getattr(torch, dtype))


def tiny_model(vocabulary: int = 257, **how: Any) -> LocalModel:
    """`tiny_llama` with the tokenizer of bytes; with fewer than 257 tokens only ids make sense."""
    return LocalModel.from_module(tiny_llama(vocabulary, **how), byte_tokenizer())


def shortened(model: LocalModel, layers: int) -> LocalModel:
    """A model's first layers with its last norm and head: a draft model that agrees with it now and then."""
    import torch

    module = copy.deepcopy(model.model)
    config = module.config.get_text_config()
    for part in module.modules():
        if isinstance(part, torch.nn.ModuleList) and len(part) == config.num_hidden_layers:
            del part[layers:]
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    return LocalModel.from_module(module, model.tokenizer)


def context_of(model: LocalModel, prompt: list[int], **more: Any) -> Context:
    """A context whose task the model's Target has prepared."""
    bare = make_context({"prompt_ids": prompt})
    return make_context(Target(model).prepare(bare.task), **more)


@contextmanager
def rows_of(function: str, weight: Any) -> Iterator[list[int]]:
    """How many rows, or ids, a function of torch.nn.functional is given together with a weight, call by call.

    A hook on the layer would tell as much, and change the model: it would be tried anew, and read by its own code.
    """
    import torch

    inner, rows = getattr(torch.nn.functional, function), list[int]()

    def listening(x: Any, own: Any, *more: Any) -> Any:
        if own is weight:
            rows.append(x.numel() // (x.shape[-1] if x.is_floating_point() else 1))
        return inner(x, own, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, function, listening)
        yield rows


class Session:
    """A growing answer; between rounds some path of the last block is accepted, and a token that was not drafted."""

    def __init__(self, prompt: list[int]) -> None:
        self.task = Task(id="a", input={"prompt_ids": prompt})
        self.accepted: list[int] = []
        self.scratch: dict[Any, Any] = {}

    def context(self) -> Any:
        return make_context(self.task, accepted=self.accepted, scratch=self.scratch)


def rows(model: LocalModel, tokens: list[int], keep: int) -> Any:
    """The oracle: logits after each of the last `keep` tokens, without any cache."""
    import torch

    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -keep:]
