import pytest

from ledger.account import Account, Overdrawn


def test_balance(account):
    account.withdraw(300)
    assert account.balance == 700


def test_down_to_the_limit(account):
    account.withdraw(1500)
    assert account.balance == -500


def test_not_below_the_limit(account):
    with pytest.raises(Overdrawn):
        account.withdraw(1501)
    assert account.entries == [1000]


def test_no_limit_by_itself():
    with pytest.raises(Overdrawn):
        Account().withdraw(1)


def test_deposits_are_positive(account):
    with pytest.raises(ValueError):
        account.deposit(0)
