"""What a part says of itself: one frozen value per role, its `traits`, and the one place that asks a part anything.

A component sets what differs from the defaults, as a class attribute or as a property where its arguments decide; one
that plays several roles, a tuple:

    traits = GeneratorTraits(shape="chain", laws={"iid"}, reads={"temperature"})

An unknown name, or a word that means nothing, is an error where the value is made. `offers` tells whether a part has an
optional method, each of which has a Protocol of its own in `draftverify.protocols`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, fields
from functools import cache
from inspect import iscoroutinefunction
from types import FunctionType, MethodType, NoneType, UnionType
from typing import (
    Any,
    Literal,
    TypeAlias,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from draftverify.errors import ConfigError, PipelineError, did_you_mean
from draftverify.values import LawKind, Shape

EvidenceKind: TypeAlias = Literal["verdicts", "scores", "target", "raw_maxima", "cross", "hidden"]
"""What a verification may carry: a check per item, with scores or without, or rows of the target's distributions, their
largest entries at temperature 1, each item against each, and hidden states."""

Collects: TypeAlias = Literal["always", "given"]
"""When a round that brings a rule nothing is no trouble, and the next is drafted where no clause of the policy answers
it: always, or under a stopping rule that the pipeline is given. The rule goes on until its stopping rule, the budget or
an exhausted generator ends it; a hundred such rounds in a row are trouble again."""

DraftsFrom: TypeAlias = Literal["list", "continuation", "accepted", "round"]
"""What drafts depend on beside the task. In all but "list" fewer items asked for are the first of a longer block.
"list": a block is the next n of the task's own list, after those that it drafted before, `exhausted` with the one that
reaches the end. "continuation": what follows `context.accepted` alone, and after the first items of a block its others.
"accepted": `context.accepted`, the feedback, the refused items, and the rounds since a value was accepted. "round": the
round's number, `context.accepted`, the feedback and the refused items."""

Vocabulary: TypeAlias = "str | Callable[[], str | None] | None"
"""What items mean, or a function that tells; None where they are no words of a vocabulary."""

T = TypeVar("T")

