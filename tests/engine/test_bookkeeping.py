"""The session's books: what was spent and by whom, whose round it was, and what is kept of it in the record."""

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
    DraftVerifyError,
    Evidence,
    Pipeline,
    Proposal,
    Session,
    Task,
    Verification,
    escalate,
    fallback,
    feedback,
    give_up,
    retry,
    reverify,
)
from draftverify.rules import Limit
from draftverify.traits import BlockTraits, GeneratorTraits, RuleTraits, VerifierTraits

from .parts import Ballots, Blocks, Judge, Prefix, TakeFirst


def even(context, item):
    return "pass" if item % 2 == 0 else Check("reject", reason="odd", feedback=f"{item} is odd")


class Priced(Blocks):
    """The blocks, at a cost."""

    def __init__(self, cost, *blocks):
        super().__init__(*blocks)
        self.cost = cost

    def propose(self, context, n):
        return msgspec.structs.replace(super().propose(context, n), cost=self.cost)


class PricedJudge(Judge):
    """The verdicts, at a cost; says which context it was called with."""

    def __init__(self, cost, fn=even):
        super().__init__(fn)
        self.cost = cost
        self.contexts = []

    def verify(self, context, proposal):
        self.contexts.append(context)
        return msgspec.structs.replace(super().verify(context, proposal), cost=self.cost)


class Letters:
    """Drafts one letter after the other, each for a second of machine time and a unit."""

    traits = GeneratorTraits(shape="chain")

    def propose(self, context, n):
        return Proposal.chain(("a",) * n, cost=Cost(seconds=0.5, amount=0.5))


class Passing:
    """Passes everything, for as much again."""

    def verify(self, context, proposal):
        return Verification(checks=(Check("pass"),) * len(proposal), cost=Cost(seconds=0.5, amount=0.5))


def spelling(letters=20, **more):
    """A word of so many letters: each is a round of a second and a unit."""
    return Pipeline(Letters(), Passing(), Prefix(), block=1, done=Limit(letters), name="spelling", **more)


class Both(TakeFirst):
    """Done with the last item that passed by its check and by all that it was crossed with."""

    traits = RuleTraits(shapes={"alternatives"}, needs={"verdicts", "cross"})

    def decide(self, context, proposal, verification, rng):
        clean = [i for i, check in enumerate(verification.checks) if check.verdict == "pass"]
        clean = [i for i in clean if (verification.evidence.cross[i] == 1.0).all()]
        return Decision(kept=tuple(clean[-1:]), done=bool(clean))


def free(context, item):
    return "pass"


def test_a_round_sums_what_its_parts_cost():
    """Units and machine seconds of the draft and of every pass, a second one too."""
    tried = []

    def flaky(context, item):
        tried.append(item)
        return "error" if len(tried) == 1 else even(context, item)

    blocks = Priced(Cost(seconds=2.0, amount=2.0), [2])
    judge = PricedJudge(Cost(seconds=30.0, amount=3.0), flaky)
    record = Pipeline(blocks, judge, TakeFirst(), policy=reverify()).record("x")
    (round,) = record.rounds
    assert (round.timing.cost, record.outcome.cost) == (8.0, 8.0)
    assert (round.timing.draft, round.timing.verify) == (2.0, 60.0)
    assert 62.0 <= round.timing.busy < 63.0


def test_what_a_draft_cost_counts_before_its_block_is_checked():
    """Cost as well as seconds; that of earlier rounds is added."""
    for cost, budget in ((Cost(amount=6.0), Budget(cost=5)), (Cost(seconds=6.0), Budget(seconds=5))):
        judge = PricedJudge(None)
        outcome = Pipeline(Priced(cost, [2]), judge, TakeFirst(), budget=budget).run("x")
        assert (outcome.status, judge.contexts) == ("refused", [])
    outcome = Pipeline(
        Priced(Cost(amount=2.0), *[[1]] * 9), Judge(even), TakeFirst(), policy=retry(8), budget=Budget(cost=5)
    ).run("x")
    assert (outcome.rounds, outcome.cost) == (3, 6.0)


