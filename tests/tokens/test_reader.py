"""Reading with a cache: whatever is kept, rolled back, moved or thrown away, the logits are those of reading anew."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, Proposal
from draftverify.kit import make_context
from draftverify_tokens import slots
from draftverify_tokens.forward import ModuleForward
from draftverify_tokens.llama import LlamaForward
from draftverify_tokens.reader import BlockReader
from tests.tokens.tiny import FAMILIES, Session, rows_of, tiny_of

VOCABULARY = 24
CLOSE = {"atol": 1e-4, "rtol": 0}
"""Norms and rotations are computed in float32 even where weights are float64; a wrong mask is off by 0.01 or more."""


@lru_cache
def module(family: str) -> Any:
    return tiny_of(family, VOCABULARY, seed=FAMILIES.index(family), dtype="float64")


def rows(model: Any, path: list[int]) -> Any:
    """The oracle: logits after a whole path, read without any cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([path]), use_cache=False).logits[0, -1]


def block(items: list[int], parents: list[int]) -> Proposal:
    """A tree whose parents come before their children."""
    return Proposal.tree(
        items, [min(parent, i - 1) for i, parent in zip(range(len(items)), parents, strict=False)]
    )


tokens = st.integers(0, VOCABULARY - 1)
trees = st.integers(0, 6).flatmap(
    lambda n: st.builds(
        block, st.lists(tokens, min_size=n, max_size=n), st.lists(st.integers(-1, 5), min_size=n, max_size=n)
    )
)
chains = st.lists(tokens, max_size=5).map(lambda items: Proposal.chain(tuple(items)))
turns = st.tuples(st.one_of(chains, trees), st.integers(-1, 5), tokens, st.booleans(), st.booleans())


def expect(model: Any, session: Session, proposal: Proposal, found: Any) -> None:
    before = [*session.task.input["prompt_ids"], *session.accepted]
    paths = [
        before,
        *([*before, *(proposal.items[j] for j in proposal.path(i))] for i in range(len(proposal))),
    ]
    for path, row in zip(paths, found, strict=True):
        torch.testing.assert_close(row, rows(model, path), **CLOSE)


@pytest.fixture
def small_classes(monkeypatch):
    """Texts of a few tokens cross many length classes, share what they begin with, and are read ahead."""
    for name, value in (("slots.FINE", 4), ("slots.COARSE", 4), ("slots.SHARED", 2), ("reader.AHEAD", 5)):
        monkeypatch.setattr(f"draftverify_tokens.{name}", value)


openings = st.builds(
    lambda n, own: [*range(n), *own], st.sampled_from((0, 0, 5, 8)), st.lists(tokens, min_size=1, max_size=9)
)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    prompts=st.lists(openings, min_size=1, max_size=4),
    rounds=st.lists(st.lists(turns, min_size=4, max_size=4), max_size=5),
)
def test_a_cache_never_changes_an_answer(small_classes, family, prompts, rounds):
    """Sessions of a batch accept any path of any tree, sit a round out, lose their cache, begin as others do, and
    outgrow their shelves: the rows stay the same."""
    model = module(family)
    reader = BlockReader(model)
    sessions = [Session(prompt) for prompt in prompts]
    for turn in rounds:
        playing = [(s, t) for s, t in zip(sessions, turn, strict=False) if not t[4]] or [
            (sessions[0], turn[0])
        ]
        proposals = [t[0] for _, t in playing]
        reading = reader.read([s.context() for s, _ in playing], proposals)
        found = reading.logits.split(reading.counts)
        for (session, (proposal, end, splice, lost, _)), own in zip(playing, found, strict=True):
            expect(model, session, proposal, own)
            path = proposal.path(min(end, len(proposal) - 1))
            session.accepted += [proposal.items[i] for i in path] + [splice]
            if lost:
                session.scratch.clear()


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    prompts=st.lists(st.lists(tokens, min_size=1, max_size=6), min_size=1, max_size=3),
    drafts=st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=3, max_size=3),
    keep=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    lone=st.integers(0, 2),
)
def test_reading_on_token_by_token_is_reading_the_block(small_classes, family, prompts, drafts, keep, lone):
    """A drafter's steps give the rows of one pass, also after a session whose row lies between others' has gone on."""
    model = module(family)
    reader = BlockReader(model)
    sessions = [Session(prompt) for prompt in prompts]
    n = min(map(len, drafts))
    drafted = torch.tensor([draft[:n] for draft in drafts[: len(sessions)]])
    nothing = Proposal.chain(())
    for _ in range(2):
        found = [reader.read([s.context() for s in sessions], [nothing] * len(sessions)).logits]
        found += [reader.extend([s.context() for s in sessions], drafted[:, : i + 1])[0] for i in range(n)]
        for b, session in enumerate(sessions):
            expect(model, session, Proposal.chain(tuple(drafted[b].tolist())), [step[b] for step in found])
            session.accepted += [*drafted[b, : keep[b]].tolist(), 1]
        alone = sessions[lone % len(sessions)]
        again = reader.read([alone.context()], [Proposal.chain((2, 3))])
        expect(model, alone, Proposal.chain((2, 3)), again.logits)
        alone.accepted += [2, 4]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_short_way_is_the_modules_own(family):
    """For the Llama family the pass in few operations gives what the module's code gives, weights still shared."""
    model = module(family)
    quick, own = BlockReader(model), BlockReader(model, owned=True)
    assert isinstance(quick._forward, LlamaForward)
    own._forward = ModuleForward(model, ())
    proposal = block([1, 2, 3, 4, 5], [-1, 0, 0, -1, 3])
    prompts = [[7, 8, 9], [3], list(range(12))]
    contexts = [make_context({"prompt_ids": prompt}) for prompt in prompts]
    found = [reader.read(contexts, [proposal] * 3).logits for reader in (quick, own)]
    torch.testing.assert_close(*found, **CLOSE)
    before = sum(parameter.numel() for parameter in model.parameters())
    storages = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in model.parameters()}
    assert sum(storages.values()) == before * 8


