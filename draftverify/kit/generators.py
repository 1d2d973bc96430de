"""The checks for generators: what a proposal must be, and that its items really come from the law that it declares."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import msgspec
import numpy as np

from draftverify.engine.boundary import canonical, plain_problem
from draftverify.kit.assertions import ERROR_PROBABILITY, deviates, ensure, exercised
from draftverify.kit.contexts import as_numpy
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


class _Sums:
    """Sums of (what was drawn − what the law expects), and of their variances: one per value, then three more."""

    def __init__(self, vocabulary: int) -> None:
        self.total = np.zeros(vocabulary + 3)
        self.variance = np.zeros(vocabulary + 3)

    def add(self, row: Any, item: int, previous: tuple[int, float] | None, sibling: bool) -> None:
        """Count one draw: which value came, and three ways in which a wrong law shows."""
        V, places = len(row), np.arange(len(row))
        self.total[:V] += (places == item) - row
        self.variance[:V] += row * (1 - row)
        functions = [(row, 1.0)]  # another temperature shows in the mean of q(x)
        if previous is not None:
            # A uniform used twice: the places of neighbours in their rows agree.
            functions.append((np.cumsum(row) - row / 2, 2 * previous[1] - 1))
            functions.append((places == previous[0], float(sibling)))  # siblings that avoid each other
        for number, (function, weight) in enumerate(functions, start=V):
            mean = row @ function
            self.total[number] += weight * (function[item] - mean)
            self.variance[number] += weight**2 * max(row @ np.square(function) - mean**2, 0.0)

    def worst(self, tests: int) -> str:
        """The sums that are too far from their expectation, in words; empty when none is."""
        far, V = np.flatnonzero(deviates(self.total, self.variance, tests)), len(self.total) - 3
        if not len(far):
            return ""
        deviations = [f"value {far[0]} came {self.total[far[0]]:+.0f} times against q's expectation"]
        deviations = [] if far[0] >= V else deviations
        dependent = ["neighbours depend on each other", "siblings repeat too often or seldom"]
        deviations += [text for place, text in enumerate(dependent, start=V + 1) if place in far]
        return " and ".join(deviations or ["q(item) is not what q expects"])


class _NextRound:
    """Sums that are far from 0 where a round's items depend on those of the round before, whatever their places."""

    def __init__(self, block: int) -> None:
        self.total = np.zeros((2, block, block))
        self.variance = np.zeros((2, block, block))

    def add(self, earlier: list[tuple[Any, int]], later: list[tuple[Any, int]]) -> None:
        """Count two rounds of one task, each as rows and the items drawn from them."""
        quantiles = np.asarray([2 * _quantile(row, item) - 1 for row, item in earlier])
        items = np.asarray([item for _, item in earlier], dtype=np.int64)
        n = len(earlier)
        for place, (row, item) in enumerate(later if n else ()):
            function = np.cumsum(row) - row / 2
            mean = row @ function
            self.total[0, :n, place] += quantiles * (function[item] - mean)
            self.variance[0, :n, place] += quantiles**2 * max(row @ np.square(function) - mean**2, 0.0)
            match_chance = np.where(items < len(row), row[np.minimum(items, len(row) - 1)], 0.0)
            self.total[1, :n, place] += (items == item) - match_chance
            self.variance[1, :n, place] += match_chance * (1 - match_chance)


def _quantile(row: Any, item: int) -> float:
    return float(np.cumsum(row)[item] - row[item] / 2)


class _Sample:
    """The proposals of many re-runs of one task, which differ in their draws and in nothing else.

    Args:
        subject: the generator.
        context: of the calls.
        two_rounds: whether each re-run has a second round, after one in which nothing was accepted.
    """

    def __init__(self, subject: Subject, context: Context, two_rounds: bool) -> None:
        self.context = context
        self.firsts: list[str | None] = []
        self.sums: dict[int, _Sums] = {}
        self.next_round = _NextRound(subject.block)
        self.twice = ""
        self.sharpest = 0.0
        for attempt in range(subject.trials):
            # Where nothing is drawn there is nothing to count: sixteen equal answers are enough to see that.
            if self.firsts[15:16] and not self.sums and len(set(self.firsts)) == 1:
                break
            proposal = _drawn(subject, context, attempt)
            self.firsts.append(repr(proposal.items[0]) if len(proposal.items) else None)
            if proposal.law.q is None:
                continue
            drawn = self._rows(proposal)
            self._count(proposal, drawn)
            following = _drawn(subject, context, attempt, later=1) if two_rounds else proposal
            if two_rounds and following.law.q is not None:
                self.next_round.add(drawn, self._rows(following))

    def _rows(self, proposal: Proposal) -> list[tuple[Any, int]]:
        """Each item, with the row that the law says it was drawn from."""
        q, items = as_numpy(proposal.law.q).astype(np.float64), [int(item) for item in proposal.items]
        drawn_rows = []
        for index, item in enumerate(items):
            parent = proposal.parents[index]
            row = np.array(q[parent + 1])
            if proposal.law.kind == "without_replacement":
                row[[items[i] for i in range(index) if proposal.parents[i] == parent]] = 0.0
            row /= max(row.sum(), 1e-300)
            if not row[item] > 0:
                self.twice = f"{item} was drawn again among its siblings"
            drawn_rows.append((row, item))
        return drawn_rows

    def _count(self, proposal: Proposal, drawn: list[tuple[Any, int]]) -> None:
        previous: tuple[int, float] | None = None
        for index, (row, item) in enumerate(drawn):
            sibling = index > 0 and proposal.parents[index - 1] == proposal.parents[index]
            self.sums.setdefault(index, _Sums(len(row))).add(row, item, previous, sibling)
            previous = item, _quantile(row, item)
            self.sharpest = max(self.sharpest, float(row.max())) if index == 0 else self.sharpest


