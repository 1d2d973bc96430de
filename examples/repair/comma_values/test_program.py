import pytest
from program import fields


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("a,,b", ["a", "", "b"]),
        ('"a,b",c', ["a,b", "c"]),
        ('x,"y"', ["x", "y"]),
    ],
)
def test_fields(line, expected):
    assert fields(line) == expected
