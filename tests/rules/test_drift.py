"""The drift meter: what a lossy rule reports per value is, on average, how far it strays from the target.

The meter's mean over all drafts and draws is enumerated, see enumeration.py, and held against the reader's π of
oracle.py: Σ over the states of the chance of being in it times TV(π, p) there. It bounds the distance of the
distributions of whole sequences, which is what it is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from draftverify import Decision, Draws, Evidence, Proposal, Verification, iid
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

from . import oracle
from .enumeration import (
    Joint,
    Model,
    block_at,
    draft_given,
    draft_iid,
    draft_tree,
    draft_unknown,
    emitted,
    given_item,
    one_round,
    target_joint,
)

EXACT = 1e-12


def metered(model: Model, total: int, n: int, rule: Any, drafter: Any) -> tuple[Joint, float]:
    """The distribution of the first `total` items, and the mean sum of what the meter shows for them."""

    def new(proposal: Proposal, decision: Decision) -> Any:
        assert len(decision.drift) == len(decision.kept) + len(decision.spliced)
        return emitted(proposal, decision), decision.drift

    done: Joint = {}
    states: list[Joint] = [{} for _ in range(total)]
    states[0][()] = 1.0
    meter = 0.0
    for length in range(total):
        for prefix, weight in states[length].items():
            rounds = one_round(model, prefix, block_at(length, n), rule, drafter, new=new)
            for (items, drift), probability in rounds.items():  # type: ignore[misc]
                after = (*prefix, *items)[:total]  # type: ignore[misc]
                place = done if len(after) == total else states[len(after)]
                place[after] = place.get(after, 0.0) + weight * probability
                meter += weight * probability * sum(drift[: total - length])  # type: ignore[misc, index]
    return done, meter


def distance(p: Any, q: Any) -> float:
    return 0.5 * float(np.abs(np.asarray(p) - np.asarray(q)).sum())


def declared(
    model: Model, total: int, n: int, pi: Callable[..., Any], *, bonus: Any = None, given: bool = False
) -> float:
    """The mean of Σ TV(π, p) by the formulas: π at drafted positions, `bonus` (p when None) at a round's last one."""

    def start(prefix: tuple[int, ...]) -> float:
        return go(prefix, block_at(len(prefix), n))

    def go(prefix: tuple[int, ...], left: int) -> float:
        if len(prefix) == total:
            return 0.0
        p, q, p_max, q_max = model.rows(prefix)
        if given:
            q = np.eye(model.size)[given_item(model, prefix)]
        row = np.asarray(pi(p, q, p_max, q_max) if left else p if bonus is None else bonus(p))
        found = distance(row, p)
        for v in range(model.size):
            kept = min(float(q[v]), float(row[v])) if left else 0.0
            if kept > 0:
                found += kept * go((*prefix, v), left - 1)
            if row[v] - kept > 0:
                found += (float(row[v]) - kept) * start((*prefix, v))
        return found

    return start(())


def apart(got: Joint, wanted: Joint) -> float:
    """TV of two distributions of sequences."""
    return 0.5 * sum(abs(got.get(key, 0.0) - wanted.get(key, 0.0)) for key in got.keys() | wanted.keys())


def by_prefix(model: Model, got: Joint, total: int) -> float:
    """Σ Π(prefix)·TV(Π(· | prefix), p(· | prefix)), from the sequences alone."""
    found = 0.0
    for length in range(total):
        rows: dict[tuple[int, ...], Any] = {}
        for sequence, weight in got.items():
            rows.setdefault(sequence[:length], np.zeros(model.size))[sequence[length]] += weight
        found += sum(
            row.sum() * distance(row / row.sum(), model.p(prefix))
            for prefix, row in rows.items()
            if row.sum() > 0
        )
    return found


def holds(model: Model, total: int, n: int, rule: Any, drafter: Any, right: float) -> None:
    """The meter shows `right`, and bounds both distances from the target."""
    got, meter = metered(model, total, n, rule, drafter)
    assert meter == pytest.approx(right, abs=1e-9)
    assert by_prefix(model, got, total) <= meter + EXACT
    assert apart(got, target_joint(model, total)) <= meter + EXACT
    assert meter > 0.01  # else nothing was shown


