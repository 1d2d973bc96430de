"""The enumeration passes every exact rule and fails each one that was broken on purpose."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from draftverify import Decision, inverse_cdf
from draftverify.kit.audit import enumerate_rule
from draftverify.kit.unknowns import NotEnumerable, Stream, explore
from draftverify.rules import (
    BlockVerification,
    Cascade,
    Ensemble,
    GreedyMatch,
    KSeq,
    Lenience,
    Lossy,
    Speculative,
    TokenMatch,
    Tree,
)

from . import broken

EVERY_SHAPE = ("alternatives", "chain", "tree")


def audit(rule, *, laws=None, shapes=None, most=2, stop_at_first=True, **how):
    """The rule for all that it takes."""
    return enumerate_rule(
        rule,
        laws=rule.traits.laws if laws is None else laws,
        shapes=(rule.traits.shapes or EVERY_SHAPE) if shapes is None else shapes,
        most=most,
        stop_at_first=stop_at_first,
        **how,
    )


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        (Speculative(), 1),
        (KSeq(), 1),
        pytest.param(BlockVerification(), 2, marks=pytest.mark.exhaustive),  # a block of one is Speculative's
        # These three play the same template of Speculative.
        pytest.param(Lenience(1.0), 1, marks=pytest.mark.exhaustive),
        pytest.param(Lossy(0.0), 1, marks=pytest.mark.exhaustive),
        pytest.param(Ensemble(1.0), 1, marks=pytest.mark.exhaustive),
        pytest.param(Speculative(), 2, marks=pytest.mark.exhaustive),
        pytest.param(Speculative(), 3, marks=pytest.mark.exhaustive),
        pytest.param(BlockVerification(), 3, marks=pytest.mark.exhaustive),
        pytest.param(Lenience(1.0), 2, marks=pytest.mark.exhaustive),
        pytest.param(Lossy(0.0), 2, marks=pytest.mark.exhaustive),
        pytest.param(Ensemble(1.0), 2, marks=pytest.mark.exhaustive),
        pytest.param(KSeq(), 3, marks=pytest.mark.exhaustive),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "traits") else str(part),
)
def test_an_exact_rule_passes(rule, most):
    """Every law, shape and block size, to the rounding of doubles."""
    found = audit(rule, most=most)
    assert found.failures == ()
    assert found.worst < 1e-12
    assert found.blocks == tuple(range(most + 1))
    assert found.cases > 5
    assert found.paths > 1000


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("rule", [Tree(), TokenMatch()], ids=lambda rule: type(rule).__name__)
def test_an_exact_rule_of_many_laws_passes(rule):
    """Its cases are more."""
    assert audit(rule, most=3).failures == ()


@pytest.mark.parametrize(
    ("rule", "law"),
    [
        (Tree(), "without_replacement"),
        pytest.param(TokenMatch(), "without_replacement", marks=pytest.mark.exhaustive),
        pytest.param(KSeq(), "iid", marks=pytest.mark.exhaustive),  # above it has blocks of one
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "traits") else part,
)
def test_an_exact_rule_of_many_cases_passes_the_quick_ones(rule, law):
    """One law at a time is what an audit of a pipeline needs."""
    assert audit(rule, laws=[law], shapes=sorted(rule.traits.shapes)[-1:]).failures == ()


def test_greedy_match_is_exact_at_temperature_0_alone():
    """Where the target's rows have one item each."""
    assert audit(GreedyMatch(), most=8, greedy=True).failures == ()
    assert audit(GreedyMatch()).failures


def test_a_long_block_is_enumerated_at_its_full_length():
    """With three free places: its start, its middle and its end."""
    found = audit(Speculative(), laws=["iid"], most=12)
    assert found.blocks == (0, 1, 2, 3, 12)
    assert found.failures == ()


