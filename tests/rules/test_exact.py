"""Exactness by enumeration: what a rule emits over all of its draws, all drafts and all rounds, to 1e-12.

`decide` itself is enumerated, see enumeration.py. p and q differ at every prefix. The mistakes that are known from
published code are put in on purpose, and the same check must find them.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from draftverify import Decision, Proposal, iid
from draftverify.kit.unknowns import Path, Stream, explore
from draftverify.rules import (
    BlockVerification,
    Cascade,
    Ensemble,
    GreedyMatch,
    KSeq,
    Lenience,
    Lossy,
    Positionwise,
    Speculative,
    TokenMatch,
    Tree,
)
from draftverify.traits import RuleTraits

from . import oracle
from .enumeration import (
    Model,
    declared_joint,
    draft_given,
    draft_iid,
    draft_reranked,
    draft_tree,
    draft_unknown,
    emitted,
    error,
    joint,
    one_round,
    target_joint,
)

EXACT = 1e-12


def test_the_enumeration_itself_agrees_with_a_reader_s_speculate():
    """The plain fifty-line loop, enumerated the same way, emits the target's joint distribution."""
    model = Model(3, 1)

    def run(path: Path) -> tuple[int, ...]:
        counter = iter(range(100))
        stream = Stream(path, "all")
        return oracle.speculate(model.p, model.q, (), 2, lambda: stream.uniform(next(counter)))

    found: dict[tuple[int, ...], float] = {}
    for new, probability in explore(run):
        found[new[:1]] = found.get(new[:1], 0.0) + probability
    assert error(found, target_joint(model, 1)) < EXACT
    mine = one_round(model, (), 2, Speculative(), draft_iid)
    theirs: dict[tuple[int, ...], float] = {}
    for new, probability in explore(run):
        theirs[new] = theirs.get(new, 0.0) + probability
    assert error(mine, theirs) < EXACT


@pytest.mark.parametrize(
    ("rule", "drafter"),
    [
        (Speculative(), draft_iid),
        (Speculative(), draft_given),
        (Speculative(), draft_unknown),
        (BlockVerification(), draft_iid),
        (BlockVerification(), draft_given),
        (BlockVerification(), draft_unknown),
        (Lenience(1.0), draft_iid),
        (Lossy(0.0), draft_iid),
        (Lossy(0.0, 1.0), draft_given),
        (Ensemble(1.0), draft_iid),
        (Cascade("token_v1", -1.0), draft_iid),
        (Cascade("token_v2", -1.0), draft_given),
        (Tree(), draft_given),
        (KSeq(), draft_iid),
    ],
    ids=lambda part: getattr(part, "__name__", type(part).__name__),
)
@pytest.mark.parametrize(("size", "n", "zeros"), [(2, 3, False), (3, 3, True), (4, 2, False)])
def test_chain_rules_emit_the_target_s_joint_distribution(
    rule: Any, drafter: Any, size: int, n: int, zeros: bool
) -> None:
    """Every exact rule on chains, for vocabularies with holes too, over several rounds down to the empty block."""
    model = Model(size, 7 * size + n, zeros=zeros)
    assert error(joint(model, n + 1, n, rule, drafter), target_joint(model, n + 1)) < EXACT


@pytest.mark.parametrize(
    "rule",
    [pytest.param(Speculative(), marks=pytest.mark.exhaustive), BlockVerification()],
    ids=["speculative", "block"],
)
def test_the_largest_case(rule: Any) -> None:
    """Five items, blocks of three, four items out."""
    model = Model(5, 3)
    assert error(joint(model, 4, 3, rule, draft_iid), target_joint(model, 4)) < EXACT


@pytest.mark.parametrize("drafter", [draft_iid, draft_given])
def test_token_match_is_exact_for_any_draft(drafter: Any) -> None:
    """It never asks where an item came from."""
    model = Model(3, 5, zeros=True)
    assert error(joint(model, 3, 2, TokenMatch(), drafter), target_joint(model, 3)) < EXACT


def test_greedy_match_emits_the_argmax_path() -> None:
    """The one sequence that the target writes at temperature 0."""
    model = Model(4, 9)
    path: tuple[int, ...] = ()
    for _ in range(4):
        path = (*path, int(model.p(path).argmax()))
    assert joint(model, 4, 3, GreedyMatch(), draft_iid) == {path: pytest.approx(1.0, abs=EXACT)}


