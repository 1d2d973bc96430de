"""The values that pass between a pipeline's parts: frozen, plain, and the same words everywhere.

A block's life is `Context` → `Proposal` → `Verification` → `Decision` → `Round`; a task's is `Task` → `Outcome`.
Nothing here calls anything. The structs are msgspec's, since one is made several times a round: building one
costs a tenth of what a frozen dataclass does. Those that may hold arrays compare by identity; those that stay in
a task's history are not tracked by the garbage collector, since they hold plain values and no cycles.

Index convention, used by laws, target distributions and trees alike: an item's parent is the index of the item
that it was drawn after, or -1 for the context itself; the distribution after parent `j` stands in row `j + 1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from operator import is_
from traceback import format_exception
from typing import Any, Literal, TypeAlias, get_args, overload

import msgspec
from msgspec.structs import astuple, force_setattr

from draftverify.errors import ConfigError, ContractError, DraftVerifyError, OutcomeError, without_addresses
from draftverify.frozen import FrozenDict, freeze
from draftverify.randomness import Array as Array
from draftverify.randomness import Draws
from draftverify.secret import redact

Shape: TypeAlias = Literal["chain", "alternatives", "tree"]
LawKind: TypeAlias = Literal["given", "iid", "without_replacement"]
VerdictKind: TypeAlias = Literal["pass", "reject", "abstain", "error", "timeout", "unchecked"]
Status: TypeAlias = Literal["accepted", "abstained", "refused", "waiting", "failed"]
Trouble: TypeAlias = Literal["reject", "error", "timeout", "abstain", "exhausted"]

By: TypeAlias = Literal["verifier", "person", "fallback"]

VERDICTS: tuple[VerdictKind, ...] = ("pass", "reject", "abstain", "error", "timeout", "unchecked")
EMPTY: Mapping[str, Any] = FrozenDict()


class Task(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One unit of work. Its mappings are frozen copies of those that it was made with, at any depth.

    Args:
        id: unique within a run; every random draw of the task depends on it.
        input: what the parts read, e.g. {"prompt": "…"}.
        group: the kind of work, for tables ("summarise", "rewrite", …).
        expected: what metrics compare the outcome with, e.g. {"answer": "42"}; no part is shown it, and nobody who is
            to decide on the task.

    Raises:
        ConfigError: `input` or `expected` is no mapping, or holds itself.
    """

    id: str
    input: Mapping[str, Any] = EMPTY
    group: str = ""
    expected: Mapping[str, Any] = EMPTY

    def __post_init__(self) -> None:
        for name, hint in (("input", "prompt"), ("expected", "answer")):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise ConfigError(
                    f"the {name} of task {self.id!r:.80} is {value!r:.80} ({type(value).__name__}); a mapping is "
                    f"needed, as {name}={{{hint!r}: …}}"
                )
            force_setattr(self, name, freeze(value, f"the {name} of task {self.id!r:.80}"))

    def without_expected(self) -> Task:
        """The task as parts and persons are shown it."""
        return msgspec.structs.replace(self, expected=EMPTY) if self.expected else self


class Place(msgspec.Struct, frozen=True, eq=False):
    """Where a block's rows stand in the array of a whole pass, so that a rule need not put a batch together again.

    Make one with `Place.of`, and give its `rows` as the block's target or q; where those are replaced by other rows,
    the place no longer counts.

    Args:
        whole: [batch, >= rows, vocabulary]; what follows a block's rows may hold anything.
        index: the block's.
        rows: [rows, vocabulary], the view of `whole` that the block was given.
    """

    whole: Array
    index: int
    rows: Array

    @staticmethod
    def of(whole: Array, index: int, rows: int) -> Place:
        """The place of the block's first `rows` rows."""
        return Place(whole, index, whole[index, :rows])


class Law(msgspec.Struct, frozen=True, eq=False):
    """Where a proposal's items came from, which is what decides the rules that are exact for it.

    Args:
        kind: "given" for anything the rule's own draws did not influence (deterministic, unknown, reranked);
            "iid" for independent draws from `q`; "without_replacement" for siblings drawn one after the other
            from `q` with the earlier ones struck out.
        q: [rows, vocabulary], one row per parent (row `parent + 1`); None for "given".
        raw_maxima: [rows], the largest probability of each row of q at temperature 1, for rules that need it.
        place: of q in the array of a whole pass, which spares a rule a copy.
    """

    kind: LawKind
    q: Array | None = None
    raw_maxima: Array | None = None
    place: Place | None = None


