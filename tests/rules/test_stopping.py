"""Stopping rules: when they stop, and how much of the last block they keep."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError, Held, Trail
from draftverify.rules import (
    AdaptiveConsistency,
    FirstStop,
    Limit,
    Majority,
    Rounds,
    SureMajority,
    leader_confidence,
    leader_evidence,
)
from draftverify.rules.stopping import log_capital


def after(accepted: int = 0, round: int = 0, ballots: str = "") -> Any:
    held = tuple(Held(vote, None, 0, i) for i, vote in enumerate(ballots))
    return SimpleNamespace(accepted=Trail.of(range(accepted)), round=round, held=held, rounds=(), last=None)


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


@pytest.mark.parametrize(
    ("ballots", "stops"),
    [
        ("", False),
        ("a" * 6, False),
        ("a" * 7, True),
        ("ab" * 20, False),
        ("aaaab" * 2, False),
        ("aaab" * 12, True),
    ],
)
def test_sure_majority(ballots: str, stops: bool) -> None:
    """Seven of one answer are enough, a dissent asks for more, and a tie is never sure."""
    assert SureMajority()(after(ballots=ballots), ()) == (0 if stops else None)


def test_an_item_without_an_answer_is_no_ballot() -> None:
    """Seven that came to none make nobody sure; those between do not hinder."""
    solutions = lambda *answers: SimpleNamespace(
        held=tuple([Held({"answer": each}, None, 0, i) for i, each in enumerate(answers)])
    )
    assert SureMajority()(solutions(*[None] * 9), ()) is None
    assert SureMajority()(solutions(*["4", None] * 7), ()) == 0


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_capital_against_a_rival_is_the_mixture(hits: int, against: int) -> None:
    """2^n · 2/π · B(s + ½, f + ½) · P(Beta(s + ½, f + ½) > ½), against scipy."""
    stats, special = pytest.importorskip("scipy.stats"), pytest.importorskip("scipy.special")

    s, f = hits + 0.5, against + 0.5
    expected = (s + f - 1) * math.log(2) + math.log(2 / math.pi) + special.betaln(s, f)
    expected += stats.beta.logsf(0.5, s, f)
    assert log_capital(hits, against) == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.sampled_from("abcd"), max_size=25))
def test_the_evidence_is_that_of_the_definition(votes: list[str]) -> None:
    """For each rival the votes that hit the leader among the others as it stood then, and those for the rival."""
    stats, special = pytest.importorskip("scipy.stats"), pytest.importorskip("scipy.special")

    def leader(past: list[str], but: str | None = None) -> str | None:
        seen = [answer for answer in dict.fromkeys(past) if answer != but]
        return max(seen, key=past.count, default=None)

    def capital(b: str, votes: list[str]) -> float:
        bets = [(leader(votes[:t], b), x) for t, x in enumerate(votes)]
        s = sum(x == a for a, x in bets) + 0.5
        f = sum(x == b for a, x in bets if a is not None) + 0.5
        return float(2 ** (s + f) / math.pi * special.beta(s, f) * stats.beta.sf(0.5, s, f))

    found = list(leader_evidence(votes))
    assert len(found) == len(votes)
    if votes:
        least = min(capital(b, votes) for b in "abcdz" if b != leader(votes))
        assert math.exp(found[-1]) == pytest.approx(least, rel=1e-6)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(1, 6))
def test_no_bet_is_won_on_average_by_a_wrong_leader(a: int, b: int, c: int, seed: int) -> None:
    """The supermartingale itself: with b most likely, one more vote leaves the capital against b no larger, whatever
    came before."""

    past = np.random.default_rng(seed).permutation(list("a" * a + "b" * b + "c" * c)).tolist()
    others = [x for x in past if x != "b"]

    def stakes(votes: list[str]) -> tuple[int, int]:
        hits = against = 0
        for t, x in enumerate(votes):
            seen = [y for y in dict.fromkeys(votes[:t]) if y != "b"]
            if seen:
                hits += x == max(seen, key=votes[:t].count)
                against += x == "b"
        return hits, against

    now = math.exp(log_capital(*stakes(past)))
    chances = {"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.1}
    after_one = sum(p * math.exp(log_capital(*stakes([*past, x]))) for x, p in chances.items())
    assert after_one <= now * (1 + 1e-9)
    assert others or after_one == pytest.approx(now)


HAIR = 1e-9


CHANCES = {
    "two": (0.5 + HAIR, 0.5 - HAIR),
    "three": (0.35, 0.33, 0.32),
    "ten": (0.1 + 9 * HAIR, *[0.1 - HAIR] * 9),
}


@pytest.mark.parametrize(
    ("chances", "alpha"),
    [
        pytest.param(
            CHANCES[name],
            alpha,
            id=f"{alpha}-{name}",
            marks=() if (alpha, name) in ((0.05, "three"), (0.2, "two")) else pytest.mark.exhaustive,
        )
        for alpha in (0.05, 0.2)
        for name in CHANCES
    ],
)
def test_it_seldom_stops_with_another_answer_than_the_most_likely(
    chances: tuple[float, ...], alpha: float
) -> None:
    """Looked at after each of 200 ballots, in 1,000 votes whose first answer leads by a hair. Were the error α, more
    wrong ends than are allowed for here would come with a probability below 10⁻⁶."""
    stats = pytest.importorskip("scipy.stats")
    votes = np.random.default_rng(7).choice(len(chances), size=(1000, 200), p=chances).tolist()
    wrong = 0
    for ballots in votes:
        stop = next((n for n, log in enumerate(leader_evidence(ballots), 1) if log >= -math.log(alpha)), None)
        if stop is not None:
            assert SureMajority(alpha)(after_votes(ballots[:stop]), ()) is not None
            wrong += Majority(None).finish(after_votes(ballots[:stop])).value != 0
    assert wrong <= stats.binom.isf(1e-6, len(votes), alpha)


def after_votes(ballots: list[int]) -> Any:
    return SimpleNamespace(held=tuple([Held(vote, None, 0, i) for i, vote in enumerate(ballots)]))


def test_any_of_takes_the_earliest_cut() -> None:
    """And goes on while none stops."""
    rule = FirstStop([Limit(3), Rounds(2), Limit(5)])
    assert rule(after(accepted=2, round=0), (1, 2)) is None
    assert rule(after(accepted=2, round=1), (1, 2)) == 2
    assert rule(after(accepted=4, round=1), (1, 2)) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit(0),
        lambda: Rounds(0),
        lambda: FirstStop([]),
        lambda: AdaptiveConsistency(confidence=1.0),
        lambda: AdaptiveConsistency(at_most=0),
        lambda: SureMajority(alpha=0.0),
        lambda: SureMajority(alpha=1.0),
    ],
)
def test_rules_that_could_never_stop_or_start_are_refused(make: Any) -> None:
    """When they are made."""
    with pytest.raises(ConfigError):
        make()
