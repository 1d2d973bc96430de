"""The boundary: every value that a part or a person returns is read here before it touches any state.

What passes is what the session works with and what the record will hold: tuples, finite numbers, known words, items as
JSON says them. What does not is a Failure of that task alone, which names the part and what came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from math import isfinite
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.engine import fields
from draftverify.engine.canonical import INT_MAX, canonical, is_plain, plain_problem, read_notes
from draftverify.engine.failures import raised
from draftverify.engine.fields import are_integers, are_scalars
from draftverify.engine.parts import Parts
from draftverify.engine.requests import Answer, Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.errors import ContractError, shown
from draftverify.traits import name_of
from draftverify.values import (
    EMPTY,
    PASS,
    REJECT,
    VERDICTS,
    Check,
    Choice,
    Decision,
    Evidence,
    Explanation,
    Failure,
    Law,
    LawKind,
    Place,
    Proposal,
    Refusal,
    Task,
    TaskRecord,
    Verification,
    chain_parents,
    prefix,
)


def read(request: Request, value: Any, parts: Parts) -> Any:
    """The answer to a request as the session may use it.

    Args:
        request: what was asked.
        value: what came.
        parts: the pipeline's.

    Returns:
        The value in its canonical form; a Failure where it breaks its contract, or was one already.
    """
    try:
        if type(value) is Failure:
            return _failure(value)
        return _READERS[type(request)](request, value, parts)
    except BaseException as error:
        return _broken(error, value, request.part)


def read_verification(value: Any, n: int, part: object) -> Verification | Failure:
    """What a verifier said of `n` items, for verifiers that ask others: canonical, or a Failure as of `read`."""
    try:
        return _failure(value) if type(value) is Failure else _verified(value, n)
    except BaseException as error:
        return _broken(error, value, part)


def _broken(error: BaseException, value: Any, part: object) -> Failure:
    if isinstance(error, ContractError):
        problem = str(error) if part is None else f"{name_of(part)}: {error}"
    else:  # an answer so odd that even looking at it fails
        problem = f"{name_of(part)} returned a {type(value).__name__} that cannot be read: {raised(error)}"
    return Failure("error", "ContractError", problem)


def read_size(value: Any, part: object) -> int:
    """A block size: a number of items, 0 or more.

    Raises:
        ContractError: it is another thing.
    """
    if type(value) is int and 0 <= value <= INT_MAX:
        return value
    return fields.read(f"{name_of(part)}: a block size", fields.count, value)  # type: ignore[no-any-return]


def read_drafts(value: Any, part: object) -> bool:
    """Whether a block size wants a task drafted for.

    Raises:
        ContractError: it is neither True nor False.
    """
    return fields.read(f"{name_of(part)}: whether to draft", fields.truth, value)  # type: ignore[no-any-return]


def read_cut(value: Any, new: int, part: object) -> int | None:
    """What a stopping rule said: None to go on, or how many of the `new` values to keep.

    Raises:
        ContractError: it is another thing; False and True are.
    """
    if value is None:
        return None
    return min(int(fields.read(f"{name_of(part)}: how many values to keep", fields.count, value)), new)


def read_explanation(value: Any, part: object) -> Explanation:
    """What a verifier said of two outputs that differ.

    Raises:
        ContractError: it is another thing than an Explanation with a known cause.
    """
    if type(value) is not Explanation:
        raise ContractError(f"{name_of(part)}: explain() must return an Explanation, not {shown(value)}")
    read_fields: fields.Reader = lambda explanation, what: fields.read_struct(explanation, "an explanation")
    return fields.read(name_of(part), read_fields, value)  # type: ignore[no-any-return]


# Each kind of answer


def _failure(value: Failure) -> Failure:
    """A driver's, of what a part raised; or a part's own, which may hold anything."""
    return fields.read_struct(value, "a failure")  # type: ignore[no-any-return]


def _task(request: Prepare, value: Any, parts: Parts) -> Task:
    if type(value) is not Task:
        raise ContractError(f"prepare() must return a Task, not {shown(value)}")
    if type(value.id) is not str or value.id != request.task.id:
        raise ContractError(
            f"prepare() must return a Task with the id that it was given, not {shown(value.id)}"
        )
    name: Any = value.group
    group = fields.read("the group of the prepared task", fields.text, name)
    fields.read("the input of the prepared task", fields.mapping, value.input)
    if type(name) is str and name == group and value.expected is EMPTY:
        return value
    return Task(id=value.id, input=value.input, group=group)


def _proposal(request: Draft, value: Any, parts: Parts) -> Any:
    if type(value) is not Proposal:
        raise ContractError(f"propose() must return a Proposal, not {shown(value)}")
    items, parents = value.items, value.parents
    if type(items) is not tuple or not are_scalars(items):
        items = fields.read("items", fields.items, items)
    n = len(items)
    if n > request.n:
        raise ContractError(f"{n} items were proposed where at most {request.n} were asked for")
    chain = chain_parents(n)
    if parents is not chain:
        parents = fields.read("parent", fields.indices, parents)
        if len(parents) != n:
            raise ContractError(f"{n} items came with {len(parents)} parents")
        for index, parent in enumerate(parents):
            if not -1 <= parent < index:
                raise ContractError(
                    f"item {index} has parent {shown(parent)}; a parent stands before its item, or is -1"
                )
        parents = chain if parents == chain else parents
    is_chain = parents is chain
    if items is not value.items or parents is not value.parents:
        value = replace(value, items=items, parents=parents)
    traits = parts.declared[id(request.part)]
    shape, laws, shapes = traits.shape, traits.laws, parts.rule_traits.shapes
    if n > 1 and not (is_chain and shape == "chain" and (shapes is None or "chain" in shapes)):
        if shape is not None and not value.fits(shape):
            raise ContractError(f"a {value.shape} was proposed by a generator that declares shape {shape!r}")
        if shapes is not None and not any(map(value.fits, shapes)):
            raise ContractError(f"a {value.shape} was proposed; the rule judges {', '.join(sorted(shapes))}")
    law = value.law
    if law is not _GIVEN:
        _check_law(law, laws, n, n if is_chain else max(parents, default=-1) + 2)
    elif "given" not in laws:
        raise ContractError(f"law 'given' was used; the generator declares {sorted(laws)}")
    if value.extends is not _NONE:
        value = replace(value, extends=_extended(value.extends, n, len(request.context.held)))
    if value.nested is not _NONE:
        is_pipeline = isinstance(request.part, Parts)
        value = replace(
            value, nested=fields.read("nested", _own_records if is_pipeline else _records, value.nested)
        )
    if value.evidence is not EMPTY:
        fields.read("the evidence of a proposal", fields.mapping, value.evidence)
    notes = value.notes
    if notes is not EMPTY:
        value = replace(value, notes=fields.read("the notes of a proposal", read_notes, notes))
    if value.cost is not None:
        value = replace(value, cost=fields.read("the cost", fields.cost, value.cost))
    if type(value.exhausted) is not bool:
        value = replace(value, exhausted=fields.read("exhausted", fields.truth, value.exhausted))
    return value


_GIVEN = Proposal.chain(()).law
_NONE: tuple[Any, ...] = Decision().kept
"""What a field of entries holds where it was given none: of Python there is one empty tuple."""


def _extended(values: Any, n: int, held: int) -> tuple[int, ...]:
    extends = fields.read("entry of extends", fields.indices, values)
    if extends and len(extends) != n:
        raise ContractError(f"{n} items came with {len(extends)} entries in extends")
    for entry in extends:
        if not -1 <= entry < held:
            raise ContractError(f"extends names held item {entry}; {held} are held")
    return extends  # type: ignore[no-any-return]


def _records(values: Any, what: str) -> tuple[TaskRecord, ...]:
    """Records of inner tasks, as they will be read again."""
    records = fields.entries(values, what)
    if not all(type(record) is TaskRecord for record in records):
        raise ContractError(f"{what} must hold TaskRecords")
    try:
        plain = canonical(msgspec.to_builtins(records))
        problem = plain_problem(plain)
        if problem is None:
            return msgspec.convert(plain, tuple[TaskRecord, ...])
    except (TypeError, ValueError, OverflowError, RecursionError, ContractError) as error:
        problem = f": {error}"
    raise ContractError(f"{what} holds a record that cannot be read again{problem}")


def _own_records(records: tuple[TaskRecord, ...], what: str) -> tuple[TaskRecord, ...]:
    """Of the engine's own making, where all but a chain's value is as it will be read again."""
    return tuple(
        [
            replace(record, outcome=replace(record.outcome, value=canonical(record.outcome.value)))
            for record in records
        ]
    )


def _check_law(law: Any, laws: Set[LawKind], n: int, rows: int) -> None:
    if type(law) is not Law:
        raise ContractError(f"the law is {shown(law)}; a Law is needed")
    kind: Any = law.kind
    q = law.q
    if type(kind) is not str:
        raise ContractError(f"the kind of the law is {shown(kind)}; a word is needed")
    if kind not in laws:
        raise ContractError(f"law {kind!r} was used; the generator declares {sorted(laws)}")
    if q is not None if kind == "given" else q is None and n:
        raise ContractError(f"law {kind!r} must come {'without' if kind == 'given' else 'with'} q")
    if q is not None and n:
        shape = fields.shape(q, "q")
        if len(shape) != 2 or shape[0] < rows:
            raise ContractError(f"q has shape {shape}; [>= {rows}, vocabulary] is needed: a row per parent")
        if law.raw_maxima is not None and fields.shape(law.raw_maxima, "raw_maxima of q") != shape[:1]:
            maxima = tuple(law.raw_maxima.shape)
            raise ContractError(
                f"raw_maxima of q came of shape {maxima}; [{shape[0]}] is needed, one of each row"
            )
    elif law.raw_maxima is not None:
        fields.shape(law.raw_maxima, "raw_maxima of q")
    if law.place is not None:
        _check_place(law.place, "the place of q")


def _verified(value: Any, n: int) -> Any:
    if type(value) is not Verification:
        raise ContractError(f"verify() must return a Verification, not {shown(value)}")
    checks, evidence = value.checks, value.evidence
    if type(checks) is not tuple:
        checks = fields.read("checks", fields.entries, checks)
        value = replace(value, checks=checks)
    if checks:
        if len(checks) != n:
            raise ContractError(f"{len(checks)} checks came for {n} items")
        if not _are_plain(checks):
            value = replace(value, checks=tuple([_check(check, i) for i, check in enumerate(checks)]))
    elif evidence is None and n:
        raise ContractError(f"neither checks nor evidence came for {n} items")
    if evidence is not None:
        _check_evidence(evidence, n)
    if value.correction is not _NONE:
        value = replace(value, correction=fields.read("correction", fields.joining, value.correction))
    if value.cost is not None:
        value = replace(value, cost=fields.read("the cost", fields.cost, value.cost))
    if type(value.deterministic) is not bool:
        value = replace(value, deterministic=fields.read("deterministic", fields.truth, value.deterministic))
    if value.notes is not EMPTY:
        value = replace(value, notes=fields.read("notes", read_notes, value.notes))
    by = value.by
    return value if type(by) is str and by == "verifier" else replace(value, by="verifier")


_KNOWN = frozenset(VERDICTS)
_UNSET = msgspec.UNSET


def _are_plain(checks: tuple[Any, ...]) -> bool:
    """Whether nothing of the checks needs another look: known verdicts, no corrections, Python's scores, texts."""
    for check in checks:
        if check is PASS or check is REJECT:
            continue
        if type(check) is not Check or check.correction is not _UNSET:
            return False
        verdict: Any = check.verdict
        score: Any = check.score
        if type(verdict) is not str or verdict not in _KNOWN:
            return False
        if score is not None and (type(score) is not float or not isfinite(score)):
            return False
        for text in (check.reason, check.feedback, check.stage, check.caveat):
            if text is not _SILENT and not is_plain(text):
                return False
    return True


