-- Dates compared as text.
SELECT o_orderpriority, COUNT(*) AS orders_placed
FROM orders
WHERE strftime(o_orderdate, '%Y-%m') = '1995-03'
GROUP BY o_orderpriority
ORDER BY o_orderpriority;
