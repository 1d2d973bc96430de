"""The session: what one task goes through, by flow, by trouble and by budget."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from draftverify import (
    Answer,
    Budget,
    Check,
    Cost,
    Decision,
    Draft,
    DraftVerifyError,
    Evidence,
    Failure,
    Pipeline,
    Proposal,
    Session,
    StepTaken,
    Task,
    Verification,
    escalate,
    fallback,
    feedback,
    give_up,
    retry,
    reverify,
)
from draftverify.traits import BlockTraits, GeneratorTraits, RuleTraits, VerifierTraits
from draftverify.values import Round, Trail

from .parts import Ballots, Blocks, Judge, Prefix, TakeFirst

TASK = Task(id="t")


def even(context, item):
    return (
        "pass"
        if item % 2 == 0
        else Check("reject", score=-float(item), reason="odd", feedback=f"{item} is odd")
    )


def staged(*blocks, policy=None, judge=even, **more):
    return Pipeline(Blocks(*blocks), Judge(judge), TakeFirst(), policy=policy, block=8, **more)


def test_first_accepted_alternative_is_the_value():
    """One round, the lowest passed item, and the counts of what was checked."""
    outcome = staged([1, 3, 4, 6]).run(TASK)
    assert (outcome.status, outcome.value, outcome.rounds) == ("accepted", 4, 1)
    assert (outcome.tally.trials, outcome.tally.accepted) == (4, 2)


def test_without_a_policy_a_refused_block_ends_the_task_and_names_the_best_candidate():
    """The best refused candidate is the one of the highest score, with its reason and feedback."""
    outcome = staged([5, 1, 3]).run(TASK)
    assert outcome.status == "refused"
    assert outcome.value is None
    assert (outcome.refused.value, outcome.refused.reason, outcome.refused.feedback) == (1, "odd", "1 is odd")


def test_policy_steps_follow_in_order_and_are_recorded():
    """Retry, then feedback, then fallback: each as often as it says, each in the records."""
    seen = []

    class Watching(Blocks):
        def propose(self, context, n):
            seen.append([f.item for f in context.feedback])
            return super().propose(context, n)

    policy = retry(1).then(feedback(1)).then(fallback(Blocks(*[[2]] * 9), name="big"))
    pipeline = Pipeline(Watching([1], [3], [5], [7]), Judge(even), TakeFirst(), policy=policy)
    record = pipeline.record(TASK)
    assert record.outcome.value == 2
    assert [round.source for round in record.rounds] == ["generator", "generator", "generator", "big"]
    assert [[step.do for step in round.steps] for round in record.rounds] == [
        ["regenerate"],
        ["feedback"],
        ["fallback"],
        [],
    ]
    assert seen == [[], [], [3]]
    assert [round.tries for round in record.rounds] == [0, 1, 2, 3]


def test_policy_counts_start_again_after_progress():
    """A clause used at one place of a chain is there again at the next."""
    blocks = [[1], [2], [3], [4]]
    chains = [Proposal.chain(tuple(block)) for block in blocks]
    pipeline = Pipeline(
        Blocks(*chains),
        Judge(even),
        Prefix(),
        policy=retry(1),
        block=4,
        done=lambda c, new: len(new) if 4 in new else None,
    )
    record = pipeline.record(TASK)
    assert record.outcome.value == (2, 4)
    assert [len(round.steps) for round in record.rounds] == [1, 0, 1, 0]
    assert [round.tries for round in record.rounds] == [0, 1, 0, 1]


def test_fallback_for_one_round_gives_way_and_for_good_stays():
    """`rounds` says for how long the other generator drafts."""
    chain = lambda *items: Proposal.chain(items)
    done = lambda c, new: len(new) if len(c.accepted) >= 3 else None
    for rounds, expected in (
        (1, ["generator", "other", "generator"]),
        (None, ["generator", "other", "other"]),
    ):
        policy = fallback(Blocks(*[chain(2)] * 9), rounds=rounds, name="other")
        pipeline = Pipeline(
            Blocks(chain(1), chain(2), chain(2, 4)), Judge(even), Prefix(), policy=policy, block=4, done=done
        )
        assert [round.source for round in pipeline.record(TASK).rounds][:3] == expected


def test_unverified_fallback_is_accepted_as_it_is():
    """The expensive path may be trusted outright; nothing is counted as a trial then."""
    policy = fallback(Blocks([0], [9]), verified=False, name="trusted")
    record = staged([1], policy=policy).record(TASK)
    assert (record.outcome.status, record.outcome.value) == ("accepted", 9)
    assert record.rounds[1].tally.trials == 0
    assert record.rounds[1].timing.passes == 0


def test_reverify_checks_only_the_errored_items_again():
    """A verifier that failed has not rejected: the failed checks are made again, the others stand."""
    asked = []

    def flaky(context, item):
        asked.append(item)
        return "error" if item == 4 and asked.count(4) == 1 else even(context, item)

    record = staged([1, 4, 3], policy=reverify(1), judge=flaky).record(TASK)
    assert record.outcome.value == 4
    assert asked == [1, 4, 3, 4]
    assert len(record.rounds) == 1
    assert record.rounds[0].timing.passes == 2
    assert [step.do for step in record.rounds[0].steps] == ["reverify"]


def test_what_a_verifier_notes_about_its_pass_is_in_the_record():
    """A round keeps its verification's notes; without any there is None."""

    class Noting(Judge):
        def verify(self, context, proposal):
            found = super().verify(context, proposal)
            return msgspec.structs.replace(found, notes={"isolation": "none", "items": len(proposal)})

    pipeline = Pipeline(Blocks([3, 4]), Noting(even), TakeFirst(), block=8)
    (round,) = pipeline.record(TASK).rounds
    assert round.notes == {"isolation": "none", "items": 2}
    assert staged([4]).record(TASK).rounds[0].notes is None


