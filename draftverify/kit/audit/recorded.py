"""Rounds of real tasks, recorded at spread-out prefixes: what was proposed, what the verifier said, and fresh drafts.

The pipeline's own parts run on its own tasks. At a recorded round the generator is asked again with other random draws
and everything else the same, and the verifier is asked for two of the block's rows by plain steps with nothing cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Decide, Draft, Request
from draftverify.engine.session import Session
from draftverify.kit.audit.driving import drive, perform, uncached
from draftverify.kit.contexts import as_numpy
from draftverify.randomness import Draws, stream_key
from draftverify.values import Array, Context, Law, Proposal, Round, Task, Trail, Verification

__all__ = ["ROWS_APART", "RecordedRound", "Redraft", "next_round", "on_host", "record", "rows_apart"]

SPACING = 3
"""Of a task's rounds with drafted items every third is recorded, and an answer is decoded no further than is needed."""

ROWS_APART = 0.1
"""A row further than this from the same row of another call is no rounding: bfloat16 moves rows by some hundredths."""

EXACT_ROWS_APART = 1e-3
"""The same for rows of 32 bits or more whose verifier says that they are the same each time: they move by some 1e-5."""

LOOKED_AT = 20
"""So many rounds are run for each that is wanted; where nothing was drafted in them, plain steps are recorded."""


class Redraft(msgspec.Struct, frozen=True, eq=False):
    """A proposal that the generator made with other draws, without its q, of which hundreds would not fit into memory.

    Args:
        number: which it is: of an even number and the next one the draws are those of two rounds under one key.
        items, parents, kind: of the proposal and its law.
        ranks: for each item its rank in the row that the law says it was drawn from, spread over its probability:
            uniform on [0, 1) when it was drawn from that row.
        quantiles: the same with the row in the order of the vocabulary, in which most generators draw: there a number
            that was used for two items shows.
        impossible: an item to which that row gives nothing, or None.
        surprise: Σ f(item) − E f over the items, f being the logarithm of the row's probability, cut off and scaled to
            [-1, 0]; what is drawn at another temperature is more or less likely than its row expects.
        variance: Σ of the terms' variances under their rows.
        first_row: [V], q's first row; the same array in all redrafts of a round whose rows are equal.
    """

    number: int
    items: tuple[int, ...]
    parents: tuple[int, ...]
    kind: str
    ranks: tuple[float, ...]
    quantiles: tuple[float, ...]
    impossible: int | None
    surprise: float
    variance: float
    first_row: Any


Drafted: TypeAlias = "tuple[Draft | None, tuple[Redraft, ...]]"
"""What the generator was asked, None where nothing was drafted; and what it proposed with other draws."""


class RecordedRound(msgspec.Struct, frozen=True, eq=False):
    """One round at a real prefix.

    Args:
        where: the task and the round, for messages.
        context: of the decision.
        proposal: what was drafted; its law's q on the host.
        target: [n + 1, V], the verifier's rows on the host.
        raw_maxima: [n + 1], where the verifier gives them.
        redrafts: what the generator proposed with other draws; () for law "given".
        rows_apart: the largest TV of the first, the last and one other row from those of plain steps; None where not
            looked at.
        rows_bound: a TV that is no rounding, of rows of this dtype.
        drafting: what the generator was asked; None where nothing was drafted.
    """

    where: str
    context: Context
    proposal: Proposal
    target: Any
    raw_maxima: Any
    redrafts: tuple[Redraft, ...]
    rows_apart: float | None
    rows_bound: float
    drafting: Draft | None


