"""What a constructor's signature says of its YAML form, and the JSON schema made from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError
from ruamel.yaml import YAML

from draftverify import Generator, PluginError, Verifier
from draftverify.bench.config.forms import FilePath, Keyed, ListForm, Plain, Secreted
from draftverify.bench.config.parameters import Either, PartForm, form_of, parameters
from draftverify.bench.config.schema import schema
from draftverify.bench.config.specs import ComponentSpec
from draftverify.rules import Threshold
from draftverify.secret import Secret
from tests.broken_plugin_packages import put_on_path


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Engine:
    """A dataclass with a method is a component, not data."""

    power: int = 1

    def start(self) -> None: ...


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (int, 3, "3"),
        (int, 3, 3.0),
        (int, 3, True),
        (float, 3, "3"),
        (float, 2.5, True),
        (bool, True, 1),
        (str, "3", 3),
        (str | None, None, 3),
        (Literal["a", 1], 1, "1"),
        (Colour, "red", "green"),
        (list[int], [1], [1, "2"]),
        (tuple[int, str], [1, "a"], [1]),
        (Mapping[str, float], {"a": 1}, {"a": "1"}),
        (frozenset[str], ["a"], "a"),
        (Point, {"x": 1}, {"y": 1}),
        (Annotated[int, Field(ge=1)], 1, 0),
    ],
)
def test_plain_data_is_checked_strictly(annotation: Any, right: Any, wrong: Any) -> None:
    """A value of the type is taken; one that would have to be guessed at is not."""
    form = form_of(annotation)
    assert isinstance(form, Plain)
    form.build(right)
    with pytest.raises(ValidationError):
        form.build(wrong)


def test_what_is_no_plain_data() -> None:
    """Protocols, classes with methods and callables are parts; paths and secrets are their own."""
    assert form_of(Path) == FilePath()
    assert form_of(Secret) == Secreted()
    assert form_of(Generator) == PartForm(Generator)
    assert form_of(Engine) == PartForm(Engine)
    assert form_of(Sequence[Verifier]) == ListForm(PartForm(Verifier), list)
    assert form_of(tuple[Path, ...]) == ListForm(FilePath(), tuple)
    assert form_of(dict[str, Secret]) == Keyed(Secreted())
    assert form_of(Engine | None) == Either((PartForm(Engine), Plain(type(None))))
    assert form_of(str | Path) == Either((FilePath(), Plain(str)))
    assert isinstance(form_of(Callable[[int], int]), PartForm)


def test_a_union_is_built_as_what_its_data_is() -> None:
    """Checked data says which form it is of, a part's also after it has travelled as JSON."""
    part = ComponentSpec("model", "small")
    mapping = json.loads(msgspec.json.encode(part))
    for data in (part, mapping):
        assert form_of(Engine | None).build(data, lambda spec: ("made", spec)) == ("made", data)
    assert form_of(Engine | None).build(None, repr) is None
    assert form_of(str | Path).build("/a/b", repr) == Path("/a/b")
    assert form_of(str | Path).build("tiny", repr) == "tiny"
    assert form_of(Threshold | None).build(0.5, repr) == 0.5
    assert form_of(Threshold | None).build(mapping, lambda spec: "made") == "made"


def test_roles_of_a_part() -> None:
    """A parameter's class tells which roles may stand there."""
    assert PartForm(Generator).roles == ("generator", "model")
    assert PartForm(Engine).roles == ("model",)
    assert PartForm(Callable[[int], int]).roles == ("stopping",)


def test_parameters_carry_the_docstring() -> None:
    """Descriptions come from Args, over several lines, and for several names at once."""

    class Thing:
        """A thing.

        Args:
            first: what comes
                first.
            second, third: the others.

        Returns:
            fourth: not an argument.
        """

        def __init__(self, first: int, second: str = "a", *, third: str = "b", fourth: int = 1) -> None: ...

    found = parameters(Thing)
    assert [(each.name, each.required, each.description) for each in found.values()] == [
        ("first", True, "what comes first."),
        ("second", False, "the others."),
        ("third", False, "the others."),
        ("fourth", False, ""),
    ]


