"""`matrix:` and `defaults:`: how many cells, what each changes, their names, and every mistake's place."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.format import FILE, INNER
from draftverify.bench.config.forms import ConfigReading
from draftverify.bench.config.located import read
from draftverify.bench.config.specs import Experiment
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.sweep import Matrix
from draftverify.engine.budget import Budget
from draftverify.errors import ConfigError
from draftverify.plugins import ROLES
from tests.experiments.sweeps import BASE, load, write

# Values by path: each of another kind of place, and each touching other pipelines.
VALUES: dict[str, list[Any]] = {
    "pipelines.one.block": [1, 2, 3, 5],
    "pipelines.one.generator.chance": [0.1, 0.2, 0.9],
    "pipelines.two.block": [1, 3, 8],
    "pipelines.two.verifier.splice": [True, False],
    "defaults.budget.rounds": [30, 50],
    "defaults.done.items": [4, 6],
    "tasks.count": [6, 4],
    "seed": [1, 2, 3],
}
TOUCHED = {
    "pipelines.one": {"one"},
    "pipelines.two": {"two"},
    "defaults": {"plain", "one", "two"},
    "tasks": {"plain", "one", "two"},
    "seed": {"plain", "one", "two"},
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One directory for all examples."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@st.composite
def matrices(draw: st.DrawFn) -> tuple[dict[str, Any], list[list[dict[str, Any]]]]:
    """A matrix, and its axes as lists of changes."""
    paths = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True))
    values = {
        path: draw(
            st.lists(st.sampled_from(VALUES[path]), min_size=2, max_size=len(VALUES[path]), unique=True)
        )
        for path in paths
    }
    parts = {path: draw(st.sampled_from(["grid", "paired", "cells"])) for path in paths}
    matrix: dict[str, Any] = {}
    axes: list[list[dict[str, Any]]] = []
    for part in draw(st.permutations(["grid", "paired", "cells"])):
        own = [path for path in paths if parts[path] == part]
        if not own:
            continue
        if part == "grid":
            matrix["grid"] = {path: values[path] for path in own}
            axes += [[{path: value} for value in values[path]] for path in own]
        else:
            length = min(len(values[path]) for path in own)
            rows = [{path: values[path][row] for path in own} for row in range(length)]
            if part == "paired":
                matrix["paired"] = {path: values[path][:length] for path in own}
            else:
                matrix["cells"] = {f"c{row}": changes for row, changes in enumerate(rows)}
            axes.append(rows)
    return matrix, axes


def touched_by(axis: list[dict[str, Any]], pipeline: str) -> bool:
    return any(
        pipeline in names
        for path in axis[0]
        for prefix, names in TOUCHED.items()
        if path == prefix or path.startswith(f"{prefix}.")
    )


def value_at(experiment: Experiment, name: str, path: str) -> Any:
    """What stands at a path in the pipeline that came of it."""
    spec = next(each for each in experiment.pipelines if each.name == name)
    return {
        "block": spec.block,
        "chance": spec.generator.arguments.get("chance"),  # type: ignore[union-attr]
        "splice": spec.verifier.arguments.get("splice"),
        "rounds": spec.budget.rounds,
        "items": spec.done.arguments["items"] if spec.done else None,
        "count": experiment.sources.get(name, experiment.tasks).arguments["count"],
        "seed": spec.seed,
    }[path.rpartition(".")[2]]


@settings(max_examples=15, deadline=None)
@given(matrices())
def test_the_laws_of_expansion(
    folder: Path, drawn: tuple[dict[str, Any], list[list[dict[str, Any]]]]
) -> None:
    """Each pipeline stands once for each combination of the axes that touch it, in order, with those values, under a
    name of its own; its baseline is that of its cell."""
    matrix, axes = drawn
    experiment = load(folder, matrix)
    assert len(set(experiment.names)) == len(experiment.names)
    at = 0
    for pipeline in BASE["pipelines"]:
        own = [axis for axis in axes if touched_by(axis, pipeline)]
        count = math.prod(len(axis) for axis in own)
        names = experiment.names[at : at + count]
        at += count
        assert all(name.partition("@")[0] == pipeline for name in names)
        assert all(len(name) <= 200 and re.fullmatch(r"[\w.+=,@-]+", name) for name in names)
        if not own:
            assert names == [pipeline]
            assert pipeline not in experiment.cells
            continue
        wanted: list[dict[str, Any]] = [{}]
        for axis in own:  # the last axis fastest
            wanted = [{**before, **choice} for before in wanted for choice in axis]
        assert [experiment.cells[name] for name in names] == wanted
        for name, changes in zip(names, wanted, strict=True):
            for path, value in changes.items():
                if touched_by([{path: value}], pipeline):
                    assert value_at(experiment, name, path) == value
            base = experiment.compared_with(name)
            if pipeline == "plain":
                assert base is None
            else:
                assert base is not None
                assert base.partition("@")[0] == "plain"
                shared = experiment.cells.get(base, {})
                assert {path: changes[path] for path in shared if path in changes}.items() <= shared.items()
    assert at == len(experiment.names)
    assert experiment.config["matrix"] == matrix
    assert experiment.config.get("cells", {}) == experiment.cells


@settings(max_examples=15, deadline=None)
@given(matrices(), st.data())
def test_excluded_cells_are_gone_and_no_others(folder: Path, drawn: Any, data: st.DataObject) -> None:
    """What is left of the cells is what does not have the excluded values."""
    matrix, axes = drawn
    out = {path: value for axis in axes for path, value in data.draw(st.sampled_from(axis)).items()}
    some = data.draw(st.lists(st.sampled_from(sorted(out)), min_size=1, unique=True))
    wanted = {path: out[path] for path in some}
    root, _ = read(json.dumps({**BASE, "matrix": {**matrix, "exclude": [wanted]}}), "file")
    reading = ConfigReading(root, folder)
    every = [dict(zip(range(len(axes)), cell, strict=True)) for cell in _product(axes)]
    left = [
        cell
        for cell in every
        if not wanted.items() <= {p: v for k, at in cell.items() for p, v in axes[k][at].items()}.items()
    ]
    if not left:
        return
    sweep = Matrix().check(root.value["matrix"], reading)
    assert [dict(enumerate(cell)) for cell in sweep.cells] == left


def _product(axes: list[list[Any]]) -> Iterator[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for axis in axes:
        found = [(*before, at) for before in found for at in range(len(axis))]
    return iter(found)


def test_names_are_short_and_tell_cells_apart(tmp_path: Path) -> None:
    """`use` is the part's; equal last steps are told apart; long and odd values are cut, cleaned and numbered."""
    matrix = {
        "grid": {
            "pipelines.one.generator": [
                {"use": "run_parts.Guess"},
                {"use": "run_parts.Guess", "chance": 0.1},
            ],
            "pipelines.two.rule.use": ["longest_prefix", "greedy_match"],
            "pipelines.one.block": [1, 2],
            "pipelines.two.block": [1, 2],
        }
    }
    names = load(tmp_path, matrix).names
    assert names[:3] == [
        "plain",
        "one@generator=run_parts.Guess,one.block=1",
        "one@generator=run_parts.Guess,one.block=2",
    ]
    assert "one@generator=run_parts.Guess-2,one.block=1" in names
    assert "two@rule=greedy_match,two.block=2" in names
    odd = {"grid": {"tasks.count": [6], "pipelines.one.settings": [{}, {"x" * 300: 1}, {"x" * 299: 1}]}}
    found = load(tmp_path, odd)
    assert len(set(found.names)) == len(found.names)
    assert max(map(len, found.names)) <= 200


