"""The keys of the config format, as signatures: a parameter is a key, and its annotation says how the value is written.

The loader checks the file against these signatures and the JSON schema is made from them, as for the parts themselves.
A `Record` says what is made of the keys that are given.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field

from draftverify.bench.config.forms import ConfigReading, Keyed, ListForm, Plain, Schema, StoreUrl
from draftverify.bench.config.located import Located
from draftverify.bench.config.monitor_format import MONITOR, asking, compared
from draftverify.bench.config.parameters import Component, Either, Model, Record, parameters
from draftverify.bench.config.specs import STEPS, ClauseSpec, ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.records.about import TAG
from draftverify.bench.runner.sweep import Matrix
from draftverify.engine.budget import Budget
from draftverify.errors import ConfigError, did_you_mean
from draftverify.values import Trouble

Count = Annotated[int, Field(ge=1)]
NAME = Plain(Annotated[str, Field(pattern=r"^\w[\w.-]*$")], "a word of letters, digits, _, . and -")
TAGGED = Plain(
    Annotated[str, Field(pattern=f"^{TAG.pattern}$")],
    "at most 100 letters, digits and _ . : = / + -, with a letter or digit first",
)
CURRENCY = Plain(
    Annotated[str, Field(pattern=r"^[^\W_]{1,12}$|^\S$")],
    "a word of at most 12 letters and digits, or a sign",
)
SIZE = Plain(Annotated[int, Field(ge=0)], "a number of items, 0 or more, or {use: …}")


class Controller(Component):
    """What chooses the block size: any mapping is meant as one."""

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return isinstance(value, dict)


class DrafterForm(Component):
    """What drafts: a generator, or a pipeline in its place whose accepted values are the items."""

    def check(self, node: Located, reading: ConfigReading) -> Any:
        keys = node.value if isinstance(node.value, dict) else ()
        inner = "use" not in keys and any(key in keys for key in ("generator", "verifier", "rule"))
        return INNER.check(node, reading) if inner else super().check(node, reading)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        part = super().schema(definitions, name)
        return {"if": {"required": ["use"]}, "then": part, "else": {"$ref": "#/$defs/pipeline"}}


class Piped(Record):
    """A pipeline, which knows where it stands."""

    def check(self, node: Located, reading: ConfigReading) -> PipelineSpec:
        spec: PipelineSpec = super().check(node, reading)
        if spec.monitor is not None:
            spec = replace(spec, monitor=compared(spec.monitor, node, reading))
        return replace(
            spec,
            on_rejection=tuple(spec.on_rejection),
            name=spec.name or node.dotted.partition(".")[2],
            seed=reading.top("seed", int),
            where=node.where,
            path=node.dotted,
        )


def clause(
    do: Literal["regenerate", "feedback", "reverify", "fallback", "escalate", "give_up"],
    on: list[Trouble] | Trouble | None = None,
    times: Count | Literal["forever"] = 1,
    generator: Annotated[Any, DrafterForm("generator")] = None,
    rounds: Count | Literal["forever"] = 1,
    verified: bool = True,
    partial: bool = False,
) -> None:
    """One step of the answer to a round without progress.

    Args:
        do: regenerate: discard the block and draft again. feedback: draft again with what was said of the refused
            items. reverify: check the errored, timed-out or abstained items again. fallback: let another generator
            draft. escalate: ask a person. give_up: end the task.
        on: which troubles this clause answers; the step's own default when absent.
        times: how often at one place; forever for no bound.
        generator: of a fallback: the other generator.
        rounds: of a fallback: for how many rounds; forever for good.
        verified: of a fallback: whether its items go to the verifier.
        partial: whether items that were refused beside accepted ones are answered too, by themselves.
    """


def _clause(do: str, **written: Any) -> ClauseSpec:
    options = {key: None if value == "forever" else value for key, value in written.items()}
    if isinstance(options.get("on"), str):
        options["on"] = [options["on"]]
    takes = parameters(STEPS[do])
    for key in options:
        if key not in takes:
            raise ConfigError(f"the step {do!r} takes no {key!r}{did_you_mean(key, takes)}", path=key)
    if do == "fallback":
        if "generator" not in options:
            raise ConfigError("is missing; fallback needs another generator", path="generator")
        generator: Any = options["generator"]
        options["name"] = generator.use if isinstance(generator, ComponentSpec) else generator.name
    STEPS[do](**options)  # refuses what the step cannot do
    return ClauseSpec(do, generator=options.pop("generator", None), options=options)


def budget(
    rounds: Annotated[int, Field(gt=0)] | None = 100_000,
    seconds: Annotated[float, Field(gt=0)] | None = None,
    verifier_calls: Annotated[int, Field(gt=0)] | None = None,
    cost: Annotated[float, Field(gt=0)] | None = None,
) -> None:
    """The most that one task may use; looked at before each call.

    Args:
        rounds: propose–verify–decide rounds.
        seconds: seconds, summed over the task's calls.
        verifier_calls: passes of the verifier.
        cost: the sum of what its parts say that they cost.
    """


def pipeline(
    generator: Annotated[Any, DrafterForm("generator")],
    verifier: Annotated[Any, Component("verifier")],
    rule: Annotated[Any, Component("rule")],
    block: Annotated[Any, Either((SIZE, Controller("block")))] = None,
    done: Annotated[Any, Component("stopping")] = None,
    settings: Mapping[str, Any] = {},
    on_rejection: Annotated[Any, ListForm(Record(clause, _clause))] = (),
    budget: Annotated[Any, Record(budget, Budget)] = None,
    monitor: Annotated[Any, MONITOR] = None,
    name: Annotated[str, NAME] = "",
) -> None:
    """One way to do the tasks.

    Args:
        generator: the cheap part: proposes blocks; or a pipeline whose accepted values are the items.
        verifier: the trusted part: checks a whole block in one pass.
        rule: decides how much of a verified block to keep.
        block: how many items to ask for: a number (0 for none), or a controller that chooses; what the generator
            brings when absent, else 1.
        done: when the task is finished.
        settings: what the parts share (temperature and the like); overrides the experiment's settings key by key.
        on_rejection: what becomes of a round without progress: the first clause that answers it and is not used up.
        budget: the most that one task may use.
        monitor: watches the acceptance from task to task, and says when it has changed.
        name: of a pipeline inside another, in records.
    """


def memory(every: Count) -> None:
    """What parts that read `context.memory` see of the run's earlier tasks.

    Args:
        every: after so many tasks they see what those taught; equal under every executor.
    """


def predict(limit: Count) -> None:
    """Measure on some tasks first, and predict from them before the run.

    Args:
        limit: the first so many tasks of each group; they are not measured again.
    """


def records(tokens: Literal["summary"] | None = None) -> None:
    """What the records keep besides what was drafted, said and decided.

    Args:
        tokens: summary: of each drafted token what target and draft gave it, how far they are apart, and the target's
            likeliest tokens, some 300 bytes; of pipelines whose rule reads the target's distributions.
    """


INNER = Piped(pipeline, PipelineSpec, without=frozenset({"monitor"}))
OUTER = Piped(pipeline, PipelineSpec, without=frozenset({"name"}))
DEFAULTS = Record(pipeline, dict, without=frozenset({"name"}), partial=True)


def experiment(
    tasks: Annotated[Any, Component("tasks")],
    pipelines: Annotated[Any, Keyed(OUTER, names=True, least=1)],
    name: Annotated[str, NAME] = "",
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0,
    parts: tuple[str, ...] = (),
    models: Annotated[Any, Keyed(Model("model"), names=True)] = None,
    settings: Mapping[str, Any] = {},
    baseline: str | None = None,
    currency: Annotated[str, CURRENCY] = "",
    metrics: Annotated[Any, Keyed(Component("metric"), names=True)] = None,
    executor: Annotated[Any, Component("executor")] = None,
    durable: Literal["task", "round"] = "task",
    store: Annotated[Any, StoreUrl()] = None,
    memory: Annotated[Any, Record(memory, lambda every: every)] = None,
    predict: Annotated[Any, Record(predict, lambda limit: limit)] = None,
    records: Annotated[Any, Record(records, lambda tokens=None: tokens)] = None,
    tags: Annotated[Any, ListForm(TAGGED)] = (),
    telemetry: bool = False,
    limit: Annotated[int, Field(gt=0)] | None = None,
    defaults: Annotated[Any, DEFAULTS] = None,
    matrix: Annotated[Any, Matrix()] = None,
) -> None:
    """A draftverify experiment.

    Args:
        tasks: where the tasks come from.
        pipelines: the pipelines to run over the tasks, by name.
        name: the experiment's name; the file's name without its suffix when absent.
        seed: of every random draw.
        parts: Python files of your own; a class Guess in ./my_parts.py is then used as my_parts.Guess.
        models: models that several parts share, by the name that the parts refer to.
        settings: what all pipelines' parts share (temperature and the like).
        baseline: the pipeline that the others are compared with.
        currency: of what the parts cost and of budgets' `cost`, as prices are given in (USD, tokens); shown beside it.
        metrics: how right an outcome is by what the task expects, by name; the first says what is solved.
        executor: what runs the tasks; {use: auto} when absent.
        durable: what a crash can cost: the unfinished tasks, or the unfinished rounds.
        store: the URL of a PostgreSQL database for the records, where ${NAME} stands for what the environment holds; a
            file of the run directory when absent.
        memory: what parts see of earlier tasks; nothing when absent.
        predict: measure on some tasks first, and predict from them before the run.
        records: what the records keep besides what was drafted, said and decided.
        tags: words to find the run by; changing them does not make it another run.
        telemetry: whether tasks, rounds and parts become OpenTelemetry's spans (extra otel).
        limit: at most so many tasks of each group, of those that the source gives; to predict from, as many again.
        defaults: what pipelines share: any key of a pipeline. A pipeline's own key wins; of settings and budget each
            key by itself.
        matrix: values of the file that vary; each combination is a cell, and the run has all of them.
    """


def _experiment(
    pipelines: Mapping[str, PipelineSpec],
    settings: Mapping[str, Any] = {},
    metrics: Mapping[str, ComponentSpec] = {},
    models: object = None,
    parts: object = None,
    defaults: object = None,
    **keys: Any,
) -> Experiment:
    specs = [
        replace(spec, settings={**settings, **spec.settings}, monitor=asking(spec.monitor, metrics))
        for spec in pipelines.values()
    ]
    return Experiment(pipelines=tuple(specs), metrics=metrics, **keys)


class File(Record):
    """The whole file. What a pipeline needs may stand in `defaults`, and anything in a matrix."""

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        schema = super().schema(definitions, name)
        keys = schema["properties"]["pipelines"]["additionalProperties"]
        required = {"additionalProperties": {"required": keys.pop("required")}}
        shared: list[Schema] = [{"required": [key]} for key in ("defaults", "matrix")]
        return {**schema, "if": {"not": {"anyOf": shared}}, "then": {"properties": {"pipelines": required}}}


FILE = File(experiment, _experiment)
