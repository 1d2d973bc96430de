-- A chain of OR, as a filter widget builds it.
SELECT p_partkey, p_name
FROM part
WHERE p_brand = 'Brand#11' OR p_brand = 'Brand#22' OR p_brand = 'Brand#33' OR p_brand = 'Brand#44' OR p_brand = 'Brand#55';
