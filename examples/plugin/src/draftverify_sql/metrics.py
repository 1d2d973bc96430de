"""What came of it, apart from the verifier's word: the same results on other data, and time saved, measured anew.

The verifier chose the best of many texts by times that it took itself, and the best of many noisy figures is too good.
So a metric takes its own, of the chosen text and the query as written in turns. A task that was not accepted runs as
written, and counts as that.
"""

from __future__ import annotations

from draftverify import Outcome, Task
from draftverify_sql.database import Database, QueryError
from draftverify_sql.verifier import LIMIT, paired

__all__ = ["EstimatedSpeedUp", "MillisecondsSaved", "SameResult", "SpeedUp"]


class SameResult:
    """Whether the chosen text is the query as written on data that the verifier has not seen.

    Args:
        database: other data with the same tables, such as TPC-H's at another scale.
        samples: small databases besides, made with a seed of their own (see `Tested`).
        seed: of them; another one than the verifier's.
        seconds: the longest that a query may take.
        rows: the most rows of a result that are compared.
    """

    def __init__(
        self,
        database: Database,
        samples: int = 60,
        seed: int = 1,
        seconds: float = 60.0,
        rows: int = 1_000_000,
    ) -> None:
        self.database = database
        self.samples = samples
        self.seed = seed
        self.seconds = seconds
        self.rows = rows

    def open(self) -> None:
        """Make or find the data."""
        self.database.open()

    def close(self) -> None:
        """End the database's process."""
        self.database.close()

    def __call__(self, task: Task, outcome: Outcome) -> bool:
        """True of the query as written.

        Raises:
            draftverify_sql.QueryError: the query as written fails there.
        """
        written, own = task.input["sql"], chosen(task, outcome)
        if own == written:
            return True
        both = {"written": written, "queries": [own]}
        small = self.database.ask(
            "refute", **both, count=self.samples, seed=self.seed, seconds=LIMIT, limit=120.0
        )
        whole = self.database.ask(
            "compare", **both, seconds=self.seconds, rows=self.rows, limit=2 * self.seconds
        )
        return not (small["queries"][0] or whole["queries"][0])


class _Timed:
    """What metrics of time share.

    Args:
        database: with the data to measure on.
        repeats: how often both are run, in turns.
        seconds: the longest that a query may take.
    """

    def __init__(self, database: Database, repeats: int = 15, seconds: float = 60.0) -> None:
        self.database = database
        self.repeats = repeats
        self.seconds = seconds

    def open(self) -> None:
        """Make or find the data."""
        self.database.open()

    def close(self) -> None:
        """End the database's process."""
        self.database.close()

    def times(self, task: Task, outcome: Outcome) -> tuple[list[float], list[float]] | None:
        """Seconds of the query as written and of the chosen text; None where they are one."""
        written, own = task.input["sql"], chosen(task, outcome)
        return None if own == written else self.database.ratios(written, own, self.repeats, self.seconds)


class SpeedUp(_Timed):
    """How many times as fast the chosen text is; 1 for the query as written."""

    unit = "×"
    mean = "geometric"

    def __call__(self, task: Task, outcome: Outcome) -> float:
        """The geometric mean over repeats."""
        found = self.times(task, outcome)
        return 1.0 if found is None else 1.0 / paired(found[1], found[0])[0]


class MillisecondsSaved(_Timed):
    """What one execution saves, in milliseconds; below 0 where it loses."""

    unit = "ms"

    def __call__(self, task: Task, outcome: Outcome) -> float:
        """The difference of the mean times."""
        found = self.times(task, outcome)
        return 0.0 if found is None else 1e3 * (sum(found[0]) - sum(found[1])) / len(found[0])


class EstimatedSpeedUp:
    """What DuckDB's own estimates promise: rows in the plan as written over rows in the chosen one's.

    Args:
        database: with the data to plan on.
    """

    unit = "×"
    mean = "geometric"

    def __init__(self, database: Database) -> None:
        self.database = database

    def open(self) -> None:
        """Make or find the data."""
        self.database.open()

    def close(self) -> None:
        """End the database's process."""
        self.database.close()

    def __call__(self, task: Task, outcome: Outcome) -> float:
        """1 for the query as written.

        Raises:
            draftverify_sql.QueryError: one of them cannot be planned.
        """
        queries = [task.input["sql"], chosen(task, outcome)]
        if queries[0] == queries[1]:
            return 1.0
        made = self.database.ask("explain", queries=queries, seconds=LIMIT, limit=2 * LIMIT)["queries"]
        for each in made:
            if "problem" in each:
                raise QueryError(each["text"])
        return max(made[0]["cost"], 1.0) / max(made[1]["cost"], 1.0)


def chosen(task: Task, outcome: Outcome) -> str:
    """What a user would run: the accepted text, else the query as written."""
    value = outcome.value if outcome.status == "accepted" else None
    if isinstance(value, (list, tuple)) and len(value) == 1:
        [value] = value
    return value if isinstance(value, str) else str(task.input["sql"])
