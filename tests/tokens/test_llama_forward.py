"""The short way through a model gives what the module's own code gives, whatever the rows, lengths and blocks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from draftverify import Proposal
from draftverify_llm.side_by_side import lay_side_by_side
from draftverify_tokens.forward import ModuleForward
from draftverify_tokens.llama import LlamaForward
from draftverify_tokens.reader import BlockReader
from tests.tokens.tiny import Session, tiny_of

CLOSE = {"atol": 1e-4, "rtol": 0}
TREE = Proposal.tree((5, 6, 7, 8, 9), (-1, 0, 0, -1, 3))
CHAIN = Proposal.chain((5, 6, 7))
NONE = Proposal.chain(())


def mistral() -> Any:
    """Without a window, as its later versions are; those with one are read by the module's own code."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=24, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, sliding_window=None, initializer_range=0.4,
    )  # fmt: skip
    return MistralForCausalLM(config).eval()


def own(model: Any, hidden: tuple[int, ...] = ()) -> BlockReader:
    """A reader by the module's own code."""
    reader = BlockReader(model, hidden=hidden, owned=True)
    reader._forward = ModuleForward(model, reader._forward.hidden)
    reader.slots = reader._new_slots()
    return reader


def same(readers: tuple[BlockReader, BlockReader], prompts: list[list[int]], rounds: Any) -> None:
    """Both readers' logits and hidden states over rounds of (who plays, block, what is accepted then)."""
    every = [[Session(prompt) for prompt in prompts] for _ in readers]
    for playing, proposal, accepted in rounds:
        got, want = (
            reader.read([sessions[i].context() for i in playing], [proposal] * len(playing))
            for reader, sessions in zip(readers, every, strict=True)
        )
        torch.testing.assert_close(got.logits, want.logits, **CLOSE)
        for mine, other in zip(got.hidden, want.hidden, strict=True):
            torch.testing.assert_close(mine, other, **CLOSE)
        for sessions in every:
            for i in playing:
                sessions[i].accepted += accepted


ROUNDS = [
    ((0, 1, 2), TREE, [5, 7, 1]),  # the path's end does not stand beside its beginning
    ((0, 1, 2), CHAIN, [5, 6, 2]),
    ((0, 2), TREE, [8, 9, 3]),  # one sits out
    ((1,), CHAIN, [5, 1]),  # alone, in a row that is not the first
    ((0, 1, 2), NONE, [4]),
]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
def test_the_short_way_is_the_module_s(family):
    """With biases and with norms of queries and keys; weights that lie together and apart; chains, trees, batches of
    several lengths, hidden states."""
    model = mistral() if family == "mistral" else tiny_of(family, seed=2)
    if family == "qwen2":
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter)
    if family in ("qwen2", "mistral"):
        lay_side_by_side(model)
    prompts = [[7, 8, 9], [3], list(range(20)) * 14]
    hidden = (0, 1, -1)
    reader = BlockReader(model, hidden=hidden)
    assert isinstance(reader._forward, LlamaForward)
    same((reader, own(model, hidden)), prompts, ROUNDS)


def test_the_short_way_sees_what_was_changed():
    """Weights that lie elsewhere are read there; a model with a hook is read by its own code."""
    model = tiny_of("qwen3", seed=2)
    lay_side_by_side(model)
    reader = BlockReader(model)
    attention = model.model.layers[0].self_attn
    same((reader, own(model)), [[1, 2, 3]], [((0,), CHAIN, [5])])
    attention.v_proj.weight = torch.nn.Parameter(attention.v_proj.weight.detach().flip(0))
    attention.q_norm.weight.data.mul_(2)
    same((reader, own(model)), [[1, 2, 3]], [((0,), CHAIN, [5])])
    assert isinstance(reader._forward, LlamaForward)
    attention.v_proj.register_forward_hook(lambda _, given, out: 2 * out)
    same((reader, own(model)), [[1, 2, 3]], [((0,), CHAIN, [5])])
    assert isinstance(reader._forward, ModuleForward)
