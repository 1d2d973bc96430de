"""What a session asks of its driver, and what a person answers.

No component sees a request, so none can become part of a cycle, and the garbage collector need not follow them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from draftverify.engine.randomness import Draws
from draftverify.values import Candidate, Context, Failure, Proposal, Task, Trouble, Verification

__all__ = ["Answer", "Ask", "Decide", "Draft", "Finish", "Prepare", "Request", "Verify"]


class Prepare(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Let the verifier read the task. Answer: a Task."""

    id: int
    task: Task


class Draft(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Propose at most `n` items with `generator`. Answer: a Proposal."""

    id: int
    context: Context
    n: int
    generator: Any


class Verify(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Check the whole block in one pass; `context.enough` passed items suffice. Answer: a Verification."""

    id: int
    context: Context
    proposal: Proposal


class Decide(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Let the rule decide. Answer: a Decision."""

    id: int
    context: Context
    proposal: Proposal
    verification: Verification
    rng: Draws


class Ask(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Ask a person about the best refused candidate. Answer: an Answer, or None while nobody is there."""

    id: int
    task: Task
    candidate: Candidate | None
    trouble: tuple[Trouble, ...]
    failure: Failure | None


class Finish(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Make the value of the whole context (a vote is counted here). Answer: the value, None for no answer."""

    id: int
    context: Context


Request: TypeAlias = "Prepare | Draft | Verify | Decide | Ask | Finish"


class Answer(msgspec.Struct, frozen=True):
    """A person's answer to an Ask.

    Args:
        kind: "accept" the candidate, "edit" it (`value` becomes a proposal, which is verified), "reject" (the task
            ends), "skip" (the task goes on waiting).
        value: the edited item.
        note: kept as the reason.
    """

    kind: Literal["accept", "edit", "reject", "skip"]
    value: Any = None
    note: str = ""