def test_a_pipeline_that_no_axis_changes_stands_once(tmp_path: Path) -> None:
    """Also where the axis sets what it overrides, or the value that it has already; one value alone is a cell too."""
    found = load(tmp_path, {"grid": {"defaults.rule": [{"use": "greedy_match"}, {"use": "all"}]}})
    assert [name for name in found.names if "@" not in name] == ["two"]
    same = load(tmp_path, {"cells": {"same": {"pipelines.one.block": 4}, "same_too": {}}})
    assert same.names == ["plain", "one", "two"]
    single = load(tmp_path, {"cells": {"wild": {"pipelines.one.generator.chance": 0.05}}})
    assert single.names == ["plain", "one@wild", "two"]
    assert load(tmp_path, {"grid": {"pipelines.one.block": [4]}}).names == ["plain", "one", "two"]


def test_a_diagonal_is_left_whole(tmp_path: Path) -> None:
    """Where `exclude` leaves no two cells that differ along one axis alone, pipelines are still told apart."""
    matrix = {
        "grid": {"pipelines.one.block": [1, 2], "pipelines.one.generator.chance": [0.1, 0.2]},
        "exclude": [
            {"pipelines.one.block": 1, "pipelines.one.generator.chance": 0.2},
            {"pipelines.one.block": 2, "pipelines.one.generator.chance": 0.1},
        ],
    }
    names = [name for name in load(tmp_path, matrix).names if name.startswith("one")]
    assert names == ["one@block=1,chance=0.1", "one@block=2,chance=0.2"]