@pytest.mark.parametrize(
    "rule",
    [Lenience(0.5), Lossy(0.3), Ensemble(0.6), Cascade("token_v2", 0.2), Cascade("opt", 0.4)],
    ids=lambda rule: type(rule).__name__,
)
def test_a_lossy_rule_is_not_the_target(rule):
    """It would fail, if it claimed anything."""
    assert not rule.traits.exact
    assert audit(rule, most=1).worst > 1e-3


def swept(*kinds):
    """Breaks that other rules show too."""
    return [pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in kinds]


CHAIN_BREAKS = [broken.ShiftedRows, broken.StaleBonus, broken.NoResidual, broken.TailKept]
SAMPLING_BREAKS = [broken.OneUniform, broken.DraftersStream, broken.ResidualFromP]
BROKEN = [
    *((kind, Speculative()) for kind in (*CHAIN_BREAKS, *SAMPLING_BREAKS, broken.BonusFromQ, broken.OtherQ)),
    (broken.NoResidual, BlockVerification()),
    (broken.StaleBonus, TokenMatch()),
    (broken.ShiftedRows, Tree()),
    (broken.DraftersStream, KSeq()),
    *swept(
        *(
            (kind, BlockVerification())
            for kind in (*CHAIN_BREAKS, *SAMPLING_BREAKS, broken.BonusFromQ, broken.OtherQ)
            if kind is not broken.NoResidual
        ),
        *(
            (kind, TokenMatch())
            for kind in (*CHAIN_BREAKS, *SAMPLING_BREAKS)
            if kind is not broken.StaleBonus
        ),
        *((kind, Lenience(1.0)) for kind in (broken.ShiftedRows, broken.OtherQ)),
        *((kind, Lossy(0.0)) for kind in (broken.OtherQ, broken.NoResidual)),
        *((kind, Ensemble(1.0)) for kind in (broken.TailKept, broken.ResidualFromP)),
        *(
            (kind, Tree())
            for kind in (broken.NoResidual, broken.OneUniform, broken.DraftersStream, broken.ResidualFromP)
        ),
        *(
            (kind, KSeq())
            for kind in (
                broken.ShiftedRows,
                broken.OneUniform,
                broken.ResidualFromP,
                broken.OtherQ,
                broken.NoResidual,
            )
        ),
    ),
]


@pytest.mark.parametrize(
    ("kind", "rule"), BROKEN, ids=lambda part: getattr(part, "__name__", type(part).__name__)
)
def test_a_broken_rule_fails(kind, rule):
    """By far more than the tolerance, or because it breaks its contract."""
    shapes = [shape for shape in rule.traits.shapes if shape != "alternatives"]
    laws = {"iid"} & rule.traits.laws or rule.traits.laws
    found = audit(kind(rule), laws=laws, shapes=shapes)
    assert found.failures
    assert found.worst > 1e-3 or "Error" in found.failures[0]


@pytest.mark.parametrize(
    "place", [5, *(pytest.param(place, marks=pytest.mark.exhaustive) for place in (3, 6))]
)
def test_a_rule_that_is_broken_at_one_place_of_a_long_block_fails(place):
    """Every place of a block has rows that are drawn, in some case."""
    kind = broken.ResidualFromPAt(Speculative(), place)
    assert audit(kind, laws=["iid"], shapes=["chain"], most=8).failures


@pytest.mark.parametrize("law", ["without_replacement"])
@pytest.mark.parametrize("kind", [broken.OtherQ, broken.StaleBonus])
def test_a_broken_tree_rule_fails(kind, law):
    """Also in what only trees of drawn siblings show."""
    assert audit(kind(Tree()), laws=[law], shapes=["tree"]).failures


@pytest.mark.parametrize(
    "kind", [broken.ShiftedRows, broken.TailKept, broken.NoResidual], ids=lambda kind: kind.__name__
)
def test_a_broken_greedy_match_fails(kind):
    """Off by one, with the tail, or without the splice."""
    assert audit(kind(GreedyMatch()), most=3, greedy=True).failures


def test_other_numbers_for_the_draws_are_no_fault():
    """Only what is emitted counts."""
    assert audit(broken.OtherPositions(Speculative()), laws=["iid"], most=1).failures == ()


