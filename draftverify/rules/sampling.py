"""Rules that emit samples: the one template of all position-wise laws, and the two rules that match drafted items.

`play` is the template, for a whole batch [batch, position, V] at once; single sessions are a batch of one. Items are
token ids: integers, or a one-dimensional integer array that stays on its device. Only the end of a round comes to
the host, in one transfer. Random numbers: item i is judged with draw 0 at position i; the splice, one a round, has
draw 1 at position 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from draftverify.engine.randomness import Draws, inverse_cdf, uniforms
from draftverify.errors import ConfigError, ContractError
from draftverify.rules import laws as lawbook
from draftverify.rules.laws import PositionLaw, positive
from draftverify.values import (
    Array,
    Context,
    Decision,
    Evidence,
    LawKind,
    Place,
    Proposal,
    Refusal,
    Shape,
    Verification,
    prefix,
)

__all__ = [
    "Cascade",
    "Ensemble",
    "GreedyMatch",
    "Lenience",
    "Lossy",
    "Positionwise",
    "Speculative",
    "TokenMatch",
]

CHAIN: frozenset[Shape] = frozenset({"chain"})
CHAIN_LAWS: frozenset[LawKind] = frozenset({"given", "iid"})
TARGET: frozenset[str] = frozenset({"target"})


class Blocks(NamedTuple):
    """A batch of chains, padded to the longest: n items of V possible ones.

    Args:
        xp: the arrays' namespace.
        p: [batch, n + 1, V], the target's rows.
        q: [batch, n, V], the rows the items were drawn from; None when each item was given: all mass on it.
        items: [batch, n] int64.
        lengths: the true lengths, on the host.
        p_max, q_max: [batch, n + 1] and [batch, n], raw maxima; None unless asked for.
        away: whether items came as an array, which may lie on a device.
    """

    xp: Any
    p: Array
    q: Array | None
    items: Array
    lengths: list[int]
    p_max: Array = None
    q_max: Array = None
    away: bool = False


def blocks(
    proposals: Sequence[Proposal],
    verifications: Sequence[Verification],
    laws: frozenset[LawKind],
    *,
    q: bool = True,
    raw_maxima: bool = False,
) -> Blocks:
    """Put chains into one batch; without q, or with raw maxima, as the rule reads them.

    Raises:
        ContractError: for a missing target, raw maxima or vocabulary that differ, an item outside the vocabulary, or
            a law that the rule does not take.
    """
    lengths = [len(proposal.items) for proposal in proposals]
    n = max(lengths)
    p = together([target_of(v) for v in verifications], [place_of(v.evidence) for v in verifications], n + 1)
    xp = array_namespace(p)
    items = checked_ids(xp, proposals, lengths, n, p, laws)
    q_batch = p_max = q_max = None
    sources = [proposal.law for proposal in proposals]
    if q and any(law.q is not None and m for law, m in zip(sources, lengths, strict=True)):
        if all(law.q is not None for law in sources):
            q_batch = together([law.q for law in sources], [law.place for law in sources], n, p)
        else:
            rows = [
                one_hot(xp, items[b, :m], p) if law.q is None else host_to(xp, p, law.q)[:m]
                for b, (law, m) in enumerate(zip(sources, lengths, strict=True))
            ]
            q_batch = _stack(xp, rows, n)
    if raw_maxima:
        of_p = [(v.evidence, m + 1, "verifier") for v, m in zip(verifications, lengths, strict=True)]
        of_q = [(law, m, "generator") for law, m in zip(sources, lengths, strict=True)]
        p_max = _stack(xp, [_maxima(xp, p, *source) for source in of_p], n + 1)
        q_max = _stack(xp, [_maxima(xp, p, *source) for source in of_q], n)
    away = any(hasattr(proposal.items, "shape") for proposal in proposals)
    return Blocks(xp, p, q_batch, items, lengths, p_max, q_max, away)


def together(
    rows: Sequence[Array], places: Sequence[Place | None], most: int | None = None, like: Array = None
) -> Array:
    """[batch, rows, V] of each block's rows; what a block lacks holds anything.

    Nothing is copied for one block, nor for those of a whole pass in the order in which they stand there.

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
        if found == list(range(whole.shape[0])):
            return whole
        return whole[host_to(array_namespace(whole), whole, found)]
    held = [at_hand(row, like)[:most] for row in rows]
    return _stack(array_namespace(held[0]), held, max(row.shape[0] for row in held))


