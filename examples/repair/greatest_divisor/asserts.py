assert greatest(7, 0) == 7
assert greatest(12, 18) == 6
assert greatest(18, 12) == 6
assert greatest(17, 5) == 1
assert greatest(100, 75) == 25
assert greatest(8, 8) == 8
