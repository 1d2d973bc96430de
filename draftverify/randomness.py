"""Random draws as a counter function: the same numbers under every driver, in every order, alone and in a batch.

A draw is a pure function of (seed, task, attempt, role, round, position, draw): the first four are hashed into the
key of Philox4x32-10, the last three are its counter. Nothing is consumed, so asking twice gives the same number,
and a batch gets what single sessions get. They are made on the host; `inverse_cdf` draws with them on any device.
Roles keep streams apart: a drafter and a rule that share a stream are not exact.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), Philox4x32 with 10 rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import array_api_compat
import msgspec
import numpy as np
from array_api_compat import device

Array: TypeAlias = Any
"""Any array that follows the array API standard (NumPy, torch, …)."""

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_MASK = 0xFFFFFFFF
_STEPS = np.multiply.outer(np.arange(10, dtype=np.uint64), np.array([_W0, _W1], dtype=np.uint64))
RUN = 128


def array_namespace(*arrays: Array) -> Any:
    """The library of some arrays, as array_api_compat wraps it, which takes a while to find that it is NumPy."""
    if type(arrays[0]) is np.ndarray:
        import array_api_compat.numpy as wrapped  # which imports all of NumPy: not before an array is there

        return wrapped
    return array_api_compat.array_namespace(*arrays)


def stream_key(seed: int, task: str, attempt: int, role: str) -> tuple[int, int]:
    """The 64-bit key of one stream, as two 32-bit words."""
    text = f"{seed}\x1f{task}\x1f{attempt}\x1f{role}".encode()
    digest = blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def philox(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10: four 32-bit words from a 64-bit key and a 128-bit counter.

    Args:
        key: two words; Python integers, or NumPy arrays that broadcast with the counter's.
        counter: four words, likewise.

    Returns:
        Four words of the broadcast shape; uint64 where they are arrays.
    """
    words = (*key, *counter)
    return (_philox_integers if all(isinstance(word, int) for word in words) else _philox_arrays)(*words)


def _philox_integers(k0: int, k1: int, c0: int, c1: int, c2: int, c3: int) -> tuple[int, int, int, int]:
    for _ in range(10):
        product0, product1 = _M0 * c0, _M1 * c2
        c0, c1 = (product1 >> 32) ^ c1 ^ k0, product1 & _MASK
        c2, c3 = (product0 >> 32) ^ c3 ^ k1, product0 & _MASK
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return c0, c1, c2, c3


def _philox_arrays(*words: Any) -> tuple[Any, Any, Any, Any]:
    """`philox` in few calls of NumPy, which are what a small batch costs: two words in each array, all contiguous."""
    k0, k1, c0, c1, c2, c3 = words
    shape = np.broadcast(*words).shape

    def filled(*entries: Any) -> Any:
        filled_array = np.empty((len(entries), *shape), dtype=np.uint64)
        for place, entry in enumerate(entries):
            filled_array[place] = entry
        return filled_array

    # Word 0 stands on both sides of word 2, so that the products are at hand in their order and in the other.
    even, odd, factors = filled(c0, c2, c0), filled(c1, c3), filled(_M0, _M1, _M0)
    mask, half = np.uint64(_MASK), np.uint64(32)
    for step in filled(k0, k1) + _STEPS.reshape(10, 2, *(1,) * len(shape)) & mask:
        swapped = (even * factors)[1:]
        np.bitwise_xor(swapped >> half, odd ^ step, out=even[:2])
        even[2] = even[0]
        odd = swapped & mask
    return even[0], odd[0], even[1], odd[1]


def uniforms(keys: Any, rounds: Any, positions: Any, draw: Any = 0, purpose: int = 0) -> Any:
    """Uniforms on [0, 1) with 53 random bits for a whole batch, made on the host.

    Args:
        keys: [batch, 2] integers, the stream keys; a NumPy array, as the others.
        rounds: [batch] integers.
        positions: [positions] integers.
        draw: which draw at each position; an array must broadcast with [batch, positions].
        purpose: fourth counter word, for uses that must not meet.

    Returns:
        [batch, positions] float64.
    """
    key = (keys[:, :1], keys[:, 1:])
    first, second, _, _ = philox(key, (positions, rounds[:, None], draw, purpose))
    return _unit(first >> 5, second >> 6)


def _unit(high: Any, low: Any) -> Any:
    return (high * 67108864.0 + low) / 9007199254740992.0


def inverse_cdf(weights: Array, u: Array) -> Array:
    """Draw an index by inverting the cumulative sum.

    Args:
        weights: [..., vocabulary], non-negative, not all zero; need not sum to 1.
        u: [...], uniforms on [0, 1).

    Returns:
        [...] int64; never an index of weight zero.
    """
    xp = array_namespace(weights)
    size = weights.shape[-1]
    if size < 4 * RUN:
        cumulative = xp.cumulative_sum(xp.astype(weights, xp.float64), axis=-1)
        # u is at most 1 - 2^-53, so u·total rounds to less than the total, and the first sum above it has just grown.
        return _reached(xp, cumulative, u * cumulative[..., -1])
    # Running sums are slow: one over runs of items, then one within the run in which u falls.
    runs = -(-size // RUN)
    batch = weights.shape[:-1]
    if size % RUN:
        padding = xp.zeros((*batch, runs * RUN - size), dtype=weights.dtype, device=device(weights))
        weights = xp.concat([weights, padding], axis=-1)
    rows = xp.arange(math.prod(batch), device=device(weights))
    weights, u = xp.reshape(weights, (-1, runs, RUN)), xp.reshape(u, (-1,))
    run_ends = xp.cumulative_sum(xp.sum(weights, axis=-1, dtype=xp.float64), axis=-1)
    level = u * run_ends[:, -1]
    run = _reached(xp, run_ends, level)
    run = xp.where(run < runs, run, runs - 1)
    item_ends = xp.cumulative_sum(xp.astype(weights[rows, run], xp.float64), axis=-1)
    level = xp.where(run > 0, level - run_ends[rows, run - 1], level)
    # The run's sum may round otherwise than its running sum; the level stays below the latter.
    level = xp.minimum(level, item_ends[:, -1] * (1 - 2**-53))
    return xp.reshape(run * RUN + _reached(xp, item_ends, level), batch)


def _reached(xp: Any, cumulative: Array, level: Array) -> Array:
    """How many of the running sums [..., n] do not pass the level [...]."""
    return xp.sum(cumulative <= level[..., None], axis=-1, dtype=xp.int64)


class Draws(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The random numbers of one role in one round of one task.

    Args:
        key: from `stream_key`.
        round: the round's number.
    """

    key: tuple[int, int]
    round: int

    def uniform(self, position: int = 0, draw: int = 0) -> float:
        """One uniform on [0, 1); the same whenever it is asked for. Of position and draw 32 bits count."""
        first, second, _, _ = _philox_integers(*self.key, position & _MASK, self.round, draw & _MASK, 0)
        return float(_unit(first >> 5, second >> 6))

    def uniforms(self, positions: Sequence[int], draw: int = 0) -> list[float]:
        """One uniform for each position."""
        return [self.uniform(position, draw) for position in positions]

    def seed(self, position: int = 0) -> int:
        """A 63-bit seed for a library that keeps its own generator. Of the position 32 bits count."""
        first, second, _, _ = _philox_integers(*self.key, position & _MASK, self.round, 0, 1)
        return int((first << 31) ^ second)
