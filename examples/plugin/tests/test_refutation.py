"""Wrong rewrites are refuted where the real data cannot tell them apart, and right ones are not."""

from __future__ import annotations

from typing import Any

import pytest
from planted import PLANTED

from draftverify import Proposal
from draftverify.kit import make_context
from draftverify_sql import Database, Tested
from draftverify_sql.results import Rows, asked, difference


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_rewrite_is_refuted_though_the_data_agrees(data: Database, name: str) -> None:
    """Of each kind; the data has no NULLs, no duplicates and no empty table, so only the samples can tell."""
    written, wrong = PLANTED[name]
    whole = data.ask("compare", written=written, queries=[wrong], seconds=5, rows=100_000, limit=20)
    assert whole["queries"] == [{}]
    small = data.ask("refute", written=written, queries=[wrong], count=10, seed=0, seconds=2, limit=60)
    [said] = small["queries"]
    assert said["problem"] == "differs"
    [check] = checks(data, written, [wrong])
    assert check.verdict == "reject"
    # What DuckDB plans alike on data without NULLs saves nothing, and is not looked at any further.
    assert check.reason in (f"differs on a sample: {said['kind']}", "the same plan")


def test_right_rewrites_pass_and_say_that_they_were_tested(data: Database) -> None:
    """The same in other words; a pass carries the caveat, and the query itself needs none."""
    rich = "SELECT c_custkey FROM customer WHERE c_acctbal > 0"
    written = f"SELECT o_orderkey, o_totalprice FROM orders WHERE o_custkey IN ({rich})"
    right = "SELECT o_orderkey, o_totalprice FROM orders JOIN customer ON c_custkey = o_custkey WHERE c_acctbal > 0"
    other = f"SELECT o_orderkey, o_totalprice FROM orders WHERE EXISTS ({rich} AND c_custkey = o_custkey) ORDER BY 1"
    found = checks(data, written, [right, other, written])
    assert [check.verdict for check in found][1:] == ["pass", "pass"]
    assert found[0].verdict == "pass" or found[0].reason == "the same plan"
    assert found[1].caveat == "tested, not proved"
    assert found[1].score is not None
    assert found[1].score < 1
    assert (found[2].score, found[2].caveat) == (0.0, "")


def test_what_the_schema_promises_is_kept(data: Database) -> None:
    """A key is unique and never NULL, and what a foreign key names is there: rewrites that rely on it stand."""
    pairs = [
        (
            "SELECT DISTINCT c_custkey, c_name FROM customer WHERE c_acctbal > 0",
            "SELECT c_custkey, c_name FROM customer WHERE c_acctbal > 0",
        ),
        ("SELECT COUNT(o_orderkey) AS n FROM orders", "SELECT COUNT(*) AS n FROM orders"),
        (
            "SELECT c_name FROM customer JOIN nation ON n_nationkey = c_nationkey",
            "SELECT c_name FROM customer",
        ),
    ]
    for written, right in pairs:
        said = data.ask("refute", written=written, queries=[right], count=20, seed=3, seconds=2, limit=60)
        assert said["queries"] == [{}], (right, said)
        assert said["telling"] >= 10


def checks(data: Database, written: str, items: list[Any]) -> Any:
    tested = Tested(data, samples=10, repeats=2)
    context = make_context({"sql": written}, role="verify")
    return tested.verify(context, Proposal.alternatives(items)).checks


@pytest.mark.parametrize(
    ("sql", "written", "own", "same"),
    [
        ("SELECT a, b FROM t", [(1, "x"), (1, "x"), (2, None)], [(2, None), (1, "x"), (1, "x")], True),
        ("SELECT a, b FROM t", [(1, "x"), (1, "x"), (2, None)], [(2, None), (2, None), (1, "x")], False),
        (
            "SELECT a, b FROM t ORDER BY a",
            [(1, "x"), (1, "y"), (2, "z")],
            [(1, "y"), (1, "x"), (2, "z")],
            True,
        ),
        (
            "SELECT a, b FROM t ORDER BY a",
            [(1, "x"), (1, "y"), (2, "z")],
            [(1, "y"), (2, "z"), (1, "x")],
            False,
        ),
        ("SELECT a, b FROM t ORDER BY a LIMIT 1", [(1, "x"), (1, "y"), (2, "z")], [(1, "y")], True),
        ("SELECT a, b FROM t ORDER BY a LIMIT 1", [(1, "x"), (1, "y"), (2, "z")], [(1, "w")], False),
        ("SELECT a, b FROM t ORDER BY a LIMIT 1 OFFSET 2", [(1, "x"), (1, "y"), (2, "z")], [(1, "x")], False),
        ("SELECT a, b FROM t LIMIT 2", [(1, "x"), (1, "x"), (2, "z")], [(2, "z"), (2, "z")], False),
        ("SELECT a, b FROM t", [(0.1 + 0.2, 1)], [(0.3, 1)], True),
        ("SELECT a, b FROM t", [(0.3001, 1)], [(0.3, 1)], False),
        ("SELECT a, b FROM t", [(True, 1)], [(1, 1)], False),
        ("SELECT a, b FROM t", [(float("nan"), 1)], [(float("nan"), 1)], True),
        ("SELECT a, b FROM t", [(None, 1)], [(0.0, 1)], False),
    ],
)
def test_results_are_compared_as_the_query_asks(sql: str, written: Any, own: Any, same: bool) -> None:
    """As multisets; in order where there is one, ties free; a limit cuts ties anywhere; floats to nine digits."""
    found = difference(asked(sql), Rows(("a", "b"), written), Rows(("a", "b"), own))
    assert (found is None) == same, found
