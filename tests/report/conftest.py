"""Two small real runs that the tests of the report share: one of every shape, one of tokens with a prediction."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.bench.runner.run import run
from tests.experiments.runs import load
from tests.report.runs import shapes


@pytest.fixture(scope="session")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of all shapes."""
    return shapes(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of chains of numbers with words, predicted first; one task of it fails."""
    folder = tmp_path_factory.mktemp("tokens")
    experiment = load(
        folder,
        count=12,
        check=", broken: [t7]",
        more="predict: {limit: 2}",
        policy="[{do: regenerate, times: 3}]",
    )
    return run(experiment, out=folder / "run").path
