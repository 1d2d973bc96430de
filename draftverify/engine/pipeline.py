"""A pipeline: parts that fit each other, and the ways to run tasks through them. It is itself a Generator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias, TypedDict, Unpack, overload

from draftverify.engine.boundary import read_explanation
from draftverify.engine.drivers import drive
from draftverify.engine.events import Listener
from draftverify.engine.parts import Fixed, Parts
from draftverify.engine.requests import AskPerson, Draft
from draftverify.engine.scheduler import Scheduler
from draftverify.engine.session import Session
from draftverify.errors import ConfigError, DraftVerifyError, PipelineError, below, shown
from draftverify.protocols import ChecksGenerator, ChecksVerifier, Closes, Explains, Opens
from draftverify.traits import GeneratorTraits, name_of, offers
from draftverify.values import (
    Context,
    Cost,
    Decision,
    Explanation,
    Failure,
    Memory,
    Outcome,
    Proposal,
    Round,
    Task,
    TaskRecord,
    html_table,
    is_utf8,
)

TaskLike: TypeAlias = Task | Mapping[str, Any] | str
"""A Task, its input, or the text of its input's "prompt"."""


class RunOptions(TypedDict, total=False):
    """What `run`, `stream` and their twins under asyncio take by name; `record` says what each means."""

    on_event: Listener | None
    ask: AskPerson | None


class RecordOptions(RunOptions, total=False):
    """What `record` takes by name of many tasks."""

    memory: Memory | None
    pipelines: Sequence[Pipeline] | None


class TaskOptions(RecordOptions, total=False):
    """What `record` takes by name of one task."""

    restore: Sequence[Round]
    inner: Sequence[TaskRecord]


class _Collected:
    """The records of one task or of many, in the order in which the tasks were given."""

    def __init__(self, pipeline: Pipeline, task: Any, options: Mapping[str, Any]) -> None:
        self._pipeline = pipeline
        self._is_one = is_one(task)
        self._tasks = [task] if self._is_one else task
        self._options = dict(options)
        self._pipelines = self._options.pop("pipelines", None)
        if self._pipelines is not None:
            self._tasks = list(self._tasks)
            if len(self._tasks) != len(self._pipelines):
                raise PipelineError(
                    f"there are {len(self._tasks)} tasks and {len(self._pipelines)} pipelines; each task needs one"
                )
        self._places: dict[Session, int] = {}
        self._records: dict[int, TaskRecord] = {}
        if not self._is_one and (single := sorted({"restore", "inner"} & options.keys())):
            raise PipelineError(
                f"{' and '.join(single)} is of one task, and many were given; take each up by itself"
            )

    def sessions(self) -> Iterator[Session]:
        """A session of each task, made as there is room for it."""
        pipelines = repeat(self._pipeline) if self._pipelines is None else self._pipelines
        for place, (task, pipeline) in enumerate(zip(self._tasks, pipelines, strict=False)):
            session = pipeline._session(as_task(task, str(place)), **self._options)
            self._places[session] = place
            yield session

    def take(self, ended: Iterable[Session]) -> None:
        """Keep the records of sessions that have ended."""
        for session in ended:
            self._records[self._places.pop(session)] = session.record()

    def ended(self) -> TaskRecord | list[TaskRecord]:
        """The one task's record, or a list of all."""
        records = [self._records[place] for place in range(len(self._records))]
        return records[0] if self._is_one else records