def place_of(evidence: Evidence | None) -> Place | None:
    return None if evidence is None else evidence.place


READ_BY_NUMPY = frozenset({"torch.float32", "torch.float64", "torch.int64"})


def at_hand(array: Array, like: Array = None) -> Array:
    """The array, on the device of `like`; a torch tensor on the host as NumPy, whose calls cost a third of torch's."""
    if isinstance(array, np.ndarray):
        if like is None or isinstance(like, np.ndarray):
            return array
    elif is_torch_array(array) and array.device.type == "cpu" and str(array.dtype) in READ_BY_NUMPY:
        array = array.detach().numpy()
    return array if like is None else host_to(array_namespace(like), like, array)


def on_host(array: Array) -> bool:
    """Whether a look at the array's values costs no transfer."""
    return str(device(array)) == "cpu"


def target_of(verification: Verification) -> Array:
    """The target's rows [n + 1, V].

    Raises:
        ContractError: when there are none.
    """
    evidence = verification.evidence
    if evidence is None or evidence.target is None:
        raise ContractError(
            "the rule needs the target's distributions; the verification has no evidence.target"
        )
    return evidence.target


def check_law(proposal: Proposal, laws: frozenset[LawKind], size: int) -> None:
    """Refuse a block of another law or another vocabulary than of `size` items; an empty one is always good.

    Raises:
        ContractError: naming the law, or both sizes.
    """
    law = proposal.law
    if law.kind not in laws and len(proposal.items):
        raise ContractError(f"a block of law {law.kind!r} came to a rule that takes {sorted(laws)}")
    if law.q is not None and law.q.shape[-1] != size and len(proposal.items):
        raise ContractError(
            f"q is over {law.q.shape[-1]} items, the target over {size}; they must share a vocabulary"
        )


def checked_ids(
    xp: Any,
    proposals: Sequence[Proposal],
    lengths: Sequence[int],
    n: int,
    like: Array,
    laws: frozenset[LawKind],
) -> Array:
    """The blocks' items [batch, n] int64 on the device of `like` [..., V], zero where there are none.

    Raises:
        ContractError: for a law that is not one of `laws`, another vocabulary, or an item outside it.
    """
    size = like.shape[-1]
    # Blocks of one law object, as all those of law "given" are, pass or fail together.
    for proposal in {id(o.law): o for o in proposals if len(o.items)}.values():
        check_law(proposal, laws, size)
    if any(hasattr(proposal.items, "shape") for proposal in proposals):
        rows = [xp.astype(at_hand(host_to(xp, like, o.items)), xp.int64) for o in proposals]
        ids = _stack(xp, rows, n)
        if not on_host(ids):
            return ids
        host = np.asarray(ids)
    else:
        flat = np.fromiter(chain.from_iterable(o.items for o in proposals), np.int64, sum(lengths))
        if min(lengths) == n:
            host = np.reshape(flat, (len(lengths), n))
        else:
            host = np.zeros((len(lengths), n), dtype=np.int64)
            host[np.arange(n) < np.asarray(lengths)[:, None]] = flat
        ids = host_to(xp, like, host)
    # A negative index would silently be another item; one past the end would stop a device for good. Looking at items
    # on a device would cost a transfer, so those are the generator's word.
    if n and not 0 <= host.min() <= host.max() < size:
        bad = next(
            row[:m] for row, m in zip(host, lengths, strict=True) if row.min() < 0 or row.max() >= size
        )
        raise ContractError(f"items {bad.tolist()} are not all in the target's vocabulary of {size}")
    return ids


def one_hot(xp: Any, items: Array, like: Array) -> Array:
    """[n, V] with all mass on each of the items [n]; V, dtype and device of `like`."""
    on = device(like)
    rows = xp.zeros((items.shape[0], like.shape[-1]), dtype=like.dtype, device=on)
    rows[xp.arange(items.shape[0], device=on), items] = 1
    return rows


def host_to(xp: Any, like: Array, values: Any) -> Array:
    """As an array of the kind of `like`, on its device. Host numbers go through NumPy, which keeps float64."""
    if not hasattr(values, "shape"):
        values = np.asarray(values)
    return xp.asarray(values, device=device(like))


