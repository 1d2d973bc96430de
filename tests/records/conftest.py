"""Records to store, and the databases to store them in."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from draftverify.bench.records import Store
from draftverify.bench.records.database import sqlite_url

POSTGRES_MISSING = "no PostgreSQL server programs (initdb, pg_ctl) or no psycopg"


class Server:
    """A PostgreSQL server.

    Args:
        url: of its database.
        control: carries out pg_ctl with these arguments.
    """

    def __init__(self, url: str, control: Callable[..., None]) -> None:
        self.url = url
        self.stop = partial(control, "-m", "immediate", "-w", "stop")
        self.start = partial(control, "-w", "start")


@pytest.fixture(scope="session")
def postgres(postgres_server: Server) -> str:
    """The URL of a real PostgreSQL server of our own."""
    return postgres_server.url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A real PostgreSQL server of our own, reached over a socket in a directory of our own."""
    pytest.importorskip("psycopg", reason=POSTGRES_MISSING)
    if not (shutil.which("initdb") and shutil.which("pg_ctl")):
        pytest.skip(POSTGRES_MISSING)
    # The server refuses to run as root; its files and socket then belong to an unprivileged user.
    root = os.geteuid() == 0
    directory = Path("/tmp") / f"dv-pg-{os.getpid()}"
    directory.mkdir(mode=0o700)
    user = {}
    if root:
        nobody = pwd.getpwnam("nobody")
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def run(*command: str) -> None:
        subprocess.run(
            command,
            check=True,
            cwd=directory,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            **user,
        )

    data = directory / "data"
    try:
        run("initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {directory} -c listen_addresses='' -c fsync=off"
        control = partial(run, "pg_ctl", "-D", str(data), "-o", options, "-l", str(directory / "log"))
        server = Server(f"postgresql://tester@/postgres?host={directory}", control)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database URL of either kind."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "records.db")
    server: str = request.getfixturevalue("postgres")
    return server


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    """A run id of the test's own, so that tests can share a server."""
    return f"{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def store(url: str, run_id: str) -> Iterator[Store]:
    """An open store."""
    with Store.open(url, run_id, config_hash="c0ffee", name="test") as opened:
        yield opened
