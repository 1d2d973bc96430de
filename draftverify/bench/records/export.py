"""A run's results written for spreadsheets (csv), other programs (jsonl, parquet) and pandas (`frame`).

What a model wrote is hostile, and stands in every format so that it does nothing:

- jsonl holds values as they are; control and format characters (ANSI, bidirectional marks) are written as `\\uXXXX`,
  which is the same JSON. What is read back equals what was recorded.
- csv, parquet and frames hold text. A text with control or format characters other than newline and tab, an empty one,
  and one that begins with `"` stands as a JSON string.
- csv alone: a text that begins, after blanks, with = + - @ or their full-width forms, with a tab, a carriage return or
  an apostrophe, gets an apostrophe before it, since a spreadsheet would take it for a formula. `unguarded` takes both
  back.

Secrets that this process knows are `***` in all of them.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.files import beside
from draftverify.bench.records.rows import Column, Kind, Level, columns_of, rows
from draftverify.errors import ConfigError, ResourceError
from draftverify.plugins import required
from draftverify.secret import redact, redacted

if TYPE_CHECKING:
    import pandas as pd

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]

FORMATS: tuple[Format, ...] = get_args(Format)

AT_ONCE = 1000
"""Rows of parquet that are written together."""


def write(run: RunRecords, to: Format, out: str | Path | IO[str], level: Level = "tasks") -> int:
    """Write a run's rows.

    Args:
        run: the run.
        to: "csv", "jsonl" or "parquet".
        out: a file, written whole or not at all; or an open text file, for csv and jsonl.
        level: "tasks", "rounds" or "items".

    Returns:
        How many rows.

    Raises:
        ConfigError: there is no such format or level, or parquet is to go into a text file.
        ResourceError: parquet needs pyarrow, which is not installed; or the file cannot be written.
    """
    if to not in FORMATS:
        raise ConfigError(f"there is no format {to!r}; there are {', '.join(FORMATS)}")
    columns = columns_of(run, level)
    if not isinstance(out, (str, Path)):
        if to == "parquet":
            raise ConfigError("parquet is no text; give a file with -o", path="-o")
        return _text(rows(run, level), columns, to, out)
    path = Path(out)
    with whole(path) as part:
        if to == "parquet":
            return _parquet(rows(run, level), columns, part)
        with open(part, "w", encoding="utf-8", newline="") as file:
            return _text(rows(run, level), columns, to, file)


def frame(run: RunRecords, level: Level = "tasks") -> pd.DataFrame:
    """A run's rows as a pandas DataFrame: text as `string`, counts as `int64`, figures as `float64`, times in UTC.

    Args:
        run: the run.
        level: "tasks", "rounds" or "items": one row per task of a pipeline, per round, or per drafted item.

    Raises:
        ConfigError: there is no such level.
        ResourceError: pandas is not installed (the extra `export`).
    """
    pd = required("pandas", "a data frame", "export")
    columns = columns_of(run, level)
    lists: dict[str, list[Any]] = {column.name: [] for column in columns}
    for row in rows(run, level):
        for column in columns:
            lists[column.name].append(_cell(row.get(column.name), column.kind))
    types = {"int": "int64", "float": "float64", "bool": "bool"}
    series = {}
    for column in columns:
        values = lists.pop(column.name)  # one list after the other is let go of
        if column.kind == "time":
            series[column.name] = pd.Series(pd.to_datetime(values, utc=True, format="ISO8601"))
        else:
            series[column.name] = pd.Series(values, dtype=types.get(column.kind, "string"))
    return pd.DataFrame(series)


def unguarded(cell: str) -> str | None:
    """The text that a cell of a csv export stands for; None for an empty cell.

    Examples:
        >>> unguarded("'=1+1")
        '=1+1'
        >>> unguarded(r'"a \\u202e b"') == "a \\u202e b"
        True
    """
    if not cell:
        return None
    text = cell.removeprefix("'")
    if text.startswith('"'):
        decoded: str = json.loads(text)
        return decoded
    return text


_STEERING = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_FORMULA = re.compile("\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r']")


def _steers(char: str) -> bool:
    """Whether a character could steer a terminal or turn text around."""
    return not char.isprintable() and char not in "\n\t" and unicodedata.category(char) in _STEERING


def inert(value: Any) -> str:
    """A plain value as one line of JSON in which nothing steers, and without secrets."""
    return _json(redacted(value))


def _json(value: Any) -> str:
    """One line of JSON in which nothing steers."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=msgspec.to_builtins)
    if text.isprintable():
        return text
    return "".join(_escaped(char) if _steers(char) else char for char in text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _cell(value: Any, kind: Kind) -> Any:
    """A value as a cell of text, a number, or None."""
    if kind in ("int", "float", "bool", "time") or value is None:
        return value
    if kind == "json" or not isinstance(value, str):
        return _json(redacted(value))
    text = redact(value)
    return _json(text) if not text or text[0] == '"' or any(map(_steers, text)) else text


def _guarded(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _text(rows: Iterable[dict[str, Any]], columns: Sequence[Column], to: Format, file: IO[str]) -> int:
    count = 0
    writer = csv.writer(file, lineterminator="\n")
    if to == "csv":
        writer.writerow(_guarded(column.name) for column in columns)
    for row in rows:
        if to == "csv":
            writer.writerow(_guarded(_cell(row.get(column.name), column.kind)) for column in columns)
        else:
            file.write(inert({column.name: row.get(column.name) for column in columns}) + "\n")
        count += 1
    return count


def _parquet(rows: Iterator[dict[str, Any]], columns: Sequence[Column], path: Path) -> int:
    pa, pq = (required(name, "parquet", "export") for name in ("pyarrow", "pyarrow.parquet"))
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "time": pa.timestamp("us", "UTC")}
    schema = pa.schema(
        [
            pa.field(column.name, types.get(column.kind, pa.string()), metadata={"says": column.says})
            for column in columns
        ]
    )
    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, AT_ONCE)):
            data = [
                pa.array([_arrow(row.get(column.name), column.kind) for row in some], field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(data, schema=schema))
            count += len(some)
    return count


def _arrow(value: Any, kind: Kind) -> Any:
    if kind == "time" and isinstance(value, str):
        return datetime.fromisoformat(value)
    return float(value) if kind == "float" and value is not None else _cell(value, kind)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file beside the path that takes its place when it is written, and is gone when it is not."""
    try:
        with beside(path) as part:
            yield part
    except OSError as error:
        raise ResourceError(
            f"{path}: cannot be written ({error.strerror or error}); make room, or write it elsewhere with -o"
        ) from error
