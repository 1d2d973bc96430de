"""The parts of a pipeline, the settings they share, and whether they fit each other: all that a session knows of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from draftverify.engine.budget import Budget
from draftverify.errors import ConfigError, PipelineError, below, did_you_mean, shown
from draftverify.frozen import freeze
from draftverify.identity import arguments_of
from draftverify.protocols import (
    AcceptanceRule,
    Begins,
    BlockSize,
    BringsBlock,
    ChecksPipeline,
    ChecksSettings,
    ChecksTasks,
    ChoosesTasks,
    Done,
    DraftsAhead,
    Finishes,
    Generator,
    KeepsHidden,
    Prepares,
    Settles,
    Stops,
    Verifier,
)
from draftverify.rejection import Clause, Policy
from draftverify.traits import (
    BlockTraits,
    GeneratorTraits,
    RuleTraits,
    Traits,
    VerifierTraits,
    has_methods,
    is_asynchronous,
    name_of,
    offers,
    read_by,
    shared_things,
    traits_of,
    vocabulary_of,
)
from draftverify.values import EMPTY, Context, Round, Task, is_utf8

CHECKS = frozenset({"verdicts", "scores"})
"""What checks alone can carry; a person and a trusted fallback give no more."""


class Parts:
    """Generator, verifier and rule, with what surrounds them; the arguments are `Pipeline`'s.

    Attributes:
        generators: the generator, then those of fallbacks.
        declared: by the id of each of them, its traits.
        verifier_traits, rule_traits, block_traits: what the others say of themselves.
        enough: how many passed items the rule needs; None for all.
        given_done: the stopping rule that was given; None where verifier and rule bring theirs.
        prepares, finishes: whether verifier and rule have these methods.
        collects: whether a round that brings the rule nothing is no trouble under this stopping rule.
        partial: whether a policy step answers items that were refused beside accepted ones.
        learns: whether the block size wants to hear of finished rounds; `settles` of finished tasks.
        drafts_ahead: whether the block size may have drafted when it chooses a size.
        undrafted: the trouble under which a task goes to a fallback at once where the block size says so; None where it
            cannot.
        deterministic: whether nothing here reads clocks or is left to chance.
        asynchronous: whether a part has coroutine methods, for which `arun` is needed.
        remote: how many calls of a part that waits for something elsewhere may be under way at once; 0 where none does.
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
        self.given_done = done
        self.done: Done | None = done if done is not None else either(verifier, rule)
        self.generators = [
            generator,
            *(clause.generator for clause in self.policy.clauses if clause.generator is not None),
        ]
        self._check_methods()
        self.declared = {id(drafter): traits_of(drafter, GeneratorTraits) for drafter in self.generators}
        self.verifier_traits = traits_of(verifier, VerifierTraits)
        self.rule_traits = traits_of(rule, RuleTraits)
        self.block_traits = traits_of(self.block, BlockTraits)
        # To a rule that compares scores a pass is not yet enough.
        self.enough = None if "scores" in self.rule_traits.needs else self.rule_traits.enough
        self.prepares = offers(verifier, Prepares)
        self.finishes = offers(rule, Finishes)
        collects = self.rule_traits.collects
        self.collects = collects == "always" or (collects == "given" and done is not None)
        self.partial = any(clause.partial for clause in self.policy.clauses)
        self.learns = self.block_traits.learns
        self.settles = offers(self.block, Settles)
        self.drafts_ahead = offers(self.block, DraftsAhead)
        self.undrafted = self.policy.undrafted if offers(self.block, ChoosesTasks) else None
        declared: list[Traits] = [self.declared[id(drafter)] for drafter in self.generators]
        declared += [self.verifier_traits, self.rule_traits, self.block_traits]
        read = zip([*self.generators, verifier, rule], declared, strict=False)
        self._turns = {id(part): (part, traits) for part, traits in read if not traits.concurrent}
        self.deterministic = self.budget.seconds is None and all(traits.deterministic for traits in declared)
        self.remote = max(traits.remote for traits in declared)
        self.asynchronous = any(map(is_asynchronous, [*self.generators, verifier, rule]))
        self.nests = any(isinstance(drafter, Parts) for drafter in self.generators)
        self._check()
        if offers(self.block, Begins):
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
                    f"{name} is {shown(value)}; one of the type {kind.__name__} is needed, as {name}={example}"
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

    def _check_methods(self) -> None:
        """Refuse what is no part at all."""
        methods = {"generator": "propose", "verifier": "verify", "rule": "decide"}
        for role, part in self.roles():
            method = methods[role]
            if isinstance(part, type):
                raise PipelineError(
                    f"the {role} is the class {part.__name__}; an instance is needed: {part.__name__}(…)"
                )
            if not has_methods(part, method):
                kind, made = type(part).__name__, callable(part) and role != "rule"
                hint = f"; {role}(function) makes a {role} of a function" if made else ""
                raise PipelineError(f"the {role} is a {kind}, which has no method {method}(){hint}")

    def _check(self) -> None:
        """Refuse parts that do not fit each other."""
        self._check_readers()
        self.check_settings(EMPTY)
        self._check_evidence()
        self._check_bounds()
        for generator in self.generators:
            self._check_generator(generator)
            if self.declared[id(generator)].needs_feedback:
                self._check_feedback(generator)

    def _check_bounds(self) -> None:
        """Refuse a policy that may check one round again for ever: the budget's rounds do not end a round."""
        if (
            any(clause.do == "reverify" and clause.times is None for clause in self.policy.clauses)
            and self.budget.seconds is None
            and self.budget.verifier_calls is None
        ):
            raise PipelineError(
                "the policy step 'reverify' is taken for ever where the check goes on failing; give it a number of "
                "times, or the pipeline a budget of seconds or verifier_calls"
            )

    def _check_readers(self) -> None:
        """Refuse settings that nobody reads."""
        reads = self._reads()
        if reads is None:
            return
        for name in self.settings:
            if name not in reads:
                near = did_you_mean(str(name), reads) or "; none reads any"
                raise ConfigError(
                    f"no part of this pipeline reads the setting {name!r}{near}", path=f"settings.{name}"
                )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings, outer ones (those of a pipeline that this one drafts for) too, that a part cannot read.

        Raises:
            ConfigError: a part does.
        """
        for part in self.parts():
            if offers(part, ChecksSettings):
                part.check_settings({**settings, **self.settings})

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks that a part cannot work at, before any of them is paid for.

        Raises:
            ConfigError: a part does; the path begins with its role.
        """
        for role, part in self.roles():
            if offers(part, ChecksTasks):
                with below(role):
                    part.check_tasks(tasks)

    def _check_evidence(self) -> None:
        rule, verifier = name_of(self.rule), name_of(self.verifier)
        provides, needs = self.verifier_traits.provides, self.rule_traits.needs
        if needs - provides:
            raise PipelineError(
                f"the rule {rule} needs {_listed(needs - provides)}, which the verifier {verifier} does not provide "
                f"(it provides {_listed(provides)}); choose another rule or another verifier, "
                "or name them among its traits (`provides`) where it gives them"
            )
        beyond = needs - CHECKS
        for clause in self.policy.clauses if beyond else ():
            trusted = clause.do == "fallback" and not clause.verified
            if trusted or clause.do == "escalate":
                passer = "a fallback that is not verified" if trusted else "a person"
                raise PipelineError(
                    f"the rule {rule} needs {_listed(beyond)}; {passer} passes items and measures nothing, so the "
                    f"policy step {clause.do!r} leads nowhere: "
                    + ("let the fallback be verified" if trusted else "leave it out, or choose another rule")
                )

    def _check_generator(self, generator: Any) -> None:
        drafter, rule = f"the generator {name_of(generator)}", f"the rule {name_of(self.rule)}"
        traits = self.declared[id(generator)]
        laws, shapes, shape, used = self.rule_traits.laws, self.rule_traits.shapes, traits.shape, traits.laws
        if laws is not None and not used <= laws:
            raise PipelineError(
                f"{drafter} draws by the law {_listed(used - laws)}, for which {rule} does not do what it promises "
                f"(it takes {_listed(laws)}); choose another rule or another generator"
            )
        fits = shape is None or shapes is None or shape in shapes or (shape == "chain" and "tree" in shapes)
        if shapes is not None and not fits:
            raise PipelineError(
                f"{drafter} proposes {_plural(shape)}; {rule} judges {_listed(map(_plural, shapes))}; choose "
                f"{'a rule for trees, such as tree, ' if shape == 'tree' else 'another rule '}or another generator"
            )
        fitting = self.block_traits.shapes
        if fitting is not None and shape is not None and shape not in fitting:
            raise PipelineError(
                f"{drafter} proposes {_plural(shape)}; the block {name_of(self.block)} is for "
                f"{_listed(map(_plural, fitting))}; give a number, and sweep it"
            )
        drafted = vocabulary_of(traits)
        verified = None if drafted is None else vocabulary_of(self.verifier_traits)
        if verified is not None and drafted != verified:
            raise PipelineError(
                f"{drafter} has the vocabulary {drafted}, the verifier {name_of(self.verifier)} {verified}; their "
                "items do not mean the same"
            )

        if traits.hidden:
            if not offers(self.verifier, KeepsHidden):
                raise PipelineError(
                    f"{drafter} reads a target's hidden states, which the verifier {name_of(self.verifier)} does not "
                    "keep"
                )
            self.verifier.keep_hidden(traits.hidden)

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

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments; the block also where the generator brought it."""
        arguments = {name: getattr(self, name) for name in signature(Parts).parameters}
        return {**arguments, "done": self.given_done}

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
                    generator.check_inherited(self.settings)
        if offers(self.block, ChecksPipeline):
            with below("block"):
                self.block.check_pipeline(self)
        for role, part in (("rule", self.rule), ("done", self.done)):
            for path, fitted in _fitted(part, role):
                with below(path):
                    fitted.check_pipeline(self)
        self._fits = True

    def check_inherited(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings of the pipeline that this one drafts for where a threshold was certified without them.

        Raises:
            ConfigError: one was.
        """
        inherited = sorted(settings.keys() - self.settings.keys())
        for role, part in (("rule", self.rule), ("done", self.done)) if inherited else ():
            for path, _ in _fitted(part, role):
                raise ConfigError(
                    f"the pipeline inherits settings ({', '.join(inherited)}) that this was not certified with; write "
                    "them into it, and certify it so",
                    path=path,
                )
        for generator in self.generators:
            if isinstance(generator, Parts):
                with below("generator"):
                    generator.check_inherited({**settings, **self.settings})

    def roles(self) -> list[tuple[str, Any]]:
        """Every component with its role, fallback generators too."""
        return [
            *(("generator", drafter) for drafter in self.generators),
            ("verifier", self.verifier),
            ("rule", self.rule),
        ]

    def _reads(self) -> frozenset[str] | None:
        """The names of the settings that some part reads, inner pipelines' too; None where a generator or the verifier
        does not say, and may read any."""
        names = read_by([*self.declared.values(), self.verifier_traits])
        if names is None:
            return None
        done = frozenset() if self.done is None else traits_of(self.done, Traits).reads
        return names | self.rule_traits.reads | self.block_traits.reads | (done or frozenset())

    def takes_turns(self, part: object) -> bool:
        """Whether one of these parts must not be called from two threads at once."""
        return id(part) in self._turns

    def turn_of(self, part: object) -> frozenset[int]:
        """What one of these parts is to have for itself while it is called, by identity; nothing where it is
        concurrent."""
        if id(part) not in self._turns:
            return frozenset()
        try:
            return frozenset(map(id, shared_things(*self._turns[id(part)])))
        except Exception:  # what cannot be had now is for the call to say
            return frozenset({id(part)})

    def parts(self) -> list[Any]:
        """Every component."""
        return [part for _, part in self.roles()]


