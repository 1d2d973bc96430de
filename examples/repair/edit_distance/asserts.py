assert distance("", "") == 0
assert distance("abc", "") == 3
assert distance("", "ab") == 2
assert distance("kitten", "sitting") == 3
assert distance("flaw", "lawn") == 2
assert distance("same", "same") == 0
