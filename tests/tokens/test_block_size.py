"""The block size that token drafters bring: measured for chains, a number for trees; right for each of them."""

from __future__ import annotations

import msgspec
import pytest

from draftverify import Fixed, Pipeline, Proposal, TaskRecord
from draftverify.rules import Speculative, Tree
from draftverify.stats.block import Measured
from draftverify.traits import GeneratorTraits
from draftverify_tokens import (
    DraftModel,
    DraftTree,
    FirstOf,
    NoDraft,
    OtherTokenizer,
    PromptLookup,
    Stop,
    Suffix,
    Target,
)
from tests.tokens.tiny import tiny_model

TARGET = tiny_model(24, seed=3, spread=0.4)
DRAFT = tiny_model(24, seed=3, spread=0.4, layers=1)
PROMPT = {"prompt_ids": [7, 7, 7, 8, 7, 7]}


class Bare:
    """A drafter that brings nothing."""

    traits = GeneratorTraits(shape="chain")

    def propose(self, context, n):
        return Proposal.chain(())


CHAINS = {
    "lookup": PromptLookup(at_least=1),
    "suffix": Suffix(),
    "draft model": DraftModel(DRAFT),
    "other tokenizer": OtherTokenizer(DRAFT, TARGET),
    "one of several": FirstOf([NoDraft(), Bare(), PromptLookup(at_least=1), DraftModel(DRAFT)]),
}
TREES = {
    "suffix": Suffix(tree=True),
    "draft tree": DraftTree(DraftModel(DRAFT)),
    "one of several": FirstOf([PromptLookup(), Suffix(tree=True)]),
}


def pipeline(generator, rule=None, **how):
    return Pipeline(
        generator,
        Target(TARGET),
        rule or Speculative(),
        done=Stop(24, ignore_eos=True),
        settings={"temperature": 0},
        **how,
    )


@pytest.mark.parametrize("generator", CHAINS.values(), ids=CHAINS)
def test_a_chain_s_block_is_measured(generator):
    """A controller of the pipeline's own, which comes to draft, and whose answers are plain decoding's."""
    one, other = pipeline(generator), pipeline(generator)
    assert type(one.block) is type(other.block) is Measured
    assert one.block is not other.block
    assert one.block.at_most == 16
    assert one.run(PROMPT).value == pipeline(NoDraft()).run(PROMPT).value
    assert one.block.report()["rounds"]
    assert other.block.report()["rounds"] == 0


@pytest.mark.parametrize("generator", TREES.values(), ids=TREES)
def test_a_tree_has_a_number_of_nodes(generator):
    """The controller takes chains alone."""
    made = pipeline(generator, Tree())
    assert (type(made.block), made.block.n) == (Fixed, 16)
    assert made.run(PROMPT).value == pipeline(NoDraft()).run(PROMPT).value


def test_plain_decoding_asks_nobody():
    """Its block is 0; drafters that bring nothing leave it at 1."""
    assert pipeline(NoDraft()).block.n == 0
    assert pipeline(FirstOf([NoDraft()])).block.n == 0
    assert pipeline(FirstOf([NoDraft(), Bare()])).block.n == 1


def test_a_run_with_a_measured_block_is_taken_up_where_it_stood():
    """Recorded rounds are not decided again, whatever the controller of the new process would choose."""
    whole = pipeline(PromptLookup(at_least=1)).record(PROMPT)
    assert not any(
        round.deterministic for round in whole.rounds
    )  # it reads the clock, and the records say so
    stored = msgspec.convert(msgspec.to_builtins(whole), TaskRecord)
    again = pipeline(PromptLookup(at_least=1)).record(PROMPT, restore=stored.rounds[:3])
    assert again.rounds[:3] == whole.rounds[:3]
    assert again.outcome.value == whole.outcome.value


def test_what_passes_take_is_timed_once_per_model():
    """Seconds by block size, the same answer for each target of a model; none where there are no positions to try."""
    first = Target(TARGET).pass_seconds()
    assert set(first) == {0, 1, 2, 3, 4, 8, 16}
    assert min(first.values()) > 0
    assert Target(TARGET).pass_seconds() is first
    assert Target(DRAFT).pass_seconds() is not first
    assert Target(tiny_model(24, positions=64)).pass_seconds() == {}


def test_a_lookup_begins_with_what_was_timed():
    """Opened, its controller knows what every block costs; no probe need find it out."""
    made = pipeline(PromptLookup())
    assert not made.block.report()["costs"]["plain"]
    with made:
        assert made.block.report()["costs"]["plain"] == Target(TARGET).pass_seconds()[0]
