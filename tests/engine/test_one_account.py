"""One account of a task: the live state is what the records say, and what the policy does is what its page says."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from draftverify import (
    Budget,
    Check,
    ConfigError,
    Context,
    Outcome,
    Pipeline,
    Policy,
    Proposal,
    Task,
    TaskRecord,
    Verification,
    escalate,
    fallback,
    feedback,
    generator,
    give_up,
    retry,
    reverify,
    verifier,
)
from draftverify.bench.monitors import Monitor, after_alarm
from draftverify.bench.records import timeless
from draftverify.bench.records.encoding import decode, encode
from draftverify.checks.metrics import score
from draftverify.engine.drivers import drive
from draftverify.engine.requests import Answer, Ask
from draftverify.engine.scheduler import Scheduler
from draftverify.engine.session import Session
from draftverify.rules import All, First, LongestPrefix, Majority, Rounds
from draftverify.traits import VerifierTraits

from .parts import Blocks, Judge


def taken_up(pipeline: Pipeline, record: TaskRecord, ask: Any = None) -> Iterator[TaskRecord]:
    """The task taken up again after each of its rounds, as read from JSON."""
    restored = decode(encode(record, ""), TaskRecord, "")
    for place in range(len(restored.rounds)):
        yield pipeline.record(Task(id=record.task), ask=ask, restore=restored.rounds[:place])


def assert_restores(pipeline: Pipeline, record: TaskRecord, ask: Any = None) -> None:
    live = timeless(decode(encode(record, ""), TaskRecord, ""))
    for again in taken_up(pipeline, record, ask):
        assert timeless(decode(encode(again, ""), TaskRecord, "")) == live


class Rechecks:
    """Gives the verdicts of a table by round and pass; an exception among them is raised."""

    traits = VerifierTraits(provides={"verdicts", "scores"})

    def __init__(self, *rounds: list[Any], deterministic: bool = True) -> None:
        self.rounds = rounds
        self.shown: list[tuple[int, tuple[Any, ...]]] = []
        self.first_is_chance = not deterministic

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        passes = context.scratch.setdefault(("passes", context.round), [])
        self.shown.append((context.round, tuple(proposal.items)))
        passes.append(None)
        verdicts = self.rounds[context.round][len(passes) - 1]
        if isinstance(verdicts, Exception):
            raise verdicts
        checks = tuple([one if isinstance(one, Check) else Check(one) for one in verdicts])
        return Verification(checks=checks, deterministic=not (self.first_is_chance and len(passes) == 1))


DEAD = ConnectionError("the server is gone")


def test_a_recheck_that_fails_as_a_call_leaves_what_had_passed():
    """The kept item stays accepted once, live and taken up again."""
    judge = Rechecks([["pass", "error"], DEAD], [["pass", "pass"]])
    policy = reverify(partial=True).then(retry(1))
    blocks = Blocks(("a0", "b0"), ("a1", "b1"))
    pipeline = Pipeline(blocks, judge, All(), policy=policy, block=2, done=Rounds(2))
    record = pipeline.record(Task(id="0"))
    assert record.outcome.value == ("a0", "a1", "b1")
    assert [round.decision.emitted for round in record.rounds] == [("a0",), ("a1", "b1")]
    words = Check("error", reason="ConnectionError", feedback="the server is gone")
    assert record.rounds[0].checks == (Check("pass"), words)
    assert_restores(pipeline, record)


def test_a_recheck_that_fails_as_a_call_does_not_fail_the_task():
    """The task that is accepted without the clause is accepted with it."""
    for policy in (Policy(), reverify(partial=True)):
        judge = Rechecks([["pass", "error"], DEAD], [["pass"]])
        pipeline = Pipeline(Blocks(("a", "b"), ("c",)), judge, All(), policy=policy, block=2, done=Rounds(2))
        outcome = pipeline.run("")
        assert (outcome.status, outcome.value) == ("accepted", ("a", "c"))


def test_of_a_chain_the_whole_block_is_checked_again_and_keeps_its_prefix_when_that_fails():
    """The verifier is shown the whole block; where the pass fails as a call the first one stands."""
    blocks = Blocks(Proposal.chain(("a", "b", "c")), Proposal.chain(("d",)))
    for second, value in ((["pass", "pass", "reject"], ("a", "b", "d")), (DEAD, ("a", "d"))):
        judge = Rechecks([["pass", "error", "unchecked"], second], [["pass"]])
        policy = reverify(partial=True)
        pipeline = Pipeline(blocks, judge, LongestPrefix(), policy=policy, block=3, done=Rounds(2))
        record = pipeline.record(Task(id="0"))
        assert judge.shown[:2] == [(0, ("a", "b", "c"))] * 2
        assert record.outcome.value == value
        assert_restores(pipeline, record)


def test_a_round_that_was_checked_again_is_as_deterministic_as_both_passes():
    """A first pass left to chance stays one, of alternatives and of a chain."""
    for rule, make in ((All(), Proposal.alternatives), (LongestPrefix(), Proposal.chain)):
        judge = Rechecks([["error"], ["pass"]], deterministic=False)
        pipeline = Pipeline(Blocks(make(("a",))), judge, rule, policy=reverify(), done=Rounds(1))
        assert pipeline.record("").rounds[0].deterministic is False
    blocks = Blocks(Proposal.chain(("a", "b")))
    judge = Rechecks([["error", "pass"], ["pass", "pass"]], deterministic=False)
    chain = Pipeline(blocks, judge, LongestPrefix(), policy=reverify(), block=2, done=Rounds(1))
    assert chain.record("").rounds[0].deterministic is False


def test_the_last_round_is_shown_alike_live_and_restored():
    """But for arrays, parts see the same last round whether or not the task was taken up again in between."""
    seen: list[Any] = []

    def draft(context: Context, n: int) -> list[str]:
        last = context.last
        seen.append(last and (last.proposal.items, last.verification.deterministic, last.decision))
        return [f"{context.round}"]

    def judge(context: Context, proposal: Proposal) -> Verification:
        return Verification(checks=(Check("reject"),), deterministic=context.round != 0)

    part = type("Part", (), {"verify": lambda self, context, proposal: judge(context, proposal)})()
    pipeline = Pipeline(generator(draft), part, First(), policy=retry(2))
    record = pipeline.record(Task(id="0"))
    live = seen[:]
    for place in range(1, 3):
        seen.clear()
        pipeline.record(Task(id="0"), restore=record.rounds[:place])
        assert seen == live[place:]


# Nothing is shared by accident


def test_a_part_that_changes_its_input_fails_and_changes_nobody_elses():
    """The words say what to do; the other pipeline, and the user's own mapping, are as they were."""
    words = {"words": ["c", "a", "b"]}
    task = Task(id="0", input=words)
    sorts = verifier(lambda context, item: context.task.input["words"].sort() is None)
    outcome = Pipeline(generator(lambda context, n: ["x"]), sorts, First()).run(task)
    assert outcome.status == "failed"
    assert "copy.deepcopy" in outcome.reason
    other = generator(lambda context, n: [" ".join(context.task.input["words"])])
    assert Pipeline(other, verifier(lambda context, item: True), First()).run(task).value == "c a b"
    words["words"].append("d")
    assert task.input == {"words": ["c", "a", "b"]}


