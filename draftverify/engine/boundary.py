"""The boundary: every value that a part or a person returns is read here before it touches any state.

What passes is what the session works with and what the record will hold: tuples, finite numbers, known words, items as
JSON says them. What does not is a Failure of that task alone, which names the part and what came.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from draftverify.engine.parts import Parts, name_of
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
from draftverify.errors import ContractError
from draftverify.frozen import FrozenDict, FrozenList, freeze
from draftverify.secret import redact
from draftverify.values import (
    CAUSES,
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
    Proposal,
    Refusal,
    Task,
    TaskRecord,
    Verification,
    chain_parents,
    is_utf8,
    prefix,
    utf8,
    without_addresses,
)

__all__ = [
    "canonical",
    "plain_problem",
    "raised",
    "read",
    "read_cut",
    "read_drafts",
    "read_explanation",
    "read_size",
    "read_verification",
    "shown",
]


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
    except Exception as error:
        return _broken(error, value, request.part)


def read_verification(value: Any, n: int, part: object) -> Verification | Failure:
    """What a verifier said of `n` items, for verifiers that ask others: canonical, or a Failure as of `read`."""
    try:
        found: Verification | Failure = _failure(value) if type(value) is Failure else _verified(value, n)
        return found
    except Exception as error:
        return _broken(error, value, part)


def _broken(error: Exception, value: Any, part: object) -> Failure:
    if isinstance(error, ContractError):
        return Failure("error", "ContractError", f"{name_of(part)}: {error}" if part else str(error))
    # an answer so odd that even looking at it fails
    problem = f"{name_of(part)} returned a {type(value).__name__} that cannot be read: {Failure.of(error)}"
    return Failure("error", "ContractError", problem)


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
    if type(value) is int and value >= 0:
        return value
    return _count(value, f"{name_of(part)}: a block size")


def read_drafts(value: Any, part: object) -> bool:
    """Whether a block size wants a task drafted for.

    Raises:
        ContractError: it is neither True nor False.
    """
    if type(value) is not bool:
        raise ContractError(f"{name_of(part)}: whether to draft is {shown(value)}; True or False is needed")
    return value


def read_cut(value: Any, new: int, part: object) -> int | None:
    """What a stopping rule said: None to go on, or how many of the `new` values to keep.

    Raises:
        ContractError: it is another thing; False and True are.
    """
    if value is None:
        return None
    return min(_count(value, f"{name_of(part)}: how many values to keep"), new)


def read_explanation(value: Any, part: object) -> Explanation:
    """What a verifier said of two outputs that differ.

    Raises:
        ContractError: it is another thing than an Explanation with a known cause.
    """
    if type(value) is not Explanation:
        raise ContractError(f"{name_of(part)}: explain() must return an Explanation, not {shown(value)}")
    if value.cause not in CAUSES:
        raise ContractError(f"{name_of(part)}: {value.cause!r} is no cause; one of {', '.join(CAUSES)} is")
    return replace(value, text=_text(value.text, f"{name_of(part)}: the text of an explanation"))


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
        return FrozenList([canonical(entry, depth + 1) for entry in value])
    if isinstance(value, Mapping):
        return FrozenDict({key: canonical(entry, depth + 1) for key, entry in value.items()})
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        found = value.item()
        return value if type(found) is kind else canonical(found, depth + 1)
    for base in (str, int, float):  # an enumeration's member, or the like
        if isinstance(value, base):
            return base(value)
    return value


def _items(values: Any) -> Any:
    """Canonical items: a tuple, or an array that stays on its device."""
    if type(values) is not tuple:
        if hasattr(values, "tolist") and hasattr(values, "shape"):
            if len(values.shape) != 1:
                raise ContractError(f"items came as an array of shape {tuple(values.shape)}; [n] is needed")
            if getattr(getattr(values, "dtype", None), "kind", "") not in _OBJECTS:
                return values
            values = values.tolist()
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise ContractError(f"items came as a {type(values).__name__}; a tuple or a list is needed")
        values = tuple(values)
    return values if _are_scalars(values) else tuple([canonical(each) for each in values])


_OBJECTS = ("O", "V", "M", "m")
"""Kinds of NumPy's arrays whose entries are objects rather than numbers or texts."""


