-- COUNT(*) > 0 where EXISTS was meant.
SELECT p_partkey, p_name
FROM part
WHERE (SELECT COUNT(*) FROM lineitem WHERE l_partkey = p_partkey AND l_quantity > 45) > 0;