class Fixed:
    """Always asks for the same number of items.

    Args:
        n: items per block; 0 never drafts.
    """

    traits: ClassVar[BlockTraits] = BlockTraits(learns=False)

    def __init__(self, n: int) -> None:
        if not _is_count(n):
            raise ConfigError(f"a block has 0 items or more, and not {n!r}")
        self.n = int(n)

    def size(self, context: Context) -> int:
        """`n`."""
        return self.n

    def observe(self, context: Context, round: Round) -> None:
        """Nothing is learned."""


def _fitted(part: object, path: str) -> Iterator[tuple[str, Any]]:
    """The arguments of a part, and of those in a list among them, that know which pipeline they were fitted for."""
    try:
        arguments = arguments_of(part)
    except (TypeError, ValueError):  # nothing that a config or a person would have given a threshold
        return
    for name, value in arguments.items():
        if offers(value, ChecksPipeline):
            yield f"{path}.{name}", value
        for place, inner in enumerate(value if isinstance(value, (list, tuple)) else ()):
            yield from _fitted(inner, f"{path}.{name}.{place}")


def either(*parts: object) -> Done | None:
    """The stopping rule that parts bring themselves; where several do, the first of their words counts."""
    brought: list[Done] = [part.done for part in parts if offers(part, Stops)]
    if len(brought) < 2:
        return brought[0] if brought else None

    def done(context: Context, new: tuple[Any, ...]) -> int | None:
        return earliest_cut(brought, context, new)

    return done


def earliest_cut(rules: Sequence[Done], context: Context, new: tuple[Any, ...]) -> int | None:
    """The earliest of the cuts that stopping rules make; what is no number of values, for the boundary to say so."""
    cuts = [cut for rule in rules if (cut := rule(context, new)) is not None]
    for cut in cuts:
        if type(cut) is bool or not isinstance(cut, (int, np.integer)):
            return cut
    return min(cuts, default=None)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0


def _sized(block: Any, what: str) -> Any:
    """A block size, made of a number or as it is.

    Raises:
        PipelineError: it is neither.
    """
    if _is_count(block):
        return Fixed(block)
    if isinstance(block, type) or not has_methods(block, "size", "observe"):
        raise PipelineError(
            f"{what} is {block!r}; a number of items, 0 or more, or a block size (with size() and observe()) is needed"
        )
    return block


def _brought(generator: object) -> Any:
    """The block size that a generator brings itself, made for this pipeline alone; else one item."""
    if isinstance(generator, type) or not offers(generator, BringsBlock):
        return Fixed(1)
    return _sized(
        generator.default_block(), f"the block size that {name_of(generator)} brings (default_block())"
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _plural(shape: str | None) -> str:
    return f"{shape}s".replace("ss", "s")
