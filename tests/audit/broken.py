"""Exact rules broken on purpose, in the ways that published code was broken, and generators that do not do as they say.

Each wrapper takes any rule and spoils what goes in or what comes out; the rule inside is the real one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from draftverify import Decision
from draftverify.kit import DraftFrom
from draftverify.randomness import Draws, stream_key


class Broken:
    """A rule around another that claims whatever that one claims."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.traits = replace(rule.traits, exact=True)

    def decide(self, context: Any, proposal: Any, verification: Any, rng: Any) -> Decision:
        return self.rule.decide(context, proposal, verification, rng)


def _with_target(verification: Any, change: Any) -> Any:
    target = np.array(verification.evidence.target)
    change(target)
    return msgspec.structs.replace(
        verification, evidence=msgspec.structs.replace(verification.evidence, target=target)
    )


class ShiftedRows(Broken):
    """Off by one: an item is judged by the row after it."""

    def decide(self, context, proposal, verification, rng):
        def shift(target):
            target[:-1] = target[1:].copy()

        return self.rule.decide(context, proposal, _with_target(verification, shift), rng)


class StaleBonus(Broken):
    """The bonus is drawn from the last item's own row, not from the row after it."""

    def decide(self, context, proposal, verification, rng):
        def stale(target):
            if len(proposal):
                target[-1] = target[proposal.parents[-1] + 1]

        return self.rule.decide(context, proposal, _with_target(verification, stale), rng)


class BonusFromQ(Broken):
    """The bonus of a block kept whole comes from the draft's last row."""

    def decide(self, context, proposal, verification, rng):
        def from_q(target):
            if proposal.law.q is not None and len(proposal):
                target[-1] = proposal.law.q[-1]

        return self.rule.decide(context, proposal, _with_target(verification, from_q), rng)


class OtherQ(Broken):
    """It reads another q than the items were drawn from: tempered once more."""

    def decide(self, context, proposal, verification, rng):
        law = proposal.law
        if law.q is not None and len(proposal):
            q = np.sqrt(law.q)
            law = msgspec.structs.replace(law, q=q / q.sum(axis=1, keepdims=True))
            proposal = msgspec.structs.replace(proposal, law=law)
        return self.rule.decide(context, proposal, verification, rng)


class NoResidual(Broken):
    """A refused item is drafted anew instead of being replaced."""

    def decide(self, context, proposal, verification, rng):
        made = self.rule.decide(context, proposal, verification, rng)
        return msgspec.structs.replace(made, spliced=()) if made.refused else made


class ResidualFromP(Broken):
    """A refused item is replaced from p instead of from the residual."""

    def decide(self, context, proposal, verification, rng):
        made = self.rule.decide(context, proposal, verification, rng)
        if not made.refused:
            return made
        row = verification.evidence.target[made.kept[-1] + 1 if made.kept else 0]
        u, total, item = rng.uniform(0, 7), 0.0, int(np.flatnonzero(row)[-1])
        for at in np.flatnonzero(row)[:-1]:
            total += float(row[at])
            if u < total:
                item = int(at)
                break
        return msgspec.structs.replace(made, spliced=(item,))


class TailKept(Broken):
    """What was drafted after a refused item is not dropped."""

    def decide(self, context, proposal, verification, rng):
        made = self.rule.decide(context, proposal, verification, rng)
        tail = proposal.items[len(made.kept) + 1 :] if made.refused else ()
        return msgspec.structs.replace(made, spliced=(*made.spliced, *map(int, tail)))


class OneUniform(Broken):
    """The same number judges every position."""

    class _Same:
        def __init__(self, rng: Any) -> None:
            self.rng = rng

        def uniform(self, position: int = 0, draw: int = 0) -> Any:
            return self.rng.uniform(0, draw)

        def uniforms(self, positions: Any, draw: int = 0) -> list[Any]:
            return [self.uniform(position, draw) for position in positions]

    def decide(self, context, proposal, verification, rng):
        return self.rule.decide(context, proposal, verification, self._Same(rng))


class DraftersStream(Broken):
    """It judges with the numbers that the drafter drew with."""

    def decide(self, context, proposal, verification, rng):
        draft = Draws(stream_key(0, context.task.id, context.attempt, "draft"), context.round)
        return self.rule.decide(context, proposal, verification, draft)


class ResidualFromPAt(ResidualFromP):
    """The same at one place of the block alone."""

    def __init__(self, rule: Any, place: int) -> None:
        super().__init__(rule)
        self.place = place

    def decide(self, context, proposal, verification, rng):
        made = self.rule.decide(context, proposal, verification, rng)
        at_place = made.refused and len(made.kept) == self.place
        return super().decide(context, proposal, verification, rng) if at_place else made


class PaddedBonus(Broken):
    """In a batch the shorter blocks' bonus is drawn from the row of another place."""

    def decide_many(self, contexts, proposals, verifications, rngs):
        longest = max(map(len, proposals))
        stale = StaleBonus(self.rule)
        return [
            (self.rule if len(call[1]) == longest else stale).decide(*call)
            for call in zip(contexts, proposals, verifications, rngs, strict=True)
        ]


