"""The server process: pipelines opened, uvicorn on a socket, and an end by SIGTERM that finishes what is under way."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

import click
import uvicorn
from starlette.applications import Starlette

from draftverify.bench.config.specs import Experiment, MonitorSpec
from draftverify.bench.listening import hosts_of, listening_socket
from draftverify.bench.monitors import Monitor, MonitoredPipeline
from draftverify.bench.monitors.watching import reference_of
from draftverify.bench.records import RunDirectory
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.marks import AUDITS, marks_of
from draftverify.bench.runner.run import directory_of
from draftverify.errors import ConfigError, below
from draftverify.secret import Secret, quiet
from draftverify.serve.app import ServedApi
from draftverify.serve.connection import Connection
from draftverify.serve.limits import Recorded, ServerLimits
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.model import ServedModel

_log = quiet(logging.getLogger("uvicorn"))


def run_server(
    experiment: Experiment,
    *,
    host: str,
    port: int,
    token: Secret | None,
    limits: ServerLimits,
    record: Recorded | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; see `draftverify.serve.serve`."""
    if token is None and not _is_loopback(host):
        raise ConfigError(
            f"{host} is reached from other machines; name a token that clients send: --token-env NAME",
            path="--host",
        )
    models = models_of(experiment)
    directory = None if record is None else directory_of_served(experiment, models, record)
    if directory is not None:
        if experiment.durable == "round":
            click.echo(
                "durable: round is not heeded: a task ends with its request, and is written then", err=True
            )
        directory.look()  # what is refused is refused before models are loaded, and what fails then leaves none behind
    with (
        listening_socket(host, port) as listening,
        Lockstep(lambda: models) as lockstep,
        directory or nullcontext(),
    ):
        server = made_server(lockstep, listening, token=token, limits=limits, directory=directory)
        address = f"http://{_bracketed(host)}:{listening.getsockname()[1]}/v1"
        click.echo(f"{address} serves {', '.join(lockstep.models)}")
        # uvicorn ends what is under way, and then raises the signal again: with this handler the models close.
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        server.run(sockets=[listening])


def models_of(experiment: Experiment) -> dict[str, ServedModel]:
    """The pipelines of an experiment as models, not opened yet.

    Raises:
        DraftVerifyError: a pipeline is not as it must be, or its monitor cannot watch served tasks.
    """
    fields = list(experiment.tasks.arguments.get("fields") or {})
    field = fields[0] if len(fields) == 1 else None
    bench = Builder().bench(experiment)
    models = {}
    for spec in experiment.pipelines:
        pipeline, monitored = bench.pipelines[spec.name], None
        if spec.monitor is not None:
            with below(f"{spec.path}.monitor", spec.where):
                monitor = _monitor(spec.monitor, bench.monitors[spec.name], spec.name)
            monitored = MonitoredPipeline(pipeline, monitor)
        models[spec.name] = ServedModel(spec.name, pipeline, field, monitored, experiment.currency)
    return models


def _monitor(spec: MonitorSpec, like: Monitor, name: str) -> Monitor:
    """A monitor of acceptance alone: served tasks have no labels."""
    reference = reference_of(spec, name)
    if reference is None:
        raise ConfigError(
            "a server has no first tasks to compare with; name a rate, an earlier run or an operating point",
            path="reference",
        )
    monitor = Monitor(reference, level=like.level, on_alarm=like.on_alarm, threshold=like.threshold)
    if not monitor.report():
        raise ConfigError("has no acceptance, and served tasks have no labels", path="reference")
    if like.metric is not None:
        click.echo(
            f"{name}: its monitor watches acceptance alone, since served tasks have no labels", err=True
        )
    return monitor


def directory_of_served(
    experiment: Experiment, models: Mapping[str, ServedModel], record: Recorded
) -> RunDirectory:
    """The run directory that the tasks of these models are recorded in, not opened."""
    audits = Path(experiment.file).parent / AUDITS
    marks = {name: marks_of(model.pipeline, audits) for name, model in models.items()}
    return directory_of(experiment, marks=marks, served=True, **record._asdict())


def made_server(
    lockstep: Lockstep,
    listening: socket.socket,
    *,
    token: Secret | None,
    limits: ServerLimits,
    directory: RunDirectory | None = None,
) -> uvicorn.Server:
    """The server on a bound socket, of the models of a lockstep, which records in an open run directory.

    Raises:
        ConfigError: the threshold of a model's monitor was fitted for another verifier.
    """
    watched = {} if directory is None else directory.store.watched()
    for model in lockstep.models.values():
        model.begin_watching(watched.get(model.name, ()))
    host, port = listening.getsockname()[:2]
    hosts = hosts_of(("127.0.0.1", "localhost", "[::1]", _bracketed(host)), port)
    api = ServedApi(lockstep, hosts=hosts, token=token, limits=limits, directory=directory)
    app = api.app()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # As many threads as tasks: a part that waits for a server elsewhere holds one.
        with ThreadPoolExecutor(limits.concurrency + 2, thread_name_prefix="draftverify") as threads:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(threads)
            answers = loop.create_task(api.asking.take_answers())
            yield
            answers.cancel()
            await api.tasks.ended()
            if api.recording is not None:
                api.recording.close()

    app.router.lifespan_context = lifespan
    config = uvicorn.Config(
        app,
        http=partial(Connection, arrival=limits.arrival, most=limits.connections),  # type: ignore[arg-type]
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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
