"""What blocks of chains and alternatives are expected to come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.stats import geometric_progress


@given(st.floats(0.0, 0.99), st.integers(1, 20))
def test_chain_progress_is_leviathans(alpha: float, n: int) -> None:
    """With one acceptance rate and one spliced item, expected progress is (1 − α^{n+1}) / (1 − α)."""
    assert 1 + geometric_progress(alpha, alpha, n)[-1] == pytest.approx((1 - alpha ** (n + 1)) / (1 - alpha))


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(1, 20))
def test_alternatives_progress_is_the_chance_of_one(first: float, later: float, n: int) -> None:
    """At least one of n: one minus the chance that all miss."""
    assert geometric_progress(first, later, n, alternatives=True)[-1] == pytest.approx(
        1 - (1 - first) * (1 - later) ** (n - 1)
    )
