"""Families: told by the catalogue, by what files were saved under, by an id, or as they were said; never by loading."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from draftverify_llm import CATALOGUE, Endpoint, LlamaCpp, LocalModel, Sample, TextModel
from draftverify_llm.family import family_of_config
from tests.llm.conftest import build_tiny


def gguf(path: Path, *entries: tuple[str, Any]) -> Path:
    """A GGUF file of metadata alone: texts, numbers and lists of texts."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    body = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries))
    for key, value in entries:
        body += text(key)
        if isinstance(value, str):
            body += struct.pack("<I", 8) + text(value)
        elif isinstance(value, int):
            body += struct.pack("<II", 4, value)
        else:
            body += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    path.write_bytes(body)
    return path


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_says_it(name: str) -> None:
    """Of every entry, for both ways to run it, and nothing is opened."""
    assert LocalModel(name).family == LlamaCpp(name).family == CATALOGUE[name].family
    assert CATALOGUE["smollm2-135m-instruct"].family == "smollm2"


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"_name_or_path": "Qwen/Qwen2.5-0.5B", "model_type": "qwen2"}, "qwen2.5"),
        ({"_name_or_path": "/home/me/my-run", "model_type": "llama"}, "llama"),
        ({"_name_or_path": "", "model_type": "gemma3_text"}, "gemma3_text"),
        ({"model_type": "llama"}, "llama"),
        ({}, None),
    ],
)
def test_a_directory_is_of_the_name_that_it_was_saved_under(
    config: Any, family: str | None, tmp_path: Path
) -> None:
    """Else of its architecture: a path on the machine that saved it names nothing."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert LocalModel(tmp_path).family == family
    assert family_of_config(config) == family


@pytest.mark.parametrize(
    ("family", "names"),
    [
        (
            "gpt",
            "gpt-4o-mini gpt4o chatgpt-4o-latest o1 o3-mini-2025-01-31 ft:gpt-4o-mini-2024-07-18:us:bot:7p4l",
        ),
        ("gpt", "openai/gpt-oss-20b openai.gpt-oss-120b-1:0 gpt-35-turbo"),
        (
            "claude",
            "claude-3-5-haiku-latest anthropic.claude-3-haiku-20240307-v1:0 claude-3-5-sonnet@20240620",
        ),
        ("claude", "eu.anthropic.claude-sonnet-4-v1:0 projects/p/publishers/anthropic/models/claude-opus-4"),
        ("claude", "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2"),
        ("llama", "meta-llama/Llama-3.1-8B meta-llama/Meta-Llama-3.1-8B-Instruct llama3.1:8b Llama-2-7b-hf"),
        ("llama", "meta.llama3-70b-instruct-v1:0 us.meta.llama3-2-1b-instruct-v1:0"),
        ("gemini", "publishers/google/models/gemini-1.5-pro gemini-2.0-flash@001"),
        ("mistral", "mistral.mistral-large-2402-v1:0 mistral-small"),
        ("qwen2.5", "Qwen/Qwen2.5-7B-Instruct qwen2.5:7b"),
        ("olmo", "allenai/OLMo-7B"),
        ("llamafile", "llamafile"),
    ],
)
def test_one_line_has_many_names(family: str, names: str) -> None:
    """Of OpenAI, Bedrock, Vertex, Azure, Ollama and the hub."""
    for name in names.split():
        assert Endpoint("http://127.0.0.1:9/v1", name).family == family, name


def test_a_live_module_is_of_its_configs() -> None:
    """As a directory is."""
    model, tokenizer = build_tiny(template=None)
    assert LocalModel.from_module(model, tokenizer).family == model.config.model_type
    model.config._name_or_path = "someone/Tiny-1M"
    assert LocalModel.from_module(model, tokenizer).family == "tiny"


@pytest.mark.parametrize(
    ("entries", "family"),
    [
        ([("general.architecture", "llama"), ("general.basename", "SmolLM2")], "smollm2"),
        (
            [("general.tags", ["a", "b"]), ("general.size", 7), ("general.name", "Qwen2.5 Coder 1.5B")],
            "qwen2.5",
        ),
        ([("general.architecture", "llama"), ("tokenizer.ggml.tokens", ["x"] * 1001)], "llama"),
        ([], None),
    ],
)
def test_a_gguf_file_is_of_the_name_in_its_metadata(entries: Any, family: str | None, tmp_path: Path) -> None:
    """Base name, name or architecture; the vocabulary, which comes later, is not read."""
    path = gguf(tmp_path / "model.gguf", *entries)
    assert LlamaCpp(path).family == LocalModel(path).family == family


@pytest.mark.parametrize("bytes", [b"", b"GGUF", b"PK\x03\x04" + b"\0" * 40, b"GGUF" + b"\xff" * 60])
def test_a_file_that_is_none_has_no_family(bytes: bytes, tmp_path: Path) -> None:
    """Opening the model says what is wrong with it; to build one is no time for that."""
    (tmp_path / "model.gguf").write_bytes(bytes)
    assert LlamaCpp(tmp_path / "model.gguf").family is None
    assert LocalModel(tmp_path).family is None
    assert LocalModel("no-such-model").family is None


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o-mini", "gpt"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5"),
        ("qwen2.5:7b", "qwen2.5"),
        ("accounts/x/models/Llama_3", "llama"),
        ("", None),
    ],
)
def test_a_remote_model_is_of_the_first_word_of_its_name(model: str, family: str | None) -> None:
    """Without the owner before it."""
    assert Endpoint("http://127.0.0.1/v1", model).family == family


def test_what_is_said_counts_and_parts_pass_it_on() -> None:
    """The argument comes first; a part is of its model's family, of none with a model that says none."""
    assert LocalModel("smollm2-135m-instruct", family="mine").family == "mine"
    assert LlamaCpp("nothing.gguf", family="mine").family == "mine"
    remote = Endpoint("http://127.0.0.1/v1", "gpt-4o", family="mine")
    assert isinstance(remote, TextModel)
    assert Sample(remote).traits.families == {"mine"}
    assert not Sample(object()).traits.families  # type: ignore[arg-type]
