"""Verifiers made of verifiers: `all_of` and `any_of`, cheap ones first, so that a dear one sees only what is left.

They nest, and keep what their members can do: coroutine methods, one call for many sessions, resources, settings,
stopping, explaining.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from inspect import isawaitable, iscoroutinefunction
from itertools import chain, permutations
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import msgspec

from draftverify.checks.members import Members
from draftverify.checks.stages import (
    AllWay,
    AnyWay,
    MostWay,
    StagePass,
    Way,
    heard,
    named,
    names_of,
    part_of,
    votes_needed,
)
from draftverify.engine.async_driver import acalled
from draftverify.engine.failures import raised
from draftverify.engine.parts import either
from draftverify.errors import ConfigError
from draftverify.protocols import (
    ChecksSettings,
    ChecksTasks,
    Describes,
    Done,
    Explains,
    Prepares,
    Verifier,
    VerifiesMany,
)
from draftverify.traits import (
    EvidenceKind,
    VerifierTraits,
    has_methods,
    is_asynchronous,
    offers,
    read_by,
    shared_things,
    shared_vocabulary,
    traits_of,
)
from draftverify.values import Context, Explanation, Proposal, Task, Verification

Recall: TypeAlias = "Callable[[Verifier, Context, Proposal, Sequence[int]], tuple[Verification, float, bool]]"
"""recall(stage, context, items, indices): what a stage said of these items of a block, in how many seconds, and whether
its call had failed."""


class _Asked(NamedTuple):
    """A stage, and of each block that comes to it the items and the arguments of `verify`."""

    name: str
    stage: Verifier
    indices: list[Sequence[int]]
    contexts: list[Context]
    proposals: list[Proposal]

    def heard(self, answers: Iterable[tuple[Any, float]]) -> list[StagePass]:
        """The stage's passes, of its answers and their seconds."""
        answered = zip(self.indices, answers, strict=True)
        return [heard(self.name, self.stage, indices, answer, took) for indices, (answer, took) in answered]


_Steps: TypeAlias = "Generator[_Asked, list[StagePass], None]"