def test_a_verifier_that_raises_is_an_error_and_no_rejection():
    """The failure is kept with its type and message, and no item counts as a trial."""

    def broken(context, item):
        raise RuntimeError("no compiler")

    outcome = staged([1, 2], judge=broken).run(TASK)
    assert outcome.status == "failed"
    assert (outcome.failure.kind, outcome.failure.error, outcome.failure.message) == (
        "error",
        "RuntimeError",
        "no compiler",
    )
    assert outcome.tally.trials == 0
    assert outcome.refused is None


def test_reverify_answers_a_failed_pass_too():
    """When the whole pass failed the whole block is verified again, not drafted again."""
    calls = []

    def flaky(context, item):
        calls.append(item)
        if len(calls) == 1:
            raise TimeoutError("slow")
        return even(context, item)

    record = staged([1, 2], [9], policy=reverify(2, on=["timeout"]), judge=flaky).record(TASK)
    assert record.outcome.value == 2
    assert len(record.rounds) == 1


def test_reverify_that_keeps_failing_ends_the_task_as_failed():
    """Re-verification is bounded, and what it leaves is a failure and not a rejection."""
    record = staged([2], policy=reverify(2), judge=lambda c, i: "error").record(TASK)
    assert record.outcome.status == "failed"
    assert record.rounds[0].timing.passes == 3
    assert (record.outcome.tally.trials, record.outcome.tally.errors) == (0, 1)


def test_a_reverification_that_fails_whole_is_made_again_for_the_same_items():
    """The checks that stood after the first pass stand to the end."""
    passes = []

    class Flaky(Judge):
        def verify(self, context, proposal):
            passes.append(tuple(proposal.items))
            if len(passes) == 2:
                raise ConnectionError("gone")
            verdicts = [
                "error" if item == 4 and len(passes) == 1 else even(context, item) for item in proposal.items
            ]
            return Verification(checks=tuple(v if isinstance(v, Check) else Check(v) for v in verdicts))

    record = Pipeline(Blocks([1, 4]), Flaky(None), TakeFirst(), policy=reverify(3), block=2).record(TASK)
    assert passes == [(1, 4), (4,), (4,)]
    assert record.outcome.value == 4
    assert [check.verdict for check in record.rounds[0].checks] == ["reject", "pass"]


def test_abstentions_alone_end_as_abstained():
    """A verifier that cannot tell has neither accepted nor refused."""
    outcome = staged([1], judge=lambda c, i: "abstain").run(TASK)
    assert outcome.status == "abstained"
    assert (outcome.tally.trials, outcome.tally.abstentions) == (0, 1)


