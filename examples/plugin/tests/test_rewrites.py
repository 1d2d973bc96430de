"""Rewrite rules make valid SQL of every shipped query, and those that are always right are."""

from __future__ import annotations

import pytest

from draftverify.kit import Subject, check_component
from draftverify_sql import OWN, SHORTCUTS, SQLGLOT, AsWritten, Database, Queries, Rewrites, Tested
from draftverify_sql.rewrites import rewritten
from draftverify_sql.schema import Schema

TASKS = {task.id: task for task in Queries().load()}
HARD = ("tpch/02", "tpch/04", "tpch/13", "tpch/15", "tpch/18", "tpch/22")
FIRED = {
    "or_to_in": "everyday/one_of_many",
    "date_to_range": "everyday/month_as_text",
    "keys_without_casts": "everyday/keys_as_text",
    "or_to_union_all": "everyday/parties_in_one_order",
    "count_to_exists": "everyday/has_any",
    "counters_to_join": "everyday/customer_counters",
    "in_to_join": "tpch/18",
    "in_to_exists": "tpch/18",
    "exists_to_in": "tpch/04",
    "drop_unread_joins": "everyday/eager_loading",
    "distinct_to_exists": "everyday/customers_who_ordered",
    "group_by_key": "everyday/grouped_by_everything",
    "aggregate_before_join": "everyday/revenue_by_brand",
    "materialise_ctes": "tpch/15",
    "inline_ctes": "tpch/15",
}


@pytest.fixture(scope="module")
def schema(data: Database) -> Schema:
    return Schema.parse(data.schema())


def test_every_rewrite_of_every_query_can_be_planned(data: Database, schema: Schema) -> None:
    """Some hundred texts; DuckDB takes them all, and each rule comes up somewhere. (The benchmark has all queries.)"""
    fired: set[str] = set()
    for task in [task for name, task in TASKS.items() if name.startswith("everyday") or name in HARD]:
        made = list(rewritten(task.input["sql"], schema, [*OWN, *SQLGLOT]))
        texts = [task.input["sql"], *(text for _, text in made)]
        said = data.ask("explain", queries=texts, seconds=5, limit=60)["queries"]
        assert [each["text"] for each in said if "problem" in each] == [], task.id
        fired |= {part for name, _ in made for part in name.split(" + ")}
    assert set(OWN) - fired == set()


@pytest.mark.parametrize("rule", FIRED)
def test_a_sound_rule_is_refuted_by_no_sample(data: Database, schema: Schema, rule: str) -> None:
    """On a query where it changes something, on samples that tell and on the data."""
    assert rule not in SHORTCUTS
    written = TASKS[FIRED[rule]].input["sql"]
    [(_, text), *_] = [pair for pair in rewritten(written, schema, [rule]) if pair[0] == rule]
    both = {"written": written, "queries": [text], "seconds": 5.0, "limit": 60.0}
    small = data.ask("refute", **both, count=4, seed=1)
    assert small["queries"] == [{}]
    assert small["telling"] > 0
    assert data.ask("compare", **both, rows=100_000)["queries"] == [{}]


def test_the_parts_keep_the_contract(data: Database) -> None:
    """draftverify's conformance kit over both generators and the verifier."""
    tested = Tested(data, samples=2, repeats=2)
    task = tested.prepare(TASKS["everyday/one_of_many"])
    check_component(Subject(Rewrites(["or_to_in", "drop_distinct", "sqlglot.simplify"]), tasks=[task]))
    check_component(Subject(AsWritten(), tasks=[task]))