def test_a_rules_seconds_count(monkeypatch):
    """The time of its decisions is the task's, and a budget of seconds sees it."""
    clock = iter(range(10**6))
    monkeypatch.setattr("draftverify.engine.drivers.perf_counter", lambda: float(next(clock)))
    nothing = Cost(seconds=0.0)
    pipeline = Pipeline(Priced(nothing, [1], [2]), PricedJudge(nothing), TakeFirst(), policy=retry())
    record = pipeline.record("x")
    decided = [round.timing.decide for round in record.rounds]
    assert min(decided) > 0
    assert record.outcome.seconds == sum(decided)


def test_verifier_calls_are_counted_across_rounds():
    """Two passes of the first round and one of the second are three."""
    tried = []

    def flaky(context, item):
        tried.append(item)
        return "error" if len(tried) == 1 else even(context, item)

    policy = reverify().then(retry(9, on=["reject"]))
    pipeline = Pipeline(
        Blocks(*[[1]] * 9), Judge(flaky), TakeFirst(), policy=policy, budget=Budget(verifier_calls=3)
    )
    outcome = pipeline.run("x")
    assert (outcome.rounds, len(tried)) == (2, 3)


def test_a_fallback_drafts_where_the_pipeline_does_not():
    """A block of 0 is for the generator; another one is asked for an item at least."""
    policy = fallback(Blocks([], [2]), name="other")
    record = Pipeline(Blocks([9]), Judge(even), TakeFirst(), policy=policy, block=0).record("x")
    assert [(round.source, round.asked) for round in record.rounds] == [("generator", 0), ("other", 1)]
    assert record.outcome.value == 2


def test_a_block_size_learns_from_the_generators_rounds_alone():
    """What a fallback or a person made says nothing of the generator."""
    seen = []

    class Watching:
        traits = BlockTraits(deterministic=True)

        def size(self, context):
            return 1

        def observe(self, context, round):
            seen.append((context.round, round.source))

    policy = fallback(Blocks([], [3]), name="other").then(escalate())
    pipeline = Pipeline(Blocks([1]), Judge(even), TakeFirst(), policy=policy, block=Watching())
    record = pipeline.record("x", ask=lambda request: Answer("accept"))
    assert [round.source for round in record.rounds] == ["generator", "other", "person"]
    assert seen == [(0, "generator")]


def test_checks_that_are_made_again_keep_what_the_first_pass_said():
    """Its notes, and that it was not deterministic."""

    class Noting(Judge):
        def verify(self, context, proposal):
            again = len(proposal) == 1
            verdicts = ["reject" if item == 1 else "pass" if again else "error" for item in proposal.items]
            notes = {"again": True} if again else {"isolation": "none"}
            return Verification(checks=tuple(map(Check, verdicts)), notes=notes, deterministic=again)

    record = Pipeline(Blocks([1, 4]), Noting(None), TakeFirst(), policy=reverify(), block=2).record("x")
    (round,) = record.rounds
    assert (round.timing.passes, record.outcome.value) == (2, 4)
    assert round.notes == {"isolation": "none", "again": True}
    assert not round.deterministic


def test_a_held_item_names_its_round_and_place():
    """For a rule that lets go of old ones."""
    done = lambda context, new: 0 if context.round == 1 else None
    pipeline = Pipeline(Blocks([1, 2], [4, 6]), Judge(even), Ballots(), block=2, done=done)
    record = pipeline.record("x")
    found = [(held.value, held.round, held.index) for round in record.rounds for held in round.held]
    assert found == [(2, 0, 1), (4, 1, 0), (6, 1, 1)]


@pytest.mark.parametrize("kind", ["seconds", "cost"])
def test_an_inner_task_may_use_an_equal_share_of_what_is_left(kind):
    """Of twelve, four go to each of three; a round later the same parts have what the first did not use."""
    outer = Pipeline(
        spelling(),
        Judge(lambda context, item: "reject"),
        TakeFirst(),
        block=3,
        policy=retry(9),
        budget=Budget(**{kind: 12.0}),
    )
    record = outer.record("x")
    spent = [[getattr(one.outcome, kind) for one in round.nested] for round in record.rounds]
    assert [[pytest.approx(4.0, abs=0.1)] * 3] == spent
    assert {one.outcome.status for one in record.rounds[0].nested} == {"refused"}
    half = Pipeline(
        spelling(2),
        Judge(lambda context, item: "reject"),
        TakeFirst(),
        block=3,
        policy=retry(9),
        budget=Budget(**{kind: 9.0}),
    ).record("x")
    spent = [[getattr(one.outcome, kind) for one in round.nested] for round in half.rounds]
    assert spent == [[pytest.approx(2.0, abs=0.1)] * 3, [pytest.approx(1.0, abs=0.1)] * 3]


