"""Rows that are wrong, that have few digits, or that are hard on them: what the rules do with p and q as they come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from draftverify import ContractError, Draws, Evidence, Pipeline, Proposal, Task, Verification, iid
from draftverify.kit import TableModel, TargetFrom
from draftverify.rules import (
    BlockVerification,
    Cascade,
    GreedyMatch,
    KSeq,
    Lenience,
    Limit,
    Lossy,
    Speculative,
    TokenMatch,
    Tree,
    Typical,
)
from draftverify.traits import GeneratorTraits
from draftverify.values import Law

from .test_sampling import CHAIN_RULES, TREE_RULES, a_block, law_of, on_torch

BY_NAME: dict[str, Any] = {"ids": lambda part: getattr(part, "kind", type(part).__name__)}
READ_Q = [
    rule for rule in CHAIN_RULES + TREE_RULES if not isinstance(rule, (GreedyMatch, TokenMatch, Typical))
]
READ_P = [rule for rule in CHAIN_RULES + TREE_RULES if not isinstance(rule, GreedyMatch)]
"""The one left out asks for the argmax, which is the same whatever a row sums to."""


def decide(rule: Any, proposal: Proposal, verification: Verification, seed: int = 0) -> Any:
    return rule.decide(None, proposal, verification, Draws((seed, 5), 0))


# Half precision


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("rule", CHAIN_RULES + TREE_RULES, **BY_NAME)
def test_half_precision_is_decided_on_as_the_same_numbers_in_single(rule: Any, precision: str) -> None:
    """torch's rows of 16 bits on a host: alone, and in a batch."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    widths = 2 if rule in TREE_RULES else 1
    made = [a_block(rng, n, 12, law_of(rule, n), widths=widths) for n in (0, 3, 5, 6)]
    half = [on_torch(*block, dtype=getattr(torch, precision)) for block in made]
    draws = [Draws((i, 9), 2) for i in range(len(half))]
    whole = [_single(*block) for block in half]
    alone = [rule.decide(None, *block, draw) for block, draw in zip(half, draws, strict=True)]
    assert alone == [rule.decide(None, *block, draw) for block, draw in zip(whole, draws, strict=True)]
    assert alone == rule.decide_many([None] * len(half), *zip(*half, strict=True), draws)


def _single(proposal: Proposal, verification: Verification) -> tuple[Proposal, Verification]:
    """The same numbers in NumPy's single precision."""

    def move(array: Any) -> Any:
        return None if array is None else array.float().numpy()

    law, evidence = proposal.law, verification.evidence
    assert evidence is not None
    moved = Law(law.kind, move(law.q), move(law.raw_maxima))
    return (
        msgspec.structs.replace(proposal, law=moved),
        Verification(evidence=Evidence(target=move(evidence.target), raw_maxima=move(evidence.raw_maxima))),
    )


# Rows that are hard on their digits


@pytest.mark.parametrize("left", [1e-12, 1e-30, 1e-38, 1e-41])
def test_a_peaked_draft_without_replacement_is_decided_on(left: float) -> None:
    """Once the likely sibling is struck from q, so little is left that p over it is more than float32 holds."""
    p = np.asarray([[0.1, 0.4, 0.3, 0.2], *[[0.25] * 4] * 3], dtype=np.float32)
    q = np.asarray([[1.0, left, 3 * left, 2 * left]], dtype=np.float32)
    tree = Proposal.tree([0, 2, 3], [-1] * 3, Law("without_replacement", q))
    # What the tree rule should do, on numbers of any size: q as it is once the first item is struck.
    after, struck = np.maximum(p[0] - q[0], 0).astype(float), q[0].astype(float) * [0, 1, 1, 1]
    found = [decide(Tree(), tree, Verification(evidence=Evidence(target=p)), seed) for seed in range(400)]
    first = [made for made in found if made.kept != (0,)]
    assert len(found) - len(first) == pytest.approx(40, abs=25)  # p/q of the first is .1
    second = min(1.0, (after[2] / after.sum()) / (struck[2] / struck.sum()))
    assert sum(made.kept == (1,) for made in first) == pytest.approx(second * len(first), abs=60)
    assert {made.kept for made in found} <= {(), (0,), (1,), (2,)}


