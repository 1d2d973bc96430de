"""The count of one round's trials, which its record holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from draftverify.values import Check, Decision, Tally, VerdictKind


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
    accepted = rejected = 0
    is_weak = False
    for check in checks:
        if check.verdict == "pass":
            accepted += 1
        elif check.verdict == "reject":
            rejected += 1
        if check.caveat:
            is_weak = True
    trials = accepted + rejected
    for refusal in decision.refused:
        if checks[refusal.index].verdict == "pass":
            accepted -= 1
    if trials == n and not is_weak:
        return Tally(trials, accepted)
    verdicts = [check.verdict for check in checks]
    refused = {refusal.index for refusal in decision.refused}
    passed = [check for i, check in enumerate(checks) if check.verdict == "pass" and i not in refused]
    caveats = Counter([check.caveat for check in passed if check.caveat])
    errors, timeouts, abstentions, unchecked = map(verdicts.count, _UNJUDGED)
    return Tally(trials, accepted, errors, timeouts, abstentions, unchecked, dict(caveats))


_UNJUDGED: tuple[VerdictKind, ...] = ("error", "timeout", "abstain", "unchecked")
