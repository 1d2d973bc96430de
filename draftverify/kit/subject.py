"""A component under test: built anew from its arguments, called with copies, its answers compared."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import cycle, islice
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.kit.assertions import ensure
from draftverify.kit.calls import deciding, drafting, verifying
from draftverify.kit.contexts import difference, make_context, make_draws, snapshot
from draftverify.kit.outside import Outside
from draftverify.protocols import Closes, Opens, Prepares
from draftverify.traits import TRAITS, has_methods, offers, traits_of
from draftverify.values import EMPTY, Context, Proposal, Round, Task, Verification

Role: TypeAlias = Literal["generator", "verifier", "rule"]
METHODS: dict[Role, str] = {"generator": "propose", "verifier": "verify", "rule": "decide"}
NO_ITEMS: dict[Role, str] = {
    "generator": "nothing was proposed in any call; give tasks= on which it drafts",
    "verifier": "no block had an item; give proposals= with some",
    "rule": "no case had an item; give cases=[(context, proposal, verification)] with some",
}
"""What to say where the calls of a role had no item to look at."""
MANY = 17
"""Sessions in a batch: more than the powers of two that are padded to, or cut at."""
_TEXTS = {"a": "the cat sat on the mat, the cat", "b": "one two one two"}


class Subject:
    """A component under test, and what to test it with.

    Args:
        component: the instance; the checks build others with the same arguments and work on those.
        role: "generator", "verifier" or "rule"; told from its methods when None.
        contexts: contexts to call it in (see `make_context`); two small synthetic tasks when None.
        tasks: instead of contexts, tasks to make them of; a verifier that prepares tasks prepares them.
        settings: the pipeline's, in the contexts that are made of tasks.
        proposals: for a verifier, blocks of its own domain: for all contexts, or a function of a context.
        cases: for a rule, triples (context, proposal, verification) of its own domain.
        poison: for a verifier, items that make its check crash; else an object whose every method raises.
        block: how many items to ask for.
        trials: how many draws the statistical checks take.
        tolerance: how far floats may differ, relative and absolute, between a cached and a fresh computation.
    """

    def __init__(
        self,
        component: Any,
        *,
        role: Role | None = None,
        contexts: Sequence[Context] | None = None,
        tasks: Sequence[Task | Mapping[str, Any] | str] | None = None,
        settings: Mapping[str, Any] = EMPTY,
        proposals: Sequence[Proposal] | Callable[[Context], Sequence[Proposal]] | None = None,
        cases: Sequence[tuple[Context, Proposal, Verification]] | None = None,
        poison: Sequence[Any] | None = None,
        block: int = 3,
        trials: int = 2000,
        tolerance: float = 1e-5,
    ) -> None:
        self.given = component
        self.role: Role = role or _one_role(component)
        self.tasks = tasks
        self.settings = settings
        self.proposals = proposals
        self.cases = cases
        self.poison = poison
        self.block = block
        self.trials = trials
        self.tolerance = tolerance
        self.notes: dict[str, Any] = {}
        """What one check found out that another uses."""
        self.awaited = False
        """Whether an answer had to be awaited."""
        self.firsts: list[tuple[tuple[Any, ...], Any]] = []
        """The first calls that were made, and what was answered to them."""
        self._contexts = contexts
        self._opened: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    # The component

    @cached_property
    def outside(self) -> Outside:
        """The values that the component keeps outside its instances, as it was before the kit's first call."""
        return Outside(self.given)

    @cached_property
    def component(self) -> Any:
        """An opened instance, apart from the one that was given where it can be rebuilt."""
        return self.fresh()

    def fresh(self) -> Any:
        """Another opened instance with the same arguments, or the given one when it cannot be rebuilt."""
        self.outside  # noqa: B018 - looked at before anything is called
        try:
            places, names = self.arguments()
            instance = type(self.given)(*places, **names)
        except Exception:
            instance = self.given
        if offers(instance, Opens) and not any(instance is opened for opened in self._opened):
            self.wait(instance.open())
        self._opened.append(instance)
        return instance

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The constructor's arguments, read back from the attributes of their names."""
        places: list[Any] = []
        names: dict[str, Any] = {}
        for name, parameter in inspect.signature(type(self.given)).parameters.items():
            value = getattr(self.given, name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                places.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                names.update(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                names[name] = value
            else:
                places.append(value)
        return places, names

    @cached_property
    def traits(self) -> Any:
        """What the component says of itself; the defaults where that cannot be read, which `says_what_it_is` tells."""
        try:
            return traits_of(self.component, TRAITS[self.role])
        except Exception:
            return TRAITS[self.role]()

    @property
    def own_inputs(self) -> str:
        """The names of what its author gave to call it with; "" where all is the kit's own."""
        inputs = {
            "tasks": self.tasks,
            "contexts": self._contexts,
            "proposals": self.proposals,
            "cases": self.cases,
        }
        return " and ".join(f"{name}=" for name, value in inputs.items() if value is not None)

    def repeats(self) -> bool:
        """Whether the component says that the same call gets the same answer."""
        return bool(self.traits.deterministic)

    def close(self) -> None:
        """Close every instance that was opened here; what goes wrong with it is for `closes_twice` to say."""
        for instance in self._opened:
            if offers(instance, Closes):
                with suppress(Exception):
                    self.wait(instance.close())
        self._opened.clear()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    # Its calls

    @cached_property
    def contexts(self) -> list[Context]:
        """The contexts to call it in; a verifier that prepares has prepared the tasks."""
        if self._contexts is not None:
            return list(self._contexts)
        tasks = [make_context(task).task for task in self.tasks or ()] or [
            Task(
                id=name, input={"prompt": text, "text": text, "question": text, "prompt_ids": (0, 1, 0, 1, 0)}
            )
            for name, text in _TEXTS.items()
        ]
        if self.role == "verifier" and offers(self.component, Prepares):
            tasks = [self.wait(self.component.prepare(task)) for task in tasks]
        role = "draft" if self.role == "generator" else "verify"
        return [make_context(task, role=role, settings=self.settings) for task in tasks]

    @cached_property
    def histories(self) -> list[list[tuple[Any, ...]]]:
        """The arguments of the calls of successive rounds, task by task."""

        def answer(call: tuple[Any, ...]) -> Any:
            response = self.answer(call)
            if len(self.firsts) < MANY:
                self.firsts.append((call, response))
            return response

        if self.role == "generator":
            return [drafting(answer, context, self.block) for context in self.contexts]
        if self.role == "verifier":
            by_target = "target" in self.traits.provides
            proposals_of = self.proposals if callable(self.proposals) else lambda _: self.proposals
            return [
                verifying(answer, context, proposals_of(context), by_target=by_target)
                for context in self.contexts
            ]
        if self.cases is None:
            return [[case] for case in deciding(self.traits, self.contexts)]
        return [[(*case, make_draws(case[0].task.id, round=case[0].round))] for case in self.cases]

    @cached_property
    def calls(self) -> list[tuple[Any, ...]]:
        """All calls, task after task."""
        return [call for history in self.histories for call in history]

    @cached_property
    def answers(self) -> list[Any]:
        """The answers to `calls` of an instance that was called for nothing before."""
        calls = self.calls
        with self.outside.as_at_first():
            instance = self.fresh()
            return [self.answer(call, on=instance) for call in calls]

    def batches(self) -> list[list[tuple[tuple[Any, ...], dict[Any, Any]]]]:
        """Calls to be made together, each with its session's scratch; the lists are in the order of the rounds.

        First one session alone, then another joins at each step, so that some are rounds ahead of others; then many,
        each of which finds its scratch empty. Of a rule, whose calls are no rounds, all at once. What generators are
        asked for, too, is another number in each.
        """
        if self.role == "rule":
            return [[(call, {}) for call in self.calls]]
        sessions = [*self.histories, *(self.histories if len(self.histories) == 1 else ())]
        scratches: list[dict[Any, Any]] = [{} for _ in sessions]
        step_count = max(start + len(history) for start, history in enumerate(sessions))
        steps = []
        for step in range(step_count):
            under_way = []
            for start, (history, scratch) in enumerate(zip(sessions, scratches, strict=True)):
                if start <= step < start + len(history):
                    context, argument, *arguments = history[step - start]
                    if self.role == "generator":
                        argument = 1 + (argument + start + step) % max(argument, 1)
                    under_way.append(((context, argument, *arguments), scratch))
            steps.append(under_way)
        mixed_batch: list[tuple[tuple[Any, ...], dict[Any, Any]]] = [
            (call, {}) for call in islice(cycle(self.calls), MANY)
        ]
        return [*steps, mixed_batch] if mixed_batch else steps

    def drawing_calls(self) -> list[tuple[Any, ...]]:
        """A few calls in which a component that draws would draw: of a rule, blocks of several items."""
        if self.role != "rule":
            return [history[0] for history in self.histories[: 1 if self.role == "verifier" else 2]]
        calls = [call for call in self.calls if len(call[1]) > 1]
        return calls[:: -(-len(calls) // 6)] if calls else []

    def drawn(self, call: tuple[Any, ...], stream: int, later: int) -> tuple[Any, ...]:
        """The same call with the draws of another stream, so many rounds later.

        Args:
            call: the arguments.
            stream: which key; two keys are two re-runs of the task.
            later: how many rounds, in which nothing was accepted.
        """
        context = call[0]
        rounds = context.rounds
        for _ in range(later):
            rounds = rounds.then((Round(index=len(rounds)),))
        role = {"generator": "draft", "verifier": "verify", "rule": "rule"}[self.role]
        draws = make_draws(context.task.id, attempt=stream, role=role, round=len(rounds))
        if self.role == "rule":
            return changed((*call[:-1], draws), rounds=rounds)
        return changed(call, rounds=rounds, draws=draws)

    def answer(self, call: tuple[Any, ...], on: Any = None, scratch: dict[Any, Any] | None = None) -> Any:
        """The answer to a copy of a call's arguments, with an empty scratch unless one is given."""
        scratch, is_own = ({}, True) if scratch is None else (scratch, False)
        value = self.call(changed(owned(call), scratch=scratch), on)
        if is_own:
            free(scratch)
        return value

    def call(self, arguments: tuple[Any, ...], on: Any = None) -> Any:
        """The answer to these very arguments."""
        value = getattr(self.component if on is None else on, METHODS[self.role])(*arguments)
        self.awaited |= inspect.isawaitable(value)
        return self.wait(value)

    def wait(self, value: Any) -> Any:
        """The value, or what it gives when it is a coroutine."""
        if not inspect.isawaitable(value):
            return value
        self._loop = self._loop or asyncio.new_event_loop()

        async def wait() -> Any:
            return await value

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(wait())
        # A notebook's loop runs in this thread already.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._loop.run_until_complete, wait()).result()

    def same(self, left: Any, right: Any, problem: str) -> None:
        """Ensure that two answers are equal, unless one says itself that it is not deterministic."""
        if getattr(left, "deterministic", True) and getattr(right, "deterministic", True):
            change = difference(snapshot(left), snapshot(right), self.tolerance)
            ensure(change is None, f"{problem}: {change}")


def roles_of(component: Any) -> list[Role]:
    """The roles whose method a component has; none for a class."""
    callables = [role for role, method in METHODS.items() if has_methods(component, method)]
    return [] if isinstance(component, type) else callables


def _one_role(component: Any) -> Role:
    if isinstance(component, type):
        raise ConfigError(f"{component.__name__} is a class; give an instance: {component.__name__}(…)")
    roles = roles_of(component)
    if not roles:
        problem = f"{type(component).__name__} has none of propose(), verify(), decide(), so it has no role"
        hint = "; draftverify.generator(fn) or draftverify.verifier(fn) makes a part of a function"
        raise ConfigError(problem + (hint if callable(component) else ""))
    if len(roles) > 1:
        has = ", ".join(f"{METHODS[role]}()" for role in roles)
        raise ConfigError(f"{type(component).__name__} has {has}; say role= (generator, verifier or rule)")
    return roles[0]


def free(scratch: dict[Any, Any]) -> None:
    """Empty a scratch as a driver does: entries that can be closed are."""
    for entry in scratch.values():
        if offers(entry, Closes):
            entry.close()
    scratch.clear()


def owned(value: Any) -> Any:
    """A copy whose containers and NumPy arrays a component may spoil without spoiling the original."""
    kind = type(value)  # never isinstance: it may ask the value for its class, and a poisonous item minds
    if issubclass(kind, msgspec.Struct):
        return msgspec.structs.replace(
            value, **{name: owned(getattr(value, name)) for name in value.__struct_fields__}
        )
    if kind in (list, tuple):
        return kind(owned(entry) for entry in value)
    if kind is dict:
        return {key: owned(entry) for key, entry in value.items()}
    return np.array(value) if kind is np.ndarray else value


def bare(call: tuple[Any, ...]) -> tuple[Any, ...]:
    """A copy of a call's arguments with an empty scratch."""
    return changed(owned(call), scratch={})


def changed(call: tuple[Any, ...], **fields: Any) -> tuple[Any, ...]:
    """A call with other fields of its context."""
    context, *arguments = call
    return (msgspec.structs.replace(context, **fields), *arguments)
