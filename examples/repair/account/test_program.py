import unittest

from program import Account, Refused


class Withdrawals(unittest.TestCase):
    def setUp(self):
        self.account = Account()
        self.account.deposit(10)

    def test_part(self):
        self.account.withdraw(4)
        self.assertEqual(self.account.balance, 6)

    def test_all(self):
        self.account.withdraw(10)
        self.assertEqual(self.account.balance, 0)

    def test_more(self):
        with self.assertRaises(Refused):
            self.account.withdraw(11)
        self.assertEqual(self.account.history, [10])


class Deposits(unittest.TestCase):
    def test_nothing(self):
        with self.assertRaises(ValueError):
            Account().deposit(0)

    def test_twice(self):
        account = Account()
        account.deposit(2)
        account.deposit(3)
        self.assertEqual((account.balance, account.history), (5, [2, 3]))
