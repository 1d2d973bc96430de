"""Greedy output is transformers' own, token for token: every drafter, chain and tree, in batches of 1, 3 and 8."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from draftverify import Pipeline, Task
from draftverify.calibration import Measured
from draftverify.rules import BlockVerification, GreedyMatch, Speculative, Tree
from draftverify_llm import LocalModel
from draftverify_tokens import (
    DraftModel,
    DraftTree,
    EarlyExit,
    FirstOf,
    NoDraft,
    OtherTokenizer,
    PromptLookup,
    Stop,
    Suffix,
    Target,
)
from tests.tokens.tiny import FAMILIES, byte_tokenizer, tiny_of

SPEC_BENCH = Path(__file__).parents[3] / "shared" / "data" / "spec_bench" / "question.jsonl"
EXAMPLES = Path(__file__).parents[2] / "examples" / "prompts.jsonl"

# A drafter, a rule that takes its law, and the block.
WAYS: dict[str, Callable[[LocalModel], tuple[Any, Any, Any]]] = {
    "plain": lambda model: (NoDraft(), Speculative(), 0),
    "lookup": lambda model: (PromptLookup(at_least=1), Speculative(), 8),
    "suffix": lambda model: (Suffix(), BlockVerification(), 8),
    "suffix tree": lambda model: (Suffix(tree=True), Tree(), 12),
    "early exit": lambda model: (EarlyExit(model, _exit(model)), Speculative(), 4),
    "measured": lambda model: (PromptLookup(), GreedyMatch(), Measured(at_most=8)),
    "likeliest tree": lambda model: (DraftTree(EarlyExit(model, _exit(model))), Tree(), 8),
    "lookup, else early exit": lambda model: (
        FirstOf([PromptLookup(), EarlyExit(model, _exit(model))]),
        Speculative(),
        5,
    ),
    "early exit, guessing": lambda model: (
        EarlyExit(model, _exit(model), own_cache=False, lookup=Suffix()),
        Speculative(),
        6,
    ),
    "early exit, where sure": lambda model: (
        EarlyExit(model, _exit(model), own_cache=False, lookup=Suffix(), margin=0.3),
        Speculative(),
        8,
    ),
    "itself": lambda model: (DraftModel(model), Speculative(), 3),
}


def _exit(model: LocalModel) -> int:
    return max(1, int(model.model.config.get_text_config().num_hidden_layers * 0.6))


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
    return pipeline.run_batch(tasks, size=batch) if batch > 1 else [pipeline.run(task) for task in tasks]


@pytest.fixture(scope="module", params=FAMILIES)
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


@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("way", WAYS)
def test_on_a_random_model_of_each_family(tiny, way, batch):
    """Sliding windows, several rotations and norms; sessions that end are replaced by waiting ones."""
    model, tasks, expected = tiny
    got = decode(model, way, tasks, 24, batch)
    assert [list(outcome.value or ()) for outcome in got] == expected


@pytest.fixture(scope="module")
def real() -> tuple[LocalModel, list[Task], list[list[int]]]:
    """SmolLM2 in float32 on eight prompts: of Spec-Bench where it is at hand, else the quickstart's."""
    model = LocalModel("smollm2-135m-instruct", dtype="float32")
    if SPEC_BENCH.exists():
        rows = [json.loads(line) for line in SPEC_BENCH.read_text().splitlines()]
        first = {row["category"]: row["turns"][0] for row in rows if len(row["turns"][0]) < 2500}
        texts = list(first.values())[:8]
    else:
        texts = [json.loads(line)["prompt"] for line in EXAMPLES.read_text().splitlines()][:8]
    tasks = [
        Task(id=str(i), input={"prompt_ids": model.encode_prompt({"prompt": text})})
        for i, text in enumerate(texts)
    ]
    return model, tasks, [generated(model, task.input["prompt_ids"], 24) for task in tasks]


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("way", WAYS)
def test_on_a_real_model(real, way, batch):
    """Token for token; a first divergence is named with its top-2 gap."""
    model, tasks, expected = real
    got = decode(model, way, tasks, 24, batch)
    for task, tokens, outcome in zip(tasks, expected, got, strict=True):
        assert list(outcome.value or ()) == tokens, Target(model).explain(
            task, tokens, outcome.value, {"temperature": 0}
        )


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_a_real_drafter_of_another_tokenizer(real, batch):
    """stories15M, of Llama's tokenizer, drafts for SmolLM2: token for token the same, and some of it is kept."""
    model, tasks, expected = real
    drafter = OtherTokenizer(LocalModel("stories15m", dtype="float32"), target=model)
    pipeline = Pipeline(
        drafter, Target(model), Speculative(), block=4, done=Stop(24), settings={"temperature": 0}
    )
    if batch > 1:
        got = pipeline.run_batch(tasks, size=batch)
    else:
        got = [pipeline.run(task) for task in tasks]
    for task, tokens, outcome in zip(tasks, expected, got, strict=True):
        assert list(outcome.value or ()) == tokens, Target(model).explain(
            task, tokens, outcome.value, {"temperature": 0}
        )
    assert sum(outcome.tally.trials for outcome in got) > 100
    assert sum(outcome.tally.accepted for outcome in got) > 0
