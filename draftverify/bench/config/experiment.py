"""The config file: read, checked as a whole, and turned into specs; every error says file, line and dotted path.

The file's own keys are checked by the signatures in `format`, the parts (`{use: NAME, …}`) by those of the classes that
the names stand for. All errors are collected and raised at once. No part is built here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from draftverify.bench.config.format import DEFAULTS, FILE
from draftverify.bench.config.forms import ConfigReading, Form, Wrong
from draftverify.bench.config.located import Located, override, read, shown
from draftverify.bench.config.parameters import Component
from draftverify.bench.config.specs import ComponentSpec, Experiment
from draftverify.bench.runner.sweep import Cell, Matrix, assemble, changed, inherited, merged
from draftverify.errors import ConfigError, DraftVerifyError, did_you_mean
from draftverify.plugins import PartsFile
from draftverify.secret import note_urls

FileName: TypeAlias = "str | os.PathLike[str]"


class ConfigErrors(ConfigError):
    """All that is wrong with a config, at once.

    Args:
        errors: in the order of the file.
    """

    def __init__(self, errors: Sequence[DraftVerifyError]) -> None:
        where, path = (getattr(errors[0], name, "") for name in ("where", "path"))
        super().__init__(f"{len(errors)} errors", where=where, path=path)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def load_experiment(file: FileName, *, overrides: Iterable[str] = (), limit: int | None = None) -> Experiment:
    """Read and check a config file.

    Args:
        file: the YAML file. Paths in it are relative to its directory.
        overrides: "a.b.c=value" each, as after `--set`; the value is read as YAML.
        limit: at most so many tasks of each group, as after `--limit`.

    Returns:
        The experiment as plain data, a sweep's cells side by side; no part has been built and nothing heavy imported.

    Raises:
        ConfigError: what is wrong, where and what to do; a ConfigErrors when there is more than one thing.
        PluginError: a named plugin is broken, or two have its name.
        ResourceError: a named plugin needs a package that is not installed.
    """
    assignments = list(overrides)
    # What is set within pipelines comes last: what they share has to be settled before.
    deep = [assignment for assignment in assignments if assignment.startswith("pipelines.")]
    shallow = [assignment for assignment in assignments if assignment not in deep]
    return _experiment(_reading(file, shallow, limit), Path(file), deep)


def load_recorded(
    file: FileName, base: FileName, *, cell: str = "", overrides: Iterable[str] = ()
) -> Experiment:
    """Read and check the resolved config that a run directory keeps.

    Args:
        file: the run's config.json.
        base: the directory that its paths are relative to: that of the config which it was made from.
        cell: of a sweep's run, a pipeline as PIPELINE@CELL: the experiment is then of that one alone, under the name
            PIPELINE, with the cell's values in it like any others.
        overrides: as for an experiment, of values within pipelines.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    root, errors = read_config(file, ())
    reading = ConfigReading(root, Path(os.path.abspath(base)), errors)
    reading.recorded = True
    if isinstance(root.value, dict):
        if cell and root.value.get("matrix") is not None:
            root = _of_cell(root, cell, reading)
        reading.root = root.without(*_OF_THE_RUN)
    read_parts(reading)
    return _experiment(reading, Path(base, "config.json"), list(overrides))


def _of_cell(root: Located, cell: str, reading: ConfigReading) -> Located:
    """The file of a sweep's run with one cell's values in it: without the matrix, and with its pipeline alone."""
    name = cell.partition("@")[0]
    single = root.without("matrix", "baseline")
    changes = root.follow(["cells", cell])
    try:
        for pipelines in (False, True) if changes.path == ("cells", cell) else ():
            single = changed(single, changes.value, reading, pipelines=pipelines)
    except Wrong:
        raise_all(reading)
    specs: Located = single.value["pipelines"]
    return single.having("pipelines", Located({name: specs.value[name]}, specs.where, specs.path))


_OF_THE_RUN = ("cells", "baselines", "executor", "durable", "store", "tags", "telemetry")
"""What a run's config.json has beside the experiment, or what says how it ran."""


