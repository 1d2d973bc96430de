"""What a session asks for, and what a person answers.

A request says itself which part it is for, by which method, with what; nothing else in the engine tells one kind from
another. No component sees a request, so none can become part of a cycle: the garbage collector need not follow them.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import astuple

from draftverify.errors import ContractError
from draftverify.protocols import DecidesMany, ProposesMany, VerifiesMany
from draftverify.randomness import Draws
from draftverify.traits import optional_method
from draftverify.values import Candidate, Context, Failure, Proposal, Task, Trouble, Verification


class Request(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One call that a session wants made.

    Attributes:
        id: which one, within the session.
        part: whose call it is; of a question, what plays the person.
        method: gives the part's method.
        for_many: the Protocol of the method that serves several such requests at once; None where there is none.
        step: requests of a lower step are made first, so that sessions which are behind catch up.
        in_place: whether an event loop makes the call itself rather than put it into a thread.
    """

    id: int
    part: Any

    method: ClassVar[attrgetter[Any]]
    for_many: ClassVar[type | None] = None
    step: ClassVar[int] = 0
    in_place: ClassVar[bool] = False

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Of the part's method, and each a list of them for `call_many`: what a request holds but `id` and `part`."""
        return astuple(self)[2:]

    @property
    def call(self) -> Callable[..., Any]:
        """The part's method."""
        return self.method(self.part)  # type: ignore[no-any-return]

    @property
    def call_many(self) -> Callable[..., Any] | None:
        """The part's method that serves several such requests at once, where it has one."""
        return None if self.for_many is None else optional_method(self.part, self.for_many)


class Prepare(Request, frozen=True, eq=False, gc=False):
    """Let the verifier read the task. Answer: a Task."""

    task: Task
    method = attrgetter("prepare")


class Draft(Request, frozen=True, eq=False, gc=False):
    """Propose at most `n` items. Answer: a Proposal."""

    context: Context
    n: int
    method = attrgetter("propose")
    for_many = ProposesMany
    step = 1


class Verify(Request, frozen=True, eq=False, gc=False):
    """Check the whole block in one pass; `context.enough` passed items suffice. Answer: a Verification."""

    context: Context
    proposal: Proposal
    method = attrgetter("verify")
    for_many = VerifiesMany
    step = 2


class Decide(Request, frozen=True, eq=False, gc=False):
    """Let the rule decide. Answer: a Decision."""

    context: Context
    proposal: Proposal
    verification: Verification
    rng: Draws
    method = attrgetter("decide")
    for_many = DecidesMany
    step = 3
    in_place = True


class Finish(Request, frozen=True, eq=False, gc=False):
    """Let the rule make the value of the whole context; votes are counted here. Answer: it, a Choice, or None."""

    context: Context
    method = attrgetter("finish")
    in_place = True


class Ask(Request, frozen=True, eq=False, gc=False):
    """Ask a person about the best refused candidate. Answer: an Answer, or None while nobody is there."""

    task: Task
    candidate: Candidate | None
    trouble: tuple[Trouble, ...]
    failure: Failure | None
    in_place = True

    @property
    def call(self) -> AskPerson:
        return _nobody if self.part is None else self.part

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self,)


def _nobody(_: Ask) -> None:
    """No person is there."""


AnswerKind: TypeAlias = Literal["accept", "edit", "reject", "skip"]


class Answer(msgspec.Struct, frozen=True):
    """A person's answer to an Ask.

    Args:
        kind: "accept" the candidate (the rule decides on it, as on an item that the verifier passed), "edit" it
            (`value` becomes a proposal, which is verified), "reject" (the task ends), "skip" (it goes on waiting).
        value: the edited item.
        note: kept as the reason.

    Raises:
        ContractError: `kind` is another word.
    """

    kind: AnswerKind
    value: Any = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(AnswerKind):
            raise ContractError(f"{self.kind!r} is no answer; one of {', '.join(get_args(AnswerKind))} is")


AskPerson: TypeAlias = Callable[[Ask], Any]
"""Plays the person: called with an Ask, gives an Answer, or None while nobody is there; for `arun` also a coroutine."""
