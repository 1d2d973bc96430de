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
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Union, get_args, get_origin

from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from draftverify import plugins, protocols, values
from draftverify.bench.config import forms
from draftverify.bench.config.forms import ConfigReading, Form, Make, Plain, Schema, Wrong, check_each
from draftverify.bench.config.located import Located, shown
from draftverify.bench.config.specs import ComponentSpec
from draftverify.errors import ConfigError, DraftVerifyError, PluginError, did_you_mean
from draftverify.identity import written_by
from draftverify.plugins import PartsFile, Role, roles_of
from draftverify.secret import Secret

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

    def check(self, node: Located, reading: ConfigReading) -> Any:
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
        if kind := self.refuses(target):
            raise reading.wrong(use, f"{use.value} is a {target.__name__}; a {kind} is needed here")
        try:
            takes = parameters(target)
        except DraftVerifyError as error:
            raise reading.broken(use, error) from error
        if file is not None and inspect.isfunction(target) and next(iter(takes), "") in ("context", "task"):
            problem = f"{use.value} is a function of ({', '.join(takes)}), not one that returns a part"
            raise reading.wrong(use, f"{problem}; write {{use: python, function: {use.value}}}")
        mark, depth = len(reading.paths), len(node.path)
        arguments = _check_keys(node, takes, reading, use.value)
        paths, reading.paths[mark:] = reading.paths[mark:], []  # those of parts within it are theirs
        # What a part writes into is no input of its.
        inputs = [path for place, path in paths if place.path[depth] not in written_by(target)]
        files = {os.path.relpath(path, reading.base): path for path in inputs}
        return ComponentSpec(role, use.value, arguments, file, files)

    def _find(self, use: Located, reading: ConfigReading) -> tuple[Role, PartsFile | None, Any]:
        """The first role that has the name, and what stands behind it."""
        name = use.value
        if name in reading.local:
            file, target = reading.local[name]
            for role in self.roles:
                if not plugins.unfit(target, role):
                    return role, file, target
            raise reading.wrong(use, f"{name} {plugins.unfit(target, *self.roles)}")
        named = {plugin.role for plugin in plugins.installed() if plugin.name == name}
        for role in self.roles:
            if role in named:
                try:
                    return role, None, plugins.load(role, name)
                except DraftVerifyError as error:
                    raise reading.broken(use, error) from error
        stem, _, attribute = name.partition(".")
        if stem in reading.unread:
            raise Wrong  # what is wrong with the file has been noted
        if any(file.stem == stem for file in reading.files):
            near = did_you_mean(name, [key for key in reading.local if key.startswith(f"{stem}.")])
            raise reading.wrong(use, f"{stem}.py defines no {attribute!r}{near}")
        fits = [key for key, (_, local) in reading.local.items() if {*self.roles} & {*roles_of(local)}]
        raise reading.wrong(use, plugins.unknown(self.roles, name, local=fits))

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

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return isinstance(value, ComponentSpec) or (isinstance(value, Mapping) and "use" in value)


THRESHOLD = Component("threshold")


class Model(Component):
    """A model that parts share; read once, however many of them name it."""

    def check(self, node: Located, reading: ConfigReading) -> ComponentSpec:
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
        if (spec := reading.specs[name]) is None:
            raise Wrong
        return spec


@dataclass(frozen=True)
class PartForm(Component):
    """Another component, of a class or protocol that `annotation` names: in place, or by its name under `models`."""

    annotation: Any

    @property
    def roles(self) -> tuple[Role, ...]:  # type: ignore[override]
        """The roles that fit: by its methods, and always a model, since nothing tells what methods those have."""
        if not _is_class(self.annotation):
            return ("stopping",)  # a Callable
        return (*roles_of(self.annotation), "model")

    def check(self, node: Located, reading: ConfigReading) -> ComponentSpec:
        name = node.value
        if not isinstance(name, str) or "model" not in self.roles:
            spec: ComponentSpec = super().check(node, reading)
            return spec
        if name not in reading.models:
            near = did_you_mean(name, reading.models)
            written = "a part is a name from models, or {use: …}"
            raise reading.wrong(node, f"there is no {name!r} under models{near}; {written}")
        spec = Model("model").check(reading.models[name], reading)
        if kind := self.refuses(spec.target):
            problem = f"the model {name} is a {spec.target.__name__}; a {kind} is needed here"
            raise reading.wrong(node, problem)
        return spec

    def refuses(self, target: Any) -> str:
        kind = self.annotation
        if not inspect.isclass(target) or not _is_class(kind):
            return ""
        if not getattr(kind, "_is_protocol", False):
            return "" if issubclass(target, kind) else str(kind.__name__)
        methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction)}
        fits = all(hasattr(target, name) for name in methods - {"__init__", "__subclasshook__"})
        return "" if fits else str(kind.__name__)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        part = super().schema(definitions, name)
        named = {"type": "string", "description": "a name under models"}
        return {"anyOf": [named, part]} if "model" in self.roles else part

    def means(self, value: Any, models: Container[str] = ()) -> bool:
        return super().means(value) or (isinstance(value, str) and value in models)


