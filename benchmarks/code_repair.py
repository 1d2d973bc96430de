"""Mutation repair on near misses of a language model: how many are mended, and what one repair costs.

    python -m benchmarks.code_repair --data DIR --out benchmarks/results/code_repair.json

Near misses are recorded CodeGen-16B samples for HumanEval (DIR/humaneval_codegen16b/solutions.jsonl) of which some, not
all, of the hidden tests' assertions hold. One is drawn for each task, tasks and samples in a seeded order, so that the
results are independent of each other; tasks whose tests are no plain list of asserts have no result per assertion and
are left out. A program is mended when all assertions hold. It may still be wrong: mended programs are also run on
HumanEval+'s tests (DIR/humanevalplus), of which repair saw nothing.

The mutation operators and their weights were chosen on problems of our own (examples/repair) and on near misses
of tasks with an even number; the tasks with an odd number are reported apart.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify import Budget, Pipeline, Task, give_up, retry
from draftverify.rules import First
from draftverify_code import HumanEval, Mutate, Tests
from draftverify_code.generators.assertions import one_by_one
from draftverify_code.generators.edits import fingerprint
from draftverify_code.sandbox import Limits, Sandbox

STOPS = re.compile(r"\n(?:class|def|#|if|print|assert|@)")
"""Where a completion ends, as the data's authors cut it."""
PIECE = 32  # samples of a task that are judged at once, until one is a near miss


def near_misses(data: Path, box: Sandbox, count: int, seed: int, timeout: float) -> Iterator[Task]:
    """A near miss for each of `count` tasks, as a task to repair."""
    # The recorded prompts lack their examples; the rows stand in the order of the ids as texts.
    tasks = HumanEval().load()
    recorded: dict[str, list[str]] = {}
    for task, row in zip(
        sorted(tasks, key=lambda task: task.id),
        _rows(data / "humaneval_codegen16b" / "solutions.jsonl"),
        strict=True,
    ):
        if f"def {task.input['entry_point']}(" not in row["prompt"]:
            raise SystemExit(f"the recorded samples do not stand in the order of HumanEval's ids: {task.id}")
        recorded[task.id] = row["samples"]
    order = random.Random(seed)
    order.shuffle(tasks)
    stage = Tests(sandbox=box, timeout=timeout)
    found = 0
    for task in tasks:
        suite = one_by_one(stage.suite(task))
        prompt = task.input["prompt"]
        if suite.kind != "asserts":
            continue
        programs = {
            fingerprint(program): program for each in recorded[task.id] if (program := prompt + _cut(each))
        }
        programs.pop(None, None)
        samples = [programs[key] for key in sorted(programs, key=bytes)]  # type: ignore[arg-type]
        order.shuffle(samples)
        limits = Limits(wall=timeout, cpu=timeout)
        for start in range(0, len(samples), PIECE):
            piece = samples[start : start + PIECE]
            checks = [each.check for each in box.judge(suite, piece, limits)]
            near = [p for p, check in zip(piece, checks, strict=True) if check.score and 0 < check.score < 1]
            if near:
                given = {
                    "program": near[0],
                    "entry_point": suite.entry_points[0],
                    "test_list": list(suite.asserts),
                    "setup": suite.setup,
                }
                yield Task(id=task.id, input=given)
                found += 1
                break
        if found == count:
            return


def _cut(completion: str) -> str:
    match = STOPS.search(completion)
    return completion[: match.start()] if match else completion


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def wilson(successes: int, trials: int, z: float = 1.96) -> list[float]:
    """The Wilson interval of a share, 95 %."""
    if not trials:
        return [0.0, 1.0]
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * ((share * (1 - share) + spread / 4) / trials) ** 0.5 / (1 + spread)
    return [middle - half, middle + half]


