"""A ranking of those passages alone whose metadata are as they are wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError, Context
from draftverify_llm import MISSING, value_at
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.ranking import Ranking, Refined, padded, rank_with

_DEEPER = 4
_RANGE = ("min", "max")


class Filtered(Refined):
    """Drafts what its retriever finds and whose metadata are as `where` says, and as the task's input `where` says.

    `where` has for each field what it must be: a value, a list of which it is one, or a range {min: …, max: …}, both
    ends within. A field within another is "a.b"; one that is a list itself has to hold such a value. A passage without
    the field is left out. The retriever is asked for four times as many passages until enough are left.

    Args:
        retriever: finds the passages.
        where: for every task; a task's own comes on top.
    """

    def __init__(self, retriever: Retriever, where: Mapping[str, Any] = {}) -> None:
        super().__init__()
        self.retriever = retriever
        self.where = where
        self._allowed: dict[str, NDArray[np.bool_]] = {}

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The k best rows of each query, as `Retriever` says."""
        return self._left(
            lambda depth: self.retriever.search(queries, depth), [self._rows({})] * len(queries), k
        )

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The k best rows for each task.

        Raises:
            ConfigError: a task's `where` is none.
        """
        allowed = [self._rows(context.task.input.get("where") or {}) for context in contexts]
        return self._left(lambda depth: rank_with(self.retriever, contexts, depth), allowed, k)

    def _left(self, ranked: Any, allowed: Sequence[NDArray[np.bool_]], k: int) -> Ranking:
        """The first k allowed rows of each ranking, which is asked for as deep as that needs."""
        count, depth = len(self._get()), k
        while True:
            depth = min(_DEEPER * depth, count)
            found, found_scores = ranked(depth)
            keeps = [(found[line] >= 0) & rows[found[line]] for line, rows in enumerate(allowed)]
            whole = (found[:, -1] < 0) | (np.array([keep.sum() for keep in keeps]) >= k) if depth else True
            if depth == count or np.all(whole):
                break
        lines = []
        for line, keep in enumerate(keeps):
            left = np.flatnonzero(keep)[:k]
            lines.append((found[line, left], found_scores[line, left]))
        return padded(lines, k)

    def _rows(self, own: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Which rows are allowed, bool [rows]; worked out once for the same words."""
        corpus = self._get()
        key = json.dumps([*self.where.items(), *own.items()], default=str)
        if key not in self._allowed:
            _check(own)
            if len(self._allowed) >= 100:  # each is a byte for every row
                self._allowed.clear()
            wanted = [*self.where.items(), *own.items()]
            metadata = [corpus.passage(row).get("metadata") or {} for row in range(len(corpus))]
            allowed = [all(_fits(value_at(of, name), choice) for name, choice in wanted) for of in metadata]
            self._allowed[key] = np.array(allowed, dtype=np.bool_)
        return self._allowed[key]

    def _make(self) -> Passages:
        _check(self.where)
        self._allowed.clear()
        return super()._make()


def _check(where: Any) -> None:
    if not isinstance(where, Mapping):
        raise ConfigError(f"`where` is {where!r:.60}; an object of fields is needed", path="where")
    for name, choice in where.items():
        if isinstance(choice, Mapping) and (not choice or set(choice) - {*_RANGE}):
            raise ConfigError(f"a range has min, max or both, not {dict(choice)!r:.60}", path=f"where.{name}")


def _fits(value: Any, choice: Any) -> bool:
    """Whether a value, or one of a list, is as it is wanted."""
    if value is None or value is MISSING:
        return False
    if isinstance(value, (list, tuple)):
        return any(_fits(entry, choice) for entry in value)
    if isinstance(choice, (list, tuple)):
        return value in choice
    if not isinstance(choice, Mapping):
        return bool(value == choice)
    try:
        return all(choice["min"] <= value if end == "min" else value <= choice["max"] for end in choice)
    except TypeError:  # a text beside a number
        return False
