assert kth([4], 1) == 4
assert kth([2, 1], 1) == 1
assert kth([2, 1], 2) == 2
assert kth([5, 3, 8, 1, 9], 2) == 3
assert kth([5, 3, 8, 1, 9], 4) == 8
assert kth([2, 2, 2, 1], 3) == 2
assert kth([7, 6, 5, 4], 3) == 6
