"""When a run ends before its tasks do: the first ones all failed alike, too many failed, or they cost too much."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from draftverify.errors import RunStoppedError
from draftverify.stats.progress import is_unjudged
from draftverify.values import TaskRecord

ALIKE = 3
"""So many first tasks of a pipeline that fail for one reason end the run. Of tasks that fail independently, one in
seven, three do so at the start of one run in 340."""
GOES_ON = "mended, the same command with --retry-errors goes on, or --fresh begins anew"


@dataclass
class RunLimits:
    """Looks at each task that has ended, and says when no more are to be begun.

    A task of which nothing was judged, since its checks failed, has failed here too: nobody was there.

    Args:
        max_failures: the run ends once so many tasks failed. None: once the first three of a pipeline failed alike.
        max_cost: the run ends once its tasks have cost more, as the parts report it.
        started: the pipelines of which tasks ended otherwise than failed, in an earlier part of the run.
    """

    max_failures: int | None = None
    max_cost: float | None = None
    started: set[str] = field(default_factory=set)
    cost: float = 0.0
    stopped: str = ""
    _reasons: dict[str, Counter[str]] = field(default_factory=dict)

    def take(self, pipeline: str, record: TaskRecord) -> None:
        """Count a task; `stopped` says from then on why no more are to be begun, if that is so."""
        self.cost += record.outcome.cost
        reason = why_failed(record)
        if not reason:
            self.started.add(pipeline)
        else:
            self._reasons.setdefault(pipeline, Counter())[masked(reason, record.task)] += 1
        if self.stopped:
            return
        if self.max_cost is not None and self.cost > self.max_cost:
            self.stopped = f"its tasks cost more than --max-cost {self.max_cost:g}"
        if not reason:
            return
        reasons = self._reasons[pipeline]
        if self.max_failures is not None:
            if sum(reasons.total() for reasons in self._reasons.values()) >= self.max_failures:
                self.stopped = (
                    f"{self.max_failures} tasks failed (--max-failures), the last: {reason}; {GOES_ON}"
                )
        elif len(reasons) == 1 and reasons.total() >= ALIKE and pipeline not in self.started:
            self.stopped = (
                f"the first {ALIKE} tasks of {pipeline} failed alike, the last: {reason}; {GOES_ON} (--max-failures N "
                "lets so many fail)"
            )

    def check(self) -> None:
        """End the run, once what was under way has come.

        Raises:
            RunStoppedError: it is to end.
        """
        if self.stopped:
            paid = f" (they cost {self.cost:g})" if self.max_cost is not None else ""
            raise RunStoppedError(f"the run was stopped: {self.stopped}{paid}")


def why_failed(record: TaskRecord) -> str:
    """Why a task failed, or why nothing of it was judged; "" where neither is so."""
    if record.outcome.failure is not None:
        return str(record.outcome.failure)
    if not is_unjudged(record):
        return ""
    failed = (
        f"{check.reason}: {check.feedback}"
        for round in record.rounds
        for check in round.checks
        if check.verdict in ("error", "timeout")
    )
    return next(failed, record.outcome.reason)


def masked(reason: str, task: str) -> str:
    """A reason as it is compared: without the task's name, numbers and ids."""
    return re.sub(r"\b\w*\d\w*\b", "#", re.sub(rf"(?<!\w){re.escape(task)}(?!\w)", "#", reason))