def _values(values: Any) -> tuple[Any, ...]:
    """Canonical values that join what is accepted: a tuple, of an array too."""
    if type(values) is not tuple and hasattr(values, "tolist") and hasattr(values, "shape"):
        values = values.tolist()
    return _items(values)  # type: ignore[no-any-return]


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
    if value.kind not in ("error", "timeout"):
        raise ContractError(f"{value.kind!r} is no kind of failure; error and timeout are")
    for name in ("error", "message", "traceback"):
        if type(getattr(value, name)) is not str:
            raise ContractError(f"the {name} of a failure is {shown(getattr(value, name))}; a text is needed")
    return Failure(value.kind, _said(value.error), _said(value.message), _said(value.traceback))


def _task(request: Prepare, value: Any, parts: Parts) -> Task:
    if type(value) is not Task or value.id != request.task.id:
        raise ContractError("prepare() must return a Task with the id that it was given")
    if type(value.group) is not str or not isinstance(value.input, Mapping):
        raise ContractError("prepare() must return a Task whose input is a mapping and whose group is a text")
    return value


def _proposal(request: Draft, value: Any, parts: Parts) -> Any:
    if type(value) is not Proposal:
        raise ContractError(f"propose() must return a Proposal, not {shown(value)}")
    items, parents = value.items, value.parents
    if type(items) is not tuple or not _are_scalars(items):
        items = _items(items)
    n = len(items)
    if n > request.n:
        raise ContractError(f"{n} items were proposed where at most {request.n} were asked for")
    chain = chain_parents(n)
    is_chain = parents is chain or (type(parents) is tuple and parents == chain)
    if is_chain:
        parents = chain  # False and 0.0 are equal to 0, and are none
    else:
        parents = _indices(parents, "parent")
        if len(parents) != n:
            raise ContractError(f"{n} items came with {len(parents)} parents")
        for index, parent in enumerate(parents):
            if not -1 <= parent < index:
                raise ContractError(
                    f"item {index} has parent {parent}; a parent stands before its item, or is -1"
                )
    if items is not value.items or parents is not value.parents:
        value = replace(value, items=items, parents=parents)
    shape, laws = parts.declared[id(request.part)]
    shapes = parts.shapes
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
    if value.extends:
        held, extends = len(request.context.held), _indices(value.extends, "entry of extends")
        if len(extends) != n:
            raise ContractError(f"{n} items came with {len(extends)} entries in extends")
        for entry in extends:
            if not -1 <= entry < held:
                raise ContractError(f"extends names held item {entry}; {held} are held")
        value = replace(value, extends=extends)
    if value.nested:
        value = replace(value, nested=tuple(value.nested))
        if not all(type(record) is TaskRecord for record in value.nested):
            raise ContractError("nested must hold TaskRecords")
        if not isinstance(request.part, Parts):  # not of the engine's own making
            try:
                msgspec.json.decode(msgspec.json.encode(value.nested), type=tuple[TaskRecord, ...])
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                raise ContractError(f"nested holds a record that cannot be read again: {error}") from error
    if value.cost is not None:
        value = replace(value, cost=_cost(value.cost))
    if type(value.exhausted) is not bool:
        value = replace(value, exhausted=_truth(value.exhausted, "exhausted"))
    return value


_GIVEN = Proposal.chain(()).law


