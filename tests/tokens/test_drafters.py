"""Drafters: what is looked up is what stood there, and what is drawn is drawn from the q that is told."""

from __future__ import annotations

import math

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError, Context, Proposal
from draftverify.kit import check_component, make_context
from draftverify_tokens import DraftModel, DraftTree, History, NoDraft, PromptLookup, Suffix, probabilities
from draftverify_tokens.reader import BlockReader
from tests.tokens.tiny import context_of, rows, rows_of, tiny_model

MODEL = tiny_model(20, spread=0.4)
sequences = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def lookup(tokens: list[int], n: int, ngram: int, at_least: int) -> list[int]:
    """The oracle: look at every earlier place, the longest suffix first, the latest place first."""
    for size in range(ngram, at_least - 1, -1):
        for end in range(len(tokens) - 1, size - 1, -1):
            if tokens[end - size : end] == tokens[len(tokens) - size :]:
                copied = list(tokens)
                for place in range(end, end + n):
                    copied.append(copied[place])
                return copied[len(tokens) :]
    return []


def prompt_only(prompt: list[int], accepted: list[int], scratch: dict | None = None):
    return make_context({"prompt_ids": prompt}, accepted=accepted, scratch=scratch)


@given(sequences, st.integers(0, 6), st.integers(1, 4), st.integers(1, 4))
def test_lookup_copies_what_followed_the_longest_latest_match(tokens, n, ngram, at_least):
    """As a search of every place does."""
    ngram, at_least = max(ngram, at_least), min(ngram, at_least)
    proposal = PromptLookup(ngram, at_least).propose(prompt_only(tokens[:5], tokens[5:]), n)
    assert list(proposal.items) == lookup(tokens, n, ngram, at_least)
    assert proposal.law.kind == "given"


@given(sequences, st.lists(st.integers(0, 8), max_size=6), st.data())
def test_lookup_grows_its_index_and_can_lose_it(tokens, steps, data):
    """However the answer grew, and whenever the index was thrown away, the draft is the same."""
    part, scratch, accepted = PromptLookup(3, 1), {}, []
    for step in [0, *steps]:
        accepted += data.draw(st.lists(st.integers(0, 3), min_size=step, max_size=step))
        if data.draw(st.booleans()):
            scratch.clear()
        kept = part.propose(prompt_only(tokens, accepted, scratch), 5)
        assert list(kept.items) == lookup(tokens + accepted, 5, 3, 1)


def test_lookup_does_not_mix_up_sequences():
    """A scratch that holds another sequence's index is noticed."""
    part, scratch = PromptLookup(3, 1), {}
    part.propose(prompt_only([1, 2, 1, 3, 1], [], scratch), 2)
    assert part.propose(prompt_only([5, 1, 2, 4, 1], [], scratch), 2).items == (2, 4)


def test_lookup_leaves_no_more_than_the_positions_that_there_are():
    """Near the end of the target's positions the draft is shorter."""
    context = make_context({"prompt_ids": [1, 2, 1, 2], "positions": 6})
    assert PromptLookup().propose(context, 5).items == (1, 2)


def test_lookup_refuses_sizes_that_cannot_match():
    """at_least above ngram would never find anything."""
    with pytest.raises(ConfigError, match="at_least is 3 and ngram is 2"):
        PromptLookup(ngram=2, at_least=3).propose(prompt_only([1, 2], []), 2)


def test_no_draft_is_the_empty_chain():
    """Plain decoding asks for nothing to be verified."""
    proposal = NoDraft().propose(prompt_only([1], []), 4)
    assert len(proposal) == 0
    assert not proposal.exhausted


PENALTIES = {"repetition_penalty": 1.5, "frequency_penalty": 0.7}


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_k": 5}, {"temperature": 0}, PENALTIES])
def test_a_draft_models_q_is_its_distribution_after_each_token(settings):
    """Row i of q is the model's distribution after the context and the items before i, under the settings."""
    context = context_of(MODEL, [1, 2, 3], accepted=[4, 5], settings=settings)
    proposal = DraftModel(MODEL).propose(context, 4)
    n = len(proposal)
    logits = rows(MODEL, [1, 2, 3, 4, 5, *proposal.items], n + 1)[:n]
    q, maxima = probabilities(logits, settings, [History([1, 2, 3], [4, 5], proposal.items[:-1])])
    assert proposal.law.kind == "iid"
    assert torch.allclose(proposal.law.q, q, atol=1e-5)
    assert torch.allclose(proposal.law.raw_maxima, maxima, atol=1e-5)
    if settings.get("temperature") == 0:
        assert list(proposal.items) == q.argmax(-1).tolist()


