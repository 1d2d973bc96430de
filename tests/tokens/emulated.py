"""A CUDA device that is not there: tensors in the host's memory that say they lie on one, and what it would count.

`Emulation` is entered; `put` moves a module over. From then on torch's calls make tensors of `OnDevice` where they are
asked for "cuda", every operation on those is seen, and what a real device would do differently is done differently:

- **Capture** runs nothing that lasts: what the captured operations wrote is undone, what they made is spoilt. A replay
  runs the recorded operations again on the very same tensors. What the host knew at capture is frozen; a buffer that
  was replaced since is still the one that is written. To wait or to read a value in a capture raises.
- **Copies that are not waited for**: to the host, they arrive at the next wait, and until then there is nonsense in
  their place. From pinned memory, what the host overwrites before a wait is an error, since the device may not have
  read it yet.
- **Mixed devices** raise, except where CUDA allows it: single numbers, and indices (a copy that is waited for).
- **torch.compile** is Dynamo's with the backend "eager": guards, recompilations and limits are real, kernels are not.
  A break of the graph and a recompile limit that is reached are errors. It compiles functions of tensors; modules are
  run as they are.

What it does not show: time, overlap, the order of several streams (there is one), memory that is freed while a graph
still uses it, kernels that wait inside (some sorts do), another rounding, and what inductor makes of an operation. Code
that is traced by Dynamo sees tensors on the CPU. A kernel here is an operation of ATen, which may be several there.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from draftverify_tokens.slots import RowGroup

__all__ = ["Counts", "Emulation", "OnDevice"]

CUDA = torch.device("cuda", 0)
INSIDE = torch.device("meta")
"""What torch's C++ is told where Python says "cuda": a build without CUDA has no guard for a CUDA device."""
aten = torch.ops.aten
TorchDispatchMode: Any = torch.utils._python_dispatch.TorchDispatchMode
_without_modes = torch.utils._python_dispatch._disable_current_modes
WAITS = {
    aten._local_scalar_dense: "item",
    aten.nonzero: "nonzero",
    aten.masked_select: "mask",
    aten.equal: "equal",
    aten._unique2: "unique",
    aten.bincount: "bincount",
}
INDEXED = (aten.index, aten.index_put, aten.index_put_, aten._unsafe_index, aten._index_put_impl_)
NO_KERNEL = (
    aten._local_scalar_dense,
    aten.empty,
    aten.empty_like,
    aten.new_empty,
    aten.empty_strided,
    aten.new_empty_strided,
)
FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor)


@dataclass
class Counts:
    """What happened since the last `reset`.

    Args:
        launches: replays of graphs.
        operations: kernels that were started one by one, outside of graphs and compiled functions.
        compiled: calls of compiled functions, outside of graphs.
        captures, compilations: how often.
        waits: by kind, how often the host waited for the device.
        uploads, downloads: copies by the host's kind of memory, "pinned" or "pageable".
    """

    launches: int = 0
    operations: int = 0
    compiled: int = 0
    captures: int = 0
    compilations: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    uploads: Counter[str] = field(default_factory=Counter)
    downloads: Counter[str] = field(default_factory=Counter)