def _maxima(xp: Any, like: Array, source: Any, rows: int, who: str) -> Array:
    if not rows:
        return xp.zeros(0, dtype=like.dtype, device=device(like))
    if source.raw_maxima is None:
        raise ContractError(
            f"the rule compares largest probabilities at temperature 1; the {who} gave no raw_maxima"
        )
    return host_to(xp, like, source.raw_maxima)[:rows]


def _stack(xp: Any, rows: Sequence[Array], length: int) -> Array:
    """[batch, length, …] from arrays of up to `length` rows; what is missing is zero."""
    if len(rows) == 1:
        return rows[0][None, ...]
    if all(row.shape[0] == length for row in rows):
        return xp.stack(list(rows))
    like = rows[0]
    made = xp.zeros((len(rows), length, *like.shape[1:]), dtype=like.dtype, device=device(like))
    for b, row in enumerate(rows):
        made[b, : row.shape[0]] = row
    return made


def numbers(rngs: Sequence[Draws], n: int) -> tuple[Array, Array]:
    """Uniforms on the host: [batch, n], draw 0 at each position, and [batch], draw 1 at position 0, for the splice."""
    if len(rngs) == 1:
        rng = rngs[0]
        return np.asarray([rng.uniforms(range(n))]), np.asarray([rng.uniform(0, 1)])
    size = len(rngs)
    keys = np.fromiter(chain.from_iterable([rng.key for rng in rngs]), np.int64, 2 * size)
    rounds = np.fromiter([rng.round for rng in rngs], np.int64, size)
    found = uniforms(keys.reshape(size, 2), rounds, np.asarray([*range(n), 0]), np.asarray([0] * n + [1]))
    return found[:, :n], found[:, n]


