"""Gathered tasks beside a batch and beside one task after the other: answers, passes and tokens per second.

    python -m benchmarks.gathered --data ../shared/data/spec_bench/question.jsonl [--categories summarization rag qa]
        [--tasks 12] [--tokens 48] [--repeats 5] [--ways plain lookup] [--out benchmarks/results/gathered.json]

One set of weights in float32, greedy. A set is the first prompts of a category, `--tasks` of them; three sets of twelve
are 36 answers. Each is decoded three ways on the same pipeline: one by one (`run`), as a batch, and as
that many tasks of one event loop (`asyncio.gather` of `arun`). The ways take turns within a repeat, and their order
turns round from one set to the next (ABBA), so that a machine whose speed changes within minutes changes it for all.

Figures, per pipeline: how many answers are those of one by one (all have to be); passes of the target; tokens per
second; and the ratio of gathered to batch and to one by one, per repeat over all sets: geometric mean with a 95 %
interval (Student's t on the logs).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from benchmarks.tokens import interval, prompts
from draftverify import Context, Pipeline, Proposal, Task, Verification
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import NoDraft, PromptLookup, Stop, Target

WAYS = ("one by one", "batch", "gathered")


class Counted(Target):
    """Counts its passes."""

    passes = 0

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        self.passes += 1
        return super().verify_many(contexts, proposals)


def decode(pipeline: Pipeline, way: str, tasks: list[Task]) -> list[tuple[int, ...]]:
    """The tokens of each task."""

    async def gathered() -> list[Any]:
        return list(await asyncio.gather(*map(pipeline.arun, tasks)))

    if way == "gathered":
        outcomes = asyncio.run(gathered())
    else:
        outcomes = pipeline.run(tasks) if way == "batch" else [pipeline.run(task) for task in tasks]
    return [tuple(outcome.unwrap()) for outcome in outcomes]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="question.jsonl of Spec-Bench")
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument("--categories", nargs="+", default=["summarization", "rag", "qa"])
    parser.add_argument("--tasks", type=int, default=12, help="per category, gathered at once")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--block", type=int, default=4)
    parser.add_argument("--ways", nargs="+", default=["plain", "lookup"], choices=["plain", "lookup"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gathered.json"))
    options = parser.parse_args()

    import torch

    model = LocalModel(options.weights, dtype="float32")
    model.open()
    target, stop = Counted(model), Stop(max_tokens=options.tokens)
    made: dict[str, Callable[[], Pipeline]] = {
        "plain": lambda: Pipeline(
            NoDraft(), target, Speculative(), block=0, done=stop, settings={"temperature": 0}
        ),
        "lookup": lambda: Pipeline(
            PromptLookup(), target, Speculative(), block=options.block, done=stop, settings={"temperature": 0}
        ),
    }
    sets = [
        prompts(options.data, [category], options.tasks, model.model.config.vocab_size)
        for category in options.categories
    ]
    figures: dict[str, Any] = {
        "tasks": options.tasks, "sets": options.categories, "tokens": options.tokens, "repeats": options.repeats,
        "block": options.block, "dtype": "float32", "threads": torch.get_num_threads(), "pipelines": {},
    }  # fmt: skip
    for name in options.ways:
        pipeline = made[name]()
        for way in WAYS:  # loads and allocates
            decode(pipeline, way, sets[0][:2])
        right, answers = dict.fromkeys(WAYS, 0), 0
        passes = dict.fromkeys(WAYS, 0)
        speed: dict[str, list[float]] = {way: [] for way in WAYS}
        for repeat in range(options.repeats):
            seconds, tokens = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0)
            for at, tasks in enumerate(sets):
                found: dict[str, list[tuple[int, ...]]] = {}
                for way in WAYS if (repeat + at) % 2 == 0 else WAYS[::-1]:
                    target.passes, start = 0, perf_counter()
                    found[way] = decode(pipeline, way, tasks)
                    seconds[way] += perf_counter() - start
                    tokens[way] += sum(map(len, found[way]))
                    passes[way] += target.passes
                answers += len(tasks)
                for way in WAYS:
                    right[way] += sum(a == b for a, b in zip(found[way], found["one by one"], strict=True))
            for way in WAYS:
                speed[way].append(tokens[way] / seconds[way])
            print(f"{name}: repeat {repeat + 1} of {options.repeats}", flush=True)
        table: dict[str, Any] = {"answers": answers}
        for way in WAYS:
            table[way] = {
                "right": right[way],
                "passes_per_repeat": passes[way] / options.repeats,
                "tokens_per_second": statistics.median(speed[way]),
            }
        for base in ("batch", "one by one"):
            table["gathered"][f"against {base}"] = interval(
                [a / b for a, b in zip(speed["gathered"], speed[base], strict=True)]
            )
        figures["pipelines"][name] = table
        for way in WAYS:
            row = table[way]
            print(
                f"{name}, {way:10s} {row['right']}/{answers} right, {row['passes_per_repeat']:6.0f} passes, "
                f"{row['tokens_per_second']:7.1f} tokens/s",
                *(f"{key} {value['ratio']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"
                  for key, value in row.items() if key.startswith("against")),
            )  # fmt: skip
    write(options.out, "benchmarks.gathered", figures)


if __name__ == "__main__":
    main()
