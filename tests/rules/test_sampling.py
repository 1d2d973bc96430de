"""Rules on chains in use: the same on NumPy and torch, alone and in batches; what a decision says; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import (
    ConfigError,
    ContractError,
    Draws,
    Evidence,
    Pipeline,
    PipelineError,
    Proposal,
    Refusal,
    Verification,
    iid,
    without_replacement,
)
from draftverify.rules import (
    BlockVerification,
    Cascade,
    Ensemble,
    GreedyMatch,
    KSeq,
    Lenience,
    Lossy,
    Speculative,
    TokenMatch,
    Tree,
    Typical,
)
from draftverify.traits import GeneratorTraits, VerifierTraits

CHAIN_RULES = [
    Speculative(),
    Lenience(0.6, measure_drift=True),
    Lossy(0.3, measure_drift=True),
    Lossy(0.3, 0.9, measure_drift=True),
    Ensemble(0.5, measure_drift=True),
    Cascade("chow", 0.5, measure_drift=True),
    Cascade("diff", 0.1, measure_drift=True),
    Cascade("opt", 0.2, measure_drift=True),
    Cascade("token_v1", 0.2, measure_drift=True),
    Cascade("token_v2", 0.2, measure_drift=True),
    Cascade("token_v3", 0.3, measure_drift=True),
    GreedyMatch(measure_drift=True),
    TokenMatch(),
    BlockVerification(),
]
TREE_RULES = [KSeq(), Tree(), Typical(measure_drift=True)]


def a_block(rng: Any, n: int, size: int, kind: str, *, widths: int = 1) -> tuple[Proposal, Verification]:
    """A random block with its rows: a chain, or a tree in which every node has `widths` children."""
    parents = [(i - widths) // widths if i >= widths else -1 for i in range(n)]
    items = [int(x) for x in rng.integers(0, size, n)]
    rows = max(parents, default=-1) + 2
    p = rng.dirichlet(np.ones(size), n + 1)
    q = rng.dirichlet(np.ones(size), rows)
    maxima = q.max(-1)
    if not n or kind == "given":
        proposal = Proposal.tree(items, parents)
    else:
        proposal = Proposal.tree(
            items, parents, (iid if kind == "iid" else without_replacement)(q, raw_maxima=maxima)
        )
    return proposal, Verification(evidence=Evidence(target=p, raw_maxima=p.max(-1)))


def on_torch(
    proposal: Proposal, verification: Verification, *, dtype: Any = None
) -> tuple[Proposal, Verification]:
    torch = pytest.importorskip("torch")

    def move(array: Any) -> Any:
        return None if array is None else torch.asarray(array, dtype=dtype)

    evidence = Evidence(
        target=move(verification.evidence.target), raw_maxima=move(verification.evidence.raw_maxima)
    )
    law = proposal.law
    moved = type(law)(law.kind, move(law.q), move(law.raw_maxima))
    return Proposal.tree(proposal.items, proposal.parents, moved), Verification(evidence=evidence)


def law_of(rule: Any, seed: int) -> str:
    return sorted(rule.traits.laws)[seed % len(rule.traits.laws)]


@pytest.mark.parametrize("rule", CHAIN_RULES + TREE_RULES, ids=lambda rule: type(rule).__name__)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 6), size=st.integers(2, 40))
@settings(max_examples=25, deadline=None)
def test_numpy_and_torch_decide_alike(rule: Any, seed: int, n: int, size: int) -> None:
    """The same draws, the same rows, the same decision: on arrays of either library."""
    widths = 2 if rule in TREE_RULES else 1
    proposal, verification = a_block(np.random.default_rng(seed), n, size, law_of(rule, seed), widths=widths)
    draws = Draws((seed, 1), 4)
    decision = rule.decide(None, proposal, verification, draws)
    assert rule.decide(None, *on_torch(proposal, verification), draws) == decision
    assert all(type(value) is int for value in (*decision.kept, *decision.spliced))


@given(seed=st.integers(0, 10**6), n=st.integers(0, 6))
@settings(max_examples=50, deadline=None)
def test_single_precision_decides_alike_too(seed: int, n: int) -> None:
    """float32 rows are compared in float64 with the draws, on both libraries."""
    torch = pytest.importorskip("torch")
    proposal, verification = a_block(np.random.default_rng(seed), n, 30, "iid")
    moved = on_torch(proposal, verification, dtype=torch.float32)
    law = type(moved[0].law)(proposal.law.kind, None if proposal.law.q is None else moved[0].law.q.numpy())
    back = (
        Proposal.chain(proposal.items, law),
        Verification(evidence=Evidence(target=moved[1].evidence.target.numpy())),
    )
    draws = Draws((seed, 2), 0)
    assert Speculative().decide(None, *back, draws) == Speculative().decide(None, *moved, draws)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("rule", CHAIN_RULES, ids=lambda rule: type(rule).__name__)
@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_batch_decides_as_its_sessions_would_alone(
    library: str, rule: Any, seed: int, lengths: list[int]
) -> None:
    """Ragged blocks of different laws in one pass."""
    rng = np.random.default_rng(seed)
    made = [a_block(rng, n, 12, law_of(rule, seed + i)) for i, n in enumerate(lengths)]
    if library == "torch":
        made = [on_torch(*block) for block in made]
    draws = [Draws((seed + i, i), i) for i in range(len(lengths))]
    together = rule.decide_many([None] * len(made), [p for p, _ in made], [v for _, v in made], draws)
    assert together == [rule.decide(None, p, v, d) for (p, v), d in zip(made, draws, strict=True)]


def certain(*items: int, size: int = 4) -> Any:
    """Rows with all mass on the given items."""
    return np.eye(size)[list(items)]


def test_a_decision_says_what_was_kept_spliced_and_refused() -> None:
    """The first refused item is refused, the ones after it are not judged."""
    verification = Verification(evidence=Evidence(target=certain(1, 2, 3, 0)))
    rules = [Speculative(), GreedyMatch(), TokenMatch(), BlockVerification(), Tree(), Typical()]
    for rule in rules:
        whole = rule.decide(None, Proposal.chain([1, 2, 3]), verification, Draws((0, 0), 0))
        assert (whole.kept, whole.spliced, whole.refused) == ((0, 1, 2), (0,), ())
        cut = rule.decide(None, Proposal.chain([1, 0, 3]), verification, Draws((0, 0), 0))
        assert (cut.kept, cut.spliced) == ((0,), (2,))
        assert [refusal.index for refusal in cut.refused] == [1]
        assert all(refusal.reason for refusal in cut.refused)
    step = Verification(evidence=Evidence(target=certain(3)))
    for rule in rules:
        plain = rule.decide(None, Proposal.chain(()), step, Draws((0, 0), 0))
        assert (plain.kept, plain.spliced, plain.refused) == ((), (3,), ())


def test_greedy_ties_fall_to_the_lowest_index() -> None:
    """As an argmax does everywhere."""
    torch = pytest.importorskip("torch")
    target = np.asarray([[0.1, 0.3, 0.3, 0.3], [0.25, 0.25, 0.25, 0.25]])
    for rows in (target, torch.asarray(target)):
        verification = Verification(evidence=Evidence(target=rows))
        assert GreedyMatch().decide(None, Proposal.chain([1]), verification, None).spliced == (0,)  # type: ignore[arg-type]
        assert GreedyMatch().decide(None, Proposal.chain([2]), verification, None).refused == (  # type: ignore[arg-type]
            Refusal(0, "not the argmax"),
        )


def test_items_may_be_an_array() -> None:
    """A drafter's row of token ids stays on its device."""
    torch = pytest.importorskip("torch")
    proposal, verification = a_block(np.random.default_rng(1), 4, 9, "iid")
    draws = Draws((5, 5), 0)
    expected = Speculative().decide(None, proposal, verification, draws)
    for items in (
        np.asarray(proposal.items),
        torch.asarray(proposal.items),
        [np.int32(i) for i in proposal.items],
    ):
        moved = Proposal.chain(items, proposal.law)
        found = Speculative().decide(None, moved, verification, draws)
        assert (found.kept, found.spliced, found.refused) == (
            expected.kept,
            expected.spliced,
            expected.refused,
        )