def test_classes_without_a_constructor_take_nothing() -> None:
    """No __init__ of its own, or a protocol's."""

    class Bare:
        def verify(self) -> None: ...

    class Inherits(Verifier): ...

    assert parameters(Bare) == {}
    assert parameters(Inherits) == {}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(use: int): ...", "'use' that a config cannot give by name"),
        ("def f(a: int, /): ...", "'a' that a config cannot give by name"),
        ("def f(a: 'Nowhere'): ...", "name 'Nowhere' is not defined"),
        ("def f(a: tuple[Generator, int]): ...", "'a' of .* has no form in a config"),
    ],
)
def test_signatures_that_cannot_be_a_config(source: str, says: str) -> None:
    """The author of the part is told which argument and why."""
    space: dict[str, Any] = {"Generator": Generator}
    exec(source, space)
    with pytest.raises(PluginError, match=says):
        parameters(space["f"])


def test_annotations_of_the_type_checkers_alone_resolve_when_they_are_ours() -> None:
    """A module that imports draftverify's words under TYPE_CHECKING only can still be read."""
    space: dict[str, Any] = {}
    exec("def f(a: 'Sequence[Generator]', b: 'Verifier | None' = None): ...", space)
    found = parameters(space["f"])
    assert found["a"].form == ListForm(PartForm(Generator), list)


WHOLE = YAML(typ="safe", pure=True)


@pytest.fixture(scope="module")
def validator() -> Any:
    """A validator of the schema of everything that is installed."""
    whole = schema()
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def test_the_schema_knows_every_part(validator: Any) -> None:
    """Each installed part is a definition with its arguments, and each reference leads somewhere."""
    definitions = validator.schema["$defs"]
    assert set(definitions["rule.lossy"]["properties"]) == {"use", "alpha", "beta", "measure_drift"}
    assert definitions["rule.lossy"]["required"] == ["use", "alpha"]
    assert "larger keeps more" in definitions["rule.lossy"]["properties"]["alpha"]["description"]
    assert definitions["block.measured"]["properties"]["at_most"]["default"] == 16

    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*map(references, node.values()))
        return set().union(*map(references, node)) if isinstance(node, list) else set()

    assert {reference.removeprefix("#/$defs/") for reference in references(validator.schema)} <= set(
        definitions
    )


@pytest.mark.parametrize("path", sorted(Path("examples").glob("*.yaml")) or [None], ids=str)
def test_the_schema_takes_the_examples(path: Path | None, validator: Any) -> None:
    """What the loader takes, an editor does not mark."""
    assert path is not None
    assert [error.message for error in validator.iter_errors(WHOLE.load(path))] == []


GOOD = {
    "tasks": {"use": "jsonl", "path": "a.jsonl"},
    "pipelines": {
        "a": {
            "generator": {"use": "parts.Guess", "anything": 1},
            "verifier": {"use": "parts.Check"},
            "rule": {"use": "first"},
            "done": {"use": "any_of", "rules": [{"use": "limit", "items": 3}]},
            "on_rejection": [
                {"do": "feedback", "on": "reject", "times": "forever"},
                {"do": "give_up", "on": ["error"]},
            ],
        }
    },
}


def test_the_schema_takes_parts_files(validator: Any) -> None:
    """A class of a parts file may have any arguments: the schema cannot know them."""
    assert [error.message for error in validator.iter_errors(GOOD)] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("pipelines", "a", "rule"), {"use": "first", "enouh": 1}),
        (("pipelines", "a", "rule"), {"use": "frist"}),
        (("pipelines", "a", "rule"), {"use": "first", "enough": "1"}),
        (("pipelines", "a", "rule"), "first"),
        (("pipelines", "a", "done", "rules", 0), {"use": "limit"}),
        (("pipelines", "a", "on_rejection", 0, "on"), "rejct"),
        (("pipelines", "a", "block"), -1),
        (("tasks",), {"use": "jsonl"}),
        (("seed",), "7"),
        (("sed",), 7),
    ],
)
def test_the_schema_marks_mistakes(path: tuple[Any, ...], value: Any, validator: Any) -> None:
    """What the loader refuses, an editor marks too."""
    import copy

    config: Any = copy.deepcopy(GOOD)
    inner = config
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert list(validator.iter_errors(config))


def test_a_broken_plugin_is_left_out_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema of the rest is made all the same, a third party's part with it."""
    put_on_path(monkeypatch, "raises_at_import", "unresolvable_annotation", "healthy")
    definitions = schema()["$defs"]
    assert "generator.healthy.rolls" in definitions
    assert "generator.raises" not in definitions
    assert "generator.unresolvable" not in definitions


@given(st.text(max_size=20))
def test_a_secret_hides(text: str) -> None:
    """It is the text for whoever uses it, and its repr says nothing, not even inside a structure."""
    secret = Secret(text)
    assert secret == text
    assert f"Bearer {secret}" == f"Bearer {text}"
    assert repr([secret]) == "[Secret('…')]"
