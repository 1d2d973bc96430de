"""Drafts that cost nothing are made at every step: what the controller learns of them, and when it acts on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from draftverify import Context, Pipeline, Proposal, TaskRecord, Verification
from draftverify.kit import make_context
from draftverify.rules import Speculative
from draftverify.stats.block import Measured
from draftverify.stats.block.evidence import AcceptanceEvidence
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import Cost, Evidence

VOCABULARY = 8


class Foreseen:
    """Drafts from a list, of which nothing is asked but what comes after so many values."""

    def __init__(self, drafts: Callable[[int], Sequence[int]], *, free: bool = True) -> None:
        self.drafts = drafts
        self.traits = GeneratorTraits(shape="chain", free=free)

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.chain(tuple(self.drafts(len(context.accepted))[:n]), cost=Cost(seconds=0.0))


class Counting:
    """Says that place i holds i modulo 8; its passes take, by declared seconds, `seconds[items]`."""

    traits = VerifierTraits(provides={"target"})

    def __init__(self, seconds: Mapping[int, float], *, known: bool = True) -> None:
        self.seconds = seconds
        self.known = known

    def pass_seconds(self) -> Mapping[int, float]:
        return self.seconds if self.known else {}

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        n, start = len(proposal), len(context.accepted)
        target = np.eye(VOCABULARY)[np.arange(start, start + n + 1) % VOCABULARY]
        cost = Cost(seconds=float(np.interp(n, list(self.seconds), list(self.seconds.values()))))
        return Verification(evidence=Evidence(target=target), cost=cost)


WEIGHTS = np.asarray([0.5, 0.3, 0.2])
CHEAP = {0: 1.0, 1: 1.0, 2: 1.0, 4: 1.0, 8: 1.1, 16: 1.5}
JAGGED = {0: 1.0, 1: 1.7, 2: 2.1, 3: 1.4, 4: 1.6, 8: 2.0, 16: 2.6}
DEAR = {0: 1.0, 1: 4.0, 16: 40.0}


def right(start: int) -> Sequence[int]:
    return [place % VOCABULARY for place in range(start, start + 16)]


def wrong(start: int) -> Sequence[int]:
    return [(place + 1) % VOCABULARY for place in range(start, start + 16)]


def record(
    drafts: Callable[[int], Sequence[int]], verifier: Counting, block: Measured, length: int, **how: Any
) -> TaskRecord:
    done = lambda context, new: (
        length - len(context.accepted) + len(new) if len(context.accepted) >= length else None
    )
    pipeline = Pipeline(
        Foreseen(drafts, **how), verifier, Speculative(), block=block, done=done, settings={"temperature": 0}
    )
    answer = pipeline.record("count")
    assert answer.outcome.value == tuple(place % VOCABULARY for place in range(length))
    return answer


def sizes(answer: TaskRecord) -> list[int]:
    return [len(round.items) for round in answer.rounds]


def seconds(answer: TaskRecord) -> float:
    return sum(round.timing.verify for round in answer.rounds)


def test_a_short_task_is_drafted_for_from_its_beginning() -> None:
    """Known costs and right drafts: the first round asks for many, and 40 values come in a few rounds."""
    answer = record(right, Counting(CHEAP), Measured(), 40)
    assert sizes(answer)[0] >= 3
    assert max(sizes(answer)) >= 8
    assert len(answer.rounds) <= 6


def test_plain_steps_teach_what_drafts_would_bring() -> None:
    """Where no block could pay nothing is verified, and acceptance is known all the same."""
    block = Measured()
    answer = record(right, Counting(DEAR), block, 40)
    assert not any(sizes(answer))
    evidence = block._acceptance.run
    assert evidence.later_hits == evidence.later_trials > 10


def test_wrong_drafts_cost_a_short_task_no_more_than_the_credit() -> None:
    """Blocks in vain until the shadows say so, within 1.25 plain steps; after that nothing, in later tasks neither."""
    block = Measured()
    first = record(wrong, Counting(JAGGED), block, 40)
    assert seconds(first) <= 40 + 1.25
    later = record(wrong, Counting(JAGGED), block, 40)
    assert not any(sizes(later))


def test_drafts_that_turn_right_are_seen_without_a_probe() -> None:
    """200 wrong drafts, then right ones: no block is verified in vain late, and within 16 values blocks are long."""
    answer = record(
        lambda start: (right if start >= 200 else wrong)(start), Counting(JAGGED), Measured(), 300
    )
    places = np.cumsum([0, *(len(round.decision.emitted) for round in answer.rounds)])
    drafted = [place for place, size in zip(places, sizes(answer), strict=False) if size]
    assert not [place for place in drafted if 40 < place < 200]
    assert min(place for place in drafted if place >= 200) <= 216
    assert max(sizes(answer)) >= 8


def test_a_size_that_was_timed_as_dear_is_passed_over() -> None:
    """Two items take longer than three here: where two of three are right, three are asked for."""
    answer = record(lambda start: [*right(start)[:2], -start % 2], Counting(JAGGED), Measured(), 200)
    assert set(sizes(answer)) <= {0, 3}
    assert sizes(answer).count(3) > 40


def test_blocks_that_stalled_are_tried_again() -> None:
    """Where nobody timed the passes before, and early blocks took ten times too long, drafting comes back."""

    class Stalling(Counting):
        def verify(self, context: Context, proposal: Proposal) -> Verification:
            verification = super().verify(context, proposal)
            is_slow = len(proposal) and len(context.accepted) < 60
            assert verification.cost is not None
            assert verification.cost.seconds is not None
            return replace(
                verification, cost=Cost(seconds=verification.cost.seconds * (10 if is_slow else 1))
            )

    answer = record(lambda start: right(start)[:1], Stalling(CHEAP, known=False), Measured(), 1500)
    assert not all(sizes(answer)[:40])
    assert sizes(answer)[-40:].count(0) <= 4


@pytest.mark.parametrize("how", [{"free": False}, {"free": True}])
def test_a_draft_that_has_its_price_is_made_to_be_verified(how: dict[str, bool]) -> None:
    """Only one that says it is free is asked for more often than rounds draft."""
    asked = []

    def noted(start: int) -> Sequence[int]:
        asked.append(start)
        return wrong(start)

    answer = record(noted, Counting(DEAR, known=False), Measured(), 40, **how)
    assert (len(asked) > sum(map(bool, sizes(answer)))) is how["free"]


def test_a_draft_is_made_once_a_round() -> None:
    """What the size was chosen by is what is verified, cut to the size; the generator is asked once, for the most."""
    made = []

    class Noting(Foreseen):
        def propose(self, context: Context, n: int) -> Proposal:
            made.append((len(context.rounds), n))
            return replace(super().propose(context, n), notes={"of": len(context.accepted)})

    pipeline = Pipeline(
        Noting(right), Counting(CHEAP), Speculative(), block=Measured(8), settings={"temperature": 0},
        done=lambda context, new: len(new) if len(context.accepted) >= 40 else None,
    )  # fmt: skip
    answer = pipeline.record("count")
    assert made == [(round.index, 8) for round in answer.rounds]
    assert 0 < min(sizes(answer)) < 8
    assert all(round.draft_notes["of"] % VOCABULARY == round.items[0] for round in answer.rounds)


def test_the_beginning_of_a_last_draft_is_not_the_last() -> None:
    """The generator has more for the next block, and says that it has not once all of it was asked for."""

    class Ending(Foreseen):
        def propose(self, context: Context, n: int) -> Proposal:
            return replace(super().propose(context, n), exhausted=True)

    generator = Ending(lambda start: right(start)[:4])
    block = Measured()
    block.check_pipeline(Pipeline(generator, Counting(CHEAP), Speculative(), settings={"temperature": 0}))
    context = make_context("count")
    block.size(context)
    assert [(len(draft), draft.exhausted) for n in (2, 4, 6) if (draft := block.drafted(context, n))] == [
        (2, False),
        (4, True),
        (4, True),
    ]


def test_a_draft_with_evidence_of_its_items_is_made_again() -> None:
    """Cut to the size it would bring more scores than items."""

    class Scoring(Foreseen):
        def propose(self, context: Context, n: int) -> Proposal:
            proposal = super().propose(context, n)
            return replace(proposal, evidence={"scores": [1.0] * len(proposal)})

    class Reading(Counting):
        def verify(self, context: Context, proposal: Proposal) -> Verification:
            assert len(proposal.evidence.get("scores", ())) == len(proposal)
            return super().verify(context, proposal)

    pipeline = Pipeline(
        Scoring(right), Reading(CHEAP), Speculative(), block=Measured(), settings={"temperature": 0},
        done=lambda context, new: len(new) if len(context.accepted) >= 40 else None,
    )  # fmt: skip
    assert any(sizes(pipeline.record("count")))


def test_a_block_size_that_fails_to_hand_its_draft_over_fails_the_task() -> None:
    """With what it raised as the reason, whatever it is, and no other task."""

    class Losing(Measured):
        def drafted(self, context: Context, n: int) -> Proposal | None:
            raise KeyError("no draft")

    pipeline = Pipeline(Foreseen(right), Counting(CHEAP), Speculative(), block=Losing())
    assert "no draft" in pipeline.run("count").reason


def test_a_drafter_that_fails_fails_its_own_call() -> None:
    """The error is the generator's in the records, and not the block size's."""

    def broken(start: int) -> Sequence[int]:
        raise ValueError("no index")

    pipeline = Pipeline(Foreseen(broken), Counting(CHEAP), Speculative(), block=Measured())
    outcome = pipeline.run("count")
    assert "no index" in outcome.reason
    assert "block size" not in outcome.reason


def test_a_size_that_looks_at_the_draft_leaves_the_distribution_as_it_is() -> None:
    """At temperature 1: two values of 2,000 tasks are spread as the target says, and most were drafted; chi-square."""

    class Drawing(Counting):
        def verify(self, context: Context, proposal: Proposal) -> Verification:
            counted = super().verify(context, proposal)
            return replace(counted, evidence=Evidence(target=np.tile(WEIGHTS, (len(proposal) + 1, 1))))

    done = lambda context, new: 2 - len(context.accepted) + len(new) if len(context.accepted) >= 2 else None
    drafts = lambda start: [start % 3, (start + 1) % 3, 0]
    pipeline = Pipeline(Foreseen(drafts), Drawing(CHEAP), Speculative(), block=Measured(), done=done)
    records = pipeline.record(({"prompt": str(number)} for number in range(2000)), size=1)
    seen = np.zeros((3, 3))
    for answer in records:
        seen[answer.outcome.value] += 1
    expected = 2000 * np.outer(WEIGHTS, WEIGHTS)
    assert ((seen - expected) ** 2 / expected).sum() < 26.1  # of 8 degrees of freedom: once in a thousand
    drafted = sum(bool(sizes(answer)[0]) for answer in records)
    assert drafted > 500


def test_items_behind_what_was_foretold_are_later_items() -> None:
    """Trials and hits of first and later items over a text in which the drafts' agreement comes and goes."""
    evidence = AcceptanceEvidence()
    hits = []
    for shadow, values in (
        ((1, 2, 3), (1,)),  # a first item, right
        ((2, 3), (2, 3, 4)),  # two later ones, and the draft ends
        ((5, 6), (5, 9)),  # a later one, then a miss
        ((7,), (8,)),  # a first item again, wrong
        ((), (3,)),
    ):
        evidence.shadow = Proposal.chain(shadow)
        hits.append(evidence.foretold(values))
    assert hits == [(1, 1, 0, 0), (0, 0, 2, 2), (0, 0, 2, 1), (1, 0, 0, 0), None]
    assert evidence.streak == 0