def test_a_module_that_was_converted_there_and_back_is_read_as_it_is_now():
    """Also where the norms come to lie where they lay before, and only the matrices elsewhere."""
    model = tiny_of("llama", VOCABULARY, dtype="float32")
    reader = BlockReader(model)
    reader.read([make_context({"prompt_ids": [1, 2, 3]})], [Proposal.chain(())])
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.weight.data = -part.weight.data
    found = reader.read([make_context({"prompt_ids": [1, 2, 3]})], [Proposal.chain(())]).logits[0]
    torch.testing.assert_close(found, rows(model, [1, 2, 3]), **CLOSE)


def test_a_module_that_was_converted_is_read_as_it_is_now():
    """Weights that were put together are put together again after the module changed its type."""
    model = tiny_of("llama", VOCABULARY, dtype="float32")
    reader = BlockReader(model)
    context = make_context({"prompt_ids": [1, 2, 3]})
    reader.read([context], [Proposal.chain(())])
    model.double()
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight.mul_(2)
    got = reader.read([context], [Proposal.chain((4,))]).logits
    torch.testing.assert_close(got[0], rows(model, [1, 2, 3]), **CLOSE)
    torch.testing.assert_close(got[1], rows(model, [1, 2, 3, 4]), **CLOSE)


def test_long_prompts_are_read_in_pieces(monkeypatch):
    """A prompt beyond the piece's length, alone and in a batch with a short one, gives the same rows."""
    monkeypatch.setattr("draftverify_tokens.reader.CHUNK", 7)
    monkeypatch.setattr("draftverify_tokens.reader.AHEAD", 5)
    for family in ("llama", "gemma3"):
        model = module(family)
        reader = BlockReader(model, hidden=(-1,))
        long, short = Session([i % 20 for i in range(31)]), Session([4, 5])
        reading = reader.read(
            [long.context(), short.context()], [Proposal.chain((1, 2)), Proposal.chain((3,))]
        )
        first, second = reading.logits.split(reading.counts)
        expect(model, long, Proposal.chain((1, 2)), first)
        expect(model, short, Proposal.chain((3,)), second)
        assert [len(states) for states in reading.hidden] == [33, 3]


def test_hidden_states_are_the_modules():
    """Embeddings, a layer in the middle and what the head reads, for every token that the pass read, block last."""
    for family in ("llama", "gpt_neox"):
        model = module(family)
        reader = BlockReader(model, hidden=(0, 1, -1))
        session = Session([5, 6, 7])
        for accepted, start, read in (([], 0, [5, 6, 7, 1, 2]), ([1, 9], 4, [9, 1, 2])):
            session.accepted += accepted
            reading = reader.read([session.context()], [Proposal.chain((1, 2))])
            assert reading.starts == [start]
            whole = [*session.task.input["prompt_ids"], *session.accepted, 1, 2]
            with torch.inference_mode():
                out = model(input_ids=torch.tensor([whole]), use_cache=False, output_hidden_states=True)
            expected = torch.stack([out.hidden_states[i][0, start:] for i in (0, 1, -1)], dim=1)
            assert whole[start:] == read
            torch.testing.assert_close(reading.hidden[0], expected, **CLOSE)


