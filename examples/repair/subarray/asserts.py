assert largest_sum([5]) == 5
assert largest_sum([1, -2, 3, 4]) == 7
assert largest_sum([-2, 1, -3, 4, -1, 2, 1, -5, 4]) == 6
assert largest_sum([-3]) == -3
assert largest_sum([-5, -2, -9]) == -2
