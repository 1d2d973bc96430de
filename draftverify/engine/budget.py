"""Budgets: looked at before the next call, so that an answer already paid for is never thrown away."""

from __future__ import annotations

import math

import msgspec

from draftverify.errors import PipelineError


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one task may use; None for no bound.

    Args:
        rounds: propose–verify–decide rounds. The default only guards against a loop that nothing else ends.
        seconds: summed over the task's calls; waiting for a person is not counted.
        verifier_calls: passes of the verifier, re-verifications too.
        cost: the sum of what the parts say that they cost.
    """

    rounds: int | None = 100_000
    seconds: float | None = None
    verifier_calls: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            is_count = name in ("rounds", "verifier_calls")
            if limit is not None and (
                isinstance(limit, bool) or not isinstance(limit, int if is_count else (int, float))
            ):
                kind = "whole number" if is_count else "number"
                raise PipelineError(
                    f"the budget's {name} are {limit!r}; a {kind} is needed, or None for no bound"
                )
            if limit is not None and not limit >= 0:
                raise PipelineError(f"the budget's {name} is {limit}; it cannot be negative")

    @property
    def rounds_within(self) -> float:
        """Below so many rounds no limit is reached, whatever else was used; 0 where more than rounds are bounded."""
        if not (self.seconds is None and self.verifier_calls is None and self.cost is None):
            return 0
        return math.inf if self.rounds is None else self.rounds

    def exceeded(self, rounds: int, seconds: float, verifier_calls: int, cost: float) -> str | None:
        """Which limit is reached by what was used, in words, or None."""
        if self.rounds is not None and rounds >= self.rounds:
            return f"the budget of {self.rounds} rounds is spent"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the budget of {self.seconds:g} seconds is spent"
        if self.verifier_calls is not None and verifier_calls >= self.verifier_calls:
            return f"the budget of {self.verifier_calls} verifier calls is spent"
        if self.cost is not None and cost >= self.cost:
            return f"the cost budget of {self.cost:g} is spent"
        return None
