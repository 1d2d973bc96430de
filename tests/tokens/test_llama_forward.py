"""Compiled steps give what the module's own code gives, whatever the rows, lengths and shapes of blocks."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from draftverify import ConfigError, Proposal
from draftverify.kit import make_context
from draftverify_llm.side_by_side import lay_side_by_side
from draftverify_tokens import layer
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


def compiled(model: Any, backend: str = "eager", hidden: tuple[int, ...] = ()) -> BlockReader:
    """A reader whose steps are compiled by a backend."""
    reader = BlockReader(model, hidden=hidden)
    reader._forward.compile(backend)
    reader._how = hidden, True
    reader.slots = reader._new_slots()
    return reader


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
def test_compiled_steps_are_the_modules(family, monkeypatch):
    """With biases and with norms of queries and keys; weights that lie together and apart; chains, trees, batches of
    several lengths, hidden states."""
    monkeypatch.setattr(
        torch, "compile", lambda function, **_: function
    )  # how often it compiles is another test
    model = mistral() if family == "mistral" else tiny_of(family, seed=2)
    if family == "qwen2":
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter)
    if family in ("qwen2", "mistral"):
        lay_side_by_side(model)
    prompts = [[7, 8, 9], [3], list(range(20)) * 14]
    hidden = (0, 1, -1)
    same((compiled(model, hidden=hidden), own(model, hidden)), prompts, ROUNDS)


def test_compiled_steps_see_what_was_changed(monkeypatch):
    """Weights that lie elsewhere are read there; a model with a hook is not compiled any more, and refused where that
    was asked for."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    model = tiny_of("qwen3", seed=2)
    lay_side_by_side(model)
    reader = compiled(model)
    attention = model.model.layers[0].self_attn
    same((reader, own(model)), [[1, 2, 3]], [((0,), CHAIN, [5])])
    attention.v_proj.weight = torch.nn.Parameter(attention.v_proj.weight.detach().flip(0))
    attention.q_norm.weight.data.mul_(2)
    same((reader, own(model)), [[1, 2, 3]], [((0,), CHAIN, [5])])
    assert reader._forward.compiled
    reader._how = (), None  # as on a device, where nobody asks for it
    attention.v_proj.register_forward_hook(lambda _, given, out: 2 * out)
    same((reader, own(model)), [[1, 2, 3]], [((0,), CHAIN, [5])])
    assert isinstance(reader._forward, ModuleForward)
    with pytest.raises(ConfigError, match="without hooks"):
        BlockReader(model, compiled=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_inductor_gives_the_same(family):
    """What inductor makes of the functions, on a CPU."""
    torch._dynamo.reset()
    model = tiny_of(family, seed=3)
    same((compiled(model, "inductor"), own(model)), [[7, 8, 9], [3], list(range(20)) * 14], ROUNDS)


def test_ten_compilations_serve_all_layers_and_lengths():
    """They do not grow with layers, nor with tokens, rows and capacities; a size of one is a kind of its own."""
    torch._dynamo.reset()
    count = torch._dynamo.utils.counters["stats"]
    before = count["unique_graphs"]
    reader = compiled(tiny_of("llama", layers=5))
    for length in (1, 5, 63, 64, 65, 300):
        for batch in (1, 3):
            prompts = [[1 + (i + j) % 20 for j in range(length)] for i in range(batch)]
            contexts = [make_context({"prompt_ids": prompt}) for prompt in prompts]
            for proposal in (NONE, CHAIN, TREE):
                reader.read(contexts, [proposal] * batch)
    assert count["unique_graphs"] - before == 10


def test_a_failing_compiler_is_told_once_and_done_without(caplog):
    """Where there is no compiler at all the steps still run, and the log says why they are slower."""
    torch._dynamo.reset()

    @torch._dynamo.register_backend
    def broken(*_: Any) -> Any:
        raise OSError("no compiler here")

    model = tiny_of("llama", seed=4)
    with caplog.at_level(logging.WARNING, "draftverify.tokens"):
        same(
            (compiled(model, "broken"), own(model)),
            [[1, 2, 3], [4]],
            [((0, 1), CHAIN, [5, 2]), ((0, 1), NONE, [3])],
        )
    (record,) = (each for each in caplog.records if each.name == "draftverify.tokens")
    assert "no compiler here" in record.message


def test_a_limit_of_variants_is_told_and_done_without(caplog, monkeypatch):
    """Where Dynamo gives up the steps still run, and the log says so."""
    torch._dynamo.reset()
    monkeypatch.setattr(layer, "VARIANTS", 1)
    model = tiny_of("llama", seed=4)
    with caplog.at_level(logging.WARNING, "draftverify.tokens"):
        same(
            (compiled(model), own(model)),
            [[1, 2, 3]],
            [((0,), NONE, [5]), ((0,), NONE, [3]), ((0,), CHAIN, [1])],
        )
    (record,) = (each for each in caplog.records if each.name == "draftverify.tokens")
    assert "torch.compile failed (FailOnRecompileLimitHit" in record.message


def test_a_tail_is_part_of_the_step():
    """What is made of the logits comes with them, of the wanted rows alone, compiled or not."""
    model = tiny_of("llama", seed=5)

    def tail(logits: Any) -> tuple[Any, ...]:
        return logits.argmax(-1), logits.softmax(-1)

    for reader in (compiled(model), own(model), BlockReader(model)):
        reading = reader.read([make_context({"prompt_ids": [1, 2, 3]})], [CHAIN], tail)
        torch.testing.assert_close(reading.of_tail[0], reading.logits.argmax(-1))
        torch.testing.assert_close(reading.of_tail[1], reading.logits.softmax(-1))


def test_what_cannot_be_compiled_is_refused_where_it_was_asked_for():
    """Other families and layers of another kind; where nothing was asked for they are read as they are."""
    with pytest.raises(ConfigError, match="Gemma3ForCausalLM is read by its own code"):
        BlockReader(tiny_of("gemma3"), compiled=True)
    model = tiny_of("llama")

    class Other(torch.nn.Linear):
        pass

    model.model.layers[0].mlp.down_proj.__class__ = Other
    with pytest.raises(ConfigError, match=r"no torch\.nn\.Linear"):
        BlockReader(model, compiled=True)
    assert isinstance(BlockReader(model)._forward, LlamaForward)
