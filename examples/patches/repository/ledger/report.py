"""What the entries of accounts add up to."""

from pathlib import Path

from ledger.money import show


def largest(accounts):
    """The largest balance, 0 without accounts."""
    return max(account.balance for account in accounts)


def lines(accounts):
    """A line for each account."""
    return [f"{name}\t{show(account.balance)}" for name, account in accounts.items()]


def export(accounts, path):
    """Write the lines to a file."""
    Path(path).write_text("\n".join(lines(accounts)) + "\n")