def argmax(p: Any) -> Any:
    return np.eye(len(p))[int(np.argmax(p))]


def typical(p: Any, q: Any, p_max: float, q_max: float) -> Any:
    """What typical acceptance with the paper's parameters emits of one draw from q."""
    entropy = -sum(x * np.log(x) for x in p if x > 0)
    likely = np.asarray(p) > min(0.09, 0.3 * np.exp(-entropy))
    return q * likely + (1 - (q * likely).sum()) * argmax(p)


LOSSY = [
    (Lenience(0.5, measure_drift=True), oracle.lenience(0.5), None),
    (Lossy(0.3, measure_drift=True), oracle.lossy(0.3), None),
    (Lossy(0.3, 1.0, measure_drift=True), oracle.lenience(0.7), None),
    (Ensemble(0.6, measure_drift=True), oracle.ensemble(0.6), None),
    (Cascade("chow", 0.8, measure_drift=True), oracle.chow(0.8), None),
    (Cascade("diff", 0.2, measure_drift=True), oracle.diff(0.2), None),
    (Cascade("opt", 0.5, measure_drift=True), oracle.opt(0.5), None),
    (Cascade("token_v1", 0.3, measure_drift=True), oracle.token_v1(0.3), None),
    (Cascade("token_v2", 0.3, measure_drift=True), oracle.token_v2(0.3), None),
    (Cascade("token_v3", 0.4, measure_drift=True), oracle.token_v3(0.4), None),
    (GreedyMatch(measure_drift=True), lambda p, q, p_max, q_max: argmax(p), argmax),
    (Typical(measure_drift=True), typical, argmax),
]
names = {"ids": lambda part: getattr(part, "kind", type(part).__name__)}


@pytest.mark.parametrize(("rule", "pi", "bonus"), LOSSY, **names)
@pytest.mark.parametrize(("size", "n", "zeros"), [(3, 2, True), (5, 1, False)])
def test_the_meter_shows_the_distance_of_what_is_emitted(
    rule: Any, pi: Any, bonus: Any, size: int, n: int, zeros: bool
) -> None:
    """Over several rounds down to the empty block, and cut inside a block, for drafts of a model."""
    model = Model(size, 17 * size + n, zeros=zeros)
    holds(model, n + 1, n, rule, draft_iid, declared(model, n + 1, n, pi, bonus=bonus))


@pytest.mark.parametrize(
    ("rule", "pi", "bonus"), [entry for entry in LOSSY if "given" in entry[0].traits.laws], **names
)
def test_the_meter_of_given_items(rule: Any, pi: Any, bonus: Any) -> None:
    """q is all on the drafted item."""
    model = Model(3, 31)
    holds(model, 3, 2, rule, draft_given, declared(model, 3, 2, pi, bonus=bonus, given=True))


@pytest.mark.parametrize(
    ("rule", "drafter"),
    [
        *((rule, draft_unknown) for rule, *_ in LOSSY if "given" in rule.traits.laws),
        *(
            (Typical(measure_drift=True), draft_tree((2, 2), kind))
            for kind in ("given", "iid", "without_replacement")
        ),
    ],
    **names,
)
def test_where_pi_is_not_known_the_meter_shows_no_less(rule: Any, drafter: Any) -> None:
    """Draws whose q is kept from the rule, and trees, in which siblings' offspring decide: a bound all the same."""
    model = Model(3, 12)
    got, meter = metered(model, 3, 2, rule, drafter)
    assert apart(got, target_joint(model, 3)) <= by_prefix(model, got, 3) + EXACT
    assert by_prefix(model, got, 3) <= meter + EXACT


@pytest.mark.parametrize("kind", ["given", "iid", "without_replacement"])
def test_in_a_tree_the_meter_of_typical_acceptance_knows_the_draft(kind: str) -> None:
    """Siblings' offspring decide which of them is kept, so that no one draw makes the distribution of a value."""
    model = Model(3, 12)

    def new(proposal: Proposal, decision: Decision) -> Any:
        values = emitted(proposal, decision)
        lost = [1 - model.p(values[:i])[value] for i, value in enumerate(values)]
        assert decision.drift == pytest.approx(lost)
        return values

    assert (
        sum(one_round(model, (), 2, Typical(measure_drift=True), draft_tree((2, 2), kind), new=new).values())
        > 0.99
    )


