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
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from draftverify.bench.config.forms import Form, Keyed, Reading, Schema, Wrong, shown
from draftverify.bench.config.located import Located, moved
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.plugins import did_you_mean

__all__ = ["Axis", "Cell", "Choice", "Matrix", "Sweep", "assemble", "changed", "inherited", "merged"]

MOST_CELLS = 1_000
LONGEST = 200
"""Characters of PIPELINE@CELL."""

VARIED = ("pipelines", "defaults", "models", "settings", "tasks", "seed")
"""The keys of the file below which a cell may change values; a run has one of each other."""

MERGED = ("settings", "budget")
"""The mappings of `defaults` whose keys a pipeline's own override one by one."""

Cell: TypeAlias = "tuple[int, ...]"
"""Of each axis, which choice."""


class Choice(NamedTuple):
    """One place on an axis: its part of a cell's name, and the values that it sets, by dotted path."""

    label: str
    changes: Mapping[str, Located]


Axis: TypeAlias = "tuple[Choice, ...]"


class Sweep(NamedTuple):
    """A matrix that was read: its axes in the file's order, and the cells that are left, the last axis fastest."""

    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]

    def changes(self, cell: Cell, without: int | None = None) -> dict[str, Located]:
        """What a cell sets, by dotted path; without one axis, where that is asked."""
        chosen = (axis[at] for k, (axis, at) in enumerate(zip(self.axes, cell, strict=True)) if k != without)
        return {path: value for choice in chosen for path, value in choice.changes.items()}

    def label(self, cell: Cell, axes: Iterable[int] | None = None) -> str:
        """A cell's name, or what some axes add to it."""
        places = range(len(self.axes)) if axes is None else axes
        return ",".join(self.axes[k][cell[k]].label for k in places)


