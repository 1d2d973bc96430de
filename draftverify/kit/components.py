"""The checks for every component, whatever its role: its constructor, and that it is a function of its arguments."""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import typing
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ContractError
from draftverify.frozen import FrozenDict
from draftverify.kit.assertions import ERROR_PROBABILITY, ensure, exercised, must_work
from draftverify.kit.contexts import difference, snapshot
from draftverify.kit.registry import check
from draftverify.kit.subject import METHODS, Subject, bare, changed, free, owned
from draftverify.protocols import Closes, Opens
from draftverify.traits import TRAITS, has_methods, is_asynchronous, offers, traits_of
from draftverify.values import EMPTY, Decision, Memory, Outcome, Round, TaskRecord, Trail

STREAMS, PROBED, LATER = 64, 8, 8


@check()
def constructor_only_stores_its_arguments(subject: Subject) -> None:
    """Every argument is an attribute of its name, unchanged, and the constructor makes nothing else."""
    component = subject.given
    parameters = list(inspect.signature(type(component)).parameters)
    for name in parameters:
        ensure(hasattr(component, name), f"the argument {name!r} is not kept; write self.{name} = {name}")
    places, names = subject.arguments()
    rebuilt = type(component)(*places, **names)
    for name in parameters:
        change = difference(snapshot(getattr(component, name)), snapshot(getattr(rebuilt, name)), path=name)
        ensure(change is None, f"the constructor changes an argument ({change}); store it as it came")
    slot_lists = [vars(base).get("__slots__", ()) for base in type(rebuilt).__mro__]
    slot_names = {name for slots in slot_lists for name in ([slots] if isinstance(slots, str) else slots)}
    for name in ({*getattr(rebuilt, "__dict__", ())} | slot_names) - {*parameters, "traits"}:
        value = getattr(rebuilt, name, None)
        empty = value is None or (isinstance(value, (int, str, list, dict, set)) and not value)
        problem = f"the constructor makes the attribute {name!r}, which is no argument"
        ensure(empty or hasattr(value, "acquire"), f"{problem}; do the work in open() or where it is used")


@check()
def annotations_resolve(subject: Subject) -> None:
    """The constructor's annotations can be read at run time: the YAML form and the schema come from them."""
    try:
        typing.get_type_hints(type(subject.given).__init__)
    except Exception as error:
        ensure(False, f"{error}; import what the annotations name at run time, not under TYPE_CHECKING")


@check()
def says_what_it_is(subject: Subject) -> None:
    """Its `traits` are those of its role, of known words, and nothing of the kind is said elsewhere."""
    try:
        traits_of(subject.given, TRAITS[subject.role])
    except Exception as error:
        ensure(False, f"{error}")


@check(when=lambda s: offers(s.given, Opens))
def opens(subject: Subject) -> None:
    """open() takes what the component needs, without an exception."""
    hint = "what it needs must be there where the kit runs; for a test, build it with a small one of its own"
    with must_work("open()", hint):
        subject.fresh()


@check(after=["says_what_it_is", "opens"])
def answers(subject: Subject) -> None:
    """The component answers its calls without an exception."""
    method = METHODS[subject.role]
    try:
        for call in subject.calls:
            subject.answer(call)
    except (Exception, SystemExit) as error:
        ensure(_takes(subject), f"{method}() cannot be called with {_ARGUMENTS[subject.role]}: {error}")
        problem = f"{method}() raised {type(error).__name__}: {error}"
        # No words about inputs that it could not read.
        self_explained = isinstance(error, (ContractError, SystemExit))
        ensure(False, problem if self_explained else f"{problem}; {_domain(subject)}")
    ensure(
        not subject.awaited or is_asynchronous(subject.component),
        f"{method}() returned something to await, and is no coroutine function, so that a run does not await it; "
        f"write `async def {method}`",
    )


_ARGUMENTS = {
    "generator": "(context, n)",
    "verifier": "(context, proposal)",
    "rule": "(context, proposal, verification, rng)",
}


