"""Suffix lookup: the likeliest continuation of the longest match in the task's text or in the run's earlier outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from threading import Lock
from typing import Annotated, TypeAlias

from pydantic import Field

from draftverify import BlockSize, Context, Memory, Proposal
from draftverify.traits import GeneratorTraits
from draftverify.values import Shape
from draftverify_tokens.block_size import default_block
from draftverify_tokens.likeliest_tree import likeliest_tree
from draftverify_tokens.models import room
from draftverify_tokens.suffix_automaton import NOWHERE, Place, SuffixAutomaton
from draftverify_tokens.text_index import caught_up

Source: TypeAlias = tuple[SuffixAutomaton, Place]
"""An index, and where the end of the text is found in it."""


class Suffix:
    """Drafts how the text went on after the longest suffix of it that is known.

    Two indexes know suffixes: one over the task's prompt and answer, one over the outputs of earlier tasks in
    `context.memory` (which grows where the experiment sets `epoch`, or a caller passes `memory`). An output is what was
    emitted, corrections included, so a correction that the target made in one task is what later tasks are drafted.
    Records that hold no token ids are left out.

    A match of L tokens is believed L / (L + 1), and a continuation its share of the counts after the match; the product
    along the path estimates the probability that all of it is accepted. Drafting stops where that falls below
    `threshold`, so a long match brings a long draft and a doubtful one a short one. No match: an empty proposal, which
    is one plain step.

    The chain follows the longer of the two matches, the task's own where they are equal. The tree branches: of the
    continuations of the longer match, and, with what belief that leaves, of the other one, it takes the n nodes of the
    highest path probability.

    Args:
        threshold: the least path probability of a drafted token. 0 drafts as many tokens as are asked for.
        tree: draft trees, for a rule and a target that take them.

    References:
        G. Oliaro et al., "SuffixDecoding", arXiv:2411.04975: two suffix indexes, path probabilities from counts and
        drafts that grow with the match. There the length is at most α · L; here the belief in the match bounds it.
    """

    def __init__(self, threshold: Annotated[float, Field(ge=0, lt=1)] = 0.05, tree: bool = False) -> None:
        self.threshold = threshold
        self.tree = tree
        # The index over earlier outputs is shared by all tasks. It is a cache: any of them can make it again.
        self._shared: _Outputs | None = None
        self._lock = Lock()

    @property
    def traits(self) -> GeneratorTraits:
        """Chains, or trees where they were asked for."""
        return GeneratorTraits(shape=self._shape, reads=frozenset(), free=True)

    @property
    def _shape(self) -> Shape:
        return "tree" if self.tree else "chain"

    def default_block(self) -> BlockSize | int:
        """A controller that measures, of up to 16 tokens; of a tree 16 nodes."""
        return default_block(self._shape)

    def propose(self, context: Context, n: int) -> Proposal:
        """At most `n` tokens; a tree's in the order of their path probability."""
        with self._lock:
            return self._propose(context, n)

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """As `propose`, for many sessions; it saves the driver's work of one call each."""
        with self._lock:
            return [self._propose(context, n) for context, n in zip(contexts, ns, strict=True)]

    def continuation(self, context: Context, n: int, drafted: Sequence[int] = ()) -> tuple[int, ...]:
        """At most `n` tokens that may follow the context and `drafted`, a chain; no index reads `drafted`."""
        with self._lock:
            sources = [
                (automaton, _along(automaton, place, drafted)) for automaton, place in self._sources(context)
            ]
            return _chain(sources, n, self.threshold)

    def _propose(self, context: Context, n: int) -> Proposal:
        sources, n = self._sources(context), room(context, n)
        if self.tree:
            return _tree(sources, n, self.threshold)
        return Proposal.chain(_chain(sources, n, self.threshold))

    def _sources(self, context: Context) -> list[Source]:
        text = caught_up(context, self, _SuffixText)
        sources = [(text.automaton, text.automaton.repeated())]
        if context.memory.records:
            sources.append(text.recalled(self._outputs, context))
        return sources

    def _outputs(self, memory: Memory, vocabulary: int | None) -> _Outputs:
        """The index over a memory's outputs: the shared one, read on where it knows only the first of them."""
        shared = self._shared
        if shared is not None and shared.memory is memory and shared.vocabulary == vocabulary:
            return shared
        outputs = token_outputs(memory, vocabulary)
        if shared is None or shared.outputs != outputs[: len(shared.outputs)]:
            shared = self._shared = _Outputs()
        shared.extend(outputs[len(shared.outputs) :])
        shared.memory, shared.vocabulary = memory, vocabulary
        return shared


