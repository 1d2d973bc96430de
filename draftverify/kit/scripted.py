"""Scripted parts: a generator and a verifier that say what a test tells them to.

Both are stateless and deterministic, and picklable as far as what they are given is; with `seconds` they report their
own cost, so that no test depends on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec

from draftverify.kit.tables import cost_of, rows_of
from draftverify.traits import EvidenceKind, GeneratorTraits, VerifierTraits
from draftverify.values import (
    UNCHECKED,
    Check,
    Context,
    Cost,
    Evidence,
    LawKind,
    Proposal,
    Shape,
    VerdictKind,
    Verification,
)


@dataclass(eq=False)
class ScriptedGenerator:
    """A generator that replays a script.

    Args:
        script: what to propose: one entry per round, after whose end the generator is exhausted; or a function
            `(context, n)` that returns an entry. An entry is a Proposal, a sequence of items, or an exception to raise.
            Of a longer block the first n items are proposed.
        shape: how the items of a block stand to each other; a tree's entry must be a Proposal.
        laws: which laws the proposals have.
        seconds: what a call says it cost; None leaves it to the driver's clock.
        calls: a list of the caller's, to which (task id, round, n) is added at each call.
    """

    script: Sequence[Any] | Callable[[Context, int], Any]
    _: KW_ONLY
    shape: Shape = "chain"
    laws: frozenset[LawKind] = frozenset({"given"})
    seconds: float | None = None
    calls: MutableSequence[tuple[str, int, int]] | None = None

    @property
    def traits(self) -> GeneratorTraits:
        """The shape and the laws that were given."""
        return GeneratorTraits(shape=self.shape, laws=self.laws)

    def propose(self, context: Context, n: int) -> Proposal:
        """The script's entry for this round."""
        if self.calls is not None:
            self.calls.append((context.task.id, context.round, n))
        if callable(self.script):
            entry = self.script(context, n)
        elif context.round < len(self.script):
            entry = self.script[context.round]
        else:
            entry = Proposal.chain((), exhausted=True)
        _raise(entry)
        if not isinstance(entry, Proposal):
            entry = Proposal.chain(entry) if self.shape == "chain" else Proposal.alternatives(entry)
        if len(entry) > n:  # parents stand before children, so the first n items hold together
            cut = {name: getattr(entry, name)[:n] for name in ("items", "parents", "extends")}
            entry = msgspec.structs.replace(entry, **cut)
        return entry if self.seconds is None else msgspec.structs.replace(entry, cost=Cost(self.seconds))


@dataclass(eq=False)
class ScriptedVerifier:
    """A verifier that gives scripted verdicts, scripted target distributions, or both.

    Args:
        verdicts: by item (a mapping), by place in the block (a sequence), or a function `(context, item)`. A verdict
            is a word, a Check, True or False, or an exception to raise. None: no verdicts.
        target: the distribution after a prefix (`prompt_ids` of the task, what was accepted, the items on the
            path): a function of the prefix, or a mapping from it. None: no distributions.
        otherwise: the verdict on an item that `verdicts` does not name.
        seconds: what a call says it cost; None leaves it to the driver's clock.
    """

    verdicts: Mapping[Any, Any] | Sequence[Any] | Callable[[Context, Any], Any] | None = None
    _: KW_ONLY
    target: Mapping[Any, Any] | Callable[[tuple[Any, ...]], Any] | None = None
    otherwise: VerdictKind = "reject"
    seconds: float | None = None

    @property
    def traits(self) -> VerifierTraits:
        """Whichever of "verdicts" and "target" was scripted."""
        provides: set[EvidenceKind] = set() if self.verdicts is None else {"verdicts"}
        return VerifierTraits(provides=provides if self.target is None else {*provides, "target"})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """The scripted verdict on each item; the rest is unchecked once `context.enough` passed."""
        evidence = None
        if self.target is not None:
            target = self.target.__getitem__ if isinstance(self.target, Mapping) else self.target
            evidence = Evidence(target=rows_of(target, context, proposal))
        checks: list[Check] = []
        for index, item in enumerate(proposal.items if self.verdicts is not None else ()):
            passed = sum(check.verdict == "pass" for check in checks)
            stopped = context.enough is not None and passed >= context.enough
            checks.append(UNCHECKED if stopped else self._check(context, index, item))
        return Verification(checks=tuple(checks), evidence=evidence, cost=cost_of(self.seconds))

    def _check(self, context: Context, index: int, item: Any) -> Check:
        if callable(self.verdicts):
            verdict = self.verdicts(context, item)
        elif isinstance(self.verdicts, Mapping):
            verdict = self.verdicts.get(item, self.otherwise)
        else:
            verdict = [*(self.verdicts or ()), *[self.otherwise] * (index + 1)][index]
        _raise(verdict)
        if isinstance(verdict, Check):
            return verdict
        return Check(verdict if isinstance(verdict, str) else "pass" if verdict else "reject")  # type: ignore[arg-type]


def _raise(entry: Any) -> None:
    if isinstance(entry, BaseException) or (isinstance(entry, type) and issubclass(entry, BaseException)):
        raise entry
