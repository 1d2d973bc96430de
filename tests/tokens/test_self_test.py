"""A model is tried before anything is decoded with it: once, whoever opens it, and what fails is told in words."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from draftverify import ConfigError, ContractError, Pipeline, Proposal
from draftverify.kit import make_context
from draftverify.rules import Speculative, Tree
from draftverify.traits import GeneratorTraits
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, DraftTree, NoDraft, Suffix, Target
from draftverify_tokens.models import positions_of
from draftverify_tokens.reader import BlockReader
from draftverify_tokens.self_test import ordinary_tokens, self_test
from tests.tokens.families import POSITIONS, VOCABULARY, module_of
from tests.tokens.tiny import byte_tokenizer, context_of, rows, tiny_llama, tiny_model

GREEDY = {"temperature": 0}


def model_of(family: str, **how: Any) -> LocalModel:
    return LocalModel.from_module(module_of(family, **how), byte_tokenizer())


@pytest.fixture
def untold(monkeypatch):
    """Models that count places are not told of positions."""
    monkeypatch.setattr("draftverify_tokens.forward.telling_of", lambda module: None)


class Trees:
    """A third party's drafter of trees."""

    def __init__(self, shape: str | None = "tree") -> None:
        self.shape = shape
        self.traits = GeneratorTraits(shape=shape)

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.tree((1, 2, 3)[:n], (-1, -1, 1)[:n])


@pytest.mark.usefixtures("untold")
def test_where_trees_alone_are_wrong_chains_go_on():
    """MPT's bias counts places: chains are exact, and a drafter of trees is refused when the pipeline is opened."""
    model = model_of("mpt")
    with Pipeline(NoDraft(), Target(model), Speculative(), settings=GREEDY, budget=None) as pipeline:
        assert pipeline.run({"prompt_ids": [3, 4, 5]}).status == "accepted"
    row = Target(model).verify(context_of(model, [3, 4, 5]), Proposal.chain((7,))).evidence.target[1]
    assert int(row.argmax()) in (int(rows(model, [3, 4, 5, 7], 1).argmax()),)
    small = LocalModel.from_module(tiny_llama(VOCABULARY), byte_tokenizer())
    for drafter in (Trees(), Suffix(tree=True), DraftTree(DraftModel(small))):
        pipeline = Pipeline(drafter, Target(model), Tree(), block=3, settings=GREEDY)
        words = f"^generator: {type(drafter).__name__} drafts trees, which MptForCausalLM cannot read: it reads a tree"
        with pytest.raises(ConfigError, match=words):
            pipeline.open()


def test_weights_that_are_no_numbers_are_named_as_what_they_are():
    """Not as a model that cannot be read in blocks."""
    model = tiny_model(24)
    with torch.no_grad():
        model.model.lm_head.weight[5] = float("nan")
    with pytest.raises(ConfigError, match="its logits are not finite numbers; its weights or its dtype"):
        Target(model).open()


@pytest.mark.usefixtures("untold")
def test_a_tree_that_nobody_announced_is_refused_where_it_is_read():
    """A drafter of any shape, and one that was never opened: the task fails with a readable reason."""
    pipeline = Pipeline(Trees(None), Target(model_of("mpt")), Tree(), block=3, settings=GREEDY)
    outcome = pipeline.run({"prompt_ids": [3, 4, 5]})
    assert outcome.status == "failed"
    assert (
        "a tree was drafted, which MptForCausalLM cannot read: it reads a tree's siblings" in outcome.reason
    )


