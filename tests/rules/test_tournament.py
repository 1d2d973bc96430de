"""The tournament: wins against brute force, ties, who takes part, when nobody is elected, and wrong evidence."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import (
    Check,
    ConfigError,
    ContractError,
    Evidence,
    Pipeline,
    Proposal,
    Verification,
    generator,
    retry,
)
from draftverify.rules import Tournament
from draftverify.traits import VerifierTraits

P, R, E, A = (Check(v) for v in ("pass", "reject", "error", "abstain"))  # type: ignore[arg-type]
NAN = math.nan


def pairs(n: int, **wins: float) -> Any:
    """[n, n] of words such as `w01=1`: item 0 beats item 1."""
    cross = np.full((n, n), NAN)
    for name, word in wins.items():
        i, k = int(name[1]), int(name[2])
        cross[i, k], cross[k, i] = word, 1 - word
    return cross


def decide(cross: Any, *checks: Check, rule: Any = None) -> Any:
    evidence = None if cross is None else Evidence(cross=np.asarray(cross, dtype=float))
    proposal = Proposal.alternatives(range(len(cross) if cross is not None else 0))
    verification = Verification(checks=checks, evidence=evidence)
    return (rule or Tournament()).decide(SimpleNamespace(), proposal, verification, None)


class Judged:
    """Gives the same evidence, and checks where there are any, for every block."""

    traits = VerifierTraits(provides={"verdicts", "scores", "cross"})

    def __init__(self, *tables: Any, checks: tuple[Check, ...] = ()) -> None:
        self.tables = tables
        self.checks = checks

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        cross = self.tables[min(context.round, len(self.tables) - 1)]
        return Verification(checks=self.checks, evidence=Evidence(cross=cross))


def run(judge: Any, rule: Any = None, **words: Any) -> Any:
    drafted = generator(lambda context, n: ["a", "b", "c"][:n])
    return Pipeline(drafted, judge, rule or Tournament(), block=3, **words).run("x")


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.sampled_from([0, 0.5, 1, NAN]), min_size=n * n, max_size=n * n)
        )
    )
)
def test_the_winner_is_that_of_brute_force(drawn: tuple[int, list[float]]) -> None:
    """Wins less losses, which orders as wins with ties as halves; the earliest of equals."""
    n, words = drawn
    cross = pairs(n, **{f"w{i}{k}": words[i * n + k] for i in range(n) for k in range(i)})
    if np.isnan(cross).all():
        with pytest.raises(ContractError, match="no pair among"):
            decide(cross)
        return
    net = [sum((row == 1).astype(int)) - sum((row == 0).astype(int)) for row in cross]
    decision = decide(cross)
    assert (decision.kept, decision.done) == ((net.index(max(net)),), True)


def test_the_outcome_says_how_clear_it_was() -> None:
    """Support and lead in pairs won, and the winner's score where the verifier gives one."""
    judge = Judged(pairs(3, w01=1, w02=0.5, w12=1), checks=tuple(Check("pass", s) for s in (0.1, 0.2, 0.3)))
    outcome = run(judge)
    assert (outcome.status, outcome.value, outcome.score) == ("accepted", "a", 0.1)
    assert (outcome.support, outcome.margin) == (0.75, 0.25)
    unjudged = run(Judged(pairs(3, w01=1, w02=0.5, w12=1)))
    assert (unjudged.value, unjudged.score, unjudged.support) == ("a", None, 0.75)


def test_one_word_on_a_pair_is_enough() -> None:
    """What stands in one half of the matrix alone counts for both."""
    cross = np.full((3, 3), NAN)
    cross[2, 0] = cross[2, 1] = 0.0
    cross[0, 1] = 0.0
    assert decide(cross).kept == (1,)


def test_only_items_that_passed_take_part() -> None:
    """A rejected one is refused, whatever it would have won; one whose check failed is left alone."""
    decision = decide(pairs(4, w01=1, w02=1, w03=1, w12=1, w13=1, w23=1), R, E, P, P)
    assert (decision.kept, [each.index for each in decision.refused]) == ((2,), [0])
    nobody = decide(pairs(2, w01=1), R, A)
    assert (nobody.kept, nobody.done, len(nobody.refused)) == ((), False, 1)


def test_a_winner_that_is_not_clear_enough_is_none() -> None:
    """The task abstains, its leader among the refused; another block may still be drafted."""
    circle, clear = pairs(3, w01=1, w12=1, w20=1), pairs(3, w01=0, w02=0, w12=1)
    assert run(Judged(circle)).value == "a"
    for rule in (Tournament(margin=0.1), Tournament(share=0.6)):
        ended = run(Judged(circle), rule)
        assert (ended.status, ended.value, ended.refused.value) == ("abstained", None, "a")
        assert ended.refused.reason == "no clear winner"
        again = run(Judged(circle, clear), rule, policy=retry(1))
        assert (again.status, again.value, again.support, again.margin) == ("accepted", "b", 1.0, 0.5)


def test_a_lone_item_has_nobody_to_beat() -> None:
    """It wins, with no share to speak of; asked for a share it is no winner."""
    assert decide([[NAN]]).kept == (0,)
    assert decide(pairs(3, w01=1), R, P, R).kept == (1,)
    assert decide([[NAN]], rule=Tournament(share=0.5)).kept == ()
    assert decide(np.zeros((0, 0))).kept == ()


@pytest.mark.parametrize(
    ("cross", "words"),
    [
        (None, "the verification has none"),
        (np.zeros((2, 3)), r"shape \(2, 3\); a tournament needs \[items, items\]"),
        (np.full((2, 2), NAN), "no pair among the 2 items was judged"),
        ([[NAN, 2.0], [NAN, NAN]], "between 0"),
        ([[NAN, 1.0], [1.0, NAN]], r"of the pair \(0, 1\) the cross evidence says 1 one way and 1 the other"),
    ],
)
def test_evidence_that_is_no_tournament_is_refused(cross: Any, words: str) -> None:
    """With what is wrong."""
    with pytest.raises(ContractError, match=words):
        decide(cross)


def test_a_share_is_a_share() -> None:
    """Not a percentage."""
    with pytest.raises(ConfigError, match="share"):
        Tournament(share=60)
