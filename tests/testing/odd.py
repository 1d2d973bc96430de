"""Parts of odd forms, as authors bring them: ten that are right, and must pass, and as many with one defect each, which
says which check must name it (`caught_by`) and in what words (`says`).
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from draftverify import PASS, REJECT, UNCHECKED, Check, Proposal, Verification, generator, verifier
from draftverify.kit import Subject
from draftverify.traits import GeneratorTraits, VerifierTraits

# Right


class Slots:
    """A class with slots."""

    __slots__ = ("step",)

    def __init__(self, step: int = 2) -> None:
        self.step = step

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([self.step * i for i in range(n)])


@dataclass(frozen=True, slots=True)
class Frozen:
    """A verifier that is a frozen dataclass with slots."""

    largest: int = 3

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(PASS if item < self.largest else REJECT for item in proposal.items))


class Named(NamedTuple):
    """A generator that is a tuple."""

    step: int = 1

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([self.step * i for i in range(n)])


class Callable:
    """Has `__call__` alone; a part is made of it."""

    def __call__(self, context: Any, item: Any) -> bool:
        return item in (1, "a")


def lazily(context: Any, n: int) -> Any:
    """Yields its items without an end."""
    while True:
        yield from ("a", "b", "c")


class Cursor:
    """Keeps a lazy iterator in its scratch, and knows where it stands."""

    def propose(self, context: Any, n: int) -> Proposal:
        place, rows = context.scratch.get("rows", (-1, iter(())))
        if place != context.drafted:
            rows = iter(range(context.drafted, 1_000))
        items = [next(rows) for _ in range(n)]
        context.scratch["rows"] = context.drafted + n, rows
        return Proposal.alternatives(items)


class Scalars:
    """Proposes NumPy's numbers, in a list of them."""

    traits = GeneratorTraits(shape="chain")

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.chain([np.int64(i) for i in range(n)])


@dataclass(frozen=True)
class Move:
    dx: int
    dy: int


class JudgesMoves:
    """Reads frozen dataclasses, for pipelines in memory."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(PASS if move.dx > 0 else REJECT for move in proposal.items))


class StopsAtEnough:
    """Looks at no more than it must."""

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        checks: list[Check] = []
        for item in proposal.items:
            full = context.enough is not None and checks.count(PASS) >= context.enough
            checks.append(UNCHECKED if full else PASS if item in (1, 2, 4) else REJECT)
        return Verification(checks=tuple(checks))


class Database:
    """Asks a database, which it opens; its connection is of one thread at a time."""

    traits = VerifierTraits(concurrent=False)

    def __init__(self, words: tuple[str, ...] = ("a", "the cat")) -> None:
        self.words = words
        self._rows: Any = None

    def open(self) -> None:
        self._rows = sqlite3.connect(":memory:", check_same_thread=False)
        self._rows.execute("CREATE TABLE words (word TEXT)")
        self._rows.executemany("INSERT INTO words VALUES (?)", [(word,) for word in self.words])

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        found = [
            self._rows.execute("SELECT 1 FROM words WHERE word = ?", (str(item),)) for item in proposal.items
        ]
        return Verification(checks=tuple(PASS if each.fetchone() else REJECT for each in found))


HONEST = [
    Slots(),
    Frozen(),
    Named(),
    verifier(Callable()),
    generator(lazily),
    Cursor(),
    Scalars(),
    Subject(JudgesMoves(), proposals=[Proposal.alternatives([Move(1, 0), Move(0, 1)])]),
    StopsAtEnough(),
    Database(),
]

# Wrong


class SlotsWithWork(Slots):
    """Makes a table in its constructor, where slots hide it."""

    caught_by = "constructor_only_stores_its_arguments"
    says = "the constructor makes the attribute 'table'"
    __slots__ = ("table",)

    def __init__(self, step: int = 2) -> None:
        super().__init__(step)
        self.table = [step * i for i in range(9)]


class ItemsLazily:
    """Gives a generator where a list is needed."""

    caught_by = "answers"
    says = "the items of a proposal came as a generator, which has no length; give a list"

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives(i for i in range(n))  # type: ignore[arg-type]


class TakesTheContextAlone:
    """Forgets what it is called with."""

    caught_by = "answers"
    says = "propose() cannot be called with (context, n)"

    def propose(self, context: Any) -> Proposal:
        return Proposal.chain([1])


class SaysNotThatItAwaits:
    """Returns a coroutine from a plain function."""

    caught_by = "answers"
    says = "write `async def propose`"

    def propose(self, context: Any, n: int) -> Any:
        return asyncio.sleep(0, Proposal.chain(list(range(n))))


class CursorThatRunsOn:
    """Keeps a lazy iterator in its scratch, wherever it stands."""

    caught_by = "answers_the_same_without_scratch"
    says = "items[0] is 0, then 3"

    def propose(self, context: Any, n: int) -> Proposal:
        rows = context.scratch.setdefault("rows", iter(range(1_000)))
        return Proposal.alternatives([next(rows) for _ in range(n)])


class Moves:
    """Proposes objects that no record can hold."""

    caught_by = "items_can_be_recorded"
    says = "an item is a Move: "

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives([Move(i, 0) for i in range(n)])


class Truths:
    """Says True and False of its items."""

    caught_by = "answers_can_be_read"
    says = "the check of item 0 is False (bool); a Check is needed"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple(item in (1, 2) for item in proposal.items))  # type: ignore[arg-type]


class NumPyWords:
    """Says the right words, and no checks."""

    caught_by = "answers_can_be_read"
    says = "a Check is needed"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        found = np.where(np.asarray(proposal.items) == 1, "pass", "reject")
        return Verification(checks=tuple(found))


class RemembersInAFile:
    """Passes what it has not seen before, in whatever process."""

    caught_by = "keeps_no_state_about_tasks"
    says = "what it keeps outside the process (a file, a database, a service)"

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(tempfile.mkdtemp()) / "seen"

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        seen = self.path.read_text().split("|") if self.path.exists() else []
        self.path.write_text("|".join([*seen, *map(str, proposal.items)]))
        return Verification(checks=tuple(REJECT if str(i) in seen else PASS for i in proposal.items))


class ConnectsInTheCall:
    """Opens its database at the first call, in the thread that makes it."""

    caught_by = "answers_the_same_from_four_threads"
    says = "say `concurrent=False`"

    def __init__(self) -> None:
        self._rows: Any = None

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        self._rows = self._rows or sqlite3.connect(":memory:")
        found = [self._rows.execute("SELECT ? IN (1, 2)", (item,)) for item in proposal.items]
        return Verification(checks=tuple(PASS if each.fetchone()[0] else REJECT for each in found))


class OpensNothing:
    """Looks for a file that is not there."""

    caught_by = "opens"
    says = "open() raised FileNotFoundError"

    def open(self) -> None:
        Path("no such model.bin").read_bytes()

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=(PASS,) * len(proposal))


class LeavesWithoutAWord:
    """Ends the process where its licence is not found."""

    caught_by = "answers"
    says = "propose() raised SystemExit: no licence"

    def propose(self, context: Any, n: int) -> Proposal:
        raise SystemExit("no licence")


ODD = [
    SlotsWithWork,
    ItemsLazily,
    TakesTheContextAlone,
    SaysNotThatItAwaits,
    CursorThatRunsOn,
    Moves,
    Truths,
    NumPyWords,
    RemembersInAFile,
    ConnectsInTheCall,
    OpensNothing,
    LeavesWithoutAWord,
]
