-- A function around the column that is filtered.
SELECT l_shipmode, SUM(l_extendedprice) AS price
FROM lineitem
WHERE EXTRACT(YEAR FROM l_shipdate) = 1992
GROUP BY l_shipmode
ORDER BY l_shipmode;
