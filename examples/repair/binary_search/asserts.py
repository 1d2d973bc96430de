assert position([], 3) == -1
assert position([3], 3) == 0
assert position([1, 3, 5, 7], 3) == 1
assert position([1, 3, 5, 7], 7) == 3
assert position([1, 3, 5, 7, 9], 1) == 0
assert position([1, 3, 5, 7, 9], 4) == -1
assert position([1, 3, 5, 7, 9], 9) == 4