def test_a_draft_models_tokens_are_drawn_from_its_q():
    """Over 600 tasks the first two tokens come as often as q says (chi-square below its 1e-6 quantile)."""
    from scipy.stats import chi2

    small = tiny_model(5, layers=1, spread=0.5)
    part = DraftModel(small)
    first = probabilities(rows(small, [0, 1], 1), {})[0][0]
    expected = {}
    for a in range(5):
        second = probabilities(rows(small, [0, 1, a], 1), {})[0][0]
        for b in range(5):
            key = (a,) if a == 4 else (a, b)  # 4 ends an answer, and the draft with it
            expected[key] = expected.get(key, 0.0) + float(first[a] * second[b])
    counts = dict.fromkeys(expected, 0)
    trials = 600
    prepared = context_of(small, [0, 1]).task
    for seed in range(trials):
        counts[part.propose(make_context(prepared, seed=seed), 2).items] += 1
    statistic = math.fsum((counts[key] - trials * p) ** 2 / (trials * p) for key, p in expected.items())
    assert statistic < chi2.isf(1e-6, len(expected) - 1)


def test_a_draft_model_stops_after_an_end_token():
    """Nothing is drafted after the token that ends the answer."""
    sharp = tiny_model(3, spread=0.1)
    for seed in range(40):
        items = DraftModel(sharp).propose(context_of(sharp, [0], seed=seed), 6).items
        assert 2 not in items[:-1]
        assert items[-1] == 2 or len(items) == 6


@pytest.mark.parametrize("vocabulary", [18, 23])
def test_a_padded_vocabulary_is_brought_to_the_targets_size(vocabulary):
    """Rows of the target's length: no mass where the draft model has none, no token that the target lacks."""
    context = make_context({"prompt_ids": [1, 2], "vocabulary": vocabulary})
    proposal = DraftModel(MODEL).propose(context, 3)
    logits = rows(MODEL, [1, 2], 1)[:, :vocabulary]
    assert proposal.law.q.shape == (3, vocabulary)
    assert torch.allclose(proposal.law.q[0, : logits.shape[1]], logits[0].softmax(-1), atol=1e-6)
    assert torch.allclose(proposal.law.q.sum(-1), torch.ones(3))


@pytest.mark.parametrize(("prompt", "accepted"), [([1, 20], []), ([1], [2, 22])])
def test_nothing_is_drafted_after_a_token_that_the_draft_model_lacks(prompt, accepted):
    """The target may write a token of its padding; a draft model of fewer rows cannot read it. It says nothing from
    there on, in a chain and in a tree, and does not keep the sessions beside it from drafting."""
    contexts = [
        make_context({"prompt_ids": [1], "vocabulary": 23}, accepted=[2]),
        make_context({"prompt_ids": prompt, "vocabulary": 23}, accepted=accepted),
    ]
    for part in (DraftModel(MODEL), DraftTree(DraftModel(MODEL), (2, 1))):
        beside, proposal = part.propose_many(contexts, [2, 2])
        assert len(beside.items)
        assert not len(proposal.items)


def test_the_targets_end_tokens_end_a_draft():
    """Those of a base model may be others than those of the instructed one that it drafts for: blocks end at the
    target's, and under a grammar those follow a complete answer."""
    settings = {"temperature": 0, "regex": "ab"}
    model = tiny_model(257)
    for part in (DraftModel(model), DraftTree(DraftModel(model), (2, 1, 1, 1), "without_replacement")):
        task = {"prompt_ids": [1], "eos_ids": [0], "vocabulary": 257}
        proposal = part.propose(make_context(task, settings=settings), 4)
        assert [int(item) for item in proposal.items] == [97, 98, 0]
        after_end = make_context(task, accepted=[97, 98, 0], settings=settings)
        assert {int(item) for item in part.propose(after_end, 2).items} == {0}


def test_a_draft_model_has_nothing_to_say_where_no_position_is_left():
    """An empty chain of its law."""
    proposal = DraftModel(MODEL).propose(
        make_context({"prompt_ids": [1, 2], "positions": 2, "vocabulary": 20}), 3
    )
    assert len(proposal) == 0
    assert proposal.law.q.shape == (0, 20)


