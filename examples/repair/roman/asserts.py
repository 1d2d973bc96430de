assert number("I") == 1
assert number("IV") == 4
assert number("VI") == 6
assert number("III") == 3
assert number("XX") == 20
assert number("MCMXCIV") == 1994