LOSSY = [
    (Lenience(0.5), oracle.lenience(0.5)),
    (Lossy(0.3), oracle.lossy(0.3)),
    (Lossy(0.3, 1.0), oracle.lenience(0.7)),
    (Ensemble(0.6), oracle.ensemble(0.6)),
    *((Cascade("chow", a), oracle.chow(a)) for a in (0.3, 0.5)),
    *((Cascade("diff", a), oracle.diff(a)) for a in (-0.1, 0.2)),
    *((Cascade("opt", a), oracle.opt(a)) for a in (-0.3, 0.5)),
    *((Cascade("token_v1", a), oracle.token_v1(a)) for a in (0.1, 0.3)),
    *((Cascade("token_v2", a), oracle.token_v2(a)) for a in (0.1, 0.3)),
    *((Cascade("token_v3", a), oracle.token_v3(a)) for a in (0.0, 0.4)),
]


@pytest.mark.parametrize(("rule", "pi"), LOSSY, ids=lambda part: getattr(part, "kind", type(part).__name__))
@pytest.mark.parametrize(("size", "n", "zeros"), [(2, 3, False), (3, 2, True), (5, 1, False)])
def test_each_law_emits_its_declared_pi(rule: Any, pi: Any, size: int, n: int, zeros: bool) -> None:
    """π at every drafted position, p for the bonus."""
    model = Model(size, 13 * size + n, zeros=zeros)
    assert not rule.traits.exact
    assert error(joint(model, n + 1, n, rule, draft_iid), declared_joint(model, n + 1, n, pi)) < EXACT


@pytest.mark.parametrize(
    ("rule", "pi"),
    [(rule, pi) for rule, pi in LOSSY if "given" in rule.traits.laws],
    ids=lambda part: getattr(part, "kind", type(part).__name__),
)
def test_each_law_that_takes_given_items_emits_its_pi_of_a_point_mass(rule: Any, pi: Any) -> None:
    """A given item is one on which q puts all mass."""
    model = Model(3, 31)
    got = joint(model, 3, 2, rule, draft_given)
    assert error(got, declared_joint(model, 3, 2, pi, given=True)) < EXACT


def test_some_choices_of_alpha_defer_and_some_do_not() -> None:
    """The cascades tested above differ from both p and q, so that their tests can fail."""
    model = Model(3, 41, zeros=True)
    for rule, pi in LOSSY:
        rows = [
            model.rows(prefix)
            for prefix in [(), (0,), (1,), (2,), (0, 0), (0, 1), (1, 1), (2, 2), (2, 1), (1, 2)]
        ]
        if getattr(rule, "kind", "") in ("chow", "diff", "opt"):
            sides = {pi(*row) is row[1] for row in rows}
            assert sides == {True, False}, rule.kind


def test_token_v3_at_alpha_0_is_not_speculative_sampling() -> None:
    """Although it was published as such."""
    model = Model(3, 0)
    assert error(joint(model, 1, 1, Cascade("token_v3", 0.0), draft_iid), target_joint(model, 1)) > 0.05


@pytest.mark.parametrize("rule", [Speculative(), BlockVerification()], ids=["speculative", "block"])
def test_a_drafter_may_stop_where_it_likes(rule: Any) -> None:
    """A block's length may depend on what was drafted, so long as the last item is not taken back."""
    model = Model(3, 2)

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        items: list[int] = []
        while len(items) < n and not (items and items[-1] == 0):
            items = list(draft_iid(model, prefix, len(items) + 1, rng).items)
        return draft_iid(model, prefix, len(items), rng)

    assert error(joint(model, 4, 3, rule, draft), target_joint(model, 4)) < EXACT


@pytest.mark.parametrize("drafter", [draft_iid, draft_given])
def test_block_verification_keeps_no_fewer_items_than_speculative_sampling(drafter: Any) -> None:
    """In expectation, for every p and q; and for drafts from a model, strictly more here."""
    for seed in range(5):
        model = Model(3, seed)
        expected = {
            rule: sum(
                len(new) * probability
                for new, probability in one_round(model, (), 3, rule(), drafter).items()
            )
            for rule in (Speculative, BlockVerification)
        }
        assert expected[BlockVerification] >= expected[Speculative] - EXACT
        if drafter is draft_iid:
            assert expected[BlockVerification] > expected[Speculative] + 1e-4


