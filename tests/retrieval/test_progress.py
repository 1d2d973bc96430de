"""What is shown of long work."""

from __future__ import annotations

import logging

from draftverify_retrieval.progress import progress


def test_on_a_terminal_long_work_is_a_bar(monkeypatch, capsys, caplog):
    """On stderr, and no line in the log."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with (
        caplog.at_level(logging.INFO, logger="draftverify.retrieval"),
        progress("encoding passages", 3) as advance,
    ):
        advance(3)
    out, error = capsys.readouterr()
    assert out == ""
    assert "encoding passages" in error
    assert "3/3" in error
    assert caplog.records == []


def test_no_work_is_not_shown(capsys, caplog):
    """Neither a bar nor a line."""
    with (
        caplog.at_level(logging.INFO, logger="draftverify.retrieval"),
        progress("encoding passages", 0) as advance,
    ):
        advance(0)
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []
