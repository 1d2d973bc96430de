-- Keys cast to text on both sides of a join, as where one side was text once.
SELECT c_mktsegment, COUNT(*) AS orders_placed
FROM orders
JOIN customer ON CAST(c_custkey AS VARCHAR) = CAST(o_custkey AS VARCHAR)
GROUP BY c_mktsegment
ORDER BY c_mktsegment;
