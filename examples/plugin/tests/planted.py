"""Wrong rewrites that TPC-H's data agrees with: it has no NULLs, few duplicates and no empty table."""

from __future__ import annotations

PLANTED = {
    "null: NOT IN": (
        "SELECT c_custkey FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders)",
        "SELECT c_custkey FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)",
    ),
    "null: COUNT(x)": (
        "SELECT COUNT(o_clerk) AS n FROM orders WHERE o_totalprice > 1000",
        "SELECT COUNT(*) AS n FROM orders WHERE o_totalprice > 1000",
    ),
    "null: <>": (
        "SELECT s_suppkey FROM supplier WHERE s_acctbal > 100 OR s_acctbal <= 100",
        "SELECT s_suppkey FROM supplier",
    ),
    "duplicate: DISTINCT": (
        "SELECT DISTINCT s_name, s_acctbal FROM supplier",
        "SELECT s_name, s_acctbal FROM supplier",
    ),
    "duplicate: IN as a join": (
        "SELECT p_partkey FROM part WHERE p_name IN (SELECT p_name FROM part WHERE p_size = 15)",
        "SELECT a.p_partkey FROM part a JOIN part b ON a.p_name = b.p_name WHERE b.p_size = 15",
    ),
    "duplicate: UNION": (
        "SELECT c_name FROM customer WHERE c_acctbal < 0 UNION SELECT c_name FROM customer WHERE c_acctbal > 0",
        "SELECT c_name FROM customer WHERE c_acctbal < 0 UNION ALL SELECT c_name FROM customer WHERE c_acctbal > 0",
    ),
    "empty: the count bug": (
        "SELECT n_name, (SELECT COUNT(*) FROM customer WHERE c_nationkey = n_nationkey) AS n FROM nation",
        "SELECT n_name, COUNT(*) AS n FROM nation JOIN customer ON c_nationkey = n_nationkey "
        "GROUP BY n_nationkey, n_name",
    ),
    "empty: an aggregate of nothing": (
        "SELECT SUM(l_quantity) AS q FROM lineitem",
        "SELECT SUM(q) AS q FROM (SELECT SUM(l_quantity) AS q FROM lineitem GROUP BY l_returnflag) HAVING COUNT(*) > 0",
    ),
    "empty: ALL": (
        "SELECT s_suppkey FROM supplier WHERE s_acctbal > ALL (SELECT c_acctbal FROM customer WHERE c_custkey < 3)",
        "SELECT s_suppkey FROM supplier WHERE s_acctbal > (SELECT MAX(c_acctbal) FROM customer WHERE c_custkey < 3)",
    ),
}