def token_outputs(memory: Memory, vocabulary: int | None = None) -> list[list[int]]:
    """What each earlier task emitted, of those that emitted token ids and nothing else."""
    outputs = []
    for record in memory.records:
        values = [value for round in record.rounds for value in round.decision.emitted]
        if set(map(type, values)) != {int}:  # bool is no token id either
            continue
        if min(values) >= 0 and (vocabulary is None or max(values) < vocabulary):
            outputs.append(values)
    return outputs


class _Outputs:
    """The index over earlier outputs, and of which memory they are."""

    def __init__(self) -> None:
        self.automaton = SuffixAutomaton()
        self.outputs: list[list[int]] = []
        self.memory: Memory | None = None
        self.vocabulary: int | None = None

    def extend(self, outputs: Sequence[list[int]]) -> None:
        for output in outputs:
            self.automaton.begin()
            self.automaton.extend(output)
            self.outputs.append(output)


class _SuffixText:
    """The index over one task's text, and where the text's end is found in the index over earlier outputs."""

    def __init__(self) -> None:
        self.automaton = SuffixAutomaton()
        self.tokens: list[int] = []
        self._outputs: _Outputs | None = None
        self._memory: Memory | None = None
        self._size = 0
        self._place = NOWHERE
        self._followed = 0

    def extend(self, new: Sequence[int]) -> None:
        self.tokens += new
        self.automaton.extend(new)

    def recalled(self, outputs_of: Callable[[Memory, int | None], _Outputs], context: Context) -> Source:
        """The index over the outputs of the context's memory, and the longest suffix of the text that is in it."""
        memory = context.memory
        outputs = self._outputs
        # Read on for a later memory, the shared index is no longer this one's, nor are its states.
        if outputs is None or memory is not self._memory or len(outputs.outputs) != self._size:
            outputs = self._outputs = outputs_of(memory, context.task.input.get("vocabulary"))
            self._memory, self._size = memory, len(outputs.outputs)
            self._place, self._followed = NOWHERE, 0
        self._place = _along(outputs.automaton, self._place, self.tokens[self._followed :])
        self._followed = len(self.tokens)
        return outputs.automaton, self._place


def _chain(sources: list[Source], n: int, threshold: float) -> tuple[int, ...]:
    """The continuation of the longer match, as far as it leads; then of what is the longer one there."""
    items: list[int] = []
    probability = 1.0
    while True:
        # Along a path the longer match stays the longer one until nothing followed it any more.
        sources = _open_ends(sources)
        automaton, place = max(sources, key=_match_length)
        if not place[1]:
            break
        tokens, probability, end = automaton.follow(place, n - len(items), probability, threshold)
        items += tokens
        if len(items) == n or probability < threshold:
            break
        sources = [
            (source, end if source is automaton else _along(source, start, tokens))
            for source, start in sources
        ]
    return tuple(items)


def _tree(sources: list[Source], n: int, threshold: float) -> Proposal:
    """The n likeliest nodes, of the continuations of both matches."""
    return likeliest_tree(
        _open_ends(sources),
        # More than n children of one node cannot be among the n likeliest nodes.
        lambda sources: _continuations(sources, n),
        lambda sources, token: _open_ends(
            (automaton, automaton.step(place, token)) for automaton, place in sources
        ),
        n,
        threshold,
    )


def _open_ends(sources: Iterable[Source]) -> list[Source]:
    """The longest suffixes of the matches after which something followed."""
    return [(automaton, automaton.open_end(place)) for automaton, place in sources]


def _continuations(sources: list[Source], n: int) -> Iterable[tuple[int, float]]:
    """What may follow, with its probability: that of the longer match, and of the other one with the belief left."""
    matches = [source for source in sources if source[1][1]]
    if len(matches) < 2:
        return [
            (token, share * length / (length + 1))
            for automaton, (state, length) in matches
            for token, share in automaton.followers(state, n)
        ]
    mass: dict[int, float] = {}
    remaining = 1.0
    for automaton, (state, length) in sorted(matches, key=_match_length, reverse=True):
        belief = remaining * length / (length + 1)
        # All of them: what is not among the likeliest after either match may be after both.
        for token, share in automaton.followers(state):
            mass[token] = mass.get(token, 0.0) + belief * share
        remaining -= belief
    return nlargest(n, mass.items(), key=lambda entry: entry[1])


def _match_length(source: Source) -> int:
    return source[1][1]


def _along(automaton: SuffixAutomaton, place: Place, tokens: Iterable[int]) -> Place:
    for token in tokens:
        place = automaton.step(place, token)
    return place
