"""The hidden tests of every recorded sample: how long they take under isolation, and pass@k.

The recording can be read in three ways, which differ in few programs:

- "recording": completions cut as its SOURCE.txt says, tests as in HumanEval's own harness. This one is timed,
  and PyPI's harness is compared with it.
- "paper": completions cut as the program published with CodeT does, which leaves asserts and decorators that follow the
  function in. The paper's own figures come out.
- "reference": the same, and tests that see the tested function alone. Two tasks' tests call other functions of
  the prompt, and nothing passes them. The figures that this benchmark is held to come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from benchmarks.code.estimators import Targets, failed, pass_at, said_of
from benchmarks.code.recorded import Recording
from draftverify_code.sandbox import Limits, Sandbox, Suite, SuiteFinding

LIMITS = Limits(wall=3.0, cpu=3.0)
"""As PyPI's harness: 3 s."""
LETTERS = {"pass": "p", "reject": "r", "timeout": "t", "error": "e"}
EXPECTED = {
    "paper": {10: 0.503, 100: 0.737},
    "reference": {1: 0.217, 10: 0.496, 100: 0.726},
}
SECONDS = 150.0


def judged(work: Sequence[tuple[Suite, Sequence[str]]], sandbox: Sandbox) -> list[list[SuiteFinding]]:
    """What each suite finds of its programs.

    Two suites are in flight, so that no processor waits for the last program of one.
    """
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda one: sandbox.judge(one[0], one[1], LIMITS), work))


def letters(findings: Sequence[SuiteFinding]) -> str:
    """Their verdicts, a letter each."""
    return "".join(LETTERS[said_of(finding.check)] for finding in findings)


def correct_of(verdicts: Mapping[str, str]) -> dict[str, list[bool]]:
    """Which samples passed, of verdicts written as letters."""
    return {name: [letter == "p" for letter in each] for name, each in verdicts.items()}


def verdicts_of(
    published: Sequence[Recording],
    recordings: Sequence[Recording],
    known: Mapping[str, str],
    sandbox: Sandbox,
) -> dict[str, dict[str, str]]:
    """The verdicts of the other two readings; only what differs from what is known is run.

    Args:
        published: the recording cut as the published program does.
        recordings: the same tasks, cut as the recording says.
        known: the verdicts of these.
        sandbox: open.
    """
    changed = [
        [i for i, pair in enumerate(zip(one.programs, other.programs, strict=True)) if len(set(pair)) > 1]
        for one, other in zip(published, recordings, strict=True)
    ]
    found = judged(
        [
            (one.suite, [one.programs[i] for i in places])
            for one, places in zip(published, changed, strict=True)
        ],
        sandbox,
    )
    paper: dict[str, str] = {}
    for one, places, findings in zip(published, changed, found, strict=True):
        row = list(known[one.task.id])
        for place, letter in zip(places, letters(findings), strict=True):
            row[place] = letter
        paper[one.task.id] = "".join(row)
    alone = [one for one in published if one.suite_alone != one.suite]
    found = judged([(one.suite_alone, one.programs) for one in alone], sandbox)
    others = {one.task.id: letters(findings) for one, findings in zip(alone, found, strict=True)}
    return {"paper": paper, "reference": {**paper, **others}}


def measure(
    recordings: Sequence[Recording], published: Sequence[Recording], *, whole: bool
) -> tuple[dict[str, Any], Targets]:
    """Run them all, and hold the figures against what is known of them.

    Args:
        recordings: what is timed.
        published: the same tasks, cut as the program published with CodeT does.
        whole: whether that is the whole recording, for which the figures hold.
    """
    start = perf_counter()
    with Sandbox() as sandbox:
        findings = judged([(one.suite, one.programs) for one in recordings], sandbox)
        seconds = perf_counter() - start
        known = {one.task.id: letters(each) for one, each in zip(recordings, findings, strict=True)}
        verdicts = {"recording": known, **verdicts_of(published, recordings, known, sandbox)}
        tier = sandbox.tier
    checks = [finding.check for each in findings for finding in each]
    distinct = sum(len(set(one.programs)) for one in recordings)
    rates = {name: {k: pass_at(correct_of(each), k) for k in (1, 10, 100)} for name, each in verdicts.items()}
    targets = Targets()
    if whole:
        targets.at_most("seconds for all hidden tests", seconds, SECONDS)
        for name, expected in EXPECTED.items():
            for k, value in expected.items():
                targets.near(f"pass@{k} ({name})", rates[name][k].value, value, 0.002)
    targets.holds("failed checks", failed(checks), "0", failed(checks) == 0)
    return {
        "isolation": tier,
        "programs": len(checks),
        "distinct_programs": distinct,
        "seconds": seconds,
        "programs_per_second": len(checks) / seconds,
        "distinct_programs_per_second": distinct / seconds,
        "pass_at": rates,
        "reasons": dict(Counter(f"{said_of(one)} {one.reason}".strip() for one in checks).most_common()),
        "seconds_of_programs": sum(one.seconds for each in findings for one in each),
        "programs_cut_otherwise": sum(
            mine != other
            for one, two in zip(recordings, published, strict=True)
            for mine, other in zip(one.programs, two.programs, strict=True)
        ),
        "verdicts": verdicts,
    }, targets
