"""What a component's constructor takes, read from its signature: the one source of its YAML form and its JSON schema.

Every annotation becomes a `Form`. Plain data is checked by pydantic, strictly ("8" is no integer). A class that is
no plain data (a protocol, a model, another component) is a place for a part: its value in a config is a name from
`models:` or an inline `{use: …}`. The file's own keys are read from signatures in the same way (see `format`).
"""

from __future__ import annotations

import collections.abc
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Union, get_args, get_origin

from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from draftverify import plugins, protocols, values
from draftverify.bench.config.forms import (
    Either,
    FilePath,
    Form,
    Keyed,
    Listed,
    Make,
    Plain,
    Reading,
    Schema,
    Secreted,
    Wrong,
    check_each,
    shown,
)
from draftverify.bench.config.located import Located
from draftverify.bench.config.specs import ComponentSpec
from draftverify.errors import ConfigError, DraftVerifyError, PluginError
from draftverify.plugins import PartsFile, Role, did_you_mean, roles_of
from draftverify.secret import Secret

__all__ = [
    "Compared",
    "Component",
    "Function",
    "Model",
    "Parameter",
    "Part",
    "Record",
    "form_of",
    "keys_schema",
    "parameters",
    "summary",
]

REQUIRED: Any = inspect.Parameter.empty

SHARED: frozenset[Role] = frozenset({"generator", "verifier"})
"""The parts of a pipeline that may be named under `models`, where other parts are given them too."""


@dataclass(frozen=True)
class Parameter:
    """One argument of a component.

    Args:
        name: its key in a config.
        annotation: as written.
        form: how its value looks in a config.
        default: REQUIRED when there is none.
        description: from the docstring's Args.
    """

    name: str
    annotation: Any
    form: Form
    default: Any = REQUIRED
    description: str = ""

    @property
    def required(self) -> bool:
        """Whether a config must give it."""
        return self.default is REQUIRED


class Component(Form):
    """A part, written `{use: NAME, …}`.

    Args:
        role: in which its name is looked up.
    """

    roles: tuple[Role, ...]

    def __init__(self, role: Role) -> None:
        self.roles = (role,)

    def check(self, node: Located, reading: Reading) -> Any:
        if isinstance(node.value, str) and node.value in reading.models and self.roles[0] in SHARED:
            spec = Model("model").check(reading.models[node.value], reading)
            if why := plugins.unfit(spec.target, self.roles[0]):
                raise reading.wrong(node, f"the model {node.value} {why}")
            return spec
        use = node.value.get("use") if isinstance(node.value, dict) else None
        if use is None or not isinstance(use.value, str):
            name = node.value if isinstance(node.value, str) else "NAME"
            raise reading.wrong(node, f"a part is written {{use: {name}, …}}, not {shown(node)}")
        role, file, target = self._find(use, reading)
        if needed := self.refuses(target):
            raise reading.wrong(use, f"{use.value} is a {target.__name__}; a {needed} is needed here")
        try:
            takes = parameters(target)
        except DraftVerifyError as error:
            raise reading.broken(use, error) from error
        if file is not None and inspect.isfunction(target) and next(iter(takes), "") in ("context", "task"):
            what = f"{use.value} is a function of ({', '.join(takes)}), not one that returns a part"
            raise reading.wrong(use, f"{what}; write {{use: python, function: {use.value}}}")
        given = _check_keys(node, takes, reading, use.value)
        # What a part writes into is no input of its.
        read = [(key, value) for key, value in given.items() if key not in getattr(target, "writes", ())]
        paths = [path for key, value in read for path in takes[key].form.files(value)]
        files = {os.path.relpath(path, reading.base): path for path in paths}
        return ComponentSpec(role, use.value, given, file, files)

    def _find(self, use: Located, reading: Reading) -> tuple[Role, PartsFile | None, Any]:
        """The first role that has the name, and what stands behind it."""
        name = use.value
        if name in reading.local:
            file, target = reading.local[name]
            fit = [role for role in self.roles if not plugins.unfit(target, role)]
            if not fit:
                raise reading.wrong(use, f"{name} {plugins.unfit(target, *self.roles)}")
            return fit[0], file, target
        known = {plugin.role for plugin in plugins.installed() if plugin.name == name}
        found = [role for role in self.roles if role in known]
        if found:
            try:
                return found[0], None, plugins.load(found[0], name)
            except DraftVerifyError as error:
                raise reading.broken(use, error) from error
        stem, _, own = name.partition(".")
        if stem in reading.unread:
            raise Wrong  # what is wrong with the file has been noted
        if any(file.stem == stem for file in reading.files):
            near = did_you_mean(name, [each for each in reading.local if each.startswith(f"{stem}.")])
            raise reading.wrong(use, f"{stem}.py defines no {own!r}{near}")
        local = [
            each
            for each, (_, target) in reading.local.items()
            if isinstance(target, type) and {*self.roles} & {*plugins.roles_of(target)}
        ]
        raise reading.wrong(use, plugins.unknown(self.roles, name, local=local))

    def refuses(self, target: Any) -> str:
        """What is needed instead of this class, as far as can be seen before it is built; "" when it fits."""
        return ""

    def build(self, value: Any, make: Make) -> Any:
        return make(value)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        choices: list[Schema] = [{"$ref": f"#/$defs/{role}"} for role in self.roles]
        if self.roles[0] in SHARED and len(self.roles) == 1:
            choices.append({"type": "string", "description": "a name under models"})
        return choices[0] if len(choices) == 1 else {"anyOf": choices}

    def means(self, node: Located, reading: Reading) -> bool:
        return isinstance(node.value, dict) and "use" in node.value