class FirstsDraws(Broken):
    """In a batch all blocks are judged with the first one's numbers."""

    def decide_many(self, contexts, proposals, verifications, rngs):
        calls = zip(contexts, proposals, verifications, strict=True)
        return [self.rule.decide(*call, rngs[0]) for call in calls]


class SeedsWithTheKey(Broken):
    """It makes a generator of its own from the key, which is the same in every round."""

    class _OfNumPy:
        def __init__(self, rng: Any) -> None:
            self._u = np.random.default_rng(list(rng.key)).random((16, 8))

        def uniform(self, position: int = 0, draw: int = 0) -> float:
            return float(self._u[position, draw])

        def uniforms(self, positions: Any, draw: int = 0) -> list[float]:
            return [self.uniform(position, draw) for position in positions]

    def decide(self, context, proposal, verification, rng):
        return self.rule.decide(context, proposal, verification, self._OfNumPy(rng))


class OtherPositions(Broken):
    """Not broken: it numbers its draws otherwise."""

    class _Elsewhere(OneUniform._Same):
        def uniform(self, position: int = 0, draw: int = 0) -> Any:
            return self.rng.uniform(100 - position, 3 + draw)

    def decide(self, context, proposal, verification, rng):
        return self.rule.decide(context, proposal, verification, self._Elsewhere(rng))


# Generators


class Tempered(DraftFrom):
    """Draws at temperature 0.6 and reports the row of temperature 1."""

    def propose(self, context, n):
        made = DraftFrom(self.model, temperature=0.6, shape=self.shape, law=self.law).propose(context, n)
        paths = {-1: (*context.task.input.get("prompt_ids", ()), *context.accepted)}
        for node, parent in enumerate(made.parents):
            paths[node] = (*paths[parent], made.items[node])
        rows = [self.model(paths[parent]) for parent in range(-1, max(made.parents, default=-1) + 1)]
        return msgspec.structs.replace(made, law=msgspec.structs.replace(made.law, q=np.stack(rows)))


class SlightlyTempered(DraftFrom):
    """Draws at temperature 0.9 and reports the row of temperature 1."""

    def propose(self, context, n):
        made = DraftFrom(self.model, temperature=0.9, shape=self.shape, law=self.law).propose(context, n)
        prefix = (*context.task.input["prompt_ids"], *context.accepted)
        rows = [self.model((*prefix, *made.items[:i])) for i in range(len(made))]
        q = np.stack(rows) if rows else np.empty((0, self.model.vocabulary))
        return msgspec.structs.replace(made, law=msgspec.structs.replace(made.law, q=q))


class SameEachRound(DraftFrom):
    """Draws with a generator of its own made from the key, which is the same in every round."""

    def propose(self, context, n):
        draws = Draws(context.draws.key, 0)
        return super().propose(msgspec.structs.replace(context, draws=draws), n)


class OneHotQ(DraftFrom):
    """Samples, and reports a q of all mass on what it drew, as if it had been certain."""

    def propose(self, context, n):
        made = super().propose(context, n)
        q = np.zeros_like(made.law.q)
        for node, parent in enumerate(made.parents):
            q[parent + 1, made.items[node]] = 1.0
        return msgspec.structs.replace(made, law=msgspec.structs.replace(made.law, q=q))


class Cached(DraftFrom):
    """Ignores its draws: whatever they are, it proposes what it would have with one fixed set."""

    def propose(self, context, n):
        draws = Draws(stream_key(0, "always", 0, "draft"), context.round)
        return super().propose(msgspec.structs.replace(context, draws=draws), n)


class Misnamed(DraftFrom):
    """Names another law of siblings than it drew by."""

    @property
    def traits(self):
        return replace(super().traits, laws={self._named})

    @property
    def _named(self):
        return "iid" if self.law == "without_replacement" else "without_replacement"

    def propose(self, context, n):
        made = super().propose(context, n)
        return msgspec.structs.replace(made, law=msgspec.structs.replace(made.law, kind=self._named))


class OneNumber(DraftFrom):
    """Draws all items of a block with one number: each comes as often as its q says, and not independently."""

    class _Same:
        def __init__(self, draws: Any) -> None:
            self.draws = draws

        def uniform(self, position: int = 0, draw: int = 0) -> Any:
            return self.draws.uniform(0, draw)

    def propose(self, context, n):
        return super().propose(msgspec.structs.replace(context, draws=self._Same(context.draws)), n)


class OwnNumbers(DraftFrom):
    """Draws with numbers that depend on how often any session has asked."""

    calls = 0

    def propose(self, context, n):
        self.calls += 1
        draws = Draws(stream_key(self.calls, "own", 0, "draft"), context.round)
        return super().propose(msgspec.structs.replace(context, draws=draws), n)


class FirstSessions(DraftFrom):
    """In a batch it draws for all sessions with the first one's numbers."""

    def propose_many(self, contexts, ns):
        draws = contexts[0].draws
        return [
            self.propose(msgspec.structs.replace(context, draws=draws), n)
            for context, n in zip(contexts, ns, strict=True)
        ]


class FirstsQ(DraftFrom):
    """In a batch it declares the first session's q for all."""

    def propose_many(self, contexts, ns):
        made = [self.propose(context, n) for context, n in zip(contexts, ns, strict=True)]
        for each in made:
            each.law.q[0] = made[0].law.q[0]
        return made