def test_block_verification_keeps_its_digits_where_little_is_left() -> None:
    """h = S/(S + 1 − p_i): of an S far below 1 the sum S + 1 keeps no digits, 1 − p_i does."""
    size, gap = 4, np.float32(3 * 2**-25)  # beside 1, float32 takes it for 4 · 2^-25
    q = np.full((2, size), 0.25, dtype=np.float32)
    p = np.full((3, size), 0.25, dtype=np.float32)
    p[1, 0], p[1, 1] = 0.25 + gap, 0.25 - gap
    block = Proposal.chain([0, 1], iid(q)), Verification(evidence=Evidence(target=p))
    # p_1 = 1, so that h_1 = S/S = 1, and p_2 = 1 − 4·gap: of such draws only the first item is kept.
    rng = SimpleNamespace(uniforms=lambda positions: [0.9, 1 - 1e-8], uniform=lambda position, draw: 0.5)
    assert BlockVerification().decide(None, *block, rng).kept == (0,)


@pytest.mark.parametrize("scale", [1.0, 6.0, 20.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_lossy_law_finds_its_beta_for_large_vocabularies(scale: float, dtype: Any) -> None:
    """Σ (p/β − q)₊ is what a rejection leaves, 1 − Σ min(q, p/(1 − α)): flat rows and peaked ones."""
    rng = np.random.default_rng(int(scale))
    p, q = (np.exp(scale * rng.standard_normal((4, 5000)) - 5 * scale) for _ in range(2))
    p, q = (np.asarray(row / row.sum(-1, keepdims=True), dtype=dtype) for row in (p, q))
    law = Lossy(0.2)
    left = 1 - np.minimum(q.astype(float), p.astype(float) / 0.8).sum(-1)
    assert law.residual(p, q).sum(-1) == pytest.approx(left, abs=1e-12 if dtype is np.float64 else 1e-5)


# Rows that are no distributions


BAD = {
    "twice": lambda row: 2 * row,
    "half": lambda row: row / 2,
    "negative": lambda row: row + np.where(np.arange(len(row)) == 0, -0.5, 0.5 / (len(row) - 1)),
    "nan": lambda row: np.where(np.arange(len(row)) == 1, np.nan, row),
    "inf": lambda row: np.where(np.arange(len(row)) == 1, np.inf, row),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("rule", READ_Q, **BY_NAME)
def test_a_q_that_is_no_distribution_is_the_generator_s_fault(rule: Any, bad: str, library: str) -> None:
    """The error names the generator and the row of q, never the target; in a batch too."""
    rng = np.random.default_rng(1)
    kind = "without_replacement" if isinstance(rule, Tree) else "iid"
    proposal, verification = a_block(rng, 1, 12, kind)
    q = np.asarray([BAD[bad](row) for row in proposal.law.q])  # type: ignore[union-attr]
    wrong = msgspec.structs.replace(proposal, law=Law(kind, q, proposal.law.raw_maxima))  # type: ignore[arg-type]
    block = on_torch(wrong, verification) if library == "torch" else (wrong, verification)
    with pytest.raises(ContractError, match=r"row 0 of the generator's q .* sum to 1"):
        decide(rule, *block)
    sound = on_torch(proposal, verification) if library == "torch" else (proposal, verification)
    with pytest.raises(ContractError, match="generator's q"):
        rule.decide_many([None] * 2, *zip(sound, block, strict=True), [Draws((i, 5), 0) for i in range(2)])


@pytest.mark.parametrize("rule", [Speculative(), BlockVerification(), Lenience(0.5), KSeq()], **BY_NAME)
def test_the_row_that_is_named_is_the_one_that_decided(rule: Any) -> None:
    """The items before it were kept by rows that are sound; after a block that was kept whole it is the last one."""
    p = np.eye(4)[[1, 2, 3]]
    for row, items in ((0, [0, 2]), (1, [1, 0]), (1, [1, 2])):
        q = np.eye(4)[items]
        q[row] *= 0.9
        block = Proposal.chain(items, iid(q)), Verification(evidence=Evidence(target=p))
        with pytest.raises(ContractError, match=f"row {row} of the generator's q"):
            decide(rule, *block)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("rule", READ_P, **BY_NAME)
def test_a_p_that_is_no_distribution_is_the_verifier_s_fault(rule: Any, bad: str, library: str) -> None:
    """The error names the verifier and the row of p, whatever q says: of a block and an empty one; in a batch too."""
    rng = np.random.default_rng(1)
    for n in (0, 1):
        proposal, verification = a_block(rng, n, 12, law_of(rule, 0))
        evidence = verification.evidence
        p = np.asarray([BAD[bad](row) for row in evidence.target])  # type: ignore[union-attr]
        wrong = Verification(evidence=msgspec.structs.replace(evidence, target=p))  # type: ignore[type-var]
        block = on_torch(proposal, wrong) if library == "torch" else (proposal, wrong)
        with pytest.raises(ContractError, match=rf"row [0-{n}] of the verifier's target .* sum to 1"):
            decide(rule, *block)
        sound = on_torch(proposal, verification) if library == "torch" else (proposal, verification)
        with pytest.raises(ContractError, match=rf"row [0-{n}] of the verifier's target"):
            rule.decide_many(
                [None] * 2, *zip(sound, block, strict=True), [Draws((i, 5), 0) for i in range(2)]
            )


def test_the_row_of_p_that_is_named_is_the_one_that_decided() -> None:
    """With a q that is exact: of an item that is refused its own, and after a block that was kept whole the last."""
    items, q = [1, 2], np.eye(4)[[1, 2]]
    for rule in (Speculative(), BlockVerification(), TokenMatch(), KSeq(), Typical()):
        for row, wanted in ((0, 3), (1, 3), (2, 3)):
            p = np.eye(4)[[1, 2, 3]]
            p[row] = 0.6 * np.eye(4)[wanted]
            proposal = Proposal.chain(items, Law("given") if isinstance(rule, Typical) else iid(q))
            with pytest.raises(ContractError, match=f"row {row} of the verifier's target"):
                decide(rule, proposal, Verification(evidence=Evidence(target=p)))


@pytest.mark.parametrize("kind", ["int64", "bool"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("rule", CHAIN_RULES + TREE_RULES, **BY_NAME)
def test_rows_of_integers_are_decided_on_as_the_same_numbers_in_floats(
    rule: Any, library: str, kind: str
) -> None:
    """A target at temperature 0 is all ones and zeros; alone, and in a batch beside rows of floats."""
    rng = np.random.default_rng(5)
    made = []
    for n in (0, 3, 4):
        proposal, verification = a_block(rng, n, 6, law_of(rule, n))
        target = np.eye(6, dtype=np.float32)[rng.integers(0, 6, n + 1)]
        made.append((proposal, Evidence(target=target, raw_maxima=verification.evidence.raw_maxima)))  # type: ignore[union-attr]
    floats = [(proposal, Verification(evidence=evidence)) for proposal, evidence in made]
    whole = [
        (o, Verification(evidence=msgspec.structs.replace(e, target=e.target.astype(kind)))) for o, e in made
    ]
    if library == "torch":
        floats, whole = ([on_torch(*block) for block in blocks] for blocks in (floats, whole))
    draws = [Draws((i, 9), 2) for i in range(len(made))]
    alone = [rule.decide(None, *block, draw) for block, draw in zip(whole, draws, strict=True)]
    assert alone == [rule.decide(None, *block, draw) for block, draw in zip(floats, draws, strict=True)]
    mixed = [whole[0], floats[1], whole[2]]
    of_floats, *others = (
        rule.decide_many([None] * len(batch), *zip(*batch, strict=True), draws)
        for batch in (floats, whole, mixed)
    )
    assert others == [of_floats, of_floats]


def test_a_q_that_was_rounded_is_taken() -> None:
    """Rows of bfloat16 need not sum to 1 by half a percent."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for scale in (0.1, 3.0, 10.0):
        q = torch.softmax(scale * torch.randn(8, 5000), -1).to(torch.bfloat16)
        p = torch.softmax(scale * torch.randn(9, 5000), -1).to(torch.bfloat16)
        block = (
            Proposal.chain([int(row.argmax()) for row in q], iid(q)),
            Verification(evidence=Evidence(target=p)),
        )
        assert decide(Speculative(), *block).spliced


# Shapes


class Drafts:
    """Proposes nothing, or one item, of a law."""

    traits = GeneratorTraits(shape="chain", laws={"iid"})

    def __init__(self, items: tuple[int, ...], law: Law) -> None:
        self.items = items
        self.law = law

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain(self.items[:n], self.law)


def pipeline(rule: Any, items: tuple[int, ...], law: Law) -> Pipeline:
    return Pipeline(Drafts(items, law), TargetFrom(TableModel(5, seed=1)), rule, block=3, done=Limit(3))


@pytest.mark.parametrize("rule", [Speculative(), BlockVerification(), KSeq(), Lossy(0.2)], **BY_NAME)
def test_an_empty_block_of_a_law_needs_no_q(rule: Any) -> None:
    """It is one plain step, alone and beside blocks with items."""
    plain = pipeline(rule, (), Law("iid"))
    assert plain.run({"prompt_ids": [0]}).unwrap()
    assert all(
        outcome.unwrap()
        for outcome in plain.run([Task(id=str(i), input={"prompt_ids": [i]}) for i in range(3)])
    )
    p = np.full((2, 5), 0.2)
    blocks = [
        (Proposal.chain((), Law("iid")), Verification(evidence=Evidence(target=p[:1]))),
        (Proposal.chain([1], iid(p[:1])), Verification(evidence=Evidence(target=p))),
    ]
    made = rule.decide_many([None] * 2, *zip(*blocks, strict=True), [Draws((i, 5), 0) for i in range(2)])
    assert made == [decide(rule, *block, seed) for seed, block in enumerate(blocks)]


@pytest.mark.parametrize("length", [1, 3])
def test_raw_maxima_of_another_length_are_refused(length: int) -> None:
    """They are one for each row, and no other number is stretched to that; by the rule and by the engine."""
    p, q = np.full((3, 5), 0.2), np.full((2, 5), 0.2)
    rule, law = Cascade("chow", 0.5), iid(q, raw_maxima=np.full(length, 0.2))
    evidence = Evidence(target=p, raw_maxima=np.full(3, 0.2))
    with pytest.raises(ContractError, match=rf"generator's raw_maxima have shape \({length},\)"):
        decide(rule, Proposal.chain([1, 2], law), Verification(evidence=evidence))
    ended = pipeline(rule, (1, 2), law).run({"prompt_ids": [0]})
    assert ended.status == "failed"
    assert "Drafts: raw_maxima of q" in ended.failure.message  # type: ignore[union-attr]
    wrong = msgspec.structs.replace(evidence, raw_maxima=np.full(4 - length, 0.2))
    if length == 3:
        with pytest.raises(ContractError, match="verifier's raw_maxima"):
            decide(
                rule, Proposal.chain([1, 2], iid(q, raw_maxima=np.full(2, 0.2))), Verification(evidence=wrong)
            )


@pytest.mark.parametrize("items", [(2.7,), ("2",), (True,), np.asarray([2.7])], ids=repr)
@pytest.mark.parametrize("rule", CHAIN_RULES + TREE_RULES, **BY_NAME)
def test_what_is_no_token_id_is_judged_as_none(rule: Any, items: Any) -> None:
    """Not as the number that could be made of it."""
    rows = np.tile([0.0, 0.0, 1.0], (2, 1))
    evidence = Evidence(target=rows, raw_maxima=np.ones(2))
    law = Law("given") if "given" in rule.traits.laws else iid(rows[:1], raw_maxima=np.ones(1))
    with pytest.raises(ContractError, match="token ids"):
        decide(rule, Proposal.chain(items, law), Verification(evidence=evidence))


# The meter


@pytest.mark.parametrize("rule", [r for r in CHAIN_RULES + TREE_RULES if not r.traits.exact], **BY_NAME)
def test_the_drift_is_measured_where_it_is_asked_for_and_changes_nothing(rule: Any) -> None:
    """Off, as a rule comes, a decision has none of it; on, it is the same decision."""
    names = [
        name
        for name in ("kind", "alpha", "beta", "lenience", "weight", "epsilon", "delta")
        if hasattr(rule, name)
    ]
    off = type(rule)(**{name: getattr(rule, name) for name in names})
    rng = np.random.default_rng(4)
    for seed in range(20):
        block = a_block(rng, 4, 12, law_of(rule, seed))
        measured, plain = decide(rule, *block, seed), decide(off, *block, seed)
        assert measured.drift
        assert plain == msgspec.structs.replace(measured, drift=())


def test_an_outcome_says_whether_its_drift_was_measured() -> None:
    """None is no claim; a number is one."""
    law = iid(np.full((1, 5), 0.2))
    assert pipeline(Lenience(0.5), (1,), law).run({"prompt_ids": [0]}).drift is None
    assert pipeline(Speculative(), (1,), law).run({"prompt_ids": [0]}).drift is None
    assert pipeline(Lenience(0.5, measure_drift=True), (1,), law).run({"prompt_ids": [0]}).drift > 0  # type: ignore[operator]
