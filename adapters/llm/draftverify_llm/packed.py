"""Weights in the layout that a CPU's matrix units read, for a model in bfloat16, whose steps are spent in reading them.

`PackedLinear` keeps the bfloat16 weights and orders them once, where a plain layer has them ordered anew at every
product. `Int4Linear` rounds them to the nearest of 16 values between the least and the largest of their group of 32:
the form of a GGUF file's Q4_1, so a model that came from one has the codes that the file has. Embeddings and head are
not rounded, as in such files: four bits there cost most. Both call torch's own kernels directly; a tensor subclass in
between (torchao) costs more than a small product.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.nn import functional

from draftverify.errors import ConfigError

__all__ = ["Int4Linear", "PackedLinear", "pack"]

GROUP = 32
FEW = 32
"""Rows up to which the packed kernel is quicker than making the weights bfloat16 again, as for a prompt."""


class PackedLinear(torch.nn.Module):
    """A linear layer whose bfloat16 weights lie as oneDNN's products read them; the plain ones are not kept.

    Args:
        linear: the layer, in bfloat16 on a CPU.
    """

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        # In a tuple: torch knows neither how to copy nor how to save a tensor of this layout.
        self._packed = (torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None),)

    def forward(self, x: Any) -> Any:
        """[…, inputs] to […, outputs]."""
        return torch.ops.mkldnn._linear_pointwise(x, self._packed[0], self.bias, "none", [], "")


class Int4Linear(torch.nn.Module):
    """A linear layer whose weights are packed in four bits; activations and sums stay in bfloat16.

    Args:
        linear: the layer; bfloat16, with inputs divisible by 32 and outputs by 16.
    """

    codes: torch.Tensor
    packed: torch.Tensor
    scales: torch.Tensor

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        codes, scales = _rounded(linear.weight.detach().float())
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        self.register_buffer("codes", (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8))
        self.register_buffer("scales", scales)
        self.bias = linear.bias

    def forward(self, x: Any) -> Any:
        """[…, inputs] to […, outputs]."""
        flat = x.reshape(-1, self.in_features)
        if len(flat) > FEW:
            return functional.linear(x, self.weights(), self.bias)
        out = torch.ops.aten._weight_int4pack_mm_for_cpu(flat, self.packed, GROUP, self.scales)
        if self.bias is not None:
            out = out + self.bias
        return out.view(*x.shape[:-1], self.out_features)

    def weights(self) -> Any:
        """The weights [outputs, inputs] as bfloat16."""
        codes = torch.stack([self.codes & 15, self.codes >> 4], dim=-1).view(self.out_features, -1, GROUP)
        scale, middle = self.scales.transpose(0, 1).unsqueeze(-1).unbind(-2)
        return torch.addcmul(middle, codes.to(torch.bfloat16) - 8, scale).reshape(self.out_features, -1)


def _rounded(weight: Any) -> tuple[Any, Any]:
    """Codes [outputs, inputs] in 0 … 15, and [groups, outputs, 2] scale and middle: w ≈ (code − 8)·scale + middle."""
    outputs, inputs = weight.shape
    groups = weight.view(outputs, inputs // GROUP, GROUP)
    low, high = groups.amin(dim=-1), groups.amax(dim=-1)
    scale = ((high - low) / 15).clamp(min=1e-12)
    codes = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).to(torch.int32)
    table = torch.stack([scale, low + 8 * scale], dim=-1).transpose(0, 1)
    return codes.view(outputs, inputs), table.contiguous().bfloat16()


def pack(module: Any, how: Literal["bfloat16", "int4"]) -> None:
    """Replace the linear layers of a causal language model by packed ones; of its head only the layout changes.

    Raises:
        ConfigError: the model is not in bfloat16 on a CPU, this build of torch has no such products, or a layer's size
            does not fit.
    """
    parameter = next(module.parameters())
    if parameter.device.type != "cpu" or parameter.dtype != torch.bfloat16:
        raise ConfigError(
            f"packed weights are for bfloat16 on a CPU; this model is {parameter.dtype} on {parameter.device}",
            path="packed",
        )
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        raise ConfigError("packed weights need a build of torch with oneDNN for this CPU", path="packed")
    head = module.get_output_embeddings()
    for name, child in list(module.named_modules()):
        if type(child) is not torch.nn.Linear:
            continue
        if how == "int4" and child is not head:
            if child.in_features % GROUP or child.out_features % 16:
                raise ConfigError(
                    f"layer {name} is {child.out_features} x {child.in_features}; four-bit weights need inputs "
                    f"divisible by {GROUP} and outputs by 16",
                    path="packed",
                )
            made: torch.nn.Module = Int4Linear(child)
        else:
            made = PackedLinear(child)
        where, _, last = name.rpartition(".")
        setattr(module.get_submodule(where), last, made)
