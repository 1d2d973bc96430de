"""Forms: how a value is written in a config. Each class checks what is written, builds the value, and has a schema.

`check` turns what stands in the file into plain data for a spec, and notes every mistake with its place; `build` turns
that data, wherever it has travelled, into what a constructor takes; `schema` describes it to an editor. The forms that
hold a part stand in `parameters`, beside the signatures that they are checked against.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from draftverify.bench.config.located import Located
from draftverify.bench.config.specs import ComponentSpec
from draftverify.bench.records.database import store_url
from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.plugins import PartsFile
from draftverify.secret import Secret

__all__ = [
    "Either",
    "FilePath",
    "Form",
    "Keyed",
    "Listed",
    "Plain",
    "Reading",
    "Schema",
    "Secreted",
    "Wrong",
    "check_each",
    "shown",
]

SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Schema: TypeAlias = "dict[str, Any]"
Make: TypeAlias = Callable[[Any], Any]
"""Makes the part of a spec."""


class Wrong(Exception):
    """A value is wrong, and the error has been noted."""


class Reading:
    """One reading of one file: what its values refer to, and what was found wrong.

    Args:
        root: the whole file.
        base: the directory that paths are relative to.
        errors: what was wrong with the text.

    Attributes:
        errors: each with its place, "file:line".
        local: what the parts files define, by name, and in which of them.
        files: the parts files.
        unread: the stems of those that cannot be read.
        specs: of the models that have been read; None for one that is wrong.
        resolving: the models that are being read, each for the sake of the one before it.
    """

    def __init__(self, root: Located, base: Path, errors: Iterable[ConfigError] = ()) -> None:
        self.root = root
        self.base = base
        self.errors: list[tuple[str, DraftVerifyError]] = [(error.where, error) for error in errors]
        self.local: dict[str, tuple[PartsFile, Any]] = {}
        self.files: list[PartsFile] = []
        self.unread: set[str] = set()
        self.specs: dict[str, ComponentSpec | None] = {}
        self.resolving: list[str] = []

    def top(self, key: str, kind: type[Any]) -> Any:
        """The value of a key at the top of the file; an empty one where it is missing or of another kind."""
        value = self.root.follow([key]).value
        return value if isinstance(value, kind) and key in self.root.value else kind()

    def of(self, root: Located) -> Reading:
        """A reading of the same file with other values in it."""
        other = Reading(root, self.base)
        other.local, other.files, other.unread = self.local, self.files, self.unread
        return other

    @property
    def models(self) -> Mapping[str, Located]:
        """The shared models, as they are written."""
        found: Mapping[str, Located] = self.top("models", dict)
        return found

    def absolute(self, written: str) -> Path:
        """A path of the file."""
        return Path(os.path.normpath(self.base / os.path.expanduser(written)))

    def wrong(self, node: Located, message: str, *steps: str | int) -> Wrong:
        """Note what is wrong with a value, or with what should stand some steps below it."""
        there = node.follow(steps)
        path = ".".join(map(str, (*node.path, *steps)))
        self.errors.append((there.where, ConfigError(message, where=there.where, path=path)))
        return Wrong()

    def broken(self, node: Located, error: DraftVerifyError) -> Wrong:
        """Note an error of a plugin together with the place that names it."""
        told = ": ".join(filter(None, (node.where, node.dotted, str(error))))
        self.errors.append((node.where, type(error)(told)))
        return Wrong()


class Form(ABC):
    """How a value is written."""

    @abstractmethod
    def check(self, node: Located, reading: Reading) -> Any:
        """The written value as plain data.

        Raises:
            Wrong: it does not have the form; what is wrong with it has been noted.
        """

    def build(self, value: Any, make: Make) -> Any:
        """The live value of checked data."""
        return value

    @abstractmethod
    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        """The JSON schema.

        Args:
            definitions: takes definitions of the value's own.
            name: that theirs begin with.
        """

    def means(self, node: Located, reading: Reading) -> bool:
        """Whether a written value is meant as this form rather than another."""
        return False

    def files(self, value: Any) -> Iterator[str]:
        """The paths in checked data; those of a part within it are its own spec's."""
        yield from ()


