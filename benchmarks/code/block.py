"""The parallel-pass property: what a block of n programs costs against n single checks, stage by stage.

A stage's block and its singles are timed in turns. The singles are a few programs out of the block, each in a pass of
its own; n of them are said to cost n times their mean. All programs of a block differ (those of the tests by a comment,
where the recording has too few), so nothing is run once for many.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.code.estimators import Targets, ratio, said_of
from benchmarks.code.recorded import Recording
from draftverify import Proposal, ResourceError, Task, Verifier
from draftverify.kit import make_context
from draftverify_code.sandbox import default_sandbox
from draftverify_code.stages.compile import Compile
from draftverify_code.stages.ir import Ir
from draftverify_code.stages.lint import Lint
from draftverify_code.stages.syntax import Syntax
from draftverify_code.stages.tests import Tests
from draftverify_code.stages.types import Types

SIZES = (1, 10, 100, 1000)
SINGLES = 5
DEAR = 30.0  # seconds; after a block that took longer, larger ones are left out


class Subject(NamedTuple):
    """A stage and what it is timed on.

    Args:
        name: for the table.
        stage: opened.
        task: of all the programs.
        programs: all different.
    """

    name: str
    stage: Verifier
    task: Task
    programs: Sequence[str]


class Row(NamedTuple):
    """One stage at one size: seconds of the block, and of a single check; one of each per repeat."""

    stage: str
    n: int
    block: list[float]
    single: list[float]

    def plain(self) -> dict[str, Any]:
        """For the table: milliseconds per program, and how many times cheaper the block is, with an interval."""
        return {
            "stage": self.stage,
            "n": self.n,
            "block_ms_per_program": 1e3 * float(np.median(self.block)) / self.n,
            "single_ms_per_program": 1e3 * float(np.median(self.single)),
            "singles_over_block": ratio([self.n * one for one in self.single], self.block),
            "seconds_of_block": self.block,
            "seconds_of_single": self.single,
        }


def python_programs(recordings: Sequence[Recording], most: int) -> list[str]:
    """Different recorded programs, taken from all tasks in turn."""
    found: dict[str, None] = {}
    for index in range(max(len(one.completions) for one in recordings)):
        for one in recordings:
            if index < len(one.completions):
                found[one.task.input["prompt"] + one.completions[index]] = None
    return list(found)[:most]


def c_programs(most: int) -> list[str]:
    """Small C programs, all different."""
    return [
        "#include <stdio.h>\n"
        f"static int f{i}(int x) {{ int s = {i}; for (int k = 0; k < x; k++) s += k * {i % 7}; return s; }}\n"
        f'int main(void) {{ int x; if (scanf("%d", &x) != 1) return 1; printf("%d\\n", f{i}(x)); return 0; }}\n'
        for i in range(most)
    ]


def ir_programs(most: int) -> list[str]:
    """Small functions in LLVM's language, all different."""
    return [
        f"define i32 @f(i32 %x) {{\nentry:\n  %a = mul i32 %x, {i}\n  %b = add i32 %a, {i % 13}\n  ret i32 %b\n}}\n"
        for i in range(most)
    ]


def timed(subject: Subject, programs: Sequence[str]) -> float:
    """Seconds of one pass."""
    context = make_context(subject.task, role="verify")
    proposal = Proposal.alternatives(tuple(programs))
    start = perf_counter()
    found = subject.stage.verify(context, proposal)
    seconds = perf_counter() - start
    failed = [check for check in found.checks if check.verdict == "error"]
    if failed:
        raise ResourceError(f"{subject.name}: {len(failed)} checks failed: {failed[0].feedback[:300]}")
    return seconds


def rows_of(subject: Subject, repeats: int) -> list[Row]:
    """Time one stage at every size that it has programs for, singles and blocks in turns."""
    sizes = [n for n in SIZES if n <= len(subject.programs)]
    rows = [Row(subject.name, n, [], []) for n in sizes]
    timed(subject, subject.programs[:2])  # starts servers, fills caches of files
    dice = np.random.default_rng(0)
    too_dear: set[int] = set()
    for _ in range(repeats):
        for row in rows:
            if row.n in too_dear:
                continue
            chosen = dice.choice(len(subject.programs), row.n, replace=False)
            block = [subject.programs[i] for i in chosen]
            singles = [block[i] for i in dice.choice(row.n, min(SINGLES, row.n), replace=False)]
            # Half of the singles before the block and half after, so that a drift of the machine hits both alike.
            half = len(singles) // 2
            took = [timed(subject, [one]) for one in singles[:half]]
            row.block.append(timed(subject, block))
            took += [timed(subject, [one]) for one in singles[half:]]
            row.single.append(float(np.mean(took)))
            if row.block[-1] > DEAR:
                too_dear |= {n for n in sizes if n > row.n}
    return [row for row in rows if row.block]


def subjects(recordings: Sequence[Recording]) -> tuple[list[Subject], dict[str, str]]:
    """What can be timed on this machine, and why the rest cannot."""
    python = python_programs(recordings, max(SIZES))
    some = recordings[0].task
    # Time limits are no cost of a pass: the tests' programs are those that end by themselves.
    varied = max(recordings, key=lambda one: len(set(one.programs)))
    distinct = list(dict.fromkeys(varied.programs))
    found = default_sandbox().judge(varied.suite, distinct)
    ending = [
        text for text, one in zip(distinct, found, strict=True) if said_of(one.check) in ("pass", "reject")
    ]
    commented = [f"{ending[i % len(ending)]}\n# {i}\n" for i in range(max(SIZES))]
    every = [
        Subject("syntax", Syntax(), some, python),
        Subject("lint", Lint(), some, python),
        Subject("types: mypy", Types(), some, python),
        Subject("compile: C", Compile(), Task(id="c", input={"language": "c"}), c_programs(100)),
        Subject("ir", Ir(), Task(id="ir", input={"language": "llvm"}), ir_programs(max(SIZES))),
        Subject("tests", Tests(), varied.task, commented),
    ]
    usable, missing = [], {}
    for subject in every:
        try:
            if hasattr(subject.stage, "open"):
                subject.stage.open()
            timed(subject, subject.programs[:1])
        except ResourceError as error:
            missing[subject.name] = str(error)
        else:
            usable.append(subject)
    return usable, missing


def measure(recordings: Sequence[Recording], *, repeats: int) -> tuple[dict[str, Any], Targets]:
    """Time every stage that this machine has.

    Args:
        recordings: where the Python programs come from.
        repeats: of every size.
    """
    usable, missing = subjects(recordings)
    rows = [row for subject in usable for row in rows_of(subject, repeats)]
    table = [row.plain() for row in rows]
    for row in table:
        times = row["singles_over_block"]
        print(
            f"{row['stage']:16} {row['n']:5}  {row['block_ms_per_program']:9.3f} ms each in a block  "
            f"{row['single_ms_per_program']:9.2f} ms alone  {times.value:6.1f} × [{times.low:.1f}, {times.high:.1f}]",
            flush=True,
        )
    targets = Targets()
    for row in table:
        if row["n"] == 100:
            cheaper = row["singles_over_block"]
            targets.at_least(f"{row['stage']}: 100 single checks over a block of 100", cheaper.value, 1.0)
    return {
        "isolation": default_sandbox().tier,
        "repeats": repeats,
        "not_here": missing,
        "compiler": shutil.which("cc"),
        "table": table,
    }, targets
