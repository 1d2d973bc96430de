"""The self-verification guard: which pipelines check themselves, which have an outside check behind them, how it is
said."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from draftverify import (
    Check,
    Evidence,
    Pipeline,
    Proposal,
    SelfVerificationWarning,
    Verification,
    fallback,
    generator,
    retry,
    verifier,
)
from draftverify.bench.runner.marks import marks_of as pipeline_marks
from draftverify.checks.verifiers import AllOf, AnyOf, Regex, check_families
from draftverify.kit import DraftFrom, TableModel, TargetFrom
from draftverify.lab import Calibrated
from draftverify.rules import Best, First, Speculative, Tournament
from draftverify.traits import GeneratorTraits, VerifierTraits


def drafts(family: str | None = None) -> Any:
    return generator(lambda context, n: ["4"], family=family)


def judge(family: str | None = None) -> Any:
    return verifier(lambda context, item: Check("pass", score=1.0), scores=True, family=family)


TESTS = Regex(r"\d+")


def marks_of(*parts: Any, **words: Any) -> tuple[str, ...]:
    """What a pipeline is marked for, and whether it warned of just that."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline = Pipeline(*parts, **words)
        check_families(pipeline)
    marks = pipeline_marks(pipeline, "audits")
    mine = tuple(mark for mark in marks if "checks itself" in mark)
    assert [warning.category for warning in caught] == [SelfVerificationWarning] * bool(mine)
    return mine


MARKED = ("checks itself (family tiny)",)


@pytest.mark.parametrize(
    ("judged", "marked"),
    [
        (judge("tiny"), True),
        (judge("other"), False),
        (judge(None), False),
        (AllOf([TESTS, judge("tiny")]), False),
        (AllOf([judge("tiny"), TESTS]), False),
        (AllOf([judge("tiny"), judge("other")]), True),
        (AllOf([judge("other")]), False),
        (AnyOf([TESTS, judge("tiny")]), True),
        (AnyOf([judge("other"), judge("tiny")]), True),
        (AllOf([TESTS, AnyOf([TESTS, judge("tiny")])]), False),
        (AllOf([judge("other"), AnyOf([TESTS, judge("tiny")])]), True),
        (AnyOf([AllOf([TESTS, judge("tiny")]), AllOf([judge("tiny"), TESTS])]), False),
        (AnyOf([AllOf([TESTS, judge("tiny")]), judge("other")]), True),
        (Calibrated(judge("tiny"), "scores.json"), True),
        (Calibrated(AllOf([TESTS, judge("tiny")]), "scores.json"), False),
    ],
)
def test_a_pipeline_checks_itself_unless_an_item_must_pass_an_outside_check(
    judged: Any, marked: bool
) -> None:
    """Whatever the verifier is made of; one of the same family that only may pass an item is enough to be marked."""
    assert marks_of(drafts("tiny"), judged, First()) == (MARKED if marked else ())


def test_a_generator_of_no_family_is_not_checked_by_its_own() -> None:
    """Nothing is known to be shared."""
    assert marks_of(drafts(None), judge("tiny"), First()) == ()


def test_fallbacks_are_generators_too() -> None:
    """One that is trusted is not judged, so it is not judged by its own."""
    policy = retry(1).then(fallback(drafts("tiny")))
    assert marks_of(drafts(None), judge("tiny"), First(), policy=policy) == MARKED
    trusted = fallback(drafts("tiny"), verified=False)
    assert marks_of(drafts(None), judge("tiny"), First(), policy=trusted) == ()


def test_inner_pipelines_draft_as_their_generators_do() -> None:
    """And are warned of themselves when they are built."""
    inner = Pipeline(drafts("tiny"), TESTS, First())
    assert inner.traits.families == {"tiny"}
    assert marks_of(inner, judge("tiny"), First()) == MARKED
    assert marks_of(Pipeline(inner, TESTS, First()), judge("tiny"), First()) == MARKED
    assert marks_of(inner, judge("other"), First()) == ()
    careless = Pipeline(drafts("tiny"), judge("tiny"), First())
    with pytest.warns(SelfVerificationWarning):
        check_families(careless)
    assert marks_of(careless, TESTS, First()) == ()


def test_pairs_that_a_model_judges_are_a_judgement() -> None:
    """Cross evidence, with no verdict beside it."""

    class Pairs:
        traits = VerifierTraits(families={"tiny"}, provides={"cross"})

        def verify(self, context: Any, proposal: Proposal) -> Verification:
            return Verification(evidence=Evidence(cross=[[0.5]]))

    assert marks_of(drafts("tiny"), Pairs(), Tournament()) == MARKED


def test_distributions_are_no_judgement() -> None:
    """A draft model of the target's family is what speculative decoding wants."""

    class Draft(DraftFrom):
        traits = GeneratorTraits(shape="chain", laws={"iid"}, families={"tiny"})

    class Target(TargetFrom):
        traits = VerifierTraits(provides={"target", "raw_maxima"}, families={"tiny"})

    draft, target = Draft(TableModel(4)), Target(TableModel(4))
    assert marks_of(draft, target, Speculative(), block=2) == ()


def test_the_warning_says_who_which_and_what_to_do() -> None:
    """And points at the line that asked."""

    def small_talker(context: Any, n: int) -> list[str]:
        return ["4"]

    parts = generator(small_talker, family="tiny"), judge("tiny"), Best()
    with pytest.warns(SelfVerificationWarning, match="small_talker") as caught:
        check_families(Pipeline(*parts, name="talk"))
    assert caught[0].filename == __file__
    said = str(caught[0].message)
    assert "the pipeline 'talk' checks itself" in said
    assert "of the same family (tiny)" in said
    assert "in all_of" in said
