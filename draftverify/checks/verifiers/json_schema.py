"""JSON documents of a given schema: `json_schema`."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from functools import cached_property
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from msgspec.structs import replace

from draftverify.checks.verifiers.text import NotJson, json_of, shown
from draftverify.engine.failures import failed
from draftverify.engine.functions import each_item
from draftverify.errors import ConfigError
from draftverify.traits import VerifierTraits
from draftverify.values import Check, Context, Failure, Proposal, Task, Verification, utf8

_deadline: ContextVar[float] = ContextVar("deadline", default=inf)

SHOWN = 5
"""How many places feedback names."""
SECONDS = 1.0
"""For one text and a pattern."""
ALL_SECONDS = 5.0
"""For one item: references can double the work with every line of a schema."""
LONGEST = 200
"""Characters of one place's message."""


class JsonSchema:
    """Passes JSON documents that a schema allows; of the others it tells each place, and what was expected there.

    An item that is text is read as one JSON document, with nothing but space around it; another item is the value
    itself. The score is minus the number of places where the schema is broken; a text that is no JSON has none.
    Nor has one that is rejected for lists nested more than 100 deep, a number beyond a float, or one too large for
    `multipleOf`.

    `format` is checked for the formats that the package jsonschema knows without further ones (date, email, ipv4, …). A
    `$ref` leads to places in the schema itself and to the metaschemas; nothing is fetched.

    Args:
        schema: of any draft, told by its `$schema`; 2020-12 without one. In place, or the path of a JSON file.

    References:
        json-schema.org; the package jsonschema, which does the checking.
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset(), free=True)

    def __init__(self, schema: Mapping[str, Any] | Path) -> None:
        self.schema = schema

    def open(self) -> None:
        """Read the schema, and check it.

        Raises:
            ConfigError: the file cannot be read, or the schema is none, with the place in it.
        """
        self._validator  # noqa: B018

    def prepare(self, task: Task) -> Task:
        """The task with the schema as its field `json_schema`, where it has none: a model may be held to it."""
        if "json_schema" in task.input or not isinstance(self._schema, Mapping):
            return task
        return replace(task, input={**task.input, "json_schema": self._schema})

    @cached_property
    def _schema(self) -> Any:
        return _read(self.schema) if isinstance(self.schema, Path) else self.schema

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import extend, validator_for
        from referencing import Registry

        schema = self._schema
        if isinstance(schema, Mapping) and not isinstance(schema.get("$schema", ""), str):
            raise ConfigError(
                f"$schema is {shown(schema['$schema'])}; the address of a draft is needed, or nothing",
                path="schema.$schema",
            )
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            place = ".".join(map(str, ("schema", *error.absolute_path)))
            raise ConfigError(f"this is no JSON schema: {error.message}", path=place) from error
        except RecursionError as error:
            raise ConfigError("this schema is nested too deep", path="schema") from error
        bounded: dict[str, Callable[..., Iterator[Any]]] = {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "uniqueItems": _unique_items,
        }
        for name, rule in kind.VALIDATORS.items():
            if name.endswith(("$ref", "Ref")):
                bounded[name] = _in_time(rule)
            elif name in ("additionalProperties", "unevaluatedProperties"):
                bounded[name] = _of_other_names(rule)
        checking = extend(kind, bounded)
        # An empty registry: the default one would fetch what a $ref names.
        return checking(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        return each_item(context, proposal, self.check)

    def check(self, item: Any) -> Check:
        """The word on one item; a timeout where it takes longer than `ALL_SECONDS`."""
        _deadline.set(monotonic() + ALL_SECONDS)
        try:
            value = json_of(item) if type(item) is str else item
            errors = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
        except NotJson as error:
            feedback = f"the answer must be one JSON document and nothing else: {error}"
            return Check("reject", reason="json", feedback=utf8(feedback))
        except OverflowError:  # an integer of hundreds of digits, divided by a float
            return Check("reject", reason="multipleOf", feedback="a number in the answer is too large")
        except Exception as error:  # of the checker: a reference that leads nowhere, or round in a circle
            return failed(Failure.of(error))
        if not errors:
            return Check("pass", score=0.0)
        messages = [_message(error) for error in islice(errors, SHOWN)]
        if len(errors) > SHOWN:
            messages.append(f"… and {len(errors) - SHOWN} more")
        # The schema `false` allows nothing, by no keyword.
        return Check("reject", -float(len(errors)), errors[0].validator or "false", utf8("\n".join(messages)))


def _message(error: Any) -> str:
    """A place and what was expected there; of alternatives, what the nearest one lacks."""
    from jsonschema.exceptions import best_match

    nearest = best_match(iter([error])) or error
    message, value = nearest.message, shown(nearest.instance)
    if nearest.validator is None:  # the schema `false`, for which jsonschema tells the place above alone
        message = f"nothing is allowed where {value} stands"
    elif len(message) > LONGEST:  # it quotes the value whole
        message = f"{value} breaks {nearest.validator}: {shown(nearest.validator_value, 100)}"
    return f"{nearest.json_path}: {message}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"the schema cannot be read: {error.strerror or error}", path="schema", where=str(path)
        ) from error
    except ValueError as error:
        raise ConfigError(f"the schema is no JSON: {error}", path="schema", where=str(path)) from error


def _matches(pattern: str, text: str) -> bool:
    """Whether a text matches, in bounded time: it may have been written so that it takes without end.

    Raises:
        TimeoutError: it took longer.
    """
    import regex

    seconds = min(SECONDS, _seconds_left())
    return regex.search(pattern, text, timeout=seconds, concurrent=True) is not None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `pattern`."""
    from jsonschema import ValidationError

    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `patternProperties`."""
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for name in [name for name in instance if _matches(pattern, name)]:
                yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def _of_other_names(keyword: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A keyword of the properties that nothing else names: it is told which fit a pattern, and tries none itself."""

    def told(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties", ())
        if patterns and validator.is_type(instance, "object"):
            named = [name for name in instance if any(_matches(pattern, name) for pattern in patterns)]
            others = {name: rule for name, rule in schema.items() if name != "patternProperties"}
            schema = {**others, "properties": {**schema.get("properties", {}), **dict.fromkeys(named, True)}}
        yield from keyword(validator, value, instance, schema)

    return told


def _unique_items(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `uniqueItems`, in time that does not grow with the square of a list."""
    from jsonschema import ValidationError

    if unique and validator.is_type(instance, "array") and len(set(map(_key, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _key(value: Any) -> Hashable:
    """The same for JSON values that are equal: 1 and 1.0, mappings in any order; true is not 1."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, (list, tuple)):
        return (list, *map(_key, value))
    if isinstance(value, Mapping):
        return dict, frozenset((name, _key(entry)) for name, entry in value.items())
    key: Hashable = value
    return key


def _in_time(keyword: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A keyword that begins only while the item has time left."""

    def bounded(*arguments: Any) -> Iterator[Any]:
        _seconds_left()
        yield from keyword(*arguments)

    return bounded


def _seconds_left() -> float:
    """What the item under check has left.

    Raises:
        TimeoutError: nothing.
    """
    left = _deadline.get() - monotonic()
    if left <= 0:
        raise TimeoutError(f"the schema was not done with within {ALL_SECONDS:g} s")
    return left