def test_generator_with_nothing_more_is_exhausted():
    """An empty block marked exhausted is not verified."""
    record = staged(policy=give_up()).record(TASK)
    assert record.outcome.status == "refused"
    assert record.rounds[0].trouble == ("exhausted",)
    assert record.rounds[0].timing.passes == 0


def test_votes_are_held_across_rounds_and_counted_at_the_end():
    """Ballots are progress; the stopping rule sees those just cast; the rule counts them."""
    done = lambda context, new: 0 if len(context.held) >= 5 else None
    pipeline = Pipeline(
        Blocks([1, 2], [2, 3], [2, 1], [9, 9]), Judge(lambda c, i: "pass"), Ballots(), block=2, done=done
    )
    record = pipeline.record(TASK)
    assert (record.outcome.status, record.outcome.value, record.outcome.rounds) == ("accepted", 2, 3)


def test_budget_of_rounds_counts_the_ballots_cast_so_far():
    """A budget never throws away what was paid for."""
    pipeline = Pipeline(
        Blocks(*[[1, 2, 2]] * 9), Judge(lambda c, i: "pass"), Ballots(), block=3, budget=Budget(rounds=2)
    )
    outcome = pipeline.run(TASK)
    assert (outcome.status, outcome.value, outcome.rounds) == ("refused", 2, 2)
    assert "2 rounds" in outcome.reason


def test_a_chain_keeps_its_prefix_and_splices_the_correction():
    """A plan: the valid prefix stays, the verifier's own step replaces the refused one."""

    class Plan(Judge):
        def verify(self, context, proposal):
            good = [item < 3 for item in proposal.items]
            first = good.index(False) if False in good else len(good)
            verdicts = ["pass"] * first + ["reject", *["unchecked"] * len(good)]
            checks = tuple(map(Check, verdicts[: len(good)]))
            return Verification(checks=checks, correction=(0,) if first < len(good) else ())

    pipeline = Pipeline(
        Blocks(Proposal.chain((1, 2, 5, 6)), Proposal.chain((1, 1))),
        Plan(None),
        Prefix(),
        block=4,
        done=lambda c, new: len(new) if len(c.accepted) >= 5 else None,
    )
    record = pipeline.record(TASK)
    assert record.outcome.value == (1, 2, 0, 1, 1)
    assert (record.rounds[0].tally.trials, record.rounds[0].tally.accepted) == (3, 2)


def test_done_cuts_inside_a_block():
    """What the stopping rule cuts off is not emitted, and the record says what was."""
    pipeline = Pipeline(
        Blocks(Proposal.chain((2, 4, 6, 8))),
        Judge(even),
        Prefix(),
        block=4,
        done=lambda c, new: 1 + new.index(4),
    )
    record = pipeline.record(TASK)
    assert record.outcome.value == (2, 4)
    assert record.rounds[0].decision.kept == (0, 1, 2, 3)
    assert record.rounds[0].decision.emitted == (2, 4)


def test_the_stopping_rule_sees_the_verifiers_context_after_the_round():
    """Accepted values, the last decision and the draws are there; an early stop, which is the verifier's, is not."""
    seen = {}

    class Judging(Judge):
        def verify(self, context, proposal):
            seen["verify"] = context
            return super().verify(context, proposal)

    def done(context, new):
        seen["done"] = context, list(context.accepted)

    class Enough(TakeFirst):
        traits = RuleTraits(enough=1)

    Pipeline(Blocks([1, 4]), Judging(even), Enough(), block=2, done=done).run(TASK)
    before, (after, accepted) = seen["verify"], seen["done"]
    assert (list(before.accepted), before.last, before.enough) == ([], None, 1)
    assert (accepted, after.last.decision.kept, after.enough) == ([4], (1,), None)
    assert after.draws.uniforms(range(3)) == before.draws.uniforms(range(3))
    assert (after.round, after.scratch is before.scratch) == (before.round, True)


