"""Values that are wrong nearly everywhere, every field of every value that a part returns, and where each is read."""

from __future__ import annotations

import enum
import itertools
from collections import UserDict, namedtuple
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from draftverify import (
    PASS,
    Answer,
    Check,
    Choice,
    Correction,
    Cost,
    Decision,
    Evidence,
    Failure,
    Outcome,
    Proposal,
    Refusal,
    Task,
    TaskRecord,
    Verification,
)
from draftverify.engine.requests import Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.kit import make_context, make_draws
from draftverify.values import Held, Law, Place, Round, Step, Tally, Timing


def _raising(error: BaseException) -> type:
    """A class of which nothing can be asked without that error."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise error.with_traceback(None)

    names = "bool len iter eq hash repr str index int float contains getitem lt le gt ge call getattr next"
    return type("Raising", (), {f"__{name}__": refuse for name in names.split()})


class Hostile:
    """No attribute of it can be read, its class neither."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Equal:
    """Equal to everything, and true."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Lying:
    """Says that it has two entries, and has none that ends."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class Shaped:
    """Looks like an array, and is none."""

    shape = (3, 4)

    def tolist(self) -> Any:
        raise ValueError("no list")


class Entries(tuple):
    """A tuple of somebody's own, which gives other entries than it holds."""

    def __iter__(self) -> Iterator[Any]:
        return iter((object(),))


class Words(str):
    """A text that cannot be said."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Whole(int):
    """A whole number that is none when it is asked."""

    def __int__(self) -> int:
        raise ValueError("no number")


class Real(float):
    """A number that is none when it is asked."""

    def __float__(self) -> float:
        raise ValueError("no number")


class Colour(str, enum.Enum):  # noqa: UP042 - a text that says it is an enum
    """A text."""

    RED = "red"


class Size(enum.IntEnum):
    """A number."""

    ONE = 1


class Sub(np.ndarray):
    """An array of somebody's own."""

    def tolist(self) -> Any:
        raise ValueError("no list")


def _itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(400):
        value = [value]
    return value


Pair = namedtuple("Pair", "left right")

WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "UNSET": lambda: msgspec.UNSET,
    "NODEFAULT": lambda: msgspec.NODEFAULT,
    "0": lambda: 0,
    "7": lambda: 7,
    "-1": lambda: -1,
    "True": lambda: True,
    "False": lambda: False,
    "1.5": lambda: 1.5,
    "-0.0": lambda: -0.0,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "2**63": lambda: 2**63,
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "1j": lambda: 1j,
    "Decimal": lambda: Decimal("0.5"),
    "Fraction": lambda: Fraction(1, 2),
    "date": lambda: date(2020, 1, 1),
    "empty text": lambda: "",
    "text": lambda: "text",
    "surrogate": lambda: "\ud800",
    "nul": lambda: "\0",
    "empty bytes": lambda: b"",
    "bytes": lambda: b"bytes",
    "bytearray": lambda: bytearray(b"ab"),
    "memoryview": lambda: memoryview(b"ab"),
    "empty tuple": lambda: (),
    "empty list": list,
    "empty dict": dict,
    "set": lambda: {1, 2},
    "tuple of None": lambda: (None,),
    "tuple of True": lambda: (True,),
    "tuple of nan": lambda: (float("nan"), 0.0),
    "tuple of text": lambda: ("a", "b"),
    "list of 0": lambda: [0],
    "list of lists": lambda: [[0.5, 0.5]] * 3,
    "dict": lambda: {"a": 1},
    "dict of 1": lambda: {1: object()},
    "UserDict": lambda: UserDict({Words("a"): (1,)}),
    "range": lambda: range(3),
    "iterator": lambda: iter([0]),
    "endless": itertools.count,
    "object": object,
    "class": lambda: int,
    "function": lambda: _itself,
    "Ellipsis": lambda: ...,
    "exception": lambda: ValueError("it"),
    "np.int64": lambda: np.int64(0),
    "np.float32": lambda: np.float32(0.5),
    "np.bool": lambda: np.True_,
    "np.str": lambda: np.str_("text"),
    "0-d array": lambda: np.array(0),
    "array": lambda: np.array([0]),
    "array of nan": lambda: np.full((3, 4), np.nan),
    "array of objects": lambda: np.array([[None] * 4] * 3),
    "array of texts": lambda: np.array(["a", "b"]),
    "array of dates": lambda: np.array(["2020-01-01"], dtype="M8[D]"),
    "array's subclass": lambda: np.zeros(2).view(Sub),
    "records": lambda: np.zeros(2, dtype=[("a", "i4")]),
    "raising": _raising(ValueError("it cannot be asked")),
    "leaving": _raising(SystemExit(3)),
    "hostile": Hostile,
    "equal": Equal,
    "lying": Lying,
    "shaped": Shaped,
    "itself": _itself,
    "deep": _deep,
    "namedtuple": lambda: Pair(0, 1),
    "tuple's subclass": lambda: Entries((0,)),
    "text's subclass": lambda: Words("pass"),
    "number's subclass": lambda: Whole(0),
    "float's subclass": lambda: Real(0.5),
    "enum of texts": lambda: Colour.RED,
    "enum of numbers": lambda: Size.ONE,
    "Check": lambda: PASS,
    "Cost": lambda: Cost(1.0),
    "Failure": lambda: Failure("error", "E", "m"),
    "Proposal": lambda: Proposal.alternatives((1,)),
    "tuple of raising": lambda: (WRONG["raising"](),),
    "list of hostile": lambda: [Hostile()],
}


