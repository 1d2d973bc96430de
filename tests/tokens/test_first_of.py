"""Drafters in order: who is asked, what the combination declares, and that mixed laws stay exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from draftverify import ConfigError, Fixed, Pipeline, PipelineError, Proposal, iid
from draftverify.bench.config.forms import ListForm
from draftverify.bench.config.parameters import parameters
from draftverify.kit import (
    DraftFrom,
    ScriptedGenerator,
    ScriptedVerifier,
    TableModel,
    TargetFrom,
    check_component,
    make_context,
)
from draftverify.rules import GreedyMatch, Limit, LongestPrefix, Speculative
from draftverify.stats.block import Measured
from draftverify.traits import GeneratorTraits, vocabulary_of
from draftverify_tokens.first_of import FirstOf
from draftverify_tokens.prompt_lookup import PromptLookup
from draftverify_tokens.suffix import Suffix

PROMPT = {"prompt_ids": [0, 1, 2, 0, 1]}
EMPTY, EXHAUSTED = Proposal.chain(()), Proposal.chain((), exhausted=True)


class Part:
    """A drafter that says always the same and writes down what happens to it."""

    def __init__(self, proposal=EMPTY, **declared):
        self.proposal = proposal
        self.seen = []
        self.traits = GeneratorTraits(**declared)

    def propose(self, context, n):
        self.seen.append(n)
        return self.proposal

    def open(self):
        self.seen.append("open")

    def close(self):
        self.seen.append("close")

    def check_settings(self, settings):
        self.seen.append(dict(settings))


class Silent:
    """Draws, and proposes nothing when its draw is small: whether the next is asked depends on the draw."""

    traits = GeneratorTraits(laws={"iid"})

    def propose(self, context, n):
        if context.draws.uniform(0) < 0.5:
            return EMPTY
        return DraftFrom(TableModel(4, seed=3)).propose(context, n)


def test_the_first_that_has_something_drafts():
    """Those after it are not asked; the proposal is handed on as it is, with a note of who made it."""
    parts = [Part(), Part(EXHAUSTED), Part(Proposal.chain((7,), evidence={"score": 1})), Part()]
    made = FirstOf(parts).propose(make_context(PROMPT), 3)
    assert (made.items, made.evidence, made.notes) == ((7,), {"score": 1}, {"drafter": "Part"})
    assert [part.seen for part in parts] == [[3], [3], [3], []]


@pytest.mark.parametrize(
    ("proposals", "exhausted"),
    [
        ([EMPTY, EXHAUSTED], False),
        ([EXHAUSTED, EMPTY], False),
        ([EXHAUSTED, EXHAUSTED], True),
        ([EMPTY], False),
    ],
)
def test_it_is_exhausted_when_all_are(proposals, exhausted):
    """Else an empty proposal is one plain step."""
    made = FirstOf([Part(proposal) for proposal in proposals]).propose(make_context(PROMPT), 3)
    assert (made.items, made.exhausted) == ((), exhausted)


@pytest.mark.parametrize("exhausted", [False, True])
def test_a_silent_drafter_that_draws_is_silent_by_its_own_law(exhausted):
    """An empty block's law is one of those declared, also where no drafter takes given tokens."""
    silent = Part(Proposal.chain((), iid(np.empty((0, 4))), exhausted=exhausted), laws=frozenset({"iid"}))
    target = TargetFrom(TableModel(4, seed=1))
    made = FirstOf([silent, silent]).propose(make_context(PROMPT), 3)
    assert (made.law.kind, len(made.items), made.exhausted) == ("iid", 0, exhausted)
    outcome = Pipeline(FirstOf([silent]), target, Speculative(), block=2, done=Limit(3)).run(PROMPT)
    assert outcome.status == ("refused" if exhausted else "accepted"), outcome


