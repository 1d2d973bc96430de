"""The parts of a pipeline, the settings they share, and whether they fit each other: all that a session knows of it."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, get_args

import numpy as np

from draftverify.bench.artifact import Artifact, Kept, PartIdentity, read_artifact
from draftverify.checks.families import families_of, stands_outside
from draftverify.engine.budget import Budget
from draftverify.engine.requests import Decide, Draft, Finish, Prepare, Verify
from draftverify.errors import (
    ConfigError,
    PipelineError,
    SelfVerificationWarning,
    below,
    self_verification_told,
    shown,
)
from draftverify.frozen import freeze
from draftverify.lab.alarms import check_monitor
from draftverify.lab.watch import Monitor
from draftverify.protocols import AcceptanceRule, BlockSize, Collects, Done, Generator, Verifier
from draftverify.rejection import Clause, Policy
from draftverify.secret import Secret
from draftverify.stats.block.controller import Fixed
from draftverify.values import EMPTY, Context, LawKind, Shape, is_utf8

__all__ = ["Parts", "check_made_with", "either", "identity_of", "is_asynchronous", "name_of", "read_by"]

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
        undrafted: the trouble under which a task goes to a fallback at once where the block size, or the monitor's
            alarm, says so; None where it cannot.
        deterministic: whether nothing here reads clocks or is left to chance.
        asynchronous: whether a part has coroutine methods, for which `arun` is needed.
        nests: whether a generator is itself a pipeline.
        calibration: the operating point that its block size is taken from, or None.
        monitor: what watches it, or None.
        checks_itself: the families of models that both draft and judge, with no outside check behind them; warned of.
    """

    def __init__(
        self,
        generator: Generator,
        verifier: Verifier,
        rule: AcceptanceRule,
        *,
        policy: Policy | None = None,
        block: int | BlockSize | None = None,
        calibration: Artifact | str | Path | None = None,
        done: Done | None = None,
        budget: Budget | None = None,
        settings: Mapping[str, Any] = EMPTY,
        seed: int = 0,
        name: str = "pipeline",
        monitor: Monitor | None = None,
    ) -> None:
        self.policy = policy if policy is not None else Policy()
        self.budget = budget if budget is not None else Budget()
        self.settings: Mapping[str, Any] = settings
        self.seed = seed
        self.name = name
        self.monitor = monitor
        self._check_arguments(done)
        self.settings = freeze(settings, "settings")
        self.generator = generator
        self.verifier = verifier
        self.rule = rule
        self.calibration = _calibrated(calibration, block)
        if self.calibration is not None:
            block = self.calibration.block
        self.block: Any = _sized(block, "block") if block is not None else _brought(generator)
        self._fits = False
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
        plain = getattr(verifier, "plain_steps", False) or "target" in getattr(verifier, "provides", ())
        stops = monitor is not None and monitor.on_alarm == "stop" and not plain
        self.undrafted = self.policy.undrafted if stops or hasattr(self.block, "drafts") else None
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
        self.checks_itself = self._shared_families()
        if self.checks_itself:
            told = self_verification_told.get()
            if told is None:
                warnings.warn(self._warning(), SelfVerificationWarning, stacklevel=2)
            else:
                told(self._warning())

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
        if self.monitor is not None and not isinstance(self.monitor, Monitor):
            raise PipelineError(f"monitor is {self.monitor!r}; a Monitor is needed, as monitor=Monitor(0.8)")
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
        if self.monitor is not None:
            shape = self.declared[id(self.generator)][0]
            check_monitor(self.monitor, self.generators, shape, self.verifier, self.policy)
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
        """Refuse a generator that refines what it made where nobody but itself says what is wrong with it."""
        shared = families_of(generator) & families_of(self.verifier)
        if not any(
            clause.do == "feedback" and (not clause.on or "reject" in clause.on)
            for clause in self.policy.clauses
        ):
            missing = "the policy has no feedback clause that answers a reject"
        elif shared and not stands_outside(self.verifier):
            missing = f"the verifier {name_of(self.verifier)} is of its own family, {_listed(shared)}"
        else:
            return
        raise PipelineError(
            f"the generator {name_of(generator)} needs feedback from outside, and {missing}; have a verifier that "
            "checks by other means say what is wrong (on_rejection: feedback), or give the generator its argument "
            "without_outside_feedback"
        )

    def check_fitted(self) -> None:
        """Refuse files that were made with other parts than these: an operating point, or thresholds.

        Looked at once, as the pipeline opens or at its first task, since an identity may read a model's files.

        Raises:
            ConfigError: one was; the path says which.
        """
        if self._fits:
            return
        for generator in self.generators:
            if isinstance(generator, Parts):
                with below("generator"):
                    generator.check_fitted()
        made = self.calibration
        if made is not None:
            with below("calibration"):
                whose = f"the operating point of {made.pipeline}"
                check_made_with("generator", self.generator, made.generator, made, whose)
                check_made_with("verifier", self.verifier, made.verifier, made, whose)
                check_made_with("rule", self.rule, made.rule, made, whose)
        for role, part in (("rule", self.rule), ("done", self.done), ("monitor", self.monitor)):
            for path, fitted in _fitted(part, role):
                with below(path):
                    fitted.check_verifier(self.verifier)
                    if hasattr(fitted, "check_pipeline"):
                        fitted.check_pipeline(self)
        self._fits = True

    def _shared_families(self) -> tuple[str, ...]:
        """Those of what drafts for the verifier that are the verifier's too. Distributions are no judgement."""
        if "target" in getattr(self.verifier, "provides", VERDICTS) or stands_outside(self.verifier):
            return ()
        trusted = [clause.generator for clause in self.policy.clauses if not clause.verified]
        drafting = [each for each in self.generators if not any(each is other for other in trusted)]
        own = frozenset[str]().union(*map(families_of, drafting))
        return tuple(sorted(own & families_of(self.verifier)))

    def _warning(self) -> str:
        drafting = [each for each in self.generators if families_of(each) & {*self.checks_itself}]
        who = " and ".join(dict.fromkeys(map(name_of, drafting)))
        return (
            f"the pipeline {self.name!r} checks itself: what {who} drafts is judged by {name_of(self.verifier)}, which "
            f"rests on models of the same family ({', '.join(self.checks_itself)}) and passes the mistakes that it "
            "makes. Put a check that rests on no model before it, in all_of, or judge with another family; the "
            "reports mark the pipeline"
        )

    @property
    def families(self) -> frozenset[str]:
        """Of the models that its drafts rest on; what a pipeline that it drafts for asks."""
        return frozenset[str]().union(*map(families_of, self.generators))

    @property
    def marks(self) -> tuple[str, ...]:
        """What every report is to say of it, a phrase each."""
        shared = ", ".join(self.checks_itself)
        alarms = self.monitor.alarms if self.monitor is not None else ()
        return (*((f"checks itself (family {shared})",) if shared else ()), *map(str, alarms))

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


