"""What becomes of a block that made no progress: clauses as plain data, and the policy that reads them."""

from draftverify.rejection.policy import (
    Clause,
    Policy,
    escalate,
    fallback,
    feedback,
    give_up,
    retry,
    reverify,
    unasked,
)

__all__ = ["Clause", "Policy", "escalate", "fallback", "feedback", "give_up", "retry", "reverify", "unasked"]
