"""Whether other texts of a query give the same results, and how much time they save: tested, not proved.

One pass over the whole block, from cheap to dear: EXPLAIN of all texts, then small databases that are made to part
queries which are not the same, then full results on the data, then times in turns with the query as written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import msgspec

from draftverify import Check, ConfigError, Context, Proposal, Task, Verification, VerifierTraits
from draftverify.stats import log_interval
from draftverify_sql.database import Database, QueryError, each_alone
from draftverify_sql.generators import query_of

__all__ = ["Tested", "paired"]

TESTED = "tested, not proved"
WEAKLY = "tested on data alone"
"""Where the query as written gave no row on any sample: there was nothing to tell it from others by."""
LIMIT = 3.0
"""Seconds of a query on a sample of a few rows."""


class Tested:
    """Passes texts that gave the results of the query as written wherever they were tried.

    The score is the share of its time that a text is sure to save: 1 − r, where r is the upper end of the 95 % interval
    of its time over that of the query as written. It is negative for one that is slower, and 0 for the query itself.
    A pass carries a caveat: tests can refute two queries, and not prove them the same.

    The notes have, for each item, "estimated" and "measured" (the query's rows in DuckDB's plan, and its seconds, over
    those of the item; null where it did not come so far), and how many samples there were and could tell anything.

    Args:
        database: with the data.
        samples: small databases on which the query as written has something to show; there are others besides.
        repeats: how often each text that is still there is timed.
        seconds: the longest that the query as written may take.
        rows: the most rows of a result that are compared.
        seed: of the samples.
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, deterministic=False)

    def __init__(
        self,
        database: Database,
        samples: int = 30,
        repeats: int = 7,
        seconds: float = 30.0,
        rows: int = 200_000,
        seed: int = 0,
    ) -> None:
        self.database = database
        self.samples = samples
        self.repeats = repeats
        self.seconds = seconds
        self.rows = rows
        self.seed = seed

    def open(self) -> None:
        """Make or find the data.

        Raises:
            ConfigError: an argument is out of its range. ResourceError: a package or the data is missing.
        """
        for name, least in (("samples", 0), ("repeats", 2), ("rows", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; {least} or more is needed", path=name)
        if not self.seconds > 0:
            raise ConfigError(f"seconds is {self.seconds}; more than 0 is needed", path="seconds")
        self.database.open()

    def close(self) -> None:
        """End the database's process."""
        self.database.close()

    def prepare(self, task: Task) -> Task:
        """The task with the `schema`, as CREATE TABLE statements, which generators and models read."""
        return msgspec.structs.replace(task, input={**task.input, "schema": self.database.schema()})

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """All items in one pass.

        Raises:
            ConfigError: the query as written cannot be planned.
            draftverify_sql.QueryError: it fails on the data, gives too many rows, or its order cannot be told.
        """
        written = query_of(context)
        work = _Pass(self, written, proposal.items)
        for stage in (work.plan, work.refute, work.compare, work.time):
            started = perf_counter()
            stage()
            work.seconds[stage.__name__] = perf_counter() - started
        notes = {
            "estimated": work.estimated,
            "measured": work.measured,
            "samples": work.samples,
            "telling": work.telling,
            "seconds": work.seconds,
        }
        return Verification(checks=tuple(work.checks), deterministic=False, notes=notes)


def paired(own: Sequence[float], written: Sequence[float]) -> tuple[float, float, float]:
    """Time of one query over that of another, and its 95 % interval: a t interval of the paired log ratios."""
    logs = [math.log(mine / theirs) for mine, theirs in zip(own, written, strict=True)]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((each - mean) ** 2 for each in logs) / max(len(logs) - 1, 1))
    return (math.exp(mean), *log_interval(mean, spread / math.sqrt(len(logs)), len(logs) - 1))


class _Pass:
    """One block on its way: items without a check are still in it."""

    def __init__(self, how: Tested, written: str, items: Sequence[Any]) -> None:
        self.how = how
        self.ask = how.database.ask
        self.written = written
        self.items = items
        self.found: list[Check | None] = [None] * len(items)
        self.estimated: list[float | None] = [None] * len(items)
        self.measured: list[float | None] = [None] * len(items)
        self.samples = self.telling = 0
        self.seconds: dict[str, float] = {}

    @property
    def checks(self) -> list[Check]:
        return [check or Check("unchecked") for check in self.found]

    @property
    def left(self) -> list[int]:
        return [place for place, check in enumerate(self.found) if check is None]

    def _refuse(self, place: int, said: dict[str, Any], differs: str, timeout: str = "timeout") -> None:
        """Read what the process said of an item; {} for nothing against it.

        A text that does not end has failed ("too slow"); a database that does not plan it in time has said nothing.
        """
        problem = said.get("problem")
        text = said.get("text", "")
        if problem == "timeout":
            self.found[place] = Check(
                "timeout" if timeout == "timeout" else "reject", reason=timeout, feedback=text
            )
        elif problem == "error":
            self.found[place] = Check("error", reason="its process ended", feedback=text)
        elif problem is not None:
            reason = {"refused": "not permitted", "invalid": "not valid SQL here"}.get(problem, differs)
            self.found[place] = Check("reject", reason=reason, feedback=text)

    def plan(self) -> None:
        """Texts that are no single SELECT, cannot be planned, or get the plan that the query has anyway, go."""
        for place, item in enumerate(self.items):
            if not isinstance(item, str):
                self.found[place] = Check("error", reason="no text", feedback=f"a {type(item).__name__}")
            elif item == self.written:
                self.found[place] = Check("pass", score=0.0, reason="as written")
        if not self.left:
            return
        places = self.left
        base, *said = each_alone(
            lambda queries: self.ask("explain", queries=queries, seconds=LIMIT, limit=LIMIT * len(queries))[
                "queries"
            ],
            [self.written, *(self.items[place] for place in places)],
        )
        if "problem" in base:
            raise ConfigError(f"the query as written cannot be planned: {base['text']}")
        for place, each in zip(places, said, strict=True):
            if "problem" in each:
                self._refuse(place, each, "")
            else:
                self.estimated[place] = max(base["cost"], 1.0) / max(each["cost"], 1.0)
                if each["plan"] == base["plan"]:
                    self.found[place] = Check("reject", reason="the same plan")

    def refute(self) -> None:
        """Texts that are not the same on a small database go."""

        def ask(queries: Sequence[str]) -> list[dict[str, Any]]:
            said = self.ask(
                "refute",
                written=self.written,
                queries=queries,
                count=self.how.samples,
                seed=self.how.seed,
                seconds=LIMIT,
                limit=120.0 + LIMIT * len(queries),
            )
            self.samples, self.telling = said["samples"], said["telling"]
            found: list[dict[str, Any]] = said["queries"]
            return found

        for place, said in zip(
            self.left, each_alone(ask, [self.items[place] for place in self.left]), strict=True
        ):
            text = f"on a small database ({said.get('note', '')}): {said.get('text', '')}"
            differs = f"differs on a sample: {said.get('kind', '')}"
            self._refuse(place, {**said, "text": text}, differs, timeout="too slow")

    def compare(self) -> None:
        """Texts that are not the same on the data go."""
        most = self.how.seconds

        def ask(queries: Sequence[str]) -> list[dict[str, Any]]:
            limit = most * (len(queries) + 1)
            said = self.ask(
                "compare",
                written=self.written,
                queries=queries,
                seconds=most,
                rows=self.how.rows,
                limit=limit,
            )
            found: list[dict[str, Any]] = said["queries"]
            return found

        for place, said in zip(
            self.left, each_alone(ask, [self.items[place] for place in self.left]), strict=True
        ):
            self._refuse(place, said, "differs on the data", timeout="too slow")

    def time(self) -> None:
        """What is left passes, with the share of time that it is sure to save."""
        places, most = self.left, self.how.seconds
        if not places:
            return
        queries = [self.written, *(self.items[place] for place in places)]
        limit = most * len(queries) * (self.how.repeats + 1)
        base, *said = self.ask("time", queries=queries, repeats=self.how.repeats, seconds=most, limit=limit)[
            "queries"
        ]
        if "slow" in base:
            raise QueryError(
                f"the query as written takes more than {most:g} s; give more, or a smaller database"
            )
        for place, each in zip(places, said, strict=True):
            if "slow" in each:
                self.found[place] = Check("reject", reason="too slow", feedback=f"more than {most:g} s")
                continue
            ratio, _, high = paired(each["seconds"], base["seconds"])
            self.measured[place] = 1.0 / ratio
            self.found[place] = Check(
                "pass",
                score=1.0 - high,
                feedback=f"{1 / ratio:.2f} times as fast",
                caveat=TESTED if self.telling else WEAKLY,
            )