def name_of(part: object) -> str:
    """What messages call a part: its class, or the function that it is or was made of; of one that stands in for
    another (`__wrapped__`), as that one."""
    part = getattr(part, "__wrapped__", part)
    if isinstance(part, (FunctionType, MethodType)):
        return part.__qualname__.rpartition("<locals>.")[2]
    return getattr(getattr(part, "function", None), "__name__", None) or type(part).__name__


def identity_of(part: object) -> str:
    """The same for two parts that answer alike, as far as can be told: 16 hexadecimal digits.

    A part's own word, its `identity`; without one its class and its constructor's arguments, which it stores under
    their names, but for what it writes into (`writes`): parts among them by their identities, files and directories by
    what stands in them, functions by their code, their defaults and what they close over, but not by the functions
    that they call. One that stands in for another (`__wrapped__`) is told as that one.

    Raises:
        ConfigError: an argument cannot be told from others of its kind.
    """
    told = json.dumps(_told(part, ()), sort_keys=True, ensure_ascii=False)
    return _digest(told.encode("utf-8", "backslashreplace"))[:16]


def _told(value: Any, within: tuple[Any, ...]) -> Any:
    """What a value is, as JSON.

    Args:
        value: an argument of a part, or the part.
        within: what it stands in, so that one which holds itself comes to an end.

    Raises:
        ConfigError: it cannot be told from others of its kind.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if any(value is each for each in within):
        return "itself"
    within = (*within, value)
    if isinstance(value, Mapping):
        return {str(key): _told(each, within) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        found = [_told(each, within) for each in value]
        return sorted(found, key=str) if isinstance(value, (set, frozenset)) else found
    if isinstance(value, Path):
        return _content(value)
    if isinstance(value, Secret):
        return "secret"
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), _digest(value.tobytes())]
    if isinstance(value, re.Pattern):
        return [_told(value.pattern, within), value.flags]
    if isinstance(value, partial):
        return [_told(each, within) for each in (value.func, value.args, value.keywords)]
    if isinstance(value, CodeType):
        return [value.co_code.hex(), value.co_names, _told(value.co_consts, within)]
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    if inspect.isfunction(value):
        closed = [each.cell_contents for each in value.__closure__ or ()]
        kept = (value.__code__, value.__defaults__, value.__kwdefaults__, closed)
        return [name, *[_told(each, within) for each in kept]]
    if inspect.ismethod(value):
        return [name, _told(value.__self__, within)]
    if isinstance(value, type) or inspect.isbuiltin(value):
        return name
    value = getattr(value, "__wrapped__", value)
    kind = type(value)
    own = getattr(value, "identity", None)
    if isinstance(own, str):
        return [kind.__qualname__, own]
    try:
        arguments = inspect.signature(kind).parameters
    except ValueError as error:
        holder = f"; give {type(within[0]).__name__} an `identity`" if len(within) > 1 else ""
        raise ConfigError(f"there is no telling a {kind.__name__} from another{holder}") from error
    return [
        f"{kind.__module__}.{kind.__qualname__}",
        {
            each: _told(getattr(value, each), within)
            for each in arguments
            if hasattr(value, each) and each not in getattr(kind, "writes", ())
        },
    ]


def _content(path: Path) -> Any:
    """What stands in a file, or in the files of a directory; where there is neither, its name."""
    if path.is_file():
        return _digest(path.read_bytes())
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return [[str(each.relative_to(path)), _digest(each.read_bytes())] for each in files] or path.name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check_made_with(role: str, part: object, then: PartIdentity, made: Kept, whose: object) -> None:
    """Refuse a part that is another than the one that a file was made with.

    Args:
        role: what messages call the part's place.
        part: at hand.
        then: the one that the file was made with.
        made: what stands in the file.
        whose: what messages call the file: its path, where that is known.

    Raises:
        ConfigError: its identity is another.
    """
    identity = identity_of(part)
    if identity != then.identity:
        raise ConfigError(
            f"{whose} was made with the {role} {then.name} ({then.identity}), and the {role} is {name_of(part)} "
            f"({identity}): its class, arguments or files are others. {made.advice}"
        )


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


def _calibrated(calibration: Any, block: Any) -> Artifact | None:
    """An operating point, read where it is a path.

    Raises:
        PipelineError: there is a block too, or it is no operating point.
        ConfigError: the file is missing or damaged.
    """
    if calibration is None or isinstance(calibration, Artifact):
        made = calibration
    elif isinstance(calibration, (str, Path)):
        made = read_artifact(calibration, Artifact)
    else:
        raise PipelineError(
            f"calibration is {calibration!r}; the path of a file that `draftverify calibrate` wrote is needed"
        )
    if made is not None and block is not None:
        raise PipelineError("calibration says how large blocks are, and so does block; leave one of them out")
    return made


def _brought(generator: object) -> Any:
    """The block size that a generator brings itself, made for this pipeline alone; else one item."""
    bring = getattr(generator, "default_block", None)
    if not callable(bring) or isinstance(generator, type):
        return Fixed(1)
    return _sized(bring(), f"the block size that {name_of(generator)} brings (default_block())")


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
