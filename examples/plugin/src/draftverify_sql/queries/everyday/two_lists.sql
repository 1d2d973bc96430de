-- Two lists put together with UNION, though they cannot overlap.
SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem WHERE l_shipmode = 'AIR'
UNION
SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem WHERE l_shipmode = 'RAIL';
