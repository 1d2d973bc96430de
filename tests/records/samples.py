"""Records made by a real pipeline of scripted parts, and as hypothesis strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from draftverify.values import (
    Candidate,
    Check,
    Decision,
    Failure,
    Held,
    Outcome,
    Refusal,
    Round,
    Step,
    Tally,
    TaskRecord,
    Timing,
)

ROUNDS = (
    Round(
        index=0,
        items=("a", {"move": [1, 2]}, None),
        parents=(-1, 0, 1),
        asked=4,
        checks=(
            Check("pass", 1.0),
            Check("reject", 0.25, "unmet", "the door is shut", "types", caveat="few samples"),
            Check("unchecked"),
        ),
        decision=Decision(
            kept=(0,), refused=(Refusal(1, "unmet"),), spliced=(["x", 1.5],), emitted=("a", ["x", 1.5])
        ),
        tally=Tally(trials=2, accepted=1, unchecked=1, caveats={"few samples": 1}),
        timing=Timing(draft=0.25, verify=0.5, passes=1),
        notes={"isolation": "namespaces", "seconds": {"types": 0.5}},
    ),
    Round(
        index=1,
        tries=1,
        source="big",
        trouble=("error",),
        steps=(Step(0, "reverify", "error"), Step(1, "escalate", "error")),
        failure=Failure("error", "OSError", "gone", "Traceback …"),
        held=(Held("b", None, 1, 0),),
        nested=(TaskRecord(task="t/1.0", outcome=Outcome(status="accepted", value=["n"])),),
        deterministic=False,
    ),
)


def record(task: str = "t", *, value: Any = "done", rounds: tuple[Round, ...] = ROUNDS) -> TaskRecord:
    """A record with something in every field."""
    outcome = Outcome(
        status="accepted",
        value=value,
        reason="",
        refused=Candidate({"code": "x = 1"}, 0.5, "wrong", "1 != 2", "few samples"),
        rounds=len(rounds),
        tally=Tally(trials=2, accepted=1, unchecked=1),
        seconds=0.75,
    )
    return TaskRecord(task=task, outcome=outcome, rounds=rounds, group="kind")


def waiting(task: str = "t", *, rounds: tuple[Round, ...] = ROUNDS) -> TaskRecord:
    """The record so far of a task that waits for a person."""
    found = record(task, rounds=rounds)
    return replace(found, outcome=replace(found.outcome, status="waiting", value=None))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)
