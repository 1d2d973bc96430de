"""Specs: what a config asks for, as frozen plain data that a worker process can be sent and build from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from draftverify import plugins, rejection
from draftverify.bench.monitors.monitor import OnAlarm
from draftverify.bench.records.about import FREE
from draftverify.engine.budget import Budget
from draftverify.errors import check_known
from draftverify.plugins import PartsFile, Role
from draftverify.rejection import Policy
from draftverify.secret import note_urls

STEPS: Mapping[str, Callable[..., Policy]] = {
    "regenerate": rejection.retry,
    "feedback": rejection.feedback,
    "reverify": rejection.reverify,
    "fallback": rejection.fallback,
    "escalate": rejection.escalate,
    "give_up": rejection.give_up,
}

LARGEST = 8 << 20
"""Bytes; a larger file of an argument is a model's weights or the like, and is not read for its SHA-256."""


class ComponentSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="part"):
    """One part: a name in a role, and the arguments of its constructor.

    Args:
        role: the role in which `use` is looked up.
        use: the name.
        arguments: plain data as the config gives it, with ComponentSpecs where parts stand, absolute paths, and
            secrets still as `${NAME}`.
        file: the local file that defines it, if it is no installed plugin.
        files: the paths among its own arguments, by their names relative to the config.
    """

    role: Role
    use: str
    arguments: Mapping[str, Any] = {}
    file: PartsFile | None = None
    files: Mapping[str, str] = {}

    @property
    def target(self) -> Any:
        """The class or function that makes it.

        Raises:
            DraftVerifyError: the plugin is broken or gone, or the local file has changed.
        """
        return self.file.load()[self.use] if self.file else plugins.load(self.role, self.use)


class ClauseSpec(msgspec.Struct, frozen=True):
    """One clause of `on_rejection`: the step, its options, and the generator of a fallback."""

    do: str
    options: Mapping[str, Any] = {}
    generator: ComponentSpec | PipelineSpec | None = None


class MonitorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What watches a pipeline's tasks.

    Args:
        reference: known rates by name, or the path of an earlier run's directory or of an operating point; None for the
            run's own tasks that predict.
        level: the probability of ever alarming when nothing has changed, at most.
        metric: the name of the metric that labels; "" for none.
        asks: that metric.
        every: which tasks are labelled.
        on_alarm: what is done then.
        threshold: the score that is asked for then, or a part that is one; None where on_alarm does not tighten.
    """

    reference: Mapping[str, float] | str | None = None
    level: float = 0.05
    metric: str = ""
    asks: ComponentSpec | None = None
    every: int = 1
    on_alarm: OnAlarm = "record"
    threshold: float | ComponentSpec | None = None


class PipelineSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pipeline"):
    """One pipeline of an experiment, or one that stands as a generator in another.

    Args:
        name: its key in the config; of an inner one its path.
        generator, verifier, rule: its parts.
        block: a number of items, or a block-size controller; None: the generator's own.
        done: the stopping rule.
        settings: the experiment's settings, overridden by the pipeline's; of an inner one its own only, since it
            inherits the others as it runs.
        on_rejection: the policy's clauses.
        budget: the most that one task may use.
        seed: the experiment's.
        monitor: what watches it, or None.
        where: "file:line" in the config.
        path: where it stands in the config.
    """

    generator: ComponentSpec | PipelineSpec
    verifier: ComponentSpec
    rule: ComponentSpec
    block: int | ComponentSpec | None = None
    done: ComponentSpec | None = None
    settings: Mapping[str, Any] = {}
    on_rejection: tuple[ClauseSpec, ...] = ()
    budget: Budget = Budget()
    name: str = ""
    seed: int = 0
    monitor: MonitorSpec | None = None
    where: str = ""
    path: str = ""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A whole config.

    Args:
        name: of the experiment.
        seed: of every random draw.
        tasks: where the tasks come from.
        pipelines: in the order of the file.
        baseline: the name of the pipeline to compare with, or None.
        currency: of costs; "" where none is named.
        metrics: by name; the first says what is solved.
        executor: what runs the tasks.
        durable: "task" or "round".
        store: the URL of a PostgreSQL database for the records, with secrets as `${NAME}`; or None.
        memory: how many tasks between two snapshots of `context.memory`, or None.
        predict: how many tasks of each group are measured before the run, or None.
        records: what is kept of each drafted token's distributions: "summary", or None for nothing.
        tags: words to find its runs by.
        telemetry: whether tasks, rounds and parts become OpenTelemetry's spans.
        limit: how many tasks of each group are measured at most, or None.
        chosen: the ids of the tasks to take, of those that the sources give; None for all.
        sources: of a sweep's pipelines whose tasks are others than `tasks`, where those come from.
        cells: of a sweep's pipelines, by name: what their cells change, by dotted path.
        baselines: of a sweep's pipelines that are compared with another one than `baseline`, its name.
        file: the config's path as it was given.
        config: the resolved config: overrides applied, `defaults` written into the pipelines unless a matrix varies
            them, the name, seed, executor and durability filled in. Secrets stand in it as `${NAME}` only.
    """

    tasks: ComponentSpec
    pipelines: tuple[PipelineSpec, ...]
    name: str = ""
    seed: int = 0
    baseline: str | None = None
    currency: str = ""
    metrics: Mapping[str, ComponentSpec] = {}
    executor: ComponentSpec = ComponentSpec("executor", "auto")
    durable: Literal["task", "round"] = "task"
    store: str | None = None
    memory: int | None = None
    predict: int | None = None
    records: Literal["summary"] | None = None
    tags: tuple[str, ...] = ()
    telemetry: bool = False
    limit: int | None = None
    chosen: tuple[str, ...] | None = None
    sources: Mapping[str, ComponentSpec] = {}
    cells: Mapping[str, Mapping[str, Any]] = {}
    baselines: Mapping[str, str] = {}
    file: str = ""
    config: Mapping[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The pipelines'."""
        return [spec.name for spec in self.pipelines]

    def only(self, names: Sequence[str]) -> list[PipelineSpec]:
        """The pipelines of these names, in the file's order; all when empty.

        Raises:
            ConfigError: there is none of that name.
        """
        for name in names:
            check_known("pipeline", name, self.names, path="pipelines")
        return [spec for spec in self.pipelines if not names or spec.name in names]

    def compared_with(self, name: str) -> str | None:
        """The pipeline that another one is compared with; None for a baseline, and where there is none."""
        baseline = self.baselines.get(name, self.baseline)
        return None if baseline == name else baseline

    def to_json(self) -> bytes:
        """The whole experiment as text, for workers elsewhere."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_json(text: bytes) -> Experiment:
        """What `to_json` wrote."""
        note_urls(text.decode())
        return msgspec.json.decode(text, type=Experiment)

    def parts(self) -> dict[str, dict[str, str]]:
        """What its records rest on beside the config: each plugin that it uses, with its package, version and SHA-256,
        and each parts file and each file that a shipped part of a pipeline is given, with its own. The executor
        changes no record, and the tasks are compared themselves."""
        monitors = [spec.monitor for spec in self.pipelines if spec.monitor is not None]
        parts = rests_on((self.tasks, self.sources), files=False) | rests_on(self.pipelines)
        for path in sorted({m.reference for m in monitors if isinstance(m.reference, str)}):
            # Of a run's directory its summary says what it is, as reading may change a database.
            file = Path(path, "summary.json") if os.path.isdir(path) else Path(path)
            sha256 = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
            reference = parts.setdefault(f"reference {Path(path).name}", {"sha256": ""})
            reference["sha256"] += sha256  # of those of one name together
        return parts

    def metric_parts(self) -> dict[str, dict[str, str]]:
        """What its metrics rest on, in the same form. Their scores are no part of a record."""
        return rests_on(tuple(self.metrics.values()))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that can change a record: the resolved config without the keys that cannot."""
        config = {key: value for key, value in self.config.items() if key not in FREE}
        return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def rests_on(value: Any, *, files: bool = True) -> dict[str, dict[str, str]]:
    """The plugins, parts files and files of the parts within a spec, or within several.

    Files are those that arguments of the shipped parts name, as they are now: a schema, a folder of texts. Large ones
    (weights) are left out, and so are those of others' parts, which may write into what they are given.
    """
    parts: dict[str, dict[str, str]] = {}
    hashes: dict[tuple[str, str], str] = {}
    for spec in _components(value):
        if spec.file is not None:
            parts[Path(spec.file.path).name] = {"sha256": spec.file.sha256}
            continue
        plugin = plugins.find(spec.role, spec.use)
        # Not the top name of the module: packages of several distributions may share a namespace.
        module = plugin.distribution, plugin.target.partition(":")[0]
        if module not in hashes:
            hashes[module] = plugin.sha256()
        package = {"package": plugin.distribution, "version": plugin.version}
        parts[f"{spec.role} {spec.use}"] = {**package, "sha256": hashes[module]}
        for name, path in spec.files.items() if files and plugin.distribution == "draftverify" else ():
            with suppress(OSError):  # what cannot be read is for the part to refuse
                if os.path.isdir(path):
                    parts[f"folder {name}"] = {"sha256": _folder(Path(path))}
                elif os.path.isfile(path) and os.path.getsize(path) <= LARGEST:
                    sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                    parts[f"file {name}"] = {"sha256": sha256}
    return parts


def _folder(path: Path) -> str:
    """Of the files in a folder, hidden ones left out: their names and what stands in them; of large ones their size."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            size = file.stat().st_size
            content = file.read_bytes() if size <= LARGEST else str(size).encode()
            digest.update(f"{name}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _components(value: Any) -> Iterator[ComponentSpec]:
    """The parts within a spec, and within their arguments."""
    if isinstance(value, ComponentSpec):
        yield value
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from _components(inner)
