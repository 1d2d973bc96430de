"""What a part must be able to do: Generator, Verifier, AcceptanceRule and BlockSize, and the methods it may add.

A component is any object with these methods; nothing is inherited. Its constructor is typed and only stores its
arguments. What it says of itself is its `traits` (`draftverify.traits`). Components keep no state about tasks: what a
component wants to remember goes into `context.scratch` under a key of its own, and may be gone at any round.

Methods may be coroutine functions, which `arun` awaits. The Protocols behind the first four have one optional method
each, found by its name (`draftverify.traits.offers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

from draftverify.randomness import Draws
from draftverify.token_summary import TokenSummary
from draftverify.values import (
    Check,
    Context,
    Decision,
    Explanation,
    Outcome,
    Proposal,
    Round,
    Task,
    Verification,
)

Done: TypeAlias = Callable[[Context, tuple[Any, ...]], int | None]
"""A stopping rule, `done(context, new)`: None to go on, or how many of the `new` values to keep and then stop.

`context` is the state after the round (ballots held, `context.last` set, `context.accepted` ending in `new`), except
that `context.rounds` ends before it, since its record is not made yet; `new` are the values that the decision added."""

Threshold: TypeAlias = Annotated[float, "threshold"]
"""A score that a rule compares with: in a config a number, or a part of the role threshold, `{use: certified, …}`."""

VoteShare: TypeAlias = Annotated[float, "vote share"]
"""As a `Threshold`, of the share of the vote that the answer has, which every run records: no item is judged by it."""

Metric: TypeAlias = Callable[[Task, Outcome], object]
"""A metric, `metric(task, outcome)`: how right the outcome is by `task.expected`, 0 to 1 or a truth value, or None
where it has no say; or a `Score` (`draftverify.checks.metrics`) of these, with what it cost and notes for the records.

One that has an attribute `unit`, a text such as "s" or "×", is a measure: its value is any finite number and says
nothing of right or wrong. Its tasks' values make one figure by the arithmetic mean, or as an attribute
`mean = "geometric"` has it, for ratios; then they are above 0."""


@runtime_checkable
class Generator(Protocol):
    """The cheap part; `traits` is a GeneratorTraits."""

    def propose(self, context: Context, n: int) -> Proposal:
        """Propose at most `n` items for this round.

        Returns:
            A Proposal; a short or empty one is legal. `exhausted=True` says that there is no next block.
        """
        ...


@runtime_checkable
class Verifier(Protocol):
    """The trusted part; `traits` is a VerifierTraits."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Check the whole block in one pass. With `context.enough` it may leave the rest "unchecked".

        Returns:
            A Verification with one check per item, or evidence.
        """
        ...


@runtime_checkable
class AcceptanceRule(Protocol):
    """Decides how much of a verified block to keep; `traits` is a RuleTraits."""

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Decide on the block; `rng` are this round's draws for the rule alone.

        Returns:
            A Decision. The rule owns the splice, and decides on what a person or a trusted fallback passed too
            (`verification.by`).
        """
        ...


class BlockSize(Protocol):
    """Chooses how many items to ask for, and may learn from finished rounds; `traits` is a BlockTraits."""

    def size(self, context: Context) -> int:
        """How many items to draft now; 0 for none: one plain step of the verifier."""
        ...

    def observe(self, context: Context, round: Round) -> None:
        """Learn from a round that has just been decided; `context` is the state before it."""
        ...


# What any part may add


class Opens(Protocol):
    """Has heavy resources to take."""

    def open(self) -> Any:
        """Take them, before the first task; closed and opened again, the part is as new."""
        ...


class Closes(Protocol):
    """Has something to let go of."""

    def close(self) -> Any:
        """Let it go; a second time there is nothing to do."""
        ...


class AnswersFromCache(Protocol):
    """Keeps what calls that cost something answered: a model elsewhere."""

    def from_cache(self) -> Any:
        """The same, which answers from its cache alone: nothing is sent, and what is not there is a NotBoughtError."""
        ...


class ChecksSettings(Protocol):
    """Cannot read every value of the settings that it reads."""

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse, with a ConfigError, values that it cannot read; called at build with all of the pipeline's."""
        ...


class ChecksTasks(Protocol):
    """Cannot work at every task: a generator, a verifier or a metric."""

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse, with a ConfigError, tasks without what it reads; called with all of an experiment's before the first
        one runs. A generator's and a verifier's are as they were loaded: no `prepare` has added to them."""
        ...


class ChecksPipeline(Protocol):
    """Was fitted for certain parts, or learns of them: a block size, or a threshold."""

    def check_pipeline(self, pipeline: Any) -> None:
        """Refuse, with a ConfigError, a pipeline of other parts; called once, when they have been opened."""
        ...


class Stops(Protocol):
    """A verifier or a rule that brings the stopping rule of pipelines that are given none."""

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """As of `Done`."""
        ...


# What a generator may add


class ProposesMany(Protocol):
    """Drafts for many sessions in one call."""

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> Sequence[Proposal]:
        """A proposal for each; a call that raises is made again one by one, as for every method for many."""
        ...


class BringsBlock(Protocol):
    """Knows which block size it does best with."""

    def default_block(self) -> int | BlockSize:
        """The block size of a pipeline that is given none: a number, or a BlockSize made anew, since what one learns is
        one pipeline's. 1 where a generator has no such method."""
        ...


