"""Selection by generated tests: CodeT's dual execution agreement, and the best of n by the share of tests passed.

For the three readings of the recording that `hidden` tells of. Programs that two readings share are run once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, get_args

import numpy as np

from benchmarks.code.estimators import Targets, agreement, best_of, failed, over_tasks, pass_at
from benchmarks.code.hidden import correct_of
from benchmarks.code.recorded import Recording
from draftverify import Evidence, Proposal, Task, Verification
from draftverify.kit import make_context, make_draws
from draftverify.rules import BestStep, DualAgreement
from draftverify.rules.agreement import Support
from draftverify.stats import pass_at_k
from draftverify_code.agreement import GeneratedTests
from draftverify_code.sandbox import Sandbox

SIZES = (1, 2, 4, 8, 16, 32, 64, 100)
EXPECTED = {1: 0.217, 4: 0.293, 100: 0.200}
"""Best of n by the share of generated tests passed, of the reading "reference"."""
AGREEMENT = {"paper": 0.367, "reference": 0.360}
TIMEOUT = 3.0  # seconds for all generated tests of a program: 50 different ones on average


def verified(work: Sequence[tuple[Task, Sequence[str]]], tests: Path, sandbox: Sandbox) -> list[Verification]:
    """Every program against every generated test of its task, by the adapter's own verifier."""
    verifier = GeneratedTests(path=tests, match="prompt", timeout=TIMEOUT, sandbox=sandbox)
    verifier.open()

    def verify(one: tuple[Task, Sequence[str]]) -> Verification:
        return verifier.verify(make_context(one[0], role="verify"), Proposal.alternatives(tuple(one[1])))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(verify, work))


def parted(found: Verification, programs: Sequence[str], wanted: Sequence[str]) -> Verification:
    """The verification of some of the programs that were verified."""
    places = [programs.index(program) for program in wanted]
    evidence = Evidence(cross=found.evidence.cross[places])  # type: ignore[union-attr, index]
    return Verification(checks=tuple(found.checks[place] for place in places), evidence=evidence)


def chosen(rule: Any, one: Recording, found: Verification) -> int | None:
    """The sample that a rule keeps of one task's hundred."""
    proposal = Proposal.alternatives(tuple(one.programs))
    decision = rule.decide(make_context(one.task), proposal, found, make_draws(one.task.id))
    return decision.kept[0] if decision.kept else None


def figures(
    recordings: Sequence[Recording],
    found: Mapping[str, Verification],
    correct: Mapping[str, Sequence[bool]],
) -> dict[str, Any]:
    """Accuracy of every way to choose one sample, over tasks; `by_lot` breaks ties by lot, `rule` is what a rule keeps.

    Where no sample passes any test (or there is no test) a sample is taken by lot, as in the program published with
    CodeT; `none` counts those tasks.
    """
    sizes = [n for n in SIZES if n <= min(map(len, correct.values()))]
    lot = {name: pass_at_k(len(each), sum(each), 1) for name, each in correct.items()}
    result: dict[str, Any] = {"pass_at": {n: pass_at(correct, n) for n in sizes}}
    for support in get_args(Support):
        by_lot, by_rule, none = [], [], 0
        for one in recordings:
            name = one.task.id
            right = agreement(found[name].evidence.cross, correct[name], support)  # type: ignore[union-attr]
            none += right is None
            by_lot.append(lot[name] if right is None else right)
            kept = chosen(DualAgreement(support), one, found[name])
            by_rule.append(lot[name] if kept is None else float(correct[name][kept]))
        result[f"agreement_{support}"] = {
            "by_lot": over_tasks(by_lot),
            "rule": over_tasks(by_rule),
            "none": none,
        }
    scores = {
        name: [-1.0 if check.score is None else check.score for check in each.checks]
        for name, each in found.items()
    }
    result["best_of"] = {
        n: over_tasks([best_of(scores[one.task.id], correct[one.task.id], n) for one in recordings])
        for n in sizes
    }
    kept_best = [(one.task.id, chosen(BestStep(), one, found[one.task.id])) for one in recordings]
    result["best_of_all_by_rule"] = over_tasks(
        [lot[name] if kept is None else float(correct[name][kept]) for name, kept in kept_best]
    )
    return result


def measure(
    recordings: Sequence[Recording],
    published: Sequence[Recording],
    tests: Path,
    verdicts: Mapping[str, Mapping[str, str]],
    *,
    whole: bool,
) -> tuple[dict[str, Any], Targets]:
    """Run every sample against every generated test, and hold the figures against what is known of them.

    Args:
        recordings: the samples, cut as the recording says.
        published: the same, cut as the program published with CodeT does.
        tests: the recorded generated tests.
        verdicts: what the hidden tests say, by reading and task.
        whole: whether that is the whole recording, for which the figures hold.
    """
    pools = [
        list(dict.fromkeys([*one.programs, *other.programs]))
        for one, other in zip(recordings, published, strict=True)
    ]
    start = perf_counter()
    with Sandbox() as sandbox:
        work = [(one.task, pool) for one, pool in zip(recordings, pools, strict=True)]
        found = verified(work, tests, sandbox)
        tier = sandbox.tier
    seconds = perf_counter() - start
    readings = {}
    for name, correct in verdicts.items():
        samples = recordings if name == "recording" else published
        parts = {
            one.task.id: parted(each, pool, one.programs)
            for one, pool, each in zip(samples, pools, found, strict=True)
        }
        readings[name] = figures(samples, parts, correct_of(correct))
    checks = [check for each in found for check in each.checks]
    crosses: list[Any] = [each.evidence.cross for each in found if each.evidence is not None]
    targets = Targets()
    if whole:
        for name, expected in AGREEMENT.items():
            targets.near(
                f"CodeT's selection ({name})",
                readings[name]["agreement_count"]["by_lot"].value,
                expected,
                0.005,
            )
        best = {n: each.value for n, each in readings["reference"]["best_of"].items()}
        for n, expected in EXPECTED.items():
            targets.near(f"best of {n} by generated tests (reference)", best[n], expected, 0.01)
        turns = best[100] < best[1] < best[4]
        targets.holds("best of n turns down", best, "100 below 1 below 4", turns)
    targets.holds("failed checks", failed(checks), "0", failed(checks) == 0)
    return {
        "isolation": tier,
        "seconds": seconds,
        "distinct_programs": sum(map(len, pools)),
        "generated_tests": sum(cross.shape[1] for cross in crosses),
        "pairs": sum(cross.size for cross in crosses),
        "pairs_not_run": sum(int(np.isnan(cross).sum()) for cross in crosses),
        **readings,
    }, targets
