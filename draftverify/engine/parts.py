"""The parts of a pipeline, the settings they share, and whether they fit each other: all that a session knows of it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from inspect import iscoroutinefunction
from types import FunctionType, MethodType
from typing import Any, ClassVar, get_args

import numpy as np

from draftverify.engine.budget import Budget
from draftverify.engine.requests import Decide, Draft, Finish, Prepare, Verify
from draftverify.errors import (
    ConfigError,
    PipelineError,
    below,
    shown,
)
from draftverify.frozen import freeze
from draftverify.protocols import AcceptanceRule, BlockSize, Collects, Done, Generator, Verifier
from draftverify.rejection import Clause, Policy
from draftverify.values import EMPTY, Context, LawKind, Round, Shape, is_utf8

__all__ = ["Fixed", "Parts", "either", "goes_on_plainly", "is_asynchronous", "name_of", "read_by"]

VERDICTS = frozenset({"verdicts"})
GIVEN = frozenset({"given"})
EVIDENCE = ("verdicts", "scores", "target", "raw_maxima", "cross", "hidden")
CHECKS = frozenset({"verdicts", "scores"})
"""What checks alone can carry; a person and a trusted fallback give no more."""


class Parts:
    """Generator, verifier and rule, with what surrounds them; the arguments are `Pipeline`'s.

    Attributes:
        generators: the generator, then those of fallbacks.
        declared: by the id of each of them, its shape (None for any) and its laws.
        enough, shapes, prepares, finishes, abstains, done: what verifier and rule say of themselves.
        collects: whether a round that brings the rule nothing is no trouble under this stopping rule.
        partial: whether a policy step answers items that were refused beside accepted ones.
        learns: whether the block size wants to hear of finished rounds; `settles` of finished tasks.
        undrafted: the trouble under which a task goes to a fallback at once where the block size says so; None where it
            cannot.
        deterministic: whether nothing here reads clocks or is left to chance.
        asynchronous: whether a part has coroutine methods, for which `arun` is needed.
        nests: whether a generator is itself a pipeline.
    """

    def __init__(
        self,
        generator: Generator,
        verifier: Verifier,
        rule: AcceptanceRule,
        *,
        policy: Policy | None = None,
        block: int | BlockSize | None = None,
        done: Done | None = None,
        budget: Budget | None = None,
        settings: Mapping[str, Any] = EMPTY,
        seed: int = 0,
        name: str = "pipeline",
    ) -> None:
        self.policy = policy if policy is not None else Policy()
        self.budget = budget if budget is not None else Budget()
        self.settings: Mapping[str, Any] = settings
        self.seed = seed
        self.name = name
        self._check_arguments(done)
        self.settings = freeze(settings, "settings")
        self.generator = generator
        self.verifier = verifier
        self.rule = rule
        self.block: Any = _sized(block, "block") if block is not None else _brought(generator)
        self._fits = False
        self._given_done = done
        self.done: Done | None = done if done is not None else either(verifier, rule)
        # To a rule that compares scores a pass is not yet enough.
        scored = "scores" in getattr(rule, "needs", VERDICTS)
        self.enough: int | None = None if scored else getattr(rule, "enough", None)
        self.shapes: frozenset[Shape] | None = getattr(rule, "shapes", None)
        self.prepares = hasattr(verifier, "prepare")
        self.finishes = hasattr(rule, "finish")
        self.abstains = bool(getattr(rule, "abstains", False))
        collects = getattr(rule, "collects", None)
        if collects not in (None, *get_args(Collects)):
            raise PipelineError(
                f"{collects!r} is no word for when a rule collects; {name_of(rule)} declares one of "
                f"{_listed(get_args(Collects))}, or None"
            )
        self.collects = collects == "always" or (collects == "given" and done is not None)
        self.partial = any(clause.partial for clause in self.policy.clauses)
        self.learns = type(self.block) is not Fixed
        self.settles = hasattr(self.block, "settle")
        self.undrafted = self.policy.undrafted if hasattr(self.block, "drafts") else None
        self.generators = [
            generator,
            *(clause.generator for clause in self.policy.clauses if clause.generator is not None),
        ]
        parts = [*self.generators, verifier, rule, self.block]
        self.deterministic = self.budget.seconds is None and all(
            getattr(part, "deterministic", True) for part in parts
        )
        self.asynchronous = any(map(is_asynchronous, parts))
        self.nests = any(isinstance(each, Parts) for each in self.generators)
        self.declared = {
            id(each): (getattr(each, "shape", None), frozenset(getattr(each, "laws", GIVEN)))
            for each in self.generators
        }
        self._check()
        if hasattr(self.block, "begin"):
            self.block.begin(verifier, fallback=self.policy.undrafted is not None)

    def _check_arguments(self, done: object) -> None:
        for name, value, kind, example in (
            ("policy", self.policy, Policy, "retry(2).then(escalate())"),
            ("budget", self.budget, Budget, "Budget(rounds=8)"),
            ("settings", self.settings, Mapping, "{'temperature': 0.7}"),
            ("seed", self.seed, int, "7"),
            ("name", self.name, str, "'lookup'"),
        ):
            if not isinstance(value, kind) or isinstance(value, bool):
                raise PipelineError(
                    f"{name} is {value!r}, a {type(value).__name__}; a {kind.__name__} is needed, as {name}={example}"
                )
        clauses: Any = self.policy.clauses
        if type(clauses) is not tuple or not all(type(clause) is Clause for clause in clauses):
            raise PipelineError(f"policy has the clauses {shown(clauses)}; a tuple of them is needed")
        for clause in clauses:
            if not is_utf8(clause.name):
                raise PipelineError(f"a fallback is named {clause.name!r}, which cannot be written down")
        if done is not None and (isinstance(done, type) or not callable(done)):
            raise PipelineError(
                f"done is {done!r}; a function done(context, new) is needed, as done=Limit(8)"
            )

    def _check(self) -> None:
        """Refuse parts that do not fit each other."""
        methods = {"generator": "propose", "verifier": "verify", "rule": "decide"}
        for role, part in self.roles():
            method = methods[role]
            if isinstance(part, type):
                raise PipelineError(
                    f"the {role} is the class {part.__name__}; an instance is needed: {part.__name__}(…)"
                )
            if not callable(getattr(part, method, None)):
                raise PipelineError(f"the {role} is a {type(part).__name__}, which has no method {method}()")
        self._check_readers()
        self.check_settings(EMPTY)
        self._check_evidence()
        for generator in self.generators:
            self._check_generator(generator)
            if getattr(generator, "needs_feedback", False):
                self._check_feedback(generator)

    def _check_readers(self) -> None:
        """Refuse settings that nobody reads."""
        reads = self.reads
        if reads is None:
            return
        for name in self.settings:
            if name not in reads:
                near = difflib.get_close_matches(str(name), reads, n=1)
                known = f"; there are {', '.join(sorted(reads))}" if reads else "; none reads any"
                raise ConfigError(
                    f"no part of this pipeline reads the setting {name!r}"
                    + (f"; did you mean {near[0]}?" if near else known),
                    path=f"settings.{name}",
                )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings, outer ones (those of a pipeline that this one drafts for) too, that a part cannot read.

        Raises:
            ConfigError: a part does.
        """
        for part in self.parts():
            if hasattr(part, "check_settings"):
                part.check_settings({**settings, **self.settings})

    def _check_evidence(self) -> None:
        rule, verifier = name_of(self.rule), name_of(self.verifier)
        provides = frozenset(getattr(self.verifier, "provides", VERDICTS))
        needs = frozenset(getattr(self.rule, "needs", VERDICTS))
        for word in sorted((provides | needs) - set(EVIDENCE)):
            raise PipelineError(f"{word!r} is no kind of evidence; one of {', '.join(EVIDENCE)} is")
        if needs - provides:
            raise PipelineError(
                f"the rule {rule} needs {_listed(needs - provides)}, which the verifier {verifier} does not provide "
                f"(it provides {_listed(provides)}); choose another rule or another verifier, "
                "or name them in the verifier's `provides` where it gives them"
            )
        beyond = needs - CHECKS
        for clause in self.policy.clauses if beyond else ():
            trusted = clause.do == "fallback" and not clause.verified
            if trusted or clause.do == "escalate":
                who = "a fallback that is not verified" if trusted else "a person"
                raise PipelineError(
                    f"the rule {rule} needs {_listed(beyond)}; {who} passes items and measures nothing, so the "
                    f"policy step {clause.do!r} leads nowhere: "
                    + ("let the fallback be verified" if trusted else "leave it out, or choose another rule")
                )

    def _check_generator(self, generator: Any) -> None:
        who, rule = f"the generator {name_of(generator)}", f"the rule {name_of(self.rule)}"
        laws, shapes = getattr(self.rule, "laws", None), self.shapes
        shape, used = self.declared[id(generator)]
        for word in sorted(used - set(get_args(LawKind))):
            raise PipelineError(f"{word!r} is no law; {who} declares a set of {_listed(get_args(LawKind))}")
        if shape is not None and shape not in get_args(Shape):
            raise PipelineError(
                f"{shape!r} is no shape; {who} declares one of {_listed(get_args(Shape))}, or None"
            )
        if laws is not None and not used <= set(laws):
            raise PipelineError(
                f"{who} draws by the law {_listed(used - set(laws))}, for which {rule} does not do what it promises "
                f"(it takes {_listed(laws)}); choose another rule or another generator"
            )
        fits = shape is None or shapes is None or shape in shapes or (shape == "chain" and "tree" in shapes)
        if shapes is not None and not fits:
            raise PipelineError(
                f"{who} proposes {_plural(shape)}; {rule} judges {_listed(map(_plural, shapes))}; choose another rule "
                "or another generator"
            )
        fitting = getattr(self.block, "shapes", None)
        if fitting is not None and shape is not None and shape not in fitting:
            raise PipelineError(
                f"{who} proposes {_plural(shape)}; the block {name_of(self.block)} is for "
                f"{_listed(map(_plural, fitting))}; give a number, and sweep it"
            )
        own = getattr(generator, "vocabulary", None)
        # Asked for only where there is something to compare: a verifier may have to read all its words for it.
        other = getattr(self.verifier, "vocabulary", None) if own is not None else None
        if other is not None and own != other:
            raise PipelineError(
                f"{who} has the vocabulary {own}, the verifier {name_of(self.verifier)} {other}; their items do not "
                "mean the same"
            )

    def _check_feedback(self, generator: Any) -> None:
        """Refuse a generator that refines what it made where nobody says what is wrong with it."""
        if not any(
            clause.do == "feedback" and (not clause.on or "reject" in clause.on)
            for clause in self.policy.clauses
        ):
            raise PipelineError(
                f"the generator {name_of(generator)} needs feedback from outside, and the policy has no feedback "
                "clause that answers a reject; have a verifier that checks by other means say what is wrong "
                "(on_rejection: feedback), or give the generator its argument without_outside_feedback"
            )

    def check_fitted(self) -> None:
        """Refuse what was fitted with other parts than these: thresholds, and block sizes that were chosen for others.

        Looked at once, as the pipeline opens or at its first task, since an identity may read a model's files.

        Raises:
            ConfigError: something was; the path says what.
        """
        if self._fits:
            return
        for generator in self.generators:
            if isinstance(generator, Parts):
                with below("generator"):
                    generator.check_fitted()
        if hasattr(self.block, "check_pipeline"):
            with below("block"):
                self.block.check_pipeline(self)
        for role, part in (("rule", self.rule), ("done", self.done)):
            for path, fitted in _fitted(part, role):
                with below(path):
                    fitted.check_verifier(self.verifier)
                    if hasattr(fitted, "check_pipeline"):
                        fitted.check_pipeline(self)
        self._fits = True

    def roles(self) -> list[tuple[str, Any]]:
        """Every component with its role, fallback generators too."""
        return [
            *(("generator", each) for each in self.generators),
            ("verifier", self.verifier),
            ("rule", self.rule),
        ]

    @property
    def reads(self) -> frozenset[str] | None:
        """The names of the settings that some part reads, inner pipelines' too; None where a generator or the verifier
        does not say, and may read any."""
        others = {name for part in (self.rule, self.block, self.done) for name in getattr(part, "reads", ())}
        found = read_by([*self.generators, self.verifier])
        return None if found is None else found | others

    def parts(self) -> list[Any]:
        """Every component."""
        return [part for _, part in self.roles()]


