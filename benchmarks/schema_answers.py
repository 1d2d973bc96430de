"""Answers under a JSON schema: how many passes they take with forced text drafted, with a lookup, with both.

    python -m benchmarks.schema_answers --out benchmarks/results/schema_answers.json [--block 12] [--limit 30]

Thirty prompts under five schemas (schema_answers.yaml), greedy, one by one; the ways take turns prompt by prompt.
Counted are the target's passes, which no other load of the machine changes; the seconds are beside them. Every answer
must be the one of plain decoding, and valid by jsonschema. Half of the prompts of each schema were not looked at while
the drafter was written; both halves are reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import jsonschema
from ruamel.yaml import YAML

from benchmarks.provenance import write
from draftverify import Pipeline, Task, TaskRecord
from draftverify.rules import Speculative
from draftverify_llm import LocalModel
from draftverify_tokens import FirstOf, Forced, NoDraft, PromptLookup, Stop, Suffix, Target

DATA = Path(__file__).with_name("schema_answers.yaml")
TOKENS = 200


def tasks() -> list[tuple[Task, dict[str, Any]]]:
    """Each prompt as a task of the group "seen" or "unseen", and its schema."""
    found = []
    for name, form in YAML(typ="safe", pure=True).load(DATA.read_text()).items():
        schema = {**form["schema"], "x-guidance": {"whitespace_flexible": False}}
        for index, text in enumerate(form["texts"]):
            half = "seen" if index < 3 else "unseen"
            prompt = f"{form['ask']}\n\n{text}"
            found.append((Task(id=f"{name}-{index}", input={"prompt": prompt}, group=half), schema))
    return found


def ways(model: LocalModel) -> dict[str, Any]:
    """Every way's drafter."""
    forced = Forced(model)
    return {
        "none": NoDraft(),
        "forced": forced,
        "lookup": PromptLookup(),
        "forced, then lookup": FirstOf([forced, PromptLookup()]),
        "suffix": Suffix(),
        "forced, then suffix": FirstOf([forced, Suffix()]),
    }


def figures(records: list[TaskRecord], seconds: list[float]) -> dict[str, float]:
    """Of one way's records: passes, tokens, and what was drafted and kept."""
    rounds = [round for record in records for round in record.rounds]
    tokens = [len(record.outcome.value) for record in records]
    tallies = [record.outcome.tally for record in records]
    return {
        "answers": len(records),
        "tokens_per_answer": statistics.fmean(tokens),
        "passes_per_answer": len(rounds) / len(records),
        "tokens_per_pass": sum(tokens) / len(rounds),
        "drafted_per_answer": sum(len(round.items) for round in rounds) / len(records),
        "accepted_per_answer": sum(tally.accepted for tally in tallies) / len(records),
        "acceptance": sum(tally.accepted for tally in tallies)
        / max(1, sum(tally.trials for tally in tallies)),
        "seconds_per_answer": statistics.fmean(seconds),
    }


def measure(model: LocalModel, block: int, limit: int) -> dict[str, Any]:
    """Every way on every prompt."""
    target, every = Target(model), ways(model)
    records: dict[str, list[TaskRecord]] = {name: [] for name in every}
    seconds: dict[str, list[float]] = {name: [] for name in every}
    finished = same = 0
    chosen = tasks()
    chosen = chosen[:: max(1, len(chosen) // limit)][:limit]
    for at, (task, schema) in enumerate(chosen):
        settings = {"temperature": 0, "json_schema": schema}
        for name in list(every) if at % 2 == 0 else list(every)[::-1]:
            pipeline = Pipeline(
                every[name],
                target,
                Speculative(),
                block=block,
                done=Stop(max_tokens=TOKENS),
                settings=settings,
            )
            if at == 0:
                pipeline.run(task)  # the schema is compiled, the weights are read
            begun = perf_counter()
            records[name].append(pipeline.record(task))
            seconds[name].append(perf_counter() - begun)
        values = {name: tuple(made[-1].outcome.value) for name, made in records.items()}
        same += len(set(values.values())) == 1
        if values["none"][-1] in model.eos_ids:
            jsonschema.validate(json.loads(model.decode(values["none"])), schema)
            finished += 1
        print(f"{task.id}: {len(values['none'])} tokens, ", end="")
        print(", ".join(f"{name} {len(made[-1].rounds)}" for name, made in records.items()), flush=True)
    table = {}
    for half in ("all", "seen", "unseen"):
        kept = [i for i, (task, _) in enumerate(chosen) if half in ("all", task.group)]
        if kept:
            table[half] = {
                name: figures([records[name][i] for i in kept], [seconds[name][i] for i in kept])
                for name in every
            }
    return {
        "prompts": len(chosen), "block": block, "most_tokens": TOKENS, "same_as_plain": same,
        "finished_and_valid": finished, "ways": table,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", default="smollm2-135m-instruct")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--block", type=int, default=12)
    parser.add_argument("--limit", type=int, default=30, help="so many prompts, spread over the schemas")
    options = parser.parse_args(arguments)
    model = LocalModel(options.weights, dtype=options.dtype)
    found = measure(model, options.block, options.limit)
    for half, table in found["ways"].items():
        for name, row in table.items():
            print(
                f"{half:7s} {name:20s} {row['passes_per_answer']:6.1f} passes, {row['tokens_per_pass']:.2f} tokens "
                f"each, accepted {row['acceptance']:.3f}, {row['seconds_per_answer']:.2f} s"
            )
    write(
        options.out,
        "benchmarks.schema_answers",
        {"weights": options.weights, "dtype": options.dtype, **found},
    )


if __name__ == "__main__":
    main()