def ratio(costs: list[float], mended: list[bool], seed: int = 0, repeats: int = 2000) -> dict[str, Any]:
    """All that was spent over all that was mended, with a bootstrap interval over programs, 95 %."""
    draws = np.random.default_rng(seed).integers(0, len(costs), (repeats, len(costs)))
    spent, successes = np.array(costs)[draws].sum(1), np.array(mended)[draws].sum(1)
    low, high = np.quantile(spent / np.maximum(successes, 1), [0.025, 0.975])
    return {"mean": sum(costs) / max(sum(mended), 1), "interval": [float(low), float(high)]}


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of some repairs."""
    mended = [row["mended"] for row in rows]
    validated = [row["plus"] == "pass" for row in rows if row["plus"] not in ("", "error")]
    checks = sorted(row["checked"] for row in rows if row["mended"])
    return {
        "programs": len(rows),
        "mended": sum(mended),
        "share": sum(mended) / max(len(rows), 1),
        "interval": wilson(sum(mended), len(rows)),
        "mended_checked_by_plus": len(validated),
        "mended_right_by_plus": sum(validated),
        "right_share_interval": wilson(sum(validated), len(rows)),
        "seconds_per_repair": ratio([row["seconds"] for row in rows], mended),
        "mutants_per_repair": ratio([row["checked"] for row in rows], mended),
        "mutants_until_mended_median": checks[len(checks) // 2] if checks else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=30.0, help="after which a program is given up")
    parser.add_argument("--timeout", type=float, default=0.5, help="seconds for all assertions of one mutant")
    options = parser.parse_args()
    with Sandbox() as box:
        stage = Tests(sandbox=box, timeout=options.timeout)
        pipeline = Pipeline(
            Mutate(tests=stage),
            stage,
            First(),
            policy=give_up(on=["exhausted"]).then(retry(None)),
            block=options.block,
            budget=Budget(rounds=options.rounds, seconds=options.seconds),
        )
        rows = []
        for task in near_misses(options.data, box, options.count, options.seed, options.timeout):
            start = time.perf_counter()
            record = pipeline.record(task)
            seconds = time.perf_counter() - start
            row = {
                "task": task.id,
                "mended": record.outcome.status == "accepted",
                "status": record.outcome.status,
                "checked": sum(
                    check.verdict != "unchecked" for each in record.rounds for check in each.checks
                ),
                "rounds": len(record.rounds),
                "seconds": seconds,
                "program": task.input["program"],
                "value": record.outcome.value,
            }
            rows.append(row)
            print(row["task"], row["status"], row["checked"], f"{seconds:.1f} s", flush=True)
        validate(rows, options.data, box)
        tier = box.tier
    for row in rows:
        row["number_is_even"] = int(row["task"].rpartition("/")[2]) % 2 == 0
    odd = [row for row in rows if not row["number_is_even"]]
    settings = {
        name: getattr(options, name) for name in ("count", "seed", "block", "rounds", "seconds", "timeout")
    }
    result = {
        "isolation": tier,
        "settings": settings,
        "all": figures(rows),
        "tasks_unseen_in_development": figures(odd) if odd else None,
        "repairs": [{key: row[key] for key in row if key not in ("program", "value")} for row in rows],
    }
    write(options.out, "benchmarks.code_repair", result)
    print(json.dumps(result["all"], indent=1))


def validate(rows: list[dict[str, Any]], data: Path, box: Sandbox) -> None:
    """Note of each mended program the verdict of HumanEval+'s tests; "" where there is none."""
    path = data / "humanevalplus" / "HumanEvalPlus-OriginFmt.jsonl.gz"
    tests = {task.id: task for task in HumanEval(path).load()} if path.exists() else {}
    stage = Tests(sandbox=box, timeout=30.0)
    limits = Limits(wall=30.0, cpu=30.0)
    for row in rows:
        row["plus"] = ""
        if row["mended"] and row["task"] in tests:
            row["plus"] = box.judge(stage.suite(tests[row["task"]]), [row["value"]], limits)[0].check.verdict


if __name__ == "__main__":
    main()
