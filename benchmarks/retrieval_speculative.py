"""Draft-verify inside an index (RaLMSpec's shape): said beforehand, measured after, identical always.

    python -m benchmarks.retrieval_speculative CASE [--tasks 100] [--steps 100] [--calibration 12]
        [--out benchmarks/results/retrieval_speculative.json]

A task is a sequence of retrieval steps, top 1 of 200,000 rows. The next query is about the topic of the passage found
last, or about another one that follows from that passage, so that a wrong draft leads elsewhere; it leans to that
passage, and has noise of its own. Making it takes no time (but in the case `generation`), which is the hardest for
drafting: a model's time between retrievals is the same with right drafts and without any. `walk`: a step stays with
the topic with probability .9; `jumps`: never. Cases:

    dense        exact search of vectors (d = 128); drafts from the cache of what was found; walk
    dense_384    the same for d = 384
    dense_hnsw   exact search of vectors; drafts by HNSW; jumps
    no_locality  exact search of vectors; drafts from the cache; jumps: drafting would lose
    generation   as no_locality, and each query takes 20 ms to make, also that of a wrong draft: drafting would lose

Two pipelines, the verifier's alone (blocks of 0) and with drafts, the block chosen by `measured`. First `--calibration`
tasks: from their times `predict` says the mean speed-up over `--tasks` new ones, which is written down. Then the new
tasks: seconds per task by the clock on the wall, engine and drafting included, plain and drafted in turn, plain first
in every second task; a losing case is run plain, drafted, drafted, plain. The speed-up is the geometric mean over
tasks, with a 95 % interval (Student's t on the logs). `identical`: tasks whose values are the same, all of them or the
run fails. `over_direct`: on some of the tasks, the time of a bare loop of queries and faiss's own flat index over
that of plain and of drafted steps, in turn; and `plain_step`: the same for plain steps on 1,000 rows. `control`, of a
losing case: the first plain run's time over the second's, the machine's own noise. `cost`: of the trusted index, the
time of one search of n queries over the mean of the same queries' searches one by one, medians, interleaved.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.provenance import provenance
from draftverify import Pipeline, Task, TaskRecord
from draftverify.rules import LongestPrefix
from draftverify.stats import measured_ratio, predict
from draftverify.stats.block import Measured
from draftverify.stats.intervals import t_quantile
from draftverify_retrieval import (
    ApproximateSearch,
    ApproximateVectors,
    CachedSearch,
    ExactSearch,
    Vectors,
)

ROWS, TOPICS = 200_000, 2_000
PAPER = {"dense": "1.75 to 2.39"}
LOSING = ("no_locality", "generation")
STAY = {"walk": 0.9, "jumps": 0.0}


class Course:
    """What of a task's queries does not depend on what is found: where it leaves a topic, and each step's noise."""

    def __init__(self, task: Task) -> None:
        self.task = task.id
        self.draws = np.random.default_rng([1, task.input["seed"]])
        self.steps = task.input["steps"]
        self.stays = (self.draws.random(self.steps) < STAY[task.input["path"]]).tolist()
        self.noise: Any = None

    def topic(self, found: Sequence[Any]) -> int:
        """The topic of the next step; a row's topic is what is left of its number by that of topics."""
        step, row = len(found), found[-1]["rows"][0] if found and found[-1]["rows"] else 0
        if step and self.stays[step]:
            return int(row % TOPICS)
        return (row * 7919 + step * 104_729 + int(self.task) * 15_485_863 + row // TOPICS) % TOPICS


class Dense:
    """Vectors in topics, of length 1; a query is near its topic and the vector found last."""

    def __init__(self, d: int, wait: float = 0.0, rows: int | None = None) -> None:
        draws = np.random.default_rng(0)
        self.centres = _unit(draws.standard_normal((TOPICS, d)))
        rows = rows or ROWS
        noise = draws.standard_normal((rows, d), dtype=np.float32) / np.sqrt(d)
        self.vectors = _unit(self.centres[np.arange(rows) % TOPICS] + noise)
        self.wait = wait
        self._course: Course | None = None

    def next_query(self, task: Task, found: Sequence[Any]) -> Any:
        """The query of the next step."""
        if len(found) == task.input["steps"]:
            return None
        course = self._course
        if course is None or course.task != task.id:
            course = self._course = Course(task)
            noise = course.draws.standard_normal((course.steps, self.vectors.shape[1]))
            course.noise = (noise / np.sqrt(noise.shape[1])).astype(np.float32)
        if self.wait:
            time.sleep(self.wait)
        query = self.centres[course.topic(found)] + course.noise[len(found)]
        return query + np.float32(0.2) * self.vectors[found[-1]["rows"][0]] if found else query


def _unit(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Case:
    """What is compared: a trusted index, a way to draft, and the tasks."""

    def __init__(self, name: str, steps: int, rows: int | None = None) -> None:
        world = Dense(384 if name == "dense_384" else 128, 0.02 * (name == "generation"), rows)
        self.path = "jumps" if name in ("dense_hnsw", *LOSING) else "walk"
        self.steps = steps
        self.next_query = world.next_query
        self.trusted = Vectors(world.vectors)
        prefetch = 0 if name == "dense_hnsw" else 20
        self.verifier = ExactSearch(self.trusted, next_query=self.next_query, prefetch=prefetch)
        if name == "dense_hnsw":
            quick = ApproximateVectors(world.vectors)
            self.generator: Any = ApproximateSearch(quick, next_query=self.next_query)
        else:
            self.generator = CachedSearch(self.trusted, next_query=self.next_query)

    def tasks(self, first: int, count: int) -> list[Task]:
        """Tasks that no other call with other numbers gives."""
        given = {"path": self.path, "steps": self.steps}
        return [
            Task(id=str(i), input={"seed": i, **given}, group=self.path) for i in range(first, first + count)
        ]

    def pipeline(self, block: Any) -> Pipeline:
        """A pipeline with this block size."""
        return Pipeline(self.generator, self.verifier, LongestPrefix(), block=block)

    def cost(self, repeats: int = 15) -> dict[str, float]:
        """The time of one search of n queries over that of a search of one."""
        sizes = (1, 2, 4, 8, 16)
        alone: list[list[float]] = [[] for _ in range(max(sizes))]
        together: dict[int, list[float]] = {n: [] for n in sizes}
        task = self.tasks(10**6, 1)[0]
        found: list[Any] = []
        queries = [self.next_query(task, found)]
        while len(queries) < max(sizes):
            found.append({"rows": [int(self.trusted.search(queries[-1:], 1)[0][0, 0])]})
            queries.append(self.next_query(task, found))
        for repeat in range(repeats):
            calls = [(alone[i], queries[i : i + 1]) for i in range(max(sizes))]
            calls += [(together[n], queries[:n]) for n in sizes]
            for seconds, some in calls if repeat % 2 else calls[::-1]:
                start = perf_counter()
                self.trusted.search(some, 20)
                seconds.append(perf_counter() - start)
        singles = [statistics.median(each) for each in alone]
        ratios = {str(n): statistics.median(together[n]) / statistics.fmean(singles[:n]) for n in sizes}
        return {"seconds": statistics.fmean(singles), **ratios}


def timed(pipeline: Pipeline, task: Task) -> TaskRecord:
    """The task's record, its seconds those on the wall."""
    start = perf_counter()
    record = pipeline.record(task)
    seconds = perf_counter() - start
    if record.outcome.status != "accepted":
        raise SystemExit(f"task {task.id} ended as {record.outcome}")
    return replace(record, outcome=replace(record.outcome, seconds=seconds))


def in_turn(
    plain: Pipeline, drafted: Pipeline, tasks: Sequence[Task], *, twice: bool
) -> tuple[list[Any], list[Any]]:
    """Records of both; which of them begins changes from task to task."""
    found: tuple[list[TaskRecord], list[TaskRecord]] = ([], [])
    for number, task in enumerate(tasks):
        order = (number % 2, 1 - number % 2)
        for which in (*order, *order[::-1]) if twice else order:
            found[which].append(timed((plain, drafted)[which], task))
        values = {record.task: record.outcome.value for record in found[0][-1:]}
        if any(record.outcome.value != values[task.id] for record in found[1][-2 if twice else -1 :]):
            raise SystemExit(f"task {task.id}: what was found with drafts is not what exact search finds")
    return found


def direct(index: Any, next_query: Any, task: Task) -> float:
    """The seconds of a bare loop: a query, and faiss's flat index."""
    start = perf_counter()
    steps: list[dict[str, list[int]]] = []
    while (query := next_query(task, steps)) is not None:
        steps.append({"rows": index.search(query[None].astype(np.float32), 1)[1][0].tolist()})
    return perf_counter() - start


def over_direct(case: Case, tasks: Sequence[Task], ways: dict[str, Pipeline]) -> dict[str, Any]:
    """The bare loop's time over that of each way (above 1: quicker than the loop), geometric means over tasks."""
    import faiss

    vectors = case.trusted.vectors
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    logs: dict[str, list[float]] = {name: [] for name in ways}
    for number, task in enumerate(tasks):
        bare = direct(index, case.next_query, task)
        for name in list(ways)[:: -1 if number % 2 else 1]:
            logs[name].append(math.log(bare / timed(ways[name], task).outcome.seconds))
    figures: dict[str, Any] = {"tasks": len(tasks)}
    for name, values in logs.items():
        mean, half = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
        half *= t_quantile(0.975, len(values) - 1)
        figures[name] = {"value": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}
    return figures


def interval(estimate: Any) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def drafting(records: Sequence[TaskRecord]) -> dict[str, Any]:
    """What became of the drafts, and where the time went."""
    rounds = [each for record in records for each in record.rounds]
    trials, accepted = (sum(getattr(each.tally, name) for each in rounds) for name in ("trials", "accepted"))
    seconds = {
        name: sum(getattr(each.timing, name) for each in rounds) for name in ("draft", "verify", "decide")
    }
    whole = sum(record.outcome.seconds for record in records)
    steps = sum(len(record.outcome.value) for record in records)
    return {
        "rounds": len(rounds),
        "rounds_that_drafted": sum(bool(each.items) for each in rounds),
        "steps_per_round": steps / len(rounds),
        "acceptance": accepted / trials if trials else None,
        "distinct_rows_per_task": sum(
            len({row for step in record.outcome.value for row in step["rows"]}) for record in records
        ) / len(records),
        "drafted_per_round": sum(len(each.items) for each in rounds) / len(rounds),
        "milliseconds_per_step": 1000 * whole / steps,
        "share_of_time": {**{name: each / whole for name, each in seconds.items()},
                          "engine": 1.0 - sum(seconds.values()) / whole},
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", choices=["dense", "dense_384", "dense_hnsw", *LOSING])
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--calibration", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_speculative.json"))
    options = parser.parse_args(arguments)

    import faiss

    faiss.omp_set_num_threads(1)
    case = Case(options.case, options.steps)
    figures: dict[str, Any] = {
        "provenance": provenance("benchmarks.retrieval_speculative"),
        "paper": PAPER.get(options.case),
    }
    figures["cost"] = case.cost()
    write(options.out, options.case, figures)
    print("cost", {name: round(value, 4) for name, value in figures["cost"].items()}, flush=True)

    known = case.tasks(0, options.calibration)
    plain, drafted = in_turn(case.pipeline(0), case.pipeline(Measured(16)), known, twice=False)
    said = predict(drafted, plain, {case.path: options.tasks})[case.path]
    figures["predicted"] = {
        **interval(said), "basis": said.basis, "steps": options.calibration * options.steps
    }  # fmt: skip
    write(options.out, options.case, figures)
    print("predicted", figures["predicted"], flush=True)

    losing = options.case in LOSING
    new = case.tasks(options.calibration, options.tasks)
    last = case.pipeline(Measured(16))
    plain, drafted = in_turn(case.pipeline(0), last, new, twice=losing)
    figures["measured"] = {
        **interval(measured_ratio(drafted, plain)),
        "queries": options.tasks * options.steps,
        "identical": len(new),
        "within_prediction": said.low <= measured_ratio(drafted, plain).value <= said.high,
        "drafting": drafting(drafted),
        "plain": drafting(plain),
        "controller": last.block.report(),
    }
    some = new[: max(2, len(new) // 5)]
    ways = {"plain": case.pipeline(0), "drafted": last}
    figures["measured"]["over_direct"] = over_direct(case, some, ways)
    small = Case(options.case, options.steps, 1000)
    figures["measured"]["plain_step"] = over_direct(small, some, {"plain": small.pipeline(0)})
    if losing:
        ratios = [sum(r.outcome.seconds for r in drafted[i : i + 2]) / sum(r.outcome.seconds for r in plain[i : i + 2])
                  for i in range(0, len(plain), 2)]  # fmt: skip
        figures["measured"]["time_ratio"] = {
            "mean": statistics.fmean(ratios), "median": statistics.median(ratios),
            "at_most_1.02": sum(ratio <= 1.02 for ratio in ratios) / len(ratios),
        }  # fmt: skip
        figures["measured"]["control"] = interval(measured_ratio(plain[1::2], plain[::2]))
    write(options.out, options.case, figures)
    print("measured", json.dumps(figures["measured"], indent=1))


def write(path: Path, case: str, figures: dict[str, Any]) -> None:
    """Put a case's figures beside the others'."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {"cases": {}}
    found["cases"][case] = figures
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