@pytest.mark.parametrize("settings", [{"temperature": 0.8}, {"temperature": 0.8, "repetition_penalty": 1.3}])
def test_sessions_of_a_batch_do_not_touch_each_other(settings):
    """Blocks, rooms and answers of different lengths beside it: a session's draft is the one that it has alone."""
    sharp = tiny_model(5, spread=0.1)  # ends about every fifth token
    part = DraftModel(sharp)
    prompts = [[0, 1], [1], [2, 3, 1, 2], [3, 3, 3], [0], [1, 1]]
    sizes = [6, 1, 9, 0, 4, 7]

    def contexts():
        return [
            make_context(
                {"prompt_ids": prompt, "vocabulary": 7, "positions": 8 if i % 2 == 0 else None},
                settings=settings if i < 4 else {"temperature": 0.5},
                seed=i,
                scratch={},
            )
            for i, prompt in enumerate(prompts)
        ]

    together, alone = contexts(), contexts()
    lengths = set()
    for _ in range(3):
        found = part.propose_many(together, sizes)
        expected = [part.propose(context, n) for context, n in zip(alone, sizes, strict=True)]
        assert [p.items for p in found] == [p.items for p in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.law.q.shape == (len(one), 7)
            assert torch.allclose(one.law.q, other.law.q, atol=1e-5)
            assert torch.allclose(one.law.raw_maxima, other.law.raw_maxima, atol=1e-5)
        lengths |= {len(p) for p in found}
        together, alone = ([grown(c, p) for c, p in zip(cs, found, strict=True)] for cs in (together, alone))
    assert len(lengths) > 3


class Knowing:
    """Guesses what a model drafts, having asked it; from the `wrong`-th token on it is mistaken."""

    def __init__(self, model, n: int, wrong: int) -> None:
        self.part, self.n, self.wrong = DraftModel(model), n, wrong

    def continuation(self, context, n, drafted):
        alone = msgspec.structs.replace(context, scratch={})
        text = list(self.part.propose(alone, self.n).items)
        text[self.wrong :] = [(token + 1) % 20 for token in text[self.wrong :]]
        return tuple(text[len(drafted) : len(drafted) + n])


LOOKUPS = {
    "lookup": PromptLookup(at_least=1),
    "suffix": Suffix(threshold=0),
    "suffix tree": Suffix(tree=True),
    "right": Knowing(MODEL, 9, 9),
    "half right": Knowing(MODEL, 9, 2),
}


@pytest.mark.parametrize(
    "settings", [{"temperature": 0}, {"temperature": 0.4}, {"temperature": 0.8, "repetition_penalty": 1.3}]
)
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_guesses_change_no_draft(settings, lookup):
    """The same tokens, q and raw maxima as token by token, in batches and alone, over rounds that refuse half."""
    prompts, sizes = [[0, 1, 2, 0, 1], [1, 1, 1], [2, 3, 1, 2], [3], [5, 4, 5, 4]], [6, 1, 9, 0, 7]

    def contexts():
        return [
            make_context({"prompt_ids": prompt, "vocabulary": 22}, settings=settings, seed=i, scratch={})
            for i, prompt in enumerate(prompts)
        ]

    plain, guessing = DraftModel(MODEL), DraftModel(MODEL, lookup=LOOKUPS[lookup])
    kinds = [contexts(), contexts(), contexts()]
    for _ in range(3):
        expected = plain.propose_many(kinds[0], sizes)
        for found in (
            guessing.propose_many(kinds[1], sizes),
            [guessing.propose(context, n) for context, n in zip(kinds[2], sizes, strict=True)],
        ):
            assert [p.items for p in found] == [p.items for p in expected]
            for one, other in zip(found, expected, strict=True):
                assert torch.allclose(one.law.q, other.law.q, atol=1e-5)
                assert torch.allclose(one.law.raw_maxima, other.law.raw_maxima, atol=1e-5)
        kinds = [[grown(c, p) for c, p in zip(cs, expected, strict=True)] for cs in kinds]


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 0.8}])
@pytest.mark.parametrize("lookup", [None, "half right"])
@pytest.mark.parametrize("margin", [0.3, 0.8])
def test_a_block_ends_behind_a_doubtful_token(settings, lookup, margin):
    """It is the beginning of the block that is asked for, up to the first token whose row has two of nearly the same
    logit; in batches and alone, with guesses and without."""
    prompts, sizes = [[0, 1, 2, 0, 1], [1, 1, 1], [2, 3, 1, 2], [3], [5, 4, 5, 4]], [6, 1, 9, 0, 7]

    def contexts():
        return [
            make_context({"prompt_ids": prompt, "vocabulary": 22}, settings=settings, seed=i, scratch={})
            for i, prompt in enumerate(prompts)
        ]

    guess = LOOKUPS[lookup] if lookup else None
    part = DraftModel(MODEL, lookup=guess, margin=margin)
    whole = DraftModel(MODEL).propose_many(contexts(), sizes)
    singly = [part.propose(context, n) for context, n in zip(contexts(), sizes, strict=True)]
    shorter = longer = 0
    for found in (part.propose_many(contexts(), sizes), singly):
        for prompt, one, all_ in zip(prompts, found, whole, strict=True):
            top = rows(MODEL, [*prompt, *all_.items[:-1]], max(len(all_), 1)).topk(2, -1).values
            apart = (top[:, 0] - top[:, 1]).tolist()[: len(all_)]
            length = next((i + 1 for i, nats in enumerate(apart) if nats < margin), len(apart))
            assert one.items == all_.items[:length]
            assert torch.allclose(one.law.q, all_.law.q[:length], atol=1e-5)
            shorter += length < len(apart)
            longer += length > 1
    assert shorter
    assert longer


