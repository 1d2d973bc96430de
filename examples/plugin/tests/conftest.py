"""Data for the tests: a tiny TPC-H, made once, and the package's entry points where it is not installed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from draftverify_sql import Database, Tpch

PLUGIN = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "draftverify-sql"


@pytest.fixture(scope="session")
def data(cache: Path) -> Iterator[Database]:
    """15,000 orders, the fewest with which TPC-H keeps its own keys."""
    database = Tpch(0.01, cache=cache)
    database.open()
    yield database
    database.close()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """For a process that finds the package's entry points, installed or not."""
    paths = [str(PLUGIN / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        metadata.version("draftverify-sql")
    except metadata.PackageNotFoundError:
        project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
        info = tmp_path / "site" / "draftverify_sql-0.1.0.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: draftverify-sql\nVersion: 0.1.0\n")
        groups = (
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
            for group, entries in project["entry-points"].items()
        )
        info.joinpath("entry_points.txt").write_text("\n".join(groups))
        paths.append(str(info.parent))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
