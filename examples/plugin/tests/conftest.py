"""Data for the tests: a tiny TPC-H, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from draftverify_sql import Database, Tpch


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
