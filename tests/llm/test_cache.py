"""The cache: what is listed, what is cleared, and that a thing in it is whole."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from draftverify.errors import ResourceError
from draftverify_llm.cache import WeightsProgress, building, clear, entries, locked, log_progress, root


def put(name: str, kind: str, content: bytes) -> None:
    """Build something of that size."""
    with locked(name), building(name, kind) as work:  # type: ignore[arg-type]
        if kind == "torch":
            (work / "result").mkdir()
            (work / "result" / "a").write_bytes(content[:1])
            (work / "result" / "b").write_bytes(content[1:])
        else:
            (work / "result").write_bytes(content)


def test_an_empty_cache_lists_nothing_and_is_not_made(cache: Path) -> None:
    """Looking does not write."""
    assert entries() == []
    assert clear() == 0
    assert not cache.exists()


def test_the_environment_names_the_root(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DRAFTVERIFY_CACHE is obeyed; without it the platform's cache directory is used."""
    assert root() == cache
    monkeypatch.delenv("DRAFTVERIFY_CACHE")
    assert root().name == "draftverify"
    assert root().is_absolute()


def test_entries_have_kind_and_size(cache: Path) -> None:
    """A file and a directory under one name are two entries with their bytes."""
    put("a", "gguf", bytes(100))
    put("a", "torch", bytes(30))
    put("b", "gguf", bytes(7))
    assert [(e.name, e.kind, e.bytes) for e in entries()] == [
        ("a", "gguf", 100),
        ("a", "torch", 30),
        ("b", "gguf", 7),
    ]
    assert all(e.path.exists() for e in entries())


def test_clearing_one_leaves_the_others(cache: Path) -> None:
    """`clear(name)` frees that model's bytes and no other's; `clear()` frees the rest."""
    put("a", "gguf", bytes(100))
    put("a", "torch", bytes(30))
    put("b", "gguf", bytes(7))
    assert clear("a") == 130
    assert [e.name for e in entries()] == ["b"]
    assert clear() == 7
    assert entries() == []


def test_clearing_an_unknown_name_says_what_is_there(cache: Path) -> None:
    """The error names what the cache holds."""
    put("a", "gguf", b"x")
    with pytest.raises(ResourceError, match="no 'c'; it holds a"):
        clear("c")
    with pytest.raises(ResourceError, match=r"no '\.\./\.\./etc'"):
        clear("../../etc")


def test_a_failed_build_leaves_what_was_there(cache: Path) -> None:
    """An exception in the middle keeps the older thing and drops the new."""
    put("a", "torch", bytes(30))

    def fail() -> None:
        with building("a", "torch") as work:
            (work / "result").mkdir()
            (work / "result" / "half").write_bytes(bytes(500))
            raise ValueError("oops")

    with pytest.raises(ValueError, match="oops"):
        fail()
    assert [(e.kind, e.bytes) for e in entries()] == [("torch", 30)]


def test_a_build_replaces_a_directory_whole(cache: Path) -> None:
    """No file of the older directory stays in the newer one."""
    put("a", "torch", bytes(30))
    with building("a", "torch") as work:
        (work / "result").mkdir()
        (work / "result" / "c").write_bytes(bytes(5))
    (entry,) = entries()
    assert [path.name for path in entry.path.iterdir()] == ["c"]


def test_an_unwritable_cache_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is a file is said to be unusable, with the variable that moves it."""
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("DRAFTVERIFY_CACHE", str(tmp_path / "file"))
    with pytest.raises(ResourceError, match="DRAFTVERIFY_CACHE"), locked("a"):
        pass


def test_the_log_hears_each_quarter_once(caplog: pytest.LogCaptureFixture) -> None:
    """The default report writes five lines for a download, however often it is told."""
    report = log_progress()
    with caplog.at_level(logging.INFO, "draftverify.llm"):
        for done in range(1001):
            report(WeightsProgress("m", "download", done, 1000))
    assert [record.getMessage() for record in caplog.records] == [
        f"downloading m: {percent} % of 0 MB" for percent in (0, 25, 50, 75, 100)
    ]
