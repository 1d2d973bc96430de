"""The count of one round's trials, which its record holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from draftverify.values import Check, Decision, Tally, VerdictKind

__all__ = ["tally"]


def tally(n: int, checks: Sequence[Check], decision: Decision) -> Tally:
    """Count one round of any shape.

    With checks, every item whose verdict is pass or reject is a trial, and a passed one is accepted unless the rule
    refused it: a surplus passed item that the rule did not choose still counts. Without checks (evidence only) the
    trials are what the rule kept, held or refused; the rest was not judged.

    Args:
        n: how many items were proposed.
        checks: one per item, or ().
        decision: of the rule.
    """
    if not checks:
        accepted = len(decision.kept) + len(decision.held)
        trials = accepted + len(decision.refused)
        return Tally(trials, accepted, 0, 0, 0, n - trials)
    verdicts = [check.verdict for check in checks]
    accepted = verdicts.count("pass")
    trials = accepted + verdicts.count("reject")
    for refusal in decision.refused:
        if verdicts[refusal.index] == "pass":
            accepted -= 1
    weak = [index for index, check in enumerate(checks) if check.caveat]
    if trials == n and not weak:
        return Tally(trials, accepted)
    refused = {refusal.index for refusal in decision.refused}
    caveats = Counter(
        [checks[index].caveat for index in weak if verdicts[index] == "pass" and index not in refused]
    )
    return Tally(trials, accepted, *map(verdicts.count, _UNJUDGED), dict(caveats))


_UNJUDGED: tuple[VerdictKind, ...] = ("error", "timeout", "abstain", "unchecked")
