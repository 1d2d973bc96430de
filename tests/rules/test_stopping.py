"""Stopping rules: when they stop, and how much of the last block they keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError, Held, Trail
from draftverify.rules import AdaptiveConsistency, AnyOf, Limit, Rounds, leader_confidence


def after(accepted: int = 0, round: int = 0, ballots: str = "") -> Any:
    held = tuple(Held(vote, None, 0, i) for i, vote in enumerate(ballots))
    return SimpleNamespace(accepted=Trail.of(range(accepted)), round=round, held=held)


@given(st.integers(1, 20), st.lists(st.integers(1, 6), min_size=1, max_size=30))
def test_a_limit_is_met_exactly(limit: int, blocks: list[int]) -> None:
    """Whatever the blocks' sizes: never one value more, and it does not stop before."""
    total = 0
    for block in blocks:
        keep = Limit(limit)(after(total + block), tuple(range(block)))
        if keep is not None:
            assert total + keep == limit
            return
        total += block
        assert total < limit


def test_rounds_count_the_round_being_decided() -> None:
    """The context of a stopping rule has the rounds before it."""
    assert Rounds(2)(after(round=0), (1, 2)) is None
    assert Rounds(2)(after(round=1), (1, 2)) == 2
    assert Rounds(1)(after(round=0), ()) == 0


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_leader_s_confidence_is_the_beta_tail(first: int, second: int) -> None:
    """P(Beta(v₁ + 1, v₂ + 1) > ½), against scipy."""
    stats = pytest.importorskip("scipy.stats")
    assert leader_confidence(first, second) == pytest.approx(
        stats.beta.sf(0.5, first + 1, second + 1), abs=1e-12
    )


@pytest.mark.parametrize(
    ("ballots", "stops"),
    [
        ("", False),
        ("a", False),
        ("aaa", False),
        ("aaaa", True),
        ("aaaab", False),
        ("aaaaaab", True),
        ("ab" * 20, True),
    ],
)
def test_adaptive_consistency(ballots: str, stops: bool) -> None:
    """Four of one answer are enough, a dissent asks for more, and forty ballots end it."""
    assert AdaptiveConsistency()(after(ballots=ballots), ()) == (0 if stops else None)


def test_any_of_takes_the_earliest_cut() -> None:
    """And goes on while none stops."""
    rule = AnyOf([Limit(3), Rounds(2), Limit(5)])
    assert rule(after(accepted=2, round=0), (1, 2)) is None
    assert rule(after(accepted=2, round=1), (1, 2)) == 2
    assert rule(after(accepted=4, round=1), (1, 2)) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit(0),
        lambda: Rounds(0),
        lambda: AnyOf([]),
        lambda: AdaptiveConsistency(confidence=1.0),
        lambda: AdaptiveConsistency(at_most=0),
    ],
)
def test_rules_that_could_never_stop_or_start_are_refused(make: Any) -> None:
    """When they are made."""
    with pytest.raises(ConfigError):
        make()
