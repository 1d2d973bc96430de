"""Stopping: a block is cut where decoding one token at a time would have stopped."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError, Pipeline
from draftverify.kit import make_context
from draftverify.rules import Speculative
from draftverify_tokens import NoDraft, PromptLookup, Stop, Target
from tests.tokens.texts import TEXTS, Counting
from tests.tokens.tiny import tiny_model

MODEL = tiny_model()
blocks = st.lists(
    st.lists(st.sampled_from([*b"ab", 195, 169, 256]), min_size=1, max_size=6), min_size=1, max_size=8
)


def answer(stop: Stop, blocks: list[list[int]], *, forget: bool = False) -> tuple[list[int], bool]:
    """What is accepted of the blocks, and whether the rule stopped it; it may forget everything after every round."""
    accepted: list[int] = []
    scratch: dict = {}
    for block in blocks:
        if forget:
            scratch = {}
        context = make_context(
            {"prompt_ids": [*b"ab"], "eos_ids": [256]}, accepted=[*accepted, *block], scratch=scratch
        )
        keep = stop(context, tuple(block))
        if keep is not None:
            return accepted + block[:keep], True
        accepted += block
    return accepted, False


@given(
    blocks,
    st.integers(1, 30),
    st.lists(st.sampled_from(["ab", "ba", "é", "aéb", "bbb"]), max_size=2),
    st.booleans(),
)
def test_blocks_stop_where_single_tokens_stop(blocks, max_tokens, strings, ignore_eos):
    """End token, stop strings that straddle blocks and characters, and the limit, whichever comes first."""
    stop = Stop(max_tokens, tuple(strings), MODEL, ignore_eos)
    singly = answer(stop, [[token] for block in blocks for token in block])
    assert answer(stop, blocks) == singly
    assert answer(stop, blocks, forget=True) == singly


def test_a_block_that_just_reaches_the_limit_is_the_last():
    """No round is run for nothing."""
    context = make_context({"prompt_ids": [1]}, accepted=[1, 2, 3])
    assert [Stop(limit)(context, (2, 3)) for limit in (2, 3, 4)] == [1, 2, None]


def test_a_limit_beyond_the_positions_is_no_failure():
    """The answer ends where the model's positions do, of a prompt that fills them all after one token."""
    model = tiny_model(24, seed=3, positions=12)
    for generator in (NoDraft(), PromptLookup(at_least=1)):
        for prompt, length in (([1, 2, 3], 10), ([1] * 12, 1)):
            pipeline = Pipeline(
                generator,
                Target(model),
                Speculative(),
                done=Stop(100, ignore_eos=True),
                settings={"temperature": 0},
            )
            outcome = pipeline.run({"prompt_ids": prompt})
            assert (outcome.status, len(outcome.value)) == ("accepted", length)


def test_without_a_limit_an_answer_has_as_many_tokens_as_the_model_can_know():
    """The one after a text that fills all positions is the last; without known positions there is no limit."""
    for positions, kept in ((5, [1, 2, None]), (None, [None] * 3)):
        found = []
        for accepted in ([1] * 6, [1] * 5, [1] * 4):
            given = {"prompt_ids": [1], "positions": positions}
            found.append(Stop()(make_context(given, accepted=accepted), (1, 1)))
        assert found == kept


@pytest.mark.parametrize("model", TEXTS.values(), ids=TEXTS.keys())
@given(st.data())
def test_strings_are_found_as_by_looking_at_the_whole_text(model, data):
    """The slow way: after each token, is a string in the text of all tokens, less what is no character yet? With
    tokens that hold several characters, half ones, and bytes that are no text; strings inside one token and across
    many; in blocks of any length."""
    tokens = data.draw(st.lists(st.sampled_from(model.interesting), max_size=25))
    strings = data.draw(
        st.lists(st.sampled_from(["ab", "b ", "é", " a", "é€", "bab", "€a"]), min_size=1, max_size=2)
    )
    ends = [n for n in range(1, len(tokens) + 1) if any(s in model.certain(tokens[:n]) for s in strings)]
    expected = (tokens[: ends[0]], True) if ends else (tokens, False)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(tokens)))) | {0, len(tokens)})
    parts = [tokens[a:b] for a, b in itertools.pairwise(cuts)]
    stop = Stop(99, tuple(strings), model, ignore_eos=True)
    assert answer(stop, parts, forget=data.draw(st.booleans())) == expected