class Combined(Members[Verifier], ABC):
    """What verifiers in stages have in common; a subclass says whose word stands, in its `way`.

    The verification's `notes`: "order", the stages' names; "skipped", those that abstained on all they were given;
    under "stages" what each noted itself; "seconds" by stage; "heard", what each said, for replays. Costs are the
    stages' together.

    Args:
        stages: from cheap to dear.
        ask_all: whether a stage is also asked about the items that are settled without it. Its word on those decides
            nothing and costs the round nothing: it is recorded, so that replays can answer for any order of the stages.

    Raises:
        ConfigError: there is none, or one is no verifier.
    """

    ask_all = False
    needs_every = True
    """Whether an item passes by the word of every stage, so that none may be unable to judge."""

    def __init__(self, stages: Iterable[Verifier], ask_all: bool = False) -> None:
        super().__init__(as_stages(stages))
        self.ask_all = ask_all

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the stages, in order."""
        return names_of(self.stages)

    def orders(self) -> Iterator[tuple[int, ...]]:
        """The orders of the stages, by their places, under which the same counts as passed."""
        return permutations(range(len(self.stages)))

    def recalled(self, context: Context, proposal: Proposal, recall: Recall) -> Verification:
        """The verification that recorded checks of the stages make.

        Args:
            context, proposal: as of `verify`.
            recall: gives what a stage said.
        """
        block = self.way(context, proposal)
        steps = _steps(self.names, self.stages, [block], [context], self.ask_all)

        def remembered(request: _Asked) -> list[StagePass]:
            name, stage, indices = request.name, request.stage, request.indices[0]
            recorded, seconds, broke = recall(stage, request.contexts[0], request.proposals[0], indices)
            checks = tuple(named(check, name) for check in recorded.checks)
            verification = None if broke else recorded
            return [StagePass(name, tuple(indices), checks, seconds, verification, recorded.notes)]

        _walk(steps, remembered)
        return self._verification(block)

    @abstractmethod
    def way(self, context: Context, proposal: Proposal) -> Way:
        """A block at the beginning of its way."""

    @cached_property
    def traits(self) -> VerifierTraits:
        """What the stages are together; that two have different vocabularies is told where it is compared."""
        stages = [traits_of(stage, VerifierTraits) for stage in self.stages]
        return VerifierTraits(
            provides=self.provided(stages),
            reads=read_by(stages),
            concurrent=all(stage.concurrent for stage in stages),
            shares=lambda: chain.from_iterable(map(shared_things, self.stages, stages)),
            deterministic=all(stage.deterministic for stage in stages),
            remote=max(stage.remote for stage in stages),
            free=all(stage.free for stage in stages),
            asynchronous=any(map(is_asynchronous, self.stages)),
            families=frozenset[str]().union(*(stage.families for stage in stages)),
            vocabulary=lambda: shared_vocabulary(zip(self.names, stages, strict=True)),
            outside=self.stands_outside(stages),
        )

    @abstractmethod
    def provided(self, stages: Sequence[VerifierTraits]) -> Set[EvidenceKind]:
        """Verdicts, and what else the stages whose word stands give."""

    @abstractmethod
    def stands_outside(self, stages: Sequence[VerifierTraits]) -> bool:
        """Whether an item passes only where a stage that rests on no model passed it."""

    def verify(self, context: Context, proposal: Proposal) -> Any:
        """One pass of each stage over what is left for it; awaitable where a stage is asynchronous."""
        ways = [self.way(context, proposal)]
        return self._walked(ways, [context], lambda: self._verification(ways[0]))

    @property
    def verify_many(self) -> Callable[[Sequence[Context], Sequence[Proposal]], Any]:
        """One pass of each stage over what is left of many sessions' blocks.

        Raises:
            AttributeError: no stage has it, so sessions are better asked about one by one.
        """
        if not any(offers(stage, VerifiesMany) for stage in self.stages):
            raise AttributeError("verify_many")
        return self._verify_many

    def _verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> Any:
        ways = [self.way(*call) for call in zip(contexts, proposals, strict=True)]
        return self._walked(ways, contexts, lambda: [self._verification(block) for block in ways])

    def _walked(self, ways: Sequence[Way], contexts: Sequence[Context], result: Callable[[], Any]) -> Any:
        steps = _steps(self.names, self.stages, ways, contexts, self.ask_all)
        if self.traits.asynchronous:
            return _later(steps, result)
        _walk(steps, _called)
        return result()

    def _verification(self, block: Way) -> Verification:
        return block.verification(self.names, self.traits.provides)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Every stage looks at the settings.

        Raises:
            ConfigError: a stage cannot read them.
        """
        for stage in self.stages:
            if offers(stage, ChecksSettings):
                stage.check_settings(settings)

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Every stage looks at the tasks, where each must pass an item.

        Raises:
            ConfigError: a stage cannot judge one.
        """
        for stage in self.stages if self.needs_every else ():
            if offers(stage, ChecksTasks):
                stage.check_tasks(tasks)

    def prepare(self, task: Task) -> Any:
        """The task as each stage in turn prepares it; awaitable where one prepares in a coroutine."""
        prepares = [stage.prepare for stage in self.stages if offers(stage, Prepares)]
        if any(map(iscoroutinefunction, prepares)) or self.traits.asynchronous:
            return _prepared(task, prepares)
        for prepare in prepares:
            task = prepare(task)
        return task

    @property
    def describe(self) -> Callable[[Sequence[Any]], list[str]]:
        """Values as text, as the last stage that describes them does it.

        Raises:
            AttributeError: none does.
        """
        for stage in reversed(self.stages):
            if offers(stage, Describes):
                return stage.describe
        raise AttributeError("describe")

    @property
    def done(self) -> Done:
        """The stages' stopping rules; where several have one, the earliest of their stops counts.

        Raises:
            AttributeError: none has one.
        """
        rule = either(*self.stages)
        if rule is None:
            raise AttributeError("done")
        return rule

    @property
    def explain(self) -> Callable[[Task, Any, Any, Mapping[str, Any]], Explanation]:
        """Why two outputs differ, as the first stage that explains says.

        Raises:
            AttributeError: none does.
        """
        for stage in self.stages:
            if offers(stage, Explains):
                return stage.explain
        raise AttributeError("explain")


def as_stages(stages: Any) -> tuple[Verifier, ...]:
    """The stages as a tuple, each checked to be a verifier.

    Raises:
        ConfigError: there is none, or one is no verifier.
    """
    if not isinstance(stages, Iterable):
        raise ConfigError(f"this is a {type(stages).__name__}; a list of verifiers is needed", path="stages")
    verifiers = tuple(stages)
    if not verifiers:
        raise ConfigError("there are no stages; one verifier is needed at least", path="stages")
    for place, stage in enumerate(verifiers):
        where = f"stages.{place}"
        if isinstance(stage, type):
            name = stage.__name__
            raise ConfigError(f"this is the class {name}; an instance is needed: {name}(…)", path=where)
        if not has_methods(stage, "verify"):
            hint = "; verifier(function) makes a verifier of a function" if callable(stage) else ""
            kind = type(stage).__name__
            raise ConfigError(f"this is a {kind}, which has no method verify(){hint}", path=where)
    return verifiers


class AllOf(Combined):
    """Passes an item that every verifier passes; a later one is asked only about what the earlier ones passed.

    The first word that is not a pass is the item's check, an abstention too. The last verifier alone stops early, at
    `context.enough`, and not in a tree. Scores are the last one's.

    Args:
        stages: verifiers, from cheap to dear.
        ask_all: whether a stage is also asked, for the record alone, about the items that are settled without it.

    Raises:
        ConfigError: there is none, or one is no verifier.

    Examples:
        >>> from draftverify import Pipeline, generator
        >>> from draftverify.rules import First
        >>> from draftverify.checks.combined import AllOf
        >>> from draftverify.checks.verifiers.regex import Regex
        >>> short_date = AllOf([Regex(r"\\d+-\\d+-\\d+"), Regex(r".{10}")])
        >>> guesses = generator(lambda context, n: ["tomorrow", "24-5-1", "2024-05-01"])
        >>> Pipeline(guesses, short_date, First(), block=3).run("when?").value
        '2024-05-01'
    """

    def way(self, context: Context, proposal: Proposal) -> Way:
        """Every stage must pass an item."""
        return AllWay(proposal, context.enough)

    def provided(self, stages: Sequence[VerifierTraits]) -> Set[EvidenceKind]:
        """Verdicts; scores and cross evidence where the last one gives them."""
        return {"verdicts", *(kind for kind in stages[-1].provides if kind in ("scores", "cross"))}

    def stands_outside(self, stages: Sequence[VerifierTraits]) -> bool:
        """Whether one of the stages, all of which must pass an item, does."""
        return any(stage.stands_outside for stage in stages)


class AnyOf(Combined):
    """Passes an item that one of the verifiers passes; a later one is asked only about what no earlier one passed.

    An item that none passed is an error (a timeout, an abstention) where one of them said so, since that one might have
    passed it; else it is rejected, with what each had against it. In a chain, an item that one of them never came to is
    unchecked instead, or an abstention where all that it stands on passed. Every verifier stops early, at
    `context.enough`.

    Args:
        stages: verifiers, from cheap to dear.
        ask_all: whether a stage is also asked, for the record alone, about the items that are settled without it.

    Raises:
        ConfigError: there is none, or one is no verifier.
    """

    needs_every = False

    def way(self, context: Context, proposal: Proposal) -> Way:
        """One stage must pass an item."""
        return AnyWay(proposal, context.enough, len(self.stages))

    def provided(self, stages: Sequence[VerifierTraits]) -> Set[EvidenceKind]:
        """Verdicts; scores where every one gives them, which should then be of one unit."""
        scored = all("scores" in stage.provides for stage in stages)
        return {"verdicts", "scores"} if scored else {"verdicts"}

    def stands_outside(self, stages: Sequence[VerifierTraits]) -> bool:
        """Whether every stage, each of which may pass an item by itself, does."""
        return all(stage.stands_outside for stage in stages)


class MostOf(Combined):
    """Passes an item that so many of the verifiers pass: a panel that votes.

    A verifier is asked about an item only while its vote can decide. The score is the share of passes among those that
    passed or rejected it. Too few votes, since verifiers failed or abstained, are an error (a timeout, an abstention)
    and no rejection.

    Args:
        stages: the verifiers, from cheap to dear.
        at_least: how many must pass an item; more than half of them when absent.
        ask_all: whether a stage is also asked, for the record alone, about the items that are settled without it.

    Raises:
        ConfigError: there is no verifier, one is none, or `at_least` is no number of them.
    """

    needs_every = False

    def __init__(
        self, stages: Iterable[Verifier], at_least: int | None = None, ask_all: bool = False
    ) -> None:
        super().__init__(stages, ask_all)
        self.at_least = at_least
        votes_needed(at_least, len(self.stages))

    def way(self, context: Context, proposal: Proposal) -> Way:
        """So many stages must pass an item."""
        needed = votes_needed(self.at_least, len(self.stages))
        return MostWay(proposal, needed, len(self.stages))

    def provided(self, stages: Sequence[VerifierTraits]) -> Set[EvidenceKind]:
        """Verdicts, and shares as scores."""
        return {"verdicts", "scores"}

    def stands_outside(self, stages: Sequence[VerifierTraits]) -> bool:
        """Whether so many of them do that an item cannot pass without one."""
        inside = sum(not stage.stands_outside for stage in stages)
        return inside < votes_needed(self.at_least, len(stages))


def _walk(steps: _Steps, call: Callable[[_Asked], list[StagePass]]) -> None:
    """Take blocks through stages, each of which is given what is still open."""
    answers: Any = None
    try:
        while True:
            answers = call(steps.send(answers))
    except StopIteration:
        return


async def _later(steps: _Steps, result: Callable[[], Any]) -> Any:
    """The stages' walk as in `_walk`, awaited; then its result."""
    answers: Any = None
    try:
        while True:
            answers = await _acalled(steps.send(answers))
    except StopIteration:
        return result()


