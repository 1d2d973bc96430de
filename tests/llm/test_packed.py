"""Packed weights: bfloat16 ones compute the same, four-bit ones what their codes and scales say."""

from __future__ import annotations

import pytest
import torch

from draftverify import ConfigError
from draftverify_llm.packed import GROUP, Int4Linear, PackedLinear, Part, pack


def layer(outputs: int = 48, inputs: int = 64, *, bias: bool = False) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs, bias=bias).bfloat16()


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("bias", [False, True])
def test_both_ways_compute_the_codes(rows, bias):
    """A few rows by the packed kernel and many by made-up weights: the product with the rounded weights."""
    small = Int4Linear(layer(bias=bias))
    x = torch.randn(rows, 64).bfloat16()
    expected = x.float() @ small.weights().float().T + (small.bias.float() if bias else 0.0)
    torch.testing.assert_close(small(x).float(), expected, atol=0.03, rtol=0.02)


def test_weights_are_rounded_to_the_nearest_of_sixteen():
    """No weight is further from its rounded form than half a step of its group, but for the scales' own rounding."""
    linear = layer()
    groups = linear.weight.detach().float().view(48, -1, GROUP)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    off = (Int4Linear(linear).weights().float().view_as(groups) - groups).abs().amax(-1)
    assert (off <= 0.5 * step + 0.01 * groups.abs().amax(-1)).all()


def test_weights_of_such_a_form_keep_their_codes():
    """A group of 16 values that are evenly spread, as a Q4_1 file gives, comes out as it went in."""
    linear = layer(16, 32)
    with torch.no_grad():
        linear.weight.copy_((torch.arange(32) % 16).float() * 0.25 - 1.0)
    assert torch.equal(Int4Linear(linear).weights(), linear.weight)


def test_a_model_keeps_the_bits_of_its_head():
    """Linear layers of the body are rounded, the head is not, and the model still runs."""
    from tests.tokens.tiny import tiny_llama

    model = tiny_llama(64).bfloat16()
    model.model.layers[0].mlp.down_proj = torch.nn.Linear(64, 32, bias=False).bfloat16()
    model.model.layers[0].mlp.gate_proj = torch.nn.Linear(32, 64, bias=False).bfloat16()
    model.model.layers[0].mlp.up_proj = torch.nn.Linear(32, 64, bias=False).bfloat16()
    del model.model.layers[1:]
    model.config.num_hidden_layers = 1
    before = model(torch.tensor([[1, 2, 3]])).logits
    pack(model, "int4")
    kinds = [type(part) for part in model.modules()]
    assert (
        kinds.count(Int4Linear) == 4
    )  # queries, keys and values together; output; gate and up together; down
    assert kinds.count(PackedLinear) == 1
    assert type(model.lm_head) is PackedLinear
    after = model(torch.tensor([[1, 2, 3]])).logits
    assert (after - before).abs().max() < 0.2 * before.abs().max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.float(), "for bfloat16 on a CPU; this model is torch.float32 on cpu"),
        (
            lambda model: model.bfloat16(),
            r"layer model.layers.0.mlp.down_proj is 32 x 48; .* divisible by 32",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change, message):
    """The error names the type, or the layer and its size."""
    from tests.tokens.tiny import tiny_llama

    with pytest.raises(ConfigError, match=message):
        pack(change(tiny_llama(64)), "int4")


@pytest.mark.weights
def test_a_four_bit_file_comes_out_as_it_is():
    """SmolLM2's GGUF has four-bit layers of that very form: packed again they hold the same values."""
    from draftverify_llm import LocalModel

    packed = LocalModel("smollm2-135m-instruct", dtype="bfloat16", packed="int4")
    whole = LocalModel("smollm2-135m-instruct", dtype="bfloat16")
    name = "model.layers.7.mlp.down_proj"
    got, expected = packed.model.get_submodule(name).weights(), whole.model.get_submodule(name).weight
    assert (got.float() - expected.float()).abs().max() < 0.01 * expected.abs().max()
    ids = torch.tensor(
        [whole.encode_prompt({"prompt": "Name three rivers of Europe and the seas they flow into."})]
    )
    with torch.inference_mode():
        same = packed.model(ids).logits.argmax(-1) == whole.model(ids).logits.argmax(-1)
    assert same.float().mean() > 0.9


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 64), (1, 9, 64), (2, 300, 64)])
def test_packing_alone_changes_no_weight(bias, shape):
    """The product is the plain layer's, for any number of rows, but for the order of its sums."""
    linear = layer(bias=bias)
    x = torch.randn(shape).bfloat16()
    torch.testing.assert_close(PackedLinear(linear)(x), linear(x), atol=0.03, rtol=0.02)


def test_a_packed_model_decodes():
    """Through transformers' own code and through the short way of the tokens adapter, with the same logits."""
    from draftverify import Proposal
    from draftverify.testing import make_context
    from draftverify_tokens.reader import Reader
    from tests.tokens.tiny import tiny_llama

    model = tiny_llama(64).bfloat16()
    ids = [1, 2, 3, 4, 5]
    before = model(torch.tensor([ids])).logits[0, -1]
    pack(model, "bfloat16")
    torch.testing.assert_close(model(torch.tensor([ids])).logits[0, -1], before, atol=0.1, rtol=0.05)
    assert type(model.model.layers[0].self_attn.k_proj) is Part
    read = Reader(model).read([make_context({"prompt_ids": ids})], [Proposal.chain(())]).logits[0]
    torch.testing.assert_close(read, before, atol=0.1, rtol=0.05)
