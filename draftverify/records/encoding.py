"""Records as JSON text and back: what may be written down, and what two records must share to be the same.

Records hold plain JSON values: null, booleans, 64-bit integers, finite floats, strings, lists and objects
with string keys. Inside an item a tuple comes back as a list; where a struct says tuple it is a tuple
again. Anything else is refused by name, never written in a form from which it could not be read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeVar

import msgspec

from draftverify.errors import ContractError, StoreError
from draftverify.values import Failure, Outcome, Round, TaskRecord, Timing

__all__ = ["check", "check_plain", "decode", "encode", "timeless"]

T = TypeVar("T")

_SIMPLE = frozenset({str, int, bool, type(None)})
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


def encode(value: Any, what: str) -> str:
    """JSON text of a record, a round or any other struct of plain values.

    Args:
        value: the struct.
        what: where it belongs, for the error ("task 'a', round 3").

    Raises:
        ContractError: naming the place and the type that JSON cannot hold.
    """
    check(value, what)
    try:
        return msgspec.json.encode(value, enc_hook=_simpler).decode()
    except (TypeError, OverflowError, UnicodeError, RecursionError) as error:
        raise ContractError(f"{what}: {error}; only JSON values can be recorded") from error


def decode(text: str | bytes, type: type[T], what: str) -> T:
    """The struct that `encode` wrote.

    Raises:
        StoreError: when the text is not one, naming where it stood.
    """
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise StoreError(f"{what}: the recorded text cannot be read: {error}") from error


def check(value: Any, what: str) -> None:
    """Refuse a record, round, outcome or plain value in which JSON would lose something.

    Raises:
        ContractError: naming the place and the type.
    """
    if isinstance(value, TaskRecord):
        _check_outcome(value.outcome, what)
        for round in value.rounds:
            _check_round(round, f"{what}, round {round.index}")
    elif isinstance(value, Round):
        _check_round(value, what)
    elif isinstance(value, Outcome):
        _check_outcome(value, what)
    elif not isinstance(value, msgspec.Struct):
        check_plain(value, what)


def check_plain(value: Any, what: str) -> None:
    """Refuse a value that JSON would lose.

    Raises:
        ContractError: naming the place and the type.
    """
    kind = type(value)
    if kind is int:
        if not _INT_MIN <= value <= _INT_MAX:
            raise ContractError(f"{what}: the integer {value:.6g} is beyond 64 bits; record it as a string")
    elif kind in _SIMPLE:
        return
    elif kind is float:
        if not isfinite(value):
            raise ContractError(f"{what}: {value} is no JSON number; use None or a string")
    elif kind is list or kind is tuple:
        for index, entry in enumerate(value):
            check_plain(entry, f"{what}[{index}]")
    elif kind is dict:
        for key, entry in value.items():
            if type(key) is not str:
                raise ContractError(f"{what}: the key {key!r} is no string; JSON keys are strings")
            check_plain(entry, f"{what}.{key}")
    elif not _is_scalar(value):
        raise ContractError(
            f"{what}: a value of type {kind.__module__}.{kind.__qualname__} cannot be recorded; items and "
            "outcomes must be JSON values (null, booleans, numbers, strings, lists, objects)"
        )


def timeless(record: TaskRecord) -> TaskRecord:
    """The record without its times, and without tracebacks: what two runs of the same task must share.

    Nested records are treated likewise. Under any driver, any executor and after any interruption,
    deterministic parts give equal timeless records.
    """
    outcome = msgspec.structs.replace(record.outcome, seconds=0.0, failure=_untraced(record.outcome.failure))
    return msgspec.structs.replace(record, outcome=outcome, rounds=tuple(map(_timeless_round, record.rounds)))


def _timeless_round(round: Round) -> Round:
    notes = round.notes and {key: value for key, value in round.notes.items() if key != "seconds"}
    return msgspec.structs.replace(
        round,
        timing=Timing(units=round.timing.units, passes=round.timing.passes),
        failure=_untraced(round.failure),
        nested=tuple(map(timeless, round.nested)),
        notes=notes,
    )


def _untraced(failure: Failure | None) -> Failure | None:
    return None if failure is None else msgspec.structs.replace(failure, traceback="")


def _check_round(round: Round, what: str) -> None:
    for name, values in (
        ("item", round.items),
        ("correction", round.correction),
        ("splice", round.decision.spliced),
        ("emitted value", round.decision.emitted),
    ):
        for index, value in enumerate(values):
            kind = type(value)
            if kind is str or (kind is int and _INT_MIN <= value <= _INT_MAX):
                continue  # nearly every item is a token id or a text
            check_plain(value, f"{what}, {name} {index}")
    for held in round.held:
        check_plain(held.value, f"{what}, held value")
    if round.notes:
        check_plain(round.notes, f"{what}, notes")
    for record in round.nested:
        check(record, f"{what}, inner task {record.task!r}")


def _check_outcome(outcome: Outcome, what: str) -> None:
    check_plain(outcome.value, f"{what}, outcome")
    if outcome.refused is not None:
        check_plain(outcome.refused.value, f"{what}, refused candidate")


def _is_scalar(value: Any) -> bool:
    """Whether it is a number of an array library: no dimensions, and an `item` that gives Python's."""
    return getattr(value, "shape", None) == () and hasattr(value, "item")


def _simpler(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if _is_scalar(value):
        number = value.item()
        if type(number) in (int, bool) or (type(number) is float and isfinite(number)):
            return number
    raise TypeError(f"a value of type {type(value).__module__}.{type(value).__qualname__}")
