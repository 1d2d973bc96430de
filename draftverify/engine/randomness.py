"""Random draws as a counter function: the same numbers under every driver, in every order, on NumPy and torch.

A draw is a pure function of (seed, task, attempt, role, round, position, draw): the first four are hashed into the
key of Philox4x32-10, the last three are its counter. Nothing is consumed, so asking twice gives the same number,
and a batch on a device gives what single sessions on the host give. Roles keep streams apart: a drafter and a
rule that share a stream are not exact.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), Philox4x32 with 10 rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from array_api_compat import array_namespace, device, is_numpy_array

from draftverify.values import Array

__all__ = ["Draws", "inverse_cdf", "philox", "stream_key", "uniforms"]

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_MASK = 0xFFFFFFFF
RUN = 128


def stream_key(seed: int, task: str, attempt: int, role: str) -> tuple[int, int]:
    """The 64-bit key of one stream, as two 32-bit words."""
    text = f"{seed}\x1f{task}\x1f{attempt}\x1f{role}".encode()
    digest = blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def philox(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10: four 32-bit words from a 64-bit key and a 128-bit counter.

    Args:
        key: two words; Python integers, or int64 arrays that broadcast with the counter's.
        counter: four words, likewise.

    Returns:
        Four words of the broadcast shape.
    """
    words = (*key, *counter)
    if not all(isinstance(word, int) for word in words):
        return _philox_arrays(*words)
    k0, k1, c0, c1, c2, c3 = words
    for _ in range(10):
        product0, product1 = _M0 * c0, _M1 * c2
        c0, c1 = (product1 >> 32) ^ c1 ^ k0, product1 & _MASK
        c2, c3 = (product0 >> 32) ^ c3 ^ k1, product0 & _MASK
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return c0, c1, c2, c3


def _philox_arrays(*words: Any) -> tuple[Any, Any, Any, Any]:
    """`philox` with words 0 and 2 in one array, and 1 and 3 in another, which halves the calls."""
    like = next(word for word in words if not isinstance(word, int))
    xp, on = array_namespace(like), device(like)
    k0, k1, c0, c1, c2, c3 = xp.broadcast_arrays(
        *(xp.asarray(word, dtype=xp.int64, device=on) if isinstance(word, int) else word for word in words)
    )
    even, odd, key = xp.stack([c0, c2]), xp.stack([c1, c3]), xp.stack([k0, k1])
    pair = (2, *(1,) * c0.ndim)
    factors = xp.reshape(xp.asarray([_M0, _M1], dtype=xp.int64, device=on), pair)
    steps = xp.reshape(xp.asarray([_W0, _W1], dtype=xp.int64, device=on), pair)
    for _ in range(10):
        # The product wraps at 64 bits, and the shift carries its sign in: the mask takes that off again.
        product = _swapped(xp, even * factors)
        even, odd = product >> 32 & _MASK ^ odd ^ key, product & _MASK
        key = key + steps & _MASK
    return even[0, ...], odd[0, ...], even[1, ...], odd[1, ...]


def _swapped(xp: Any, pair: Array) -> Array:
    """The two entries of the first axis the other way round; NumPy's view costs a tenth of its `flip`."""
    return pair[::-1] if is_numpy_array(pair) else xp.flip(pair, axis=0)


def uniforms(keys: Array, rounds: Array, positions: Array, draw: int | Array = 0, purpose: int = 0) -> Array:
    """Uniforms on [0, 1) with 53 random bits for a whole batch.

    Args:
        keys: [batch, 2] int64, the stream keys.
        rounds: [batch] int64.
        positions: [positions] int64.
        draw: which draw at each position; an array must broadcast with [batch, positions].
        purpose: fourth counter word, for uses that must not meet.

    Returns:
        [batch, positions] float64, on the device of `keys`.
    """
    xp = array_namespace(keys, rounds, positions)
    zero = xp.zeros_like(rounds[:, None] + positions[None, :])
    key = (keys[:, 0][:, None] + zero, keys[:, 1][:, None] + zero)
    counter = (positions[None, :] + zero, rounds[:, None] + zero, zero + draw, zero + purpose)
    first, second, _, _ = philox(key, counter)
    return _unit(xp.astype(first >> 5, xp.float64), xp.astype(second >> 6, xp.float64))


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
    if size < 2 * RUN:
        cumulative = xp.cumulative_sum(xp.astype(weights, xp.float64), axis=-1)
        # u is at most 1 - 2^-53, so u·total rounds to less than the total, and the first sum above it has just grown.
        return _reached(xp, cumulative, u * cumulative[..., -1])
    # Running sums are slow: one over runs of items, then one within the run in which u falls.
    runs = -(-size // RUN)
    batch = weights.shape[:-1]
    if size % RUN:
        rest = xp.zeros((*batch, runs * RUN - size), dtype=weights.dtype, device=device(weights))
        weights = xp.concat([weights, rest], axis=-1)
    rows = xp.arange(math.prod(batch), device=device(weights))
    weights, u = xp.reshape(weights, (-1, runs, RUN)), xp.reshape(u, (-1,))
    before = xp.cumulative_sum(xp.sum(weights, axis=-1, dtype=xp.float64), axis=-1)
    level = u * before[:, -1]
    run = _reached(xp, before, level)
    run = xp.where(run < runs, run, runs - 1)
    within = xp.cumulative_sum(xp.astype(weights[rows, run], xp.float64), axis=-1)
    level = xp.where(run > 0, level - before[rows, run - 1], level)
    # The run's sum may round otherwise than its running sum; the level stays below the latter.
    level = xp.minimum(level, within[:, -1] * (1 - 2**-53))
    return xp.reshape(run * RUN + _reached(xp, within, level), batch)


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
        """One uniform on [0, 1); the same whenever it is asked for."""
        first, second, _, _ = philox(self.key, (position, self.round, draw, 0))
        return float(_unit(first >> 5, second >> 6))

    def uniforms(self, positions: Sequence[int], draw: int = 0) -> list[float]:
        """One uniform for each position."""
        return [self.uniform(position, draw) for position in positions]

    def seed(self, position: int = 0) -> int:
        """A 63-bit seed for a library that keeps its own generator."""
        first, second, _, _ = philox(self.key, (position, self.round, 0, 1))
        return int((first << 31) ^ second)