def _takes(subject: Subject) -> bool:
    """Whether the method's signature has room for what it is called with."""
    try:
        places = [None] * (_ARGUMENTS[subject.role].count(",") + 1)
        inspect.signature(getattr(subject.component, METHODS[subject.role])).bind(*places)
    except TypeError:
        return False
    except ValueError:  # a method of a compiled class does not say
        return True
    return True


def _domain(subject: Subject) -> str:
    """The hint for a part that could not read its inputs: how to give it those of its domain."""
    inputs = {
        "generator": "tasks=[{…}] (the tasks' input) or contexts=[make_context({…}, accepted=[…])]",
        "verifier": "tasks=[{…}] (the tasks' input) and proposals=[Proposal.alternatives([…])] (or .chain)",
        "rule": "cases=[(make_context(), proposal, verification)], or add to `needs` what it reads of a verification",
    }[subject.role]
    if subject.own_inputs:
        return f"it was called with {subject.own_inputs}, as given; look at those, or give {inputs}"
    return (
        f"the kit's own tasks have a prompt, text, question and prompt_ids, its items are {_TOYS}. If those are not of "
        f"the part's domain, give it its own: {inputs}. For `draftverify audit part` they are YAML: --inputs FILE"
    )


_TOYS = "0 to 5, or words"


@check(after=["answers"])
def leaves_its_arguments_alone(subject: Subject) -> None:
    """Context (but for its scratch), proposal, verification and their arrays are the same after a call."""
    for call in subject.calls:
        arguments: tuple[Any, ...] = owned(call)
        arrays: list[Any] = []
        original = snapshot(arguments, arrays)
        for array in arrays:
            array.setflags(write=False)
        try:
            subject.call(arguments)
        except ValueError as error:
            ensure("read-only" not in str(error), "it writes into an array that it was given; copy it first")
            raise
        change = difference(original, snapshot(arguments), path="arguments")
        ensure(change is None, f"it changed what it was given ({change}); copy before changing")


@check(after=["answers"])
def answers_stay_as_they_were(subject: Subject) -> None:
    """An answer does not change when the next call is served: the record and the next round still read it."""
    # A rule's cases are no rounds of one task: there each has a scratch of its own.
    separate = subject.role == "rule"
    for history in [subject.calls] if separate else subject.histories:
        scratch: dict[Any, Any] = {}
        answer: Any = None
        for call in history:
            scratch = {} if separate else scratch
            earlier_answer = snapshot(answer)
            next_answer = subject.answer(call, scratch=scratch)
            change = difference(earlier_answer, snapshot(answer))
            problem = f"an answer changed while the next call was served ({change})"
            ensure(
                change is None,
                f"{problem}; a buffer was used again: give a copy, or fill a fresh array each time",
            )
            answer = next_answer
        free(scratch)
    exercised(len(subject.calls) > 1, "there is one call alone; give more tasks=, or cases=")


@check(after=["leaves_its_arguments_alone", "answers_stay_as_they_were"], when=Subject.repeats)
def reproducible_under_its_seed(subject: Subject) -> None:
    """Two instances with equal arguments answer the same calls alike."""
    expected = subject.answers
    hint = "draw from context.draws (a rule: rng) and nothing else, or say `deterministic=False`"
    with subject.outside.as_at_first():
        instance = subject.fresh()
        for call, answer in zip(subject.calls, expected, strict=True):
            second_answer = subject.answer(call, on=instance)
            subject.same(answer, second_answer, f"two equal instances answered one call differently; {hint}")


