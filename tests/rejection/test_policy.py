"""The policy: ordered clauses, each for its troubles and so often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Clause, PipelineError, Policy, escalate, fallback, feedback, give_up, retry, reverify
from draftverify.rejection.policy import TROUBLES


def test_combinators_build_plain_data():
    """`then` joins clauses; a policy equals another of the same clauses."""
    other = object()
    policy = retry(2).then(feedback(3)).then(fallback(other)).then(escalate())
    assert [(c.do, c.times) for c in policy.clauses] == [
        ("regenerate", 2),
        ("feedback", 3),
        ("fallback", 1),
        ("escalate", 1),
    ]
    assert retry(2).then(give_up()) == Policy((Clause(do="regenerate", times=2), Clause(do="give_up")))


def test_the_first_clause_that_answers_is_taken_until_it_is_used_up():
    """Order decides, not the order of troubles."""
    policy = retry(2, on=["reject"]).then(reverify(1)).then(give_up())
    assert policy.next(["error", "reject"], [0, 0, 0], reverifiable=True) == 0
    assert policy.next(["error", "reject"], [2, 0, 0], reverifiable=True) == 1
    assert policy.next(["error"], [0, 0, 0], reverifiable=False) == 2
    assert policy.next(["reject"], [2, 0, 1], reverifiable=True) is None


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(TROUBLES)), st.none() | st.integers(1, 3), st.integers(0, 4)),
        max_size=5,
    ),
    st.sets(st.sampled_from(TROUBLES), min_size=1),
)
def test_the_clause_taken_answers_a_trouble_and_has_uses_left(clauses, troubles):
    """Whatever the policy: the choice fits, and no earlier clause did."""
    policy = Policy(tuple(Clause(do="regenerate", on=tuple(on), times=times) for on, times, _ in clauses))
    used = [count for _, _, count in clauses]
    place = policy.next(troubles, used, reverifiable=True)

    def answers(i):
        clause = policy.clauses[i]
        return (not clause.on or bool(troubles & set(clause.on))) and (
            clause.times is None or used[i] < clause.times
        )

    assert [i for i in range(len(clauses)) if answers(i)][:1] == ([] if place is None else [place])


@pytest.mark.parametrize(
    ("step", "answered"),
    [
        (retry(), set(TROUBLES)),
        (feedback(), {"reject"}),
        (reverify(), {"error", "timeout"}),
        (fallback(object()), set(TROUBLES)),
        (escalate(), set(TROUBLES)),
        (give_up(), set(TROUBLES)),
    ],
)
def test_a_step_answers_its_own_troubles_once_unless_it_is_told_otherwise(step, answered):
    """Feedback needs a refused item, and a check made again one that came to nothing; a fallback is for one round."""
    taken = {trouble for trouble in TROUBLES if step.next([trouble], [0], reverifiable=True) == 0}
    assert taken == answered
    (clause,) = step.clauses
    assert (clause.times, clause.rounds, clause.verified, clause.partial) == (1, 1, True, False)


def test_a_person_is_asked_only_where_there_is_something_new():
    """The step after it is taken then; where there is news it is taken however often it was before."""
    policy = escalate().then(give_up())
    assert policy.next(["reject"], [0, 0], reverifiable=False, askable=False) == 1
    assert policy.next(["reject"], [5, 0], reverifiable=False) == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Clause(do="explode"), "is no policy step"),
        (lambda: Clause(do="regenerate", on=("sadness",)), "is no trouble"),
        (lambda: Clause(do="fallback"), "needs a generator"),
        (lambda: Clause(do="escalate", generator=object()), "takes no generator"),
        (lambda: Clause(do="fallback", generator=object(), name=3), "name 3"),  # type: ignore[arg-type]
        (lambda: Clause(do="regenerate", partial="no"), "partial 'no'"),  # type: ignore[arg-type]
        (lambda: Clause(do="regenerate", verified=None), "verified None"),  # type: ignore[arg-type]
        (lambda: retry(0), "times 0; a whole number, at least 1"),
        (lambda: fallback(object(), rounds=0), "rounds 0; a whole number, at least 1"),
        (lambda: retry(True), "times True; a whole number"),
        (lambda: fallback(object(), rounds=False), "rounds False; a whole number"),
        (lambda: reverify(on=["reject"]), "a reject stands"),
        (lambda: reverify(on=["error", "exhausted"]), "nothing was checked"),
        (lambda: fallback(object(), name="person"), "cannot be named"),
        (lambda: fallback(object(), name="generator"), "cannot be named"),
    ],
)
def test_a_clause_that_means_nothing_is_refused(make, words):
    """The message names the clause and what is wrong with it."""
    with pytest.raises(PipelineError, match=words):
        make()