def test_only_what_is_new_is_read():
    """The prompt once; then the spliced token and the block."""
    model = module("llama")
    read: list[int] = []
    hook = model.model.embed_tokens.register_forward_hook(
        lambda _, given, out: read.append(given[0].shape[1])
    )
    reader, session = BlockReader(model), Session([1, 2, 3, 4])
    try:
        for items, accepted in (((5, 6), [5, 9]), ((7, 8, 9), [7, 8, 9, 1]), ((), [2]), ((), [])):
            reader.read([session.context()], [Proposal.chain(items)])
            session.accepted += accepted
        reader.read([session.context()], [Proposal.chain(())])
    finally:
        hook.remove()
    assert read == [6, 4, 1, 1, 1]


def test_logits_are_computed_for_the_wanted_rows_alone():
    """Reading a prompt does not make a row of the vocabulary per token of it."""
    model = module("llama")
    with rows_of("linear", model.lm_head.weight) as seen:
        contexts = [make_context({"prompt_ids": list(range(12))}), make_context({"prompt_ids": [1]})]
        BlockReader(model).read(contexts[:1], [Proposal.chain((1,))])
        BlockReader(model).read(contexts, [Proposal.chain((1,)), Proposal.chain(())])
    assert seen == [2, 3]


def test_a_pass_that_fails_leaves_no_cache_behind(monkeypatch):
    """Layers that were filled unevenly are never used again, and the row is free for another."""
    model = module("gpt_neox")
    reader, session = BlockReader(model), Session([1, 2, 3])
    reader.read([session.context()], [Proposal.chain(())])
    session.accepted.append(4)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(model.gpt_neox.layers[-1], "forward", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            reader.read([session.context()], [Proposal.chain(())])
    assert not session.scratch
    assert all(row.left for shelf in reader.slots.shelves.values() for row in shelf.line)
    got = reader.read([session.context()], [Proposal.chain(())]).logits[0]
    torch.testing.assert_close(got, rows(model, [1, 2, 3, 4]), **CLOSE)


def test_rows_are_used_again():
    """Sessions that end give their rows back, however their scratch went, and the buffers stop growing."""
    reader = BlockReader(module("llama"))
    for turn in range(6):
        sessions = [Session([turn, i]) for i in range(3)]
        reader.read([s.context() for s in sessions], [Proposal.chain(())] * 3)
        for session in sessions[:2]:
            session.scratch[reader].close()
    assert [shelf.rows for shelf in reader.slots.shelves.values()] == [3]


def test_sessions_that_stay_move_into_the_rows_of_those_that_ended():
    """A pass is as high as it has sessions, and what was moved is read on as it was."""
    model = module("llama")
    reader = BlockReader(model)
    ended = Session([4, 5])
    staying = [Session([i, i + 1]) for i in range(2)]
    reader.read([s.context() for s in (staying[0], ended, staying[1])], [Proposal.chain(())] * 3)
    ended.scratch[reader].close()
    for session in staying:
        session.accepted = [7]
    found = reader.read([s.context() for s in staying], [Proposal.chain(())] * 2).logits
    (shelf,) = reader.slots.shelves.values()
    assert [row.index for row in shelf.line if row.left is None] == [0, 1]
    for session, row in zip(staying, found, strict=True):
        torch.testing.assert_close(row, rows(model, [*session.task.input["prompt_ids"], 7]), **CLOSE)


def test_a_batch_outgrows_its_buffers(monkeypatch):
    """Answers that become longer than the buffers were give the rows that they give alone."""
    monkeypatch.setattr(slots, "FINE", 4)
    model = module("llama")
    reader = BlockReader(model)
    sessions = [Session([1, 2, 3]), Session([4])]
    held = set()
    for turn in range(5):
        blocks = [Proposal.chain((turn, turn + 1)), Proposal.chain((turn + 2,))]
        reading = reader.read([s.context() for s in sessions], blocks)
        for session, proposal, found in zip(
            sessions, blocks, reading.logits.split(reading.counts), strict=True
        ):
            expect(model, session, proposal, found)
            session.accepted += [*proposal.items, 9]
        held |= reader.slots.shelves.keys()
    assert len(held) > 2


def test_a_running_state_is_refused():
    """A model that cannot go back to an earlier token is an error that says so, before any task."""
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    config = Qwen3NextConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=8,
        shared_expert_intermediate_size=8, layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    with pytest.raises(ConfigError, match="layer 0 of Qwen3NextForCausalLM keeps a running state"):
        BlockReader(Qwen3NextForCausalLM(config))