class Fixed:
    """Always asks for the same number of items.

    Args:
        n: items per block; 0 never drafts.
    """

    deterministic: ClassVar[bool] = True

    def __init__(self, n: int) -> None:
        if n < 0:
            raise ConfigError(f"a block has 0 items or more, not {n}")
        self.n = n

    def size(self, context: Context) -> int:
        """`n`."""
        return self.n

    def observe(self, context: Context, round: Round) -> None:
        """Nothing is learned."""


def name_of(part: object) -> str:
    """What messages call a part: its class, or the function that it is or was made of; of one that stands in for
    another (`__wrapped__`), as that one."""
    part = getattr(part, "__wrapped__", part)
    if isinstance(part, (FunctionType, MethodType)):
        return part.__qualname__.rpartition("<locals>.")[2]
    return getattr(getattr(part, "function", None), "__name__", None) or type(part).__name__


def _fitted(part: object, path: str) -> Iterator[tuple[str, Any]]:
    """The arguments of a part, and of those in a list among them, that know which verifier they were fitted for."""
    part = getattr(part, "__wrapped__", part)
    try:
        arguments = inspect.signature(type(part)).parameters
    except (TypeError, ValueError):  # nothing that a config or a person would have given a threshold
        return
    for name in arguments:
        value = getattr(part, name, None)
        if hasattr(value, "check_verifier"):
            yield f"{path}.{name}", value
        for place, inner in enumerate(value if isinstance(value, (list, tuple)) else ()):
            yield from _fitted(inner, f"{path}.{name}.{place}")


