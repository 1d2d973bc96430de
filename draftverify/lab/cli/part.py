"""`draftverify fit part NAME CONFIG`: train a part from data, or go on with it."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from draftverify.bench.cli import options
from draftverify.bench.cli.progress import new_bars

__all__ = ["part"]

LINES = 20
"""Lines that a whole training takes where there is no terminal."""


@click.command(short_help="Train a part from data.")
@click.argument("name")
@options.config_file
@options.out("DIR", "Where what was trained lies; when absent named like CONFIG, of a run RUN-NAME.")
@options.overrides
def part(name: str, config: str, out: str | None, overrides: tuple[str, ...]) -> None:
    """Train NAME ("reader", "drafter", …) as CONFIG says; the same command goes on with a training that was stopped.

    CONFIG is YAML: the trainer's arguments. `draftverify plugins NAME` lists them. Of a trainer that learns from a run
    CONFIG may be the run's directory.
    """
    from draftverify.bench.artifact import identify_parts, read_artifact, write_artifact
    from draftverify.bench.config.experiment import load_training
    from draftverify.bench.runner.build import Builder
    from draftverify.errors import ConfigError
    from draftverify.lab.lineage import REPORT, TrainingReport, digests_of

    trainer = Builder().part(load_training(name, config, overrides=overrides))
    path = Path(config)
    directory = Path(out or (f"{path.resolve().name}-{name}" if path.is_dir() else path.stem))
    parts = identify_parts(trainer=trainer)
    trained = read_artifact(directory / REPORT, TrainingReport) if (directory / REPORT).exists() else None
    if trained is not None and trained.parts == parts:
        click.echo(f"{directory} holds it already, of the same data and settings; remove it to train anew")
        return
    if trained is not None:
        raise ConfigError(
            "here lies what was trained with other data or settings; choose another --out, or remove it",
            where=str(directory),
        )
    console = Console(stderr=True, highlight=False)
    lines: set[int] = set()
    try:
        with new_bars(console) as bars:
            bar = bars.add_task(name, total=None, now="")

            def show(step: int, total: int, status: str) -> None:
                bars.update(bar, completed=step, total=total, now=status)
                line = LINES * step // max(total, 1)
                if not console.is_terminal and line not in lines:
                    lines.add(line)
                    click.echo(f"step {step} of {total}: {status}", err=True)

            report: dict[str, Any] = trainer.train(directory, show)
    except KeyboardInterrupt:
        click.echo(f"{directory}: the same command goes on from the last checkpoint", err=True)
        raise
    artifact = TrainingReport(
        parts=parts,
        learned_from=digests_of(report.pop("learned_from", ())),
        versions={"draftverify": version("draftverify")},
        # An end of an interval that is not known, infinity, is null: JSON knows no other word for it.
        figures=json.loads(json.dumps(report), parse_constant=lambda _: None),
    )
    write_artifact(directory / REPORT, artifact)
    for key, value in report.items():
        if isinstance(value, (bool, int, float, str)):
            click.echo(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
    click.echo(f"wrote {directory}; all figures are in {directory / REPORT}")
