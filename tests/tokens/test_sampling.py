"""Sampling settings: the distributions are transformers', and a setting that is not known is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import ConfigError, ContractError
from draftverify_tokens import probabilities, read_settings
from draftverify_tokens.history import History
from draftverify_tokens.sampling import check_settings
from tests.tokens.tiny import tiny_model

settings_given = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0.05, 3),
        "top_k": st.integers(1, 40) | st.integers(500, 1000),
        "top_p": st.floats(0.05, 1),
        "min_p": st.floats(0, 0.9),
    },
)


def logits_of(seed: int, vocabulary: int = 30, spread: float = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, spread, (3, vocabulary)))


@example(0, {"top_k": 900, "top_p": 0.95}, 1500, 0.1)
@given(st.integers(0, 10**6), settings_given, st.sampled_from([30, 1500]), st.sampled_from([0.1, 3.0]))
def test_distributions_are_those_of_transformers(seed, settings, vocabulary, spread):
    """The same rows come out as from the logits processors that transformers' generate puts in a row, whether the
    mass lies on few tokens or on many."""
    from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = logits_of(seed, vocabulary, spread)
    expected = TemperatureLogitsWarper(float(settings.get("temperature", 1.0)))(None, logits)
    if "top_k" in settings:
        expected = TopKLogitsWarper(settings["top_k"])(None, expected)
    if settings.get("top_p", 1.0) < 1:
        expected = TopPLogitsWarper(settings["top_p"])(None, expected)
    if "min_p" in settings:
        expected = MinPLogitsWarper(settings["min_p"])(None, expected)
    got, _ = probabilities(logits, settings)
    assert torch.allclose(got, expected.softmax(-1), atol=1e-12)


@given(st.integers(0, 10**6), settings_given)
def test_a_row_does_not_depend_on_its_neighbours(seed, settings):
    """A row in a block is the row alone, so a draft's q and the target's p are made alike."""
    logits = logits_of(seed)
    together, maxima = probabilities(logits, settings)
    for i in range(len(logits)):
        alone, maximum = probabilities(logits[i : i + 1], settings)
        assert torch.allclose(together[i : i + 1], alone, atol=1e-14)
        assert torch.allclose(maxima[i : i + 1], maximum, atol=1e-14)


def test_temperature_zero_is_the_likeliest_token():
    """One-hot rows; of equal logits the lowest id."""
    probs, _ = probabilities(
        torch.tensor([[1.0, 3.0, 3.0], [0.0, -1.0, -2.0]]), {"temperature": 0, "top_k": 2}
    )
    assert probs.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


@given(st.integers(0, 10**6), settings_given)
def test_raw_maxima_know_no_setting(seed, settings):
    """They are the largest probabilities at temperature 1 with no filter."""
    logits = logits_of(seed)
    _, maxima = probabilities(logits, settings)
    assert torch.allclose(maxima, logits.softmax(-1).amax(-1), atol=1e-12)


def test_ties_do_not_depend_on_the_order_of_sorting():
    """Tokens that tie with the last one kept are kept."""
    logits = torch.log(torch.tensor([[0.4, 0.2, 0.2, 0.2]]))
    for settings in ({"top_k": 2}, {"top_p": 0.5}):
        probs, _ = probabilities(logits, settings)
        assert torch.allclose(probs, torch.tensor([[0.4, 0.2, 0.2, 0.2]]))


def test_half_precision_is_computed_with_in_float32():
    """A bfloat16 row sums to 1 as exactly as a float32 one."""
    probs, _ = probabilities(torch.randn(2, 4000, dtype=torch.bfloat16), {})
    assert probs.dtype == torch.float32
    assert torch.allclose(probs.sum(-1), torch.ones(2), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1}, "temperature must be 0 or a number >= 1e-6, not -1"),
        ({"temperature": float("nan")}, "temperature must be"),
        ({"temperature": "0"}, "temperature must be 0 or a number >= 1e-6, not '0'"),
        ({"temperature": True}, "temperature must be 0 or a number >= 1e-6, not True"),
        ({"top_k": 0}, "top_k must be a whole number >= 1"),
        ({"top_k": 2.5}, "top_k must be a whole number"),
        ({"top_p": 0}, r"top_p must be a number in \(0, 1\]"),
        ({"min_p": 1.5}, r"min_p must be a number in \[0, 1\]"),
        ({"repetition_penalty": 0}, "repetition_penalty must be a number > 0, not 0"),
        ({"presence_penalty": 2.5}, "presence_penalty must be a number from -2 to 2"),
        ({"frequency_penalty": None}, "frequency_penalty must be a number from -2 to 2, not None"),
        ({"temperature": 1e-30}, "temperature must be 0 or a number >= 1e-6, not 1e-30"),
        ({"temperature": 1e300}, "temperature must be 0 or a number >= 1e-6"),
        ({"logit_bias": [1, 2]}, "logit_bias must be a mapping of token ids to numbers of at most 1e30"),
        ({"logit_bias": {5: 1e300}}, "logit_bias must be a mapping of token ids to numbers of at most 1e30"),
        (
            {"logit_bias": {5: 10**400}},
            "logit_bias must be a mapping of token ids to numbers of at most 1e30",
        ),
        ({"logit_bias": {"seven": 1}}, "logit_bias must be a mapping"),
        ({"logit_bias": {7: float("inf")}}, "logit_bias must be a mapping"),
        ({"processors": "none"}, "processors must be a list of callables"),
        ({"processors": [1]}, "processors must be a list of callables"),
    ],
)
def test_a_bad_setting_is_refused(settings, message):
    """A setting that would be ignored, or makes no distribution, is an error that names it."""
    for check in (check_settings, read_settings, lambda bad: probabilities(logits_of(0), bad)):
        with pytest.raises(ConfigError, match=message) as error:
            check(settings)
        assert error.value.path.startswith("settings.")


def test_settings_of_other_parts_are_left_to_them():
    """A setting that decoding does not know changes nothing; the pipeline refuses one that nobody reads."""
    assert read_settings({"length": 9, "temperature": 0.5}) == read_settings({"temperature": 0.5})


def test_a_bias_for_a_token_that_is_not_there_is_refused():
    """Once the model is known; before, only that it is a token id at all."""
    settings = {"logit_bias": {256: 1.0, 257: -1.0}}
    check_settings(settings)
    with pytest.raises(
        ConfigError, match=r"settings\.logit_bias: .* token 257; the model's tokens go from 0 to 256"
    ):
        check_settings(settings, tiny_model())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_refused(value):
    """A model that overflowed does not get its tokens drawn from nonsense."""
    logits = logits_of(0)
    logits[1, 2] = value
    with pytest.raises(ContractError, match="not finite"):
        probabilities(logits, {"temperature": 0})


def no_path(ids, scores):
    return scores


def answer_of(settings, histories, rows):
    logits = torch.empty(rows, 600, device="meta")
    return probabilities(logits, settings, histories, model=tiny_model())


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.01},
        {"top_p": 0.5},
        {
            "repetition_penalty": 1.2,
            "presence_penalty": 0.5,
            "frequency_penalty": 0.5,
            "logit_bias": {3: 1.0},
        },
        {"processors": [no_path], "json_schema": {"type": "string"}, "temperature": 0},
    ],
)
def test_no_setting_waits_for_a_device(settings):
    """On torch's meta device, whose numbers nobody can ask for, everything is computed but the numbers; drafted tokens
    may lie there too, as long as no grammar or processor has to see them."""
    device = "cpu" if "processors" in settings else "meta"
    block = torch.zeros(3, dtype=torch.int64, device=device)
    probs, maxima = answer_of(settings, [History([1], [*b'"a'], block), History([1], [])], 5)
    assert probs.device.type == "meta"
    assert (probs.shape, maxima.shape) == ((5, 600), (5,))


@pytest.mark.parametrize("settings", [{"repetition_penalty": 1.1}, {"processors": [no_path]}, {"regex": "a"}])
def test_every_row_needs_its_history(settings):
    """Without it a penalty would silently be left out."""
    name = next(iter(settings))
    for histories in ((), [History([1], [], [2])]):
        with pytest.raises(ContractError, match=rf"3 rows of logits came with .*settings\.{name} depends on"):
            probabilities(logits_of(0), settings, histories)


def test_a_grammar_needs_the_model():
    """Its tokenizer says what the tokens are."""
    with pytest.raises(ContractError, match=r"needs `model` under settings\.regex"):
        probabilities(logits_of(0), {"regex": "a"}, [History([1], [], [2, 3])])


def test_a_processor_of_another_shape_is_named():
    """What it returned, and what was needed."""

    def loses_a_dimension(ids, scores):
        return scores[0]

    with pytest.raises(
        ContractError, match=r"processor loses_a_dimension returned .*\[30\].*\(1, 30\) are needed"
    ):
        probabilities(logits_of(0), {"processors": [loses_a_dimension]}, [History([1], [], [2, 3])])


def test_a_processor_may_return_one_buffer_each_time_or_another_type():
    """Rows of a block are what plain decoding makes of them one by one."""
    buffer = torch.empty(1, 8)

    def encourage_the_next(ids, scores):
        buffer.copy_(scores)
        buffer[0, int(ids[0, -1]) + 1] += 5
        return buffer if ids.shape[1] % 2 else buffer.half()

    rows, _ = probabilities(
        torch.zeros(3, 8), {"processors": [encourage_the_next]}, [History([1], [2], [3, 5])]
    )
    assert rows.argmax(-1).tolist() == [3, 4, 6]
    assert rows.dtype == torch.float32


def test_biases_from_a_config_file_are_read():
    """The keys of a file's mapping are texts; they mean the same token ids."""
    assert read_settings({"logit_bias": {"7": 1, "12": -2.5}}) == read_settings(
        {"logit_bias": {7: 1, 12: -2.5}}
    )