def _check_law(law: Any, laws: frozenset[str], n: int, rows: int) -> None:
    if type(law) is not Law:
        raise ContractError(f"the law is {shown(law)}; a Law is needed")
    kind, q = law.kind, law.q
    if kind not in laws:
        raise ContractError(f"law {kind!r} was used; the generator declares {sorted(laws)}")
    if q is not None if kind == "given" else q is None and n:
        raise ContractError(f"law {kind!r} must come {'without' if kind == 'given' else 'with'} q")
    if q is not None and n:
        found = getattr(q, "shape", None)
        if found is None:
            raise ContractError(f"q is {shown(q)}; an array is needed")
        if len(found) != 2 or found[0] < rows:
            raise ContractError(
                f"q has shape {tuple(found)}; [>= {rows}, vocabulary] is needed: a row per parent"
            )
        maxima = getattr(law.raw_maxima, "shape", None)
        if law.raw_maxima is not None and maxima != found[:1]:
            came = shown(law.raw_maxima) if maxima is None else f"of shape {tuple(maxima)}"
            raise ContractError(f"raw_maxima of q came {came}; [{found[0]}] is needed, one of each row")


def _verification(request: Verify, value: Any, parts: Parts) -> Any:
    return _verified(value, len(request.proposal.items))


def _verified(value: Any, n: int) -> Any:
    if type(value) is not Verification:
        raise ContractError(f"verify() must return a Verification, not {shown(value)}")
    checks, evidence = value.checks, value.evidence
    if type(checks) is not tuple:
        checks = tuple(checks)
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
    if type(value.correction) is not tuple or value.correction:
        value = replace(value, correction=_values(value.correction))
    if value.cost is not None:
        value = replace(value, cost=_cost(value.cost))
    if type(value.deterministic) is not bool:
        value = replace(value, deterministic=_truth(value.deterministic, "deterministic"))
    if value.notes:
        if not isinstance(value.notes, Mapping):
            raise ContractError(f"notes came as {shown(value.notes)}; a mapping of JSON values is needed")
        notes = canonical(value.notes)
        problem = plain_problem(notes)
        if problem is not None:
            raise ContractError(f"notes{problem}")
        value = replace(value, notes=freeze(_said_within(notes)))
    return value if value.by == "verifier" else replace(value, by="verifier")


_KNOWN = frozenset(VERDICTS)
_UNSET = msgspec.UNSET


def _are_plain(checks: tuple[Any, ...]) -> bool:
    """Whether nothing of the checks needs another look: known verdicts, no corrections, Python's scores, texts."""
    for check in checks:
        if check is PASS or check is REJECT:
            continue
        if type(check) is not Check or check.verdict not in _KNOWN or check.correction is not _UNSET:
            return False
        score = check.score
        if score is not None and (type(score) is not float or not isfinite(score)):
            return False
        for text in (check.reason, check.feedback, check.stage, check.caveat):
            if text != "" and not _is_plain(text):
                return False
    return True


def _check(check: Any, index: int) -> Check:
    if type(check) is not Check:
        raise ContractError(f"the check of item {index} is {shown(check)}; a Check is needed")
    if check.verdict not in _KNOWN:
        raise ContractError(f"{check.verdict!r} is no verdict; one of {', '.join(VERDICTS)} is")
    reason, feedback, stage, caveat = [
        _text(getattr(check, name), f"the {name} of item {index}")
        for name in ("reason", "feedback", "stage", "caveat")
    ]
    correction = check.correction if check.correction is _UNSET else canonical(check.correction)
    score = _number_or_none(check.score, f"the score of item {index}")
    return Check(check.verdict, score, reason, feedback, stage, correction, caveat)


def _check_evidence(evidence: Any, n: int) -> None:
    if type(evidence) is not Evidence:
        raise ContractError(f"evidence is {shown(evidence)}; an Evidence is needed")
    if evidence.target is not None:
        _check_rows(evidence.target, "target", n + 1, 2, n)
    if evidence.raw_maxima is not None:
        _check_rows(evidence.raw_maxima, "raw_maxima", n + 1, 1, n)
    if evidence.cross is not None:
        _check_rows(evidence.cross, "cross", n, 2, n)


