"""Which line of models a text model is of, told without loading it: by the catalogue, the name that its files were
saved under, or its id.

A family is the first word of a model's name, in lower case: "HuggingFaceTB/SmolLM2-135M-Instruct" is of "smollm2",
"Qwen/Qwen2.5-Coder-1.5B-Instruct" of "qwen2.5", "gpt-4o-mini" of "gpt". That is coarse on purpose: models of one
maker's line were trained on much of the same, and miss much of the same. What is called otherwise on another cloud is
of the same line: OpenAI's models are all "gpt" ("o1-mini", "chatgpt-4o-latest", "ft:gpt-4o-mini:us::1"), Meta's "llama"
("Meta-Llama-3.1-8B", "us.meta.llama3-70b-instruct-v1:0"), and a cloud's words before a name do not count
("anthropic.claude-3-haiku-20240307-v1:0"). Files that have no name are of their architecture ("llama"). Where that is
wrong, the model's argument `family` says it.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any, BinaryIO

from draftverify_llm.catalogue import CATALOGUE

_GGUF = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of GGUF's numbers, by their type."""
_TEXT = 8
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


_BEFORE_NAME = re.compile(
    r"ft:|(?:(?:us|eu|apac|jp|au|us-gov|global)\.)?"  # OpenAI's fine-tunes; Bedrock's region and maker
    r"(?:ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|nvidia|openai|qwen|stability|writer)\."
)
_LINES = {
    "gpt": re.compile(r"(?:chat|text-)?(?:gpt|davinci)[\d.]*o?|o[1-9]"),
    "llama": re.compile(r"(?:meta-)?llama[\d.]*"),
}
"""Names of one line that do not begin with one word."""


def family_of_name(name: str) -> str | None:
    """The first word of a model's name or id, without the owner before it; None where it has none."""
    bare = name.lower().rstrip("/").rpartition("/")[2].strip()
    bare = _BEFORE_NAME.sub("", bare, count=1) if _BEFORE_NAME.match(bare) else bare
    for family, line in _LINES.items():
        if re.match(rf"(?:{line.pattern})(?![^\s_:@-])", bare):
            return family
    match = re.match(r"\W*([^\s_:@/-]+)", bare)
    return match[1] if match else None


def family_of_config(config: Any) -> str | None:
    """By a transformers config: the name that it was saved or loaded under, else its architecture.

    Args:
        config: the config, or what stands in its file.
    """
    fields = config if isinstance(config, dict) else vars(config)
    name = fields.get("_name_or_path") or ""
    if _HUB_ID.fullmatch(name) and not Path(name).exists():
        return family_of_name(name)
    kind = fields.get("model_type") or getattr(type(config), "model_type", None)
    return str(kind) if kind else None


def family_of_weights(weights: str) -> str | None:
    """By the word that a config has for a model; nothing is loaded, and nothing fetched.

    Args:
        weights: a catalogue name, a model directory, a .gguf file, or a hub id.

    Returns:
        The family; None where there is no telling, or no such file (which opening the model will say).
    """
    if weights in CATALOGUE:
        return CATALOGUE[weights].family
    path = Path(weights).expanduser()
    try:
        if path.is_file() and path.suffix == ".gguf":
            return _of_gguf(path)
        if path.is_dir():
            return family_of_config(json.loads((path / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError, struct.error):
        return None
    return family_of_name(weights) if _HUB_ID.fullmatch(weights) and path.suffix != ".gguf" else None


def _of_gguf(path: Path) -> str | None:
    """By the base name that the file's converter gave it, its name, or its architecture."""
    with open(path, "rb") as file:
        header = _header(file)
    named = header.get("general.basename") or header.get("general.name")
    return (family_of_name(named) if named else None) or header.get("general.architecture")


def _header(file: BinaryIO) -> dict[str, str]:
    """The texts of a GGUF file's metadata whose keys begin with "general.", which stand before the long lists."""
    magic, version, _, entries = struct.unpack("<4sIQQ", file.read(24))
    texts: dict[str, str] = {}
    if magic != _GGUF or version < 2:
        return texts
    for _ in range(entries):
        key, kind = _text(file), _number(file, "<I")
        if kind == _TEXT:
            value = _text(file)
            if key.startswith("general."):
                texts[key] = value
        elif kind in _SIZES:
            file.seek(_SIZES[kind], 1)
        elif not _skip_list(file):
            break
    return texts


def _skip_list(file: BinaryIO) -> bool:
    """Go past a list, if it is a short one of texts, such as a model's tags, or one of numbers."""
    kind, length = _number(file, "<I"), _number(file, "<Q")
    if kind in _SIZES:
        file.seek(_SIZES[kind] * length, 1)
        return True
    if kind != _TEXT or length > 1000:  # a vocabulary: what names the model stands before it
        return False
    for _ in range(length):
        _text(file)
    return True


def _text(file: BinaryIO) -> str:
    length = _number(file, "<Q")
    if length > 1 << 20:
        raise ValueError(f"a text of {length} bytes")
    return file.read(length).decode("utf-8", "replace")


def _number(file: BinaryIO, form: str) -> int:
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return int(value)