def record(
    pipeline: Pipeline, tasks: Sequence[Task], prefixes: int, redraws: int, *, rows: bool
) -> list[RecordedRound]:
    """Run the tasks as far as is needed and record rounds, those with drafted items where there are enough.

    Args:
        pipeline: opened.
        tasks: its tasks; as many rounds are recorded of each.
        prefixes: how many rounds in all, at most.
        redraws: how many times the generator is asked again at each.
        rows: whether to compare rows with those of plain steps.

    Raises:
        ContractError: a call failed.
        Exception: whatever a component raises.
    """
    rounds: list[RecordedRound] = []
    for at, task in enumerate(tasks):
        quota = -(-(prefixes - len(rounds)) // (len(tasks) - at))
        if quota > 0:
            rounds += _of_task(pipeline, task, quota, redraws, rows, at % SPACING)
    return rounds


def _of_task(
    pipeline: Pipeline, task: Task, quota: int, redraws: int, rows: bool, offset: int
) -> list[RecordedRound]:
    session = Session(pipeline, task)
    drafted: list[RecordedRound] = []
    plain: list[RecordedRound] = []
    round_counts = {True: 0, False: 0}  # rounds with drafted items and without

    def due(has_items: bool) -> bool:
        round_counts[has_items] += 1
        return (round_counts[has_items] - 1) % SPACING == offset

    drafting: Drafted | None = None

    def hook(request: Request) -> Any:
        nonlocal drafting
        value = perform(request)
        if isinstance(request, Draft) and len(value) and due(True):
            drafting = request, () if value.law.kind == "given" else tuple(_redrafts(request, redraws))
        if isinstance(request, Decide):
            if drafting is not None:
                drafted.append(_recorded(pipeline, request, drafting, rows, offset + len(drafted)))
            elif not len(request.proposal) and len(plain) < quota and due(False):
                plain.append(_recorded(pipeline, request, (None, ()), rows, 0))
            drafting = None
        return value

    try:
        while session.outcome is None and len(drafted) < quota and len(session.rounds) < LOOKED_AT * quota:
            drive(session, hook, rounds=len(session.rounds) + 1)
    finally:
        session.release()
    return (drafted + plain)[:quota]


def _redrafts(request: Draft, redraws: int) -> Iterator[Redraft]:
    first_row: Any = None
    with uncached(request.context) as context:
        for number in range(redraws):
            round_context = next_round(context) if number % 2 else context
            draws = Draws(
                stream_key(number // 2, context.task.id, context.attempt, "audit"), round_context.round
            )
            proposal = on_host(
                request.part.propose(msgspec.structs.replace(round_context, draws=draws), request.n)
            )
            if len(proposal):
                row = np.asarray(proposal.law.q[0], dtype=np.float64)  # type: ignore[index]
                first_row = row if first_row is None or not np.array_equal(row, first_row) else first_row
                # Numbers of its own for each round: an item that could only be one has no others.
                name = f"ranks of {context.task.id}, round {context.round}"
                yield _redraft(
                    number, proposal, first_row, Draws(stream_key(number, name, context.attempt, "audit"), 0)
                )


def next_round(context: Context) -> Context:
    """The context after a round in which nothing was accepted."""
    rounds = Trail.of([*context.rounds, Round(index=context.round)])
    return msgspec.structs.replace(context, rounds=rounds)


def _redraft(number: int, proposal: Proposal, first_row: Any, spread: Draws) -> Redraft:
    ranks: list[float] = []
    quantiles: list[float] = []
    impossible = None
    surprise = variance = 0.0
    for node, item in enumerate(proposal.items):
        row = _declared(proposal, node)
        if not row[item] > 0:
            impossible = item
            break
        row /= row.sum()
        mass_before = float(row[row > row[item]].sum() + row[:item][row[:item] == row[item]].sum())
        share = spread.uniform(node) * float(row[item])
        ranks.append(mass_before + share)
        quantiles.append(float(row[:item].sum()) + share)
        f = np.log(np.maximum(row, _RAREST)) / -np.log(_RAREST)
        mean = float(row @ f)
        surprise += float(f[item]) - mean
        variance += max(float(row @ np.square(f)) - mean**2, 0.0)
    return Redraft(
        number=number,
        items=tuple(proposal.items),
        parents=proposal.parents,
        kind=proposal.law.kind,
        ranks=tuple(ranks),
        quantiles=tuple(quantiles),
        impossible=impossible,
        surprise=surprise,
        variance=variance,
        first_row=first_row,
    )


_RAREST = 1e-4


def _declared(proposal: Proposal, node: int) -> Any:
    """The row [V] that the law says the item was drawn from."""
    q: Any = proposal.law.q
    parent = proposal.parents[node]
    row = np.array(q[parent + 1], dtype=np.float64)
    if proposal.law.kind == "without_replacement":
        row[[proposal.items[i] for i in range(node) if proposal.parents[i] == parent]] = 0.0
    return row


def _recorded(pipeline: Pipeline, request: Decide, drafted: Drafted, rows: bool, at: int) -> RecordedRound:
    evidence = request.verification.evidence
    assert evidence is not None
    target = as_numpy(evidence.target)
    distance = None
    if rows:
        # The first, the last, and one between them, another each time: in a tree only some rows may be wrong.
        n = len(request.proposal)
        looked_at = {-1, n - 1, *([at % n] if n else [])}
        distance = max(_apart(pipeline, request, end, target[end + 1]) for end in looked_at)
    return RecordedRound(
        where=f"task {request.context.task.id}, round {request.context.round}",
        context=request.context,
        proposal=on_host(request.proposal),
        target=target,
        raw_maxima=None if evidence.raw_maxima is None else as_numpy(evidence.raw_maxima),
        drafting=drafted[0],
        redrafts=drafted[1],
        rows_apart=distance,
        rows_bound=_no_rounding(request.verification),
    )


def _no_rounding(verification: Verification) -> float:
    """The least TV of two rows that rounding does not explain.

    Half precision may give rows of 32 bits too, but says it is not deterministic.
    """
    evidence: Any = verification.evidence
    full_precision = verification.deterministic and not str(evidence.target.dtype).endswith("float16")
    return EXACT_ROWS_APART if full_precision else ROWS_APART


def _apart(pipeline: Pipeline, request: Decide, end: int, row: Array) -> float:
    """TV between a row and that of a plain step after the same items."""
    items = [request.proposal.items[i] for i in request.proposal.path(end)]
    accepted = Trail.of([*request.context.accepted, *map(int, items)])
    with uncached(request.context) as context:
        plain = msgspec.structs.replace(context, accepted=accepted, last=None)
        evidence = pipeline.verifier.verify(plain, Proposal.chain(())).evidence
    assert evidence is not None
    return rows_apart(as_numpy(evidence.target), row[None])


def rows_apart(rows: Array, reference: Array) -> float:
    """The largest TV of two arrays' rows [rows, V], each scaled to sum 1; 1 where one is not a distribution."""
    if not len(reference):
        return 0.0
    rows, reference = (np.asarray(table[: len(reference)], dtype=np.float64) for table in (rows, reference))
    with np.errstate(invalid="ignore", divide="ignore"):
        tv = 0.5 * np.abs(
            rows / rows.sum(axis=1, keepdims=True) - reference / reference.sum(axis=1, keepdims=True)
        ).sum(axis=1)
    return float(np.where(np.isfinite(tv), tv, 1.0).max())


def on_host(proposal: Proposal) -> Proposal:
    """The proposal with plain items and NumPy rows, one row per parent and no more."""
    law, used = proposal.law, max(proposal.parents, default=-2) + 2
    items = tuple(int(item) for item in as_numpy(proposal.items))
    if law.q is not None:
        maxima = None if law.raw_maxima is None else as_numpy(law.raw_maxima)[:used]
        law = Law(law.kind, as_numpy(law.q)[:used], maxima)
    return Proposal(items=items, parents=proposal.parents, law=law)