@given(st.lists(st.lists(st.sampled_from([*b"a", 195, 169, 255]), min_size=1, max_size=5), max_size=6))
def test_a_replacement_character_ends_in_blocks_where_it_ends_singly(blocks):
    """A stop string that decoders write for half a character: it counts when nothing can complete it any more."""
    stop = Stop(99, ("\ufffd",), MODEL)
    singly = answer(stop, [[token] for block in blocks for token in block])
    assert answer(stop, blocks) == singly
    assert answer(stop, [[97, 195], [169, 97]]) == ([97, 195, 169, 97], False)
    assert answer(stop, [[97, 195], [97, 97]]) == ([97, 195, 97], True)


@pytest.mark.parametrize("noise", [b"ab", "é€".encode(), b"\xff", b"\xe2\x82", [256]])
def test_a_round_costs_the_same_however_long_the_answer_is(noise):
    """Tokens decoded per token of the answer: text, characters of several bytes, bytes that are none, end tokens
    without end. Looking at the whole answer each time would be 500 at the end."""
    model = Counting(MODEL)
    stop = Stop(10**6, ("never",), model, ignore_eos=True)
    assert answer(stop, [[*noise] * 2] * 50) == ([*noise] * 100, False)
    model.decoded = 0
    accepted = [*noise] * 1000
    scratch: dict = {}
    for n in range(0, len(accepted), 4):
        context = make_context({"prompt_ids": [1]}, accepted=accepted[: n + 4], scratch=scratch)
        stop(context, tuple(accepted[n : n + 4]))
    assert model.decoded / len(accepted) < 60


def test_the_last_token_is_kept():
    """The end token, or the token that completes a stop string, belongs to the answer."""
    assert answer(Stop(9), [[97, 256, 98]]) == ([97, 256], True)
    assert answer(Stop(9, ("ba",), MODEL), [[97, 98], [97, 98]]) == ([97, 98, 97], True)
    assert answer(Stop(9, ignore_eos=True), [[97, 256, 98]]) == ([97, 256, 98], False)
    assert answer(Stop(3), [[97, 98], [97, 98]]) == ([97, 98, 97], True)


def test_the_prompt_holds_no_stop_string():
    """A string that began in the prompt, or stands in it, does not end the answer."""
    assert answer(Stop(9, ("aba",), MODEL), [[97], [98]]) == ([97, 98], False)


def test_what_was_searched_is_only_a_cache():
    """A search left over from a shorter answer is not gone on with; a string that was there before ends nothing now."""
    stop, scratch = Stop(9, ("ba", "aaaa"), MODEL), {}
    for accepted, keep in (([97], None), ([98, 98, 97], 1), ([98, 97, 98], None)):
        context = make_context({"prompt_ids": [1]}, accepted=accepted, scratch=scratch)
        assert stop(context, tuple(accepted[-1:])) == keep


@pytest.mark.parametrize(
    ("strings", "model", "said"),
    [
        (("x",), None, "needs `model`"),
        (("",), MODEL, "an empty text would end every answer"),
        ("ab", MODEL, "a list of texts is needed"),
    ],
)
def test_strings_that_cannot_be_found_are_refused_before_anything_runs(strings, model, said):
    """Without a model there is no text; the empty string is everywhere; one text is no list."""
    with pytest.raises(ConfigError, match=said):
        Stop(9, strings, model)
