"""The student: a table of what follows which two symbols, and its training from the log of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from draftverify import ConfigError, Context, GeneratorTraits, Proposal, iid, inverse_cdf
from draftverify.bench.records import load_run
from draftverify_distilled.teacher import SYMBOLS, history

__all__ = ["Student", "StudentTraining"]


class Student:
    """Drafts symbols from its table, each after the two before it, and says by which q.

    Args:
        table: the file that its training wrote; without one every symbol is as likely as another.
    """

    traits = GeneratorTraits(shape="chain", laws={"iid"})

    def __init__(self, table: Path | None = None) -> None:
        self.table = table

    @cached_property
    def _q(self) -> Any:
        """[symbols, symbols, symbols]: by the two before, the next one's probabilities."""
        if self.table is None:
            return np.full((SYMBOLS,) * 3, 1 / SYMBOLS)
        try:
            return np.load(self.table)
        except (OSError, ValueError) as error:
            hint = "`draftverify fit part distilled.student RUN` writes one"
            raise ConfigError(f"no table can be read: {error}; {hint}", path="table") from error

    def open(self) -> None:
        """Read the table.

        Raises:
            ConfigError: it is not there, or no such table.
        """
        if self._q.shape != (SYMBOLS,) * 3:
            raise ConfigError(f"a table of 16 × 16 × 16 is needed, not of {self._q.shape}", path="table")

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` symbols."""
        known, rows = history(context), []
        for place in range(n):
            rows.append(self._q[known[-2], known[-1]])
            uniform = np.array([context.draws.uniform(place)])
            known.append(int(inverse_cdf(rows[-1][None], uniform)[0]))
        return Proposal.chain(known[len(known) - n :], iid(np.array(rows)))


class StudentTraining:
    """Counts in the log of a run what followed which symbols; under an exact rule that is the teacher's own word.

    Args:
        run: the directory of a run.
        pipeline: whose answers are learned.
        tasks: of how many tasks; all of them when None.
        trust: how many sightings after one symbol, or after two, weigh as much as what is known without them.
    """

    def __init__(self, run: Path, pipeline: str, tasks: int | None = None, trust: float = 4.0) -> None:
        self.run = run
        self.pipeline = pipeline
        self.tasks = tasks
        self.trust = trust

    def train(self, out: Path, progress: Callable[[int, int, str], None]) -> dict[str, Any]:
        """Write the table.

        Args:
            out: the directory for it.
            progress: told (step, of how many, words).

        Returns:
            How many tasks and symbols were learned from, and the tasks.
        """
        with load_run(self.run) as run:
            tasks = {task.id: task for task in run.tasks}
            records = run.records(self.pipeline)[: self.tasks]
        answers = [(*tasks[record.task].input["start"], *record.outcome.value) for record in records]
        out.mkdir(parents=True, exist_ok=True)
        np.save(out / "table.npy", _table(answers, self.trust))
        progress(len(answers), len(answers), "counted")
        learned = [tasks[record.task] for record in records]
        return {"tasks": len(answers), "symbols": sum(map(len, answers)), "learned_from": learned}


def _table(answers: Sequence[Sequence[int]], trust: float) -> Any:
    """q after two symbols: counts after both, shrunk to those after the second, and these to all symbols alike."""
    triples = np.concatenate([np.lib.stride_tricks.sliding_window_view(answer, 3) for answer in answers])
    counts = np.zeros((SYMBOLS, SYMBOLS, SYMBOLS))
    np.add.at(counts, tuple(triples.T), 1)
    after_one = counts.sum(axis=0)
    alike = (after_one + trust / SYMBOLS) / (after_one.sum(axis=1, keepdims=True) + trust)
    return (counts + trust * alike) / (counts.sum(axis=2, keepdims=True) + trust)
