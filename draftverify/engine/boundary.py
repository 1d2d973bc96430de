"""The boundary: every value that a part or a person returns is read here before it touches any state.

What passes is what the session works with and what the record will hold: tuples, finite numbers, known words, items as
JSON says them. What does not is a Failure of that task alone, which names the part and what came.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from itertools import islice
from math import isfinite
from operator import index as index_of
from typing import Any, get_args

import msgspec
import numpy as np
from array_api_compat import is_array_api_obj
from msgspec.structs import replace

from draftverify.engine.parts import Parts
from draftverify.engine.requests import (
    Answer,
    AnswerKind,
    Ask,
    Decide,
    Draft,
    Finish,
    Prepare,
    Request,
    Verify,
)
from draftverify.errors import ContractError, StoreError, shown, without_addresses
from draftverify.frozen import FrozenDict, FrozenList, frozen_array
from draftverify.secret import redact
from draftverify.token_summary import read_summaries
from draftverify.traits import name_of
from draftverify.values import (
    CAUSES,
    EMPTY,
    PASS,
    REJECT,
    VERDICTS,
    Check,
    Choice,
    Correction,
    Cost,
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
    is_utf8,
    prefix,
    utf8,
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
        verification: Verification | Failure = (
            _failure(value) if type(value) is Failure else _verified(value, n)
        )
        return verification
    except BaseException as error:
        return _broken(error, value, part)


def _broken(error: BaseException, value: Any, part: object) -> Failure:
    if isinstance(error, ContractError):
        problem = str(error) if part is None else f"{name_of(part)}: {error}"
    else:  # an answer so odd that even looking at it fails
        problem = f"{name_of(part)} returned a {type(value).__name__} that cannot be read: {raised(error)}"
    return Failure("error", "ContractError", problem)


def _field(what: str, read: Callable[..., Any], value: Any, *arguments: Any) -> Any:
    """A field as `read(value, what, *more)` has it; what is wrong with it is said with its name."""
    try:
        return read(value, what, *arguments)
    except ContractError as error:
        if what in str(error):
            raise
        raise ContractError(f"{what}: {error}") from error
    except BaseException as error:
        raise ContractError(f"{what} cannot be read: {raised(error)}") from error


def raised(error: BaseException) -> Failure:
    """What a part raised as a value, whatever it is: a SystemExit of its own ends its task, and not the run.

    Raises:
        KeyboardInterrupt: the user's Ctrl-C, which comes in the main thread, and where it is listened to.
    """
    if isinstance(error, KeyboardInterrupt):
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise error
    return Failure.of(error)


def read_size(value: Any, part: object) -> int:
    """A block size: a number of items, 0 or more.

    Raises:
        ContractError: it is another thing.
    """
    if type(value) is int and 0 <= value <= _INT_MAX:
        return value
    return _field(f"{name_of(part)}: a block size", _count, value)  # type: ignore[no-any-return]


def read_drafts(value: Any, part: object) -> bool:
    """Whether a block size wants a task drafted for.

    Raises:
        ContractError: it is neither True nor False.
    """
    return _field(f"{name_of(part)}: whether to draft", _truth, value)  # type: ignore[no-any-return]


def read_cut(value: Any, new: int, part: object) -> int | None:
    """What a stopping rule said: None to go on, or how many of the `new` values to keep.

    Raises:
        ContractError: it is another thing; False and True are.
    """
    if value is None:
        return None
    return min(int(_field(f"{name_of(part)}: how many values to keep", _count, value)), new)


def read_explanation(value: Any, part: object) -> Explanation:
    """What a verifier said of two outputs that differ.

    Raises:
        ContractError: it is another thing than an Explanation with a known cause.
    """
    if type(value) is not Explanation:
        raise ContractError(f"{name_of(part)}: explain() must return an Explanation, not {shown(value)}")
    cause = _field(f"{name_of(part)}: the cause of an explanation", _word, value.cause, "cause", CAUSES)
    return Explanation(cause, _field(f"{name_of(part)}: the text of an explanation", _text, value.text))


# Items


_JSON_SCALARS = frozenset({str, int, float, bool, type(None)})
DEEPEST = 100
"""So many lists and objects within each other are taken: what reads a record goes as deep as its values do."""


def canonical(value: Any, depth: int = 0) -> Any:
    """An item as the record will hold it: frozen lists (for tuples too) and dicts, Python's numbers for an array
    library's.

    What is no JSON value at all stays as it is: a pipeline may pass any object along, a record cannot hold it.

    Raises:
        ContractError: the value is nested too deep, or holds itself.
    """
    kind = type(value)
    if kind in _JSON_SCALARS:
        return value
    if depth > DEEPEST:
        raise ContractError(f"a value is nested more than {DEEPEST} deep, or holds itself")
    if isinstance(value, (list, tuple)):
        # Numbers and texts, which are nearly all there is, cost no call.
        return FrozenList([e if type(e) in _JSON_SCALARS else canonical(e, depth + 1) for e in value])
    if isinstance(value, Mapping):
        return FrozenDict({_key(key): canonical(entry, depth + 1) for key, entry in value.items()})
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
        return value if type(number) is kind else canonical(number, depth + 1)
    if isinstance(value, np.ndarray):
        return frozen_array(value)
    for base, plain in _PLAIN.items():  # an enumeration's member, or the like
        if isinstance(value, base):
            return plain(value)
    return value


_PLAIN: Mapping[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}
"""The value below a class of somebody's own, whatever that makes of its words."""


