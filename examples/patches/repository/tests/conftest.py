import pytest

from ledger.account import Account


@pytest.fixture
def account():
    account = Account(limit=500)
    account.deposit(1000)
    return account
