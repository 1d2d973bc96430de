"""Sums of money in cents, accounts, and reports on them."""
