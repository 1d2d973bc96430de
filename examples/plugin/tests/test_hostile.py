"""SQL that a model wrote can neither reach out of its process nor tell that it is tested; a runaway one is killed."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from draftverify import Proposal, ResourceError
from draftverify.kit import make_context
from draftverify_sql import Database, Tested, database

WRITTEN = "SELECT COUNT(*) AS n FROM nation"
HOSTILE = [
    "SELECT COUNT(*) AS n FROM nation; SELECT 1",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "COPY (SELECT 1) TO '{tmp}/out.csv'",
    "ATTACH '{tmp}/new.db'",
    "INSTALL httpfs",
    "SET memory_limit = '100GB'",
    "PRAGMA database_list",
    "CREATE TABLE t (a INTEGER)",
    "DELETE FROM nation",
    "DROP TABLE nation",
    "EXPLAIN ANALYZE SELECT 1",
    "SELECT COUNT(*) AS n FROM duckdb_tables()",
    "SELECT COUNT(*) AS n FROM information_schema.tables",
    "SELECT * FROM query('SELECT 25 AS n')",
    "SELECT CASE WHEN current_schema() = 'main' THEN 25 ELSE (SELECT COUNT(*) FROM nation) END AS n",
    'SELECT CASE WHEN "random"() < 2 THEN 25 END AS n',
    "SELECT CASE WHEN current_date > DATE '2020-01-01' THEN 25 END AS n",
    "",
    "not SQL\x1b[31m at all",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
]


def test_nothing_but_one_select_over_the_tables_is_run(data: Database, tmp_path: Path) -> None:
    """Each is refused with a word, in one block; nothing is written, and the good one beside them still passes."""
    items = [each.replace("{tmp}", str(tmp_path)) for each in HOSTILE]
    good = "SELECT COUNT(*) AS n FROM (SELECT DISTINCT n_nationkey FROM nation) AS keys"
    tested = Tested(data, samples=5, repeats=2)
    found = tested.verify(
        make_context({"sql": WRITTEN}, role="verify"), Proposal.alternatives([*items, good])
    )
    for item, check in zip(items, found.checks, strict=False):
        assert check.verdict in ("reject", "error"), item
        assert check.reason in ("not permitted", "not valid SQL here", "its process ended"), (item, check)
    assert found.checks[-1].verdict == "pass"
    assert not list(tmp_path.iterdir())


def test_an_answer_learnt_by_heart_is_refuted(data: Database) -> None:
    """The right figures for this data alone."""
    [check] = (
        Tested(data, samples=5, repeats=2)
        .verify(make_context({"sql": WRITTEN}, role="verify"), Proposal.alternatives(["SELECT 25 AS n"]))
        .checks
    )
    assert (check.verdict, check.reason) == ("reject", "differs on a sample: empty")


def test_a_runaway_query_ends_and_the_next_one_runs(data: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that DuckDB interrupts is too slow; a process that does not answer is killed, and begun anew."""
    monkeypatch.setattr("draftverify_sql.verifier.LIMIT", 0.5)
    own = Database(data.path, memory="1GB")
    endless = "SELECT SUM(a.range * b.range) AS n FROM range(1000000) a, range(1000000) b"
    own.schema()
    monkeypatch.setattr(database, "GRACE", 2.5)  # for the query that DuckDB does not interrupt
    huge = "SELECT MAX(repeat('x', 300000000) || range) AS n FROM range(3) GROUP BY range"
    tested = Tested(own, samples=2, repeats=2)
    try:
        started = monotonic()
        context = make_context({"sql": WRITTEN}, role="verify")
        first, second = tested.verify(context, Proposal.alternatives([endless, huge])).checks
        assert (first.verdict, first.reason) == ("reject", "too slow")
        assert second.verdict in ("reject", "timeout", "error")
        assert monotonic() - started < 60  # of hours
        monkeypatch.setattr(database, "GRACE", 0.0)
        with pytest.raises(TimeoutError, match="took longer"):
            own.ask("time", queries=[endless], repeats=1, seconds=600, limit=0.5)
        monkeypatch.undo()
        assert "lineitem" in own.schema()
    finally:
        own.close()


def test_the_process_is_given_no_secrets(data: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the environment stay behind, but for those that it cannot start without."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    own = Database(data.path)
    try:
        own.schema()
        assert own._process is not None
        text = Path(f"/proc/{own._process.pid}/environ")
        if text.exists():
            assert "sk-secret" not in text.read_text()
    finally:
        own.close()


def test_a_missing_file_is_said_at_once(tmp_path: Path) -> None:
    """With its path, before any task runs."""
    with pytest.raises(ResourceError, match="no DuckDB file"):
        Database(tmp_path / "none.duckdb").open()
