"""Promise 2 on a real model: where drafting does not pay, is the measured controller slower than plain decoding?

    python -m benchmarks.not_slower [--repeats 10] [--tokens 64] [--batches 1] [--out FILE.json]

Free chat (the chat prompts of examples/prompts.jsonl) and prompts of random tokens, where hardly a draft is accepted;
prompt lookup with a fresh `Measured` controller against plain decoding, float32, temperature 0, the same weights in
one process. A repeat is plain, lookup, lookup, plain (ABBA), or the other way round in every second one. The figure is
the speed, time per token of plain / of lookup, its geometric mean over repeats with a 95 % interval (Student's t on the
logs); it is asked that the interval begins at .97 or above. Beside it `time_ratio`, lookup / plain in each repeat, of
which 95 % are promised to be at most 1.02, and `control`, the first plain / the second, the machine's own noise. With
`--batches 1 8` each is run alone and in lockstep batches of 8.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.provenance import write
from draftverify import Pipeline, Task
from draftverify.rules import Speculative
from draftverify.stats.block import Measured
from draftverify.stats.intervals import log_interval
from draftverify_llm import LocalModel
from draftverify_tokens import NoDraft, PromptLookup, Stop, Target

PROMPTS = Path(__file__).parent.parent / "examples" / "prompts.jsonl"
RANDOM_PROMPTS, RANDOM_LENGTH = 4, 128
ENOUGH = 0.97


def chat_inputs() -> list[dict[str, Any]]:
    """The free-chat prompts of the quickstart."""
    rows = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    return [{"prompt": row["prompt"]} for row in rows if row["kind"] == "chat"]


def random_inputs(vocabulary: int) -> list[dict[str, Any]]:
    """Prompts of random tokens, always the same."""
    draws = random.Random(0)
    return [
        {"prompt_ids": [draws.randrange(vocabulary) for _ in range(RANDOM_LENGTH)]}
        for _ in range(RANDOM_PROMPTS)
    ]


def tasks_of(inputs: Sequence[dict[str, Any]], batch: int) -> list[Task]:
    """A task per prompt; at least two waves of them in batches."""
    many = max(len(inputs), 2 * batch if batch > 1 else 0)
    return [Task(id=str(number), input=each) for number, each in enumerate(islice(cycle(inputs), many))]


def timed(pipeline: Pipeline, tasks: Sequence[Task], batch: int) -> tuple[float, list[Any], int]:
    """Seconds per token of all tasks, their values, and how many rounds drafted something."""
    start = perf_counter()
    if batch == 1:
        records = [pipeline.record(task) for task in tasks]
    else:
        records = pipeline.record(tasks, size=batch)
    seconds = perf_counter() - start
    values = [record.outcome.value for record in records]
    drafted = sum(bool(round.items) for record in records for round in record.rounds)
    return seconds / sum(map(len, values)), values, drafted


def compare(
    target: Target, tasks: Sequence[Task], *, batch: int, repeats: int, tokens: int
) -> dict[str, Any]:
    """Plain decoding and lookup under the controller, `repeats` times."""
    stop = Stop(max_tokens=tokens)

    def build(*, drafting: bool) -> Pipeline:
        generator = PromptLookup() if drafting else NoDraft()
        block = Measured(at_most=16) if drafting else 0
        return Pipeline(generator, target, Speculative(), block=block, done=stop, settings={"temperature": 0})

    timed(build(drafting=False), tasks[:batch], batch)
    ratios, control, drafted, same = [], [], [], 0
    report: dict[str, Any] = {}
    for repeat in range(repeats):
        seconds: dict[bool, list[float]] = {False: [], True: []}
        values: dict[bool, list[Any]] = {}
        first = repeat % 2 == 1
        for drafting in (first, not first, not first, first):
            pipeline = build(drafting=drafting)
            each, values[drafting], rounds = timed(pipeline, tasks, batch)
            seconds[drafting].append(each)
            if drafting:
                drafted.append(rounds)
                report = pipeline.block.report()
        same += values[False] == values[True]
        ratios.append(sum(seconds[True]) / sum(seconds[False]))
        control.append(seconds[False][1] / seconds[False][0])
    speeds = [-math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(speeds)
    error = statistics.stdev(speeds) / math.sqrt(repeats) if repeats > 1 else math.inf
    low, high = log_interval(mean, error, repeats - 1)
    return {
        "speed": {"mean": math.exp(mean), "low": low, "high": high if math.isfinite(high) else None},
        "enough": low >= ENOUGH,
        "time_ratio": sorted(ratios),
        "share_at_most_1.02": sum(ratio <= 1.02 for ratio in ratios) / repeats,
        "control": sorted(control),
        "tasks": len(tasks),
        "rounds_that_drafted": drafted,
        "identical": same,
        "controller": report,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/not_slower.json"))
    options = parser.parse_args()
    model = LocalModel("smollm2-135m-instruct", dtype="float32")
    target = Target(model)
    vocabulary = model.model.config.get_text_config().vocab_size
    figures: dict[str, Any] = {"repeats": options.repeats, "tokens": options.tokens, "runs": []}
    for kind, inputs in (("chat", chat_inputs()), ("random tokens", random_inputs(vocabulary))):
        for batch in options.batches:
            found = compare(
                target, tasks_of(inputs, batch), batch=batch, repeats=options.repeats, tokens=options.tokens
            )
            figures["runs"].append({"kind": kind, "batch": batch, **found})
            speed, ratios = found["speed"], [round(ratio, 3) for ratio in found["time_ratio"]]
            print(f"{kind}, batch {batch}: speed {speed['mean']:.3f} from {speed['low']:.3f}; times {ratios}")
    write(options.out, "benchmarks.not_slower", figures)


if __name__ == "__main__":
    main()
