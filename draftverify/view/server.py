"""The server process: a socket of the loopback address, uvicorn on it, URLs on the terminal, and an end by Ctrl-C."""

from __future__ import annotations

import logging
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click
import uvicorn

from draftverify.bench.listening import listening_socket
from draftverify.secret import quiet
from draftverify.view.app import application
from draftverify.view.guard import Guard
from draftverify.view.runs import Runs

_log = quiet(logging.getLogger("uvicorn"))

SECONDS_TO_END = 2
"""For requests under way when Ctrl-C comes."""


def run_server(root: str | Path, *, store: str | None, port: int, open_browser: bool) -> None:
    """Serve until Ctrl-C; see `draftverify.view.serve`."""
    runs = Runs(root, store)
    listening = listening_socket("127.0.0.1", port, remedy="choose another --port, or leave it out")
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"

    def announce(token: str) -> None:
        click.echo(f"for another browser: {address}?token={token}")

    try:
        server, guard = made_server(runs, listening, announce)
        url = f"{address}?token={guard.new_token()}"
        click.echo(f"{url}\nThe URL works once, for one browser of this machine. Ctrl-C ends the server.")
        if open_browser and not webbrowser.open(url):
            click.echo("no browser was found; open the URL yourself", err=True)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            click.echo("ended")
    finally:
        listening.close()
        runs.close()


def made_server(
    runs: Runs, listening: socket.socket, announce: Callable[[str], None]
) -> tuple[uvicorn.Server, Guard]:
    """The server on a bound socket, and what lets browsers in."""
    guard = Guard(application(runs), listening.getsockname()[1], announce)
    config = uvicorn.Config(
        guard,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        access_log=False,  # it would hold the tokens
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    return uvicorn.Server(config), guard