class Model(Component):
    """A model that parts share; read once, however many of them name it."""

    def check(self, node: Located, reading: Reading) -> ComponentSpec:
        name = str(node.path[-1])
        if name in reading.resolving:
            circle = " → ".join([*reading.resolving[reading.resolving.index(name) :], name])
            raise reading.wrong(node, f"these models refer to each other in a circle: {circle}")
        if name not in reading.specs:
            reading.specs[name] = None
            reading.resolving.append(name)
            try:
                reading.specs[name] = super().check(node, reading)
            finally:
                reading.resolving.pop()
        spec = reading.specs[name]
        if spec is None:
            raise Wrong
        return spec


@dataclass(frozen=True)
class Part(Component):
    """Another component, of a class or protocol that `annotation` names: in place, or by its name under `models`."""

    annotation: Any

    @property
    def roles(self) -> tuple[Role, ...]:  # type: ignore[override]
        """The roles that fit: by its methods, and always a model, since nothing tells what methods those have."""
        if not _is_class(self.annotation):
            return ("stopping",)  # a Callable
        return (*roles_of(self.annotation), "model")

    def check(self, node: Located, reading: Reading) -> ComponentSpec:
        name = node.value
        if not isinstance(name, str) or "model" not in self.roles:
            spec: ComponentSpec = super().check(node, reading)
            return spec
        if name not in reading.models:
            near = did_you_mean(name, reading.models)
            raise reading.wrong(
                node, f"there is no {name!r} under models{near}; a part is a name from models, or {{use: …}}"
            )
        spec = Model("model").check(reading.models[name], reading)
        target = spec.target
        if needed := self.refuses(target):
            raise reading.wrong(node, f"the model {name} is a {target.__name__}; a {needed} is needed here")
        return spec

    def refuses(self, target: Any) -> str:
        if not inspect.isclass(target) or not _is_class(self.annotation):
            return ""
        if getattr(self.annotation, "_is_protocol", False):
            members = {
                name
                for base in self.annotation.__mro__[:-1]
                for name, value in vars(base).items()
                if inspect.isfunction(value)
            }
            fits = all(hasattr(target, name) for name in members - _PROTOCOL_OWN)
        else:
            fits = issubclass(target, self.annotation)
        return "" if fits else str(self.annotation.__name__)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        part = super().schema(definitions, name)
        named = {"type": "string", "description": "a name under models"}
        return {"anyOf": [named, part]} if "model" in self.roles else part

    def means(self, node: Located, reading: Reading) -> bool:
        return super().means(node, reading) or (isinstance(node.value, str) and node.value in reading.models)


class Function(Component):
    """A function, written by its name: of a parts file, or of an installed package. It is handed on as it is."""

    def __init__(self) -> None:
        super().__init__("function")

    def check(self, node: Located, reading: Reading) -> ComponentSpec:
        if not isinstance(node.value, str):
            raise reading.wrong(node, f"a function is written by its name, my_parts.judge, not {shown(node)}")
        role, file, target = self._find(node, reading)
        if inspect.isclass(target):
            raise reading.wrong(node, f"{node.value} is a class; a function is needed here")
        return ComponentSpec(role, node.value, file=file)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "string", "description": "a function: of a parts file, or of an installed package"}


@dataclass(frozen=True)
class Compared(Plain):
    """A score to compare with: a number, or a part that is one, `{use: calibrated, path: FILE}`."""

    def check(self, node: Located, reading: Reading) -> Any:
        part = Component("threshold")
        return part.check(node, reading) if part.means(node, reading) else super().check(node, reading)

    def build(self, value: Any, make: Make | None = None) -> Any:
        if make is not None and isinstance(value, (ComponentSpec, Mapping)):
            return make(value)
        return super().build(value)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {
            "anyOf": [super().schema(definitions, name), Component("threshold").schema(definitions, name)]
        }


