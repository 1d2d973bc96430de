"""The measured controller's ledger and its probes, on a clock without noise: when it tries again, and at what cost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from draftverify.stats.block import Measured
from tests.lab.simulated import Machine


def machine(accept: Any, **parts: Any) -> Machine:
    """One without noise, whose prompts cost nothing."""
    return Machine(accept, **{"noise": 0.0, "prompt": 0.0, **parts})


def never(task: int, round: int) -> float:
    """Nothing is accepted."""
    return 0.0


def drafted(asked: list[tuple[int, ...]]) -> list[int]:
    """The passes that were asked to draft."""
    return [index for index, sizes in enumerate(asked) if max(sizes)]


def test_probing_costs_the_allowance_no_more_and_no_less() -> None:
    """Of drafts that are never right, and cost a plain step an item, one in 200 is made: half a per cent of the run."""
    played, block = machine(never, verify=lambda n: 1.0 + n), Measured()
    played.task(0, block, 6000)
    late = [index for index in drafted(played.asked) if index >= 2000]
    assert 18 <= len(late) <= 22
    assert {played.asked[index] for index in late} == {(1,)}
    assert -1.25 - 0.005 * 6000 <= block.report()["won"] <= -0.9 * 0.005 * 6000
    generous, more = machine(never, verify=lambda n: 1.0 + n), Measured(allowance=0.01)
    generous.task(0, more, 6000)
    assert len(drafted(generous.asked)) > 1.8 * len(drafted(played.asked))


def test_probes_are_short() -> None:
    """Where a block is not expected to pay, two items are enough to see whether that has changed."""
    played = machine(lambda task, round: 0.9 if round < 400 else 0.0, verify=lambda n: 1.0 + 0.3 * n)
    played.task(0, Measured(), 4000)
    sizes = [max(sizes) for sizes in played.asked]
    assert max(sizes[:400]) > 4
    late = [n for n in sizes[600:] if n]
    assert late
    assert max(late) <= 2


@pytest.mark.parametrize("size", [1, 3])
def test_it_tries_again_however_long_drafts_were_wrong(size: int) -> None:
    """After thousands of passes in vain it drafts within a hundred of them once drafts are right."""
    played = machine(
        lambda task, round: 0.0 if round < 3000 * size else 0.9, rows=lambda rows: 1.0 + 0.001 * rows
    )
    played.batch(range(size), Measured(), lambda task: 4000, size)
    found = drafted(played.asked)
    assert sum(index < 3000 for index in found) < 500
    soon = [index for index in found if 3100 <= index < 3150]
    assert len(soon) > 40


def test_a_batch_waits_between_probes_in_vain() -> None:
    """Longer and longer, to at most 64 plain passes; never two in a row."""
    played = machine(never, rows=lambda rows: 1.0 + 0.001 * rows)
    played.batch(range(3), Measured(), lambda task: 1000, 3)
    gaps = [b - a for a, b in pairwise(index for index in drafted(played.asked) if index > 20)]
    assert len(gaps) > 10
    assert set(gaps) <= {65, 66}


def test_looks_in_vain_are_in_the_ledger_and_in_the_report() -> None:
    """A generator that finds nothing costs its look: the run has lost that, and looks no more than it may."""
    played, block = machine(lambda task, round: 0.9, found=0.0, draft=lambda n: 0.3), Measured()
    played.task(0, block, 2000)
    looks = len(drafted(played.asked))
    assert block.report()["won"] == pytest.approx(-0.3 * looks, rel=0.05)
    assert 0.3 * looks <= 1.25 + 0.3 + 0.005 * 2000


def test_the_credit_is_given_once() -> None:
    """However many batch sizes are met: a dearer one adds what it is dearer, and nothing that was lost before."""
    block = Measured(allowance=0.0)
    for size in (1, 2, 3, 5, 8, 13, 21, 34):
        played = machine(never, draft=lambda n: 0.9 * n, rows=lambda rows: 1.0 + 0.05 * rows)
        played.batch(range(size), block, lambda task: 60, size)
    assert -1.25 <= block.report()["won"] < 0.0


def test_a_machine_that_has_become_faster_is_timed_again_soon() -> None:
    """Blocks that take less than an empty one say so: a plain pass comes within eight, and not after up to 32."""

    def plain(change: int | None) -> list[int]:
        def accept(task: int, round: int) -> float:
            played.slow = 0.3 if change is not None and round >= change else 1.0
            return 0.9

        played = machine(accept)
        played.task(0, Measured(), 3000)
        return [index for index, sizes in enumerate(played.asked) if not max(sizes)]

    before = next(index for index in plain(None) if index > 100)
    after = next(index for index in plain(before + 1) if index > before)
    assert after - before <= 8
    assert next(index for index in plain(None) if index > before) - before > 30