def play(law: PositionLaw, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
    """The template: keep items while u·q(x) < a(x), then splice from the residual, or from p when all were kept.

    Args:
        law: a and the residual.
        batch: the blocks.
        rngs: one per block.
    """
    xp, p, q, items = batch.xp, batch.p, batch.q, batch.items
    size, n = items.shape
    u, v = numbers(rngs, n)
    b = xp.arange(size, device=device(p))
    if not n:
        return splice(batch, b * 0, p[:, 0], None, v, None if law.exact else drift_of(law, batch, b * 0))
    drafted = (b[:, None], xp.arange(n, device=device(p)), items)
    if law.elementwise:
        q_x = 1.0 if q is None else q[drafted]
        a_x = law.accept(p[drafted], q_x)
    else:
        if q is None:
            q = xp.reshape(one_hot(xp, xp.reshape(items, (-1,)), p), (size, n, -1))
        q_x = q[drafted]
        p_max = None if batch.p_max is None else batch.p_max[:, :n]
        a_x = law.accept(p[:, :n], q, p_max, batch.q_max)[drafted]
    kept = leading(batch, host_to(xp, p, u) * q_x < a_x)

    # The rows where each block stopped. A block kept whole has no residual: its bonus is a sample of p.
    stop = xp.where(kept < n, kept, kept - 1)
    p_row = p[b, kept]
    q_row = one_hot(xp, items[b, stop], p) if q is None else q[b, stop]
    if batch.p_max is None:
        residual = law.residual(p_row, q_row)
    else:
        residual = law.residual(p_row, q_row, batch.p_max[b, kept], batch.q_max[b, stop])
    return splice(batch, kept, p_row, residual, v, None if law.exact else drift_of(law, batch, kept))


def drift_of(law: PositionLaw, batch: Blocks, kept: Array) -> Array:
    """The drift meter [batch, n + 1] of a law that is not exact: TV(π, p) at each position that was judged.

    Judged are the kept items and the refused one, which the splice stands for; a bonus is a sample of p and has 0, and
    so has what was not judged. π is what the law emits there over all drafts and draws, of q as it was declared, or of
    all mass on a given item.
    """
    xp, p, q, items = batch.xp, batch.p, batch.q, batch.items
    size, n = items.shape
    found = xp.zeros((size, n + 1), dtype=xp.float64, device=device(p))
    if not n:
        return found
    places = xp.arange(n, device=device(p))
    rows = xp.arange(size, device=device(p))[:, None]
    judged = (places <= kept[:, None]) & (places < host_to(xp, p, batch.lengths)[:, None])
    if on_host(p):
        b, i = xp.nonzero(judged)
    else:  # which ones were judged is not known before the transfer, so all are measured
        b, i = (xp.reshape(xp.broadcast_to(x, judged.shape), (-1,)) for x in (rows, places))
    p_rows = p[b, i]
    q_rows = one_hot(xp, items[b, i], p) if q is None else q[b, i]
    if batch.p_max is None:
        emitted = law.emitted(p_rows, q_rows)
    else:
        emitted = law.emitted(p_rows, q_rows, batch.p_max[b, i], batch.q_max[b, i])
    tv = xp.sum(positive(p_rows - emitted), axis=-1, dtype=xp.float64)
    found[b, i] = xp.where(judged[b, i], tv, xp.zeros_like(tv))
    return found


def leading(batch: Blocks, true: Array) -> Array:
    """[batch], how many of each block's items are true [batch, n] before the first that is not."""
    xp = batch.xp
    n = true.shape[1]
    places = xp.arange(n, device=device(true))
    if min(batch.lengths) < n:
        true = true & (places < host_to(xp, true, batch.lengths)[:, None])
    return xp.min(xp.where(true, n, places), axis=-1) if n else xp.sum(xp.astype(true, xp.int64), axis=-1)


def splice(
    batch: Blocks, kept: Array, p_row: Array, residual: Array | None, v: Array, drift: Array | None = None
) -> list[Decision]:
    """Draw an item for each block and bring the round's end to the host.

    Args:
        batch: the blocks.
        kept: [batch], how many items each keeps.
        p_row: [batch, V], the target's rows after them.
        residual: [batch, V], what replaces a refused item; None when there were no items.
        v: [batch], uniforms.
        drift: [batch, n + 1]; None of a rule that emits p.
    """
    xp = batch.xp
    whole = None if residual is None else kept == host_to(xp, kept, batch.lengths)
    item, mass = sample(xp, p_row if residual is None else residual, p_row, whole, v)
    return decisions(batch, kept, item, mass, "improbable", drift)


def sample(xp: Any, weights: Array, p: Array, whole: Array | None, v: Array) -> tuple[Array, Array]:
    """One item [batch] from each row of `weights` [batch, V], or of `p` where `whole`, and the mass drawn from.

    Args:
        weights: the caller gives it away.
    """
    mass = xp.sum(weights, axis=-1)
    if whole is not None:
        # p = q but for rounding can end in a rejection with nothing left to draw from; p itself is right there.
        whole = whole | (mass == 0)
        if not on_host(mass):
            weights = xp.where(whole[:, None], p, weights)
            mass = xp.sum(weights, axis=-1)
        elif xp.any(whole):
            at = xp.nonzero(whole)[0]
            weights[at, :] = p[at, :]
            mass[at] = xp.sum(p[at, :], axis=-1)
    return inverse_cdf(weights, host_to(xp, weights, v)), mass


def decisions(
    batch: Blocks, kept: Array, item: Array, mass: Array, reason: str, drift: Array | None = None
) -> list[Decision]:
    """The round's end on the host, in one transfer: how many items each block keeps, its splice, the mass that it was
    drawn from, the drift, and the items where they lie on a device.

    Raises:
        ContractError: when that mass is zero, infinite or not a number.
    """
    xp = batch.xp
    ends = xp.stack([kept, item, xp.astype((mass > 0) & (mass < float("inf")), xp.int64)])
    if batch.away:
        ends = xp.concat([ends, batch.items.T])
    if drift is not None:  # float64 holds every index exactly
        ends = xp.concat([xp.astype(ends, xp.float64), drift.T])
    keeps, splices, sound, *more = ends.tolist()
    width = batch.items.shape[1] if batch.away else 0
    drafted, drifts = more[:width], more[width:]
    if drift is not None:
        keeps, splices = list(map(int, keeps)), list(map(int, splices))
    if not all(sound):
        raise no_distribution(keeps[sound.index(0)])
    refusals = [(Refusal(keep, reason),) for keep in range(max(batch.lengths))]
    made = []
    for b, (n, keep, value) in enumerate(zip(batch.lengths, keeps, splices, strict=True)):
        made.append(
            Decision(
                kept=prefix(keep),
                spliced=(value,),
                refused=() if keep == n else refusals[keep],
                drift=tuple([min(1.0, tv[b]) for tv in drifts[: keep + 1]]) if drifts else (),
                items=tuple([int(row[b]) for row in drafted[:n]]) if drafted else (),
            )
        )
    return made


def no_distribution(row: int) -> ContractError:
    """The error for a target row that nothing can be drawn from."""
    return ContractError(f"row {row} of the target is no distribution: it is all zero, or holds nan or inf")


class BatchRule:
    """What the rules on samples share: one block is a batch of one."""

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Decide on one block."""
        return self.decide_many((context,), (proposal,), (verification,), (rng,))[0]

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        """Decide on the blocks of many sessions in one pass."""
        raise NotImplementedError


class ChainRule(BatchRule):
    """A rule on chains alone."""

    shapes = CHAIN


class Positionwise(ChainRule):
    """A law played by the template. Subclass it with a `law` of your own to play that."""

    @property
    def law(self) -> PositionLaw:
        """What is emitted at a drafted position."""
        raise NotImplementedError

    @property
    def exact(self) -> bool:
        """Whether the target's own distribution is emitted."""
        return self.law.exact

    @property
    def needs(self) -> frozenset[str]:
        """The evidence that the law reads."""
        return frozenset({"target", "raw_maxima"}) if self.law.needs_raw_maxima else TARGET

    @property
    def laws(self) -> frozenset[LawKind]:
        """Where items may come from; not "given" where the law would keep all of those."""
        return CHAIN_LAWS if self.law.takes_given else CHAIN_LAWS - {"given"}

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        law = self.law
        return play(law, blocks(proposals, verifications, self.laws, raw_maxima=law.needs_raw_maxima), rngs)


class Speculative(Positionwise):
    """Speculative sampling: emits the target's distribution, keeping a drafted x with probability min(1, p(x)/q(x)).

    A given item is kept with probability p(x), and replaced from p with x struck out. Exact: π = p.

    References:
        Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318.
    """

    @property
    def law(self) -> PositionLaw:
        return lawbook.SpeculativeLaw()


class Lenience(Positionwise):
    """Keeps a drafted x with probability min(1, p(x)/(ℓ·q(x))), replaces it from (p − q)₊.

    Bound: no item is emitted with more than p/ℓ, so TV(π, p) ≤ 1 − ℓ. Exact at ℓ = 1.

    Args:
        lenience: ℓ, 0 < ℓ ≤ 1; smaller keeps more.

    References:
        Leviathan et al., arXiv:2211.17192, appendix.
    """

    def __init__(self, lenience: float) -> None:
        self.lenience = _between("lenience", lenience, 0, 1, open_below=True)

    @property
    def law(self) -> PositionLaw:
        return lawbook.LenienceLaw(self.lenience)


class Lossy(Positionwise):
    """Keeps a drafted x with probability min(1, p(x)/((1 − α)·q(x))), replaces it from (p/β − q)₊.

    Bound: π ≤ p/(1 − α), so TV(π, p) ≤ α. When β is left out, π = max(min(q, p/(1 − α)), p/β). Exact at
    α = 0.

    Args:
        alpha: 0 ≤ α < 1; larger keeps more.
        beta: 1 − α ≤ β ≤ 1; None for the β that makes the π above sum to 1. 1 is the authors' notebook's.

    References:
        Tran-Thien, quoted in Narasimhan et al., arXiv:2405.19261.
    """

    def __init__(self, alpha: float, beta: float | None = None) -> None:
        self.alpha = _between("alpha", alpha, 0, 1, open_above=True)
        # Above 1 there may be nothing left of p/β − q to replace a rejected item from.
        self.beta = None if beta is None else _between("beta", beta, 1 - alpha, 1)

    @property
    def law(self) -> PositionLaw:
        return lawbook.LossyLaw(self.alpha, self.beta)


CascadeKind: TypeAlias = Literal["chow", "diff", "opt", "token_v1", "token_v2", "token_v3"]

_CASCADES: dict[str, Any] = {
    "chow": lawbook.Chow,
    "diff": lawbook.Diff,
    "opt": lawbook.Opt,
    "token_v1": lawbook.TokenV1,
    "token_v2": lawbook.TokenV2,
    "token_v3": lawbook.TokenV3,
}


class Cascade(Positionwise):
    """A speculative cascade: the draft's own distribution where it is confident enough, the target's elsewhere.

    chow, diff and opt choose for a whole position, and need the raw maxima of both models; token_v1, token_v2 and
    token_v3 choose item by item. chow, diff, opt and token_v1 do not take the law "given": they ask how sure the
    draft is, and a given item counts as wholly sure, so each would be kept.

    Bound: for chow, diff and opt TV(π, p) is TV(p, q) where π is q, else 0; for the others it is at most Σ q·a, with a
    the items that are kept. The formulas are in `draftverify.rules.laws`.

    Args:
        kind: which law.
        alpha: the price of deferring to the target; larger keeps more. At −1 token_v1 and token_v2 emit p.

    References:
        Narasimhan et al., "Faster Cascades via Speculative Decoding", arXiv:2405.19261.
    """

    def __init__(self, kind: CascadeKind, alpha: float) -> None:
        if kind not in _CASCADES:
            raise ConfigError(f"{kind!r} is no cascade; one of {', '.join(_CASCADES)} is", path="kind")
        self.kind = kind
        self.alpha = _between("alpha", alpha, -1, 1)

    @property
    def law(self) -> PositionLaw:
        law: PositionLaw = _CASCADES[self.kind](self.alpha)
        return law


class Ensemble(Positionwise):
    """Emits the mixture w·p + (1 − w)·q; keeps a drafted item with probability 1 − w·TV(p, q).

    Bound: TV(π, p) = (1 − w)·TV(p, q). Exact at w = 1.

    Args:
        weight: w, 0 ≤ w ≤ 1, of the target.

    References:
        huggingface/transformers, pull request 45979.
    """

    def __init__(self, weight: float) -> None:
        self.weight = _between("weight", weight, 0, 1)

    @property
    def law(self) -> PositionLaw:
        return lawbook.EnsembleLaw(self.weight)


class GreedyMatch(ChainRule):
    """Keeps drafted items while they are the target's argmax (the lowest index of equals), then splices the argmax.

    Emits what the target emits at temperature 0, whatever temperature its distributions were made at, so it is exact at
    temperature 0 alone. Draws nothing. Bound: TV(π, p) = 1 − max p at each value, whatever was drafted.
    """

    needs = TARGET
    laws: frozenset[LawKind] = frozenset({"given", "iid", "without_replacement"})
    exact = False  # at a temperature above 0 it does not emit p

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        batch = blocks(proposals, verifications, self.laws, q=False)
        xp, wanted = batch.xp, _argmax(batch.xp, batch.p)
        likely = xp.take_along_axis(batch.p, wanted[..., None], axis=-1)[..., 0]
        return _match(batch, wanted, "not the argmax", positive(1 - xp.astype(likely, xp.float64)))


class TokenMatch(ChainRule):
    """Draws y from p at every position, keeps drafted items while x = y, then splices y.

    Exact: emits the target's distribution for any generator; keeps less than speculative sampling, Σ p·q, and the same
    for a given item. The fallback of transformers for drafts without probabilities.
    """

    needs = TARGET
    laws: frozenset[LawKind] = frozenset({"given", "iid", "without_replacement"})
    exact = True

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        batch = blocks(proposals, verifications, self.laws, q=False)
        u = host_to(batch.xp, batch.p, numbers(rngs, batch.p.shape[1])[0])
        return _match(batch, inverse_cdf(batch.p, u), "another item was drawn")


def _match(batch: Blocks, wanted: Array, reason: str, drift: Array | None = None) -> list[Decision]:
    """Keep each block's items while they are the wanted ones [batch, n + 1], then splice the wanted one."""
    size, n = batch.items.shape
    kept = leading(batch, wanted[:, :n] == batch.items)
    b = batch.xp.arange(size, device=device(wanted))
    return decisions(batch, kept, wanted[b, kept], batch.xp.sum(batch.p[b, kept], axis=-1), reason, drift)


def _argmax(xp: Any, p: Array) -> Array:
    """The lowest index of the largest entry along the last axis."""
    return xp.argmax(p, axis=-1)


def _between(
    name: str, value: float, low: float, high: float, *, open_below: bool = False, open_above: bool = False
) -> float:
    """`value`, when it lies between the bounds."""
    if not low <= value <= high or (open_below and value == low) or (open_above and value == high):
        interval = f"{low:g} {'<' if open_below else '≤'} {name} {'<' if open_above else '≤'} {high:g}"
        raise ConfigError(f"{value} is outside {interval}", path=name)
    return value
