"""What a fingerprint of a model tells apart; that every edit of a model is seen is in `test_handed_in`."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
import torch

from draftverify_llm import evaluating
from draftverify_tokens.fingerprint import Fingerprint
from tests.tokens.tiny import tiny_llama

pytestmark = pytest.mark.usefixtures("older_objects_apart")


def test_reading_and_modes_leave_it_the_same() -> None:
    """A pass, a gradient and training mode are no changes of what a model computes."""
    model = tiny_llama()
    before = Fingerprint(model)
    ids = torch.tensor([[1, 2, 3]])
    model(input_ids=ids, labels=ids).loss.backward()
    model.train()
    with evaluating(model.modules()):
        assert Fingerprint(model) == before
    assert Fingerprint(model) == before


def test_new_data_at_an_old_address_is_told_apart() -> None:
    """Memory is used again: the address alone does not tell it from what lay there before."""
    model = tiny_llama()
    weight = model.model.layers[0].mlp.up_proj.weight
    for _ in range(20):
        before, numbers = Fingerprint(model), weight.data.clone()
        weight.data = torch.empty(0)
        numbers.view(-1)[1] += 1
        weight.data = numbers
        del numbers
        assert Fingerprint(model) != before


def test_parts_at_an_old_address_are_told_apart() -> None:
    """A module that is gone may have left its address to the next one."""
    model = tiny_llama()
    state = model.model.layers[0].mlp.up_proj.state_dict()
    for _ in range(20):
        before = Fingerprint(model)
        model.model.layers[0].mlp.up_proj = None
        gc.collect()
        model.model.layers[0].mlp.up_proj = torch.nn.Linear(32, 48, bias=False)
        model.model.layers[0].mlp.up_proj.load_state_dict(state)
        assert not Fingerprint(model).same_code(before)


def test_weights_made_in_inference_mode_are_read() -> None:
    """torch counts no changes of them."""
    with torch.inference_mode():
        model = tiny_llama()
    assert model.lm_head.weight.is_inference()
    assert Fingerprint(model) == Fingerprint(model)


def test_it_does_not_keep_a_model() -> None:
    """Nor what was replaced in it."""
    model = tiny_llama()
    model.model.layers[0].forward = model.model.layers[0].forward
    fingerprint, gone = Fingerprint(model), ref(model.model.layers[0].mlp.up_proj.weight)
    model.model.layers[0].mlp.up_proj = torch.nn.Linear(32, 48, bias=False)
    gc.collect()
    assert gone() is None
    whole = ref(model)
    del model
    gc.collect()
    assert whole() is None
    assert fingerprint.code
