"""What a part must be able to do: Generator, Verifier, AcceptanceRule, and the capabilities a part may add.

A component is any object with these methods; nothing is inherited. Its constructor is typed and only stores its
arguments. Attributes that a protocol names beside its method have the defaults stated; a component sets those that
differ. Components keep no state about tasks: what a component wants to remember goes into `context.scratch` under
a key of its own, and may be gone at any round.

Optional, found by name:

- `propose_many`, `verify_many`, `decide_many`: one call for many sessions. One that raises is made again one by one.
- `async` versions: `propose`, `verify`, `decide` may be coroutine functions; `arun` awaits them.
- `open()` / `close()`: take and free heavy resources.
- `prepare(task) -> Task`, of a verifier: what the trusted part makes of the input, once per task, before the
  first draft: token ids of a prompt, a parsed problem. Generators read it, so they need not share a model.
- `done(context, new)`, of a verifier or a rule: the stopping rule (`Done`) of a pipeline that is given none.
- `default_block()`, of a generator: the block size of a pipeline that is given none: a number, or a `BlockSize` made
  anew, since what one learns is one pipeline's. 1 where a generator has no such method.
- `reads`: the names of the settings that the part reads from `context.settings`. A setting that no part of a pipeline
  reads is an error at build; a generator or verifier that does not say may read any.
- `check_settings(settings)`: refuses, with a ConfigError, values of settings that the part cannot read; called at
  build with all of the pipeline's, of which it looks at its own.
- `check_verifier(verifier)`, of a generator: refuses, with a ConfigError, a verifier that it cannot draft for; called
  when both have been opened.
- `check_generator(generator)`, of a verifier: refuses, with a ConfigError, a generator whose blocks it cannot verify;
  called when both have been opened.
- `describe(values) -> list[str]`, of a verifier: values as text, for people and records.
- `text(values) -> str`, of a verifier: the one text that values of an answer are (decoded tokens), for training data.
- `explain(task, expected, got, settings) -> Explanation`, of a verifier: why two outputs of one task, made
  under these settings, differ.
- `finish(context)`, of a rule: the answer made from the whole context (a vote is counted here): the value, a `Choice`
  that says how sure it is too, or None for no answer. It is asked where nothing was accepted or held too, unless the
  task failed, waits, or was said to have no answer.
- `plain_steps = True`, of a verifier: an empty block brings the value that it goes on with, a plain step. One that
  gives target distributions need not say it.
- `begin(verifier, *, fallback)`, of a block size: told at build which verifier's blocks it chooses for, and whether the
  policy has a fallback to which a task can go at once.
- `drafts(context) -> bool`, of a block size: whether to draft for a task at all, asked before each of its rounds that
  the generator would draft; where it says False the task goes to that fallback.
- `settle(context, outcome)`, of a block size: told of every task that has ended, with all of its rounds.
- `writes`: the names of the constructor's arguments that are paths into which the part writes; what lies at the others
  is what it reads, and a run is not resumed once that has changed.
- `concurrent = False`: not safe to call from two threads at once; such parts take turns, whatever calls them, and under
  asyncio one call of the method for many serves all tasks that wait for it. One that runs pipelines of such parts in
  threads of its own waits for itself for ever: run them in its own thread.
- `vocabulary`: a string, which says what the items mean (a tokenizer's identity); a generator and a verifier that both
  have one must have the same.
- `family`: which models the part's word rests on, a string such as "smollm2"; known when it is built, without loading
  anything, and None where there is no telling. A part made of others has `families`, a set of all of theirs. A
  pipeline whose verifier shares a family with what drafts for it checks itself, which it warns of and is marked for.
- `outside`, of a verifier made of verifiers: whether an item passes only where one without a family passed it; such a
  pipeline is not marked.
- `deterministic = False`: the same call may answer otherwise another time.
- `drafts_from`, of a generator: what its drafts depend on beside the task, so that recorded ones can be replayed
  under another rule, block or policy. In all but "list" fewer items asked for are the first of a longer block. "list":
  a block is the next n of the task's own list, after those that it drafted before, `exhausted` with the one that
  reaches the end. "continuation": what follows `context.accepted` alone, and after the first items of a block its
  others. "accepted": `context.accepted`, the feedback, the refused items, and the rounds since a value was accepted.
  "round": the round's number, `context.accepted`, the feedback and the refused items. Without it a draft is replayed
  only where the whole context is as it was recorded.
- `rejudged(context, proposal, checks)`, of a verifier: the checks that it gives where one that differs from it in the
  arguments named by `thresholds` alone gave these, so that recorded scores can be replayed at other thresholds. What it
  would have to look at stays "unchecked".
- `recalled(context, proposal, recall)`, of a verifier made of `stages`, called `names`: its verification from what
  those said before, as `draftverify.verifiers.Combined` has it, so that other orders of them can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from draftverify.randomness import Draws
from draftverify.values import Context, Decision, Outcome, Proposal, Round, Task, Verification

Done: TypeAlias = Callable[[Context, tuple[Any, ...]], int | None]
"""A stopping rule, `done(context, new)`: None to go on, or how many of the `new` values to keep and then stop.

