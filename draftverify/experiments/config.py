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

import msgspec

from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.experiments.format import AUDIT, FILE
from draftverify.experiments.forms import Reading, Wrong, shown
from draftverify.experiments.located import Located, override, read
from draftverify.experiments.parameters import Component
from draftverify.experiments.specs import AuditSpec, ComponentSpec, Experiment
from draftverify.plugins import PartsFile, did_you_mean
from draftverify.secret import note_urls

__all__ = ["ConfigErrors", "load_experiment", "load_judge_audit", "load_training"]


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
        limit: at most so many tasks, as after `--limit`.

    Returns:
        The experiment as plain data; no part has been built and nothing heavy imported.

    Raises:
        ConfigError: what is wrong, where and what to do; a ConfigErrors when there is more than one thing.
        PluginError: a named plugin is broken, or two have its name.
        ResourceError: a named plugin needs a package that is not installed.
    """
    root, errors = _read(file, overrides)
    if limit is not None:
        root = override(root, f"tasks.limit={limit}", option=f"--limit {limit}")
    return _experiment(root, Path(file), errors)


def load_training(name: str, file: str | os.PathLike[str], *, overrides: Iterable[str] = ()) -> ComponentSpec:
    """Read and check the config of a trainer: its arguments, and `models` and `parts` as an experiment has them.

    Args:
        name: of the trainer.
        file: the YAML file. Paths in it are relative to its directory.
        overrides: as for an experiment.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    root, errors = _read(file, overrides)
    reading = Reading(root, Path(os.path.abspath(file)).parent, errors)
    spec: ComponentSpec | None = None
    if isinstance(root.value, dict):
        _read_parts(reading)
        taken = ("models", "parts", "use")
        if "use" in root.value:
            reading.wrong(root.value["use"], f"{name} is what is trained, and nothing else is named here")
        arguments = {key: each for key, each in root.value.items() if key not in taken}
        use = Located(name, root.where)
        with suppress(Wrong):
            spec = Component("trainer").check(Located({"use": use, **arguments}, root.where), reading)
    else:
        reading.wrong(root, f"the config of a trainer is a mapping of its arguments, not {shown(root)}")
    _tell(reading)
    assert spec is not None
    return spec


def load_judge_audit(
    file: str | os.PathLike[str], *, overrides: Iterable[str] = (), limit: int | None = None
) -> AuditSpec:
    """Read and check the config of a judge's audit: `judge`, `comparisons`, `probes`, and `models` and `parts`.

    Args:
        file, overrides: as for an experiment.
        limit: at most so many comparisons, as after `--limit`.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    root, errors = _read(file, overrides)
    if limit is not None:
        root = override(root, f"limit={limit}", option=f"--limit {limit}")
    reading = Reading(root, Path(os.path.abspath(file)).parent, errors)
    spec: AuditSpec | None = None
    if isinstance(root.value, dict):
        _read_parts(reading)
    with suppress(Wrong):
        spec = AUDIT.check(root, reading)
    _tell(reading)
    assert spec is not None
    return spec


def _read(file: str | os.PathLike[str], overrides: Iterable[str]) -> tuple[Located, list[ConfigError]]:
    """A config file as located values, overridden, and what is wrong with its text."""
    path, assignments = Path(file), list(overrides)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(_unreadable(path, error), where=str(file)) from error
    note_urls("\n".join([data.decode(errors="replace"), *assignments]))
    root, errors = read(data, str(file))
    for assignment in assignments:
        root = override(root, assignment)
    return root, list(errors)


def _unreadable(path: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"the config cannot be read: {error.strerror or error}"
    try:
        near = [each.name for each in path.parent.iterdir() if each.suffix in (".yaml", ".yml")]
    except OSError:
        return f"there is no directory {path.parent}"
    return f"there is no such file{did_you_mean(path.name, near)}" + (
        "" if near else "; `draftverify init` writes one"
    )


def _experiment(root: Located, path: Path, errors: Sequence[ConfigError]) -> Experiment:
    """The experiment of a whole file; all that is wrong with it is told at once."""
    reading = Reading(root, Path(os.path.abspath(path)).parent, errors)
    experiment: Experiment | None = None
    if isinstance(root.value, dict):
        _read_parts(reading)
        with suppress(Wrong):
            experiment = FILE.check(root, reading)
        names, baseline = reading.top("pipelines", dict), reading.top("baseline", str)
        if baseline and baseline not in names:
            near = did_you_mean(baseline, names)
            reading.wrong(root, f"there is no pipeline {baseline!r}{near}", "baseline")
    else:
        needed = "a config is a mapping (name: …, tasks: …, pipelines: …)"
        reading.wrong(root, f"{needed}, not {shown(root)}")
    _tell(reading)
    assert experiment is not None
    name = experiment.name or re.sub(r"^\W|[^\w.-]", "-", path.stem)
    config = {"seed": 0, "durable": "task", "executor": {"use": "serial"}, **root.plain(), "name": name}
    return msgspec.structs.replace(experiment, name=name, file=str(path), config=config)


def _tell(reading: Reading) -> None:
    """Raises: DraftVerifyError: all that was found wrong, in the order of the file."""
    if reading.errors:
        told = [error for _, error in sorted(reading.errors, key=lambda noted: _line(noted[0]))]
        raise told[0] if len(told) == 1 else ConfigErrors(told)


def _read_parts(reading: Reading) -> None:
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
        if any(file.stem == other.stem for other in reading.files):
            reading.wrong(node, f"two parts files are named {file.stem}; rename one")
        reading.files.append(file)
        reading.local.update({name: (file, target) for name, target in found.items()})


def _line(where: str) -> int:
    """The line, for sorting; what the command line set comes first."""
    line = where.rpartition(":")[2]
    return int(line) if line.isdecimal() and not where.startswith("--") else 0
