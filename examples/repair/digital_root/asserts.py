assert root(0) == 0
assert root(7) == 7
assert root(10) == 1
assert root(38) == 2
assert root(999) == 9
assert root(493193) == 2
