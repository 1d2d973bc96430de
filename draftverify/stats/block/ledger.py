"""The measured controller's ledger: what drafting has won and lost against not drafting, and what it may still lose."""

from __future__ import annotations

CREDIT = 1.25
"""Plain steps (or whole tasks by the fallback) that drafting may lose before it has won any."""


class Ledger:
    """An account in seconds, or in cost where the parts report it.

    Args:
        allowance: the share of the run's cost that drafting may lose beyond its credit.

    Attributes:
        balance: what drafting may lose now; it is let draft only while this bears what a draft in vain costs.
        won: plain steps (tasks by the fallback) that it has won by now; negative when it has lost.
    """

    def __init__(self, allowance: float) -> None:
        self.allowance = allowance
        self.balance = self.won = 0.0
        self._dearest = 0.0  # the dearest plain step that it was given credit for

    def void(self) -> None:
        """Begin anew in another currency."""
        self.balance = self._dearest = 0.0

    def credit(self, unit: float) -> None:
        """Give credit for plain steps that cost so much: once, and then for what a dearer one is dearer."""
        if unit > self._dearest:
            self.balance += CREDIT * (unit - self._dearest)
            self._dearest = unit

    def allow(self, cost: float) -> None:
        """The run has gone on for so much."""
        self.balance += self.allowance * cost

    def book(self, net: float, unit: float) -> None:
        """Book the plain steps that drafting won (lost), which cost `unit` each."""
        self.balance += net * unit
        self.won += net