def test_a_doubtful_token_saves_passes():
    """No pass is made for the token behind it."""
    context = make_context({"prompt_ids": [0, 1], "vocabulary": 20}, seed=1)
    whole = DraftModel(MODEL).propose(context, 9)
    top = rows(MODEL, [0, 1, *whole.items[:-1]], 9).topk(2, -1).values
    apart = (top[:, 0] - top[:, 1]).tolist()
    place = apart.index(min(apart[:8]))
    with rows_of("embedding", MODEL.model.model.embed_tokens.weight) as passes:
        context = make_context(context.task, seed=1)
        assert len(DraftModel(MODEL, margin=apart[place] + 1e-4).propose(context, 9)) == place + 1
    assert len(passes) == place + 1


def test_right_guesses_save_passes(monkeypatch):
    """Nine tokens in three passes where all guesses are right, in seven where only the first two are."""
    passes = []
    inner = BlockReader.read
    for wrong, expected in ((9, [3, 3, 0]), (2, [3, 3, 3, 3, 2, 1, 0])):
        part = DraftModel(MODEL, lookup=Knowing(MODEL, 9, wrong))
        context = make_context({"prompt_ids": [0, 1], "vocabulary": 20}, settings={"temperature": 0}, seed=1)

        def read(self, contexts, proposals, tail=None, part=part):
            if self is part._reader:
                passes.append(len(proposals[0]))
            return inner(self, contexts, proposals, tail)

        monkeypatch.setattr(BlockReader, "read", read)
        assert len(part.propose(context, 9)) == 9
        assert passes == expected
        passes.clear()


def test_what_was_drafted_is_not_taken_for_accepted():
    """A refused token is read anew, also where all that was accepted behind it is what had been drafted."""
    part = DraftModel(MODEL, lookup=Knowing(MODEL, 9, 9))
    for length in range(1, 10):
        scratch: dict = {}
        context = make_context({"prompt_ids": [0, 1], "vocabulary": 20}, seed=1, scratch=scratch)
        drafted = list(part.propose(context, 9).items)
        assert len(drafted) == 9
        accepted = [(drafted[0] + 1) % 19, *drafted[1:length]]
        found = part.propose(make_context(context.task, accepted=accepted, seed=2, scratch=scratch), 4)
        expected = DraftModel(MODEL).propose(make_context(context.task, accepted=accepted, seed=2), 4)
        assert found.items == expected.items
        assert torch.allclose(found.law.q, expected.law.q, atol=1e-5)


def test_a_guess_that_the_draft_model_has_no_row_for_is_not_read():
    """An earlier output may hold tokens of the target that this model lacks: the guess ends before them."""

    class Beyond:
        def continuation(self, context, n, drafted):
            return (3, 20, 3)[:n]

    context = make_context({"prompt_ids": [1, 2], "vocabulary": 22}, seed=4)
    found = DraftModel(MODEL, lookup=Beyond()).propose(context, 6)
    assert found.items == DraftModel(MODEL).propose(make_context(context.task, seed=4), 6).items


@given(
    sequences,
    st.lists(st.integers(0, 3), max_size=4),
    st.integers(0, 5),
    st.sampled_from([PromptLookup(3, 1), Suffix(0)]),
)
def test_a_continuation_leaves_the_index_as_it_was(tokens, drafted, n, part):
    """It is that of the text with what is drafted behind it, as far as the text itself says; nothing is read in."""
    scratch = {}
    before = part.propose(prompt_only(tokens[:5], tokens[5:], scratch), n).items
    found = part.continuation(prompt_only(tokens[:5], tokens[5:], scratch), n, drafted)
    assert part.continuation(prompt_only(tokens[:5], tokens[5:], scratch), n, ()) == before
    assert part.propose(prompt_only(tokens[:5], tokens[5:], scratch), n).items == before
    assert len(found) <= n
    whole = tokens + drafted
    if found:  # its first token stood in the text, behind a suffix of what goes before
        assert any(tokens[i - 1] == whole[-1] and tokens[i] == found[0] for i in range(1, len(tokens)))