def test_equal_rows_that_round_apart_still_draw_from_p() -> None:
    """Where rounding refuses an item and leaves no residual, the splice is from p and not from an arbitrary index."""
    p = np.asarray([[0.0, 0.5, 0.5 - 1e-12], [0.0, 1.0, 0.0]])
    q = np.asarray([[0.0, 0.5, 0.5]])
    verification = Verification(evidence=Evidence(target=p))

    class Last(Draws):
        def uniform(self, position: int = 0, draw: int = 0) -> float:
            return 1 - 2**-53

    for rule in (Speculative(), BlockVerification(), KSeq()):
        decision = rule.decide(None, Proposal.chain([2], iid(q)), verification, Last((0, 0), 0))
        assert (decision.kept, decision.spliced) == ((), (2,))


BAD_ROWS = {"nan": np.full((2, 3), np.nan), "zero": np.zeros((2, 3)), "inf": np.full((2, 3), np.inf)}


@pytest.mark.parametrize("rule", [Speculative(), BlockVerification(), GreedyMatch(), TokenMatch(), Tree()])
@pytest.mark.parametrize("rows", BAD_ROWS)
def test_a_target_row_that_is_no_distribution_is_an_error(rule: Any, rows: str) -> None:
    """It must not turn into token 0."""
    verification = Verification(evidence=Evidence(target=BAD_ROWS[rows]))
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ContractError, match="of the verifier's target is no distribution"),
    ):
        rule.decide(None, Proposal.chain([1]), verification, Draws((0, 0), 0))


