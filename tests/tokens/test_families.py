"""Decoder-only families of transformers, tiny and random: each is decoded exactly, or refused by name with the reason.

The default run has those with a way of their own: a bias or a window by place, a running state, a threshold. The sweep
(`-m exhaustive`) has all. The table of docs/tokens.md says what they must show; `python -m tests.tokens.test_families`
prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from draftverify import ConfigError, Pipeline, Proposal, Task
from draftverify.rules import Speculative, Tree
from draftverify.traits import GeneratorTraits
from draftverify_llm import LocalModel
from draftverify_tokens import Stop, Target
from draftverify_tokens.models import positions_of
from tests.tokens.families import MODELS, NOT_BUILT, POSITIONS, VOCABULARY, module_of
from tests.tokens.tiny import byte_tokenizer

EVERY_DAY = (
    "bloom",
    "falcon with ALiBi",
    "gemma3n",
    "gpt_neo",
    "jamba",
    "llama4",
    "mpt",
    "phi3, longrope",
    "qwen3_next",
    "rwkv",
)
PROMPTS = ([3, 5, 7, 5, 3], [11] * 9, [i % 30 + 2 for i in range(18)])
"""The longest is read on to the last position, beside shorter ones whose padding goes beyond it."""

others = pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=() if name in EVERY_DAY else pytest.mark.exhaustive, id=name)
        for name in MODELS
    ],
)


@lru_cache(4)
def model_of(family: str) -> LocalModel:
    return LocalModel.from_module(module_of(family), byte_tokenizer())


def greedy(module: Any, prompt: Sequence[int], tokens: int) -> list[int]:
    """The oracle: the likeliest token after the other, each text read anew without a cache."""
    path = list(prompt)
    with torch.inference_mode():
        for _ in range(tokens):
            path.append(int(module(input_ids=torch.tensor([path]), use_cache=False).logits[0, -1].argmax()))
    return path[len(prompt) :]


class Knowing:
    """A drafter of somebody else's: the right tokens, which it was told, with wrong ones around them."""

    def __init__(self, shape: str, answers: dict[str, list[int]]) -> None:
        self.shape = shape
        self.traits = GeneratorTraits(shape=shape)
        self.answers = answers

    def propose(self, context: Any, n: int) -> Proposal:
        positions, prompt = context.task.input["positions"], context.task.input["prompt_ids"]
        n = min(n, positions - len(prompt) - len(context.accepted))
        right = self.answers[context.task.id][len(context.accepted) :]
        wrong = [(token + 1 + index) % (VOCABULARY - 1) for index, token in enumerate(right * 2)]
        if self.shape == "chain":
            block = [*right[: len(context.accepted) % 3 + 1], *wrong][:n]  # right at first
            return Proposal.chain(tuple(block))
        items: list[int] = []
        parents: list[int] = []
        end = -1
        for level, token in enumerate(right[:2]):
            items += [wrong[level], wrong[level + 1], token]
            parents += [end] * 3
            end = len(items) - 1
        items, parents = items[:n], parents[:n]
        return Proposal.tree(items, parents) if items else Proposal.chain(())


@others
def test_a_family_is_exact_or_refused(family):
    """Chains alone and in a batch of three, and trees, give the module's own tokens; else an error at open."""
    words, positions = MODELS[family].refused, MODELS[family].positions
    model = model_of(family)
    if words is not None:
        with pytest.raises(ConfigError, match=words) as error:
            Target(model).open()
        assert type(model.model).__name__ in str(error.value)
        return
    assert positions_of(model.model)[0] in (positions, None)
    answers = {
        str(i): greedy(model.model, prompt, positions + 1 - len(prompt)) for i, prompt in enumerate(PROMPTS)
    }
    tasks = [Task(id=str(i), input={"prompt_ids": prompt}) for i, prompt in enumerate(PROMPTS)]
    for shape, rule, size in (("chain", Speculative(), 1), ("chain", Speculative(), 3), ("tree", Tree(), 3)):
        drafter = Knowing(shape, answers)
        if shape == "tree" and not MODELS[family].trees:
            with pytest.raises(ConfigError, match=r"drafts trees, which .* keeps a running state"):
                Pipeline(drafter, Target(model), rule).open()
            continue
        done = Stop(ignore_eos=True)  # at the last position
        pipeline = Pipeline(drafter, Target(model), rule, block=6, done=done, settings={"temperature": 0})
        with pipeline:
            outcomes = pipeline.run(tasks, size=size)
        for task, outcome in zip(tasks, outcomes, strict=True):
            assert list(outcome.unwrap()) == answers[task.id], (shape, size, task.id)
            assert outcome.rounds < len(answers[task.id]), "no drafted token was accepted"


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", [name for name, family in MODELS.items() if family.refused is None])
def test_generate_says_the_same(family):
    """transformers' own decoding with its own cache, to its end token, begins the oracle's answer."""
    module, prompt = model_of(family).model, PROMPTS[0]
    ids, tokens = torch.tensor([prompt]), MODELS[family].positions - len(prompt)
    made = module.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
    )
    got = made[0, len(prompt) :].tolist()
    assert got
    assert got == greedy(module, prompt, len(got))


def table() -> str:
    """What was tried and what came out, as docs/tokens.md has it."""
    found: dict[str, list[str]] = {}
    for name, family in MODELS.items():
        if family.refused is not None:
            found.setdefault(f"refused: “{family.refused}”", []).append(name)
        elif not family.trees:
            found.setdefault("exact, without trees: a running state", []).append(name)
        elif family.positions < POSITIONS:
            found.setdefault("exact, up to a length (below)", []).append(name)
        else:
            found.setdefault("exact", []).append(name)
    lines = [f"| {what} | {'; '.join(names)} |" for what, names in sorted(found.items())]
    lines += [f"| not tried: {why} | {name} |" for name, why in NOT_BUILT.items()]
    return "\n".join(["| chains, batches and trees | families |", "|---|---|", *lines])


def test_the_docs_have_the_table():
    """What the docs promise of a family is what its test here must show."""
    assert table() in (Path(__file__).parents[2] / "docs" / "tokens.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    print(table())