@pytest.mark.usefixtures("untold")
def test_a_tree_does_not_grow_on_a_model_that_reads_none():
    """The drafting model's own trees count too."""
    with pytest.raises(ConfigError, match=r"^drafter: the drafter's model reads no trees"):
        DraftTree(DraftModel(model_of("mpt"))).open()


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("rwkv", "RwkvForCausalLM cannot be decoded by drafting and verifying: it keeps a running state"),
        ("gpt_neo", "GPTNeoForCausalLM .*: beside a sequence of another length it computes other logits"),
        ("roformer", "RoFormerForCausalLM cannot be decoded"),
        ("bloom", r"BloomForCausalLM .*: in blocks it fails with ValueError: too many values to unpack"),
    ],
)
def test_what_cannot_be_read_in_blocks_is_refused_in_any_type(family, words, dtype):
    """By the class and the reason, also where half precision rounds a great deal."""
    with pytest.raises(ConfigError, match=words):
        self_test(module_of(family, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("sharp", [0.1, 0.5])
def test_rounding_refuses_nobody(dtype, sharp):
    """Deep random models whose logits are far apart, which rounding moves more than those of any trained one."""
    for seed in range(3):
        module = tiny_llama(100, seed=seed, layers=6, spread=sharp).to(getattr(torch, dtype))
        assert self_test(module) is None


@pytest.mark.parametrize("part", [Target, DraftModel])
def test_nobody_escapes(part):
    """A component that was never opened is tested when it first reads."""
    with pytest.raises(ConfigError, match="it keeps a running state"):
        part(model_of("rwkv"))._reader  # noqa: B018
    with pytest.raises(ConfigError, match="it keeps a running state"):
        Pipeline(NoDraft(), Target(model_of("rwkv")), Speculative()).run({"prompt_ids": [1]})


def test_it_costs_seven_short_passes_once():
    """A module is tried once in a type, whoever uses it, and again when it was converted."""
    model, read = tiny_model(), []
    model.model.model.embed_tokens.register_forward_hook(lambda _, given, out: read.append(given[0].numel()))
    Target(model).open()
    assert len(read) == 7
    assert sum(read) < 64
    Target(model).open()
    DraftModel(model).open()
    assert len(read) == 7
    model.model.double()
    Target(model).open()
    assert len(read) == 14


def test_a_modules_own_error_is_told_by_its_first_line(monkeypatch):
    """And want of memory is no property of the model."""
    module = tiny_llama(30)

    def fails(error: BaseException) -> Any:
        def forward(*_: Any, **__: Any) -> None:
            raise error

        return forward

    monkeypatch.setattr(module, "forward", fails(torch.OutOfMemoryError("too large")))
    with pytest.raises(torch.OutOfMemoryError):
        self_test(module)
    monkeypatch.setattr(module, "forward", fails(RuntimeError("no such kernel\nat line 7")))
    words = r"LlamaForCausalLM cannot .*: without a cache it fails with RuntimeError: no such kernel$"
    for _ in range(2):  # the second time from memory
        with pytest.raises(ConfigError, match=words):
            self_test(module)


def test_what_is_remembered_of_a_module_does_not_hold_it():
    """Not of one that was refused, either."""
    refused, taken = module_of("openai-gpt"), module_of("gpt2")
    left = [weakref.ref(refused), weakref.ref(taken)]
    with pytest.raises(ConfigError):
        self_test(refused)
    self_test(taken)
    del refused, taken
    gc.collect()
    assert [ref() for ref in left] == [None, None]


def test_the_text_is_ofordinary_tokens():
    """No end, padding or image token, and none twice, in a vocabulary however small."""
    module = tiny_llama(12)
    module.config.pad_token_id, module.config.eos_token_id = 4, [9, 2]
    found = ordinary_tokens(module)
    assert len(set(found)) == 8
    assert not {2, 4, 9} & set(found)


@pytest.mark.parametrize(
    ("family", "positions", "reason"),
    [
        ("llama", POSITIONS, "its max_position_embeddings"),
        ("mpt", POSITIONS, "its max_seq_len"),
        ("phi3, longrope", 24, "the length up to which its longrope"),
        ("llama4", 24, "its floor_scale"),
    ],
)
def test_a_text_is_no_longer_than_the_model_reads_it_alike(family, positions, reason):
    """Beyond some length keys would have to be computed anew; a prompt beyond it is refused with what sets it."""
    model = model_of(family)
    found, why = positions_of(model.model)
    assert found == positions
    assert reason in why
    long = make_context({"prompt_ids": [1] * (positions + 1)}).task
    with pytest.raises(ConfigError, match=f"{positions + 1} tokens; the model takes {positions} .{reason}"):
        Target(model).prepare(long)
    assert DraftModel(model).room(make_context({"prompt_ids": [1] * (positions - 2)}), 5) == 2


@pytest.mark.parametrize("family", ["gpt2", "phi3, longrope"])
def test_padding_goes_on_where_a_model_ends(family):
    """A text that fills the model beside one with a longer block: one pass, and both have their own rows."""
    model = model_of(family)
    positions = positions_of(model.model)[0]
    full, short = [3] * (positions - 1), [4, 5]
    contexts = [make_context({"prompt_ids": prompt}) for prompt in (full, short)]
    blocks = [Proposal.chain((6,)), Proposal.chain((1, 2, 3, 4, 5))]
    reader = BlockReader(model.model)
    reader.read(contexts, [Proposal.chain(())] * 2)
    first, second = reader.read(contexts, blocks).logits.split([2, 6])
    torch.testing.assert_close(first, rows(model, [*full, 6], 2), atol=1e-3, rtol=0)
    torch.testing.assert_close(second, rows(model, [*short, 1, 2, 3, 4, 5], 6), atol=1e-3, rtol=0)


def test_a_block_of_a_tree_is_the_generators_fault():
    """`verify` says so where nobody asked before."""
    model = tiny_model()
    target = Target(model)
    target._reader.no_trees = "for a reason"
    with pytest.raises(ContractError, match="which LlamaForCausalLM cannot read: for a reason"):
        target.verify(context_of(model, [1, 2]), Proposal.tree((1, 2), (-1, -1)))
