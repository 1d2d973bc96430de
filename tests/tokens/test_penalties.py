"""Settings that depend on the tokens before a row: transformers' penalties, row by row along each drafted path, and
whole pipelines that emit what plain decoding emits under them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from draftverify import Pipeline, Task
from draftverify.rules import Speculative, Tree
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, DraftTree, NoDraft, PromptLookup, Stop, Target
from draftverify_tokens.history import History
from draftverify_tokens.penalties import LOOSE
from draftverify_tokens.sampling import probabilities
from tests.tokens.tiny import byte_tokenizer, rows, tiny_llama, tiny_model

VOCABULARY = 12
tokens = st.lists(st.integers(0, VOCABULARY - 1), max_size=8)
penalties = st.fixed_dictionaries(
    {},
    optional={
        "repetition_penalty": st.floats(0.3, 3),
        "frequency_penalty": st.floats(-2, 2),
        "presence_penalty": st.floats(-2, 2),
        "logit_bias": st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(-5, 5), max_size=3),
        "temperature": st.floats(0.3, 2),
        "top_k": st.integers(1, VOCABULARY),
    },
)


@st.composite
def trees(draw: Any) -> tuple[list[int], list[int]]:
    items = draw(tokens)
    return items, [draw(st.integers(-1, index - 1)) for index in range(len(items))]


def logits_of(seed: int, n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, (n, VOCABULARY)))


def by_hand(logits: torch.Tensor, settings: dict, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """One row [V], token by token: transformers' repetition penalty, OpenAI's other two, the bias, and the warpers."""
    from transformers import RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper

    scores = logits[None]
    if "repetition_penalty" in settings:
        ids = torch.tensor([[*prompt, *answer]])
        scores = RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"])(ids, scores)
    counted = Counter(answer)
    changed = [
        float(score)
        - settings.get("frequency_penalty", 0) * counted[token]
        - settings.get("presence_penalty", 0) * (token in counted)
        + settings.get("logit_bias", {}).get(token, 0)
        for token, score in enumerate(scores[0])
    ]
    scores = TemperatureLogitsWarper(settings.get("temperature", 1.0))(None, torch.tensor([changed]).double())
    return TopKLogitsWarper(settings.get("top_k", VOCABULARY))(None, scores).softmax(-1)[0]


@given(
    st.integers(0, 10**6),
    penalties,
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9),
    tokens,
    trees(),
)
def test_every_row_is_penalised_for_its_own_path(seed, settings, prompt, answer, tree):
    """Each row of a drafted tree is what transformers' processors make of the sequence that ends there."""
    history = History(prompt, answer, *tree)
    logits = logits_of(seed, len(history))
    before = logits.clone()
    probs, _ = probabilities(logits, settings, [history])
    for row, path in enumerate(history.paths()):
        expected = by_hand(logits[row], settings, prompt, [*answer, *path])
        assert torch.allclose(probs[row], expected, atol=1e-6)
    assert torch.equal(logits, before)


@given(
    st.integers(0, 10**6),
    penalties,
    st.lists(st.integers(0, VOCABULARY - 1), min_size=2 * LOOSE, max_size=3 * LOOSE),
    st.lists(st.tuples(st.integers(0, 3 * LOOSE), st.booleans(), st.integers(0, 4)), max_size=6),
)
def test_a_memo_is_only_a_cache(seed, settings, answer, visits):
    """Kept over a growing answer, thrown away, or left over from an answer that went otherwise: the same rows."""
    memo: dict = {}
    for n, keep, drafted in visits:
        if not keep:
            memo = {}
        logits = logits_of(seed + n, drafted + 1)
        accepted = answer[: n + 1] if n % 2 else answer[::-1][: n + 1]
        items = answer[n : n + drafted] + [0] * (drafted - len(answer[n : n + drafted]))
        remembered, _ = probabilities(logits, settings, [History([1, 2], accepted, items, memo=memo)])
        fresh, _ = probabilities(logits, settings, [History([1, 2], accepted, items)])
        assert torch.equal(remembered, fresh)


