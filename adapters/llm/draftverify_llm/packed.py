"""Weights in the layout that a CPU's matrix units read, for a model in bfloat16, whose steps are spent in reading them.

`PackedLinear` keeps the bfloat16 weights and orders them once, where a plain layer has them ordered anew at every
product. `Int4Linear` rounds them to the nearest of 16 values between the least and the largest of their group of 32:
the form of a GGUF file's Q4_1, so a model that came from one has the codes that the file has. Embeddings and head are
not rounded, as in such files: four bits there cost most. `Int4Head` rounds the head as well and makes good what that
costs where it matters, at the likeliest tokens. All call torch's own kernels directly; a tensor subclass in between
(torchao) costs more than a small product.

The bfloat16 kernel wants instructions that many processors lack (AVX-512, or AVX-NE-CONVERT). There a layer that was
to keep its bits stays torch's own: the same results without the gain. The four-bit kernel has a form for any processor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from threading import Lock
from typing import Any, Literal, get_args
from weakref import ref

import torch
from torch.nn import functional

from draftverify.errors import ConfigError
from draftverify_llm.side_by_side import JOINT, alike

log = logging.getLogger("draftverify.llm")

GROUP = 32
OUTPUTS = 16
"""The four-bit product makes a multiple of so many outputs."""
FEW = 32
"""Rows up to which the packed kernel is quicker than making the weights bfloat16 again, as for a prompt."""
LIKELIEST = 64
"""Tokens whose logits a rounded head computes again with its own weights."""


How = Literal["bfloat16", "int4", "int4_head"]


@cache
def obstacle() -> str | None:
    """What keeps `PackedLinear` from running here, in torch's words; None: it runs.

    A small product is tried: which instructions it takes is for torch and oneDNN to say, and differs between releases.
    """
    like: Any = {"device": "cpu", "dtype": torch.bfloat16}
    # Nothing is drawn for these weights: the caller's random numbers stay what they would have been.
    linear = torch.nn.utils.skip_init(torch.nn.Linear, GROUP, OUTPUTS, **like)
    try:
        PackedLinear(linear)(torch.ones(1, GROUP, **like))
    # A build without oneDNN has no such name; a processor without the instructions is refused.
    except (AttributeError, RuntimeError) as error:
        return str(error).partition("\n")[0]
    return None


_telling = Lock()


@cache
def _tell(why: str) -> None:
    log.warning(
        "bfloat16 weights cannot be packed on this processor: they stay as they are, with the same results, "
        "at the speed of a model that is not packed (torch: %s)",
        why,
    )


class Packed(torch.nn.Module):
    """A layer whose weights are where its products read them: it stays in bfloat16 on the CPU, and is not saved.

    Without these errors a saved model would lack the weights, and a moved one would fail in the middle of a product.
    """

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        moved = fn(torch.empty(0, dtype=torch.bfloat16))
        if moved.dtype != torch.bfloat16 or moved.device.type != "cpu":
            raise ConfigError(
                f"a packed model stays in bfloat16 on the CPU; load it without `packed` for {moved.dtype} on "
                f"{moved.device}",
                path="packed",
            )
        return super()._apply(fn, recurse)

    def _save_to_state_dict(self, *_: Any) -> None:
        raise ConfigError("a packed model cannot be saved; load it without `packed`", path="packed")

    def __getstate__(self) -> Any:
        raise ConfigError("a packed model cannot be copied or saved; load it again", path="packed")


class PackedLinear(Packed):
    """A linear layer whose bfloat16 weights lie as oneDNN's products read them; the plain ones are not kept.

    Args:
        linear: the layer, in bfloat16 on a CPU that has no `obstacle`.
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


class Int4Linear(Packed):
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
        flat = x.reshape(-1, self.in_features).contiguous()
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


