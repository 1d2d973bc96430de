"""Items decide: what became of each of them, whoever judged them, and what of a block is drafted again."""

from __future__ import annotations

import pydoc

import pytest

import draftverify
from draftverify import (
    Answer,
    Check,
    Decision,
    OutcomeError,
    Pipeline,
    PipelineError,
    Proposal,
    Verification,
    escalate,
    fallback,
    feedback,
    generator,
    give_up,
    retry,
    verifier,
)
from draftverify.rules import All, Best, First, Limit, LongestPrefix, Majority, Rounds, Speculative
from draftverify.traits import VerifierTraits
from draftverify.values import Correction

from .parts import Blocks, Judge, TakeFirst


def odd(context, item):
    return Check("pass") if item % 2 else Check("reject", reason="even")


class Counting:
    """Drafts what was refused again, one higher; else the numbers from 0."""

    def __init__(self) -> None:
        self.drafted: list[list[int]] = []
        self.feedback: list[int] = []

    def propose(self, context, n):
        items = [item + 1 for item in context.refused] or list(range(n))
        assert len(items) <= n
        self.drafted.append(items)
        self.feedback.append(len(context.feedback))
        return Proposal.alternatives(items)


# Partial progress


@pytest.mark.parametrize("clause", [retry, feedback])
def test_only_what_was_refused_is_drafted_again(clause):
    """A clause for partial progress keeps the accepted items and asks for as many as were refused."""
    part = Counting()
    pipeline = Pipeline(part, verifier(odd), All(), block=4, done=Limit(4), policy=clause(1, partial=True))
    record = pipeline.record("x")
    assert part.drafted == [[0, 1, 2, 3], [1, 3]]
    assert part.feedback == [0, 2 if clause is feedback else 0]
    assert record.outcome.value == (1, 3, 1, 3)
    assert [round.asked for round in record.rounds] == [4, 2]
    assert (record.rounds[0].steps[0].do, record.rounds[0].trouble) == (clause(1).clauses[0].do, ("reject",))


def test_without_a_partial_clause_progress_goes_on_with_a_new_block():
    """A plain clause answers blocks that made no progress, and nothing else."""
    part = Counting()
    record = Pipeline(part, verifier(odd), All(), block=4, done=Limit(4), policy=retry(1)).record("x")
    assert part.drafted == [[0, 1, 2, 3]] * 2
    assert not any(round.steps for round in record.rounds)


def test_partial_clauses_are_used_up_and_the_run_goes_on():
    """When no partial clause is left the refused items are let go; it is no end."""
    part = Counting()
    judge = verifier(lambda c, item: item % 4 == 1)
    pipeline = Pipeline(part, judge, All(), block=4, done=Limit(3), policy=retry(1, partial=True))
    record = pipeline.record("x")
    assert part.drafted[:3] == [[0, 1, 2, 3], [1, 3, 4], [0, 1, 2, 3]]
    assert record.outcome.status == "accepted"


def test_a_partial_escalation_asks_about_the_refused_one():
    """A person's accept joins the items that were kept, by the rule."""
    asked = []

    def person(request):
        asked.append(request.candidate.value)
        return Answer("accept")

    pipeline = Pipeline(
        Counting(), verifier(odd), All(), block=2, done=Limit(2), policy=escalate(partial=True)
    )
    record = pipeline.record("x", ask=person)
    assert asked == [0]
    assert record.outcome.value == (1, 0)


def test_after_a_persons_word_on_one_the_other_refused_ones_are_drafted_again():
    """A person is asked about the best refused one; none of the others is lost."""
    part = Counting()
    pipeline = Pipeline(part, verifier(odd), All(), block=6, done=Limit(6), policy=escalate(partial=True))
    record = pipeline.record("x", ask=lambda request: Answer("accept"))
    assert part.drafted == [[0, 1, 2, 3, 4, 5], [1, 3]]
    assert record.outcome.value == (1, 3, 5, 4, 1, 3)


def test_a_persons_refused_edit_waits_beside_the_other_refused_ones():
    """Once a person has accepted it after all, the others are drafted again."""
    part, answers = Counting(), [Answer("edit", 6), Answer("accept")]
    pipeline = Pipeline(part, verifier(odd), All(), block=6, done=Limit(6), policy=escalate(partial=True))
    record = pipeline.record("x", ask=lambda request: answers.pop(0))
    assert part.drafted == [[0, 1, 2, 3, 4, 5], [1, 3]]
    assert record.outcome.value == (1, 3, 5, 6, 1, 3)


def test_giving_up_on_partial_progress_ends_the_task():
    """`give_up(partial=True)` demands whole blocks."""
    pipeline = Pipeline(
        Counting(), verifier(odd), All(), block=2, done=Limit(9), policy=give_up(partial=True)
    )
    outcome = pipeline.run("x")
    assert (outcome.status, outcome.value) == ("refused", (1,))


# Corrections


class Rounding:
    """Rejects what is no multiple of ten, and has the multiple in its place."""

    def verify(self, context, proposal):
        checks = [
            Check("pass") if item % 10 == 0 else Check("reject", correction=item - item % 10)
            for item in proposal.items
        ]
        return Verification(checks=tuple(checks), correction=(990,))


