"""What metrics said of committed outcomes, kept while the metric, its settings and what the task expects are the
same."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from draftverify.bench.records import tables
from draftverify.bench.records.database import Database, persistent
from draftverify.bench.records.encoding import decode, encode
from draftverify.bench.records.entries import ScoreKey
from draftverify.checks.scores import Score

__all__ = ["Scores"]


class Scores(Database):
    """The scores of a run."""

    @persistent
    def add_scores(self, scores: Mapping[ScoreKey, Score], name: str | None = None) -> None:
        """Write down what metrics said of committed outcomes, as that of the metric of this name."""
        with self._transaction() as connection:
            for (pipeline, task, attempt, metric), score in scores.items():
                row = {**self._key(pipeline, task, attempt), "metric": metric, "name": name}
                data = encode(score, f"task {task!r}, score")
                self._insert_new(connection, tables.scores, {**row, "data": data})

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
        """All scores that metrics gave."""
        query = sa.select(tables.scores).where(tables.scores.c.run == self._run)
        return {
            (row.pipeline, row.task, row.attempt, row.metric): decode(
                row.data, Score, f"{self._place}, score of {row.task!r}"
            )
            for row in self._read(query)
        }

    def named_scores(self) -> dict[tuple[str, str, str], float | None]:
        """What the metrics say now of the latest attempts, by (pipeline, task, name)."""
        columns = tables.scores.c
        # Until a retry's scores are written the failed attempts' still bear the names.
        scored = sa.and_(
            *(columns[part] == tables.records.c[part] for part in ("run", "pipeline", "task", "attempt"))
        )
        query = sa.select(columns.pipeline, columns.task, columns.name, columns.data)
        query = query.select_from(tables.scores.join(tables.records, scored))
        query = query.where(columns.run == self._run, columns.name.is_not(None), tables.LATEST)
        return {
            (row.pipeline, row.task, name): decode(
                row.data, Score, f"{self._place}, score of {row.task!r}"
            ).value
            for row in self._read(query)
            for name in row.name.split(" ")
        }
