"""Weights of layers that read the same input, laid behind each other in memory, so that one product can read them all.

Each layer keeps its own parameters, the same objects as before: whoever trains, edits or replaces one of them does so
as in any model, and who wants one product looks first whether the weights still lie there.
"""

from __future__ import annotations

from typing import Any

import torch

JOINT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers that read the same input, in most models: one product in the place of several small ones."""


def lay_side_by_side(model: Any) -> None:
    """Move the weights of such layers into one piece of memory for each group.

    Args:
        model: a module whose weights nobody else keeps views of.
    """
    for module in model.modules():
        for names in JOINT:
            linears = [getattr(module, name, None) for name in names]
            if all(type(linear) is torch.nn.Linear for linear in linears) and alike(linears):
                _lay([linear.weight for linear in linears])
                if linears[0].bias is not None:
                    _lay([linear.bias for linear in linears])


def alike(linears: list[Any]) -> bool:
    """Whether layers have the same number of inputs, and all of them a bias or none."""
    first = linears[0]
    return all(
        linear.in_features == first.in_features and (linear.bias is None) is (first.bias is None)
        for linear in linears
    )


def _lay(parameters: list[Any]) -> None:
    with torch.inference_mode(False), torch.no_grad():  # tensors made in inference mode cannot be trained
        joined = torch.cat(parameters)
        parts = joined.split([len(parameter) for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        # `data` of its own: views of one tensor would share its count of changes, and a weight that is updated in the
        # midst of a backward pass (an optimizer in a hook) would spoil its neighbours'.
        parameter.data = part.data
