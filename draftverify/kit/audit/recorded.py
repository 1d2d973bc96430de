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
from draftverify.kit.drafts import Redraft, on_host, redrafts_of
from draftverify.randomness import Draws, stream_key
from draftverify.values import Array, Context, Proposal, Round, Task, Trail, Verification

SPACING = 3
"""Of a task's rounds with drafted items every third is recorded, and an answer is decoded no further than is needed."""

ROWS_APART = 0.1
"""A row further than this from the same row of another call is no rounding: bfloat16 moves rows by some hundredths."""

EXACT_ROWS_APART = 1e-3
"""The same for rows of 32 bits or more whose verifier says that they are the same each time: they move by some 1e-5."""

LOOKED_AT = 20
"""So many rounds are run for each that is wanted; where nothing was drafted in them, plain steps are recorded."""


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
    with uncached(request.context) as context:
        rounds = context, next_round(context)

        def proposed(number: int) -> Proposal:
            at = rounds[number % 2]
            draws = Draws(stream_key(number // 2, context.task.id, context.attempt, "audit"), at.round)
            proposal: Proposal = request.part.propose(msgspec.structs.replace(at, draws=draws), request.n)
            return proposal

        name = f"{context.task.id}, round {context.round}"
        yield from redrafts_of(map(proposed, range(redraws)), name)


def next_round(context: Context) -> Context:
    """The context after a round in which nothing was accepted."""
    rounds = Trail.of([*context.rounds, Round(index=context.round)])
    return msgspec.structs.replace(context, rounds=rounds)


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
