assert median([5]) == 5
assert median([1, 2, 3]) == 2
assert median([9, 1, 5]) == 5
assert median([7, 3, 2, 8, 1]) == 3
assert median([1, 3]) == 2.0
assert median([1, 2, 4, 9]) == 3.0
assert median([4, 1, 9, 2]) == 3.0
assert median([10, 20]) == 15.0
assert median([2, 2, 9, 9]) == 5.5
