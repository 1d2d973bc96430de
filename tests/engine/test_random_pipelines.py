"""Random pipelines: one result, whoever drives them and however often they are interrupted."""

from __future__ import annotations

import pytest

from .random_pipelines import differences


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 80, 20)], ids=str)
def test_every_way_to_run_a_pipeline_gives_the_same_records(seeds: range) -> None:
    """Alone, in a batch, under asyncio with and without coroutines, by the executor, and taken up again from JSON."""
    assert {seed: found for seed in seeds if (found := list(differences(seed)))} == {}
