import pytest

from ledger.money import parse, show, split


@pytest.mark.parametrize("text, cents", [("0", 0), ("12.30", 1230), ("7.5", 750)])
def test_parse(text, cents):
    assert parse(text) == cents


def test_show():
    assert [show(0), show(5), show(1230)] == ["0.00", "0.05", "12.30"]


def test_split_in_equal_parts():
    assert split(900, 3) == [300, 300, 300]


@pytest.mark.parametrize("cents, parts", [(1000, 3), (5, 4), (0, 2)])
def test_split_loses_nothing(cents, parts):
    shares = split(cents, parts)
    assert sum(shares) == cents
    assert shares == sorted(shares, reverse=True)
    assert max(shares) - min(shares) <= 1


def test_split_into_nothing():
    with pytest.raises(ValueError):
        split(100, 0)