def either(*parts: object) -> Done | None:
    """The stopping rule that parts bring themselves; where several do, the first of their words counts."""
    brought: list[Done] = [each for part in parts if (each := getattr(part, "done", None)) is not None]
    if len(brought) < 2:
        return brought[0] if brought else None

    def done(context: Context, new: tuple[Any, ...]) -> int | None:
        cuts = [cut for each in brought if (cut := each(context, new)) is not None]
        for cut in cuts:
            if type(cut) is bool or not isinstance(cut, (int, np.integer)):
                return cut  # no number of values: the boundary says so
        return min(cuts, default=None)

    return done


def _sized(block: Any, what: str) -> Any:
    """A block size, made of a number or as it is.

    Raises:
        PipelineError: it is neither.
    """
    if isinstance(block, int) and not isinstance(block, bool) and block >= 0:
        return Fixed(block)
    if isinstance(block, type) or not (hasattr(block, "size") and hasattr(block, "observe")):
        raise PipelineError(
            f"{what} is {block!r}; a number of items, 0 or more, or a block size (with size() and observe()) is needed"
        )
    return block


def _brought(generator: object) -> Any:
    """The block size that a generator brings itself, made for this pipeline alone; else one item."""
    bring = getattr(generator, "default_block", None)
    if not callable(bring) or isinstance(generator, type):
        return Fixed(1)
    return _sized(bring(), f"the block size that {name_of(generator)} brings (default_block())")


def goes_on_plainly(verifier: object) -> bool:
    """Whether an empty block brings a value: the verifier says so, or measures the target."""
    return getattr(verifier, "plain_steps", False) or "target" in getattr(verifier, "provides", ())


def read_by(parts: Iterable[object]) -> frozenset[str] | None:
    """The names of the settings that these parts read; None where one does not say, and may read any."""
    said = [getattr(part, "reads", None) for part in parts]
    return None if None in said else frozenset(name for names in said for name in names or ())


def is_asynchronous(part: object) -> bool:
    """Whether a part has coroutine methods, or is a pipeline of such parts."""
    called = {name for kind in (Prepare, Draft, Verify, Decide, Finish) for name in (kind.method, kind.many)}
    methods = (getattr(part, name, None) for name in called | {"function"} if name)
    return getattr(part, "asynchronous", False) or any(map(iscoroutinefunction, methods))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _plural(shape: str | None) -> str:
    return f"{shape}s".replace("ss", "s")
