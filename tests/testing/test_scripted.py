"""Scripted parts and the table pair: they say what they are told, in a pipeline as by themselves."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, Correction, Decision, Pipeline, Proposal
from draftverify.kit import (
    DraftFrom,
    ScriptedGenerator,
    ScriptedVerifier,
    TableModel,
    TablePair,
    TargetFrom,
    advanced,
    make_context,
    make_draws,
)
from draftverify.kit.contexts import values_of
from draftverify.rules import First, LongestPrefix, Speculative


def test_a_script_is_replayed_round_by_round_and_then_exhausted() -> None:
    """One entry per round; after the last one there is no next block."""
    scripted = ScriptedGenerator([[1, 2, 3], ["a"]])
    assert list(scripted.propose(make_context(rounds=0), 2).items) == [1, 2]
    assert list(scripted.propose(make_context(rounds=1), 2).items) == ["a"]
    assert scripted.propose(make_context(rounds=2), 2).exhausted


def test_a_longer_tree_is_cut_to_its_first_items() -> None:
    """Parents stand before children, so what stays is a tree."""
    tree = Proposal.tree([1, 2, 3, 4], [-1, -1, 0, 2])
    cut = ScriptedGenerator([tree], shape="tree").propose(make_context(), 3)
    assert (list(cut.items), cut.parents) == ([1, 2, 3], (-1, -1, 0))


def test_a_script_may_raise_and_note_its_calls() -> None:
    """Exceptions are raised, classes and instances alike; calls go into the caller's list."""
    calls: list[tuple[str, int, int]] = []
    scripted = ScriptedGenerator([TimeoutError, ValueError("x")], calls=calls)
    with pytest.raises(TimeoutError):
        scripted.propose(make_context(), 1)
    with pytest.raises(ValueError, match="x"):
        scripted.propose(make_context(rounds=1), 4)
    assert calls == [("0", 0, 1), ("0", 1, 4)]


@pytest.mark.parametrize(
    "verdicts",
    [
        {"a": "pass", "b": "timeout"},
        ["pass", "timeout"],
        lambda context, item: {"a": True, "b": Check("timeout")}[item],
    ],
    ids=["mapping", "sequence", "function"],
)
def test_verdicts_are_scripted_in_three_ways(verdicts: object) -> None:
    """By item, by place, or by a function."""
    found = ScriptedVerifier(verdicts).verify(make_context(), Proposal.alternatives(["a", "b"]))  # type: ignore[arg-type]
    assert [check.verdict for check in found.checks] == ["pass", "timeout"]


def test_a_scripted_verifier_stops_when_enough_passed() -> None:
    """It honours context.enough, lowest index first."""
    found = ScriptedVerifier({1: "pass"}).verify(make_context(enough=1), Proposal.alternatives([0, 1, 1]))
    assert [check.verdict for check in found.checks] == ["reject", "pass", "unchecked"]


def test_a_target_can_be_a_table_of_prefixes() -> None:
    """Rows are looked up by prompt_ids, accepted values and the path."""
    table = {(7,): [0.5, 0.5], (7, 1): [1.0, 0.0], (7, 1, 0): [0.0, 1.0]}
    context = make_context({"prompt_ids": [7]}, accepted=[1])
    found = ScriptedVerifier(target=table).verify(context, Proposal.chain([0]))
    assert found.evidence is not None
    assert found.evidence.target.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@given(st.integers(1, 6), st.integers(0, 2), st.floats(0, 3), st.lists(st.integers(0, 5), max_size=4))
def test_a_table_gives_a_distribution_after_any_prefix(
    V: int, order: int, sharpness: float, prefix: list[int]
) -> None:
    """Rows are pure functions of the last `order` tokens and sum to 1."""
    model = TableModel(V, seed=1, order=order, sharpness=sharpness)
    row = model(prefix)
    assert row.shape == (V,)
    assert np.isclose(row.sum(), 1)
    assert (row == model([4, 4, *prefix[-order:]] if order and len(prefix) >= order else prefix)).all()
    assert model(prefix, temperature=0).max() == 1


@pytest.mark.parametrize("law", ["given", "without_replacement"])
def test_siblings_run_out(law: str) -> None:
    """Distinct siblings are as many as the vocabulary has values."""
    drawn = DraftFrom(TableModel(3), shape="alternatives", law=law).propose(make_context(), 9)  # type: ignore[arg-type]
    assert sorted(drawn.items) == [0, 1, 2]


def test_a_tree_has_q_for_each_parent() -> None:
    """Row parent + 1 of q is the row that the item was drawn from."""
    model = TableModel(4, seed=2)
    drawn = DraftFrom(model, shape="tree").propose(make_context(), 5)
    assert drawn.parents == (-1, -1, 0, 0, 1)
    assert np.array_equal(drawn.law.q[1], model([drawn.items[0]]))
    assert np.array_equal(drawn.law.q[2], model([drawn.items[1]]))


