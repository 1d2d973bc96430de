"""Random pipelines: one result, whoever drives them and however often they are interrupted."""

from __future__ import annotations

import pytest

from .random_pipelines import differences, interruptions

TAKEN_UP = [range(250), range(250, 500)]
TAKEN_UP_ALL = [range(start, start + 1_000) for start in range(500, 20_500, 1_000)]


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 80, 20)], ids=str)
def test_every_way_to_run_a_pipeline_gives_the_same_records(seeds: range) -> None:
    """Alone, in a batch, under asyncio with and without coroutines, by the executor, and taken up again from JSON."""
    assert {seed: found for seed in seeds if (found := list(differences(seed)))} == {}


@pytest.mark.parametrize(
    "seeds",
    [*TAKEN_UP, *(pytest.param(seeds, marks=pytest.mark.exhaustive) for seeds in TAKEN_UP_ALL)],
    ids=str,
)
def test_a_task_is_the_same_live_restored_at_every_round_and_through_json(seeds: range) -> None:
    """Failing calls included: drafts, checks, re-checks, fallbacks, and a person who cannot be reached."""
    assert {seed: found for seed in seeds if (found := list(interruptions(seed)))} == {}
