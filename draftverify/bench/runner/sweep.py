"""A sweep: `matrix:` names values of the file that vary, and each combination of them is a cell.

The whole file is checked once per cell, with the cell's values in it, so that a value is checked in a matrix as it is
in its place. What comes of it is one experiment: a pipeline that is another one in some cells stands in it once for
each way it can be, named PIPELINE@CELL, and one that the matrix does not touch stands once under its own name.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from draftverify.bench.config.forms import AnyValue, ConfigReading, Keyed, ListForm, Schema
from draftverify.bench.config.located import Located, put, shown
from draftverify.bench.config.parameters import Record
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.errors import ConfigError, did_you_mean

MOST_CELLS = 1_000
LONGEST = 200
"""Characters of PIPELINE@CELL."""

VARIED = ("pipelines", "defaults", "models", "settings", "tasks", "seed")
"""The keys of the file below which a cell may change values; a run has one of each other."""

MERGED = ("settings", "budget")
"""The mappings of `defaults` whose keys a pipeline's own override one by one."""

Cell: TypeAlias = "tuple[int, ...]"
"""Of each axis, which choice; -1 for none."""


class AxisPoint(NamedTuple):
    """One place on an axis: its part of a cell's name, and the values that it sets, by dotted path."""

    label: str
    changes: Mapping[str, Located]


Axis: TypeAlias = "tuple[AxisPoint, ...]"


class Sweep(NamedTuple):
    """A matrix that was read: its axes in the file's order, and the cells that are left, the last axis fastest."""

    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]

    def choices(self, cell: Cell, axes: Iterable[int] | None = None) -> list[AxisPoint]:
        """What a cell chooses on all axes, or on some."""
        places = range(len(self.axes)) if axes is None else axes
        return [self.axes[k][cell[k]] for k in places if cell[k] >= 0]

    def changes(self, cell: Cell, axes: Iterable[int] | None = None) -> dict[str, Located]:
        """What a cell sets, by dotted path; or what some axes set in it."""
        return {path: value for choice in self.choices(cell, axes) for path, value in choice.changes.items()}

    def plain(self, cell: Cell, axes: Iterable[int] | None = None) -> dict[str, Any]:
        """The same without places."""
        return {path: value.plain() for path, value in self.changes(cell, axes).items()}

    @property
    def bare(self) -> list[Cell]:
        """The first cell, with none of an axis's choices for each axis that has only one."""
        start = self.cells[0]
        return [(*start[:k], -1, *start[k + 1 :]) for k, axis in enumerate(self.axes) if len(axis) == 1]

    def label(self, cell: Cell, axes: Iterable[int] | None = None) -> str:
        """A cell's name, or what some axes add to it."""
        return ",".join(choice.label for choice in self.choices(cell, axes))


@dataclass(frozen=True)
class Paths(Keyed):
    """Values of the file by dotted path, each a path that a cell may change."""

    mapping: str = "should be a mapping from dotted path to value"

    def check(self, node: Located, reading: ConfigReading) -> dict[str, Any]:
        with reading.together():
            for path, value in node.value.items() if isinstance(node.value, dict) else ():
                if problem := _misled(path, reading):
                    reading.wrong(value, problem)
            return super().check(node, reading)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        paths = {"pattern": rf"^({'|'.join(VARIED)})(\..+)?$"}
        return {**super().schema(definitions, name), "propertyNames": paths}


def _misled(path: str, reading: ConfigReading) -> str:
    """What is wrong with a path that no cell may change, or whose names are not in the file; "" when nothing is."""
    top, *steps = path.split(".")
    if top not in VARIED:
        return f"no cell can change {top!r}{did_you_mean(top, VARIED)}"
    if not all(steps):
        return f"{path!r} is no dotted path"
    if top not in ("pipelines", "models"):
        return ""
    names = list(reading.top(top, dict))
    if len(steps) < (2 if top == "pipelines" else 1):
        return f"write {top}.NAME.KEY, the path of a value; there are {', '.join(names)}"
    near = did_you_mean(steps[0], names)
    return "" if steps[0] in names else f"there is no {top.removesuffix('s')} {steps[0]!r}{near}"


LISTS = Paths(ListForm(AnyValue(), least=1), least=1)
CELL = Paths(AnyValue(), mapping="a cell is a mapping from dotted path to value")


def matrix(
    grid: Annotated[Any, LISTS] = None,
    paired: Annotated[Any, LISTS] = None,
    cells: Annotated[Any, Keyed(CELL, names=True, least=1)] = None,
    exclude: Annotated[Any, ListForm(Paths(AnyValue(), least=1))] = None,
) -> None:
    """Values of the file that vary; each combination of them is a cell.

    Args:
        grid: lists of values by dotted path; every combination of them is a cell.
        paired: lists of one length by dotted path; their first values go together, their second values, ….
        cells: cells with a name of their own, each a mapping from dotted path to value.
        exclude: combinations that are left out, each a mapping from dotted path to value.
    """


