"""Every field of every value that comes from outside, with values that are wrong nearly everywhere.

What is wrong fails its own task in words that name the part and the field; what passes is what a record holds. The
table of fields is the structs' own, so a new field is among them by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from draftverify import (
    ContractError,
    Decision,
    Failure,
    Outcome,
    Pipeline,
    PipelineError,
    Policy,
    Proposal,
    Round,
    Task,
    TaskRecord,
    Verification,
    escalate,
    fallback,
)
from draftverify.bench.records import timeless
from draftverify.bench.records.encoding import decode, encode
from draftverify.checks.metrics import score
from draftverify.engine import boundary
from draftverify.engine.canonical import canonical
from draftverify.engine.events import TaskDone
from draftverify.rejection import Clause
from draftverify.traits import GeneratorTraits, RuleTraits
from draftverify.values import Choice, Explanation

from .guilty import Guilty, GuiltyTogether, beside_fine_ones, cases, is_fine, person, pipeline
from .odd_values import FILLED_IN, NESTED, PART, SITES, WRONG, fields, request, said_of, spoilt

PARTS: Any = SimpleNamespace(
    declared={id(PART): GeneratorTraits(laws={"given", "iid"})}, rule_traits=RuleTraits()
)


def recorded(value: Any) -> Round | None:
    """The round that would hold what was read; None where it holds nothing of it."""
    if isinstance(value, Proposal):
        items = value.items if type(value.items) is tuple else tuple(value.items.tolist())
        return Round(
            index=0,
            items=items,
            parents=value.parents,
            law=value.law.kind,
            extends=value.extends,
            exhausted=value.exhausted,
            nested=value.nested,
        )
    if isinstance(value, Verification):
        return Round(
            index=0,
            checks=value.checks,
            correction=value.correction,
            deterministic=value.deterministic,
            notes=dict(value.notes) or None,
            by=value.by,
        )
    if isinstance(value, Decision):
        return Round(index=0, decision=value, tokens=value.tokens, items=value.items)
    if isinstance(value, Failure):
        return Round(index=0, failure=value)
    if isinstance(value, Choice):
        return Round(
            index=0,
            items=(canonical(value.value),),
            decision=Decision(spliced=(value.score, value.reason)),
        )
    return None


def must_be_read_again(value: Any) -> None:
    """A record holds it as it is; only of an item that is no JSON value it says so, and where."""
    round = recorded(value)
    if round is None:
        return
    try:
        text = encode(round, "x")
    except ContractError as error:
        assert str(error).startswith("x, "), error  # noqa: PT017
        return
    again = decode(text, Round, "x")
    assert again == round
    assert encode(again, "x") == text


@pytest.mark.parametrize(("site", "field"), fields())
def test_a_wrong_value_in_any_field_is_named_or_can_be_recorded(site: str, field: str) -> None:
    """All of them, read directly."""
    for name, make in WRONG.items():
        read = boundary.read(request(SITES[site].role), spoilt(site, field, make()), PARTS)
        where = f"{site}.{field} = {name}"
        if isinstance(read, Failure) and site != "failure":
            assert (site, field) not in FILLED_IN, where
            assert read.error == "ContractError", where
            assert read.message.startswith("Part"), where
            assert any(word in read.message for word in said_of(site, field)), f"{where}: {read.message}"
        else:
            try:
                must_be_read_again(read)
            except Exception as error:
                raise AssertionError(where) from error


@pytest.mark.parametrize("role", ["prepare", "draft", "verify", "decide", "finish", "ask"])
def test_a_wrong_answer_is_named_or_can_be_recorded(role: str) -> None:
    """The whole of it; an answer's value may be anything, and None is no answer."""
    for name, make in WRONG.items():
        wrong = make()
        read = boundary.read(request(role), wrong, PARTS)
        if isinstance(read, Failure):
            assert name == "Failure" or read.message.startswith("Part"), name
        else:
            must_be_read_again(read)


@pytest.mark.parametrize(
    ("read", "right"),
    [
        (lambda said: boundary.read_size(said, PART), int),
        (lambda said: boundary.read_drafts(said, PART), bool),
        (lambda said: boundary.read_cut(said, 2, PART) or 0, int),
        (lambda said: boundary.read_explanation(said, PART).text, str),
        (lambda said: boundary.read_explanation(wrong_cause(said), PART).cause, str),
        (lambda said: boundary.read_explanation(Explanation("bug", said), PART).text, str),
    ],
)
def test_a_wrong_number_or_word_is_named(read: Any, right: type) -> None:
    """A block size, whether to draft, how much a stopping rule keeps, and what a verifier explains."""
    for name, make in WRONG.items():
        try:
            said = read(make())
        except ContractError as error:
            said = right() if str(error).startswith("Part: ") else error
        assert type(said) is right, name


def wrong_cause(said: Any) -> Explanation:
    """An explanation with another cause."""
    return Explanation(said, "why")


@pytest.mark.parametrize("unit", [None, "s"])
def test_a_wrong_figure_of_a_metric_is_its_problem(unit: str | None) -> None:
    """It has no say then, and the words show what came."""
    for name, make in WRONG.items():

        def metric(task: Task, outcome: Outcome, make: Any = make) -> Any:
            return make()

        metric.unit = unit  # type: ignore[attr-defined]
        given = score(metric, Task(id="t"), Outcome(status="accepted"))
        assert given.value is None or type(given.value) is float, name
        assert given.value is None or math.isfinite(given.value), name
        assert given.problem or given.value is not None or name == "None", name
        assert len(given.problem) < 250, name


