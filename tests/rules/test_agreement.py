"""Dual execution agreement: the sets against brute force, ties, what is refused, what is left alone, what is wrong."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, ConfigError, ContractError, Evidence, Pipeline, Proposal, Verification
from draftverify.kit import parametrize_with_checks
from draftverify.rules import ConsensusSet, DualAgreement, consensus_sets
from draftverify.traits import GeneratorTraits, VerifierTraits

P, R, E, T, U = (Check(v) for v in ("pass", "reject", "error", "timeout", "unchecked"))  # type: ignore[arg-type]
NAN = math.nan

MATRICES = st.integers(0, 6).flatmap(
    lambda m: st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 1.0, 0.5, NAN]), min_size=m, max_size=m), min_size=1, max_size=8
    )
)
SUPPORTS = st.sampled_from(["count", "root"])


def array(rows: Any) -> Any:
    return np.asarray(rows, dtype=float).reshape(len(rows), -1)


def brute(rows: list[list[float]], support: str) -> dict[frozenset[int], tuple[set[int], Fraction]]:
    """From the passed set to its items and its score (squared under "root", so that it is exact)."""
    found: dict[frozenset[int], set[int]] = {}
    for i, row in enumerate(rows):
        found.setdefault(frozenset(k for k, value in enumerate(row) if value == 1), set()).add(i)
    power = 1 if support == "root" else 2
    return {
        checks: (items, Fraction(len(items) ** power * len(checks) ** 2))
        for checks, items in found.items()
        if checks
    }


def decide(cross: Any, *checks: Check, support: Any = "count") -> Any:
    evidence = None if cross is None else Evidence(cross=array(cross))
    proposal = Proposal.alternatives(range(len(cross or ())))
    context: Any = SimpleNamespace()
    return DualAgreement(support).decide(
        context, proposal, Verification(checks=checks, evidence=evidence), None
    )  # type: ignore[arg-type]


def refused(decision: Any) -> dict[int, str]:
    return {refusal.index: refusal.reason for refusal in decision.refused}


@given(MATRICES, SUPPORTS)
def test_sets_are_those_of_brute_force(rows: list[list[float]], support: Any) -> None:
    """Every item that passes something is in one set, with the items that pass just the same; scores never rise."""
    expected = brute(rows, support)
    found = consensus_sets(array(rows), support=support)
    assert {frozenset(each.checks): set(each.items) for each in found} == {
        checks: items for checks, (items, _) in expected.items()
    }
    scores = [expected[frozenset(each.checks)][1] for each in found]
    order = [(-score, each.items[0]) for score, each in zip(scores, found, strict=True)]
    assert order == sorted(order)
    power = 0.5 if support == "root" else 1
    assert [each.score for each in found] == [
        pytest.approx(len(each.items) ** power * len(each.checks)) for each in found
    ]


@given(MATRICES, SUPPORTS, st.randoms(use_true_random=False))
def test_order_of_items_and_checks_does_not_matter(
    rows: list[list[float]], support: Any, random: Any
) -> None:
    """But for the indices, and for which of two equal scores comes first."""
    items, checks = list(range(len(rows))), list(range(len(rows[0])))
    random.shuffle(items)
    random.shuffle(checks)
    shuffled = [[rows[i][k] for k in checks] for i in items]

    def named(sets: list[ConsensusSet], items: list[int], checks: list[int]) -> set[Any]:
        return {
            (frozenset(items[i] for i in s.items), frozenset(checks[k] for k in s.checks), s.score)
            for s in sets
        }

    found = consensus_sets(array(shuffled), support=support)
    plain = consensus_sets(array(rows), support=support)
    assert named(found, items, checks) == named(plain, list(range(len(rows))), list(range(len(rows[0]))))
    assert [each.score for each in found] == [each.score for each in plain]


@given(MATRICES, st.integers(1, 4), st.integers(1, 4))
def test_equal_items_and_equal_checks_count_each(rows: list[list[float]], a: int, b: int) -> None:
    """With all items a times and all checks b times every score is a·b times as high (√a·b under "root")."""
    many = np.tile(array(rows), (a, b))
    for support, factor in (("count", a * b), ("root", math.sqrt(a) * b)):
        plain = consensus_sets(array(rows), support=support)  # type: ignore[arg-type]
        found = consensus_sets(many, support=support)  # type: ignore[arg-type]
        assert [each.score for each in found] == [pytest.approx(each.score * factor) for each in plain]


@given(MATRICES, SUPPORTS)
def test_the_rule_keeps_the_first_item_of_the_best_set(rows: list[list[float]], support: Any) -> None:
    """No other item scores higher, none of the same score stands before it; what passes nothing is never kept."""
    decision = decide(rows, support=support)
    expected = brute(rows, support)
    assert decision.done == bool(decision.kept) == bool(expected)
    if expected:
        best = max(score for _, score in expected.values())
        leaders = set().union(*(items for items, score in expected.values() if score == best))
        assert decision.kept == (min(leaders),)
    judged = {i for i, row in enumerate(rows) if any(not math.isnan(value) for value in row)}
    chosen = set().union(*(items for items, _ in expected.values()))
    assert set(refused(decision)) == judged - chosen


def test_a_known_example() -> None:
    """Two agreeing items on three checks (6) beat three on one (3) and one on four (4); by roots one on five wins."""
    cross = [
        [0, 0, 0, 0, 0, 1],
        [1, 1, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 1],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert consensus_sets(array(cross)) == [
        ConsensusSet((3, 5), (0, 1, 2), 6.0),
        ConsensusSet((1,), (0, 1, 2, 3, 4), 5.0),
        ConsensusSet((0, 2, 4), (5,), 3.0),
    ]
    assert [each.items for each in consensus_sets(array(cross), support="root")] == [(1,), (3, 5), (0, 2, 4)]
    assert (decide(cross).kept, decide(cross, support="root").kept) == ((3,), (1,))
    assert refused(decide(cross)) == {6: "passes no check"}


def test_scores_that_are_equal_are_equal() -> None:
    """√8 × 3 and √18 × 2 differ in floating point; the set with the lowest item comes first all the same."""
    rows = [[0, 0, 0, 1, 1]] * 18 + [[1, 1, 1, 0, 0]] * 8
    for cross in (rows, rows[::-1]):
        found = consensus_sets(array(cross), support="root")
        assert found[0].items[0] == 0
        assert decide(cross, support="root").kept == (0,)


def test_whole_numbers_and_booleans_will_do() -> None:
    """And a lesser mark than 1 is no pass."""
    as_booleans = np.asarray([[True, False], [True, True]])
    assert consensus_sets(as_booleans) == consensus_sets(as_booleans.astype(int))
    assert consensus_sets(array([[0.75, 1.0]])) == [ConsensusSet((0,), (1,), 1.0)]


def test_what_was_not_run_is_neither_passed_nor_refused() -> None:
    """An item on which no check was run is left alone; one that failed those that were run is refused."""
    decision = decide([[NAN, NAN], [NAN, 0], [1, NAN], [1, 0]])
    assert (decision.kept, refused(decision)) == ((2,), {1: "passes no check"})
    nothing = decide([[], []])
    assert (nothing.kept, nothing.refused, nothing.done) == ((), (), False)


def test_verdicts_are_heeded_where_there_are_any() -> None:
    """Only passed items take part; rejected ones are refused with their reason; failed checks are no refusals."""
    cross = [[1, 1], [1, 1], [1, 0], [1, 1], [0, 0], [1, 1]]
    decision = decide(cross, E, Check("reject", reason="lint"), P, T, P, U)
    assert (decision.kept, refused(decision), decision.done) == (
        (2,),
        {1: "lint", 4: "passes no check"},
        True,
    )


def test_what_is_no_matrix_is_told() -> None:
    """Missing evidence, other shapes, other numbers and unknown words are errors that say so."""
    for cross in (np.ones(3), np.full((2, 2), 2.0), np.full((1, 1), -1.0), np.asarray([["a"]])):
        with pytest.raises(ContractError, match="cross evidence"):
            consensus_sets(cross)
    with pytest.raises(ContractError, match=r"evidence\.cross"):
        decide(None, P)
    for call in (lambda: DualAgreement("log"), lambda: consensus_sets(np.ones((1, 1)), support="log")):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="'count' or 'root'"):
            call()


class Digits:
    """Five numbers, of which most are divisible by what the checks ask."""

    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives([7, 4, 9, 8, 16][:n])


class Divisible:
    """Cross evidence alone: number i is divisible by k."""

    traits = VerifierTraits(provides={"cross"})

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        by = (2, 4, 3, 11)
        cross = np.asarray([[number % k == 0 for k in by] for number in proposal.items])
        return Verification(evidence=Evidence(cross=cross))


def test_in_a_pipeline() -> None:
    """Evidence alone is enough, and the value is the first item of the largest agreement."""
    outcome = Pipeline(Digits(), Divisible(), DualAgreement(), block=5).run("numbers")
    assert (outcome.status, outcome.value) == ("accepted", 4)
    assert (outcome.tally.trials, outcome.tally.accepted, outcome.tally.unchecked) == (2, 1, 3)


@parametrize_with_checks([DualAgreement(), DualAgreement("root")])
def test_the_rule_conforms(component: Any, check: Any) -> None:
    """It passes every check of the kit that applies."""
    check(component)