@pytest.mark.parametrize("kind", ["seconds", "cost"])
def test_the_least_of_the_budgets_around_an_inner_task_bounds_it(kind):
    """The one in the middle gives its own away, however much there is outside."""
    middle = Pipeline(spelling(), Judge(free), TakeFirst(), block=2, budget=Budget(**{kind: 4.0}))
    outer = Pipeline(middle, Judge(free), TakeFirst(), budget=Budget(**{kind: 100.0}))
    (innermost, _) = outer.record("x").rounds[0].nested[0].rounds[0].nested
    assert innermost.outcome.status == "refused"
    assert getattr(innermost.outcome, kind) == pytest.approx(2.0, abs=0.1)


def test_what_an_inner_task_may_give_away_is_counted_as_what_it_may_use():
    """In machine seconds: of a pass that several shared its own part."""
    session = Session(
        Pipeline(Blocks([2], [3]), Judge(even), Ballots(), done=lambda context, new: None),
        Task(id="t"),
        allowance=Budget(seconds=10.0),
    )
    session.answer(session.request.id, Proposal.alternatives((2,)), seconds=4.0, busy=1.0)
    for value in (Verification(checks=(Check("pass"),)), Decision(held=(0,))):
        session.answer(session.request.id, value)
    assert session.allowance(3).seconds == pytest.approx(3.0)


def test_evidence_is_of_all_items_once_some_are_checked_again():
    """What a first pass measured of an item whose check failed says nothing of it, so the block is checked whole."""

    class Crossing(Judge):
        traits = VerifierTraits(provides={"verdicts", "cross"})

        def verify(self, context, proposal):
            self.fn.append(len(proposal))
            again = len(self.fn) > 1
            cross = np.array([[1.0, 0.0], [1.0, 1.0] if again else [np.nan, np.nan]][-len(proposal) :])
            checks = (Check("pass"), Check("pass" if again else "error"))[-len(proposal) :]
            return Verification(checks=checks, evidence=Evidence(cross=cross))

    judge = Crossing([])
    record = Pipeline(Blocks([1, 4]), judge, Both(), policy=reverify(), block=2).record("x")
    assert judge.fn == [2, 2]
    assert record.outcome.value == 4


def test_a_rules_failure_takes_nothing_from_the_drafts_notes():
    """Its own notes stay with it."""

    class Noting(Blocks):
        def propose(self, context, n):
            return Proposal.alternatives((1,), notes={"asked": "draft"})

    class Failing(TakeFirst):
        def decide(self, context, proposal, verification, rng):
            error = DraftVerifyError("no answer")
            error.notes = {"asked": "rule"}
            raise error

    (round,) = Pipeline(Noting(), Judge(free), Failing()).record("x").rounds
    assert round.draft_notes == {"asked": "draft"}
    assert round.failure.notes == {"asked": "rule"}


def test_another_attempt_draws_other_numbers():
    """A re-run of a task is not the same run once more."""

    def drawn(attempt):
        (request,) = Session(
            Pipeline(Blocks([2]), Judge(even), TakeFirst()), Task(id="t"), attempt=attempt
        ).requests()
        return request.context.draws.uniform(0)

    assert drawn(0) != drawn(1)
    assert drawn(1) == drawn(1)


def test_an_accepted_outcome_names_no_refused_candidate():
    """There was one on the way."""
    pipeline = Pipeline(Blocks([1], [2]), Judge(even), TakeFirst(), policy=retry())
    outcome = pipeline.run("x")
    assert (outcome.status, outcome.refused) == ("accepted", None)
    assert Pipeline(Blocks([1]), Judge(even), TakeFirst()).run("x").refused.value == 1