def _drawn(subject: Subject, context: Context, stream: int, later: int = 0) -> Proposal:
    call = subject.drawn((msgspec.structs.replace(context, attempt=stream), subject.block), stream, later)
    proposal: Proposal = subject.answer(call)
    return proposal


def _samples(subject: Subject) -> list[_Sample]:
    if "samples" not in subject.notes:
        subject.notes["samples"] = [
            _Sample(subject, context, two_rounds=not number)
            for number, context in enumerate(subject.contexts[:2])
        ]
    samples: list[_Sample] = subject.notes["samples"]
    return samples


@check(
    "generator",
    after=["items_are_possible_under_q"],
    when=lambda s: s.traits.laws != {"given"},
)
def law_is_honest(subject: Subject) -> None:
    """Over many draws, items come as often, and as independently, as the declared law and q say."""
    for sample in _samples(subject):
        tests = 2 * sum(len(sums.total) for sums in sample.sums.values())
        for index, sums in sample.sums.items():
            deviation = sample.twice or sums.worst(tests)
            problem = (
                f"item {index} is not drawn by the declared law: over {len(sample.firsts)} draws {deviation}"
            )
            ensure(
                not deviation,
                f"{problem}; declare what it was really drawn from, after temperature and cuts, or 'given'",
            )
    _exercised_law(subject)


@check(
    "generator",
    after=["law_is_honest", "draws_anew_each_round"],
    when=lambda s: s.traits.laws != {"given"},
)
def rounds_are_independent(subject: Subject) -> None:
    """Over many draws, the items of a round do not depend on what was drawn in the round before."""
    sums = _samples(subject)[0].next_round
    far = deviates(sums.total, sums.variance, sums.total.size)
    which, earlier_place, place = (int(axis[0]) for axis in np.nonzero(far)) if np.any(far) else (0, 0, 0)
    relation = ("go up and down with", "are too often, or too seldom, equal to")[which]
    problem = f"items {place} of a round {relation} items {earlier_place} of the round before"
    hint = "use draws.uniform() or draws.seed(), which know the round, and no number of it in two rounds"
    ensure(not np.any(far), f"{problem}: random numbers of one round are used again in the next; {hint}")
    _exercised_law(subject)


@check("generator", after=["answers_can_be_read", *_SOUND, "law_is_honest"])
def draft_stream_is_its_own(subject: Subject) -> None:
    """Drawn items follow context.draws, and no item depends on the draws that the rule will use."""
    for sample in _samples(subject):
        context, positions = sample.context, np.arange(subject.block + 1)
        if sample.sums and sample.sharpest**64 < ERROR_PROBABILITY:
            drafts = {repr(list(_drawn(subject, context, stream).items)) for stream in range(64)}
            ensure(
                len(drafts) > 1,
                "the items are the same whatever context.draws is; draw from context.draws alone",
            )
        seeds = {seed for seed in (0, getattr(subject.given, "seed", 0)) if isinstance(seed, int)}
        counts = Counter(item for item in sample.firsts if item is not None)
        values = [value for value, count in counts.items() if count > 16]  # fewer cannot be too far out
        for seed, draw in product(seeds, (0, 1)):
            keys = np.asarray(
                [stream_key(seed, context.task.id, i, "rule") for i in range(len(sample.firsts))]
            )
            rule = 2 * uniforms(keys, np.full(len(keys), context.round), positions, draw) - 1
            for value in values:
                coinciding = rule[np.asarray([item == value for item in sample.firsts])]
                far = deviates(coinciding.sum(axis=0), len(coinciding) / 3, 8 * len(positions) * len(counts))
                problem = f"item {value} comes with certain numbers of the rule's stream"
                ensure(
                    not np.any(far), f"{problem}; draw from context.draws, never from a stream of role 'rule'"
                )
    exercised(any(len(proposal.items) for proposal in _proposals(subject)), NO_ITEMS["generator"])