class Matrix(Form):
    """How a matrix is written: `grid`, `paired`, `cells` and `exclude`."""

    TAKES: Mapping[str, str] = {
        "grid": "lists of values by dotted path; every combination of them is a cell",
        "paired": "lists of one length by dotted path; their first values go together, their second values, …",
        "cells": "cells with a name of their own, each a mapping from dotted path to value",
        "exclude": "combinations that are left out, each a mapping from dotted path to value",
    }

    def check(self, node: Located, reading: Reading) -> Sweep:
        if not isinstance(node.value, dict):
            raise reading.wrong(node, f"should be a mapping of {', '.join(self.TAKES)}, not {shown(node)}")
        wrong = len(reading.errors)
        for key in node.value:
            if key not in self.TAKES:
                near = did_you_mean(key, self.TAKES)
                reading.wrong(node, f"unknown key {key!r} of a matrix{near}", key)
        axes = [axis for key, each in node.value.items() for axis in self._axes(key, each, reading)]
        paths: list[str] = []
        for axis in axes:
            own = {path: value for choice in axis for path, value in choice.changes.items()}
            for path, value in own.items():
                if path in paths:
                    reading.wrong(value, f"{path} is set by two parts of the matrix; let one of them do it")
            paths += own
        if len(reading.errors) > wrong:
            raise Wrong
        if not axes:
            raise reading.wrong(node, "changes nothing: give it grid, paired or cells")
        if (count := math.prod(len(axis) for axis in axes)) > MOST_CELLS:
            raise reading.wrong(node, f"has {count} cells; {MOST_CELLS} are the most")
        named = [_labelled(axis, paths) for axis in axes]
        cells = list(itertools.product(*(range(len(axis)) for axis in named)))
        left = self._left(node.value.get("exclude"), Sweep(tuple(named), tuple(cells)), paths, reading)
        return Sweep(tuple(named), left)

    def _axes(self, key: str, node: Located, reading: Reading) -> Iterator[Axis]:
        if key not in ("grid", "paired", "cells") or node.value is None:
            return
        if not isinstance(node.value, dict) or not node.value:
            said = "a mapping that is not empty"
            reading.wrong(node, f"should be {said}" + ("" if node.value == {} else f", not {shown(node)}"))
            return
        if key == "cells":
            if choices := [
                choice for name, each in node.value.items() for choice in _named(name, each, reading)
            ]:
                yield tuple(choices)
            return
        lists: dict[str, list[Located]] = {}
        for path, values in node.value.items():
            with suppress(Wrong):
                _check_path(path, values, reading)
                lists[path] = _values(values, reading)
        if key == "grid":
            for path, values in lists.items():
                yield tuple(Choice("", {path: value}) for value in values)
            return
        lengths = {path: len(values) for path, values in lists.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{path} has {length}" for path, length in lengths.items())
            reading.wrong(node, f"the lists go together and should be of one length; {told}")
        elif lists:
            yield tuple(
                Choice("", dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)
            )

    def _left(
        self, node: Located | None, sweep: Sweep, paths: Sequence[str], reading: Reading
    ) -> tuple[Cell, ...]:
        """The cells that `exclude` leaves."""
        if node is None or node.value is None:
            return sweep.cells
        if not isinstance(node.value, list):
            raise reading.wrong(
                node, f"should be a list of mappings from dotted path to value, not {shown(node)}"
            )
        out: set[Cell] = set()
        wrong = len(reading.errors)
        plain = {
            cell: {path: value.plain() for path, value in sweep.changes(cell).items()} for cell in sweep.cells
        }
        for each in node.value:
            if not isinstance(each.value, dict) or not each.value:
                reading.wrong(each, f"should be a mapping from dotted path to value, not {shown(each)}")
                continue
            unknown = [path for path in each.value if path not in paths]
            for path in unknown:
                reading.wrong(each, f"the matrix does not set {path}{did_you_mean(path, paths)}", path)
            wanted = each.plain()
            found = {
                cell
                for cell, values in plain.items()
                if all(path in values and values[path] == value for path, value in wanted.items())
            }
            if not found and not unknown:
                reading.wrong(each, "no cell of the matrix has these values")
            out |= found
        if len(out) == len(sweep.cells):
            reading.wrong(node, "leaves no cell at all")
        if len(reading.errors) > wrong:
            raise Wrong
        return tuple(cell for cell in sweep.cells if cell not in out)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        paths = {"pattern": rf"^({'|'.join(VARIED)})(\..+)?$"}
        values: Schema = {"type": "object", "propertyNames": paths, "minProperties": 1}
        lists = {**values, "additionalProperties": {"type": "array", "minItems": 1}}
        named: Schema = {
            "type": "object",
            "propertyNames": {"pattern": Keyed.NAME},
            "additionalProperties": {**values, "minProperties": 0},
            "minProperties": 1,
        }
        forms = {
            "grid": lists,
            "paired": lists,
            "cells": named,
            "exclude": {"type": "array", "items": values},
        }
        keys = {key: {**form, "description": self.TAKES[key]} for key, form in forms.items()}
        return {"type": "object", "properties": keys, "additionalProperties": False}


def _named(name: str, node: Located, reading: Reading) -> Iterator[Choice]:
    if not re.search(Keyed.NAME, name):
        reading.wrong(node, f"the name {name!r} should be a word of at most 100 letters, digits, _ and -")
    elif not isinstance(node.value, dict):
        reading.wrong(node, f"a cell is a mapping from dotted path to value, not {shown(node)}")
    else:
        for path, value in node.value.items():
            with suppress(Wrong):
                _check_path(path, value, reading)
        yield Choice(name, node.value)


def _values(node: Located, reading: Reading) -> list[Located]:
    if not isinstance(node.value, list) or not node.value:
        raise reading.wrong(
            node, f"should be a list of values{', and not an empty one' if node.value == [] else ''}"
        )
    return node.value


def _check_path(path: str, node: Located, reading: Reading) -> None:
    """Refuse a path that no cell may change, or whose names are not in the file."""
    steps = path.split(".")
    top = steps[0]
    if top not in VARIED:
        raise reading.wrong(node, f"no cell can change {top!r}{did_you_mean(top, VARIED)}")
    if not all(steps):
        raise reading.wrong(node, f"{path!r} is no dotted path")
    if top in ("pipelines", "models"):
        names = list(reading.top(top, dict))
        if len(steps) < (3 if top == "pipelines" else 2):
            raise reading.wrong(
                node, f"write {top}.NAME.KEY, the path of a value; there are {', '.join(names)}"
            )
        if steps[1] not in names:
            what = top.removesuffix("s")
            raise reading.wrong(node, f"there is no {what} {steps[1]!r}{did_you_mean(steps[1], names)}")


def changed(root: Located, changes: Mapping[str, Located], reading: Reading, *, pipelines: bool) -> Located:
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
            root = _put(inherited(root, steps), steps, value, reading)
    return root


def _put(here: Located, steps: Sequence[str], value: Located, reading: Reading) -> Located:
    if not steps:
        return moved(value, here.path)
    step, rest = steps[0], steps[1:]
    path = ".".join((*map(str, here.path), *steps))
    if isinstance(here.value, dict) or (here.value is None and here.path):
        inner = dict(here.value or {})
        if step not in inner and rest and step not in ("defaults", *MERGED):
            near = did_you_mean(step, inner)
            raise reading.wrong(value, f"{path}: there is no {step!r} in {here.dotted or 'the file'}{near}")
        there = inner.get(step, Located(None, value.where, (*here.path, step)))
        inner[step] = _put(there, rest, value, reading)
        return Located(inner, here.where, here.path)
    if isinstance(here.value, list) and step.isdecimal() and int(step) < len(here.value):
        items = list(here.value)
        items[int(step)] = _put(items[int(step)], rest, value, reading)
        return Located(items, here.where, here.path)
    if isinstance(here.value, list):
        problem = f"{step!r} is no place in a list of {len(here.value)}, counted from 0"
    elif here.value in reading.models:
        problem = f"{here.dotted} is a name from models; write models.{here.value}.{'.'.join(steps)}"
    else:
        problem = f"{step!r} cannot be set inside {shown(here)}, which has no keys"
    raise reading.wrong(value, f"{path}: {problem}")


def inherited(root: Located, steps: Sequence[str]) -> Located:
    """The file with what `defaults` says written into a pipeline, where a path leads into it."""
    if len(steps) < 4 or steps[0] != "pipelines" or not isinstance(root.value, dict):
        return root
    own, shared = root.follow(steps[:2]), root.value.get("defaults")
    if own.path != tuple(steps[:2]) or not isinstance(own.value, dict) or steps[2] in own.value:
        return root
    if shared is None or not isinstance(shared.value, dict) or steps[2] not in shared.value:
        return root
    if steps[2] in MERGED:
        return root  # merged key by key in any case
    filled = Located({**own.value, steps[2]: shared.value[steps[2]]}, own.where, own.path)
    return _with(root, "pipelines", _with(root.value["pipelines"], steps[1], filled))


def _with(here: Located, key: str, value: Located) -> Located:
    return Located({**here.value, key: value}, here.where, here.path)


def merged(root: Located, known: Container[str]) -> Located:
    """The file with `defaults` in every pipeline: its own keys win, and of `settings` and `budget` key by key.

    Args:
        root: the file.
        known: the keys of a pipeline; what else stands in `defaults` is wrong there.
    """
    shared = root.value.get("defaults") if isinstance(root.value, dict) else None
    pipelines = root.value.get("pipelines") if isinstance(root.value, dict) else None
    if shared is None or pipelines is None or not all(isinstance(e.value, dict) for e in (shared, pipelines)):
        return root
    found = {}
    for name, own in pipelines.value.items():
        if not isinstance(own.value, dict):
            found[name] = own
            continue
        keys = {**{key: each for key, each in shared.value.items() if key in known}, **own.value}
        for key in MERGED:
            sides = [side.value.get(key) for side in (shared, own)]
            if all(side is not None and isinstance(side.value, dict) for side in sides):
                both = {
                    name: value for side in sides if side is not None for name, value in side.value.items()
                }
                keys[key] = Located(both, own.value[key].where, own.value[key].path)
        found[name] = Located(keys, own.where, own.path)
    return _with(root, "pipelines", Located(found, pipelines.where, pipelines.path))


def assemble(
    sweep: Sweep, experiments: Mapping[Cell, Experiment], without: Mapping[int, Experiment | None]
) -> Experiment:
    """One experiment of all cells.

    Args:
        sweep: the matrix.
        experiments: each cell's.
        without: for each axis of one choice, the experiment of the first cell without it; None where the file alone
            is none.
    """
    first = experiments[sweep.cells[0]]
    signed = {cell: _signatures(each) for cell, each in experiments.items()}
    bare = {axis: {} if each is None else _signatures(each) for axis, each in without.items()}
    touched = {
        name: _touching(sweep, {cell: signed[cell][name] for cell in sweep.cells}, name, bare)
        for name in first.names
    }
    names: dict[tuple[str, Cell], str] = {}
    pipelines: dict[str, PipelineSpec] = {}
    stands: dict[str, Cell] = {}
    for place, name in enumerate(first.names):
        of_cell: dict[Cell, str] = {}
        for cell in sweep.cells:
            own = tuple(cell[k] for k in touched[name])
            if own not in of_cell:
                label = sweep.label(cell, touched[name])
                of_cell[own] = _unique(f"{name}@{label}"[:LONGEST] if label else name, pipelines)
                spec = experiments[cell].pipelines[place]
                path = f"pipelines.{of_cell[own]}"
                pipelines[of_cell[own]] = replace(spec, name=of_cell[own], path=path)
                stands[of_cell[own]] = cell
            names[name, cell] = of_cell[own]
    changes = {}
    for made, cell in stands.items():
        axes = touched[made.partition("@")[0]]
        set_by = [sweep.axes[k][cell[k]].changes for k in axes]
        if axes:
            changes[made] = {path: value.plain() for each in set_by for path, value in each.items()}
    return replace(
        first,
        pipelines=tuple(pipelines.values()),
        sources={
            made: experiments[cell].tasks
            for made, cell in stands.items()
            if experiments[cell].tasks != first.tasks
        },
        cells=changes,
        baselines={
            made: other
            for made, cell in stands.items()
            if first.baseline is not None and (other := names[first.baseline, cell]) != first.baseline
        },
    )


def _signatures(experiment: Experiment) -> dict[str, bytes]:
    """What tells each pipeline, tasks included, from the same one in another cell."""
    return {
        spec.name: msgspec.json.encode(
            [replace(spec, where="", path=""), experiment.tasks], order="deterministic"
        )
        for spec in experiment.pipelines
    }


def _touching(
    sweep: Sweep, signed: Mapping[Cell, bytes], name: str, bare: Mapping[int, Mapping[str, bytes]]
) -> tuple[int, ...]:
    """The axes along which a pipeline is not the same everywhere."""
    found = []
    for k, axis in enumerate(sweep.axes):
        if len(axis) == 1:
            if bare[k].get(name) != signed[sweep.cells[0]]:
                found.append(k)
            continue
        rows: dict[Cell, set[bytes]] = {}
        for cell, each in signed.items():
            rows.setdefault((*cell[:k], *cell[k + 1 :]), set()).add(each)
        if any(len(row) > 1 for row in rows.values()):
            found.append(k)
    told: dict[Cell, set[bytes]] = {}
    for cell, each in signed.items():
        told.setdefault(tuple(cell[k] for k in found), set()).add(each)
    if any(
        len(row) > 1 for row in told.values()
    ):  # `exclude` has left no two cells that differ along one axis alone
        return tuple(range(len(sweep.axes)))
    return tuple(found)


def _labelled(axis: Axis, paths: Sequence[str]) -> Axis:
    """The choices with their parts of a cell's name: its own, else KEY=VALUE, … ."""
    taken: set[str] = set()
    found = []
    for choice in axis:
        label = choice.label or ",".join(
            f"{_shortest(path, paths)}={_word(value.plain())}" for path, value in choice.changes.items()
        )
        found.append(Choice(_unique(label, taken), choice.changes))
        taken.add(found[-1].label)
    return tuple(found)


def _shortest(path: str, paths: Iterable[str]) -> str:
    """As many of a path's last steps as tell it from the others; `rule.use` is the rule."""
    own, others = _key(path), [_key(other) for other in paths if other != path]
    for length in range(1, len(own)):
        if all(other[-length:] != own[-length:] for other in others):
            return _cleaned(".".join(own[-length:]))
    return _cleaned(".".join(own))


def _key(path: str) -> list[str]:
    steps = path.split(".")
    return steps[:-1] if steps[-1] == "use" and len(steps) > 1 else steps


def _word(value: Any) -> str:
    """A value in a name."""
    if isinstance(value, dict):
        return _word(value.get("use", "-".join(value)))
    if isinstance(value, list):
        return "+".join(_word(each) for each in value) or "none"
    return _cleaned(value if isinstance(value, str) else json.dumps(value))[:40] or "empty"


def _cleaned(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", text)


def _unique(name: str, taken: Iterable[str]) -> str:
    numbered = (f"{name[: LONGEST - 6]}-{number}" for number in itertools.count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)
