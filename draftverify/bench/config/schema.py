"""The JSON schema (draft 2020-12) of a config, for editors: the fixed part and every installed part's arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from draftverify.bench.config.format import FILE, INNER
from draftverify.bench.config.forms import Schema
from draftverify.bench.config.parameters import keys_schema, parameters, summary
from draftverify.errors import DraftVerifyError
from draftverify.plugins import ROLES, examine, roles_of
from draftverify.values import EMPTY

# A class of a parts file. Installed parts are named in lower case, so the two do not meet.
LOCAL = r"^[A-Za-z_]\w*\.[A-Z]\w*$"


def schema(local: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
    """The schema of a whole config file, with the parts that are installed now and can be imported.

    Args:
        local: classes of a config's own parts files, by their names in it (`bench.config.experiment.parts_of`).
    """
    definitions: dict[str, Schema] = {}
    file = FILE.schema(definitions, "")
    definitions["pipeline"] = INNER.schema(definitions, "")
    names: dict[str, dict[str, str]] = {role: {} for role in ROLES if role not in ("function", "trainer")}
    for role, use, load in (*_installed(), *_local(local)):
        if role in names:
            # `draftverify plugins NAME` tells; the rest is of more use than none.
            with suppress(DraftVerifyError):
                target = load()
                keys = keys_schema(parameters(target), definitions, f"{role}.{use}", use={"const": use})
                definitions[f"{role}.{use}"] = {"description": summary(target), **keys}
                names[role][use] = summary(target)
    for role, summaries in names.items():
        uses: list[Schema] = [{"const": use, "description": text} for use, text in summaries.items()]
        uses.append({"type": "string", "pattern": LOCAL, "description": "a class of a parts file"})
        # if/then rather than anyOf, so that an editor names the wrong argument and not every part.
        cases = [
            {
                "if": {"properties": {"use": {"const": use}}, "required": ["use"]},
                "then": {"$ref": f"#/$defs/{role}.{use}"},
            }
            for use in summaries
        ]
        keys = {"type": "object", "required": ["use"], "properties": {"use": {"anyOf": uses}}}
        definitions[role] = {**keys, "allOf": cases or [True]}  # none of this role can be imported here
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **file, "$defs": definitions}


def _installed() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Role, name and what loads it."""
    for examined in examine():
        if examined.status == "ok":
            yield examined.plugin.role, examined.plugin.name, examined.plugin.load


def _local(local: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """The same of classes of parts files, in each role that they are fit for; a class of none may be a model."""
    for name, target in local.items():
        if isinstance(target, type):
            for role in roles_of(target) or ("model",):
                yield role, name, partial(lambda target: target, target)