@check(after=["reproducible_under_its_seed"], when=Subject.repeats)
def keeps_no_state_about_tasks(subject: Subject) -> None:
    """An answer does not depend on the calls that were served before, by this instance or by another."""
    expected = subject.answers
    hint = "keep nothing on self, or in what it opened; what a task needs again goes into context.scratch"
    spare = subject.notes["spare"] = subject.fresh()
    backwards = [subject.answer(call, on=spare) for call in reversed(subject.calls)][::-1]
    repeated = [subject.answer(call, on=spare) for call in subject.calls]
    if changed := subject.outside.changed():
        # The calls before this one have filled it; to see what it changes it has to be as in a new process.
        with subject.outside.as_at_first():
            renewed = subject.fresh()
            backwards = [subject.answer(call, on=renewed) for call in reversed(subject.calls)][::-1]
        hint = f"what changed outside the instance is {', '.join(changed)}: a global cache or counter; {hint}"
    for answer, *second_answers in zip(expected, repeated, backwards, strict=True):
        for second_answer in second_answers:
            subject.same(
                answer, second_answer, f"after other calls the same call was answered differently; {hint}"
            )
    # What stands in a file or a database cannot be put back; but the very first answers are known.
    for call, answer in subject.firsts:
        outside = "what it keeps outside the process (a file, a database, a service) answers for it"
        second_answer = subject.answer(call, on=spare)
        subject.same(
            answer, second_answer, f"after other calls the same call was answered differently; {outside}"
        )


@check(after=["keeps_no_state_about_tasks"], when=Subject.repeats)
def draws_anew_each_round(subject: Subject) -> None:
    """What is drawn changes with the round of the draws, as it does with their key."""
    drawn = False
    for call in subject.drawing_calls():

        def drawn_in(stream: int, later: int, call: Any = call) -> str:
            return _drawn_parts(subject.answer(subject.drawn(call, stream, later)))

        first_round = [drawn_in(stream, 0) for stream in range(PROBED)]
        if len(set(first_round)) == 1:
            continue  # nothing is drawn here
        first_round += [drawn_in(stream, 0) for stream in range(PROBED, STREAMS)]
        counts = np.asarray(list(Counter(first_round).values()))
        # Given the first round's answers, those of independent draws repeat them all with this probability at most.
        chance = np.exp(np.sum(counts * np.log(counts / len(first_round))))
        if chance >= ERROR_PROBABILITY / (8 * LATER):
            continue
        drawn = True
        for later in range(1, LATER + 1):  # most end at the first stream or the second
            repeated = all(drawn_in(stream, later) == first_round[stream] for stream in range(STREAMS))
            when = "in the next" if later == 1 else f"{later} rounds later"
            problem = (
                f"with {STREAMS} keys the answers differ, and between such rounds of each key they do not"
            )
            hint = "use draws.uniform() or draws.seed(), which know the round"
            hint += "; draws.key alone is the same in every round"
            ensure(not repeated, f"the random numbers of one round are used again {when}: {problem}; {hint}")
    exercised(drawn, f"it draws nothing here: under {STREAMS} keys its answers are the same, or nearly")


def _drawn_parts(answer: Any) -> str:
    """The parts of an answer that draws decide, as text; not its arrays and not its cost."""
    names = ("items", "parents", "kept", "held", "corrected", "spliced", "checks")
    return repr([list(values) for name in names if (values := getattr(answer, name, None)) is not None])


class _SameUnderEveryName(FrozenDict):
    """A task's expectation that has one value under every name."""

    def __init__(self, value: Any) -> None:
        super().__init__(answer=value)
        self.value = value

    def __missing__(self, key: str) -> Any:
        return self.value

    def get(self, key: str, default: Any = None) -> Any:
        return self.value


@check(after=["keeps_no_state_about_tasks"], when=Subject.repeats)
def answers_the_same_without_expected(subject: Subject) -> None:
    """An answer does not depend on what the task expects, which is for metrics: the engine takes it out of every
    task."""
    problem = "with an expectation in its task a call is answered otherwise than without"
    hint = "a run takes it out before any part sees the task, for metrics; what a part needs stands in task.input"
    for history in subject.histories:
        for call in history[:2]:
            answer = subject.answer(_with_expected(call, EMPTY))
            items = getattr(answer if subject.role == "generator" else call[1], "items", ())
            own_expectations = [call[0].task.expected] if call[0].task.expected else []
            for expected in [
                *own_expectations,
                *map(_SameUnderEveryName, ["the truth", *items[:1], *items[-1:]]),
            ]:
                with must_work(f"{problem}: it", hint):  # nothing but what is expected is another
                    second_answer = subject.answer(_with_expected(call, expected))
                subject.same(answer, second_answer, f"{problem} ({hint})")