@dataclass(frozen=True)
class Plain(Form):
    """Plain data of a type that pydantic can check.

    Raises:
        PydanticUserError: when it cannot, as the form is made.
    """

    annotation: Any
    adapter: TypeAdapter[Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adapter", TypeAdapter(self.annotation))

    def check(self, node: Located, reading: Reading) -> Any:
        plain = node.plain()
        for text in _texts(plain):
            if SECRET.fullmatch(text):
                takes = "only parameters of type Secret read the environment"
                raise reading.wrong(node, f"{text} stands where no secret is taken; {takes}")
        try:
            made = self.build(plain)
        except ValidationError as error:
            raise _refused(error, node, reading) from error
        return made if isinstance(made, float) else plain  # 2 and 2.0 are the same number

    def build(self, value: Any, make: Make | None = None) -> Any:
        """The value as the annotated type (a list as a tuple, say).

        Raises:
            ValidationError: it is not of that type.
        """
        return self.adapter.validate_json(json.dumps(value), strict=True)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        found = self.adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        definitions.update({f"{name}.{key}": inner for key, inner in found.pop("$defs", {}).items()})
        return found

    def means(self, node: Located, reading: Reading) -> bool:
        try:
            self.build(node.plain())
        except ValidationError:
            return False
        return True


@dataclass(frozen=True)
class FilePath(Form):
    """A path, relative to the config's directory."""

    def check(self, node: Located, reading: Reading) -> str:
        if not isinstance(node.value, str):
            raise reading.wrong(node, f"should be a path, not {shown(node)}")
        return str(reading.absolute(node.value))

    def build(self, value: Any, make: Make) -> Path:
        return Path(value)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "string", "description": "a path, relative to the config"}

    def means(self, node: Located, reading: Reading) -> bool:
        return isinstance(node.value, str) and node.value.startswith(("./", "../", "/", "~"))

    def files(self, value: Any) -> Iterator[str]:
        yield value


@dataclass(frozen=True)
class Secreted(Form):
    """A secret, given as `${NAME}`."""

    def check(self, node: Located, reading: Reading) -> str:
        if not self.means(node, reading):
            message = "is a secret: write ${NAME}, the name of an environment variable that holds it"
            raise reading.wrong(node, message)
        try:
            self.build(node.value)
        except ConfigError as error:
            raise reading.wrong(node, error.message) from error
        return str(node.value)

    def build(self, value: Any, make: Make | None = None) -> Secret:
        """What the environment holds now.

        Raises:
            ConfigError: it holds nothing of that name.
        """
        name = value[2:-1]
        if name not in os.environ:
            raise ConfigError(f"the environment variable {name} is not set; export {name}=… first")
        return Secret(os.environ[name])

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        pattern = f"^{SECRET.pattern}$"
        return {"type": "string", "pattern": pattern, "description": "${NAME} of an environment variable"}

    def means(self, node: Located, reading: Reading) -> bool:
        return isinstance(node.value, str) and SECRET.fullmatch(node.value) is not None


@dataclass(frozen=True)
class StoreUrl(Form):
    """The URL of a database, in which `${NAME}` stands for what the environment holds."""

    def check(self, node: Located, reading: Reading) -> str:
        if not isinstance(node.value, str):
            raise reading.wrong(node, f"should be the URL of a database, not {shown(node)}")
        try:
            url = store_url(node.value)
        except ConfigError as error:
            raise reading.wrong(node, error.message) from error
        if not url.startswith("postgresql"):
            needed = "the URL of a PostgreSQL database (postgresql://user:${PASSWORD}@host/database)"
            raise reading.wrong(
                node, f"is not {needed}; without one the records are in a file of the run directory"
            )
        return node.value

    def build(self, value: Any, make: Make) -> Any:
        return store_url(value)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "string", "description": "postgresql://user:${PASSWORD}@host/database"}


@dataclass(frozen=True)
class Listed(Form):
    """A list of something that is no plain data."""

    element: Form
    container: Callable[[list[Any]], Any] = list

    def check(self, node: Located, reading: Reading) -> list[Any]:
        if not isinstance(node.value, list):
            raise reading.wrong(node, f"should be a list, not {shown(node)}")
        places = ((index, self.element, inner) for index, inner in enumerate(node.value))
        return list(check_each(places, reading).values())

    def build(self, value: Any, make: Make) -> Any:
        return self.container([self.element.build(inner, make) for inner in value])

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "array", "items": self.element.schema(definitions, name)}

    def means(self, node: Located, reading: Reading) -> bool:
        return isinstance(node.value, list)

    def files(self, value: Any) -> Iterator[str]:
        for inner in value:
            yield from self.element.files(inner)