def test_a_batch_asks_each_drafter_once_for_those_that_wait():
    """Sessions that a drafter before served are not in the next one's call."""

    class Batched:
        def __init__(self, items):
            self.items = items
            self.seen = []

        def propose_many(self, contexts, ns):
            self.seen.append([(context.task.input["k"], n) for context, n in zip(contexts, ns, strict=True)])
            return [Proposal.chain(self.items.get(context.task.input["k"], ())) for context in contexts]

        def propose(self, context, n):
            raise AssertionError("one call each, where one call for all is possible")

    first, second = Batched({0: (5,), 2: (6,)}), Batched({1: (7,)})
    contexts = [make_context({"k": k}) for k in range(4)]
    made = FirstOf([first, second]).propose_many(contexts, [1, 2, 3, 4])
    assert [proposal.items for proposal in made] == [(5,), (7,), (6,), ()]
    assert first.seen == [[(0, 1), (1, 2), (2, 3), (3, 4)]]
    assert second.seen == [[(1, 2), (3, 4)]]


def test_it_declares_what_its_drafters_declare():
    """All laws, the narrowest common shape, what is unsafe in one is unsafe in all."""
    draft = DraftFrom(TableModel(4))
    assert FirstOf([PromptLookup(), draft]).traits.laws == {"given", "iid"}
    assert FirstOf([PromptLookup(), Part()]).traits.laws == {"given"}
    assert FirstOf([PromptLookup(), draft]).traits.shape == "chain"
    assert FirstOf([PromptLookup(), Suffix(tree=True)]).traits.shape == "tree"
    assert FirstOf([PromptLookup(), Part()]).traits.shape is None
    assert FirstOf([PromptLookup(), Suffix()]).traits.concurrent
    assert not FirstOf([PromptLookup(), Part(concurrent=False)]).traits.concurrent
    assert not FirstOf([PromptLookup(), Part(deterministic=False)]).traits.deterministic


def test_a_rule_must_take_every_law():
    """A pipeline is refused when it is built, not in the first round in which the other drafter is asked."""
    drafters = [PromptLookup(), DraftFrom(TableModel(4))]
    with pytest.raises(PipelineError, match="iid"):
        Pipeline(FirstOf(drafters), ScriptedVerifier({}), LongestPrefixOfGiven())


class LongestPrefixOfGiven(LongestPrefix):
    traits = replace(LongestPrefix.traits, laws={"given"})


def test_drafters_of_different_vocabularies_are_refused():
    """Where one has none, it follows the others."""
    assert vocabulary_of(FirstOf([PromptLookup(), Part(vocabulary="a"), Part(vocabulary="a")]).traits) == "a"
    assert vocabulary_of(FirstOf([PromptLookup()]).traits) is None
    with pytest.raises(ConfigError, match="Part a, Part b"):
        vocabulary_of(FirstOf([Part(vocabulary="a"), Part(vocabulary="b")]).traits)
    with pytest.raises(ConfigError, match="drafters is empty"):
        FirstOf([])


def test_opening_closing_and_settings_reach_every_drafter():
    """Those that have the method."""
    parts = [Part(reads={"a"}), Part()]
    model = TableModel(4)
    with Pipeline(FirstOf([*parts, PromptLookup()]), TargetFrom(model), Speculative(), settings={"a": 1}):
        pass
    assert parts[0].seen == parts[1].seen == [{"a": 1}, "open", "close"]


def test_a_config_can_list_its_drafters():
    """The constructor's annotation is a list of generators."""
    form = parameters(FirstOf)["drafters"].form
    assert isinstance(form, ListForm)
    assert "generator" in form.element.roles


def test_when_all_are_silent_the_round_is_a_plain_step():
    """The verifier gets an empty block and the rule's bonus is the token."""
    model = TableModel(4, sharpness=3.0)
    pipeline = Pipeline(
        FirstOf([Part(), Part()]), TargetFrom(model, temperature=0), GreedyMatch(), block=4, done=Limit(5)
    )
    record = pipeline.record(PROMPT)
    assert [len(round.decision.emitted) for round in record.rounds] == [1] * 5


