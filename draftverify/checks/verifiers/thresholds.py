"""What a verifier whose scores decide says at another threshold, from checks that it gave at one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from draftverify.values import Check


def at_threshold(checks: Iterable[Check], threshold: float, reason: str) -> tuple[Check, ...]:
    """The checks with "pass" from the threshold on, and "reject" below; those without a score stay as they are.

    Args:
        checks: of one block.
        threshold: in the unit of the scores.
        reason: of what is rejected.

    Examples:
        >>> at_threshold([Check("pass", score=0.6)], 0.7, "no answer")[0].verdict
        'reject'
    """
    return tuple(
        check
        if check.score is None or check.verdict not in ("pass", "reject")
        else replace(check, verdict="pass", reason="")
        if check.score >= threshold
        else replace(check, verdict="reject", reason=reason)
        for check in checks
    )
