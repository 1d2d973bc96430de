"""The rule and the generator at recorded prefixes: exact pairs pass, broken rules and lying generators are found.

Error probability of the passing audits: 1e-6 each by the audit's own limit; all draws are counter-based and fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from draftverify import Pipeline, PipelineError, Task, Verification, fallback
from draftverify.kit import DraftFrom, TableModel, TargetFrom
from draftverify.kit.audit import lossless
from draftverify.kit.audit.draws import draw_tests
from draftverify.kit.audit.recorded import record
from draftverify.kit.audit.report import PipelineReport
from draftverify.kit.counts import CellCounts, count, detectable, limit, pooled, strays, verdicts
from draftverify.rules import (
    BlockVerification,
    GreedyMatch,
    KSeq,
    Lenience,
    Limit,
    Speculative,
    TokenMatch,
    Tree,
)

from . import broken

TASKS = [{"prompt_ids": [i]} for i in range(4)]
TARGET = TableModel(40, seed=28, order=2, sharpness=1.5)
DRAFT = TableModel(40, seed=97, order=2, sharpness=1.5)


def pipeline(rule, *, law="iid", shape="chain", block=3, draft=DraftFrom, target=None, **how):
    return Pipeline(
        draft(DRAFT, shape=shape, law=law),
        target or TargetFrom(TARGET),
        rule,
        block=block,
        done=Limit(24),
        **how,
    )


def audit(rule, *, prefixes=6, copies=1024, redraws=32, **parts):
    return lossless(
        pipeline(rule, **parts),
        TASKS,
        prefixes=prefixes,
        copies=copies,
        redraws=redraws,
        enumerate_all=False,
    )


PAIRS = [
    (Speculative(), "iid", "chain", 3),
    (Speculative(), "given", "chain", 3),
    (BlockVerification(), "iid", "chain", 3),
    (TokenMatch(), "iid", "chain", 2),
    (Tree(), "without_replacement", "tree", 4),
    (Tree(), "given", "alternatives", 3),
    (KSeq(), "iid", "tree", 4),
]


@pytest.mark.usefixtures("short_enumerations")
@pytest.mark.parametrize(
    ("prefixes", "copies", "seen"),
    [(3, 256, 0.5), pytest.param(6, 1024, 0.25, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize(("rule", "law", "shape", "block"), PAIRS)
def test_an_exact_pipeline_passes(rule, law, shape, block, prefixes, copies, seen):
    """And says what it looked at and what it would have seen."""
    found = audit(rule, law=law, shape=shape, block=block, prefixes=prefixes, copies=copies)
    assert found.exact
    assert found.passed, found.found
    draws = found.draws
    assert draws.prefixes == draws.drafted == prefixes
    assert draws.redrawn == (0 if law == "given" else prefixes * 32)
    assert 0 < draws.detects_together < draws.detects < seen
    assert draws.farthest < draws.detects
    assert draws.rows_apart == 0


MORE = {
    broken.BonusFromQ: 512,
    broken.OtherQ: 1024,
    broken.ResidualFromP: 1024,
    broken.OneUniform: 2048,
}
"""Copies with which a break is seen at three prefixes, where 256 are too few."""


@pytest.mark.usefixtures("short_enumerations")  # test_enumeration.py has all of these on tiny models
@pytest.mark.parametrize(
    "kind",
    [
        broken.ShiftedRows,
        broken.StaleBonus,
        broken.BonusFromQ,
        broken.OtherQ,
        broken.NoResidual,
        broken.ResidualFromP,
        broken.TailKept,
        broken.OneUniform,
        broken.DraftersStream,
    ],
    ids=lambda kind: kind.__name__,
)
def test_a_broken_rule_is_found_by_its_draws_too(kind):
    """Not only on tiny models."""
    # The bonus is reached when all was kept, so a block of one shows it most.
    block = 1 if kind in (broken.StaleBonus, broken.BonusFromQ) else 3
    copies = MORE.get(kind, 256)
    found = audit(kind(Speculative()), copies=copies, prefixes=3, block=block)
    assert not found.passed
    assert found.draws.failures


@pytest.mark.usefixtures("short_enumerations")
@pytest.mark.parametrize(
    "kind",
    [
        broken.OneUniform,
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in (broken.ShiftedRows, broken.OtherQ)),
    ],
)
def test_a_broken_tree_rule_is_found_by_its_draws_too(kind):
    """With siblings of the declared law."""
    found = audit(kind(KSeq()), shape="alternatives", copies=512)
    assert found.draws.failures


@pytest.mark.usefixtures("short_enumerations")
@pytest.mark.parametrize(
    ("draft", "law", "shape", "said"),
    [
        (broken.Tempered, "iid", "chain", "by their rank in q"),
        (broken.Cached, "iid", "chain", "the generator's first item against its q"),
        (broken.OneNumber, "iid", "chain", "items and those before them together"),
        (broken.Misnamed, "without_replacement", "alternatives", "two siblings are equal"),
        (broken.Misnamed, "iid", "alternatives", "gives nothing"),
    ],
)
def test_a_generator_that_does_not_draw_from_its_q_is_found(draft, law, shape, said):
    """The rule is right, so only the generator's own fresh drafts can tell."""
    named = {"Misnamed": {"iid": "without_replacement", "without_replacement": "iid"}}
    declared = named.get(draft.__name__, {}).get(law, law)
    rule = Tree() if declared == "without_replacement" else KSeq()
    found = audit(rule, law=law, shape=shape, draft=draft, redraws=200, block=2, copies=128)
    assert found.enumeration.failures == ()
    assert any(said in failure for failure in found.draws.failures), found.draws.failures
    assert not found.passed


