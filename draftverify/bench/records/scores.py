"""What metrics said of committed outcomes, kept while the metric, its settings and what the task expects are the
same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from draftverify.bench.records import tables
from draftverify.bench.records.database import Database, persistent
from draftverify.bench.records.encoding import decode, encode
from draftverify.bench.records.entries import ScoreKey
from draftverify.checks.scores import Score
from draftverify.values import EMPTY


class Scores(Database):
    """The scores of a run."""

    @persistent
    def add_scores(self, scores: Mapping[ScoreKey, Score], name: str | None = None) -> None:
        """Write down what metrics said of committed outcomes, as that of the metric of this name; what it said before,
        when it failed, gives way."""
        columns = tables.scores.c
        with self._transaction() as connection:
            for (pipeline, task, attempt, metric), score in scores.items():
                key = {**self._key(pipeline, task, attempt), "metric": metric}
                connection.execute(
                    tables.scores.delete().where(*(columns[part] == value for part, value in key.items()))
                )
                data = encode(replace(score, notes=EMPTY), f"task {task!r}, score")
                notes = encode(score.notes, f"task {task!r}, notes of a score") if score.notes else None
                row = {**key, "name": name, "data": data, "notes": notes}
                self._insert_new(connection, tables.scores, row)

    @persistent
    def name_scores(self, names: Mapping[ScoreKey, str]) -> None:
        """Say which scores are the metrics' present ones, and of which names; all others keep their value and none."""
        columns = tables.scores.c
        parts = ("pipeline", "task", "attempt", "metric")
        query = sa.select(*(columns[part] for part in parts), columns.name)
        with self._transaction() as connection:
            stored = connection.execute(query.where(columns.run == self._run)).all()
            changed = [
                {**tables.bound(dict(zip(parts, key, strict=True))), "now": names.get(key)}
                for *place, name in stored
                if name != names.get(key := (place[0], place[1], place[2], place[3]))
            ]
            if changed:
                same_key = (columns[part] == sa.bindparam(f"key_{part}") for part in parts)
                update = tables.scores.update().where(columns.run == self._run, *same_key)
                connection.execute(update.values(name=sa.bindparam("now")), changed)

    def scores(self) -> dict[ScoreKey, Score]:
        """All scores that metrics gave, without their notes."""
        columns = (column for column in tables.scores.c if column.name != "notes")
        query = sa.select(*columns).where(tables.scores.c.run == self._run)
        return {
            (row.pipeline, row.task, row.attempt, row.metric): self._score_in(row)
            for row in self._read(query)
        }

    def named_scores(self) -> dict[tuple[str, str, str], float | None]:
        """What the metrics say now of the latest attempts, by (pipeline, task, name); of those that did not fail."""
        columns = tables.scores.c
        named = self._named(columns.pipeline, columns.task, columns.name, columns.data)
        scores = (
            ((row.pipeline, row.task, name), self._score_in(row))
            for row in named
            for name in row.name.split(" ")
        )
        return {key: score.value for key, score in scores if not score.problem}

    def judgements(self, task: str) -> dict[str, dict[str, Score]]:
        """What the metrics say now of a task's latest attempts, with their notes, by pipeline and name."""
        judgements: dict[str, dict[str, Score]] = {}
        for row in self._named(*tables.scores.c, task=task):
            notes = decode(row.notes, dict[str, Any], self._place_of(row)) if row.notes else EMPTY
            score = replace(self._score_in(row), notes=notes)
            judgements.setdefault(row.pipeline, {}).update(dict.fromkeys(row.name.split(" "), score))
        return judgements

    def _named(self, *selected: sa.Column[Any], task: str | None = None) -> Sequence[sa.Row[Any]]:
        """Of these columns the rows that bear a metric's name, of the latest attempts."""
        columns = tables.scores.c
        # Until a retry's scores are written the failed attempts' still bear the names.
        scored = sa.and_(
            *(columns[part] == tables.records.c[part] for part in ("run", "pipeline", "task", "attempt"))
        )
        query = sa.select(*selected).select_from(tables.scores.join(tables.records, scored))
        query = query.where(columns.run == self._run, columns.name.is_not(None), tables.LATEST)
        if task is not None:
            query = query.where(columns.task == task)
        return self._read(query)

    def _score_in(self, row: sa.Row[Any]) -> Score:
        return decode(row.data, Score, self._place_of(row))

    def _place_of(self, row: sa.Row[Any]) -> str:
        return f"{self._place}, score of {row.task!r}"
