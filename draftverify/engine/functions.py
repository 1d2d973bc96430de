"""Plain functions as components: `generator(function)` and `verifier(function)`; in a config `{use: python, …}`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import isawaitable, iscoroutinefunction
from itertools import islice
from types import CoroutineType
from typing import Annotated, Any

import numpy as np

from draftverify.engine.failures import failed
from draftverify.errors import ContractError, PipelineError, shown
from draftverify.traits import GeneratorTraits, VerifierTraits, families
from draftverify.values import PASS, REJECT, UNCHECKED, Check, Context, Failure, Proposal, Shape, Verification


class generator:  # noqa: N801 - reads as a function, and so do its users' programs
    """A generator made of a function.

    Args:
        function: `function(context, n)` returns a Proposal, or an iterable of items (no text) of which the first n are
            taken. It may be a coroutine function, for `arun`.
        shape: how an iterable's items stand to each other: "alternatives" or "chain".
        reads: the settings that the function reads; None: it may read any.
        family: which models the function asks ("smollm2"), where it asks any.

    Raises:
        PipelineError: the function does not take these two arguments.
    """

    def __init__(
        self,
        function: Annotated[Callable[[Context, int], Any], "function"],
        *,
        shape: Shape = "alternatives",
        reads: Sequence[str] | None = None,
        family: str | None = None,
    ) -> None:
        _check_arity(function, "context", "n")
        self.function = function
        self.shape = shape
        self.reads = reads
        self.family = family

    @cached_property
    def traits(self) -> GeneratorTraits:
        """What the arguments say."""
        return GeneratorTraits(
            shape=self.shape,
            reads=self.reads,  # type: ignore[arg-type]  # of which it makes a set
            families=families(self.family),
            asynchronous=_is_async(self.function),
        )

    def propose(self, context: Context, n: int) -> Any:
        """What the function proposes."""
        if _is_async(self.function):
            return self._later(context, n)
        return self._read(self.function(context, n), n)

    async def _later(self, context: Context, n: int) -> Proposal:
        return self._read(await self.function(context, n), n)

    def _read(self, draft: Any, n: int) -> Proposal:
        if isinstance(draft, Proposal):
            return draft
        if isinstance(draft, (str, bytes, Mapping)) or not isinstance(draft, Iterable):
            raise ContractError(_wrong(self.function, draft, "a Proposal or an iterable of items"))
        items = tuple(islice(draft, n))
        return Proposal.chain(items) if self.shape == "chain" else Proposal.alternatives(items)


def each_item(context: Context, proposal: Proposal, judge: Callable[[Any], Check]) -> Verification:
    """A block's verification by a judge of single items; once `context.enough` passed, the others are unchecked."""
    checks: list[Check] = []
    passed = 0
    for item in proposal.items:
        if context.enough is not None and passed >= context.enough:
            checks.append(UNCHECKED)
        else:
            checks.append(judge(item))
            passed += checks[-1].verdict == "pass"
    return Verification(checks=tuple(checks))


class verifier:  # noqa: N801
    """A verifier made of a function that judges one item.

    Args:
        function: `function(context, item)` returns a Check, True or False, or None when it cannot tell; anything else
            is no verdict, and the call fails. What it raises is that item's error, or its timeout for a TimeoutError.
            It may be a coroutine function, for `arun`.
        scores: whether the function returns Checks that carry a score, for rules that need one.
        reads: the settings that the function reads; None: it may read any.
        family: which models the function asks ("smollm2"), where it asks any.

    The function sees one item at a time, so it suits alternatives; for a chain, whose items stand on each other,
    write a class with `verify(context, proposal)`.
    """

    def __init__(
        self,
        function: Annotated[Callable[[Context, Any], Any], "function"],
        *,
        scores: bool = False,
        reads: Sequence[str] | None = None,
        family: str | None = None,
    ) -> None:
        _check_arity(function, "context", "item")
        self.function = function
        self.scores = scores
        self.reads = reads
        self.family = family

    @cached_property
    def traits(self) -> VerifierTraits:
        """What the arguments say: verdicts, and scores where the function gives them."""
        return VerifierTraits(
            provides={"verdicts", "scores"} if self.scores else {"verdicts"},
            reads=self.reads,  # type: ignore[arg-type]  # of which it makes a set
            families=families(self.family),
            asynchronous=_is_async(self.function),
            name=getattr(self.function, "__name__", ""),
        )

    def verify(self, context: Context, proposal: Proposal) -> Any:
        """One check per item; stops once `context.enough` passed.

        A coroutine function judges items side by side: as many as are still missing, and no more.
        """
        if _is_async(self.function):
            return self._later(context, proposal)
        return each_item(context, proposal, lambda item: self._check(context, item))

    def _check(self, context: Context, item: Any) -> Check:
        try:
            verdict = self.function(context, item)
        except Exception as error:
            return failed(Failure.of(error))
        return self._read(verdict)

    async def _later(self, context: Context, proposal: Proposal) -> Verification:
        from asyncio import gather

        async def judge(item: Any) -> Any:
            try:
                return await self.function(context, item)
            except Exception as error:
                return failed(Failure.of(error))

        items, checks, passed = list(proposal.items), list[Check](), 0
        while remaining := items[len(checks) :]:
            missing = len(remaining) if context.enough is None else context.enough - passed
            if missing <= 0:
                break
            judged = list(map(self._read, await gather(*map(judge, remaining[:missing]))))
            passed += sum(check.verdict == "pass" for check in judged)
            checks += judged
        return Verification(checks=(*checks, *[UNCHECKED] * len(remaining)))

    def _read(self, verdict: Any) -> Check:
        if isinstance(verdict, Check):
            return verdict
        if verdict is None:
            return Check("abstain")
        if isinstance(verdict, (bool, np.bool_)):
            return PASS if verdict else REJECT
        raise ContractError(_wrong(self.function, verdict, "a Check, True, False or None"))


def _check_arity(function: Any, *arguments: str) -> None:
    """Refuse a function that cannot be called with so many arguments; one that does not say what it takes passes."""
    if not callable(function):
        raise PipelineError(f"{function!r} is no function; function({', '.join(arguments)}) is needed")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise PipelineError(
            f"{name}{signature} cannot be called as {name}({', '.join(arguments)}): {error}"
        ) from error


def _is_async(fn: Any) -> bool:
    return iscoroutinefunction(fn) or iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _wrong(fn: Any, value: Any, allowed: str) -> str:
    description = shown(value)
    if isawaitable(value):
        allowed += ", and a coroutine from an `async def` alone"
        if isinstance(value, CoroutineType):
            value.close()  # nobody will await it
    name = getattr(fn, "__name__", type(fn).__name__)
    return f"{name} returned {description}; it may return {allowed}"