_SILENT = PASS.reason


def _check(check: Any, index: int) -> Check:
    if type(check) is not Check:
        raise ContractError(f"the check of item {index} is {shown(check)}; a Check is needed")
    return fields.read_struct(check, f"item {index}")  # type: ignore[no-any-return]


def _check_evidence(evidence: Any, n: int) -> None:
    if type(evidence) is not Evidence:
        raise ContractError(f"evidence is {shown(evidence)}; an Evidence is needed")
    if evidence.target is not None:
        _check_rows(evidence.target, "evidence target", n + 1, 2, n)
    if evidence.raw_maxima is not None:
        _check_rows(evidence.raw_maxima, "evidence raw_maxima", n + 1, 1, n)
    if evidence.cross is not None:
        _check_rows(evidence.cross, "evidence cross", n, 2, n)
    if evidence.place is not None:
        _check_place(evidence.place, "the place of evidence target")


def _check_rows(array: Any, name: str, rows: int, dimensions: int, n: int) -> None:
    shape = fields.shape(array, name)
    if len(shape) != dimensions:
        raise ContractError(f"{name} has shape {shape}; {dimensions} dimensions are needed")
    if shape[0] != rows:
        raise ContractError(f"{name} has {shape[0]} rows; {rows} are needed for {n} items")


