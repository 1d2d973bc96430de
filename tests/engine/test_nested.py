"""Pipelines in pipelines: inner tasks are sessions of the same pool and leak nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from draftverify import (
    Answer,
    Budget,
    Check,
    ConfigError,
    Cost,
    Pipeline,
    Proposal,
    Task,
    Verification,
    escalate,
    feedback,
    generator,
    retry,
    verifier,
)
from draftverify.bench.records import timeless
from draftverify.rules import All, Best, First, Limit, LongestPrefix, Rounds
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import TaskRecord


class Letters:
    """Drafts the next letters of a word, some of them wrong; says what it was shown."""

    traits = GeneratorTraits(shape="chain", reads={"temperature", "top_k"})

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.seen: list[tuple[object, ...]] = []

    def propose(self, context, n):
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts, ns):
        self.calls.append(len(contexts))
        self.seen += [(dict(context.settings), context.feedback) for context in contexts]
        return [
            Proposal.chain(
                ["abcdefgh"[len(c.accepted) + i] if c.draws.uniform(i) < 0.7 else "?" for i in range(n)],
                cost=Cost(amount=1.0),
            )
            for c, n in zip(contexts, ns, strict=True)
        ]


class Alphabet:
    """Checks letters in one pass, and has the right one in the place of a wrong one."""

    traits = VerifierTraits(reads=frozenset[str]())

    def __init__(self) -> None:
        self.calls: list[int] = []

    def verify(self, context, proposal):
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts, proposals):
        self.calls.append(len(contexts))
        found = []
        for context, proposal in zip(contexts, proposals, strict=True):
            right = "abcdefgh"[len(context.accepted) :]
            checks = [
                Check("pass") if item == right[i] else Check("reject", correction=right[i].upper())
                for i, item in enumerate(proposal.items)
            ]
            found.append(Verification(checks=tuple(checks), cost=Cost(amount=1.0)))
        return found


def speculative(**more) -> Pipeline:
    """Four letters, drafted two at a time."""
    return Pipeline(Letters(), Alphabet(), LongestPrefix(), block=2, done=Limit(4), name="inner", **more)


def small(context, item):
    """The fewer corrections the better."""
    return Check("pass", score=-float(sum(letter.isupper() for letter in item)))


def best_of(inner: Pipeline, n: int = 4, **more) -> Pipeline:
    return Pipeline(inner, verifier(small, scores=True, reads=()), Best(), block=n, name="outer", **more)


def test_samples_that_decode_speculatively_share_one_batch():
    """Best of four over three tasks: each pass of the inner parts serves all twelve inner tasks, and records nest."""
    inner = speculative()
    records = best_of(inner).record([Task(id=str(i)) for i in range(3)])
    assert inner.generator.calls[0] == inner.verifier.calls[0] == 12
    for record in records:
        (round,) = record.rounds
        assert [one.task for one in round.nested] == [f"{record.task}/0.{i}" for i in range(4)]
        values = [one.outcome.value for one in round.nested]
        assert list(round.items) == [list(value) for value in values]
        assert record.outcome.score == max(small(None, value).score for value in values)
        assert any(one.rounds[0].decision.corrected for one in round.nested)
    alone = [best_of(speculative()).record(Task(id=str(i))) for i in range(3)]
    assert [timeless(record) for record in records] == [timeless(record) for record in alone]


def test_what_inner_tasks_cost_the_outer_task_paid():
    """Units of inner parts are the outer task's, and its budget bounds them: each inner task has its share."""
    record = best_of(speculative()).record("x")
    inside = sum(one.outcome.cost for one in record.rounds[0].nested)
    assert record.outcome.cost == inside > 8
    short = best_of(speculative(), budget=Budget(cost=8.0)).record("x")
    nested = short.rounds[0].nested
    assert all(one.outcome.cost <= 3.0 for one in nested)  # a share of 2, and the call that was under way
    assert {one.outcome.status for one in nested} == {"refused"}
    assert "share of the outer budget" in nested[0].outcome.reason
    assert short.outcome.status == "refused"