class Pipeline(Parts):
    """Generator, verifier and rule, with what surrounds them.

    Args:
        generator: proposes blocks; a Pipeline too, whose accepted values are then the items.
        verifier: checks them.
        rule: keeps what survives.
        policy: what becomes of a block that made no progress; none: the task ends there.
        block: how many items to ask for, or a BlockSize that chooses; None: what the generator brings, where it does,
            else 1.
        done: the stopping rule; None: those that the verifier and the rule bring, where they do.
        budget: the most that one task may use.
        settings: read by components from `context.settings` (temperature and the like); each by one of them at least.
        seed: of every random draw.
        name: in records and tables.

    Raises:
        PipelineError: an argument of a wrong type, or parts that do not fit: missing evidence, a law or shape that
            the rule does not take, different vocabularies, a part without its method, a policy step that the rule has
            no use for.
        ConfigError: a setting that no part reads, or that one refuses.

    Examples:
        >>> from draftverify import Pipeline, generator, verifier
        >>> from draftverify.rules import First
        >>> roots = Pipeline(
        ...     generator(lambda context, n: range(n)),
        ...     verifier(lambda context, item: item * item == 49),
        ...     First(),
        ...     block=10,
        ... )
        >>> roots.run("the root of 49").value
        7
    """

    _opened: set[int] = set()  # noqa: RUF012 - empty until `open` brings one

    def with_parts(self, **changes: Any) -> Pipeline:
        """A pipeline with the same arguments but for these, by their names; what is open stays open.

        Its block is this one's, also where the generator brought it, with what it has learned.
        """
        return Pipeline(**{**self.arguments, **changes})

    @cached_property
    def traits(self) -> GeneratorTraits:
        """What the pipeline is as a generator: what it accepts are alternatives, drafted by its generators."""
        return GeneratorTraits(
            shape="alternatives",
            reads=self._reads(),
            families=frozenset[str]().union(*(traits.families for traits in self.declared.values())),
            deterministic=self.deterministic,
            asynchronous=self.asynchronous,
            remote=self.remote,
        )

    # Running

    def _session(self, task: Task, *, ask: AskPerson | None = None, **options: Any) -> Session:
        self.check_fitted()
        return Session(self, task, person=ask, **options)

    @overload
    def run(  # type: ignore[overload-overlap]
        self, task: TaskLike, **options: Unpack[RunOptions]
    ) -> Outcome: ...
    @overload
    def run(
        self, task: Iterable[TaskLike], *, size: int | None = None, **options: Unpack[RunOptions]
    ) -> list[Outcome]: ...
    def run(self, task: TaskLike | Iterable[TaskLike], **options: Any) -> Outcome | list[Outcome]:
        """Run a task, or many, and return how each ended; the arguments are those of `record`."""
        ended: TaskRecord | list[TaskRecord] = self.record(task, **options)
        return [record.outcome for record in ended] if isinstance(ended, list) else ended.outcome

    @overload
    def record(  # type: ignore[overload-overlap]
        self, task: TaskLike, **options: Unpack[TaskOptions]
    ) -> TaskRecord: ...
    @overload
    def record(
        self, task: Iterable[TaskLike], *, size: int | None = None, **options: Unpack[RecordOptions]
    ) -> list[TaskRecord]: ...
    def record(
        self, task: TaskLike | Iterable[TaskLike], *, size: int | None = None, **options: Any
    ) -> TaskRecord | list[TaskRecord]:
        """Run a task, or many, and return the whole record of each, in their order.

        Many run in lockstep: one pass over all of them where components can; who has ended is replaced.

        Args:
            task: a Task, a mapping (its input) or a text (its input's "prompt"); or an iterable of such.
            size: of many, how many are under way at once; all when None.
            on_event: called with every event.
            ask: plays the person; None from it, or no `ask`, leaves an escalated task waiting.
            memory: what earlier tasks taught.
            pipelines: for each task the one that it runs under, as `with_parts(settings=…)` makes them of this one:
                tasks of several settings share their passes.
            restore: of one task, rounds recorded before; they are not decided again.
            inner: of a task that was left waiting, its record's `inner`.
        """
        collected = _Collected(self, task, options)
        for ended in drive(Scheduler(collected.sessions(), size=size)):
            collected.take(ended)
        return collected.ended()

    @overload
    async def arun(  # type: ignore[overload-overlap]
        self, task: TaskLike, **options: Unpack[RunOptions]
    ) -> Outcome: ...
    @overload
    async def arun(
        self, task: Iterable[TaskLike], *, size: int | None = None, **options: Unpack[RunOptions]
    ) -> list[Outcome]: ...
    async def arun(self, task: TaskLike | Iterable[TaskLike], **options: Any) -> Outcome | list[Outcome]:
        """Run under asyncio: coroutine components are awaited, others run in threads.

        Tasks that are gathered share the calls of components that take turns (`concurrent=False`), as many in one call
        do. Cancelled while a component runs in a thread, or for other tasks too, it ends once that call does.
        """
        ended: TaskRecord | list[TaskRecord] = await self.arecord(task, **options)
        return [record.outcome for record in ended] if isinstance(ended, list) else ended.outcome

    @overload
    async def arecord(  # type: ignore[overload-overlap]
        self, task: TaskLike, **options: Unpack[TaskOptions]
    ) -> TaskRecord: ...
    @overload
    async def arecord(
        self, task: Iterable[TaskLike], *, size: int | None = None, **options: Unpack[RecordOptions]
    ) -> list[TaskRecord]: ...
    async def arecord(
        self, task: TaskLike | Iterable[TaskLike], *, size: int | None = None, **options: Any
    ) -> TaskRecord | list[TaskRecord]:
        """As `record`, under asyncio."""
        from draftverify.engine.async_driver import adrive  # asyncio takes its time to import

        collected = _Collected(self, task, options)
        async for ended in adrive(Scheduler(collected.sessions(), size=size)):
            collected.take(ended)
        return collected.ended()

    def stream(self, task: TaskLike, **options: Unpack[RunOptions]) -> Iterator[Decision]:
        """Yield each round's Decision as it is made; `decision.emitted` are the new values. Left early, it frees the
        task."""
        session, yielded = self._streamed(task, options), 0
        for _ in drive(Scheduler([session])):
            for round in session.rounds[yielded:]:
                yielded += 1
                yield round.decision

    async def astream(self, task: TaskLike, **options: Unpack[RunOptions]) -> AsyncIterator[Decision]:
        """As `stream`, under asyncio."""
        from draftverify.engine.async_driver import adrive

        session, yielded = self._streamed(task, options), 0
        async with aclosing(adrive(Scheduler([session]))) as steps:
            async for _ in steps:
                for round in session.rounds[yielded:]:
                    yielded += 1
                    yield round.decision

    def _streamed(self, task: Any, options: Mapping[str, Any]) -> Session:
        if not is_one(task):
            raise PipelineError(f"one task is streamed, and {shown(task)} are many; run takes many")
        return self._session(as_task(task), **options)

    def explain(self, task: Task, expected: Any, got: Any) -> Explanation | None:
        """Why two outputs of a task differ that this pipeline's settings made, as the verifier says; None where it has
        no `explain`.

        Raises:
            ContractError: the verifier said something else than an Explanation with a known cause.
        """
        if not offers(self.verifier, Explains):
            return None
        explanation = self.verifier.explain(task.without_expected(), expected, got, self.settings)
        return read_explanation(explanation, self.verifier)

    # As a generator inside another pipeline: its drafts are sessions of the outer one's pool

    def propose(self, context: Context, n: int) -> Proposal:
        """Run n inner tasks here and now, for a caller that is no session; the accepted values are alternatives.

        Raises:
            DraftVerifyError: when every inner task failed.
        """
        request = Draft(0, self, context, n)
        children = self.expand(request)
        for _ in drive(Scheduler(children)):
            pass
        proposal = self.gather(request, children)
        if isinstance(proposal, Failure):
            raise DraftVerifyError(proposal.message)
        return proposal

    def expand(self, request: Draft, session: Session | None = None) -> list[Session]:
        """The sessions of the inner tasks that make a draft.

        They inherit the outer task's settings (their own come first), feedback, memory, attempt and the person to ask,
        and an equal share of what is left of its budget of seconds and cost.
        """
        context, records = request.context, session.inner if session is not None else {}
        allowance = session.allowance(request.n) if session is not None else None
        children = []
        for place in range(request.n):
            outer = context.task
            task = Task(id=f"{outer.id}/{context.round}.{place}", input=outer.input, group=outer.group)
            record = records.get(task.id)
            ended = record is not None and record.outcome.status != "waiting"
            children.append(
                Session(
                    self,
                    task,
                    attempt=context.attempt,
                    memory=context.memory,
                    restore=record.rounds if record is not None else (),
                    inner=record.inner if record is not None else (),
                    outcome=record.outcome if record is not None and ended else None,
                    outer=request,
                    allowance=allowance,
                    person=session.person if session is not None else None,
                )
            )
        return children

    def gather(self, request: Draft, children: Sequence[Session]) -> Proposal | Failure:
        """The draft of ended inner tasks: what they accepted, their records, their machine seconds and cost."""
        records = tuple([child.record() for child in children])
        outcomes = [record.outcome for record in records]
        if outcomes and all(outcome.status == "failed" for outcome in outcomes):
            why = f"all {len(outcomes)} inner tasks of {self.name} failed; the first: {outcomes[0].reason}"
            return Failure("error", "DraftVerifyError", why)
        items = tuple([outcome.value for outcome in outcomes if outcome.status == "accepted"])
        return Proposal.alternatives(items, nested=records, cost=self.cost_of(children))

    def cost_of(self, children: Sequence[Session]) -> Cost:
        """The machine seconds and cost of inner tasks."""
        return Cost(sum(child.state.busy for child in children), sum(child.state.cost for child in children))

    # Resources

    def open(self, opened: set[int] | None = None) -> None:
        """Open every part that holds heavy resources, those of inner pipelines too, and let generators and verifier
        look at each other.

        Args:
            opened: shared by pipelines that share parts, so that each is opened and closed once: the ids of those that
                are open.

        Raises:
            ConfigError: a part cannot be opened as it is configured, or a generator and the verifier do not fit; the
                path begins with the part's role. What was opened before it is closed again.
        """
        opened = set() if opened is None else opened
        self._opened = opened
        with ExitStack() as closing:
            closing.callback(self.close)
            self._open(opened)
            closing.pop_all()

    def _open(self, opened: set[int]) -> None:
        for role, part in self.roles():
            with below(role):
                if isinstance(part, Pipeline):
                    part.open(opened)
                elif id(part) not in opened:
                    if offers(part, Opens):
                        part.open()
                    opened.add(id(part))
        self.check_fitted()
        for generator in self.generators:
            with below("generator"):
                if offers(generator, ChecksVerifier):
                    generator.check_verifier(self.verifier)
                if offers(self.verifier, ChecksGenerator):
                    self.verifier.check_generator(generator)

    def close(self) -> None:
        """Close what `open` opened, all of it, even where one part cannot be closed."""
        with ExitStack() as closing:
            for part in reversed(self.parts()):
                if isinstance(part, Pipeline):
                    closing.callback(part.close)
                elif id(part) in self._opened:
                    self._opened.discard(id(part))
                    if offers(part, Closes):
                        closing.callback(part.close)

    def __enter__(self) -> Pipeline:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For people

    def _facts(self) -> list[tuple[str, str]]:
        nests = isinstance(self.generator, Pipeline)
        steps = [
            f"{clause.do} ×{clause.times}" if clause.times else clause.do for clause in self.policy.clauses
        ]
        facts = [
            ("generator", repr(self.generator) if nests else name_of(self.generator)),
            ("verifier", name_of(self.verifier)),
            ("rule", name_of(self.rule)),
            ("block", str(self.block.n) if isinstance(self.block, Fixed) else name_of(self.block)),
            ("policy", " → ".join(steps)),
            ("settings", repr(dict(self.settings)) if self.settings else ""),
        ]
        return [(name, value) for name, value in facts if value]

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {', '.join(f'{name}={value}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        return html_table(self._facts(), ("pipeline", self.name))


def is_one(task: Any) -> bool:
    """Whether this is a task, and not an iterable of such."""
    return isinstance(task, (Task, Mapping, str, bytes)) or not isinstance(task, Iterable)


def as_task(task: Any, id: str = "0") -> Task:
    """A Task from a Task, a mapping (its input) or anything else (its input's "prompt").

    Raises:
        ConfigError: its id is no text, or one that cannot be written down.
    """
    if isinstance(task, Task):
        if not isinstance(task.id, str) or not is_utf8(task.id):
            raise ConfigError(f"the id of a task is {shown(task.id)}; a text of whole characters is needed")
        return task
    return Task(id=id, input=task if isinstance(task, Mapping) else {"prompt": task})