def _check_place(place: Any, what: str) -> None:
    if type(place) is not Place:
        raise ContractError(f"{what} is {shown(place)}; a Place is needed")
    shape, index = fields.shape(place.whole, what), fields.read(what, fields.index, place.index)
    if len(shape) != 3 or not 0 <= index < shape[0]:
        raise ContractError(f"{what} is block {index} of an array of shape {shape}")


def _decision(request: Decide, value: Any, parts: Parts) -> Any:
    if type(value) is not Decision:
        raise ContractError(f"decide() must return a Decision, not {shown(value)}")
    n = len(request.proposal.items)
    return value if _is_usual(value, n) else _whole_decision(value, n, len(request.context.held))


def _is_usual(value: Any, n: int) -> bool:
    """Whether a decision keeps a prefix, refuses at most the item after it, and splices scalars: nearly all do."""
    # By identity: what is not the default is looked at in full, and nothing here asks a value whether it is true.
    if not (
        value.held
        is value.released
        is value.corrected
        is value.items
        is value.drift
        is value.emitted
        is _NONE
        and value.tokens is _NO_BYTES
    ):
        return False
    kept, refused, spliced = value.kept, value.refused, value.spliced
    if not (type(kept) is type(refused) is type(spliced) is tuple and len(kept) <= n and len(refused) < 2):
        return False
    if type(value.done) is not bool or type(value.abstain) is not bool:
        return False
    block_prefix = prefix(len(kept))
    if kept is not block_prefix and not (are_integers(kept) and kept == block_prefix):
        return False
    if not are_scalars(spliced):
        return False
    for refusal in refused:
        if type(refusal) is not Refusal or type(refusal.index) is not int:
            return False
        if refusal.reason is not _SILENT and not is_plain(refusal.reason):
            return False
        if not len(kept) <= refusal.index < n:
            return False
    return True


