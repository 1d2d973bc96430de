"""Batches: what a rule does with many blocks at once, on the host and as on a device, is what it does with each."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftverify import Draws, Evidence, Proposal, Verification, arrays
from draftverify.rules import (
    BlockVerification,
    GreedyMatch,
    KSeq,
    Lenience,
    Speculative,
    Tree,
    batch,
    chains,
    drift,
    k_seq,
    lossy,
    matching,
    positionwise,
    trees,
    typical,
    walk,
)
from draftverify.values import Law, Place

from .test_sampling import CHAIN_RULES, TREE_RULES, a_block, law_of, on_torch

RULES = CHAIN_RULES + TREE_RULES
LOOKING = (arrays, batch, chains, drift, k_seq, lossy, matching, positionwise, trees, typical, walk)
"""The modules that ask where an array lies."""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """torch's tensors as if they were on a device: NumPy does not read them, and a look at one is an error.

    Gives the shapes of what was brought to the host.
    """
    torch = pytest.importorskip("torch")
    for module in LOOKING:
        monkeypatch.setattr(module, "on_host", lambda array: False)
    monkeypatch.setattr(arrays, "READ_BY_NUMPY", frozenset())
    brought: list[Any] = []
    tolist = torch.Tensor.tolist

    def bring(tensor: Any) -> Any:
        brought.append(tuple(tensor.shape))
        return tolist(tensor)

    def looked(*arguments: Any, **names: Any) -> Any:
        raise AssertionError("the host looked at a value on the device")

    monkeypatch.setattr(torch.Tensor, "tolist", bring)
    for name in ("__bool__", "__int__", "__float__", "__index__", "__array__", "__iter__", "item", "numpy"):
        monkeypatch.setattr(torch.Tensor, name, looked)
    monkeypatch.setattr(torch, "nonzero", looked)
    return brought


def a_batch(rule: Any, seed: int, lengths: list[int]) -> list[tuple[Proposal, Verification]]:
    """Ragged blocks of the laws that the rule takes; trees of different shapes for the rules on trees."""
    rng = np.random.default_rng(seed)
    widths = 1 + seed % 3 if rule in TREE_RULES else 1
    return [
        a_block(rng, n, 12, law_of(rule, seed + i), widths=widths + (i % 2 if rule in TREE_RULES else 0))
        for i, n in enumerate(lengths)
    ]


def near(left: Any, right: Any) -> bool:
    """Equal decisions, but for the last bits of the drift, which libraries sum in their own order."""
    bare = [msgspec.structs.replace(made, drift=()) for made in (left, right)]
    return bare[0] == bare[1] and left.drift == pytest.approx(right.drift, abs=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(0, 7), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_batch_on_the_host_decides_as_its_sessions_would_alone(
    rule: Any, seed: int, lengths: list[int]
) -> None:
    """Trees of different shapes, sizes and laws in one pass."""
    made = a_batch(rule, seed, lengths)
    draws = [Draws((seed + i, i), i) for i in range(len(lengths))]
    together = rule.decide_many([None] * len(made), [p for p, _ in made], [v for _, v in made], draws)
    assert together == [rule.decide(None, p, v, d) for (p, v), d in zip(made, draws, strict=True)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(0, 7), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_on_a_device_takes_one_transfer_and_decides_alike(
    device: list[Any], rule: Any, seed: int, lengths: list[int]
) -> None:
    """The host looks at nothing of what is on the device until the round has ended."""
    made = a_batch(rule, seed, lengths)
    draws = [Draws((seed + i, i), i) for i in range(len(lengths))]
    moved = [on_torch(*block) for block in made]
    if isinstance(rule, Tree) and len({p.law.kind for p, _ in moved}) > 1:
        moved, made, draws = moved[:1], made[:1], draws[:1]  # two laws are two walks
    device.clear()
    together = rule.decide_many([None] * len(moved), [p for p, _ in moved], [v for _, v in moved], draws)
    assert len(device) == 1
    assert np.prod(device[0]) < 300  # a few numbers for each item, and no row of the vocabulary
    with pytest.MonkeyPatch.context() as back:
        for module in LOOKING:
            back.setattr(module, "on_host", lambda array: True)
        alone = [rule.decide(None, p, v, d) for (p, v), d in zip(made, draws, strict=True)]
    assert all(map(near, together, alone))


@pytest.mark.parametrize("kind", ["given", "iid", "without_replacement"])
def test_large_trees_on_a_device_are_walked_as_on_the_host(device: list[Any], kind: str) -> None:
    """Three siblings at each node: one that was accepted is not passed over for a later one."""
    rng = np.random.default_rng(0)
    rule: Any = KSeq() if kind == "iid" else Tree()
    made = [a_block(rng, n, 12, kind, widths=3) for n in range(6, 46)]
    draws = [Draws((i, 3), 0) for i in range(len(made))]
    moved = [on_torch(*block) for block in made]
    there = rule.decide_many([None] * len(made), [p for p, _ in moved], [v for _, v in moved], draws)
    with pytest.MonkeyPatch.context() as back:
        for module in LOOKING:
            back.setattr(module, "on_host", lambda array: True)
        here = rule.decide_many([None] * len(made), [p for p, _ in made], [v for _, v in made], draws)
    assert there == here
    assert {len(decision.kept) for decision in here} >= {0, 1}


def test_a_look_at_the_device_would_be_found(device: list[Any]) -> None:
    """The fixture minds every way in which a value comes to the host."""
    torch = pytest.importorskip("torch")
    for look in (float, int, bool, list, np.asarray, lambda x: x.item(), torch.nonzero):
        with pytest.raises(AssertionError, match="looked"):
            look(torch.ones(1))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_large_vocabulary_is_judged_in_parts(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the host, where no more blocks are judged together than the cache holds."""
    made = a_batch(rule, 3, [5, 0, 3, 6, 2])
    arguments = [None] * 5, [p for p, _ in made], [v for _, v in made], [Draws((i, 1), 0) for i in range(5)]
    whole = rule.decide_many(*arguments)
    monkeypatch.setattr(type(rule), "at_once", 24)
    assert rule.decide_many(*arguments) == whole