`context` is the state after the round (ballots held, `context.last` set, `context.accepted` ending in `new`), except
that `context.rounds` ends before it, since its record is not made yet; `new` are the values that the decision added."""

Threshold: TypeAlias = Annotated[float, "threshold"]
"""A score that a rule compares with: in a config a number, or a part of the role threshold, `{use: calibrated, …}`."""

Collects: TypeAlias = Literal["always", "given"]
"""When a round that brings a rule nothing is no trouble, and the next is drafted where no clause of the policy answers
it: always, or under a stopping rule that the pipeline is given. The rule goes on until its stopping rule, the budget or
an exhausted generator ends it; a hundred such rounds in a row are trouble again."""

Metric: TypeAlias = Callable[[Task, Outcome], float | bool | None]
"""A metric, `metric(task, outcome)`: how right the outcome is by `task.expected`, 0 to 1, or None where it has no say.

One that has an attribute `unit`, a text such as "s" or "×", is a measure: its value is any finite number and says
nothing of right or wrong. Its tasks' values make one figure by the arithmetic mean, or as an attribute
`mean = "geometric"` has it, for ratios; then they are above 0."""


@runtime_checkable
class Generator(Protocol):
    """The cheap part.

    Attributes:
        laws: which laws its proposals may have; {"given"} when absent.
        shape: the one shape of its proposals; any when absent.
        needs_feedback: whether it refines what it made by what others say of it, and so is refused in a pipeline whose
            policy has no feedback clause or whose verifier is of its own family; False when absent.
    """

    def propose(self, context: Context, n: int) -> Proposal:
        """Propose at most `n` items for this round.

        Returns:
            A Proposal; a short or empty one is legal. `exhausted=True` says that there is no next block.
        """
        ...


@runtime_checkable
class Verifier(Protocol):
    """The trusted part.

    Attributes:
        provides: which evidence its verifications carry: of "verdicts", "scores", "target", "raw_maxima",
            "cross", "hidden"; {"verdicts"} when absent.
    """

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Check the whole block in one pass. With `context.enough` it may leave the rest "unchecked".

        Returns:
            A Verification with one check per item, or evidence.
        """
        ...


@runtime_checkable
class AcceptanceRule(Protocol):
    """Decides how much of a verified block to keep.

    Attributes:
        needs: what the verifier must provide; {"verdicts"} when absent.
        shapes: the proposal shapes it can judge; all when absent.
        laws: the laws for which it does what it promises; all when absent.
        enough: how many passed items it needs before the verifier may stop; None (all) when absent, and for a rule
            that needs scores, to which a pass is not yet enough.
        exact: whether it emits the target's own distribution; False when absent.
        abstains: whether a task that ends refused, with nothing left to try, has no answer (abstained) rather than
            been given up (exhausted); False when absent.
        collects: when it gathers items over rounds, so that a round without one is no trouble (`Collects`); None,
            never, when absent.
        stepwise: whether an item is a step of an answer, or a part of one, so that no item can be labelled alone; False
            when absent.
        takes_best: whether it takes the item with the highest score of a task, so that a threshold may be certified on
            these alone; False when absent.
    """

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
    """Chooses how many items to ask for, and may learn from finished rounds."""

    deterministic: ClassVar[bool]

    def size(self, context: Context) -> int:
        """How many items to draft now; 0 for none: one plain step of the verifier."""
        ...

    def observe(self, context: Context, round: Round) -> None:
        """Learn from a round that has just been decided; `context` is the state before it."""
        ...
