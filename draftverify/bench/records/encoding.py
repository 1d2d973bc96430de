"""Records as JSON text and back: what may be written down, and what two records must share to be the same.

Records hold plain JSON values: null, booleans, 64-bit integers, finite floats, strings, lists and objects
with string keys. Inside an item a tuple comes back as a list; where a struct says tuple it is a tuple
again. Anything else is refused by name, never written in a form from which it could not be read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from draftverify.engine.canonical import plain_problem
from draftverify.errors import ContractError, StoreError
from draftverify.values import TIMES, Failure, Outcome, Round, TaskRecord, Timing

T = TypeVar("T")


def encode(value: Any, where: str) -> str:
    """JSON text of a record, a round or any other struct of plain values.

    Args:
        value: the struct.
        where: its place, for the error ("task 'a', round 3").

    Raises:
        ContractError: naming the place and the type that JSON cannot hold.
    """
    check(value, where)
    try:
        return msgspec.json.encode(value, enc_hook=_simpler).decode()
    except (TypeError, OverflowError, UnicodeError, RecursionError) as error:
        raise ContractError(f"{where}: {error}; only JSON values can be recorded") from error


def decode(text: str | bytes, type: type[T], where: str) -> T:
    """The struct that `encode` wrote.

    Raises:
        StoreError: when the text is not one, naming where it stood.
    """
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise StoreError(f"{where}: the recorded text cannot be read: {error}") from error


def check(value: Any, where: str) -> None:
    """Refuse a record, round, outcome or plain value in which JSON would lose something.

    Raises:
        ContractError: naming the place and the type.
    """
    if isinstance(value, TaskRecord):
        check(value.outcome, where)
        for round in value.rounds:
            check(round, f"{where}, round {round.index}")
    elif isinstance(value, Round):
        _check_round(value, where)
    elif isinstance(value, Outcome):
        check(value.value, f"{where}, outcome")
        if value.refused is not None:
            check(value.refused.value, f"{where}, refused candidate")
    elif not isinstance(value, msgspec.Struct) and (problem := plain_problem(value)) is not None:
        raise ContractError(f"{where}{problem}")


def timeless(record: TaskRecord) -> TaskRecord:
    """The record without its times, and without tracebacks: what two runs of the same task must share.

    Nested records are treated likewise. Under any driver, any executor and after any interruption,
    deterministic parts give equal timeless records.
    """
    outcome = msgspec.structs.replace(record.outcome, seconds=0.0, failure=_untraced(record.outcome.failure))
    return msgspec.structs.replace(
        record,
        outcome=outcome,
        rounds=tuple(map(_timeless_round, record.rounds)),
        inner=tuple(map(timeless, record.inner)),
    )


def _timeless_round(round: Round) -> Round:
    notes, draft_notes = (
        noted and {key: value for key, value in noted.items() if key not in TIMES}
        for noted in (round.notes, round.draft_notes)
    )
    return msgspec.structs.replace(
        round,
        timing=Timing(cost=round.timing.cost, passes=round.timing.passes),
        failure=_untraced(round.failure),
        nested=tuple(map(timeless, round.nested)),
        notes=notes,
        draft_notes=draft_notes,
    )


def _untraced(failure: Failure | None) -> Failure | None:
    return None if failure is None else msgspec.structs.replace(failure, traceback="")


def _check_round(round: Round, where: str) -> None:
    # What was emitted is an item, a correction or a splice, each.
    checked = [
        item_check.correction for item_check in round.checks if item_check.correction is not msgspec.UNSET
    ]
    for name, values in (
        ("items", round.items),
        ("corrections", round.correction),
        ("splices", round.decision.spliced),
        ("corrected values", [corrected.value for corrected in round.decision.corrected]),
        ("corrections of checks", checked),
        ("held values", [held.value for held in round.held]),
        ("notes", round.notes),
        ("notes of the draft", round.draft_notes),
    ):
        if values and (problem := plain_problem(values)) is not None:
            raise ContractError(f"{where}, {name}{problem}")
    for record in round.nested:
        check(record, f"{where}, inner task {record.task!r}")


def _simpler(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item") and plain_problem(value) is None:
        return value.item()  # a number of an array library
    raise TypeError(f"a value of type {type(value).__module__}.{type(value).__qualname__}")
