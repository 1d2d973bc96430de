"""Pipelines as the models of an OpenAI-compatible server: `draftverify serve CONFIG`.

It needs the extra `serve`, which is imported when a server is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftverify.plugins import required
from draftverify.secret import Secret
from draftverify.serve.limits import DEFAULT, Recorded, ServerLimits

if TYPE_CHECKING:
    from draftverify.bench.config.specs import Experiment

__all__ = ["Recorded", "ServerLimits", "serve"]


def serve(
    experiment: Experiment,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: Secret | None = None,
    limits: ServerLimits = DEFAULT,
    record: Recorded | None = None,
) -> None:
    """Serve the pipelines of an experiment until SIGTERM or Ctrl-C, which finish what is under way.

    Args:
        experiment: whose pipelines are the models.
        host, port: the address; port 0 takes any that is free.
        token: what clients send as their API key; without one the address must be a loopback one.
        limits: how much at once, and how long.
        record: where what is served is recorded; nowhere when absent.

    Raises:
        ConfigError: the address is no loopback one and there is no token; or a pipeline is not as it must be,
            or its monitor has nothing to compare with.
        StoreError: the run directory is of another config, or in use.
        ResourceError: a package is missing, or the port is taken.
    """
    server = required("draftverify.serve.server", "the server", "serve")
    server.run_server(experiment, host=host, port=port, token=token, limits=limits, record=record)
