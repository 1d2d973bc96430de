import unittest

from program import run


class Words(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(run("1 -2 3"), [1, -2, 3])

    def test_dup(self):
        self.assertEqual(run("4 dup"), [4, 4])

    def test_swap(self):
        self.assertEqual(run("1 2 swap"), [2, 1])

    def test_add(self):
        self.assertEqual(run("1 2 add"), [3])

    def test_drop(self):
        self.assertEqual(run("1 2 drop"), [1])

    def test_nothing(self):
        self.assertEqual(run(""), [])