_NEEDED: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: type(value) is bool, "True or False"),
    int: (lambda value: type(value) is int and value >= 0, "a number, 0 or more,"),
    str: (lambda value: isinstance(value, str), "a text"),
    Callable: (callable, "a function"),
}
"""By the type of a trait, which values fit, and what is needed."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What parts of every role may say.

    Args:
        reads: the names of the settings that the part reads from `context.settings`. A setting that no part of a
            pipeline reads is an error at build; a generator or a verifier with None may read any.
        concurrent: False where it is not safe to call from two threads at once; its calls take turns, whatever makes
            them, and under asyncio one call of the method for many serves all tasks that wait for it. One that runs
            pipelines of such parts in threads of its own waits for itself for ever: run them in its own thread.
        shares: gives what a part that is not concurrent is to have for itself while it is called, such as a model:
            parts that give the same object take turns with each other. None: the part alone.
        deterministic: False where the same call may answer otherwise another time.
        asynchronous: True where a plain method returns what is to be awaited; coroutine methods are seen without.
        remote: of a part that waits for a model or a service elsewhere, how many of its calls may be under way at once;
            0 where it computes here. So many tasks run side by side where an experiment does not say.
        free: whether it answers again for nothing, and the same: from a cache alone (`protocols.AnswersFromCache`), or
            at once from what it is given. Replays ask such parts where the records do not say, and a block that
            measures asks such a generator of chains at every step.

    Raises:
        PipelineError: a name that is no trait, or a value that it cannot have.
    """

    reads: Set[str] | None = None
    concurrent: bool = True
    shares: Callable[[], Iterable[object]] | None = None
    deterministic: bool = True
    asynchronous: bool = False
    remote: int = 0
    free: bool = False

    def __new__(cls, **traits: Any) -> Any:
        names = [field.name for field in fields(cls)]
        for name in traits:
            if name not in names:
                raise PipelineError(f"{name!r} is no trait of a {cls.role()}{did_you_mean(name, names)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, kinds in _kinds(cast(Any, type(self))).items():
            value = getattr(self, name)
            if value is None and NoneType in kinds:
                continue
            kind = kinds[0]
            if get_origin(kind) is Set:
                try:
                    if isinstance(value, (str, bytes)):
                        raise TypeError
                    value = frozenset(value)
                except TypeError:
                    raise self._wrong(name, f"a set of names is needed, as {{{value!r}}}") from None
                object.__setattr__(self, name, value)
                (kind,) = get_args(kind)
            elif get_origin(kind) is not Literal:
                fitting = [_NEEDED[get_origin(kind) or kind] for kind in kinds if kind is not NoneType]
                if not any(fits(value) for fits, _ in fitting):
                    needed = " or ".join(words for _, words in fitting)
                    optional = ", or None" if NoneType in kinds else ""
                    raise self._wrong(name, f"{needed} is needed{optional}")
            if get_origin(kind) is Literal:
                words = value if isinstance(value, frozenset) else (value,)
                for word in sorted((word for word in words if word not in get_args(kind)), key=str):
                    near = did_you_mean(str(word), get_args(kind))
                    raise PipelineError(f"{word!r} is no word for {name}{near}")

    @classmethod
    def role(cls) -> str:
        """The role in words."""
        return cls.__name__.removesuffix("Traits").lower()

    def _wrong(self, name: str, problem: str) -> PipelineError:
        return PipelineError(f"{type(self).__name__}({name}={getattr(self, name)!r}): {problem}")


@dataclass(frozen=True, kw_only=True)
class GeneratorTraits(Traits):
    """What a generator says of itself.

    Args:
        shape: the one shape of its proposals; None for any.
        laws: which laws its proposals may have.
        families: which models its work rests on, such as "smollm2"; known without loading anything. A pipeline whose
            verifier shares a family with what drafts for it checks itself, which reports mark.
        vocabulary: what the items mean (a tokenizer's identity); a generator and a verifier that both have one must
            have the same. A function that reads it is called where there is something to compare.
        needs_feedback: whether it refines what it made by what others say of it, and so is refused in a pipeline whose
            policy has no feedback clause or whose verifier is of its own family.
        hidden: which of the target's hidden states it reads, as indices into transformers' `hidden_states`; a target
            that can keeps them for it.
        drafts_from: what its drafts depend on beside the task, so that recorded ones can be replayed under another
            rule, block or policy (`DraftsFrom`); None: a draft is replayed only where the whole context is as recorded.
    """

    shape: Shape | None = None
    laws: Set[LawKind] = frozenset({"given"})
    families: Set[str] = frozenset()
    vocabulary: Vocabulary = None
    needs_feedback: bool = False
    hidden: Set[int] = frozenset()
    drafts_from: DraftsFrom | None = None


@dataclass(frozen=True, kw_only=True)
class VerifierTraits(Traits):
    """What a verifier says of itself.

    Args:
        provides: which evidence its verifications carry.
        families, vocabulary: as a generator's.
        outside: whether an item passes only where one that rests on no model passed it, so that the pipeline is not
            marked as one that checks itself; None: where it has no family.
        plain_steps: whether an empty block brings the value that it goes on with, a plain step. One that gives target
            distributions need not say it.
        thresholds: the names of the constructor's arguments that scores are compared with, for a verifier that can
            read its recorded scores with others (`protocols.Rejudges`).
        name: what it is called as a stage among others; its class's name without.
        at_once: how many items it looks at beside each other, so that a replay tells the seconds of fewer.
    """

    provides: Set[EvidenceKind] = frozenset({"verdicts"})
    families: Set[str] = frozenset()
    vocabulary: Vocabulary = None
    outside: bool | None = None
    plain_steps: bool = False
    thresholds: Set[str] = frozenset()
    name: str = ""
    at_once: int = 1

    @property
    def goes_on_plainly(self) -> bool:
        """Whether an empty block brings a value: the verifier says so, or measures the target."""
        return self.plain_steps or "target" in self.provides

    @property
    def stands_outside(self) -> bool:
        """Whether an item passes only where one that rests on no model passed it."""
        return not self.families if self.outside is None else self.outside


@dataclass(frozen=True, kw_only=True)
class RuleTraits(Traits):
    """What an acceptance rule says of itself.

    Args:
        needs: what the verifier must provide.
        shapes: the proposal shapes that it can judge; None for all.
        laws: the laws for which it does what it promises; None for all.
        enough: how many passed items it needs before the verifier may stop; None for all, as for a rule that needs
            scores, to which a pass is not yet enough.
        exact: whether it emits the target's own distribution.
        abstains: whether a task that ends refused, with nothing left to try, has no answer (abstained) rather than
            been given up.
        collects: when it gathers items over rounds, so that a round without one is no trouble (`Collects`); None for
            never.
        stepwise: whether an item is a step of an answer, or a part of one, so that no item can be labelled alone.
    """

    reads: Set[str] = frozenset()
    needs: Set[EvidenceKind] = frozenset({"verdicts"})
    shapes: Set[Shape] | None = None
    laws: Set[LawKind] | None = None
    enough: int | None = None
    exact: bool = False
    abstains: bool = False
    collects: Collects | None = None
    stepwise: bool = False


@dataclass(frozen=True, kw_only=True)
class BlockTraits(Traits):
    """What a block size says of itself.

    Args:
        shapes: the shapes of proposals that it is for; None for all.
        learns: whether it hears of finished rounds, so that what it asks for depends on what was accepted before.
    """

    reads: Set[str] = frozenset()
    shapes: Set[Shape] | None = None
    learns: bool = True


@cache
def _kinds(traits: Any) -> dict[str, tuple[Any, ...]]:
    """By the name of a trait, the types that it may have."""
    hints = get_type_hints(traits)
    return {
        name: get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        for name, hint in hints.items()
    }


def families(family: str | None) -> frozenset[str]:
    """The families of a part with one model, by what the model says of itself: none where it cannot tell."""
    return frozenset() if family is None else frozenset({family})


def traits_of(part: Any, kind: type[T]) -> T:
    """What a part says of itself; the defaults where it says nothing.

    Args:
        part: a generator, a verifier, a rule or a block size.
        kind: the traits of its role.

    Raises:
        PipelineError: its `traits` are of another role, or it says such things as attributes of its own.
    """
    try:
        traits = part.traits
    except AttributeError:
        if hasattr(type(part), "traits"):  # its property failed
            raise
        _refuse_attributes(part, kind, getattr(part, "__dict__", {}))
        return kind()
    _refuse_attributes(part, kind, {})
    if isinstance(traits, kind):
        return traits
    if isinstance(traits, tuple) and all(isinstance(entry, Traits) for entry in traits):
        return next((entry for entry in traits if isinstance(entry, kind)), kind())
    raise PipelineError(
        f"the traits of {name_of(part)} are {traits!r}; {kind.__name__} is needed, as traits = {kind.__name__}(…) in "
        "its class, or a tuple of them where it plays several roles"
    )


def _refuse_attributes(part: Any, kind: type[Any], attributes: Mapping[str, Any]) -> None:
    """Refuse a part that has attributes of the names of traits: nobody would look at them.

    `attributes` are its instance's; what its class has is looked at anyhow. An argument of its constructor may have
    any name.
    """
    holder: Any = type(part)
    names = {field.name for field in fields(kind)} - {"name", "at_once"}
    stored = {name: value for name, value in attributes.items() if name not in _arguments(holder)}
    for name, value in {**_own_attributes(holder), **stored}.items():
        if isinstance(value, Traits) and name != "traits":
            raise PipelineError(f"{name_of(part)} says what it is as {name!r}; the name is traits")
        if name in names:
            raise PipelineError(
                f"{name_of(part)} says {name!r} as an attribute of its own, which is not read; write "
                f"traits = {kind.__name__}({name}=…), in its class or as a property"
            )


@cache
def _own_attributes(kind: Any) -> dict[str, Any]:
    """The attributes of a class that are neither methods nor arguments of its constructor."""
    attributes = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return {
        name: value
        for name, value in attributes.items()
        if name not in _arguments(kind) and not name.startswith("__") and not inspect.isroutine(value)
    }


@cache
def _arguments(kind: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        return frozenset()


TRAITS: dict[str, type[Traits]] = {
    "generator": GeneratorTraits,
    "verifier": VerifierTraits,
    "rule": RuleTraits,
}
"""The traits of each role."""


# What else can be asked of a part


def vocabulary_of(traits: GeneratorTraits | VerifierTraits) -> str | None:
    """What a part's items mean; reading all words of a large vocabulary takes as long as several rounds."""
    return traits.vocabulary() if callable(traits.vocabulary) else traits.vocabulary


def shared_vocabulary(parts: Iterable[tuple[str, GeneratorTraits | VerifierTraits]]) -> str | None:
    """The vocabulary that parts share which have one, given with their names.

    Raises:
        ConfigError: two have different ones.
    """
    owners = {vocabulary: name for name, traits in parts if (vocabulary := vocabulary_of(traits)) is not None}
    if len(owners) > 1:
        listed = ", ".join(f"{name} {vocabulary}" for vocabulary, name in owners.items())
        raise ConfigError(f"these have different vocabularies: {listed}; their items do not mean the same")
    return next(iter(owners), None)


def shared_things(part: object, traits: Traits) -> tuple[object, ...]:
    """What nobody else may use while a part is called: () where it is concurrent."""
    if traits.concurrent:
        return ()
    return (part,) if traits.shares is None else tuple(traits.shares())


def offers(part: object, protocol: type[T]) -> TypeGuard[T]:
    """Whether a part has the method of an optional Protocol; one whose property raises AttributeError has not."""
    return optional_method(part, protocol) is not None


def optional_method(part: object, protocol: type) -> Callable[..., Any] | None:
    """A part's method of an optional Protocol; None where it has none."""
    method = getattr(part, _method(cast(Any, protocol)), None)
    return method if callable(method) else None


def has_methods(part: object, *names: str) -> bool:
    """Whether a part has all of these methods."""
    return all(callable(getattr(part, name, None)) for name in names)


@cache
def _method(protocol: Any) -> Any:
    return next(
        name for name, value in vars(protocol).items() if isinstance(value, FunctionType) and name[0] != "_"
    )


def _declared(part: object) -> tuple[Traits, ...]:
    traits = getattr(part, "traits", ())
    return traits if isinstance(traits, tuple) else (traits,) if isinstance(traits, Traits) else ()


def is_asynchronous(part: object) -> bool:
    """Whether a part has coroutine methods, or says that its methods return what is to be awaited."""
    if any(traits.asynchronous for traits in _declared(part)):
        return True
    return any(iscoroutinefunction(getattr(part, method, None)) for method in METHODS)


METHODS = ("propose", "propose_many", "prepare", "verify", "verify_many", "decide", "decide_many", "finish")
"""The methods of a part that may be coroutine functions."""


def read_by(traits: Iterable[Traits]) -> frozenset[str] | None:
    """The names of the settings that some parts read; None where one does not say, and may read any."""
    reads = [part.reads for part in traits]
    return None if None in reads else frozenset[str]().union(*(names for names in reads if names is not None))


def name_of(part: object) -> str:
    """What messages call a part: its class, or the function that it is or was made of; of one that stands in for
    another (`__wrapped__`), as that one."""
    part = getattr(part, "__wrapped__", part)
    if isinstance(part, (FunctionType, MethodType)):
        return part.__qualname__.rpartition("<locals>.")[2]
    return getattr(getattr(part, "function", None), "__name__", None) or type(part).__name__
