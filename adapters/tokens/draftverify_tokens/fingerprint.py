"""What a model is made of at one moment, by which a reader sees that its user has changed it since.

A model may be trained, hooked, patched, adapted and converted between two tasks, and nobody is told. What a reader has
kept (graphs, which code may run the model, and keys and values where those outlive their task) is worth nothing then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any
from weakref import ref

RECORDERS = "transformers.utils.output_capturing"
"""Whose hooks record hidden states when a call asks for them and do nothing else; the first such call leaves them."""


PLAIN = (bool, int, float, str, type(None))
LISTED = 64
"""Longer lists among the attributes are known by their length alone."""


class Fingerprint:
    """What a model is made of.

    Args:
        module: the model.

    Attributes:
        code: its modules, the forwards of their classes and of their own, their hooks, whether attention is causal,
            and the config's words.
        weights: its tensors, where they lie and how often torch has changed each; and the numbers and words among the
            modules' attributes. torch counts no change through `.data`, nor of a tensor made in inference mode.
    """

    def __init__(self, module: Any) -> None:
        import torch

        self.code: list[Any] = [*_plain(getattr(module, "config", None)), *_keys(global_hooks())]
        self.weights: list[Any] = []
        # An address is an object's own only as long as that lives: these say whether it does, and keep storages' own.
        self._parts: list[Any] = []
        self._tensors: list[Any] = []
        self._storages: list[Any] = []
        module_attributes = _own()
        for part in module.modules():
            self._name(part)
            self._name(type(part).forward)
            self.code += hooks_of(part)
            self.code.append(part.__dict__.get("is_causal"))
            for name, value in part.__dict__.items():
                if name in module_attributes:
                    continue
                if isinstance(value, torch.Tensor):
                    self._add(value)
                elif callable(value):
                    self.code.append(name)
                    self._name(value)
                elif (plain := _read(value)) is not _UNREAD:
                    self.weights += name, plain
            for tensor in chain(part._parameters.values(), part._buffers.values()):
                if tensor is not None:
                    self._add(tensor)

    def same_code(self, other: Fingerprint) -> bool:
        """Whether the same code runs the model."""
        return _live(self._parts) and _live(other._parts) and self.code == other.code

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fingerprint):
            return NotImplemented
        live = _live(self._tensors) and _live(other._tensors)
        return live and self.same_code(other) and self.weights == other.weights

    __hash__ = None  # type: ignore[assignment]

    def _name(self, code: Any) -> None:
        """Note something that runs, by its address."""
        self.code.append(id(code))
        with suppress(
            TypeError
        ):  # some callables take no references; those are known by their addresses alone
            self._parts.append(ref(code))

    def _add(self, tensor: Any) -> None:
        if hasattr(tensor, "__tensor_flatten__"):  # without memory of its own: quantised weights may be such
            for name in tensor.__tensor_flatten__()[0]:
                self._add(getattr(tensor, name))
            return
        from torch.multiprocessing.reductions import StorageWeakRef

        self._tensors.append(ref(tensor))
        storage = StorageWeakRef(tensor.untyped_storage())
        self._storages.append(storage)
        changes = 0 if tensor.is_inference() else tensor._version
        self.weights += id(tensor), storage.cdata, tensor.data_ptr(), tensor.dtype, tensor.device, changes


def _live(references: list[Any]) -> bool:
    return all(reference() is not None for reference in references)


def hooks_of(module: Any) -> list[int]:
    """The hooks that a module's call runs before and after its forward, by torch's numbers for them."""
    return _keys((module._forward_pre_hooks, module._forward_hooks))


def global_hooks() -> tuple[Mapping[int, Any], ...]:
    """The hooks of all modules of the process."""
    from torch.nn.modules import module as machinery

    return machinery._global_forward_pre_hooks, machinery._global_forward_hooks


@cache
def _own() -> frozenset[str]:
    """The attributes of every module: its parts, hooks, and mode. Others are its class's, or somebody's."""
    import torch

    return frozenset(torch.nn.Module().__dict__)


def _keys(tables: tuple[Mapping[int, Any], ...]) -> list[int]:
    return [
        number
        for table in tables
        if table
        for number, hook in table.items()
        if getattr(hook, "__module__", None) != RECORDERS
    ]


_UNREAD = object()


def _read(value: Any) -> Any:
    """A number or word, or a short list or mapping of them, as something to compare."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return tuple(value), _read(tuple(value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return len(value), *(map(_read, value) if len(value) <= LISTED else ())
    return _UNREAD


def _plain(config: Any) -> Iterator[Any]:
    """The numbers and words of a config."""
    for name, value in vars(config).items() if config is not None else ():
        if isinstance(value, PLAIN):
            yield name, value
