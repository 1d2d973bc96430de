"""The log-probabilities of an answer's tokens, by the target's own logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftverify import Context
from draftverify_tokens.reader import BlockReading
from draftverify_tokens.target import Target


class ScoredTarget(Target):
    """A target that leaves its logits, before any setting, in the session's scratch until its next pass."""

    def _note(self, contexts: Sequence[Context], reading: BlockReading) -> None:
        for context, rows in zip(contexts, reading.logits.split(reading.counts), strict=True):
            context.scratch[ScoredTarget] = rows


class Scoring:
    """A stopping rule that notes what a `ScoredTarget` thinks of each value that joins, and asks another when to stop.

    Args:
        stop: the other one.
        count: of how many likeliest tokens it notes the same beside each.

    Attributes:
        of: by task, the log-probability of each token so far; the last of them may be cut off by the other's word.
        likeliest: by task, for each token those of the likeliest in its place, by id.
    """

    def __init__(self, stop: Any, count: int) -> None:
        self.stop = stop
        self.count = count
        self.of: dict[str, list[float]] = {}
        self.likeliest: dict[str, list[dict[int, float]]] = {}

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """The other's word."""
        latest, logits = context.last, context.scratch[ScoredTarget]
        assert latest is not None
        path, parents = latest.decision.kept, latest.proposal.parents
        rows = [parents[index] + 1 for index in path] + [path[-1] + 1 if path else 0]
        logprobs = logits[rows[: len(new)]].float().log_softmax(-1)
        values = [float(row[token]) for row, token in zip(logprobs, new, strict=True)]
        self.of.setdefault(context.task.id, []).extend(values)
        top = logprobs.topk(min(self.count, logprobs.shape[-1]))
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        self.likeliest.setdefault(context.task.id, []).extend(dict(zip(*pair, strict=True)) for pair in pairs)
        return self.stop(context, new)
