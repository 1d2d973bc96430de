"""Speculative rejection: the weakest partial answers are cut each round, and the best finished one wins."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from draftverify import Budget, Check, ConfigError, ContractError, Held, Pipeline, Proposal, Verification
from draftverify.randomness import Draws
from draftverify.rules import SpeculativeRejection

RNG = Draws((0, 0), 0)


class Growing:
    """Partial answers of one number each, which they keep as their score; number i is whole after i % 3 + 1 rounds."""

    shape = "alternatives"
    provides = frozenset({"verdicts", "scores"})

    def __init__(self) -> None:
        self.drafted: list[int] = []

    def propose(self, context: Any, n: int) -> Proposal:
        if context.held:
            old = [(place, held.value) for place, held in enumerate(context.held)]
            old = [(place, item) for place, item in old if not item["finished"]]
            grown = [self._item(item["number"], item["rounds"] + 1) for _, item in old]
            extends = tuple([place for place, _ in old])
        else:
            grown, extends = [self._item(number, 1) for number in range(n)], ()
        self.drafted.append(len(grown))
        return Proposal.alternatives(grown, extends=extends, exhausted=not grown)

    def _item(self, number: int, rounds: int) -> dict[str, Any]:
        return {"number": number, "rounds": rounds, "finished": rounds > number % 3}

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple([Check("pass", float(item["number"])) for item in proposal.items]))


def decided(
    held: list[Held], items: list[Any], extends: tuple[int, ...], checks: list[Check], share: float
) -> Any:
    """One decision of the rule."""
    context: Any = SimpleNamespace(held=tuple(held))
    proposal = Proposal.alternatives(items, extends=extends)
    return SpeculativeRejection(share).decide(context, proposal, Verification(checks=tuple(checks)), RNG)


def part(rounds: int = 1, finished: bool = False) -> dict[str, Any]:
    return {"rounds": rounds, "finished": finished}


def test_half_is_cut_each_round_until_the_rest_are_whole() -> None:
    """Of eight 0, 3 and 6 are whole at once, the lowest two of the other five go, and so on."""
    growing = Growing()
    record = Pipeline(growing, growing, SpeculativeRejection(), block=8).record("x")
    numbers = [[held.value["number"] for held in round.held] for round in record.rounds]
    assert numbers == [[0, 3, 4, 5, 6, 7], [4, 5, 7], [5]]
    assert growing.drafted == [8, 3, 1]
    assert record.outcome.status == "accepted"
    assert (record.outcome.value["number"], record.outcome.score) == (7, 7.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 2, 7, 32])
def test_the_numbers_that_are_left_follow_the_share(share: float, n: int) -> None:
    """Of m that grow, m − ⌊share · m⌋ stay, the highest scores; one is left at least."""
    checks = [Check("pass", float(i * 11 % n)) for i in range(n)]
    made = decided([], [part() for _ in range(n)], (), checks, share)
    left = n - math.floor(share * n)
    assert len(made.held) == left >= 1
    assert sorted(i * 11 % n for i in made.held) == list(range(n))[n - left :]
    assert made.refused == ()


def test_of_equals_the_later_is_cut_and_the_finished_never() -> None:
    """A whole answer with the lowest score of all stays."""
    checks = [Check("pass", 1.0), Check("pass", 1.0), Check("pass", -5.0)]
    assert decided([], [part(), part(), part(finished=True)], (), checks, 0.5).held == (0, 2)


def test_what_was_extended_goes_and_what_could_not_be_checked_stays() -> None:
    """A rejected extension takes its beginning with it; with an error the beginning is there to be extended again."""
    held = [Held(part(), score, 0, i) for i, score in enumerate((0.9, 0.8, 0.7))]
    checks = [Check("pass", 0.5), Check("reject", reason="off"), Check("error")]
    made = decided(held, [part(2), part(2), part(2)], (0, 1, 2), checks, 0.0)
    assert (made.held, made.released) == ((0,), (0, 1))
    assert [(each.index, each.reason) for each in made.refused] == [(1, "off")]
    # What stays is ranked with the rest: here it is better than the new one, which is cut.
    assert decided(held, [part(2), part(2), part(2)], (0, 1, 2), checks, 0.5).held == ()


def test_without_a_finished_answer_there_is_none() -> None:
    """A budget that ends too early leaves partial answers, which are no value."""

    class Endless(Growing):
        def _item(self, number: int, rounds: int) -> dict[str, Any]:
            return {"number": number, "rounds": rounds, "finished": False}

    endless = Endless()
    outcome = Pipeline(endless, endless, SpeculativeRejection(), block=4, budget=Budget(rounds=3)).run("x")
    assert outcome.value is None


def test_items_that_are_no_mappings_are_finished() -> None:
    """One round is then best-of-n."""

    class Numbers(Growing):
        def propose(self, context: Any, n: int) -> Proposal:
            return Proposal.alternatives([3, 9, 4])

        def verify(self, context: Any, proposal: Proposal) -> Verification:
            return Verification(checks=tuple([Check("pass", float(item)) for item in proposal.items]))

    record = Pipeline(Numbers(), Numbers(), SpeculativeRejection(), block=3).record("x")
    assert (len(record.rounds), record.outcome.value) == (1, 9)


def test_a_share_out_of_range_and_a_missing_score_are_refused() -> None:
    """Of a whole answer too."""
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="share is"):
            SpeculativeRejection(share)
    with pytest.raises(ContractError, match="item 1 passed without a score"):
        decided([], [part(), part(finished=True)], (), [Check("pass", 1.0), Check("pass")], 0.5)
