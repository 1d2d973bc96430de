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
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from draftverify.bench.config.located import Located, shown
from draftverify.bench.config.specs import ComponentSpec
from draftverify.bench.records.about import store_url
from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.plugins import PartsFile
from draftverify.secret import Secret

SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_IN_JSON = re.compile(rf'(?<!\\)"({SECRET.pattern})"(?!:)')
NAME = r"^\w[\w-]{0,99}$"

Schema: TypeAlias = "dict[str, Any]"
Make: TypeAlias = Callable[[Any], Any]
"""Makes the part of a spec."""


class Wrong(Exception):
    """A value is wrong, and the error has been noted."""


class ConfigReading:
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
        paths: those that were read, with their places, until the part whose arguments they are takes them.
        recorded: whether it is a run's, of which secrets are looked for only when something is built of them.
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
        self.paths: list[tuple[Located, str]] = []
        self.recorded = False

    def top(self, key: str, kind: type[Any]) -> Any:
        """The value of a key at the top of the file; an empty one where it is missing or of another kind."""
        node = self.root.follow([key])
        return node.value if node is not self.root and isinstance(node.value, kind) else kind()

    def of(self, root: Located) -> ConfigReading:
        """A reading of the same file with other values in it."""
        reading = ConfigReading(root, self.base)
        reading.local, reading.files, reading.unread = self.local, self.files, self.unread
        reading.recorded = self.recorded
        return reading

    @property
    def models(self) -> Mapping[str, Located]:
        """The shared models, as they are written."""
        models: Mapping[str, Located] = self.top("models", dict)
        return models

    def absolute(self, written: str) -> Path:
        """A path of the file."""
        return Path(os.path.normpath(self.base / os.path.expanduser(written)))

    def wrong(self, node: Located, message: str, *steps: str | int) -> Wrong:
        """Note what is wrong with a value, or with what should stand some steps below it."""
        where = node.follow(steps).where
        path = ".".join(map(str, (*node.path, *steps)))
        self.errors.append((where, ConfigError(message, where=where, path=path)))
        return Wrong()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raises: Wrong: something was noted meanwhile; so all that is wrong is noted before it is refused."""
        noted = len(self.errors)
        yield
        if len(self.errors) > noted:
            raise Wrong

    def broken(self, node: Located, error: DraftVerifyError) -> Wrong:
        """Note an error of a plugin together with the place that names it."""
        message = ": ".join(filter(None, (node.where, node.dotted, str(error))))
        self.errors.append((node.where, type(error)(message)))
        return Wrong()


class Form(ABC):
    """How a value is written."""

    @abstractmethod
    def check(self, node: Located, reading: ConfigReading) -> Any:
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

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        """Whether a written value, or checked data, is meant as this form rather than another.

        Args:
            value: without its places.
            models: the names of the shared models.
        """
        return False


class AnyValue(Form):
    """Any value, which is checked elsewhere: it is handed on with its places."""

    def check(self, node: Located, reading: ConfigReading) -> Located:
        return node

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {}


@dataclass(frozen=True)
class Plain(Form):
    """Plain data of a type that pydantic can check.

    Args:
        annotation: the type.
        expected: what should stand there, in words; pydantic's when empty.

    Raises:
        PydanticUserError: when it cannot, as the form is made.
    """

    annotation: Any
    expected: str = ""
    adapter: TypeAdapter[Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adapter", TypeAdapter(self.annotation))

    def check(self, node: Located, reading: ConfigReading) -> Any:
        plain = node.plain()
        if secret := SECRET_IN_JSON.search(json.dumps(plain)):
            takes = "only parameters of type Secret read the environment"
            raise reading.wrong(node, f"{secret[1]} stands where no secret is taken; {takes}")
        try:
            value = self.build(plain)
        except ValidationError as error:
            if self.expected:
                raise reading.wrong(node, f"should be {self.expected}, not {shown(node)}") from error
            raise _refused(error, node, reading) from error
        return value if isinstance(value, float) else plain  # 2 and 2.0 are the same number

    def build(self, value: Any, make: Make | None = None) -> Any:
        """The value as the annotated type (a list as a tuple, say).

        Raises:
            ValidationError: it is not of that type.
        """
        return self.adapter.validate_json(json.dumps(value), strict=True)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        schema = self.adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        definitions.update({f"{name}.{key}": inner for key, inner in schema.pop("$defs", {}).items()})
        return schema

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        try:
            self.build(value)
        except (ValidationError, TypeError):  # the latter of data that holds a part
            return False
        return True


@dataclass(frozen=True)
class FilePath(Form):
    """A path, relative to the config's directory."""

    def check(self, node: Located, reading: ConfigReading) -> Any:
        if not isinstance(node.value, str):
            raise reading.wrong(node, f"should be a path, not {shown(node)}")
        reading.paths.append((node, str(reading.absolute(node.value))))
        return reading.paths[-1][1]

    def build(self, value: Any, make: Make) -> Path:
        return Path(value)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "string", "description": "a path, relative to the config"}

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return isinstance(value, str) and value.startswith(("./", "../", "/", "~"))


def is_unset(value: Any) -> bool:
    """Whether a value names an environment variable that is not there."""
    named = SECRET.fullmatch(value) if isinstance(value, str) else None
    return named is not None and named[1] not in os.environ