def _steps(
    names: Sequence[str],
    stages: Sequence[Verifier],
    ways: Sequence[Way],
    contexts: Sequence[Context],
    ask_all: bool,
) -> _Steps:
    """Yield the calls of the stages, one after the other; is sent their passes."""
    for beside in (False, True) if ask_all else (False,):
        for place, (name, stage) in enumerate(zip(names, stages, strict=True)):
            is_last = place == len(stages) - 1
            request = _Asked(name, stage, [], [], [])
            coming: list[Way] = []
            for block, context in zip(ways, contexts, strict=True):
                if indices := block.left(name) if beside else block.open:
                    enough = None if beside else block.enough_at(is_last)
                    coming.append(block)
                    request.indices.append(indices)
                    request.contexts.append(msgspec.structs.replace(context, enough=enough))
                    request.proposals.append(part_of(block.proposal, indices))
            if not coming:
                continue
            stage_passes = yield request
            for block, stage_pass, context in zip(coming, stage_passes, request.contexts, strict=True):
                block.hear(stage_pass, context.enough, beside=beside)


def _called(request: _Asked) -> list[StagePass]:
    """One call for all blocks where the stage can, else one each; so too where that one fails."""
    stage, count = request.stage, len(request.contexts)
    if count > 1 and offers(stage, VerifiesMany):
        values, seconds = _timed(stage.verify_many, request.contexts, request.proposals)
        if _fits(values, count):
            return request.heard((value, seconds) for value in values)
    calls = zip(request.contexts, request.proposals, strict=True)
    return request.heard([_timed(stage.verify, *call) for call in calls])


def _timed(method: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = perf_counter()
    try:
        value = method(*arguments)
    except BaseException as error:
        value = raised(error)
    return value, perf_counter() - start


async def _acalled(request: _Asked) -> list[StagePass]:
    """As `_called`, awaited: coroutine methods side by side, others in threads, where the stage is concurrent."""
    stage, count = request.stage, len(request.contexts)
    if count > 1 and offers(stage, VerifiesMany):
        values, seconds = await acalled(stage.verify_many, (request.contexts, request.proposals))
        if _fits(values, count):
            return request.heard((value, seconds) for value in values)
    calls = [acalled(stage.verify, call) for call in zip(request.contexts, request.proposals, strict=True)]
    if traits_of(stage, VerifierTraits).concurrent:
        return request.heard(await asyncio.gather(*calls))
    return request.heard([await call for call in calls])


def _fits(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count


async def _prepared(task: Task, prepares: Sequence[Callable[[Task], Any]]) -> Task:
    for prepare in prepares:
        prepared = prepare(task)
        task = await prepared if isawaitable(prepared) else prepared
    return task
