"""The estimate of another rule's acceptance from recorded summaries, against enumeration and against runs."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from draftverify import Context, Evidence, Pipeline, Proposal, Verification
from draftverify.bench.runner.summarised import Summarised
from draftverify.errors import ConfigError
from draftverify.lab import expected_acceptance
from draftverify.randomness import inverse_cdf
from draftverify.rules import (
    BlockVerification,
    Cascade,
    Ensemble,
    GreedyMatch,
    Lenience,
    Lossy,
    Speculative,
    TokenMatch,
    Typical,
)
from draftverify.stats import acceptance_rate
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import Task, TaskRecord, iid

ROWS = np.random.default_rng(5).dirichlet([0.7] * 4, size=(2, 5))
P, Q = ROWS[0], ROWS[1]  # [token before, token], of the target and of the draft; the last row begins
N, TASKS = 3, 200


class Markov:
    """A draft and a target over four tokens, each a row of the token before."""

    traits = (GeneratorTraits(shape="chain", laws={"iid"}), VerifierTraits(provides={"target"}))

    def propose(self, context: Context, n: int) -> Proposal:
        last, items, rows = context.accepted[-1] if context.accepted else -1, [], []
        for place in range(n):
            rows.append(Q[last])
            last = int(inverse_cdf(Q[last], context.draws.uniform(place)))
            items.append(last)
        return Proposal.chain(tuple(items), iid(np.asarray(rows).reshape(n, 4)))

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        last = context.accepted[-1] if context.accepted else -1
        return Verification(evidence=Evidence(target=P[[last, *proposal.items]]))


@cache
def run(rule: Any, rounds: int = 1) -> list[TaskRecord]:
    """A run of a rule, whose summaries are kept."""
    model = Markov()
    made = Pipeline(
        model,
        model,
        Summarised(rule),
        block=N,
        done=lambda context, new: len(new) if context.rounds.length + 1 >= rounds else None,
        seed=3,
    )
    return [made.record(Task(id=f"{place}", input={})) for place in range(TASKS)]


SPECULATIVE = Speculative()
RULES = [
    (SPECULATIVE, lambda p, q, x: min(1, p[x] / q[x])),
    (Lenience(0.4), lambda p, q, x: min(1, p[x] / (0.4 * q[x]))),
    (Lossy(0.3), lambda p, q, x: min(1, p[x] / (0.7 * q[x]))),
    (Ensemble(0.5), lambda p, q, x: min(1, (p[x] + q[x]) / (2 * q[x]))),
    (TokenMatch(), lambda p, q, x: p[x]),
    (GreedyMatch(), lambda p, q, x: float(x == p.argmax())),
    (Typical(0.2), lambda p, q, x: float(p[x] > min(0.2, 0.2**0.5 * math.exp((p * np.log(p)).sum())))),
]


def exact(accepts: Any, n: int) -> float:
    """Kept tokens of a first block of n, over all drafts of it."""
    total = 0.0
    for draft in itertools.product(range(4), repeat=n):
        drawn, reached, last = 1.0, 1.0, -1
        kept = 0.0
        for x in draft:
            reached *= accepts(P[last], Q[last], x)
            drawn *= Q[last, x]
            kept, last = kept + reached, x
        total += drawn * kept
    return total


@pytest.mark.parametrize(("rule", "accepts"), RULES, ids=[type(rule).__name__ for rule, _ in RULES])
def test_the_first_block_s_acceptance_is_what_enumeration_says(rule: Any, accepts: Any) -> None:
    """Estimated from a run of speculative sampling for every block size, and counted in a run of the rule itself: both
    are the exact expectation, within 5 standard errors (one check in a million fails by chance; the seed is fixed)."""
    found = expected_acceptance(run(SPECULATIVE), rule.chance)
    assert [block.size for block in found] == [1, 2, 3]
    for block in found:
        wanted = exact(accepts, block.size)
        assert abs(block.would_keep.value - wanted) < 5 * (block.would_keep.high - block.would_keep.low) / 3.9
        assert block.blocks == TASKS
    counted = [len(record.rounds[0].decision.kept) for record in run(rule)]
    assert abs(np.mean(counted) - exact(accepts, N)) < 5 * np.std(counted) / math.sqrt(TASKS)


def test_what_ran_is_counted_and_its_own_rule_is_expected_the_same() -> None:
    """Over several rounds: the record's acceptance rate stands beside the estimate, which is the sharper of the two."""
    records = run(SPECULATIVE, 3)
    block = expected_acceptance(records, SPECULATIVE.chance)[-1]
    assert block.ran_rate == acceptance_rate(records)
    assert block.blocks == 3 * TASKS
    assert block.would_accept.value == pytest.approx(block.ran_rate.value, abs=0.05)
    wide, narrow = (each.high - each.low for each in (block.ran_kept, block.would_keep))
    assert narrow < wide


def test_smaller_blocks_are_the_first_tokens_and_longer_ones_are_refused() -> None:
    """Each size up to the recorded one has a line; what was never drafted is not made up."""
    records = run(SPECULATIVE)
    found = expected_acceptance(records, SPECULATIVE.chance)
    assert expected_acceptance(records, SPECULATIVE.chance, most=2) == found[:2]
    with pytest.raises(ConfigError, match="no block of 4 was recorded, the longest has 3"):
        expected_acceptance(records, SPECULATIVE.chance, most=4)


def test_what_a_summary_does_not_say_is_refused() -> None:
    """A cascade reads whole rows, and a run without summaries holds nothing; the message says what to do."""
    with pytest.raises(ConfigError, match="Cascade compares whole distributions"):
        expected_acceptance(run(SPECULATIVE), Cascade("token_v3", 0.2).chance)
    assert not hasattr(BlockVerification(), "chance")
    model = Markov()
    bare = Pipeline(model, model, Speculative(), block=N, done=lambda context, new: len(new))
    with pytest.raises(ConfigError, match=r"records: \{tokens: summary\}"):
        expected_acceptance([bare.record("x")], SPECULATIVE.chance)