def test_of_equally_good_candidates_the_last_is_the_best():
    """It was drafted with the most known."""
    judge = Judge(lambda context, item: Check("reject", score=0.5))
    assert (
        Pipeline(Blocks([1, 3], [5]), judge, TakeFirst(), policy=retry(), block=2).run("x").refused.value == 5
    )


def test_a_person_is_not_offered_what_was_accepted_before():
    """At the next place of a chain the candidate is one of that place, however good the one before was."""
    asked = []

    def person(request):
        asked.append(request.candidate.value)
        return Answer("accept")

    judge = Judge(lambda context, item: Check("reject", score=-float(item)))
    blocks = Blocks(Proposal.chain((1,)), None, Proposal.chain((3,)))
    done = lambda context, new: len(new) if len(context.accepted) == 2 else None
    record = Pipeline(blocks, judge, Prefix(), policy=escalate(), done=done).record("x", ask=person)
    assert asked == [1, 3]
    assert record.outcome.value == (1, 3)


@pytest.mark.parametrize("trouble", ["error", "timeout"])
def test_a_task_whose_checks_came_to_nothing_has_failed(trouble):
    """Nothing was refused, whether the checks broke or took too long."""
    assert Pipeline(Blocks([2]), Judge(lambda c, i: trouble), TakeFirst()).run("x").status == "failed"


def test_the_reason_says_whether_the_policy_gave_up_or_had_no_step_left():
    """To give up is a step."""
    reasons = {
        policy: Pipeline(Blocks(*[[1]] * 9), Judge(even), TakeFirst(), policy=policy).run("x").reason
        for policy in (give_up(), retry())
    }
    assert ["no policy step is left" in reason for reason in reasons.values()] == [False, True]


def test_no_part_is_shown_the_truth():
    """It is for metrics, which see the task that was given."""
    judge = PricedJudge(None)
    seen = []

    class Looking(Blocks):
        def propose(self, context, n):
            seen.append(dict(context.task.expected))
            return super().propose(context, n)

    task = Task(id="t", expected={"answer": 2})
    Pipeline(Looking([2]), judge, TakeFirst()).run(task)
    assert seen == [dict(context.task.expected) for context in judge.contexts] == [{}]
    assert task.expected == {"answer": 2}


def test_rounds_of_a_longer_policy_are_refused_in_words():
    """One clause too many is enough."""
    parts = Blocks([1], [3]), Judge(even), TakeFirst()
    rounds = Pipeline(*parts, policy=retry().then(feedback())).record("x").rounds
    with pytest.raises(DraftVerifyError, match="of another policy, of more than 1 clauses"):
        Pipeline(*parts, policy=retry()).record("x", restore=rounds)


def test_the_first_trouble_is_the_one_that_may_hide_a_pass():
    """Of a block with an error and a reject, a step for both answers the error."""
    verdicts = Judge(lambda context, item: "error" if item == 2 else "reject")
    record = Pipeline(Blocks([1, 2], [4]), verdicts, TakeFirst(), policy=retry(), block=2).record("x")
    assert record.rounds[0].trouble == ("error", "reject")
    assert record.rounds[0].steps[0].on == "error"


def test_feedback_is_of_refused_and_of_undecided_items_and_of_what_was_said_outside():
    """An inner task sees both; it forgets its own at the next step, and never the outer one's."""
    seen = []

    class Watching(Blocks):
        def propose(self, context, n):
            seen.append([said.item for said in context.feedback])
            return super().propose(context, n)

    undecided = Judge(lambda context, item: "abstain" if item == 1 else even(context, item))
    policy = feedback(1, on=["reject", "abstain"]).then(retry(1))
    inner = Pipeline(Watching([1, 3, 5], [7], [4]), undecided, TakeFirst(), policy=policy, block=3)
    refusing = Judge(lambda context, item: Check("reject", reason="no"))
    Pipeline(inner, refusing, TakeFirst(), policy=feedback()).run("x")
    assert seen == [[], [1, 3, 5], [], [4], [4, 1, 3, 5], [4]]