@pytest.mark.parametrize("law", ["without_replacement", "iid"])
def test_items_that_could_be_no_other_are_no_evidence_against_a_generator(law):
    """Of two items the second sibling is certain at every prefix: its ranks are as independent as any others.

    At an error of 1e-3 a sound generator fails with at most that probability.
    """
    two = Pipeline(
        DraftFrom(TableModel(2, seed=1), shape="tree", law=law),
        TargetFrom(TableModel(2, seed=2)),
        Tree() if law == "without_replacement" else KSeq(),
        block=6,
        done=Limit(40),
    )
    recorded = record(
        two, [Task(id=str(at), input=task) for at, task in enumerate(TASKS)], 20, 16, rows=False
    )
    found = draw_tests(two.rule, recorded, copies=100, error=1e-3, judge_rule=False)
    assert found.failures == ()


@pytest.mark.usefixtures("short_enumerations")
def test_a_generator_that_reports_certainty_is_no_fault():
    """q one-hot on what it drew is how a given item is judged: fewer are kept, and what is emitted is p's."""
    found = audit(Speculative(), draft=broken.OneHotQ, redraws=64)
    assert found.passed, found.found


def drawn(rule, *, prefixes=6, copies=256, redraws=64, judge_rule=True, **parts):
    """Part two alone."""
    pipe = pipeline(rule, **parts)
    tasks = [Task(id=str(at), input=task) for at, task in enumerate(TASKS)]
    recorded = record(pipe, tasks, prefixes, redraws, rows=True)
    return draw_tests(rule, recorded, copies=copies, error=1e-6, judge_rule=judge_rule)


@pytest.mark.parametrize("rule", [Speculative(), pytest.param(TokenMatch(), marks=pytest.mark.exhaustive)])
def test_a_rule_that_uses_its_numbers_again_each_round_is_found(rule):
    """Each round by itself is exact; two rounds of a task are not independent."""
    (failure,) = drawn(broken.SeedsWithTheKey(rule), copies=1024, block=1, prefixes=3).failures
    assert "the first values of two rounds of a task together" in failure


def test_a_generator_that_uses_its_numbers_again_each_round_is_found():
    """Its items are drawn from its q in every round, and are not independent of the round before."""
    (failure,) = drawn(Speculative(), draft=broken.SameEachRound, judge_rule=False).failures
    assert "the generator's items and those at the same place in the next round together" in failure


def test_a_generator_at_another_temperature_than_it_says_is_found():
    """At .9 in place of 1, which is .04 away and less than the counts of cells see: its items are too likely."""
    found = drawn(Speculative(), draft=broken.SlightlyTempered, redraws=400, judge_rule=False)
    (failure,) = found.failures
    assert "drawn at another temperature than is declared" in failure
    assert found.detects_generator > 0.05
    assert drawn(Speculative(), redraws=400, judge_rule=False).failures == ()


