-- Either of two joins will do: an OR in the join condition.
SELECT p_partkey, p_name, s_suppkey
FROM part
JOIN supplier ON s_suppkey = p_partkey OR s_nationkey = p_size
WHERE p_container = 'MED BOX' AND p_brand = 'Brand#23';
