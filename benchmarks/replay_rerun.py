"""Replays beside reruns: are they equal, what do they cost, and does what `tune` proposes hold on tasks that run again?

    python -m benchmarks.replay_rerun --data DIR --out benchmarks/results/replay_rerun.json
    python -m benchmarks.replay_rerun --show benchmarks/results/replay_rerun.json    # of the docs, nothing is run

Three runs on recorded data: CodeGen-16B's programs for HumanEval, which are really run; passages of XQuAD, searched and
read; and the reasoning of rsd_math100 with its recorded scores. Each change of a pipeline is replayed from the run's
records, and run again with the change set. `answered` is the share of tasks that the log can answer for. `equal` is the
share of these whose record, but for its times, is the rerun's; status and value alone where the replay says that its
cost is an upper bound. Tasks are not in it whose record is another one when the run itself is made again, with nothing
changed (`unsteady`): tests that draw random numbers, and answers that show where an object lies in memory. `cost` is
the seconds per task that the replay predicts over those that the rerun took; tasks whose cost is an upper bound are not
in it: of these `bounds_held` is the share that the rerun did not exceed. `faster` is
how long the rerun took, its records and report included, over how long the replay did. The two take turns. Intervals
are Student's, of logarithms, over the changes.

`tune` is asked about the run of the programs; what it proposes and what ran are then run on the held-out tasks, one
after the other for each, in turns, and the gain measured there stands beside the one that the records predicted.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy import stats

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run, timeless
from draftverify.bench.runner.run import run
from draftverify.lab.recording import Recording
from draftverify.lab.tune import tune
from draftverify.stats import solved_ratio
from draftverify.values import TaskRecord

PROBLEMS, QUESTIONS = 30, 200

CODE = {
    "tasks": {"use": "code.humaneval"},
    "metrics": {"right": {"use": "code.tests"}},
    "pipelines": {
        "programs": {
            "generator": {"use": "code.recorded", "form": "completion", "match": "prompt"},
            "verifier": {
                "use": "code.stages",
                "stages": [{"use": "code.lint"}, {"use": "code.syntax"}, {"use": "code.tests", "timeout": 1}],
                "ask_all": True,
            },
            "rule": {"use": "first"},
            "block": 4,
            "on_rejection": [{"do": "regenerate", "times": 1}],
        }
    },
}
CODE_CHANGES = [
    ["verifier.stages=[syntax, lint, tests]"],
    ["verifier.stages=[syntax, tests]"],
    ["verifier.stages=[tests]"],
    ["block=2"],
    ["block=1", "verifier.stages=[syntax, tests]"],
    ["on_rejection=[]"],
    ["budget.rounds=1", "rule={use: first, enough: 2}"],
]
RETRIEVAL = {
    "tasks": {
        "use": "jsonl",
        "path": "questions.jsonl",
        "fields": {"question": "question"},
        "expected": {"answers": "answers"},
    },
    "metrics": {"right": {"use": "retrieval.holds_answer"}},
    "models": {"texts": {"use": "retrieval.corpus", "path": "texts"}},
    "pipelines": {
        "passages": {
            "generator": {"use": "retrieval.bm25", "corpus": "texts"},
            "verifier": {"use": "retrieval.lexical_reader", "corpus": "texts", "threshold": 0.7},
            "rule": {"use": "first"},
            "block": 4,
            "on_rejection": [{"do": "regenerate", "times": 2}],
        }
    },
}
RETRIEVAL_CHANGES = [
    ["verifier.threshold=0.5"],
    ["verifier.threshold=0.6", "block=2"],
    ["rule={use: best}"],
    ["rule={use: first, threshold: 0.8, otherwise: best}", "on_rejection=[]"],
    ["block=1"],
    ["on_rejection=[]"],
]
FIELDS = {
    "task_id": "idx",
    "prompt": "question",
    "text": "code.*",
    "answer": "pred.*",
    "correct": "score.*",
    "score": "pred_score.*.0",
}
REASONING = {
    "tasks": {"use": "reasoning.problems", "fields": {"id": "idx"}, "form": "plain"},
    "metrics": {"right": {"use": "reasoning.answer"}},
    "pipelines": {
        "solutions": {
            "generator": {"use": "reasoning.recorded", "fields": FIELDS},
            "verifier": {"use": "reasoning.recorded_score"},
            "rule": {"use": "best"},
            "done": {"use": "rounds", "n": 1},
            "block": 8,
        }
    },
}
REASONING_CHANGES = [
    ["rule={use: majority}"],
    ["rule={use: first, threshold: 1.8, otherwise: best}"],
    ["rule={use: majority}", "block=1", "done={use: adaptive_consistency, confidence: 0.95, at_most: 8}"],
    ["block=4"],
    ["block=2", "done={use: rounds, n: 2}"],
    [
        "rule={use: first, threshold: 1.5}",
        "block=1",
        "done=null",
        "on_rejection=[{do: regenerate, times: 7}]",
    ],
]


def settings(data: Path, folder: Path) -> Iterator[tuple[str, dict[str, Any], list[list[str]], str | None]]:
    """Each domain's name, config and changes, and what its drafts depend on where its generator does not say."""
    code = json.loads(json.dumps(CODE))
    code["pipelines"]["programs"]["generator"]["path"] = str(
        data / "humaneval_codegen16b" / "solutions.jsonl"
    )
    code["limit"] = PROBLEMS
    yield "code", code, CODE_CHANGES, None
    (folder / "texts").mkdir()
    questions = []
    articles = json.loads((data / "xquad_en" / "xquad.en.json").read_text())["data"]
    for number, each in enumerate(each for article in articles for each in article["paragraphs"]):
        (folder / "texts" / f"{number:03}.txt").write_text(each["context"])
        for asked in each["qas"]:
            answers = [answer["text"] for answer in asked["answers"]]
            questions.append({"id": asked["id"], "question": asked["question"], "answers": answers})
    step = len(questions) // QUESTIONS
    lines = "\n".join(json.dumps(each) for each in questions[::step][:QUESTIONS])
    (folder / "questions.jsonl").write_text(lines + "\n")
    yield "retrieval", RETRIEVAL, RETRIEVAL_CHANGES, "list"
    path = str(data / "rsd_math100" / "math_cot_100.jsonl")
    reasoning = json.loads(json.dumps(REASONING))
    reasoning["tasks"]["path"] = reasoning["pipelines"]["solutions"]["generator"]["path"] = path
    yield "reasoning", reasoning, REASONING_CHANGES, None


