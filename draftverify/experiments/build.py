"""From specs to live parts, in this process: equal specs become one part, so pipelines share models and caches."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from draftverify import plugins
from draftverify.engine.budget import Budget
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.experiments.bench import Bench
from draftverify.experiments.format import SECRET, STEPS
from draftverify.experiments.parameters import (
    Either,
    FilePath,
    Form,
    Keyed,
    Listed,
    Part,
    Plain,
    Secreted,
    parameters,
)
from draftverify.experiments.specs import ComponentSpec, Experiment, PipelineSpec
from draftverify.rejection import Policy
from draftverify.secret import Secret

__all__ = ["Builder", "bench_from_spec"]


class Builder:
    """Builds parts and pipelines; what it built once it gives again.

    A block-size controller is not shared: it learns from the pipeline that it serves.
    """

    def __init__(self) -> None:
        self._made: dict[bytes, Any] = {}

    def part(self, spec: ComponentSpec) -> Any:
        """The part of a spec. Constructors only store, so nothing heavy is loaded yet.

        Raises:
            ConfigError: a secret is not set, or the part refuses its arguments.
            PluginError: the part's plugin is broken.
            ResourceError: the plugin needs a package that is not installed.
        """
        key = spec.key
        if key in self._made:
            return self._made[key]
        target = spec.file.load()[spec.use] if spec.file else plugins.load(spec.role, spec.use)
        forms = parameters(target)
        arguments = {name: self._argument(forms[name].form, value) for name, value in spec.arguments.items()}
        try:
            made = target(**arguments)
        except DraftVerifyError as error:
            raise _prefixed(spec.use, error) from error
        except Exception as error:
            raise ConfigError(f"{spec.use} refuses its arguments: {type(error).__name__}: {error}") from error
        if spec.role != "block":
            self._made[key] = made
        return made

    def pipeline(self, spec: PipelineSpec) -> Pipeline:
        """A pipeline, checked: parts that do not fit each other are refused here.

        Raises:
            DraftVerifyError: as `part`, or PipelineError; the message begins with the pipeline's place.
        """
        try:
            return Pipeline(
                self.part(spec.generator),
                self.part(spec.verifier),
                self.part(spec.rule),
                policy=self._policy(spec),
                block=spec.block if isinstance(spec.block, int) else self.part(spec.block),
                done=self.part(spec.done) if spec.done else None,
                budget=Budget(**spec.budget),
                settings=spec.settings,
                seed=spec.seed,
                name=spec.name,
            )
        except DraftVerifyError as error:
            raise _prefixed(f"{spec.where}: pipelines.{spec.name}", error) from error

    def bench(self, experiment: Experiment) -> Bench:
        """All pipelines of an experiment.

        Raises:
            DraftVerifyError: as `pipeline`.
        """
        specs = experiment.pipelines
        return Bench(
            {spec.name: self.pipeline(spec) for spec in specs}, {spec.name: spec.where for spec in specs}
        )

    def _policy(self, spec: PipelineSpec) -> Policy:
        policy = Policy()
        for clause in spec.on_rejection:
            options = dict(clause.options)
            if "generator" in options:
                options["generator"] = self.part(_as_spec(options["generator"]))
            policy = policy.then(STEPS[clause.do](**options))
        return policy

    def _argument(self, form: Form, value: Any) -> Any:
        if isinstance(form, Plain):
            return form.check(value)
        if isinstance(form, Part):
            return self.part(_as_spec(value))
        if isinstance(form, FilePath):
            return Path(value)
        if isinstance(form, Secreted):
            return _secret(value)
        if isinstance(form, Listed):
            return form.container([self._argument(form.element, inner) for inner in value])
        if isinstance(form, Keyed):
            return {key: self._argument(form.element, inner) for key, inner in value.items()}
        return self._argument(_meant(form, value), value)


def _meant(form: Either, value: Any) -> Form:
    """The alternative that a checked value has."""

    def has(kind: type, when: Callable[[Any], bool]) -> Form | None:
        return next((each for each in form.forms if isinstance(each, kind)), None) if when(value) else None

    found = (
        has(Part, lambda value: isinstance(value, ComponentSpec) or _is_spec(value))
        or has(Secreted, lambda value: isinstance(value, str) and SECRET.fullmatch(value) is not None)
        or has(FilePath, lambda value: isinstance(value, str) and os.path.isabs(value))
        or has(Listed, lambda value: isinstance(value, list))
        or has(Keyed, lambda value: isinstance(value, dict))
        or has(Plain, lambda _: True)
    )
    assert found is not None
    return found


def _is_spec(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == set(ComponentSpec.__struct_fields__)


def _as_spec(value: Any) -> ComponentSpec:
    # A spec that came as JSON has the specs inside it as mappings still.
    return value if isinstance(value, ComponentSpec) else msgspec.convert(value, ComponentSpec)


def _secret(value: str) -> Secret:
    match = SECRET.fullmatch(value)
    name = match[1] if match else ""
    if name not in os.environ:
        raise ConfigError(f"the environment variable {name} is not set; export {name}=… first")
    return Secret(os.environ[name])


def _prefixed(place: str, error: DraftVerifyError) -> DraftVerifyError:
    return type(error)(f"{place}: {error}")


def bench_from_spec(spec: bytes) -> Bench:
    """A process's pipelines, from the experiment as `Experiment.to_json` wrote it."""
    return Builder().bench(Experiment.from_json(spec))
