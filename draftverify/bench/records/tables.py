"""The tables of a store, and the statements and conditions that are used again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

SCHEMA_VERSION = 5
"""Raised when a stored table changes its columns or its meaning; a store of another version is refused."""

LENGTHS = {"run": 64, "pipeline": 256, "task": 512, "grp": 256, "kind": 64, "metric": 64}
"""Of the columns of keys that are texts; the others are numbers."""

meta = sa.MetaData()


def _word(length: int) -> sa.types.TypeEngine[str]:
    """A text that is in the order of its code points in every database, whatever that one's own order is."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _table(name: str, key: str, *columns: sa.Column[Any]) -> sa.Table:
    """A table whose primary key has the columns of these names."""
    keys = (
        sa.Column(column, _word(LENGTHS[column]) if column in LENGTHS else sa.Integer, primary_key=True)
        for column in key.split()
    )
    return sa.Table(f"draftverify_{name}", meta, *keys, *columns)


about = sa.Table(
    "draftverify_meta",
    meta,
    sa.Column("name", _word(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
runs = _table(
    "runs",
    "run",
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("config_hash", _word(128), nullable=False),
    sa.Column("created", _word(40), nullable=False),
    sa.Column("retrying", sa.Text),
    sa.Column("own", sa.Text),
)
tasks = _table(
    "tasks",
    "run task",
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("phase", _word(16), nullable=False),
    sa.Column("grp", sa.Text, nullable=False),
    sa.Column("input", sa.Text, nullable=False),
    sa.Column("expected", sa.Text, nullable=False),
)
records = _table(
    "records",
    "run pipeline task attempt",
    sa.Column("grp", sa.Text, nullable=False),
    sa.Column("status", _word(16), nullable=False),
    sa.Column("memory", sa.Integer, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("committed", _word(40), nullable=False),
)
rounds = _table(
    "rounds",
    "run pipeline task attempt round",
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("texts", sa.Text),
)
questions = _table(
    "questions",
    "run pipeline task attempt round",
    sa.Column("state", _word(16), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("asked", _word(40), nullable=False),
    sa.Column("holder", _word(200)),
    sa.Column("held_until", _word(40)),
)
predictions = _table(
    "predictions",
    "run pipeline grp kind",
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("made", _word(40), nullable=False),
)
scores = _table(
    "scores",
    "run pipeline task attempt metric",
    sa.Column("name", sa.Text),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("notes", sa.Text),
)
watched = _table(
    "watched",
    "run pipeline task",
    sa.Column("alarms", sa.Integer, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("written", _word(40), nullable=False),
)

in_order = (tasks.c.phase != "predict", tasks.c.place)
"""The order of a run's tasks: those of "predict" before those of "measure"."""
EMPTY = {
    table: {column.name: None for column in table.columns if column.nullable} for table in meta.sorted_tables
}
"""What a new row holds where nothing is given."""


def of_key(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(
        *(table.c[name] == sa.bindparam(f"key_{name}") for name in ("run", "pipeline", "task", "attempt"))
    )


def bound(key: Mapping[str, Any]) -> dict[str, Any]:
    return {f"key_{name}": value for name, value in key.items()}


# Made once: SQLAlchemy takes longer to put a statement together than SQLite to carry it out.
FORGET_ROUNDS = rounds.delete().where(of_key(rounds))
ROUNDS, ROUNDS_AND_TEXTS = (
    sa.select(rounds.c.round, rounds.c.data, *texts).where(of_key(rounds)).order_by(rounds.c.round)
    for texts in ((), (rounds.c.texts,))
)
INSERT_ROUND = rounds.insert()
USE_QUESTIONS = (
    questions.update()
    .where(of_key(questions), questions.c.round < sa.bindparam("below"))
    .values(state=sa.literal_column("'used'"))  # a bound one would be a parameter of each row
)
GO_ON = records.update().where(of_key(records), records.c.status == "waiting")
"""The record of a waiting task gives way to a later one of the same attempt, whose columns come with the key."""
FORGET_SCORES = scores.delete().where(of_key(scores))

_later = records.alias("later")
_of_one_task = (_later.c[name] == records.c[name] for name in ("run", "pipeline", "task"))
LATEST = ~sa.exists().where(*_of_one_task, _later.c.attempt > records.c.attempt)