def records(path: Path) -> dict[str, list[TaskRecord]]:
    """A run's records by pipeline."""
    with load_run(path) as found:
        return {name: list(found.records(name)) for name in found.names}


def compared(
    name: str, config: dict[str, Any], changes: list[list[str]], drafts_from: Any, folder: Path
) -> tuple[dict[str, Any], Path, Path]:
    """Each change replayed and run again; the config's file and the run's directory."""
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({"name": name, **config}))
    pipeline = next(iter(config["pipelines"]))
    # Twice: what is not deterministic can be equal to no rerun, and the first run pays for what is loaded once.
    run(load_experiment(file), out=folder / f"{name}-before")
    run(load_experiment(file), out=folder / name)
    with load_run(folder / name) as found:
        recording = Recording(found, config=file, drafts_from=drafts_from)
    first, second = (records(folder / each)[pipeline] for each in (f"{name}-before", name))
    steady = {one.task for one, other in zip(first, second, strict=True) if written(one) == written(other)}
    rows = []
    for place, change in enumerate(changes):
        out = folder / f"{name}-{place}"
        own = [recording.override(each) for each in change]
        again, ran, took = {}, 0.0, 0.0
        for turn in (place % 2, 1 - place % 2):
            if turn:
                start = time.perf_counter()
                replayed = recording.what_if(change)
                took = time.perf_counter() - start
            else:
                start = time.perf_counter()
                run(load_experiment(file, overrides=own), out=out)
                ran = time.perf_counter() - start
                again = {record.task: record for record in records(out)[pipeline]}
        made = [each for each in replayed.replayed if each.record is not None]
        equal = sum(
            told(each.record) == told(again[each.task])
            if each.at_most
            else written(each.record) == written(again[each.task])
            for each in made
            if each.task in steady
        )
        pairs = [
            (each.at_most, each.record.outcome.seconds, again[each.task].outcome.seconds) for each in made
        ]
        priced = [(said, took) for bound, said, took in pairs if not bound]
        bounds = [(said, took) for bound, said, took in pairs if bound]
        rows.append(
            {
                "change": ", ".join(change),
                "tasks": len(replayed.replayed),
                "answered": len(made),
                "steady": sum(each.task in steady for each in made),
                "equal": equal,
                "upper_bounds": len(bounds),
                "bounds_held": sum(said >= took for said, took in bounds),
                "estimated": replayed.estimated,
                "gaps": sorted({gap.why for gap in replayed.gaps})[:3],
                "cost": sum(said for said, _ in priced) / sum(took for _, took in priced) if priced else None,
                "faster": ran / took,
            }
        )
        print(name, rows[-1], flush=True)
    costs = [row["cost"] for row in rows if row["cost"] is not None]
    bounds = sum(row["upper_bounds"] for row in rows)
    return (
        {
            "tasks": rows[0]["tasks"],
            "unsteady": rows[0]["tasks"] - len(steady),
            "changes": rows,
            "answered": sum(row["answered"] for row in rows) / sum(row["tasks"] for row in rows),
            "equal": sum(row["equal"] for row in rows) / sum(row["steady"] for row in rows),
            "cost": geometric(costs),
            "bounds": bounds,
            "bounds_held": sum(row["bounds_held"] for row in rows) / bounds if bounds else None,
            "faster": geometric([row["faster"] for row in rows]),
        },
        file,
        folder / name,
    )