_PROTOCOL_OWN = frozenset({"__init__", "__subclasshook__"})


@dataclass(frozen=True)
class Record(Form):
    """A mapping with the keys of the format itself.

    Args:
        signature: its parameters are the keys.
        make: called with the keys that are given; what it returns is the data, what it raises the value's error.
        without: parameters that are no keys here.
        partial: whether any of them may be missing.
    """

    signature: Callable[..., None]
    make: Callable[..., Any]
    without: frozenset[str] = frozenset()
    partial: bool = False

    @property
    def takes(self) -> Mapping[str, Parameter]:
        """The keys."""
        keys = {key: each for key, each in parameters(self.signature).items() if key not in self.without}
        if self.partial:
            keys = {key: replace(each, default=None) if each.required else each for key, each in keys.items()}
        return keys

    def check(self, node: Located, reading: Reading) -> Any:
        if not isinstance(node.value, dict):
            raise reading.wrong(node, f"should be a mapping, not {shown(node)}")
        given = _check_keys(node, self.takes, reading)
        try:
            return self.make(**given)
        except DraftVerifyError as error:
            if isinstance(error, ConfigError) and error.path:
                raise reading.wrong(node, error.message, error.path) from error
            raise reading.wrong(node, str(error)) from error

    def build(self, value: Any, make: Make) -> Any:
        return make(value)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        made = keys_schema(self.takes, definitions, f"{name}.{self.signature.__name__}".lstrip("."))
        return {"description": summary(self.signature), **made}


def _check_keys(
    node: Located, takes: Mapping[str, Parameter], reading: Reading, use: str = ""
) -> dict[str, Any]:
    """The arguments that a mapping's keys give; null is as good as leaving out what is None by default."""
    wrong: Wrong | None = None
    places = []
    for key, inner in node.value.items():
        if key in takes:
            if inner.value is not None or takes[key].default is not None:
                places.append((key, takes[key].form, inner))
        elif key != "use" or not use:
            near = did_you_mean(key, takes) if takes else f"; {use} takes no arguments"
            wrong = reading.wrong(node, f"unknown key {key!r}{f' of {use}' if use else ''}{near}", key)
    for key, parameter in takes.items():
        if parameter.required and key not in node.value:
            meaning = f": {parameter.description}" if parameter.description else ""
            wrong = reading.wrong(node, f"is missing; {use} needs it{meaning}" if use else "is missing", key)
    found = check_each(places, reading)
    if wrong is not None:
        raise wrong
    return found


def keys_schema(
    takes: Mapping[str, Parameter], definitions: dict[str, Schema], name: str, **fixed: Schema
) -> Schema:
    """The schema of a mapping.

    Args:
        takes: its keys.
        definitions: takes the definitions of their values' own.
        name: that those begin with.
        fixed: schemas of further keys, all of them required.
    """
    properties: dict[str, Any] = {**fixed}
    for key, parameter in takes.items():
        found = dict(parameter.form.schema(definitions, f"{name}.{key}"))
        if not parameter.required and parameter.default is None:
            found = {
                "anyOf": [found, {"type": "null"}]
            }  # as good as leaving it out, and takes back a default
        if parameter.description:
            found["description"] = parameter.description
        if not parameter.required and parameter.default is not None:
            with suppress(PydanticSerializationError):
                found["default"] = to_jsonable_python(parameter.default)
        properties[key] = found
    return {
        "type": "object",
        "properties": properties,
        "required": [*fixed, *(key for key, parameter in takes.items() if parameter.required)],
        "additionalProperties": False,
    }


@lru_cache(maxsize=512)
def parameters(target: Callable[..., Any]) -> Mapping[str, Parameter]:
    """The parameters of a component class, or of a function that returns a component.

    Raises:
        PluginError: its signature cannot stand for a config: an annotation does not resolve at run time, is of a
            kind that has no form, or an argument cannot be given by name.
    """
    name = f"{getattr(target, '__module__', '?')}.{getattr(target, '__qualname__', target)}"
    try:
        signature = inspect.signature(target)
        hints = _hints(target)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise PluginError(
            f"the signature of {name} cannot be read: {error}; its annotations must resolve at run time "
            "(import their names outside TYPE_CHECKING)"
        ) from error
    texts = _descriptions(target)
    found = {}
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY or parameter.name == "use":
            raise PluginError(f"{name} has an argument {parameter.name!r} that a config cannot give by name")
        annotation = hints.get(parameter.name, Any)
        try:
            form = form_of(annotation)
        except (PydanticUserError, TypeError, ValueError, NameError) as error:
            raise PluginError(
                f"the argument {parameter.name!r} of {name} has no form in a config: {error}"
            ) from error
        found[parameter.name] = Parameter(
            parameter.name, annotation, form, parameter.default, texts.get(parameter.name, "")
        )
    return types.MappingProxyType(found)