class Part:
    """Whose answers are read."""


ITEMS = ("a", "b")
HELD = (Held("h", None, 0, 0),)
PART = Part()
SHARED = np.full((1, 3, 4), 0.25)
ROWS = SHARED[0]
RECORD = TaskRecord(
    task="t/0.0",
    outcome=Outcome(status="accepted", value="a"),
    rounds=(Round(index=0, items=("a",), parents=(-1,), checks=(PASS,), decision=Decision(kept=(0,))),),
)


class Site(NamedTuple):
    """Where a value is read: a good one, and the answer, to which request, that holds it."""

    good: Any
    role: str
    answer: Callable[[Any], Any]


def _proposal(**more: Any) -> Proposal:
    return Proposal(**{"items": ITEMS, "parents": (-1, -1), **more})


def _verification(**more: Any) -> Verification:
    return Verification(**{"checks": (PASS, PASS), **more})


def _nested(**more: Any) -> Proposal:
    return _proposal(nested=(msgspec.structs.replace(RECORD, **more),))


def _in_round(**more: Any) -> Proposal:
    return _nested(rounds=(msgspec.structs.replace(RECORD.rounds[0], **more),))


SITES: dict[str, Site] = {
    "task": Site(Task(id="t", input={"prompt": "p"}), "prepare", lambda it: it),
    "proposal": Site(_proposal(), "draft", lambda it: it),
    "law": Site(Law("iid", np.full((1, 4), 0.25)), "draft", lambda it: _proposal(law=it)),
    "place of q": Site(Place(SHARED, 0, ROWS), "draft", lambda it: _proposal(law=Law("iid", ROWS, place=it))),
    "cost of a draft": Site(Cost(1.0, 2.0), "draft", lambda it: _proposal(cost=it)),
    "verification": Site(_verification(), "verify", lambda it: it),
    "check": Site(Check("pass", 0.5), "verify", lambda it: _verification(checks=(it, PASS))),
    "evidence": Site(
        Evidence(target=ROWS, place=Place(SHARED, 0, ROWS)),
        "verify",
        lambda it: Verification(evidence=it),
    ),
    "place of the target": Site(
        Place(SHARED, 0, ROWS), "verify", lambda it: Verification(evidence=Evidence(target=ROWS, place=it))
    ),
    "cost of a check": Site(Cost(1.0, 2.0), "verify", lambda it: _verification(cost=it)),
    "decision": Site(Decision(kept=(0,), done=True), "decide", lambda it: it),
    "refusal": Site(Refusal(1), "decide", lambda it: Decision(kept=(0,), refused=(it,), done=True)),
    "refusals": Site(
        Refusal(1),
        "decide",
        lambda it: Decision(kept=(), refused=(it, Refusal(0)), spliced=("s",), done=True),
    ),
    "correction": Site(Correction(0, "c"), "decide", lambda it: Decision(corrected=(it,), done=True)),
    "choice": Site(Choice("a", 0.5), "finish", lambda it: it),
    "answer": Site(Answer("edit", "e"), "ask", lambda it: it),
    "failure": Site(Failure("error", "E", "m"), "draft", lambda it: it),
    "record": Site(RECORD, "draft", lambda it: _proposal(nested=(it,))),
    "outcome": Site(RECORD.outcome, "draft", lambda it: _nested(outcome=it)),
    "round": Site(RECORD.rounds[0], "draft", lambda it: _nested(rounds=(it,))),
    "inner decision": Site(Decision(kept=(0,)), "draft", lambda it: _in_round(decision=it)),
    "inner check": Site(PASS, "draft", lambda it: _in_round(checks=(it,))),
    "inner tally": Site(Tally(1, 1), "draft", lambda it: _in_round(tally=it)),
    "inner timing": Site(Timing(), "draft", lambda it: _in_round(timing=it)),
    "inner step": Site(Step(0, "regenerate", "reject"), "draft", lambda it: _in_round(steps=(it,))),
    "inner held": Site(HELD[0], "draft", lambda it: _in_round(held=(it,))),
}
"""By a name: each struct that comes from outside, wherever it is read by other lines."""

