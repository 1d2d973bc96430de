"""The JSON schema (draft 2020-12) of a config, for editors: the fixed part and every installed part's arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from draftverify.bench.config.format import FILE, INNER
from draftverify.bench.config.forms import Schema
from draftverify.bench.config.parameters import keys_schema, parameters, summary
from draftverify.errors import DraftVerifyError
from draftverify.plugins import ROLES, examine, roles_of
from draftverify.values import EMPTY

__all__ = ["schema"]

# A class of a parts file. Installed parts are named in lower case, so the two do not meet.
LOCAL = r"^[A-Za-z_]\w*\.[A-Z]\w*$"


def schema(local: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
    """The schema of a whole config file, with the parts that are installed now and can be imported.

    Args:
        local: classes of a config's own parts files, by their names in it (`bench.config.experiment.parts_of`).
    """
    definitions: dict[str, Schema] = {}
    whole = FILE.schema(definitions, "")
    definitions["pipeline"] = INNER.schema(definitions, "")
    names: dict[str, list[tuple[str, str]]] = {
        role: [] for role in ROLES if role not in ("function", "trainer")
    }
    for role, use, load in (*_installed(), *_own(local)):
        if role not in names:
            continue
        name = f"{role}.{use}"
        try:
            target = load()
            keys = keys_schema(parameters(target), definitions, name, use={"const": use})
        except DraftVerifyError:
            continue  # `draftverify plugins NAME` tells; a schema of the rest is of more use than none
        definitions[name] = {"description": summary(target), **keys}
        names[role].append((use, summary(target)))
    for role, known in names.items():
        definitions[role] = {
            "type": "object",
            "required": ["use"],
            "properties": {
                "use": {
                    "anyOf": [
                        *({"const": name, "description": text} for name, text in known),
                        {"type": "string", "pattern": LOCAL, "description": "a class of a parts file"},
                    ]
                }
            },
            # if/then rather than anyOf, so that an editor names the wrong argument and not every part.
            "allOf": [
                {
                    "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
                    "then": {"$ref": f"#/$defs/{role}.{name}"},
                }
                for name, _ in known
            ]
            or [True],  # none of this role can be imported here
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "$defs": definitions,
    }


def _installed() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Role, name and what loads it."""
    for each in examine():
        if each.status == "ok":
            yield each.plugin.role, each.plugin.name, each.plugin.load


def _own(local: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """The same of classes of parts files, in each role that they are fit for; a class of none may be a model."""
    for name, target in local.items():
        if isinstance(target, type):
            for role in roles_of(target) or ("model",):
                yield role, name, partial(_same, target)


def _same(target: type) -> type:
    return target