def placed(
    made: list[tuple[Proposal, Verification]], order: list[int]
) -> list[tuple[Proposal, Verification]]:
    """The same blocks, their rows as views of one array in which they stand in another order, among rubbish."""
    found: dict[int, tuple[Proposal, Verification]] = {}
    most = max(len(p) for p, _ in made) + 3
    of_p, of_q = (np.full((len(made), most, 12), np.nan) for _ in range(2))
    for place, b in enumerate(order):
        proposal, verification = made[b]
        target, q = verification.evidence.target, proposal.law.q  # type: ignore[union-attr]
        of_p[place, : len(target)] = target
        whole = Place.of(of_p, place, len(target))
        evidence = msgspec.structs.replace(verification.evidence, target=whole.rows, place=whole)
        if q is not None:
            of_q[place, : len(q)] = q
            rows = Place.of(of_q, place, len(q))
            proposal = msgspec.structs.replace(
                proposal, law=Law(proposal.law.kind, rows.rows, proposal.law.raw_maxima, rows)
            )
        found[b] = proposal, Verification(evidence=evidence)
    return [found[b] for b in range(len(made))]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]], ids=["in order", "out of order"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rows_that_stand_in_one_array_are_judged_there(rule: Any, order: list[int]) -> None:
    """What stands around them is not read; some of a pass's blocks will do."""
    made = a_batch(rule, 11, [3, 1, 4, 2])
    draws = [Draws((i, 2), 0) for i in range(4)]
    stand = placed(made, order)
    for some in ([0, 1, 2, 3], [1, 3]):
        blocks, moved = [made[b] for b in some], [stand[b] for b in some]
        plain, there = (
            rule.decide_many(
                [None] * len(some), [p for p, _ in of], [v for _, v in of], [draws[b] for b in some]
            )
            for of in (blocks, moved)
        )
        assert there == plain


def test_rows_in_their_order_are_not_copied() -> None:
    """A pass's array is what the rule reads."""
    made = placed(a_batch(Speculative(), 11, [3, 1, 4, 2]), [0, 1, 2, 3])
    draws = [Draws((1, 2), b) for b in range(4)]
    blocks = Speculative().blocks([p for p, _ in made], [v for _, v in made], draws)
    whole = made[0][1].evidence.place.whole  # type: ignore[union-attr]
    assert np.shares_memory(blocks.p, whole)
    apart = arrays.together([made[0][1].evidence.target, made[1][1].evidence.target], [None, None])  # type: ignore[union-attr]
    assert not np.shares_memory(apart, whole)


@pytest.mark.parametrize("rule", [Speculative(), BlockVerification(), Tree()], ids=lambda r: type(r).__name__)
def test_rows_put_in_the_place_of_others_are_the_ones_that_count(rule: Any) -> None:
    """A mask that a part lays over the target later must not be lost to the array of the pass."""
    made = placed(a_batch(Speculative(), 11, [2, 2]), [0, 1])
    certain = np.zeros((3, 12))
    certain[:, 7] = 1.0
    masked = [Verification(evidence=msgspec.structs.replace(v.evidence, target=certain)) for _, v in made]
    plain = [Proposal.chain(p.items) for p, _ in made]
    decisions = rule.decide_many([None] * 2, plain, masked, [Draws((i, 2), 0) for i in range(2)])
    assert [decision.spliced for decision in decisions] == [(7,), (7,)]


def test_empty_blocks_with_items_in_arrays_have_the_drift_of_their_bonus() -> None:
    """A batch of which no block has an item, as a drafter on a device makes them."""
    p = np.asarray([[0.25, 0.75]])
    block = Proposal.chain(np.zeros(0, dtype=np.int64)), Verification(evidence=Evidence(target=p))
    for made in GreedyMatch(measure_drift=True).decide_many(
        [None] * 2, *zip(block, block, strict=True), [None] * 2
    ):  # type: ignore[arg-type]
        assert (made.kept, made.spliced, made.drift) == ((), (1,), (0.25,))


def test_equal_siblings_are_tried_apart() -> None:
    """Independent draws may meet; each has its own draw, and the one that is accepted its own children."""
    p = np.asarray([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    q = np.asarray([[0.9, 0.1], [0.0, 1.0], [0.5, 0.5]])
    # Both children of the context are item 0; item 1 stands on the first of them, item 0 on the second.
    tree = Proposal.tree([0, 0, 1], [-1, -1, 0], Law("iid", q))
    found = {
        KSeq().decide(None, tree, Verification(evidence=Evidence(target=p)), Draws((seed, 0), 0))
        for seed in range(200)
    }
    assert {made.kept for made in found} == {(), (1,), (0,), (0, 2)}
    assert {made.spliced for made in found if made.kept == (1,)} == {(0,)}  # the row after the second of them
    struck = Proposal.tree([0, 0], [-1, -1])
    for seed in range(50):
        made = Tree().decide(None, struck, Verification(evidence=Evidence(target=p[:3])), Draws((seed, 0), 0))
        assert made.kept in ((), (0,))  # a given item that was refused is not tried again
        assert made.spliced == (1,) or made.kept


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), size=st.integers(2, 30))
@settings(max_examples=60, deadline=None)
def test_rho_is_where_it_should_be(seed: int, k: int, size: int) -> None:
    """1 − (1 − β)^k = ρβ, and never below: that would not be exact. The same on the host and as on a device."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(size, 0.4), (2, 3))
    numbers = np.asarray([k, 1, k - 1], dtype=float)
    with pytest.MonkeyPatch.context() as patch:
        host = k_seq._rho(p, q, numbers, k)
        alone = [k_seq._rho(p[i : i + 1], q[i : i + 1], numbers[i : i + 1], k)[0] for i in range(3)]
        assert np.allclose(alone, host, atol=1e-5)
        patch.setattr(k_seq, "on_host", lambda array: False)
        assert np.allclose(k_seq._rho(p, q, numbers, k), host, atol=1e-5)
    for row in range(3):
        beta = np.minimum(q[row], p[row] / host[row]).sum()
        over = host[row] * beta - (1 - (1 - beta) ** numbers[row])
        assert -1e-12 < over < 1e-4
    assert host[1] == 1.0


def test_sessions_in_a_batch_do_not_meet() -> None:
    """Each has its own draws and its own drift."""
    rng = np.random.default_rng(0)
    made = [a_block(rng, 3, 12, "iid")] * 2
    rngs = [Draws((1, 1), 0), Draws((2, 1), 0)]
    first, second = Lenience(0.5).decide_many([None] * 2, [p for p, _ in made], [v for _, v in made], rngs)
    assert first != second


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_items_that_are_an_array_are_decided_on_as_a_tuple_of_them(rule: Any, library: str) -> None:
    """As a drafter leaves them that does not look at what it drew; the decision brings a chain's along."""
    made = a_batch(rule, 2, [3, 0, 5])
    as_array = np.asarray if library == "numpy" else pytest.importorskip("torch").asarray
    arrayed = [
        (msgspec.structs.replace(p, items=as_array(p.items, dtype=as_array([0]).dtype)), v) for p, v in made
    ]
    draws = [Draws((i, 4), 0) for i in range(3)]

    def bare(blocks: Any) -> Any:
        found = rule.decide_many([None] * len(blocks), *zip(*blocks, strict=True), draws[: len(blocks)])
        return [msgspec.structs.replace(each, items=()) for each in found]

    assert bare(arrayed) == bare(made)
    assert bare(arrayed[:1]) == bare(made[:1])