def test_cells_share_what_is_equal(tmp_path: Path) -> None:
    """One verifier for all cells that do not change it."""
    found = load(
        tmp_path, {"grid": {"pipelines.one.block": [1, 2], "pipelines.one.generator.chance": [0.1, 0.2]}}
    )
    pipelines = Builder().bench(found).pipelines
    assert len({id(each.verifier) for each in pipelines.values()}) == 1
    assert len({id(each.generator) for name, each in pipelines.items() if name.startswith("one")}) == 2


def test_defaults_are_a_pipelines_keys_under_its_own(tmp_path: Path) -> None:
    """Own keys win, `budget` and `settings` key by key, parts as a whole, null takes away; `--set` reaches through."""
    pipelines = {
        "plain": {"generator": {"use": "run_parts.Guess"}, "budget": {"seconds": 9}, "done": None},
        "own": {
            "generator": {"use": "run_parts.Guess"},
            "verifier": {"use": "run_parts.Alone"},
            "budget": None,
        },
    }
    shared = {**BASE["defaults"], "verifier": {"use": "run_parts.Check1", "broken": ["t1"]}}
    overrides = ["pipelines.plain.verifier.splice=false", "defaults.verifier.seconds=1"]
    found = load(tmp_path, pipelines=pipelines, defaults=shared, overrides=overrides)
    plain, own = found.pipelines
    assert (plain.budget, plain.done) == (Budget(rounds=40, seconds=9), None)
    assert plain.verifier.arguments == {"broken": ["t1"], "splice": False, "seconds": 1.0}
    assert (own.budget, own.verifier.arguments) == (Budget(), {})
    assert own.rule.use == "longest_prefix"


def test_a_cell_reaches_into_what_defaults_give(tmp_path: Path) -> None:
    """A path within a pipeline's part that stands in `defaults` changes it there alone, whatever else the cell does."""
    matrix = {
        "cells": {
            "a": {"pipelines.one.verifier.splice": False, "defaults.verifier": {"use": "run_parts.Alone"}},
            "b": {},
            "c": {  # the part is replaced before something in it is, in whichever order they are written
                "pipelines.one.generator.seconds": 0.5,
                "pipelines.one.generator": {"use": "run_parts.Guess", "chance": 0.2},
            },
        }
    }
    loaded = load(tmp_path, matrix)
    (swapped,) = (each.generator for each in loaded.pipelines if each.name == "one@c")
    assert swapped.arguments == {"chance": 0.2, "seconds": 0.5}  # type: ignore[union-attr]
    found = {each.name: each.verifier for each in loaded.pipelines}
    assert (found["one@a"].use, found["one@a"].arguments) == ("run_parts.Alone", {"splice": False})
    assert (found["two@a"].use, found["two@a"].arguments) == ("run_parts.Alone", {})
    assert found["one@b"].use == "run_parts.Check1"