def _with_expected(call: tuple[Any, ...], expected: Any) -> tuple[Any, ...]:
    return changed(call, task=msgspec.structs.replace(call[0].task, expected=expected))


@check(after=["keeps_no_state_about_tasks"], when=Subject.repeats)
def answers_the_same_without_scratch(subject: Subject) -> None:
    """Rounds that share a scratch, and rounds that find it empty, get the same answers."""
    answers = iter(subject.answers)
    cached = False
    for history in subject.histories:
        scratch: dict[Any, Any] = {}
        for number, call in enumerate(history):
            expected = next(answers)
            problem = f"call {number} of a task gets another answer with the scratch of the calls before it"
            problem += " than without"
            for _ in range(2):
                second_answer = subject.answer(call, scratch=scratch)
                subject.same(
                    expected,
                    second_answer,
                    f"{problem}; compare a cache with context.accepted and roll it back",
                )
            cached |= bool(scratch)
        free(scratch)
    exercised(cached, "it kept nothing in context.scratch in any of the calls")


@check(after=["keeps_no_state_about_tasks"], when=Subject.repeats)
def answers_from_the_memory_given(subject: Subject) -> None:
    """What earlier tasks taught comes from `context.memory` alone: not from a memory that an earlier call was given."""
    records = _ended(subject)
    memories = [Memory(), Memory(1, Trail.of(records[: len(records) // 2])), Memory(2, Trail.of(records))]
    calls = subject.drawing_calls() if subject.role == "rule" else subject.calls[:4]

    def answer_with(call: tuple[Any, ...], memory: Memory, on: Any) -> Any:
        call = changed(bare(call), memory=memory)
        hint = "a run with `memory:` brings such records, of tasks without an answer too"
        # Without them it did not.
        with must_work("with the records of earlier tasks in context.memory it", hint):
            answer = subject.call(call, on)
        free(call[0].scratch)
        return answer

    watched = _WatchedRecords(records)
    with subject.outside.as_at_first():
        for call in calls:
            # What it takes from it the next checks do not see.
            answer_with(call, Memory(2, watched), subject.notes["spare"])
    exercised(watched.read, "it never looked at the records of context.memory")
    expected = []
    for memory in memories:
        with subject.outside.as_at_first():
            instance = subject.fresh()
            expected.append([answer_with(call, memory, instance) for call in calls])
    with subject.outside.as_at_first():
        instance = subject.fresh()
        for version in (2, 0, 1, 2):
            for call, answer in zip(calls, expected[version], strict=True):
                problem = "after calls with another context.memory the same call was answered differently"
                hint = "let what was made of a memory hold for that memory alone, told by `is`"
                subject.same(answer, answer_with(call, memories[version], instance), f"{problem}; {hint}")


class _WatchedRecords(Sequence[TaskRecord]):
    """A sequence of records that notes whether it was read."""

    def __init__(self, records: Sequence[TaskRecord]) -> None:
        self.records = records
        self.read = False

    def __len__(self) -> int:
        self.read = True
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        self.read = True
        return self.records[index]


def _ended(subject: Subject) -> list[TaskRecord]:
    """Records of tasks that ended: some with what the component's own calls were about, one with nothing."""
    records = [TaskRecord(task="without an answer", outcome=Outcome(status="refused"))]
    for number, (call, answer) in enumerate(zip(subject.calls[:8], subject.answers, strict=False)):
        items = tuple(getattr(answer if subject.role == "generator" else call[1], "items", ()))
        decision = Decision(kept=tuple(range(len(items))), emitted=items)
        outcome = Outcome(status="accepted", value=items, rounds=1)
        records.append(
            TaskRecord(
                task=f"earlier {number}",
                outcome=outcome,
                rounds=(Round(index=0, items=items, asked=len(items), decision=decision),),
            )
        )
    return records


@check(after=["keeps_no_state_about_tasks"], when=lambda s: s.repeats() and s.traits.concurrent)
def answers_the_same_from_four_threads(subject: Subject) -> None:
    """Unless `concurrent=False`, calls at the same time get the same answers as calls in turn."""
    method = getattr(subject.component, METHODS[subject.role])
    calls, expected = subject.calls * 2, subject.answers * 2

    async def answer_one(call: tuple[Any, ...]) -> Any:
        value = method(*bare(call))
        return await value if inspect.isawaitable(value) else value

    async def answer_all() -> list[Any]:
        return await asyncio.gather(*map(answer_one, calls))

    hint = "lock, or say `concurrent=False`"
    with must_work("a call from another thread", hint):  # alone it raised nothing
        if is_asynchronous(subject.component):
            concurrent_answers = subject.wait(answer_all())
        else:
            with ThreadPoolExecutor(4) as pool:
                concurrent_answers = list(pool.map(subject.answer, calls))
    for answer, second_answer in zip(expected, concurrent_answers, strict=True):
        subject.same(answer, second_answer, f"calls at the same time differ; {hint}")


@check(after=["reproducible_under_its_seed"])
def leaves_global_random_numbers_alone(subject: Subject) -> None:
    """The state of `random`, `numpy.random` and (where loaded) torch's generator is the same after a call."""

    def state() -> list[str]:
        torch = sys.modules.get("torch")
        states = [random.getstate(), np.random.get_state(legacy=False)]
        return [repr(generator_state) for generator_state in states] + (
            [str(torch.get_rng_state().tolist())] if torch is not None else []
        )

    original = state()
    for call in subject.calls[:4]:
        subject.answer(call)
    ensure(
        state() == original, "it drew from, or seeded, a global random generator; make one from draws.seed()"
    )


@check(
    after=["answers_the_same_without_scratch"],
    when=lambda s: has_methods(s.component, METHODS[s.role] + "_many"),
)
def many_answers_as_one(subject: Subject) -> None:
    """`propose_many`, `verify_many` or `decide_many` gives for each session what the single call gives, whoever the
    others are: blocks of unlike lengths, sessions at other rounds, one session alone.
    """
    name, single = METHODS[subject.role] + "_many", METHODS[subject.role]
    batches = subject.batches()
    for batch in batches:
        calls = [call for call, _ in batch]
        contexts = [msgspec.structs.replace(bare(call)[0], scratch=scratch) for call, scratch in batch]
        columns = [contexts, *([*column] for column in zip(*(bare(call)[1:] for call in calls), strict=True))]
        answers = subject.wait(getattr(subject.component, name)(*columns))
        ensure(
            len(answers) == len(calls),
            f"{name}() gave {len(answers)} answers to {len(calls)} calls; one each is needed",
        )
        sizes = [call[1] if isinstance(call[1], int) else len(call[1]) for call in calls]
        for number, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            circumstances = f"as number {number} of {len(calls)}, with blocks of {sizes} items in rounds "
            circumstances += str([call[0].round for call in calls])
            problem = f"{name}() and {single}() differ for a call {circumstances}"
            hint = "rows of another session or of the padding, or a cache that is not rolled back"
            subject.same(subject.answer(call), answer, f"{problem} ({hint})")
    for scratch in {id(scratch): scratch for batch in batches for _, scratch in batch}.values():
        free(scratch)


@check(after=["opens"], when=lambda s: offers(s.given, Closes))
def closes_twice(subject: Subject) -> None:
    """close() may be called again."""
    instance = subject.fresh()
    for _ in range(2):
        subject.wait(instance.close())