TREES = [
    (KSeq(), "iid", 4, (2,)),
    (KSeq(), "iid", 3, (3,)),
    (KSeq(), "iid", 2, (2, 2)),
    (KSeq(), "iid", 3, (2, 1)),
    (Tree(), "without_replacement", 4, (2,)),
    (Tree(), "without_replacement", 4, (3,)),
    (Tree(), "without_replacement", 5, (2,)),
    (Tree(), "without_replacement", 3, (2, 2)),
    (Tree(), "without_replacement", 3, (3, 1)),
    (Tree(), "given", 4, (2, 2)),
    (Tree(), "given", 5, (3, 2)),
]


@pytest.mark.parametrize(("rule", "kind", "size", "widths"), TREES)
@pytest.mark.parametrize("zeros", [False, True])
def test_tree_rules_emit_the_target_s_joint_distribution(
    rule: Any, kind: str, size: int, widths: tuple[int, ...], zeros: bool
) -> None:
    """Two and three siblings, one and two deep, and the rounds after."""
    model = Model(size, 13 * size + len(widths), zeros=zeros)
    depth = len(widths)
    got = joint(model, depth + 1, depth, rule, draft_tree(widths, kind))
    assert error(got, target_joint(model, depth + 1)) < EXACT


@pytest.mark.parametrize(
    ("rule", "kind"), [(KSeq(), "iid"), (Tree(), "without_replacement"), (Tree(), "given")]
)
def test_a_lopsided_tree(rule: Any, kind: str) -> None:
    """Only the second of two siblings has children of its own."""
    model = Model(3, 8)

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        parents = (-1, -1, 1, 1)[: 2 * n]
        return model.draft(prefix, len(parents), rng, shape="tree", law=kind, parents=parents)

    assert error(joint(model, 3, 2, rule, draft), target_joint(model, 3)) < EXACT


def test_more_siblings_are_accepted_more_often() -> None:
    """k-SEQ and the tree rule gain from each sibling; deterministic siblings cover the most here."""
    model = Model(4, 21)
    for rule, kind in ((KSeq(), "iid"), (Tree(), "without_replacement"), (Tree(), "given")):
        kept = [
            sum(p for new, p in one_round(model, (), 1, rule, draft_tree((k,), kind)).items() if len(new) > 1)
            for k in (1, 2, 3)
        ]
        assert kept[0] < kept[1] < kept[2]


# Known mistakes. Each must be found, by the same check, and by far.


class WrongResidual(Positionwise):
    """The residual of another π than the one that is accepted by."""

    traits = RuleTraits(shapes={"chain"}, needs={"target"}, laws={"iid"}, exact=True)
    elementwise = True

    def accept(self, p: Any, q: Any, p_max: Any = None, q_max: Any = None) -> Any:
        return p

    def residual(self, p: Any, q: Any, p_max: Any = None, q_max: Any = None) -> Any:
        return p


class BonusFromQ:
    """The bonus of a block kept whole is drawn from the draft's own distribution."""

    def __init__(self, rule: Any, model: Model) -> None:
        self.rule, self.model = rule, model

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        target = np.array(verification.evidence.target)
        target[-1] = self.model.q((*context.accepted, *proposal.items))
        evidence = msgspec.structs.replace(verification.evidence, target=target)
        return self.rule.decide(
            context, proposal, msgspec.structs.replace(verification, evidence=evidence), rng
        )


def with_tail(proposal: Proposal, decision: Decision) -> tuple[int, ...]:
    """What is emitted when the items after the refused one are not dropped."""
    after = proposal.items[len(decision.kept) + 1 :]
    return (*emitted(proposal, decision), *after)


def regenerated(proposal: Proposal, decision: Decision) -> tuple[int, ...]:
    """What is emitted when a refused item is drafted anew instead of being replaced from the residual."""
    kept = tuple(proposal.items[i] for i in decision.kept)
    return kept if decision.refused else emitted(proposal, decision)