def told(record: TaskRecord) -> bytes:
    """What a task came to."""
    return msgspec.json.encode([record.outcome.status, record.outcome.value])


def written(record: TaskRecord) -> bytes:
    """The record as a store has it, but for its times."""
    return msgspec.json.encode(timeless(record))


def geometric(ratios: list[float]) -> dict[str, float]:
    """The geometric mean with a 95 % interval."""
    logs = np.log(ratios)
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * float(stats.sem(logs))
    middle = float(logs.mean())
    return {"value": math.exp(middle), "low": math.exp(middle - half), "high": math.exp(middle + half)}


def tuned(file: Path, path: Path, folder: Path) -> dict[str, Any]:
    """What `tune` proposes for a run, and what the proposal is worth on the held-out tasks when these run again."""
    with load_run(path) as found:
        recording = Recording(found, config=file)
    start = time.perf_counter()
    best = tune(recording)
    took = time.perf_counter() - start
    config = json.loads(file.read_text())
    ((name, own),) = config["pipelines"].items()
    proposed = json.loads(json.dumps(own))
    for dotted, value in best.settings.items():
        *outer, last = dotted.split(".")
        inner = proposed
        for step in outer:
            inner = inner[step]
        inner[last] = value
    again = folder / "tuned.yaml"
    again.write_text(json.dumps({**config, "pipelines": {name: own, "proposed": proposed}}))
    chosen = tuple(each.task for each in best.held_out.replayed)
    run(msgspec.structs.replace(load_experiment(again), chosen=chosen), out=folder / "tuned")
    with load_run(folder / "tuned") as found:
        said = found.store.named_scores()
        scored = {
            each: [(record, said[each, record.task, "right"] or 0.0) for record in found.records(each)]
            for each in found.names
        }
    measured = solved_ratio(scored["proposed"], scored[name])
    return {
        "settings": {
            dotted: [each["use"] for each in value] if dotted == "verifier.stages" else value
            for dotted, value in best.settings.items()
        },
        "candidates": best.candidates,
        "refused": len(best.refused),
        "seconds": took,
        "held_out": len(chosen),
        "chosen_on": interval(best.chosen.gain),
        "predicted": interval(best.held_out.gain),
        "measured": interval(measured),
        "solved": {each: sum(value for _, value in scored[each]) for each in scored},
    }


def interval(found: Any) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def show(path: Path) -> None:
    """The table of the docs."""
    found = json.loads(path.read_text())
    columns = (
        "run",
        "tasks",
        "unsteady",
        "changes",
        "answered",
        "equal",
        "predicted ÷ actual seconds",
        "times faster",
    )
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for name, each in found["domains"].items():
        cost, faster = (
            f"{own['value']:.3g} [{own['low']:.3g}, {own['high']:.3g}]"
            for own in (each["cost"], each["faster"])
        )
        cells = (
            name,
            each["tasks"],
            each["unsteady"],
            len(each["changes"]),
            f"{each['answered']:.1%}",
            f"{each['equal']:.1%}",
            cost,
            faster,
        )
        print(f"| {' | '.join(map(str, cells))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="the folder of recorded data")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="one domain, without --out: to try it")
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        show(options.show)
        return
    if options.data is None:
        parser.error("--data says where the recorded data is")
    domains: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, config, changes, drafts_from in settings(options.data.resolve(), folder):
            if options.only not in (None, name):
                continue
            domains[name], file, path = compared(name, config, changes, drafts_from, folder)
            if name == "code":
                proposal = tuned(file, path, folder)
                print(proposal, flush=True)
    if options.out is not None:
        write(options.out, "benchmarks.replay_rerun", {"repeats": 1, "domains": domains, "tune": proposal})


if __name__ == "__main__":
    main()
