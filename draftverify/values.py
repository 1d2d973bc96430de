"""The values that pass between a pipeline's parts: frozen, plain, and the same words everywhere.

A block's life is `Context` → `Proposal` → `Verification` → `Decision` → `Round`; a task's is `Task` → `Outcome`.
Nothing here calls anything. The structs are msgspec's, since one is made several times a round: building one
costs a tenth of what a frozen dataclass does. Those that may hold arrays compare by identity; those that stay in
a task's history are not tracked by the garbage collector, since they hold plain values and no cycles.

Index convention, used by laws, target distributions and trees alike: an item's parent is the index of the item
that it was drawn after, or -1 for the context itself; the distribution after parent `j` stands in row `j + 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from traceback import format_exception
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import msgspec

from draftverify.errors import ContractError

if TYPE_CHECKING:
    from draftverify.engine.randomness import Draws

Array: TypeAlias = Any
"""Any array that follows the array API standard (NumPy, torch, …)."""

Shape: TypeAlias = Literal["chain", "alternatives", "tree"]
LawKind: TypeAlias = Literal["given", "iid", "without_replacement"]
VerdictKind: TypeAlias = Literal["pass", "reject", "abstain", "error", "timeout", "unchecked"]
Status: TypeAlias = Literal["accepted", "abstained", "exhausted", "waiting", "failed"]
Trouble: TypeAlias = Literal["reject", "error", "timeout", "abstain", "exhausted"]

VERDICTS: tuple[VerdictKind, ...] = ("pass", "reject", "abstain", "error", "timeout", "unchecked")
EMPTY: Mapping[str, Any] = MappingProxyType({})


class Task(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One unit of work.

    Args:
        id: unique within a run; every random draw of the task depends on it.
        input: what the parts read, e.g. {"prompt": "…"}.
        group: the kind of work, for tables ("summarise", "rewrite", …).
    """

    id: str
    input: Mapping[str, Any] = EMPTY
    group: str = ""


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
    """What a call cost. `seconds` replaces the driver's clock; `units` are the user's own (money, tokens, …)."""

    seconds: float | None = None
    units: float = 0.0


class Evidence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a verifier measured when it gives no verdicts (or beside them).

    Args:
        target: [n + 1, vocabulary], probabilities; row 0 after the context, row i + 1 after item i.
        raw_maxima: [n + 1], the largest probability of each row at temperature 1.
        pairwise: [n, n], entry (i, j) how item i fares against item j.
        cross: [n, m], entry (i, k) how item i fares on check k.
        hidden: anything a learned drafter reads from `context.last`.
        place: of target in the array of a whole pass, which spares a rule a copy.
    """

    target: Array | None = None
    raw_maxima: Array | None = None
    pairwise: Array | None = None
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
    """

    items: Sequence[Any]
    parents: tuple[int, ...]
    law: Law = GIVEN
    extends: tuple[int, ...] = ()
    evidence: Mapping[str, Any] = EMPTY
    cost: Cost | None = None
    exhausted: bool = False
    nested: tuple[TaskRecord, ...] = ()

    @staticmethod
    def chain(items: Sequence[Any], law: Law = GIVEN, **more: Any) -> Proposal:
        """Each item stands on the one before it: tokens, plan steps, reasoning steps."""
        return Proposal(items=items, parents=_chain_parents(len(items)), law=law, **more)

    @staticmethod
    def alternatives(items: Sequence[Any], law: Law = GIVEN, **more: Any) -> Proposal:
        """No item stands on another: programs, passages, solutions."""
        return Proposal(items=items, parents=(-1,) * len(items), law=law, **more)

    @staticmethod
    def tree(items: Sequence[Any], parents: Sequence[int], law: Law = GIVEN, **more: Any) -> Proposal:
        """Items with any parents; siblings are tried in the order in which they stand."""
        return Proposal(items=items, parents=tuple(parents), law=law, **more)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def shape(self) -> Shape:
        """The narrowest shape; one item, or none, is a chain (and fits every shape)."""
        if self.parents == _chain_parents(len(self.parents)):
            return "chain"
        return "alternatives" if all(parent == -1 for parent in self.parents) else "tree"

    def fits(self, shape: Shape) -> bool:
        """Whether the items can be read as `shape`: everything is a tree, one item is everything."""
        return shape == "tree" or len(self.parents) <= 1 or self.shape == shape

    def path(self, index: int) -> tuple[int, ...]:
        """The indices from the root down to `index`, inclusive."""
        found: list[int] = []
        while index >= 0:
            found.append(index)
            index = self.parents[index]
        return tuple(reversed(found))

    def subset(self, indices: Sequence[int]) -> Proposal:
        """These alternatives alone, in this order (law "given"); for verifying some of them again."""
        return msgspec.structs.replace(
            self,
            items=tuple(self.items[i] for i in indices),
            parents=(-1,) * len(indices),
            law=GIVEN,
            extends=tuple(self.extends[i] for i in indices) if self.extends else (),
        )


