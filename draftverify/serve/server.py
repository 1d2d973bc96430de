"""The server process: pipelines opened, uvicorn on a socket, and an end by SIGTERM that finishes what is under way."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

import click
import uvicorn
from starlette.applications import Starlette

from draftverify.bench.config.specs import Experiment
from draftverify.bench.runner.build import Builder
from draftverify.errors import ConfigError, ResourceError
from draftverify.secret import Secret, quiet
from draftverify.serve.app import Api
from draftverify.serve.limits import ServerLimits
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.model import ServedModel

__all__ = ["listening_socket", "made_server", "models_of", "run_server"]

_log = quiet(logging.getLogger("uvicorn"))


def run_server(
    experiment: Experiment,
    *,
    host: str,
    port: int,
    token: Secret | None,
    limits: ServerLimits,
) -> None:
    """Serve until SIGTERM or Ctrl-C; see `draftverify.serve.serve`."""
    if token is None and not _is_loopback(host):
        raise ConfigError(
            f"{host} is reached from other machines; name a token that clients send: --token-env NAME",
            path="--host",
        )
    for spec in experiment.pipelines:
        if spec.monitor is not None:
            click.echo(f"{spec.name}: its monitor watches runs, and no served requests", err=True)
    with listening_socket(host, port) as listening, Lockstep(partial(models_of, experiment)) as lockstep:
        server = made_server(lockstep, listening, token=token, limits=limits)
        address = f"http://{_bracketed(host)}:{listening.getsockname()[1]}/v1"
        click.echo(f"{address} serves {', '.join(lockstep.models)}")
        # uvicorn ends what is under way, and then raises the signal again: with this handler the models close.
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        server.run(sockets=[listening])


def models_of(experiment: Experiment) -> dict[str, ServedModel]:
    """The pipelines of an experiment as models, not opened yet.

    Raises:
        DraftVerifyError: a pipeline is not as it must be.
    """
    fields = list(experiment.tasks.arguments.get("fields") or {})
    field = fields[0] if len(fields) == 1 else None
    pipelines = Builder().bench(experiment).pipelines
    return {name: ServedModel(name, pipeline, field) for name, pipeline in pipelines.items()}


def made_server(
    lockstep: Lockstep, listening: socket.socket, *, token: Secret | None, limits: ServerLimits
) -> uvicorn.Server:
    """The server on a bound socket, of the models of a lockstep."""
    host, port = listening.getsockname()[:2]
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", _bracketed(host)))
    api = Api(lockstep, hosts=hosts, token=token, limits=limits)
    app = api.app()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # As many threads as tasks: a part that waits for a server elsewhere holds one.
        with ThreadPoolExecutor(limits.concurrency + 2, thread_name_prefix="draftverify") as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            yield
            await api.tasks.ended()

    app.router.lifespan_context = lifespan
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.timeout) + 1,
    )
    return uvicorn.Server(config)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket on this port of this address.

    Raises:
        ResourceError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends small answers at once (TCP_NODELAY), which saves 40 ms each.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ResourceError(
            f"port {port} of {host}: {error.strerror or error}; choose another --port"
        ) from error
    return listening


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
