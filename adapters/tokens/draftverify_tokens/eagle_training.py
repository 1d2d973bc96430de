"""How EAGLE-3's layer learns: to go on from its own output as it will when it drafts.

The layer reads all places of a batch with the target's states, then goes on from each place that is learned several
tokens, each time from what it made itself. In a later step a place sees what the first one read up to it, and its own
earlier steps: what drafting will hold ("training-time test", Li et al., "EAGLE-3", arXiv:2503.01840).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

from draftverify import ConfigError
from draftverify_tokens.drafter_learning import Kind, ReadText, TextBatch
from draftverify_tokens.eagle_network import EagleNetwork


def config_of(module: Any, layers: tuple[int, ...] | None, steps: int) -> dict[str, Any]:
    """The layer's part of a config, as speculators writes it: a Llama layer of the target's own measures.

    Raises:
        ConfigError: the module has no such layer.
    """
    from transformers import LlamaConfig

    text = module.config.get_text_config()
    count, width = text.num_hidden_layers, text.hidden_size
    layers = layers or (count // 4, count // 2, count * 4 // 5)
    for layer in layers:
        if not 0 <= layer <= count:
            raise ConfigError(
                f"layers has {layer}; {type(module).__name__} has the states 0 (the embeddings) to {count}",
                path="layers",
            )
    same = (
        "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size", "rms_norm_eps",
        "max_position_embeddings", "vocab_size",
    )  # fmt: skip
    given = {name: value for name in same if (value := getattr(text, name, None)) is not None}
    theta = (getattr(text, "rope_parameters", None) or {}).get("rope_theta", 10000.0)
    layer_config = LlamaConfig(
        **{"intermediate_size": 3 * width, **given},
        num_hidden_layers=1,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    return {
        "architectures": ["Eagle3DraftModel"],
        "transformer_layer_config": layer_config.to_diff_dict(),
        "eagle_aux_hidden_state_layer_ids": list(layers),
        "norm_before_residual": True,
        "fc_norm": True,
        "tie_word_embeddings": False,
    }


def steps_of(network: EagleNetwork, embeddings: Any, batch: TextBatch, steps: int) -> Iterator[Any]:
    """The layer's logits [bases, draft vocabulary] at each step, the answer's own tokens drafted so far."""
    seen = (batch.texts[:, None] == batch.texts) & (batch.positions[:, None] >= batch.positions)
    x, q, k, v = network.enter(embeddings(batch.next).detach(), network.join(batch.states), batch.positions)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    attended = functional.scaled_dot_product_attention(
        *(part.transpose(0, 1) for part in (q, k, v)), attn_mask=seen
    )
    states = network.leave(x, attended.transpose(0, 1).flatten(1))[batch.bases]
    yield network.logits(states)
    seen, positions = seen[batch.bases], batch.positions[batch.bases]
    own_k, own_v = [], []
    for step in range(1, steps):
        tokens = batch.tokens[:, step].clamp(min=0)
        x, q, own, value = network.enter(embeddings(tokens).detach(), states, positions + step)
        own_k.append(own.repeat_interleave(group, 1))
        own_v.append(value.repeat_interleave(group, 1))
        scores = torch.einsum("nhd,mhd->hnm", q, k).masked_fill(~seen, float("-inf"))
        itself = torch.einsum("nhd,nshd->hns", q, torch.stack(own_k, 1))
        shares = (torch.cat([scores, itself], -1) * q.shape[-1] ** -0.5).float().softmax(-1).to(v.dtype)
        attended = torch.einsum("hnm,mhd->nhd", shares[..., : len(k)], v)
        attended = attended + torch.einsum("hns,nshd->nhd", shares[..., len(k) :], torch.stack(own_v, 1))
        states = network.leave(x, attended.flatten(1))
        yield network.logits(states)


def initialise(network: EagleNetwork, texts: Sequence[ReadText], seed: int) -> None:
    """Random weights of a seed, and norms that bring what is read to size 1."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, part in network.named_modules():
            if isinstance(part, torch.nn.Linear):
                # What is added to the residual is small at first.
                leaves = name.endswith(("o_proj", "down_proj"))
                torch.nn.init.normal_(part.weight, std=0.006 if leaves else 0.02)
    normed = (functional.rms_norm(text.states.float(), text.states.shape[-1:]) for text in texts)
    with torch.no_grad():
        for norm, size in zip(network.fc_norm, _sizes(normed), strict=True):
            norm.weight.copy_(1 / size.clamp(min=1e-3))
        network.norm.weight.copy_(_sizes(text.last.float() for text in texts))


def _sizes(parts: Iterable[Any]) -> Any:
    """The root of the mean square of parts [n, …], over all their n."""
    total, count = 0.0, 0
    for part in parts:
        total, count = total + part.square().sum(0), count + len(part)
    return (total / count).sqrt()


EAGLE = Kind("eagle3", config_of, EagleNetwork, initialise, steps_of, alone=0.6)
