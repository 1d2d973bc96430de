-- A list view with three counters, each a correlated subquery of its own.
SELECT c_custkey, c_name,
  (SELECT COUNT(*) FROM orders WHERE o_custkey = c_custkey) AS orders_placed,
  (SELECT SUM(o_totalprice) FROM orders WHERE o_custkey = c_custkey) AS spent,
  (SELECT MAX(o_orderdate) FROM orders WHERE o_custkey = c_custkey) AS last_order
FROM customer;
