"""Several drafters in order: the first that has something to propose drafts the round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec

from draftverify import BlockSize, ConfigError, Context, Draws, Generator, Proposal
from draftverify.errors import below
from draftverify.protocols import BringsBlock, ChecksSettings, ChecksVerifier, Closes, Opens, ProposesMany
from draftverify.traits import (
    GeneratorTraits,
    name_of,
    offers,
    read_by,
    shared_things,
    shared_vocabulary,
    traits_of,
)
from draftverify.values import LawKind, Shape
from draftverify_tokens.models import Continues, is_certain, room

_SPLIT = 1 << 31
"""Positions from here on are used for nothing but seeds of streams for later drafters."""


class FirstOf:
    """Asks its drafters in order and takes the first proposal that is not empty: a lookup, else a draft model.

    The block has the law and the evidence of the drafter that made it, so the rule must take every law that one of them
    declares; the round's `draft_notes` name it. Behind a drafter that says `certain = True` (`tokens.forced`) and has
    not filled the block, the next one that has a `continuation` goes on; all of the block is then given. When all have
    nothing the proposal is empty, which is one plain step; when all are exhausted, so is this. What an empty answer
    cost is known to the driver's clock alone.

    Drafters that stand behind one that draws get random numbers of their own: whether they are asked may depend on the
    first one's draws, and items drawn with the same numbers would not come from the q that is told.

    Args:
        drafters: in the order in which they are asked.
    """

    def __init__(self, drafters: Sequence[Generator]) -> None:
        if not drafters:
            raise ConfigError("drafters is empty; at least one is needed", path="drafters")
        self.drafters = drafters

    @cached_property
    def traits(self) -> GeneratorTraits:
        """What the drafters are together; that two have different vocabularies is told where it is compared."""
        drafters = [traits_of(drafter, GeneratorTraits) for drafter in self.drafters]
        names = list(map(name_of, self.drafters))
        return GeneratorTraits(
            shape=_common_shape({traits.shape for traits in drafters}),
            laws=frozenset[LawKind]().union(*(traits.laws for traits in drafters)),
            reads=read_by(drafters),
            families=frozenset[str]().union(*(traits.families for traits in drafters)),
            vocabulary=lambda: shared_vocabulary(zip(names, drafters, strict=True)),
            hidden=frozenset[int]().union(*(traits.hidden for traits in drafters)),
            remote=max(traits.remote for traits in drafters),
            concurrent=all(traits.concurrent for traits in drafters),
            shares=lambda: chain.from_iterable(map(shared_things, self.drafters, drafters)),
            deterministic=all(traits.deterministic for traits in drafters),
            free=all(traits.free for traits in drafters),
        )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Let each drafter that reads settings check them.

        Raises:
            ConfigError: naming the setting.
        """
        for drafter in self.drafters:
            if offers(drafter, ChecksSettings):
                drafter.check_settings(settings)

    def check_verifier(self, verifier: Any) -> None:
        """Let each drafter look at the verifier that it drafts for.

        Raises:
            ConfigError: one of them cannot draft for it.
        """
        for index, drafter in enumerate(self.drafters):
            if offers(drafter, ChecksVerifier):
                with below(f"drafters.{index}"):
                    drafter.check_verifier(verifier)

    def open(self) -> None:
        """Open those that can be opened."""
        for index, drafter in enumerate(self.drafters):
            if offers(drafter, Opens):
                with below(f"drafters.{index}"):
                    drafter.open()

    def close(self) -> None:
        """Close those that can be closed."""
        for index, drafter in enumerate(self.drafters):
            if offers(drafter, Closes):
                with below(f"drafters.{index}"):
                    drafter.close()

    def default_block(self) -> BlockSize | int:
        """The first drafter's that brings a controller, unless blocks are trees; else the largest number brought."""
        brought = [part.default_block() if offers(part, BringsBlock) else 1 for part in self.drafters]
        sizes = [size for size in brought if isinstance(size, int)]
        controllers = [size for size in brought if not isinstance(size, int)]
        return controllers[0] if controllers and self.traits.shape != "tree" else max(sizes, default=1)

    def propose(self, context: Context, n: int) -> Proposal:
        """The first drafter's items that has any."""
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """As `propose`; each drafter is asked once, for the sessions for which those before it had nothing."""
        proposals: list[Proposal | None] = [None] * len(contexts)
        waiting = list(range(len(contexts)))
        drew = False
        for place, drafter in enumerate(self.drafters):
            active = [contexts[i] for i in waiting]
            if drew:
                active = [_with_own_draws(context, place) for context in active]
            answers = _ask(drafter, active, [ns[i] for i in waiting])
            for i, answer in zip(waiting, answers, strict=True):
                if len(answer.items):
                    whole = self._gone_on(place, contexts[i], answer, ns[i])
                    notes = {"drafter": name_of(drafter), **answer.notes}
                    proposals[i] = msgspec.structs.replace(whole, notes=notes)
                elif proposals[i] is None or not answer.exhausted:
                    # A block without items has a law too, and that must be one of those declared.
                    proposals[i] = Proposal.chain((), answer.law, exhausted=answer.exhausted)
            waiting = [i for i, answer in zip(waiting, answers, strict=True) if not len(answer.items)]
            if not waiting:
                break
            drew = drew or traits_of(drafter, GeneratorTraits).laws != {"given"}
        return [answer for answer in proposals if answer is not None]

    def _gone_on(self, place: int, context: Context, answer: Proposal, n: int) -> Proposal:
        """The proposal of the drafter at `place`, and what those behind it say comes next, up to `n` items."""
        if not is_certain(self.drafters[place]):
            return answer
        items = tuple(answer.items)
        for drafter in self.drafters[place + 1 :]:
            remaining = room(context, n) - len(items)
            if remaining > 0 and offers(drafter, Continues):
                items += tuple(drafter.continuation(context, remaining, items))
                break
        return Proposal.chain(items)


def _common_shape(shapes: set[Shape | None]) -> Shape | None:
    """The narrowest shape as which all can be read; None when one declares none."""
    if None in shapes:
        return None
    return shapes.pop() if len(shapes) == 1 else "tree"


def _ask(drafter: Generator, contexts: list[Context], ns: list[int]) -> list[Proposal]:
    if offers(drafter, ProposesMany):
        return list(drafter.propose_many(contexts, ns))
    return [drafter.propose(context, n) for context, n in zip(contexts, ns, strict=True)]


def _with_own_draws(context: Context, place: int) -> Context:
    seed = context.draws.seed(_SPLIT + place)
    key = seed & 0xFFFFFFFF, seed >> 32
    return msgspec.structs.replace(context, draws=Draws(key, context.draws.round))