@dataclass(frozen=True)
class Keyed(Form):
    """A mapping from text to something that is no plain data.

    Args:
        element: the form of its values.
        names: whether its keys are names, words that can stand in a dotted path.
        least: how many keys at least.
    """

    NAME = r"^\w[\w-]{0,99}$"

    element: Form
    names: bool = False
    least: int = 0

    def check(self, node: Located, reading: Reading) -> dict[str, Any]:
        if not isinstance(node.value, dict) or len(node.value) < self.least:
            few = "should be a mapping" + (", and not an empty one" if self.least else "")
            raise reading.wrong(node, few if node.value == {} else f"{few}, not {shown(node)}")
        for key in node.value if self.names else ():
            if not re.search(self.NAME, key):
                wanted = "at most 100 letters, digits, _ and -"
                reading.wrong(node, f"the name {key!r} should be a word of {wanted}", key)
        return check_each(((key, self.element, inner) for key, inner in node.value.items()), reading)

    def build(self, value: Any, make: Make) -> dict[str, Any]:
        return {key: self.element.build(inner, make) for key, inner in value.items()}

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {
            "type": "object",
            "additionalProperties": self.element.schema(definitions, name),
            **({"propertyNames": {"pattern": self.NAME}} if self.names else {}),
            **({"minProperties": self.least} if self.least else {}),
        }

    def means(self, node: Located, reading: Reading) -> bool:
        return isinstance(node.value, dict) and "use" not in node.value

    def files(self, value: Any) -> Iterator[str]:
        for inner in value.values():
            yield from self.element.files(inner)


@dataclass(frozen=True)
class Either(Form):
    """One of several forms, at least one of which is not plain. Checked data says which: [place, data].

    Args:
        forms: in the order in which they are tried; what is meant as none of them is told what the first expects.
    """

    forms: tuple[Form, ...]

    def check(self, node: Located, reading: Reading) -> list[Any]:
        places = range(len(self.forms))
        place = next((place for place in places if self.forms[place].means(node, reading)), 0)
        return [place, self.forms[place].check(node, reading)]

    def build(self, value: Any, make: Make) -> Any:
        place, data = value
        return self.forms[place].build(data, make)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"anyOf": [each.schema(definitions, name) for each in self.forms]}

    def files(self, value: Any) -> Iterator[str]:
        place, data = value
        yield from self.forms[place].files(data)


def check_each(places: Iterable[tuple[Any, Form, Located]], reading: Reading) -> dict[Any, Any]:
    """The data at several places; what is wrong with each is noted before any is refused.

    Raises:
        Wrong: one of them is.
    """
    found = {}
    wrong: Wrong | None = None
    for place, form, node in places:
        try:
            found[place] = form.check(node, reading)
        except Wrong as error:
            wrong = error
    if wrong is not None:
        raise wrong
    return found


def _refused(error: ValidationError, node: Located, reading: Reading) -> Wrong:
    """Note what pydantic refused, once per place."""
    told: dict[tuple[str | int, ...], list[str]] = {}
    for detail in error.errors(include_url=False):
        here = node.follow(detail["loc"])
        steps, last = here.path[len(node.path) :], detail["loc"][-1:]
        if detail["type"] == "missing":
            steps, text = (*steps, *last), "is missing"
        elif detail["type"] == "extra_forbidden":
            text = f"unknown key {last[0]!r}"
        else:
            message = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
            message = message.replace("a valid array", "a list").replace("a valid dictionary", "a mapping")
            text = f"{message}, not {shown(here)}"
        told.setdefault(steps, []).append(text)
    for steps, texts in told.items():
        reading.wrong(node, " or ".join(dict.fromkeys(texts)), *steps)
    return Wrong()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def shown(node: Located) -> str:
    """A value as a message names it."""
    value = node.value
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" + ("…" if len(value) > 40 else "")
    return json.dumps(value)[:40]