class Matrix(Record):
    """How a matrix is written: `grid`, `paired`, `cells` and `exclude`."""

    def __init__(self) -> None:
        super().__init__(matrix, dict)

    def check(self, node: Located, reading: ConfigReading) -> Sweep:
        if not isinstance(node.value, dict):
            raise reading.wrong(node, f"should be a mapping of {', '.join(self.takes)}, not {shown(node)}")
        written = super().check(node, reading)
        axes, paths = [*_axes(written)], list[str]()
        with reading.together():
            lengths = {path: len(values) for path, values in written.get("paired", {}).items()}
            if len(set(lengths.values())) > 1:
                counts = ", ".join(f"{path} has {length}" for path, length in lengths.items())
                problem = f"the lists go together and should be of one length; {counts}"
                reading.wrong(node, problem, "paired")
            for axis in axes:
                values = {path: value for choice in axis for path, value in choice.changes.items()}
                for path in filter(paths.__contains__, values):
                    problem = f"{path} is set by two parts of the matrix; let one of them do it"
                    reading.wrong(values[path], problem)
                paths += values
        if not axes:
            raise reading.wrong(node, "changes nothing: give it grid, paired or cells")
        if (count := math.prod(len(axis) for axis in axes)) > MOST_CELLS:
            raise reading.wrong(node, f"has {count} cells; {MOST_CELLS} are the most")
        cells = list(itertools.product(*(range(len(axis)) for axis in axes)))
        sweep = Sweep(tuple(_labelled(axis, paths) for axis in axes), tuple(cells))
        with reading.together():
            for place, excluded in enumerate(written.get("exclude", ())):
                values = {path: value.plain() for path, value in excluded.items()}
                for path in values.keys() - paths:
                    problem = f"the matrix does not set {path}{did_you_mean(path, paths)}"
                    reading.wrong(excluded[path], problem)
                matching = {cell for cell in sweep.cells if values.items() <= sweep.plain(cell).items()}
                if not matching and values.keys() <= {*paths}:
                    reading.wrong(node, "no cell of the matrix has these values", "exclude", place)
                cells = [cell for cell in cells if cell not in matching]
            if not cells:
                reading.wrong(node, "leaves no cell at all", "exclude")
        return sweep._replace(cells=tuple(cells))


def _axes(written: Mapping[str, Any]) -> Iterator[Axis]:
    for key, values in written.items():
        if key == "grid":
            yield from (tuple(AxisPoint("", {path: value}) for value in values[path]) for path in values)
        elif key == "paired":
            rows = zip(*values.values(), strict=False)  # of one length, or it was noted
            yield tuple(AxisPoint("", dict(zip(values, row, strict=True))) for row in rows)
        elif key == "cells":
            yield tuple(AxisPoint(name, changes) for name, changes in values.items())


def changed(
    root: Located, changes: Mapping[str, Located], reading: ConfigReading, *, pipelines: bool
) -> Located:
    """The file with values of a cell in their places.

    Args:
        root: the file.
        changes: by dotted path.
        reading: takes note of paths that lead nowhere.
        pipelines: set those below `pipelines`, or all others: `defaults` have to be settled before the former.

    Raises:
        Wrong: a path leads nowhere.
    """
    # What lies deeper comes later, so that a part is replaced before something in it is.
    for path, value in sorted(changes.items(), key=lambda item: item[0].count(".")):
        steps = path.split(".")
        if (steps[0] == "pipelines") is pipelines:
            try:
                root = put(inherited(root, steps), steps, value, makes=("defaults", *MERGED))
            except ConfigError as error:
                raise reading.wrong(value, f"{error.path}: {error.message}") from error
    return root


def inherited(root: Located, steps: Sequence[str]) -> Located:
    """The file with what `defaults` says written into a pipeline, where a path leads into it."""
    if len(steps) < 4 or steps[0] != "pipelines" or steps[2] in MERGED:
        return root  # what is merged key by key needs nothing
    pipeline, value = root.follow(steps[:2]), root.follow(["defaults", steps[2]])
    missing = isinstance(pipeline.value, dict) and steps[2] not in pipeline.value
    if pipeline.path != tuple(steps[:2]) or value.path != ("defaults", steps[2]) or not missing:
        return root
    pipelines: Located = root.value["pipelines"]
    return root.having("pipelines", pipelines.having(steps[1], pipeline.having(steps[2], value)))


def merged(root: Located, keys: Container[str]) -> Located:
    """The file with `defaults` in every pipeline: its own keys win, and of `settings` and `budget` key by key.

    Args:
        root: the file.
        keys: of a pipeline; what else stands in `defaults` is wrong there.
    """
    shared, pipelines = root.follow(["defaults"]), root.follow(["pipelines"])
    if not all(node is not root and isinstance(node.value, dict) for node in (shared, pipelines)):
        return root
    for name, pipeline in pipelines.value.items():
        if isinstance(pipeline.value, dict):
            values = {key: value for key, value in shared.value.items() if key in keys} | pipeline.value
            for key in {*MERGED} & shared.value.keys() & pipeline.value.keys():
                under, over = shared.value[key].value, values[key].value
                if isinstance(under, dict) and isinstance(over, dict):
                    values[key] = Located({**under, **over}, values[key].where, values[key].path)
            pipelines = pipelines.having(name, Located(values, pipeline.where, pipeline.path))
    return root.having("pipelines", pipelines)