def _key(key: Any) -> Any:
    return str.__str__(key) if isinstance(key, str) else key


def _is_array(value: Any) -> bool:
    try:
        return bool(is_array_api_obj(value))
    except AttributeError:  # a library whose import is blocked stands in sys.modules as None
        return False


def _items(values: Any, what: str) -> Any:
    """Canonical items: a tuple, or an array that stays on its device."""
    if type(values) is not tuple and _is_array(values):
        if len(values.shape) != 1:
            raise ContractError(f"{what} came as an array of shape {tuple(values.shape)}; [n] is needed")
        if isinstance(values, np.ndarray):
            values = frozen_array(np.asarray(values))  # a subclass may say anything
        if getattr(values.dtype, "kind", "") not in _OBJECTS:
            return values
        values = values.tolist()
    return _values(values, what)


_OBJECTS = ("O", "V", "M", "m")
"""Kinds of NumPy's arrays whose entries are objects rather than numbers or texts."""


def _values(values: Any, what: str) -> tuple[Any, ...]:
    """Canonical values that join what is accepted: a tuple, of an array too."""
    if type(values) is not tuple:
        if _is_array(values):
            values = values.tolist()
        values = _entries(values, what)
    return values if _are_scalars(values) else tuple([canonical(entry) for entry in values])


MOST = 1 << 17
"""So many entries are taken of what tells no end: a generator's may never come."""


def _entries(values: Any, what: str) -> tuple[Any, ...]:
    """The entries of a tuple, a list, or what else can be gone through and is no text."""
    if type(values) is tuple:
        return values
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ContractError(f"{what} came as a {type(values).__name__}; a tuple or a list is needed")
    entries = tuple(islice(values, MOST + 1))
    if len(entries) > MOST:
        raise ContractError(f"{what} came as a {type(values).__name__} of more than {MOST} entries")
    return entries


def _are_scalars(values: tuple[Any, ...]) -> bool:
    for value in values:  # noqa: SIM110 - half the time of all() for the few items of a block
        if type(value) not in _JSON_SCALARS:
            return False
    return True


_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


def plain_problem(value: Any) -> str | None:
    """What JSON would lose of a canonical value, and where in it; None when nothing."""
    kind = type(value)
    if kind is bool or value is None:
        return None
    if kind is str:
        if is_utf8(value):
            return None
        return f": {value!r} holds half of a surrogate pair, which is no character"
    if kind is int:
        if _INT_MIN <= value <= _INT_MAX:
            return None
        return f": an integer of {value.bit_length()} bits is beyond the 64 bits of a record"
    if kind is float:
        return None if isfinite(value) else f": {value} is no JSON number; use None or a string"
    if kind is FrozenList or kind is list or kind is tuple:
        for index, entry in enumerate(value):
            if type(entry) is int and _INT_MIN <= entry <= _INT_MAX:
                continue  # tokens: nearly all there is
            if (problem := plain_problem(entry)) is not None:
                return f"[{index}]{problem}"
        return None
    if kind is FrozenDict or kind is dict:
        for key, entry in value.items():
            if type(key) is not str or not is_utf8(key):
                return f": the key {key!r} is no string; JSON keys are strings"
            if (problem := plain_problem(entry)) is not None:
                return f".{key}{problem}"
        return None
    if getattr(value, "shape", None) == () and type(canonical(value)) is not kind:
        return plain_problem(canonical(value))
    return (
        f": a value of type {kind.__module__}.{kind.__qualname__} cannot be recorded; items and outcomes must be "
        "JSON values (null, booleans, numbers, strings, lists, objects)"
    )