def test_the_row_that_is_no_distribution_is_named_of_the_block_that_has_it() -> None:
    """In a batch the first block may have kept more than the bad one did."""
    good, bad = np.full((3, 3), 1 / 3), np.zeros((3, 3))
    good[:2] = bad[0] = [0, 1, 0]
    made = [Verification(evidence=Evidence(target=rows)) for rows in (good, bad)]
    proposals, draws = [Proposal.chain([1, 1])] * 2, [Draws((0, 0), 0)] * 2
    with pytest.raises(ContractError, match="row 1 of the verifier's target is no distribution"):
        Speculative().decide_many([None] * 2, proposals, made, draws)  # type: ignore[list-item]


def one(
    items: Any = (1,), law: Any = None, target: Any = None, **evidence: Any
) -> tuple[Proposal, Verification]:
    proposal = Proposal.chain(items) if law is None else Proposal.chain(items, law)
    rows = np.full((2, 3), 1 / 3) if target is None else target
    return proposal, Verification(evidence=Evidence(target=rows, **evidence))


THIRD = np.full((1, 3), 1 / 3)


@pytest.mark.parametrize(
    ("rule", "block", "message"),
    [
        (Speculative(), (Proposal.chain([1]), Verification()), "no evidence.target"),
        (Tree(), (Proposal.chain([1]), Verification()), "no evidence.target"),
        (Speculative(), one((3,)), r"items \[3\] are not all in the target's vocabulary of 3"),
        (Tree(), one((-1,)), r"items \[-1\] are not all"),
        (Speculative(), one((np.int64(-1),)), "are not all"),
        (Typical(), one(np.asarray([7])), "are not all"),
        (Speculative(), one(law=iid(np.full((1, 4), 0.25))), "q is over 4 items, the target over 3"),
        (Cascade("chow", 0.1), one(), "law 'given' came to a rule that takes"),
        (KSeq(), one(), "law 'given' came"),
        (KSeq(), one(law=without_replacement(THIRD)), "law 'without_replacement' came"),
        (Tree(), one(law=iid(THIRD)), "law 'iid' came"),
        (Cascade("diff", 0.1), one(law=iid(THIRD)), "the verifier gave no raw_maxima"),
        (
            Cascade("diff", 0.1),
            one(law=iid(THIRD), raw_maxima=np.full(2, 0.5)),
            "the generator gave no raw_maxima",
        ),
    ],
)
def test_a_block_that_does_not_fit_is_an_error(rule: Any, block: Any, message: str) -> None:
    """Each says what does not fit."""
    with pytest.raises(ContractError, match=message):
        rule.decide(None, *block, Draws((0, 0), 0))


@pytest.mark.parametrize("bad", range(3))
def test_one_block_that_does_not_fit_is_found_among_many(bad: int) -> None:
    """Wherever it stands: those that share a law are looked at once, an empty one is always good."""
    blocks = [one(), one(), one()]
    blocks[bad] = one(law=iid(np.full((1, 4), 0.25)))
    empty = one((), iid(np.full((1, 4), 0.25)), THIRD)
    proposals, verifications = zip(*blocks, empty, strict=True)
    with pytest.raises(ContractError, match="q is over 4 items, the target over 3"):
        Speculative().decide_many([None] * 4, proposals, verifications, [Draws((0, 0), 0)] * 4)


