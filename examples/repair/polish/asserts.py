assert value(["3"]) == 3
assert value(["3", "4", "+"]) == 7
assert value(["9", "4", "-"]) == 5
assert value(["2", "3", "4", "*", "+"]) == 14
assert value(["2", "8", "-", "3", "*"]) == -18
