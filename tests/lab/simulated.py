"""A simulated clock: token-like pipelines whose costs and acceptance are known, played round by round."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from draftverify.protocols import BlockSize
from draftverify.stats import tally
from draftverify.values import (
    Context,
    Decision,
    Memory,
    Outcome,
    Refusal,
    Round,
    Task,
    TaskRecord,
    Timing,
    Trail,
)

PLAIN = 0.03
"""Seconds of a plain step."""


def context_of(task: str, rounds: list[Round], scratch: dict[Any, Any]) -> Context:
    """A context with what a block controller reads."""
    return Context(
        task=Task(id=task),
        accepted=Trail.of(()),
        rounds=Trail(rounds, len(rounds)),
        settings={},
        memory=Memory(),
        draws=None,  # type: ignore[arg-type]
        scratch=scratch,
    )


class Machine:
    """A chain pipeline that splices one value a round, on a clock of its own; alone or in lockstep batches.

    Args:
        accept: chance of each further item, given (task number, rounds of the whole run so far).
        verify: cost of a block of n, in plain steps of a task alone.
        rows: cost of a pass over so many rows, in the same; for batches, whose rows are padded to the longest block.
            Without it a batch costs what one task does.
        draft: cost of drafting n items, in plain steps.
        found: chance that the generator has anything to propose.
        prompt: what a task's first verification costs more; `opening` the same of its first draft.
        once: what the first pass of each (batch size, block size) costs more, the empty block's excepted.
        cost: what a session's round of a block of n reports as its cost.
        noise: relative spread of every timing; `heavy` the sigma of a log-normal factor on it; `stalls` the chance that
            one takes three times as long; `bursts` the chance per pass that the machine becomes twice as slow, or
            recovers.
    """

    def __init__(
        self,
        accept: Callable[[int, int], float],
        *,
        verify: Callable[[int], float] = lambda n: 1.0 + 0.04 * n,
        rows: Callable[[int], float] | None = None,
        draft: Callable[[int], float] = lambda n: 0.0,
        found: float = 1.0,
        prompt: float = 5.0,
        opening: float = 0.0,
        once: float = 0.0,
        cost: Callable[[int], float] = lambda n: 0.0,
        noise: float = 0.05,
        heavy: float = 0.0,
        stalls: float = 0.0,
        bursts: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.accept, self.verify, self.draft, self.found, self.prompt = accept, verify, draft, found, prompt
        self.rows, self.once, self.cost = rows, once, cost
        self.noise, self.heavy, self.stalls, self.opening = noise, heavy, stalls, opening
        self.random = random.Random(seed)
        self.bursts, self.slow, self.work, self.rounds = bursts, 1.0, 0.0, 0
        self.spent = 0.0
        self.shapes: set[tuple[int, int]] = set()
        self.asked: list[tuple[int, ...]] = []

    def _seconds(self, steps: float) -> float:
        stalled = 3.0 if self.random.random() < self.stalls else 1.0
        tail = self.random.lognormvariate(0.0, self.heavy) if self.heavy else 1.0
        self.work += steps
        return PLAIN * steps * stalled * tail * self.slow * max(0.5, self.random.gauss(1.0, self.noise))

    def _cost(self, batch: int, n: int) -> float:
        first = self.once if n and (batch, n) not in self.shapes else 0.0
        self.shapes.add((batch, n))
        return first + (self.verify(n) if self.rows is None else self.rows(batch * (n + 1)))

    def task(self, number: int, block: BlockSize, length: int, group: str = "") -> TaskRecord:
        """Play one task until `length` items were emitted."""
        return self.batch([number], block, lambda task: length, 1, group=group)[0]

    def batch(
        self,
        numbers: Iterable[int],
        block: BlockSize,
        length: Callable[[int], int],
        size: int,
        *,
        group: str = "",
    ) -> list[TaskRecord]:
        """Play tasks in lockstep, at most `size` at once and finished ones replaced, in the batched driver's order:
        each task's round is observed and its next size asked for before the next task's round is observed."""
        waiting = iter(numbers)
        active: list[_Play] = []
        records: list[TaskRecord] = []
        while True:
            for number in islice(waiting, size - len(active)):
                active.append(_Play(number, length(number)))
                active[-1].ask(block)
            if not active:
                return records
            self._pass(active, block)
            for play in active:
                if play.emitted >= play.length:
                    records.append(play.record(group))
            active = [play for play in active if play.emitted < play.length]

    def _pass(self, active: list[_Play], block: BlockSize) -> None:
        many = len(active)
        self.asked.append(tuple(play.asked for play in active))
        blocks = []
        for play in active:
            chance = self.accept(play.number, self.rounds)
            n = play.asked if self.random.random() < self.found else 0
            kept = 0
            while kept < n and self.random.random() < chance:
                kept += 1
            blocks.append((n, kept))
            self.rounds += 1
        longest = max(n for n, _ in blocks)
        opening = self.opening * sum(play.asked > 0 and not play.opened for play in active)
        asked = any(play.asked for play in active)
        spent = self._seconds(self.draft(longest) + opening) if asked else 0.0
        prompts = self.prompt * sum(not play.rounds for play in active)
        checked = self._seconds(self._cost(many, longest) + prompts)
        self.spent += spent + checked
        for play, (n, kept) in zip(active, blocks, strict=True):
            decision = Decision(
                kept=tuple(range(kept)),
                spliced=(0,),
                refused=(Refusal(kept),) if kept < n else (),
                emitted=(0,) * (kept + 1),
                done=play.emitted + kept + 1 >= play.length,
            )
            round = Round(
                index=len(play.rounds),
                items=(0,) * n,
                parents=tuple(range(-1, n - 1)),
                asked=play.asked,
                decision=decision,
                tally=tally(n, (), decision),
                timing=Timing(
                    draft=spent,
                    verify=checked,
                    busy=(spent + checked) / many,
                    cost=self.cost(n),
                    passes=1,
                    batch=many,
                ),
            )
            play.observed(block, round)
            if not decision.done:
                play.ask(block)
        if self.random.random() < self.bursts:
            self.slow = 3.0 - self.slow


class _Play:
    """A task that is being played."""

    def __init__(self, number: int, length: int) -> None:
        self.number, self.length = number, length
        self.rounds: list[Round] = []
        self.scratch: dict[Any, Any] = {}
        self.emitted = self.asked = 0
        self.seconds = 0.0
        self.opened = False
        self.context = context_of(f"task {number}", self.rounds, self.scratch)

    def ask(self, block: BlockSize) -> None:
        self.context = context_of(f"task {self.number}", self.rounds, self.scratch)
        self.asked = block.size(self.context)

    def observed(self, block: BlockSize, round: Round) -> None:
        block.observe(self.context, round)
        self.rounds.append(round)
        self.opened = self.opened or round.asked > 0
        self.emitted += len(round.decision.emitted)
        self.seconds += round.timing.total

    def record(self, group: str) -> TaskRecord:
        outcome = Outcome(status="accepted", rounds=len(self.rounds), seconds=self.seconds)
        return TaskRecord(task=f"task {self.number}", outcome=outcome, rounds=tuple(self.rounds), group=group)


def steps(records: list[TaskRecord]) -> float:
    """Plain steps' worth of clock time per emitted item."""
    items = sum(len(round.decision.emitted) for record in records for round in record.rounds)
    return sum(record.outcome.seconds for record in records) / PLAIN / items
