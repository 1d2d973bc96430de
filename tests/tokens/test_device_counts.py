"""What a round costs on a device, counted on an emulated one: launches, captures, compilations, waits and copies.

The tokens are those of the plain path on the CPU: a number of the host's that a graph has frozen, a buffer that was
replaced under it, or a copy that was read too early would show in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from draftverify import Pipeline, Task
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, EarlyExit, NoDraft, PromptLookup, Stop, Target
from tests.tokens.emulated import Counts, Emulation
from tests.tokens.tiny import byte_tokenizer, tiny_llama

GAMMA, TOKENS, WIDTH = 4, 6, 24
DRAFTERS: dict[str, Callable[[LocalModel, LocalModel], Any]] = {
    "none": lambda target, small: NoDraft(),
    "lookup": lambda target, small: PromptLookup(at_least=1),
    "draft model": lambda target, small: DraftModel(small),
    "early exit": lambda target, small: EarlyExit(target, 1),
    "early exit, no cache": lambda target, small: EarlyExit(target, 1, own_cache=False),
}


class Counted(Target):
    """A target that counts its passes: a round each."""

    rounds = 0

    def verify_many(self, contexts: Any, proposals: Any) -> Any:
        self.rounds += 1
        return super().verify_many(contexts, proposals)


def models() -> list[LocalModel]:
    """A target of two layers and a draft model of one, that end nothing by themselves: a device drafts on behind an end
    token and a CPU does not, so that sampled blocks would differ."""
    made = []
    for layers in (2, 1):
        module = tiny_llama(WIDTH, seed=3, spread=0.4, layers=layers, positions=1024)
        module.generation_config.eos_token_id = module.config.eos_token_id = None
        made.append(LocalModel.from_module(module, byte_tokenizer()))
    return made


def pipeline(drafter: str, temperature: float, made: list[LocalModel]) -> Pipeline:
    return Pipeline(
        DRAFTERS[drafter](*made), Counted(made[0]), Speculative(), block=0 if drafter == "none" else GAMMA,
        done=Stop(TOKENS, ignore_eos=True), settings={"temperature": temperature}, seed=5,
    )  # fmt: skip


def tasks(lengths: list[int]) -> list[Task]:
    draws = np.random.default_rng(0)
    return [
        Task(id=str(i), input={"prompt_ids": draws.integers(0, WIDTH - 1, length).tolist()})
        for i, length in enumerate(lengths)
    ]


LENGTHS = [1, 2, 3, 5, 9, 17, 33, 64, 65, 250, 256, 300]
MANY = sorted({*LENGTHS, *np.linspace(1, 300, 45).astype(int).tolist()})[:50]


@pytest.fixture(scope="module")
def device() -> Iterator[Emulation]:
    with Emulation() as emulation:
        yield emulation


def counted(
    device: Emulation, drafter: str, temperature: float, batch: int, lengths: list[int]
) -> tuple[Counts, int]:
    """What the second run over some prompts costs, whose tokens are the CPU's, and its rounds."""
    work = tasks(lengths)
    plain = pipeline(drafter, temperature, models())
    expected = [plain.run(task).unwrap() for task in work]
    made = models()
    for model in made:
        device.put(model.model)
    there = pipeline(drafter, temperature, made)
    for _ in range(2):
        device.reset()
        there.verifier.rounds = 0
        assert [each.unwrap() for each in there.run_batch(work, size=batch)] == expected
    return device.reset(), there.verifier.rounds
