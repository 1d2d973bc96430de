"""Arrays of NumPy and torch, of a host and of a device, used alike; and the rows of many blocks put into one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from draftverify.values import Array, Place

__all__ = [
    "at_hand",
    "host_to",
    "leading",
    "mass",
    "on_host",
    "one_hot",
    "positive",
    "stack",
    "together",
    "top",
]

READ_BY_NUMPY = frozenset({"torch.float32", "torch.float64", "torch.int64"})


def on_host(array: Array) -> bool:
    """Whether a look at the array's values costs no transfer."""
    return str(device(array)) == "cpu"


def host_to(like: Array, values: Any) -> Array:
    """As an array of the kind of `like`, on its device. Host numbers go through NumPy, which keeps float64."""
    if not hasattr(values, "shape") or isinstance(like, np.ndarray):
        values = np.asarray(values)
    if isinstance(like, np.ndarray):
        return values
    return array_namespace(like).asarray(values, device=device(like))


def at_hand(array: Array, like: Array = None) -> Array:
    """The array, on the device of `like`; a torch tensor on the host as NumPy, whose calls cost a third of torch's."""
    if is_torch_array(array) and array.device.type == "cpu" and str(array.dtype) in READ_BY_NUMPY:
        array = array.detach().numpy()
    if like is None or (isinstance(array, np.ndarray) and isinstance(like, np.ndarray)):
        return array
    return host_to(like, array)


def positive(x: Array) -> Array:
    """(x)₊; a NaN stays one, so that it is found and not drawn from."""
    xp = array_namespace(x)
    return xp.maximum(x, xp.zeros_like(x[..., :1]))


def mass(weights: Array) -> Array:
    """The sums of rows, as float64, and of half precision not rounded to it."""
    xp = array_namespace(weights)
    dtype = weights.dtype if weights.dtype == xp.float64 else xp.float32
    return xp.astype(xp.sum(weights, axis=-1, dtype=dtype), xp.float64)


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
    made = xp.zeros((len(rows), length, *like.shape[1:]), dtype=like.dtype, device=device(like))
    for b, row in enumerate(rows):
        made[b, : row.shape[0]] = row
    return made


def together(
    rows: Sequence[Array], places: Sequence[Place | None], most: int | None = None, like: Array = None
) -> Array:
    """[batch, rows, V] of each block's rows; what a block lacks holds anything.

    Nothing is copied for one block, nor for those that follow each other in the array of a whole pass.

    Args:
        rows: one array [rows, V] per block.
        places: where each of them stands in the pass's array, where that is known.
        most: how many rows of each at most.
        like: on whose device; that of the rows when None.
    """
    if len(rows) == 1:
        return at_hand(rows[0], like)[None, :most]
    shared = None if places[0] is None else places[0].whole
    found = [
        place.index
        for place, row in zip(places, rows, strict=True)
        if place is not None and place.whole is shared and place.rows is row
    ]
    if len(found) == len(rows):
        whole = at_hand(shared, like)[:, :most]
        first, last = found[0], found[-1] + 1
        return whole[first:last] if found == list(range(first, last)) else whole[host_to(whole, found)]
    held = [at_hand(row, like)[:most] for row in rows]
    return stack(held, max(row.shape[0] for row in held))