def test_a_draft_that_stays_on_its_device_is_the_same(monkeypatch):
    """Where nobody looks at tokens a block goes on behind an end token; up to there it is the one of the host."""
    sharp = tiny_model(5, spread=0.1)
    contexts = [make_context({"prompt_ids": [seed % 4], "vocabulary": 5}, seed=seed) for seed in range(6)]
    looked = DraftModel(sharp).propose_many(contexts, [2, 5, 0, 3, 5, 4])
    monkeypatch.setattr("draftverify_tokens.draft_model._on_host", lambda tensor: False)
    fresh = [make_context(context.task, seed=seed) for seed, context in enumerate(contexts)]
    found = DraftModel(sharp).propose_many(fresh, [2, 5, 0, 3, 5, 4])
    assert [len(p) for p in found] == [2, 5, 0, 3, 5, 4]
    for one, other in zip(found, looked, strict=True):
        assert isinstance(one.items, torch.Tensor) or not len(one)
        assert [int(item) for item in one.items][: len(other)] == list(other.items)
        assert torch.allclose(one.law.q[: len(other)], other.law.q, atol=1e-5)


def grown(context: Context, proposal: Proposal) -> Context:
    """The next round, in which half of the block was kept and another token came."""
    values = [*context.accepted, *proposal.items[: len(proposal) // 2], 3]
    more = {"settings": context.settings, "scratch": context.scratch, "rounds": context.round + 1}
    return make_context(context.task, accepted=values, seed=len(values), **more)


def test_a_draft_model_with_fewer_positions_than_the_target_stops_at_them():
    """It drafts as far as it was made to read, and then nothing."""
    short = tiny_model(20, positions=6)
    for accepted, expected in (([], 4), ([1], 3), ([1, 2, 3, 4], 0), ([1, 2, 3, 4, 5], 0)):
        context = make_context({"prompt_ids": [1, 2], "vocabulary": 20, "positions": 99}, accepted=accepted)
        proposal = DraftModel(short).propose(context, 9)
        assert len(proposal) == expected or proposal.items[-1] == 19


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_k": 5, "frequency_penalty": 0.5}])
def test_scores_of_a_tree_are_the_models_after_each_path(settings):
    """`rows`: of each session after its context and after each item, padded to the target's vocabulary."""
    trees = [Proposal.tree((3, 4, 5, 3), (-1, 0, 0, -1)), Proposal.chain(()), Proposal.chain((7, 7))]
    prompts = [[1, 2], [3], [4, 5, 6]]
    contexts = [
        make_context({"prompt_ids": prompt, "vocabulary": 22}, settings=settings) for prompt in prompts
    ]
    q, raw_maxima = DraftModel(MODEL).rows(contexts, trees)
    assert q.shape == (5 + 1 + 3, 22)
    row = 0
    for prompt, tree in zip(prompts, trees, strict=True):
        for index in range(-1, len(tree)):
            path = [tree.items[i] for i in tree.path(index)]
            history = History(prompt, (), path, start=len(path))
            expected, largest = probabilities(rows(MODEL, prompt + path, 1), settings, [history])
            assert torch.allclose(q[row, :20], expected[0], atol=1e-5)
            assert not q[row, 20:].any()
            assert torch.allclose(raw_maxima[row], largest[0], atol=1e-5)
            row += 1


@pytest.mark.parametrize("part", [NoDraft(), PromptLookup(), DraftModel(tiny_model(20, layers=1))])
def test_the_conformance_kit_finds_nothing(part):
    """Declared law and shape, the same answer with empty scratch, and the rest of the kit's checks."""
    contexts = [
        context_of(MODEL, [1, 2, 3, 1, 2], accepted=accepted, seed=3) for accepted in ([], [3], [1, 2, 3])
    ]
    check_component(part, contexts=contexts, tolerance=1e-4, trials=200)


def test_sizes_that_no_ngram_has_are_refused_before_any_task():
    """At opening, not at the first draft."""
    with pytest.raises(ConfigError, match="at_least is 4 and ngram is 3"):
        PromptLookup(3, 4).open()
    with pytest.raises(ConfigError, match="at_least is 4 and ngram is 3"):
        DraftModel(MODEL, lookup=PromptLookup(3, 4)).open()