MISTAKES = {
    "residual of the wrong π": lambda m: joint(m, 3, 2, WrongResidual(), draft_iid),
    "bonus from q": lambda m: joint(m, 3, 2, BonusFromQ(Speculative(), m), draft_iid),
    "bonus from q, block": lambda m: joint(m, 3, 2, BonusFromQ(BlockVerification(), m), draft_iid),
    "tail not dropped": lambda m: joint(m, 3, 2, Speculative(), draft_iid, new=with_tail),
    "one stream for both": lambda m: joint(m, 3, 2, Speculative(), draft_iid, streams=("one", "one")),
    "regenerated, not spliced": lambda m: joint(m, 3, 2, Speculative(), draft_iid, new=regenerated),
    "tail not dropped, block": lambda m: joint(m, 3, 2, BlockVerification(), draft_iid, new=with_tail),
    "one stream for both, block": lambda m: joint(
        m, 3, 2, BlockVerification(), draft_iid, streams=("one", "one")
    ),
    "regenerated, not spliced, block": lambda m: joint(
        m, 3, 2, BlockVerification(), draft_iid, new=regenerated
    ),
    "regenerated, not spliced, tree": lambda m: joint(
        m, 2, 1, KSeq(), draft_tree((2,), "iid"), new=regenerated
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_known_mistake_is_found(mistake: str) -> None:
    """Put into an exact rule, it moves the joint distribution by far more than the check allows."""
    model = Model(3, 6)
    got = MISTAKES[mistake](model)
    assert math.isclose(sum(got.values()), 1.0, abs_tol=1e-9)
    assert error(got, target_joint(model, len(next(iter(got))))) > 1e-3


def test_a_generator_that_lies_about_q_is_found() -> None:
    """It reports a q that it did not draw from (transformers issue 47932)."""
    model, other = Model(3, 6), Model(3, 66)

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        honest = draft_iid(other, prefix, n, rng)
        if not n:
            return honest
        q = np.stack([model.q((*prefix, *honest.items[:i])) for i in range(n)])
        return msgspec.structs.replace(honest, law=msgspec.structs.replace(honest.law, q=q))

    assert error(joint(model, 3, 2, Speculative(), draft), target_joint(model, 3)) > 1e-3


@pytest.mark.parametrize("shaped", ["drafts", "report", "both"])
def test_sampling_settings_that_shape_one_of_the_two_are_found(shaped: str) -> None:
    """Drafts at another temperature than their q, or a q with another one than the drafts; both alike is right."""
    model = Model(3, 6)
    rows = {"drafts": (0.4, 1.0), "report": (1.0, 0.4), "both": (0.4, 0.4)}[shaped]

    def at(prefix: tuple[int, ...], temperature: float) -> Any:
        row = model.q(prefix) ** (1 / temperature)
        return row / row.sum()

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        items: list[int] = []
        for i in range(n):
            items.append(oracle.choose(at((*prefix, *items), rows[0]), rng.uniform(i)))
        if not n:
            return Proposal.chain(())
        return Proposal.chain(items, iid(np.stack([at((*prefix, *items[:i]), rows[1]) for i in range(n)])))

    off = error(joint(model, 3, 2, Speculative(), draft), target_joint(model, 3))
    assert off < EXACT if shaped == "both" else off > 1e-3


def test_an_item_taken_back_for_what_it_is_is_found() -> None:
    """A drafter that drops its last item when it does not like it has not drawn the others' successors from q."""
    model = Model(3, 6)

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        made = draft_iid(model, prefix, n, rng)
        return draft_iid(model, prefix, n - 1, rng) if n and made.items[-1] == 0 else made

    assert error(joint(model, 3, 2, Speculative(), draft), target_joint(model, 3)) > 1e-3


def as_law(kind: str, drafter: Any) -> Any:
    """A drafter that names another law than its own."""

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        made = drafter(model, prefix, n, rng)
        return msgspec.structs.replace(made, law=msgspec.structs.replace(made.law, kind=kind)) if n else made

    return draft


@pytest.mark.parametrize(
    ("rule", "drafter"),
    [
        (KSeq(), as_law("iid", draft_tree((2,), "without_replacement"))),
        (Tree(), draft_reranked((2,))),
        (Tree(), draft_reranked((3,))),
        (KSeq(), as_law("iid", draft_reranked((2,)))),
    ],
    ids=["k_seq without replacement", "2 reranked", "3 reranked", "k_seq reranked"],
)
def test_siblings_of_another_law_are_found(rule: Any, drafter: Any) -> None:
    """Which is why a rule takes only the laws that it is exact for."""
    model = Model(4, 21)
    assert error(joint(model, 1, 1, rule, drafter), target_joint(model, 1)) > 1e-3


@pytest.mark.parametrize(
    "drafter", [draft_tree((2,), "without_replacement"), draft_reranked((3,)), draft_tree((2,), "iid")]
)
def test_siblings_of_any_law_may_be_called_given(drafter: Any) -> None:
    """Nothing that the rule's own draws did not influence can break it: it is judged as if p alone decided."""
    model = Model(4, 21)

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        made = drafter(model, prefix, n, rng)
        return Proposal.tree(made.items, made.parents)

    assert error(joint(model, 2, 1, Tree(), draft), target_joint(model, 2)) < EXACT
