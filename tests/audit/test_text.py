"""Greedy text on real transformers parts: equal, parted by rounding, or parted by a bug, as the verifier says."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import torch

from draftverify import Evidence, Explanation, Pipeline, Trail
from draftverify.kit import DraftFrom, TableModel, TargetFrom
from draftverify.kit.audit import lossless
from draftverify.rules import BlockVerification, GreedyMatch, Limit, Speculative
from draftverify_tokens import DraftModel, PromptLookup, Stop, Target
from tests.tokens.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("short_enumerations")

VOCABULARY = 40
GREEDY = {"temperature": 0}
TASKS = [{"prompt_ids": [5, 6, 7, 5, 6, 7, 5, 6 + i]} for i in range(3)]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model():
    return tiny_model(VOCABULARY, seed=3, spread=0.5)


@pytest.fixture(scope="module")
def small():
    return tiny_model(VOCABULARY, seed=4, layers=1, spread=0.5)


def audit(generator, verifier, rule, *, settings=GREEDY, done=None, block=3, **how):
    pipeline = Pipeline(
        generator, verifier, rule, block=block, done=done or Stop(12, ignore_eos=True), settings=settings
    )
    how = {"prefixes": 4, "copies": 512, "redraws": 32, "enumerate_all": False} | how
    return lossless(pipeline, TASKS, **how)


def test_greedy_text_is_that_of_plain_steps(model, small):
    """A draft model and prompt lookup, in float32, on every task."""
    for generator in (DraftModel(small), PromptLookup()):
        found = audit(generator, Target(model), GreedyMatch())
        assert found.passed, found.found
        assert found.text.same == found.text.tasks == 3
        assert found.draws.rows_apart is None


class NotRolledBack(Target):
    """Reads a refused item where the spliced one stands: its cache was not rolled back."""

    def verify(self, context, proposal):
        last = context.last
        if last is not None and last.decision.refused and len(context.accepted):
            stale = int(last.proposal.items[last.decision.refused[0].index])
            accepted = Trail.of([*list(context.accepted)[:-1], stale])
            context = msgspec.structs.replace(context, accepted=accepted)
        return super().verify(context, proposal)


def test_a_cache_that_is_not_rolled_back_is_named_a_bug(model, small):
    """With the place, both tokens and the gap, in the target's own words."""
    found = audit(DraftModel(small), NotRolledBack(model), Speculative())
    assert not found.passed
    assert found.enumeration.failures == ()
    (first, *_) = found.text.divergences
    assert first.why.cause == "bug"
    assert "the likeliest two are" in first.why.text


class WrongInBatches(Target):
    """Moves every row by one item when several sessions share a call."""

    def verify_many(self, contexts, proposals):
        made = super().verify_many(contexts, proposals)
        return [
            msgspec.structs.replace(
                each, evidence=Evidence(target=torch.roll(each.evidence.target, int(len(made) > 1), dims=-1))
            )
            for each in made
        ]


def test_what_is_wrong_only_in_a_batch_is_named_so(model, small):
    """Alone every task comes out right."""
    found = audit(DraftModel(small), WrongInBatches(model), GreedyMatch())
    assert not found.passed
    assert any("alone it is equal, in a batch not" in each for each in found.text.failures)


class Rounds(Target):
    """Says of every difference that it is rounding."""

    def explain(self, task, expected, got, settings):
        return Explanation("rounding", "two tokens are level; this is no bug")

    def verify(self, context, proposal):
        made = super().verify(context, proposal)
        if len(context.accepted) > 3 and len(proposal):
            flipped = torch.roll(made.evidence.target, 1, dims=-1)
            made = msgspec.structs.replace(
                made, evidence=msgspec.structs.replace(made.evidence, target=flipped)
            )
        return made


def test_rounding_is_reported_and_fails_nothing(model, small):
    """The text part believes the verifier's explanation."""
    found = audit(DraftModel(small), Rounds(model), GreedyMatch())
    assert found.text.same < found.text.tasks
    assert {each.why.cause for each in found.text.divergences} == {"rounding"}
    assert found.text.failures == ()