def test_set_reaches_into_the_matrix(tmp_path: Path) -> None:
    """Its paths are keys; a value that every cell sets is not set silently for nothing."""
    matrix = {"grid": {"pipelines.one.block": [1, 2]}, "cells": {"a": {"seed": 1}}}
    overrides = ["matrix.grid.pipelines.one.block=[7]", "matrix.cells.b.seed=2"]
    assert load(tmp_path, matrix, overrides=overrides).names[-1] == "two@b"
    assert load(tmp_path, matrix, overrides=["matrix=null"]).names == ["plain", "one", "two"]
    with pytest.raises(
        ConfigError, match=r"every cell.*--set 'matrix\.grid\.pipelines\.one\.block"
    ) as caught:
        load(tmp_path, matrix, overrides=["pipelines.one.block=3"])
    assert caught.value.where == "--set pipelines.one.block=3"


@pytest.mark.parametrize(
    ("matrix", "path", "said"),
    [
        ({"gird": {}}, "gird", "did you mean grid"),
        ({}, "matrix", "changes nothing"),
        ([1], "matrix", "should be a mapping of grid"),
        ({"grid": {"pipelines.one.block": 4}}, "matrix.grid.pipelines.one.block", "should be a list"),
        ({"grid": {"pipelines.one.block": []}}, "matrix.grid.pipelines.one.block", "not an empty one"),
        (
            {"grid": {"pipelines.won.block": [1]}},
            "pipelines.won.block",
            "no pipeline 'won'; did you mean",
        ),
        ({"grid": {"models.small.weights": [1]}}, "models.small.weights", "no model 'small'"),
        ({"grid": {"pipelines.one": [1]}}, "grid.pipelines.one", "write pipelines.NAME.KEY"),
        ({"grid": {"setings.temperature": [1]}}, "setings.temperature", "did you mean settings"),
        ({"grid": {"limit": [1]}}, "limit", "no cell can change 'limit'; there are"),
        (
            {"grid": {"pipelines.one.blok": [1]}},
            "pipelines.one.blok",
            "unknown key 'blok'; did you mean block",
        ),
        (
            {"grid": {"pipelines.one.generator.chanc": [0.5]}},
            "pipelines.one.generator.chanc",
            "unknown key 'chanc' of run_parts.Guess; did you mean chance",
        ),
        (
            {"grid": {"pipelines.one.generatr.chance": [0.5]}},
            "matrix",
            "there is no 'generatr' in pipelines.one; did you mean generator",
        ),
        ({"grid": {"pipelines.one.block.at_most": [4]}}, "matrix", "'at_most' cannot be set inside 4"),
        ({"grid": {"pipelines.one.block": [2, "x"]}}, "pipelines.one.block", "should be a number of items"),
        ({"grid": {"tasks.count": [2, "x"]}}, "tasks.count", "valid integer"),
        ({"paired": {"seed": [1, 2], "tasks.count": [1]}}, "matrix.paired", "seed has 2, tasks.count has 1"),
        ({"cells": {"a b": {"seed": 1}}}, "matrix.cells.a b", "should be a word"),
        ({"cells": {"a": [1]}}, "matrix.cells.a", "a cell is a mapping"),
        ({"cells": {"a": {"seed": 1}}, "grid": {"seed": [2]}}, "seed", "set by two parts"),
        ({"grid": {"seed": [1, 2]}, "exclude": [{"sed": 1}]}, "sed", "did you mean seed"),
        ({"grid": {"seed": [1, 2]}, "exclude": [{"seed": 3}]}, "exclude", "no cell"),
        ({"grid": {"seed": [1, 2]}, "exclude": [{"seed": 1}, {"seed": 2}]}, "exclude", "leaves no cell"),
        (
            {"grid": {"seed": list(range(40)), "tasks.count": list(range(1, 40))}},
            "matrix",
            "1560 cells; 1000",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, matrix: Any, path: str, said: str) -> None:
    """File, line, dotted path and what was meant; each mistake once, however many cells have it."""
    file = write(tmp_path, matrix)
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    errors = getattr(caught.value, "errors", (caught.value,))
    assert len(errors) == len({str(each) for each in errors}) == 1, str(caught.value)
    assert said in errors[0].message
    assert path in errors[0].path
    name, _, line = errors[0].where.rpartition(":")
    assert name == str(file)
    lines = file.read_text().splitlines()
    assert int(line) > next(number for number, text in enumerate(lines) if '"matrix"' in text)


def test_all_mistakes_of_a_matrix_at_once(tmp_path: Path) -> None:
    """A value that is no list does not hide a path that leads nowhere."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {"grid": {"limit": [1], "seed": 3}, "cells": {"a b": {}}})
    told = {each.path: each.message for each in caught.value.errors}  # type: ignore[attr-defined]
    assert [*told] == ["matrix.grid.limit", "matrix.grid.seed", "matrix.cells.a b"]
    assert told["matrix.grid.seed"] == "should be a list, not 3"


def test_a_mistake_that_a_cell_brings_out_elsewhere_names_the_cell(tmp_path: Path) -> None:
    """The place is what is wrong in the file, and the cell is in the words; parts that do not fit name it too."""
    shared = {**BASE["defaults"], "verifier": {"use": "run_parts.Check1", "splice": False}}
    matrix = {"grid": {"pipelines.one.verifier.use": ["run_parts.Check1", "exact"]}}
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, matrix, defaults=shared)
    assert "in the cell verifier=exact" in str(caught.value)
    fits = load(tmp_path, {"grid": {"pipelines.one.rule.use": ["longest_prefix", "speculative"]}})
    with pytest.raises(Exception, match=r"pipelines\.one@rule=speculative"):
        Builder().bench(fits)


def test_mistakes_in_defaults_are_told_once(tmp_path: Path) -> None:
    """Where they stand, and not for every pipeline; also those that each pipeline overrides."""
    bad = {**BASE["defaults"], "rul": {"use": "first"}, "verifier": {"use": "run_parts.Chek"}, "name": "x"}
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, defaults=bad)
    told = [each.path for each in caught.value.errors]  # type: ignore[attr-defined]
    assert sorted(told) == ["defaults.name", "defaults.rul", "defaults.verifier.use"]
    overridden = {name: {**each, "block": 1} for name, each in BASE["pipelines"].items()}
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, defaults={**BASE["defaults"], "block": "x"}, pipelines=overridden)
    assert caught.value.path == "defaults.block"


def test_an_editor_knows_both() -> None:
    """The schema takes what the loader takes, and what a pipeline needs may stand in defaults; else it is missed."""
    definitions: dict[str, Any] = {
        role: {"type": "object"} for role in ROLES
    }  # what parts take is tested elsewhere
    whole = {**FILE.schema(definitions, ""), "$defs": definitions}
    definitions["pipeline"] = INNER.schema(definitions, "")
    matrix = {
        "grid": {"seed": [1]},
        "cells": {"a": {}},
        "paired": {"tasks.count": [1]},
        "exclude": [{"seed": 1}],
    }
    good = {**BASE, "matrix": matrix}
    jsonschema.validate(good, whole)
    for bad in (
        {**BASE, "matrix": {"gird": {}}},
        {**BASE, "matrix": {"grid": {"executor.use": [1]}}},
        {**BASE, "matrix": {"grid": {"seed": 1}}},
        {**BASE, "defaults": {"blok": 1}},
        {key: value for key, value in BASE.items() if key != "defaults"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, whole)


def test_the_pages_matrix_has_six_cells() -> None:
    """docs/comparing.md counts right."""
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text()
    block = next(each for each in re.findall(r"```yaml\n(.*?)```", page, re.S) if each.startswith("matrix:"))
    file = {**YAML(typ="safe", pure=True).load(block), "pipelines": {"drafted": {}}, "models": {"draft": {}}}
    root, _ = read(json.dumps(file), "file")
    reading = ConfigReading(root, Path())
    assert len(Matrix().check(root.value["matrix"], reading).cells) == 6
