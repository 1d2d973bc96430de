"""A DuckDB database whose queries run in a process of their own; TPC-H's, made where it is not there yet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from draftverify import ConfigError, ResourceError

__all__ = ["Database", "QueryError", "Tpch"]

GRACE = 10.0
"""Seconds that the process may take beside its queries, before it is killed."""
ADDRESS_SPACE = 16 << 30
PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")
"""Variables that the process is given; keys and passwords stand in others."""

T = TypeVar("T")


class QueryError(RuntimeError):
    """A request that the database refused as a whole: the query as written fails, or cannot be compared."""


class Database:
    """A DuckDB file, read-only. Its queries run in a process that is killed when one takes too long, and begun anew.

    Parts that are given the same database share the process; one request runs at a time, so that none disturbs
    another's times.

    Args:
        path: of the file.
        threads: of DuckDB. One gives the steadiest times.
        memory: DuckDB's limit, such as "2GB".
    """

    def __init__(self, path: Path, threads: int = 1, memory: str = "2GB") -> None:
        self.path = path
        self.threads = threads
        self.memory = memory
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.RLock()
        self._ratios: dict[tuple[str, str, int], tuple[list[float], list[float]]] = {}

    def file(self) -> Path:
        """The file.

        Raises:
            ResourceError: it is not there.
        """
        if not self.path.is_file():
            raise ResourceError(f"{self.path} is no DuckDB file; make it, or give another path")
        return self.path

    def open(self) -> None:
        """Check that the file and its packages are there; the process starts with the first query.

        Raises:
            ResourceError: they are not.
        """
        need("duckdb", "sqlglot")
        self.file()

    def close(self) -> None:
        """End the process; a later query begins another."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def schema(self) -> str:
        """The tables, as CREATE TABLE statements."""
        found: str = self.ask("schema", limit=GRACE)["ddl"]
        return found

    def ask(self, do: str, *, limit: float, **request: Any) -> dict[str, Any]:
        """One request to the process.

        Args:
            do: "schema", "explain", "refute", "compare" or "time".
            limit: seconds after which the process is killed.
            request: what that takes (see worker.py).

        Raises:
            TimeoutError: it was killed.
            QueryError: the query as written fails, or its results cannot be compared.
            ResourceError: the process ended by itself, as one does for want of memory.
        """
        with self._lock:
            process = self._process = self._process or self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            late = threading.Event()

            def kill() -> None:
                late.set()
                process.kill()

            timer = threading.Timer(limit + GRACE, kill)
            timer.start()
            try:
                process.stdin.write(json.dumps({"do": do, **request}) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            finally:
                timer.cancel()
            if not line:
                process.kill()
                _, said = process.communicate()
                self._process = None
                if late.is_set():
                    raise TimeoutError(f"{do} took longer than {limit:g} s")
                told = said.strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
                raise ResourceError(f"DuckDB's process ended at {do}: {told[0][:300]}")
        answer: dict[str, Any] = json.loads(line)
        if "problem" in answer:
            raise QueryError(f"{do}: {answer['problem']}")
        return answer

    def ratios(self, written: str, own: str, repeats: int, seconds: float) -> tuple[list[float], list[float]]:
        """Seconds of two queries, run in turns so many times; measured once for all that ask.

        Raises:
            TimeoutError: one of them took longer than `seconds`.
        """
        with self._lock:
            key = (written, own, repeats)
            if key not in self._ratios:
                queries = [written, own]
                made = self.ask(
                    "time",
                    queries=queries,
                    repeats=repeats,
                    seconds=seconds,
                    limit=2 * seconds * (repeats + 1),
                )["queries"]
                if any("slow" in each for each in made):
                    raise TimeoutError(f"a query took longer than {seconds:g} s")
                self._ratios[key] = made[0]["seconds"], made[1]["seconds"]
            return self._ratios[key]

    def _started(self) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "draftverify_sql.worker",
            str(self.file()),
            str(self.threads),
            self.memory,
        ]
        here = str(Path(__file__).parents[1])
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [environment.get("PYTHONPATH")])])
        return subprocess.Popen(
            [*command, str(ADDRESS_SPACE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )


class Tpch(Database):
    """TPC-H's data at one scale, made by tpchgen-cli on the first use and kept in a cache directory.

    Args:
        scale: 1 is 1 GB of text; 0.1 has 600,000 lines of orders; 0.01 is the least.
        cache: the directory; `draftverify-sql` in the user's cache when None.
        threads, memory: of DuckDB.
    """

    def __init__(
        self, scale: float = 0.1, cache: Path | None = None, threads: int = 1, memory: str = "2GB"
    ) -> None:
        self.scale = scale
        self.cache = cache
        folder = cache or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "draftverify-sql"
        super().__init__(folder / f"tpch-{scale:g}.duckdb", threads, memory)

    def file(self) -> Path:
        """The file, made first where it is not there.

        Raises:
            ResourceError: tpchgen-cli is missing or failed.
            ConfigError: the scale is below 0.01.
        """
        if not self.scale >= 0.01:
            raise ConfigError(f"scale is {self.scale}; below 0.01 TPC-H's keys are not unique", path="scale")
        if not self.path.is_file():
            self._make()
        return self.path

    def open(self) -> None:
        """Check the packages, and make the data.

        Raises:
            ResourceError: as of `file`.
        """
        need("duckdb", "sqlglot")
        self.file()

    def _make(self) -> None:
        import duckdb

        program = shutil.which(
            "tpchgen-cli",
            path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        )
        if program is None:
            raise ResourceError("TPC-H's data is made by tpchgen-cli: pip install tpchgen-cli")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            command = [program, "parquet", "-s", f"{self.scale:g}", f"--output-dir={folder}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ResourceError(f"tpchgen-cli failed: {done.stderr.strip()[-300:]}")
            new = Path(folder) / "new.duckdb"
            with duckdb.connect(str(new)) as connection:
                ddl = Path(__file__).with_name("tpch.sql").read_text()
                connection.execute(ddl)
                for (table,) in connection.execute(
                    "SELECT table_name FROM duckdb_tables() ORDER BY table_oid"
                ).fetchall():
                    connection.execute(
                        f"INSERT INTO {table} SELECT * FROM read_parquet(?)", [f"{folder}/{table}.parquet"]
                    )
            new.replace(self.path)


def need(*packages: str) -> None:
    """Refuse early and clearly where a package is missing.

    Raises:
        ResourceError: naming what to install.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ResourceError(f"draftverify-sql needs {', '.join(missing)}: pip install {' '.join(missing)}")


def each_alone(
    ask: Callable[[Sequence[str]], list[dict[str, Any]]], queries: Sequence[str]
) -> list[dict[str, Any]]:
    """Ask about all queries at once; where the process died of one, about each alone, so that only that one pays."""
    if not queries:
        return []
    try:
        return ask(queries)
    except (TimeoutError, ResourceError) as error:
        if len(queries) == 1:
            kind = "timeout" if isinstance(error, TimeoutError) else "error"
            return [{"problem": kind, "text": str(error)}]
    return [each_alone(ask, [query])[0] for query in queries]