@given(
    st.integers(0, 10**6),
    penalties,
    st.lists(st.tuples(tokens, tokens, trees()), min_size=1, max_size=4),
    st.data(),
)
def test_a_batch_of_histories_is_each_alone(seed, settings, sessions, data):
    """Ragged blocks together, from any first row on, with drafted tokens in lists or tensors."""
    histories, alone = [], []
    for prompt, answer, (items, parents) in sessions:
        start = data.draw(st.integers(0, len(items)))
        as_tensor = data.draw(st.booleans())
        given_items: Any = torch.tensor(items, dtype=torch.int64) if as_tensor else items
        histories.append(History(prompt, answer, given_items, parents, start=start))
        whole = History(prompt, answer, items, parents)
        alone.append((whole, start))
    logits = [logits_of(seed + i, len(whole)) for i, (whole, _) in enumerate(alone)]
    together, _ = probabilities(
        torch.cat([part[start:] for part, (_, start) in zip(logits, alone, strict=True)]), settings, histories
    )
    singly = [
        probabilities(part, settings, [whole])[0][start:]
        for part, (whole, start) in zip(logits, alone, strict=True)
    ]
    assert torch.allclose(together, torch.cat(singly), atol=1e-12)


def test_a_draft_model_with_fewer_tokens_leaves_out_what_it_does_not_know():
    """The target's prompt and answer may hold tokens that the draft has no row for."""
    logits = logits_of(0, 1)
    settings = {"repetition_penalty": 1.5, "presence_penalty": 0.5, "logit_bias": {3: 1.0, 40: 1.0}}
    got, _ = probabilities(logits, settings, [History([3, 30], [4, 40], [50], start=1)])
    assert torch.allclose(
        got[0], by_hand(logits[0], {**settings, "logit_bias": {3: 1.0}}, [3], [4]), atol=1e-6
    )


def test_processors_get_each_row_s_own_path():
    """One row at a time, the sequence before it and the scores after penalties and bias; in the order given."""
    seen: list[tuple[list[int], list[float]]] = []

    def watch(ids: Any, scores: Any) -> Any:
        seen.append((ids[0].tolist(), scores[0].tolist()))
        scores[0, 0] = 7.0  # what is written in place is not seen by anybody else
        return scores

    def double(ids: Any, scores: Any) -> Any:
        return scores * 2

    logits = torch.zeros(3, 2)
    _, maxima = probabilities(
        logits,
        {"processors": [watch, double], "logit_bias": {1: 1.5}, "temperature": 0.1},
        [History([1], [0], [1, 0], [-1, -1])],
    )
    assert seen == [([1, 0], [0, 1.5]), ([1, 0, 1], [0, 1.5]), ([1, 0, 0], [0, 1.5])]
    # The raw maxima know the processors, and not the temperature.
    assert torch.allclose(maxima, torch.tensor([14.0, 3.0]).softmax(-1)[0].expand(3))
    probabilities(logits, {"processors": [watch]}, [History([1], [0], [1, 0])])
    assert not logits.any()


def test_transformers_processors_can_be_given():
    """Any LogitsProcessor, here one that forbids to repeat a pair of tokens."""
    from transformers import NoRepeatNGramLogitsProcessor

    probs, _ = probabilities(
        torch.zeros(2, 5), {"processors": [NoRepeatNGramLogitsProcessor(2)]}, [History([1, 2], [3, 1], [4])]
    )
    assert probs[0, 2] == 0
    assert torch.allclose(probs[1], torch.tensor(0.2))


# Whole pipelines. An answer of a random model repeats itself soon, so the penalties decide most of its tokens.

TARGET = tiny_model(24, seed=3, spread=0.4)
DRAFT = tiny_model(24, seed=3, spread=0.4, layers=1)


