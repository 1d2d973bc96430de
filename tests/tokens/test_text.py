"""Text from tokens as they come: nothing lost, nothing twice, no half characters."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify_tokens import Detokeniser
from draftverify_tokens.text import pieces
from tests.tokens.texts import TEXTS, Counting
from tests.tokens.tiny import tiny_model

MODEL = tiny_model()


@given(st.lists(st.integers(0, 256), max_size=30))
def test_pieces_join_to_the_text_of_any_tokens(tokens):
    """Even where the bytes are no text at all."""
    assert "".join(pieces(MODEL, tokens)) == MODEL.decode(tokens)


@pytest.mark.parametrize("model", [TEXTS["bytes"], TEXTS["byte level"]], ids=["bytes", "byte level"])
@given(st.data())
def test_long_noise_joins_to_its_text_too(model, data):
    """Hundreds of tokens without an end of a character are shown before the end, and none is lost."""
    noise = st.lists(st.sampled_from(model.interesting), min_size=1, max_size=3)
    tokens = [
        token
        for part in data.draw(st.lists(noise, max_size=4))
        for token in part * data.draw(st.integers(1, 40))
    ]
    assert "".join(pieces(model, tokens)) == model.decode(tokens)


@given(st.lists(st.sampled_from(TEXTS["byte fallback"].interesting), max_size=25))
def test_bytes_for_rare_characters_join_to_the_text(tokens):
    """Wherever they are text; beside bytes that are none the characters made of bytes may differ, nothing else."""
    model = TEXTS["byte fallback"]
    shown, whole = "".join(pieces(model, tokens)), model.decode(tokens)
    if "\ufffd" in whole:
        shown, whole = (re.sub("[^ab ]", "", text) for text in (shown, whole))
    assert shown == whole


def test_a_token_s_letters_are_shown_though_it_ends_in_half_a_character():
    """Only the half character waits."""
    model = TEXTS["byte level"]
    detokeniser = Detokeniser(model)
    half = model.tokenizer.convert_tokens_to_ids("bÃ")
    assert model.decode([half]) == "b\ufffd"
    assert [detokeniser.push(token) for token in (half, 169)] == ["b", "é"]


@pytest.mark.parametrize("noise", [b"ab", "é€".encode(), b"\xff", b"\xe2\x82", [256], [97, 256]])
def test_a_token_costs_the_same_wherever_it_stands(noise):
    """Tokens decoded for each that comes, in thousands of letters, characters, bytes that are none, end tokens."""
    model = Counting(MODEL)
    detokeniser = Detokeniser(model)
    for token in [*noise] * 500:
        detokeniser.push(token)
    early, model.decoded = model.decoded, 0
    for token in [*noise] * 500:
        detokeniser.push(token)
    assert model.decoded <= 1.1 * early


@given(st.text(max_size=20))
def test_no_piece_holds_half_a_character(text):
    """Each piece of a proper text is whole characters, shown with the byte that completes them."""
    detokeniser = Detokeniser(MODEL)
    shown = ""
    for character in text:
        said = [detokeniser.push(byte) for byte in character.encode(errors="replace")]
        if character != "\ufffd":
            assert not any(said[:-1])
        shown += "".join(said)
    assert shown + detokeniser.flush() == text.encode(errors="replace").decode()


def test_a_character_that_never_ends_is_shown_at_the_end():
    """Flushing gives what was held back, once."""
    detokeniser = Detokeniser(MODEL)
    assert [detokeniser.push(token) for token in (97, 240, 159)] == ["a", "", ""]
    assert detokeniser.flush() == "\ufffd"
    assert detokeniser.flush() == ""


class Words:
    """A model whose tokenizer, like sentencepiece's, writes a space before a word, but not where a text starts."""

    def decode(self, ids):
        return "".join(f" {id}" for id in ids if id < 90)[1:]


@given(st.lists(st.integers(80, 99), max_size=20))
def test_spaces_between_pieces_are_kept(tokens):
    """A piece is what the token adds to the text before it; tokens without text (90 and above) add nothing."""
    assert "".join(pieces(Words(), tokens)) == Words().decode(tokens)


def test_tokens_without_text_cost_no_more_the_more_there_are():
    """They are not special tokens here, only without text."""

    class Counted(Words):
        decoded = 0

        def decode(self, ids):
            self.decoded += len(ids)
            return super().decode(ids)

    model = Counted()
    assert "".join(pieces(model, [80, *[95] * 1000, 81])) == "80 81"
    assert model.decoded < 10_000


@pytest.mark.parametrize("lead", range(4))
def test_noise_is_given_up_between_characters_alone(lead):
    """Half characters without end, wherever the oldest of them are cut off."""
    tokens = [255] * lead + [226, 130] * 30
    assert "".join(pieces(MODEL, tokens)) == MODEL.decode(tokens)
