"""Slips that authors make: each is caught by the check that is meant for it, in words that name the cause.

The draws of the statistical checks are fixed, so an outcome is the same every time.
"""

from __future__ import annotations

import pytest

from draftverify.kit import ConformanceError, check_component

from .slips import SLIPS, Slip

COUNTED = {"law_is_honest", "exact_means_the_targets_distribution"}
"""The checks that count draws, and need many of them; the others take none."""


@pytest.mark.parametrize("one", SLIPS, ids=lambda one: one.name)
def test_a_slip_is_caught_by_the_check_meant_for_it(one: Slip) -> None:
    """By that check alone, or the skipped ones that stand on it."""
    with pytest.raises(ConformanceError) as caught:
        check_component(one.part, trials=1000 if one.check in COUNTED else 100)
    assert caught.value.report.failed == (one.check,), str(caught.value)
    assert one.says in str(caught.value)
