"""`draftverify serve CONFIG`: pipelines behind an OpenAI-compatible address."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from draftverify.bench.cli import options
from draftverify.bench.cli.options import CommandLine
from draftverify.errors import ConfigError
from draftverify.secret import Secret

if TYPE_CHECKING:
    from draftverify.bench.config.specs import Experiment


@click.command()
@options.experiment
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address; beyond loopback with a token."
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes any.")
@click.option("--token-env", metavar="NAME", help="The environment variable of the token that clients send.")
@click.option(
    "--concurrency", default=16, show_default=True, type=options.COUNT, help="Tasks under way at once."
)
@click.option(
    "--queue", default=64, show_default=True, type=click.IntRange(0), help="Tasks that may wait beside them."
)
@click.option(
    "--timeout",
    default=300.0,
    show_default=True,
    type=options.FiniteRange(0, min_open=True),
    help="Seconds a request.",
)
@options.out("DIR", "Record what is served in this run directory, or go on with it.")
@options.fresh
@options.accept_changed
@options.store
def serve(
    experiment: Experiment,
    host: str,
    port: int,
    token_env: str | None,
    concurrency: int,
    queue: int,
    timeout: float,
    out: str | None,
    fresh: bool,
    accept_changed: bool,
    store: str | None,
) -> None:
    """Serve the pipelines of CONFIG; each is a model by its name.

    Any OpenAI client works with the address that is printed: chat completions, completions, models, streams. Fields of
    a task beside the prompt go in the body's `task`. A task that waits for a person is answered with 202 and the
    address of its question. Prometheus reads /metrics. SIGTERM finishes what is under way.

    With --out requests and answers are written to a run directory, which show, view and export read, also meanwhile.
    """
    from draftverify.serve import Recorded, ServerLimits
    from draftverify.serve import serve as serve_experiment

    if out is None and (fresh or accept_changed):
        raise click.UsageError("--fresh and --accept-changed go with --out")

    token = None
    if token_env is not None:
        token = Secret(os.environ.get(token_env, "").strip())
        if not token:
            raise ConfigError(f"the environment variable {token_env} is not set", path="--token-env")
    serve_experiment(
        experiment,
        host=host,
        port=port,
        token=token,
        limits=ServerLimits(concurrency, queue, timeout),
        record=None
        if out is None
        else Recorded(out, fresh, accept_changed, store, ("draftverify", *CommandLine.now().arguments)),
    )
