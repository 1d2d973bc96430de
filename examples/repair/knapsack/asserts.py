assert best_value([], 5) == 0
assert best_value([(6, 10)], 5) == 0
assert best_value([(5, 10)], 5) == 10
assert best_value([(2, 3)], 6) == 3
assert best_value([(1, 1), (3, 4), (4, 5)], 7) == 9
assert best_value([(2, 3), (3, 4), (5, 8)], 5) == 8
