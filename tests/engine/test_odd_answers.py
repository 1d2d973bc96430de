"""What parts give back at their oddest: it fails their own task, is recorded and read again, and ends nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from draftverify import (
    PASS,
    REJECT,
    Budget,
    Check,
    ContractError,
    Cost,
    Decision,
    Evidence,
    Failure,
    Outcome,
    Pipeline,
    Proposal,
    Task,
    TaskRecord,
    Verification,
    retry,
    reverify,
)
from draftverify.bench.records.encoding import decode, encode
from draftverify.rules import All, Limit, LongestPrefix
from draftverify.traits import VerifierTraits


class Says:
    """A part whose one method is a function."""

    traits = (VerifierTraits(provides={"verdicts", "cross"}),)

    def __init__(self, **methods: Any) -> None:
        vars(self).update(methods)


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("it has no words")


class Unshowable:
    def __iter__(self):
        raise ValueError(self)

    def __repr__(self):
        raise Unspeakable


def passes(context, proposal):
    return Verification(checks=(PASS,) * len(proposal))


def two(context, n):
    return Proposal.alternatives((1, 2)[:n])


def pipeline(propose=two, verify=passes, rule=None, block=2, **more: Any) -> Pipeline:
    return Pipeline(Says(propose=propose), Says(verify=verify), rule or All(), block=block, **more)


def gives(value):
    return lambda *_: value


def keeping(**more):
    decision = Decision(kept=(0,), done=True, **more)
    return Says(decide=gives(decision))


def raises(error):
    def fail(*_):
        raise error.with_traceback(None)

    return fail


def read_again(record: TaskRecord) -> TaskRecord:
    """The record, written down and read, and the same."""
    text = encode(record, "a record")
    again = decode(text, TaskRecord, "a record")
    assert encode(again, "a record") == text
    return again


def nested_lists(depth):
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def holding_itself():
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("parents", [(-1, False), (-1.0, 0.0)])
def test_parents_that_are_no_whole_numbers_are_refused(parents):
    """False and 0.0 equal 0, and a record that held them could not be read again."""
    record = pipeline(gives(Proposal(items=(1, 2), parents=parents)), rule=keeping()).record("x")
    assert record.outcome.status == "failed"
    assert "is no whole number" in record.outcome.reason


@pytest.mark.parametrize("parents", [[-1, 0], np.array([-1, 0])])
def test_parents_that_equal_a_chains_are_recorded_as_one(parents):
    """Whatever they came in."""
    record = pipeline(gives(Proposal(items=(1, 2), parents=parents)), rule=keeping()).record("x")
    assert record.outcome.status == "accepted"
    assert read_again(record).rounds[0].parents == (-1, 0)


@pytest.mark.parametrize(
    "propose",
    [
        gives(Failure("odd", "x", "y")),  # type: ignore[arg-type]
        gives(Failure("error", "x", None)),  # type: ignore[arg-type]
        gives(Proposal(items=Unshowable(), parents=(-1,))),  # type: ignore[arg-type]
        gives(Unshowable()),
        gives(Proposal.alternatives((nested_lists(400),))),
        gives(Proposal.alternatives((holding_itself(),))),
        gives(Proposal.alternatives((1,), cost=Cost(amount=1.7e308))),
        gives(Proposal.alternatives((1,), cost=Cost(seconds=10**400))),
        gives(Proposal.alternatives((1,), cost=Cost(amount=True))),
        raises(Unspeakable()),
        raises(ValueError("\ud800")),
    ],
)
def test_no_proposal_and_no_error_is_too_odd_for_a_failure(propose):
    """What cannot be shown, said, summed or gone through is a failure of the task, which is recorded."""
    record = pipeline(propose).record("x")
    assert record.outcome.status == "failed"
    read_again(record)


def test_a_block_size_whose_error_has_no_words_fails_its_task():
    """The words of an error are asked for with as little trust as all else."""
    block: Any = Says(size=raises(Unspeakable()), observe=gives(None))
    assert pipeline(block=block).run("x").status == "failed"


@pytest.mark.parametrize(
    "item", [10**400, np.longdouble(1), "\ud800", {"\ud800": 1}, np.array({1: 2}, dtype=object)]
)
def test_what_no_record_can_hold_is_said_so(item):
    """The task runs, and its record is refused in words that name the place."""
    record = pipeline(gives(Proposal.alternatives((item,)))).record("x")
    assert record.outcome.status == "accepted"
    with pytest.raises(ContractError, match=r"a record, outcome\[0\]"):
        encode(record, "a record")


def test_arrays_of_objects_and_of_values_are_read_as_tuples():
    """What joins the accepted values live is what a resumed task finds there."""
    items = np.empty(2, dtype=object)
    items[:] = [(1, 2), {"a": (3,)}]
    assert pipeline(gives(Proposal.alternatives(items))).run("x").value == ([1, 2], {"a": [3]})
    outcome = pipeline(rule=keeping(spliced=np.array([4, 5]))).run("x")
    assert [type(value) for value in outcome.value] == [int, int, int]
    corrected = gives(Verification(checks=(REJECT,), correction=np.array([7, 8])))  # type: ignore[arg-type]
    chain = pipeline(gives(Proposal.chain((1,))), corrected, LongestPrefix(), block=1, done=Limit(2))
    assert read_again(chain.record("x")).rounds[0].correction == (7, 8)


def test_a_nested_record_that_cannot_be_read_again_is_refused():
    """A drafter that makes inner records by hand may make them wrong."""
    odd = TaskRecord(task=5, outcome=Outcome(status="nope"))  # type: ignore[arg-type]
    record = pipeline(gives(Proposal.alternatives((1,), nested=(odd,)))).record("x")
    assert record.outcome.status == "failed"
    assert "cannot be read again" in record.outcome.reason
    read_again(record)


def test_nested_records_may_come_from_a_generator():
    """They are gone through once, and kept."""
    inner = (TaskRecord(task=name, outcome=Outcome(status="accepted")) for name in "ab")
    record = pipeline(gives(Proposal.alternatives((1,), nested=inner))).record("x")  # type: ignore[arg-type]
    assert [each.task for each in read_again(record).rounds[0].nested] == ["a", "b"]


@pytest.mark.parametrize("drift", [(1e308, 1e308), (-0.5,), (float("nan"),)])
def test_drift_is_a_distance_between_distributions(drift):
    """It lies between 0 and 1, so that its sum is a number too."""
    assert pipeline(rule=keeping(drift=drift)).run("x").status == "failed"


@pytest.mark.parametrize("said", [0, "no", None, 1.5])
def test_deterministic_is_true_or_false(said):
    """Any other word in a record could not be read again."""
    verify = gives(Verification(checks=(PASS, PASS), deterministic=said))
    record = pipeline(verify=verify).record("x")
    assert record.outcome.status == "failed"
    read_again(record)


@pytest.mark.parametrize(("group", "given"), [(7, {}), ("", None)])
def test_a_prepared_task_can_be_recorded(group, given):
    """Its group is a text, and its input a mapping."""
    verifier: Any = Says(verify=passes, prepare=lambda task: Task(id=task.id, input=given, group=group))
    record = Pipeline(Says(propose=two), verifier, All()).record("x")
    assert record.outcome.status == "failed"
    read_again(record)


def test_checks_made_again_that_do_not_come_are_a_failure():
    """A verifier that gave checks, and evidence alone when it was asked again, fails its own task."""
    answers = iter(
        [
            Verification(checks=(Check("error"),) * 2),
            Verification(evidence=Evidence(cross=np.zeros((2, 1)))),
        ]
    )
    judged = pipeline(verify=lambda context, proposal: next(answers), policy=reverify())
    outcome = judged.run("x")
    assert (outcome.status, outcome.failure.error) == ("failed", "ContractError")


class Closing:
    def close(self):
        raise RuntimeError("it sticks")


@pytest.mark.parametrize("entry", [Closing(), Closing])
def test_scratch_that_cannot_be_closed_ends_nothing(entry):
    """A cache is never expected: the task has its outcome, and so have the others of its batch."""

    def propose(context, n):
        context.scratch["cache"] = entry
        return two(context, n)

    assert [outcome.value for outcome in pipeline(propose).run(["a", "b"])] == [(1, 2), (1, 2)]


class Lying:
    """It says that it has two entries, has one, and is no Sequence."""

    def __len__(self):
        return 2

    def __iter__(self):
        return iter([1])


class Raising(list):
    def __iter__(self):
        raise ValueError("no")


@pytest.mark.parametrize("said", [Lying(), Raising("ab"), {1: 2, 3: 4}, np.zeros((2, 2)), range(5), 7])
def test_a_batch_answer_that_is_no_list_is_asked_for_one_by_one(said):
    """Whatever a call for many gives back, each task still gets its own answer."""
    generator: Any = Says(propose=two, propose_many=gives(said))
    batch = Pipeline(generator, Says(verify=passes), All(), block=2)
    assert [outcome.status for outcome in batch.run(["a", "b"])] == ["accepted", "accepted"]


def test_a_generator_may_have_a_method_of_any_name():
    """Only a Pipeline is nested: a drafter of trees may well `expand` and `gather`."""
    generator: Any = Says(propose=two, expand=gives(None), gather=gives(None))
    assert Pipeline(generator, Says(verify=passes), All()).run("x").status == "accepted"


def test_an_inner_task_that_ends_at_once_costs_no_stack():
    """Its parent may go on for as many rounds as its budget has."""
    inner = pipeline(block=Says(size=raises(ValueError("no")), observe=gives(None)))  # type: ignore[arg-type]
    policy, budget = retry(None), Budget(rounds=2000)
    outer = Pipeline(inner, Says(verify=passes), All(), policy=policy, budget=budget)
    assert outer.run("x").rounds == 2000


def test_what_was_refused_stays_refused_while_drafts_fail():
    """After a partial clause a failed call does not bring back the items that were accepted."""
    seen: list[tuple[Any, ...]] = []

    def propose(context, n):
        seen.append(context.refused)
        if len(seen) == 2:
            raise ConnectionError("down")
        return Proposal.alternatives(context.refused or tuple(range(n)))

    def verify(context, proposal):
        good = [item % 2 == 0 or len(seen) > 1 for item in proposal.items]
        return Verification(checks=tuple(PASS if each else REJECT for each in good))

    outcome = pipeline(propose, verify, block=4, done=Limit(4), policy=retry(3, partial=True)).run("x")
    assert outcome.value == (0, 2, 1, 3)
    assert seen == [(), (1, 3), (1, 3)]
