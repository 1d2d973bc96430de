"""The loader against mutated configs, random YAML and random bytes: an error with a place, or a config that builds."""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from draftverify import ConfigError, DraftVerifyError, PipelineError, PluginError
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.build import Builder
from tests.experiments.config_files import CONFIG, write_experiment


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One directory for all examples: only the config changes."""
    with tempfile.TemporaryDirectory() as name:
        write_experiment(Path(name))
        os.environ["DRAFTVERIFY_TEST_KEY"] = "sk-very-secret"
        yield Path(name)
        del os.environ["DRAFTVERIFY_TEST_KEY"]


def check(folder: Path, config: str | bytes, *overrides: str) -> None:
    """Load, and build what loads: nothing else than ConfigError, PluginError or PipelineError, each with a place."""
    file = folder / "experiment.yaml"
    file.write_bytes(config if isinstance(config, bytes) else config.encode("utf-8", "surrogatepass"))
    place = re.compile(rf"({re.escape(str(file))}:\d+|--set )")
    try:
        experiment = load_experiment(file, overrides=overrides)
    except (ConfigError, PluginError) as error:
        for each in getattr(error, "errors", (error,)):
            assert isinstance(each, (ConfigError, PluginError))
            assert place.match(str(each)), str(each)
            assert len(str(each)) < 2000
        return
    json.dumps(experiment.config, allow_nan=False)
    builder = Builder()
    for spec in experiment.pipelines:
        try:
            builder.pipeline(spec)
        except (ConfigError, PluginError, PipelineError) as error:
            assert place.match(str(error)), str(error)  # noqa: PT017 - one of two ways to go on


GARBAGE: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "8",
    "forever",
    "${HOME}",
    "${DRAFTVERIFY_TEST_KEY}",
    "small",
    "./mine.py",
    "\x1b[31m\n",
    [],
    {},
    [[[]]],
    {"use": "mine.Guess"},
    {"use": "first"},
    {"use": 3},
    {"use": {"use": "first"}},
    {"use": "mine.Model", "like": "large"},
    {"role": "rule", "use": "first", "arguments": {}, "file": None},
    {"": {"": ""}},
]
garbage = st.sampled_from(GARBAGE) | st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "use",
    "seed",
    "models",
    "generator",
    "on",
    "do",
    "limit",
    "<<",
    "on_rejection",
    "a.b",
    "",
    "0",
    "like",
]
WHOLE: Any = YAML(typ="safe", pure=True).load(CONFIG)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value below this one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


class Twice(dict[str, Any]):
    """A mapping that is written with its last key twice."""


def written(value: Any) -> str:
    """JSON, which is YAML too, with doubled keys where a mutation asks for them."""
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)}: {written(each)}" for key, each in value.items()]
        return "{" + ",\n ".join(entries + (entries[-1:] if isinstance(value, Twice) else [])) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The whole config after one to four deletions, renamings, doublings, insertions and replacements."""
    config = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 4))):
        found = list(places(config))
        if not found:
            break
        path = draw(st.sampled_from(found))
        parent = config
        for step in path[:-1]:
            parent = parent[step]
        how = draw(st.sampled_from(["delete", "replace", "swap", "rename", "double", "insert"]))
        if how == "delete":
            del parent[path[-1]]
        elif how == "replace":
            parent[path[-1]] = copy.deepcopy(draw(garbage))
        elif how == "swap":
            other: Any = config
            for step in draw(st.sampled_from(found)):
                other = (
                    other[step]
                    if step in (other if isinstance(other, dict) else range(len(other)))
                    else other
                )
            parent[path[-1]] = copy.deepcopy(other)
        elif isinstance(parent, dict) and how == "rename":
            parent[draw(st.sampled_from(KEYS))] = parent.pop(path[-1])
        elif isinstance(parent, dict) and how == "insert":
            parent[draw(st.sampled_from(KEYS) | st.text(max_size=5))] = copy.deepcopy(draw(garbage))
        elif isinstance(parent, dict) and len(path) > 1 and parent:
            above = config
            for step in path[:-2]:
                above = above[step]
            above[path[-2]] = Twice(parent)
    return written(config)