def test_settings_and_feedback_reach_the_inner_generator():
    """The inner pipeline's own settings come first; what was said of refused items is inherited."""
    inner = speculative(settings={"temperature": 0.2})
    pipeline = Pipeline(
        inner,
        verifier(lambda c, item: Check("reject", reason="long", feedback="make it short")),
        First(),
        policy=feedback(1),
        settings={"temperature": 0.9, "top_k": 5},
    )
    pipeline.run("x")
    first, last = inner.generator.seen[0], inner.generator.seen[-1]
    assert first == ({"temperature": 0.2, "top_k": 5}, ())
    assert [said.feedback for said in last[1]] == ["make it short"]


def test_settings_that_an_inner_part_cannot_read_are_refused_when_built():
    """The check goes down to the innermost parts."""

    class Picky(Letters):
        traits = replace(Letters.traits, reads={"warmth"})

        def check_settings(self, settings):
            if "warmth" in settings:
                raise ConfigError("there is no such setting", path="settings.warmth")

    inner = Pipeline(Picky(), Alphabet(), LongestPrefix())
    with pytest.raises(ConfigError, match="warmth"):
        best_of(inner, settings={"warmth": 1})


def test_an_inner_part_that_reads_a_setting_of_the_outer_pipeline_is_enough():
    """Settings are inherited, so one of the outer pipeline may be for inner parts alone; one for nobody is refused."""
    best_of(speculative(), settings={"top_k": 3})
    with pytest.raises(ConfigError, match=r"settings\.topk: no part .* did you mean top_k\?"):
        best_of(speculative(), settings={"topk": 3})
    with pytest.raises(ConfigError, match="no part"):
        speculative(settings={"n": 1})


def asking(policy=None) -> Pipeline:
    """Every inner task asks a person about its item."""
    inner = Pipeline(
        generator(lambda c, n: [c.task.id]),
        verifier(lambda c, item: False),
        First(),
        policy=escalate(),
        name="asking",
    )
    return Pipeline(inner, verifier(lambda c, item: True), All(), block=2, policy=policy)


def test_an_inner_task_asks_the_outer_tasks_person():
    """The person's word on an inner item is a verification that the inner rule decides on."""
    asked = []

    def person(request):
        asked.append(request.task.id)
        return Answer("accept")

    record = asking().record(Task(id="t"), ask=person)
    assert asked == ["t/0.0", "t/0.1"]
    assert record.outcome.value == ("t/0.0", "t/0.1")
    assert {one.rounds[-1].by for one in record.rounds[0].nested} == {"person"}


def test_a_task_waits_while_an_inner_one_waits_and_goes_on_from_there():
    """Inner records are kept with the waiting task, through JSON too; nothing is drafted or asked twice."""
    pipeline, answers = asking(), {"t/0.0": Answer("accept")}
    waiting = pipeline.record(Task(id="t"), ask=lambda request: answers.get(request.task.id))
    assert waiting.outcome.status == "waiting"
    assert {one.task: one.outcome.status for one in waiting.inner} == {
        "t/0.0": "accepted",
        "t/0.1": "waiting",
    }
    kept = msgspec.json.decode(msgspec.json.encode(waiting), type=TaskRecord)
    asked = []

    def person(request):
        asked.append(request.task.id)
        return Answer("edit", "edited")

    pipeline.generator.verifier = verifier(lambda c, item: True)
    record = pipeline.record(Task(id="t"), ask=person, restore=kept.rounds, inner=kept.inner)
    assert asked == ["t/0.1"]
    assert record.outcome.value == ("t/0.0", "edited")
    assert record.rounds[0].nested[0] == kept.inner[0]


def test_inner_failures_are_the_outer_policys():
    """One inner task that fails is an item less; when all fail, the outer policy hears of an error."""

    def flaky(context, n):
        if context.task.id.endswith(("0.1", "1.0", "1.1")):
            raise OSError("the model is away")
        return ["an item"]

    inner = Pipeline(generator(flaky), verifier(lambda c, item: True), First())
    pipeline = Pipeline(
        inner, verifier(lambda c, item: True), All(), block=2, done=Rounds(3), policy=retry(1)
    )
    record = pipeline.record("x")
    assert [len(round.items) for round in record.rounds] == [1, 0, 2]
    assert record.rounds[1].failure is not None
    assert "all 2 inner tasks of pipeline failed" in record.rounds[1].failure.message
    assert record.rounds[1].steps[0].on == "error"


