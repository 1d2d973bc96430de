"""A bank account that cannot be overdrawn."""


class Refused(Exception):
    """The money is not there."""


class Account:
    def __init__(self):
        self.balance = 0
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("an amount is above zero")
        self.balance += amount
        self.history.append(amount)

    def withdraw(self, amount):
        if amount >= self.balance:
            raise Refused(f"{amount} of {self.balance}")
        self.balance -= amount
        self.history.append(-amount)
