"""What is known of the tables: columns, what may be NULL, what is unique, what refers to what; read from their DDL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import sqlglot
from sqlglot import exp

__all__ = ["Column", "Reference", "Schema", "Table"]

DIALECT = "duckdb"


class Column(NamedTuple):
    """A column; `kind` is its type as DuckDB writes it."""

    name: str
    kind: str
    nullable: bool


class Reference(NamedTuple):
    """A foreign key: these columns hold a key of another table, or NULL."""

    columns: tuple[str, ...]
    table: str
    keys: tuple[str, ...]


class Table(NamedTuple):
    """A table with its keys: sets of columns that no two rows share."""

    name: str
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...]
    references: tuple[Reference, ...]

    def nullable(self, column: str) -> bool:
        """Whether a column may hold NULL."""
        return next((each.nullable for each in self.columns if each.name == column), True)


class Schema(NamedTuple):
    """The tables, each after those that it refers to."""

    tables: Mapping[str, Table]

    @staticmethod
    def parse(ddl: str) -> Schema:
        """The tables of CREATE TABLE statements.

        Args:
            ddl: as DuckDB's `duckdb_tables()` writes them.

        Raises:
            sqlglot.errors.ParseError: they cannot be read.
        """
        found = [_table(each) for each in sqlglot.parse(ddl, read=DIALECT) if isinstance(each, exp.Create)]
        return Schema({table.name: table for table in _in_order(found)})

    def mapping(self) -> dict[str, dict[str, str]]:
        """As sqlglot's optimizer wants it."""
        return {name: {each.name: each.kind for each in table.columns} for name, table in self.tables.items()}


def _table(create: exp.Expression) -> Table:
    body = create.this
    columns, keys, references = [], [], []
    for each in body.expressions:
        if isinstance(each, exp.ColumnDef):
            name, kinds = each.name.lower(), [each_.kind for each_ in each.constraints]
            if any(
                isinstance(kind, (exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint))
                for kind in kinds
            ):
                keys.append((name,))
            forbids = (exp.PrimaryKeyColumnConstraint, exp.NotNullColumnConstraint)
            columns.append(
                Column(name, each.kind.sql(DIALECT), not any(isinstance(kind, forbids) for kind in kinds))
            )
            references += [_reference((name,), kind) for kind in kinds if isinstance(kind, exp.Reference)]
            continue
        for part in [each, *each.expressions] if isinstance(each, exp.Constraint) else [each]:
            if isinstance(part, exp.PrimaryKey):
                key = tuple(one.name.lower() for one in part.expressions)
                keys.append(key)
                columns = [one._replace(nullable=one.nullable and one.name not in key) for one in columns]
            elif isinstance(part, exp.UniqueColumnConstraint):
                keys.append(tuple(one.name.lower() for one in part.this.expressions))
            elif isinstance(part, exp.ForeignKey):
                own = tuple(one.name.lower() for one in part.expressions)
                references.append(_reference(own, part.args["reference"]))
    return Table(body.this.name.lower(), tuple(columns), tuple(keys), tuple(references))


def _reference(columns: tuple[str, ...], reference: exp.Expression) -> Reference:
    to = reference.this
    return Reference(columns, to.this.name.lower(), tuple(each.name.lower() for each in to.expressions))


def _in_order(tables: list[Table]) -> Iterator[Table]:
    """Each after those that it refers to; of a circle in the order given."""
    left = list(tables)
    done: set[str] = set()
    while left:
        ready = next(
            (each for each in left if all(ref.table in done | {each.name} for ref in each.references)),
            left[0],
        )
        left.remove(ready)
        done.add(ready.name)
        yield ready
