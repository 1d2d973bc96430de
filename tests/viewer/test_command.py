"""`draftverify view`: a URL on the terminal, an end by Ctrl-C, errors as elsewhere."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path

import httpx
import pytest

from draftverify.bench.cli.main import main
from draftverify.view import server


def test_the_command_serves_until_ctrl_c(runs: Path) -> None:
    """It prints a URL that lets one client in, shows the next one, and ends with code 0, a client connected or not."""
    arguments = [sys.executable, "-u", "-m", "draftverify", "view", str(runs)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
        assert "works once" in process.stdout.readline()
        with httpx.Client(trust_env=False, timeout=20, follow_redirects=True) as client:
            assert client.get(url).status_code == 200
            address = url.partition("?")[0]
            assert "<title>Runs" in client.get(address).text
            assert "<title>Review" in client.get(f"{address}review?run=waits").text
            following = process.stdout.readline()
            assert following.startswith("for another browser: http://127.0.0.1:")
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
        assert (process.wait(20), rest) == (0, "ended\n")


def test_what_cannot_be_served_is_an_error(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such directory, a damaged run, a port that is taken, a missing package: exit code 5, and what to do."""
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["view", str(tmp_path / "none")]) == 5
    assert "there is no such directory" in capsys.readouterr().err
    (tmp_path / "run.json").write_text("{")
    assert main(["view", str(tmp_path)]) == 5
    assert "run.json" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["view", str(runs), "--port", str(taken.getsockname()[1])]) == 5
    assert "choose another --port" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "draftverify.view.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["view", str(runs)]) == 5
    assert "install draftverify with the extra 'view'" in capsys.readouterr().err


def test_options_that_do_not_fit_are_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is served."""
    for serving in (["--port", "1"], ["--open"], ["--out", "x.html"]):
        assert main(["view", str(runs / "waits"), "--review", *serving]) == 2
        assert "three ways; choose one" in capsys.readouterr().err


def test_the_browser_is_opened_only_if_asked(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without one is told the URL all the same."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not opened.append(url))
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: None)
    assert main(["view", str(runs)]) == 0
    assert opened == []
    assert main(["view", str(runs), "--open"]) == 0
    assert len(opened) == 1
    assert "?token=" in opened[0]
