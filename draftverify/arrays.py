"""Arrays of NumPy and torch, of a host and of a device, used alike; and the rows of many blocks put into one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_array

from draftverify.randomness import array_namespace
from draftverify.values import Array, Place

READ_BY_NUMPY = frozenset({"torch.float32", "torch.float64", "torch.int64"})
HALF = frozenset({"torch.bfloat16", "torch.float16"})


def on_host(array: Array) -> bool:
    """Whether a look at the array's values costs no transfer."""
    return isinstance(array, np.ndarray) or str(device(array)) == "cpu"


def host_to(like: Array, values: Any) -> Array:
    """As an array of the kind of `like`, on its device. Host numbers go through NumPy, which keeps float64."""
    if not hasattr(values, "shape") or isinstance(like, np.ndarray):
        values = np.asarray(values)
    if isinstance(like, np.ndarray):
        return values
    if isinstance(values, np.ndarray) and is_torch_array(like) and like.device.type == "cuda":
        # What is not pinned is waited for, as long as all that the device has been given to do.
        return array_namespace(like).asarray(values).pin_memory().to(like.device, non_blocking=True)
    return array_namespace(like).asarray(values, device=device(like))


def all_to(like: Array, *values: Any) -> list[Array]:
    """`host_to` for several arrays of int64 or float64, in one copy to a CUDA device; what lies there stays."""
    if not is_torch_array(like) or like.device.type != "cuda":
        return [host_to(like, value) for value in values]
    host = [value if hasattr(value, "device") else np.asarray(value) for value in values]
    packed = [np.ravel(array).view(np.int64) for array in host if isinstance(array, np.ndarray)]
    sent, start, arrays = host_to(like, np.concatenate(packed)), 0, []
    for value in host:
        if isinstance(value, np.ndarray):
            part = sent[start : start + value.size].view(getattr(array_namespace(like), value.dtype.name))
            start, value = start + value.size, part.reshape(value.shape)
        arrays.append(value)
    return arrays


def at_hand(array: Array, like: Array = None) -> Array:
    """The array, on the device of `like`; a torch tensor on the host as NumPy, whose calls cost a third of torch's.

    One of half precision becomes float32: NumPy has no bfloat16, and residuals are differences of nearly equal rows.
    """
    if isinstance(array, np.ndarray):
        return array if like is None or isinstance(like, np.ndarray) else host_to(like, array)
    if is_torch_array(array) and array.device.type == "cpu":
        array = array.float() if str(array.dtype) in HALF else array
        array = array.detach().numpy() if str(array.dtype) in READ_BY_NUMPY else array
    if like is None or (isinstance(array, np.ndarray) and isinstance(like, np.ndarray)):
        return array
    return host_to(like, array)


def floats(rows: Array) -> Array:
    """The rows; as float32 where they came as integers, as one-hot ones do, which have no room for a residual."""
    xp = array_namespace(rows)
    return rows if xp.isdtype(rows.dtype, "real floating") else xp.astype(rows, xp.float32)


def positive(x: Array) -> Array:
    """(x)₊; a NaN stays one, so that it is found and not drawn from."""
    xp = array_namespace(x)
    return xp.maximum(x, xp.zeros_like(x[..., :1]))


def mass(weights: Array) -> Array:
    """The sums of rows, as float64, and of half precision not rounded to it."""
    if isinstance(weights, np.ndarray) and weights.dtype == np.float32:
        # The same without the wrappers, which cost as much as the sum: a walk down a tree takes many.
        return np.add.reduce(weights, axis=-1).astype(np.float64)
    xp = array_namespace(weights)
    dtype = weights.dtype if weights.dtype == xp.float64 else xp.float32
    return xp.astype(xp.sum(weights, axis=-1, dtype=dtype), xp.float64)


def places(true: Array) -> Array:
    """[r], where an array [m] is true; on a device, whose values are not looked at, everywhere."""
    xp = array_namespace(true)
    return xp.nonzero(true)[0] if on_host(true) else xp.arange(true.shape[0], device=device(true))


def row_of(rows: Array, b: Array, i: Array) -> Array:
    """[m, V], of the rows [batch, rows, V] the i-th [m] of block b [m]; a single one on the host without a copy."""
    return rows[int(b[0]), int(i[0]), :][None, :] if b.shape[0] == 1 and on_host(rows) else rows[b, i]


def leading(true: Array) -> Array:
    """[m], how many of each row [m, n] are true before the first that is not; n is at least 1."""
    xp, n = array_namespace(true), true.shape[-1]
    return xp.min(xp.where(true, n, xp.arange(n, device=device(true))), axis=-1)


def top(p: Array) -> tuple[Array, Array]:
    """The argmax of each row of p [..., V], the lowest index of equals, and its probability."""
    xp = array_namespace(p)
    index = xp.argmax(p, axis=-1)
    return index, xp.take_along_axis(p, index[..., None], axis=-1)[..., 0]


def one_hot(items: Array, like: Array) -> Array:
    """[..., V] with all mass on each of the items [...]; V, dtype and device of `like`."""
    xp, on = array_namespace(like), device(like)
    flat = xp.reshape(items, (-1,))
    rows = xp.zeros((flat.shape[0], like.shape[-1]), dtype=like.dtype, device=on)
    rows[xp.arange(flat.shape[0], device=on), flat] = 1
    return xp.reshape(rows, (*items.shape, like.shape[-1]))


def stack(rows: Sequence[Array], length: int) -> Array:
    """[batch, length, …] from arrays of up to `length` rows; what is missing is zero."""
    like = rows[0]
    xp = array_namespace(like)
    if all(row.shape[0] == length for row in rows):
        return like[None, ...] if len(rows) == 1 else xp.stack(list(rows))
    stacked = xp.zeros((len(rows), length, *like.shape[1:]), dtype=like.dtype, device=device(like))
    for b, row in enumerate(rows):
        stacked[b, : row.shape[0]] = row
    return stacked


def together(
    rows: Sequence[Array], places: Sequence[Place | None], most: int | None = None, like: Array = None
) -> Array:
    """[batch, rows, V] of each block's rows, as floats; what a block lacks holds anything.

    Nothing is copied for one block, nor for those that follow each other in the array of a whole pass.

    Args:
        rows: one array [rows, V] per block.
        places: where each of them stands in the pass's array, where that is known.
        most: how many rows of each at most.
        like: on whose device; that of the rows when None.
    """
    if len(rows) == 1:  # at hand first: what follows costs less in NumPy
        return at_hand(floats(at_hand(rows[0]))[:most], like)[None, ...]
    shared: Any = None if places[0] is None else places[0].whole
    found = [
        place.index
        for place, row in zip(places, rows, strict=True)
        if place is not None and place.whole is shared and place.rows is row
    ]
    if len(found) == len(rows):
        first, last = found[0], found[-1] + 1
        at = slice(first, last) if found == list(range(first, last)) else host_to(shared, found)
        return at_hand(floats(shared[at, :most]), like)
    held = [at_hand(floats(row[:most]), like) for row in rows]
    return stack(held, max(row.shape[0] for row in held))