_NO_BYTES = Decision().tokens


def _whole_decision(value: Decision, n: int, holds: int) -> Decision:
    decision: Decision = fields.read_struct(value, "", emitted=lambda values, what: ())
    named: list[int] = []
    for name, indices in (
        ("kept", decision.kept),
        ("held", decision.held),
        ("refused", [refusal.index for refusal in decision.refused]),
        ("corrected", [correction.index for correction in decision.corrected]),
    ):
        named += indices
        for index in indices:
            if not 0 <= index < n:
                raise ContractError(f"{name}: item {index} was decided on in a block of {n}")
    if len(set(named)) != len(named):
        raise ContractError("an item was decided on twice (kept, corrected, held or refused)")
    for index in decision.released:
        if not 0 <= index < holds:
            raise ContractError(f"held item {index} was released; {holds} are held")
    if len(decision.items) not in (0, n):
        raise ContractError(f"{len(decision.items)} items were brought along for a block of {n}")
    return decision


def _value(request: Finish, value: Any, parts: Parts) -> Choice | None:
    choice = value if type(value) is Choice else Choice(value)
    if choice.value is None:
        return None
    return fields.read_struct(choice, "what finish() returned", value=fields.answer)  # type: ignore[no-any-return]


def _answer(request: Ask, value: Any, parts: Parts) -> Answer | None:
    if value is None:
        return None
    if type(value) is not Answer:
        raise ContractError(f"a person answers with an Answer, or None; this came: {shown(value)}")
    return fields.read_struct(value, "a person's answer")  # type: ignore[no-any-return]


_READERS: Mapping[type, Callable[[Any, Any, Parts], Any]] = {
    Prepare: _task,
    Draft: _proposal,
    Verify: lambda request, value, parts: _verified(value, len(request.proposal.items)),
    Decide: _decision,
    Finish: _value,
    Ask: _answer,
}