class Reports:
    """Another rule, with its drift changed."""

    def __init__(self, rule: Any, change: Any) -> None:
        self.rule, self.change = rule, change

    def decide(self, *arguments: Any) -> Decision:
        made = self.rule.decide(*arguments)
        drift = self.change(made.drift)
        return Decision(kept=made.kept, spliced=made.spliced, refused=made.refused, drift=drift)


@pytest.mark.parametrize(
    "change",
    [
        lambda drift: tuple(tv * 0.9 for tv in drift),
        lambda drift: (0.0, *drift[1:]),
        lambda drift: (*drift[:-1], 0.0),
        lambda drift: tuple(tv + 0.01 for tv in drift),
    ],
    ids=["a tenth less", "nothing for the first", "nothing for the splice", "too much"],
)
@pytest.mark.parametrize(
    "rule",
    [
        Lenience(0.5, measure_drift=True),
        Cascade("token_v2", 0.3, measure_drift=True),
        Typical(measure_drift=True),
    ],
    **names,
)
def test_a_meter_that_shows_something_else_is_found(rule: Any, change: Any) -> None:
    """By the same check."""
    model = Model(3, 6)
    pi, bonus = next((pi, bonus) for other, pi, bonus in LOSSY if type(other) is type(rule)
                     and getattr(other, "kind", "") == getattr(rule, "kind", ""))  # fmt: skip
    right = declared(model, 3, 2, pi, bonus=bonus)
    holds(model, 3, 2, rule, draft_iid, right)
    with pytest.raises(AssertionError):
        holds(model, 3, 2, Reports(rule, change), draft_iid, right)


def test_a_rule_that_shows_nothing_breaks_the_bound() -> None:
    """Sequences of a cascade lie farther from the target's than a silent meter says."""
    model = Model(3, 6)
    got, meter = metered(model, 3, 2, Cascade("chow", 0.9, measure_drift=True), draft_iid)
    assert meter > apart(got, target_joint(model, 3)) > 0.05


@pytest.mark.parametrize(
    ("rule", "drafter"),
    [
        (Speculative(), draft_iid),
        (BlockVerification(), draft_iid),
        (TokenMatch(), draft_iid),
        (Lenience(1.0, measure_drift=True), draft_given),
        (Lossy(0.0, measure_drift=True), draft_iid),
        (Ensemble(1.0, measure_drift=True), draft_iid),
        (KSeq(), draft_tree((2,), "iid")),
        (Tree(), draft_tree((2,), "given")),
    ],
    **names,
)
def test_exact_rules_report_no_drift(rule: Any, drafter: Any) -> None:
    """() says that p itself is emitted."""

    def drift(proposal: Proposal, decision: Decision) -> Any:
        return ("drift", *decision.drift)

    assert one_round(Model(3, 6), (), 2, rule, drafter, new=drift) == {("drift",): pytest.approx(1.0)}


def test_a_decision_s_drift_by_hand() -> None:
    """An entry for each kept item, one for what stands for the refused item, and 0 for a bonus."""
    p = np.asarray([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    q = np.asarray([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]])
    block = Proposal.chain([0, 2], iid(q)), Verification(evidence=Evidence(target=p))
    found = {
        rule_drift
        for seed in range(40)
        for rule_drift in [_drift(Ensemble(0.5, measure_drift=True), block, seed)]
    }
    first, second = pytest.approx(0.2), pytest.approx(0.25)
    assert {len(drift) for drift in found} == {1, 2, 3}
    for drift in found:
        wanted = [first, second, 0.0][: len(drift)]
        assert list(drift) == wanted
    # At temperature 0 the argmax is all that p has, so that nothing is lost; above, the rest of p is.
    assert GreedyMatch(measure_drift=True).decide(None, *block, None).drift == pytest.approx((0.5, 0.5, 0.0))  # type: ignore[arg-type]
    assert _drift(Cascade("token_v2", 0.0, measure_drift=True), (Proposal.chain(()), block[1]), 0) == (0.0,)


def _drift(rule: Any, block: tuple[Proposal, Verification], seed: int) -> tuple[float, ...]:
    return tuple(round(tv, 12) for tv in rule.decide(None, *block, Draws((seed, 1), 0)).drift)