class OnDevice(torch.Tensor):
    """A tensor that says it lies on a CUDA device."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    inner: torch.Tensor
    emulation: Emulation

    @staticmethod
    def __new__(cls, inner: torch.Tensor, emulation: Emulation) -> OnDevice:
        with torch.inference_mode(False):
            made = torch.Tensor._make_wrapper_subclass(
                cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
                dtype=inner.dtype, device=INSIDE,
            )  # fmt: skip
        made.inner, made.emulation = inner, emulation
        return made

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = is_meta = property(lambda self: False)

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        held = next(each for each in tree_leaves((args, kwargs)) if isinstance(each, OnDevice))
        return held.emulation.run(func, args, kwargs or {})  # of another thread, which has no mode


class _Seen(TorchDispatchMode):
    """Hands every operation over."""

    def __init__(self, emulation: Emulation, compiled: bool = False) -> None:
        super().__init__()
        self.emulation, self.compiled = emulation, compiled

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.emulation.run(func, args, kwargs or {}, self.compiled)


class _Named(TorchFunctionMode):
    """Has "cuda" in torch's calls mean the emulated device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device or getattr(func, "__name__", "") == "__get__":
            return func(*args, **kwargs)
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            return func(args[0], _indices(args[1]), *args[2:])
        if func is torch.Tensor.cuda:
            return args[0].to(INSIDE, non_blocking=kwargs.get("non_blocking", False))
        if func in (torch.Tensor.pin_memory, torch.Tensor.is_pinned):
            args, kwargs = args[:1], {}
        args, kwargs = tuple(map(_named, args)), {key: _named(each) for key, each in kwargs.items()}
        if func in FROM_DATA:  # whose C++ reads no values for a meta tensor
            source = args[1] if func is torch.Tensor.new_tensor else args[0]
            on = kwargs.pop("device", args[0].device if func is torch.Tensor.new_tensor else None)
            make = torch.tensor if func is torch.Tensor.new_tensor else func
            made = source if isinstance(source, OnDevice) else make(source, **kwargs)
            return made if on is None else made.to(_named(on), kwargs.get("dtype") or made.dtype)
        return func(*args, **kwargs)


def _named(value: Any) -> Any:
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return INSIDE
    return INSIDE if isinstance(value, torch.device) and value.type == "cuda" else value


def _indices(index: Any) -> Any:
    """Lists among indices as tensors on the host, which torch's C++ would make empty ones of."""
    if isinstance(index, tuple):
        return tuple(map(_indices, index))
    return torch.as_tensor(index) if isinstance(index, (list, np.ndarray)) else index