_PREFIXES = [tuple(range(n)) for n in range(257)]
_CHAINS = [tuple(range(-1, n - 1)) for n in range(257)]


def prefix(n: int) -> tuple[int, ...]:
    """(0, …, n - 1): what a rule keeps of a chain."""
    return _PREFIXES[n] if n < len(_PREFIXES) else tuple(range(n))


def _chain_parents(n: int) -> tuple[int, ...]:
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
    """

    verdict: VerdictKind
    score: float | None = None
    reason: str = ""
    feedback: str = ""
    stage: str = ""


PASS = Check("pass")
REJECT = Check("reject")
UNCHECKED = Check("unchecked")


class Verification(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one pass over the whole block found.

    Args:
        checks: one per item, or () when the verifier gives evidence and no verdicts.
        evidence: distributions, pairwise or cross results, hidden states.
        correction: items that the verifier offers to stand where the first refused one stood.
        cost: self-reported; else the driver's clock counts.
        deterministic: False when the same block could be judged otherwise another time.
        notes: what the records should keep about this pass: the isolation it ran under, the order of its stages.
            JSON values; nothing decides by them. Times stand under the key "seconds" alone.
    """

    checks: tuple[Check, ...] = ()
    evidence: Evidence | None = None
    correction: tuple[Any, ...] = ()
    cost: Cost | None = None
    deterministic: bool = True
    notes: Mapping[str, Any] = EMPTY


class Refusal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An item that the rule judged and did not accept, and why."""

    index: int
    reason: str = ""


class Decision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What the rule keeps of a block.

    Args:
        kept: indices of accepted items, in the order in which they join `context.accepted`.
        held: indices of items to hold for later rounds (ballots, surviving partials).
        released: indices into `context.held` of items to hold no longer.
        spliced: values that join `accepted` after the kept items (a bonus token, a correction).
        refused: judged and not accepted. Items named nowhere were not judged.
        drift: of a rule that does not emit the target's distribution p but π: TV(π, p) for each emitted value, in
            order; () when the rule emits p. Their sum bounds, in expectation, how far the outcome's distribution
            lies from the target's.
        items: the block's items on the host, where they came as an array and the rule brought them with what it
            decided, so that a round needs one transfer; the session puts them into the round's record.
        done: the rule itself says that the task is finished.
        emitted: filled in by the session: the values that joined `accepted`, after any cut by `done`; `drift` is cut
            with them.
    """

    kept: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
    spliced: tuple[Any, ...] = ()
    refused: tuple[Refusal, ...] = ()
    drift: tuple[float, ...] = ()
    items: tuple[Any, ...] = ()
    done: bool = False
    emitted: tuple[Any, ...] = ()

    @property
    def progress(self) -> bool:
        """Whether anything was kept, held or spliced; the policy is consulted only when nothing was."""
        return bool(self.kept or self.spliced or self.held)


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A component's call that failed; an answer like any other, never an exception inside the session."""

    kind: Literal["error", "timeout"]
    error: str
    message: str
    traceback: str = ""

    @staticmethod
    def of(error: Exception) -> Failure:
        """An exception as a value: kind "timeout" for any TimeoutError, else "error"."""
        return Failure(
            "timeout" if isinstance(error, TimeoutError) else "error",
            type(error).__name__,
            str(error),
            "".join(format_exception(type(error), error, error.__traceback__, limit=-8)),
        )

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error


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
    """Counts of checked items. Errors, timeouts and abstentions are in nobody's denominator."""

    trials: int = 0
    accepted: int = 0
    errors: int = 0
    timeouts: int = 0
    abstentions: int = 0
    unchecked: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.trials + other.trials,
            self.accepted + other.accepted,
            self.errors + other.errors,
            self.timeouts + other.timeouts,
            self.abstentions + other.abstentions,
            self.unchecked + other.unchecked,
        )