class FunctionForm(Component):
    """A function, written by its name: of a parts file, or of an installed package. It is handed on as it is."""

    def __init__(self) -> None:
        super().__init__("function")

    def check(self, node: Located, reading: ConfigReading) -> ComponentSpec:
        if not isinstance(node.value, str):
            raise reading.wrong(node, f"a function is written by its name, my_parts.judge, not {shown(node)}")
        role, file, target = self._find(node, reading)
        if inspect.isclass(target):
            raise reading.wrong(node, f"{node.value} is a class; a function is needed here")
        return ComponentSpec(role, node.value, file=file)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"type": "string", "description": "a function: of a parts file, or of an installed package"}


@dataclass(frozen=True)
class Either(Form):
    """One of several forms, at least one of which is not plain.

    Args:
        choices: in the order in which they are tried; what is meant as none of them is told what the first expects.
    """

    choices: tuple[Form, ...]

    def meant(self, value: Any, models: Container[str] = ()) -> Form:
        """Which of them a value without places, or checked data, is meant as."""
        return next((form for form in self.choices if form.means(value, models)), self.choices[0])

    def check(self, node: Located, reading: ConfigReading) -> Any:
        return self.meant(node.plain(), reading.models).check(node, reading)

    def build(self, value: Any, make: Make) -> Any:
        return self.meant(value).build(value, make)

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        return {"anyOf": [form.schema(definitions, name) for form in self.choices]}


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
        takes = {key: value for key, value in parameters(self.signature).items() if key not in self.without}
        required = [key for key, value in takes.items() if value.required and self.partial]
        return {**takes, **{key: replace(takes[key], default=None) for key in required}}

    def check(self, node: Located, reading: ConfigReading) -> Any:
        if not isinstance(node.value, dict):
            raise reading.wrong(node, f"should be a mapping, not {shown(node)}")
        arguments = _check_keys(node, self.takes, reading)
        try:
            return self.make(**arguments)
        except DraftVerifyError as error:
            if isinstance(error, ConfigError) and error.path:
                raise reading.wrong(node, error.message, error.path) from error
            raise reading.wrong(node, str(error)) from error

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        keys = keys_schema(self.takes, definitions, f"{name}.{self.signature.__name__}".lstrip("."))
        return {"description": summary(self.signature), **keys}