def load_training(name: str, file: FileName, *, overrides: Iterable[str] = ()) -> ComponentSpec:
    """Read and check the config of a trainer: its arguments, and `models` and `parts` as an experiment has them.

    Args:
        name: of the trainer.
        file: the YAML file. Paths in it are relative to its directory. A run's directory is as good as a file with
            nothing but `run`, its path; paths in `overrides` are then relative to the working directory.
        overrides: as for an experiment.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    if Path(file, "run.json").is_file():
        root = Located({"run": Located(os.path.abspath(file), str(file), ("run",))}, str(file))
        reading = ConfigReading(_assigned(root, overrides), Path.cwd())
        read_parts(reading)
    else:
        reading = _reading(file, overrides)
    root = reading.root
    if not isinstance(root.value, dict):
        reading.wrong(root, f"the config of a trainer is a mapping of its arguments, not {shown(root)}")
        raise_all(reading)
    if "use" in root.value:
        reading.wrong(root.value["use"], f"{name} is what is trained, and nothing else is named here")
    part = root.without("models", "parts").having("use", Located(name, root.where))
    spec: ComponentSpec = _checked(Component("trainer"), part, reading)
    return spec


def load_form(form: Form, file: FileName, *, overrides: Iterable[str] = (), limit: int | None = None) -> Any:
    """Read and check a config that is no experiment, by the form that its keys have.

    Args:
        form: what is made of it; it may have `models` and `parts` as an experiment has them.
        file, overrides: as for an experiment.
        limit: the value of its key `limit`, as after `--limit`.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    reading = _reading(file, overrides, limit)
    return _checked(form, reading.root, reading)


def _reading(file: FileName, overrides: Iterable[str], limit: int | None = None) -> ConfigReading:
    """What stands in a file, overridden, with its parts files read."""
    root, errors = read_config(file, overrides)
    if limit is not None:
        root = override(root, f"limit={limit}", option=f"--limit {limit}")
    reading = ConfigReading(root, Path(os.path.abspath(file)).parent, errors)
    read_parts(reading)
    return reading


def _checked(form: Form, node: Located, reading: ConfigReading) -> Any:
    """Raises: DraftVerifyError: all that is wrong."""
    with suppress(Wrong):
        data = form.check(node, reading)
    raise_all(reading)
    return data


def parts_of(file: FileName) -> dict[str, Any]:
    """The classes and functions of a config's `parts:` files, by their names in it. The rest of it may be wrong.

    Raises:
        ConfigError: the config or a parts file cannot be read.
    """
    reading = ConfigReading(read_config(file, ())[0], Path(os.path.abspath(file)).parent)
    read_parts(reading)
    raise_all(reading)
    return {name: target for name, (_, target) in reading.local.items()}


