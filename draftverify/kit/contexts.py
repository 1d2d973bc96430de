"""Contexts for calling a component directly, and the comparison of what it answers.

`make_context` is all that a component's own tests need: no session, no pipeline. `snapshot` and `difference` are
what the conformance checks see mutations and unequal answers with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from array_api_compat import is_array_api_obj

from draftverify.engine.pipeline import as_task
from draftverify.frozen import freeze
from draftverify.randomness import Draws, stream_key
from draftverify.values import (
    EMPTY,
    Context,
    Decision,
    Feedback,
    Held,
    Last,
    Memory,
    Proposal,
    Round,
    Task,
    Trail,
)


def make_draws(
    task: str = "0", *, seed: int = 0, attempt: int = 0, role: str = "rule", round: int = 0
) -> Draws:
    """The draws that a pipeline of this seed gives one role in one round."""
    return Draws(stream_key(seed, task, attempt, role), round)


def make_context(
    task: Task | Mapping[str, Any] | str = "the cat sat on the mat, the cat sat",
    *,
    accepted: Sequence[Any] = (),
    held: Sequence[Held] = (),
    rounds: int | Sequence[Round] = 0,
    last: Last | None = None,
    feedback: Sequence[Feedback] = (),
    refused: Sequence[Any] = (),
    enough: int | None = None,
    settings: Mapping[str, Any] = EMPTY,
    memory: Memory | None = None,
    scratch: dict[Any, Any] | None = None,
    attempt: int = 0,
    tries: int = 0,
    seed: int = 0,
    role: str = "draft",
) -> Context:
    """A Context as a session would make it.

    Args:
        task: a Task, its input, or the text of its input's "prompt".
        rounds: the records so far, or how many rounds to pretend have passed.
        seed, role: of `context.draws`; the role is "draft" or "verify" (a rule's draws come beside the context, see
            `make_draws`). All other arguments are fields of Context.
    """
    task = as_task(task)
    records = [Round(index=i) for i in range(rounds)] if isinstance(rounds, int) else list(rounds)
    return Context(
        task=task,
        accepted=Trail.of(accepted),
        held=tuple(held),
        rounds=Trail.of(records),
        last=last,
        feedback=tuple(feedback),
        refused=tuple(refused),
        enough=enough,
        settings=freeze(settings),
        memory=memory or Memory(),
        draws=make_draws(task.id, seed=seed, attempt=attempt, role=role, round=len(records)),
        scratch={} if scratch is None else scratch,
        attempt=attempt,
        tries=tries,
    )


def advanced(context: Context, *values: Any) -> Context:
    """The context one round later, `values` having been accepted; with an empty scratch."""
    record = Round(index=context.round, decision=Decision(spliced=values, emitted=values))
    return msgspec.structs.replace(
        context,
        accepted=Trail.of([*context.accepted, *values]),
        rounds=Trail.of([*context.rounds, record]),
        draws=Draws(context.draws.key, context.round + 1),
        scratch={},
    )


def values_of(proposal: Proposal, decision: Decision) -> tuple[Any, ...]:
    """The values that a decision adds to the accepted ones: kept and corrected items in order, then the splice."""
    values = {index: proposal.items[index] for index in decision.kept}
    values |= {correction.index: correction.value for correction in decision.corrected}
    joined = sorted(values) if decision.corrected else values
    return (*(values[index] for index in joined), *decision.spliced)


_APART = frozenset({"scratch", "draws", "cost", "nested", "hidden", "place"})


def as_numpy(array: Any) -> np.ndarray[Any, Any]:
    """Any array as a NumPy one on the host; bfloat16, which NumPy lacks, becomes float32."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        array = array.float() if "bfloat16" in str(array.dtype) else array
    return np.asarray(array)


def snapshot(value: Any, arrays: list[Any] | None = None, depth: int = 0) -> Any:
    """A deep copy as plain data, to be compared later.

    Args:
        value: anything; structs lose the fields that may change or differ freely (scratch, draws, costs, nested
            records, hidden states, places in a pass's array, the seconds among the notes).
        arrays: collects the NumPy arrays that were met.
        depth: of the recursion; objects of unknown classes are not followed beyond four levels.
    """
    if is_array_api_obj(value):
        if arrays is not None and isinstance(value, np.ndarray):
            arrays.append(value)
        return np.array(as_numpy(value))
    if value is None or isinstance(value, (str, bytes, int, float, type)):
        return value
    if isinstance(value, msgspec.Struct):
        names = [name for name in value.__struct_fields__ if name not in _APART]
        copied = {name: snapshot(getattr(value, name), arrays, depth) for name in names}
        if isinstance(copied.get("notes"), dict):
            copied["notes"].pop("seconds", None)  # where a verification or a round may keep times
        return copied
    if isinstance(value, Mapping):
        return {key: snapshot(entry, arrays, depth) for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [snapshot(entry, arrays, depth) for entry in value]
    if isinstance(value, (set, frozenset)):
        return frozenset(value)
    compares = any("__eq__" in vars(base) for base in type(value).__mro__[:-1])
    if callable(value) or (compares and not dataclasses.is_dataclass(value)):
        return value
    fields = vars(value) if depth < 4 and hasattr(value, "__dict__") else {}
    return {"": type(value)} | {name: snapshot(entry, arrays, depth + 1) for name, entry in fields.items()}


def difference(left: Any, right: Any, tolerance: float = 0.0, path: str = "") -> str | None:
    """Where two snapshots first differ, in words; None when nowhere. Floats may differ by `tolerance`."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.shape != right.shape:
            return f"{path} has shape {left.shape}, then {right.shape}"
        if tolerance and left.dtype.kind == right.dtype.kind == "f":
            equal = bool(np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True))
        else:
            equal = left.dtype == right.dtype and left.tobytes() == right.tobytes()
        return None if equal else f"the values of {path} differ"
    if isinstance(left, dict) and isinstance(right, dict) and list(left) == list(right):
        steps = ((left[key], right[key], f"{path}.{key}" if path else str(key)) for key in left)
    elif isinstance(left, dict) and isinstance(right, dict) and {*left} != {*right}:
        return f"{path} has the keys {_shown([*left])}, then {_shown([*right])}"
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        steps = ((*pair, f"{path}[{index}]") for index, pair in enumerate(zip(left, right, strict=True)))
    elif isinstance(left, float) and isinstance(right, float):
        near = (
            left == right
            or abs(left - right) <= tolerance * (1 + abs(left))
            or (left != left and right != right)
        )
        return None if near else f"{path} is {left!r}, then {right!r}"
    else:
        return None if _equal(left, right) else f"{path} is {_shown(left)}, then {_shown(right)}"
    return next((change for a, b, where in steps if (change := difference(a, b, tolerance, where))), None)


def _equal(left: Any, right: Any) -> bool:
    try:
        return left is right or bool(left == right)
    except Exception:
        return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
