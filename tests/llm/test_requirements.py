"""Optional packages that are missing or too old: a word that says what to install, before anything fails obscurely."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from draftverify.errors import ResourceError
from draftverify_llm import Endpoint, LlamaCpp, LocalModel, requirements
from draftverify_llm.requirements import LOWEST, need

ROOT = Path(__file__).parents[2]


def test_what_is_missing_is_named_with_the_extra_that_brings_it():
    """All of it at once."""
    with pytest.raises(ResourceError, match=r"flying needs no_wings, no_feathers; .*extra 'birds'"):
        need("no_wings", "torch", "no_feathers", doing="flying", extra="birds")


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        (LlamaCpp("smollm2-135m-instruct"), "llm"),
        (LocalModel("smollm2-135m-instruct"), "llm"),
        (Endpoint("http://127.0.0.1:9/v1", "m"), "endpoint"),
    ],
)
def test_a_package_that_a_model_lacks_is_told_before_the_run(monkeypatch, model, extra):
    """An endpoint asks for no more than a client's packages."""
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=f"extra '{extra}'"):
        model.check()


@pytest.mark.parametrize("found", ["5.12.1", "5.0.0", "4.57.6", "5.16.0.dev0"])
def test_a_transformers_that_is_too_old_is_refused(monkeypatch, found):
    """Where weights are loaded and where a live module comes in; 5.12 failed with an AttributeError inside."""
    versions = {"torch": "2.13.0+cpu", "transformers": found}
    monkeypatch.setattr(requirements, "version", versions.__getitem__)
    with pytest.raises(ResourceError, match=re.escape(f"transformers>=5.17; {found} is installed")):
        LocalModel("smollm2-135m-instruct").open()
    with pytest.raises(ResourceError, match=re.escape("pip install 'transformers>=5.17'")):
        LocalModel.from_module(None, None)


def test_builds_of_ones_own_count_by_their_numbers(monkeypatch):
    """A version may have a suffix, be of two numbers, or say nothing that can be read."""
    for found in ("5.17.0", "5.17", "5.23.0.dev0", "6.0", "2.11.0a0+git1234", "main"):
        monkeypatch.setattr(requirements, "version", lambda package, found=found: found)
        need("torch" if found.startswith("2") else "transformers", doing="this")


def test_every_place_that_promises_a_version_promises_the_one_that_is_tested():
    """pyproject.toml's extras, tests/lowest.txt and what is refused."""
    promised = (ROOT / "pyproject.toml").read_text()
    pinned = (ROOT / "tests" / "lowest.txt").read_text()
    for package, lowest in LOWEST.items():
        number = ".".join(map(str, lowest))
        assert set(re.findall(rf'"{package}>=([\d.]+)"', promised)) == {number}
        assert re.findall(rf"^{package}==([\d.]+)$", pinned, re.MULTILINE) == [f"{number}.0"]