def test_a_verifier_that_edits_an_item_does_not_rewrite_the_draft():
    """The drafted item is in the record as it was drafted, also where the generator keeps its hands on it."""
    mine = {"answer": [1]}

    def edit(context: Context, item: Any) -> bool:
        mine["answer"].append(2)
        item["answer"].append(3)
        return True

    record = Pipeline(generator(lambda context, n: [mine]), verifier(edit), First()).record("")
    assert record.rounds[0].items == ({"answer": [1]},)
    assert record.outcome.status == "failed"
    assert record.outcome.failure.error == "TypeError"


def test_settings_restored_items_and_notes_are_frozen_too():
    """Whatever a part can reach of what others read refuses to be changed; arrays are read-only."""
    reached: list[Any] = []

    class Reads:
        traits = VerifierTraits(reads={"schema"})

        def verify(self, context: Context, proposal: Proposal) -> Verification:
            reached.extend([context.settings["schema"], context.task.input["array"], *proposal.items])
            if context.last is not None:
                reached.extend([context.last.proposal.items[0], context.last.verification.notes])
                reached.append(context.rounds[-1].items[0])
            return Verification(checks=(Check("reject"),), notes={"order": [1]})

    inner = {"schema": {"type": "object"}}
    draft = generator(lambda context, n: [{"round": context.round}], reads=[])
    pipeline = Pipeline(draft, Reads(), First(), policy=retry(1), settings=inner)
    task = Task(id="0", input={"array": np.arange(3)})
    record = pipeline.record(task)
    restored = decode(encode(record, ""), TaskRecord, "")
    pipeline.record(task, restore=restored.rounds[:1])
    assert len(reached) == 15
    for value in reached:
        with pytest.raises((TypeError, ValueError)):
            value[0] = "changed"
    assert inner == {"schema": {"type": "object"}}