# Each kind of answer


def _failure(value: Failure) -> Failure:
    """A driver's, of what a part raised; or a part's own, which may hold anything."""
    kind = _field("the kind of a failure", _word, value.kind, "kind of failure", ("error", "timeout"))
    error, message, traceback = (
        _field(f"the {name} of a failure", _text, getattr(value, name))
        for name in ("error", "message", "traceback")
    )
    return Failure(kind, error, message, traceback, notes_of_failure(value))


def _task(request: Prepare, value: Any, parts: Parts) -> Task:
    if type(value) is not Task:
        raise ContractError(f"prepare() must return a Task, not {shown(value)}")
    if type(value.id) is not str or value.id != request.task.id:
        raise ContractError(
            f"prepare() must return a Task with the id that it was given, not {shown(value.id)}"
        )
    name: Any = value.group
    group = _field("the group of the prepared task", _text, name)
    _field("the input of the prepared task", _mapping, value.input)
    if type(name) is str and name == group and value.expected is EMPTY:
        return value
    return Task(id=value.id, input=value.input, group=group)


def _proposal(request: Draft, value: Any, parts: Parts) -> Any:
    if type(value) is not Proposal:
        raise ContractError(f"propose() must return a Proposal, not {shown(value)}")
    items, parents = value.items, value.parents
    if type(items) is not tuple or not _are_scalars(items):
        items = _field("items", _items, items)
    n = len(items)
    if n > request.n:
        raise ContractError(f"{n} items were proposed where at most {request.n} were asked for")
    chain = chain_parents(n)
    integers = parents is chain or (type(parents) is tuple and _are_integers(parents))
    is_chain = parents is chain or (parents == chain if integers else _field("parent", _are, parents, chain))
    if is_chain:
        parents = chain  # False and 0.0 are equal to 0, and are none
    else:
        if not integers:
            parents = _field("parent", _indices, parents)
        if len(parents) != n:
            raise ContractError(f"{n} items came with {len(parents)} parents")
        for index, parent in enumerate(parents):
            if not -1 <= parent < index:
                raise ContractError(
                    f"item {index} has parent {shown(parent)}; a parent stands before its item, or is -1"
                )
        is_chain = parents == chain  # of a list, say
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
            value, nested=_field("nested", _own_records if is_pipeline else _records, value.nested)
        )
    if value.evidence is not EMPTY:
        _field("the evidence of a proposal", _mapping, value.evidence)
    notes = value.notes
    if notes is not EMPTY:
        value = replace(value, notes=_field("the notes of a proposal", read_notes, notes))
    if value.cost is not None:
        value = replace(value, cost=_field("the cost", _cost, value.cost))
    if type(value.exhausted) is not bool:
        value = replace(value, exhausted=_field("exhausted", _truth, value.exhausted))
    return value


_GIVEN = Proposal.chain(()).law
_NONE: tuple[Any, ...] = Decision().kept
"""What a field of entries holds where it was given none: of Python there is one empty tuple."""


def _are(values: Any, what: str, parents: tuple[int, ...]) -> bool:
    return type(values) is tuple and values == parents


def _extended(values: Any, n: int, held: int) -> tuple[int, ...]:
    extends = _field("entry of extends", _indices, values)
    if extends and len(extends) != n:
        raise ContractError(f"{n} items came with {len(extends)} entries in extends")
    for entry in extends:
        if not -1 <= entry < held:
            raise ContractError(f"extends names held item {entry}; {held} are held")
    return extends  # type: ignore[no-any-return]


def _records(values: Any, what: str) -> tuple[TaskRecord, ...]:
    """Records of inner tasks, as they will be read again."""
    records = _entries(values, what)
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
            replace(record, outcome=replace(record.outcome, value=_item(record.outcome.value, what)))
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
        shape = _shape(q, "q")
        if len(shape) != 2 or shape[0] < rows:
            raise ContractError(f"q has shape {shape}; [>= {rows}, vocabulary] is needed: a row per parent")
        if law.raw_maxima is not None and _shape(law.raw_maxima, "raw_maxima of q") != shape[:1]:
            maxima = tuple(law.raw_maxima.shape)
            raise ContractError(
                f"raw_maxima of q came of shape {maxima}; [{shape[0]}] is needed, one of each row"
            )
    elif law.raw_maxima is not None:
        _shape(law.raw_maxima, "raw_maxima of q")
    if law.place is not None:
        _check_place(law.place, "the place of q")


