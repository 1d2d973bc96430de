"""The real server in a thread, and browsers that were let in: for tests of pages and of what guards them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from draftverify.bench.listening import listening_socket
from draftverify.view.runs import Runs
from draftverify.view.server import made_server
from tests.browser import watched


class Served:
    """A server that runs.

    Args:
        base: its URL, "http://127.0.0.1:PORT".
        new_token: makes a token for a browser.
        announced: the tokens that the terminal would have shown.
    """

    def __init__(self, base: str, new_token: Any, announced: list[str]) -> None:
        self.base = base
        self.new_token = new_token
        self.announced = announced

    def client(self, **more: Any) -> httpx.Client:
        """An HTTP client without a cookie; a proxy of the environment is not asked."""
        return httpx.Client(base_url=self.base, trust_env=False, timeout=20, **more)

    @contextmanager
    def entered(self) -> Iterator[httpx.Client]:
        """A client that was let in."""
        with self.client() as client:
            assert client.get("/", params={"token": self.new_token()}).status_code == 200
            client.headers["origin"] = self.base
            yield client

    @contextmanager
    def page(self, chromium: Any, path: str, **context: Any) -> Iterator[Any]:
        """A page of a browser context of its own, let in; what its console complains about is in `page.said`."""
        with watched(chromium, offline=False, **context) as found:
            page, page.said = found.page, found.errors
            entry, _, query = path.partition("?")
            page.goto(f"{self.base}/{entry}?token={self.new_token()}")
            page.wait_for_url(lambda url: "token" not in url)
            if query:
                page.goto(f"{self.base}/{path}")
            yield page


@contextmanager
def serving(root: Path) -> Iterator[Served]:
    """The server of these runs, while the block lasts."""
    runs = Runs(root)
    listening = listening_socket("127.0.0.1", 0)
    announced: list[str] = []
    server, guard = made_server(runs, listening, announced.append)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", guard.new_token, announced)
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
        runs.close()