def test_what_a_user_is_handed_is_the_users():
    """The value and the refused candidate are ordinary lists and dicts."""
    good = Pipeline(generator(lambda c, n: [{"a": [1]}]), verifier(lambda c, item: True), First()).run("")
    good.value["a"].append(2)
    bad = Pipeline(generator(lambda c, n: [{"a": [1]}]), verifier(lambda c, item: False), First()).run("")
    bad.refused.value["a"].append(2)
    assert (good.value, bad.refused.value) == ({"a": [1, 2]},) * 2


def test_frozen_values_read_as_lists_and_dicts_do():
    """Equality, JSON, pickle and copies: a deep copy is an ordinary value."""
    plain = {"a": [1, {"b": (2, 3)}], "c": "d"}
    frozen = Task(id="0", input=plain).input
    assert frozen == plain
    assert json.loads(json.dumps(frozen)) == json.loads(json.dumps(plain))
    assert pickle.loads(pickle.dumps(frozen)) == plain
    deep = copy.deepcopy(frozen)
    deep["a"][1]["b"] = 4
    assert (type(deep), type(deep["a"]), frozen) == (dict, list, plain)
    assert isinstance(frozen["a"], list)
    assert [*frozen["a"], 5][-1] == 5


CHANGES: list[Callable[[Any], Any]] = [
    lambda a: a["list"].append(1),
    lambda a: a["list"].extend([1]),
    lambda a: a["list"].insert(0, 1),
    lambda a: a["list"].pop(),
    lambda a: a["list"].remove(2),
    lambda a: a["list"].reverse(),
    lambda a: a["list"].sort(),
    lambda a: a["list"].clear(),
    lambda a: a["list"].__setitem__(0, 1),
    lambda a: a["list"].__delitem__(0),
    lambda a: a["list"].__iadd__([1]),
    lambda a: a["list"].__imul__(2),
    lambda a: a.__setitem__("x", 1),
    lambda a: a.__delitem__("list"),
    lambda a: a.pop("list"),
    lambda a: a.popitem(),
    lambda a: a.setdefault("x", 1),
    lambda a: a.update(x=1),
    lambda a: a.clear(),
    lambda a: a.__ior__({"x": 1}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_method_changes_a_frozen_value(change):
    """Each says that a copy is to be changed."""
    frozen = Task(id="0", input={"list": [2, 1]}).input
    with pytest.raises(TypeError, match=r"change a copy: copy\.deepcopy"):
        change(frozen)
    assert frozen == {"list": [2, 1]}


def test_an_input_that_holds_itself_is_refused():
    """With words, and not by a crash."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="nested too deep, or holds itself"):
        Task(id="0", input={"loop": loop})


def test_arrays_are_copied_and_cannot_be_written_into():
    """Neither the user's own array nor a part changes what others read, in an input or among items, pickled too."""
    mine = np.arange(3)
    task = Task(id="0", input={"a": mine, "deep": {"a": mine}})
    mine[0] = 77
    reached = [task.input["a"], task.input["deep"]["a"], pickle.loads(pickle.dumps(task)).input["a"]]

    def keep(context: Context, item: Any) -> bool:
        reached.append(item if isinstance(item, np.ndarray) else item["v"])
        return True

    for items in ([np.arange(3)], [{"v": np.arange(3)}]):
        Pipeline(generator(lambda context, n, items=items: items), verifier(keep), First()).run(task)

    class Sorts:
        def verify(self, context: Context, proposal: Proposal) -> Verification:
            reached.append(proposal.items)
            return Verification(checks=(Check("pass"),) * len(proposal))

    draft = generator(lambda context, n: Proposal.alternatives(np.arange(3)))
    Pipeline(draft, Sorts(), First(), block=3).run(task)
    assert len(reached) == 6
    for array in reached:
        assert list(array) == [0, 1, 2]
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 99


def test_tuples_of_a_class_and_sets_are_frozen_and_counters_become_dicts():
    """A named tuple stays one; what is in it cannot be changed."""
    point = namedtuple("point", "x y")
    task = Task(id="0", input={"p": point([1], 2), "s": {1}, "c": Counter("aab")})
    with pytest.raises(TypeError):
        task.input["p"].x.append(3)
    assert (task.input["p"].y, task.input["s"], task.input["c"]) == (2, frozenset({1}), {"a": 2, "b": 1})
    assert not hasattr(task.input["s"], "add")


def test_a_metric_cannot_change_what_the_next_one_reads():
    """Editing the outcome's value is that metric's own problem."""

    def edits(task: Task, outcome: Any) -> bool:
        outcome.value["words"].append("edited")
        return True

    task, outcome = Task(id="0"), Outcome(status="accepted", value={"words": ["a"]})
    assert "frozen" in score(edits, task, outcome).problem
    assert outcome.value == {"words": ["a"]}


def test_settings_that_hold_themselves_are_refused():
    """As an input that does."""
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(ConfigError, match="settings is nested too deep, or holds itself"):
        Pipeline(
            generator(lambda context, n: []), verifier(lambda context, item: True), First(), settings=loop
        )


# What the policy's page says


def asked_about(*answers: Any) -> tuple[list[Any], Callable[[Ask], Any]]:
    """What a person was asked about, and the person, who gives these answers in turn."""
    asked: list[Any] = []

    def person(request: Ask) -> Any:
        asked.append(request.candidate and request.candidate.value)
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asked, person


def test_a_person_is_asked_once_about_one_candidate():
    """A vote goes on after the answer, and the same candidate comes again: nobody is asked again."""
    asked, person = asked_about(Answer("accept"))
    same = Pipeline(
        generator(lambda context, n: ["x"]),
        verifier(lambda context, item: False),
        Majority(),
        policy=escalate(),
        budget=Budget(rounds=8),
    )
    record = same.record(Task(id="0"), ask=person)
    assert asked == ["x"]
    assert record.outcome.value == "x"
    assert_restores(same, record, ask=person)


def test_an_equal_item_at_a_later_place_is_another_candidate():
    """Once the answer was accepted, the same mistake at the next place is asked about."""
    asked, person = asked_about(Answer("edit", "good"))
    judge = Judge(lambda context, item: "pass" if item == "good" else "reject")
    blocks = Blocks(*["bad"] * 9)
    pipeline = Pipeline(blocks, judge, All(), policy=escalate(), done=Rounds(4))
    record = pipeline.record(Task(id="0"), ask=person)
    assert (asked, record.outcome.value) == (["b", "b"], ("good", "good"))
    assert_restores(pipeline, record, ask=person)


def test_an_equal_item_is_another_candidate_once_a_plain_round_was_accepted():
    """Also where the answer itself was refused, and something else was accepted since."""
    asked, person = asked_about(Answer("edit", "E"))
    judge = Judge(lambda context, item: "pass" if item == "k" else "reject")
    blocks = Blocks(*["X"] * 3, "k", *["X"] * 9)
    pipeline = Pipeline(blocks, judge, All(), policy=escalate(on=["reject"]), done=Rounds(9))
    record = pipeline.record(Task(id="0"), ask=person)
    assert asked == ["X", "E", "X", "E"]
    assert_restores(pipeline, record, ask=person)


def test_a_rule_that_fails_after_an_alarm_fails_its_task_alone():
    """The monitor has everything asked of a person; a failed call is no question."""

    class Breaks(First):
        def decide(self, context: Context, proposal: Any, verification: Any, rng: Any) -> Any:
            if context.task.id == "1":
                raise ConnectionError("gone")
            return super().decide(context, proposal, verification, rng)

    monitor = Monitor(0.99, on_alarm="escalate")
    policy = escalate(on=["abstain"])
    draft, judge = generator(lambda context, n: ["a"]), verifier(lambda context, item: True)
    pipeline = after_alarm(Pipeline(draft, judge, Breaks(), policy=policy), monitor)
    outcomes = []
    for number in range(3):
        session = Session(pipeline, Task(id=str(number)))
        for _ in drive(Scheduler([session])):
            pass
        outcomes.append(session.record().outcome)
    assert [outcome.status for outcome in outcomes] == ["waiting", "failed", "waiting"]
    assert outcomes[1].failure.error == "ConnectionError"


def test_exits_of_items_and_messages_end_nothing_but_their_task():
    """An item whose comparison exits, and an exception whose text does."""

    class Exits:
        def __eq__(self, other: object) -> bool:
            raise SystemExit

        __hash__ = None  # type: ignore[assignment]

    class Unsaid(Exception):
        def __str__(self) -> str:
            raise SystemExit

    person = asked_about(Answer("edit", Exits()), Answer("reject"))[1]
    odd = Pipeline(
        generator(lambda context, n: [Exits()]),
        verifier(lambda context, item: False),
        All(),
        policy=escalate(),
    )
    assert odd.run("", ask=person).status == "refused"

    def fail(context: Context, n: int) -> Any:
        raise Unsaid

    outcome = Pipeline(generator(fail), verifier(lambda context, item: True), First()).run("")
    assert outcome.failure.error == "Unsaid"


def test_a_person_is_asked_about_each_new_candidate_and_about_a_refused_edit():
    """The edit that the verifier refused is the next candidate; what was answered for is none any more."""
    asked, person = asked_about(Answer("edit", "better"), Answer("edit", "best"))
    judge = Judge(lambda context, item: Check("pass" if item == "best" else "reject", score=float(len(item))))
    pipeline = Pipeline(Blocks(("a long candidate",)), judge, First(), policy=escalate())
    record = pipeline.record(Task(id="0"), ask=person)
    assert asked == ["a long candidate", "better"]
    assert record.outcome.value == "best"


def test_a_person_whose_every_answer_comes_to_nothing_is_not_asked_for_ever():
    """The same edit again, or an accept that the rule declines, ends the task."""
    for answer in (Answer("edit", "same"), Answer("accept")):
        asked, person = asked_about(answer)
        judge = Judge(lambda context, item: "reject")

        class Declines(All):
            def decide(self, context: Context, proposal: Any, verification: Any, rng: Any) -> Any:
                return super().decide(context, proposal, Rejected(len(proposal)), rng)

        pipeline = Pipeline(Blocks(("a",)), judge, Declines(), policy=escalate(), done=Rounds(50))
        outcome = pipeline.run("", ask=person)
        assert asked == (["a", "same"] if answer.kind == "edit" else ["a"])
        assert outcome.status == "refused"


def Rejected(n: int) -> Verification:  # noqa: N802 - reads as a value
    return Verification(checks=(Check("reject"),) * n)


def test_candidates_that_cannot_be_compared_fail_nothing():
    """Arrays have no plain equality: each is asked about once, and the task ends as any other."""
    asked, person = asked_about(Answer("edit", np.arange(2)), Answer("edit", np.arange(2)), Answer("reject"))
    policy = escalate(partial=True)
    pipeline = Pipeline(
        generator(lambda context, n: [np.arange(3)]),
        verifier(lambda context, item: False),
        All(),
        policy=policy,
    )
    assert pipeline.run("", ask=person).status == "refused"
    assert len(asked) == 3


def test_after_an_answer_a_person_is_asked_without_a_candidate_once_something_was_judged():
    """Drafts fail: one question; after the answer none, until a draft was judged again."""
    asked, person = asked_about(Answer("edit", "good"))
    blocks = Blocks(DEAD, (), DEAD, ("good",), DEAD)
    judge = Judge(lambda context, item: "pass" if item == "good" else "reject")
    pipeline = Pipeline(blocks, judge, All(), policy=escalate().then(retry(1)), done=Rounds(9))
    record = pipeline.record(Task(id="0"), ask=person)
    sources = [round.source for round in record.rounds]
    assert sources == [
        "generator",
        "person",
        "generator",
        "generator",
        "generator",
        "person",
        *["generator"] * 2,
    ]
    assert asked == [None, None]


def test_a_candidate_whose_check_failed_can_be_asked_about_and_is_not_refused():
    """The person sees it; the outcome does not call it refused."""
    asked, person = asked_about(Answer("reject"))
    for judge in (Judge(lambda context, item: "error"), Rechecks([DEAD])):
        asked.clear()
        outcome = Pipeline(Blocks(("a",)), judge, First(), policy=escalate()).run("", ask=person)
        assert asked == ["a"]
        assert outcome.refused is None
    mixed = Judge(lambda context, item: "reject" if item == "a" else "timeout")
    outcome = Pipeline(Blocks(("a", "b")), mixed, First(), block=2).run("")
    assert outcome.refused.value == "a"


def test_feedback_outlives_a_round_that_failed_and_the_step_is_given_back():
    """The next draft is told the same, and the feedback clause can be taken once more."""
    told: list[Any] = []

    def draft(context: Context, n: int) -> list[str]:
        told.append([entry.item for entry in context.feedback])
        if context.round == 1:
            raise DEAD
        return [f"draft {context.round}"]

    policy = feedback(1).then(retry(2, on=["error"]))
    pipeline = Pipeline(generator(draft), verifier(lambda context, item: False), First(), policy=policy)
    record = pipeline.record(Task(id="0"))
    assert told == [[], ["draft 0"], ["draft 0"], ["draft 2"]]
    steps = [[step.do for step in round.steps] for round in record.rounds]
    assert steps == [["feedback"], ["regenerate"], ["feedback"], []]
    assert_restores(pipeline, record)


def test_feedback_that_answers_errors_too_is_not_given_back_to_itself():
    """A server that stays dead ends the task after the clause's own count."""
    judge = Rechecks([["reject"]], *[[DEAD]] * 9)
    blocks = Blocks(*["a"] * 10)
    record = Pipeline(blocks, judge, First(), policy=feedback(3, on=[])).record("")
    assert len(record.rounds) == 4


def test_refused_items_stay_known_whatever_step_comes_next():
    """A retry of the refused items that brings nothing is followed by another step: it drafts them, and not a new
    block."""
    shown: list[Any] = []

    def draft(context: Context, n: int) -> list[str]:
        shown.append((n, context.refused))
        return [f"{'abc'[place]}{context.round}" for place in range(n)]

    judge = Judge(lambda context, item: "pass" if item[0] == "a" and context.round in (0, 3) else "reject")
    policy = retry(1, partial=True).then(feedback(1)).then(retry(1))
    record = Pipeline(generator(draft), judge, All(), policy=policy, block=3, done=Rounds(4)).record("")
    assert shown == [(3, ()), (2, ("b0", "c0")), (2, ("a1", "b1")), (2, ("a2", "b2"))]
    assert record.outcome.value == ("a0", "a3")


def test_of_equal_refused_items_an_answer_takes_the_last():
    """What is left to be drafted again are the ones before it."""
    left: list[Any] = []

    def draft(context: Context, n: int) -> list[Any]:
        left.append(context.refused)
        return ["kept", 1, True, 1.0] if context.round == 0 else []

    judge = Judge(lambda context, item: "pass" if item == "kept" else "reject")
    policy = escalate(on=["reject"], partial=True)
    asked, person = asked_about(Answer("accept"))
    Pipeline(generator(draft), judge, All(), policy=policy, block=4, done=Rounds(3)).run("", ask=person)
    assert [list(map(type, asked)), list(map(type, left[1]))] == [[float], [int, bool]]


def test_a_function_verifier_that_crashes_leaves_its_failure():
    """The reason and the failure name the exception."""
    outcome = Pipeline(
        generator(lambda context, n: [0]), verifier(lambda context, item: 1 / item), First()
    ).run("")
    assert (outcome.status, outcome.failure.error) == ("failed", "ZeroDivisionError")
    assert outcome.reason == "checks failed: ZeroDivisionError: division by zero"


def test_no_memory_address_stands_in_a_record():
    """Not in what is said of a wrong value, an exception's message, its traceback or a check's words."""

    class Odd:
        pass

    def crash(context: Context, item: Any) -> Any:
        if context.round == 0:
            words = "expected 0x90 at 0x1F, got 0x91 at 0x20"
            return Check("reject", reason=f"not {Odd()}", feedback=f"{Odd()}: {words}")
        if context.round == 1:
            return Odd()
        raise ValueError(Odd())

    pipeline = Pipeline(
        generator(lambda context, n: ["x"]),
        verifier(crash),
        First(),
        policy=retry(1).then(feedback(1, on=[])),
    )
    record = encode(pipeline.record(""), "")
    assert "Odd object>" in record
    assert "expected 0x90 at 0x1F, got 0x91 at 0x20" in record
    assert not re.search("0x[0-9a-f]{8}", record)


def test_giving_up_beside_accepted_items_keeps_them():
    """The value is what was accepted before the step."""
    judge = Rechecks([["pass", "reject"]])
    pipeline = Pipeline(
        Blocks(("a", "b")), judge, All(), policy=give_up(partial=True), block=2, done=Rounds(5)
    )
    outcome = pipeline.run("")
    assert (outcome.status, outcome.value) == ("refused", ("a",))


def test_a_fallback_goes_on_when_another_step_is_taken_meanwhile():
    """Failed drafts of it count among its rounds."""
    drafts = iter(["raise", "f1", "f2"])

    def other(context: Context, n: int) -> list[str]:
        draft = next(drafts)
        if draft == "raise":
            raise DEAD
        return [draft]

    policy = fallback(generator(other), rounds=3, on=["reject"]).then(retry(3))
    record = Pipeline(Blocks(*["g"] * 9), Judge(lambda c, i: "reject"), First(), policy=policy).record("")
    assert [round.source for round in record.rounds] == ["generator", *["fallback"] * 3, "generator"]
