"""The cache of token decoding: rows of very different lengths in one batch, and prompts that begin alike.

    python -m benchmarks.tokens_cache [--weights smollm2-135m-instruct] [--dtype bfloat16] [--longest 4000] [--block 4]
        [--repeats 15] [--out benchmarks/results/tokens_cache.json]
    python -m benchmarks.tokens_cache --rehearse      # a tiny random model and short rows; nothing is written

Two kinds of sixteen rows: spread from 100 tokens to the longest in even steps, and fifteen of 100 beside one of the
longest. Each beside sixteen even rows of the same sum:

- held: bytes of the buffers over the bytes that the tokens need;
- time: one pass (a token and a block of each row), uneven and even rows taking turns, their order turning round; the
  ratio's geometric mean over repeats with a 95 % interval.

Then eight samples of one prompt, and twelve questions behind one system prompt, one after the other and as a batch:
seconds and tokens that the target read, with sharing and without (no prefix is long enough), in turns.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from benchmarks.tokens import interval
from draftverify import Pipeline, Proposal, Task
from draftverify.kit import make_context
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import NoDraft, Stop, Target, slots
from draftverify_tokens.reader import BlockReader

SHARED = slots.SHARED


class Rows:
    """Sixteen sessions behind their texts; `step` is one pass over all of them, again and again the same.

    The texts are not read, which would take minutes: their keys and values are zeros, and cost as much to look at.
    """

    def __init__(self, module: Any, lengths: Sequence[int], block: int, vocabulary: int) -> None:
        self.reader = BlockReader(module, owned=True)
        self.contexts = [
            make_context({"prompt_ids": ids(length, seed, vocabulary)}) for seed, length in enumerate(lengths)
        ]
        self.blocks = [Proposal.chain(tuple(ids(block, 0, vocabulary)))] * len(lengths)
        self.tokens = sum(lengths) + block * len(lengths)
        rows = [self.reader.slots.take() for _ in lengths]
        self.reader.slots.place(rows, [length + block for length in lengths])
        for slot, context in zip(rows, self.contexts, strict=True):
            slot.tokens = list(context.task.input["prompt_ids"])
            context.scratch[self.reader] = slot
        self.step()

    def step(self) -> float:
        start = perf_counter()
        self.reader.read(self.contexts, self.blocks)
        return perf_counter() - start

    def held(self) -> dict[str, Any]:
        """Bytes of the buffers, and what of them the tokens need."""
        shelves = self.reader.slots.shelves.values()
        buffers = [buffer for shelf in shelves for buffer in (*shelf.keys, *shelf.values)]
        first = next(iter(shelves))
        entry = sum(b[0, :, 0].nbytes for b in (*first.keys, *first.values))
        held, needed = sum(buffer.nbytes for buffer in buffers), entry * self.tokens
        return {
            "bytes": held,
            "needed": needed,
            "held": held / needed,
            "groups": len(self.reader.slots.shelves),
        }


def ids(n: int, seed: int, vocabulary: int) -> list[int]:
    """Random tokens."""
    import torch

    return torch.randint(vocabulary, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def uneven(model: LocalModel, options: argparse.Namespace) -> dict[str, Any]:
    """Rows of different lengths beside even ones."""
    vocabulary = model.model.config.vocab_size
    short, long = options.longest // 40, options.longest
    found = {}
    for name, lengths in {
        "spread": [short + i * (long - short) // 15 for i in range(16)],
        "one long": [*[short] * 15, long],
    }.items():
        even = [sum(lengths) // 16] * 16
        both = [Rows(model.model, rows, options.block, vocabulary) for rows in (lengths, even)]
        times: list[tuple[float, float]] = []
        for repeat in range(-1, options.repeats):
            order = both if repeat % 2 else both[::-1]
            seconds = {id(rows): rows.step() for rows in order}
            if repeat >= 0:
                times.append((seconds[id(both[0])], seconds[id(both[1])]))
        found[name] = {
            "tokens": sum(lengths),
            **both[0].held(),
            "even": both[1].held(),
            "milliseconds": 1000 * statistics.median(a for a, _ in times),
            "milliseconds of even rows": 1000 * statistics.median(b for _, b in times),
            "time": interval([a / b for a, b in times]),
        }
        row = found[name]
        print(
            f"{name}: held {row['held']:.2f} × needed; a pass {row['milliseconds']:.1f} ms in {row['groups']} groups, "
            f"{row['time']['ratio']:.2f} [{row['time']['low']:.2f}, {row['time']['high']:.2f}] × even rows",
            flush=True,
        )
    return found


def sharing(model: LocalModel, options: argparse.Namespace) -> dict[str, Any]:
    """The same tasks with and without sharing; a new target each time, that has read nothing."""
    import torch

    vocabulary = model.model.config.vocab_size
    prompt = ids(options.longest // 10, 1, vocabulary)
    kinds = {
        "samples of one prompt": [prompt] * 8,
        "one system prompt": [[*prompt, *ids(30 + i, 50 + i, vocabulary)] for i in range(12)],
    }
    functional, weight = torch.nn.functional, model.model.model.embed_tokens.weight
    read: list[int] = []
    embedding = functional.embedding

    def counting(ids: Any, own: Any, *more: Any) -> Any:  # a hook would have the model read by its own code
        if own is weight:
            read.append(ids.numel())
        return embedding(ids, own, *more)

    functional.embedding = counting
    found: dict[str, Any] = {}
    for kind, prompts in kinds.items():
        tasks = [Task(id=str(i), input={"prompt_ids": own}) for i, own in enumerate(prompts)]
        for driver in ("serial", "batch"):
            runs: dict[str, list[tuple[float, int, Any]]] = {"with": [], "without": []}
            for repeat in range(-1, options.share_repeats):
                for way in list(runs) if repeat % 2 else list(runs)[::-1]:
                    slots.SHARED = SHARED if way == "with" else 10**9
                    pipeline = Pipeline(
                        NoDraft(), Target(model), Speculative(), block=0, done=Stop(options.tokens, ignore_eos=True),
                        settings={"temperature": 0},
                    )  # fmt: skip
                    read.clear()
                    start = perf_counter()
                    outcomes = pipeline.run(tasks) if driver == "batch" else list(map(pipeline.run, tasks))
                    seconds = perf_counter() - start
                    if repeat >= 0:
                        runs[way].append((seconds, sum(read), [outcome.value for outcome in outcomes]))
            pairs = zip(runs["without"], runs["with"], strict=True)
            row = found[f"{kind}, {driver}"] = {
                **{f"seconds {way}": statistics.median(run[0] for run in runs[way]) for way in runs},
                **{f"tokens read {way}": runs[way][0][1] for way in runs},
                "times quicker": interval([a[0] / b[0] for a, b in pairs]),
                "same answers": sum(
                    a == b for a, b in zip(runs["with"][0][2], runs["without"][0][2], strict=True)
                ),
                "tasks": len(tasks),
            }
            print(f"{kind}, {driver}: {row}", flush=True)
    slots.SHARED = SHARED
    functional.embedding = embedding
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--longest", type=int, default=4000)
    parser.add_argument("--block", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=8, help="of each answer where prompts are shared")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--share-repeats", type=int, default=5)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tokens_cache.json"))
    options = parser.parse_args()

    import torch

    if options.rehearse:
        from tests.tokens.tiny import tiny_model

        model = tiny_model(positions=8192)
        options.longest = min(options.longest, 800)
    else:
        packed = "bfloat16" if options.dtype == "bfloat16" else None
        model = LocalModel(options.weights, dtype=options.dtype, packed=packed)
        model.open()
    figures = {
        "longest": options.longest, "block": options.block, "repeats": options.repeats, "dtype": options.dtype,
        "threads": torch.get_num_threads(), "uneven": uneven(model, options), "sharing": sharing(model, options),
    }  # fmt: skip
    if not options.rehearse:
        write(options.out, "benchmarks.tokens_cache", figures)


if __name__ == "__main__":
    main()
