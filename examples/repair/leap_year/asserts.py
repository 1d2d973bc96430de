assert is_leap(2023) is False
assert is_leap(2024) is True
assert is_leap(1900) is False
assert is_leap(2000) is True
assert is_leap(2100) is False