def _check_keys(
    node: Located, takes: Mapping[str, Parameter], reading: ConfigReading, use: str = ""
) -> dict[str, Any]:
    """The arguments that a mapping's keys give; null is as good as leaving out what is None by default."""
    with reading.together():
        for key in node.value:
            if key not in takes and not (use and key == "use"):
                near = did_you_mean(key, takes) if takes else f"; {use} takes no arguments"
                reading.wrong(node, f"unknown key {key!r}{f' of {use}' if use else ''}{near}", key)
        for key, parameter in takes.items():
            if parameter.required and key not in node.value:
                meaning = f": {parameter.description}" if parameter.description else ""
                reading.wrong(node, f"is missing; {use} needs it{meaning}" if use else "is missing", key)
        written = [(key, takes[key], inner) for key, inner in node.value.items() if key in takes]
        present = (item for item in written if item[1].default is not None or item[2].value is not None)
        return check_each(((key, parameter.form, inner) for key, parameter, inner in present), reading)


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
        schema = dict(parameter.form.schema(definitions, f"{name}.{key}"))
        if parameter.default is None:  # null is as good as leaving it out, and takes back a default
            schema = {"anyOf": [schema, {"type": "null"}]}
        if parameter.description:
            schema["description"] = parameter.description
        if not parameter.required and parameter.default is not None:
            with suppress(PydanticSerializationError):
                schema["default"] = to_jsonable_python(parameter.default)
        properties[key] = schema
    required = [*fixed, *(key for key, parameter in takes.items() if parameter.required)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


THRESHOLDS = ("threshold", "vote share")


@lru_cache(maxsize=512)
def threshold_of(rule: Callable[..., Any], kinds: tuple[str, ...] = THRESHOLDS) -> str | None:
    """The name of the argument of a rule's class that is a `Threshold` or a `VoteShare`; None where it has none."""
    return next((name for name, hint in _hints(rule).items() if _is_threshold(hint, kinds)), None)


def _is_threshold(hint: Any, kinds: tuple[str, ...]) -> bool:
    notes = getattr(hint, "__metadata__", ())
    return any(note in kinds for note in notes) or any(_is_threshold(arg, kinds) for arg in get_args(hint))


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
        mend = "its annotations must resolve at run time (import their names outside TYPE_CHECKING)"
        raise PluginError(f"the signature of {name} cannot be read: {error}; {mend}") from error
    texts = _descriptions(target)
    makers = {field.name: field.default_factory for field in fields(target)} if is_dataclass(target) else {}
    takes = {}
    for key, argument in signature.parameters.items():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        if argument.kind is argument.POSITIONAL_ONLY or key == "use":
            raise PluginError(f"{name} has an argument {key!r} that a config cannot give by name")
        annotation = hints.get(key, Any)
        try:
            form = form_of(annotation)
        except (PydanticUserError, TypeError, ValueError, NameError) as error:
            raise PluginError(f"the argument {key!r} of {name} has no form in a config: {error}") from error
        maker = makers.get(key, MISSING)
        default = argument.default if maker is MISSING else maker()
        takes[key] = Parameter(key, annotation, form, default, texts.get(key, ""))
    return types.MappingProxyType(takes)


def form_of(annotation: Any) -> Form:
    """The form of an annotation.

    Raises:
        TypeError: parts stand where a config cannot put them.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Secret:
        return forms.Secreted()
    if _is_class(annotation) and issubclass(annotation, PurePath):
        return forms.FilePath()
    if collections.abc.Callable in (origin, annotation) or _has_methods(annotation):
        return PartForm(annotation)
    if origin is None:
        try:
            return Plain(annotation)
        except PydanticSchemaGenerationError:  # a class that is no data to pydantic
            return PartForm(annotation)
    if origin is typing.Literal:
        return Plain(annotation)
    if origin is typing.Annotated:
        for note in arguments[1:]:
            if isinstance(note, Form):
                return note
            if note == "function":
                return FunctionForm()
            if note == "metric":
                return Component("metric")
            if note in THRESHOLDS:
                return Either((Plain(annotation), THRESHOLD))
        form = form_of(arguments[0])
        return Plain(annotation) if isinstance(form, Plain) else form
    inner = [form_of(argument) for argument in arguments if argument is not Ellipsis]
    if all(isinstance(form, Plain) for form in inner):
        return Plain(annotation)
    if origin in (Union, types.UnionType):
        choices = [c for form in inner for c in (form.choices if isinstance(form, Either) else (form,))]
        special = [form for form in choices if not isinstance(form, Plain)]
        # Plain alternatives are checked together, so that pydantic says once what all of them expect.
        plain = tuple(form.annotation for form in choices if isinstance(form, Plain))
        together = [Plain(Union[plain])] if plain else []  # noqa: UP007 - built here
        if THRESHOLD in special:
            return Either((*together, *special))
        # A path comes first: it is what a text that is meant as nothing else must be.
        special.sort(key=lambda form: not isinstance(form, forms.FilePath))
        return Either((*special, *together))
    kind = origin if inspect.isclass(origin) else object
    if issubclass(kind, collections.abc.Mapping) and len(arguments) == 2 and arguments[0] is str:
        return forms.Keyed(inner[1])
    if issubclass(kind, tuple) and arguments[1:] == (Ellipsis,):
        return forms.ListForm(inner[0], tuple)
    if issubclass(kind, collections.abc.Iterable) and not issubclass(kind, tuple) and len(arguments) == 1:
        return forms.ListForm(inner[0], list if issubclass(list, kind) else kind)
    raise TypeError(f"{annotation} is no list, tuple[…, ...] or mapping from text")


def summary(target: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(target) or "").partition("\n\n")[0].split())


def _is_class(annotation: Any) -> bool:
    return inspect.isclass(annotation) and get_origin(annotation) is None


def _has_methods(annotation: Any) -> bool:
    """A dataclass or pydantic model with no methods of its own is data; with methods it is a component."""
    data = hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "model_fields")
    return data and any(inspect.isfunction(v) for k, v in vars(annotation).items() if not k.startswith("_"))


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    init = getattr(target, "__init__", None)
    source = init if inspect.isclass(target) and inspect.isfunction(init) else target
    try:
        return typing.get_type_hints(source, include_extras=True)
    except NameError:
        # draftverify's own words are known even where a module imports them for its type checker alone.
        names = {**vars(collections.abc), **vars(typing), **vars(values), **vars(protocols), "Path": Path}
        return typing.get_type_hints(source, localns=names, include_extras=True)


_ARGS = re.compile(r"^Arg(?:ument)?s:\s*\n((?:(?: .*)?\n)*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}([*\w]+(?:, [*\w]+)*)(?: \([^)]*\))?: (.*(?:\n {5,}.*|\n\s*$)*)", re.MULTILINE)


def _descriptions(target: Any) -> dict[str, str]:
    """What the docstring's Args say of each argument; `a, b: text` speaks of both."""
    sections = _ARGS.findall((inspect.getdoc(target) or "") + "\n")
    arguments = _ARGUMENT.findall("".join(sections))
    return {
        name: " ".join(text.split())
        for names, text in arguments
        for name in names.replace("*", "").split(", ")
    }
