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

JOINT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers that read the same input, in most models: one product in the place of several small ones."""
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


class Part(torch.nn.Module):
    """Some outputs of a layer that was packed together with others.

    Args:
        joint: the packed layer.
        start, end: which of its outputs.
    """

    def __init__(self, joint: torch.nn.Module, start: int, end: int) -> None:
        super().__init__()
        self.joint = joint
        self.start, self.end = start, end

    def forward(self, x: Any) -> Any:
        """[…, inputs] to […, outputs]; who wants all parts calls `joint`."""
        return self.joint(x)[..., self.start : self.end]


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
    for name, parent in list(module.named_modules()):
        for names in (*JOINT, *((each,) for each, _ in list(parent.named_children()))):
            linears = [getattr(parent, each, None) for each in names]
            if any(type(linear) is not torch.nn.Linear for linear in linears):
                continue
            rounded = how == "int4" and linears[0] is not head
            made = _packed_together(linears, f"{name}.{names[0]}".lstrip("."), rounded=rounded)
            for each, part in zip(names, made, strict=True):
                setattr(parent, each, part)


def _packed_together(linears: list[Any], name: str, *, rounded: bool) -> list[torch.nn.Module]:
    first = linears[0]
    whole = first
    if len(linears) > 1:
        outputs = sum(linear.out_features for linear in linears)
        whole = torch.nn.Linear(first.in_features, outputs, bias=first.bias is not None, device="meta")
        whole.weight = torch.nn.Parameter(
            torch.cat([linear.weight for linear in linears]), requires_grad=False
        )
        if first.bias is not None:
            whole.bias = torch.nn.Parameter(
                torch.cat([linear.bias for linear in linears]), requires_grad=False
            )
    if rounded and (whole.in_features % GROUP or whole.out_features % 16):
        raise ConfigError(
            f"layer {name} is {whole.out_features} x {whole.in_features}; four-bit weights need inputs divisible by "
            f"{GROUP} and outputs by 16",
            path="packed",
        )
    joint: torch.nn.Module = Int4Linear(whole) if rounded else PackedLinear(whole)
    if len(linears) == 1:
        return [joint]
    parts, start = [], 0
    for linear in linears:
        parts.append(Part(joint, start, start + linear.out_features))
        start += linear.out_features
    return list(parts)
