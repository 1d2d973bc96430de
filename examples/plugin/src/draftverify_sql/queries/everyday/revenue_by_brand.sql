-- All lines joined before they are summed.
SELECT p_brand, p_type, SUM(l_quantity) AS quantity, COUNT(*) AS lines
FROM lineitem
JOIN part ON p_partkey = l_partkey
GROUP BY p_brand, p_type;
