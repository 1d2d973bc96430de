"""Steps as graphs, on a device that is not there: what is captured, and what a replay reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from draftverify.kit import make_context
from draftverify_llm import LocalModel
from draftverify_tokens import generate, graphs
from draftverify_tokens.reader import TAILS, BlockReader
from draftverify_tokens.slots import CacheShelf
from tests.tokens.emulated import Emulation, warm
from tests.tokens.test_llama_forward import CHAIN, CLOSE, NONE, ROUNDS, TREE, own
from tests.tokens.tiny import Session, byte_tokenizer, tiny_of


@pytest.fixture
def device(monkeypatch) -> Iterator[Emulation]:
    """What is compiled is another test's, and takes seconds."""
    with Emulation() as emulation:
        monkeypatch.setattr(torch, "compile", lambda function, **_: function)
        yield emulation
        monkeypatch.undo()


def prompt(length: int, first: int = 1) -> list[int]:
    return [1 + (first + i) % 20 for i in range(length)]


def on_host(tensor: Any) -> Any:
    return tensor.cpu() if tensor.device.type == "cuda" else tensor


def test_replays_give_what_the_module_gives(device, monkeypatch):
    """Trees, batches over several shelves, sessions that sit out: what was frozen at a capture would show."""
    monkeypatch.setattr(graphs, "SEEN", 1)
    wanted = own(tiny_of("llama", seed=2))
    with_graphs = BlockReader(device.put(tiny_of("llama", seed=2)))
    prompts = [prompt(3), prompt(1), prompt(280)]
    every = [[Session(each) for each in prompts] for _ in range(2)]
    for playing, proposal, accepted in ROUNDS * 2:
        got, want = (
            reader.read([sessions[i].context() for i in playing], [proposal] * len(playing))
            for reader, sessions in zip((with_graphs, wanted), every, strict=True)
        )
        torch.testing.assert_close(on_host(got.logits), want.logits, **CLOSE)
        for sessions in every:
            for i in playing:
                sessions[i].accepted += accepted
    assert device.counts.launches > len(ROUNDS)


def test_a_step_is_one_launch(device):
    """After the ladder is warm a round of one session captures nothing, whatever its prompt's length."""
    reader = BlockReader(device.put(tiny_of("llama")))
    for capacity in (256, 512):
        for tokens in (1, 2, 4, 8, 64):
            warm(reader, 1, tokens, capacity)
    device.reset()
    rounds = 0
    for length in (1, 2, 7, 63, 64, 65, 200, 251, 300):
        session = Session(prompt(length))
        for proposal, accepted in ((NONE, [2]), (CHAIN, [5, 6, 2]), (TREE, [5, 3]), (CHAIN, [1])):
            reader.read([session.context()], [proposal])
            session.accepted += accepted
            rounds += 1
    assert (device.counts.captures, device.counts.compilations) == (0, 0)
    # Prompts of more than 64 tokens are read without a graph, unless another one began like them.
    assert rounds - 4 <= device.counts.launches < rounds


@pytest.mark.exhaustive
def test_ten_compilations_serve_a_device():
    """On a device, too, whatever the layers, rows, tokens and capacities; a draft model's are the same ones."""
    with Emulation() as device:
        for layers in (4, 1):
            reader = BlockReader(device.put(tiny_of("llama", layers=layers)))
            for rows in (1, 2, 4, 64):
                for tokens in (1, 2, 8, 64):
                    for capacity in (256, 1024):
                        warm(reader, rows, tokens, capacity)
        assert device.counts.compilations == 10
        assert device.counts.captures == 64


def test_rows_are_let_go_without_waiting(device):
    """Which ones stay goes to the device as all else that the host knows."""
    shelf = CacheShelf(64)
    shelf.grow(3)
    shelf.keys, shelf.values = (
        [torch.arange(3.0, device="cuda").view(3, 1, 1, 1).repeat(1, 1, 64, 1)] for _ in "kv"
    )
    for row in (shelf.line[0], shelf.line[2]):
        row.left = None
    device.reset()
    shelf.shrink()
    assert not device.counts.waits
    assert dict(device.counts.uploads) == {"pinned": 1}
    assert on_host(shelf.keys[0])[:, 0, 0, 0].tolist() == [0, 2]


def test_the_number_of_tails_is_bounded(device):
    """Each request may have a temperature of its own."""
    reader = BlockReader(device.put(tiny_of("llama")))
    for number in range(2 * TAILS):
        reader.tail([make_context({"prompt_ids": [0]}, settings={"temperature": 1 + number})], 8)
    assert len(reader._tails) == TAILS


def test_a_tail_is_in_the_launch(device):
    """What a step's logits are for is captured with it, once for all tails that are equal."""

    class Likeliest:
        def __call__(self, logits: Any) -> tuple[Any, ...]:
            return (logits.argmax(-1),)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Likeliest)

        def __hash__(self) -> int:
            return 1

    reader = BlockReader(device.put(tiny_of("llama")))
    session = Session(prompt(5))
    for accepted in ([2], [3], [4]):
        reading = reader.read([session.context()], [CHAIN], Likeliest())
        session.accepted += [*CHAIN.items, *accepted]
        assert torch.equal(on_host(reading.of_tail[0]), on_host(reading.logits).argmax(-1))
    assert device.counts.captures == 2  # a prompt with a block, then a token with a block