def _verified(value: Any, n: int) -> Any:
    if type(value) is not Verification:
        raise ContractError(f"verify() must return a Verification, not {shown(value)}")
    checks, evidence = value.checks, value.evidence
    if type(checks) is not tuple:
        checks = _field("checks", _entries, checks)
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
        value = replace(value, correction=_field("correction", _values, value.correction))
    if value.cost is not None:
        value = replace(value, cost=_field("the cost", _cost, value.cost))
    if type(value.deterministic) is not bool:
        value = replace(value, deterministic=_field("deterministic", _truth, value.deterministic))
    if value.notes is not EMPTY:
        value = replace(value, notes=_field("notes", read_notes, value.notes))
    by = value.by
    return value if type(by) is str and by == "verifier" else replace(value, by="verifier")


def notes_of_failure(failure: Failure) -> Mapping[str, Any]:
    """A failure's notes as a record holds them; none where they cannot be kept, which hides no failure."""
    with suppress(Exception):
        return read_notes(failure.notes, "notes") if failure.notes is not EMPTY else EMPTY
    return EMPTY


def read_notes(values: Any, what: str) -> dict[str, Any]:
    """Notes as a record holds them.

    Raises:
        ContractError: they are no mapping of JSON values; the message begins with `what` they are.
    """
    if not isinstance(values, Mapping):
        raise ContractError(f"{what} came as {shown(values)}; a mapping of JSON values is needed")
    notes = canonical(values)
    problem = plain_problem(notes)
    if problem is not None:
        raise ContractError(f"{what}{problem}")
    return _readable_within(notes)  # type: ignore[no-any-return]


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
            if text is not _SILENT and not _is_plain(text):
                return False
    return True


_SILENT = PASS.reason


def _check(check: Any, index: int) -> Check:
    if type(check) is not Check:
        raise ContractError(f"the check of item {index} is {shown(check)}; a Check is needed")
    verdict = _field(f"the verdict of item {index}", _word, check.verdict, "verdict", VERDICTS)
    score = _field(f"the score of item {index}", _number_or_none, check.score)
    reason, feedback, stage, caveat = [
        _field(f"the {name} of item {index}", _text, getattr(check, name))
        for name in ("reason", "feedback", "stage", "caveat")
    ]
    correction = check.correction
    if correction is not _UNSET:
        correction = _field(f"the correction of item {index}", _item, correction)
    return Check(verdict, score, reason, feedback, stage, correction, caveat)


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
    shape = _shape(array, name)
    if len(shape) != dimensions:
        raise ContractError(f"{name} has shape {shape}; {dimensions} dimensions are needed")
    if shape[0] != rows:
        raise ContractError(f"{name} has {shape[0]} rows; {rows} are needed for {n} items")


def _check_place(place: Any, what: str) -> None:
    if type(place) is not Place:
        raise ContractError(f"{what} is {shown(place)}; a Place is needed")
    shape, index = _shape(place.whole, what), _field(what, _index, place.index)
    if len(shape) != 3 or not 0 <= index < shape[0]:
        raise ContractError(f"{what} is block {index} of an array of shape {shape}")


def _shape(array: Any, what: str) -> tuple[int, ...]:
    """The shape of an array of numbers, at whose values nobody looks here: they may be on a device."""
    try:
        shape, kind = array.shape, getattr(array.dtype, "kind", "f")
        if isinstance(shape, tuple) and kind not in "OSUMmc":
            return shape if type(shape) is tuple else tuple(shape)
    except BaseException as error:
        raised(error)  # what is asked for its shape and has none is no array
    raise ContractError(f"{what} is {shown(array)}; an array is needed")


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
    if kept is not block_prefix and not (_are_integers(kept) and kept == block_prefix):
        return False
    for scalar in spliced:
        if type(scalar) not in _JSON_SCALARS:
            return False
    for refusal in refused:
        if type(refusal) is not Refusal or type(refusal.index) is not int:
            return False
        if refusal.reason is not _SILENT and not _is_plain(refusal.reason):
            return False
        if not len(kept) <= refusal.index < n:
            return False
    return True


_NO_BYTES = Decision().tokens