@pytest.mark.parametrize("prompt", [[1, 2, 3], [5], [7, 7, 7, 8, 7, 7], [0, 4, 9, 4, 0, 4]])
@pytest.mark.parametrize("penalty", [1.3, 0.8])
def test_greedy_output_is_that_of_transformers(prompt, penalty):
    """Plain, looked up and drafted, token for token."""
    ids = torch.tensor([prompt])
    out = TARGET.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=30,
        do_sample=False,
        repetition_penalty=penalty,
        eos_token_id=sorted(TARGET.eos_ids),
        pad_token_id=0,
    )
    expected = out[0, len(prompt) :].tolist()
    for generator in (NoDraft(), PromptLookup(at_least=1), DraftModel(DRAFT), DraftModel(TARGET)):
        for block in (1, 5):
            pipeline = Pipeline(
                generator,
                Target(TARGET),
                Speculative(),
                block=block,
                done=Stop(30),
                settings={"temperature": 0, "repetition_penalty": penalty},
            )
            assert list(pipeline.run({"prompt_ids": prompt}).value) == expected


def test_a_penalised_draft_of_the_target_itself_is_kept_whole():
    """p and q are penalised alike: the target as its own drafter has every token accepted."""
    pipeline = Pipeline(
        DraftModel(TARGET),
        Target(TARGET),
        Speculative(),
        block=6,
        done=Stop(40),
        settings={"temperature": 0, "repetition_penalty": 1.2, "frequency_penalty": 0.5},
    )
    tally = pipeline.run({"prompt_ids": [7, 7, 7, 8, 7, 7]}).tally
    assert tally.trials == tally.accepted > 10


# Sampled exactness: the joint distribution of three bytes under penalties and a grammar, against many tasks.

SMALL_TARGET = LocalModel.from_module(tiny_llama(257, seed=5, layers=1, spread=0.6), byte_tokenizer())
SMALL_DRAFT = LocalModel.from_module(tiny_llama(257, seed=6, layers=1, spread=0.4), byte_tokenizer())
SETTINGS = {
    "temperature": 5.0,
    "repetition_penalty": 1.4,
    "presence_penalty": 0.6,
    "frequency_penalty": -0.4,
    "regex": "(a|b|cc)*d?",
}
START, LENGTH = [*b"bcb"], 3


def joint() -> dict[tuple[int, ...], float]:
    """Every answer of at most three tokens and its probability, from the model's rows without cache or memo."""
    found: dict[tuple[int, ...], float] = {}
    open_answers: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(LENGTH):
        longer: dict[tuple[int, ...], float] = {}
        for answer, mass in open_answers.items():
            logits = rows(SMALL_TARGET, [*START, *answer], 1)
            row = probabilities(logits, SETTINGS, [History(START, answer)], model=SMALL_TARGET)[0][0].tolist()
            for token, p in enumerate(row):
                if p:
                    (found if token == 256 else longer)[(*answer, token)] = mass * p
        open_answers = longer
    return found | open_answers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("generator", "rule"),
    [
        (DraftModel(SMALL_DRAFT), Speculative()),
        pytest.param(PromptLookup(at_least=1), Speculative(), marks=pytest.mark.exhaustive),
        (DraftTree(DraftModel(SMALL_DRAFT), (2, 1), "without_replacement"), Tree()),
    ],
    ids=["model", "lookup", "tree"],
)
def test_sampled_output_has_the_constrained_joint_distribution(generator, rule):
    """The answers of 1,000 tasks against the enumeration; a right pipeline fails with probability 1e-6."""
    tasks = 1000
    pipeline = Pipeline(
        generator, Target(SMALL_TARGET), rule, block=3, done=Stop(LENGTH), settings=SETTINGS, seed=11
    )
    counts: Counter[tuple[int, ...]] = Counter()
    for first in range(0, tasks, 100):
        batch = [Task(id=str(i), input={"prompt_ids": START}) for i in range(first, first + 100)]
        counts.update(tuple(outcome.value) for outcome in pipeline.run(batch))
    expected = joint()
    assert math.isclose(sum(expected.values()), 1, abs_tol=1e-5)
    assert counts.keys() <= expected.keys()
    often = {answer for answer, p in expected.items() if tasks * p >= 5}
    cells = [(counts[answer], tasks * expected[answer]) for answer in often]
    cells.append((tasks - sum(count for count, _ in cells), tasks - sum(mean for _, mean in cells)))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells if mean > 0)
    assert statistic < chi2.isf(1e-6, len(cells) - 1)
