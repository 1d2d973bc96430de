"""YAML 1.2 as plain values that know where they stand, so that every later error can say file and line.

Only what a config needs: mappings with text keys, lists, and scalars. Tags, several documents, references to
themselves, and numbers that JSON cannot say are refused.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from draftverify.errors import ConfigError, did_you_mean

# A config is written by hand. Both bounds stop a file that unfolds its aliases into more than memory holds.
MOST_BYTES = 1_000_000
MOST_VALUES = 100_000
DEEPEST = 60

_PLAIN = "tag:yaml.org,2002:"
# YAML 1.2 has no dates, merge keys or default values: what looks like one is text.
_TEXT = frozenset(_PLAIN + kind for kind in ("str", "timestamp", "merge", "value"))
_SCALARS = frozenset(_PLAIN + kind for kind in ("null", "bool", "int", "float"))


@dataclass(frozen=True, slots=True)
class Located:
    """One value of the file.

    Args:
        value: None, bool, int, float, str, a list of Located, or a dict from text to Located.
        where: "file:line" of the value's key, of the value itself in a list, or the option that set it.
        path: the keys and places that lead to it.
    """

    value: Any
    where: str
    path: tuple[str | int, ...] = ()

    @property
    def dotted(self) -> str:
        """The path, for messages."""
        return ".".join(map(str, self.path))

    def plain(self) -> Any:
        """The same without places."""
        if isinstance(self.value, dict):
            return {key: inner.plain() for key, inner in self.value.items()}
        if isinstance(self.value, list):
            return [inner.plain() for inner in self.value]
        return self.value

    def having(self, key: str, value: Located) -> Located:
        """This mapping with one more value, or another one."""
        return replace(self, value={**(self.value or {}), key: value})

    def without(self, *keys: str) -> Located:
        """This mapping without some keys."""
        return replace(self, value={key: inner for key, inner in self.value.items() if key not in keys})

    def follow(self, steps: Iterable[str | int]) -> Located:
        """Go down as far as the steps lead; those that lead nowhere are left out."""
        node = self
        for step in steps:
            if isinstance(node.value, dict):
                node = node.value.get(step, node)
            elif isinstance(node.value, list) and isinstance(step, int) and 0 <= step < len(node.value):
                node = node.value[step]
        return node


def read(text: str | bytes, name: str) -> tuple[Located, list[ConfigError]]:
    """Read one YAML document.

    Args:
        text: of the file.
        name: of the file, for messages.

    Returns:
        The document, and what is wrong with it that does not stop it from being read (a key twice).

    Raises:
        ConfigError: it is no YAML, or uses what a config may not.
    """
    if len(text) > MOST_BYTES:
        raise ConfigError(f"the config has more than {MOST_BYTES // 1_000_000} MB", where=f"{name}:1")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise ConfigError("the file is not UTF-8 text", where=f"{name}:{line}") from error
    reader = _YamlReader(name)
    return reader.document(text), reader.errors


class _YamlReader:
    """Turns the nodes of one document into located values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: list[ConfigError] = []
        self.values = 0
        self.yaml = YAML(typ="safe", pure=True)
        self.open: set[int] = set()

    def document(self, text: str) -> Located:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about anchors used again, which YAML allows
                node = self.yaml.compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            context = f" ({error.context})" if error.context else ""
            message = f"not YAML: {error.problem or error.context}{context}"
            raise self.wrong(message, mark.line + 1 if mark else 1) from error
        except ReaderError as error:
            code = error.character if isinstance(error.character, int) else ord(error.character)
            line = text.count("\n", 0, error.position) + 1
            raise self.wrong(f"the character #x{code:04x} is not allowed in YAML", line) from error
        except RecursionError as error:
            raise self.wrong(f"more than {DEEPEST} levels") from error
        except (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
            # The parser's own slips on text that no one would write; they carry no place.
            raise self.wrong(f"not YAML: {error}") from error
        if node is None:
            raise self.wrong("the file is empty; `draftverify init` writes an example")
        return self.value(node, self.where(node), ())

    def wrong(self, message: str, line: int = 1) -> ConfigError:
        return ConfigError(message, where=f"{self.name}:{line}")

    def line(self, node: Node) -> int:
        return node.start_mark.line + 1 if node.start_mark else 1

    def where(self, node: Node) -> str:
        return f"{self.name}:{self.line(node)}"

    def value(self, node: Node, where: str, path: tuple[str | int, ...]) -> Located:
        self.values += 1
        if self.values > MOST_VALUES:
            raise ConfigError(f"more than {MOST_VALUES} values, aliases counted each time", where=where)
        if len(path) > DEEPEST:
            raise ConfigError(f"more than {DEEPEST} levels", where=where)
        if id(node) in self.open:
            raise ConfigError("the alias refers to what it stands in", where=where)
        self.open.add(id(node))
        try:
            if isinstance(node, SequenceNode) and node.tag == _PLAIN + "seq":
                items = [self.value(item, self.where(item), (*path, i)) for i, item in enumerate(node.value)]
                return Located(items, where, path)
            if isinstance(node, MappingNode) and node.tag == _PLAIN + "map":
                return Located(self.mapping(node, path), where, path)
            return Located(self.scalar(node), where, path)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: MappingNode, path: tuple[str | int, ...]) -> dict[str, Located]:
        values: dict[str, Located] = {}
        for key, inner in node.value:
            where = self.where(key)
            if not isinstance(key, ScalarNode):
                raise self.wrong("a key must be text", self.line(key))
            name = self.text(key)  # as it is written: `on` is a word here, whatever YAML 1.1 thought
            value = self.value(inner, where, (*path, name))
            if name in values:
                message = f"the key {name!r} stands twice, first at {values[name].where}"
                self.errors.append(ConfigError(message, where=where, path=value.dotted))
            values.setdefault(name, value)
        return values

    def scalar(self, node: Node) -> Any:
        if not isinstance(node, ScalarNode) or node.tag not in _TEXT | _SCALARS:
            raise self.wrong(f"the tag {node.tag} is not allowed: a config holds data only", self.line(node))
        if node.tag in _TEXT:
            return self.text(node)
        try:
            value = self.yaml.constructor.construct_object(node)
        except (YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise self.wrong(
                f"{node.value[:40]!r} is no {node.tag.rpartition(':')[2]}", self.line(node)
            ) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(f"{node.value} is not a finite number", self.line(node))
        return value

    def text(self, node: Node) -> str:
        text: str = node.value
        if "\0" in text:
            raise self.wrong("a text with the character #x0000 is not allowed", self.line(node))
        if re.search("[\ud800-\udfff]", text):
            raise self.wrong("half of a surrogate pair is no text", self.line(node))
        return text


def override(root: Located, assignment: str, *, option: str = "") -> Located:
    """The document with one value set from the command line.

    Args:
        root: the document.
        assignment: "a.b.0.c=value"; the value is read as YAML. Below `matrix` a dotted path is one key.
        option: how the user wrote it, for messages; "--set a.b=c" when empty.

    Raises:
        ConfigError: it has no "=", its value is no YAML or has a key twice, or its path leads through something that
            has no keys.
    """
    where = option or f"--set {assignment}"
    path, equals, text = assignment.partition("=")
    steps = path.strip().split(".")
    if steps[0] == "matrix" and len(steps) > 2:
        depth = 3 if steps[1] in ("cells", "exclude") else 2
        steps[depth:] = [".".join(steps[depth:])] * (len(steps) > depth)
    if not equals or not all(steps):
        raise ConfigError("write --set a.b=value, with the dotted path of a value", where=where)
    try:
        node, errors = read(text, where) if text.strip() else (Located(None, where), [])
        if errors:
            raise errors[0]
    except ConfigError as error:
        raise ConfigError(error.message, where=where, path=path) from error
    return put(root, steps, moved(node, (), where))


def put(
    root: Located, steps: Sequence[str], value: Located, *, makes: Container[str] | None = None
) -> Located:
    """The document with a value at the end of a path.

    Args:
        root: the document.
        steps: the path.
        value: what is put there; its place in the file stays its own.
        makes: the keys on the way that are made where they are missing; all when None.

    Raises:
        ConfigError: the path leads through something that has no such key.
    """
    models = root.follow(["models"]).value

    def below(node: Located, steps: Sequence[str]) -> Located:
        if not steps:
            return moved(value, node.path)
        step, deeper = steps[0], steps[1:]
        if isinstance(node.value, list) and step.isdecimal() and int(step) < len(node.value):
            items = list(node.value)
            items[int(step)] = below(items[int(step)], deeper)
            return replace(node, value=items)
        if isinstance(node.value, list):
            problem = f"{step!r} is no place in a list of {len(node.value)}, counted from 0"
        elif isinstance(node.value, dict) or node.value is None:
            keys = node.value or {}
            if step in keys or not deeper or makes is None or step in makes:
                inner = keys.get(step, Located(None, value.where, (*node.path, step)))
                return node.having(step, below(inner, deeper))
            problem = f"there is no {step!r} in {node.dotted or 'the file'}{did_you_mean(step, keys)}"
        elif isinstance(models, dict) and node.value in models:
            problem = f"{node.dotted} is a name from models; write models.{node.value}.{'.'.join(steps)}"
        else:
            problem = f"{step!r} cannot be set inside {shown(node)}, which has no keys"
        raise ConfigError(problem, where=value.where, path=".".join((*map(str, node.path), *steps)))

    return below(root, steps)


def shown(node: Located) -> str:
    """A value as a message names it."""
    value = node.value
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" + ("…" if len(value) > 40 else "")
    return json.dumps(value)[:40]


def moved(node: Located, path: tuple[str | int, ...], where: str = "") -> Located:
    """What was read elsewhere, as it stands here; its place in the file stays its own, or is `where`."""
    value = node.value
    if isinstance(value, dict):
        value = {key: moved(inner, (*path, key), where) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [moved(inner, (*path, index), where) for index, inner in enumerate(value)]
    return Located(value, where or node.where, path)
