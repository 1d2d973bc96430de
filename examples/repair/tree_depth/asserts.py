assert depth(None) == 0
assert depth([None, 1, None]) == 1
assert depth([[None, 1, None], 2, None]) == 2
assert depth([None, 1, [None, 2, None]]) == 2
assert depth([[None, 1, None], 2, [None, 3, [None, 4, None]]]) == 3