NESTED = {"record", "outcome", "round", *[site for site in SITES if site.startswith("inner ")]}
"""The sites of records of inner tasks, which are read as one."""

FILLED_IN = {("verification", "by"), ("decision", "emitted")}
"""What the session fills in: whatever a part writes there is nobody's word."""

NAMES = {
    "parents": "parent",
    "checks": "check",
    "index": ("refused", "corrected", "place"),
    "hidden": "evidence",
    "whole": "place",
    "rows": "place",
    "kind": ("kind", "law"),
    "q": ("q ", "law"),
}
"""What a message calls a field, where it is not by its name."""


def fields() -> list[tuple[str, str]]:
    """Every field of every value: of the structs as they are, so that a new one is among them by itself."""
    return [(name, field) for name, site in SITES.items() for field in site.good.__struct_fields__]


def spoilt(site: str, field: str, wrong: Any) -> Any:
    """The answer in which that field holds something else, past all that looks at it when it is made."""
    made = msgspec.structs.replace(SITES[site].good)
    force_setattr(made, field, wrong)
    return SITES[site].answer(made)


def request(role: str, part: object = PART) -> Request:
    """What such an answer answers."""
    context = make_context("t", held=list(HELD))
    block = Proposal.alternatives(ITEMS)
    made: Any = {
        "prepare": lambda: Prepare(1, part, Task(id="t", input={"prompt": "p"})),
        "draft": lambda: Draft(1, part, context, 4),
        "verify": lambda: Verify(1, part, context, block),
        "decide": lambda: Decide(1, part, context, block, Verification(), make_draws()),
        "finish": lambda: Finish(1, part, context),
        "ask": lambda: Ask(1, part, Task(id="t"), None, (), None),
    }[role]
    return made()


def said_of(site: str, field: str) -> tuple[str, ...]:
    """Words of which a message about the field has one."""
    names = NAMES.get(field, field)
    own = (names,) if isinstance(names, str) else names
    return (*own, "nested") if site in NESTED else own


__all__ = ["FILLED_IN", "NESTED", "PART", "SITES", "WRONG", "fields", "request", "said_of", "spoilt"]
