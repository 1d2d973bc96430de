"""Greedy output is transformers' own, token for token: every drafter, chain and tree, in batches of 1, 3 and 8.

The default run has every way with two of the six families on tiny models, at batch sizes in turn; test_smollm2.py has
two ways on a real model. The sweep (`-m exhaustive`) has every triple, and every way on a real model's long prompts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from draftverify import Pipeline, Task
from draftverify.rules import BlockVerification, GreedyMatch, Speculative, Tree
from draftverify.stats.block import Measured
from draftverify_llm import LocalModel
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
from tests.tokens.tiny import FAMILIES, byte_tokenizer, shortened, tiny_of

SPEC_BENCH = Path(__file__).parents[3] / "shared" / "data" / "spec_bench" / "question.jsonl"
EXAMPLES = Path(__file__).parents[2] / "examples" / "prompts.jsonl"
SHORT = [
    "Repeat word for word: The harbour office decided not to wait, and the harbour office was right.",
    "List in this order: 24 butter croissants, 6 rye loaves, 40 plain rolls.",
    "Continue: one two three one two three one two",
]
BATCHES = (1, 3, 8)

# A drafter, a rule that takes its law, and the block.
WAYS: dict[str, Callable[[LocalModel], tuple[Any, Any, Any]]] = {
    "plain": lambda model: (NoDraft(), Speculative(), 0),
    "lookup": lambda model: (PromptLookup(at_least=1), Speculative(), 8),
    "suffix": lambda model: (Suffix(), BlockVerification(), 8),
    "suffix tree": lambda model: (Suffix(tree=True), Tree(), 12),
    "first layers": lambda model: (DraftModel(_first(model)), Speculative(), 4),
    "measured": lambda model: (PromptLookup(), GreedyMatch(), Measured(at_most=8)),
    "likeliest tree": lambda model: (DraftTree(DraftModel(_first(model))), Tree(), 8),
    "lookup, else first layers": lambda model: (
        FirstOf([PromptLookup(), DraftModel(_first(model))]),
        Speculative(),
        5,
    ),
    "in the target's cache, guessing": lambda model: (
        DraftModel(_first(model), own_cache=False, lookup=Suffix()),
        Speculative(),
        6,
    ),
    "in the target's cache, where sure": lambda model: (
        DraftModel(_first(model), own_cache=False, lookup=Suffix(), margin=0.3),
        Speculative(),
        8,
    ),
    "itself": lambda model: (DraftModel(model), Speculative(), 3),
}


def _first(model: LocalModel) -> LocalModel:
    return shortened(model, max(1, int(model.model.config.get_text_config().num_hidden_layers * 0.6)))


def generated(model: LocalModel, prompt: list[int], tokens: int) -> list[int]:
    ids = torch.tensor([prompt])
    out = model.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
        eos_token_id=sorted(model.eos_ids), pad_token_id=0,
    )  # fmt: skip
    return out[0, len(prompt) :].tolist()


def decode(model: LocalModel, way: str, tasks: list[Task], tokens: int, batch: int) -> list[Any]:
    generator, rule, block = WAYS[way](model)
    settings = {"temperature": 0}
    pipeline = Pipeline(generator, Target(model), rule, block=block, done=Stop(tokens), settings=settings)
    return pipeline.run(tasks, size=batch) if batch > 1 else [pipeline.run(task) for task in tasks]


@pytest.fixture(scope="module")
def tiny(request: pytest.FixtureRequest) -> tuple[LocalModel, list[Task], list[list[int]]]:
    """A random model of each family, prompts of different lengths, and what transformers makes of them."""
    model = LocalModel.from_module(tiny_of(request.param, 24, seed=5, layers=3), byte_tokenizer())
    prompts = [
        [1, 2, 3],
        [5],
        [7, 7, 7, 8, 7, 7],
        [0, 4, 9, 4, 0, 4],
        [20, 19, 18],
        [6, 2, 6, 2],
        [3] * 9,
        [11, 12],
    ]
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
    return model, tasks, [generated(model, prompt, 24) for prompt in prompts]


def triples() -> list[Any]:
    """Each way with every third family, at batch sizes in turn; all triples are swept."""
    return [
        pytest.param(
            family,
            way,
            batch,
            marks=()
            if (i + j) % 3 == 0 and BATCHES[(i // 3 + j // 3) % 3] == batch
            else pytest.mark.exhaustive,
        )
        for i, family in enumerate(FAMILIES)
        for j, way in enumerate(WAYS)
        for batch in BATCHES
    ]


@pytest.mark.parametrize(("tiny", "way", "batch"), triples(), indirect=["tiny"])
def test_on_a_random_model_of_each_family(tiny, way, batch):
    """Sliding windows, several rotations and norms; sessions that end are replaced by waiting ones."""
    model, tasks, expected = tiny
    got = decode(model, way, tasks, 24, batch)
    assert [list(outcome.value or ()) for outcome in got] == expected


Real = tuple[LocalModel, list[Task], list[list[int]], int]


def asked(texts: list[str], tokens: int) -> Real:
    """SmolLM2 in float32, these prompts, and so many tokens of transformers' own for each."""
    model = LocalModel("smollm2-135m-instruct", dtype="float32")
    prompts = [model.encode_prompt({"prompt": text}) for text in texts]
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(prompts)]
    return model, tasks, [generated(model, prompt, tokens) for prompt in prompts], tokens