class SlightlyTemperedBlocks(TargetFrom):
    """Verifies blocks at temperature .9 and takes plain steps at 1; `bits` is the dtype of its rows."""

    bits = np.float32
    traits = replace(TargetFrom.traits, deterministic=True)

    def verify(self, context, proposal):
        made = TargetFrom(self.model, temperature=0.9 if len(proposal) else 1.0).verify(context, proposal)
        evidence = msgspec.structs.replace(made.evidence, target=made.evidence.target.astype(self.bits))
        return Verification(evidence=evidence, deterministic=self.traits.deterministic)


class HalfPrecision(SlightlyTemperedBlocks):
    """The same of a verifier that says that its rows may round otherwise another time."""

    traits = replace(SlightlyTemperedBlocks.traits, deterministic=False)


def test_a_verifier_at_another_temperature_inside_blocks_is_found():
    """Rows of 32 bits may differ by a thousandth at most."""
    found = drawn(Speculative(), target=SlightlyTemperedBlocks(TARGET))
    assert found.rows_bound == 0.001
    assert any("and rounding 0.001; the verifier gives other rows" in each for each in found.failures)


def test_what_half_precision_hides_is_said():
    """Such rows may differ by a tenth: less is not seen, and the report says so."""
    found = drawn(Speculative(), target=HalfPrecision(TARGET))
    assert found.failures == ()
    assert 0.01 < found.rows_apart < found.rows_bound == 0.1
    said = PipelineReport(pipeline="", rule="", exact=True, draws=found).tested
    assert "the verifier's rows of blocks, to TV 0.1 from plain steps" in said


def test_more_redraws_see_less_of_a_difference():
    """The report states it of the generator as of the rule; nothing is stated where nothing was drawn."""
    few, many = (drawn(Speculative(), redraws=redraws, judge_rule=False) for redraws in (16, 128))
    assert 0 < many.detects_generator < few.detects_generator / 2
    assert drawn(Speculative(), law="given", judge_rule=False).detects_generator is None


@pytest.mark.usefixtures("short_enumerations")
def test_lossless_is_said_of_what_was_tested():
    """Without tasks the rule alone was; without distributions nothing was."""
    whole, alone = audit(Speculative()), lossless(pipeline(Speculative()), enumerate_all=False)
    assert (whole.verdict, whole.untested) == ("lossless as far as tested", ())
    assert [words.split(",")[0] for words in whole.tested[1:]] == [
        "the rule in 1024 rounds at each of 6 prefixes",
        "192 proposals of the generator",
        "the verifier's rows of blocks",
    ]
    assert alone.verdict == "nothing found in what was tested"
    assert "the generator and blocks" in alone.untested
    assert alone.tested[0].startswith("the rule on ")
    assert PipelineReport(pipeline="", rule="", exact=True).verdict == "not tested"


def test_a_sum_of_dependent_terms_strays_no_more_often_than_it_may():
    """2,000 sound sums whose variances depend on what came, at an error of 1e-2 each: at most 20 by the bound; 50 has a
    chance below 1e-8."""
    rng = np.random.default_rng(11)
    totals, variances = np.zeros(2000), np.zeros(2000)
    for _ in range(300):
        p = np.where(totals > 0, 0.5, 0.02)  # it throws larger coins where it is ahead
        totals += (rng.random(2000) < p) - p
        variances += p * (1 - p)
    assert sum(strays(*each, 1e-2) for each in zip(totals, variances, strict=True)) <= 50
    assert strays(60.0, 100.0, 1e-3)


class RowsOfBlocks(TargetFrom):
    """Gives blocks the rows of a context one value shorter: a cache that is not rolled back."""

    def verify(self, context, proposal):
        made = super().verify(context, proposal)
        if len(proposal) and len(context.accepted):
            made.evidence.target[0] = self.model(tuple(context.accepted)[:-1])
        return made


@pytest.mark.usefixtures("short_enumerations")
def test_a_verifier_whose_rows_depend_on_the_block_is_found():
    """A row of a block must be the row of a plain step."""
    found = audit(Speculative(), target=RowsOfBlocks(TARGET))
    assert found.enumeration.failures == ()
    assert found.draws.rows_apart > 0.1
    assert any("plain step" in failure for failure in found.draws.failures)


class OneRowOfATree(TargetFrom):
    """Gives the second root's children the rows of the first one's: a tree mask that is wrong for one node."""

    def verify(self, context, proposal):
        made = super().verify(context, proposal)
        if len(proposal) > 3:
            made.evidence.target[2] = made.evidence.target[1]
        return made


