"""Gathered `arun`s: every answer is that of `run`, with every drafter, and the tasks share their passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from draftverify import Outcome, Pipeline, Task, fallback
from draftverify.rules import BlockVerification, First, Speculative, Tree
from draftverify.stats.block import Measured
from draftverify_tokens import (
    Confidence,
    DraftModel,
    DraftTree,
    FirstOf,
    NoDraft,
    OtherTokenizer,
    PromptLookup,
    Stop,
    Suffix,
    Target,
    WholeAnswer,
)
from tests.tokens.tiny import tiny_model

MODEL = tiny_model(257, spread=0.5)
SMALL = tiny_model(257, seed=1, layers=1)
STOP = Stop(8, ignore_eos=True)
GREEDY: dict[str, Any] = {"temperature": 0}
DRAWN: dict[str, Any] = {"temperature": 0.8, "top_p": 0.9}
GRAMMAR = {"regex": "[a-f]{3}(-[0-9]{2}){1,3}"}
# 36 prompts of bytes, of unlike lengths, some of which repeat themselves.
PROMPTS = [[97 + (i * k) % (3 + i % 7) for k in range(1, 3 + i % 11)] for i in range(36)]


class Counted(Target):
    """Counts its passes."""

    passes = 0

    def verify_many(self, contexts: Any, proposals: Any) -> Any:
        self.passes += 1
        return super().verify_many(contexts, proposals)


TARGET = Counted(MODEL)


def speculative(generator: Any, block: Any, rule: Any = None, **more: Any) -> Callable[[dict], Pipeline]:
    def made(settings: dict[str, Any]) -> Pipeline:
        both = {**settings, **more}
        return Pipeline(generator, TARGET, rule or Speculative(), block=block, done=STOP, settings=both)

    return made


def cascade(settings: dict[str, Any]) -> Pipeline:
    policy = fallback(WholeAnswer(MODEL, STOP), verified=False)
    return Pipeline(
        WholeAnswer(SMALL, STOP), Confidence(SMALL, -4.0), First(), policy=policy, block=1, settings=settings
    )


WAYS: dict[str, Callable[[dict[str, Any]], Pipeline]] = {
    "none": speculative(NoDraft(), 0),
    "prompt_lookup": speculative(PromptLookup(at_least=1), 4),
    # Greedy alone: which tokens a number draws depends on where blocks begin, and the clock decides on that here.
    "measured": speculative(PromptLookup(at_least=1), Measured(at_most=4), temperature=0, top_p=1),
    "suffix": speculative(Suffix(), 4, BlockVerification()),
    "suffix tree": speculative(Suffix(tree=True), 6, Tree()),
    "draft_model": speculative(DraftModel(SMALL), 3),
    "guest": speculative(DraftModel(MODEL, own_cache=False, lookup=Suffix(), margin=0.2), 3),
    "draft_tree": speculative(DraftTree(DraftModel(SMALL)), 5, Tree()),
    "other_tokenizer": speculative(OtherTokenizer(SMALL, MODEL), 3),
    "first_of": speculative(FirstOf([PromptLookup(), DraftModel(MODEL, own_cache=False)]), 3),
    "grammar": speculative(DraftModel(SMALL), 3, **GRAMMAR),
    "cascade": cascade,
}


def task(number: int) -> Task:
    return Task(id=str(number), input={"prompt_ids": PROMPTS[number]})


@lru_cache
def pipelines(way: str) -> tuple[Pipeline, Pipeline]:
    """A greedy one and one that draws, on the same parts."""
    return WAYS[way](GREEDY), WAYS[way](DRAWN)


@lru_cache
def alone(way: str, number: int) -> Any:
    """What `run` gives for a prompt: every other one is drawn."""
    return pipelines(way)[number % 2].run(task(number)).unwrap()


async def wave(ways: list[str], numbers: range) -> list[Outcome]:
    """Tasks in the order of `numbers`, each in one of these ways, all at once."""
    chosen = [
        (pipelines(ways[at % len(ways)])[number % 2], task(number)) for at, number in enumerate(numbers)
    ]
    return list(await asyncio.gather(*[pipeline.arun(each) for pipeline, each in chosen]))


@pytest.mark.parametrize("start", [0, *(pytest.param(at, marks=pytest.mark.exhaustive) for at in (12, 24))])
@pytest.mark.parametrize("way", WAYS)
def test_of_every_drafter(way, start):
    """36 answers in three waves of twelve tasks, greedy and drawn ones side by side in the same passes."""
    numbers = range(start, start + 12)
    got = [outcome.unwrap() for outcome in asyncio.run(wave([way], numbers))]
    assert got == [alone(way, number) for number in numbers]


def test_of_unlike_pipelines_at_once():
    """Drafters of all kinds share one target's passes, and its cache."""
    ways, numbers = list(WAYS), range(2 * len(WAYS))
    got = [outcome.unwrap() for outcome in asyncio.run(wave(ways, numbers))]
    assert got == [alone(ways[number % len(ways)], number) for number in numbers]


def test_they_share_passes():
    """Twelve tasks of eight tokens make not many more passes than the eight of a batch; each round has its share."""
    TARGET.passes = 0
    pipeline = pipelines("none")[0]

    async def main() -> Any:
        return await asyncio.gather(*[pipeline.arecord(task(number)) for number in range(12)])

    records = asyncio.run(main())
    assert {len(record.outcome.value) for record in records} == {8}
    assert TARGET.passes <= 24  # of 96; a pass of this model is over before a thread has said so
    assert max(round.timing.batch for record in records for round in record.rounds) == 12