class Timing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Seconds of one round by part, and the user's cost units.

    `draft`, `verify` and `decide` are latency and count a pass that a batch shared whole; `busy` is the machine
    time that this round answers for and counts its share of such a pass. `passes` counts verifier calls (more
    than one after a re-verification), `batch` the sessions that shared the last of them.
    """

    draft: float = 0.0
    verify: float = 0.0
    decide: float = 0.0
    busy: float = 0.0
    units: float = 0.0
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
        items, parents, law, exhausted: of the proposal (n items; the law's kind).
        asked: how many items were asked for.
        checks, correction: of the verification.
        decision: of the rule, with `emitted`.
        tally: trials and the other counts of this round.
        timing: seconds and cost.
        trouble: what was in the way when there was no progress.
        steps: the policy steps that the trouble led to: re-verifications within the round, then what came after.
        failure: the failed call, when the round ended in one.
        held: the values that the decision holds.
        nested: records of inner pipelines.
        deterministic: False when a clock or a model that is not batch-invariant took part.
        notes: of the verification.
    """

    index: int
    tries: int = 0
    source: str = "generator"
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
    deterministic: bool = True
    notes: dict[str, Any] | None = None


class Candidate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The best refused candidate: shown when nothing was accepted, and to the person who is asked."""

    value: Any
    score: float | None = None
    reason: str = ""
    feedback: str = ""


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """How a task ended.

    Args:
        status: "accepted" (finished as the rule or `done` says), "abstained" (finished without an answer),
            "exhausted" (budget, generator or policy came to an end), "waiting" (for a person), "failed".
        value: the answer; for a chain that was cut short what was accepted so far.
        reason: why it ended, in words, when it was not accepted.
        refused: the best refused candidate.
        failure: the failed call that ended the task.
        rounds: how many.
        tally: summed over rounds.
        drift: TV(π, p) summed over the emitted values; 0 for a rule that emits the target's p.
        seconds: the task's latency, summed over its calls.
        units: the user's cost units.
    """

    status: Status
    value: Any = None
    reason: str = ""
    refused: Candidate | None = None
    failure: Failure | None = None
    rounds: int = 0
    tally: Tally = Tally()
    drift: float = 0.0
    seconds: float = 0.0
    units: float = 0.0


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One committed record: a task's outcome and its rounds."""

    task: str
    attempt: int = 0
    outcome: Outcome
    rounds: tuple[Round, ...] = ()
    group: str = ""


class Trail(Sequence[Any]):
    """A frozen view of a growing list: its first `length` entries. Taking one costs the same at any length."""

    __slots__ = ("_entries", "_length")

    def __init__(self, entries: list[Any], length: int | None = None) -> None:
        self._entries = entries
        self._length = len(entries) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            if len(self._entries) == self._length:
                return tuple(self._entries[index])
            return tuple([self._entries[place] for place in range(self._length)[index]])
        if not -self._length <= index < self._length:
            raise IndexError(f"index {index} outside a trail of {self._length}")
        return self._entries[index if index >= 0 else index + self._length]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_same, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Trail({list(self)!r})"


def _same(left: object, right: object) -> bool:
    return left is right or bool(left == right)


class Memory(msgspec.Struct, frozen=True, eq=False):
    """What earlier tasks of the run taught: a snapshot that no task changes, and its version."""

    version: int = 0
    records: tuple[TaskRecord, ...] = ()


class Last(msgspec.Struct, frozen=True, eq=False):
    """The round before this one, whole, with its arrays; not kept any longer than that."""

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
        last: the last round with its arrays, or None.
        feedback: refusals that the policy wants the generator to read; () after a plain retry.
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
    held: tuple[Held, ...]
    rounds: Trail
    last: Last | None
    feedback: tuple[Feedback, ...]
    enough: int | None
    settings: Mapping[str, Any]
    memory: Memory
    draws: Draws
    scratch: dict[Any, Any]
    attempt: int
    tries: int

    @property
    def round(self) -> int:
        """The number of the round that is being made, from 0."""
        return len(self.rounds)


