assert balanced("") is True
assert balanced("(a[b]{c})") is True
assert balanced("(]") is False
assert balanced("([)]") is False
assert balanced("((") is False
assert balanced("a)") is False
assert balanced("())(") is False