def test_a_stopping_rule_or_block_size_that_raises_fails_its_task_alone():
    """The exception is the failure; what was accepted before stays the value."""
    chains = [Proposal.chain((2,)), Proposal.chain((4,))]
    done = lambda c, new: 1 // (2 - len(c.accepted)) and None
    outcome = Pipeline(Blocks(*chains), Judge(even), Prefix(), done=done).run(TASK)
    assert (outcome.status, outcome.value, outcome.failure.error) == ("failed", (2,), "ZeroDivisionError")

    class NoSize:
        traits = BlockTraits(deterministic=True)

        def size(self, context):
            raise KeyError("table")

        def observe(self, context, round):
            pass

    outcome = Pipeline(Blocks([2]), Judge(even), TakeFirst(), block=NoSize()).run(TASK)
    assert (outcome.status, outcome.failure.error) == ("failed", "KeyError")


def test_block_of_size_zero_is_a_plain_step():
    """The generator is not called; the verifier gets an empty chain."""

    class Splicing(Judge):
        def verify(self, context, proposal):
            assert len(proposal) == 0
            return Verification(correction=(7,))

    class Never:
        def propose(self, context, n):
            raise AssertionError("drafted")

    pipeline = Pipeline(
        Never(), Splicing(None), Prefix(), block=0, done=lambda c, new: 1 if len(c.accepted) == 3 else None
    )
    assert pipeline.run(TASK).value == (7, 7, 7)


def test_nobody_there_leaves_the_task_waiting_and_an_answer_takes_it_up():
    """Restored rounds are not decided again; the person's answer ends the task."""
    calls = []

    def judge(context, item):
        calls.append(item)
        return even(context, item)

    pipeline = staged([1], [3], policy=retry(1).then(escalate()), judge=judge)
    waiting = pipeline.record(TASK)
    assert waiting.outcome.status == "waiting"
    assert waiting.outcome.refused.value == 1
    rounds = msgspec.json.decode(msgspec.json.encode(waiting.rounds), type=tuple[Round, ...])
    asked = []
    record = pipeline.record(TASK, restore=rounds, ask=lambda ask: asked.append(ask) or Answer("accept"))
    assert (record.outcome.status, record.outcome.value) == ("accepted", 1)
    assert asked[0].candidate.value == 1
    assert calls == [1, 3]
    assert [round.source for round in record.rounds] == ["generator", "generator", "person"]


def test_an_edit_becomes_a_proposal_and_is_verified():
    """A person's edit that the verifier refuses is asked about again."""
    answers = [Answer("edit", 5), Answer("edit", 6)]
    record = staged([1], policy=escalate()).record(TASK, ask=lambda ask: answers.pop(0))
    assert record.outcome.value == 6
    assert [round.source for round in record.rounds] == ["generator", "person", "person"]


def test_an_edit_is_not_verified_once_the_rounds_are_spent():
    """The budget is looked at before every pass, of a person's edit too."""
    seen = []

    def watched(context, item):
        seen.append(item)
        return even(context, item)

    pipeline = staged([1], policy=escalate(), judge=watched, budget=Budget(rounds=1))
    outcome = pipeline.run(TASK, ask=lambda request: Answer("edit", 4))
    assert (outcome.status, seen) == ("refused", [1])
    assert "1 rounds" in outcome.reason


def test_a_person_can_reject():
    """The task ends with the person's note."""
    outcome = staged([1], policy=escalate()).run(TASK, ask=lambda ask: Answer("reject", note="hopeless"))
    assert (outcome.status, outcome.reason) == ("refused", "hopeless")


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        ("nonsense", "must return a Proposal"),
        (Proposal(items=(1, 2), parents=(-1,)), "2 items came with 1 parents"),
        (Proposal.tree((1, 2), (1, -1)), "a parent stands before its item"),
        (Proposal.alternatives(tuple(range(9))), "at most 8"),
        (Proposal.chain((1, 2)), "the rule judges alternatives"),
        (Proposal.alternatives((1,), extends=(0,)), "0 are held"),
    ],
)
def test_a_broken_proposal_is_a_failure_that_says_what_is_wrong(proposal, words):
    """Contract breaches of a generator do not end the run; the policy hears of an error."""

    class Bad:
        def propose(self, context, n):
            return proposal

    outcome = Pipeline(Bad(), Judge(even), TakeFirst(), block=8).run(TASK)
    assert outcome.status == "failed"
    assert outcome.failure.error == "ContractError"
    assert words in outcome.failure.message


def test_too_few_checks_are_a_failure():
    """A verifier must speak of every item."""

    class Lazy:
        def verify(self, context, proposal):
            return Verification(checks=(Check("pass"),))

    outcome = Pipeline(Blocks([1, 2]), Lazy(), TakeFirst(), block=2).run(TASK)
    assert "1 checks came for 2 items" in outcome.failure.message