def check_proposal(
    proposal: Proposal,
    asked: int,
    shape: Shape | None,
    shapes: frozenset[Shape] | None,
    laws: frozenset[str],
    held: int,
) -> None:
    """Refuse a proposal that breaks its contract.

    Args:
        proposal: what a generator returned.
        asked: the most items it may have.
        shape: the shape that the generator declares.
        shapes: those that the rule judges.
        laws: those that the generator declares.
        held: how many items are held.

    Raises:
        ContractError: naming what is wrong with its type, count, parents, shape, law or law's rows.
    """
    if type(proposal) is not Proposal:
        raise ContractError(f"propose() must return a Proposal, not {type(proposal).__name__}")
    n = len(proposal.items)
    parents = proposal.parents
    if n > asked:
        raise ContractError(f"{n} items were proposed where at most {asked} were asked for")
    is_chain = parents == _chain_parents(n)
    if not is_chain:
        if len(parents) != n:
            raise ContractError(f"{n} items came with {len(parents)} parents")
        for index, parent in enumerate(parents):
            if not -1 <= parent < index:
                raise ContractError(
                    f"item {index} has parent {parent}; a parent stands before its item, or is -1"
                )
    if n > 1 and not (is_chain and shape == "chain" and (shapes is None or "chain" in shapes)):
        if shape is not None and not proposal.fits(shape):
            raise ContractError(
                f"a {proposal.shape} was proposed by a generator that declares shape {shape!r}"
            )
        if shapes is not None and not any(map(proposal.fits, shapes)):
            raise ContractError(
                f"a {proposal.shape} was proposed; the rule judges {', '.join(sorted(shapes))}"
            )
    law = proposal.law
    kind, q = law.kind, law.q
    if kind not in laws:
        raise ContractError(f"law {kind!r} was used; the generator declares {sorted(laws)}")
    if (q is None) != (kind == "given"):
        raise ContractError(f"law {kind!r} must come {'without' if kind == 'given' else 'with'} q")
    if q is not None and n:
        rows = n if is_chain else max(parents) + 2
        found = q.shape
        if len(found) != 2 or found[0] < rows:
            raise ContractError(
                f"q has shape {tuple(found)}; [>= {rows}, vocabulary] is needed: a row per parent"
            )
    if proposal.extends:
        if len(proposal.extends) != n:
            raise ContractError(f"{n} items came with {len(proposal.extends)} entries in extends")
        for entry in proposal.extends:
            if not -1 <= entry < held:
                raise ContractError(f"extends names held item {entry}; {held} are held")


def check_verification(verification: Verification, n: int) -> None:
    """Refuse a verification that breaks its contract for a block of `n` items.

    Raises:
        ContractError: naming what is wrong with its type, verdict count, verdict words or evidence shapes.
    """
    if type(verification) is not Verification:
        raise ContractError(f"verify() must return a Verification, not {type(verification).__name__}")
    checks = verification.checks
    evidence = verification.evidence
    if checks:
        if len(checks) != n:
            raise ContractError(f"{len(checks)} checks came for {n} items")
        for check in checks:
            if check.verdict not in VERDICTS:
                raise ContractError(f"{check.verdict!r} is no verdict; one of {', '.join(VERDICTS)} is")
    elif evidence is None and n:
        raise ContractError(f"neither checks nor evidence came for {n} items")
    if evidence is not None:
        target, raw_maxima = evidence.target, evidence.raw_maxima
        pairwise, cross = evidence.pairwise, evidence.cross
        if target is not None and target.shape[0] != n + 1:
            raise _wrong_rows("target", target, n + 1, n)
        if raw_maxima is not None and raw_maxima.shape[0] != n + 1:
            raise _wrong_rows("raw_maxima", raw_maxima, n + 1, n)
        if pairwise is not None and pairwise.shape[0] != n:
            raise _wrong_rows("pairwise", pairwise, n, n)
        if cross is not None and cross.shape[0] != n:
            raise _wrong_rows("cross", cross, n, n)


def _wrong_rows(name: str, array: Array, rows: int, n: int) -> ContractError:
    return ContractError(f"evidence {name} has {array.shape[0]} rows; {rows} are needed for {n} items")


def check_decision(decision: Decision, n: int, held: int) -> None:
    """Refuse a decision that names items which are not there, or one item twice.

    Raises:
        ContractError: naming the index, or how many items were brought along.
    """
    if type(decision) is not Decision:
        raise ContractError(f"decide() must return a Decision, not {type(decision).__name__}")
    kept, refused = decision.kept, decision.refused
    if decision.items and len(decision.items) != n:
        raise ContractError(f"{len(decision.items)} items were brought along for a block of {n}")
    # By far the commonest decision: a prefix, and at most the item after it refused.
    if not decision.held and not decision.released:
        count = len(kept)
        if kept == prefix(count) and (
            count <= n if not refused else len(refused) == 1 and count <= refused[0].index < n
        ):
            return
    named = kept + decision.held
    if refused:
        named += tuple(refusal.index for refusal in refused)
    for index in named:
        if not 0 <= index < n:
            raise ContractError(f"item {index} was decided on in a block of {n}")
    if len(set(named)) != len(named):
        raise ContractError("an item was decided on twice (kept, held or refused)")
    for index in decision.released:
        if not 0 <= index < held:
            raise ContractError(f"held item {index} was released; {held} are held")
