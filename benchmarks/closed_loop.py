"""The closed loop: what a drafter that was trained from a log accepts on prompts that it never saw.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.closed_loop --out benchmarks/results/closed_loop.json

Prompts are the short questions of Spec-Bench and the first of GSM8K's test set (DIR/spec_bench, DIR/gsm8k). An early
exit of SmolLM2-135M drafts for the whole model on those whose id has an odd hash: that run is the log. Three drafters
are trained from it by `draftverify fit part drafter`: one at every place of the answers; one at some places, drawn from
those where a draft was refused; and one, the control, at as many that are drawn from all. Then the early exit as it was
and the three draft on the other prompts. Everything is greedy and in float32, so acceptance is counted and no load of
the machine changes it; every answer must be the same with all four. Intervals draw whole prompts anew, and differences
are paired by prompt. What was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks.provenance import write
from draftverify import TaskRecord
from draftverify.bench import load_experiment, run
from draftverify.bench.records import load_run
from draftverify.stats import acceptance_rate, items_per_pass, paired_difference
from draftverify_tokens import DrafterTraining

LONG = ("summarization", "rag")
ARMS = ("before", "all", "refused", "random")
PAIRS = (
    ("before", "all"),
    ("before", "refused"),
    ("before", "random"),
    ("random", "refused"),
    ("random", "all"),
)


def prompts(data: Path, limit: int) -> Iterator[dict[str, Any]]:
    """Tasks: id, prompt and group."""
    for line in (data / "spec_bench" / "question.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = row["turns"][0]
        if row["category"] not in LONG and len(text.split()) < 120:
            yield {"id": f"spec-{row['question_id']}", "prompt": text, "group": "spec_bench"}
    for place, line in enumerate(
        (data / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()[:limit]
    ):
        yield {"id": f"gsm8k-{place}", "prompt": json.loads(line)["question"], "group": "gsm8k"}


def is_logged(task: str) -> bool:
    """Whether a prompt is of the log; the others are unseen."""
    return hashlib.sha256(f"closed loop {task}".encode()).digest()[0] % 2 == 1


def experiment(
    folder: Path, name: str, tasks: Sequence[dict[str, Any]], drafters: dict[str, Any], tokens: int, size: int
) -> Path:
    """Run these drafters over the tasks; the run's directory."""
    with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(task) + "\n" for task in tasks)
    config = {
        "name": name,
        "tasks": {
            "use": "jsonl",
            "path": f"{name}.jsonl",
            "fields": {"id": "id", "prompt": "prompt", "group": "group"},
        },
        "models": {"target": {"use": "llm.local", "weights": "smollm2-135m-instruct", "dtype": "float32"}},
        "settings": {"temperature": 0},
        "executor": {"use": "batch", "size": size},
        "defaults": {
            "verifier": {"use": "tokens.target", "model": "target"},
            "rule": {"use": "speculative"},
            "done": {"use": "tokens.stop", "max_tokens": tokens},
        },
        "pipelines": drafters,
    }
    file = folder / f"{name}.yaml"
    with open(file, "w", encoding="utf-8") as opened:
        YAML().dump(config, opened)
    return run(load_experiment(file), out=folder / name, command=("draftverify", "run", str(file))).path


def drafter(layers: int, block: int, adapter: str | None = None) -> dict[str, Any]:
    """An early exit, in YAML."""
    own = {"adapter": adapter} if adapter else {}
    return {
        "generator": {"use": "tokens.early_exit", "model": "target", "layers": layers, **own},
        "block": block,
    }


def rate(record: TaskRecord) -> float:
    """Of one task: accepted over checked tokens."""
    return record.outcome.tally.accepted / max(1, record.outcome.tally.trials)


def per_pass(record: TaskRecord) -> float:
    """Of one task: tokens of its answer for each pass of the target."""
    return sum(len(round.decision.emitted) for round in record.rounds) / len(record.rounds)


def figures(records: dict[str, list[TaskRecord]]) -> dict[str, Any]:
    """Each arm's acceptance and tokens per pass, and the paired differences between arms."""
    arms = {}
    for arm, own in records.items():
        accepted, passes = acceptance_rate(own), items_per_pass(own)
        arms[arm] = {
            "acceptance": [accepted.value, accepted.low, accepted.high],
            "checked_tokens": accepted.trials,
            "tokens_per_pass": [passes.value, passes.low, passes.high],
            "passes": sum(len(record.rounds) for record in own),
        }
    pairs = {}
    for first, second in PAIRS:
        for name, of in (("acceptance", rate), ("tokens_per_pass", per_pass)):
            sides = ([of(record) for record in records[arm]] for arm in (first, second))
            test = paired_difference(*sides)
            pairs.setdefault(f"{second} - {first}", {})[name] = {
                "difference": test.effect, "low": test.low, "high": test.high, "p": test.p, "prompts": test.pairs,
            }  # fmt: skip
    return {"arms": arms, "paired": pairs}


def measure(data: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The whole loop."""
    every = list(prompts(data, options.gsm8k))
    logged = [task for task in every if is_logged(task["id"])][: options.logged]
    unseen = [task for task in every if not is_logged(task["id"])][: options.unseen]
    early = drafter(options.layers, options.block)
    log = experiment(folder, "log", logged, {"early_exit": early}, options.tokens, options.size)
    reports, adapters = {}, {}
    for arm in ARMS[1:]:
        most = None if arm == "all" else options.places
        trainer = DrafterTraining(log, places=arm, most=most)  # type: ignore[arg-type]
        reports[arm] = trainer.train(folder / arm)
        adapters[arm] = f"./{arm}/drafter.safetensors"
        print(arm, reports[arm], flush=True)
    arms = {
        "before": early,
        **{arm: drafter(options.layers, options.block, adapters[arm]) for arm in ARMS[1:]},
    }
    with load_run(experiment(folder, "unseen", unseen, arms, options.tokens, options.size)) as found:
        records = {arm: found.records(arm) for arm in ARMS}
    values = zip(*([record.outcome.value for record in records[arm]] for arm in ARMS), strict=True)
    with load_run(log) as found:
        logged_acceptance = acceptance_rate(found.records("early_exit")).value
    return {
        "weights": "smollm2-135m-instruct", "dtype": "float32", "layers": options.layers, "block": options.block,
        "most_tokens": options.tokens, "logged_prompts": len(logged), "unseen_prompts": len(unseen),
        "groups": {group: sum(task["group"] == group for task in unseen) for group in ("spec_bench", "gsm8k")},
        "logged_acceptance": logged_acceptance,
        "same_answers": sum(len(set(map(tuple, each))) == 1 for each in values),
        "training": reports, **figures(records),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--block", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=20, help="the longest answer")
    parser.add_argument("--logged", type=int, default=100, help="prompts of the log, at most")
    parser.add_argument("--unseen", type=int, default=104, help="prompts that are measured on, at most")
    parser.add_argument("--places", type=int, default=400, help="that refused and random ones teach")
    parser.add_argument("--gsm8k", type=int, default=120)
    parser.add_argument("--size", type=int, default=16, help="tasks under way at once")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/closed_loop"), help="its runs, which are gone on with"
    )
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    found = measure(Path(os.environ["DRAFTVERIFY_DATA"]), options.work, options)
    print(json.dumps({key: found[key] for key in ("arms", "paired", "same_answers")}, indent=1))
    write(options.out, "benchmarks.closed_loop", {"repeats": 1, **found})


if __name__ == "__main__":
    main()
