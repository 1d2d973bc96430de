"""Acceptance by place: the trials are those of the acceptance rate, told apart; stages count what came to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.stats import acceptance_rate, accepted_rate, mean_cost, tally
from draftverify.stats.places import Places, position_trials
from draftverify.values import Check, Decision, Outcome, Refusal, Round, TaskRecord, chain_parents

VERDICTS = st.sampled_from(["pass", "reject", "abstain", "error", "timeout", "unchecked"])


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """A round of any shape, with checks or without, as `tally` counts it."""
    n = draw(st.integers(0, 6))
    shape = draw(st.sampled_from(["chain", "alternatives", "tree"]))
    parents = {
        "chain": chain_parents(n),
        "alternatives": (-1,) * n,
        "tree": tuple(draw(st.integers(-1, index - 1)) for index in range(n)),
    }[shape]
    picked = [index for index in range(n) if draw(st.booleans())]
    others = [index for index in range(n) if index not in picked]
    decision = Decision(kept=tuple(picked), refused=tuple(Refusal(index) for index in others[:2]))
    checks = tuple(Check(draw(VERDICTS)) for _ in range(n)) if draw(st.booleans()) else ()
    found = tally(n, checks, decision)
    return Round(
        index=0, items=(0,) * n, parents=parents, checks=checks, decision=decision, tally=found, asked=n
    )


def record(task: str, *made: Round) -> TaskRecord:
    return TaskRecord(task=task, outcome=Outcome(status="accepted"), rounds=made)


@given(st.lists(rounds(), max_size=4))
def test_positions_share_out_the_trials_of_the_acceptance_rate(made):
    """Whatever the shape and the verdicts: the sums over positions are the rate's own counts."""
    records = [record(f"t{place}", each) for place, each in enumerate(made)]
    places = Places()
    for each in records:
        places.add(each)
    by = places.by_position()
    whole = acceptance_rate(records)
    assert sum(each.trials for each in by.values()) == whole.trials
    accepted = sum(each.value * each.trials for each in by.values())
    assert accepted == pytest.approx(sum(each.tally.accepted for each in made))


def test_a_position_is_a_depth_of_chains_and_trees_and_a_place_among_alternatives():
    """Two children of the root stand at the same depth; two alternatives do not stand at the same place."""
    checks = tuple(Check(verdict) for verdict in ("pass", "reject", "pass"))
    tree = Round(index=0, items=(1, 2, 3), parents=(-1, 0, 0), checks=checks)
    flat = Round(index=0, items=(1, 2, 3), parents=(-1, -1, -1), checks=checks)
    assert list(position_trials(tree)) == [(0, True), (1, False), (1, True)]
    assert list(position_trials(flat)) == [(0, True), (1, False), (2, True)]


def test_a_rule_that_refuses_a_passed_item_is_counted_as_the_tally_counts_it():
    """The verifier passed it, the rule did not take it: a trial that was not accepted."""
    refusing = Round(
        index=0,
        items=(1, 2),
        parents=(-1, 0),
        checks=(Check("pass"), Check("pass")),
        decision=Decision(kept=(0,), refused=(Refusal(1, "too dear"),)),
    )
    assert list(position_trials(refusing)) == [(0, True), (1, False)]


def staged(verdicts: dict[str, list[str]]) -> Places:
    checks = tuple(Check(verdict, stage=stage) for stage, own in verdicts.items() for verdict in own)
    made = Round(
        index=0,
        items=(0,) * len(checks),
        parents=(-1,) * len(checks),
        checks=checks,
        notes={"order": list(verdicts), "seconds": {"cheap": 0.5}},
    )
    places = Places()
    places.add(record("t", made))
    return places


def test_what_a_stage_refused_never_came_to_the_next():
    """Ten drafts, four refused by the cheap stage: six came to the dear one, which let two through."""
    cheap, dear = staged(
        {"cheap": ["reject"] * 4, "dear": ["pass"] * 2 + ["reject"] * 3 + ["timeout"]}
    ).by_stage()
    assert (cheap.reached, cheap.rejected, cheap.handed_on, cheap.seconds) == (10, 4, 6, 0.5)
    assert (dear.reached, dear.passed, dear.rejected, dear.timeouts) == (6, 2, 3, 1)
    assert dear.rate.value == pytest.approx(2 / 5)  # a timeout is nobody's trial


def test_of_stages_of_which_one_is_enough_those_handed_on_were_not_let_through():
    """The first passed three of five by its own word."""
    first, last = staged({"cheap": ["pass"] * 3, "dear": ["pass", "reject"]}).by_stage()
    assert first.rate.value == pytest.approx(3 / 5)
    assert last.rate.value == pytest.approx(1 / 2)


def test_accepted_is_of_all_that_began():
    """A task that failed or waits was not accepted."""
    found = accepted_rate(["accepted"] * 3 + ["failed", "refused", "waiting"])
    assert (found.value, found.trials) == (pytest.approx(3 / 6), 6)
    assert 0 < found.low < 0.5 < found.high < 1


def test_the_mean_cost_has_an_interval_only_from_two_tasks_on():
    """One task says nothing of the spread."""
    assert mean_cost([2.0]).high == float("inf")
    found = mean_cost([1.0, 2.0, 3.0, 2.0])
    assert found.value == 2.0
    assert 1.0 < found.low < 2.0 < found.high < 4.0
    assert mean_cost([]).trials == 0
