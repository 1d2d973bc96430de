"""The JSON schema (draft 2020-12) of a config, for editors: the fixed part and every installed part's arguments."""

from __future__ import annotations

from typing import Any

from draftverify.errors import DraftVerifyError
from draftverify.experiments.format import FILE, INNER
from draftverify.experiments.forms import Schema
from draftverify.experiments.parameters import keys_schema, parameters, summary
from draftverify.plugins import ROLES, examine

__all__ = ["schema"]

# A class of a parts file. Installed parts are named in lower case, so the two do not meet.
LOCAL = r"^[A-Za-z_]\w*\.[A-Z]\w*$"


def schema() -> dict[str, Any]:
    """The schema of a whole config file, with the parts that are installed now and can be imported."""
    definitions: dict[str, Schema] = {}
    whole = FILE.schema(definitions, "")
    definitions["pipeline"] = INNER.schema(definitions, "")
    names: dict[str, list[tuple[str, str]]] = {
        role: [] for role in ROLES if role not in ("function", "trainer")
    }
    for examined in examine():
        plugin = examined.plugin
        if examined.status != "ok" or plugin.role not in names:
            continue
        name = f"{plugin.role}.{plugin.name}"
        try:
            target = plugin.load()
            keys = keys_schema(parameters(target), definitions, name, use={"const": plugin.name})
        except DraftVerifyError:
            continue  # `draftverify plugins NAME` tells; a schema of the rest is of more use than none
        definitions[name] = {"description": summary(target), **keys}
        names[plugin.role].append((plugin.name, summary(target)))
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
            ],
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "$defs": definitions,
    }
