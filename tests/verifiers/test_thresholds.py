"""`at_threshold`: the checks of one threshold, read at another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check
from draftverify.checks.verifiers import at_threshold

scores = st.none() | st.floats(-2, 2)


def judged(score: float | None, threshold: float) -> Check:
    """What a verifier of this threshold says."""
    if score is None:
        return Check("abstain", reason="too long")
    return Check("pass", score) if score >= threshold else Check("reject", score, "low")


@given(st.lists(scores, max_size=5), st.floats(-2, 2), st.floats(-2, 2))
def test_it_is_what_a_verifier_of_that_threshold_says(found, first, second):
    """Passes and rejections by the score; what has none stays."""
    checks = [judged(score, first) for score in found]
    assert at_threshold(checks, second, "low") == tuple(judged(score, second) for score in found)


def test_a_rejection_for_another_reason_stays():
    """Without a score nothing is known of it; corrections and caveats are kept."""
    empty, weak = Check("reject", reason="empty passage"), Check("pass", 0.5, correction="x", caveat="few")
    assert at_threshold([empty, weak], 0.7, "low") == (
        empty,
        Check("reject", 0.5, "low", correction="x", caveat="few"),
    )