def test_a_batch_answer_that_leaves_the_process_fails_nobody() -> None:
    """A list for many that raises when it is gone through, or never ends, is asked for one by one."""

    class Leaving(list[Any]):
        def __iter__(self) -> Any:
            raise SystemExit(3)

    class Endless(tuple[Any, ...]):
        def __iter__(self) -> Any:
            return itertools.count()

    for said in (Leaving("ab"), Endless("ab")):
        part: Any = GuiltyTogether()
        part.propose_many = lambda contexts, counts, said=said: said
        judged = Pipeline(part, part, part, block=2)
        assert [each.value for each in judged.run(["x", "y"])] == ["a", "a"]


@pytest.mark.parametrize("said", [True, "1", 1.0, -1])
def test_of_two_stopping_rules_neither_hides_the_other_s_wrong_word(said: Any) -> None:
    """Verifier and rule bring one each: what is no number of values fails the task, whatever the other says."""

    class Stops(Guilty):
        def __init__(self, word: Any) -> None:
            self.word = word

        def done(self, context: Any, new: Any) -> Any:
            return self.word

    for words in ((said, 0), (0, said), (said, None)):
        verifier, rule = map(Stops, words)
        outcome = Pipeline(Guilty(), verifier, rule, block=2).run("x")
        assert outcome.status == "failed"
        assert "how many values to keep" in outcome.reason


def test_a_part_that_is_empty_is_a_part() -> None:
    """A person and a fallback that have no entries are asked as others are, and named in messages."""

    class Empty(Guilty):
        def __len__(self) -> int:
            return 0

        def __call__(self, request: Any) -> Any:
            return 7

    part, word = Guilty(), "answer|value|None"
    asked = Pipeline(part, part, part, block=2, policy=escalate()).run(Task(id=word), ask=Empty())
    assert asked.reason.startswith("the question to a person failed: ContractError: Empty: ")
    wrong: Any = Empty()
    wrong.propose = lambda context, n: 7
    policy = fallback(wrong, on=["reject"])
    outcome = Pipeline(part, part, part, block=2, policy=policy).run(Task(id=word))
    assert outcome.reason.startswith("ContractError: Empty: propose() must return a Proposal")


@pytest.mark.parametrize(
    "policy", [Policy(7), Policy((7,)), Policy([Clause(do="regenerate")]), fallback(Guilty(), name="\ud800")]
)  # type: ignore[arg-type]
def test_a_policy_is_read_when_the_pipeline_is_built(policy: Any) -> None:
    """It is data, and nothing of it is wrong later."""
    with pytest.raises(PipelineError):
        pipeline(policy=policy)


# Through whole pipelines


def by_record(tasks: list[Task]) -> list[TaskRecord]:
    """Each alone."""
    alone = pipeline()
    return [alone.record(task, ask=person) for task in tasks]


def by_stream(tasks: list[Task]) -> list[TaskRecord]:
    """Each alone, decision by decision."""
    records: list[TaskRecord] = []

    def listen(event: Any) -> None:
        if isinstance(event, TaskDone):
            records.append(event.record)

    alone = pipeline()
    for task in tasks:
        list(alone.stream(task, on_event=listen, ask=person))
    return records


def by_gathering(tasks: list[Task], kind: type[Guilty] = Guilty) -> list[TaskRecord]:
    """All at once under asyncio."""
    together = pipeline(kind)

    async def gathered() -> list[TaskRecord]:
        return await asyncio.gather(*[together.arecord(task, ask=person) for task in tasks])

    return asyncio.run(gathered())


DRIVERS: dict[str, Any] = {
    "stream": by_stream,
    "batch": lambda tasks: pipeline().record(tasks, ask=person),
    "batch of calls for many": lambda tasks: pipeline(GuiltyTogether).record(tasks, ask=person),
    "gathered": by_gathering,
    "gathered calls for many": lambda tasks: by_gathering(tasks, GuiltyTogether),
}


def must_end_alike(ids: list[str], drivers: list[str]) -> None:
    """The guilty task fails or what it said can be recorded, all others end as ever, and so under every driver."""
    tasks = beside_fine_ones(ids)
    alone = by_record(tasks)
    fine = pipeline().record("fine", ask=person)
    for record in alone:
        if is_fine(record):
            assert replace(timeless(record), task="fine") == replace(timeless(fine), task="fine")
            continue
        if record.outcome.status == "failed" and "failure" not in record.task.lower():
            assert record.outcome.failure is not None, record.task
            words = ("Guilty", "person")
            assert any(word in record.outcome.reason for word in words), record.outcome.reason
        try:
            text = encode(record, "x")
        except ContractError as error:
            assert str(error).startswith("x, "), record.task  # noqa: PT017
            continue
        again = decode(text, TaskRecord, "x")
        assert encode(again, "x") == text
        for kept in range(len(again.rounds) + 1):
            resumed = pipeline().record(Task(id=record.task), restore=again.rounds[:kept], ask=person)
            assert shown(resumed) == shown(record), (record.task, kept)
    for driver in drivers:
        for record, other in zip(alone, DRIVERS[driver](tasks), strict=True):
            assert shown(other) == shown(record), (driver, record.task)


def shown(record: TaskRecord) -> str:
    """A record without its times, nor the class that one driver's parts have."""
    try:
        return encode(timeless(record), "x").replace("GuiltyTogether", "Guilty")
    except ContractError as error:
        return str(error)


def test_a_wrong_value_fails_its_own_task_under_every_driver() -> None:
    """A value of each field, by chance; live, and taken up again after each round."""
    must_end_alike(cases(1), list(DRIVERS))


@pytest.mark.exhaustive
@pytest.mark.parametrize("site", [*[site for site in SITES if site not in NESTED], "whole"])
def test_all_wrong_values_fail_their_own_tasks_under_every_driver(site: str) -> None:
    """All values of all fields."""
    must_end_alike([each for each in cases() if each.startswith(f"{site}|")], list(DRIVERS))
