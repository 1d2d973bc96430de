"""One part in all roles, which says something wrong of the tasks whose id names it: "site|field|wrong"."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from draftverify import (
    PASS,
    REJECT,
    Answer,
    Budget,
    Context,
    Decision,
    Pipeline,
    Policy,
    Proposal,
    Refusal,
    Task,
    TaskRecord,
    Verification,
    escalate,
)
from draftverify.engine.requests import Ask
from draftverify.traits import GeneratorTraits, RuleTraits, VerifierTraits

from .odd_values import SITES, WRONG, fields, spoilt

ROLES = {"prepare", "draft", "verify", "decide", "finish", "ask", "size", "done"}
"""What a part is asked; the last two give a number. Each may be wrong as a whole too."""


class Guilty:
    """Says something wrong where the task's id says so, and else what is right."""

    traits = (GeneratorTraits(laws={"given", "iid"}), VerifierTraits(provides={"verdicts", "target"}))

    def _says(self, role: str, task: str, right: Any) -> Any:
        site, _, rest = task.partition("|")
        field, _, wrong = rest.partition("|")
        if site == "whole" and field == role:
            return WRONG[wrong]()
        if site in SITES and SITES[site].role == role:
            return spoilt(site, field, WRONG[wrong]())
        return right

    def prepare(self, task: Task) -> Any:
        """The task."""
        return self._says("prepare", task.id, task)

    def propose(self, context: Context, n: int) -> Any:
        """Two texts."""
        return self._says("draft", context.task.id, Proposal.alternatives(("a", "b")))

    def verify(self, context: Context, proposal: Proposal) -> Any:
        """Passes both; of tasks about a person's answer nothing but that."""
        if len(proposal) == 1 or not _asks(context.task.id):
            return self._says("verify", context.task.id, Verification(checks=(PASS,) * len(proposal)))
        return Verification(checks=(REJECT,) * len(proposal))

    def decide(self, context: Context, proposal: Proposal, verification: Verification, rng: Any) -> Any:
        """Keeps the first item, unless it was refused."""
        right = Decision(kept=(0,), done=True)
        if verification.checks and verification.checks[0].verdict == "reject":
            right = Decision(refused=(Refusal(0), Refusal(1)))
        return self._says("decide", context.task.id, right)

    def finish(self, context: Context) -> Any:
        """What was kept."""
        value = context.accepted[0] if len(context.accepted) else None
        return self._says("finish", context.task.id, value)

    def size(self, context: Context) -> Any:
        """Two."""
        return self._says("size", context.task.id, 2)

    def observe(self, context: Context, round: Any) -> None:
        """Learns nothing."""

    def done(self, context: Context, new: tuple[Any, ...]) -> Any:
        """Leaves it to the rule."""
        return self._says("done", context.task.id, None)


class GuiltyTogether(Guilty):
    """The same, asked for many at once."""

    traits = tuple(replace(traits, concurrent=False) for traits in (*Guilty.traits, RuleTraits()))

    def propose_many(self, contexts: list[Context], counts: list[int]) -> list[Any]:
        """One by one."""
        return list(map(self.propose, contexts, counts))

    def verify_many(self, contexts: list[Context], proposals: list[Proposal]) -> list[Any]:
        """One by one."""
        return list(map(self.verify, contexts, proposals))

    def decide_many(self, *columns: list[Any]) -> list[Any]:
        """One by one."""
        return list(map(self.decide, *columns))


def _asks(task: str) -> bool:
    return task.startswith(("answer|", "whole|ask|"))


def person(request: Ask) -> Any:
    """Edits, or answers something wrong."""
    return Guilty()._says("ask", request.task.id.partition("/")[0], Answer("edit", "c"))


def pipeline(kind: type[Guilty] = Guilty, policy: Policy | None = None) -> Pipeline:
    """All roles played by it."""
    part: Any = kind()
    return Pipeline(
        part,
        part,
        part,
        block=part,
        done=part.done,
        policy=escalate(on=["reject"]) if policy is None else policy,
        budget=Budget(rounds=4),
    )


def cases(per_field: int | None = None) -> list[str]:
    """The ids of tasks in which something is wrong: of each field so many values by chance, of a whole answer eight
    times as many; or all."""
    rng = random.Random(29)
    places = [*fields(), *[("whole", role) for role in sorted(ROLES)]]
    return [
        f"{site}|{field}|{wrong}"
        for site, field in places
        for wrong in (
            WRONG
            if per_field is None
            else rng.sample(sorted(WRONG), per_field * (8 if site == "whole" else 1))
        )
    ]


def beside_fine_ones(ids: Iterable[str]) -> list[Task]:
    """Tasks of these ids, each beside one in which nothing is wrong."""
    return [Task(id=name) for id in ids for name in (id, f"fine {id}")]


def is_fine(record: TaskRecord) -> bool:
    """Whether nothing was wrong in the task, as far as its id says."""
    return record.task.startswith("fine ")


__all__ = ["Guilty", "GuiltyTogether", "beside_fine_ones", "cases", "is_fine", "person", "pipeline"]
