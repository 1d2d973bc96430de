assert longest("", "abc") == 0
assert longest("abc", "abc") == 3
assert longest("abcde", "ace") == 3
assert longest("agcat", "gac") == 2
assert longest("xaybz", "ab") == 2