def test_buffers_that_grow_drop_their_graphs(device, caplog):
    """More rows are other buffers: what was captured on the old ones is dropped, and said in the log."""
    reader = BlockReader(device.put(tiny_of("llama")))
    with caplog.at_level(logging.INFO, "draftverify.tokens"):
        first = Session(prompt(5))
        reader.read([first.context()], [CHAIN])
        held = reader._forward._graphs
        assert len(held._made) == 1
        sessions = [Session(prompt(4, i)) for i in range(3)]
        reader.read([session.context() for session in sessions], [CHAIN] * 3)
        reader.read([first.context()], [CHAIN])
    assert "dropped 1 graphs" in caplog.text
    assert all(buffer() is not None for made in held._made.values() for buffer in made.buffers)


def test_graphs_outlast_a_task_and_hold_no_numbers_of_a_model(device):
    """What may have changed unseen is read anew, weights and rotations, in the places that a graph knows."""
    module, plain = device.put(tiny_of("qwen3")), tiny_of("qwen3")
    reader = BlockReader(module)
    for factor in (1.0, 0.5, -2.0):
        for model in (module, plain):
            model.model.rotary_emb.inv_freq.data.mul_(abs(factor))
            model.model.layers[0].self_attn.v_proj.weight.data.mul_(factor)
        session = Session(prompt(40))
        got, want = (each.read([session.context()], [CHAIN]) for each in (reader, own(plain)))
        torch.testing.assert_close(on_host(got.logits), want.logits, **CLOSE)
        session.scratch[reader].close()
    assert device.counts.captures == 1


def test_the_number_of_graphs_is_bounded(device, monkeypatch):
    """Beyond the bound the one that was not used for longest goes."""
    monkeypatch.setattr(graphs, "MOST", 2)
    reader = BlockReader(device.put(tiny_of("llama")))
    for tokens in (1, 2, 1, 4):
        warm(reader, 1, tokens, 256)
    assert [key[0][0][1] for key in reader._forward._graphs._made] == [1, 4]


def test_a_lone_session_in_a_later_row_is_a_launch(device):
    """A session that goes on alone while others hold the rows before it is not run eagerly."""
    reader = BlockReader(device.put(tiny_of("llama")))
    sessions = [Session(prompt(3, i)) for i in range(2)]
    reader.read([session.context() for session in sessions], [NONE] * 2)
    device.reset()
    for _ in range(3):
        sessions[1].accepted.append(2)
        reader.read([sessions[1].context()], [NONE])
    assert device.counts.launches == 3


def test_a_composition_of_shelves_is_captured_when_it_comes_back(device):
    """The first times the steps of several shelves run compiled, without a capture; then they are captured too."""
    reader = BlockReader(device.put(tiny_of("llama")))
    sessions = [Session(prompt(3)), Session(prompt(280))]
    captures = []
    for _ in range(5):
        device.reset()
        reader.read([session.context() for session in sessions], [NONE] * 2)
        captures.append(device.counts.captures)
        for session in sessions:
            session.accepted.append(2)
    assert captures == [0] * graphs.SEEN + [1, 0]  # the first pass reads a long prompt


def test_drafted_tokens_on_the_device_are_read_there(device):
    """A drafter's tokens are not waited for."""
    reader = BlockReader(device.put(tiny_of("llama", seed=6)))
    plain = BlockReader(tiny_of("llama", seed=6))
    for each in (reader, plain):
        each.read([make_context({"prompt_ids": [1, 2, 3]})], [NONE])
    contexts = [make_context({"prompt_ids": prompt(4)}) for _ in range(2)]
    reader.read(contexts[:1], [NONE])
    plain.read(contexts[1:], [NONE])
    drafted = torch.tensor([[3, 7]], device="cuda")
    device.reset()
    got = [reader.extend(contexts[:1], drafted[:, : i + 1])[0] for i in range(2)]
    assert not device.counts.waits
    want = [plain.extend(contexts[1:], torch.tensor([[3, 7]])[:, : i + 1])[0] for i in range(2)]
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(on_host(mine), other, **CLOSE)


def test_log_probabilities_outlast_the_next_launch(device):
    """They are taken when a token was accepted, and a plain step is started before that."""
    module, answers = tiny_of("llama", seed=2), []
    for model in (module, device.put(tiny_of("llama", seed=2))):
        made = LocalModel.from_module(model, byte_tokenizer())
        how = {"drafter": "none", "max_new_tokens": 8, "logprobs": True}
        answers.append(generate(made, [prompt(3)], **how)[0])
    assert answers[1].ids == answers[0].ids
    np.testing.assert_allclose(answers[1].logprobs, answers[0].logprobs, rtol=1e-4)