@pytest.mark.usefixtures("short_enumerations")
def test_a_verifier_that_is_wrong_at_one_node_of_a_tree_is_found():
    """Neither the first row of a block nor its last one."""
    found = audit(
        Tree(), law="without_replacement", shape="tree", block=5, target=OneRowOfATree(TARGET), copies=256
    )
    assert any("plain step" in failure for failure in found.draws.failures)


def test_a_lossy_rule_is_reported_with_its_drift_and_passes():
    """It claims nothing; the drift is the mean of the outcomes'."""
    found = audit(Lenience(0.5, measure_drift=True))
    pipe = pipeline(Lenience(0.5, measure_drift=True))
    drifts = [pipe.run(Task(id=str(at), input=task)).drift for at, task in enumerate(TASKS)]
    assert not found.exact
    assert found.passed
    assert found.enumeration is None
    assert found.draws.detects is None
    assert found.drift == pytest.approx(np.mean(drifts))
    assert found.drift > 0
    assert audit(Lenience(0.5)).drift is None


@pytest.mark.usefixtures("short_enumerations")
def test_greedy_match_claims_to_be_exact_at_temperature_0():
    """And is audited there."""
    target = TargetFrom(TARGET, temperature=0)
    target.reads = {"temperature"}
    found = lossless(
        pipeline(GreedyMatch(), target=target, settings={"temperature": 0}), TASKS, prefixes=4, copies=512
    )
    assert found.exact
    assert found.passed, found.found
    assert found.text.same == found.text.tasks == 4
    assert not lossless(pipeline(GreedyMatch())).exact


@pytest.mark.usefixtures("short_enumerations")
def test_without_tasks_the_rule_is_enumerated_alone():
    """And the report says so."""
    found = lossless(pipeline(Speculative()))
    assert found.passed
    assert found.draws is None
    assert "no tasks: nothing was recorded" in found.notes


def test_an_unverified_fallback_cannot_break_the_claim():
    """What it drafts would be accepted as it is: beside a rule that needs rows no pipeline can be made with it."""
    policy = fallback(DraftFrom(DRAFT), verified=False)
    with pytest.raises(
        PipelineError, match="a fallback that is not verified passes items and measures nothing"
    ):
        pipeline(Speculative(), policy=policy)


def test_the_limit_holds_at_every_n():
    """1,000 sound counts at an error of 1e-3 each by the bound: at most 12 may exceed it (chance below 1e-8)."""
    rng = np.random.default_rng(5)
    p = np.asarray([0.5, 0.3, 0.1, 0.06, 0.04])
    for n in (10, 100, 4096):
        t = limit(4, 1e-3)
        exceeded = sum(
            CellCounts("", observed, p).statistic >= t for observed in rng.multinomial(n, p, size=1000)
        )
        assert exceeded <= 12


def test_what_is_detectable_is_detected():
    """A deviation of just the stated TV is seen in at least 9 of 10 (of 200; fewer than 165 has chance below 1e-3)."""
    rng = np.random.default_rng(6)
    p = np.full(10, 0.1)
    delta = detectable(4096, 9, 1e-8)
    shifted = p + np.where(np.arange(10) < 5, delta / 5, -delta / 5)
    counts = [CellCounts("", observed, p) for observed in rng.multinomial(4096, shifted, size=200)]
    assert sum(each.statistic >= limit(9, 1e-8) for each in counts) >= 165
    assert 0.05 < delta < 0.15


def test_an_impossible_value_fails_at_once():
    """Once is enough."""
    p = np.asarray([0.5, 0.5, 0.0])
    cells = pooled(p, 1000)
    good, bad = count("good", [0, 1] * 500, p, cells), count("bad", [0, 1] * 500 + [2], p, cells)
    assert verdicts([good], 1e-9) == []
    assert math.isinf(bad.statistic)
    assert "impossible" in verdicts([bad], 1e-9)[0]


def test_cells_expect_five_counts_each():
    """Whatever the distribution; the halves tell where p exceeds q."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        p = rng.dirichlet(np.full(300, rng.choice([0.01, 0.1, 1.0])))
        cells = pooled(p, 1000, rng.random(300) < 0.5)
        expected = np.bincount(cells, weights=p * 1000)
        assert np.all(expected[expected > 0] >= 5)
        assert len(expected) <= 11
