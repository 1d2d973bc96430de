assert runs("") == []
assert runs("a") == [["a", 1]]
assert runs("aab") == [["a", 2], ["b", 1]]
assert runs("abba") == [["a", 1], ["b", 2], ["a", 1]]
