"""Rules by verdicts: what they keep, hold, refuse and leave alone, and the value that they make in the end."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import (
    Answer,
    Budget,
    Check,
    Choice,
    ConfigError,
    ContractError,
    DraftVerifyError,
    Draws,
    Held,
    Pipeline,
    Proposal,
    Trail,
    Verification,
    escalate,
    fallback,
    generator,
    retry,
    verifier,
)
from draftverify.rules import (
    AdaptiveConsistency,
    All,
    Beam,
    Best,
    BestStep,
    EnoughEvidence,
    First,
    Limit,
    LongestPrefix,
    Majority,
    Rounds,
    WeightedVote,
)
from draftverify.traits import VerifierTraits

P, R, E, T, A, U = (Check(v) for v in ("pass", "reject", "error", "timeout", "abstain", "unchecked"))  # type: ignore[arg-type]


def decide(
    rule: Any, *checks: Check, accepted: tuple[Any, ...] = (), correction: tuple[Any, ...] = ()
) -> Any:
    items = tuple(range(len(checks)))
    chain = isinstance(rule, LongestPrefix)
    proposal = Proposal.chain(items) if chain else Proposal.alternatives(items)
    context: Any = SimpleNamespace(accepted=Trail.of(accepted), held=(), round=len(accepted))
    verification = Verification(checks=checks, correction=correction)
    return rule.decide(context, proposal, verification, None)


def refused(decision: Any) -> list[int]:
    return [refusal.index for refusal in decision.refused]


def scored(*scores: float | None) -> list[Check]:
    return [Check("pass", score) for score in scores]


def finish(rule: Any, *held: Any, accepted: tuple[Any, ...] = ()) -> Any:
    ballots = tuple(
        Held(*(entry if isinstance(entry, tuple) else (entry, None)), 0, i) for i, entry in enumerate(held)
    )
    chosen = rule.finish(SimpleNamespace(held=ballots, accepted=Trail.of(accepted)))
    return chosen.value if isinstance(chosen, Choice) else chosen


def test_first_keeps_the_lowest_passed_index() -> None:
    """And is done; a surplus passed item is not refused."""
    decision = decide(First(), R, P, P)
    assert (decision.kept, refused(decision), decision.done) == ((1,), [0], True)
    assert First().enough == 1
    nothing = decide(First(), R, U)
    assert (nothing.kept, refused(nothing), nothing.done) == ((), [0], False)


def test_first_collects_over_rounds() -> None:
    """With `enough` above 1."""
    rule = First(3)
    assert not decide(rule, P, P).done
    last = decide(rule, P, P, P, accepted=("a", "b"))
    assert (last.kept, last.done) == ((0,), True)
    assert finish(rule, accepted=("a", "b", "c")) == ("a", "b", "c")
    assert finish(First(), accepted=("a",)) == "a"
    assert finish(First()) is None


def sampling(*scores: float | None) -> tuple[Any, Any]:
    """One item a round, its number; the verifier passes it with its score, or rejects it where that is None."""
    judged = lambda context, item: (
        Check("reject") if scores[item] is None else Check("pass", score=scores[item])
    )
    return generator(lambda context, n: [context.round]), verifier(judged, scores=True)


def test_first_above_a_threshold_samples_until_one_is_good_enough() -> None:
    """What passed below is refused, which brings the next draft; what is at the threshold is taken, with its score."""
    decision = decide(First(threshold=0.5), *scored(0.4, 0.5, 0.9), R)
    assert (decision.kept, decision.done) == ((1,), True)
    assert {r.index: r.reason for r in decision.refused} == {0: "below the threshold", 3: ""}
    one = Pipeline(*sampling(0.1, None, 0.7, 0.9), First(threshold=0.6), policy=retry(9)).run("x")
    assert (one.status, one.value, one.score, one.rounds, one.reason) == ("accepted", 2, 0.7, 3, "")
    assert (one.tally.trials, one.tally.accepted) == (3, 1)
    two = Pipeline(*sampling(0.7, 0.1, 0.9), First(2, threshold=0.6), policy=retry(9)).run("x")
    assert (two.status, two.value) == ("accepted", (0, 2))


def test_a_rule_that_compares_scores_is_shown_the_whole_block() -> None:
    """A pass is not enough for it, so that the verifier must not stop at the first."""
    seen = []
    judged = verifier(
        lambda context, item: seen.append(context.enough) or Check("pass", score=1.0), scores=True
    )
    drafted = generator(lambda context, n: [1, 2])
    Pipeline(drafted, judged, First(), block=2).run("x")
    Pipeline(drafted, judged, First(threshold=0.5), block=2).run("x")
    assert seen == [1, None, None]


def test_the_best_seen_below_the_threshold_can_be_the_answer() -> None:
    """The outcome says that it lies below; nothing else is changed: it is refused, and no accepted item."""
    rule = First(threshold=0.9, otherwise="best")
    ended = Pipeline(*sampling(0.1, 0.7, None, 0.7), rule, policy=retry(9), done=Rounds(4)).run("x")
    assert (ended.status, ended.value, ended.score) == ("accepted", 1, 0.7)
    assert (ended.reason, ended.tally.accepted) == ("below the threshold, the best that was seen", 0)
    spent = Pipeline(*sampling(0.1, 0.7), rule, policy=retry(9), budget=Budget(rounds=2)).run("x")
    assert (spent.status, spent.value) == ("refused", 1)
    assert "below the threshold" in spent.reason
    given_up = Pipeline(*sampling(0.1, 0.7), rule, policy=retry(1)).run("x")
    assert (given_up.status, given_up.value) == ("refused", 1)
    nothing = Pipeline(*sampling(None, None), rule, policy=retry(9), done=Rounds(2)).run("x")
    assert (nothing.status, nothing.value) == ("abstained", None)
    without = Pipeline(*sampling(0.1, 0.7), First(threshold=0.9), policy=retry(9), done=Rounds(2)).run("x")
    assert (without.status, without.value, without.refused.value) == ("abstained", None, 1)


def test_a_pool_that_is_used_up_ends_with_its_best() -> None:
    """Where the last block says that it is the last, the rule ends the task itself."""
    pool = generator(lambda context, n: Proposal.alternatives((context.round,), exhausted=context.round == 1))
    judged = verifier(lambda context, item: Check("pass", score=[0.4, 0.2][item]), scores=True)
    ended = Pipeline(pool, judged, First(threshold=0.9, otherwise="best"), policy=retry(9)).run("x")
    assert (ended.status, ended.value, ended.score, ended.rounds) == ("accepted", 0, 0.4, 2)


def test_a_pool_in_which_nothing_passed_has_no_best_and_is_left_to_the_policy() -> None:
    """The rule does not end a task that it has no answer for: another generator may have one."""
    pool = generator(lambda context, n: Proposal.alternatives((1,), exhausted=True))
    judged = verifier(lambda context, item: Check("pass" if item == 2 else "reject", score=1.0), scores=True)
    rule = First(threshold=0.9, otherwise="best")
    helped = Pipeline(pool, judged, rule, policy=fallback(generator(lambda context, n: [2]))).run("x")
    assert (helped.status, helped.value) == ("accepted", 2)
    alone = Pipeline(pool, judged, rule).run("x")
    assert (alone.status, alone.value) == ("refused", None)


def test_what_the_verifier_made_of_a_refused_item_is_the_answer_too() -> None:
    """As it is of an accepted one."""
    rule = First(threshold=0.9, otherwise="best")
    drafted = generator(lambda context, n: [1, 2, 3])
    ended = Pipeline(drafted, READ, rule, block=3, done=Rounds(1)).run("t")
    assert (ended.value, ended.score) == ({"answer": "a1", "from": 3}, 0.3)


@pytest.mark.parametrize(
    "words",
    [
        {"otherwise": "best"},
        {"threshold": 0.5, "otherwise": "worst"},
        {"threshold": 0.5, "otherwise": "best", "enough": 2},
    ],
)
def test_otherwise_needs_a_threshold(words: Any) -> None:
    """And is a known word, of one item."""
    with pytest.raises(ConfigError, match="otherwise"):
        First(**words)


def test_all_keeps_what_passed_and_brings_the_end_after_the_first_block_with_any() -> None:
    """Given another `done` it collects over rounds."""
    decision = decide(All(), P, R, P)
    assert (decision.kept, refused(decision), decision.done) == ((0, 2), [1], False)
    blocks = [[1, 2], [3], [4, 5], [6]]
    parts = generator(lambda context, n: blocks[context.round]), verifier(lambda context, item: item % 2 == 0)
    assert Pipeline(*parts, All(), block=2).run("x").value == (2,)
    more = Pipeline(*parts, All(), block=2, policy=retry(9), done=Limit(3)).run("x")
    assert (more.value, more.rounds) == ((2, 4, 6), 4)


def test_best_chooses_the_highest_score_the_earliest_of_equals() -> None:
    """Among all that passed; the outcome has the score."""
    assert decide(Best(), *scored(0.5, 0.9, 0.9), Check("reject", 2.0)).held == (0, 1, 2)
    assert finish(Best(), ("a", 0.5), ("b", 0.9), ("c", 0.9)) == "b"
    assert finish(Best()) is None
    marks = {"a": 0.2, "b": 0.7, "c": 0.6, "d": 0.9}
    parts = (
        generator(lambda context, n: [["a", "b"], ["c", "d"]][context.round]),
        verifier(lambda context, item: Check("pass", score=marks[item]), scores=True),
    )
    one = Pipeline(*parts, Best(), block=2).run("x")
    assert (one.value, one.score, one.rounds) == ("b", 0.7, 1)
    two = Pipeline(*parts, Best(), block=2, done=Rounds(2)).run("x")
    assert (two.value, two.score, two.rounds) == ("d", 0.9, 2)
    steps = Pipeline(*parts, BestStep(), block=2, done=Limit(2)).run("x")
    assert steps.value == ("b", "d")


def test_best_refuses_below_its_threshold() -> None:
    """With a reason to count by; what is at it is good enough."""
    decision = decide(Best(0.5), *scored(0.4, 0.5), R)
    assert decision.held == (1,)
    assert {r.index: r.reason for r in decision.refused} == {0: "below the threshold", 2: ""}
    assert decide(BestStep(0.5), *scored(0.4, 0.5, 0.6), R).kept == (2,)
    for rule in (Best(0.6), BestStep(0.6)):
        nothing = decide(rule, *scored(0.4, 0.5))
        assert (nothing.held, nothing.kept, nothing.abstain) == ((), (), False)


def test_first_may_say_that_there_is_no_answer() -> None:
    """Of verdicts alone: after so many blocks none of which passed; a passed item is an answer before that."""
    drafts = generator(lambda context, n: [context.round])
    for passed, outcome in ((9, ("abstained", None, 2)), (1, ("accepted", 1, 2)), (0, ("accepted", 0, 1))):
        checks = verifier(lambda context, item, passed=passed: item == passed)
        record = Pipeline(drafts, checks, First(abstain_after=2), policy=retry(9)).record("x")
        assert (record.outcome.status, record.outcome.value, record.outcome.rounds) == outcome
    broken = verifier(lambda context, item: Check("error"))
    assert Pipeline(drafts, broken, First(abstain_after=1)).run("x").status == "failed"
    with pytest.raises(ConfigError, match="leave one of them out"):
        First(threshold=0.5, otherwise="best", abstain_after=1)


def test_best_says_on_purpose_that_there_is_no_answer() -> None:
    """After so many blocks without a good item, or when the generator has no more; a check that failed is none."""
    parts = (
        generator(lambda context, n: [context.round]),
        verifier(lambda context, item: Check("pass", score=0.1), scores=True),
    )
    record = Pipeline(*parts, Best(0.5, abstain_after=2), policy=retry(9)).record("x")
    assert (record.outcome.status, record.outcome.rounds) == ("abstained", 2)
    assert "Best says that there is no answer" in record.outcome.reason
    assert record.outcome.refused is not None
    again = Pipeline(*parts, Best(0.5, abstain_after=2), policy=retry(9)).record("x", restore=record.rounds)
    assert again.outcome.status == "abstained"
    with pytest.raises(DraftVerifyError, match="of another policy"):
        Pipeline(*parts, Best(0.5)).record("x", restore=record.rounds)
    at_once = Pipeline(*parts, Best(0.5, abstain_after=1)).run("x")
    assert (at_once.status, at_once.refused.value) == ("abstained", 0)
    last = generator(lambda context, n: Proposal.alternatives((1,), exhausted=True))
    assert Pipeline(last, parts[1], Best(0.5, abstain_after=2)).run("x").status == "abstained"
    broken = verifier(lambda context, item: Check("error"), scores=True)
    assert Pipeline(last, broken, Best(0.5, abstain_after=1)).run("x").status != "abstained"


@pytest.mark.parametrize("rule", [Best(0.5), BestStep(0.5), WeightedVote(), First(), All(), Majority()])
def test_what_a_person_or_a_trusted_fallback_passes_needs_no_score(rule: Any) -> None:
    """The rule takes it, whatever its threshold."""
    parts = (
        generator(lambda context, n: ["draft"]),
        verifier(lambda context, item: Check("reject", score=0.1), scores=True),
    )
    trusted = fallback(generator(lambda context, n: ["sure"]), verified=False)
    for policy, value in ((trusted, "sure"), (escalate(), "draft")):
        done = lambda context, new: len(new) if context.accepted or context.held else None
        pipeline = Pipeline(*parts, rule, policy=policy, done=done)
        record = pipeline.record("x", ask=lambda request: Answer("accept"))
        assert record.outcome.status == "accepted"
        assert value in (record.outcome.value, *(record.outcome.value or ()))
        assert record.rounds[-1].by in ("person", "fallback")
        assert record.rounds[-1].tally.trials == 0


@pytest.mark.parametrize("rule", [Best(), WeightedVote()])
def test_a_missing_score_is_an_error(rule: Any) -> None:
    """It is not read as zero."""
    with pytest.raises(ContractError, match="item 0 passed without a score"):
        decide(rule, Check("pass"))


def test_majority_elects_the_earliest_of_equals() -> None:
    """By the first ballot, not by the value."""
    assert finish(Majority(), "b", "a", "a", "b") == "b"
    assert finish(Majority(), "b", "a", "a") == "a"
    assert finish(Majority()) is None


def test_ballots_of_mappings_vote_by_their_field() -> None:
    """The value is the earliest winning item, whole."""
    items = [{"answer": 1, "text": "x"}, {"answer": 2, "text": "y"}, {"answer": 2, "text": "z"}]
    assert finish(Majority(), *items) == items[1]
    assert finish(Majority("text"), *items) == items[0]
    assert finish(Majority(None), *items, dict(reversed(items[2].items()))) == items[2]
    assert finish(Majority(), [1, 2], [2, 1], [2, 1]) == [2, 1]


def test_an_item_without_an_answer_casts_no_vote() -> None:
    """Three that came to none are not outvoting two that agree, and have no share in the vote."""
    none, some = {"answer": None, "text": "…"}, {"answer": "4", "text": "It is 4."}
    assert finish(Majority(), none, some, none, some, none) == some
    assert finish(Majority(), none, none) is None
    assert finish(WeightedVote(), (none, 9.0), (some, 0.1)) == some
    ballots = (none, some, some, {"answer": "5"})
    parts = generator(lambda context, n: ballots), verifier(lambda context, item: True)
    outcome = Pipeline(*parts, Majority(), block=4, done=Rounds(1)).run("x")
    assert (outcome.value, outcome.support) == (some, pytest.approx(2 / 3))
    silent = generator(lambda context, n: [none]), verifier(lambda context, item: True)
    stopped = Pipeline(*silent, Majority(), budget=Budget(rounds=60)).run("x")
    assert (stopped.status, stopped.rounds) == ("abstained", 40)
    fives = generator(lambda context, n: [none] * n), verifier(lambda context, item: True)
    in_blocks = Pipeline(*fives, Majority(), block=5).run("x")  # no budget: 40 samples are an end
    assert (in_blocks.status, in_blocks.rounds) == ("abstained", 8)


def test_a_vote_says_how_sure_it_is_and_may_ask_for_a_least_share() -> None:
    """Share and lead stand in the outcome; below the share there is no answer."""
    ballots = ["a", "b", "b", "c"]
    parts = generator(lambda context, n: ballots), verifier(lambda context, item: True)
    outcome = Pipeline(*parts, Majority(), block=4, done=Rounds(1)).run("x")
    assert (outcome.value, outcome.support, outcome.margin) == ("b", 0.5, 0.25)
    assert Pipeline(*parts, Majority(share=0.5), block=4, done=Rounds(1)).run("x").value == "b"
    few = Pipeline(*parts, Majority(share=0.51), block=4, done=Rounds(1)).run("x")
    assert (few.status, few.value) == ("abstained", None)
    with pytest.raises(ConfigError, match="share"):
        Majority(share=50)


def test_a_weighted_vote_sums_scores() -> None:
    """One heavy ballot beats two light ones; a negative weight is an error."""
    assert finish(WeightedVote(), ("a", 0.3), ("b", 0.9), ("a", 0.4)) == "b"
    assert finish(WeightedVote(), ("a", 0.5), ("b", 0.5)) == "a"
    with pytest.raises(ContractError, match="a vote weighs 0 or more"):
        decide(WeightedVote(), *scored(-0.1))


def test_a_weighted_vote_reads_log_odds() -> None:
    """As probabilities, of which even the least weighs something; and so does the rule that ends it."""
    rule = WeightedVote(log_odds=True)
    assert decide(rule, *scored(-0.1)).held == (0,)
    assert finish(rule, ("a", -2.0), ("b", 1.0), ("a", -1.0)) == "b"
    assert finish(rule, ("a", -2000.0), ("b", -3000.0), ("b", -2000.0)) == "b"


@given(st.lists(st.sampled_from([P, R, E, T, A, U]), max_size=8))
def test_only_a_reject_is_refused_and_only_a_pass_is_taken(checks: list[Check]) -> None:
    """An error, a timeout, an abstention and an unchecked item are neither, in every rule of alternatives."""
    marked = [Check(check.verdict, 1.0) for check in checks]
    passed = [i for i, check in enumerate(checks) if check is P]
    for rule in (First(2), All(), Best(), BestStep(), Majority(), WeightedVote()):
        decision = decide(rule, *marked)
        assert refused(decision) == [i for i, check in enumerate(checks) if check is R]
        taken = [*decision.kept, *decision.held]
        assert set(taken) <= set(passed)
        assert bool(taken) == bool(passed)


@given(st.lists(st.sampled_from([P, R, E, T, A, U]), max_size=8))
def test_the_longest_prefix(checks: list[Check]) -> None:
    """Kept up to the first item that did not pass, which is refused only when it was rejected."""
    stop = next((i for i, check in enumerate(checks) if check is not P), len(checks))
    decision = decide(LongestPrefix(), *checks)
    assert decision.kept == tuple(range(stop))
    assert refused(decision) == ([stop] if stop < len(checks) and checks[stop] is R else [])
    assert (decision.spliced, decision.done) == ((), False)


def test_a_correction_stands_where_the_refused_item_stood() -> None:
    """The verifier offers it, the rule puts it there, and splices what the verifier would go on with."""
    corrected = Check("reject", correction="step")
    decision = decide(LongestPrefix(), P, corrected, U, correction=("next",))
    assert (decision.kept, decision.spliced, refused(decision)) == ((0,), ("next",), [])
    assert [(each.index, each.value) for each in decision.corrected] == [(1, "step")]
    spliced = decide(LongestPrefix(), P, R, U, correction=("step", "next"))
    assert (spliced.kept, spliced.spliced, refused(spliced)) == ((0,), ("step", "next"), [1])


TREE = (-1, 0, 0, 2, -1, 4, 5)
"""A tree: 0 → {1, 2 → 3} and 4 → 5 → 6."""


def of_tree(*checks: Check, parents: tuple[int, ...] = TREE, correction: tuple[Any, ...] = ()) -> Any:
    proposal = Proposal.tree(tuple("abcdefghij"[: len(parents)]), parents)
    verification = Verification(checks=checks, correction=correction)
    return LongestPrefix().decide(None, proposal, verification, None)  # type: ignore[arg-type]


def test_of_a_tree_the_longest_path_of_passed_items_is_kept() -> None:
    """Items that stand on one that did not pass are no part of a path; passed siblings are left alone."""
    assert of_tree(P, P, P, R, P, P, P).kept == (4, 5, 6)
    assert of_tree(P, P, P, P, P, R, P).kept == (0, 2, 3)
    assert of_tree(R, P, P, P, R, P, P).kept == ()
    assert of_tree(parents=()).kept == ()


def test_of_equally_long_paths_the_better_scored_is_kept() -> None:
    """By the mean score where every item of a path has one, else the first."""
    low, high = Check("pass", 0.2), Check("pass", 0.8)
    assert of_tree(low, low, low, high, high, high, R).kept == (0, 2, 3)
    assert of_tree(low, low, low, R, high, high, R).kept == (4, 5)
    assert of_tree(high, P, high, R, low, low, R).kept == (0, 2)
    assert of_tree(P, P, P, R, P, P, R).kept == (0, 1)


def test_of_a_tree_what_was_judged_on_sound_ground_is_refused() -> None:
    """A rejected item all of whose parents passed; below a rejected one nothing was judged in earnest."""
    assert refused(of_tree(P, R, P, R, R, R, P)) == [1, 3, 4]
    assert refused(of_tree(P, E, P, T, U, R, P)) == []


def test_of_a_tree_the_first_correction_after_the_path_stands_in_its_place() -> None:
    """Of the items after its end; the other rejected ones are refused, and other paths are not mended."""
    offered = Check("reject", correction="step")
    decision = of_tree(P, offered, offered, P, offered, P, P)
    assert (decision.kept, refused(decision)) == ((0,), [2, 4])
    assert [(each.index, each.value) for each in decision.corrected] == [(1, "step")]
    with pytest.raises(ContractError, match="go on from a tree"):
        of_tree(P, P, P, P, P, P, P, correction=("more",))


def paths_of(parents: tuple[int, ...], checks: list[Check]) -> list[tuple[int, ...]]:
    """All paths of passed items from the root, by brute force."""
    proposal = Proposal.tree(tuple(range(len(parents))), parents)
    whole = [proposal.path(i) for i in range(len(parents))]
    return [(), *(path for path in whole if all(checks[i].verdict == "pass" for i in path))]


@given(st.data(), st.lists(st.sampled_from([P, P, P, R, E]), max_size=9))
def test_no_path_of_passed_items_is_longer_than_the_kept_one(data: Any, checks: list[Check]) -> None:
    """Of any tree."""
    parents = tuple(data.draw(st.integers(-1, i - 1)) for i in range(len(checks)))
    paths = paths_of(parents, checks)
    kept = of_tree(*checks, parents=parents).kept
    assert kept in paths
    assert len(kept) == max(map(len, paths))


def test_a_tree_grows_by_paths() -> None:
    """Through a pipeline: two chains of steps a round, of which the sounder is gone on from."""
    drafted = generator(lambda context, n: Proposal.tree([1, 2, 1, 3], (-1, 0, -1, 2)), shape="tree")
    judged = verifier(lambda context, item: item != 2)
    outcome = Pipeline(drafted, judged, LongestPrefix(), block=4, done=Limit(4)).run("x")
    assert outcome.value == (1, 3, 1, 3)


def test_a_vote_across_rounds() -> None:
    """Ballots are held until the leader is sure, and counted at the end; with none the task is abstained."""
    answers = list("xyxxxxxx")
    vote = Pipeline(
        generator(lambda context, n: answers[context.round * n :][:n]),
        verifier(lambda context, item: True),
        Majority(),
        block=2,
        done=AdaptiveConsistency(),
    )
    outcome = vote.run("?")
    assert (outcome.status, outcome.value, outcome.rounds) == ("accepted", "x", 4)
    silent = Pipeline(
        generator(lambda context, n: answers[:n]), verifier(lambda context, item: None), Majority(), block=2
    )
    assert silent.run("?").status == "abstained"
    cut = Pipeline(
        generator(lambda context, n: answers[:n]),
        verifier(lambda context, item: True),
        Majority(),
        block=3,
        budget=Budget(rounds=1),
    )
    assert (cut.run("?").status, cut.run("?").value) == ("refused", "x")


def test_rounds_stop_a_vote() -> None:
    """After as many as were asked for."""
    vote = Pipeline(
        generator(lambda context, n: ["a", "b"]),
        verifier(lambda context, item: True),
        Majority(),
        block=2,
        done=Rounds(3),
    )
    record = vote.record("?")
    assert (record.outcome.status, record.outcome.value, len(record.rounds)) == ("accepted", "a", 3)


@pytest.mark.parametrize("make", [First, Limit, Rounds, Beam, lambda n: Best(abstain_after=n)])
@pytest.mark.parametrize("number", [1.5, True, "2"])
def test_a_number_of_things_is_a_whole_number(make: Any, number: Any) -> None:
    """One and a half rounds are refused when the rule is made, not when it is first asked."""
    with pytest.raises(ConfigError, match="a whole number is needed"):
        make(number)


def test_first_needs_at_least_one() -> None:
    """Zero items are no answer."""
    with pytest.raises(ConfigError, match="at least 1"):
        First(0)


def test_true_is_no_vote_for_one() -> None:
    """Python takes True for 1; alone or in a list, they are two answers."""
    assert finish(Majority(), True, True, 1, 1, 1) is not True
    assert finish(Majority(), [True], [True], [1], [1], [1])[0] is not True
    assert finish(Majority(), 1.0, True, 1) == 1


class Growing:
    """Adds a letter to each held partial; the score of a partial is the number of its b's."""

    traits = (VerifierTraits(provides={"verdicts", "scores"}),)

    def propose(self, context: Any, n: int) -> Proposal:
        if not context.held:
            return Proposal.alternatives(["a", "b", "c"][:n])
        grown = [(i, held.value + letter) for i, held in enumerate(context.held) for letter in "ab"]
        return Proposal.alternatives([item for _, item in grown], extends=[i for i, _ in grown])

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=tuple([Check("pass", float(item.count("b"))) for item in proposal.items]))


