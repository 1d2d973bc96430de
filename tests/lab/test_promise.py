"""What a promise is worth: the chance that one is kept which is broken, by enumeration and without simulation."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.stats import binom, poisson

from draftverify import ConfigError
from draftverify.lab import Promise
from draftverify.lab.certificate import fewest_tasks, last_kept, starts


def broken(
    tasks: int, levels: Sequence[tuple[float, float]], promise: Promise, test: Any = last_kept
) -> float:
    """The chance that a threshold is certified whose promise does not hold, over runs of so many tasks.

    Right and wrong answers of each level are Poisson numbers, and those of a whole run with what is never answered are
    these given their sum. So a level's step is a product of matrices, over all counts so far [right, wrong].

    Args:
        tasks: of a run.
        levels: of each threshold, the strictest first: the share of tasks that it answers beside those that stricter
            ones answer, and the share of those answers that is right.
        promise: what is tested.
        test: the sequence of tests.
    """
    counts = np.arange(tasks + 1)
    answered = counts[:, None] + counts
    steps = np.maximum(counts[:, None] - counts, -1)  # from so many before
    state = np.zeros((tasks + 1, tasks + 1))
    state[0, 0] = 1.0
    states = {("", False): state}
    right = answers = 0.0
    for share, chance in levels:
        answers, right = answers + share, right + share * chance
        good = (
            right / answers >= promise.share
            if promise.of == "precision"
            else answers - right <= promise.share
        )
        ways = [poisson.pmf(steps, tasks * share * part) * (steps >= 0) for part in (chance, 1.0 - chance)]
        after: dict[tuple[str, bool], Any] = {}
        for (before, bad), chances in states.items():
            now = np.where(answered <= tasks, ways[0] @ chances @ ways[1].T, 0.0)
            for next_state, is_kept, here in outcomes(before, tasks, promise, test):
                key = next_state, (not good if is_kept else bad)
                after[key] = after.get(key, 0.0) + np.where(here, now, 0.0)
        states = after
    rest = poisson.pmf(tasks - answered, tasks * max(1.0 - answers, 0.0)) / poisson.pmf(tasks, tasks)
    return float(sum((chances * rest).sum() for (_, bad), chances in states.items() if bad))


BEFORE = ("", "1", "1x", "2", "2x", "x2")
"""Which parts of delta were spent: none, the first and it holds or failed (x), both; or the second alone holds."""


@functools.cache
def outcomes(before: str, tasks: int, promise: Promise, test: Any) -> list[tuple[str, bool, Any]]:
    """Where one more threshold leads from a state: the state, whether it is kept, and for which counts [right, wrong].

    The test itself is asked, after thresholds that lead to the state.
    """
    spent = sorted(starts(promise, tasks))
    first, last = spent[0], spent[-1]
    paths = {
        "": [], "1": [(first, 0)], "1x": [(first, first)], "2": [(first, 0), (last, 0)],
        "x2": [(first, first), (last, 0)], "2x": [(tasks, tasks)],
    }  # fmt: skip
    path = paths[before]

    def is_kept(answered: int, wrong: int) -> bool:
        trials = [*path, (answered, wrong)]
        return bool(test(trials, promise, tasks=tasks)[0] == len(path))

    kept, part = np.zeros((tasks + 1, tasks + 1), bool), np.full((tasks + 1, tasks + 1), "", dtype="<U2")
    for answered in range(tasks + 1):
        # With fewer wrong ones than are kept it is kept too.
        least = bisect.bisect_left(range(answered + 1), True, key=lambda wrong: not is_kept(answered, wrong))
        wrong = np.arange(answered + 1)
        kept[answered - wrong, wrong] = wrong < least
        both = answered >= last
        part[answered - wrong, wrong] = "2" if both else "1" if answered >= first else ""
    alive = {"": "2", "1": "2", "1x": "x2", "x2": "x2", "2": "2", "2x": "2x"}[before]
    sure = np.where(part == "2", alive, part)
    dead = np.where(part == "2", "2x", np.where(part == "1", "1x", ""))
    places = [(name, True, kept & (sure == name)) for name in BEFORE]
    places += [(name, False, ~kept & (dead == name)) for name in BEFORE]
    return [place for place in places if place[2].any()]


@pytest.mark.parametrize("tasks", [19, 22, 40, 150, 400])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("delta", [0.05, 0.1])
def test_one_score_for_all_breaks_no_promise_more_often_than_said(
    tasks: int, share: float, delta: float
) -> None:
    """Whatever the precision is below the promised one: the most that it can be, and a little below it."""
    promise = Promise("precision", share, delta)
    kept = [wrong for wrong in range(tasks + 1) if last_kept([(tasks, wrong)], promise, tasks=tasks)[0] == 0]
    for precision in (share - 1e-9, share - 0.02):
        assert binom.pmf(kept, tasks, 1.0 - precision).sum() <= delta


def of_levels(share: float) -> dict[str, list[tuple[float, float]]]:
    """Judges of two and of five scores around a precision: nearly as good as promised, fooled above, bad below."""
    worse, edge, better = share - 0.06 * min(1.0, 10 * (1 - share)), share - 1e-4, share + 0.5 * (1 - share)
    return {
        "two at the edge": [(0.5, edge), (0.5, edge)],
        "two, the lower one bad": [(0.5, better), (0.5, worse)],
        "two, the higher one bad": [(0.4, worse), (0.6, better)],
        "two, some tasks never answered": [(0.5, share), (0.3, edge)],
        "five at the edge": [(0.2, edge)] * 5,
        "five, worse and worse": [(0.1, better), (0.2, better), (0.2, edge), (0.2, worse), (0.3, worse)],
        "five, fooled above": [(0.15, worse), (0.2, edge), (0.2, better), (0.25, edge), (0.2, worse)],
    }


RUNS = [19, 60, *(pytest.param(tasks, marks=pytest.mark.exhaustive) for tasks in (22, 40, 150, 400))]


@pytest.mark.parametrize("name", of_levels(0.9))
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("tasks", RUNS)
def test_a_few_scores_break_no_promise_more_often_than_said(tasks: int, share: float, name: str) -> None:
    """Of the precision, and of wrong answers among all tasks: several thresholds are tried, and the chance is delta."""
    levels = of_levels(share)[name]
    assert broken(tasks, levels, Promise("precision", share, 0.1)) <= 0.1
    wrong = sum(part * (1.0 - chance) for part, chance in levels)
    assert broken(tasks, levels, Promise("wrong", wrong - 1e-4, 0.1)) <= 0.1


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("tasks", RUNS)
@pytest.mark.parametrize("fooled", [0.0, 0.3])
def test_a_score_for_each_task_breaks_no_promise_more_often_than_said(
    tasks: int, share: float, fooled: float
) -> None:
    """Every answer is a threshold of its own; right just too rarely at all, or among the highest scores."""
    assert broken_by_rank(tasks, fooled, share - 1e-9, Promise("precision", share, 0.1)) <= 0.1


def broken_by_rank(
    tasks: int, fooled: float, precision: float, promise: Promise, test: Any = last_kept
) -> float:
    """As `broken`, of scores of which no two are alike: one more task is answered at each threshold.

    Of the highest `fooled` scores all answers are right with half the chance; the precision of all is `precision`.
    """
    low, high = 0.5 * precision, (1.0 - 0.5 * fooled) * precision / (1.0 - fooled)

    def steps(place: int, before: str) -> Any:
        """Where the next answer leads from a state: the state, whether it is kept, and for which counts of wrong."""
        wrong = np.arange(place + 2)
        for name, is_kept, here in outcomes(before, tasks, promise, test):
            at = np.zeros(tasks + 1)
            at[wrong] = here[place + 1 - wrong, wrong]
            yield name, is_kept, at

    # Backwards, beyond the highest scores: how likely a threshold is kept yet, by state and wrong answers so far.
    chance = 1.0 - min(high, 1.0)
    yet: dict[int, dict[str, Any]] = {tasks: dict.fromkeys(BEFORE, np.zeros(tasks + 1))}
    for place in reversed(range(tasks)):
        yet[place] = {}
        for before in BEFORE:
            after = sum(
                at * (1.0 if kept else yet[place + 1][name]) for name, kept, at in steps(place, before)
            )
            yet[place][before] = (1.0 - chance) * after + chance * np.append(after[1:], 0.0)
    # Forwards, among the highest scores; how many these are is a binomial number.
    total = kept_before = 0.0
    states: dict[str, Any] = {"": np.eye(1, tasks + 1)[0]}
    for top, weight in enumerate(binom.pmf(np.arange(tasks + 1), tasks, fooled)):
        total += weight * (
            kept_before + sum(float(chances @ yet[top][name]) for name, chances in states.items())
        )
        after_states: dict[str, Any] = {}
        for before, chances in states.items() if top < tasks else ():
            now = low * chances + (1.0 - low) * np.roll(chances, 1)
            for name, is_kept, at in steps(top, before):
                if is_kept:
                    kept_before += float(now @ at)
                else:
                    after_states[name] = after_states.get(name, 0.0) + now * at
        states = after_states
    return float(total)


MUTANTS = {
    "delta is spent anew at each threshold": lambda trials, promise, *, tasks: (
        max(
            (i for i, trial in enumerate(trials) if last_kept([trial], promise, tasks=tasks)[0] == 0),
            default=None,
        ),
        [],
    ),
    "the half is spent twice": lambda trials, promise, *, tasks: last_kept(
        trials, replace(promise, delta=min(2.5 * promise.delta, 0.9)), tasks=tasks
    ),
    "one wrong answer is not counted": lambda trials, promise, *, tasks: last_kept(
        [(answered, max(wrong - 1, 0)) for answered, wrong in trials], promise, tasks=tasks
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_test_that_promises_too_much_is_caught(mutant: Any) -> None:
    """The same enumeration, of tests that are wrong."""
    promise = Promise("precision", 0.8, 0.1)
    assert max(broken(60, levels, promise, mutant) for levels in of_levels(0.8).values()) > 0.1


def test_so_many_tasks_certify_it_were_all_of_them_right() -> None:
    """22 for .9 at .1 (.9^22 < .1), 21 do not; and the first test waits for as many answers."""
    promise = Promise()
    assert fewest_tasks(promise) == 22
    for tasks, place in ((21, None), (22, 0)):
        assert last_kept([(tasks, 0)], promise, tasks=tasks)[0] == place
    assert last_kept([(1, 1), (21, 0), (50, 0)], promise, tasks=50) == (2, [1.0, 1.0, pytest.approx(0.9**50)])
    assert (starts(promise, 40), starts(promise, 200)) == ({22: 0.1}, {29: 0.05, 100: 0.05})


def test_a_threshold_that_fails_ends_the_sequence_or_a_half_of_it() -> None:
    """What follows it is not even asked for once half of the tasks are answered; before, the other half is to come."""
    asked: list[tuple[int, int]] = []

    def trials(*each: tuple[int, int]) -> Any:
        asked.clear()
        for trial in each:
            asked.append(trial)
            yield trial

    assert last_kept(trials((30, 0), (60, 9), (100, 0)), Promise(), tasks=100)[0] == 0
    assert asked == [(30, 0), (60, 9)]
    assert last_kept(trials((30, 9), (40, 9), (100, 3)), Promise(), tasks=100)[0] == 2
    assert len(asked) == 3


def test_a_part_of_delta_is_spent_once() -> None:
    """Also where a threshold answers fewer tasks than a stricter one, as no rule of ours does."""
    assert last_kept([(30, 9), (20, 0), (31, 0)], Promise(), tasks=200)[0] is None


def test_a_share_that_floats_cannot_tell_from_1_is_refused() -> None:
    """Rather than to divide by nothing."""
    with pytest.raises(ConfigError, match="too near to 0 or 1"):
        Promise("precision", 1e-17)


@pytest.mark.parametrize("name", ["share", "delta"])
@pytest.mark.parametrize("value", [0.0, 1.0, 2.0])
def test_nothing_is_promised_for_certain(name: str, value: float) -> None:
    """A share and a chance lie between 0 and 1."""
    with pytest.raises(ConfigError, match=name):
        Promise(**{name: value})