def test_a_layout_says_how_a_block_hangs_together() -> None:
    """Of fewer items its first ones are drawn; what would stand on a missing sibling is missing too."""
    pair = TablePair(2, 7)
    lopsided = DraftFrom(pair.q, shape="tree", law="without_replacement", parents=(-1, -1, -1, 1, 2))
    assert lopsided.propose(make_context(), 2).parents == (-1, -1)
    drawn = lopsided.propose(make_context(), 5)
    assert drawn.parents == (-1, -1, 1)
    assert np.array_equal(drawn.law.q[2], pair.q([drawn.items[1]]))


@given(st.integers(2, 6), st.booleans(), st.floats(0, 2), st.lists(st.integers(0, 5), max_size=4))
def test_a_pair_of_tables_gives_two_distributions(
    V: int, mixed: bool, temperature: float, prefix: list[int]
) -> None:
    """At every temperature, and of one token where a place is not free."""
    pair = TablePair(V, 3, mixed=mixed, free=frozenset({0, 2}))
    p, q = pair.p(prefix, temperature), pair.q(prefix, temperature)
    for row in (p, q):
        assert row.shape == (V,)
        assert np.isclose(row.sum(), 1)
    if len(prefix) not in (0, 2):
        assert p.max() == q.max() == 1


def test_corrected_values_join_in_the_order_of_the_block() -> None:
    """Kept and corrected items in their places, and the splice after them."""
    decision = Decision(kept=(0, 2), corrected=(Correction(1, "B"),), spliced=("d",))
    assert values_of(Proposal.alternatives(["a", "b", "c"]), decision) == ("a", "B", "c", "d")
    assert values_of(Proposal.alternatives(["a", "b"]), Decision(kept=(1, 0))) == ("b", "a")


def test_a_pipeline_of_scripted_parts_needs_no_clock() -> None:
    """Self-reported seconds are the outcome's, whatever the clock says of draft and verification."""
    parts = (
        ScriptedGenerator([["a", "b"], ["c"]], seconds=2.0),
        ScriptedVerifier({"a": "pass", "c": "pass"}, seconds=3.0),
    )
    record = Pipeline(*parts, LongestPrefix(), block=2, done=lambda context, new: None).record("x")
    first = record.rounds[0]
    assert (first.timing.draft, first.timing.verify) == (2.0, 3.0)
    assert record.outcome.value == ("a", "c")


def test_an_error_in_the_script_reaches_the_policy_as_an_error() -> None:
    """A scripted error is a failed check, not a refused item."""
    outcome = Pipeline(
        ScriptedGenerator([["a"]], shape="alternatives"), ScriptedVerifier({"a": "error"}), First()
    ).run("x")
    assert outcome.status == "failed"


def test_the_table_pair_decodes_to_the_targets_own_greedy_output() -> None:
    """At temperature 0 speculation with any drafter gives the target's own sequence."""
    target = TargetFrom(TableModel(5, seed=3, order=2), temperature=0.0)
    own: tuple[int, ...] = ()
    for _ in range(12):
        own = (*own, int(np.argmax(target.model(own))))
    stop = lambda context, new: (
        12 - (len(context.accepted) - len(new)) if len(context.accepted) >= 12 else None
    )
    drafter = DraftFrom(TableModel(5, seed=4, order=2))
    assert Pipeline(drafter, target, Speculative(), block=3, done=stop).run({}).value == own


def test_scripted_parts_can_be_pickled() -> None:
    """A worker process gets the same parts."""
    for part in (ScriptedGenerator([[1]]), DraftFrom(TableModel(3)), TargetFrom(TableModel(3))):
        again = pickle.loads(pickle.dumps(part))
        assert type(again) is type(part)
    again = pickle.loads(pickle.dumps(DraftFrom(TableModel(3))))
    assert again.propose(make_context(), 3).items == DraftFrom(TableModel(3)).propose(make_context(), 3).items


def test_contexts_have_the_draws_of_a_session() -> None:
    """make_context and make_draws give what a pipeline of the same seed gives, round by round."""
    seen: list[float] = []

    def draft(context: object, n: int) -> list[int]:
        seen.append(context.draws.uniform())  # type: ignore[attr-defined]
        return [1]

    Pipeline(
        ScriptedGenerator(draft),
        ScriptedVerifier({1: True}),
        LongestPrefix(),
        done=lambda c, new: 1 if c.round >= 1 else None,
        seed=5,
    ).run({"prompt": "x"})
    context = make_context("x", seed=5)
    assert seen == [context.draws.uniform(), advanced(context, 1).draws.uniform()]
    assert make_draws("0", seed=5, role="draft").uniform() == seen[0]
