-- GROUP BY every column shown, though one of them is the key.
SELECT c_custkey, c_name, c_address, c_phone, c_comment, COUNT(*) AS orders_placed
FROM customer
JOIN orders ON o_custkey = c_custkey
GROUP BY c_custkey, c_name, c_address, c_phone, c_comment;