@dataclass(frozen=True)
class Secreted(Form):
    """A secret, given as `${NAME}`."""

    def check(self, node: Located, reading: ConfigReading) -> Any:
        if not self.means(node.value):
            message = "is a secret: write ${NAME}, the name of an environment variable that holds it"
            raise reading.wrong(node, message)
        try:
            if not reading.recorded:
                self.build(node.value)
        except ConfigError as error:
            raise reading.wrong(node, error.message) from error
        return node.value

    def build(self, value: Any, make: Make | None = None) -> Secret:
        """What the environment holds now.

        Raises:
            ConfigError: it holds nothing of that name.
        """
        name = value[2:-1]
        if is_unset(value):
            raise ConfigError(f"the environment variable {name} is not set; export {name}=… first")
        return Secret(os.environ[name])

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        pattern = f"^{SECRET.pattern}$"
        return {"type": "string", "pattern": pattern, "description": "${NAME} of an environment variable"}

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return isinstance(value, str) and SECRET.fullmatch(value) is not None


class StoreUrl(Form):
    """The URL of a database, in which `${NAME}` stands for what the environment holds."""

    def check(self, node: Located, reading: ConfigReading) -> Any:
        if not isinstance(node.value, str):
            raise reading.wrong(node, f"should be the URL of a database, not {shown(node)}")
        try:
            if store_url(node.value).startswith("postgresql"):
                return node.value
        except ConfigError as error:
            raise reading.wrong(node, error.message) from error
        form = "is not the URL of a PostgreSQL database (postgresql://user:${PASSWORD}@host/database)"
        raise reading.wrong(node, f"{form}; without one the records are in a file of the run directory")

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "string", "description": "postgresql://user:${PASSWORD}@host/database"}


@dataclass(frozen=True)
class ListForm(Form):
    """A list of something that is no plain data.

    Args:
        element: the form of what it holds.
        container: what is built of the list.
        least: how many it holds at least.
    """

    element: Form
    container: Callable[[list[Any]], Any] = list
    least: int = 0

    def check(self, node: Located, reading: ConfigReading) -> list[Any]:
        _check_size(node, reading, "should be a list", list, self.least)
        places = ((index, self.element, inner) for index, inner in enumerate(node.value))
        return list(check_each(places, reading).values())

    def build(self, value: Any, make: Make) -> Any:
        return self.container([self.element.build(inner, make) for inner in value])

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.element.schema(definitions, name), **least}

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return isinstance(value, list)


@dataclass(frozen=True)
class Keyed(Form):
    """A mapping from text to something that is no plain data.

    Args:
        element: the form of its values.
        names: whether its keys are names, words that can stand in a dotted path.
        least: how many keys at least.
        mapping: what is said of something else.
    """

    element: Form
    names: bool = False
    least: int = 0
    mapping: str = "should be a mapping"

    def check(self, node: Located, reading: ConfigReading) -> dict[str, Any]:
        _check_size(node, reading, self.mapping, dict, self.least)
        for key in node.value if self.names else ():
            if not re.search(NAME, key):
                pattern = "a word of at most 100 letters, digits, _ and -"
                reading.wrong(node, f"the name {key!r} should be {pattern}", key)
        return check_each(((key, self.element, inner) for key, inner in node.value.items()), reading)

    def build(self, value: Any, make: Make) -> dict[str, Any]:
        return {key: self.element.build(inner, make) for key, inner in value.items()}

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        keys = {"propertyNames": {"pattern": NAME}} if self.names else {}
        least = {"minProperties": self.least} if self.least else {}
        inner = self.element.schema(definitions, name)
        return {"type": "object", "additionalProperties": inner, **keys, **least}

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return isinstance(value, dict) and "use" not in value


def _check_size(node: Located, reading: ConfigReading, message: str, kind: type[Sized], least: int) -> None:
    if not isinstance(node.value, kind):
        raise reading.wrong(node, f"{message}, not {shown(node)}")
    if len(node.value) < least:
        raise reading.wrong(node, f"{message}, and not an empty one")


def check_each(places: Iterable[tuple[Any, Form, Located]], reading: ConfigReading) -> dict[Any, Any]:
    """The data at several places; what is wrong with each is noted before any is refused.

    Raises:
        Wrong: one of them is.
    """
    data, wrong = {}, False
    for place, form, node in places:
        try:
            data[place] = form.check(node, reading)
        except Wrong:
            wrong = True
    if wrong:
        raise Wrong
    return data


def _refused(error: ValidationError, node: Located, reading: ConfigReading) -> Wrong:
    """Note what pydantic refused, once per place."""
    messages: dict[tuple[str | int, ...], list[str]] = {}
    for detail in error.errors(include_url=False):
        refused = node.follow(detail["loc"])
        steps, key = refused.path[len(node.path) :], detail["loc"][-1:]
        if detail["type"] == "missing":
            steps, message = (*steps, *key), "is missing"
        elif detail["type"] == "extra_forbidden":
            message = f"unknown key {key[0]!r}"
        else:
            message = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
            message = message.replace("a valid array", "a list").replace("a valid dictionary", "a mapping")
            message += f", not {shown(refused)}"
        messages.setdefault(steps, []).append(message)
    for steps, texts in messages.items():
        reading.wrong(node, " or ".join(dict.fromkeys(texts)), *steps)
    return Wrong()