def test_self_reported_costs_count_instead_of_the_clock():
    """Seconds and cost that a component reports are the task's."""

    class Priced(Judge):
        def verify(self, context, proposal):
            return Verification(checks=(Check("pass"),), cost=Cost(seconds=100.0, amount=0.5))

    outcome = Pipeline(Blocks([1]), Priced(None), TakeFirst()).run(TASK)
    assert 100.0 <= outcome.seconds < 101.0
    assert outcome.cost == 0.5


def test_an_outcome_sums_its_rounds():
    """Counts, cost and drift are those of all rounds together, of what was emitted and no more."""

    class Priced(Judge):
        def verify(self, context, proposal):
            checks = super().verify(context, proposal).checks
            weak = [msgspec.structs.replace(checks[0], caveat="few"), *checks[1:]]
            return Verification(checks=tuple(weak), cost=Cost(amount=0.5))

    class Drifting(Prefix):
        def decide(self, *asked):
            decision = super().decide(*asked)
            return msgspec.structs.replace(decision, drift=(0.25,) * len(decision.kept))

    blocks = [Proposal.chain(items) for items in ((2, 4, 1), (6, 3, 5), (8, 10, 12))]
    done = lambda context, new: 2 if len(context.accepted) == 6 else None
    record = Pipeline(Blocks(*blocks), Priced(even), Drifting(), block=3, done=done).record(TASK)
    outcome = record.outcome
    assert outcome.value == (2, 4, 6, 8, 10)
    assert (outcome.cost, outcome.drift) == (1.5, 1.25)
    assert [round.timing.cost for round in record.rounds] == [0.5] * 3
    assert [round.timing.batch for round in record.rounds] == [1] * 3
    for name in set(outcome.tally.__struct_fields__) - {"caveats"}:
        assert getattr(outcome.tally, name) == sum(getattr(round.tally, name) for round in record.rounds)
    assert (outcome.tally.trials, outcome.tally.accepted, outcome.tally.caveats) == (9, 6, {"few": 3})


def test_a_round_keeps_what_is_seldom_there():
    """An end of the generator's blocks, inner records and a correction stand in the record of their round alone."""
    inner = staged([4]).record(TASK)
    last = Proposal.alternatives((1, 6), exhausted=True)
    blocks = Blocks([1], Proposal.alternatives((3,), nested=(inner,)), last)

    class Correcting(Judge):
        def verify(self, context, proposal):
            found = super().verify(context, proposal)
            return msgspec.structs.replace(found, correction=(7,) if context.round == 1 else ())

    record = Pipeline(blocks, Correcting(even), TakeFirst(), policy=retry(2), block=8).record(TASK)
    assert [round.exhausted for round in record.rounds] == [False, False, True]
    assert [round.nested for round in record.rounds] == [(), (inner,), ()]
    assert [round.correction for round in record.rounds] == [(), (7,), ()]


def test_budget_is_checked_before_the_next_call_and_the_paid_answer_is_used():
    """A verification that overdraws the budget still decides."""

    class Dear(Judge):
        def verify(self, context, proposal):
            checks = tuple(Check("reject" if item % 2 else "pass") for item in proposal.items)
            return Verification(checks=checks, cost=Cost(seconds=50.0))

    budget = Budget(seconds=10)
    assert Pipeline(Blocks([2]), Dear(None), TakeFirst(), budget=budget).run(TASK).value == 2
    outcome = Pipeline(Blocks([1], [2]), Dear(None), TakeFirst(), policy=retry(5), budget=budget).run(TASK)
    assert (outcome.status, outcome.rounds) == ("refused", 1)
    assert "10 seconds" in outcome.reason


def test_budget_of_verifier_calls_stops_reverification():
    """No further pass is made, or recorded as a step, when the budget has none, and the outcome names the budget."""
    record = staged(
        [2], policy=reverify(None), judge=lambda c, i: "error", budget=Budget(verifier_calls=3)
    ).record(TASK)
    assert (record.outcome.status, record.outcome.tally.errors) == ("refused", 1)
    assert "3 verifier calls" in record.outcome.reason
    assert [step.do for step in record.rounds[0].steps] == ["reverify"] * 2
    assert record.rounds[0].trouble == ("error",)