def test_a_rule_puts_the_verifiers_value_in_an_items_place():
    """In the order of the block, kept and corrected alike; a chain goes on after the correction."""
    blocks = Blocks(Proposal.chain((10, 20, 33, 40)))
    record = Pipeline(blocks, Rounding(), LongestPrefix(), block=4, done=lambda c, new: len(new)).record("x")
    assert record.rounds[0].decision.corrected == (Correction(2, 30),)
    assert record.outcome.value == (10, 20, 30, 990)

    class Correct:
        def decide(self, context, proposal, verification, rng):
            corrected = [
                Correction(i, check.correction)
                for i, check in enumerate(verification.checks)
                if check.verdict == "reject"
            ]
            kept = [i for i, check in enumerate(verification.checks) if check.verdict == "pass"]
            return Decision(kept=kept, corrected=corrected, done=True)

    record = Pipeline(Blocks([11, 20, 35]), Rounding(), Correct(), block=3).record("x")
    assert record.outcome.value == (10, 20, 30)
    assert record.outcome.tally.accepted == 1


# The rule decides on everybody's word


def test_a_persons_accept_and_a_trusted_fallback_are_ballots():
    """Votes count what people and trusted fallbacks pass; nothing is accepted around the rule, and no loop starts."""
    trusted = fallback(generator(lambda c, n: [7] * n), verified=False)
    for policy in (trusted, escalate()):
        pipeline = Pipeline(
            Blocks([2], [4]), verifier(odd), Majority(), block=2, policy=policy, done=Rounds(2)
        )
        record = pipeline.record("x", ask=lambda request: Answer("accept"))
        assert record.outcome.status == "accepted"
        assert record.outcome.value == (7 if policy is trusted else 2)
        assert record.outcome.support == 1.0
        assert record.outcome.rounds <= 3
        assert record.rounds[1].by == ("fallback" if policy is trusted else "person")
        assert record.rounds[1].tally.trials == 0  # nobody's denominator


def test_a_rule_may_refuse_what_a_person_accepts():
    """A person passes an item, the rule decides; asked again with nothing new, nobody is."""

    class Never(TakeFirst):
        def decide(self, context, proposal, verification, rng):
            return Decision()

    asked = []

    def person(request):
        asked.append(request)
        return Answer("accept")

    pipeline = Pipeline(Blocks([2]), verifier(odd), Never(), policy=escalate())
    outcome = pipeline.run("x", ask=person)
    assert (outcome.status, len(asked)) == ("refused", 1)


@pytest.mark.parametrize(
    "policy", [escalate(), fallback(Blocks(), verified=False)], ids=["escalate", "fallback"]
)
def test_a_rule_that_needs_more_than_checks_takes_nobodys_word(policy):
    """A person has no distributions: an error when the pipeline is built."""

    class Target(Judge):
        traits = VerifierTraits(provides={"target"})

    with pytest.raises(PipelineError, match="measures nothing"):
        Pipeline(Blocks(), Target(None), Speculative(), policy=policy)


# Ends


def test_that_there_is_no_answer_is_a_rules_word():
    """`abstain` ends the task as abstained, whatever the policy would do."""
    pipeline = Pipeline(
        Blocks([1, 2], [3]),
        Judge(lambda c, item: Check("pass", score=0.1)),
        Best(0.5, abstain_after=2),
        policy=retry(9),
        block=2,
    )
    outcome = pipeline.run("x")
    assert (outcome.status, outcome.rounds, outcome.value) == ("abstained", 2, None)
    assert "no answer" in outcome.reason
    assert outcome.refused.value in (1, 2, 3)


def test_unwrap_gives_the_value_or_raises_what_went_wrong():
    """The error names the end and carries the outcome."""
    pipeline = Pipeline(Blocks([1]), verifier(odd), First())
    assert pipeline.run("x").unwrap() == 1
    refused = Pipeline(Blocks([2]), verifier(odd), First()).run("x")
    with pytest.raises(OutcomeError, match="refused: every candidate was refused") as error:
        refused.unwrap()
    assert error.value.outcome is refused


# For people


def test_what_is_shown_of_an_outcome_a_record_and_a_pipeline():
    """Short in a terminal, a table in a notebook, in which nothing that a model wrote is markup."""
    said = "<script>alert(1)</script>" * 9
    pipeline = Pipeline(Blocks([said]), verifier(lambda c, item: True), First(), policy=retry(2), name="<b>")
    record = pipeline.record("x")
    assert repr(record.outcome).startswith("Outcome(accepted, value='<script>")
    assert len(repr(record.outcome)) < 160
    assert repr(record) == f"TaskRecord('0', {record.outcome!r})"
    assert "generator=Blocks, verifier=" in repr(pipeline)
    assert "policy=regenerate ×2" in repr(pipeline)
    for shown in (record, record.outcome, pipeline):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
        assert "<script>" not in html
        assert "<b>" not in html


@pytest.mark.parametrize("name", [name for name in draftverify.__all__ if name != "__version__"])
def test_every_public_name_has_help(name):
    """`help(draftverify.Context)` and all others render, and say something."""
    thing = getattr(draftverify, name)
    assert len(pydoc.render_doc(thing)) > 50