class Int4Head(Int4Linear):
    """A head in four bits; the logits of its likeliest tokens come from the weights as they were.

    Rounded alone, its likeliest token would be another one at every seventh place (SmolLM2-135M).

    Args:
        linear: the head, as `Int4Linear`'s layer; its weights, often those of the embeddings, are kept.
    """

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__(_widened(linear))
        self.tokens = linear.out_features
        self._weight = (linear.weight.detach(),)  # in a tuple, since it is the embeddings' parameter

    def forward(self, x: Any) -> Any:
        """[…, inputs] to […, outputs]."""
        logits = super().forward(x)[..., : self.tokens]
        likeliest = logits.topk(min(LIKELIEST, self.tokens), dim=-1).indices
        exact = torch.matmul(self._weight[0][likeliest], x.unsqueeze(-1)).squeeze(-1)
        if self.bias is not None:
            exact = exact + self.bias[likeliest]
        return logits.scatter_(-1, likeliest, exact)


def _widened(linear: torch.nn.Linear) -> torch.nn.Linear:
    """The layer with as many outputs as the four-bit product takes; those that are added are 0."""
    outputs = -(-linear.out_features // OUTPUTS) * OUTPUTS
    if outputs == linear.out_features:
        return linear
    wide = torch.nn.Linear(linear.in_features, outputs, bias=linear.bias is not None, device="meta")
    for name, values in linear.named_parameters():
        zeros = values.new_zeros((outputs - linear.out_features, *values.shape[1:]))
        setattr(wide, name, torch.nn.Parameter(torch.cat([values.detach(), zeros]), requires_grad=False))
    return wide


def _rounded(weight: Any) -> tuple[Any, Any]:
    """Codes [outputs, inputs] in 0 … 15, and [groups, outputs, 2] scale and middle: w ≈ (code − 8)·scale + middle."""
    outputs, inputs = weight.shape
    groups = weight.view(outputs, inputs // GROUP, GROUP)
    low, high = groups.amin(dim=-1), groups.amax(dim=-1)
    scale = ((high - low) / 15).clamp(min=1e-12)
    codes = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).to(torch.int32)
    table = torch.stack([scale, low + 8 * scale], dim=-1).transpose(0, 1)
    return codes.view(outputs, inputs), table.contiguous().bfloat16()


class Joint(torch.nn.Module):
    """Layers that read the same input, packed as one.

    Whoever calls the layers one by one (transformers' own forward) has the product made once all the same: the first
    call leaves the others their outputs, which each of them takes once.

    Args:
        packed: the layer of all outputs, one layer's after the other's.
        layers: how many there are.
    """

    def __init__(self, packed: PackedLinear | Int4Linear, layers: int) -> None:
        super().__init__()
        self.packed = packed
        self.layers = layers
        # One tuple, since threads may share the model: who finds another's input there makes its own product.
        self._left: tuple[Callable[[], Any], Any, frozenset[int]] = _NOTHING

    def forward(self, x: Any) -> Any:
        """[…, inputs] to […, all outputs]."""
        return self.packed(x)

    def once(self, x: Any, layer: int) -> Any:
        """The same for one of the layers, which takes what another one's call made of this very `x`, if it did."""
        of_x, out, users = self._left
        if of_x() is x and layer not in users:
            users |= {layer}
        else:
            out, users = self.packed(x), frozenset({layer})
        self._left = (ref(x), out, users) if len(users) < self.layers else _NOTHING
        return out


_NOTHING: Any = (lambda: None, None, frozenset())


class JointPart(torch.nn.Module):
    """Some outputs of a layer that was packed together with others.

    Args:
        joint: the layers together.
        layer: which of them.
        start, end: its outputs.
    """

    def __init__(self, joint: Joint, layer: int, start: int, end: int) -> None:
        super().__init__()
        self.joint = joint
        self.layer, self.start, self.end = layer, start, end

    def forward(self, x: Any) -> Any:
        """[…, inputs] to […, outputs]; who wants all parts calls `joint`."""
        return self.joint.once(x, self.layer)[..., self.start : self.end]


def pack(module: Any, how: How) -> None:
    """Replace the linear layers of a causal language model by packed ones; of its head only the layout changes.

    Where there is an `obstacle`, layers that would change in layout alone stay as they are; the log says so once.

    Args:
        module: the model.
        how: "bfloat16" changes no weight, "int4" rounds all layers but the head, "int4_head" the head too.

    Raises:
        ConfigError: `how` is none of these; the model is not in bfloat16 on a CPU, is packed already or has no linear
            layers; or a layer's size does not fit. The model is as it was then.
    """
    if how not in get_args(How):
        raise ConfigError(f"packed is one of {', '.join(get_args(How))}, not {how!r}", path="packed")
    rounded = how != "bfloat16"
    parameter = next(module.parameters(), None)
    if parameter is not None:
        _check(parameter, "this model")
    if any(isinstance(part, Packed) for part in module.modules()):
        raise ConfigError("this model is packed already; load it again to pack it otherwise", path="packed")
    head = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    groups = list(_found(module))
    body = [(name, linears) for _, name, _, linears in groups if linears[0] is not head or how == "int4_head"]
    if not (body if rounded else groups):
        raise ConfigError(
            f"packed weights are torch.nn.Linear layers'; {type(module).__name__} has none"
            + (" but its head" if groups else ""),
            path="packed",
        )
    # All of them before the first is replaced.
    for _, name, names, linears in groups:
        for child, linear in zip(names, linears, strict=True):
            _check(linear.weight, f"layer {name.removesuffix(names[0])}{child}")
    for name, linears in body if rounded else ():
        inputs, outputs = linears[0].in_features, sum(linear.out_features for linear in linears)
        if inputs % GROUP or (outputs % OUTPUTS and linears[0] is not head):
            raise ConfigError(
                f"layer {name} is {outputs} x {inputs}; four-bit weights need inputs divisible by {GROUP} and outputs "
                f"by {OUTPUTS}",
                path="packed",
            )
    for parent, _, names, linears in groups:
        if linears[0] is head and how == "int4_head":
            replacements: list[torch.nn.Module] = [Int4Head(linears[0])]
        elif rounded and linears[0] is not head:
            replacements = _packed_together(linears, Int4Linear)
        elif (why := obstacle()) is None:
            replacements = _packed_together(linears, PackedLinear)
        else:
            with _telling:  # two models may be loaded at once
                _tell(why)
            continue
        for child, part in zip(names, replacements, strict=True):
            setattr(parent, child, part)


def _check(weight: Any, label: str) -> None:
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16:
        raise ConfigError(
            f"packed weights are for bfloat16 on a CPU; {label} is {weight.dtype} on {weight.device}",
            path="packed",
        )


def _found(module: Any) -> Iterator[tuple[Any, str, tuple[str, ...], list[Any]]]:
    """The linear layers, those that can be one product together: their parent, the first's name, their names, they."""
    for name, parent in module.named_modules():
        children = dict(parent.named_children())
        linears = {key: child for key, child in children.items() if type(child) is torch.nn.Linear}
        for joint in JOINT:
            if all(key in linears for key in joint) and alike([linears[key] for key in joint]):
                yield parent, f"{name}.{joint[0]}".lstrip("."), joint, [linears.pop(key) for key in joint]
        for key, linear in linears.items():
            yield parent, f"{name}.{key}".lstrip("."), (key,), [linear]


def _packed_together(
    linears: list[Any], kind: type[PackedLinear] | type[Int4Linear]
) -> list[torch.nn.Module]:
    if len(linears) == 1:
        return [kind(linears[0])]
    sizes = [linear.out_features for linear in linears]
    has_bias = linears[0].bias is not None
    joined = torch.nn.Linear(linears[0].in_features, sum(sizes), bias=has_bias, device="meta")
    for name, _ in linears[0].named_parameters():
        values = torch.cat([getattr(linear, name) for linear in linears])
        setattr(joined, name, torch.nn.Parameter(values, requires_grad=False))
    joint = Joint(kind(joined), len(linears))
    ends = accumulate(sizes)
    return [
        JointPart(joint, layer, end - size, end)
        for layer, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