def test_budget_spent_by_the_draft_ends_the_task_before_the_verifier_is_called():
    """The drafted block is in the record, unjudged."""

    class DearDraft(Blocks):
        def propose(self, context, n):
            return Proposal.alternatives((2,), cost=Cost(seconds=50.0))

    record = Pipeline(DearDraft(), Judge(even), TakeFirst(), budget=Budget(seconds=10)).record(TASK)
    assert (record.outcome.status, record.outcome.tally.trials) == ("refused", 0)
    assert (record.rounds[0].items, record.rounds[0].timing.passes) == ((2,), 0)
    assert "10 seconds" in record.outcome.reason


def test_a_persons_round_is_none_of_the_fallbacks():
    """A fallback for two rounds still has one left after a person was asked in between."""
    chain = Proposal.chain
    other = Blocks(chain((9,)), chain((7,)), chain((9,)), chain((2,)), chain((2,)))
    policy = fallback(other, rounds=2, name="other").then(escalate())
    done = lambda c, new: 1 if len(c.accepted) == 2 else None
    pipeline = Pipeline(Blocks(chain((1,))), Judge(even), Prefix(), policy=policy, done=done)
    record = pipeline.record(TASK, ask=lambda ask: Answer("accept"))
    assert [round.source for round in record.rounds] == ["generator", "other", "person", "other"]
    assert record.outcome.value == (1, 2)


def test_every_role_and_round_has_draws_of_its_own():
    """Generator, verifier and rule never share a number, and neither do two rounds."""
    drawn = []

    class Drawing:
        traits = (GeneratorTraits(shape="chain"),)

        def propose(self, context, n):
            drawn.append(context.draws.uniform(0))
            return Proposal.chain((2,))

        def verify(self, context, proposal):
            drawn.append(context.draws.uniform(0))
            return Verification(checks=(Check("pass"),))

        def decide(self, context, proposal, verification, rng):
            drawn.append(rng.uniform(0))
            return Prefix().decide(context, proposal, verification, rng)

    part = Drawing()
    Pipeline(part, part, part, done=lambda c, new: 1 if len(c.accepted) == 3 else None).run(TASK)
    assert len(drawn) == len(set(drawn)) == 9


def test_a_partial_solution_is_extended_and_released():
    """A held item is named in `extends`, and the rule lets go of it."""

    class Extending:
        def propose(self, context, n):
            if not context.held:
                return Proposal.alternatives(("a", "b"))
            return Proposal.alternatives(
                tuple(held.value + "!" for held in context.held), extends=tuple(range(len(context.held)))
            )

    class Beam(Ballots):
        def decide(self, context, proposal, verification, rng):
            decision = super().decide(context, proposal, verification, rng)
            return msgspec.structs.replace(decision, released=tuple(range(len(context.held))))

    done = lambda c, new: 0 if c.rounds and c.round == 2 else None
    record = Pipeline(Extending(), Judge(lambda c, i: "pass"), Beam(), block=2, done=done).record(TASK)
    assert record.outcome.value == "a!!"
    assert [len(round.held) for round in record.rounds] == [2, 2, 2]


def test_an_answer_to_a_closed_request_is_refused():
    """A driver that answers twice hears of it and changes nothing."""
    session = Session(staged([2]), TASK)
    (request,) = session.requests()
    assert isinstance(request, Draft)
    session.answer(request.id, Proposal.alternatives((2,)))
    with pytest.raises(DraftVerifyError, match="not open"):
        session.answer(request.id, Proposal.alternatives((3,)))


