"""The checks for what the engine makes of answers: that it can read them, the stopping rule that a rule or a verifier
brings, and the value that a rule makes at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

from msgspec.structs import replace

from draftverify.engine import boundary
from draftverify.engine.requests import Decide, Draft, Finish, Request, Verify
from draftverify.engine.state import holding
from draftverify.errors import ContractError
from draftverify.kit.assertions import ensure, exercised, must_work
from draftverify.kit.contexts import difference, make_context, make_draws, snapshot, values_of
from draftverify.kit.registry import check
from draftverify.kit.subject import NO_ITEMS, Role, Subject, owned
from draftverify.protocols import Prepares
from draftverify.traits import RuleTraits, has_methods, offers
from draftverify.values import (
    PASS,
    By,
    Choice,
    Context,
    Decision,
    Failure,
    Held,
    Last,
    Proposal,
    Task,
    Trail,
    Verification,
)

_REQUESTS: dict[Role, type[Request]] = {"generator": Draft, "verifier": Verify, "rule": Decide}


class _SinglePart(NamedTuple):
    """A stand-in for a pipeline of one part: what the boundary asks a pipeline about its parts."""

    declared: dict[int, Any]
    rule_traits: RuleTraits = RuleTraits()


def _ensure_readable(subject: Subject, kind: type[Request], call: tuple[Any, ...], answer: Any) -> None:
    part = subject.component
    pipeline: Any = _SinglePart({id(part): subject.traits})
    reading = boundary.read(kind(0, part, *call), answer, pipeline)
    ensure(type(reading) is not Failure, f"the engine cannot take the answer; {reading}")


@check(after=["answers", "answers_stay_as_they_were"])
def answers_can_be_read(subject: Subject) -> None:
    """The engine can read every answer: of the right type and form, and for a generator of no more than n items."""
    calls = list(subject.calls)
    if subject.role == "generator":
        calls += product(subject.contexts, (0, 1, 2, subject.block))
    reached = False
    for call in calls:
        answer = subject.answer(call)
        _ensure_readable(subject, _REQUESTS[subject.role], call, answer)
        reached |= bool(len(answer.items)) if subject.role == "generator" else bool(len(call[1].items))
    exercised(reached, NO_ITEMS[subject.role])


@check(
    "rule",
    after=["answers_can_be_read"],
    when=lambda s: s.traits.needs <= {"verdicts", "scores"},
)
def decides_on_what_a_person_passed(subject: Subject) -> None:
    """An item that a person or a trusted fallback passed has no score; the rule decides on it like on any other."""
    judges: tuple[By, ...] = ("person", "fallback")
    for context, by in ((context, by) for context in subject.contexts for by in judges):
        verification = Verification(checks=(PASS,), by=by)
        call = (context, Proposal.chain(("a",)), verification, make_draws(context.task.id))
        hint = "where verification.by is not 'verifier' take it as better than all that are scored"
        with must_work("decide()", f"an item passed by a {by} has no score; {hint}"):
            answer = subject.answer(call)
        _ensure_readable(subject, Decide, call, answer)


def _decided(subject: Subject) -> Iterator[tuple[Context, tuple[Any, ...]]]:
    """The contexts after blocks that were decided on, and the values that were new: of a rule by its own decisions; of
    a verifier's chains as if more and more of what it passed were kept.
    """
    for call in subject.calls:
        context, proposal = call[:2]
        if subject.role == "rule":
            yield _after(context, proposal, call[2], subject.answer(call))
        elif proposal.fits("chain"):
            verification = subject.answer(call)
            # What it refused itself need not be anything that its stopping rule can read.
            refused = (i for i, check in enumerate(verification.checks) if check.verdict != "pass")
            for n in range(next(refused, len(proposal)) + 1):
                yield _after(context, proposal, verification, Decision(kept=tuple(range(n))))


def _after(
    context: Context, proposal: Proposal, verification: Verification, decision: Decision
) -> tuple[Context, tuple[Any, ...]]:
    new = values_of(proposal, decision)
    held = tuple(
        Held(proposal.items[i], verification.checks[i].score, context.round, i) for i in decision.held
    )
    next_context = replace(
        context,
        accepted=Trail.of([*context.accepted, *new]),
        held=holding(context.held, decision, held),
        last=Last(proposal, verification, decision),
        enough=None,
        scratch={},
    )
    return next_context, new


def _brings(name: str) -> Callable[[Subject], bool]:
    return lambda s: s.role != "generator" and has_methods(s.component, name)


@check(after=["answers_can_be_read"], when=_brings("done"))
def done_says_how_many_to_keep(subject: Subject) -> None:
    """done(context, new) gives None to go on, or how many of the new values to keep; True and False are neither."""
    reached = False
    for context, new in _decided(subject):
        reached = True
        try:
            boundary.read_cut(subject.component.done(context, new), len(new), subject.component)
        except ContractError as error:
            ensure(False, f"{error}; give len(new) to end after this round, None to go on")
    exercised(
        reached, "no block was a chain, after which it would be asked; give proposals=[Proposal.chain([…])]"
    )


@check("rule", after=["answers_can_be_read"], when=_brings("finish"))
def finish_makes_a_value(subject: Subject) -> None:
    """finish(context) gives a value, a Choice with finite numbers, or None where there is no answer."""
    for context in _ends(subject):
        answer = _finished(subject, owned(context))
        _ensure_readable(subject, Finish, (context,), answer)
        for name in ("support", "margin") if type(answer) is Choice else ():
            share = getattr(answer, name)
            ensure(
                share is None or 0 <= share <= 1, f"the {name} of the value is {share!r}; 0 to 1 is needed"
            )


@check(
    "rule",
    after=["finish_makes_a_value", "keeps_no_state_about_tasks"],
    when=lambda s: s.repeats() and _brings("finish")(s),
)
def finish_reads_the_context_alone(subject: Subject) -> None:
    """finish() makes the same value on another instance, which decided nothing, and leaves the context as it was."""
    hint = (
        "what was accepted and held stands in the context; a task that is taken up again has another instance"
    )
    values = []
    for context in (ends := list(_ends(subject))):
        context_copy = owned(context)
        values.append(snapshot(_finished(subject, context_copy)))
        change = difference(snapshot(context), snapshot(context_copy), path="context")
        ensure(change is None, f"finish() changed what it was given ({change}); copy before changing")
    instance = subject.fresh()
    for context, value in zip(ends, values, strict=True):
        change = difference(
            value, snapshot(_finished(subject, owned(context), on=instance)), subject.tolerance
        )
        ensure(change is None, f"finish() on another instance makes another value ({change}); {hint}")


def _ends(subject: Subject) -> Iterator[Context]:
    """Contexts of tasks that end: after each decision, also one that took nothing, and after several ballots."""
    return (context for context, _ in _decided(subject))


def _finished(subject: Subject, context: Context, on: Any = None) -> Any:
    part = subject.component if on is None else on
    state = f"with {len(context.accepted)} values accepted and {len(context.held)} held"
    with must_work("finish()", f"{state}; every task ends in it: give None where there is no answer"):
        return subject.wait(part.finish(context))


@check("verifier", after=["opens"], when=lambda s: offers(s.component, Prepares))
def prepare_adds_to_the_task(subject: Subject) -> None:
    """prepare(task) gives a Task with the same id and group, the same each time, and leaves the given one as it was."""
    tasks = [make_context(task).task for task in subject.tasks or ()] or [
        context.task for context in subject.contexts
    ]
    for task in tasks:
        original = snapshot(task)
        prepared, prepared_again = (
            subject.wait(part.prepare(task)) for part in (subject.component, subject.fresh())
        )
        ensure(
            type(prepared) is Task,
            f"prepare() returned a {type(prepared).__name__}; return the Task, replaced",
        )
        for name in ("id", "group"):
            was, now = getattr(task, name), getattr(prepared, name)
            ensure(
                was == now,
                f"prepare() made the {name} {now!r} of {was!r}; draws and records go by it: leave it",
            )
        change = difference(original, snapshot(task), path="task")
        ensure(change is None, f"prepare() changed the task that it was given ({change}); replace its input")
        change = difference(snapshot(prepared), snapshot(prepared_again), subject.tolerance)
        ensure(
            change is None,
            f"prepare() of one task gives two ({change}); a task that is taken up again is prepared anew",
        )