def _check_rows(array: Any, name: str, rows: int, dimensions: int, n: int) -> None:
    found = getattr(array, "shape", None)
    if found is None:
        raise ContractError(f"evidence {name} is {shown(array)}; an array is needed")
    if len(found) != dimensions:
        raise ContractError(f"evidence {name} has shape {tuple(found)}; {dimensions} dimensions are needed")
    if found[0] != rows:
        raise ContractError(f"evidence {name} has {found[0]} rows; {rows} are needed for {n} items")


def _decision(request: Decide, value: Any, parts: Parts) -> Any:
    if type(value) is not Decision:
        raise ContractError(f"decide() must return a Decision, not {shown(value)}")
    n = len(request.proposal.items)
    return value if _is_usual(value, n) else _whole_decision(value, n, len(request.context.held))


def _is_usual(value: Any, n: int) -> bool:
    """Whether a decision keeps a prefix, refuses at most the item after it, and splices scalars: nearly all do."""
    if value.held or value.released or value.corrected or value.items or value.drift or value.tokens:
        return False
    kept, refused, spliced = value.kept, value.refused, value.spliced
    if not (type(kept) is type(refused) is type(spliced) is tuple and len(kept) <= n and len(refused) < 2):
        return False
    if type(value.done) is not bool or type(value.abstain) is not bool:
        return False
    first = prefix(len(kept))
    if kept is not first and (kept != first or not _are_integers(kept)):
        return False
    for each in spliced:
        if type(each) not in _JSON_SCALARS:
            return False
    for each in refused:
        if type(each) is not Refusal or type(each.index) is not int:
            return False
        if each.reason != "" and not _is_plain(each.reason):
            return False
        if not len(kept) <= each.index < n:
            return False
    return True


def _are_integers(values: tuple[Any, ...]) -> bool:
    for value in values:  # noqa: SIM110 - half the time of any() for the few items of a block
        if type(value) is not int:
            return False
    return True


def _whole_decision(value: Decision, n: int, holds: int) -> Decision:
    kept, held = _indices(value.kept, "kept"), _indices(value.held, "held")
    released = _indices(value.released, "released")
    refused = tuple(
        [
            Refusal(_index_of(each, Refusal, "refused"), _text(each.reason, "a reason"))
            for each in value.refused
        ]
    )
    corrected = tuple(
        [
            Correction(_index_of(each, Correction, "corrected"), canonical(each.value))
            for each in value.corrected
        ]
    )
    named = kept + held + tuple([each.index for each in refused]) + tuple([each.index for each in corrected])
    for index in named:
        if not 0 <= index < n:
            raise ContractError(f"item {index} was decided on in a block of {n}")
    if len(set(named)) != len(named):
        raise ContractError("an item was decided on twice (kept, corrected, held or refused)")
    for index in released:
        if not 0 <= index < holds:
            raise ContractError(f"held item {index} was released; {holds} are held")
    items = _items(value.items)
    if len(items) not in (0, n):
        raise ContractError(f"{len(items)} items were brought along for a block of {n}")
    return replace(
        value,
        kept=kept,
        held=held,
        released=released,
        refused=refused,
        corrected=corrected,
        items=items,
        spliced=_values(value.spliced),
        drift=tuple([_share(each, "drift") for each in value.drift]),
        tokens=_bytes(value.tokens, "tokens"),
        done=_truth(value.done, "done"),
        abstain=_truth(value.abstain, "abstain"),
    )


def _value(request: Finish, value: Any, parts: Parts) -> Choice | None:
    if value is None:
        return None
    if type(value) is not Choice:
        return Choice(_answer_value(value))
    if value.value is None:
        return None
    numbers = {
        name: _number_or_none(getattr(value, name), f"the {name} of the value")
        for name in ("score", "support", "margin")
    }
    return Choice(
        _answer_value(value.value), **numbers, reason=_text(value.reason, "the reason of the value")
    )


def _answer_value(value: Any) -> Any:
    """A tuple of items stays one, as the value of a chain is."""
    return tuple(map(canonical, value)) if type(value) is tuple else canonical(value)


