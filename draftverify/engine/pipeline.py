"""A pipeline: the parts, the settings they share, and whether they fit each other. It is itself a Generator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

from draftverify.calibration.controller import Fixed
from draftverify.engine import drivers
from draftverify.engine.budget import Budget
from draftverify.engine.events import Listener
from draftverify.engine.requests import Answer, Ask
from draftverify.errors import DraftVerifyError, PipelineError, below
from draftverify.protocols import AcceptanceRule, BlockSize, Done, Generator, Verifier
from draftverify.rejection import Policy
from draftverify.values import (
    EMPTY,
    Context,
    Decision,
    Memory,
    Outcome,
    Proposal,
    Round,
    Shape,
    Task,
    TaskRecord,
)

__all__ = ["Pipeline"]

_PROVIDES = frozenset({"verdicts"})
_LAWS = frozenset({"given"})
_EVIDENCE = ("verdicts", "scores", "target", "raw_maxima", "pairwise", "cross", "hidden")


class Pipeline:
    """Generator, verifier and rule, with what surrounds them.

    Args:
        generator: proposes blocks.
        verifier: checks them.
        rule: keeps what survives.
        policy: what becomes of a block that made no progress; none: the task ends there.
        block: how many items to ask for, or a BlockSize that chooses.
        done: the stopping rule; None: the verifier's own where it has one. A rule that says itself when it is done
            (selection) needs none.
        budget: the most that one task may use.
        settings: read by components from `context.settings` (temperature and the like).
        seed: of every random draw.
        name: in records and tables.

    Raises:
        PipelineError: when the parts do not fit: missing evidence, a law or shape that the rule does not take,
            different families, a part without its method.
        ConfigError: when a part refuses the settings.

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

    shape = None

    def __init__(
        self,
        generator: Generator,
        verifier: Verifier,
        rule: AcceptanceRule,
        *,
        policy: Policy | None = None,
        block: int | BlockSize = 1,
        done: Done | None = None,
        budget: Budget | None = None,
        settings: Mapping[str, Any] = EMPTY,
        seed: int = 0,
        name: str = "pipeline",
    ) -> None:
        self.generator = generator
        self.verifier = verifier
        self.rule = rule
        self.policy = policy or Policy()
        self.block: Any = Fixed(block) if isinstance(block, int) else block
        self.done: Done | None = getattr(verifier, "done", None) if done is None else done
        self.budget = budget or Budget()
        self.settings = settings
        self.seed = seed
        self.name = name
        self.enough: int | None = getattr(rule, "enough", None)
        self.shapes: frozenset[Shape] | None = getattr(rule, "shapes", None)
        self.prepares = hasattr(verifier, "prepare")
        self.finishes = hasattr(rule, "finish")
        self.learns = type(self.block) is not Fixed
        self.generators = [
            generator,
            *(clause.generator for clause in self.policy.clauses if clause.generator),
        ]
        parts = [*self.generators, verifier, rule, self.block]
        self.deterministic = self.budget.seconds is None and all(
            getattr(p, "deterministic", True) for p in parts
        )
        self.concurrent = all(getattr(part, "concurrent", True) for part in parts)
        self._check()
        # Read at every proposal, and a missing attribute is slow to look up.
        self.declared: dict[int, tuple[Shape | None, frozenset[str]]] = {
            id(part): (getattr(part, "shape", None), getattr(part, "laws", _LAWS)) for part in self.generators
        }

    def _check(self) -> None:
        for part, method, role in (
            *((generator, "propose", "generator") for generator in self.generators),
            (self.verifier, "verify", "verifier"),
            (self.rule, "decide", "rule"),
            (self.block, "size", "block"),
        ):
            if isinstance(part, type):
                raise PipelineError(
                    f"the {role} is the class {part.__name__}; an instance is needed: {part.__name__}(…)"
                )
            if not callable(getattr(part, method, None)):
                raise PipelineError(f"the {role} is a {type(part).__name__}, which has no method {method}()")
        for part in self.parts():
            if hasattr(part, "check_settings"):
                part.check_settings(self.settings)
        rule, verifier = _name(self.rule), _name(self.verifier)
        provides = getattr(self.verifier, "provides", _PROVIDES)
        needs = getattr(self.rule, "needs", _PROVIDES)
        for word in sorted({*provides, *needs} - set(_EVIDENCE)):
            raise PipelineError(f"{word!r} is no kind of evidence; one of {', '.join(_EVIDENCE)} is")
        missing = sorted(set(needs) - set(provides))
        if missing:
            raise PipelineError(
                f"the rule {rule} needs {', '.join(missing)}, which the verifier {verifier} does not provide "
                f"(it provides {', '.join(sorted(provides))}); choose another rule or another verifier"
            )
        laws = getattr(self.rule, "laws", None)
        shapes = self.shapes
        for generator in self.generators:
            used = getattr(generator, "laws", _LAWS)
            if laws is not None and not set(used) <= set(laws):
                refused = ", ".join(sorted(set(used) - set(laws)))
                raise PipelineError(
                    f"the generator {_name(generator)} draws by the law {refused}, for which the rule {rule} does not "
                    f"do what it promises (it takes {', '.join(sorted(laws))}); choose another rule or another "
                    "generator"
                )
            shape = getattr(generator, "shape", None)
            if (
                shapes is not None
                and shape is not None
                and shape not in shapes
                and not (shape == "chain" and "tree" in shapes)
            ):
                raise PipelineError(
                    f"the generator {_name(generator)} proposes {_plural(shape)}; the rule {rule} judges "
                    f"{', '.join(_plural(known) for known in sorted(shapes))}; choose another rule or another generator"
                )
            fitting = getattr(self.block, "shapes", None)
            if fitting is not None and shape is not None and shape not in fitting:
                raise PipelineError(
                    f"the generator {_name(generator)} proposes {_plural(shape)}; the block {_name(self.block)} is "
                    f"for {', '.join(_plural(known) for known in sorted(fitting))}; give a number, and sweep it"
                )
            families = getattr(generator, "family", None), getattr(self.verifier, "family", None)
            if None not in families and families[0] != families[1]:
                raise PipelineError(
                    f"the generator {_name(generator)} is of the family {families[0]}, the verifier {verifier} of "
                    f"{families[1]}; their items do not mean the same"
                )

    # Running

    def run(self, task: Any, **how: Any) -> Outcome:
        """Run one task (a Task, a mapping, or text for its prompt); the arguments of `record` besides."""
        return self.record(task, **how).outcome

    def record(
        self,
        task: Any,
        *,
        on_event: Listener | None = None,
        ask: Callable[[Ask], Answer | None] | None = None,
        memory: Memory | None = None,
        attempt: int = 0,
        restore: Sequence[Round] = (),
    ) -> TaskRecord:
        """Run one task and return its whole record.

        Args:
            task: a Task, a mapping (its input) or a text (its input's "prompt").
            on_event: called with every event.
            ask: plays the person; None from it, or no `ask`, leaves an escalated task waiting.
            memory: what earlier tasks taught.
            attempt: the infrastructure re-run.
            restore: rounds recorded before; they are not decided again.
        """
        session = drivers.Session(self, as_task(task), attempt=attempt, memory=memory, restore=restore)
        return drivers.run(session, on_event=on_event, ask=ask)

    async def arun(self, task: Any, **how: Any) -> Outcome:
        """Run one task under asyncio: coroutine components are awaited, others run in threads."""
        return (await self.arecord(task, **how)).outcome

    async def arecord(
        self,
        task: Any,
        *,
        on_event: Listener | None = None,
        ask: Callable[[Ask], Any] | None = None,
        memory: Memory | None = None,
        attempt: int = 0,
        restore: Sequence[Round] = (),
    ) -> TaskRecord:
        """As `record`, under asyncio."""
        session = drivers.Session(self, as_task(task), attempt=attempt, memory=memory, restore=restore)
        return await drivers.arun(session, on_event=on_event, ask=ask)

    def run_batch(self, tasks: Iterable[Any], **how: Any) -> list[Outcome]:
        """Run many tasks in lockstep, one pass over the batch where components can; outcomes in task order."""
        return [record.outcome for record in self.record_batch(tasks, **how)]

    def record_batch(
        self,
        tasks: Iterable[Any],
        *,
        size: int | None = None,
        on_event: Listener | None = None,
        ask: Callable[[Ask], Answer | None] | None = None,
        memory: Memory | None = None,
        attempt: int = 0,
    ) -> list[TaskRecord]:
        """As `record`, for many tasks; at most `size` are under way at once and finished ones are replaced."""
        sessions = (
            drivers.Session(self, as_task(task, str(i)), attempt=attempt, memory=memory)
            for i, task in enumerate(tasks)
        )
        return drivers.run_batch(sessions, size=size, on_event=on_event, ask=ask)

    def explain(self, task: Task, expected: Any, got: Any) -> str | None:
        """Why two outputs of a task differ that this pipeline's settings made, in the verifier's words; None where it
        has no `explain`."""
        tell = getattr(self.verifier, "explain", None)
        if tell is None:
            return None
        told = {"settings": self.settings} if "settings" in signature(tell).parameters else {}
        return str(tell(task, expected, got, **told))

    def stream(self, task: Any, **how: Any) -> Iterator[Decision]:
        """Yield each round's Decision as it is made; `decision.emitted` are the new values."""
        return drivers.stream(drivers.Session(self, as_task(task)), **how)

    def astream(self, task: Any, **how: Any) -> AsyncIterator[Decision]:
        """As `stream`, under asyncio."""
        return drivers.astream(drivers.Session(self, as_task(task)), **how)

    # As a generator inside another pipeline

    def propose(self, context: Context, n: int) -> Proposal:
        """Run n inner tasks; the accepted values are alternatives of law "given", their records nest.

        Raises:
            DraftVerifyError: when every inner task failed.
        """
        tasks = [
            Task(
                id=f"{context.task.id}/{context.round}.{i}",
                input=context.task.input,
                group=context.task.group,
            )
            for i in range(n)
        ]
        records = self.record_batch(tasks, memory=context.memory, attempt=context.attempt)
        outcomes = [record.outcome for record in records]
        if n and all(outcome.status == "failed" for outcome in outcomes):
            raise DraftVerifyError(
                f"all {n} inner tasks of {self.name} failed; the first: {outcomes[0].reason}"
            )
        items = tuple(outcome.value for outcome in outcomes if outcome.status == "accepted")
        return Proposal.alternatives(items, nested=tuple(records))

    # Resources

    def parts(self) -> list[Any]:
        """Every component, fallback generators too."""
        return [*self.generators, self.verifier, self.rule]

    def open(self) -> None:
        """Open every part that holds heavy resources, and let generators look at the verifier that they draft for.

        Raises:
            ConfigError: a part cannot be opened as it is configured, or a generator cannot draft for this verifier;
                the path begins with the part's role.
        """
        for part in self.parts():
            if hasattr(part, "open"):
                with below(self._role(part)):
                    part.open()
        for generator in self.generators:
            if hasattr(generator, "check_verifier"):
                with below("generator"):
                    generator.check_verifier(self.verifier)

    def _role(self, part: Any) -> str:
        if part is self.verifier:
            return "verifier"
        return "rule" if part is self.rule else "generator"

    def close(self) -> None:
        """Close what `open` opened."""
        for part in self.parts():
            if hasattr(part, "close"):
                part.close()

    def __enter__(self) -> Pipeline:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def as_task(task: Any, id: str = "0") -> Task:
    """A Task from a Task, a mapping (its input) or anything else (its input's "prompt")."""
    if isinstance(task, Task):
        return task
    return Task(id=id, input=task if isinstance(task, Mapping) else {"prompt": task})


def _name(part: object) -> str:
    return type(part).__name__


def _plural(shape: str) -> str:
    return shape if shape == "alternatives" else shape + "s"
