assert ways(0, [1, 2]) == 1
assert ways(3, [1, 2]) == 2
assert ways(4, [1, 2, 3]) == 4
assert ways(5, [2]) == 0
assert ways(100, [50, 25, 10, 5, 1]) == 292
