"""The config file: read, checked as a whole, and turned into specs; every error says file, line and dotted path.

The file's own keys are checked by the signatures in `format`, the parts (`{use: NAME, …}`) by those of the classes that
the names stand for. All errors are collected and raised at once. No part is built here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from draftverify.bench.config.format import DEFAULTS, FILE
from draftverify.bench.config.forms import Reading, Wrong, shown
from draftverify.bench.config.located import Located, override, read
from draftverify.bench.config.parameters import Component, Record
from draftverify.bench.config.specs import ComponentSpec, Experiment
from draftverify.bench.runner.sweep import Cell, Matrix, Sweep, assemble, changed, inherited, merged
from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.plugins import PartsFile, did_you_mean
from draftverify.secret import note_urls

__all__ = [
    "ConfigErrors",
    "load_experiment",
    "load_form",
    "load_recorded",
    "load_training",
    "parts_of",
    "raise_all",
    "read_config",
    "read_parts",
]


class ConfigErrors(ConfigError):
    """All that is wrong with a config, at once.

    Args:
        errors: in the order of the file.
    """

    def __init__(self, errors: Sequence[DraftVerifyError]) -> None:
        first = errors[0]
        super().__init__(
            f"{len(errors)} errors", where=getattr(first, "where", ""), path=getattr(first, "path", "")
        )
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def load_experiment(
    file: str | os.PathLike[str], *, overrides: Iterable[str] = (), limit: int | None = None
) -> Experiment:
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
    within = [each for each in assignments if each.startswith("pipelines.")]
    root, errors = read_config(file, assignments, without=within)
    if limit is not None:
        root = override(root, f"limit={limit}", option=f"--limit {limit}")
    return _experiment(root, Path(file), errors, within)


def load_recorded(
    file: str | os.PathLike[str],
    base: str | os.PathLike[str],
    *,
    cell: str = "",
    overrides: Iterable[str] = (),
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
    within = list(overrides)
    root, errors = read_config(file, ())
    if isinstance(root.value, dict):
        if cell and root.value.get("matrix") is not None:
            root = _of_cell(root, cell, Reading(root, Path(base), errors))
        kept = {key: each for key, each in root.value.items() if key not in _OF_THE_RUN}
        root = Located(kept, root.where)
    return _experiment(root, Path(base, "config.json"), errors, within)


def _of_cell(root: Located, cell: str, reading: Reading) -> Located:
    """The file of a sweep's run with one cell's values in it: without the matrix, and with its pipeline alone."""
    name = cell.partition("@")[0]
    cells = root.value.get("cells")
    changes = cells.value[cell].value if cells is not None and cell in cells.value else {}
    kept = {key: each for key, each in root.value.items() if key not in ("matrix", "baseline")}
    alone = Located(kept, root.where)
    try:
        for below in (False, True):
            alone = changed(alone, changes, reading, pipelines=below)
    except Wrong:
        raise_all(reading)
    pipelines = alone.value["pipelines"]
    own = Located({name: pipelines.value[name]}, pipelines.where, pipelines.path)
    return Located({**alone.value, "pipelines": own}, root.where)


_OF_THE_RUN = ("cells", "baselines", "executor", "durable", "store", "tags", "telemetry")
"""What a run's config.json has beside the experiment, or what says how it ran."""


def load_training(name: str, file: str | os.PathLike[str], *, overrides: Iterable[str] = ()) -> ComponentSpec:
    """Read and check the config of a trainer: its arguments, and `models` and `parts` as an experiment has them.

    Args:
        name: of the trainer.
        file: the YAML file. Paths in it are relative to its directory. A run's directory is as good as a file with
            nothing but `run`, its path; paths in `overrides` are then relative to the working directory.
        overrides: as for an experiment.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    errors: list[ConfigError] = []
    base = Path(os.path.abspath(file)).parent
    if Path(file, "run.json").is_file():
        base = Path.cwd()
        root = Located({"run": Located(os.path.abspath(file), str(file), ("run",))}, str(file))
        for assignment in overrides:
            root = override(root, assignment)
    else:
        root, errors = read_config(file, overrides)
    reading = Reading(root, base, errors)
    spec: ComponentSpec | None = None
    if isinstance(root.value, dict):
        read_parts(reading)
        taken = ("models", "parts", "use")
        if "use" in root.value:
            reading.wrong(root.value["use"], f"{name} is what is trained, and nothing else is named here")
        arguments = {key: each for key, each in root.value.items() if key not in taken}
        use = Located(name, root.where)
        with suppress(Wrong):
            spec = Component("trainer").check(Located({"use": use, **arguments}, root.where), reading)
    else:
        reading.wrong(root, f"the config of a trainer is a mapping of its arguments, not {shown(root)}")
    raise_all(reading)
    assert spec is not None
    return spec


def load_form(
    form: Record, file: str | os.PathLike[str], *, overrides: Iterable[str] = (), limit: int | None = None
) -> Any:
    """Read and check a config that is no experiment, by the form that its keys have.

    Args:
        form: what is made of it; it may have `models` and `parts` as an experiment has them.
        file, overrides: as for an experiment.
        limit: the value of its key `limit`, as after `--limit`.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    root, errors = read_config(file, overrides)
    if limit is not None:
        root = override(root, f"limit={limit}", option=f"--limit {limit}")
    reading = Reading(root, Path(os.path.abspath(file)).parent, errors)
    made: Any = None
    if isinstance(root.value, dict):
        read_parts(reading)
    with suppress(Wrong):
        made = form.check(root, reading)
    raise_all(reading)
    return made