EACH: list[Any] = [None, True, 3, "first", [], {}, {"use": "first"}, {"use": "mine.Guess"}]


def check_without(folder: Path, path: tuple[Any, ...], instead: Any) -> None:
    """Check the config with another value at a place, or with none there."""
    config = copy.deepcopy(WHOLE)
    parent = config
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = instead
    if instead is ...:
        del parent[path[-1]]
    check(folder, written(config))


def test_every_place(folder: Path) -> None:
    """Each single value of the config, replaced by one kind of wrong value in turn, or left out."""
    values = [*EACH, ...]
    for path, instead in zip(places(WHOLE), cycle(values), strict=False):
        check_without(folder, path, instead)


@pytest.mark.exhaustive
@pytest.mark.parametrize("instead", [*EACH, ...], ids=[*map(json.dumps, EACH), "nothing"])
def test_every_place_with_every_value(folder: Path, instead: Any) -> None:
    """Each single value of the config, replaced by each kind of wrong value, or left out."""
    for path in places(WHOLE):
        check_without(folder, path, instead)


@given(mutated())
def test_mutated_structure(folder: Path, config: str) -> None:
    """Keys and values deleted, renamed, doubled, moved and replaced by garbage."""
    check(folder, config)


@given(
    st.lists(
        st.tuples(st.integers(0, len(CONFIG)), st.integers(0, 12), st.text(max_size=4)),
        min_size=1,
        max_size=4,
    )
)
def test_mutated_text(folder: Path, cuts: list[tuple[int, int, str]]) -> None:
    """Stretches of the text replaced by other text."""
    text = CONFIG
    for start, length, new in cuts:
        text = text[:start] + new + text[start + length :]
    check(folder, text)


@given(st.text(alphabet="ab:{}[]-&*!|>%@`?,#'\"\n\t \x85\u2028\ufeff0.~<", max_size=60))
@example("&a [*a]")
@example("? {a: 1}\n: 2")
@example("a: &b {c: *b}")
@example("[" * 1000)
@example("%YAML 1.1\n---\nyes: no")
def test_random_yaml(folder: Path, text: str) -> None:
    """Text made of YAML's own characters."""
    check(folder, text)


@given(st.binary(max_size=80))
@example(b"\xff\xfea\x00")
@example(b"")
def test_random_bytes(folder: Path, data: bytes) -> None:
    """Anything at all."""
    check(folder, data)


@given(
    st.lists(
        st.sampled_from([*KEYS, "pipelines", "blocks", "plain", "tasks", "1"]) | st.text(max_size=4),
        max_size=5,
    ),
    garbage.map(json.dumps) | st.text(max_size=8),
)
def test_random_overrides(folder: Path, path: list[str], value: str) -> None:
    """Any --set on a config that is right."""
    check(folder, CONFIG, ".".join(path) + "=" + value)


def test_aliases_that_unfold_without_end_are_refused(folder: Path) -> None:
    """Thirty lines that would make 10^9 values are an error, and a fast one."""
    lines = ["a0: &a0 [x, x, x, x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 4)}]" for n in range(1, 15)
    ]
    file = folder / "bomb.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="more than 100000 values"):
        load_experiment(file)


def test_every_error_is_an_error_of_ours(folder: Path) -> None:
    """The property above is not empty: the unchanged config loads and builds."""
    check(folder, CONFIG)
    (folder / "experiment.yaml").write_text(CONFIG)
    experiment = load_experiment(folder / "experiment.yaml")
    assert [Builder().pipeline(spec).name for spec in experiment.pipelines] == ["plain", "blocks"]
    assert issubclass(ConfigError, DraftVerifyError)
