"""Weights that are laid behind each other stay the parameters that they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from draftverify_llm import LocalModel
from draftverify_llm.side_by_side import lay_side_by_side


class Gated(torch.nn.Module):
    """Layers by the names that models have, and one that has another number of inputs."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.q_proj, self.k_proj = torch.nn.Linear(4, 6, bias=bias), torch.nn.Linear(4, 2, bias=bias)
        self.v_proj = torch.nn.Linear(4, 2, bias=bias)
        self.gate_proj, self.up_proj = torch.nn.Linear(4, 3, bias=bias), torch.nn.Linear(5, 3, bias=bias)


def addresses(model: Any, names: tuple[str, ...], kind: str) -> list[int]:
    return [getattr(getattr(model, name), kind).data_ptr() for name in names]


@pytest.mark.parametrize("bias", [True, False])
def test_weights_of_one_input_lie_behind_each_other(bias: bool) -> None:
    """The same objects with the same numbers; layers of different inputs stay where they are."""
    model = Gated(bias)
    before = {name: (id(parameter), parameter.tolist()) for name, parameter in model.named_parameters()}
    apart = addresses(model, ("gate_proj", "up_proj"), "weight")
    lay_side_by_side(model)
    assert {
        name: (id(parameter), parameter.tolist()) for name, parameter in model.named_parameters()
    } == before
    assert addresses(model, ("gate_proj", "up_proj"), "weight") == apart
    for kind, width in (("weight", 4), ("bias", 1)) if bias else (("weight", 4),):
        first, second, third = addresses(model, ("q_proj", "k_proj", "v_proj"), kind)
        assert (second - first, third - second) == (6 * width * 4, 2 * width * 4)


def test_a_weight_may_be_updated_while_its_neighbours_wait_for_their_gradients() -> None:
    """An optimizer in a hook writes in the midst of a backward pass; each weight has its own count of changes."""
    model = Gated(bias=False)
    lay_side_by_side(model)
    x = torch.ones(1, 4, requires_grad=True)
    (model.q_proj(x).sum() + model.k_proj(x).sum() + model.v_proj(x).sum()).backward()
    y = (model.q_proj(x) @ torch.ones(6, 1)).sum() + model.k_proj(x).sum()
    with torch.no_grad():
        model.v_proj.weight.add_(1)
    y.backward()


def test_weights_laid_within_inference_mode_can_be_trained() -> None:
    """They are no inference tensors, of which torch takes no gradient."""
    model = Gated(bias=True)
    with torch.inference_mode():
        LocalModel.from_module(model, None, own=True)
    assert not any(parameter.data.is_inference() for parameter in model.parameters())
    model.q_proj(torch.ones(1, 4)).sum().backward()
    with torch.no_grad():
        model.q_proj.weight.add_(1)
    with torch.inference_mode():
        made_there = Gated(bias=True)
    lay_side_by_side(made_there)


def test_a_module_that_is_handed_in_keeps_its_mode_and_its_weights_places() -> None:
    """Unless it is given away with `own`."""
    model = Gated(bias=False).train()
    before = addresses(model, ("q_proj", "k_proj", "v_proj"), "weight")
    assert not LocalModel.from_module(model, None).owned
    assert model.training
    assert addresses(model, ("q_proj", "k_proj", "v_proj"), "weight") == before
    assert LocalModel.from_module(model, None, own=True).owned
    assert LocalModel("by its name").owned
    assert model.training
    assert addresses(model, ("q_proj", "k_proj", "v_proj"), "weight") != before