def parts_of(file: str | os.PathLike[str]) -> dict[str, Any]:
    """The classes and functions of a config's `parts:` files, by their names in it. The rest of it may be wrong.

    Raises:
        ConfigError: the config or a parts file cannot be read.
    """
    root, _ = read_config(file, ())
    reading = Reading(root, Path(os.path.abspath(file)).parent, ())
    if isinstance(root.value, dict):
        read_parts(reading)
    raise_all(reading)
    return {name: target for name, (_, target) in reading.local.items()}


def read_config(
    file: str | os.PathLike[str], overrides: Iterable[str], *, without: Sequence[str] = ()
) -> tuple[Located, list[ConfigError]]:
    """A config file as located values, overridden but for some, and what is wrong with its text."""
    path, assignments = Path(file), list(overrides)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(_unreadable(path, error), where=str(file)) from error
    note_urls("\n".join([data.decode(errors="replace"), *assignments]))
    try:
        root, errors = read(data, str(file))
    except ConfigError as error:
        if path.suffix in (".json", ".jsonl", ".py", ".csv", ".md"):
            message = f"a config is a YAML file, and {path.name} is another; `draftverify init` writes one"
            raise ConfigError(message, where=error.where) from error
        raise
    for assignment in assignments:
        if assignment not in without:
            root = override(root, assignment)
    return root, list(errors)