class Forbidding(Target):
    """Forgets in a block what the settings ask for."""

    def verify(self, context, proposal):
        if len(proposal):
            context = msgspec.structs.replace(context, settings=GREEDY)
        return super().verify(context, proposal)


def test_a_setting_that_blocks_forget_is_no_rounding(small):
    """Two tokens of one logit, of which the settings leave out one: the difference is judged under them."""
    twins = tiny_model(VOCABULARY, seed=3, spread=0.5)
    twins.model.lm_head.register_forward_hook(lambda _, given, out: torch.zeros_like(out))
    settings = {"temperature": 0, "logit_bias": {0: -1.0}}
    found = audit(DraftModel(small), Forbidding(twins), GreedyMatch(), settings=settings)
    assert {each.why.cause for each in found.text.divergences} == {"bug"}
    assert not found.passed


def test_a_difference_that_nobody_explains_fails():
    """A verifier without explain() leaves it open, and an exact claim needs more."""

    class Flips(TargetFrom):
        traits = replace(TargetFrom.traits, reads={"temperature"})

        def verify(self, context, proposal):
            made = super().verify(context, proposal)
            if len(proposal):
                made.evidence.target[:] = made.evidence.target[:, ::-1].copy()
            return made

    target = Flips(TableModel(8, seed=2), temperature=0)
    pipeline = Pipeline(
        DraftFrom(TableModel(8, seed=5)), target, GreedyMatch(), block=2, done=Limit(8), settings=GREEDY
    )
    found = lossless(pipeline, TASKS, prefixes=2, copies=256)
    assert found.text.divergences[0].why.cause == "unexplained"
    assert not found.passed


def test_a_stopping_rule_that_overruns_the_end_is_a_bug(model, small):
    """Blocks and plain steps end at different tokens."""

    class Overruns(Stop):
        def __call__(self, context, new):
            kept = super().__call__(context, new)
            return None if kept is None else len(new)

    found = audit(DraftModel(model), Target(model), Speculative(), done=Overruns(10))
    assert not found.passed
    assert found.enumeration.failures
    assert found.text.failures


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(Speculative(), id="speculative"),
        pytest.param(BlockVerification(), id="block", marks=pytest.mark.exhaustive),
    ],
)
def test_sampling_with_a_draft_model_passes(model, small, rule):
    """Torch rows on recorded prefixes, the generator's own draws, and rows of blocks against plain steps."""
    found = audit(DraftModel(small), Target(model), rule, settings={"temperature": 0.8}, redraws=64)
    assert found.passed, found.found
    assert found.text is None
    assert found.draws.drafted == 4
    assert found.draws.redrawn == 4 * 64
    assert found.draws.rows_apart < 1e-4


class OtherTemperature(DraftModel):
    """Draws at another temperature than it reports: the sampling parameters did not reach the draft."""

    def propose(self, context, n):
        hot = msgspec.structs.replace(context, settings={"temperature": 2.5})
        drawn = super().propose(hot, n)
        q = torch.as_tensor(drawn.law.q) ** (2.5 / 0.8)
        law = msgspec.structs.replace(drawn.law, q=q / q.sum(dim=-1, keepdim=True), place=None)
        return msgspec.structs.replace(drawn, law=law)


def test_a_draft_model_that_ignores_the_temperature_is_found(model, small):
    """The q that it reports is not the one that it drew from."""
    found = audit(
        OtherTemperature(small), Target(model), Speculative(), settings={"temperature": 0.8}, redraws=64
    )
    assert not found.passed
    assert any("generator" in failure for failure in found.draws.failures)


def test_a_verifier_that_is_not_rolled_back_is_found_while_sampling(model, small):
    """Where there is no greedy text to compare, the rows tell."""
    found = audit(DraftModel(small), NotRolledBack(model), Speculative(), settings={"temperature": 0.8})
    assert not found.passed
    assert found.draws.rows_apart > 0.1
