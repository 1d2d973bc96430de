-- Relations that a list view loads and does not show.
SELECT o_orderkey, o_totalprice
FROM orders
LEFT JOIN customer ON c_custkey = o_custkey
LEFT JOIN nation ON n_nationkey = c_nationkey
LEFT JOIN region ON r_regionkey = n_regionkey
WHERE o_totalprice > 50000
ORDER BY o_orderkey;