def _answer(request: Ask, value: Any, parts: Parts) -> Answer | None:
    if value is None:
        return None
    if type(value) is not Answer or value.kind not in get_args(AnswerKind) or not isinstance(value.note, str):
        raise ContractError(f"a person answers with an Answer, or None; this came: {shown(value)}")
    return replace(value, value=canonical(value.value))


_READERS: Mapping[type, Callable[[Any, Any, Parts], Any]] = {
    Prepare: _task,
    Draft: _proposal,
    Verify: _verification,
    Decide: _decision,
    Finish: _value,
    Ask: _answer,
}


# Single values


_DEAREST = 1e200
"""No call costs more, so that sums of costs are finite too."""


def _cost(cost: Any) -> Cost:
    if type(cost) is not Cost:
        raise ContractError(f"the cost is {shown(cost)}; a Cost is needed")
    seconds = None if cost.seconds is None else _amount(cost.seconds, "seconds")
    return Cost(seconds, _amount(cost.units, "units"))


def _amount(value: Any, name: str) -> float:
    try:
        number = _number(value, name)
    except (ContractError, OverflowError):
        number = -1.0
    if not 0 <= number < _DEAREST:
        raise ContractError(f"the cost's {name} are {shown(value)}; a finite number, 0 or more, is needed")
    return number


def _share(value: Any, what: str) -> float:
    number = _number(value, what)
    if not 0 <= number <= 1:
        raise ContractError(f"{what} is {number}; 0 to 1 is needed")
    return number


def _bytes(value: Any, what: str) -> bytes:
    if type(value) is not bytes:
        raise ContractError(f"{what} came as {shown(value)}; bytes are needed")
    return value


def _number(value: Any, what: str) -> float:
    """A finite float; numbers of array libraries are numbers, True and False are none."""
    if not isinstance(value, (int, float)) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ContractError(f"{what} is {shown(value)}; a finite number is needed")
    return float(value)


def _number_or_none(value: Any, what: str) -> float | None:
    return None if value is None else _number(value, what)


def _count(value: Any, what: str) -> int:
    number = _index(value, what)
    if number < 0:
        raise ContractError(f"{what} is {number}; 0 or more is needed")
    return number


def _index(value: Any, what: str) -> int:
    """A whole number; those of array libraries are numbers, True and False are none."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise ContractError(f"{what}: {shown(value)} is no whole number")
    return int(value.__index__())


def _indices(values: Any, what: str) -> tuple[int, ...]:
    if type(values) is tuple and _are_integers(values):
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ContractError(f"{what}: {shown(values)} is no list of indices")
    return tuple([_index(value, what) for value in values])


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ContractError(f"{what} is {shown(value)}; True or False is needed")
    return bool(value)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ContractError(f"{what} is {shown(value)}; a text is needed")
    return _said(value)


def _is_plain(text: Any) -> bool:
    """Whether `_said` would leave it as it is."""
    return type(text) is str and text.isascii() and " at 0x" not in text and redact(text) is text


def _said(text: str) -> str:
    """Words for people, as a record can hold them: without secrets, and without addresses of memory."""
    return redact(without_addresses(utf8(str(text))))


def _said_within(value: Any) -> Any:
    """A plain value whose texts and keys are for people."""
    if type(value) is str:
        return _said(value)
    if isinstance(value, list):
        return [_said_within(inner) for inner in value]
    if isinstance(value, dict):
        return {_said(key): _said_within(inner) for key, inner in value.items()}
    return value


def _index_of(entry: Any, kind: type[Correction | Refusal], what: str) -> int:
    """The item that an entry of a decision names."""
    if type(entry) is not kind:
        raise ContractError(f"{what}: {shown(entry)} is no {kind.__name__}")
    return _index(entry.index, what)


def shown(value: Any) -> str:
    """A value and its type, for a message."""
    try:
        text = redact(without_addresses(repr(value)))  # before it is cut: half a key is too much of it
    except Exception:  # a value so odd that it cannot even be shown
        return f"a {type(value).__name__}"
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({type(value).__name__})"