def test_the_last_round_is_shown_alike_live_and_restored():
    """In every field but the arrays, which no record holds."""

    class Noting(Judge):
        traits = VerifierTraits(deterministic=False)

        def verify(self, context, proposal):
            verification = super().verify(context, proposal)
            if context.round == 2:
                raise TimeoutError("slow")
            evidence = Evidence(cross=np.ones((len(proposal), 1)))
            notes = {"order": [1]} if context.round == 1 else {}
            return msgspec.structs.replace(
                verification, evidence=evidence, notes=notes, cost=Cost(amount=1.0)
            )

    inner = staged([4]).record(TASK)
    blocks = [
        Proposal.alternatives(np.array([1, 3]), evidence={"logits": [0.5]}),
        Proposal.alternatives((5,), nested=(inner,), cost=Cost(amount=2.0)),
        Proposal.alternatives((5, 7)),
        Proposal.alternatives((9,)),
    ]
    policy = retry(3).then(escalate())
    pipeline = Pipeline(Blocks(*blocks), Noting(even), TakeFirst(), policy=policy, block=8)
    live = Session(pipeline, TASK, person=lambda request: Answer("edit", 11))
    compared = 0
    while live.outcome is None and len(live.rounds) < 6:
        for request in live.requests():
            try:
                value = request.call(*request.arguments)
            except TimeoutError as error:
                value = Failure.of(error)
            live.answer(request.id, value)
        restored_last = Session(pipeline, TASK, restore=tuple(live.rounds)).state.context.last
        live_last = live.state.context.last
        if live_last is None or restored_last is None:
            assert live_last is restored_last
            continue
        compared += 1
        assert live_last.decision == restored_last.decision
        pairs = (
            (live_last.proposal, restored_last.proposal),
            (live_last.verification, restored_last.verification),
        )
        for mine, theirs in pairs:
            for name in set(mine.__struct_fields__) - {"law", "evidence"}:
                assert getattr(mine, name) == getattr(theirs, name), name
    assert compared > 5


def test_records_round_trip_through_json_and_restore_to_the_same_end():
    """Stopping after any round and restoring gives the record of an unbroken run."""
    policy = retry(1).then(feedback(1)).then(fallback(Blocks(*[[2]] * 9)))
    pipeline = staged([1], [3], [5], [7], policy=policy)
    whole = pipeline.record(TASK)
    for stop in range(len(whole.rounds)):
        plain = msgspec.json.decode(msgspec.json.encode(whole.rounds[:stop]), type=tuple[Round, ...])
        again = pipeline.record(TASK, restore=plain)
        assert [r.decision for r in again.rounds] == [r.decision for r in whole.rounds]
        assert [r.steps for r in again.rounds] == [r.steps for r in whole.rounds]
        assert again.outcome.value == whole.outcome.value


def test_events_tell_rounds_steps_and_the_end():
    """One hook hears everything, in order."""
    names = []
    staged([1], [2], policy=retry(1)).run(TASK, on_event=lambda e: names.append(type(e).__name__))
    assert names == ["TaskStarted", "StepTaken", "RoundDone", "RoundDone", "TaskDone"]
    steps = []
    staged([1], [2], policy=retry(1)).run(
        TASK, on_event=lambda e: steps.append(e) if isinstance(e, StepTaken) else None
    )
    assert (steps[0].step.do, steps[0].step.on) == ("regenerate", "reject")


def test_items_that_the_rule_brought_are_the_rounds():
    """The record holds host values, the decision's copy is not kept twice, and a wrong number of them is a failure."""

    class Brings:
        def __init__(self, items):
            self.items = items

        def decide(self, context, proposal, verification, rng):
            return Decision(kept=(0,), items=self.items, done=True)

    def run(items):
        return Pipeline(
            Blocks(["a", "b"]), Judge(lambda context, item: "pass"), Brings(items), block=2
        ).record("x")

    record = run(("A", "B"))
    assert record.rounds[0].items == ("A", "B")
    assert record.rounds[0].decision.items == ()
    assert record.outcome.value == ("A",)
    assert "1 items were brought along for a block of 2" in run(("A",)).outcome.reason


def test_a_trail_stays_as_it_was_when_its_list_grows():
    """What a component was shown of the answer is not changed by what is accepted later."""
    entries = [0, 1, 2]
    whole, part = Trail(entries, 3), Trail(entries, 2)
    for longer in (whole, whole.then([3])):
        assert list(longer)[:3] == [0, 1, 2]
        assert (whole[1:], whole[-1], whole[::-1], list(whole)) == ((1, 2), 2, (2, 1, 0), [0, 1, 2])
        assert (part[:], part[-2:], part[-1], len(part)) == ((0, 1), (0, 1), 1, 2)
    assert (list(part.then([9])), list(whole), 2 in whole, 2 in part) == ([0, 1, 9], [0, 1, 2], True, False)
