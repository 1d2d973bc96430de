"""TREC's files: runs (`query Q0 passage rank score tag`) and qrels (`query 0 passage grade`), in and out.

A line that is not as it must be is an error that names it: a figure over half a file would look like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from draftverify import ConfigError
from draftverify_retrieval.relevance import Qrels, Run, ranked

__all__ = ["read_qrels", "read_run", "write_qrels", "write_run"]

Number = TypeVar("Number", int, float)


def read_run(path: Path | str) -> dict[str, dict[str, float]]:
    """Read a run. The score says the order, as for trec_eval; the column with the rank is not read.

    Raises:
        ConfigError: with file and line: a line without its six columns, a score that is no finite number, a passage
            that stands twice for one query, bytes that are no UTF-8.
    """
    return _read(Path(path), ("query", "Q0", "passage", "rank", "score", "tag"), 4, _finite)


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read qrels.

    Raises:
        ConfigError: with file and line: a line without its four columns, a grade that is no whole number, a passage
            that stands twice for one query, bytes that are no UTF-8.
    """
    return _read(Path(path), ("query", "0", "passage", "grade"), 3, int)


def write_run(run: Run, path: Path | str, tag: str = "draftverify") -> None:
    """Write a run, each query's passages from rank 1 on; what is read back has the same scores.

    Raises:
        ConfigError: an id or the tag is empty or holds white space, or a score is not finite.
    """
    lines = []
    for query, scores in run.items():
        for rank, id in enumerate(ranked(scores), 1):
            score = float(scores[id])
            if not math.isfinite(score):
                raise ConfigError(f"the score of {id!r} for query {query!r} is {score}", where=str(path))
            lines.append(_line(path, query, "Q0", id, str(rank), repr(score), tag))
    Path(path).write_text("".join(lines), "utf-8")


def write_qrels(qrels: Qrels, path: Path | str) -> None:
    """Write qrels.

    Raises:
        ConfigError: an id is empty or holds white space.
    """
    lines = [_line(path, query, "0", id, str(grade)) for query in qrels for id, grade in qrels[query].items()]
    Path(path).write_text("".join(lines), "utf-8")


def _read(
    path: Path, columns: tuple[str, ...], at: int, read: Callable[[str], Number]
) -> dict[str, dict[str, Number]]:
    found: dict[str, dict[str, Number]] = {}
    places: dict[tuple[str, str], int] = {}
    for number, line in _lines(path):
        where, words = f"{path}:{number}", line.split()
        if not words:
            continue
        if len(words) != len(columns):
            needed = " ".join(columns)
            raise ConfigError(
                f"{len(words)} columns; {len(columns)} are needed: {needed}. The line is {line.strip()!r:.80}",
                where=where,
            )
        query, id = words[0], words[2]
        try:
            value = read(words[at])
        except ValueError as error:
            raise ConfigError(f"the {columns[at]} cannot be {words[at]!r:.40}", where=where) from error
        before = places.setdefault((query, id), number)
        if before != number:
            raise ConfigError(
                f"passage {id!r} stands twice for query {query!r}, first in line {before}", where=where
            )
        found.setdefault(query, {})[id] = value
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror or error}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("this is no UTF-8", where=f"{path}:{number}") from error


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(word)
    return value


def _line(path: Path | str, *words: str) -> str:
    for word in words:
        if word.split() != [word]:
            raise ConfigError(
                f"{word!r} cannot stand in a TREC file; ids and tags are words without space", where=str(path)
            )
    return " ".join(words) + "\n"
