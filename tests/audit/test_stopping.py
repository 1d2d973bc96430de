"""Stopping rules above temperature 0, right ones and ones that let values pass their own end inside a block."""

from __future__ import annotations

import pytest
import torch

from draftverify import Budget, Pipeline
from draftverify.engine.pipeline import as_task
from draftverify.kit import DraftFrom, TableModel, TargetFrom
from draftverify.kit.audit import lossless
from draftverify.kit.audit.stopping import stopping_problems
from draftverify.rules import Limit, Rounds, Speculative
from draftverify_tokens import DraftModel, NoDraft, Stop, Target
from tests.tokens.tiny import tiny_model

TASKS = [{"prompt_ids": [5, 6, 7, 5, 6 + i]} for i in range(4)]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model():
    return tiny_model(seed=3, spread=0.5)


def pipeline_of(model, done, block=3):
    return Pipeline(
        DraftModel(model), Target(model), Speculative(), block=block, done=done, settings={"temperature": 1.0}
    )


def problems(model, done):
    """What is said of a stopping rule whose answers come in blocks of 4 and fewer."""
    return stopping_problems(pipeline_of(model, done), [as_task(task, "a") for task in TASKS], 3)


class Overruns(Stop):
    """Stops in the right round, and keeps all of it."""

    def __call__(self, context, new):
        kept = super().__call__(context, new)
        return None if kept is None else len(new)


class OneTooMany(Stop):
    """Keeps a value behind the end, where the block has one."""

    def __call__(self, context, new):
        kept = super().__call__(context, new)
        return None if kept is None else min(kept + 1, len(new))


class Short(Stop):
    """Drops what came in the same block before the end."""

    def __call__(self, context, new):
        kept = super().__call__(context, new)
        return None if kept is None else 1


class LastAlone(Stop):
    """Looks whether the answer is over at the block's end only."""

    def __call__(self, context, new):
        return super().__call__(context, new) if len(context.accepted) % 5 == 0 else None


def letters(model):
    """Texts of one letter, some of which every answer of two dozen random bytes holds."""
    return {"strings": tuple(map(chr, range(32, 80))), "model": model}


@pytest.mark.parametrize("how", ["limit", "strings"])
def test_a_right_stopping_rule_passes(model, how):
    """A limit that no tiny answer reaches, and stop strings."""
    more = letters(model) if how == "strings" else {}
    assert problems(model, Stop(26, ignore_eos=True, **more)) == ([], [])


@pytest.mark.parametrize("how", ["limit", "strings"])
@pytest.mark.parametrize("broken", [Overruns, OneTooMany, Short, LastAlone])
def test_a_stopping_rule_that_blocks_mislead_is_found(model, broken, how):
    """Wherever in a block the answer ends."""
    more = letters(model) if how == "strings" else {}
    found, notes = problems(model, broken(26, ignore_eos=True, **more))
    assert found
    assert not notes


@pytest.mark.parametrize("broken", [Overruns, OneTooMany, Short, LastAlone])
def test_a_fault_that_no_real_block_met_is_found(model, broken):
    """Answers that came one value a round end rightly; played again in blocks they do not."""
    done = broken(25, ignore_eos=True)
    plain = Pipeline(
        NoDraft(), Target(model), Speculative(), block=3, done=done, settings={"temperature": 1.0}
    )
    found, _ = stopping_problems(plain, [as_task(TASKS[0], "a")], 3)
    assert found
    assert all("one value at a time the stopping rule keeps 25, in blocks of" in problem for problem in found)


def test_the_stopping_rule_is_given_the_prepared_task(model):
    """What the verifier's `prepare` has put into a task is there when answers are played again."""

    class AsksTheTask(Stop):
        def __call__(self, context, new):
            assert context.task.input["eos_ids"]
            return super().__call__(context, new)

    assert problems(model, AsksTheTask(26)) == ([], [])


@pytest.mark.usefixtures("short_enumerations")
def test_the_audit_fails_where_the_enumeration_has_nothing_to_say(model):
    """Tiny answers never come to the limit; real ones above temperature 0 do."""
    found = lossless(
        pipeline_of(model, OneTooMany(26, ignore_eos=True)),
        TASKS,
        prefixes=2,
        copies=256,
        redraws=8,
    )
    assert found.text is None
    assert not found.enumeration.failures
    assert any("stopping rule" in failure for failure in found.failures)
    assert not found.passed


def test_a_rule_that_counts_rounds_is_no_plain_decoding_s():
    """How many values an answer has must not depend on how they came."""
    pipeline = Pipeline(
        DraftFrom(TableModel(5, seed=2)), TargetFrom(TableModel(5, seed=1)), Speculative(), block=3, done=Rounds(4)
    )  # fmt: skip
    failures, _ = stopping_problems(pipeline, [as_task({"prompt_ids": [1]}, "a")], 3)
    assert any("one at a time, the stopping rule ends it after 4" in failure for failure in failures)


def test_an_answer_that_no_stopping_rule_ended_is_remarked():
    """A budget ended it: nothing was shown of the stopping rule, and the report says so."""
    pipeline = Pipeline(
        DraftFrom(TableModel(5, seed=2)), TargetFrom(TableModel(5, seed=1)), Speculative(),
        block=3, done=Limit(40), budget=Budget(rounds=3),
    )  # fmt: skip
    _, notes = stopping_problems(pipeline, [as_task({"prompt_ids": [1]}, "a")], 3)
    assert any("was not played" in note for note in notes)


def test_a_stopping_rule_that_reads_more_than_values_is_remarked():
    """What it reads is not there when its answers are played again; that is said."""

    class Sure:
        def __call__(self, context, new):
            sure = context.last.verification.evidence.target.max() > 0
            return len(new) if sure and len(context.accepted) >= 5 else None

    pipeline = Pipeline(
        DraftFrom(TableModel(5, seed=2)), TargetFrom(TableModel(5, seed=1)), Speculative(), block=3, done=Sure()
    )  # fmt: skip
    _, notes = stopping_problems(pipeline, [as_task({"prompt_ids": [1]}, "a")], 3)
    assert any("needs more than an answer's values" in note for note in notes)
