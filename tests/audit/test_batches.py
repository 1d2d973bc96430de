"""What is broken only in a batch, or only when a part is asked again, is found at the recorded rounds.

Draws are counter-based and fixed; what is compared is equal but for rounding, so there is no error probability.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from draftverify import Pipeline
from draftverify.engine.pipeline import as_task
from draftverify.kit import DraftFrom, TableModel, TargetFrom
from draftverify.kit.audit.batches import batch_problems
from draftverify.kit.audit.recorded import record
from draftverify.rules import BlockVerification, GreedyMatch, KSeq, Limit, Speculative, TokenMatch, Tree

from . import broken

DRAFT, TARGET = TableModel(12, seed=3, order=2), TableModel(12, seed=4, order=2)
TASKS = [as_task({"prompt_ids": [at]}, str(at)) for at in range(4)]


def problems(rule=None, *, draft=DraftFrom, target=TargetFrom, law="iid", shape="chain", block=3, **how):
    pipeline = Pipeline(
        draft(DRAFT, law=law, shape=shape), target(TARGET), rule or Speculative(), block=block, done=Limit(24)
    )
    recorded = record(pipeline, TASKS, 12, 4, rows=False)
    return batch_problems(pipeline, recorded, **({"judge_rule": True, "rows": True} | how))


@pytest.mark.parametrize(
    ("rule", "law", "shape"),
    [
        (Speculative(), "iid", "chain"),
        (Speculative(), "given", "chain"),
        (BlockVerification(), "iid", "chain"),
        (TokenMatch(), "iid", "chain"),
        (Tree(), "without_replacement", "tree"),
        (Tree(), "given", "alternatives"),
        (KSeq(), "iid", "tree"),
        (GreedyMatch(), "given", "chain"),
    ],
)
def test_what_is_right_in_a_batch_is_no_problem(rule, law, shape):
    """Every exact rule, with blocks of unlike lengths, empty ones too."""
    assert problems(rule, law=law, shape=shape, block=4) == ([], [])


@pytest.mark.parametrize("kind", [broken.PaddedBonus, broken.FirstsDraws])
def test_a_rule_that_is_broken_only_in_batches_is_found(kind):
    """Where blocks are of unlike lengths, or draws of unlike sessions."""
    (found,), notes = problems(kind(Speculative()))
    assert "decide_many decides otherwise" in found
    assert notes == []
    assert problems(kind(Speculative()), judge_rule=False) == ([], [])


class FirstsRows(TargetFrom):
    def verify_many(self, contexts, proposals):
        return [self.verify(contexts[0], proposal) for proposal in proposals]


def test_a_verifier_that_mixes_sessions_up_is_found():
    """In a batch its rows are another session's."""
    (found,), _ = problems(target=FirstsRows)
    assert "in a batch of 12 blocks the verifier's rows" in found
    assert problems(target=FirstsRows, rows=False) == ([], [])


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (broken.FirstSessions, "in a batch the generator proposes otherwise"),
        (broken.FirstsQ, "in a batch the generator declares another q"),
        (broken.OwnNumbers, "asked twice with the same draws the generator proposes otherwise"),
    ],
)
def test_a_generator_that_depends_on_other_sessions_is_found(draft, said):
    """On their draws, their rows or their order."""
    (found,), _ = problems(draft=draft)
    assert said in found


def test_a_generator_that_says_so_may_draw_otherwise():
    """`deterministic=False` makes it a note."""

    class Says(broken.OwnNumbers):
        @property
        def traits(self):
            return replace(super().traits, deterministic=False)

    failures, (note,) = problems(draft=Says)
    assert failures == []
    assert "asked twice" in note


def test_a_call_that_fails_in_a_batch_alone_is_named():
    """With the method and what it raised."""

    class Raises(TargetFrom):
        def verify_many(self, contexts, proposals):
            raise RuntimeError("ragged blocks")

    assert problems(target=Raises) == (["verify_many: RuntimeError: ragged blocks"], [])
