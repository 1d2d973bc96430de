"""Accounts that keep a list of what was paid."""


class Overdrawn(Exception):
    """More was taken than may be."""


class Account:
    """An account.

    Its balance may go down to `-limit`.
    """

    def __init__(self, limit=0):
        self.limit = limit
        self.entries = []

    @property
    def balance(self):
        return sum(self.entries)

    def deposit(self, cents):
        if cents <= 0:
            raise ValueError("a deposit is more than nothing")
        self.entries.append(cents)

    def withdraw(self, cents):
        if self.balance < cents:
            raise Overdrawn(f"{cents} of {self.balance}")
        self.entries.append(-cents)
