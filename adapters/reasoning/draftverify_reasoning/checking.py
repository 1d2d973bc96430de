"""One check per solution, where a check that breaks is that solution's error and no other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from draftverify import Check, ConfigError, Proposal, ResourceError, Verification


def check_solutions(proposal: Proposal, check: Callable[[Any], Check]) -> Verification:
    """A block's verification by a check of single solutions.

    What a check raises is its item's error (never a rejection), but for a ConfigError or ResourceError, which would
    befall every item.
    """
    return Verification(checks=tuple([_checked(check, item) for item in proposal.items]))


def _checked(check: Callable[[Any], Check], item: Any) -> Check:
    try:
        return check(item)
    except (ConfigError, ResourceError):
        raise
    except Exception as error:
        return Check("error", reason=type(error).__name__, feedback=str(error))
