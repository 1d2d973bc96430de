"""What a round costs on a device, counted on an emulated one: launches, captures, compilations, waits and copies.

The tokens are those of the plain path on the CPU: a number of the host's that a graph has frozen, a buffer that was
replaced under it, or a copy that was read too early would show in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from draftverify import Pipeline, Task
from draftverify.bench.runner.summarised import Summarised
from draftverify.kit import make_context
from draftverify.rules import Speculative
from draftverify.token_summary import read_summaries
from draftverify_llm import LocalModel
from draftverify_tokens import DraftModel, NoDraft, PromptLookup, Stop, Target
from tests.tokens.emulated import Counts, Emulation, warm
from tests.tokens.tiny import byte_tokenizer, shortened, tiny_llama

GAMMA, TOKENS, WIDTH = 4, 3, 24
DRAFTERS: dict[str, Callable[[LocalModel, LocalModel], Any]] = {
    "none": lambda target, small: NoDraft(),
    "lookup": lambda target, small: PromptLookup(at_least=1),
    "draft model": lambda target, small: DraftModel(small),
    "in the target's cache": lambda target, small: DraftModel(shortened(target, 1), own_cache=False),
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


LADDER = [(tokens, capacity) for capacity in (256, 512) for tokens in (1, 2, 4, 8, 16, 32, 64)]
LENGTHS = [1, 2, 3, 5, 8, 13, *np.linspace(15, 300, 14).astype(int).tolist()]


def warm_up(there: Pipeline, temperature: float) -> None:
    """Compile and capture what a session may need on its way to 512 places."""
    settings = make_context({"prompt_ids": [0]}, settings={"temperature": temperature})
    drafter = there.generator
    for part, draws in [
        (there.verifier, False),
        *([(drafter, True)] if isinstance(drafter, DraftModel) else []),
    ]:
        reader = part._reader
        tail = reader.tail([settings], WIDTH, draws=draws)
        for tokens, capacity in LADDER:
            warm(reader, 1, tokens, capacity, [tail])


def counted(
    drafter: str, temperature: float, first: list[int], then: list[int], *, batch: int = 1
) -> tuple[Counts, int]:
    """What some prompts cost after others, and their rounds; the tokens are the plain path's on a CPU, or of its
    likes where they are drawn."""
    work = tasks(then)
    cpu = pipeline(drafter if temperature else "none", temperature, models())
    expected = [each.unwrap() for each in cpu.run(work, size=10)]
    with Emulation() as device:
        made = models()
        for model in made:
            device.put(model.model)
        there = pipeline(drafter, temperature, made)
        if batch == 1:
            warm_up(there, temperature)
        for lengths in (first, then):
            device.reset()
            there.verifier.rounds = 0
            found = [each.unwrap() for each in there.run(tasks(lengths), size=batch)]
        assert found == expected
        return device.reset(), there.verifier.rounds


def swept(kept: set[tuple[str, float]]) -> list[Any]:
    return [
        pytest.param(
            drafter, temperature, marks=() if (drafter, temperature) in kept else pytest.mark.exhaustive
        )
        for drafter in DRAFTERS
        for temperature in (0, 0.8)
    ]


@pytest.mark.parametrize(("drafter", "temperature"), swept({("draft model", 0.8)}))
def test_prompts_of_different_length(drafter, temperature):
    """After a warm-up nothing is compiled or captured; a round waits once, and is a launch for each drafted token and
    one for the target. Prompts of more than 64 tokens are read without a graph, and their rounds have a launch less."""
    counts, rounds = counted(drafter, temperature, [5, 255], LENGTHS)
    assert (counts.compilations, counts.captures) == (0, 0)
    assert counts.waits == {"copy to the host": rounds}
    own = isinstance(DRAFTERS[drafter](*models()), DraftModel)
    assert rounds - len(LENGTHS) <= counts.launches <= rounds * (GAMMA + 1 if own else 1)
    assert counts.uploads["pinned"] <= rounds * (
        GAMMA + 3 if own else 2
    )  # of a pass each, of draws and of the rule
    assert not counts.uploads["pageable"]


@pytest.mark.parametrize(
    ("drafter", "temperature"),
    swept({("draft model", 0.8)}),
)
def test_a_batch_of_different_lengths(drafter, temperature):
    """Four at a time: a round waits once, and nothing is compiled after a warm-up of the same lengths."""
    lengths = [1, 20, 60, 100, 254, 300]
    counts, rounds = counted(drafter, temperature, lengths, lengths, batch=4)
    assert counts.compilations == 0
    assert counts.waits == {"copy to the host": rounds}
    assert not counts.uploads["pageable"]


def test_summaries_of_drafted_tokens_wait_for_nothing_more():
    """A batch's come to the host behind the rule's back, before its own transfer; they say what the host's say."""

    def summarised(device: Emulation | None = None) -> tuple[list[Any], int]:
        made = models()
        if device is not None:
            for model in made:
                device.put(model.model)
        there = Pipeline(
            DraftModel(made[1]), Counted(made[0]), Summarised(Speculative()), block=GAMMA,
            done=Stop(TOKENS, ignore_eos=True), settings={"temperature": 0.8}, seed=5,
        )  # fmt: skip
        there.open()
        if device is not None:
            device.reset()
        records = there.record(tasks([5, 20, 33]), size=3)
        found = [read_summaries(round.tokens) for record in records for round in record.rounds]
        assert [len(each) for each in found] == [len(r.items) for record in records for r in record.rounds]
        return [msgspec.to_builtins(each) for own in found for each in own], there.verifier.rounds

    expected, _ = summarised()
    with Emulation() as device:
        found, rounds = summarised(device)
        waits = device.counts.waits
    assert waits == {"copy to the host": rounds}
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert [token for token, _ in mine.pop("top")] == [token for token, _ in theirs.pop("top")]
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-5)