class _Tape:
    """The operations of a capture."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], Any]] = []
        self.made: list[torch.Tensor] = []
        self.before: dict[int, tuple[Any, Any]] = {}

    def owns(self, tensor: torch.Tensor) -> bool:
        return any(_storage(tensor) == _storage(each) for each in self.made)

    def save(self, tensor: torch.Tensor) -> None:
        """Remember what a tensor from outside holds, which the capture must not change."""
        if _storage(tensor) not in self.before and not self.owns(tensor):
            whole = tensor.untyped_storage()
            self.before[_storage(tensor)] = whole, whole.clone()

    def end(self) -> None:
        for whole, old in self.before.values():
            whole.copy_(old)
        for tensor in self.made:
            _spoil(tensor)
        self.before = {}


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _spoil(tensor: torch.Tensor) -> None:
    kind = tensor.dtype
    tensor.fill_(float("nan") if kind.is_floating_point else False if kind == torch.bool else -(2**30))


class Emulation:
    """An emulated CUDA device; a context manager. `counts` says what happened."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.tape: _Tape | None = None
        self._clock = 0
        self._pinned: list[
            tuple[int, int, Any]
        ] = []  # first address, end, what keeps it from being used again
        self._pending: list[tuple[int, str, torch.Tensor, torch.Tensor]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Emulation:
        torch._dynamo.reset()
        own = {"emulation": self}
        stream = type("Stream", (_Stream,), own)
        fakes: dict[str, Any] = {
            "is_available": lambda: True, "is_initialized": lambda: True, "device_count": lambda: 1,
            "current_device": lambda: 0, "device": lambda *_: nullcontext(), "stream": lambda *_: nullcontext(),
            "synchronize": lambda *_: self.wait("device"), "current_stream": lambda *_: stream(),
            "Stream": stream, "Event": type("Event", (_Event,), own), "CUDAGraph": type("Graph", (_Graph,), own),
            "graph": self._capture, "graph_pool_handle": lambda: (0, 0),
            "is_current_stream_capturing": lambda: self.tape is not None,
        }  # fmt: skip
        for name, fake in fakes.items():
            self._stack.enter_context(mock.patch.object(torch.cuda, name, fake))
        self._stack.enter_context(mock.patch.object(torch, "compile", self._compile))
        self._compiler = torch._dynamo.optimize
        self._stack.enter_context(torch._dynamo.config.patch(fail_on_recompile_limit_hit=True))
        self._stack.enter_context(_Seen(self))
        self._stack.enter_context(_Named())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def reset(self) -> Counts:
        """Count from zero again; what was counted."""
        self.counts, found = Counts(), self.counts
        return found

    def put(self, module: Any) -> Any:
        """The module itself, its weights and buffers now on the device."""
        moved: dict[int, Any] = {}
        for part in module.modules():
            for kind in (part._parameters, part._buffers):
                for name, tensor in kind.items():
                    if tensor is None or isinstance(tensor, OnDevice):
                        continue
                    if id(tensor) not in moved:
                        made: Any = OnDevice(tensor.detach(), self)
                        moved[id(tensor)] = (
                            torch.nn.Parameter(made, False) if kind is part._parameters else made
                        )
                    kind[name] = moved[id(tensor)]
        return module

    # Waiting

    def wait(self, kind: str, until: int | None = None) -> None:
        """The host waits: all that was started before `until` has happened."""
        self._refuse(kind)
        self.counts.waits[kind] += 1
        self.arrive(until)

    def arrive(self, until: int | None = None) -> None:
        """Copies that were started before `until` have happened."""
        due = [each for each in self._pending if until is None or each[0] <= until]
        self._pending = [each for each in self._pending if until is not None and each[0] > until]
        for _, way, host, values in due:
            if way == "down":
                host.copy_(values)
            elif not torch.equal(host, values):
                raise RuntimeError(
                    "pinned memory was overwritten before the device can be known to have read it"
                )

    def _later(self, way: str, host: torch.Tensor, values: torch.Tensor) -> None:
        self._clock += 1
        self._pending.append((self._clock, way, host, values))

    def _refuse(self, what: str) -> None:
        if self.tape is not None:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({what})")

    # Pinned memory

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        whole = tensor.untyped_storage()
        bisect.insort(
            self._pinned, (whole.data_ptr(), whole.data_ptr() + whole.nbytes(), whole), key=lambda e: e[0]
        )
        return tensor

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        at = tensor.data_ptr()
        index = bisect.bisect_right(self._pinned, at, key=lambda entry: entry[0]) - 1
        return index >= 0 and at < self._pinned[index][1]

    # Operations

    def run(self, func: Any, args: Any, kwargs: Any, compiled: bool = False) -> Any:
        """One operation of ATen."""
        packet, kwargs = func.overloadpacket, dict(kwargs)
        if packet is aten.is_pinned:
            return not isinstance(args[0], OnDevice) and self.is_pinned(args[0])
        if packet is aten._pin_memory:
            return self.pin(args[0].clone())
        if not compiled and _composite(func):  # comes whole in inference mode
            with _Seen(self):
                return func.decompose(*args, **kwargs)
        pinned, where = kwargs.pop("pin_memory", False), kwargs.get("device")
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        here = [each for each in tensors if isinstance(each, OnDevice)]
        if packet in (aten._to_copy, aten.copy_) and not compiled:
            return self._copied(func, args, kwargs)
        if where is not None and torch.device(where).type in ("meta", "cuda"):
            kwargs["device"] = torch.device("cpu")
        elif not here and not compiled:
            found = func(*args, **kwargs)
            return self.pin(found) if pinned else found
        if not (
            compiled and packet is aten._local_scalar_dense
        ):  # a number of the host's, which Dynamo made a tensor
            self._check(packet, args, kwargs, tensors)
        known = {id(each.inner): each for each in here}
        args, kwargs = tree_map(_inner, (args, kwargs))
        found = self._done(func, args, kwargs, single=not compiled)
        return found if compiled else tree_map(lambda each: self._wrapped(each, known), found)

    def _wrapped(self, each: Any, known: dict[int, Any]) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return known[id(each)] if id(each) in known else OnDevice(each, self)

    def _done(self, func: Any, args: Any, kwargs: Any, *, single: bool) -> Any:
        """Run it on the host's tensors; count it, or put it on the tape."""
        tape, packet, changes = self.tape, func.overloadpacket, func._schema.is_mutable
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if tape is not None and changes:
            for argument, value in zip(func._schema.arguments, args, strict=False):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    list(map(tape.save, tree_leaves(value)))
        found = func(*args, **kwargs)
        held = {_storage(each) for each in given}
        results = [each for each in tree_leaves(found) if isinstance(each, torch.Tensor)]
        fresh = [each for each in results if _storage(each) not in held]
        kernel = (changes or bool(fresh) or not results) and packet not in NO_KERNEL
        if tape is None:
            self.counts.operations += kernel and single
            return found
        tape.made += fresh
        if kernel:
            tape.steps.append(lambda: _again(func, args, kwargs, results if fresh and not changes else ()))
        return found

    def _check(self, packet: Any, args: Any, kwargs: Any, tensors: list[Any]) -> None:
        """Count what the operation waits for, and refuse what a device would."""
        if packet in WAITS:
            self.wait(WAITS[packet])
        elif packet is aten.repeat_interleave and kwargs.get("output_size") is None:
            self.wait("repeat_interleave")
        free: list[Any] = []
        if packet in INDEXED:
            free = [each for each in args[1] if each is not None]
            if any(each.dtype in (torch.bool, torch.uint8) for each in free):
                self.wait("mask")
            for each in free:
                if isinstance(tensors[0], OnDevice) and not isinstance(each, OnDevice):
                    self._upload(each, waits=True)
        mixed = any(isinstance(each, OnDevice) for each in tensors)
        for each in tensors:
            if (
                mixed
                and not isinstance(each, OnDevice)
                and each.dim()
                and not any(each is own for own in free)
            ):
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                    f"({packet})"
                )

    # Copies

    def _copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        """`_to_copy` and `copy_`, between memories or within one."""
        into = func.overloadpacket is aten.copy_
        target, source = (args[0], args[1]) if into else (None, args[0])
        quick = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        where = kwargs.get("device")
        if into:
            there = isinstance(target, OnDevice)
        else:
            there = isinstance(source, OnDevice) if where is None else torch.device(where).type != "cpu"
        here = isinstance(source, OnDevice)
        if where is not None:
            kwargs["device"] = torch.device("cpu")
        plain = tree_map(_inner, args)
        if not here and not there:
            return func(*args, **kwargs)
        if there:
            if not here and source.dim() + source.numel() and not (into and not source.dim()):
                self._upload(source, waits=not quick)
            found = self._done(func, plain, kwargs, single=here)
            return target if into else OnDevice(found, self)
        self._refuse("a copy to the host")
        found = plain[0] if into else func(*plain, **kwargs)
        values = plain[1].to(found.dtype).expand(found.shape).clone() if into else found.clone()
        pinned = (
            self.is_pinned(found) if into else quick
        )  # .to("cpu", non_blocking=True) makes it pinned itself
        self.counts.downloads["pinned" if pinned else "pageable"] += 1
        if quick and pinned:
            _spoil(found if into else self.pin(found))
            self._later("down", found, values)
        else:
            self.wait("copy to the host")
            found.copy_(values)
        return target if into else found

    def _upload(self, source: torch.Tensor, *, waits: bool) -> None:
        if not source.numel():
            return  # torch copies nothing then, and waits for nothing
        pinned = self.is_pinned(source)
        if waits or not pinned:
            self._refuse("a copy of memory that is not pinned, or that is waited for")
        if self.tape is not None:
            self.tape.steps.append(lambda: self._upload(source, waits=False))
            return
        self.counts.uploads["pinned" if pinned else "pageable"] += 1
        if waits:
            self.wait("copy to the device")
        elif pinned:
            self._later("up", source, source.clone())

    # Graphs and compilation

    @contextmanager
    def _capture(self, graph: _Graph, *_: Any, **__: Any) -> Iterator[None]:
        self._refuse("another capture")
        self.counts.captures += 1
        self.tape = tape = _Tape()
        try:
            yield
        finally:
            self.tape = None
        with torch.inference_mode(), _without_modes():
            tape.end()
        graph.tape = tape

    def _compile(self, function: Any = None, **how: Any) -> Any:
        if function is None:
            return lambda each: self._compile(each, **how)
        if isinstance(function, torch.nn.Module):
            return function

        compiled = self._compiler(backend=self._backend, nopython=True, dynamic=how.get("dynamic"))(function)

        def call(*args: Any, **kwargs: Any) -> Any:
            known = {id(e.inner): e for e in tree_leaves((args, kwargs)) if isinstance(e, OnDevice)}
            for e in known.values():  # which sizes are dynamic is noted on the tensor
                vars(e.inner).update({k: v for k, v in vars(e).items() if k.startswith("_dynamo")})
            args, kwargs = tree_map(_inner, (args, kwargs))
            self.counts.compiled += self.tape is None
            with _without_modes(), torch.overrides._pop_mode_temporarily(), self._unavailable():
                found = compiled(*args, **kwargs)
            return tree_map(lambda each: self._wrapped(each, known), found)

        return call

    def _backend(self, traced: Any, _: Any) -> Callable[..., Any]:
        """One for all that is compiled, as inductor is: Dynamo shares what equal backends have made of a function."""
        self.counts.compilations += 1

        def run(*inputs: Any) -> Any:
            with _Seen(self, compiled=True):
                return traced(*inputs)

        return run

    def _unavailable(self) -> Any:
        """Dynamo would save the state of the device's own random numbers."""
        return mock.patch.multiple(torch.cuda, is_available=lambda: False, is_initialized=lambda: False)


