"""How much of what was checked was accepted: the tally of one round, the rate over tasks, pass@k, items per pass.

A trial is one item that was judged; one that used up its own time was, and failed. Items that nobody looked at are
censored, not failed; errors and timeouts of who checks, and abstentions, have their own counts and are in nobody's
denominator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from draftverify.errors import ConfigError
from draftverify.stats.intervals import Estimate, pooled_rate, rate, ratio, task_sums
from draftverify.values import Round, Tally, TaskRecord


def drafted_rounds(record: TaskRecord, *, first_tries: bool = True) -> list[Round]:
    """The rounds that the pipeline's own generator drafted and that did not end in a failed call."""
    return [
        entry
        for entry in record.rounds
        if entry.source == "generator" and entry.failure is None and (entry.tries == 0) == first_tries
    ]


def acceptance_rate(records: Iterable[TaskRecord], *, first_tries: bool = True) -> Estimate:
    """Accepted / trials of the pipeline's generator, each task one cluster.

    Args:
        records: one run's records.
        first_tries: rounds that no policy retry preceded; False for the retries alone. What a fallback or a
            person drafted is in neither.
    """
    return pooled_rate(
        (record.task, entry.tally.accepted, entry.tally.trials)
        for record in records
        for entry in drafted_rounds(record, first_tries=first_tries)
    )


def items_per_pass(records: Iterable[TaskRecord]) -> Estimate:
    """Emitted items / verifier passes (for tokens: tokens per target pass; plain decoding has 1), clustered by task."""
    sums = task_sums(
        (
            (record.task, len(entry.decision.emitted), entry.timing.passes)
            for record in records
            for entry in record.rounds
        ),
        2,
    )
    sums = sums[sums[:, 1] > 0]
    return replace(ratio(sums), trials=int(sums[:, 1].sum()))


class PassAtK(msgspec.Struct, frozen=True):
    """The mean of pass@k over tasks.

    Args:
        k: samples of a task.
        rate: the mean, each task one cluster; NaN where every task is left out.
        left_out: the tasks that are not in it, each with why.
    """

    k: int
    rate: Estimate
    left_out: Mapping[str, str]


def pass_at_k(samples: int, accepted: int, k: int) -> float:
    """The chance that at least one of k samples passes, unbiased: 1 − C(n − c, k) / C(n, k).

    Args:
        samples: n, how many were drawn, n >= k. One that used up its time was drawn, and failed.
        accepted: c, how many of them passed.

    References:
        Chen et al., 2107.03374.
    """
    if not 0 < k <= samples:
        raise ConfigError(
            f"pass@{k} cannot be had from {samples} samples: more than were taken is not extrapolated"
        )
    return 1.0 - math.comb(samples - accepted, k) / math.comb(samples, k)


def pass_at_k_rate(records: Iterable[TaskRecord], k: int) -> PassAtK:
    """The mean of pass@k over tasks, of what the pipeline's own generator drew in first tries.

    A task is left out, by name, where a sample came to no verdict or a call failed, since nothing is known of these;
    and where fewer than k samples were drawn.

    Raises:
        ConfigError: a block stopped early, and more than k of its samples were drawn. What was left unchecked depends
            on what passed, so pass@k would be biased. Of k samples of which one passed the others do not matter.
    """
    values = []
    left_out: dict[str, str] = {}
    for task, rounds in _first_tries(records).items():
        total, drawn = Tally.total(entry.tally for entry in rounds), sum(len(entry.items) for entry in rounds)
        if unknown := _unknown(rounds, total):
            left_out[task] = unknown
        elif drawn < k:
            left_out[task] = f"{drawn} of {k} samples were drawn"
        elif not total.unchecked:
            values.append(pass_at_k(drawn, total.accepted, k))
        elif drawn == k and total.accepted:
            values.append(1.0)
        else:
            raise ConfigError(
                f"task {task!r} has {total.unchecked} unchecked items of {drawn}, so its blocks stopped early, and "
                f"pass@{k} would be biased; a rule such as `best` or `all` has all of them checked"
            )
    return PassAtK(k, rate(values, [1.0] * len(values)), left_out)


def fewest_samples(records: Iterable[TaskRecord]) -> int:
    """The largest k of which no task with samples is left out of pass@k for want of more; 0 where none is known."""
    drawn = [
        sum(len(entry.items) for entry in rounds)
        for rounds in _first_tries(records).values()
        if not _unknown(rounds, Tally.total(entry.tally for entry in rounds))
    ]
    return min(filter(None, drawn), default=0)


def _first_tries(records: Iterable[TaskRecord]) -> dict[str, list[Round]]:
    """By task the rounds that the pipeline's own generator drafted before any retry, failed ones too."""
    rounds_of: dict[str, list[Round]] = {}
    for record in records:
        # After a retry that made progress `tries` is 0 again, but what is drafted then builds on the retry.
        untried = takewhile(lambda entry: entry.tries == 0, record.rounds)
        drafted = (entry for entry in untried if entry.source == "generator")
        rounds_of.setdefault(record.task, []).extend(drafted)
    return rounds_of


def _unknown(rounds: Sequence[Round], total: Tally) -> str:
    """Why some of a task's samples have no verdict; "" where all were judged, or left since enough had passed."""
    failure = next((entry.failure for entry in rounds if entry.failure is not None), None)
    if failure is not None:
        return f"a call failed: {failure}"
    counts = ((total.errors, "error"), (total.timeouts, "timeout"), (total.abstentions, "abstention"))
    unjudged = ", ".join(f"{count} {verdict}{'s' * (count > 1)}" for count, verdict in counts if count)
    return f"samples without a verdict: {unjudged}" if unjudged else "" if rounds else "nothing was drawn"