@pytest.mark.parametrize("block", [Fixed(3), Measured(8)], ids=["fixed", "measured"])
def test_any_block_controller_can_choose_the_length(block):
    """The greedy output is the target's own, with rounds of either drafter and plain steps between."""
    model = TableModel(6, order=2, sharpness=3.0)
    target, task = TargetFrom(model, temperature=0), {"prompt_ids": [0, 1, 2, 0, 1]}
    part = FirstOf([PromptLookup(3, 3), DraftFrom(model, temperature=0)])
    record = Pipeline(part, target, Speculative(), block=block, done=Limit(60)).record(task)
    text = list(task["prompt_ids"])
    for _ in range(60):
        text.append(int(np.argmax(model(text))))
    assert list(record.outcome.value) == text[5:]
    assert record.outcome.rounds < 60


def test_sampled_output_of_mixed_laws_is_the_targets():
    """A lookup, else a draft model, in batches: pairs of tokens come as often as the target says (chi-square below its
    1e-6 quantile)."""
    from scipy.stats import chi2

    target, draft = TableModel(3, seed=1), TableModel(3, seed=2)
    pipeline = Pipeline(
        FirstOf([PromptLookup(2, 2), DraftFrom(draft)]),
        TargetFrom(target),
        Speculative(),
        block=2,
        done=Limit(2),
    )
    prompts, trials = (
        ([0, 1, 2, 0], [0, 1, 2, 0, 1]),
        1500,
    )  # only in the second there is something to look up at first
    records = pipeline.record([{"prompt_ids": prompt} for prompt in prompts * trials], size=64)
    assert {record.rounds[0].law for record in records[::2]} == {"iid"}
    assert {record.rounds[0].law for record in records[1::2]} == {"given"}
    for which, prompt in enumerate(prompts):
        counts = Counter(record.outcome.value for record in records[which::2])
        statistic = 0.0
        for a in range(3):
            for b in range(3):
                p = target(prompt)[a] * target((a,))[b]
                statistic += (counts[a, b] - trials * p) ** 2 / (trials * p)
        assert statistic < chi2.isf(1e-6, 8)


def test_a_drafter_behind_one_that_draws_draws_anew():
    """Its first token comes as often as its q says, though it is asked only where the first one's draw was small."""
    model = TableModel(4, seed=5, order=0)
    part = FirstOf([Silent(), DraftFrom(model)])
    drawn = np.zeros(4)
    asked = 0
    for seed in range(4000):
        context = make_context(PROMPT, seed=seed)
        if context.draws.uniform(0) < 0.5:
            asked += 1
            drawn[part.propose(context, 1).items[0]] += 1
    q = model(())
    # Each count within 5.5 standard deviations: error probability below 2e-7.
    assert np.all(np.abs(drawn - asked * q) < 5.5 * np.sqrt(asked * q * (1 - q)))


@pytest.mark.parametrize(
    "part",
    [
        FirstOf([PromptLookup(2, 2), Suffix()]),
        FirstOf([PromptLookup(3, 2), DraftFrom(TableModel(3, seed=2))]),
        FirstOf([ScriptedGenerator([()] * 9), Suffix(0, tree=True)]),
    ],
    ids=["lookups", "lookup, model", "trees"],
)
def test_the_conformance_kit_finds_nothing(part):
    """Declared laws and shape, honest draws, the same answers for many and for one, and the rest of the kit."""
    contexts = [make_context(PROMPT, accepted=accepted) for accepted in ([], [2], [2, 2])]
    check_component(part, contexts=contexts, trials=400)


def test_what_a_drafter_refuses_is_named_where_it_stands():
    """Arguments and verifiers with the drafter's place; settings, which are the pipeline's, without."""

    def refuse(path):
        def method(*_):
            raise ConfigError("no", path=path)

        return method

    part = Part()
    part.check_settings = refuse("settings.top_k")
    part.open = refuse("ngram")
    part.check_verifier = refuse("own_cache")
    both = FirstOf([PromptLookup(), part])
    with pytest.raises(ConfigError, match=r"^settings\.top_k: no$"):
        both.check_settings({})
    with pytest.raises(ConfigError, match=r"^drafters\.1\.ngram: no$"):
        both.open()
    with pytest.raises(ConfigError, match=r"^drafters\.1\.own_cache: no$"):
        both.check_verifier(None)