def _are_integers(values: tuple[Any, ...]) -> bool:
    for value in values:  # noqa: SIM110 - half the time of any() for the few items of a block
        if type(value) is not int:
            return False
    return True


def _whole_decision(value: Decision, n: int, holds: int) -> Decision:
    kept, held, released = [
        _NONE if entries is _NONE else _field(name, _indices, entries)
        for name, entries in (("kept", value.kept), ("held", value.held), ("released", value.released))
    ]
    refused, corrected, items, spliced, drift = [
        _NONE if entries is _NONE else _field(name, read, entries)
        for name, read, entries in (
            ("refused", _refused, value.refused),
            ("corrected", _corrected, value.corrected),
            ("items", _values, value.items),
            ("spliced", _values, value.spliced),
            ("drift", _shares, value.drift),
        )
    ]
    named: list[int] = []
    for name, indices in (
        ("kept", kept),
        ("held", held),
        ("refused", [refusal.index for refusal in refused]),
        ("corrected", [correction.index for correction in corrected]),
    ):
        named += indices
        for index in indices:
            if not 0 <= index < n:
                raise ContractError(f"{name}: item {index} was decided on in a block of {n}")
    if len(set(named)) != len(named):
        raise ContractError("an item was decided on twice (kept, corrected, held or refused)")
    for index in released:
        if not 0 <= index < holds:
            raise ContractError(f"held item {index} was released; {holds} are held")
    if len(items) not in (0, n):
        raise ContractError(f"{len(items)} items were brought along for a block of {n}")
    return Decision(
        kept=kept,
        held=held,
        released=released,
        refused=refused,
        corrected=corrected,
        items=items,
        spliced=spliced,
        drift=drift,
        tokens=_NO_BYTES if value.tokens is _NO_BYTES else _field("tokens", _summaries, value.tokens),
        done=value.done if type(value.done) is bool else _field("done", _truth, value.done),
        abstain=value.abstain if type(value.abstain) is bool else _field("abstain", _truth, value.abstain),
    )


def _refused(values: Any, what: str) -> tuple[Refusal, ...]:
    return tuple(
        [
            Refusal(
                _index_of(refusal, what, Refusal), _field("the reason of a refusal", _text, refusal.reason)
            )
            for refusal in _entries(values, what)
        ]
    )


def _corrected(values: Any, what: str) -> tuple[Correction, ...]:
    return tuple(
        [
            Correction(
                _index_of(correction, what, Correction), _field("a corrected value", _item, correction.value)
            )
            for correction in _entries(values, what)
        ]
    )


def _shares(values: Any, what: str) -> tuple[float, ...]:
    return tuple([_share(share, what) for share in _entries(values, what)])


def _summaries(value: Any, what: str) -> bytes:
    """What is kept of drafted tokens, which every table goes through later."""
    if type(value) is not bytes:
        raise ContractError(f"{what} came as {shown(value)}; bytes are needed")
    try:
        read_summaries(value)
    except StoreError as error:
        raise ContractError(f"{what}: {error}") from error
    return value


def _value(request: Finish, value: Any, parts: Parts) -> Choice | None:
    if value is None:
        return None
    if type(value) is not Choice:
        return Choice(_field("the value", _answer_value, value))
    if value.value is None:
        return None
    score, support, margin = [
        _field(f"the {name} of the value", _number_or_none, getattr(value, name))
        for name in ("score", "support", "margin")
    ]
    answer = _field("the value", _answer_value, value.value)
    return Choice(answer, score, support, margin, _field("the reason of the value", _text, value.reason))


def _answer_value(value: Any, what: str) -> Any:
    """A tuple of items stays one, as the value of a chain is."""
    return tuple(map(canonical, value)) if type(value) is tuple else canonical(value)


def _answer(request: Ask, value: Any, parts: Parts) -> Answer | None:
    if value is None:
        return None
    if type(value) is not Answer:
        raise ContractError(f"a person answers with an Answer, or None; this came: {shown(value)}")
    return Answer(
        _field("the kind of a person's answer", _word, value.kind, "answer", get_args(AnswerKind)),
        _field("the value of a person's answer", _item, value.value),
        _field("the note of a person's answer", _text, value.note),
    )


_READERS: Mapping[type, Callable[[Any, Any, Parts], Any]] = {
    Prepare: _task,
    Draft: _proposal,
    Verify: lambda request, value, parts: _verified(value, len(request.proposal.items)),
    Decide: _decision,
    Finish: _value,
    Ask: _answer,
}


