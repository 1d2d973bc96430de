"""One finished run and one in which tasks wait, and the server of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from draftverify.bench.runner.run import run
from tests.experiments.runs import load
from tests.viewer.serving import Served, serving


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the runs `done` and `waits`."""
    root = tmp_path_factory.mktemp("viewer")
    (root / "runs").mkdir()
    run(load(root, count=3), out=root / "runs" / "done")
    waits = load(root, policy="[{do: escalate}]", check=", splice: false", count=3, chance=0.0)
    run(waits, out=root / "runs" / "waits")
    return root / "runs"


@pytest.fixture(scope="session")
def served(runs: Path) -> Iterator[Served]:
    """Their server."""
    with serving(runs) as found:
        yield found
