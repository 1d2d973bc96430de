"""From specs to live parts, in this process: equal specs become one part, so pipelines share models and caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from draftverify.bench.config.forms import is_unset
from draftverify.bench.config.parameters import parameters
from draftverify.bench.config.specs import STEPS, ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.monitors import Monitor
from draftverify.bench.monitors.alarms import check_monitor
from draftverify.bench.runner.bench import Bench
from draftverify.bench.runner.summarised import Summarised
from draftverify.checks.families import check_families
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, DraftVerifyError, below
from draftverify.protocols import AcceptanceRule, AnswersFromCache
from draftverify.rejection import Policy
from draftverify.traits import RuleTraits, offers, traits_of


class Builder:
    """Builds parts and pipelines; what it built once it gives again.

    A block-size controller is not shared: it learns from the pipeline that it serves.

    Args:
        sends: False where nothing may be sent: parts that can answer from a cache alone do that, and a secret that is
            not set is left out, where a part can do without.
    """

    def __init__(self, *, sends: bool = True) -> None:
        self._sends = sends
        self._made: dict[bytes, Any] = {}

    def part(self, spec: ComponentSpec | PipelineSpec | Mapping[str, Any]) -> Any:
        """The part of a spec. Constructors only store, so nothing heavy is loaded yet.

        Args:
            spec: as it was checked, or as mappings, which those inside another still are when they came as JSON.

        Raises:
            ConfigError: a secret is not set, or the part refuses its arguments.
            PluginError: the part's plugin is broken.
            ResourceError: the plugin needs a package that is not installed.
        """
        if isinstance(spec, PipelineSpec):
            return self.pipeline(spec)
        if not isinstance(spec, ComponentSpec):
            spec = msgspec.convert(spec, ComponentSpec)
        # The same for equal specs, wherever they stand.
        key = msgspec.json.encode(spec, order="deterministic")
        if key in self._made:
            return self._made[key]
        target = spec.target
        if spec.role == "function":
            return target
        takes = parameters(target)
        arguments = {
            name: takes[name].form.build(value, self.part)
            for name, value in spec.arguments.items()
            if self._sends or takes[name].required or not is_unset(value)
        }
        try:
            part = target(**arguments)
        except DraftVerifyError as error:
            raise type(error)(f"{spec.use}: {error}") from error
        except Exception as error:
            raise ConfigError(f"{spec.use} refuses its arguments: {type(error).__name__}: {error}") from error
        if not self._sends and offers(part, AnswersFromCache):
            part = part.from_cache()
        if spec.role != "block":
            self._made[key] = part
        return part

    def pipeline(self, spec: PipelineSpec, *, summaries: bool = False) -> Pipeline:
        """A pipeline, checked: parts that do not fit each other are refused here.

        Args:
            spec: what it is made of.
            summaries: whether its records keep summaries of drafted tokens, where its rule reads what they are made of.

        Raises:
            DraftVerifyError: as `part`, or PipelineError; the message begins with the pipeline's place.
        """
        # Those inside it come first: what is wrong with them is told with their own place.
        inner = {
            generator.path: self.pipeline(generator)
            for generator in (spec.generator, *(clause.generator for clause in spec.on_rejection))
            if isinstance(generator, PipelineSpec)
        }

        def drafting(generator: ComponentSpec | PipelineSpec) -> Any:
            return inner[generator.path] if isinstance(generator, PipelineSpec) else self.part(generator)

        try:
            policy = Policy()
            for clause in spec.on_rejection:
                step_generator = (
                    {"generator": drafting(clause.generator)} if clause.generator is not None else {}
                )
                policy = policy.then(STEPS[clause.do](**clause.options, **step_generator))
            rule: AcceptanceRule = self.part(spec.rule)
            block = self.part(spec.block) if isinstance(spec.block, ComponentSpec) else spec.block
            pipeline = Pipeline(
                drafting(spec.generator),
                self.part(spec.verifier),
                Summarised(rule) if summaries and _reads_target(rule) else rule,
                policy=policy,
                block=block,
                done=self.part(spec.done) if spec.done else None,
                budget=spec.budget,
                settings=spec.settings,
                seed=spec.seed,
                name=spec.name,
            )
            check_families(pipeline)
            return pipeline
        except DraftVerifyError as error:
            raise type(error)(f"{spec.where}: {spec.path}: {error}") from error

    def monitor(self, spec: PipelineSpec, pipeline: Pipeline) -> Monitor:
        """What watches a pipeline; what it is compared with is the run's to say.

        Raises:
            DraftVerifyError: as `part`, or the pipeline cannot do what an alarm asks for.
        """
        written = spec.monitor
        assert written is not None
        threshold = written.threshold
        try:
            with below("monitor"):
                monitor = Monitor(
                    None,
                    level=written.level,
                    metric=self.part(written.asks) if written.asks is not None else None,
                    every=written.every,
                    on_alarm=written.on_alarm,
                    threshold=self.part(threshold) if isinstance(threshold, ComponentSpec) else threshold,
                )
            check_monitor(monitor, pipeline)
        except DraftVerifyError as error:
            raise type(error)(f"{spec.where}: {spec.path}: {error}") from error
        return monitor

    def bench(self, experiment: Experiment) -> Bench:
        """All pipelines of an experiment.

        Raises:
            DraftVerifyError: as `pipeline`; a threshold was certified, and there is a memory; or tokens are to be
                summarised, and no pipeline has distributions.
        """
        certified = [part for part in _parts_in(experiment.pipelines) if part.role == "threshold"]
        if experiment.memory is not None and certified:
            raise ConfigError(
                f"with a memory later answers depend on earlier ones, and what {certified[0].use} promises is of "
                "answers that do not; leave memory out, or write a number as the threshold",
                where=experiment.file,
                path="memory",
            )
        specs, summaries = experiment.pipelines, experiment.records == "summary"
        pipelines = {spec.name: self.pipeline(spec, summaries=summaries) for spec in specs}
        if summaries and not any(isinstance(pipeline.rule, Summarised) for pipeline in pipelines.values()):
            raise ConfigError(
                "no pipeline has a rule that reads the target's distributions, so that no token can be summarised; "
                "leave it out",
                where=experiment.file,
                path="records.tokens",
            )
        return Bench(
            pipelines,
            {spec.name: spec.where for spec in specs},
            monitors={
                spec.name: self.monitor(spec, pipelines[spec.name])
                for spec in specs
                if spec.monitor is not None
            },
            telemetry=experiment.telemetry,
        )


def _parts_in(spec: object) -> Iterator[ComponentSpec]:
    """The specs of all parts in one, or in several."""
    if isinstance(spec, ComponentSpec):
        yield spec
    members: Iterable[object] = ()
    if isinstance(spec, msgspec.Struct):
        members = (getattr(spec, name) for name in spec.__struct_fields__)
    elif isinstance(spec, Mapping):
        members = spec.values()
    elif isinstance(spec, (list, tuple)):
        members = spec
    for member in members:
        yield from _parts_in(member)


def _reads_target(rule: AcceptanceRule) -> bool:
    return "target" in traits_of(rule, RuleTraits).needs