def _unreadable(path: Path, error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        inside = sorted(str(each) for each in path.iterdir() if each.suffix in (".yaml", ".yml"))
        return "this is a directory; name a config" + (f" in it: {', '.join(inside[:8])}" if inside else "")
    if not isinstance(error, FileNotFoundError):
        return f"the config cannot be read: {error.strerror or error}"
    try:
        near = [each.name for each in path.parent.iterdir() if each.suffix in (".yaml", ".yml")]
    except OSError:
        return f"there is no directory {path.parent}"
    return f"there is no such file{did_you_mean(path.name, near)}" + (
        "" if near else "; `draftverify init` writes one"
    )


def _experiment(
    root: Located, path: Path, errors: Sequence[ConfigError], within: Sequence[str] = ()
) -> Experiment:
    """The experiment of a whole file; all that is wrong with it is told at once."""
    reading = Reading(root, Path(os.path.abspath(path)).parent, errors)
    experiment: Experiment | None = None
    if isinstance(root.value, dict):
        read_parts(reading)
        matrix = root.value.get("matrix")
        root = _within(root, within)
        if matrix is not None and matrix.value is not None:
            experiment = _sweep(matrix, reading, within)
        else:
            reading.root = merged(root, DEFAULTS.takes)
            with suppress(Wrong):
                experiment = _whole(reading.root, reading)
    else:
        needed = "a config is a mapping (name: …, tasks: …, pipelines: …)"
        reading.wrong(root, f"{needed}, not {shown(root)}")
    raise_all(reading)
    assert experiment is not None
    name = experiment.name or re.sub(r"^\W|[^\w.-]", "-", path.stem)
    # Where a matrix varies `defaults`, what a pipeline has of its own must still be told from what it has of these.
    varied = any(path.startswith("defaults.") for each in experiment.cells.values() for path in each)
    written = root if varied else merged(root, DEFAULTS.takes)
    config = {
        "seed": 0,
        "durable": "task",
        "executor": {"use": "serial"},
        **written.plain(),
        "name": name,
    }
    if not varied:
        config.pop("defaults", None)  # they stand in the pipelines
    if experiment.cells:
        config.update(cells=experiment.cells, baselines=experiment.baselines)
    return msgspec.structs.replace(experiment, name=name, file=str(path), config=config)


def _within(root: Located, assignments: Iterable[str]) -> Located:
    """The file with what `--set` says of values within pipelines."""
    for assignment in assignments:
        steps = assignment.partition("=")[0].strip().split(".")
        root = override(inherited(root, steps), assignment)
    return root


def _whole(root: Located, reading: Reading) -> Experiment:
    """Raises: Wrong: what is wrong has been noted."""
    try:
        experiment: Experiment = FILE.check(root, reading)
    finally:
        names, baseline = reading.top("pipelines", dict), reading.top("baseline", str)
        if baseline and baseline not in names:
            near = did_you_mean(baseline, names)
            reading.wrong(root, f"there is no pipeline {baseline!r}{near}", "baseline")
    return experiment


def _sweep(matrix: Located, reading: Reading, within: Sequence[str]) -> Experiment | None:
    """The experiment of a file with a matrix: the file is checked with each cell's values in it."""
    try:
        sweep: Sweep = Matrix().check(matrix, reading)
    except Wrong:
        return None
    set_always = [
        path for axis in sweep.axes for path in axis[0].changes if all(path in c.changes for c in axis)
    ]
    for assignment in within:
        path = assignment.partition("=")[0].strip()
        for each in set_always:
            if path == each or path.startswith(f"{each}."):
                mend = (
                    f"the matrix sets it in every cell; write --set 'matrix.grid.{each}=[…]' for another list"
                )
                reading.errors.append(("--set", ConfigError(mend, where=f"--set {assignment}", path=path)))
                return None
    alone = Located(
        {key: each for key, each in reading.root.value.items() if key != "matrix"}, reading.root.where
    )

    def read(changes: Mapping[str, Located], errors: list[tuple[str, DraftVerifyError]]) -> Experiment | None:
        cell = reading.of(alone)
        try:
            cell.root = changed(alone, changes, cell, pipelines=False)
            cell.root = _within(cell.root, within)
            cell.root = merged(changed(cell.root, changes, cell, pipelines=True), DEFAULTS.takes)
            return _whole(cell.root, cell)
        except Wrong:
            return None
        finally:
            errors += cell.errors

    found: dict[Cell, Experiment] = {}
    noted: dict[tuple[str, str], tuple[DraftVerifyError, list[Cell]]] = {}
    for cell in sweep.cells:
        errors: list[tuple[str, DraftVerifyError]] = []
        experiment = read(sweep.changes(cell), errors)
        for where, error in errors:
            cells = noted.setdefault((where, str(error)), (error, []))[1]
            cells += [cell] if cell not in cells else []
        if experiment is not None:
            found[cell] = experiment
    for (where, _), (error, cells) in noted.items():
        if isinstance(error, ConfigError) and len(cells) < len(sweep.cells):
            of = "" if len(cells) == 1 else f"{len(cells)} of {len(sweep.cells)} cells, the first "
            told = f"{error.message} (in {of or 'the cell '}{sweep.label(cells[0])})"
            error = ConfigError(told, where=error.where, path=error.path)
        reading.errors.append((where, error))
    if len(found) < len(sweep.cells) or reading.errors:
        return None
    first = sweep.cells[0]
    alone_in = [k for k, axis in enumerate(sweep.axes) if len(axis) == 1]
    return assemble(sweep, found, {k: read(sweep.changes(first, without=k), []) for k in alone_in})


def raise_all(reading: Reading) -> None:
    """Raises: DraftVerifyError: all that was found wrong, in the order of the file."""
    if reading.errors:
        ordered = [error for _, error in sorted(reading.errors, key=lambda noted: _line(noted[0]))]
        told = list(
            {str(error): error for error in ordered}.values()
        )  # of `defaults` each pipeline finds them
        raise told[0] if len(told) == 1 else ConfigErrors(told)


def read_parts(reading: Reading) -> None:
    for node in reading.top("parts", list):
        if not isinstance(node.value, str):
            continue  # noted with the other keys
        try:
            file = PartsFile.read(reading.absolute(node.value))
            found = file.load()
        except ConfigError as error:
            reading.wrong(node, error.message)
            reading.unread.add(Path(node.value).stem)
            continue
        if any(file.path == other.path for other in reading.files):
            continue  # named twice, as on the command line and in the file of inputs
        if any(file.stem == other.stem for other in reading.files):
            reading.wrong(node, f"two parts files are named {file.stem}; rename one")
        reading.files.append(file)
        reading.local.update({name: (file, target) for name, target in found.items()})


def _line(where: str) -> int:
    """The line, for sorting; what the command line set comes first."""
    line = where.rpartition(":")[2]
    return int(line) if line.isdecimal() and not where.startswith("--") else 0
