"""The rejection policy: an ordered list of clauses, each answering some troubles with one step, so many times.

    retry(2).then(feedback(2)).then(fallback(big)).then(escalate())

reads: draft again twice; then twice more with what was said of the refused items; then one round with another
generator; then ask a person. The YAML form is the same list under `on_rejection`. A policy keeps no state: the session
keeps how often each clause was used at this place and sets the counts back when there is progress.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from draftverify.errors import PipelineError
from draftverify.values import Trouble

Action: TypeAlias = Literal["regenerate", "feedback", "reverify", "fallback", "escalate", "give_up"]

ACTIONS: tuple[str, ...] = get_args(Action)
TROUBLES: tuple[str, ...] = get_args(Trouble)


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a policy.

    Args:
        do: "regenerate" (discard and draft again), "feedback" (draft again with what was said of the refused
            items), "reverify" (check the errored, timed-out or abstained items again), "fallback" (another
            generator), "escalate" (ask a person), "give_up".
        on: the troubles it answers; () for any.
        times: how often at one place, None without bound.
        generator: of a fallback, any Generator (a Pipeline too).
        name: of a fallback, its name in records.
        rounds: of a fallback, for how many rounds; None for good.
        verified: of a fallback, whether its items go to the verifier; else they pass as they are, and the rule decides.
        partial: answers items that were refused beside accepted ones too, and then only those are drafted again: the
            generator finds them in `context.refused`, and is asked for as many.
    """

    do: Action
    on: tuple[Trouble, ...] = ()
    times: int | None = 1
    generator: Any = None
    name: str = "fallback"
    rounds: int | None = 1
    verified: bool = True
    partial: bool = False

    def __post_init__(self) -> None:
        step = f"the policy step {self.do!r}"
        if self.do not in ACTIONS:
            raise PipelineError(f"{self.do!r} is no policy step; one of {', '.join(ACTIONS)} is")
        if isinstance(self.on, str):  # type: ignore[unreachable]
            raise PipelineError(
                f"on is the text {self.on!r}; a list of troubles is needed, as on=[{self.on!r}]"
            )
        for name in ("times", "rounds"):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < 1):
                raise PipelineError(f"{step} has {name} {number!r}; a whole number, at least 1, is needed")
        for name, kind in (("name", str), ("verified", bool), ("partial", bool)):
            if not isinstance(value := getattr(self, name), kind):
                raise PipelineError(f"{step} has {name} {value!r}; a {kind.__name__} is needed")
        for trouble in self.on:
            if trouble not in TROUBLES:
                raise PipelineError(f"{trouble!r} is no trouble; one of {', '.join(TROUBLES)} is")
        if (self.generator is None) == (self.do == "fallback"):
            needs = "needs a generator" if self.do == "fallback" else "takes no generator"
            raise PipelineError(f"{step} {needs}")
        if self.do == "fallback" and self.name in ("generator", "person"):
            raise PipelineError(f"a fallback cannot be named {self.name!r}: the records use that word")
        if self.do == "reverify" and {"reject", "exhausted"} & set(self.on):
            raise PipelineError(
                "reverify answers error, timeout and abstain; a reject stands, and nothing was checked"
            )


class Policy(msgspec.Struct, frozen=True):
    """Ordered clauses. The first one that answers a present trouble and is not used up is taken."""

    clauses: tuple[Clause, ...] = ()

    def then(self, other: Policy) -> Policy:
        """This policy's clauses, then the other's."""
        return Policy(self.clauses + other.clauses)

    @property
    def asks(self) -> int | None:
        """The place of the first clause that asks a person of what nobody can tell; None where there is none."""
        return next(
            (
                place
                for place, clause in enumerate(self.clauses)
                if clause.do == "escalate" and (not clause.on or "abstain" in clause.on)
            ),
            None,
        )

    def next(
        self,
        troubles: Collection[Trouble],
        used: Sequence[int],
        *,
        reverifiable: bool,
        askable: bool = True,
        progress: bool = False,
        drafting: bool = True,
    ) -> int | None:
        """The place of the clause to take now, or None when none is left.

        Args:
            troubles: what stood in the way.
            used: how often each clause was taken at this place.
            reverifiable: whether there is a block whose items can be checked again.
            askable: whether a person could be told anything new.
            progress: whether items were accepted beside those in trouble.
            drafting: whether the generator may be asked again; else steps that ask it are passed over.
        """
        for place, clause in enumerate(self.clauses):
            # A person is asked again when the verifier refused the person's edit, however often.
            if clause.do != "escalate" and clause.times is not None and used[place] >= clause.times:
                continue
            if clause.do == "reverify" and not reverifiable:
                continue
            if clause.do in ("regenerate", "feedback") and not drafting:
                continue
            if (clause.do == "escalate" and not askable) or (progress and not clause.partial):
                continue
            if not clause.on or any(trouble in clause.on for trouble in troubles):
                return place
        return None

    @property
    def escalates(self) -> bool:
        """Whether a clause asks a person."""
        return any(clause.do == "escalate" for clause in self.clauses)

    @property
    def undrafted(self) -> Trouble | None:
        """The trouble under which a task for which nothing is drafted goes to a fallback at once; None without one."""
        unused = (0,) * len(self.clauses)
        troubles: tuple[Trouble, ...] = ("exhausted", "reject")
        for trouble in troubles:
            place = self.next((trouble,), unused, reverifiable=False, drafting=False)
            if place is not None and self.clauses[place].do == "fallback":
                return trouble
        return None


def unasked(clauses: Sequence[Any]) -> list[Any]:
    """The clauses, or specs of such, without one at the end that asks a person."""
    return [*clauses[:-1], *[clause for clause in clauses[-1:] if clause.do != "escalate"]]


def retry(times: int | None = 1, *, on: Sequence[Trouble] = (), partial: bool = False) -> Policy:
    """Discard the block and draft again, without saying why."""
    return _one("regenerate", on, times=times, partial=partial)


def feedback(times: int | None = 1, *, on: Sequence[Trouble] = ("reject",), partial: bool = False) -> Policy:
    """Draft again, with the refused items and what was said of them in `context.feedback`."""
    return _one("feedback", on, times=times, partial=partial)


def reverify(
    times: int | None = 1, *, on: Sequence[Trouble] = ("error", "timeout"), partial: bool = False
) -> Policy:
    """Check again the items whose check failed, and only those."""
    return _one("reverify", on, times=times, partial=partial)


def fallback(
    generator: Any,
    *,
    rounds: int | None = 1,
    verified: bool = True,
    times: int | None = 1,
    on: Sequence[Trouble] = (),
    partial: bool = False,
    name: str = "fallback",
) -> Policy:
    """Let another generator draft, for `rounds` rounds (None: for good)."""
    return _one(
        "fallback",
        on,
        times=times,
        generator=generator,
        name=name,
        rounds=rounds,
        verified=verified,
        partial=partial,
    )


def escalate(*, on: Sequence[Trouble] = (), partial: bool = False) -> Policy:
    """Ask a person: accept, edit, reject or skip. The task waits until there is an answer."""
    return _one("escalate", on, partial=partial)


def give_up(*, on: Sequence[Trouble] = (), partial: bool = False) -> Policy:
    """End the task here."""
    return _one("give_up", on, partial=partial)


def _one(do: Action, on: Any, **options: Any) -> Policy:
    # A text is refused as it is: letter by letter it would be odd.
    troubles: Any = on if isinstance(on, str) else tuple(on)
    return Policy((Clause(do=do, on=troubles, **options),))