def test_pipelines_nest_to_any_depth_under_every_driver():
    """Three pipelines in one another: the same records alone, in a batch, and under asyncio."""
    middle = Pipeline(speculative(), verifier(small, scores=True), Best(), block=2)
    pipeline = best_of(middle, 3)
    tasks = [Task(id=str(i)) for i in range(4)]
    alone = [timeless(pipeline.record(task)) for task in tasks]
    assert [timeless(record) for record in pipeline.record(tasks, size=3)] == alone

    async def together():
        return await asyncio.gather(*[pipeline.arecord(task) for task in tasks])

    assert [timeless(record) for record in asyncio.run(together())] == alone
    inner = alone[0].rounds[0].nested[0].rounds[0].nested[0]
    assert inner.task == "0/0.0/0.0"


def test_a_pipeline_drafts_outside_a_session_too():
    """`propose` runs the inner tasks here and now, for a caller that has a context of its own."""

    class Wrapped:
        def __init__(self, inner):
            self.inner = inner

        def propose(self, context, n):
            return self.inner.propose(context, n)

    direct, wrapped = best_of(speculative()), best_of(Wrapped(speculative()))
    first, second = direct.record("x"), wrapped.record("x")
    assert first.rounds[0].items == second.rounds[0].items
    assert second.rounds[0].nested[0].outcome.value == first.rounds[0].nested[0].outcome.value


def test_an_inner_task_that_ended_is_not_run_again():
    """A person's no leaves no round: when the outer task goes on, the answer to one question is given to no other."""
    answers = {"t/0.0": Answer("reject")}
    waiting = asking().record(Task(id="t"), ask=lambda request: answers.get(request.task.id))
    assert [one.outcome.status for one in waiting.inner] == ["refused", "waiting"]
    asked = []

    def person(request):
        asked.append(request.task.id)
        return Answer("accept")

    record = asking().record(Task(id="t"), ask=person, restore=waiting.rounds, inner=waiting.inner)
    assert asked == ["t/0.1"]
    assert record.outcome.value == ("t/0.1",)
    assert record.rounds[0].nested[0] == waiting.inner[0]


def test_what_waiting_inner_tasks_cost_so_far_is_in_their_outer_task_and_counts_once():
    """Seconds and cost of two levels below are in the outcome that waits; answered, they are what they would have been
    had the person been there."""

    class Priced:
        def propose(self, context, n):
            return Proposal.alternatives([context.task.id], cost=Cost(seconds=10.0, amount=1.0))

    def nested():
        innermost = Pipeline(Priced(), verifier(lambda c, item: False), First(), policy=escalate())
        inner = Pipeline(innermost, verifier(lambda c, item: True), First(), block=1)
        return Pipeline(inner, verifier(lambda c, item: True), All(), block=2, done=Rounds(1))

    waiting = nested().record(Task(id="t"))
    assert waiting.outcome.status == "waiting"
    assert waiting.outcome.cost == 2.0
    assert waiting.outcome.seconds == pytest.approx(20.0, abs=1.0)
    assert [one.outcome.cost for one in waiting.inner] == [1.0, 1.0]
    kept = msgspec.json.decode(msgspec.json.encode(waiting), type=TaskRecord)
    again = nested().record(Task(id="t"), restore=kept.rounds, inner=kept.inner)
    assert again.outcome.cost == 2.0
    answered = nested().record(
        Task(id="t"), restore=kept.rounds, inner=kept.inner, ask=lambda request: Answer("accept")
    )
    at_once = nested().record(Task(id="t"), ask=lambda request: Answer("accept"))
    assert answered.outcome.status == "accepted"
    assert timeless(answered) == timeless(at_once)
    assert answered.outcome.cost == at_once.outcome.cost == 2.0
