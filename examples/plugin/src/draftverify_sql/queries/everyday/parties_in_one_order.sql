-- Orders that concern a customer or a supplier of one account balance band, by OR over two subqueries.
SELECT o_orderkey, o_totalprice
FROM orders
WHERE o_custkey IN (SELECT c_custkey FROM customer WHERE c_acctbal > 9900)
  OR o_orderkey IN (SELECT l_orderkey FROM lineitem JOIN supplier ON s_suppkey = l_suppkey WHERE s_acctbal > 9900);