# Single values


_DEAREST = 1e200
"""No call costs more, so that sums of costs are finite too."""


def _cost(cost: Any, what: str) -> Cost:
    if type(cost) is not Cost:
        raise ContractError(f"{what} is {shown(cost)}; a Cost is needed")
    seconds = cost.seconds
    if seconds is not None:
        seconds = _field("the cost's seconds", _amount, seconds)
    return Cost(seconds, _field("the cost's amount", _amount, cost.amount))


def _amount(value: Any, what: str) -> float:
    try:
        number = _number(value, what)
    except ContractError:
        number = -1.0
    if not 0 <= number < _DEAREST:
        raise ContractError(f"{what} cannot be {shown(value)}; a finite number, 0 or more, is needed")
    return number


def _share(value: Any, what: str) -> float:
    number = _number(value, what)
    if not 0 <= number <= 1:
        raise ContractError(f"{what} is {number}; 0 to 1 is needed")
    return number


def _number(value: Any, what: str) -> float:
    """A finite float; numbers of array libraries are numbers, True and False are none."""
    number = value
    if not isinstance(value, (int, float)) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
    try:
        finite = isinstance(number, (int, float)) and not isinstance(number, bool) and isfinite(number)
    except OverflowError:  # an integer beyond all floats
        finite = False
    if not finite:
        raise ContractError(f"{what} is {shown(value)}; a finite number is needed")
    return float(number)


def _number_or_none(value: Any, what: str) -> float | None:
    return None if value is None else _number(value, what)


def _count(value: Any, what: str) -> int:
    number = _index(value, what)
    if number < 0:
        raise ContractError(f"{what} is {number}; 0 or more is needed")
    return number


def _index(value: Any, what: str) -> int:
    """A whole number that a record can hold; those of array libraries are numbers, True and False are none."""
    number = value
    if type(value) is not int:
        if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
            raise ContractError(f"{what}: {shown(value)} is no whole number")
        number = int.__int__(index_of(value))
    if not _INT_MIN <= number <= _INT_MAX:
        raise ContractError(
            f"{what}: a number of {number.bit_length()} bits is beyond the 64 bits of a record"
        )
    return number  # type: ignore[no-any-return]


def _indices(values: Any, what: str) -> tuple[int, ...]:
    if type(values) is tuple and _are_integers(values):
        if not values or (min(values) >= _INT_MIN and max(values) <= _INT_MAX):
            return values
    elif isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ContractError(f"{what}: {shown(values)} is no list of indices")
    return tuple([_index(value, what) for value in _entries(values, what)])


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ContractError(f"{what} is {shown(value)}; True or False is needed")
    return bool(value)


def _word(value: Any, what: str, noun: str, words: tuple[str, ...]) -> Any:
    word = str.__str__(value) if isinstance(value, str) else None
    if word not in words:
        answer = shown(value) if word is None else repr(word)
        raise ContractError(f"{what}: {answer} is no {noun}; one of {', '.join(words)} is")
    return word


def _item(value: Any, what: str) -> Any:
    return canonical(value)


def _mapping(value: Any, what: str) -> None:
    if not isinstance(value, Mapping):
        raise ContractError(f"{what} is {shown(value)}; a mapping is needed")


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ContractError(f"{what} is {shown(value)}; a text is needed")
    return _readable(str.__str__(value))


def _is_plain(text: Any) -> bool:
    """Whether `_readable` would leave it as it is."""
    return type(text) is str and text.isascii() and " at 0x" not in text and redact(text) is text


def _readable(text: str) -> str:
    """Words for people, as a record can hold them: without secrets, and without addresses of memory."""
    return redact(without_addresses(utf8(text)))


def _readable_within(value: Any) -> Any:
    """A canonical value, whose texts and keys are for people."""
    if type(value) is str:
        return _readable(value)
    if isinstance(value, list):
        return FrozenList([inner if type(inner) is int else _readable_within(inner) for inner in value])
    if isinstance(value, dict):
        return FrozenDict({_readable(key): _readable_within(inner) for key, inner in value.items()})
    return value


def _index_of(entry: Any, what: str, kind: type[Correction | Refusal]) -> int:
    """The item that an entry of a decision names."""
    if type(entry) is not kind:
        raise ContractError(f"{what}: {shown(entry)} is no {kind.__name__}")
    return _field(what, _index, entry.index)  # type: ignore[no-any-return]
