"""SmolLM2 with its real weights: draft-verify decoding makes the tokens that transformers makes."""

from __future__ import annotations

import copy

import pytest
import torch

from draftverify import Pipeline, Tally, Task
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, NoDraft, PromptLookup, Stop, Target, stream_text

pytestmark = pytest.mark.weights

PROMPTS = [
    "Repeat this sentence word for word: The harbour office decided not to wait for the end of the season.",
    "Rename s to total:\n```python\ndef add(xs):\n    s = 0\n    for x in xs:\n        s = s + x\n    return s\n```",
    "My neighbour plays the trumpet every evening. What can I do?",
]
TOKENS = 12


@pytest.fixture(scope="module")
def target():
    """The model of the quickstart, downloaded and converted at first use."""
    model = LocalModel("smollm2-135m-instruct", dtype="float32")
    model.open()
    return model


@pytest.fixture(scope="module")
def draft(target):
    """The target without its last three layers: a drafter of its family that is often right and often wrong."""
    module = copy.deepcopy(target.model)
    module.model.layers = module.model.layers[:-3]
    module.config.num_hidden_layers -= 3
    return LocalModel.from_module(module, target.tokenizer)


@pytest.fixture(scope="module")
def expected(target):
    """transformers' greedy output for each prompt."""
    found = []
    for prompt in PROMPTS:
        ids = target.encode_prompt({"prompt": prompt})
        out = target.model.generate(torch.tensor([ids]), max_new_tokens=TOKENS, do_sample=False)
        found.append(out[0, len(ids) :].tolist())
    return found


def pipeline(target, generator, block):
    done = Stop(TOKENS)
    return Pipeline(
        generator, Target(target), Speculative(), block=block, done=done, settings={"temperature": 0}
    )


@pytest.mark.parametrize(
    "drafter", ["none", "lookup", pytest.param("draft model", marks=pytest.mark.exhaustive)]
)
def test_greedy_output_is_that_of_transformers(target, draft, expected, drafter):
    """In float32, token for token; else the first divergence is named with its top-2 gap."""
    part = {"none": NoDraft(), "lookup": PromptLookup(), "draft model": DraftModel(draft)}[drafter]
    pipe = pipeline(target, part, {"none": 0, "lookup": 8, "draft model": 4}[drafter])
    tally = Tally()
    for prompt, tokens in zip(PROMPTS, expected, strict=True):
        outcome = pipe.run(prompt)
        why = Target(target).explain(
            Task(id="a", input={"prompt": prompt}), tokens, outcome.value, {"temperature": 0}
        )
        assert list(outcome.value) == tokens, why
        tally = Tally.total([tally, outcome.tally])
    assert (tally.trials > tally.accepted > 0) == (drafter != "none")


def test_a_stream_is_the_answer(target):
    """Text comes piece by piece and is the run's."""
    pipe = pipeline(target, PromptLookup(), 8)
    pieces = list(stream_text(pipe, PROMPTS[0]))
    assert "".join(pieces) == target.decode(pipe.run(PROMPTS[0]).value)
    assert len(pieces) > 1
