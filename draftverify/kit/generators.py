"""The checks for generators: what a proposal must be, and that its items really come from the law that it declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np

from draftverify.engine.canonical import canonical, plain_problem
from draftverify.kit.assertions import ERROR_PROBABILITY, ensure, exercised
from draftverify.kit.contexts import as_numpy
from draftverify.kit.counts import strays
from draftverify.kit.drafts import Redraft, law_problems, redrafts_of
from draftverify.kit.registry import check
from draftverify.kit.subject import NO_ITEMS, Subject
from draftverify.randomness import stream_key, uniforms
from draftverify.values import Context, Proposal

_GIVEN = frozenset({"given"})
_SOUND = ["items_are_possible_under_q", "leaves_its_arguments_alone"]


_NEVER_DRAWN = (
    "every proposal was of law 'given', though `laws` names others; give contexts= in which it draws"
)


def _proposals(subject: Subject) -> list[Proposal]:
    return [subject.answer(call) for call in subject.calls]


def _exercised_law(subject: Subject) -> None:
    exercised(any(proposal.law.q is not None for proposal in _proposals(subject)), _NEVER_DRAWN)


@check("generator", after=["answers_can_be_read"])
def items_can_be_recorded(subject: Subject) -> None:
    """Items are JSON values, or become some (tuples, NumPy's numbers): an experiment writes every one down."""
    items = [item for proposal in _proposals(subject) for item in proposal.items]
    for item in items:
        problem = plain_problem(canonical(item))
        hint = "give plain data (a number, a text, a list, a dict), which the verifier can read back"
        only = "a part for pipelines in memory alone may name this check in expected_failures"
        ensure(problem is None, f"an item is a {type(item).__name__}{problem}; {hint}; {only}")
    exercised(items, NO_ITEMS["generator"])


@check("generator", after=["answers_can_be_read"], when=lambda s: s.traits.laws != _GIVEN)
def q_rows_are_distributions(subject: Subject) -> None:
    """Rows of q are finite, non-negative and sum to 1."""
    for proposal in _proposals(subject):
        if proposal.law.q is not None and len(proposal.items):
            q, rows = as_numpy(proposal.law.q).astype(np.float64), max(proposal.parents) + 2
            ensure(np.all(np.isfinite(q)) and np.all(q >= 0), "q has entries that are negative or not finite")
            sums = q[:rows].sum(axis=1)
            ensure(np.all(abs(sums - 1) < 1e-3), f"rows of q sum to {sums}; give probabilities, normalised")
    _exercised_law(subject)


@check("generator", after=["q_rows_are_distributions"], when=lambda s: s.traits.laws != _GIVEN)
def items_are_possible_under_q(subject: Subject) -> None:
    """A drawn item is an index into its row of q, and q(item) > 0."""
    for proposal in _proposals(subject):
        for index, item in enumerate(proposal.items if proposal.law.q is not None else ()):
            row = as_numpy(proposal.law.q)[proposal.parents[index] + 1]
            ensure(0 <= item < len(row), f"item {index} is {item!r}; an index below {len(row)} is needed")
            ensure(
                row[int(item)] > 0,
                f"q gives item {index}, {item!r}, probability 0; report the row it was drawn from",
            )
    _exercised_law(subject)


class _Sample(NamedTuple):
    """Many re-runs of one call, which differ in their draws and in nothing else, in turn those of two rounds."""

    context: Context
    firsts: list[str | None]
    redrafts: list[Redraft]


def _sample(subject: Subject, context: Context) -> _Sample:
    firsts: list[str | None] = []

    def proposals() -> Iterator[Proposal]:
        drawn = False
        for number in range(subject.trials):
            # Where nothing is drawn there is nothing to count: sixteen equal answers are enough to see that.
            if number == 16 and not drawn and len(set(firsts)) == 1:
                break
            stream, later = divmod(number, 2)
            call = msgspec.structs.replace(context, attempt=stream), subject.block
            proposal: Proposal = subject.answer(subject.drawn(call, stream, later))
            firsts.append(repr(proposal.items[0]) if len(proposal.items) else None)
            drawn |= proposal.law.q is not None
            yield proposal

    return _Sample(context, firsts, list(redrafts_of(proposals(), context.task.id)))


def _samples(subject: Subject) -> list[_Sample]:
    if "samples" not in subject.notes:
        subject.notes["samples"] = [_sample(subject, context) for context in subject.contexts[:2]]
    samples: list[_Sample] = subject.notes["samples"]
    return samples


@check(
    "generator",
    after=["items_are_possible_under_q", "draws_anew_each_round"],
    when=lambda s: s.traits.laws != _GIVEN,
)
def law_is_honest(subject: Subject) -> None:
    """Over many draws, items come as often, and as independently, in two rounds too, as the declared law and q say."""
    drafted = [(f"task {context.task.id}", redrafts) for context, _, redrafts in _samples(subject)]
    problems, _ = law_problems(drafted, ERROR_PROBABILITY)
    hint = "declare what they were really drawn from, after temperature and cuts, or 'given'; use no number twice"
    ensure(not problems, f"{''.join(problems[:1])}; {hint}")
    _exercised_law(subject)


@check("generator", after=["answers_can_be_read", *_SOUND, "law_is_honest"])
def draft_stream_is_its_own(subject: Subject) -> None:
    """Drawn items follow context.draws, and no item depends on the draws that the rule will use."""
    for context, firsts, redrafts in _samples(subject):
        drawn = [redraft for redraft in redrafts if not redraft.number % 2]
        sharpest = max((float(redraft.first_row.max()) for redraft in drawn), default=1.0)
        follows = len({redraft.items for redraft in drawn}) > 1 or sharpest ** len(drawn) > ERROR_PROBABILITY
        ensure(follows, "the items are the same whatever context.draws is; draw from context.draws alone")
        seeds = {seed for seed in (0, getattr(subject.given, "seed", 0)) if isinstance(seed, int)}
        counts = Counter(item for item in firsts if item is not None)
        values = [value for value, times in counts.items() if times > 16]  # fewer cannot be too far out
        places, rounds = np.arange(subject.block + 1), context.round + np.arange(len(firsts)) % 2
        share = ERROR_PROBABILITY / (4 * len(places) * max(len(counts), 1))
        for seed, draw in product(seeds, (0, 1)):
            keys = [stream_key(seed, context.task.id, number // 2, "rule") for number in range(len(firsts))]
            rule = 2 * uniforms(np.asarray(keys), rounds, places, draw) - 1
            for value in values:
                coinciding = rule[np.asarray([item == value for item in firsts])]
                far = any(strays(total, len(coinciding) / 3, share) for total in coinciding.sum(axis=0))
                problem = f"item {value} comes with certain numbers of the rule's stream"
                ensure(not far, f"{problem}; draw from context.draws, never from a stream of role 'rule'")
    exercised(any(len(proposal.items) for proposal in _proposals(subject)), NO_ITEMS["generator"])
