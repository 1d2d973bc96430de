assert distance({"a": ["b"]}, "a", "a") == 0
assert distance({"a": ["b"]}, "a", "b") == 1
assert distance({"a": ["b"]}, "b", "a") == -1
assert distance({"a": ["b", "c"], "b": ["d"], "c": ["e"], "e": ["d"]}, "a", "d") == 2
assert distance({"a": ["x", "b"], "b": ["c"], "c": ["x"], "x": ["y"], "y": ["z"]}, "a", "z") == 3
assert distance({1: [2, 3], 2: [4], 3: [5], 5: [6], 6: [4], 4: [7]}, 1, 7) == 3