@pytest.fixture(scope="module")
def short() -> Real:
    """Prompts of some 40 tokens each."""
    return asked(SHORT, 12)


@pytest.fixture(scope="module")
def real() -> Real:
    """Eight prompts: of Spec-Bench where it is at hand, else the quickstart's."""
    if SPEC_BENCH.exists():
        rows = [json.loads(line) for line in SPEC_BENCH.read_text().splitlines()]
        first = {row["category"]: row["turns"][0] for row in rows if len(row["turns"][0]) < 2500}
        texts = list(first.values())[:8]
    else:
        texts = [json.loads(line)["prompt"] for line in EXAMPLES.read_text().splitlines()][:8]
    return asked(texts, 24)


def compare(case: Real, got: list[Any]) -> None:
    """A first divergence is named with its top-2 gap."""
    model, tasks, expected, _ = case
    for task, tokens, outcome in zip(tasks, expected, got, strict=True):
        assert list(outcome.value or ()) == tokens, Target(model).explain(
            task, tokens, outcome.value, {"temperature": 0}
        )


@pytest.mark.weights
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("way", "batch"),
    [("suffix tree", 3), ("in the target's cache, where sure", 3), ("suffix", 8), ("likeliest tree", 1)],
)
def test_on_a_real_model(short, way, batch):
    """Token for token, on short prompts."""
    model, tasks, _, tokens = short
    compare(short, decode(model, way, tasks, tokens, batch))


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("way", WAYS)
def test_on_a_real_model_s_long_prompts(real, way, batch):
    """Token for token, on all kinds of text."""
    model, tasks, _, tokens = real
    compare(real, decode(model, way, tasks, tokens, batch))


def drafted_by_another(case: Real, batch: int) -> int:
    """How many tokens of stories15M's, which has Llama's tokenizer, were kept; the output is token for token right."""
    model, tasks, _, tokens = case
    drafter = OtherTokenizer(LocalModel("stories15m", dtype="float32"), target=model)
    pipeline = Pipeline(
        drafter, Target(model), Speculative(), block=4, done=Stop(tokens), settings={"temperature": 0}
    )
    got = pipeline.run(tasks, size=batch) if batch > 1 else [pipeline.run(task) for task in tasks]
    compare(case, got)
    assert sum(outcome.tally.trials for outcome in got) > len(tasks) * tokens / 2
    return sum(outcome.tally.accepted for outcome in got)


@pytest.mark.weights
@pytest.mark.exhaustive
def test_a_real_drafter_of_another_tokenizer(short):
    """Some of what it drafts is kept."""
    assert drafted_by_another(short, 3) > 0


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", BATCHES)
def test_a_real_drafter_of_another_tokenizer_on_long_prompts(real, batch):
    """Alone and in batches."""
    assert drafted_by_another(real, batch) > 0
