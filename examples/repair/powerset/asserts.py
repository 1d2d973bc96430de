assert subsets([]) == [[]]
assert subsets([1]) == [[], [1]]
assert subsets([1, 2]) == [[], [2], [1], [1, 2]]
assert len(subsets([1, 2, 3])) == 8
assert subsets(["a", "b", "c"])[-1] == ["a", "b", "c"]