@pytest.mark.parametrize(
    ("rule", "laws", "message"),
    [
        (Cascade("chow", 0.1), {"given"}, "draws by the law given, for which the rule Cascade does not"),
        (Cascade("diff", 0.1), {"given", "iid"}, "given"),
        (Cascade("opt", 0.1), {"given"}, "given"),
        (Cascade("token_v1", 0.1), {"given"}, "given"),
        (KSeq(), {"without_replacement"}, "without_replacement"),
        (KSeq(), {"given"}, "given"),
        (Tree(), {"iid"}, "iid"),
        (Speculative(), {"without_replacement"}, "without_replacement"),
    ],
)
def test_a_law_that_a_rule_is_not_made_for_is_refused_when_built(
    rule: Any, laws: set[str], message: str
) -> None:
    """Before any task runs; one-hot drafts under Chow, Diff and OPT would all be kept."""

    class Part:
        def __init__(self, laws: Any) -> None:
            self.traits = (GeneratorTraits(laws=laws), VerifierTraits(provides={"target", "raw_maxima"}))

        def propose(self, context: Any, n: int) -> Any: ...

        def verify(self, context: Any, proposal: Any) -> Any: ...

    part: Any = Part(laws)
    with pytest.raises(PipelineError, match=message):
        Pipeline(part, part, rule)
    part = Part(rule.traits.laws)
    Pipeline(part, part, rule)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Lenience(0.0), "lenience"),
        (lambda: Lenience(1.1), "lenience"),
        (lambda: Lossy(1.0), "alpha"),
        (lambda: Lossy(0.3, 0.5), "beta"),
        (lambda: Lossy(0.3, 1.5), "beta"),
        (lambda: Cascade("deferred", 0.1), "kind"),  # type: ignore[arg-type]
        (lambda: Cascade("chow", 2.0), "alpha"),
        (lambda: Ensemble(float("nan")), "weight"),
        (lambda: Typical(epsilon=0.0), "epsilon"),
        (lambda: Typical(epsilon=float("nan")), "epsilon"),
        (lambda: Typical(delta=float("nan")), "delta"),
        (lambda: Lenience("0.5"), "lenience"),  # type: ignore[arg-type]
    ],
)
def test_parameters_outside_their_range_are_refused(make: Any, path: str) -> None:
    """With the name of the parameter, for the config's error."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.path == path


def test_which_rules_are_exact() -> None:
    """Lossy laws are exact at the end of their range, and say so."""
    exact = [Speculative(), BlockVerification(), TokenMatch(), KSeq(), Tree()]
    exact += [Lenience(1.0), Lossy(0.0), Ensemble(1.0)]
    assert all(rule.traits.exact for rule in exact)
    assert not any(
        rule.traits.exact
        for rule in [Lenience(0.9), Lossy(0.1), Ensemble(0.9), Cascade("token_v3", 0.0), Typical()]
    )


@pytest.mark.parametrize("rule", [Speculative(), TokenMatch(), Ensemble(0.5)])
def test_items_of_an_array_come_to_the_host_with_the_decision(rule):
    """A block that lies on a device needs no transfer of its own: the rule's brings the items, each block's own."""
    torch = pytest.importorskip("torch")
    p = torch.full((2, 4, 5), 0.2)
    proposals = [
        Proposal.chain(torch.tensor([1, 2, 3]), iid(p[0, :3])),
        Proposal.chain(torch.tensor([4]), iid(p[0, :1])),
    ]
    found = [Verification(evidence=Evidence(target=p[b, : n + 1])) for b, n in enumerate((3, 1))]
    rngs = [Draws((b, 7), 0) for b in range(2)]
    contexts: Any = [None, None]
    decisions = rule.decide_many(contexts, proposals, found, rngs)
    assert [decision.items for decision in decisions] == [(1, 2, 3), (4,)]
    on_host = [Proposal.chain(tuple(o.items.tolist()), o.law) for o in proposals]
    same = rule.decide_many(contexts, on_host, found, rngs)
    assert [(d.kept, d.spliced, d.drift) for d in same] == [(d.kept, d.spliced, d.drift) for d in decisions]
    assert all(decision.items == () for decision in same)
