"""A server that runs in a thread, for tests: pipelines made on the spot, and OpenAI's own client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import httpx
import openai

from draftverify import Pipeline
from draftverify.bench.listening import listening_socket
from draftverify.bench.records import RunDirectory
from draftverify.secret import Secret
from draftverify.serve.limits import ServerLimits
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.model import ServedModel
from draftverify.serve.server import made_server

CHAT = "/v1/chat/completions"


class Served:
    """A server that runs.

    Args:
        base: its address, without /v1.
    """

    def __init__(self, base: str) -> None:
        self.base = base
        self.http = httpx.Client(base_url=base, trust_env=False, timeout=60)
        self.openai = openai.OpenAI(
            base_url=f"{base}/v1", api_key="none", max_retries=0, http_client=None, timeout=60
        )

    def ask(self, model: str, text: str = "hi", **more: Any) -> httpx.Response:
        """A chat of one turn, answered or refused."""
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        return self.http.post(CHAT, json=body)

    def metric(self, name: str) -> float:
        """The value of a metric, over all its labels."""
        lines = self.http.get("/metrics").text.splitlines()
        found = (line.rpartition(" ")[2] for line in lines if line.startswith((name + " ", name + "{")))
        return sum(map(float, found))


@contextmanager
def serving(
    pipelines: Mapping[str, Pipeline | ServedModel],
    token: str | None = None,
    directory: RunDirectory | None = None,
    **limits: Any,
) -> Iterator[Served]:
    """The server of these pipelines, while the block lasts; it records in a directory, where one is given."""
    models = {
        name: given if isinstance(given, ServedModel) else ServedModel(name, given)
        for name, given in pipelines.items()
    }
    with (
        listening_socket("127.0.0.1", 0) as listening,
        Lockstep(lambda: models) as lockstep,
        directory or nullcontext(),
    ):
        secret = None if token is None else Secret(token)
        bounds = ServerLimits(**limits)
        server = made_server(lockstep, listening, token=secret, limits=bounds, directory=directory)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        served = Served(f"http://127.0.0.1:{listening.getsockname()[1]}")
        try:
            yield served
        finally:
            server.should_exit = True
            served.http.close()
            thread.join()