class PastTheEnd:
    """A stopping rule that looks at the last new value alone."""

    def __call__(self, context, new):
        return len(new) if new[-1] in context.task.input["eos_ids"] else None


class AtTheEnd:
    """The right one."""

    def __call__(self, context, new):
        return next((i + 1 for i, item in enumerate(new) if item in context.task.input["eos_ids"]), None)


def test_a_stopping_rule_that_does_not_cut_inside_the_block_fails():
    """An answer that goes on past its end token is not the target's."""
    assert audit(Speculative(), laws=["iid"], done=AtTheEnd()).failures == ()
    assert audit(Speculative(), laws=["iid"], done=PastTheEnd()).failures


def test_a_rule_that_remembers_across_rounds_fails():
    """Whole sessions are enumerated too: what a part keeps in its scratch is not lost between rounds."""

    class Remembers(broken.Broken):
        def decide(self, context, proposal, verification, rng):
            made = self.rule.decide(context, proposal, verification, rng)
            first = context.scratch.setdefault("first", made.spliced)
            return msgspec.structs.replace(made, spliced=first)

    assert audit(Remembers(Speculative()), laws=["iid"], most=1).failures


def test_numbers_that_cannot_be_followed_are_refused_and_not_passed():
    """A float of an unknown would be a guess."""

    class Floats(broken.Broken):
        def decide(self, context, proposal, verification, rng):
            return Decision(spliced=(int(float(rng.uniform()) * 3),))

    class Seeds(broken.Broken):
        def decide(self, context, proposal, verification, rng):
            np.random.default_rng(rng.seed())
            return Decision(spliced=(0,))

    for kind in (Floats, Seeds):
        with pytest.raises(NotEnumerable):
            audit(kind(Speculative()))


@pytest.mark.parametrize(
    ("test", "chance"),
    [
        (lambda u: u < 0.25, 0.25),
        (lambda u: np.float64(0.25) > u, 0.25),
        (lambda u: u >= 0.25, 0.75),
        (lambda u: 1 - u < 0.25, 0.25),
        (lambda u: 2 * u - 1 < 0, 0.5),
        (lambda u: -u / 2 > -0.1, 0.2),
        (lambda u: u * 0 < 0.1, 1.0),
        (lambda u: u < float("nan"), 0.0),
        (lambda u: u < 0.5 and u < 0.2, 0.2),
        (lambda u: bool((np.asarray([0.1, 0.4]) <= u)[1]), 0.6),
    ],
)
def test_an_unknown_is_uniform(test, chance):
    """Scaled, shifted, turned round, compared from either side and in arrays."""
    found = {True: 0.0, False: 0.0}
    for answer, probability in explore(lambda path: bool(test(Stream(path, "one").uniform()))):
        found[answer] += probability
    assert found[True] == pytest.approx(chance, abs=1e-15)
    assert found[False] == pytest.approx(1 - chance, abs=1e-15)


def test_streams_of_one_name_share_their_numbers():
    """And others do not: so a shared stream is seen, and two roles are independent."""

    def both(one, two):
        return lambda path: Stream(path, one).uniform(3) < 0.5 and Stream(path, two).uniform(3) < 0.5

    assert sum(p for yes, p in explore(both("a", "a")) if yes) == pytest.approx(0.5)
    assert sum(p for yes, p in explore(both("a", "b")) if yes) == pytest.approx(0.25)


def test_a_rule_that_inverts_a_row_with_one_number_is_followed():
    """The public `inverse_cdf` with a single uniform, as a plugin's rule would call it."""

    class FromTarget(TokenMatch):
        def decide(self, context, proposal, verification, rng):
            token = int(inverse_cdf(np.asarray(verification.evidence.target[0]), rng.uniform(0, 1)))
            return Decision(spliced=(token,))

    found = audit(FromTarget(), laws=["given"], shapes=["chain"])
    assert found.failures == ()
    assert found.worst < 1e-12
