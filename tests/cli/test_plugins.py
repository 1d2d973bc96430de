"""`draftverify plugins` and `draftverify cache`: what is installed, what is broken, what is kept on disk."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.cli.main import main
from draftverify.plugins import Plugin
from tests.broken_plugin_packages import put_on_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every part with its role, package and status; a broken one's traceback below."""
    put_on_path(monkeypatch, "healthy", "raises_at_import", "twin_one", "twin_two")
    text = shown(capsys, "plugins")
    lines = [line.split() for line in text.splitlines()]
    assert ["rule", "first", "draftverify", "0.1.0", "ok"] in [line[:5] for line in lines]
    assert any("Keeps the first passed items, lowest index first" in line for line in text.splitlines())
    assert ["generator", "healthy.rolls", "dv-healthy", "1.0", "ok"] in [line[:5] for line in lines]
    assert ["generator", "raises", "dv-raises", "1.0", "broken"] in lines
    assert text.count("duplicate") == 3  # in both lines, and once below
    assert "registered by dv-twin-one 1.0 and dv-twin-two 1.0" in text
    assert "Traceback (most recent call last)" in text
    assert 'raise RuntimeError("no licence file was found")' in text


def test_every_part_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    """In a sentence, in every role; --role shows one role alone."""
    lines = [line.split() for line in shown(capsys, "plugins").splitlines()]
    lines = [line for line in lines if line[4:5] == ["ok"]]
    assert [line[1] for line in lines if len(line) < 8] == []
    rules = shown(capsys, "plugins", "--role", "rule").splitlines()
    assert {line.split()[0] for line in rules} == {"rule"}
    assert len(rules) == sum(line[0] == "rule" for line in lines)


def test_broken_ones_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--broken shows nothing else and ends with 4; with 0 when all is well."""
    assert "every installed part can be used" in shown(capsys, "plugins", "--broken")
    put_on_path(monkeypatch, "renamed_class")
    text = shown(capsys, "plugins", "--broken", code=4)
    assert "renamed" in text
    assert "speculative" not in text


def test_one_part(capsys: pytest.CaptureFixture[str]) -> None:
    """A part's signature and docstring."""
    text = shown(capsys, "plugins", "lossy")
    assert "draftverify.rules:Lossy, of draftverify 0.1.0" in text
    assert "alpha: float\n" in text
    assert re.search(r"beta: .*float.* = None\n", text)
    assert "larger keeps more" in text
    assert "fields: Mapping[str, str] = {}\n" in shown(capsys, "plugins", "jsonl")


def test_bounds_are_shown_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    """What a number may be stands beside its type, not as the annotation's source."""
    assert "max_tokens: int (ge=1) | None = None\n" in shown(capsys, "plugins", "tokens.stop")
    text = shown(capsys, "plugins", "tokens.suffix")
    assert "threshold: float (ge=0, lt=1) = 0.05\n" in text
    assert "FieldInfo" not in text


def test_one_broken_part(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Named, a broken part shows its traceback."""
    put_on_path(monkeypatch, "exits_at_import")
    assert "this plugin is not for your machine" in shown(capsys, "plugins", "exits")


def test_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that nothing has is a usage error with a suggestion."""
    assert "did you mean lossy" in shown(capsys, "plugins", "losy", code=2)


class Cache:
    """A cache with two entries."""

    def __init__(self) -> None:
        self.held = {"a": 3_000_000, "b": 500_000}

    def entries(self) -> list[Any]:
        return [
            types.SimpleNamespace(name=name, kind="weights", bytes=size, path=Path("/cache") / name)
            for name, size in self.held.items()
        ]

    def clear(self, name: str | None) -> int:
        gone = [name] if name else list(self.held)
        return sum(self.held.pop(each) for each in gone)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    """One cache, registered by an entry point as a package would."""
    module: Any = types.ModuleType("dv_cache_for_a_test")
    module.cache = Cache()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    hook = Plugin("", "test", "dv_cache_for_a_test:cache", "dv-cache", "1.0")
    monkeypatch.setattr("draftverify.bench.cli.cache.hooks", {"draftverify.caches": (hook,)}.get)
    found: Cache = module.cache
    return found


def test_the_cache_is_shown(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What each package keeps, how much and where."""
    monkeypatch.setenv("COLUMNS", "200")
    lines = [line.split() for line in shown(capsys, "cache").splitlines()]
    assert ["test", "a", "weights", "3.0", "/cache/a"] in lines
    cache.held.clear()
    assert shown(capsys, "cache") == "the cache is empty\n"


def test_one_entry_or_all_are_cleared(cache: Cache, capsys: pytest.CaptureFixture[str]) -> None:
    """`cache clear NAME` frees one, `--all` everything; neither alone is a usage error, a wrong name an error."""
    assert "did you mean" not in shown(capsys, "cache", "clear", "zzz", code=5)
    shown(capsys, "cache", "clear", code=2)
    shown(capsys, "cache", "clear", "a", "--all", code=2)
    assert shown(capsys, "cache", "clear", "a") == "freed 3.0 MB\n"
    assert cache.held == {"b": 500_000}
    assert shown(capsys, "cache", "clear", "--all") == "freed 0.5 MB\n"
    assert cache.held == {}


def test_the_built_in_caches_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real entry points work, on an empty cache."""
    monkeypatch.setenv("DRAFTVERIFY_CACHE", str(tmp_path))
    assert shown(capsys, "cache") == "the cache is empty\n"
