-- An ORM's filter over a to-many relation: SELECT DISTINCT over joins that only filter.
SELECT DISTINCT c_custkey, c_name, c_address, c_phone, c_comment
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE l_returnflag = 'R';
