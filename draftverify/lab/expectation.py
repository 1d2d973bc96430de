"""What another rule would have kept of recorded drafts: an estimate from the summaries of their tokens.

One pass verifies a whole block, so a record knows p and q at every drafted token, also after the first refused one. A
rule that keeps x_j of a chain with chance a_j, whatever became of the others, keeps Σ_k Π_{j≤k} a_j of its first n
tokens in expectation. The chances are the rule's; nothing is drawn.

It is an estimate at the recorded contexts: a rule that emits other tokens comes to other contexts, where its acceptance
may be another. Of a task's first block, before which nothing was emitted, the expectation is that of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.acceptance import drafted_rounds
from draftverify.stats.intervals import Estimate, rate, task_sums
from draftverify.token_summary import TokenSummary, read_summaries
from draftverify.values import Round, TaskRecord


class ExpectedBlock(msgspec.Struct, frozen=True, kw_only=True):
    """How many of their first n tokens blocks keep, of those that were asked for n or more.

    Args:
        size: n.
        blocks: how many such blocks.
        ran_kept, would_keep: tokens a block, as the recorded rule kept them and as the other one is expected to.
        ran_rate, would_accept: accepted over judged tokens; those after the first that is refused are not judged.
    """

    size: int
    blocks: int
    ran_kept: Estimate
    would_keep: Estimate
    ran_rate: Estimate
    would_accept: Estimate


def expected_acceptance(
    records: Iterable[TaskRecord], chance: Callable[[int, TokenSummary], float], *, most: int | None = None
) -> tuple[ExpectedBlock, ...]:
    """Estimate how many tokens of the recorded chains a rule keeps, for every block size up to the recorded one.

    Intervals are of 95 % and know of tasks (`rate`); kept tokens a block are a share of n.

    Args:
        records: one pipeline's, with summaries (`records: {tokens: summary}`). Retries are left out.
        chance: of a drafted token and its summary, how likely the rule keeps it once it has kept those before it.
        most: no larger sizes than this.

    Raises:
        ConfigError: no summaries were recorded, a block is no chain, or none was as long as `most`.
    """
    blocks: list[tuple[str, Round, list[float]]] = []
    for record in records:
        for round in drafted_rounds(record):
            if round.items and not round.tokens:
                raise ConfigError(
                    f"task {record.task!r}: nothing is recorded of the distributions of its drafted tokens; run with "
                    "records: {tokens: summary}, and ask again",
                    path="records.tokens",
                )
            if tuple(round.parents) != tuple(range(-1, len(round.items) - 1)):
                raise ConfigError(
                    f"task {record.task!r}: acceptance is estimated of chains, and this is a tree"
                )
            summaries = read_summaries(round.tokens)
            chances = [chance(*drafted) for drafted in zip(round.items, summaries, strict=True)]
            blocks.append((record.task, round, chances))
    longest = max((len(round.items) for _, round, _ in blocks), default=0)
    if most is not None and most > longest:
        raise ConfigError(
            f"no block of {most} was recorded, the longest has {longest} tokens; record a run with longer ones",
            path="block",
        )
    sizes = range(1, (longest if most is None else most) + 1)
    return tuple(_block(n, [block for block in blocks if block[1].asked >= n]) for n in sizes)


def _block(n: int, blocks: Sequence[tuple[str, Round, list[float]]]) -> ExpectedBlock:
    """The figures of one size."""
    rows = []
    for task, round, chances in blocks:
        kept_count, drafted = min(n, len(round.decision.kept)), min(n, len(round.items))
        reached = np.cumprod([1.0, *chances[:n]])
        would, judged = reached[1:].sum(), reached[:-1].sum()
        rows.append((task, n, kept_count, min(drafted, kept_count + 1), would, judged))
    places, kept_sums, trials, would_sums, judged_sums = task_sums(rows, 5).T

    def a_block(kept_lengths: Any) -> Estimate:
        share = rate(kept_lengths, places)
        return Estimate(n * share.value, n * share.low, n * share.high, len(blocks), share.clusters)

    return ExpectedBlock(
        size=n,
        blocks=len(blocks),
        ran_kept=a_block(kept_sums),
        would_keep=a_block(would_sums),
        ran_rate=rate(kept_sums, trials),
        would_accept=rate(would_sums, judged_sums),
    )
