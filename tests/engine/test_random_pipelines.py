"""Random pipelines: one result, whoever drives them and however often they are interrupted."""

from __future__ import annotations

import pytest

from .random_pipelines import differences, interruptions

RUN_ALL = [range(start, start + 20) for start in range(40, 400, 20)]
TAKEN_UP_ALL = [range(start, start + 1_000) for start in range(300, 20_300, 1_000)]


@pytest.mark.parametrize(
    "seeds",
    [range(40), *(pytest.param(seeds, marks=pytest.mark.exhaustive) for seeds in RUN_ALL)],
    ids=str,
)
def test_every_way_to_run_a_pipeline_gives_the_same_records(seeds: range) -> None:
    """Alone, in a batch, under asyncio with and without coroutines, by the executor, and taken up again from JSON."""
    assert {seed: found for seed in seeds if (found := list(differences(seed)))} == {}


@pytest.mark.parametrize(
    "seeds",
    [range(300), *(pytest.param(seeds, marks=pytest.mark.exhaustive) for seeds in TAKEN_UP_ALL)],
    ids=str,
)
def test_a_task_is_the_same_live_restored_at_every_round_and_through_json(seeds: range) -> None:
    """Failing calls included: drafts, checks, re-checks, fallbacks, and a person who cannot be reached."""
    assert {seed: found for seed in seeds if (found := list(interruptions(seed)))} == {}