class ChecksVerifier(Protocol):
    """A generator that cannot draft for every verifier."""

    def check_verifier(self, verifier: Any) -> None:
        """Refuse, with a ConfigError, any other; called when both have been opened."""
        ...


# What a verifier may add


class VerifiesMany(Protocol):
    """Checks many sessions' blocks in one call."""

    def verify_many(
        self, contexts: Sequence[Context], proposals: Sequence[Proposal]
    ) -> Sequence[Verification]:
        """A verification of each."""
        ...


class Prepares(Protocol):
    """Reads the input of a task once, so that generators need not share its model."""

    def prepare(self, task: Task) -> Task:
        """What the trusted part makes of the input, before the first draft: token ids of a prompt, a parsed problem."""
        ...


class ChecksGenerator(Protocol):
    """Cannot verify every generator's blocks."""

    def check_generator(self, generator: Any) -> None:
        """Refuse, with a ConfigError, one whose blocks it cannot verify; called when both have been opened."""
        ...


class KeepsHidden(Protocol):
    """Is a model whose hidden states a generator may read."""

    def keep_hidden(self, layers: Set[int]) -> None:
        """Keep these from now on, as indices into transformers' `hidden_states`; called when the pipeline is built."""
        ...


class Describes(Protocol):
    """Has words for values."""

    def describe(self, values: Sequence[Any]) -> list[str]:
        """Values as text, for people and records."""
        ...


class WritesText(Protocol):
    """Knows the one text that values are."""

    def text(self, values: Sequence[Any]) -> str:
        """The text that the values of an answer are (decoded tokens), for training data."""
        ...


class Explains(Protocol):
    """Can tell why two outputs differ."""

    def explain(self, task: Task, expected: Any, got: Any, settings: Mapping[str, Any]) -> Explanation:
        """Why two outputs of one task, made under these settings, differ."""
        ...


class Rejudges(Protocol):
    """Can read its own recorded scores with other thresholds; `traits.thresholds` names these."""

    def rejudged(self, context: Context, proposal: Proposal, checks: Sequence[Check]) -> Sequence[Check]:
        """The checks that it gives where one that differs from it in its thresholds alone gave these.

        What it would have to look at stays "unchecked".
        """
        ...


# What a rule may add


class DecidesMany(Protocol):
    """Decides on many sessions' blocks in one call."""

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> Sequence[Decision]:
        """A decision on each."""
        ...


class Finishes(Protocol):
    """Makes the answer of the whole context: a vote is counted here."""

    def finish(self, context: Context) -> Any:
        """The value, a `Choice` that says how sure it is too, or None for no answer.

        It is asked where nothing was accepted or held too, unless the task failed, waits, or was said to have no
        answer.
        """
        ...


class TellsChance(Protocol):
    """Judges a token by what a record's summary holds of it."""

    def chance(self, token: int, summary: TokenSummary) -> float:
        """How likely a recorded token is kept, once those before it are.

        Raises:
            ConfigError: the rule reads more than a summary holds.
        """
        ...


# What a block size may add


class Begins(Protocol):
    """Wants to know for whom it chooses."""

    def begin(self, verifier: Any, *, fallback: bool) -> None:
        """Told at build which verifier's blocks it chooses for, and whether the policy has a fallback to which a task
        can go at once."""
        ...


class TimesPasses(Protocol):
    """A verifier that can say before its first task what its passes take."""

    def pass_seconds(self) -> Mapping[int, float]:
        """Seconds of a pass of one task by block size, among them 0, a plain step; {} where that is not known."""
        ...


class DraftsAhead(Protocol):
    """A block size that has the generator draft before it chooses a size."""

    def drafted(self, context: Context, n: int) -> Proposal | None:
        """The first `n` items of its draft for this round; None where there is none, and the generator is called."""
        ...


class ChoosesTasks(Protocol):
    """May send a task to the policy's fallback undrafted."""

    def drafts(self, context: Context) -> bool:
        """Whether to draft for a task at all, asked before each of its rounds that the generator would draft."""
        ...


class Reports(Protocol):
    """Has figures of its own for a run's tables."""

    def report(self) -> Any:
        """What it learned, as plain data."""
        ...


class Settles(Protocol):
    """Learns from whole tasks."""

    def settle(self, context: Context, outcome: Outcome) -> None:
        """Told of every task that has ended, with all of its rounds."""
        ...