def form_of(annotation: Any) -> Form:
    """The form of an annotation.

    Raises:
        TypeError: parts stand where a config cannot put them.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Secret:
        return Secreted()
    if _is_class(annotation) and issubclass(annotation, PurePath):
        return FilePath()
    if collections.abc.Callable in (origin, annotation) or _has_methods(annotation):
        return Part(annotation)
    if origin is None:
        try:
            return Plain(annotation)
        except PydanticSchemaGenerationError:  # a class that is no data to pydantic
            return Part(annotation)
    if origin is typing.Literal:
        return Plain(annotation)
    if origin is typing.Annotated:
        if "threshold" in arguments[1:]:
            return Compared(annotation)
        given = next((note for note in arguments[1:] if isinstance(note, Form)), None)
        form = given or (Function() if "function" in arguments[1:] else form_of(arguments[0]))
        return Plain(annotation) if isinstance(form, Plain) else form
    forms = [form_of(each) for each in arguments if each is not Ellipsis]
    # Plain alternatives are checked together, so that pydantic says once what all of them expect.
    plain = [form.annotation for form in forms if isinstance(form, Plain)]
    if len(plain) == len(forms):
        compared = any(isinstance(form, Compared) for form in forms)
        return Compared(annotation) if compared else Plain(annotation)
    if origin in (Union, types.UnionType):
        # A path comes first: it is what a text that is meant as nothing else must be.
        rest = [form for form in forms if not isinstance(form, Plain)]
        rest.sort(key=lambda form: not isinstance(form, FilePath))
        return Either((*rest, Plain(Union[tuple(plain)])) if plain else tuple(rest))  # noqa: UP007 - built here
    kind = origin if inspect.isclass(origin) else object
    if issubclass(kind, collections.abc.Mapping) and len(arguments) == 2 and arguments[0] is str:
        return Keyed(forms[1])
    if issubclass(kind, tuple) and arguments[1:] == (Ellipsis,):
        return Listed(forms[0], tuple)
    if issubclass(kind, collections.abc.Iterable) and not issubclass(kind, tuple) and len(arguments) == 1:
        return Listed(forms[0], list if issubclass(list, kind) else kind)
    raise TypeError(f"{annotation} is no list, tuple[…, ...] or mapping from text")


def summary(target: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(target) or "").partition("\n\n")[0].split())


def _is_class(annotation: Any) -> bool:
    # Python 3.10 takes Callable[[int], int] for an instance of type.
    return inspect.isclass(annotation) and get_origin(annotation) is None


def _has_methods(annotation: Any) -> bool:
    """A dataclass or pydantic model with no methods of its own is data; with methods it is a component."""
    if not (hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "model_fields")):
        return False
    return any(
        inspect.isfunction(value) and not name.startswith("_") for name, value in vars(annotation).items()
    )


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    init = getattr(target, "__init__", None)
    of = init if inspect.isclass(target) and inspect.isfunction(init) else target
    try:
        return typing.get_type_hints(of, include_extras=True)
    except NameError:
        # draftverify's own words are known even where a module imports them for its type checker alone.
        known = {**vars(collections.abc), **vars(typing), **vars(values), **vars(protocols), "Path": Path}
        return typing.get_type_hints(of, localns=known, include_extras=True)


_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Examples?|Attributes|References|Yields|Notes?):\s*$")


def _descriptions(target: Any) -> dict[str, str]:
    """What the docstring's Args say of each argument; `a, b: text` speaks of both."""
    found: dict[str, str] = {}
    inside, names = False, list[str]()
    for line in (inspect.getdoc(target) or "").splitlines():
        if not line.startswith(" ") and line.strip():
            inside = bool((section := _SECTION.match(line)) and section[1] in ("Args", "Arguments"))
            names = []
        elif inside and (match := re.match(r"^    ([*\w]+(?:, [*\w]+)*)(?: \([^)]*\))?: (.*)$", line)):
            names = match[1].replace("*", "").split(", ")
            found.update(dict.fromkeys(names, match[2]))
        elif names and line.strip():
            for name in names:
                found[name] += " " + line.strip()
    return found