def warm(reader: Any, rows: int, tokens: int, capacity: int, tails: Sequence[Any] = (None,)) -> None:
    """Compile and capture ahead what steps of so many rows and tokens need, powers of two both.

    Args:
        reader: a `BlockReader` on the device.
        rows: sequences.
        tokens: of each, up to 64.
        capacity: of their shelf, a power of two from 256.
        tails: one step for each of them.
    """
    forward = reader._forward
    nothing = torch.zeros((rows, tokens), dtype=torch.int64, device=reader.device)
    ends, paths = torch.full_like(nothing, capacity - 1), torch.ones_like(nothing)
    with torch.inference_mode():  # as in a pass: Dynamo tells such buffers from others
        shelf = reader.slots.shelf(capacity, rows)
        group = RowGroup(nothing, nothing, ends, shelf, 0, None, capacity, {}, paths=paths)
        forward._prepare([group])
        for tail in tails:
            forward._compiled([group], tail)


@cache
def _composite(func: Any) -> bool:
    made: bool = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return made


def tree_leaves(tree: Any) -> list[Any]:
    """What stands in tuples, lists and dicts; torch's own takes ten times as long."""
    if isinstance(tree, (tuple, list)):
        return [leaf for each in tree for leaf in tree_leaves(each)]
    return tree_leaves(list(tree.values())) if type(tree) is dict else [tree]


