"""Steps as graphs, on a device that is not there: what is captured, and what a replay reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from draftverify.testing import make_context
from draftverify_tokens import graphs
from draftverify_tokens.reader import Reader
from tests.tokens.emulated import Emulation
from tests.tokens.test_llama_forward import CHAIN, CLOSE, NONE, ROUNDS, TREE, Session, own
from tests.tokens.tiny import tiny_of


@pytest.fixture
def device() -> Iterator[Emulation]:
    with Emulation() as emulation:
        yield emulation


def prompt(length: int, first: int = 1) -> list[int]:
    return [1 + (first + i) % 20 for i in range(length)]


def on_host(tensor: Any) -> Any:
    return tensor.cpu() if tensor.device.type == "cuda" else tensor


def test_replays_give_what_the_module_gives(device):
    """Trees, batches over several shelves, sessions that sit out: what was frozen at a capture would show."""
    wanted = own(tiny_of("llama", seed=2))
    with_graphs = Reader(device.put(tiny_of("llama", seed=2)))
    prompts = [prompt(3), prompt(1), prompt(280)]
    every = [[Session(each) for each in prompts] for _ in range(2)]
    for playing, proposal, accepted in ROUNDS * 3:
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
    """After the ladder is warm a round of one session compiles and captures nothing, whatever its prompt's length."""
    reader = Reader(device.put(tiny_of("llama")))
    for capacity in (256, 512):
        for tokens in (1, 2, 4, 8, 64):
            reader.warm(1, tokens, capacity)
    device.reset()
    rounds = 0
    for length in (1, 2, 7, 63, 64, 65, 200, 251, 300):
        session = Session(prompt(length))
        for proposal, accepted in ((NONE, [2]), (CHAIN, [5, 6, 2]), (TREE, [5, 3]), (CHAIN, [1])):
            reader.read([session.context()], [proposal])
            session.accepted += accepted
            rounds += 1
    assert (device.counts.captures, device.counts.compilations) == (0, 0)
    assert (
        device.counts.launches >= rounds - 4
    )  # a prompt of more than 64 tokens, but for what it shares, is read without a graph


def test_layers_and_lengths_compile_nothing_more(device):
    """On a device, too, ten compilations serve all layers, rows, tokens and capacities."""
    reader = Reader(device.put(tiny_of("llama", layers=4)))
    for rows in (1, 2, 4):
        for tokens in (1, 2, 8, 64):
            for capacity in (256, 1024):
                reader.warm(rows, tokens, capacity)
    assert device.counts.compilations == 10
    assert device.counts.captures == 24


def test_a_tail_is_in_the_launch(device):
    """What a step's logits are for is captured with it, once for all tails that are equal."""

    class Likeliest:
        def __call__(self, logits: Any) -> tuple[Any, ...]:
            return (logits.argmax(-1),)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Likeliest)

        def __hash__(self) -> int:
            return 1

    reader = Reader(device.put(tiny_of("llama")))
    forward, found = reader._forward, []

    def with_tail(*given: Any) -> Any:
        (logits, likeliest), states = forward(*given, Likeliest())
        found.append((logits, likeliest))
        return logits, states

    with_tail.__dict__.update(compiled=True, needs_masks=False, windows=forward.windows)
    reader._forward = with_tail
    session = Session(prompt(5))
    for accepted in ([2], [3], [4]):
        reader.read([session.context()], [CHAIN])
        session.accepted += [*CHAIN.items, *accepted]
    assert device.counts.captures == 2  # a prompt with a block, then a token with a block
    for logits, likeliest in found:
        assert torch.equal(on_host(likeliest), on_host(logits).argmax(-1))


def test_buffers_that_grow_drop_their_graphs(device, caplog):
    """More rows are other buffers: what was captured on the old ones is dropped, and said in the log."""
    reader = Reader(device.put(tiny_of("llama")))
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


def test_the_number_of_graphs_is_bounded(device, monkeypatch):
    """Beyond the bound the one that was not used for longest goes."""
    monkeypatch.setattr(graphs, "MOST", 2)
    reader = Reader(device.put(tiny_of("llama")))
    for tokens in (1, 2, 1, 4):
        reader.warm(1, tokens, 256)
    assert [key[0][0][1] for key in reader._forward._graphs._made] == [1, 4]


def test_a_lone_session_in_a_later_row_is_a_launch(device):
    """A session that goes on alone while others hold the rows before it is not run eagerly."""
    reader = Reader(device.put(tiny_of("llama")))
    sessions = [Session(prompt(3, i)) for i in range(2)]
    reader.read([session.context() for session in sessions], [NONE] * 2)
    device.reset()
    for _ in range(3):
        sessions[1].accepted.append(2)
        reader.read([sessions[1].context()], [NONE])
    assert device.counts.launches == 3


def test_a_composition_of_shelves_is_captured_when_it_comes_back(device):
    """The first times the steps of several shelves run compiled, without a capture; then they are captured too."""
    reader = Reader(device.put(tiny_of("llama")))
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
    reader = Reader(device.put(tiny_of("llama", seed=6)))
    plain = Reader(tiny_of("llama", seed=6))
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
