"""How figures are written wherever a run is shown: on the terminal, on the page and in the report.

`is_known` is the one rule for figures of which too little has been seen; in their place stands NOT_KNOWN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from draftverify.bench.tables.words import seconds_words

if TYPE_CHECKING:
    from draftverify.stats import DraftingAccount

NOT_KNOWN = "not known yet"

Scale: TypeAlias = Literal["share", "ratio", "number"]

FACTOR = 100.0
"""Between the ends of a ratio's interval; beyond it the interval says nothing."""

WHOLE = 0.99
"""The width of a share's interval that stands as 0 to 100 %."""


def is_known(low: float | None, high: float | None, scale: Scale) -> bool:
    """Whether an interval says anything of its figure.

    It does not where an end is unknown or has no bound. That of a positive ratio says nothing either when it reaches 0
    or its ends differ by more than FACTOR; that of a share (of items, of a run's seconds) when it is
    WHOLE or wider.

    Args:
        low, high: the ends; None or not finite where there is none.
        scale: of the figure.
    """
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return False
    if scale == "ratio":
        return low > 0.0 and high <= FACTOR * low
    return scale == "number" or high - low < WHOLE


def drafting_words(account: DraftingAccount) -> str:
    """What drafting has won or lost, in a sentence: seconds, the share of the run with its interval, against what."""
    stopped = "never stopped" if account.stopped is None else f"stopped after {account.stopped} {account.of}"
    plain = "plain steps" if account.of == "rounds" else "the fallback alone"
    sign, verb, over = (1.0, "lost", "beyond") if account.lost > 0.0 else (-1.0, "won", "over")
    shares = [
        None if end is None or not account.lost else end * abs(account.share / account.lost)
        for end in (account.low, account.high)
    ]
    low, high = shares if sign > 0.0 else [None if end is None else -end for end in shares[::-1]]
    if account.reads == "unclear" and not is_known(low, high, "share"):
        words = f"what it has won or lost against {plain} is {NOT_KNOWN}"
    else:
        share = f"{abs(account.share):.2%} [{low:.2%}, {high:.2%}] of the run"
        amount = f"{verb} {seconds_words(abs(account.lost))} ({share})"
        words = f"no difference from {plain} was seen: by estimate it {amount}"
        if account.reads != "unclear":
            words = f"it {amount} {over} {plain}"
    again = f"; tried again {account.again} time{'s' * (account.again != 1)}" if account.again else ""
    return f"drafting {stopped}; {words}{again}{', and back since' if again and account.back else ''}"