def test_a_beam_holds_the_best_partials_and_lets_go_of_those_that_were_extended() -> None:
    """Of width two after each round: the two best of all, the earliest of equals; the value is the best at the end."""
    part = Growing()
    record = Pipeline(part, part, Beam(2), block=4, done=Rounds(3)).record("x")
    assert [[held.value for held in round.held] for round in record.rounds] == [
        ["a", "b"],
        ["ab", "bb"],
        ["abb", "bbb"],
    ]
    assert [round.decision.released for round in record.rounds] == [(), (0, 1), (0, 1)]
    assert (record.outcome.value, record.outcome.score) == ("bbb", 3.0)


def test_a_beam_keeps_what_nothing_better_came_for() -> None:
    """A held partial that no good item extends stays while it is among the best; items below the threshold go."""
    held = (Held("old", 2.0, 0, 0), Held("weak", 0.5, 0, 1))
    context: Any = SimpleNamespace(held=held)
    proposal = Proposal.alternatives(["better", "worse", "bad"], extends=(-1, 0, 1))
    checks = tuple([Check("pass", score) for score in (1.0, 0.1, 0.0)])
    decided = Beam(2, threshold=0.6).decide(context, proposal, Verification(checks=checks), Draws((0, 0), 0))
    assert (decided.held, decided.released) == ((0,), (1,))
    assert [refusal.index for refusal in decided.refused] == [1, 2]