GIVEN = Law("given")


def iid(q: Array, *, raw_maxima: Array | None = None) -> Law:
    """The law of items drawn independently from `q` [rows, vocabulary]."""
    return Law("iid", q, raw_maxima)


def without_replacement(q: Array, *, raw_maxima: Array | None = None) -> Law:
    """The law of siblings drawn in order from `q` [rows, vocabulary], each struck out after it was drawn."""
    return Law("without_replacement", q, raw_maxima)


class Cost(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a call cost. `seconds` replaces the driver's clock; `amount` is the user's own (money, tokens, …)."""

    seconds: float | None = None
    amount: float = 0.0


class Evidence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a verifier measured when it gives no verdicts (or beside them).

    Args:
        target: [n + 1, vocabulary], probabilities; row 0 after the context, row i + 1 after item i.
        raw_maxima: [n + 1], the largest probability of each row at temperature 1.
        cross: [n, m], entry (i, k) how item i fares on check k.
        hidden: anything a learned drafter reads from `context.last`.
        place: of target in the array of a whole pass, which spares a rule a copy.
    """

    target: Array | None = None
    raw_maxima: Array | None = None
    cross: Array | None = None
    hidden: Any = None
    place: Place | None = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A block of drafted items. Build one with `Proposal.chain`, `.alternatives` or `.tree`.

    Args:
        items: the n items, parents before children.
        parents: the index of each item's parent, -1 for the context.
        law: where the items came from.
        extends: for each item the index into `context.held` that it extends, or -1; () when none does.
        evidence: what the generator knows about its items (scores, hidden states), for the verifier or the rule.
        cost: self-reported; else the driver's clock counts.
        exhausted: the generator has no next block. Items given with it are still judged.
        nested: the records of inner pipelines that made the items.
        notes: what the records should keep about this draft, as of a Verification.
    """

    items: Sequence[Any]
    parents: tuple[int, ...]
    law: Law = GIVEN
    extends: tuple[int, ...] = ()
    evidence: Mapping[str, Any] = EMPTY
    cost: Cost | None = None
    exhausted: bool = False
    nested: tuple[TaskRecord, ...] = ()
    notes: Mapping[str, Any] = EMPTY

    @staticmethod
    def chain(items: Sequence[Any], law: Law = GIVEN, **more: Any) -> Proposal:
        """Each item stands on the one before it: tokens, plan steps, reasoning steps."""
        return Proposal(items=items, parents=chain_parents(_count(items)), law=law, **more)

    @staticmethod
    def alternatives(items: Sequence[Any], law: Law = GIVEN, **more: Any) -> Proposal:
        """No item stands on another: programs, passages, solutions."""
        return Proposal(items=items, parents=(-1,) * _count(items), law=law, **more)

    @staticmethod
    def tree(items: Sequence[Any], parents: Sequence[int], law: Law = GIVEN, **more: Any) -> Proposal:
        """Items with any parents; siblings are tried in the order in which they stand."""
        return Proposal(items=items, parents=tuple(parents), law=law, **more)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def shape(self) -> Shape:
        """The narrowest shape; one item, or none, is a chain (and fits every shape)."""
        if self.parents == chain_parents(len(self.parents)):
            return "chain"
        return "alternatives" if all(parent == -1 for parent in self.parents) else "tree"

    def fits(self, shape: Shape) -> bool:
        """Whether the items can be read as `shape`: everything is a tree, one item is everything."""
        return shape == "tree" or len(self.parents) <= 1 or self.shape == shape

    def path(self, index: int) -> tuple[int, ...]:
        """The indices from the root down to `index`, inclusive."""
        indices: list[int] = []
        while index >= 0:
            indices.append(index)
            index = self.parents[index]
        return tuple(reversed(indices))

    def subset(self, indices: Sequence[int]) -> Proposal:
        """These alternatives alone, in this order (law "given"); for verifying some of them again."""
        return msgspec.structs.replace(
            self,
            items=tuple(self.items[i] for i in indices),
            parents=(-1,) * len(indices),
            law=GIVEN,
            extends=tuple(self.extends[i] for i in indices) if self.extends else (),
        )


def _count(items: Sequence[Any]) -> int:
    try:
        return len(items)
    except TypeError as error:
        kind = type(items).__name__
        raise ContractError(
            f"the items of a proposal came as a {kind}, which has no length; give a list: list(…)"
        ) from error


_PREFIXES = [tuple(range(n)) for n in range(257)]
_CHAINS = [tuple(range(-1, n - 1)) for n in range(257)]


def prefix(n: int) -> tuple[int, ...]:
    """(0, …, n - 1): what a rule keeps of a chain."""
    return _PREFIXES[n] if n < len(_PREFIXES) else tuple(range(n))


def chain_parents(n: int) -> tuple[int, ...]:
    """(-1, 0, …, n - 2): the parents of a chain."""
    return _CHAINS[n] if n < len(_CHAINS) else tuple(range(-1, n - 1))


class Check(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The verifier's word on one item.

    Args:
        verdict: "pass", "reject", "abstain" (it cannot tell), "error" and "timeout" (the check itself failed,
            which is never a rejection), "unchecked" (it did not look).
        score: higher is better; the unit is the verifier's.
        reason: a short fixed word or phrase to count by.
        feedback: what a generator could use to do better.
        stage: of a verifier that works in stages, the one whose word this is.
        correction: what the verifier would have in the item's place (a planner's step, the exact row), of a passed item
            what it made of it (the answer that it read from a passage); UNSET for none. A rule may put it there.
        caveat: what weakens this word, a short fixed phrase ("shared-process"). Nothing decides by it; it is shown
            wherever the word is, and accepted items are counted by it.
    """

    verdict: VerdictKind
    score: float | None = None
    reason: str = ""
    feedback: str = ""
    stage: str = ""
    correction: Any = msgspec.UNSET
    caveat: str = ""


PASS = Check("pass")
REJECT = Check("reject")
UNCHECKED = Check("unchecked")


class Heard(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What a stage of a verifier said in one pass, as the notes of a round keep it under "heard".

    Args:
        stage: its name.
        items: their places in the block.
        checks: one for each; None where it became the item's check as it is.
        enough: the early stop that it was allowed.
        beside: whether it was asked for the record alone.
        failed: whether its call failed.
        cost: its cost.
        deterministic: as of a Verification.
        notes: its own.
    """

    stage: str
    items: tuple[int, ...]
    checks: tuple[Check | None, ...]
    enough: int | None = None
    beside: bool = False
    failed: bool = False
    cost: float = 0.0
    deterministic: bool = True
    notes: dict[str, Any] = {}


TIMES = ("seconds", "seconds_beside")
"""The keys of notes under which times stand; two runs share the others."""


class Verification(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one pass over the whole block found.

    Args:
        checks: one per item, or () when the verifier gives evidence and no verdicts.
        evidence: distributions, cross results, hidden states.
        correction: of a chain, the values that the verifier would go on with: after the items that it passed and
            the first correction of a check. Of an empty chain they are its plain step.
        cost: self-reported; else the driver's clock counts.
        deterministic: False when the same block could be judged otherwise another time.
        notes: what the records should keep about this pass: the isolation it ran under, the order of its stages.
            JSON values; nothing decides by them. Times stand under the key "seconds" alone.
        by: whose word this is: the "verifier"'s, a "person"'s who accepted an item, or that of a "fallback" which is
            trusted. Filled in by the session; the last two pass items and give no scores, and nothing of theirs is
            counted as a trial.
    """

    checks: tuple[Check, ...] = ()
    evidence: Evidence | None = None
    correction: tuple[Any, ...] = ()
    cost: Cost | None = None
    deterministic: bool = True
    notes: Mapping[str, Any] = EMPTY
    by: By = "verifier"


class Refusal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An item that the rule judged and did not accept, and why."""

    index: int
    reason: str = ""


class Correction(msgspec.Struct, frozen=True, gc=False):
    """Another value in an item's place."""

    index: int
    value: Any


class Decision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What the rule keeps of a block.

    Args:
        kept: indices of accepted items, in the order in which they join `context.accepted`; where items were
            corrected too, all join in the order of the block.
        corrected: items in whose place another value joins.
        held: indices of items to hold for later rounds (ballots, surviving partials); what is held of an item is what
            its check's correction made of it, where it has one.
        released: indices into `context.held` of items to hold no longer.
        spliced: values that join `accepted` after the kept and the corrected items (a bonus token).
        refused: judged and not accepted. Items named nowhere were not judged.
        drift: of a rule that does not emit the target's distribution p but π: TV(π, p) for each emitted value, in
            order; () when the rule emits p, or does not measure it. Their sum bounds, in expectation, how far the
            outcome's distribution lies from the target's.
        items: the block's items on the host, where they came as an array and the rule brought them with what it
            decided, so that a round needs one transfer; the session puts them into the round's record.
        tokens: summaries of the drafted tokens, which the session puts into the round's record likewise.
        done: the rule itself says that the task is finished.
        abstain: the rule says that there is no answer here: the task ends as abstained.
        emitted: filled in by the session: the values that joined `accepted`, after any cut by `done`; `drift` is cut
            with them.
    """

    kept: tuple[int, ...] = ()
    corrected: tuple[Correction, ...] = ()
    held: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
    spliced: tuple[Any, ...] = ()
    refused: tuple[Refusal, ...] = ()
    drift: tuple[float, ...] = ()
    items: tuple[Any, ...] = ()
    tokens: bytes = b""
    done: bool = False
    abstain: bool = False
    emitted: tuple[Any, ...] = ()

    @property
    def progress(self) -> bool:
        """Whether anything was kept, corrected, held or spliced. Where nothing was the policy is consulted."""
        return bool(self.kept or self.spliced or self.held or self.corrected)

    @property
    def taken(self) -> set[int]:
        """The items that were kept, held or corrected."""
        return {*self.kept, *self.held, *[correction.index for correction in self.corrected]}

    @property
    def joined(self) -> tuple[int | None, ...]:
        """For each emitted value the kept item that it is; None for one that was corrected or spliced."""
        sources: Sequence[int | None] = self.kept
        if self.corrected:
            replaced = {correction.index for correction in self.corrected}
            sources = [None if index in replaced else index for index in sorted({*self.kept, *replaced})]
        return (*sources, *[None] * len(self.spliced))[: len(self.emitted)]


def is_utf8(text: str) -> bool:
    """Whether a text can be written down: one with half of a surrogate pair cannot."""
    return text.isascii() or text == utf8(text)


def utf8(text: str) -> str:
    """A text that can be written down: half of a surrogate pair as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _said(error: BaseException) -> str:
    """An exception's message; some cannot make theirs."""
    try:
        return redact(without_addresses(utf8(str(error))))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "(its message cannot be made)"


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A component's call that failed; an answer like any other, never an exception inside the session.

    A round keeps its `notes` where those of the call's answer would stand.
    """

    kind: Literal["error", "timeout"]
    error: str
    message: str
    traceback: str = ""
    notes: Mapping[str, Any] = EMPTY

    @staticmethod
    def of(error: BaseException) -> Failure:
        """An exception as a value: kind "timeout" for any TimeoutError, else "error"."""
        return Failure(
            "timeout" if isinstance(error, TimeoutError) else "error",
            type(error).__name__,
            _said(error),
            redact(without_addresses(utf8("".join(format_exception(error, limit=-8))))),
            error.notes if isinstance(error, DraftVerifyError) else EMPTY,
        )

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error


class Choice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a rule's `finish` chose, and how sure the choice is; a rule that has nothing to say of that gives the value.

    Args:
        value: the answer; None for none, which is an abstention.
        score: the verifier's, of the chosen item.
        support: the value's share of the vote, 0 to 1.
        margin: by how much of the vote it leads the second, 0 to 1.
        reason: what is to be said against the choice ("below the threshold, the best that was seen").
    """

    value: Any
    score: float | None = None
    support: float | None = None
    margin: float | None = None
    reason: str = ""


class Held(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An item held for later rounds."""

    value: Any
    score: float | None
    round: int
    index: int


class Feedback(msgspec.Struct, frozen=True, gc=False):
    """A refused item and what was said of it, handed to the generator by the policy's `feedback` step."""

    item: Any
    reason: str
    feedback: str


class Tally(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Counts of checked items. Errors, timeouts and abstentions are in nobody's denominator.

    `caveats` counts those of the accepted items that rest on a check with a caveat, by its text.
    """

    trials: int = 0
    accepted: int = 0
    errors: int = 0
    timeouts: int = 0
    abstentions: int = 0
    unchecked: int = 0
    caveats: dict[str, int] = {}

    @staticmethod
    def total(tallies: Iterable[Tally]) -> Tally:
        """Their sum, count by count, with no Tally made for each term."""
        *counts, caveats = zip(*map(astuple, (Tally(), *tallies)), strict=True)
        merged = Counter[str]()
        for counted in filter(None, caveats):
            merged.update(counted)
        trials, accepted, errors, timeouts, abstentions, unchecked = map(sum, counts)
        return Tally(trials, accepted, errors, timeouts, abstentions, unchecked, dict(merged))

    def weakened(self) -> str:
        """How many accepted items rest on checks with which caveats, the frequent ones by name; "" when none does."""
        if not self.caveats:
            return ""
        frequent = Counter(self.caveats).most_common(3)
        names = [text if len(self.caveats) == 1 else f"{text} ({count})" for text, count in frequent]
        names += [f"{len(self.caveats) - 3} more"] if len(self.caveats) > 3 else []
        total = sum(self.caveats.values())
        return f"{total} of {self.accepted} accepted with a caveat: {', '.join(names)}"


class Timing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Seconds of one round by part, and the user's cost.

    `draft`, `verify` and `decide` are latency and count a pass that a batch shared whole; `busy` is the machine
    time that this round answers for and counts its share of such a pass. `passes` counts verifier calls (more
    than one after a re-verification), `batch` the sessions that shared the last of them.
    """

    draft: float = 0.0
    verify: float = 0.0
    decide: float = 0.0
    busy: float = 0.0
    cost: float = 0.0
    passes: int = 0
    batch: int = 1

    @property
    def total(self) -> float:
        """Seconds of draft, verify and decide together."""
        return self.draft + self.verify + self.decide


class Step(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A policy step that was taken: the clause's place in the policy, what it did, and for which trouble."""

    clause: int
    do: str
    on: Trouble


class Round(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The record of one propose–verify–decide, and all that a session needs to be restored: plain values only.

    Args:
        index: the round's number in its task, from 0.
        tries: how many policy retries came directly before it; 0 for a first try.
        source: which generator drafted: "generator", a fallback's name, or "person".
        by: whose word the checks are.
        items, parents, law, extends, exhausted: of the proposal (n items; the law's kind).
        asked: how many items were asked for.
        checks, correction: of the verification.
        decision: of the rule, with `emitted`.
        tally: trials and the other counts of this round.
        timing: seconds and cost.
        trouble: what was in the way when there was no progress, or what a clause for partial progress answered.
        steps: the policy steps that the trouble led to: re-verifications within the round, then what came after.
        failure: the failed call, when the round ended in one.
        held: the values that the decision holds.
        nested: records of inner pipelines.
        deterministic: False when a clock or a model that is not batch-invariant took part.
        notes: of the verification.
        draft_notes: of the proposal.
        tokens: what is kept of each drafted token's distributions, where that was asked for; see
            `draftverify.token_summary.read_summaries`.
    """

    index: int
    tries: int = 0
    source: str = "generator"
    by: By = "verifier"
    items: tuple[Any, ...] = ()
    parents: tuple[int, ...] = ()
    law: LawKind = "given"
    exhausted: bool = False
    asked: int = 0
    checks: tuple[Check, ...] = ()
    correction: tuple[Any, ...] = ()
    decision: Decision = Decision()
    tally: Tally = Tally()
    timing: Timing = Timing()
    trouble: tuple[Trouble, ...] = ()
    steps: tuple[Step, ...] = ()
    failure: Failure | None = None
    held: tuple[Held, ...] = ()
    nested: tuple[TaskRecord, ...] = ()
    extends: tuple[int, ...] = ()
    deterministic: bool = True
    notes: dict[str, Any] | None = None
    draft_notes: dict[str, Any] | None = None
    tokens: bytes = b""

    @property
    def undrafted(self) -> bool:
        """Whether the block size had nothing drafted and nobody asked: the task went to a fallback at once."""
        called = self.asked or self.timing.passes or self.source != "generator"
        return bool(self.trouble and self.steps and not called)


class Candidate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The best refused candidate: shown when nothing was accepted, and to the person who is asked.

    `judged` is False of one whose check failed: a person may be asked about it, but nobody has refused it.
    """

    value: Any
    score: float | None = None
    reason: str = ""
    feedback: str = ""
    caveat: str = ""
    judged: bool = True


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """How a task ended.

    Args:
        status: "accepted" (finished as the rule or `done` says), "abstained" (finished without an answer, or with
            nothing kept of what was drafted), "refused" (budget, generator or policy came to an end), "waiting"
            (for a person), "failed".
        value: the answer; for a chain that was cut short what was accepted so far.
        score: of the value, where the rule compares scores; the unit is the verifier's.
        support: of a vote, the value's share, 0 to 1.
        margin: of a vote, by how much of it the value leads the second.
        reason: why it ended, in words, when it was not accepted, and what the rule has to say against the value.
        refused: the best refused candidate.
        failure: the failed call that ended the task.
        rounds: how many.
        tally: summed over rounds.
        drift: TV(π, p) summed over the emitted values; None where the rule measured none, as one that emits p.
        seconds: the task's latency, summed over its calls.
        cost: the user's cost.
    """

    status: Status
    value: Any = None
    score: float | None = None
    support: float | None = None
    margin: float | None = None
    reason: str = ""
    refused: Candidate | None = None
    failure: Failure | None = None
    rounds: int = 0
    tally: Tally = Tally()
    drift: float | None = None
    seconds: float = 0.0
    cost: float = 0.0

    def unwrap(self) -> Any:
        """The value of an accepted task.

        Raises:
            OutcomeError: the task ended otherwise; the message says how and why, `error.outcome` is this outcome.
        """
        if self.status != "accepted":
            why = f": {self.reason}" if self.reason else ""
            raise OutcomeError(f"the task ended as {self.status}{why}", self)
        return self.value

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in _facts(self) if name != "status")
        return f"Outcome({self.status}, {shown})"

    def _repr_html_(self) -> str:
        return html_table([(name, value) for name, value in _facts(self)])


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One committed record: a task's outcome and its rounds.

    Args:
        task, group: of the task.
        attempt: which infrastructure re-run.
        outcome: how it ended.
        rounds: all of them.
        inner: of a task that waits for a person, the records of the inner tasks of the round under way.
    """

    task: str
    attempt: int = 0
    outcome: Outcome
    rounds: tuple[Round, ...] = ()
    group: str = ""
    inner: tuple[TaskRecord, ...] = ()

    def __repr__(self) -> str:
        return f"TaskRecord({self.task!r}, {self.outcome!r})"

    def _repr_html_(self) -> str:
        head = ("round", "by", "items", "kept", "held", "refused", "emitted", "then")
        rows = []
        for round in self.rounds:
            decision = round.decision
            sizes = (
                round.items,
                decision.kept + decision.corrected,
                decision.held,
                decision.refused,
                decision.emitted,
            )
            step = round.steps[-1].do if round.steps else str(round.failure or "")
            rows.append((str(round.index), round.source, *(str(len(entries)) for entries in sizes), step))
        facts = [("task", self.task), *_facts(self.outcome)]
        return html_table(facts) + (html_table(rows, head) if rows else "")


def _facts(outcome: Outcome) -> list[tuple[str, str]]:
    """What a person wants to see of an outcome: names and short texts."""
    value = repr(outcome.value)
    facts = [("status", outcome.status), ("value", value if len(value) <= 80 else value[:79] + "…")]
    for name in ("score", "support", "margin"):
        number = getattr(outcome, name)
        facts += [(name, f"{number:.4g}")] if number is not None else []
    facts += [("reason", repr(outcome.reason))] if outcome.reason else []
    facts += [("rounds", str(outcome.rounds))]
    weakened = outcome.tally.weakened()
    return [
        *facts,
        ("passed", f"{outcome.tally.accepted}/{outcome.tally.trials}"),
        *([("caveats", weakened)] if weakened else []),
        ("seconds", f"{outcome.seconds:.3g}"),
    ]


def html_table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """An HTML table; everything in it is escaped."""
    lines = [("th", head)] if head else []
    lines += [("td", row) for row in rows]
    cells = ["".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line) for tag, line in lines]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in cells) + "</table>"


class Trail(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A frozen view of a growing list: its first `length` entries. Taking one, and adding to one, cost the same at any
    length. A Sequence; slices are tuples.
    """

    entries: list[Any]
    length: int

    @staticmethod
    def of(entries: Iterable[Any]) -> Trail:
        """A trail of these entries."""
        copied = list(entries)
        return Trail(copied, len(copied))

    def then(self, values: Sequence[Any]) -> Trail:
        """The trail with these values after it; this one stays as it is."""
        entries, length = self.entries, self.length
        if len(entries) == length:
            entries.extend(values)
        # Else somebody has gone on from here; with the same values that is one way.
        elif len(entries) != length + len(values) or not all(map(is_, entries[length:], values)):
            return Trail.of([*self, *values])
        return Trail(entries, len(entries))

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            if len(self.entries) == self.length:
                return tuple(self.entries[index])
            return tuple([self.entries[place] for place in range(self.length)[index]])
        if not -self.length <= index < self.length:
            raise IndexError(f"index {index} outside a trail of {self.length}")
        return self.entries[index if index >= 0 else index + self.length]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries[: self.length])

    __contains__ = Sequence.__contains__
    __reversed__ = Sequence.__reversed__
    index = Sequence.index
    count = Sequence.count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_same, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Trail({list(self)!r})"


Sequence.register(Trail)


def _same(left: object, right: object) -> bool:
    return left is right or bool(left == right)


class Memory(msgspec.Struct, frozen=True, eq=False):
    """What earlier tasks of the run taught: a snapshot that no task changes, and its version."""

    version: int = 0
    records: Sequence[TaskRecord] | Trail = ()


class Last(msgspec.Struct, frozen=True, eq=False):
    """The round before this one, whole, with its arrays; not kept any longer than that.

    After a round of a task that was taken up again it is the same without arrays, evidence and q.
    """

    proposal: Proposal
    verification: Verification
    decision: Decision


class Context(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All that a component may know when it is called.

    Args:
        task: the unit of work.
        accepted: the values accepted so far, oldest first.
        held: ballots and surviving partials.
        rounds: the `Round` records so far.
        last: the last round with its arrays; None when there is none, or it came to no decision.
        feedback: refusals that the policy wants the generator to read; () after a plain retry of a judged round.
        refused: the items that are to be drafted again, after a policy step for partial progress: a block keeps what
            was accepted, and `n` is their number. They stay while drafts fail or bring nothing. () when the generator
            is free.
        enough: the verifier may stop once this many items passed, lowest index first; None to check all.
        settings: the pipeline's settings (sampling parameters and the like).
        memory: a snapshot of earlier tasks' outcomes.
        draws: this round's random numbers for this role.
        scratch: a cache private to the task; a component finds the same answers when it is empty.
        attempt: which infrastructure re-run of the task this is, from 0.
        tries: policy retries directly before this round.
    """

    task: Task
    accepted: Trail
    held: tuple[Held, ...] = ()
    rounds: Trail
    last: Last | None = None
    feedback: tuple[Feedback, ...] = ()
    refused: tuple[Any, ...] = ()
    enough: int | None = None
    settings: Mapping[str, Any]
    memory: Memory
    draws: Draws
    scratch: dict[Any, Any]
    attempt: int = 0
    tries: int = 0

    @property
    def round(self) -> int:
        """The number of the round that is being made, from 0."""
        return self.rounds.length

    @property
    def drafted(self) -> int:
        """How many items the rounds before proposed: where a generator that goes through a list goes on."""
        return sum(len(round.items) for round in self.rounds)


Cause: TypeAlias = Literal["rounding", "bug", "unexplained"]
CAUSES: tuple[Cause, ...] = get_args(Cause)


class Explanation(msgspec.Struct, frozen=True):
    """Why two outputs of one task differ, as a verifier's `explain` says.

    Args:
        cause: "rounding" (they are as near as rounding reaches), "bug" (they are not), "unexplained" (neither can be
            told, as of sampled outputs).
        text: for people: where they part, and what speaks for the cause.
    """

    cause: Cause
    text: str