def assemble(sweep: Sweep, experiments: Mapping[Cell, Experiment | None]) -> Experiment:
    """One experiment of all cells.

    Args:
        sweep: the matrix.
        experiments: each cell's; and, of each axis of one choice, that of the first cell with none there, or None where
            the file is no experiment without it.
    """
    of_cell = {cell: experiment for cell, experiment in experiments.items() if experiment is not None}
    base = of_cell[sweep.cells[0]]
    signed = {cell: _signatures(experiment) if experiment else {} for cell, experiment in experiments.items()}
    names: dict[tuple[str, Cell], str] = {}
    pipelines: dict[str, PipelineSpec] = {}
    stands: dict[str, Cell] = {}
    changes: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(base.names):
        axes = _touching(len(sweep.axes), {cell: signatures.get(name) for cell, signatures in signed.items()})
        of_choices: dict[Cell, str] = {}
        for cell in sweep.cells:
            choices = tuple(cell[k] for k in axes)
            if choices not in of_choices:
                label = sweep.label(cell, axes)
                full = _unique(f"{name}@{label}"[:LONGEST] if label else name, pipelines)
                spec = of_cell[cell].pipelines[place]
                pipelines[full] = replace(spec, name=full, path=f"pipelines.{full}")
                stands[full] = cell
                of_choices[choices] = full
                if axes:
                    changes[full] = sweep.plain(cell, axes)
            names[name, cell] = of_choices[choices]
    tasks = {full: of_cell[cell].tasks for full, cell in stands.items()}
    compared = {full: names[base.baseline, cell] for full, cell in stands.items() if base.baseline}
    return replace(
        base,
        pipelines=tuple(pipelines.values()),
        sources={full: source for full, source in tasks.items() if source != base.tasks},
        cells=changes,
        baselines={full: baseline for full, baseline in compared.items() if baseline != base.baseline},
    )


def _signatures(experiment: Experiment) -> dict[str, bytes]:
    """What tells each pipeline, tasks included, from the same one in another cell."""
    values = {
        spec.name: (replace(spec, where="", path=""), experiment.tasks) for spec in experiment.pipelines
    }
    return {name: msgspec.json.encode(value, order="deterministic") for name, value in values.items()}


def _touching(count: int, signed: Mapping[Cell, bytes | None]) -> Cell:
    """The axes along which a pipeline is not the same everywhere."""

    def varies(axes: Iterable[int]) -> bool:
        """Whether the choices on these axes leave open which pipeline it is."""
        groups: dict[Cell, set[bytes | None]] = {}
        for cell, signature in signed.items():
            groups.setdefault(tuple(cell[k] for k in axes), set()).add(signature)
        return any(len(group) > 1 for group in groups.values())

    every = range(count)
    axes = tuple(k for k in every if varies([axis for axis in every if axis != k]))
    # `exclude` may have left no two cells that differ along one axis alone
    return tuple(every) if varies(axes) else axes


def _labelled(axis: Axis, paths: Sequence[str]) -> Axis:
    """The choices with their parts of a cell's name: its own, else KEY=VALUE, … ."""
    labels: dict[str, Mapping[str, Located]] = {}
    for choice in axis:
        values = (
            f"{_shortest(path, paths)}={_word(value.plain())}" for path, value in choice.changes.items()
        )
        labels[_unique(choice.label or ",".join(values), labels)] = choice.changes
    return tuple(AxisPoint(label, changes) for label, changes in labels.items())


def _shortest(path: str, paths: Iterable[str]) -> str:
    """As many of a path's last steps as tell it from the others; `rule.use` is the rule."""
    keys = path.removesuffix(".use").split(".")
    rivals = [rival.removesuffix(".use").split(".") for rival in paths if rival != path]
    lengths = (n for n in range(1, len(keys)) if all(rival[-n:] != keys[-n:] for rival in rivals))
    return _cleaned(".".join(keys[-next(lengths, len(keys)) :]))


def _word(value: Any) -> str:
    """A value in a name."""
    if isinstance(value, dict):
        return _word(value.get("use", "-".join(value)))
    if isinstance(value, list):
        return "+".join(map(_word, value)) or "none"
    return _cleaned(value if isinstance(value, str) else json.dumps(value))[:40] or "empty"


def _cleaned(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", text)


def _unique(name: str, names: Container[str]) -> str:
    numbered = (f"{name[: LONGEST - 6]}-{number}" for number in itertools.count(2))
    return next(unique for unique in itertools.chain([name], numbered) if unique not in names)