def read_config(file: FileName, overrides: Iterable[str]) -> tuple[Located, list[ConfigError]]:
    """A config file as located values, overridden, and what is wrong with its text."""
    path = Path(file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(_unreadable(path, error), where=str(file)) from error
    note_urls(data.decode(errors="replace"))
    try:
        root, errors = read(data, str(file))
    except ConfigError as error:
        if path.suffix not in (".json", ".jsonl", ".py", ".csv", ".md"):
            raise
        message = f"a config is a YAML file, and {path.name} is another; `draftverify init` writes one"
        raise ConfigError(message, where=error.where) from error
    return _assigned(root, overrides), errors


def _unreadable(path: Path, error: OSError) -> str:
    folder = path if isinstance(error, IsADirectoryError) else path.parent
    if folder is not path and not isinstance(error, FileNotFoundError):
        return f"the config cannot be read: {error.strerror or error}"
    if not folder.is_dir():
        return f"there is no directory {folder}"
    configs = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml"))
    if folder is path:
        inside = f" in it: {', '.join(map(str, configs[:8]))}" if configs else ""
        return f"this is a directory; name a config{inside}"
    near = did_you_mean(path.name, [file.name for file in configs])
    written = "; `draftverify init` writes one" if path.suffix in (".yaml", ".yml") else " or directory"
    return f"there is no such file{near or written}"


def _experiment(reading: ConfigReading, path: Path, assignments: Sequence[str]) -> Experiment:
    """The experiment of a whole file; all that is wrong with it is told at once."""
    root = reading.root
    if not isinstance(root.value, dict):
        form = "a config is a mapping (name: …, tasks: …, pipelines: …)"
        reading.wrong(root, f"{form}, not {shown(root)}")
        raise_all(reading)
    matrix = root.value.get("matrix")
    root = _assigned(root, assignments)
    with suppress(Wrong):
        if matrix is not None and matrix.value is not None:
            experiment = _sweep(matrix, reading, assignments)
        else:
            reading.root = merged(root, DEFAULTS.takes)
            experiment = _whole(reading)
    raise_all(reading)
    # Where a matrix varies `defaults`, what a pipeline has of its own must still be told from what it has of these.
    varied = any(key.startswith("defaults.") for values in experiment.cells.values() for key in values)
    settled = (root if varied else merged(root, DEFAULTS.takes)).plain()
    config = {"seed": 0, "durable": "task", "executor": {"use": "auto"}} | settled
    config["name"] = experiment.name or re.sub(r"^\W|[^\w.-]", "-", path.stem)
    if not varied:
        config.pop("defaults", None)  # they stand in the pipelines
    if experiment.cells:
        config.update(cells=experiment.cells, baselines=experiment.baselines)
    return msgspec.structs.replace(experiment, name=config["name"], file=str(path), config=config)


def _assigned(root: Located, assignments: Iterable[str]) -> Located:
    """The file with what `--set` says; within a pipeline also of what stands in `defaults`."""
    for assignment in assignments:
        note_urls(assignment)
        steps = assignment.partition("=")[0].strip().split(".")
        root = override(inherited(root, steps), assignment)
    return root


def _whole(reading: ConfigReading) -> Experiment:
    """Raises: Wrong: what is wrong has been noted."""
    try:
        experiment: Experiment = FILE.check(reading.root, reading)
    finally:
        names, baseline = reading.top("pipelines", dict), reading.top("baseline", str)
        if baseline and baseline not in names:
            near = did_you_mean(baseline, names)
            reading.wrong(reading.root, f"there is no pipeline {baseline!r}{near}", "baseline")
    return experiment


def _sweep(matrix: Located, reading: ConfigReading, assignments: Sequence[str]) -> Experiment:
    """The experiment of a file with a matrix: the file is checked with each cell's values in it.

    Raises:
        Wrong: what is wrong has been noted.
    """
    sweep = Matrix().check(matrix, reading)
    for axis in sweep.axes:
        for path in axis[0].changes:
            for assignment in assignments:
                target = assignment.partition("=")[0].strip()
                if f"{target}.".startswith(f"{path}.") and all(path in choice.changes for choice in axis):
                    mend = f"write --set 'matrix.grid.{path}=[…]' for another list"
                    message = f"the matrix sets it in every cell; {mend}"
                    conflict = ConfigError(message, where=f"--set {assignment}", path=target)
                    reading.errors.append(("--set", conflict))
                    raise Wrong
    single = reading.root.without("matrix")

    def in_cell(cell: Cell) -> tuple[Experiment | None, list[tuple[str, DraftVerifyError]]]:
        changing, changes = reading.of(single), sweep.changes(cell)
        with suppress(Wrong):
            root = _assigned(changed(single, changes, changing, pipelines=False), assignments)
            changing.root = merged(changed(root, changes, changing, pipelines=True), DEFAULTS.takes)
            return _whole(changing), changing.errors
        return None, changing.errors

    experiments: dict[Cell, Experiment | None] = {}
    noted: dict[tuple[str, str], dict[Cell, DraftVerifyError]] = {}
    for cell in sweep.cells:
        experiments[cell], errors = in_cell(cell)
        for where, error in errors:
            noted.setdefault((where, str(error)), {})[cell] = error
    for (where, _), cells in noted.items():
        cell, error = next(iter(cells.items()))
        if isinstance(error, ConfigError) and len(cells) < len(sweep.cells):
            extent = f"{len(cells)} of {len(sweep.cells)} cells, the first" if len(cells) > 1 else "the cell"
            message = f"{error.message} (in {extent} {sweep.label(cell)})"
            error = ConfigError(message, where=error.where, path=error.path)
        reading.errors.append((where, error))
    if reading.errors:
        raise Wrong
    return assemble(sweep, experiments | {cell: in_cell(cell)[0] for cell in sweep.bare})


def raise_all(reading: ConfigReading) -> None:
    """Raises: DraftVerifyError: all that was found wrong, in the order of the file."""

    def line(noted: tuple[str, DraftVerifyError]) -> int:  # what the command line set comes first
        number = noted[0].rpartition(":")[2]
        return int(number) if number.isdecimal() and not noted[0].startswith("--") else 0

    # Of `defaults` each pipeline finds them.
    errors = [*{str(error): error for _, error in sorted(reading.errors, key=line)}.values()]
    if errors:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)


def read_parts(reading: ConfigReading) -> None:
    """Read the files that `parts:` names."""
    for node in reading.top("parts", list):
        if not isinstance(node.value, str):
            continue  # noted with the other keys
        try:
            file = PartsFile.read(reading.absolute(node.value))
            targets = file.load()
        except ConfigError as error:
            reading.wrong(node, error.message)
            reading.unread.add(Path(node.value).stem)
            continue
        if file.path in [part.path for part in reading.files]:
            continue  # named twice, as on the command line and in the file of inputs
        if file.stem in [part.stem for part in reading.files]:
            reading.wrong(node, f"two parts files are named {file.stem}; rename one")
        reading.files.append(file)
        reading.local.update({name: (file, target) for name, target in targets.items()})