READ = verifier(
    lambda context, item: Check("pass", score=item / 10, correction={"answer": f"a{item % 2}", "from": item}),
    scores=True,
)
"""Makes an answer of each number, as a reader does of passages."""


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (First(), {"answer": "a1", "from": 1}),
        (First(2), ({"answer": "a1", "from": 1}, {"answer": "a0", "from": 2})),
        (All(), tuple({"answer": f"a{item % 2}", "from": item} for item in (1, 2, 3))),
        (Best(), {"answer": "a1", "from": 3}),
        (BestStep(), ({"answer": "a1", "from": 3},)),
        (Beam(2), {"answer": "a1", "from": 3}),
        (Majority(), {"answer": "a1", "from": 1}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_the_verifier_made_of_a_passed_item_is_taken_in_its_place(rule: Any, value: Any) -> None:
    """By every rule that selects: a vote counts the answers that were read, not the passages."""
    drafted = generator(lambda context, n: [1, 2, 3])
    outcome = Pipeline(drafted, READ, rule, block=3, done=Rounds(1)).run("t")
    assert (outcome.status, outcome.value) == ("accepted", value)
    assert outcome.tally.accepted == outcome.tally.trials > 0


def test_items_with_and_without_a_correction_join_in_the_order_of_the_block() -> None:
    """One that the verifier made nothing of stays as it is."""
    some = verifier(lambda context, item: Check("pass", correction=-item) if item == 2 else True)
    outcome = Pipeline(generator(lambda context, n: [1, 2, 3]), some, All(), block=3).run("t")
    assert outcome.value == (1, -2, 3)


def test_all_keeps_what_reaches_a_threshold() -> None:
    """What passed below it is refused; without a threshold scores are not needed."""
    decision = decide(All(0.5), *scored(0.4, 0.5, 0.9), R)
    assert (decision.kept, refused(decision)) == ((1, 2), [3, 0])
    assert (All().traits.needs, All(0.5).traits.needs) == ({"verdicts"}, {"verdicts", "scores"})


def test_all_abstains_after_so_many_blocks_without_a_good_item() -> None:
    """As the best does; once something was kept, an empty block is no abstention."""
    nothing = verifier(lambda context, item: item == "right")
    blank = generator(lambda context, n: ["wrong"] * n)
    pipeline = Pipeline(blank, nothing, All(abstain_after=2), block=3, policy=retry(5))
    outcome = pipeline.run("t")
    assert (outcome.status, outcome.rounds) == ("abstained", 2)
    first = generator(lambda context, n: ["right"] if context.round == 0 else ["wrong"])
    kept = Pipeline(first, nothing, All(abstain_after=1), policy=retry(5), done=Rounds(2)).run("t")
    assert (kept.status, kept.value) == ("accepted", ("right",))


def test_a_vote_may_need_several_ballots() -> None:
    """One answer that was read once is no agreement, though it has the whole vote."""
    assert finish(Majority(None, ballots=2), "a") is None
    assert finish(Majority(None, ballots=2), "a", "b", "a") == "a"
    with pytest.raises(ConfigError, match="ballots"):
        Majority(ballots=0)


def evidence(*chances: float | None, enough: float, at_most: int | None = None, by: Any = None) -> int:
    """After how many rounds of one item each a task ends."""
    judged = verifier(lambda context, item: Check("pass", score=chances[item]), scores=True)
    numbered = generator(lambda context, n: [context.round])
    done = EnoughEvidence(enough, at_most=at_most)
    return Pipeline(numbered, judged, All(), done=done, budget=Budget(rounds=len(chances))).run("t").rounds


def test_evidence_is_added_up_until_it_is_enough() -> None:
    """1 − Π (1 − p): .5 and .5 are .75, with another .5 .875."""
    assert evidence(0.5, 0.5, 0.5, 0.5, enough=0.75) == 2
    assert evidence(0.5, 0.5, 0.5, 0.5, enough=0.76) == 3
    assert evidence(0.9, 0.5, enough=0.9) == 1
    assert evidence(0.1, 0.1, 0.1, 0.1, enough=0.99, at_most=3) == 3


def test_what_a_person_passed_is_certain_evidence() -> None:
    """One such item ends the gathering."""
    low = verifier(lambda context, item: Check("reject", score=0.1), scores=True)
    pipeline = Pipeline(
        generator(lambda c, n: ["x"]), low, All(), done=EnoughEvidence(0.99), policy=escalate()
    )
    ended = pipeline.record("t", ask=lambda request: Answer("accept")).outcome
    assert (ended.status, ended.value) == ("accepted", ("x",))


@pytest.mark.parametrize("score", [None, 3.0, -0.1])
def test_evidence_that_is_no_probability_is_the_tasks_failure(score: float | None) -> None:
    """A raw score adds up to nothing; the message names what gives probabilities."""
    judged = verifier(lambda context, item: Check("pass", score=score), scores=True)
    outcome = Pipeline(generator(lambda c, n: [1]), judged, All(), done=EnoughEvidence()).run("t")
    assert outcome.status == "failed"
    assert "calibrated verifier" in outcome.reason


NOTHING = verifier(lambda context, item: Check("reject", score=0.1), scores=True)


@pytest.mark.parametrize("rule", [All(abstain_after=9), Best(abstain_after=9)], ids=["all", "best"])
def test_nothing_found_and_nothing_left_to_try_is_an_abstention(rule: Any) -> None:
    """Where the first block is empty, where no policy drafts another, and where the fallback found nothing either; a
    fallback is asked before that is said."""
    empty = generator(lambda context, n: Proposal.alternatives((), exhausted=True))
    assert Pipeline(empty, NOTHING, rule, block=2).run("t").status == "abstained"
    some = generator(lambda context, n: Proposal.alternatives(("a", "b"), exhausted=True))
    assert Pipeline(some, NOTHING, rule, block=2).run("t").status == "abstained"
    everything = generator(lambda context, n: Proposal.alternatives(("c",), exhausted=True))
    record = Pipeline(some, NOTHING, rule, block=2, policy=fallback(everything)).record("t")
    assert record.outcome.status == "abstained"
    assert [each.items for each in record.rounds] == [("a", "b"), ("c",)]
    assert Pipeline(some, NOTHING, Best(), block=2).run("t").status == "refused"


def test_what_failed_is_no_abstention() -> None:
    """A verifier that could not judge has not said that there is nothing; one that cannot tell has looked."""
    broken = verifier(lambda context, item: Check("error"), scores=True)
    unsure = verifier(lambda context, item: Check("abstain"), scores=True)
    some = generator(lambda context, n: ["a"])
    policy = retry(5, on=("reject", "error", "abstain"))
    for judge, status, rounds in ((broken, "failed", 6), (unsure, "abstained", 2)):
        outcome = Pipeline(some, judge, Best(abstain_after=2), policy=policy).run("t")
        assert (outcome.status, outcome.rounds) == (status, rounds)


@pytest.mark.parametrize("rule", [First, Best, All, BestStep, partial(Beam, 2)])
@pytest.mark.parametrize("threshold", ["0.8", True, float("nan"), [1]])
def test_a_threshold_is_a_number(rule: Any, threshold: Any) -> None:
    """Refused as the rule is made, and not when the first score is compared."""
    with pytest.raises(ConfigError, match="threshold"):
        rule(threshold=threshold)