def tree_map(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with each leaf changed."""
    if isinstance(tree, (tuple, list)):
        made = [tree_map(change, each) for each in tree]
        return tree._make(made) if hasattr(tree, "_make") else type(tree)(made)
    return {key: tree_map(change, each) for key, each in tree.items()} if type(tree) is dict else change(tree)


def _inner(each: Any) -> Any:
    return each.inner if isinstance(each, OnDevice) else each


def _again(func: Any, args: Any, kwargs: Any, results: Any) -> None:
    found = func(*args, **kwargs)
    for old, new in zip(results, tree_leaves(found) if results else (), strict=False):
        old.copy_(new)


class _Graph:
    emulation: Emulation
    tape: _Tape | None = None

    def replay(self) -> None:
        self.emulation._refuse("a replay")
        self.emulation.counts.launches += 1
        with torch.inference_mode(), _without_modes():
            for step in self.tape.steps if self.tape else ():
                step()

    def reset(self) -> None:
        self.tape = None


class _Stream:
    """The one stream: nothing has to wait for another."""

    emulation: Emulation

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def synchronize(self) -> None:
        self.emulation.wait("stream")

    def record_event(self, event: Any = None) -> Any:
        event = event or torch.cuda.Event()
        event.record()
        return event

    def wait_stream(self, _: Any) -> None: ...

    wait_event = wait_stream


class _Event:
    emulation: Emulation
    at = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, _: Any = None) -> None:
        self.at = self.emulation._clock

    def synchronize(self) -> None:
        self.emulation.wait("event", self.at)

    def query(self) -> bool:
        return all(number > self.at for number, *_ in self.emulation._pending)

    def wait(self, _: Any = None) -> None: ...
